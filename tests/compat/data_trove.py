"""datatrove: the dataset that nanotron reads, with positions from the index; its merger and TokenizedFile, with masks."""

from pathlib import Path

import exchange
import numpy as np
from datatrove.pipeline.tokens.merger import DocumentTokenizerMerger
from datatrove.pipeline.tokens.tokenizer import TokenizedFile
from datatrove.utils.dataset import DatatroveFileDataset

LENGTH = 63  # and one to predict


def read(corpus):
    found = DatatroveFileDataset(corpus.ours, seq_len=LENGTH, token_size=corpus.width, return_positions=True)
    rows = [found[number] for number in range(len(found))]
    ends, counts = np.unique(np.cumsum([len(document) for document in corpus.ours_stored]), return_counts=True)
    skipped = set((ends[counts > 1] // (LENGTH + 1)).tolist())  # where the index repeats an end, upstream is wrong
    for number in sorted({*range(len(rows))} - skipped):
        first, last, positions = number * (LENGTH + 1), -1, []
        for at in range(first, first + LENGTH + 1):
            last = 0 if at in ends or at == first else last + 1
            positions.append(last)
        exchange.same(rows[number]["positions"].tolist(), positions)
    said = exchange.windows(
        [row["input_ids"].tolist() for row in rows], exchange.joined(corpus.ours_stored), LENGTH + 1
    )
    return f"{said} with positions, {merged(corpus)}"


def merged(corpus):
    """Several files with masks through upstream's merger, which reads tokens, index and masks."""
    folder, out = Path(corpus.masked[0]).parent, corpus.home / "merged"
    DocumentTokenizerMerger(str(folder), str(out), "all", shuffle=False, save_loss_metadata=True)(None, 0, 1)
    (tokens,), (masks,) = out.glob("*.ds"), out.glob("*.ds.loss")
    exchange.same(np.fromfile(tokens, f"<u{corpus.width}").tolist(), corpus.stream)
    exchange.same(list(masks.read_bytes()), corpus.flags)
    return f"{len(corpus.masked)} files with masks merged"


def write(corpus):
    path = Path(corpus.theirs)
    out = TokenizedFile(
        str(path.parent), path.name, token_size=corpus.width, save_final_metadata=True, save_loss_metadata=True
    )  # fmt: skip
    for document, mask in zip(corpus.stored, corpus.masks):
        out.write(document, np.array(mask, bool))
    out.close()


exchange.main({"datatrove": (read, write)})
