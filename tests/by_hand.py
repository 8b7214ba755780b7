"""Files of two bytes per ID that are written by hand, with the documents as they are: no separator is put or taken."""

import pickle
import struct

import numpy as np


def pack(path, documents):
    """Write a pack of Modalities, in layout D."""
    bounds = np.cumsum([0, *map(len, documents)]) * 2
    tokens = np.array([token for one in documents for token in one], "<u2").tobytes()
    index = pickle.dumps([(int(start), int(stop - start)) for start, stop in zip(bounds, bounds[1:], strict=False)])
    path.write_bytes(struct.pack("<QI", len(tokens), 2) + tokens + index)
    return path


def megatron(path, documents):
    """Write a pair of Megatron-LM, one sequence per document; `path` is that of the tokens."""
    bounds = np.cumsum([0, *map(len, documents)], dtype="<i8") * 2
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(documents), len(documents) + 1)
    lengths, numbers = np.diff(bounds).astype("<i4") // 2, np.arange(len(documents) + 1, dtype="<i8")
    path.with_suffix(".idx").write_bytes(head + lengths.tobytes() + bounds[:-1].tobytes() + numbers.tobytes())
    path.write_bytes(np.array([token for one in documents for token in one], "<u2").tobytes())
    return path


def saved(path, content):
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
