"""`tokfmt stats` against a bare numpy pass: bincount, max and a scan for the separator, window by window, and nothing else.

The uncompressed formats hold 500 M tokens, so that starting Python hardly counts; the others 100 M, which take longer.
"""

import contextlib
import io
import json

import numpy as np

from benchmarks.cases import case, convert
from benchmarks.data import EOS, HOME, ids, lengths

TOKENS = 100_000_000 // 8192 * 8192
WINDOW = 1 << 20
LENGTH = 2048  # of HDF5 samples, and of the rows in an h5py read
TIMES = 5  # the same 100 M tokens
PLACE = HOME / "statistics"


def block():
    """500 M tokens as one stage-1 block."""
    path = PLACE / "stage1_block_0001.bin"
    if not path.exists():
        content = part().read_bytes()
        with open(path, "wb") as file:
            for _ in range(TIMES):
                file.write(content)
    return path


def part():
    """100 M tokens as one stage-1 block."""
    PLACE.mkdir(parents=True, exist_ok=True)
    path = PLACE / "stage1_block_0000.bin"
    if not path.exists():
        stream = ids(TOKENS).astype("<i4")
        stream[np.cumsum(lengths(TOKENS)) - 1] = EOS
        stream.tofile(path)
    return path


def made(name, source, **how):
    path = PLACE / name
    if not path.exists():
        convert(source, path, **how)
    return path


def pack():
    return made("x500.pbin", block())


def store():
    return made("x.zarr", part())


def samples():
    return made("x.h5", part(), seq_len=LENGTH)


def bare(windows):
    """What any statistics of ids need at the least."""
    counts, top, ends, total = np.zeros(1 << 16, np.int64), 0, 0, 0
    for window in windows:
        counts += np.bincount(window, minlength=1 << 16)
        top = max(top, int(window.max()))
        ends += len(np.flatnonzero(window == EOS))
        total += len(window)
    return total


def from_file(path, dtype, skip=0):
    count = TIMES * TOKENS
    with open(path, "rb") as file:
        file.seek(skip)
        for a in range(0, count, WINDOW):
            yield np.fromfile(file, dtype, min(WINDOW, count - a))


def counted(path, *words):
    """The tokens that the command went over."""
    from tokfmt.cli.main import cli

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        cli.main(["stats", str(path), "--jobs", "1", "--json", "-q", *words], standalone_mode=False)
    found = json.loads(out.getvalue())
    return found["tokens"] + found["separators"]["count"]


@case("stats of a uint16 pack, no duplicates (peer: numpy bincount, max, EOS scan)", ">= 0.77", "tokens")
class Pack:
    def prepare(self):
        pack()

    def peer(self, out):
        return bare(from_file(pack(), "<u2", 12))

    def tokfmt(self, out):
        return counted(pack(), "--no-duplicates")


@case("stats of a uint16 pack, with duplicates (peer: numpy bincount, max, EOS scan)", ">= 0.5", "tokens")
class PackDuplicates(Pack):
    def tokfmt(self, out):
        return counted(pack())


@case("stats of a stage-1 block, no duplicates (peer: numpy bincount, max, EOS scan)", ">= 0.77", "tokens")
class Stage1:
    def prepare(self):
        block()

    def peer(self, out):
        return bare(from_file(block(), "<i4"))

    def tokfmt(self, out):
        return counted(block(), "--no-duplicates")


@case("stats of flat-tokens, no duplicates (peer: zarr-python, numpy bincount, max)", ">= 0.77", "tokens")
class FlatTokens:
    def prepare(self):
        store()

    def peer(self, out):
        import zarr

        array = zarr.open_group(str(store()), mode="r")["train/encoded_tokens"]
        starts = range(0, array.shape[0], WINDOW)
        return bare((array[a : a + WINDOW] >> 1).view(np.int32) for a in starts)

    def tokfmt(self, out):
        return counted(store(), "--no-duplicates")


@case("stats of HDF5 samples, no duplicates (peer: h5py, numpy bincount, max, EOS scan)", ">= 0.77", "tokens")
class Hdf5:
    def prepare(self):
        samples()

    def peer(self, out):
        import h5py

        with h5py.File(samples()) as file:
            data = file["data"]
            rows = WINDOW // LENGTH
            starts = range(0, len(data), rows)
            return bare(data[a : a + rows][:, 0].ravel() for a in starts)

    def tokfmt(self, out):
        return counted(samples(), "--no-duplicates")
