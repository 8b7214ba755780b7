"""Datasets of every format that can hold separators, of documents that hold theirs. Written by code of their own,
where the format is simple; else by a conversion that adds and removes no token."""

import gzip
import json
import struct

import h5py
import numpy as np
from caches import cache

import tokfmt

INDEXED = {
    "megatron": "x_text_document.bin", "modalities": "x.pbin", "datatrove": "x.ds", "litdata": "x", "mds": "x",
    "flat-tokens": "x.zarr", "parquet": "x.parquet", "arrow": "x.arrow", "olmo": "x", "levanter": "x",
}  # fmt: skip
"""The formats whose index bounds documents: what a document ends with is not needed to find its end."""
STREAMS = {
    "litgpt-packed": "x_0000000000.bin",
    "array": "x.npy",
    "nanogpt": "train.bin",
    "llmc": "x.bin",
    "stage1": "stage1_block_0000.bin",
    "hdf5": "x.h5",
}
"""The formats in which only separators mark boundaries."""
TEXTS = {"internevo", "webdataset", "tfrecord", "arrayrecord", "jsonl", "text", "recipe", "run"}
"""The formats of records, and of what is computed."""


def indexed(home, name, documents):
    """Write documents as they are, and return the path."""
    path = home / INDEXED[name]
    home.mkdir(parents=True, exist_ok=True)
    if name == "olmo":
        path.mkdir()
        ends = np.cumsum([len(one) for one in documents]).tolist()
        rows = "".join(f"{a},{b}\n" for a, b in zip([0, *ends], ends, strict=False))
        (path / "part-00000.npy").write_bytes(np.concatenate(documents).astype("<u2").tobytes())
        (path / "part-00000.csv.gz").write_bytes(gzip.compress(rows.encode()))
    elif name == "levanter":
        cache(path, [documents])
    else:
        (home / "rows.jsonl").write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in documents))
        how = {"to_format": name, "eos": "none", "to_eos": "none", "manifest": False}
        tokfmt.convert(home / "rows.jsonl", path, **how)
    return path


def stream(home, name, ids):
    """Write a stream, and return the path and the options that read it. In llm.c separators are in front."""
    path, options = home / STREAMS[name], {}
    home.mkdir(parents=True, exist_ok=True)
    if name == "hdf5":
        with h5py.File(path, "w") as file:
            file["data"] = np.array(ids, "<u2")
    elif name == "llmc":
        head = np.zeros(256, "<i4")
        head[:3] = 20240520, 1, len(ids)
        path.write_bytes(head.tobytes() + np.array(ids, "<u2").tobytes())
    elif name == "litgpt-packed":
        path.write_bytes(struct.pack("<7sQBQ", b"LITPKDS", 1, 8, len(ids)) + np.array(ids, "<u2").tobytes())
    elif name == "array":
        np.save(path, np.array(ids, "<u2"))
    else:
        options = {"seq_len": len(ids)} if name == "stage1" else {}
        np.array(ids, "<i4" if name == "stage1" else "<u2").tofile(path)
    return path, options
