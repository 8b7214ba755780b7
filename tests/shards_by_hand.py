"""Folders of LitData and MDS with several columns, as upstream writes them."""

import json

import numpy as np


def litdata_of(folder, fields):
    """Write one chunk of int64 as litdata's BinaryWriter does: the offsets of items, and each with the sizes of its fields."""
    names = sorted(fields)
    rows = [[np.array(fields[name][k], "<i8").tobytes() for name in names] for k in range(len(fields[names[0]]))]
    items = [np.array([len(value) for value in row], "<u4").tobytes() + b"".join(row) for row in rows]
    offsets = np.cumsum([4 * (len(items) + 2), *map(len, items)], dtype="<u4")
    chunk = np.array([len(items)], "<u4").tobytes() + offsets.tobytes() + b"".join(items)
    (folder / "chunk-0-0.bin").write_bytes(chunk)
    children = [{"type": None, "context": None, "node_data": None, "children_spec": []}] * len(names)
    spec = {"type": "builtins.dict", "context": json.dumps(names), "node_data": None, "children_spec": children}
    config = {"data_format": ["no_header_tensor:18"] * len(names), "data_spec": json.dumps([1, spec])}
    stated = {"filename": "chunk-0-0.bin", "chunk_bytes": len(chunk), "chunk_size": len(items), "dim": None}
    (folder / "index.json").write_text(json.dumps({"chunks": [stated], "config": config}))


def mds_of(folder, fields):
    """Write one shard of int64 as MDSWriter does: each sample has the sizes of its columns, and a shape before each array."""
    names = sorted(fields)
    rows = [[np.array(fields[name][k], "<i8") for name in names] for k in range(len(fields[names[0]]))]
    arrays = [[bytes([1 << 2, len(value)]) + value.tobytes() for value in row] for row in rows]
    _mds(folder, names, ["ndarray:int64"] * len(names), arrays)


def turns_of(folder, samples):
    """Write one shard with the column of llm-foundry's turns."""
    _mds(folder, ["turns"], ["json"], [[json.dumps(turns).encode()] for turns in samples])


def _mds(folder, names, encodings, arrays):
    items = [np.array([len(value) for value in row], "<u4").tobytes() + b"".join(row) for row in arrays]
    offsets = np.cumsum([4 * (len(items) + 2), *map(len, items)], dtype="<u4")
    shard = np.array([len(items)], "<u4").tobytes() + offsets.tobytes() + b"".join(items)
    (folder / "shard.00000.mds").write_bytes(shard)
    columns = {"column_names": names, "column_encodings": encodings}
    data = {"raw_data": {"basename": "shard.00000.mds", "bytes": len(shard), "hashes": {}}, "zip_data": None}
    stated = {"format": "mds", "version": 2, "samples": len(items), "column_sizes": [None] * len(names)}
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [{**stated, **columns, **data}]}))
