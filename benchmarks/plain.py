"""Uncompressed formats against a bare copy, and how long tokfmt takes to start."""

import subprocess
import sys
import time

import numpy as np

from benchmarks.cases import case, convert, documents
from benchmarks.data import HOME

BLOCK = HOME / "stage1_block_0000.bin"
TIMES = 4


def pack():
    path = HOME / "x.pbin"
    if not path.exists():
        convert(BLOCK, path)
    return path


@case("uncompressed: stage1 -> pack (peer: numpy, cast and tofile)", ">= 0.4", "tokens")
class ToPack:
    def peer(self, out):
        for number in range(TIMES):
            stream, _ = documents()
            stream.astype("<u2").tofile(out / str(number))
        return TIMES * len(stream)

    def tokfmt(self, out):
        return sum(convert(BLOCK, out / f"{number}.pbin").tokens for number in range(TIMES))


class FromPack:
    def prepare(self):
        pack()


@case("uncompressed: pack -> stage1 (peer: numpy, cast and tofile)", ">= 0.4", "tokens")
class ToStage1(FromPack):
    def peer(self, out):
        for number in range(TIMES):
            stored = np.fromfile(pack(), "<u2", offset=12)
            stored.astype("<i4").tofile(out / str(number))
        return TIMES * len(stored)

    def tokfmt(self, out):
        return sum(convert(pack(), out / str(number), to_format="stage1").tokens for number in range(TIMES))


@case("uncompressed: pack -> pack (peer: cp)", ">= 0.4", "bytes")
class ToItself(FromPack):
    def peer(self, out):
        for number in range(TIMES):
            subprocess.run(["cp", "--reflink=never", pack(), out / str(number)], check=True)
        return TIMES * pack().stat().st_size

    def tokfmt(self, out):
        for number in range(TIMES):
            convert(pack(), out / f"{number}.pbin")
        return TIMES * pack().stat().st_size


def started(*words):
    """Seconds of one start, the fastest of ten."""
    taken = []
    for _ in range(10):
        began = time.perf_counter()
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    return min(taken)


class Start:
    words = ("--help",)

    def peer(self, out):
        return started("-c", "pass")

    def tokfmt(self, out):
        return started("-m", "tokfmt", *self.words)


@case("start: tokfmt --help (peer: python -c pass)", "<= +60 ms", "s", "seconds")
class StartHelp(Start):
    pass


@case("start: tokfmt --version (peer: python -c pass)", "<= +60 ms", "s", "seconds")
class StartVersion(Start):
    words = ("--version",)
