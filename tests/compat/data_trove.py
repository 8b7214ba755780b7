"""datatrove: the dataset that nanotron reads, with positions from the index, and TokenizedFile."""

from pathlib import Path

import exchange
import numpy as np
from datatrove.pipeline.tokens.tokenizer import TokenizedFile
from datatrove.utils.dataset import DatatroveFileDataset

LENGTH = 63  # and one to predict


def read(corpus):
    found = DatatroveFileDataset(corpus.ours, seq_len=LENGTH, token_size=corpus.width, return_positions=True)
    rows = [found[number] for number in range(len(found))]
    ends = set(np.cumsum([len(document) for document in corpus.stored]).tolist())
    positions, last = [], -1
    for at in range(len(rows) * (LENGTH + 1)):
        last = 0 if at in ends or at % (LENGTH + 1) == 0 else last + 1
        positions.append(last)
    exchange.same([one for row in rows for one in row["positions"].tolist()], positions)
    return exchange.windows([row["input_ids"].tolist() for row in rows], corpus.stream, LENGTH + 1) + " with positions"


def write(corpus):
    path = Path(corpus.theirs)
    out = TokenizedFile(str(path.parent), path.name, token_size=corpus.width, save_final_metadata=True)
    for document in corpus.stored:
        out.write(document, None)
    out.close()


exchange.main({"datatrove": (read, write)})
