"""LitData: StreamingDataset and StreamingDataLoader of several ranks and workers, for two epochs."""

import loaders
import torch
from litdata import StreamingDataLoader, StreamingDataset, TokensLoader, optimize

EPOCHS = 2
CONFIGURATIONS = [
    {"input_dir": "items", "shuffle": True, "batch_size": 4, "world_size": 1, "num_workers": 2, "seed": 7},
    {"input_dir": "items", "shuffle": True, "batch_size": 8, "world_size": 2, "num_workers": 1},
    {"input_dir": "items", "shuffle": True, "batch_size": 8, "world_size": 2, "num_workers": 3, "drop_last": False},
    {"input_dir": "items", "shuffle": False, "batch_size": 6, "world_size": 2, "num_workers": 2, "drop_last": True},
    {"input_dir": "blocks", "shuffle": True, "batch_size": 8, "world_size": 2, "num_workers": 2, "block_size": 9},
]


def item(document):
    return {"input_ids": torch.tensor(document)}


def tokens(document):
    return torch.tensor(document)


def make(home):
    documents = loaders.documents(151, 8)
    optimize(fn=item, inputs=documents, output_dir=str(home / "items"), chunk_size=20, num_workers=1)
    blocks = {"output_dir": str(home / "blocks"), "chunk_size": 200, "item_loader": TokensLoader(9)}
    optimize(fn=tokens, inputs=documents, num_workers=1, **blocks)


def read(home, one):
    batch, block = one["batch_size"] // one["world_size"], one.get("block_size")
    arguments = {key: one[key] for key in ("shuffle", "seed", "drop_last") if key in one}
    how = {} if block is None else {"item_loader": TokensLoader(block)}
    found = StreamingDataset(str(home / one["input_dir"]), **arguments, **how)
    loader = StreamingDataLoader(found, batch_size=batch, num_workers=one["num_workers"])
    return [
        [(rows if block is not None else rows["input_ids"]).tolist() for rows in loader] for _ in range(EPOCHS)
    ]  # fmt: skip


if __name__ == "__main__":
    loaders.main(CONFIGURATIONS, make, read)
