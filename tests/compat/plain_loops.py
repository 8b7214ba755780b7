"""What has no package: the loops of nanoGPT and llm.c, and what seqax and ModelZoo do with zarr and h5py, restated.

Restated, not run: nanoGPT (prepare.py of openwebtext, get_batch in train.py; four bytes are its forks'), llm.c
(data_common.py, dataloader.h), seqax and ModelZoo by what tokfmt/formats says of their layouts. numpy, zarr and h5py
themselves are the real ones.
"""

import exchange
import h5py
import numcodecs
import numpy as np
import zarr

LENGTH = 64
SAMPLE = 128


def get_batch(corpus):
    dtype = np.uint16 if corpus.width == 2 else np.uint32
    data, rows = np.memmap(corpus.ours, dtype=dtype, mode="r"), []
    for start in range(0, len(data) // LENGTH * LENGTH, LENGTH):
        rows.append(data[start : start + LENGTH].astype(np.int64).tolist())
        labels = data[start + 1 : start + 1 + LENGTH].astype(np.int64).tolist()
        exchange.same(labels, corpus.stream[start + 1 : start + 1 + LENGTH])
    exchange.same(data.tolist(), corpus.stream)
    return exchange.windows(rows, corpus.stream, LENGTH)


def prepare(corpus):
    dtype = np.uint16 if corpus.width == 2 else np.uint32
    total, at = len(corpus.stream), 0
    out = np.memmap(corpus.theirs, dtype=dtype, mode="w+", shape=(total,))
    for document in corpus.stored:
        out[at : at + len(document)] = document
        at += len(document)
    out.flush()


# magic, version and type of GPT-2's files and Llama 3's; the separator stands before each document
LLMC = {2: (20240520, 1, np.uint16), 4: (20240801, 7, np.uint32)}


def dataloader(corpus):
    magic, version, dtype = LLMC[corpus.width]
    with open(corpus.ours, "rb") as file:
        header = np.frombuffer(file.read(256 * 4), dtype=np.int32)
        exchange.same(header[:2].tolist(), [magic, version])
        tokens = np.frombuffer(file.read(), dtype=dtype)
    exchange.same([len(tokens)], [int(header[2])])
    begun = [token for ids in corpus.documents for token in (corpus.eos, *ids)]
    exchange.same(tokens.tolist(), begun)
    return f"{len(begun):,} tokens"


def write_datafile(corpus):
    magic, version, dtype = LLMC[corpus.width]
    begun = [token for ids in corpus.documents for token in (corpus.eos, *ids)]
    header = np.zeros(256, dtype=np.int32)
    header[:3] = magic, version, len(begun)
    with open(corpus.theirs, "wb") as file:
        file.write(header.tobytes())
        file.write(np.array(begun, dtype=dtype).tobytes())


def flat_tokens(corpus):
    split = zarr.open_group(corpus.ours, mode="r")["train"]
    encoded, starts = split["encoded_tokens"][:], split["seq_starts"][:].tolist()
    ids = (encoded >> 1).tolist()
    exchange.same([split.attrs["max_token_id"]], [max(ids)])
    begin = sorted({start for start in starts if start < len(ids)})
    exchange.same(np.flatnonzero(encoded & 1).tolist(), begin)
    return exchange.documents([ids[a:b] for a, b in zip(starts, starts[1:])], corpus.documents)


def write_flat_tokens(corpus):
    ids = np.array([token for document in corpus.documents for token in document], np.uint32)
    starts = np.cumsum([0, *map(len, corpus.documents)]).astype(np.uint64)
    encoded = ids << 1
    encoded[np.unique(starts[starts < len(ids)]).astype(np.int64)] |= 1
    split = zarr.open_group(corpus.theirs, mode="w", zarr_format=2).create_group("train")
    split.attrs["max_token_id"] = int(ids.max())
    blosc = numcodecs.Blosc("lz4", 5, numcodecs.Blosc.BITSHUFFLE)
    for name, values, filters in (
        ("encoded_tokens", encoded, None),
        ("seq_starts", starts, [numcodecs.Delta("<i8")]),
    ):
        made = split.create_array(
            name, shape=values.shape, dtype=values.dtype, chunks=(4096,), compressors=blosc, filters=filters
        )  # fmt: skip
        made[:] = values


def samples(corpus):
    with h5py.File(corpus.ours, "r") as file:
        data = file["data"][:]
        exchange.same([file.attrs["n_examples"]], [len(data)])
    inputs, counted, labels = data[:, 0], data[:, 1] == 1, data[:, 2]
    exchange.same(inputs[counted].tolist(), corpus.stream[:-1])
    exchange.same(labels[counted].tolist(), corpus.stream[1:])
    return f"{len(data)} samples of {data.shape[2]}"


def write_samples(corpus):
    stream, count = np.array(corpus.stream, np.int32), -(-(len(corpus.stream) - 1) // SAMPLE)
    with h5py.File(corpus.theirs, "w") as file:
        file.attrs["n_examples"] = count
        data = file.create_dataset("data", (count, 3, SAMPLE), "<i4", chunks=(1, 3, SAMPLE), compression="gzip")
        for number in range(count):
            window = stream[number * SAMPLE : (number + 1) * SAMPLE + 1]
            whole = len(window) - 1
            rows = np.zeros((3, SAMPLE), np.int32)
            rows[0], rows[2] = corpus.eos, corpus.eos
            rows[0, :whole], rows[1, :whole], rows[2, :whole] = window[:-1], 1, window[1:]
            data[number] = rows


def load(corpus):
    stored = np.load(corpus.ours, mmap_mode="r", allow_pickle=False)
    exchange.same([stored.ndim, stored.dtype.itemsize], [1, corpus.width])
    exchange.same(stored.tolist(), corpus.stream)
    return f"{len(stored):,} tokens"


def save(corpus):
    np.save(corpus.theirs, np.array(corpus.stream, np.int64))


exchange.main({
    "array": (load, save),
    "nanogpt": (get_batch, prepare),
    "llmc": (dataloader, write_datafile),
    "flat-tokens": (flat_tokens, write_flat_tokens),
    "hdf5": (samples, write_samples),
})  # fmt: skip
