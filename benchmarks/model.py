"""The model (an axis, spans on it, gaps) on 20 M tokens: CPU seconds of a job, against a plain program of numpy and h5py.

Each side does its job once on little data, so that imports do not count. tokfmt also writes manifests.
"""

import ctypes
import os
import pickle
import struct
import time
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks import megatron
from benchmarks.cases import case, convert, p50
from benchmarks.data import EOS, HOME, ids, lengths
from benchmarks.statistics import bare

LARGE, LITTLE = 20_000_000, 200_000
SHORT = 20_000_000  # sequences of 4.5 tokens
READ, SAMPLE, WINDOW = 3000, 2048, 1 << 20


class Corpus:
    """Documents of about 600 tokens, or of 4.5, in the files of several formats; `pack` has further links."""

    def __init__(self, tokens, short=0, packs=10):
        self.tokens, self.short = tokens, short
        self.home = HOME / "model" / f"{short or tokens}{'-short' if short else ''}"
        self.megatron, self.stream = self.home / "x_document.bin", self.home / "train.bin"
        self.pack, self.own, self.foreign = (self.home / name for name in ("x.pbin", "x.h5", "foreign.h5"))
        self.packs = [self.home / f"link-{number:03d}.pbin" for number in range(packs)]

    @cached_property
    def lengths(self):
        return np.random.default_rng(4).integers(2, 8, self.short) if self.short else lengths(self.tokens)

    def prepare(self):
        """Make the files, each once."""
        if not self.stream.exists():
            self.home.mkdir(parents=True, exist_ok=True)
            stream = ids(int(self.lengths.sum()))
            stream[np.cumsum(self.lengths) - 1] = EOS
            megatron.written(self.home / "x_document", self.lengths, stream)
            os.link(self.megatron, self.stream)
        if self.short or self.packs[-1].exists():
            return
        tokens = np.fromfile(self.stream, "<u2")
        write_pack(self.pack, tokens, self.lengths)
        write_samples(self.foreign, tokens)
        convert(self.megatron, self.own, seq_len=SAMPLE)
        for path in self.packs:
            os.link(self.pack, path)


LITTLE_ONE, LARGE_ONE, FOR_PACKS = Corpus(LITTLE), Corpus(LARGE), Corpus(20_000, packs=1000)
LITTLE_SHORT, LARGE_SHORT = Corpus(0, LITTLE), Corpus(0, SHORT)


# What a person would write without tokfmt.


def read_megatron(path):
    with open(path.with_suffix(".idx"), "rb") as file:
        (count,) = struct.unpack("<18xQ", file.read(26))
        file.seek(34)
        return np.fromfile(path, "<u2"), np.fromfile(file, "<i4", count)


def write_pack(path, tokens, sizes):
    begins = np.cumsum(sizes) - sizes
    with open(path, "wb") as file:
        file.write(struct.pack("<QI", 2 * len(tokens), 2))
        tokens.tofile(file)
        file.write(pickle.dumps(list(zip((2 * begins).tolist(), (2 * sizes).tolist()))))


def write_samples(path, stream):
    import h5py

    count = (len(stream) - 1) // SAMPLE
    with h5py.File(path, "w") as file:
        file.attrs["n_examples"] = count
        data = file.create_dataset(
            "data", (count, 3, SAMPLE), "<i4", chunks=(1, 3, SAMPLE), compression="gzip", compression_opts=1
        )
        for i in range(count):
            window = stream[i * SAMPLE : i * SAMPLE + SAMPLE + 1]
            data[i] = np.stack([window[:-1], np.ones(SAMPLE, "<i4"), window[1:]])


def megatron_to_pack(corpus, out):
    write_pack(out / "x.pbin", *read_megatron(corpus.megatron))


def megatron_to_zarr(corpus, out):
    import numcodecs
    import zarr

    tokens, sizes = read_megatron(corpus.megatron)
    keep = np.ones(len(tokens), bool)
    keep[np.cumsum(sizes) - 1] = False
    starts = np.concatenate(([0], np.cumsum(sizes - 1)))
    encoded = tokens[keep].astype("<u4") << 1
    encoded[starts[:-1][sizes > 1]] |= 1
    group = zarr.open_group(str(out / "x.zarr"), mode="w", zarr_format=2)
    codec = numcodecs.Blosc("lz4", 5, numcodecs.Blosc.BITSHUFFLE)
    for name, values in (("encoded_tokens", encoded), ("seq_starts", starts)):
        group.create_array(name, data=values, chunks=(WINDOW,), compressors=codec)


