"""Layouts, damage and findings of packs: what was left by killed writers, merges, wrong options; and the check."""

import itertools
import json
import pickle
import random
import struct
import tracemalloc

import numpy as np
import pytest
import registered
from amount import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paths import FIXTURES

import tokfmt
from tokfmt.core.findings import Audit
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import Layout
from tokfmt.errors import CorruptError, FormatError, TokenRangeError, TokfmtError
from tokfmt.formats.modalities import FORMAT
from tokfmt.formats.modalities.options import ReadOptions
from tokfmt.plugin import Confidence, Hints, Separators
from tokfmt.testing import sequences, write

BAD = FIXTURES / "bad" / "modalities"
GOOD = FIXTURES / "modalities"
EOS = 50256
DOCUMENTS = [[5, 6, 7, EOS], [8, EOS], [9, 10, 11, 12, 13, EOS], [14, 15, EOS]]
QUICK = settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))


def data(documents, kind):
    return b"".join(struct.pack(f"{kind[0]}{len(d)}{kind[1]}", *d) for d in documents)


def index(documents, width, base=0, shifts=None):
    starts = itertools.accumulate((len(d) * width for d in documents), initial=base)
    shifts = shifts or [0] * len(documents)
    return pickle.dumps([(a + s, len(d) * width) for a, d, s in zip(starts, documents, shifts, strict=False)], 4)


def stored(path, **options):
    return sequences(FORMAT.open([path], ReadOptions(**options), Hints()))


def layout(path, **options):
    return FORMAT.open([path], ReadOptions(**options), Hints()).info.extras["layout"]


def codes(path, **options):
    return [finding.code for finding in FORMAT.audit(path, ReadOptions(**options))]


@pytest.fixture
def made(tmp_path):
    def make(*parts):
        path = tmp_path / "x.pbin"
        path.write_bytes(b"".join(parts))
        return path

    return make


def test_header_of_another_length(made):
    path = made(struct.pack("<QI", 18, 2), data(DOCUMENTS, "<H"), index(DOCUMENTS, 2))
    assert stored(path) == DOCUMENTS
    assert codes(path) == ["TF106"]


def test_old_header_of_another_length_only_when_named(made):
    path = made(struct.pack(">Q", 16), data(DOCUMENTS, ">I"), index(DOCUMENTS, 4, 8))
    with pytest.raises(CorruptError, match="If you know the layout, give it with --from-opt layout=NAME"):
        stored(path)
    assert stored(path, layout="A") == DOCUMENTS


@pytest.mark.parametrize(("kind", "width"), [(">I", 4), (">H", 2)])
def test_width_of_layout_a(made, kind, width):
    path = made(struct.pack(">Q", 15 * width), data(DOCUMENTS, kind), index(DOCUMENTS, width, 8))
    assert stored(path) == DOCUMENTS
    assert stored(path, width=width) == DOCUMENTS


def test_width_of_layout_a_defaults_to_four(made):
    """Documents that end in different ids tell nothing."""
    documents = [[1, 2], [3, 4], [5, 6, 7, 8]]
    path = made(struct.pack(">Q", 32), data(documents, ">I"), index(documents, 4, 8))
    assert stored(path) == documents
    assert stored(path, width=2)[0] == [0, 1, 0, 2]


# merges


@pytest.mark.parametrize(
    ("shifts", "base", "name", "entry"),
    [
        ([0, -12, -12, -24], 0, "E-D", 1),
        ([0, 0, 0, -36], 0, "E-D", 3),
        ([0, -12, -24, -12], 0, "E-D", 1),
        ([0, -12, -24, -36], 12, "E-C", 1),
        ([0, 0, 0, 0], -12, "E-D", 0),
        ([0, -12, -12, -12], -12, "E-D", 0),
        ([0, 0, 0, 0], -48, "E-D", 0),
    ],
)
def test_merged(made, shifts, base, name, entry):
    path = made(struct.pack("<QI", 30, 2), data(DOCUMENTS, "<H"), index(DOCUMENTS, 2, base, shifts))
    assert stored(path) == DOCUMENTS
    assert layout(path) == name
    assert codes(path)[0] == "TF107"
    [note] = FORMAT.open([path], ReadOptions(), Hints()).info.notes
    assert f"are shifted from entry {entry} on" in note


