"""seqax flat-tokens against zarr."""

import numpy as np

from benchmarks.cases import case, convert, documents, p50
from benchmarks.data import EOS, HOME

REPEATS = 8
BLOCK = HOME / "stage1_block_0000.bin"


def store():
    path = HOME / "x.zarr"
    if not path.exists():
        convert(BLOCK, path)
    return path


@case("flat-tokens: write (peer: zarr append)", ">= 3", "tokens")
class Write:
    def peer(self, out):
        return sum(self._append(out / str(number)) for number in range(2))

    def _append(self, path):
        import numcodecs
        import zarr

        stream, ends = documents()
        group = zarr.open_group(str(path), mode="w", zarr_format=2)
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
        return sum(convert(BLOCK, out / f"{number}.zarr").tokens for number in range(REPEATS))


@case("flat-tokens: read in order (peer: zarr)", ">= 2", "tokens")
class Read:
    def prepare(self):
        store()

    def peer(self, out):
        import zarr

        array = zarr.open_group(str(store()), mode="r")["train/encoded_tokens"]
        return sum(
            len(array[a : a + (1 << 20)] >> 1) for _ in range(2) for a in range(0, array.shape[0], 1 << 20)
        )  # fmt: skip

    def tokfmt(self, out):
        import tokfmt

        dataset = tokfmt.open(store())
        return sum(len(batch.tokens) for _ in range(REPEATS) for batch in dataset.batches())


@case("flat-tokens: one sequence at random, p50 (peer: zarr, both arrays)", ">= 40, <= 0.25 ms", "s", "seconds")
class Random:
    def prepare(self):
        store()

    def peer(self, out):
        import zarr

        group = zarr.open_group(str(store()), mode="r")["train"]
        tokens, starts = group["encoded_tokens"], group["seq_starts"]

        def one(i):
            first, last = starts[i : i + 2]
            return tokens[int(first) : int(last)] >> 1

        return p50(one, np.random.default_rng(5).integers(0, starts.shape[0] - 1, 200).tolist())

    def tokfmt(self, out):
        import tokfmt

        dataset = tokfmt.open(store())
        return p50(dataset.__getitem__, np.random.default_rng(5).integers(0, len(dataset), 3000).tolist())
