"""Objects of a server with faults: the same bytes as the local file, a sentence about the fault, never other bytes."""

import json

import pytest
from amount import FUZZ_ONLY
from peak import peak_of
from remote import faulty
from remote.conftest import forget, noise

from tokfmt.stores import blocks

MIB = 1 << 20
LARGE = noise(12 * MIB)


@pytest.fixture
def large(bucket, store):
    """An object of 12 MiB, and its identity."""
    (bucket / "x.bin").write_bytes(LARGE)
    return store.status("x.bin").identity


def test_the_first_look_is_one_request(server, bucket, store):
    (bucket / "x").write_bytes(LARGE[: 3 * blocks.SIZE])
    identity = store.status("x").identity
    assert list(store.read_ranges("x", [(0, 100), (blocks.SIZE - 5, blocks.SIZE)], identity)) == [
        LARGE[:100], LARGE[blocks.SIZE - 5 : blocks.SIZE]
    ]  # fmt: skip
    assert [(one.method, one.start, one.stop) for one in server.seen] == [("GET", 0, blocks.SIZE)]


def test_a_long_read_is_cut_and_not_kept(server, store, large):
    del server.seen[:]
    for _ in range(2):
        assert list(store.read_ranges("x.bin", [(0, len(LARGE))], large)) == [LARGE]
    assert sorted(one.start for one in server.seen) == [0, 0, blocks.LARGEST, blocks.LARGEST]


def test_an_index_is_requested_once(server, store, large):
    """What is announced is requested side by side, and read without another request."""
    del server.seen[:]
    index = [(4 * MIB, len(LARGE))]
    store.prefetch("x.bin", index, large, keep=True)
    assert list(store.read_ranges("x.bin", index, large)) == [LARGE[4 * MIB :]]
    assert [(one.start, one.stop) for one in server.seen] == [(4 * MIB, 12 * MIB)]


def test_scattered_ranges_of_a_scan_are_joined(server, store, large):
    """Consecutive documents are few requests, in whatever order they are wanted."""
    for step in (1, -1):
        ranges = [(at, at + 10_000) for at in range(0, 8_000_000, 10_000)][::step]
        forget()
        del server.seen[:]
        assert [bytes(one) for one in store.read_ranges("x.bin", ranges, large)] == [LARGE[a:b] for a, b in ranges]
        assert len(server.seen) <= 2


def test_a_reader_that_goes_on_is_read_ahead(server, store, bucket, large):
    """Twice as much each time, at most half of it in vain, and nothing twice; a jump asks for no more than itself."""
    del server.seen[:]
    for at in range(0, 4 * MIB, 1 << 17):
        assert [*store.read_ranges("x.bin", [(at, at + (1 << 17))], large)] == [LARGE[at : at + (1 << 17)]]
    lengths = [one.stop - one.start for one in server.bodies()]
    assert len(lengths) <= 24 and max(lengths) >= 1 << 19 and sum(lengths) <= 8 * MIB, lengths
    starts = [one.start for one in server.bodies()]
    assert len(starts) == len(set(starts))
    (bucket / "y.bin").write_bytes(LARGE)
    for at in (9 * MIB, MIB, 5 * MIB, 11 * MIB):
        list(store.read_ranges("y.bin", [(at, at + 10)], large))
    assert [one.stop - one.start for one in server.bodies("bkt/y.bin")] == [blocks.SIZE] * 4


@FUZZ_ONLY
def test_a_scan_takes_bounded_memory(server, bucket, tmp_path, monkeypatch):
    """An object of 160 MB: as much as locally, and 64 MiB for what is under way."""
    monkeypatch.setattr(faulty, "_tag", lambda content: f'"{len(content):x}"')
    for folder in (bucket, tmp_path):
        with open(folder / "x.npy", "wb") as file:
            file.truncate(160 * MIB)
    words = ["--from", "olmo", "--from-opt", "width=2", "--eos", "7", "--no-duplicates", "--json", "--jobs", "2"]
    local, said = peak_of(["stats", "x.npy", *words], tmp_path)
    remote, said_too = peak_of(["stats", "s3://bkt/x.npy", *words], tmp_path)
    found, transfer = json.loads(said), json.loads(said_too)
    assert found["tokens"] == transfer["tokens"]
    assert transfer["transfer"]["read"] < 1.25 * (160 * MIB), "nearly nothing is read twice"
    assert remote - local < 64 * MIB, (local, remote)


def test_blocks_are_bounded():
    held = blocks.Blocks(4 * blocks.SIZE)
    held.put("a", 0, LARGE[: 3 * blocks.SIZE + 5], 3 * blocks.SIZE + 5)
    assert [len(held.get("a", [n])[n]) for n in range(4)] == [blocks.SIZE] * 3 + [5]
    held.put("b", blocks.SIZE, LARGE[: blocks.SIZE + 7], 10 * blocks.SIZE)
    assert held.get("b", [1, 2]) == {1: LARGE[: blocks.SIZE]}, "a part of a block is not a block"
    held.put("b", 0, LARGE[: 4 * blocks.SIZE], 10 * blocks.SIZE)
    kept = [*held.get("a", range(4)).values(), *held.get("b", range(4)).values()]
    assert kept == [LARGE[n * blocks.SIZE :][: blocks.SIZE] for n in range(4)]
    held.clear()
    assert not held.get("b", range(4))


@pytest.mark.parametrize(
    ("size", "lengths"), [(3 * blocks.SIZE, [blocks.SIZE]), (2 * blocks.SIZE + 7, [blocks.SIZE, 7])]
)
def test_only_the_last_block_of_an_object_is_short(size, lengths):
    held = blocks.Blocks(4 * blocks.SIZE)
    held.put("a", blocks.SIZE, LARGE[: blocks.SIZE + 7], size)
    assert [len(block) for block in held.get("a", range(4)).values()] == lengths