def test_finding_of_a_merge():
    [finding] = FORMAT.audit(GOOD / "E_D_2byte_gpt2.pbin", ReadOptions())
    assert (finding.code, finding.severity, finding.offset) == ("TF107", "error", 1362)
    assert finding.message == (
        "index entry 5 at byte 1,362: expected offset 204, found 192 (merged by a tool that shifts later files by 12 bytes)"
    )
    assert finding.remedy == (
        "Documents can be read by length, as tokfmt does; Modalities reads shifted ones: convert it"
    )


@QUICK
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12), order=st.randoms())
def test_an_index_in_another_order_is_never_taken_for_a_merge(tmp_path_factory, lengths, order):
    """Offsets that are right in another order: reading by length would give other documents than those named."""
    documents = [[number] * (length - 1) + [EOS] for number, length in enumerate(lengths)]
    entries = pickle.loads(index(documents, 4))
    shuffled = [(a, n) for a, n in entries]
    order.shuffle(shuffled)
    path = tmp_path_factory.getbasetemp() / "shuffled.pbin"
    content = data(documents, "<I")
    path.write_bytes(struct.pack("<QI", len(content), 4) + content + pickle.dumps(shuffled, 4))
    if shuffled == entries:
        assert stored(path) == documents
    else:
        with pytest.raises(CorruptError, match="overlap or leave a gap|in another order"):
            stored(path)
        assert set(codes(path)) & {"TF108", "TF109"}


def test_an_entry_without_tokens_at_a_wrong_offset_is_misplaced(tmp_path):
    """The documents beside it are in order, and no other order is said."""
    path, content = tmp_path / "x.pbin", bytes(range(20))
    for at, found in ((8, []), (3, ["TF108"])):
        path.write_bytes(struct.pack("<QI", 20, 2) + content + pickle.dumps([(0, 8), (at, 0), (8, 12)], 4))
        assert [code for code in codes(path) if code != "TF118"] == found


# what is read is right or refused


@pytest.mark.parametrize(("entry", "more"), [(0, 2), (7, 4), (7, 12), (7, -4), (38, 2)])
def test_the_entry_whose_length_is_wrong_is_named_where_it_is(tmp_path, entry, more):
    """The others end where the next one begins."""
    documents = [list(range(1, 4 + k % 9)) for k in range(40)]
    lengths = [2 * len(one) for one in documents]
    starts = [sum(lengths[:k]) for k in range(40)]
    changed = [length + more * (k == entry) for k, length in enumerate(lengths)]
    tokens = np.concatenate(documents).astype("<u2").tobytes()
    index = pickle.dumps(list(zip(starts, changed, strict=True)))
    path = tmp_path / "x.pbin"
    path.write_bytes(struct.pack("<QI", len(tokens), 2) + tokens + index)
    (finding,) = [one for one in tokfmt.check(path)[0].findings if one.severity == "error"]
    sections = FORMAT.inspect([path], ReadOptions(), Hints()).sections()
    (wrong,) = [one for one in next(s for s in sections if s.title == "index").fields(0, 40) if one.wrong]
    assert (finding.code, finding.offset) == ("TF102", wrong.offset)
    assert wrong.name == f"entry {entry}" and f"entry {entry}" in finding.message
    assert f"length {lengths[entry] + more}" in wrong.value


def test_one_changed_byte_never_changes_what_is_read_by_much(made):
    """Any byte of header or index may change: the documents are the same, or there is an error, or the width is another."""
    whole = struct.pack("<QI", 30, 2) + data(DOCUMENTS, "<H") + index(DOCUMENTS, 2)
    rng = random.Random(4)
    for at in [*range(12), *range(42, len(whole))]:
        for value in {0, 1, 2, 3, 4, 12, 0x80, 255, whole[at] ^ 1, whole[at] + 1 & 255, rng.randrange(256)} - {
            whole[at]
        }:
            path = made(whole[:at], bytes([value]), whole[at + 1 :])
            try:
                found = stored(path)
            except FormatError as error:
                assert "\n" not in str(error)
                assert any(f.severity == "error" for f in FORMAT.audit(path, ReadOptions()))
            else:
                assert found == DOCUMENTS or (at == 8 and value == 1)


