"""Writes of single objects to a server with faults: an object is whole or absent, and no upload is left."""

import re

import pytest
from remote.conftest import noise, within

from tokfmt.errors import OptionError, OutageError
from tokfmt.files import place
from tokfmt.files.place import destination_of, writable_store
from tokfmt.plugin import Url


def test_many_files_side_by_side(server, bucket, store, tmp_path):
    files = [(f"d/{number}", tmp_path / f"f{number}") for number in range(50)]
    for number, (_, path) in enumerate(files):
        path.write_bytes(noise(number, seed=number))
    found = dict[str, place.Identity]()
    store.upload(files, found.__setitem__)
    assert {key: (bucket / key).read_bytes() for key in found} == {key: path.read_bytes() for key, path in files}
    assert all(found[key] == store.identity(key) for key, _ in files)


def test_access_is_denied_without_a_secret(server, bucket, store):
    server.refused = True
    for call in (lambda: store.put("x", b"one"), lambda: store.delete(["x"]), lambda: store.upload([], print)):
        try:
            call()
        except OutageError as error:
            assert "access denied" in str(error) and "planted" not in f"{error!r} {error.__context__!r}"
    server.refused = False
    with pytest.raises(OutageError, match="bucket nobody does not exist"):
        writable_store(Url.parse("s3://nobody/x")).put("x", b"one")


def test_addresses_of_destinations(server):
    assert destination_of("s3://bkt/x.pbin") == Url.parse("s3://bkt/x.pbin")
    assert destination_of("x.pbin") == place.Path("x.pbin")
    for text, words in (
        ("http://host/x?sig=planted", "http://host/x: the scheme http is not written (expected s3, gs or az)"),
        ("https://host/x", "is not written"),
        ("hf://datasets/a/b", "run hf upload"),
        ("ftp://host/x", "the scheme ftp is not written"),
        ("s3:/bkt/x", "a Path cannot hold an address"),
    ):
        with pytest.raises(OptionError, match=re.escape(words)) as caught:
            destination_of(text)
        assert "planted" not in str(caught.value)
    with pytest.raises(OptionError, match="^s3://bkt: is a whole bucket. Name a key in it"):
        writable_store(Url.parse("s3://bkt"))
    with pytest.raises(OptionError, match="is not written"):
        writable_store(Url.parse(f"{server.endpoint}/x"))
    assert within(5, lambda: writable_store(Url.parse("s3://bkt/x"))).can == {"if-absent", "if-match"}
