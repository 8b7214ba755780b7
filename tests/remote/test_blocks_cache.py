"""The cache of blocks on disk: a second process asks for nothing that it holds, whatever happens to its files."""

import subprocess
import sys

from paths import ROOT
from remote.conftest import noise

from tokfmt.plugin import Identity
from tokfmt.stores import blocks
from tokfmt.stores.blocks import LARGEST, SIZE

CONTENT = noise(12 << 20)
SPANS = [(5 << 20, (5 << 20) + 10), (SIZE - 3, 3 * SIZE + 5), (len(CONTENT) - 7, len(CONTENT))]
PARTS = [CONTENT[start:stop] for start, stop in SPANS]


PROGRAM = """
import sys
from tokfmt.files.place import Url
from tokfmt.files.store import Identity
from tokfmt.stores import open_store
size, tag = int(sys.argv[1]), sys.argv[2]
store, identity = open_store(Url.parse("s3://bkt")), Identity(size, tag)
store.prefetch("x.bin", [(0, size)], identity, keep=True)
(content,) = store.read_ranges("x.bin", [(0, size)], identity)
from xxhash import xxh3_128_hexdigest
print(xxh3_128_hexdigest(content))
"""


def test_of_several_processes_one_fetches_an_index(server, store, bucket):
    (bucket / "x.bin").write_bytes(CONTENT)
    identity = store.status("x.bin").identity
    del server.seen[:]
    server.delay = 0.2
    words = [sys.executable, "-c", PROGRAM, str(identity.size), identity.tag]
    ranks = [subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert {rank.communicate()[0].strip() for rank in ranks} == {identity.tag.strip('"')}
    assert sorted(one.start for one in server.seen) == [0, LARGEST]


def test_two_processes_write_the_same_blocks(store, bucket):
    """Both write all of them, and either's are right."""
    (bucket / "x.bin").write_bytes(CONTENT)
    identity = store.status("x.bin").identity
    words = PROGRAM.replace("keep=True", "keep=False").replace("[(0, size)], identity)", "[(0, 1 << 19)], identity)")
    ranks = [
        subprocess.Popen([sys.executable, "-c", words, str(identity.size), identity.tag], cwd=ROOT) for _ in range(2)
    ]
    assert [rank.wait() for rank in ranks] == [0, 0]
    assert [*store.read_ranges("x.bin", SPANS, identity)] == PARTS


def test_a_reader_that_goes_on_is_read_ahead(server, store, bucket):
    """Twice as much each time, at most half of it in vain, and nothing twice; a jump asks for no more than itself."""
    (bucket / "x.bin").write_bytes(CONTENT)
    identity = store.status("x.bin").identity
    del server.seen[:]
    for at in range(0, 4 << 20, 1 << 17):
        assert [*store.read_ranges("x.bin", [(at, at + (1 << 17))], identity)] == [CONTENT[at : at + (1 << 17)]]
    lengths = [one.stop - one.start for one in server.bodies()]
    assert len(lengths) <= 24 and max(lengths) >= 1 << 19 and sum(lengths) <= 8 << 20, lengths
    starts = [one.start for one in server.bodies()]
    assert len(starts) == len(set(starts))
    (bucket / "y.bin").write_bytes(CONTENT)
    for at in (9 << 20, 1 << 20, 5 << 20, 11 << 20):
        list(store.read_ranges("y.bin", [(at, at + 10)], identity))
    assert [one.stop - one.start for one in server.bodies("bkt/y.bin")] == [SIZE] * 4


def test_lengths_of_blocks_at_the_end():
    assert [len(one) for one in blocks.complete(SIZE, CONTENT[: SIZE + 7], 3 * SIZE)] == [SIZE]
    assert [len(one) for one in blocks.complete(SIZE, CONTENT[: SIZE + 7], 2 * SIZE + 7)] == [SIZE, 7]
    assert Identity(0, "") and not blocks.complete(0, b"", 0)