def test_check_lists_everything(made):
    documents = [[5, 6, 7, EOS], [8, EOS], [9, 10, 11, 12, 13, 3], [14, 15, EOS]]
    entries = [(0, 8), (9, 5), (13, 11), (24, 6), (30, 0)]
    path = made(struct.pack("<QI", 29, 2), data(documents, "<H"), pickle.dumps(entries, 4))
    assert codes(path) == ["TF106", "TF110", "TF118", "TF108"]
    path = made(struct.pack(">QI", 0, 3), bytes([0, 0, 5, 0, 0, 9]) * 3, pickle.dumps([(24, 6), (30, 6), (25, 6)], 4))
    assert codes(path) == ["TF105", "TF108", "TF113", "TF114"]


def test_common_last_id_is_not_called_a_separator(made):
    documents = [[5, EOS, 7, EOS, EOS], *DOCUMENTS]
    path = made(struct.pack("<QI", 40, 2), data(documents, "<H"), index(documents, 2))
    for eos_id, name in ((None, "the usual last ID"), (EOS, "the separator")):
        found = list(FORMAT.audit(path, ReadOptions(), Audit(deep=True, eos_id=eos_id)))
        [inside] = [finding.message for finding in found if finding.code == "TF121"]
        assert inside == f"{name} {EOS:,} occurs inside documents 2x (first: document 0)"


def test_check_of_how_documents_end(made):
    documents = [*DOCUMENTS, [1, 2, 3], [4, 4], [7, EOS]]
    path = made(struct.pack("<QI", 44, 2), data(documents, "<H"), index(documents, 2))
    [finding] = FORMAT.audit(path, ReadOptions())
    assert (finding.code, finding.severity) == ("TF116", "warning")
    assert finding.message == "2 of 7 documents do not end with 50,256, as most do (first: document 4)"
    assert path.read_bytes()[finding.offset : finding.offset + 2] == struct.pack("<H", 3)
    documents = [[i, i + 1] for i in range(20)]
    path = made(struct.pack("<QI", 80, 2), data(documents, "<H"), index(documents, 2))
    assert codes(path) == ["TF117"]


NO_FINDING = {"A": ["TF114", "TF119"], "B": ["TF114"], "C": ["TF115"], "D": [], "E-D": ["TF107"]}
NO_FINDING |= {"E-C": ["TF107", "TF115"], "E-B": ["TF107", "TF114"]}


def test_check_of_goldens():
    packs = json.loads((GOOD / "expected.json").read_text())["pbin"]
    for name, entry in packs.items():
        if entry["layout"] in NO_FINDING and "3byte" not in name:
            assert codes(GOOD / name) == NO_FINDING[entry["layout"]], name
    assert codes(GOOD / "D_3byte_wide.pbin") == ["TF113"]
    assert codes(GOOD / "wild_branch_only_P2_header4_len_plus3.pbin") == ["TF106", "TF120", "TF119"]
    assert codes(GOOD / "wild_branch_only_A_broken_offsets_6bcc334f.pbin") == ["TF106", "TF112", "TF120", "TF119"]
    assert codes(GOOD / "wild_branch_only_A_len_plus1_b8211997.pbin") == ["TF106", "TF111", "TF120", "TF119"]
    assert codes(GOOD / "wild_branch_only_P0_noheader.pbin", layout="P0") == ["TF120"]


