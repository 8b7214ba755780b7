"""Token caches as Levanter lays them out, written by zarr."""

import json

import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, ShardingCodec


def store(folder, rows, dtype, cname="zstd", chunk=64):
    """A jagged array as Levanter lays it out, with smaller chunks."""
    ends = np.cumsum([0, *map(len, rows)])
    offsets, data = np.array([len(rows), *ends[1:]], np.int64), np.array([t for row in rows for t in row], dtype)
    for name, items, kind in (("offsets", offsets, "int64"), ("data", data, dtype)):
        inner = [BytesCodec(), BloscCodec(cname=cname, clevel=1, shuffle="shuffle", typesize=np.dtype(kind).itemsize)]
        array = zarr.create_array(
            str(folder / "input_ids" / name), shape=(1 << 54,), chunks=(1 << 27,), dtype=kind, fill_value=0, compressors=None,
            serializer=ShardingCodec(chunk_shape=(1 << 18,), codecs=inner),
        )  # fmt: skip
        if len(items) and items.any():
            array[: len(items)] = items


def cache(folder, shards, dtype="int32", **how):
    """A cache of one store, or of several."""
    names = [f"part-{k:05d}" for k in range(len(shards))]
    counts = {name: {"input_ids": sum(map(len, rows))} for name, rows in zip(names, shards)}
    ledger = {
        "total_num_rows": sum(map(len, shards)), "shard_rows": {name: len(rows) for name, rows in zip(names, shards)},
        "is_finished": True, "finished_shards": names, "field_counts": {"input_ids": sum(c["input_ids"] for c in counts.values())},
        "field_counts_by_shard": counts, "layout": "sharded", "metadata": {"preprocessor_metadata": None},
    }  # fmt: skip
    for name, rows in zip(names, shards):
        store(folder / name, rows, dtype, **how)
    (folder / "shard_ledger.json").write_text(json.dumps(ledger))
    return folder
