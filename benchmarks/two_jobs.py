"""Two jobs against one, by wall time, where codecs or the tokenizer are what takes the time. Needs two idle cores.

`peer` is tokfmt with one job in its own thread (`serial`), so on one core: with an executor of one worker the main
thread already does some of the work beside it. The same block and corpus are read several times over, by hard links,
to be long enough for start-up not to count.
"""

import os

from benchmarks.cases import case, convert
from benchmarks.data import HOME, tokenizer
from benchmarks.hdf5 import random_pack

AUTO = {1: "serial", 2: "auto"}
PROCESSES = {1: "serial", 2: "processes"}
"""Of what `auto` does in processes."""


def linked(name, pattern, source, times):
    """A directory in which a file stands several times."""
    home = HOME / name
    home.mkdir(exist_ok=True)
    for number in range(times):
        path = home / pattern.format(number)
        if not path.exists():
            os.link(HOME / source, path)
    return home


class TwoJobs:
    blocks = 5

    def prepare(self):
        self.source()
        tokenizer()

    def source(self):
        return linked(f"blocks{self.blocks}", "stage1_block_{:04d}.bin", "stage1_block_0000.bin", self.blocks)

    def peer(self, out):
        return self.write(out, 1)

    def tokfmt(self, out):
        return self.write(out, 2)


@case("two jobs: write flat-tokens (peer: one job, serial)", ">= 1.8", "tokens", "wall")
class Flat(TwoJobs):
    blocks = 10

    def write(self, out, jobs):
        return convert(self.source(), out / "x.zarr", jobs=jobs, executor=AUTO[jobs]).tokens


@case("two jobs: write HDF5 samples (peer: one job, serial)", ">= 1.8", "tokens", "wall")
class Hdf5(TwoJobs):
    def write(self, out, jobs):
        return convert(
            self.source(), out / "x", to_format="hdf5", seq_len=2048, jobs=jobs, executor=PROCESSES[jobs]
        ).tokens


@case("two jobs: write HDF5 samples of random ids (peer: one job, serial)", ">= 1.7", "tokens", "wall")
class Random(Hdf5):
    def source(self):
        return [random_pack()] * 3


@case("two jobs: text -> pack (peer: one job, serial)", ">= 1.8", "tokens", "wall")
class Text(TwoJobs):
    def source(self):
        return linked("corpora", "part-{}.jsonl", "corpus.jsonl", 12)

    def write(self, out, jobs):
        texts = sorted(self.source().iterdir())
        return convert(texts, out / "x.pbin", tokenizer=str(tokenizer()), jobs=jobs, executor=PROCESSES[jobs]).tokens