EXPECTED = json.loads((BAD / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED)
def test_check_of_bad_files(name, monkeypatch):
    """What cannot be read has an error among its findings, in the words of the reader."""
    monkeypatch.chdir(BAD)
    case = EXPECTED[name]
    options = ReadOptions(**case.get("options", {}))
    found = list(FORMAT.audit((BAD / name).relative_to(BAD), options))
    errors = [f for f in found if f.severity == "error"]
    if "error" in case:
        said = [f"{name}: {f.message}. {f.remedy}" for f in errors]
        assert case["message"] in said or (
            errors and not (BAD / name).stat().st_size
        )  # an empty file is named by `open`
    elif "merged" in name or "killed" in name or "another_program" in name:
        assert [f.code for f in errors] in (["TF105"], ["TF106"], ["TF107"])
    else:
        assert errors == []


def test_check_of_what_is_not_there(tmp_path):
    assert codes(tmp_path / "no.pbin") == ["TF101"]
    assert codes(tmp_path) == ["TF101"]


# the writer


@QUICK
@given(lists=st.lists(st.lists(st.sampled_from([0, 1, 2]), max_size=6), min_size=1, max_size=8))
def test_separators_where_they_are_missing(tmp_path, lists):
    lines = tmp_path / "x.jsonl"
    lines.write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in lists))
    tokfmt.convert(lines, tmp_path / "x.pbin", eos=2, overwrite=True, executor="serial")
    wanted = [s if not s or s[-1] == 2 else [*s, 2] for s in lists]
    assert sequences(tokfmt.open(tmp_path / "x.pbin", eos="none").reader) == wanted


def test_separators_inside_documents_are_kept(tmp_path):
    lists = [[1, EOS, 2], [EOS], [], [EOS, EOS], [3]]
    path = write(FORMAT, tmp_path / "x.pbin", Ragged.of(lists), eos_id=EOS)
    assert sequences(tokfmt.open(path, eos=EOS).reader) == lists


@pytest.mark.parametrize(
    ("top", "eos", "width"), [(255, 0, 1), (256, 0, 2), (0, 256, 2), (65535, 7, 2), (65536, 7, 4), (2**32 - 1, 7, 4)]
)
def test_width_follows_from_the_largest_id(tmp_path, top, eos, width):
    path = write(FORMAT, tmp_path / "x.pbin", Ragged.of([[top]]), eos_id=eos)
    assert struct.unpack("<QI", path.read_bytes()[:12]) == (2 * width, width)
    assert sequences(tokfmt.open(path, eos=eos).reader) == [[top]]


def test_ids_that_do_not_fit(tmp_path):
    for options, limit in (({"width": 1}, 255), ({"width": 2}, 65535), ({"layout": "A", "width": 2}, 65535)):
        with pytest.raises(
            TokenRangeError, match=rf"token ID 65,536 at position 1 is outside 0\.\.{limit:,}\. --to-opt"
        ):
            write(FORMAT, tmp_path / f"{limit}{len(options)}.pbin", Ragged.of([[1, 65536]]), eos_id=0, options=options)


def test_eight_bytes_a_document(tmp_path):
    count = 300_000
    path = write(
        FORMAT, tmp_path / "x.pbin", Ragged(np.arange(count, dtype=np.uint32) % 9, np.arange(count + 1)), eos_id=9
    )
    tracemalloc.start()
    reader = FORMAT.open([path], ReadOptions(), Hints())
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reader.info.sequences == count
    assert kept < 8 * count + (1 << 20)
    assert peak < 20 * count + (12 << 20)


def test_readers_survive_pickling(tmp_path):
    path = write(FORMAT, tmp_path / "x.pbin", Ragged.of([[1, 2], [3]]), eos_id=9)
    reader = pickle.loads(pickle.dumps(FORMAT.open([path], ReadOptions(), Hints())))
    assert sequences(reader) == [[1, 2, 9], [3, 9]]
    path.write_bytes(path.read_bytes() + b"!")
    with pytest.raises(TokfmtError, match="changed while it was being read"):
        sequences(pickle.loads(pickle.dumps(reader)))


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("order", ["little", "big"])
def test_a_glimpse_shows_the_tokens_of_a_pack_without_its_index(tmp_path, width, order):
    tokens = [5, 0, 7, 250, 9, 0] if width == 1 else [5, 0, 70, 250 + (1 << 8 * width - 1), 9, 0]
    data = b"".join(token.to_bytes(width, order) for token in tokens)
    head = len(data).to_bytes(8, order) + width.to_bytes(4, order)
    path = tmp_path / "x.pbin"
    path.write_bytes(head + data + pickle.dumps([(0, 2 * width), (2 * width, 4 * width)], protocol=4))
    reader = FORMAT.glimpse([path], ReadOptions(), Hints())
    assert reader.info.layout is Layout.STREAM and reader.info.separators is Separators.BETWEEN
    assert reader.tokens(0, len(tokens)).tolist() == tokens
    assert reader.locate(3).offset == 12 + 3 * width
    assert (reader.pieces(0, 2) is None) == (width == 3)
    assert FORMAT.glimpse([path], ReadOptions(layout="P0"), Hints()) is None
    path.write_bytes(head + data + bytes(40))  # no index where the header says
    assert FORMAT.glimpse([path], ReadOptions(), Hints()) is None


