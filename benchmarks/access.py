"""One document at random, of each flat format, against a bare pread of the same bytes."""

import json
import os

import numpy as np

from benchmarks.cases import case, convert, p50
from benchmarks.data import HOME

BLOCK = HOME / "stage1_block_0000.bin"
READ = 3000
STORED = {
    "stage1": "access/stage1_block_0000.bin",
    "modalities": "access/x.pbin",
    "megatron": "access/x_text_document.bin",
    "nanogpt": "access/train.bin",
    "llmc": "access/llmc.bin",
    "olmo": "access/x.npy",
    "datatrove": "access/x.ds",
    "litdata": "access/litdata",
}


class Access:
    name: str

    @property
    def path(self):
        return HOME / STORED[self.name]

    @property
    def places(self):
        return HOME / "access" / f"{self.name}.json"

    def prepare(self):
        """Also find where each document lies, and prove that the bytes there are its tokens."""
        self.path.parent.mkdir(exist_ok=True)
        if not self.path.exists():
            convert(BLOCK, self.path, to_format=self.name)
        dataset, places = self.opened(), []
        for number in np.random.default_rng(6).permutation(len(dataset))[: READ + READ // 4].tolist():
            document = dataset[number]
            start, stop = dataset.offsets(number, number + 1).tolist()
            if start == stop:
                continue
            first, last = (dataset.reader.locate(position) for position in (start, stop - 1))
            if first.path != last.path:
                continue  # of two files
            length = last.offset + last.width - first.offset
            with open(first.path, "rb") as file:
                found = np.frombuffer(os.pread(file.fileno(), length, first.offset), f"<u{first.width}")
            assert np.array_equal(found, document)
            places.append((number, str(first.path), first.offset, length))
        self.places.write_text(json.dumps(places[:READ]))

    def opened(self):
        import tokfmt

        return tokfmt.open(self.path, format=self.name, eos=50256)

    def peer(self, out):
        wanted = json.loads(self.places.read_text())
        files = {path: os.open(path, os.O_RDONLY) for path in {path for _, path, _, _ in wanted}}
        items = [(files[path], length, offset) for _, path, offset, length in wanted]
        return p50(lambda item: os.pread(*item), items)

    def tokfmt(self, out):
        numbers = [number for number, *_ in json.loads(self.places.read_text())]
        return p50(self.opened().__getitem__, numbers)


for _name in STORED:
    case(f"random access: one document of {_name}, p50 (peer: pread of its bytes)", ">= 0.5", "s", "seconds")(
        type(_name.title(), (Access,), {"name": _name})
    )
