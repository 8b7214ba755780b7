"""The cache of blocks on disk: a second process asks for nothing that it holds, whatever happens to its files."""

from remote.conftest import forget, noise

CONTENT = noise(12 << 20)


INDEX = [(4 << 20, len(CONTENT))]


def test_an_index_is_kept_and_held_once(server, store, bucket):
    """What is announced is requested side by side, read without another request, and on disk for the next process."""
    (bucket / "x.bin").write_bytes(CONTENT)
    identity = store.status("x.bin").identity
    del server.seen[:]
    store.prefetch("x.bin", INDEX, identity, keep=True)
    assert [*store.read_ranges("x.bin", INDEX, identity)] == [CONTENT[4 << 20 :]]
    assert [(one.start, one.stop) for one in server.seen] == [(4 << 20, 12 << 20)]
    forget()
    for _ in range(2):
        assert [*store.read_ranges("x.bin", [INDEX[0], (5 << 20, 5 << 20)], identity)] == [CONTENT[4 << 20 :], b""]
    assert len(server.seen) == 1


def test_scattered_ranges_of_a_scan_are_joined(server, store, bucket):
    """Consecutive documents are few requests, in whatever order they are wanted."""
    (bucket / "x.bin").write_bytes(CONTENT)
    identity = store.status("x.bin").identity
    for step in (1, -1):
        ranges = [(at, at + 10_000) for at in range(0, 8_000_000, 10_000)][::step]
        forget()
        del server.seen[:]
        assert [bytes(one) for one in store.read_ranges("x.bin", ranges, identity)] == [CONTENT[a:b] for a, b in ranges]
        assert len(server.seen) <= 2
