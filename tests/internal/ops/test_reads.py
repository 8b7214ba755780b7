"""What opening a dataset reads: counted in reads, bytes, statuses and listings, never in time."""

import struct

import numpy as np
import pytest
from paths import FIXTURES
from reads import asked_of

import tokfmt
from tokfmt import show
from tokfmt.core.errors import CorruptError, TokfmtError
from tokfmt.formats import megatron
from tokfmt.formats.modalities import layout
from tokfmt.formats.pickled_index import decode
from tokfmt.ops.source.stored import decided

EOS = 50256
DOCUMENTS, LENGTH = 100_000, 33


# looks at the ends of sequences


def megatron_pair(prefix, documents):
    """A pair of documents of one length; returns the path of its tokens."""
    count, length = documents.shape
    width, code = documents.dtype.itemsize, {2: 8, 4: 4}[documents.dtype.itemsize]
    path = prefix.with_name(f"{prefix.name}.bin")
    documents.tofile(path)
    with path.with_suffix(".idx").open("wb") as index:
        index.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, count, count + 1))
        np.full(count, length, "<i4").tofile(index)
        (np.arange(count) * length * width).astype("<i8").tofile(index)
        np.arange(count + 1).astype("<i8").tofile(index)
    return path


def documents_of(count, length, seed=0):
    found = np.random.default_rng(seed).integers(0, 50_000, (count, length)).astype("<u2")
    found[:, -1] = EOS
    return found


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize(
    ("change", "eos_id"),
    [
        (lambda documents: None, EOS),
        (lambda documents: documents.__setitem__((DOCUMENTS - 1, -1), 7), None),  # the last does not end with it
        (lambda documents: documents.__setitem__((0, 3), EOS), None),  # the first has it inside
        (lambda documents: documents.__setitem__((slice(66_000, 68_000), -1), 7), None),  # some in the middle do not
        (lambda documents: documents.__setitem__((slice(None), -1), 50_000), 50_000),
    ],
)
def test_separator_inferred_from_the_ends_of_sequences(tmp_path, change, eos_id, few):
    documents = documents_of(DOCUMENTS, LENGTH)
    documents[documents == 50_000] = 0
    change(documents)
    path = megatron_pair(tmp_path / "x_document", documents)
    with tokfmt.open(path, eos="none") as dataset:
        assert decided(dataset.reader, None, None, None, None, path, few=few)[0].eos_id == eos_id


# a long index of Megatron


LONG = 200_000


@pytest.fixture
def long_index(monkeypatch, tmp_path):
    """An index that is long by a lower limit, in blocks that are as much shorter."""
    monkeypatch.setattr(megatron, "_LONG", 1 << 16)
    monkeypatch.setattr(megatron, "_BLOCK", 64)
    return megatron_pair(tmp_path / "x_document", documents_of(LONG, 9))


def entry(path, column, number, value):
    """Change an entry of an index."""
    at, kind = {"lengths": (34, "<i4"), "pointers": (34 + 4 * LONG, "<i8"), "documents": (34 + 12 * LONG, "<i8")}[
        column
    ]
    width = np.dtype(kind).itemsize
    with path.with_suffix(".idx").open("r+b") as index:
        index.seek(at + width * number)
        index.write(np.array(value, kind).tobytes())


@pytest.mark.parametrize("number", [0, 77_777, LONG - 1])
def test_long_index_is_read_only_where_needed(long_index, number):
    with asked_of(long_index.parent) as asked:
        preview = show(long_index, number)
        (ids,) = [shown.ids for shown in preview.shown]
    assert ids == documents_of(LONG, 9)[number, :-1].tolist()
    assert (preview.sequences, preview.tokens) == (LONG, 8 * LONG)
    assert asked.bytes_of(".idx") < 400_000  # of 4,000,042
    assert any("tokfmt check compares all 200,000" in note for note in preview.notes)


def test_documents_of_several_sequences(monkeypatch, tmp_path):
    """The same documents as when the whole index is read: of none, of one, and of many sequences."""
    monkeypatch.setattr(megatron, "_BLOCK", 64)
    monkeypatch.setattr(megatron, "_AT_ONCE", 100)
    generator = np.random.default_rng(3)
    lengths = generator.integers(0, 9, 5_000)
    pointers = 2 * (np.cumsum(lengths) - lengths)
    marks = np.sort(np.concatenate([[0, 0, 5_000], generator.integers(0, 5_000, 1_500)]))
    marks[700:] = np.maximum(marks[700:], 4_900)  # one of thousands
    path = tmp_path / "x_document.bin"
    generator.integers(0, 999, int(lengths.sum())).astype("<u2").tofile(path)
    with path.with_suffix(".idx").open("wb") as index:
        index.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(marks)))
        for column, kind in ((lengths, "<i4"), (pointers, "<i8"), (marks, "<i8")):
            column.astype(kind).tofile(index)
    for options in ({}, {"unit": "sequences"}):
        whole = [one.ids for one in show(path, ":", eos="none", options=options).shown]
        with monkeypatch.context() as patch:
            patch.setattr(megatron, "_LONG", 0)
            needed = show(path, ":", eos="none", options=options)
            assert [one.ids for one in needed.shown] == whole
            assert any("only the entries that were needed" in note for note in needed.notes)


