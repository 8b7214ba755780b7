"""Objects of a server with faults: the same bytes as the local file, a sentence about the fault, never other bytes."""

import re

import pytest
from remote.conftest import open_store

from tokfmt.errors import OptionError
from tokfmt.plugin import Url
from tokfmt.stores.options import StoreOptions, configure


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("endpont=x", "Did you mean endpoint?"),
        ("secret_access_key=planted", "secrets are not taken from options"),
        ("anonymous=perhaps", "store option anonymous: expected true or false, found 'perhaps'"),
        ("anonymous", "'anonymous' is not of the form key=value"),
    ],
)
def test_options_that_are_refused(words, message):
    with pytest.raises(OptionError, match=re.escape(message)) as caught:
        StoreOptions.of([words])
    assert "planted" not in str(caught.value) and caught.value.exit_code == 2


def test_options_reach_the_server_and_the_workers(server, bucket, monkeypatch):
    (bucket / "x").write_bytes(b"x")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    options = StoreOptions.of([f"endpoint={server.endpoint}", "anonymous=true", "requester-pays=yes"])
    assert StoreOptions.of(options.words()) == options
    configure(options)
    assert open_store(Url.parse("s3://bkt")).status("x").size == 1
    assert "authorization" not in server.seen[-1].headers
    configure(StoreOptions())
    assert StoreOptions.of([]) == StoreOptions()


def test_a_profile_has_keys_an_endpoint_and_a_region(server, bucket, monkeypatch, tmp_path):
    (bucket / "x").write_bytes(b"x")
    server.anonymous = False
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    config, shared = tmp_path / "config", tmp_path / "credentials"
    config.write_text(
        f"[profile work]\nregion = eu-west-3\nservices = mine\n\n[services mine]\ns3 =\n  endpoint_url = {server.endpoint}\n"
    )
    shared.write_text("[work]\naws_access_key_id = WORKKEY\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert open_store(Url.parse("s3://bkt")).status("x").size == 1
    assert re.search("WORKKEY/[0-9]+/eu-west-3/s3", server.seen[-1].headers["authorization"])
    configure(StoreOptions(profile="missing"))
    with pytest.raises(OptionError, match="profile=missing: is not a profile"):
        open_store(Url.parse("s3://bkt"))
