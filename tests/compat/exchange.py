"""What the scripts here share; each is run by the Python of one upstream, in which tokfmt is not installed.

    python SCRIPT.py FORMAT HOME

HOME holds one corpus, described by `corpus.json`, and what tokfmt wrote of it. A script compares what upstream reads
there with the documents, has upstream write them once more where it can, and leaves in `said.json` what it compared.
"""

import json
import sys
from pathlib import Path


class Corpus:
    """Documents without their separator; `ours` and `theirs` are where tokfmt and upstream write.

    Of a format that carries loss masks, `masks` has one of each stored document, `masked` the files that tokfmt wrote
    with them, one after the other, and `packed` one of rows of several documents. `rows` is where upstream writes such
    rows with `columns` beside their IDs.
    """

    def __init__(self, home):
        self.home = home
        told = json.loads((home / "corpus.json").read_text())
        self.documents, self.eos = told["documents"], told["eos"]
        self.ours, self.theirs = told["ours"], told["theirs"]
        self.masks, self.masked, self.packed = told["masks"], told["masked"], told["packed"]
        self.rows, self.columns = told["rows"], told["columns"]

    @property
    def each_row(self):
        """The columns of each of the rows that upstream writes as `rows`."""
        return [dict(zip(self.columns, row)) for row in zip(*self.columns.values())]

    @property
    def flags(self):
        """The masks of `stream`."""
        return [flag for mask in self.masks for flag in mask]

    @property
    def filled(self):
        return [document for document in self.documents if document]

    @property
    def stored(self):
        """Each document with the separator behind it, as most formats store it."""
        return [[*document, self.eos] for document in self.documents]

    @property
    def ours_stored(self):
        """What tokfmt stores in formats that mark where documents are: an empty one has no separator there."""
        return [[*document, self.eos] if document else [] for document in self.documents]

    @property
    def stream(self):
        return joined(self.stored)

    @property
    def width(self):
        return 2 if max(self.stream) < 1 << 16 else 4


def joined(documents):
    return [token for document in documents for token in document]


def same(found, expected):
    """Compares lists item by item; the first that differs ends the script."""
    if len(found) != len(expected):
        raise SystemExit(f"expected {len(expected)} items, found {len(found)}")
    for number, (one, other) in enumerate(zip(found, expected)):
        if one != other:
            raise SystemExit(f"item {number}: expected {str(other)[:60]}, found {str(one)[:60]}")


def labels(documents, masks):
    """The ids of each document that count, -100 in place of the others."""
    return [[one if flag else -100 for one, flag in zip(*pair)] for pair in zip(documents, masks)]


def documents(found, expected):
    same(found, expected)
    return f"{len(expected)} documents"


def windows(found, stream, length):
    """Windows of `length` tokens, one behind the other; a loader leaves out the rest."""
    same(found, [stream[at : at + length] for at in range(0, len(stream) // length * length, length)])
    return f"{len(found)} windows of {length}"


def main(exchanges):
    """Runs what `exchanges` has for the format: a function that reads, and one that writes, or None."""
    name, home = sys.argv[1], Path(sys.argv[2])
    read, write = exchanges[name]
    (home / "said.json").write_text("{}")  # upstream could be imported
    corpus = Corpus(home)
    said = {"read": read(corpus), "written": write is not None}
    if write is not None:
        write(corpus)
    (home / "said.json").write_text(json.dumps(said))
