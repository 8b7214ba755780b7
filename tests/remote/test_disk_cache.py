"""The cache of blocks on disk: a second process asks for nothing that it holds, whatever happens to its files."""

import json
import os
import threading

import pytest
from amount import FUZZ_ONLY
from click.testing import CliRunner
from peak import peak_of
from remote import faulty
from remote.conftest import forget, noise

from tokfmt.cli.main import cli
from tokfmt.errors import OptionError
from tokfmt.stores import account, disk, open_store
from tokfmt.stores.blocks import SIZE, STREAMED

CONTENT = noise(12 << 20)
SPANS = [(5 << 20, (5 << 20) + 10), (SIZE - 3, 3 * SIZE + 5), (len(CONTENT) - 7, len(CONTENT))]
PARTS = [CONTENT[start:stop] for start, stop in SPANS]


@pytest.fixture
def known(bucket, store, server):
    """The identity of an object of 12 MiB, of which three ranges were read."""
    (bucket / "x.bin").write_bytes(CONTENT)
    identity = store.status("x.bin").identity
    assert [*store.read_ranges("x.bin", SPANS, identity)] == PARTS
    forget()
    store.status("x.bin")  # The first block comes with the status, so it is not on disk.
    account.taken()
    del server.seen[:]
    return identity


def home():
    return disk.directory()


def files():
    return sorted(path for path in home().glob("*/*") if "-" in path.name)


def test_another_process_asks_for_nothing(server, store, known):
    assert [*store.read_ranges("x.bin", SPANS, known)] == PARTS
    assert not server.seen
    assert account.taken().cached == 5 * SIZE
    assert home().stat().st_mode & 0o777 == 0o700 and not [one for one in files() if one.stat().st_mode & 0o77]


def test_another_version_of_the_object_has_its_own_blocks(server, bucket, store, known):
    other = bytes(reversed(CONTENT))
    (bucket / "x.bin").write_bytes(other)
    identity = store.status("x.bin").identity
    assert [*store.read_ranges("x.bin", SPANS, identity)] == [other[start:stop] for start, stop in SPANS]
    disk.settle(60)
    assert len({path.parent for path in files()}) == 2


def cut(path):
    os.truncate(path, path.stat().st_size - 1)


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def flip_its_sum(path):
    content = bytearray(path.read_bytes())
    content[24] ^= 1
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


def another_tokfmt(path):
    path.write_bytes(b"tokfmtB2" + path.read_bytes()[8:])


def another_place(path):
    first, _, count = path.name.partition("-")
    path.rename(path.with_name(f"{int(first) + 1}-{count}"))


def lead_away(path):
    os.rename(path, home() / "elsewhere")
    os.symlink(home() / "elsewhere", path)


def a_fifo(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage", [cut, flip, flip_its_sum, empty, another_tokfmt, another_place, lead_away, a_fifo, os.unlink]
)
def test_damaged_files_are_requested_again(server, store, known, damage):
    for path in files():
        damage(path)
    assert [*store.read_ranges("x.bin", SPANS, known)] == PARTS
    assert server.bodies(), "the store was asked"
    forget()
    store.status("x.bin")
    del server.seen[:]
    assert [*store.read_ranges("x.bin", SPANS, known)] == PARTS
    assert damage in (lead_away, a_fifo) or not server.seen, "and its answer is kept"


def test_the_least_recently_used_are_removed(monkeypatch, store, bucket):
    monkeypatch.setenv("TOKFMT_CACHE_SIZE", str(20 * (SIZE + 32)))
    (bucket / "x.bin").write_bytes(CONTENT)
    identity = store.status("x.bin").identity
    for number in range(20):
        start = number * 5 * SIZE
        list(store.read_ranges("x.bin", [(start, start + 1)], identity))
        disk.settle(60)
        for path in files():
            if path.name == f"{number * 5}-1":
                os.utime(path, (number, number))
    forget()
    list(store.read_ranges("x.bin", [(0, 1)], identity))  # Used, so it is not the oldest any more.
    list(store.read_ranges("x.bin", [(11 << 20, (11 << 20) + 1)], identity))
    disk.settle(60)
    names = {path.name for path in files()}
    assert sum(path.stat().st_size for path in files()) <= 0.9 * 20 * (SIZE + 32)
    assert {"0-1", "176-1", "95-1"} <= names and not {"5-1", "10-1"} & names


def test_the_estimate_of_its_size_may_be_lost(store, known):
    (home() / "held").write_text("nonsense")
    list(store.read_ranges("x.bin", [(2 << 20, (2 << 20) + 1)], known))
    disk.settle(60)
    assert int((home() / "held").read_text()) == sum(path.stat().st_size for path in files())


@pytest.mark.parametrize("call", ["open", "writev", "rename", "mkdir"])
def test_a_full_disk_is_no_trouble(monkeypatch, server, store, bucket, call):
    (bucket / "x.bin").write_bytes(CONTENT)
    identity = store.status("x.bin").identity
    real = getattr(os, call)

    def full(*given, **how):
        if threading.current_thread().name == "tokfmt-cache":
            raise OSError(28, "No space left on device")
        return real(*given, **how)

    monkeypatch.setattr(os, call, full)
    assert [*store.read_ranges("x.bin", SPANS, identity)] == PARTS
    disk.settle(60)
    assert not files() and not list(home().glob("*/.*"))


