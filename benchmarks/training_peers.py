"""The loaders that recipes are compared with, each run by the Python of a virtual environment of its own (see `training`).

    python -P training_peers.py prepare|measure PEER HOME

`prepare` stores the tokens of HOME/x.pbin as the peer has them, and proves that it reads back what is in the pack. `measure`
prints tokens per CPU second of the process, threads included; imports and set-up are left out.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

LENGTH, BATCH, TOKENS = 2048, 8, 64_000_000
EOS = 50256
HEADER = 12


def stream(pack):
    """The tokens of a pack, separators included, mapped; its index lies behind them."""
    with open(pack, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
    return np.memmap(pack, "<u2", "r", HEADER, (size // 2,))


def bounds(home):
    return np.concatenate(([0], np.flatnonzero(stream(home / "x.pbin") == EOS) + 1))


def rate(batches, tokens_of, wanted=TOKENS):
    batches = iter(batches)
    for _ in range(20):
        next(batches)
    done, began = 0, time.process_time()
    for batch in batches:
        done += tokens_of(batch)
        if done >= wanted:
            break
    return done / (time.process_time() - began)


class Nanogpt:
    """get_batch() of nanoGPT's train.py: a map opened anew for each batch, int64 tensors."""

    def prepare(self, home):
        """It reads the pack itself."""

    def measure(self, home):
        import torch

        size = len(stream(home / "x.pbin"))

        def get_batch():
            data = np.memmap(home / "x.pbin", dtype=np.uint16, mode="r", offset=HEADER, shape=(size,))
            ix = torch.randint(len(data) - LENGTH, (BATCH,))
            x = torch.stack([torch.from_numpy((data[i : i + LENGTH]).astype(np.int64)) for i in ix])
            y = torch.stack([torch.from_numpy((data[i + 1 : i + 1 + LENGTH]).astype(np.int64)) for i in ix])
            return x, y

        return rate(iter(get_batch, None), lambda batch: batch[0].numel())


class Litdata:
    """StreamingDataset with TokensLoader, shuffled, and its loader without workers."""

    def prepare(self, home):
        from litdata import optimize

        out = home / "litdata"
        if not (out / "index.json").exists():
            optimize(
                fn=litdata_pieces, inputs=[str(home)], output_dir=str(out), chunk_size=(LENGTH + 1) * 8000,
                item_loader=litdata_loader(), num_workers=1,
            )  # fmt: skip
        first = next(iter(self.dataset(home, shuffle=False)))
        assert np.array_equal(first.numpy(), stream(home / "x.pbin")[: LENGTH + 1])

    def dataset(self, home, *, shuffle):
        from litdata import StreamingDataset

        return StreamingDataset(str(home / "litdata"), item_loader=litdata_loader(), shuffle=shuffle, drop_last=True)

    def measure(self, home):
        from litdata import StreamingDataLoader

        loader = StreamingDataLoader(self.dataset(home, shuffle=True), batch_size=BATCH, num_workers=0)
        batches = (batch for _ in range(9) for batch in loader)
        pairs = (
            (batch[:, :-1].contiguous().long(), batch[:, 1:].contiguous().long()) for batch in batches
        )  # as LitGPT
        return rate(pairs, lambda pair: pair[0].numel())


def litdata_loader():
    from litdata.streaming.item_loader import TokensLoader

    return TokensLoader(block_size=LENGTH + 1)


def litdata_pieces(home):
    import torch

    data = stream(Path(home) / "x.pbin")
    for start in range(0, len(data), 1 << 20):
        yield torch.from_numpy(data[start : start + (1 << 20)].astype(np.int32)).to(torch.uint16)


class Megatron:
    """GPTDataset of megatron-core over .bin/.idx, uint16, in batches of PyTorch's default collation."""

    def prepare(self, home):
        import torch
        from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder, get_idx_path

        prefix = str(home / "megatron")
        data, edges = stream(home / "x.pbin"), bounds(home).tolist()
        if not os.path.exists(get_idx_path(prefix)):
            builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16)
            for start, stop in zip(edges, edges[1:]):
                builder.add_document(torch.from_numpy(data[start:stop].astype(np.int32)), [stop - start])
            builder.finalize(get_idx_path(prefix))
        read = IndexedDataset(prefix)
        assert len(read) == len(edges) - 1
        assert np.array_equal(read.get(7), data[edges[7] : edges[8]])
        self.dataset(home)

    def dataset(self, home):
        from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
        from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig

        class Tokenizer:
            eod, pad, vocab_size, unique_identifiers = EOS, EOS, 50257, {"class": "none"}

        config = GPTDatasetConfig(
            random_seed=1, sequence_length=LENGTH, blend=([str(home / "megatron")], None), split="1,0,0",
            reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False,
            tokenizer=Tokenizer(), path_to_cache=str(home / "megatron-cache"), mid_level_dataset_surplus=0.005,
        )  # fmt: skip
        count = 3 * (len(stream(home / "x.pbin")) // LENGTH)
        return BlendedMegatronDatasetBuilder(GPTDataset, [count, 0, 0], lambda: True, config).build()[0]

    def measure(self, home):
        from torch.utils.data import DataLoader

        batches = DataLoader(self.dataset(home), batch_size=BATCH)
        return rate(batches, lambda batch: batch["tokens"].numel(), TOKENS // 4)


class Grain:
    """Documents of the pack, shuffled, concatenated and split to windows with segment ids and positions."""

    def prepare(self, home):
        first = next(iter(self.packed(home, shuffle=False)))
        assert np.array_equal(first["tokens"], stream(home / "x.pbin")[:LENGTH])

    def packed(self, home, *, shuffle=True):
        from grain._src.python.dataset.transformations.packing_concat_then_split import ConcatThenSplitIterDataset

        return ConcatThenSplitIterDataset(self.documents(home, shuffle=shuffle), length_struct={"tokens": LENGTH})

    def documents(self, home, *, shuffle):
        import grain

        found = grain.MapDataset.source(Documents(home))
        found = found.shuffle(seed=1) if shuffle else found
        return found.repeat().to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))

    def measure(self, home):
        return rate(self.packed(home).batch(BATCH), lambda batch: batch["tokens"].size, TOKENS // 16)


class GrainBestfit(Grain):
    """The same by best fit, in 64 open samples; documents are cut to a sample's length first."""

    def packed(self, home, *, shuffle=True):
        from grain.experimental import BestFitPackIterDataset

        return BestFitPackIterDataset(
            self.documents(home, shuffle=shuffle), length_struct={"tokens": LENGTH}, num_packing_bins=64
        )

    def prepare(self, home):
        first = next(iter(self.packed(home, shuffle=False)))
        assert first["tokens"].shape == (LENGTH,)


class Documents:
    """A random-access source of documents no longer than a sample."""

    def __init__(self, home):
        self.data = stream(home / "x.pbin")
        edges = bounds(home)
        cut = [np.arange(a, b, LENGTH) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist())]
        self.starts = np.concatenate(cut)
        self.stops = np.concatenate([self.starts[1:], edges[-1:]])

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, number):
        return {"tokens": np.asarray(self.data[self.starts[number] : self.stops[number]], np.int32)}


PEERS = {"nanogpt": Nanogpt, "litdata": Litdata, "megatron": Megatron, "grain": Grain, "grain-bestfit": GrainBestfit}

if __name__ == "__main__":
    what, name, home = sys.argv[1:]
    print(getattr(PEERS[name](), what)(Path(home)))
