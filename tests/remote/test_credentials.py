"""Credentials of each cloud are found where its own tools find them, and are renewed before they end."""

import base64
import datetime as dt
import json
import os
import shutil
import time
import urllib.parse

import pytest
from amount import FUZZ_ONLY
from remote import servers
from stores import close_stores

from tokfmt.errors import FormatError, OptionError
from tokfmt.plugin import Url
from tokfmt.stores import credentials, open_store
from tokfmt.stores.clients import retry_seconds
from tokfmt.stores.failures import Asked
from tokfmt.stores.options import StoreOptions

KEY = "planted-key"


@pytest.fixture(autouse=True)
def nothing(monkeypatch, tmp_path):
    """No credentials of the machine that runs the tests."""
    for name in [*os.environ]:
        if name.startswith(("AWS_", "AZURE_", "CLOUDSDK_", "GOOGLE_", "SERVICE_ACCOUNT")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setattr(shutil, "which", lambda name: None)


def process(path, ends):
    """A program that prints credentials, and counts how often it was asked."""
    found = {
        "Version": 1,
        "AccessKeyId": "PROCESSKEY",
        "SecretAccessKey": KEY,
        "SessionToken": "t",
        "Expiration": ends.isoformat(),
    }
    path.write_text(f"#!/bin/sh\necho asked >> {path}.log\ncat <<'END'\n{json.dumps(found)}\nEND\n")
    return path


def profiled(monkeypatch, tmp_path, text):
    (tmp_path / "config").write_text(f"[profile work]\nregion = us-east-1\n{text}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "work")


@pytest.mark.parametrize(("minutes", "asked"), [(120, 1), (3, 3)])
def test_credentials_of_a_process_are_renewed_before_they_end(server, bucket, monkeypatch, tmp_path, minutes, asked):
    """Those that end within 5 minutes are asked for again with each request; the others once."""
    (bucket / "x").write_bytes(b"x")
    program = process(tmp_path / "keys", dt.datetime.now(dt.UTC) + dt.timedelta(minutes=minutes))
    profiled(monkeypatch, tmp_path, f"credential_process = /bin/sh {program}")
    store = open_store(Url.parse("s3://bkt"))
    for _ in range(3):
        assert store.status("x").size == 1
        time.sleep(0.2)  # obstore waits so long before it asks again
    assert all("PROCESSKEY/" in one.headers["authorization"] for one in server.seen)
    count = len((tmp_path / "keys.log").read_text().splitlines())
    assert count == 1 if asked == 1 else count >= asked


def test_a_process_that_fails(server, bucket, monkeypatch, tmp_path):
    (tmp_path / "keys").write_text(f"#!/bin/sh\necho {KEY} >&2\nexit 3\n")
    profiled(monkeypatch, tmp_path, f"credential_process = /bin/sh {tmp_path}/keys")
    with pytest.raises(
        FormatError, match="s3://bkt/x: the credentials of profile work cannot be renewed. Renew them"
    ) as caught:
        open_store(Url.parse("s3://bkt")).status("x")
    assert KEY not in f"{caught.value!r}{caught.value.__context__!r}"


def test_single_sign_on_that_has_ended(server, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    text = "sso_start_url = https://x.awsapps.com/start\nsso_region = us-east-1\nsso_account_id = 1\nsso_role_name = r"
    profiled(monkeypatch, tmp_path, text)
    with pytest.raises(FormatError, match="cannot be renewed. Run aws sso login --profile work$"):
        open_store(Url.parse("s3://bkt")).status("x")


def test_a_key_without_its_secret(server, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    with pytest.raises(OptionError, match="^the environment has aws_access_key_id, and no aws_secret_access_key$"):
        open_store(Url.parse("s3://bkt"))


def test_google_credentials(google_server, monkeypatch, tmp_path):
    monkeypatch.setenv("TOKFMT_RETRY_TIMEOUT", "1")
    options = StoreOptions(endpoint=google_server.endpoint)
    assert credentials.google_access(options).asked == Asked(
        "", ("GOOGLE_APPLICATION_CREDENTIALS", "gcloud", "metadata service")
    )
    (tmp_path / "gcloud").mkdir()
    (tmp_path / "gcloud/application_default_credentials.json").write_text("{}")
    assert credentials.google_access(options).asked == Asked("gcloud")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    (tmp_path / "key.json").write_text(json.dumps({"type": "service_account", "private_key": KEY}))
    assert credentials.google_access(options).asked == Asked("GOOGLE_APPLICATION_CREDENTIALS")
    with pytest.raises(
        OptionError, match="Google Cloud in the environment, or its file of credentials, is not valid"
    ) as caught:
        open_store(Url.parse("gs://bkt"))
    assert KEY not in f"{caught.value!r}{caught.value.__context__!r}"
    assert "skip_signature" in credentials.google_access(StoreOptions(anonymous=True)).config


def sas(permissions="rl"):
    """A signature of the account, as the documentation of Azure says ("Create an account SAS")."""
    given = {
        "sp": permissions,
        "ss": "b",
        "srt": "sco",
        "st": "",
        "se": "2030-01-01T00:00:00Z",
        "sip": "",
        "spr": "https,http",
        "sv": "2022-11-02",
    }
    lines = [servers.ACCOUNT, *(given[name] for name in ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv")), "", ""]
    given["sig"] = servers.signed("\n".join(lines))
    return urllib.parse.urlencode({name: value for name, value in given.items() if value})


@FUZZ_ONLY  # azurite is a package of node
@pytest.mark.parametrize("kind", ["key", "signature"])
@pytest.mark.parametrize("account", ["environment", "address"])
def test_azure_accounts_keys_and_signatures(azure_server, use, monkeypatch, kind, account):
    bucket = f"{kind}-{account}"
    azure_server.make_bucket(bucket)
    azure_server.put(bucket, "a/x", b"content")
    use(azure_server)
    if kind == "signature":
        monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
        monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", sas())
    address = f"az://{bucket}"
    if account == "address":
        monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
        address = f"az://{servers.ACCOUNT}/{bucket}"
    url = Url.parse(f"{address}/a/x")
    assert (str(url), url.key) == (f"{address}/a/x", "a/x")
    store = open_store(url)
    assert store.status("a/x").identity == next(store.entries("a")).identity
    assert list(store.read_ranges("a/x", [(2, 5)], store.status("a/x").identity)) == [b"nte"]


@FUZZ_ONLY  # azurite is a package of node
def test_azure_refuses_without_a_secret(azure_server, use, monkeypatch):
    use(azure_server)
    azure_server.make_bucket("refused")
    azure_server.put("refused", "x", b"x")
    monkeypatch.setenv("TOKFMT_RETRY_TIMEOUT", "1")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(KEY.encode()).decode())
    with pytest.raises(
        FormatError, match="az://refused/x: access denied for the credentials of AZURE_STORAGE_ACCOUNT_KEY"
    ) as caught:
        open_store(Url.parse("az://refused")).status("x")
    assert KEY not in repr(caught.value)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    close_stores()
    with pytest.raises(
        FormatError, match=r"looked in: AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, the program az"
    ):
        open_store(Url.parse("az://refused")).status("x")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
    with pytest.raises(OptionError, match="names no container"):
        open_store(Url.parse("az://refused"))


@pytest.mark.parametrize("given", ["soon", "-1", "nan", "inf", ""])
def test_a_retry_timeout_that_is_no_number(monkeypatch, given):
    monkeypatch.setenv("TOKFMT_RETRY_TIMEOUT", given)
    with pytest.raises(OptionError, match="TOKFMT_RETRY_TIMEOUT=.*: is not a number of seconds"):
        retry_seconds()


def test_a_profile_of_the_environment_that_does_not_exist(server, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "nope")
    with pytest.raises(OptionError, match="^AWS_PROFILE=nope: is not a profile in ~/.aws$"):
        credentials.s3_access(Url.parse("s3://bkt"), StoreOptions())


def test_messages_name_the_server(monkeypatch):
    for endpoint, shown in (
        ("minio:9000", "endpoint minio:9000: is not an address"),
        ("http://a:b@minio:9000/x", "http://minio:9000: is not"),
    ):
        with pytest.raises(OptionError, match=f"^{shown}"):
            credentials.check_encrypted(endpoint, StoreOptions())
