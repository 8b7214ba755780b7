"""Training from a recipe against the loaders of others, each in a virtual environment of its own under benchmarks/data/peers."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.cases import case
from benchmarks.data import HOME
from benchmarks.environments import Absent, environment
from benchmarks.plain import pack
from benchmarks.scaling import sparse_pack
from benchmarks.training_peers import BATCH, LENGTH, TOKENS, rate, stream

TORCH = "torch==2.13.0+cpu"
NEEDED = {
    "nanogpt": (TORCH, "numpy"),
    "litdata": (TORCH, "litdata==0.2.76"),
    "megatron": (TORCH, "megatron-core==0.16.1", "pybind11"),
    "grain": ("grain==0.2.18",),
    "grain-bestfit": ("grain==0.2.18",),
}
FILES = 1000
STEP = 1_000_000


def ask(peer, what):
    try:
        python = environment(HOME / "peers" / peer.partition("-")[0], *NEEDED[peer])
    except Absent:
        return None
    script = Path(__file__).with_name("training_peers.py")
    done = subprocess.run([python, "-P", script, what, peer, HOME], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()[-1]


class Against:
    """A peer's stream, proved against the pack when it is prepared."""

    def prepare(self):
        pack()
        ask(self.name, "prepare")

    def peer(self, out):
        answer = ask(self.name, "measure")
        return None if answer is None else float(answer)


def view(**words):
    import tokfmt

    return tokfmt.recipe([{"path": pack()}], seq_len=LENGTH, **words)


def batches(found, *fields):
    """Batch after batch, as a training takes them."""
    for first in range(0, len(found) - BATCH + 1, BATCH):
        yield found.samples(range(first, first + BATCH), fields or ("input_ids", "labels"))


def size(batch):
    return batch["input_ids"].size


class Windows(Against):
    def tokfmt(self, out):
        return rate(batches(view(shuffle="samples", epochs=4)), size)


