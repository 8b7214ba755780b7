"""Each case: a peer's method, restated in a few lines, and tokfmt doing the same work. One process a side and run."""

import json
import pickle
from pathlib import Path

import numpy as np

from benchmarks.data import EOS, HOME, tokenizer

CASES = {}


def case(name, goal, size):
    def register(pair):
        CASES[name] = (pair, goal, size)
        return pair

    return register


def convert(*words, **how):
    import tokfmt

    return tokfmt.convert(*words, manifest=False, jobs=how.pop("jobs", 1), **how)


def documents():
    stream = np.fromfile(HOME / "stage1_block_0000.bin", "<i4")
    return stream, np.flatnonzero(stream == EOS)


REPEATS = 8  # of work that is over sooner than Python has started


@case("raw index, every line validated as JSON", ">= 6", "bytes")
class RawIndex:
    def peer(self, out):
        index, offset = [], 0
        with open(HOME / "corpus.jsonl", "rb") as file:
            for line in file:
                json.loads(line)
                index.append((offset, len(line) - 1))
                offset += len(line)
        (out / "x.idx").write_bytes(pickle.dumps(index))
        return offset

    def tokfmt(self, out):
        from tokfmt.ops.index import write_index

        for _ in range(REPEATS):
            write_index(HOME / "corpus.jsonl", out / "x.idx", overwrite=True)
        return REPEATS * (HOME / "corpus.jsonl").stat().st_size


@case("raw index, lines only", ">= 40", "bytes")
class RawIndexOnly(RawIndex):
    def tokfmt(self, out):
        from tokfmt.ops.index import write_index

        for _ in range(REPEATS):
            write_index(HOME / "corpus.jsonl", out / "x.idx", validate=False, overwrite=True)
        return REPEATS * (HOME / "corpus.jsonl").stat().st_size


ENTRIES = 10_000_000


def index_file():
    path = HOME / "index.pickle"
    if not path.exists():
        lengths = np.random.default_rng(4).integers(20, 4000, ENTRIES) * 2
        offsets = np.cumsum(lengths) - lengths
        path.write_bytes(pickle.dumps(list(zip(offsets.tolist(), lengths.tolist(), strict=True))))
    return path


@case("load a pickled index", ">= 2", "entries")
class LoadIndex:
    def prepare(self):
        index_file()

    def peer(self, out):
        return len(pickle.loads(index_file().read_bytes()))

    def tokfmt(self, out):
        from tokfmt.core.files import File
        from tokfmt.formats.pickled_index import read_entries

        file = File(index_file())
        return sum(len(offsets) for offsets, _ in read_entries(file, 0, file.size, 1 << 40))


@case("write a pickled index", ">= 5", "entries")
class WriteIndex:
    def _lengths(self):
        return np.random.default_rng(4).integers(20, 4000, ENTRIES) * 2

    def peer(self, out):
        index, offset = [], 0
        for length in self._lengths().tolist():
            index.append((offset, length))
            offset += length
        (out / "x").write_bytes(pickle.dumps(index))
        return len(index)

    def tokfmt(self, out):
        from tokfmt.formats.pickled_index import write_entries

        lengths = self._lengths()
        offsets = np.cumsum(lengths) - lengths
        batches = ((offsets[a : a + 65536], lengths[a : a + 65536]) for a in range(0, ENTRIES, 65536))
        with open(out / "x", "wb") as file:
            file.writelines(write_entries(ENTRIES, batches))
        return ENTRIES


@case("text -> pack, per document packing (peer: tokenizers, one document at a time)", ">= 20", "bytes")
class TextToPack:
    def peer(self, out):
        from tokenizers import Tokenizer

        coder = Tokenizer.from_file(str(tokenizer() / "tokenizer.json"))
        eos = coder.get_vocab_size() - 1
        index, offset, total = [], 0, 0
        # a tenth of the corpus is enough to know its rate
        with open(HOME / "corpus.jsonl", "rb") as lines, open(out / "x.pbin", "wb") as pack:
            pack.write(b"\0" * 12)
            for line in lines:
                total += len(line)
                if total > 16_000_000:
                    break
                ids = coder.encode(json.loads(line)["text"], add_special_tokens=False).ids
                data = b"".join(i.to_bytes(2, "little") for i in [*ids, eos])
                pack.write(data)
                index.append((offset, len(data)))
                offset += len(data)
            pack.write(pickle.dumps(index))
        return total

    def tokfmt(self, out):
        convert(HOME / "corpus.jsonl", out / "x.pbin", tokenizer=str(tokenizer()))
        return (HOME / "corpus.jsonl").stat().st_size


