"""Megatron-Core: GPTDataset and BlendedDataset. Its samplers are not in the package, so that a batch is the next samples."""

import os
from collections import OrderedDict
from types import SimpleNamespace

import loaders
import numpy as np
import torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

LENGTH, EOD = 16, 65535
DATA = {"web": 300, "code": 120}  # documents
CONFIGURATIONS = [
    {"cache": cache, "batch_size": 8, "world_size": 1, "upstream": (paths, weights, steps, seed)}
    for cache, paths, weights, steps, seed in (
        ("once", ["web"], None, 20, 1234),
        ("again", ["web"], None, 180, 5),  # several epochs
        ("mixed", ["web", "code"], [0.7, 0.3], 100, 1),
        ("all", ["web", "code"], None, 40, 2),
    )
]


def make(home):
    random = np.random.default_rng(7)
    for name, count in DATA.items():
        builder = IndexedDatasetBuilder(str(home / f"{name}.bin"), dtype=np.uint16)
        for length in random.integers(1, 40, count).tolist():
            builder.add_document(torch.tensor([*random.integers(0, EOD, length).tolist(), EOD]), [length + 1])
        builder.finalize(str(home / f"{name}.idx"))


def read(home, one):
    paths, weights, steps, seed = one["upstream"]
    os.chdir(home)  # paths in the descriptions are relative
    torch.distributed.init_process_group("gloo")
    identifiers = OrderedDict(vocabulary="invented")
    tokenizer = SimpleNamespace(eod=EOD, pad=EOD - 1, vocab_size=EOD + 1, unique_identifiers=identifiers)
    config = GPTDatasetConfig(
        random_seed=seed, sequence_length=LENGTH, blend=(paths, weights), split="100,0,0",
        path_to_cache=one["cache"], tokenizer=tokenizer, reset_position_ids=False, reset_attention_mask=False,
        eod_mask_loss=False, create_attention_mask=False,
    )  # fmt: skip
    asked = steps * one["batch_size"]
    data, _, _ = BlendedMegatronDatasetBuilder(GPTDataset, [asked, 0, 0], lambda: True, config).build()
    samples = [data[k] for k in range(asked)]
    rows = [[*sample["tokens"].tolist(), int(sample["labels"][-1])] for sample in samples]
    return [[rows[at : at + one["batch_size"]] for at in range(0, asked, one["batch_size"])]]


if __name__ == "__main__":
    loaders.main(CONFIGURATIONS, make, read)
