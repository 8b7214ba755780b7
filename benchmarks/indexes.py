"""Indexes: of raw text, and the pickled list both ways."""

import json
import pickle
import queue
import threading

import numpy as np

from benchmarks.cases import case
from benchmarks.data import HOME, ascii_corpus

REPEATS = 16  # of work that is over sooner than Python has started


class RawIndex:
    """The peer: a thread that reads lines and asks where they are, a queue, a thread that parses each, a pickled list."""

    validate = True
    repeats = REPEATS

    def corpus(self):
        return HOME / "corpus.jsonl"

    def prepare(self):
        self.corpus()

    def peer(self, out):
        lines, index, size = queue.Queue(), [], self.corpus().stat().st_size

        def read():
            with open(self.corpus(), "rb") as file:
                at = file.tell()
                while at < size:
                    line = file.readline()
                    lines.put((at, line.removesuffix(b"\n")))
                    at = file.tell()
            lines.put(None)

        def parse():
            while (item := lines.get()) is not None:
                json.loads(item[1])
                index.append((item[0], len(item[1])))

        threads = [threading.Thread(target=read), threading.Thread(target=parse)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (out / "x.idx").write_bytes(pickle.dumps(index))
        return size

    def tokfmt(self, out):
        from tokfmt.formats.jsonl.index import write_index

        for _ in range(self.repeats):
            write_index(self.corpus(), out / "x.idx", validate=self.validate, overwrite=True)
        return self.repeats * self.corpus().stat().st_size


class Ascii(RawIndex):
    def corpus(self):
        return ascii_corpus()


@case("raw index, every line validated as JSON, 1 KB lines, mostly ASCII", ">= 6", "bytes")
class RawIndexAscii(Ascii):
    pass


@case("raw index, every line validated as JSON, mixed scripts", ">= 6", "bytes")
class RawIndexMixed(RawIndex):
    pass


@case("raw index, lines only, 1 KB lines, mostly ASCII", ">= 40", "bytes")
class RawIndexOnly(Ascii):
    validate = False
    repeats = 4 * REPEATS


ENTRIES = 10_000_000


def index_file():
    path = HOME / "index.pickle"
    if not path.exists():
        lengths = np.random.default_rng(4).integers(20, 4000, ENTRIES) * 2
        offsets = np.cumsum(lengths) - lengths
        path.write_bytes(pickle.dumps(list(zip(offsets.tolist(), lengths.tolist(), strict=True))))
    return path


@case("load a pickled index of 10 M entries", ">= 2, <= 200 MB", "entries")
class LoadIndex:
    """Both keep all entries: the peer as the list that it is, tokfmt as two arrays, 160 MB."""

    def prepare(self):
        index_file()

    def peer(self, out):
        return len(pickle.loads(index_file().read_bytes()))

    def tokfmt(self, out):
        from tokfmt.files.file import File
        from tokfmt.formats.pickled_index import read_entries

        file, kept, at = File(index_file()), np.empty((2, ENTRIES), np.int64), 0
        for offsets, lengths in read_entries(file, 0, file.size, 1 << 40):
            kept[0, at : at + len(offsets)], kept[1, at : at + len(offsets)] = offsets, lengths
            at += len(offsets)
        return at


@case("write a pickled index of 10 M entries", ">= 5, <= 200 MB", "entries")
class WriteIndex:
    def _lengths(self):
        return np.random.default_rng(4).integers(20, 4000, ENTRIES) * 2

    def peer(self, out):
        index, offset = [], 0
        for length in self._lengths().tolist():
            index.append((offset, length))
            offset += length
        (out / "x").write_bytes(pickle.dumps(index))
        return len(index)

    def tokfmt(self, out):
        from tokfmt.formats.pickled_index import write_entries

        def batches():
            every, end = self._lengths(), 0
            for a in range(0, ENTRIES, 65536):
                lengths = every[a : a + 65536]
                ends = np.cumsum(lengths) + end
                yield ends - lengths, lengths
                end = ends[-1]

        with open(out / "x", "wb") as file:
            file.writelines(write_entries(ENTRIES, batches()))
        return ENTRIES