@case(
    "training: shuffled windows of 2,048 (peer: rows of a memory map, stacked and cast)",
    ">= 0.5, >= 100 M/s",
    "tokens",
    "rate",
)
class Copied(Windows):
    def prepare(self):
        pack()

    def peer(self, out):
        data = stream(pack())
        order = np.random.default_rng(1).permutation(len(data) // LENGTH - 1)

        def copied():
            for first in range(0, len(order) - BATCH, BATCH):
                starts = (order[first : first + BATCH] * LENGTH).tolist()
                x, y = (np.stack([data[i + k : i + k + LENGTH] for i in starts]) for k in (0, 1))
                yield {"input_ids": x.astype(np.int32), "labels": y.astype(np.int32)}

        return rate((batch for _ in range(9) for batch in copied()), size)


@case("training: shuffled windows of 2,048 (peer: litdata, TokensLoader)", ">= 100 M/s", "tokens", "rate")
class Litdata(Windows):
    name = "litdata"


@case("training: shuffled windows of 2,048 (peer: megatron-core, GPTDataset)", ">= 100 M/s", "tokens", "rate")
class Megatron(Windows):
    name = "megatron"


@case(
    "training: shuffled windows of 2,048 as tensors of int64 (peer: get_batch of nanoGPT)",
    ">= 100 M/s",
    "tokens",
    "rate",
)
class Nanogpt(Against):
    name = "nanogpt"

    def tokfmt(self, out):
        home = environment(HOME / "peers" / self.name, *NEEDED[self.name]).parents[1]
        sys.path += map(str, home.glob("lib/python*/site-packages"))  # PyTorch, which tokfmt does not bring
        from tokfmt.torch import Loader

        loader = Loader(view(shuffle="samples", epochs=4), BATCH, prefetch=0)
        return rate(loader, lambda batch: batch["input_ids"].numel())


@case(
    "training: the same with cu_seqlens and position_ids (peer: grain, concat then split)",
    ">= 1, >= 40 M/s",
    "tokens",
    "rate",
)
class Pieces(Against):
    name = "grain"

    def tokfmt(self, out):
        found = view(shuffle="samples", epochs=4)
        return rate(batches(found, "input_ids", "labels", "position_ids", "cu_seqlens"), size)


@case("training: best-fit samples, read (peer: grain, best fit)", ">= 1, >= 30 M/s", "tokens", "rate")
class Fitted(Against):
    name = "grain-bestfit"

    def tokfmt(self, out):
        return rate(batches(view(pack="bestfit", shuffle="samples", epochs=4)), size, TOKENS)


@case(
    "training: best-fit plan of 10 M documents (peer: numpy sorts their lengths)",
    "<= 10_000 ms, <= 300 MB",
    "plan",
    "seconds",
)
class Plan:
    anonymous = True  # maps are not counted
    path = HOME / "ten-million.pbin"

    def prepare(self):
        sparse_pack(self.path, 10_000_000)

    def peer(self, out):
        lengths = np.random.default_rng(2).lognormal(6.0, 0.9, 10_000_000).astype(np.int64)
        began = time.process_time()
        np.argsort(-lengths, kind="stable")
        return time.process_time() - began

    def tokfmt(self, out):
        import tokfmt

        os.environ["XDG_CACHE_HOME"] = str(out)
        source = {"path": self.path, "eos": "none"}
        tokfmt.recipe([source], seq_len=LENGTH)  # where documents begin is known from here on
        began = time.process_time()
        tokfmt.recipe([source], seq_len=LENGTH, pack="bestfit")
        return time.process_time() - began


class Many:
    """The first batch of a thousand packs, from their paths on."""

    home = HOME / "thousand"

    def prepare(self):
        if not self.home.exists():
            import tokfmt

            draft = self.home.with_suffix(".draft")
            draft.mkdir(exist_ok=True)
            tokfmt.convert(pack(), draft / "0.pbin", select="0:100", overwrite=True, manifest=False)
            content = (draft / "0.pbin").read_bytes()
            for number in range(1, FILES):
                (draft / f"{number}.pbin").write_bytes(content)
            os.replace(draft, self.home)

    def peer(self, out):
        began = time.perf_counter()
        maps = [stream(path) for path in self.home.iterdir()]
        np.stack([one[:LENGTH] for one in maps[:BATCH]]).astype(np.int32)
        return time.perf_counter() - began

    def first(self):
        import tokfmt
        import tokfmt.formats.modalities
        import tokfmt.mix.open
        import tokfmt.recipe_dataset  # noqa: F401 - imports are not counted

        began = time.perf_counter()
        found = tokfmt.recipe([{"path": str(self.home / "*.pbin")}], seq_len=LENGTH, shuffle="samples")
        next(batches(found))
        return time.perf_counter() - began


@case("training: first batch of 1,000 packs, nothing known (peer: numpy maps them)", "<= 1_000 ms", "batch", "seconds")
class Unknown(Many):
    def tokfmt(self, out):
        os.environ["XDG_CACHE_HOME"] = str(out)
        return self.first()


@case("training: first batch of 1,000 packs, from the cache (peer: numpy maps them)", "<= 100 ms", "batch", "seconds")
class Cached(Many):
    def tokfmt(self, out):
        os.environ["XDG_CACHE_HOME"] = str(out)
        before = "from benchmarks.training import Cached; Cached().first()"  # another process, another time
        subprocess.run([sys.executable, "-c", before], check=True, cwd=Path(__file__).resolve().parents[1])
        return self.first()


@case(
    "training: first batch after resuming at step 1,000,000 (peer: skips by reading, 1/500 of them)",
    "<= 50 ms",
    "batch",
    "seconds",
)
class Resumed:
    def prepare(self):
        pack()

    def peer(self, out):
        data, began = stream(pack()), time.perf_counter()
        rows = len(data) // LENGTH - BATCH
        for step in range(STEP // 500):
            at = step * BATCH % rows * LENGTH
            np.array(data[at : at + BATCH * LENGTH], np.int32)
        return (time.perf_counter() - began) * 500

    def tokfmt(self, out):
        found = view(shuffle="samples", epochs=500)
        from tokfmt.torch import Loader

        next(iter(Loader(found, BATCH)))
        state = {"samples": STEP * BATCH, "fingerprint": found.fingerprint}
        began = time.perf_counter()
        loader = Loader(found, BATCH)
        loader.load_state_dict(state)
        next(iter(loader))
        return time.perf_counter() - began


@case("training: memory for 10^9 shuffled samples (peer: numpy alone)", "<= +40 MB", "batch", "seconds")
class Memory:
    anonymous = True

    def prepare(self):
        pack()

    def peer(self, out):
        began = time.perf_counter()
        data = stream(pack())
        for row in range(4000):
            np.array(data[row * BATCH : row * BATCH + LENGTH], np.int32)
        return (time.perf_counter() - began) / 4000

    def tokfmt(self, out):
        found = view(shuffle="samples", epochs=52_000)
        assert len(found) > 10**9
        order = np.random.default_rng(1).integers(0, len(found), (4000, BATCH))
        began = time.perf_counter()
        for batch in order:
            found.samples(batch)
        return (time.perf_counter() - began) / 4000
