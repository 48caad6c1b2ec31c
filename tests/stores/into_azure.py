"""Put a file into an Azure store as jobs/job.jar of the container `jars`, and print tokens for the container.

Arguments: the address of the account, its name, its key, and the file. It fails while the store is not up. The first line it
prints is a shared access signature (SAS) that may read and list; the second, one that has expired.
"""

import datetime
import sys

from azure.storage.blob import BlobServiceClient, ContainerSasPermissions, generate_container_sas

address, account, key, jar = sys.argv[1:]
service = BlobServiceClient(address, credential={"account_name": account, "account_key": key}, retry_total=0)
container = service.get_container_client("jars")
if not container.exists():
    container.create_container()
with open(jar, "rb") as file:
    container.upload_blob("jobs/job.jar", file, overwrite=True)
now = datetime.datetime.now(datetime.timezone.utc)
for hours in (1, -1):
    print(generate_container_sas(account, "jars", account_key=key, permission=ContainerSasPermissions(read=True, list=True),
                                 start=now - datetime.timedelta(hours=2), expiry=now + datetime.timedelta(hours=hours)))
