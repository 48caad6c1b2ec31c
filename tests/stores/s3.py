"""An S3 store on a free port of this machine, for tests.

Arguments: a file to upload as s3://jars/jobs/job.jar, and the file that gets the store's address once
it is ready. It runs until it is killed.
"""

import os
import sys
import threading

import boto3
from moto.server import ThreadedMotoServer

jar, address = sys.argv[1:]
server = ThreadedMotoServer("127.0.0.1", 0)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://{host}:{port}"
store = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1",
                     aws_access_key_id="an-access-key", aws_secret_access_key="a-secret-key")
store.create_bucket(Bucket="jars")
store.upload_file(jar, "jars", "jobs/job.jar")
# Renamed, so that nobody reads a partial file.
with open(address + ".new", "w") as file:
    file.write(endpoint)
os.rename(address + ".new", address)
threading.Event().wait()
