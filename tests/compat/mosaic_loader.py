"""MosaicML Streaming: StreamingDataset of several ranks and workers, for two epochs."""

import loaders
import numpy as np
from streaming import MDSWriter, Stream, StreamingDataset
from torch.utils.data import DataLoader

EPOCHS = 2
STREAMS = {"web": 151, "code": 90}  # samples of each
WEIGHTS = ("proportion", "repeat", "choose")
CONFIGURATIONS = [
    {"shuffle": True, "shuffle_algo": "py1e", "batch_size": 8, "world_size": 1, "num_workers": 2},
    {"shuffle": True, "shuffle_algo": "py1e", "batch_size": 8, "world_size": 2, "num_workers": 1, "shuffle_block_size": 50},
    {"shuffle": True, "shuffle_algo": "py1br", "batch_size": 8, "world_size": 2, "num_workers": 2,
     "proportion": [0.7, 0.3], "epoch_size": 200, "shuffle_block_size": 60},
    {"shuffle": True, "shuffle_algo": "py1s", "batch_size": 6, "world_size": 2, "num_workers": 1, "repeat": [1, 2]},
    {"shuffle": True, "shuffle_algo": "py2s", "batch_size": 8, "world_size": 4, "num_workers": 1, "num_canonical_nodes": 4},
    {"shuffle": True, "shuffle_algo": "naive", "batch_size": 8, "world_size": 2, "num_workers": 3, "shuffle_seed": 5},
    {"shuffle": False, "batch_size": 8, "world_size": 2, "num_workers": 2, "choose": [100, 61]},
    {"shuffle": True, "batch_size": 10, "world_size": 2, "num_workers": 1, "batching_method": "stratified"},
    {"shuffle": True, "batch_size": 8, "world_size": 2, "num_workers": 2, "batching_method": "per_stream",
     "sampling_method": "fixed"},
]  # fmt: skip


def make(home):
    first = 0
    for name, count in STREAMS.items():
        with MDSWriter(out=str(home / name), columns={"tokens": "ndarray:uint32"}, size_limit=1 << 10) as out:
            for document in loaders.documents(count, 8, first):
                out.write({"tokens": np.array(document, np.uint32)})
        first += count * 8


def read(home, one):
    streams = [
        Stream(local=str(home / name), **{key: one[key][k] for key in WEIGHTS if key in one})
        for k, name in enumerate(STREAMS)
    ]
    same = ("streams", "batch_size", "world_size", "num_workers", *WEIGHTS)
    arguments = {key: value for key, value in one.items() if key not in same}
    batch = one["batch_size"] // one["world_size"]
    found = StreamingDataset(streams=streams, batch_size=batch, **arguments)
    loader = DataLoader(found, batch_size=batch, num_workers=one["num_workers"], collate_fn=list)
    return [[[sample["tokens"].tolist() for sample in rows] for rows in loader] for _ in range(EPOCHS)]


if __name__ == "__main__":
    loaders.main([{**one, "streams": list(STREAMS)} for one in CONFIGURATIONS], make, read)
