"""What the emulator of Google Cloud Storage lacks: requests without a token of the service account are refused.

Arguments: the emulator's address, and a folder that gets account.json, the key file of a service account; other.json, that of
another one with the same name; and, once it is ready, the file `address`. It runs until it is killed.
"""

import http.server
import json
import os
import sys
import urllib.error
import urllib.request

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

emulator, folder = sys.argv[1:]
EMAIL = "flink@project.iam.gserviceaccount.com"
FORWARDED = ("Content-Type", "If-None-Match", "Range")
# Without this the machine's proxy would be asked for the emulator.
open_url = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def make_account(name):
    """Writes a key file; returns the public key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    account = {"type": "service_account", "client_email": EMAIL, "private_key_id": name, "private_key": pem.decode()}
    with open(os.path.join(folder, name + ".json"), "w") as file:
        json.dump(account, file)
    return key.public_key()


class Guard(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            claims = jwt.decode(token, accepted, algorithms=["RS256"], options={"require": ["exp", "iat", "iss"]})
            if claims["iss"] != EMAIL or "cloud-platform" not in claims["scope"]:
                raise jwt.InvalidTokenError("another account, or not for the storage")
        except jwt.InvalidTokenError as error:
            # A careless server: it repeats the token it was given.
            self.send(401, {"Content-Type": "application/xml"}, f"<Error>{error}: {token}</Error>".encode())
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
        headers = {name: self.headers[name] for name in FORWARDED if name in self.headers}
        path, method = self.path, self.command
        if method == "PUT":
            # The emulator only accepts uploads through the other one of Google's two APIs.
            _, bucket, name = path.split("/", 2)
            path, method = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}", "POST"
        request = urllib.request.Request(emulator + path, body, headers, method=method)
        try:
            with open_url(request, timeout=60) as reply:
                content, told = reply.read(), dict(reply.headers)
                if self.command == "PUT":
                    content, told = b"", {"ETag": json.loads(content)["etag"]}
                self.send(reply.status, told, content)
        except urllib.error.HTTPError as error:
            self.send(error.code, error.headers, error.read())

    do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = answer

    def send(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "content-length", "date", "server", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


accepted = make_account("account")
make_account("other")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Guard)
# Renamed, so that nobody reads a partial file.
with open(os.path.join(folder, "address.new"), "w") as file:
    file.write(f"http://127.0.0.1:{server.server_port}")
os.rename(os.path.join(folder, "address.new"), os.path.join(folder, "address"))
server.serve_forever()
