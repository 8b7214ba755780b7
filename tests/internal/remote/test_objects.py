"""Objects of a server with faults: the same bytes as the local file, a sentence about the fault, never other bytes."""

import pytest

from tokfmt.core.errors import FormatError
from tokfmt.core.place import Url
from tokfmt.core.store import Entry, Identity, Kind
from tokfmt.remote import objects
from tokfmt.remote.failures import Asked, failure


def test_what_is_there(bucket, store):
    (bucket / "d/e").mkdir(parents=True)
    (bucket / "d/e/y").write_bytes(b"yy")
    (bucket / "d/z").write_bytes(b"")
    assert store.status("d/e/y").kind is Kind.FILE and store.status("d/e/y").size == 2
    assert store.status("d/z").size == 0
    assert store.status("d").kind is Kind.DIRECTORY is store.status("").kind
    assert list(store.entries("d")) == [
        Entry("e", Kind.DIRECTORY), Entry("z", Kind.FILE, store.status("d/z").identity)
    ]  # fmt: skip
    for call in (store.status, lambda key: list(store.entries(key))):
        with pytest.raises(FileNotFoundError):
            call("nowhere")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dns error: failed to lookup address information", "host example.org is unknown"),
        ("invalid peer certificate: UnknownIssuer", "the certificate of example.org is not trusted"),
        ("status code: 403 <Code>RequestTimeTooSkewed</Code>", "the clock of this machine is wrong"),
        (
            "status code: 403 <Code>RequestTimeTooSkewed</Code><RequestTime>20261125T120000Z</RequestTime>"
            "<ServerTime>2026-11-25T12:17:10Z</ServerTime>",
            "the clock of this machine is 17 minutes behind. Set the clock",
        ),
        ("status code: 400 <Code>ExpiredToken</Code>", "the credentials of profile work have expired. Renew them"),
        (
            "status code: 403 <Code>AccessDenied</Code> user planted is not authorized to perform: s3:GetObject on planted",
            "access denied for the credentials of profile work (s3:GetObject)",
        ),
        ("status code: 401 Unauthorized", "access denied for the credentials of profile work"),
        ("operation timed out, after 3 retries", "cannot be reached: no answer in time after 4 tries. Run again later"),
        ("something else https://planted", "cannot be reached: the connection failed. Run again later"),
    ],
)
def test_words_of_failures(text, words):
    error = failure(Url.parse("https://example.org/k"), RuntimeError(text), Asked("profile work"))
    assert isinstance(error, FormatError) and words in str(error) and "planted" not in str(error)


def test_identities_are_of_every_byte():
    assert not objects._is_strong(Identity(3, 'W/"abc"')) and objects._is_strong(Identity(3, '"abc"'))


def test_directories_beside_a_name(bucket, store, monkeypatch):
    for path in ("d/a.zarr/t/0", "d/a.zarr/t/1", "d/a.zarr/u/v/0", "d/a.zarr/zz", "d/b/0"):
        (bucket / path).parent.mkdir(parents=True, exist_ok=True)
        (bucket / path).write_bytes(b"x")
    found = store.beside("d/a.zarr")
    assert found.entries.keys() == {"a.zarr"} and found.entries["a.zarr"].kind is Kind.DIRECTORY
    kinds = {path: {name: one.kind.value for name, one in held.items()} for path, held in found.below.items()}
    assert kinds == {
        "a.zarr": {"t": "directory", "u": "directory", "zz": "file"}, "a.zarr/t": {"0": "file", "1": "file"},
        "a.zarr/u": {"v": "directory"}, "a.zarr/u/v": {"0": "file"},
    }  # fmt: skip
    monkeypatch.setattr("tokfmt.remote.objects._PAGE", 3)
    found = store.beside("d/a.zarr")
    assert found.below.keys() == {"a.zarr/t"} and found.last == "a.zarr", "what the page does not end is not known"