@case("write flat-tokens (peer: zarr append)", ">= 3", "tokens")
class WriteFlat:
    def peer(self, out):
        import numcodecs
        import zarr

        stream, ends = documents()
        group = zarr.open_group(str(out / "x.zarr"), mode="w", zarr_format=2)
        codec = numcodecs.Blosc("lz4", 5, numcodecs.Blosc.BITSHUFFLE)
        encoded = group.create_array(
            "encoded_tokens", shape=(0,), chunks=(1 << 20,), dtype="<u4", compressors=codec, fill_value=0
        )
        start, total = 0, 0
        for batch in range(0, len(ends), 65536 // 64):
            stop = int(ends[min(len(ends), batch + 65536 // 64) - 1]) + 1
            window = stream[start:stop]
            values = window[window != EOS].astype(np.uint32) * 2
            encoded.append(values)
            start, total = stop, total + len(values)
        return total

    def tokfmt(self, out):
        return convert(HOME / "stage1_block_0000.bin", out / "x.zarr").tokens


def flat_store():
    path = HOME / "x.zarr"
    if not path.exists():
        convert(HOME / "stage1_block_0000.bin", path)
    return path


@case("read flat-tokens in order (peer: zarr-python)", ">= 2", "tokens")
class ReadFlat:
    def prepare(self):
        flat_store()

    def peer(self, out):
        import zarr

        array = zarr.open_group(str(flat_store()), mode="r")["train/encoded_tokens"]
        return sum(len(array[a : a + (1 << 20)] >> 1) for a in range(0, array.shape[0], 1 << 20))

    def tokfmt(self, out):
        import tokfmt

        dataset = tokfmt.open(flat_store())
        return sum(len(batch.tokens) for _ in range(REPEATS) for batch in dataset.batches())


def samples_file():
    path = HOME / "x.h5"
    if not path.exists():
        convert(HOME / "stage1_block_0000.bin", path, seq_len=2048)
    return path


@case("write HDF5 samples (peer: h5py gzip-4, as documented)", ">= 4.5", "tokens")
class WriteHdf5:
    def peer(self, out):
        import h5py

        stream, _ = documents()
        stream, length = stream[: len(stream) // 4], 2048
        count = (len(stream) - 1) // length
        with h5py.File(out / "x.h5", "w") as file:
            file.attrs["n_examples"] = count
            data = file.create_dataset("data", (count, 3, length), "<i4", chunks=(1, 3, length), compression="gzip")
            for i in range(count):
                window = stream[i * length : i * length + length + 1]
                data[i] = np.stack([window[:-1], np.ones(length, np.int32), window[1:]])
        return count * length

    def tokfmt(self, out):
        return convert(HOME / "stage1_block_0000.bin", out / "x.h5", seq_len=2048).tokens


@case("read HDF5 samples (peer: h5py)", ">= 1.8", "tokens")
class ReadHdf5:
    def prepare(self):
        samples_file()

    def peer(self, out):
        import h5py

        with h5py.File(samples_file()) as file:
            data = file["data"]
            return sum(len(data[i][0]) for i in range(len(data)))

    def tokfmt(self, out):
        import tokfmt

        dataset = tokfmt.open(samples_file(), options={"view": "samples"})
        return sum(len(batch.tokens) for _ in range(REPEATS) for batch in dataset.batches())


@case("uncompressed pair: stage1 -> pack (peer: numpy cast and tofile)", ">= 0.4", "tokens")
class Uncompressed:
    def peer(self, out):
        stream, _ = documents()
        stream.astype("<u2").tofile(out / "x")
        return len(stream)

    def tokfmt(self, out):
        return convert(HOME / "stage1_block_0000.bin", out / "x.pbin").tokens


@case("start: tokfmt --help (peer: python -c pass)", ">= 0.2", "runs")
class Start:
    def peer(self, out):
        return 1

    def tokfmt(self, out):
        import contextlib
        import io

        from tokfmt.cli.main import run

        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            run(["--help"])
        return 1


from benchmarks import merging, scaling, statistics  # noqa: E402, F401 - they add their cases
