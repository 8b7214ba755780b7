"""What is far larger than memory: an index of 100 M entries, one sequence of 3 billion tokens, 10,000 sources."""

import os
import pickle
import struct

import numpy as np

from benchmarks.cases import case, convert
from benchmarks.data import HOME
from benchmarks.indexes import index_file

ENTRIES = 100_000_000
SEQUENCE = 3_000_000_000
SOURCES = 10_000


def entries(count):
    """Documents of 2 to 255 tokens of 2 bytes, some ten thousands at a time."""
    at = 0
    for first in range(0, count, 65536):
        lengths = (np.arange(first, min(count, first + 65536)) * 37 % 254 + 2) * 2
        ends = np.cumsum(lengths) + at
        yield ends - lengths, lengths
        at = int(ends[-1])


def sparse_pack(path, count):
    """A pack of so many documents: its data are a hole, its index is whole."""
    from tokfmt.formats.pickled_index import write_entries

    if path.exists():
        return path
    total = sum(int(lengths.sum()) for _, lengths in entries(count))
    draft = path.with_suffix(".draft")
    with open(draft, "wb") as file:
        file.write(struct.pack("<QI", total, 2))
        file.truncate(12 + total)
        file.seek(12 + total)
        file.writelines(write_entries(count, entries(count)))
    os.replace(draft, path)
    return path


@case("scale-index: open a pack of 100 M documents (peer: pickle.loads, of 10 M)", ">= 2", "entries")
class ScaleIndex:
    def prepare(self):
        index_file()
        sparse_pack(HOME / "hundred-million.pbin", ENTRIES)

    def peer(self, out):
        return len(pickle.loads(index_file().read_bytes()))

    def tokfmt(self, out):
        import tokfmt

        return len(tokfmt.open(HOME / "hundred-million.pbin", eos="none"))


def long_pack():
    """A pack of one document, sparse."""
    path = HOME / "long.pbin"
    if not path.exists():
        with open(path, "wb") as file:
            file.write(struct.pack("<QI", SEQUENCE * 2, 2))
            file.truncate(12 + SEQUENCE * 2)
            file.seek(10 + SEQUENCE * 2)
            file.write(struct.pack("<H", 50256) + pickle.dumps([(0, SEQUENCE * 2)], protocol=4))
    return path


@case("scale-sequence: one of 3 billion tokens, pack -> flat-tokens (peer: bare blosc, of 300 M)", ">= 0.4", "tokens")
class ScaleSequence:
    def prepare(self):
        long_pack()

    def peer(self, out):
        import numcodecs

        numcodecs.blosc.use_threads = False
        codec, done = numcodecs.Blosc("lz4", 5, numcodecs.Blosc.BITSHUFFLE), 0
        with open(long_pack(), "rb") as file, open(out / "x", "wb") as target:
            file.seek(12)
            while done < SEQUENCE // 10:
                ids = np.frombuffer(file.read(1 << 21), "<u2")
                target.write(codec.encode(ids.astype("<u4") << 1))
                done += len(ids)
        return done

    def tokfmt(self, out):
        return convert(long_pack(), out / "x.zarr").tokens


def many_packs():
    home = HOME / "many"
    if not home.exists():
        home.mkdir()
        rng = np.random.default_rng(5)
        for number in range(SOURCES):
            lengths = rng.integers(2, 60, 20)
            ids = rng.integers(0, 50256, int(lengths.sum())).astype("<u2")
            ids[np.cumsum(lengths) - 1] = 50256
            sizes = lengths * 2
            index = list(zip((np.cumsum(sizes) - sizes).tolist(), sizes.tolist(), strict=True))
            content = struct.pack("<QI", ids.nbytes, 2) + ids.tobytes() + pickle.dumps(index, protocol=4)
            (home / f"part-{number:05d}.pbin").write_bytes(content)
    return sorted(home.iterdir())


@case("scale-sources: 10,000 packs made one (peer: reads and writes the files)", ">= 0.03", "files")
class ScaleSources:
    def prepare(self):
        many_packs()

    def peer(self, out):
        with open(out / "x", "wb") as target:
            for path in many_packs():
                target.write(path.read_bytes())
        return SOURCES

    def tokfmt(self, out):
        convert(many_packs(), out / "x.pbin")
        return SOURCES