@pytest.mark.parametrize(("column", "value"), [("pointers", 4), ("lengths", 8), ("documents", 5), ("documents", -1)])
def test_an_entry_that_is_read_and_contradicts_another_is_an_error(long_index, column, value):
    entry(long_index, column, 12_345, value)
    with pytest.raises(CorruptError, match="Convert it: tokfmt then compares the whole index"):
        list(show(long_index, "12344:12347", eos="none").shown)
    (shown,) = show(long_index, 5, eos=EOS).shown
    assert shown.ids == documents_of(LONG, 9)[5, :-1].tolist()


@pytest.mark.parametrize(
    ("column", "number", "value"),
    [
        ("pointers", 0, 2),
        ("pointers", LONG - 1, -5),
        ("lengths", LONG - 1, 1),
        ("documents", LONG, 0),
        ("documents", 0, 1),
    ],
)
def test_a_long_index_that_does_not_add_up_is_read_whole(long_index, column, number, value):
    entry(long_index, column, number, value)
    for unit in ("documents", "sequences"):
        try:
            notes = show(long_index, 7, eos="none", options={"unit": unit}).notes
        except CorruptError as error:
            assert "expected" in str(error)  # as of an index that is not long
        else:
            assert not any("only the entries" in note for note in notes)


@pytest.mark.parametrize("odd", [0, 3])
def test_several_long_indexes(monkeypatch, tmp_path, odd):
    """A folder of prefixes, of which the index of one does not add up and is read whole: the same sequences."""
    everything, at = documents_of(3_000, 9), 0
    for number, count in enumerate((1_000, 1, 999, 1_000)):
        path = megatron_pair(tmp_path / f"{number}_document", everything[at : at + count])
        at += count
    with path.with_name(f"{odd}_document.idx").open("r+b") as index:
        index.seek(34 + 4 * 1_000)
        index.write(b"\1")  # the first pointer
    selections = ("0", "999:1002", "1999:2001", "2999", "-3:", ":")
    whole = [[one.ids for one in show(tmp_path, selection).shown] for selection in selections]
    monkeypatch.setattr(megatron, "_LONG", 1 << 10)
    monkeypatch.setattr(megatron, "_BLOCK", 16)
    assert [[one.ids for one in show(tmp_path, selection).shown] for selection in selections] == whole
    preview = show(tmp_path, 1500)
    assert preview.sequences == 3_000
    assert sum("only the entries that were needed" in note for note in preview.notes) == 3
    assert any("pointers contradict the lengths" in note for note in preview.notes)


# a long index of a pack


@pytest.fixture
def long_packs(monkeypatch):
    """Indexes of packs are long by a lower limit, and decoded in batches that are as much shorter."""
    monkeypatch.setattr(layout, "_LONG", 0)
    monkeypatch.setattr(layout, "_FEW", 1)
    monkeypatch.setattr(decode, "_ENTRIES", 1)
    monkeypatch.setattr(decode, "_BURST", 1)
    monkeypatch.setattr(decode, "_SMALL", 1 << 20)  # no batch has so many bytes: all is decoded opcode by opcode


PACKS = sorted([*(FIXTURES / "modalities").glob("*.pbin"), *(FIXTURES / "bad" / "modalities").glob("*.pbin")])


@pytest.mark.parametrize("path", PACKS, ids=lambda path: path.stem)
def test_the_first_documents_of_a_pack_are_those_of_the_whole(path, request):
    """A beginning never shows other documents than the whole index does, nor another error than a refusal."""

    def first(count):
        try:
            return [shown.ids for shown in show(path, f":{count}", eos="none").shown]
        except TokfmtError as error:
            return error

    whole = [first(count) for count in (1, 2, 5)]
    request.getfixturevalue("long_packs")
    some = [first(count) for count in (1, 2, 5)]
    for before, after in zip(whole, some, strict=True):
        if isinstance(before, list):
            assert after == before
        elif isinstance(after, list):  # the part of the index that is wrong was not read
            assert any("documents of the index were read" in note for note in show(path, ":1", eos="none").notes)
        else:
            assert str(after) == str(before)


def test_enough_packs_are_read_in_part(long_packs):
    """The law above says something: of most sound packs, the beginning of the index is read."""
    noted = [path.stem for path in PACKS if _reads_in_part(path)]
    assert len(noted) >= 12, noted
    assert "control_d" in noted


def _reads_in_part(path):
    try:
        return any("of the index were read" in note for note in show(path, 0, eos="none").notes)
    except TokfmtError:
        return False