@pytest.mark.parametrize("kind", ["file", "others write", "a link"])
def test_a_directory_that_cannot_be_used(server, store, bucket, kind, tmp_path):
    home().parent.mkdir(parents=True)
    if kind == "file":
        home().write_text("")
    elif kind == "a link":
        (tmp_path / "theirs").mkdir()
        home().symlink_to(tmp_path / "theirs")
    else:
        home().mkdir()
        home().chmod(0o777)
    (bucket / "x.bin").write_bytes(CONTENT)
    for _ in range(2):
        assert [*store.read_ranges("x.bin", SPANS, store.status("x.bin").identity)] == PARTS
    forget()
    assert kind == "file" or not os.listdir(home())
    assert disk.opened() is None


@pytest.mark.parametrize("size", ["0", "", "many"])
def test_its_size(monkeypatch, server, store, bucket, size):
    monkeypatch.setenv("TOKFMT_CACHE_SIZE", size)
    (bucket / "x.bin").write_bytes(CONTENT)
    identity = store.status("x.bin").identity
    if size == "many":
        with pytest.raises(OptionError, match="TOKFMT_CACHE_SIZE=many: is not a size"):
            list(store.read_ranges("x.bin", SPANS, identity))
        return
    list(store.read_ranges("x.bin", SPANS, identity))
    disk.settle(60)
    assert home().exists() is (size == "")


def test_what_streams_past_does_not_enter(server, store, bucket):
    (bucket / "x.bin").write_bytes(CONTENT)
    (bucket / "whole").write_bytes(CONTENT[: 1 << 20])
    identity = store.status("x.bin").identity
    list(store.read_ranges("x.bin", [(0, STREAMED)], identity))
    for at in range(0, 4 << 20, 1 << 18):  # Goes on where it ended.
        list(store.read_ranges("x.bin", [(STREAMED + at, STREAMED + at + (1 << 18))], identity))
    list(store.read_ranges("whole", [(0, 1 << 20)], store.status("whole").identity))
    disk.settle(60)
    assert not files()


@pytest.mark.parametrize("tag", ["no tag", "weak tag"])
def test_without_a_strong_tag_nothing_is_on_disk(server, store, bucket, tag):
    (bucket / "x.bin").write_bytes(CONTENT)
    server.forever["bkt/x.bin"] = tag
    identity = store.status("x.bin").identity
    assert [*store.read_ranges("x.bin", SPANS, identity)] == PARTS
    disk.settle(60)
    assert not files()


def test_the_command_says_what_it_holds_and_removes_it(store, known):
    (home() / "notes.txt").write_text("the user's")
    said = json.loads(CliRunner().invoke(cli, ["cache", "--json"]).stdout)
    size = sum(path.stat().st_size for path in files())
    assert said == {
        "schema": "tokfmt.cache/1", "directory": str(home()), "objects": 1, "bytes": size, "capacity": 4 << 30, "cleared": False
    }  # fmt: skip
    assert ": removed 1 object, " in CliRunner().invoke(cli, ["cache", "--clear"]).stdout
    assert not files() and (home() / "notes.txt").exists(), "nothing else is removed"
    assert [*store.read_ranges("x.bin", SPANS, known)] == PARTS


def test_no_secret_is_in_it(server, bucket, monkeypatch, tmp_path):
    from tokfmt.plugin import Url

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "PLANTEDKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret")
    (bucket / "x.bin").write_bytes(CONTENT)
    for store, key in (
        (open_store(Url.parse("s3://bkt")), "x.bin"),
        (open_store(Url.parse(f"{server.endpoint}/bkt/x.bin?X-Amz-Signature=planted")), ""),
    ):
        list(store.read_ranges(key, SPANS, store.status(key).identity))
    disk.settle(60)
    assert len({path.parent for path in files()}) == 2
    for path in home().rglob("*"):
        assert "planted" not in str(path).lower()
        assert not path.is_file() or b"planted" not in path.read_bytes().lower()


@FUZZ_ONLY
def test_a_scan_takes_bounded_memory(server, bucket, tmp_path, monkeypatch):
    """An object of 160 MB: as much as locally, and 64 MiB for what is under way."""
    monkeypatch.setattr(faulty, "_tag", lambda content: f'"{len(content):x}"')
    for folder in (bucket, tmp_path):
        with open(folder / "x.npy", "wb") as file:
            file.truncate(160 << 20)
    words = ["--from", "olmo", "--from-opt", "width=2", "--eos", "7", "--no-duplicates", "--json", "--jobs", "2"]
    local, said = peak_of(["stats", "x.npy", *words], tmp_path)
    remote, said_too = peak_of(["stats", "s3://bkt/x.npy", *words], tmp_path)
    found, transfer = json.loads(said), json.loads(said_too)
    assert found["tokens"] == transfer["tokens"]
    assert transfer["transfer"]["read"] < 1.25 * (160 << 20), "nearly nothing is read twice"
    assert remote - local < 64 << 20, (local, remote)
