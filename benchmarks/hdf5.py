"""HDF5 samples against h5py."""

import tempfile

import numpy as np

from benchmarks.cases import case, convert, documents, p50
from benchmarks.data import EOS, HOME, TOKENS, lengths
from benchmarks.training_peers import stream

REPEATS = 8
BLOCK = HOME / "stage1_block_0000.bin"


def samples():
    path = HOME / "x.h5"
    if not path.exists():
        convert(BLOCK, path, seq_len=2048)
    return path


@case("HDF5: write samples (peer: h5py gzip-4, as documented)", ">= 3", "tokens")
class Write:
    def stream(self):
        return documents()[0]

    def peer(self, out):
        import h5py

        stream, length = self.stream(), 2048
        stream = stream[: len(stream) // 4]
        count = (len(stream) - 1) // length
        with h5py.File(out / "x.h5", "w") as file:
            file.attrs["n_examples"] = count
            data = file.create_dataset("data", (count, 3, length), "<i4", chunks=(1, 3, length), compression="gzip")
            for i in range(count):
                window = stream[i * length : i * length + length + 1]
                data[i] = np.stack([window[:-1], np.ones(length, np.int32), window[1:]])
        return count * length

    def tokfmt(self, out):
        return sum(convert(BLOCK, out / f"{number}.h5", seq_len=2048).tokens for number in range(3))


def random_pack():
    """A pack of ids among which nothing repeats, and so with nothing to compress but their upper bytes."""
    path = HOME / "random.pbin"
    if not path.exists():
        stream = np.random.default_rng(8).integers(0, EOS, TOKENS // 8192 * 8192).astype("<i4")
        stream[np.cumsum(lengths(len(stream))) - 1] = EOS
        block = HOME / "stage1_block_random.bin"
        stream.tofile(block)
        convert(block, path, format="stage1")
        block.unlink()
    return path


@case("HDF5: write samples of random ids (peer: h5py gzip-4, as documented)", ">= 3", "tokens")
class WriteRandom(Write):
    def prepare(self):
        """Also read what tokfmt writes with h5py."""
        import h5py

        with tempfile.TemporaryDirectory() as out:
            convert(random_pack(), f"{out}/x.h5", seq_len=2048)
            with h5py.File(f"{out}/x.h5") as file:
                for number in (0, 1, 9_999):
                    window = self.stream()[number * 2048 : number * 2048 + 2049]
                    expected = np.stack([window[:-1], np.ones(2048, np.int32), window[1:]])
                    assert np.array_equal(file["data"][number], expected)

    def stream(self):
        return stream(random_pack()).astype("<i4")

    def tokfmt(self, out):
        return sum(convert(random_pack(), out / f"{number}.h5", seq_len=2048).tokens for number in range(3))


@case("HDF5: read samples in order (peer: h5py)", ">= 1.8", "tokens")
class Read:
    def prepare(self):
        samples()

    def peer(self, out):
        import h5py

        with h5py.File(samples()) as file:
            data = file["data"]
            return sum(len(data[i][0]) for _ in range(2) for i in range(len(data)))

    def tokfmt(self, out):
        import tokfmt

        dataset = tokfmt.open(samples(), options={"view": "samples"})
        return sum(len(batch.tokens) for _ in range(REPEATS // 2) for batch in dataset.batches())


@case("HDF5: one sample at random, each once, p50 (peer: h5py)", ">= 1.5", "s", "seconds")
class Random:
    """As a shuffling loader does: an epoch meets no sample twice."""

    def prepare(self):
        samples()

    def _order(self, count):
        return np.random.default_rng(6).permutation(count)[:3000].tolist()

    def peer(self, out):
        import h5py

        with h5py.File(samples()) as file:
            data = file["data"]
            return p50(lambda i: data[i][0], self._order(len(data)))

    def tokfmt(self, out):
        import tokfmt

        dataset = tokfmt.open(samples(), options={"view": "samples"})
        return p50(dataset.__getitem__, self._order(len(dataset)))