def pack_to_stage1(corpus, out):
    with open(corpus.pack, "rb") as file:
        size, _ = struct.unpack("<QI", file.read(12))
        tokens = np.fromfile(file, "<u2", size // 2)
    padded = np.full(-(-len(tokens) // 8192) * 8192, EOS, "<i4")
    padded[: len(tokens)] = tokens
    padded.tofile(out / "stage1_block_0000.bin")


def samples_to_pack(path, out):
    import h5py

    with h5py.File(path) as file:
        data = file["data"]
        rows = [data[a : a + 512] for a in range(0, len(data), 512)]
    counted = np.concatenate([part[:, 0][part[:, 1] != 0] for part in rows])
    stream = np.append(counted, rows[-1][-1, 2][rows[-1][-1, 1] != 0][-1]).astype("<u2")
    ends = np.unique(np.append(np.flatnonzero(stream == EOS) + 1, len(stream)))
    write_pack(out / "x.pbin", stream, np.diff(ends, prepend=0))


def statistics(corpus, out):
    tokens, sizes = read_megatron(corpus.megatron)
    bare(tokens[a : a + WINDOW] for a in range(0, len(tokens), WINDOW))
    np.bincount(np.minimum(sizes, 1 << 16)), np.sort(sizes)


def first_documents(corpus, out):
    window = np.fromfile(corpus.stream, "<u2", WINDOW)
    return np.split(window, np.flatnonzero(window == EOS)[:10] + 1)[:10]


def load_packs(corpus, out):
    found = []
    for path in corpus.packs:
        with open(path, "rb") as file:
            size, _ = struct.unpack("<QI", file.read(12))
            file.seek(12 + size)
            found.append((np.memmap(path, "<u2", "r", 12, size // 2), pickle.loads(file.read())))
    return found


def job(name, goal, peer, work, little=LITTLE_ONE, large=LARGE_ONE):
    """A case of the CPU seconds that a job takes."""

    class Job:
        runs = 5

        def prepare(self):
            little.prepare()
            large.prepare()

        def spent(self, do, out):
            (out / "little").mkdir()
            (out / "large").mkdir()
            do(little, out / "little")
            began = time.process_time()
            do(large, out / "large")
            return time.process_time() - began

        def peer(self, out):
            return self.spent(peer, out)

        def tokfmt(self, out):
            return self.spent(work, out)

    case(f"model: {name}", goal, "s", "seconds")(Job)


def stats(corpus, out):
    import tokfmt

    tokfmt.stats(corpus.megatron, jobs=1)


def first_of_stream(corpus, out):
    import tokfmt

    with tokfmt.open(corpus.stream, eos=EOS) as dataset:
        return [dataset[number] for number in range(10)]


def open_packs(corpus, out):
    import tokfmt

    return [tokfmt.open(path) for path in corpus.packs]


job(
    "Megatron -> zarr (peer: numpy, zarr)",
    ">= 1",
    megatron_to_zarr,
    lambda corpus, out: convert(corpus.megatron, out / "x.zarr"),
)
job(
    "Megatron -> pack (peer: numpy, pickle)",
    ">= 0.3",
    megatron_to_pack,
    lambda corpus, out: convert(corpus.megatron, out / "x.pbin"),
)
job(
    "pack -> stage1 (peer: numpy)",
    ">= 0.3",
    pack_to_stage1,
    lambda corpus, out: convert(corpus.pack, out / "stage1_block_0000.bin"),
)
job(
    "HDF5 of tokfmt -> pack (peer: h5py)",
    ">= 1",
    lambda corpus, out: samples_to_pack(corpus.own, out),
    lambda corpus, out: convert(corpus.own, out / "x.pbin"),
)
job(
    "HDF5 of h5py -> pack (peer: h5py)",
    ">= 1",
    lambda corpus, out: samples_to_pack(corpus.foreign, out),
    lambda corpus, out: convert(corpus.foreign, out / "x.pbin", eos=EOS),
)
job("statistics (peer: numpy)", ">= 0.5", statistics, stats)
job("statistics, 20 M sequences of 4.5 tokens (peer: numpy)", ">= 0.2", statistics, stats, LITTLE_SHORT, LARGE_SHORT)
job("open 1,000 packs (peer: memory maps, pickle)", "<= 350 ms", load_packs, open_packs, LITTLE_ONE, FOR_PACKS)
job(
    "first 10 documents of a stream of 90 M tokens (peer: numpy)",
    "<= 20 ms",
    first_documents,
    first_of_stream,
    LITTLE_SHORT,
    LARGE_SHORT,
)
job(
    "Megatron -> zarr, 20 M sequences of 4.5 tokens (peer: numpy, zarr)",
    ">= 0.7",
    megatron_to_zarr,
    lambda corpus, out: convert(corpus.megatron, out / "x.zarr"),
    LITTLE_SHORT,
    LARGE_SHORT,
)


class OneAtRandom:
    """Median seconds of one document, each read once."""

    runs = 5

    def prepare(self):
        LARGE_ONE.prepare()

    @property
    def places(self):
        """Where documents begin and end in the stream, without their separators."""
        ends = np.cumsum(LARGE_ONE.lengths)
        chosen = np.random.default_rng(6).permutation(len(ends) - 1)[:READ]
        return chosen.tolist(), (ends - LARGE_ONE.lengths)[chosen].tolist(), (ends - 1)[chosen].tolist()

    def one(self, path):
        import tokfmt

        return p50(tokfmt.open(path).__getitem__, self.places[0])


@case("model: one document at random, Megatron, p50 (peer: pread)", ">= 0.5", "s", "seconds")
class OneOfMegatron(OneAtRandom):
    def peer(self, out):
        file, (_, starts, stops) = os.open(LARGE_ONE.megatron, os.O_RDONLY), self.places
        return p50(lambda one: os.pread(file, 2 * (one[1] - one[0]), 2 * one[0]), list(zip(starts, stops)))

    def tokfmt(self, out):
        return self.one(LARGE_ONE.megatron)


@case("model: one document at random, HDF5, p50 (peer: h5py)", ">= 1", "s", "seconds")
class OneOfHdf5(OneAtRandom):
    def peer(self, out):
        import h5py

        _, starts, stops = self.places
        with h5py.File(LARGE_ONE.own) as file:
            data = file["data"]

            def one(place):
                first, last = place[0] // SAMPLE, (place[1] - 1) // SAMPLE
                return data[first : last + 1, 0].ravel()[place[0] - first * SAMPLE : place[1] - first * SAMPLE]

            return p50(one, list(zip(starts, stops)))

    def tokfmt(self, out):
        return self.one(LARGE_ONE.own)


def anonymous():
    """Bytes of memory that this process holds for itself: no pages of mapped files, and none that were freed."""
    ctypes.CDLL(None).malloc_trim(0)
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("RssAnon"))


class Held:
    """Bytes per sequence that are held after a dataset was opened and counted, and one sequence was read."""

    path, sequences, options = LARGE_SHORT.megatron, SHORT, {}

    def prepare(self):
        LITTLE_SHORT.prepare()
        LARGE_SHORT.prepare()

    def held(self, little, large):
        kept = [little()]
        before = anonymous()
        kept.append(large())
        return max(anonymous() - before, 1) / self.sequences

    def peer(self, out):
        def pointers(path):
            count = path.stat().st_size // 20
            return np.fromfile(path, "<i8", count, offset=34 + 4 * count)

        return self.held(
            *(lambda one=one: pointers(one.with_suffix(".idx")) for one in (LITTLE_SHORT.megatron, self.path))
        )

    def tokfmt(self, out):
        return self.held(lambda: self.opened(LITTLE_SHORT.megatron), lambda: self.opened(self.path))

    def opened(self, path):
        import tokfmt

        dataset = tokfmt.open(path, **self.options)
        return dataset, len(dataset), dataset[len(dataset) // 2]


case("model: held per sequence, 20 M of Megatron (peer: numpy, offsets)", "<= 0.5 B", "B", "bytes")(Held)


@case("model: held per sequence, 10^8 of Megatron (peer: numpy, offsets)", "<= 0.1 B", "B", "bytes")
class HeldOfMany(Held):
    path, sequences = Path(f"{megatron.Open.prefix}.bin"), megatron.SEQUENCES
    options = {"eos": "none"}

    def prepare(self):
        super().prepare()
        megatron.Open().prepare()


@case("model: held per sequence, 20 M of a stream (peer: numpy, offsets)", "<= 6 B", "B", "bytes")
class HeldOfStream(Held):
    path, options = LARGE_SHORT.stream, {"eos": EOS}

    def peer(self, out):
        def ends(path):
            found = [np.zeros(0, np.int64)]
            with open(path, "rb") as file:
                at = 0
                while len(window := np.fromfile(file, "<u2", WINDOW)):
                    found.append(np.flatnonzero(window == EOS) + at)
                    at += len(window)
            return np.concatenate(found)

        return self.held(lambda: ends(LITTLE_SHORT.stream), lambda: ends(self.path))

    def tokfmt(self, out):
        return self.held(lambda: self.opened(LITTLE_SHORT.stream), lambda: self.opened(self.path))