@pytest.mark.parametrize("missing", [0, 1, 5])
def test_a_glimpse_of_a_pack_that_was_cut_shows_the_tokens_that_are_there(tmp_path, missing):
    data = np.arange(50, 90, dtype="<u2").tobytes()
    path = tmp_path / "x.pbin"
    path.write_bytes((len(data).to_bytes(8, "little") + (2).to_bytes(4, "little") + data)[: 12 + len(data) - missing])
    reader, tokens = FORMAT.glimpse([path], ReadOptions(), Hints()), (len(data) - missing) // 2
    assert reader.info.tokens == tokens
    assert reader.tokens(0, tokens).tolist() == list(range(50, 50 + tokens))


# killed writers and headers that disagree


@pytest.mark.parametrize(
    ("header", "kind", "base", "name"),
    [
        (struct.pack("<QI", 0, 2), "<H", 0, "D"),
        (struct.pack("<QI", 0, 2), "<H", 12, "C"),
        (struct.pack(">QI", 0, 2), ">H", 12, "B"),
        (struct.pack(">Q", 0), ">I", 8, "A"),
        (struct.pack(">I", 0), ">I", 4, "P"),
    ],
)
def test_killed_before_the_last_step(made, header, kind, base, name):
    path = made(header, data(DOCUMENTS, kind), index(DOCUMENTS, struct.calcsize(kind), base))
    assert registered.sniffed(FORMAT, path) is Confidence.NAME
    assert stored(path) == DOCUMENTS
    assert layout(path) == name
    assert codes(path)[0] == "TF105"
    [note] = FORMAT.open([path], ReadOptions(), Hints()).info.notes
    assert note.startswith("the header states 0 bytes of data (its writer was killed")


def test_layout_a_whose_first_token_looks_like_a_width(made):
    for first in (1, 2, 3, 4, 1 << 24, 2 << 24):
        documents = [[first, 7, EOS], [first, EOS]]
        path = made(struct.pack(">Q", 20), data(documents, ">I"), index(documents, 4, 8))
        assert stored(path) == documents
        assert layout(path) == "A"
        assert registered.sniffed(FORMAT, path) is Confidence.CERTAIN


def test_nothing(tmp_path):
    empty = write(FORMAT, tmp_path / "d.pbin", Ragged.of([]), eos_id="none")
    assert empty.read_bytes() == struct.pack("<QI", 0, 1) + b"\x80\x04]\x94."
    old = write(FORMAT, tmp_path / "a.pbin", Ragged.of([]), eos_id=EOS, options={"layout": "A"})
    assert old.read_bytes() == bytes(8) + b"\x80\x04]\x94."
    for path in (empty, old):
        assert registered.sniffed(FORMAT, path) is Confidence.CERTAIN
        assert stored(path) == []
        assert codes(path) in ([], ["TF114", "TF119"])


# size


def test_one_document_of_64_gib(tmp_path):
    """A sparse file: nothing is read or allocated but the index and what is asked for."""
    tokens = 1 << 35
    path = tmp_path / "big.pbin"
    with path.open("wb") as out:
        out.write(struct.pack("<QI", 2 * tokens, 2))
        out.seek(12 + 2 * tokens - 4)
        out.write(struct.pack("<HH", 7, EOS))
        out.write(pickle.dumps([(0, 2 * tokens)], 4))
    tracemalloc.start()
    assert registered.sniffed(FORMAT, path) is Confidence.CERTAIN
    reader = tokfmt.open(path, eos=EOS).reader
    assert reader.info.tokens == tokens - 1
    assert reader.tokens(tokens - 3, tokens - 1).tolist() == [0, 7]
    assert codes(path) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
