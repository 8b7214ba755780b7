"""The parts of files: of every fixture, good and bad; and what they say, against pickle, struct, json and h5py."""

import pickle
import struct

from paths import FIXTURES

from tokfmt.core.format import Format
from tokfmt.formats.hdf5 import FORMAT as HDF5
from tokfmt.ops.show.parts import sections


def test_opening_is_instant_however_long_the_index(monkeypatch, tmp_path):
    from tokfmt.core.files import File

    path = tmp_path / "x.pbin"
    count = 200_000
    stored = pickle.dumps([(2 * i, 2) for i in range(count)])
    path.write_bytes(struct.pack("<QI", 2 * count, 2) + bytes(2 * count) + stored)
    read = []
    original = File.read
    monkeypatch.setattr(File, "read", lambda self, a, n: read.append(n) or original(self, a, n))
    raw = sections(path, format="modalities")
    assert sum(read) < 1 << 18
    index = next(section for section in raw.sections if section.title == "index")
    assert index.fields(5, 6)[0].value == "offset 10, length 2"
    assert index.count == count
    assert [f.name for f in index.fields(count - 2, count + 9)] == [f"entry {count - 2:,}", f"entry {count - 1:,}"]


def test_a_format_that_names_no_parts(tmp_path, monkeypatch):
    class Plain(Format):
        name, read_options, sniff, open, audit = "plain", HDF5.read_options, None, None, None

    monkeypatch.setattr("tokfmt.registry.get", lambda name: Plain())
    raw = sections(FIXTURES / "stage1" / "in.bin", format="plain")
    assert [f.name for f in raw.sections[0].fields(0, 9)] == ["size", "first bytes", "last bytes"]
