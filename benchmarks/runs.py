"""What a run of Megatron-Core read, of 10^8 samples: against numpy over its index files, as people look it up today."""

import os

import numpy as np

from benchmarks.cases import case
from benchmarks.data import HOME
from benchmarks.megatron import written

SAMPLES, LENGTH = 100_000_000, 2048
DOCUMENTS, SIZE = 1_000_000, 1900  # documents of the data, and tokens of each, which are a hole
BATCH, STEP, SEQUENCE = 512, 123_456, 777
AT_ONCE = 1 << 22
RUN = HOME / "run-of-10^8-samples"
STEM = "0123456789abcdef0123456789abcdef-GPTDataset-train"


def stored(name, shape, dtype, rows):
    """A `.npy` that is written in parts."""
    array = np.lib.format.open_memmap(RUN / "draft" / f"{STEM}-{name}_index.npy", "w+", dtype, shape)
    for a in range(0, shape[0], AT_ONCE):
        b = min(a + AT_ONCE, shape[0])
        array[a:b] = rows(np.arange(a, b))
    array.flush()


def made():
    """The data and the cache: documents in turn, windows over them, and a shuffle."""
    if (RUN / "cache").exists():
        return
    (RUN / "draft").mkdir(parents=True, exist_ok=True)
    written(RUN / "web", np.full(DOCUMENTS, SIZE), None)
    draw = np.random.default_rng(1)
    documents = SAMPLES * LENGTH // SIZE + 2
    order = draw.permutation(DOCUMENTS)
    stored("document", (documents,), "<i4", lambda at: order[(at * 7 + at // DOCUMENTS) % DOCUMENTS])
    stored("sample", (SAMPLES + 1, 2), "<i4", lambda at: np.column_stack(np.divmod(at * LENGTH, SIZE)))
    shuffle = draw.permutation(np.arange(SAMPLES, dtype="<u4"))
    stored("shuffle", (SAMPLES,), "<u4", lambda at: shuffle[at])
    text = f'{{"class": "GPTDataset", "dataset_path": "web", "sequence_length": {LENGTH}, "index_split": "train"}}'
    (RUN / "draft" / f"{STEM}-description.txt").write_text(text)
    os.replace(RUN / "draft", RUN / "cache")


def indexes(**how):
    return [np.load(RUN / "cache" / f"{STEM}-{name}_index.npy", **how) for name in ("document", "sample", "shuffle")]


@case("Runs: a step of 512 samples, of 10^8 (peer: numpy over maps of the indexes)", "<= +2000 ms, <= 200 MB", "steps")
class Step:
    prepare = staticmethod(made)

    def peer(self, out):
        documents, samples, shuffle = indexes(mmap_mode="r")
        tokens, found = np.memmap(RUN / "web.bin", "<u2", "r"), 0
        for number in range(STEP * BATCH, (STEP + 1) * BATCH):
            (first, begin), (last, end) = samples[shuffle[number]], samples[int(shuffle[number]) + 1]
            for place in range(first, last + 1):
                start = begin if place == first else 0
                stop = end + 1 if place == last else SIZE
                at = int(documents[place]) * SIZE
                found += len(tokens[at + start : at + stop].tolist())
        assert found == BATCH * (LENGTH + 1)
        return 1

    def tokfmt(self, out):
        from tokfmt.commands.show.step import show_step

        options = {"root": str(RUN)}
        step = show_step(RUN / "cache", step=STEP, batch_size=BATCH, options=options, only_ids=True)
        assert sum(len(part.ids) for sample in step.shown for part in sample.parts) == BATCH * (LENGTH + 1)
        return 1


@case("Runs: every sample that read a document, of 10^8 (peer: np.load of the indexes)", ">= 1, <= 250 MB", "answers")
class Seen:
    prepare = staticmethod(made)

    def peer(self, out):
        documents, samples, shuffle = indexes()
        begins, places = np.ascontiguousarray(samples[:, 0]), np.flatnonzero(documents == SEQUENCE).astype("<i4")
        firsts, lasts = np.searchsorted(begins, places) - 2, np.searchsorted(begins, places, "right")
        found = np.concatenate([np.arange(*pair, dtype="<u4") for pair in zip(firsts, lasts)])
        assert len(np.flatnonzero(np.isin(shuffle, found))) > 100
        return 1

    def tokfmt(self, out):
        from tokfmt.commands.show.seen import seen

        found = seen(RUN / "cache", f"web#{SEQUENCE}", options={"root": str(RUN)})
        assert len(found.reads) > 100
        return 1
