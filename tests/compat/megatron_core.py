"""Megatron-Core: IndexedDataset, through a map and through files, and its builder."""

import exchange
import numpy as np
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder


def read(corpus):
    for mapped in (True, False):
        found = IndexedDataset(corpus.ours.removesuffix(".bin"), mmap=mapped)
        counts = [1 if document else 0 for document in corpus.documents]  # sequences: an empty document has none
        exchange.same(found.document_indices.tolist(), [0, *np.cumsum(counts).tolist()])
        stored = [document for document in corpus.ours_stored if document]
        exchange.same([found[number].tolist() for number in range(len(found))], stored)
    return f"{len(counts)} documents"


def write(corpus):
    builder = IndexedDatasetBuilder(corpus.theirs, dtype=np.uint16 if corpus.width == 2 else np.int32)
    for document in corpus.stored:
        builder.add_document(torch.tensor(document), [len(document)])
    builder.finalize(corpus.theirs.removesuffix(".bin") + ".idx")


exchange.main({"megatron": (read, write)})
