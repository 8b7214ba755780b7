"""OLMo-core: NumpyFSLDataset, and its walk over documents, by .csv.gz and by separators."""

import exchange
import numpy as np
from olmo_core.data.numpy_dataset import NumpyFSLDataset
from olmo_core.data.utils import iter_document_indices

LENGTH = 64


def read(corpus):
    dtype = np.uint16 if corpus.width == 2 else np.uint32
    found = NumpyFSLDataset(
        corpus.ours, sequence_length=LENGTH, pad_token_id=corpus.eos, eos_token_id=corpus.eos,
        vocab_size=1 << 20, dtype=dtype,
    )  # fmt: skip
    found.work_dir = corpus.home / "work"
    found.prepare()
    rows = [found[number]["input_ids"].tolist() for number in range(len(found))]
    said = exchange.windows(rows, corpus.stream, LENGTH)
    for how in ({}, {"dtype": dtype, "eos_token_id": corpus.eos}):
        spans = list(iter_document_indices(corpus.ours, **how))
        exchange.same([corpus.stream[start:stop] for start, stop in spans], corpus.stored)
    return f"{len(spans)} documents, {said}, {masked(corpus, dtype)}"


def masked(corpus, dtype):
    tokens = corpus.masked[0]
    found = NumpyFSLDataset(
        tokens, sequence_length=LENGTH, pad_token_id=corpus.eos, eos_token_id=corpus.eos, vocab_size=1 << 20,
        dtype=dtype, label_mask_paths=[tokens.replace("token_ids", "labels_mask")],
    )  # fmt: skip
    found.work_dir = corpus.home / "work"
    found.prepare()
    rows = [found[number] for number in range(len(found))]
    exchange.windows([row["input_ids"].tolist() for row in rows], corpus.stream, LENGTH)
    return exchange.windows([row["label_mask"].int().tolist() for row in rows], corpus.flags, LENGTH) + " of masks"


exchange.main({"olmo": (read, None)})
