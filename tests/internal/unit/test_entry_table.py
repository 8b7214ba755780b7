"""Stretches of a pickled index, against pickle itself."""

import pickle
import pickletools

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.core.errors import FormatError
from tokfmt.core.files import File
from tokfmt.formats.pickled_index import EntryTable, decode


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("entries")


def table_of(home, raw, lead=b"lead"):
    path = home / "index"
    path.write_bytes(lead + raw)
    return EntryTable(File(path), len(lead), len(lead) + len(raw))


numbers = st.one_of(st.integers(0, 300), st.integers(0, 2**33), st.integers(0, 2**55))


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), st.lists(st.tuples(numbers, numbers), max_size=40), st.sampled_from([2, 3, 4, 5]))
def test_any_stretch(home, data, entries, protocol):
    before = decode._STEP
    decode._STEP = 4
    try:
        found = table_of(home, pickle.dumps(entries, protocol))
        for _ in range(4):
            a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(entries) + 3)] * 2)))
            some = found.read(a, b)
            assert list(zip(some.offsets.tolist(), some.lengths.tolist(), strict=True)) == entries[a:b]
            assert some.before.tolist() == [sum(n for _, n in entries[:i]) for i in range(a, min(b, len(entries)))]
        assert (found.count, found.error) == (len(entries), None)
        assert found.total == sum(n for _, n in entries)
    finally:
        decode._STEP = before


@pytest.mark.parametrize("protocol", [2, 4])
def test_many(home, protocol):
    """Several frames, batches and marks; where entries begin and how long they are, by pickletools."""
    entries = [(i * 40_000, i % 70_000) for i in range(20_000)]
    raw = pickle.dumps(entries, protocol)
    found = table_of(home, raw, b"")
    begins, ends, integers = [], [], []
    for opcode, _, at in pickletools.genops(raw):
        if opcode.name in ("BININT", "BININT1", "BININT2", "LONG1"):
            integers.append(at)
            if len(integers) % 2:
                begins.append(at)
        elif opcode.name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            ends.append(at + {"MEMOIZE": 1, "BINPUT": 2, "LONG_BINPUT": 5}[opcode.name])
    ends = ends[1:]  # the list's own memo
    for a, b in ((0, 5), (4090, 4100), (8192, 8193), (19_990, 20_000), (0, 20_000)):
        some = found.read(a, b)
        assert some.offsets.tolist() == [x for x, _ in entries[a:b]]
        assert some.positions.tolist() == begins[a:b]
        for position, end in list(zip(some.positions.tolist(), ends[a:b], strict=True))[:50]:
            assert found.size(position) == end - position


def test_reads_no_further_than_asked(home, monkeypatch):
    entries = [(i, 1) for i in range(300_000)]
    found = table_of(home, pickle.dumps(entries))
    read = []
    original = File.read
    monkeypatch.setattr(File, "read", lambda self, a, n: read.append(n) or original(self, a, n))
    assert found.read(10, 12).offsets.tolist() == [10, 11]
    assert sum(read) < 2 << 20


def test_up_to_the_damage(home):
    raw = bytearray(pickle.dumps([(i, 1) for i in range(2000)]))
    at = next(at for opcode, value, at in pickletools.genops(bytes(raw)) if value == 1234)
    raw[at] = ord("c")  # GLOBAL
    found = table_of(home, bytes(raw))
    assert found.read(1230, 1300).offsets.tolist() == [1230, 1231, 1232, 1233]
    assert found.count == 1234
    assert isinstance(found.error, FormatError) and found.error.offset == 4 + at
    assert np.array_equal(found.read(0, 3).offsets, [0, 1, 2])
