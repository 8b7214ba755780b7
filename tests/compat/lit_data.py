"""LitData: StreamingDataset with TokensLoader, as litgpt reads, and optimize()."""

import json
import shutil
from pathlib import Path

import exchange
import numpy as np
import torch
from litdata import StreamingDataset, TokensLoader, optimize

LENGTH = 50


def read(corpus):
    shutil.copytree(corpus.ours, copy := corpus.ours + ".copy")  # it leaves a lock and its cache beside the chunks
    found = StreamingDataset(copy, item_loader=TokensLoader(LENGTH), shuffle=False)
    stream, expected, at = exchange.joined(corpus.ours_stored), [], 0
    for chunk in json.loads((Path(corpus.ours) / "index.json").read_text())["chunks"]:  # no window crosses a chunk
        stops = range(at, at + chunk["dim"] - LENGTH + 1, LENGTH)
        expected += [stream[start : start + LENGTH] for start in stops]
        at += chunk["dim"]
    exchange.same([found[number].tolist() for number in range(len(found))], expected)
    return f"{len(expected)} windows of {LENGTH}"


def tensors(path):
    corpus = exchange.Corpus(Path(path))
    for document in corpus.stored:
        yield torch.from_numpy(np.array(document, np.uint16 if corpus.width == 2 else np.int32))


def row(values):
    return {name: torch.tensor(one) for name, one in values.items()}


def write(corpus):
    optimize(fn=row, inputs=corpus.each_row, output_dir=corpus.rows, chunk_bytes="1MB", num_workers=1)
    optimize(
        fn=tensors, inputs=[str(corpus.home)], output_dir=corpus.theirs, chunk_size=4096 * LENGTH,
        item_loader=TokensLoader(LENGTH), num_workers=1,
    )  # fmt: skip


if __name__ == "__main__":  # optimize() starts processes
    exchange.main({"litdata": (read, write)})
