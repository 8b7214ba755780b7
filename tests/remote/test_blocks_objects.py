"""Objects of a server with faults: the same bytes as the local file, a sentence about the fault, never other bytes."""

import pytest
from remote.conftest import noise

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


def test_blocks_are_bounded():
    held = blocks.Blocks(4 * blocks.SIZE)
    held.put("a", 0, LARGE[: 3 * blocks.SIZE + 5], 3 * blocks.SIZE + 5)
    assert [len(held.get("a", [n])[n]) for n in range(4)] == [blocks.SIZE] * 3 + [5]
    held.put("b", blocks.SIZE, LARGE[: blocks.SIZE + 7], 10 * blocks.SIZE)
    assert held.get("b", [1, 2]) == {1: LARGE[: blocks.SIZE]}, "a part of a block is not a block"
    held.put("b", 0, LARGE[: 4 * blocks.SIZE], 10 * blocks.SIZE)
    assert held.held <= held.capacity and not held.holds("a", [0]) and held.holds("b", [3])
