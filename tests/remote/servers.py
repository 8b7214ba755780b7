"""Servers of stores that others wrote, on 127.0.0.1: moto (S3), Azurite (Azure) and nginx (a web server).

Each is one process, and the kernel ends it with the process that started it, however that ends.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import browsers
import processes
from paths import ROOT
from remote import gcs

SECONDS = 60  # Until a server answers: on a busy machine, moto imports for 20 s.
MOTO = """
import logging
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(f"listens on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
"""
AZURITE = ROOT / ".venv/azurite/node_modules/azurite/dist/src/blob/main.js"
NGINX = """
daemon off; master_process off; pid {home}/pid; error_log {home}/log;
events {{}}
http {{
  access_log off; default_type application/octet-stream; server_tokens off;
  client_body_temp_path {home}/a; proxy_temp_path {home}/b; fastcgi_temp_path {home}/c; uwsgi_temp_path {home}/d;
  scgi_temp_path {home}/e;
  server {{ listen 127.0.0.1:{port}; root "{root}"; }}
}}
"""
ACCOUNT = "devstoreaccount1"
KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # Azurite documents it.
)


class Served(NamedTuple):
    """A server of a session.

    Attributes:
        endpoint: Its address.
        variables: The environment in which addresses of its kind lead to it.
        scheme: The scheme of those addresses; "" if they begin with the endpoint.
        make_bucket: Makes a bucket, or what it is called there, of a name.
        put: Writes an object: a bucket, a key and bytes.
    """

    endpoint: str
    variables: dict[str, str]
    scheme: str = ""
    make_bucket: Any = None
    put: Any = None

    def address(self, bucket):
        return f"{self.scheme}://{bucket}" if self.scheme else self.endpoint


@contextmanager
def moto():
    """Serve S3 without checks of credentials."""
    import boto3  # 0.4 s, which most tests of stores do not need

    with _program([sys.executable, "-c", MOTO]) as process:
        endpoint, region = _announced(process), "us-east-1"
        variables = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": region,
        }
        client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id="test", aws_secret_access_key="test", region_name=region
        )
        yield Served(
            endpoint,
            variables,
            "s3",
            lambda bucket: client.create_bucket(Bucket=bucket),
            lambda bucket, key, content: client.put_object(Bucket=bucket, Key=key, Body=content),
        )


@contextmanager
def azurite():
    """Serve Azure Blob Storage with the account of its emulator."""
    node = browsers.program("node")
    if not AZURITE.exists():
        browsers.missing("azurite")
    flags = ["--blobPort", "0", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    with _program([node, str(AZURITE), *flags]) as process:
        endpoint = f"{_announced(process)}/{ACCOUNT}"
        variables = {
            "AZURE_STORAGE_ENDPOINT": endpoint,
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }
        yield Served(
            endpoint,
            variables,
            "az",
            lambda bucket: _azure(endpoint, f"{bucket}?restype=container"),
            lambda bucket, key, content: _azure(
                endpoint, f"{bucket}/{key}", content, **{"x-ms-blob-type": "BlockBlob"}
            ),
        )


def signed(text):
    """The signature of a text with the key of the account."""
    return base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), "sha256")).decode()


def _azure(endpoint, resource, content=b"", **headers):
    """Put a container or a blob, as the documentation of Azure says ("Authorize with Shared Key")."""
    headers |= {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    path, _, query = resource.partition("?")
    kind, length = "application/octet-stream", len(content) or ""
    lines = ["PUT", "", "", str(length), "", kind, "", "", "", "", "", ""]
    lines += [f"{name}:{value}" for name, value in sorted(headers.items())]
    lines += [f"/{ACCOUNT}{urlsplit(endpoint).path}/{path}", *([query.replace("=", ":")] if query else [])]
    headers |= {"Authorization": f"SharedKey {ACCOUNT}:{signed(chr(10).join(lines))}", "Content-Type": kind}
    request = urllib.request.Request(f"{endpoint}/{resource}", content, headers, method="PUT")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=SECONDS) as answer:
        assert answer.status == 201


@contextmanager
def nginx(root, home):
    """Serve the files of a directory as pages. The server writes what it needs to `home`."""
    program = browsers.program("nginx", "/usr/sbin/nginx")
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    (Path(home) / "conf").write_text(NGINX.format(home=home, port=port, root=root))
    with _program([program, "-e", f"{home}/log", "-c", f"{home}/conf"]):
        _wait_for(port)
        yield Served(f"http://127.0.0.1:{port}", {})


@contextmanager
def _program(command):
    """Run a program that outlives the tests of a module, but not this process."""
    environment = {name: value for name, value in os.environ.items() if name != processes.MARK}
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    with processes.running(process):
        yield process


def _announced(process):
    """The address that a server prints when it listens."""
    for line in process.stdout:
        if found := re.search(rb"listens on (http://[0-9.]+:[0-9]+)", line):
            return found[1].decode()
    raise AssertionError(f"{process.args} ended with {process.wait()}")


def _wait_for(port):
    end = time.monotonic() + SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


@contextmanager
def google():
    """Serve Google Cloud Storage without checks of credentials."""
    with gcs.serving() as server:
        options = f"endpoint={server.endpoint}\nanonymous=true"
        yield Served(server.endpoint, {"TOKFMT_STORE_OPTIONS": options}, "gs", server.make_bucket, server.put)
