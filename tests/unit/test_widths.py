"""A width that follows from the size of a file: a cut file is refused, and a complete one is read."""

import gzip
import itertools
import json
import pickle
import re
import struct

import numpy as np
import pytest

import tokfmt
from tokfmt.errors import CorruptError, FormatError

EOS = 49_999


def documents(count, vocabulary, seed=0, eos=None):
    """Documents with the frequencies of text."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 200, count).tolist()
    made = [(random.zipf(1.2, length) % (vocabulary - 1)).tolist() for length in lengths]
    return [[*one, eos] if eos is not None else one for one in made]


def written(folder, kind, docs, width, *, cut=1, metadata=None):
    """A file with its index by hand, of the first `1 / cut` of its bytes."""
    path, ends = folder / f"x.{kind}", np.cumsum([len(one) for one in docs])
    content = np.concatenate([np.asarray(one, f"<u{width}") for one in docs]).tobytes()
    path.write_bytes(content[: len(content) // cut])
    if kind == "npy":
        rows = "".join(f"{a},{b}\n" for a, b in zip([0, *ends[:-1]], ends, strict=True))
        path.with_suffix(".csv.gz").write_bytes(gzip.compress(rows.encode()))
    else:
        (folder / "x.ds.index").write_bytes(ends.astype("<u8").tobytes())
    if metadata:
        (folder / "x.ds.metadata").write_text(f"gpt2|{metadata}\n{ends[-1]}\n0 T")
    return path


@pytest.mark.parametrize("eos", [None, EOS], ids=["no-separator", "separator"])
@pytest.mark.parametrize("vocabulary", [50_000, 262_144])
@pytest.mark.parametrize("count", [3, 12, 400])
@pytest.mark.parametrize("kind", ["npy", "ds"])
def test_half_of_a_file_is_not_read_in_half_of_the_width(kind, count, vocabulary, eos, tmp_path):
    docs = documents(count, vocabulary, eos=eos)
    path = written(tmp_path, kind, docs, 4, cut=2)
    with pytest.raises(CorruptError, match=r"give tokens of 2 bytes, and .*width.*4.*partial.*complete documents"):
        tokfmt.open(path, eos="none")
    (verdict,) = tokfmt.check(path)
    assert [one.code for one in verdict.findings] == ["TF702" if kind == "npy" else "TF723"]
    with tokfmt.open(path, eos="none", options={"width": 4}, allow_partial=True) as dataset:
        assert 0 < len(dataset) < count
        assert [one.tolist() for one in dataset] == docs[: len(dataset)]
    with tokfmt.open(path, eos="none", options={"width": 2}) as dataset:
        assert len(dataset) == count
    with tokfmt.open(written(tmp_path, kind, docs, 4), eos="none") as dataset:
        assert [one.tolist() for one in dataset] == docs


@pytest.mark.parametrize("eos", [None, EOS], ids=["no-separator", "separator"])
@pytest.mark.parametrize("count", [3, 12, 400])
@pytest.mark.parametrize("kind", ["npy", "ds"])
def test_two_byte_tokens_are_read_without_a_note(kind, count, eos, tmp_path):
    docs = documents(count, 50_000, eos=eos)
    with tokfmt.open(written(tmp_path, kind, docs, 2), eos="none") as dataset:
        assert (dataset.info.inferred, [one.tolist() for one in dataset]) == ((), docs)


@pytest.mark.parametrize(("width", "cut", "read"), [(8, 2, 4), (8, 4, 2), (8, 8, 1), (4, 4, 1), (2, 2, 1)])
@pytest.mark.parametrize("eos", [None, EOS], ids=["no-separator", "separator"])
def test_a_part_of_olmo_is_not_read_in_a_part_of_the_width(width, cut, read, eos, tmp_path):
    for count in (12, 400):
        path = written(tmp_path, "npy", documents(count, 50_000, eos=eos), width, cut=cut)
        with pytest.raises(CorruptError, match=rf"give tokens of {read} byte.*{width}"):
            tokfmt.open(path, eos="none")


def test_bytes_with_a_separator_are_tokens_of_one_byte(tmp_path):
    docs = [[*b"what is read", *b"again" * k, 0] for k in range(5)]
    with tokfmt.open(written(tmp_path, "npy", docs, 1), eos="none") as dataset:
        assert [one.tolist() for one in dataset] == docs


@pytest.mark.parametrize("kind", ["npy", "ds"])
def test_a_few_small_ids_are_read_with_a_note(kind, tmp_path):
    docs = [[1, 2, 3], [4, 5], [6]]
    with tokfmt.open(written(tmp_path, kind, docs, 2), eos="none") as dataset:
        assert [one.tolist() for one in dataset] == docs
        (note,) = dataset.info.inferred
    assert "2-byte tokens of x." in note
    assert "inferred from its size and the last end in x." in note


@pytest.mark.parametrize("docs", [[[5, 0], [6, 0], [7, 0]], [[1], [1], [1]], [[], [], [3]]], ids=str)
@pytest.mark.parametrize("kind", ["npy", "ds"])
def test_documents_of_nothing_much_are_read(kind, docs, tmp_path):
    with tokfmt.open(written(tmp_path, kind, docs, 2), eos="none") as dataset:
        assert [one.tolist() for one in dataset] == docs


@pytest.mark.parametrize(("stored", "stated", "cut"), [(4, 4, 2), (2, 4, 1), (4, 2, 1)])
def test_the_width_of_metadata_has_to_fit(stored, stated, cut, tmp_path):
    docs = documents(12, 50_000, eos=EOS)
    path, total = written(tmp_path, "ds", docs, stored, cut=cut, metadata=stated), sum(map(len, docs))
    with pytest.raises(
        FormatError, match=f"expected {stated * total:,}, as x.ds.metadata states.*found {stored * total // cut:,}"
    ):
        tokfmt.open(path, eos="none")
    (verdict,) = tokfmt.check(path)
    assert [one.code for one in verdict.findings] == ["TF724"]
    with tokfmt.open(path, eos="none", options={"width": stored // cut}) as dataset:
        assert any(f"states {stated}-byte tokens" in note for note in dataset.info.notes)
        assert cut == 2 or [one.tolist() for one in dataset] == docs
    if cut == 2:
        with tokfmt.open(path, eos="none", options={"width": 4}, allow_partial=True) as dataset:
            assert [one.tolist() for one in dataset] == docs[: len(dataset)]


@pytest.mark.parametrize("eos", [None, EOS], ids=["no-separator", "separator"])
def test_the_remedies_of_contradicting_metadata_work(eos, tmp_path):
    """Each command in the message is followed as it stands; the width is asked for once."""
    docs = documents(12, 50_000, eos=eos)
    path = written(tmp_path, "ds", docs, 4, cut=2, metadata=4)
    with pytest.raises(FormatError, match="--from-opt width=4 with --allow-partial saves"):
        tokfmt.open(path, eos="none")
    with tokfmt.open(path, eos="none", options={"width": 4}, allow_partial=True) as dataset:
        assert 0 < len(dataset) < len(docs)
        assert [one.tolist() for one in dataset] == docs[: len(dataset)]
    if eos is None:  # else the documents that end alike show the width
        with pytest.raises(FormatError) as caught:
            tokfmt.open(path, eos="none", allow_partial=True)
        assert str(caught.value).count("width=4") == 1
        assert "width=N" not in str(caught.value)


def test_nanogpt_of_four_bytes_that_is_cut_inside_a_token(tmp_path):
    """The size is no multiple of 4, and the data still show the width."""
    content = np.arange(4000, dtype="<u4").tobytes()
    (tmp_path / "train.bin").write_bytes(content[:-2])
    with pytest.raises(FormatError, match="uint32 tokens, but the file ends inside one"):
        tokfmt.open(tmp_path / "train.bin", format="nanogpt", eos="none")


# Widths that are given


def stored(folder, kind, docs, dtype):
    """Tokens whose width the files do not state, written by hand; the datasets take the option `width` or `dtype`."""
    rows = [np.asarray(one, dtype) for one in docs]
    if kind != "mds":
        path = folder / {"olmo": "part-0.npy", "nanogpt": "train.bin", "datatrove": "x.ds"}[kind]
        path.write_bytes(np.concatenate(rows).tobytes())
        return path
    cells = [len(row.tobytes()).to_bytes(4, "little") + row.tobytes() for row in rows]
    begins = 4 * (len(cells) + 2) + np.cumsum([0, *map(len, cells)])
    shard = np.array([len(cells), *begins], "<u4").tobytes() + b"".join(cells)
    columns = {"column_names": ["tokens"], "column_encodings": ["bytes"], "column_sizes": [None]}
    raw = {"basename": "shard.00000.mds", "bytes": len(shard), "hashes": {}}
    one = {"format": "mds", "version": 2, "samples": len(cells), "raw_data": raw, "zip_data": None, **columns}
    (folder / "shard.00000.mds").write_bytes(shard)
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [one]}))
    return folder


def rows_of_64(vocabulary):
    ids = [one for document in documents(40, vocabulary, eos=vocabulary - 1) for one in document]
    return [ids[at : at + 64] for at in range(0, len(ids) // 64 * 64, 64)]


@pytest.mark.parametrize("vocabulary", [2_000, 50_000, 262_144])
@pytest.mark.parametrize("dtype", ["uint16", "int32", "int64"])
def test_the_dtype_of_a_column_of_bytes_is_guessed_from_upper_halves(dtype, vocabulary, tmp_path):
    if vocabulary > 1 << 16 and dtype == "uint16":
        return
    path = stored(tmp_path, "mds", rows_of_64(vocabulary), dtype)
    with pytest.raises(FormatError, match=rf"dtype={dtype}, probably"):
        tokfmt.open(path)


GIVEN = [
    ("mds", "<i4", {"dtype": "uint16"}, {"dtype": "int32"}),
    ("mds", "<i8", {"dtype": "uint16"}, {"dtype": "int64"}),
    ("mds", "<i8", {"dtype": "int32"}, {"dtype": "int64"}),
    ("mds", "<i4", {"dtype": "int64"}, {"dtype": "int32"}),
    ("mds", "<u2", {"dtype": "uint32"}, {"dtype": "uint16"}),
    ("olmo", "<u4", {"width": 2}, {"width": 4}),
    ("olmo", "<u8", {"width": 4}, {"width": 8}),
    ("olmo", "<u4", {"width": 8}, {"width": 4}),
    ("olmo", "<u2", {"width": 4}, {"width": 2}),
    ("nanogpt", "<u4", {"width": 2}, {"width": 4}),
    ("nanogpt", "<u2", {"width": 4}, {"width": 2}),
    ("datatrove", "<u4", {"width": 2}, {"width": 4}),
    ("datatrove", "<u2", {"width": 4}, {"width": 2}),
]


@pytest.mark.parametrize(("kind", "dtype", "wrong", "right"), GIVEN)
@pytest.mark.parametrize("deep", [False, True])
def test_check_finds_a_width_that_is_given_wrong(kind, dtype, wrong, right, deep, tmp_path):
    path = stored(tmp_path, kind, rows_of_64(50_000), dtype)
    (verdict,) = tokfmt.check(path, options=wrong, format=kind, deep=deep, eos="none")
    assert [(one.code, one.severity) for one in verdict.findings if one.code == "TF903"] == [("TF903", "error")]
    (found,) = [one for one in verdict.findings if one.code == "TF903"]
    ((name, value),) = right.items()
    assert f"--from-opt {name}={value} reads" in found.remedy
    (verdict,) = tokfmt.check(path, options=right, format=kind, deep=deep, eos="none")
    assert not [one for one in verdict.findings if one.code == "TF903"]


@pytest.mark.parametrize(("count", "found"), [(15, []), (16, ["TF903"])])
def test_sixteen_ids_question_a_width(count, found, tmp_path):
    path = stored(tmp_path, "mds", [[1 << 24] * count], "<u4")
    (verdict,) = tokfmt.check(path, options={"dtype": "uint32"}, eos="none")
    assert [one.code for one in verdict.findings] == found


@pytest.mark.parametrize("rows", [[[5, 0] * 3], [[7, 0, 9]] * 40, [[0] * 64] * 4, [[1, 2, 3, 0] * 16] * 4])
def test_ids_that_are_zero_for_another_reason_are_no_finding(rows, tmp_path):
    path = stored(tmp_path, "mds", rows, "<u2")
    (verdict,) = tokfmt.check(path, options={"dtype": "uint16"}, eos="none")
    assert verdict.findings == []


ROWS = [[5 + 37 * k % 40_000, 60 + k, EOS] for k in range(40)]


def of_megatron(home, width, code, *, own=None):
    """A pair whose pointers are those of the tokens, as upstream's writer computes them; `own` is the code's width."""
    path, ends = home / "x_document.bin", np.cumsum([0, *map(len, ROWS)])
    path.write_bytes(np.array(sum(ROWS, []), f"<u{width}").tobytes())
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(ROWS), len(ROWS) + 1)
    columns = np.diff(ends).astype("<i4"), ends[:-1] * (own or width), np.arange(len(ROWS) + 1)
    path.with_suffix(".idx").write_bytes(head + columns[0].tobytes() + b"".join(one.tobytes() for one in columns[1:]))
    return path


def of_tntidx(home, width, code, *, own=None):
    path, ends = home / "x_document.bin", np.cumsum([0, *map(len, ROWS)])
    path.write_bytes(np.array(sum(ROWS, []), f"<u{width}").tobytes())
    head = b"TNTIDX\0\0" + struct.pack("<6Q", 1, code, own or width, len(ROWS), len(ROWS), len(ROWS) + 1)
    columns = np.arange(len(ROWS) + 1), ends, np.diff(ends), np.arange(len(ROWS) + 1)
    path.with_suffix(".idx").write_bytes(head + b"".join(one.tobytes() for one in columns))
    return path


def of_header(name, head):
    def write(home, width, code, *, own=None):
        path = home / name
        path.write_bytes(head(code, sum(map(len, ROWS))) + np.array(sum(ROWS, []), f"<u{width}").tobytes())
        return path

    return write


def of_datatrove(home, width, code, *, own=None):
    return written(home, "ds", ROWS, width, metadata=code)


of_llmc = of_header("x.bin", lambda code, count: struct.pack("<256i", 20240520, 1, count, *[0] * 253))
of_automodel = of_header("x.bin", lambda code, count: struct.pack("<256i", 2788_95051, 1, count, code, *[0] * 252))
of_litgpt = of_header("x.bin", lambda code, count: b"LITPKDS" + struct.pack("<QBQ", 1, code, count))


@pytest.mark.parametrize(
    ("write", "code", "width", "option"),
    [
        *((of_megatron, 8, width, f"dtype={name}") for width, name in ((4, "int32"), (8, "int64"))),
        *((of_megatron, 1, width, f"dtype={name}") for width, name in ((2, "uint16"), (4, "int32"), (8, "int64"))),
        *((of_megatron, 5, width, f"dtype={name}") for width, name in ((2, "uint16"), (4, "int32"))),
        *((of_litgpt, 8, width, f"dtype={name}") for width, name in ((4, "int32"), (8, "int64"))),
        (of_litgpt, 5, 2, "dtype=uint16"),
        *((of_llmc, 2, width, f"width={width}") for width in (4, 8)),
        *((of_automodel, code, width, f"width={width}") for code, width in ((2, 4), (2, 8), (4, 2), (4, 8))),
        *((of_datatrove, code, width, f"width={width}") for code, width in ((2, 4), (2, 8), (4, 2), (4, 8))),
    ],
)
def test_a_whole_factor_of_the_size_is_another_width(write, code, width, option, tmp_path):
    """The option is named that reads it, and no loss or copy; the IDs are those that were written."""
    path = write(tmp_path, width, code)
    with pytest.raises(FormatError, match=f"--from-opt {option} reads") as caught:
        tokfmt.open(path, eos=EOS, allow_loss=["tail"])
    assert not re.search("view|[Cc]opy it|tail", str(caught.value))
    name, value = option.split("=")
    (verdict,) = tokfmt.check(path, eos=EOS)
    assert f"--from-opt {option} reads" in verdict.findings[0].remedy
    with tokfmt.open(path, eos=EOS, options={name: int(value) if value.isdecimal() else value}) as dataset:
        assert sum((one.tolist() for one in dataset), []) == [one for row in ROWS for one in row[:2]]


@pytest.mark.parametrize(("code", "width"), [(6, 2), (7, 4), (9, 4), (10, 8)])
@pytest.mark.parametrize("write", [of_megatron, of_tntidx])
def test_dtype_codes_of_other_writers(write, code, width, tmp_path):
    """They are read where pointers, sizes and IDs show the width, and `dtype` states it otherwise."""
    with tokfmt.open(write(tmp_path, width, code), eos=EOS) as dataset:
        assert [one.tolist() for one in dataset] == [row[:2] for row in ROWS]


def test_codes_of_floats_are_not_read_as_integers(tmp_path):
    """Megatron-LM's own 6 and 7 are floats."""
    path = of_megatron(tmp_path, 8, 6)
    with pytest.raises(FormatError, match="is not an index of tokens.*--from-opt dtype=NAME"):
        tokfmt.open(path)
    with tokfmt.open(path, eos=EOS, options={"dtype": "int64"}) as dataset:
        assert [one.tolist() for one in dataset] == [row[:2] for row in ROWS]
    of_megatron(tmp_path, 4, 7)
    path.write_bytes(np.linspace(0.5, 9, 120, dtype="<f4").tobytes())
    with pytest.raises(FormatError, match="is not an index of tokens"):
        tokfmt.open(path)


@pytest.mark.parametrize("width", [4, 8])
def test_the_width_of_raw_tokens_is_that_whose_upper_parts_are_zero(width, tmp_path):
    path = tmp_path / "train.bin"
    np.array(sum(ROWS, []), f"<u{width}").tofile(path)
    with tokfmt.open(path, eos=EOS) as dataset:
        assert [one.tolist() for one in dataset] == [row[:2] for row in ROWS]


HALVES = [
    (of_megatron, 8, "dtype", "int32", "uint16"),
    (of_tntidx, 8, "dtype", "int32", "uint16"),
    (of_litgpt, 8, "dtype", "int32", "uint16"),
    (of_llmc, 2, "width", 4, 2),
    (of_automodel, 2, "width", 4, 2),
    (of_datatrove, 2, "width", 4, 2),
]


@pytest.mark.parametrize(("write", "code", "option", "right", "stated"), HALVES)
def test_an_index_that_counts_halves_of_tokens(write, code, option, right, stated, tmp_path, monkeypatch):
    """Sizes, pointers and header agree with each other; only the zeros show that a token has 4 bytes."""
    halves = [[half for one in row for half in (one, 0)] for row in ROWS]
    monkeypatch.setitem(globals(), "ROWS", halves)
    path = write(tmp_path, 2, code)
    for call in (tokfmt.open, tokfmt.info, tokfmt.stats, lambda path, **given: tokfmt.convert(path, "x.npy", **given)):
        with pytest.raises(FormatError, match=f"x.*every second ID is 0.*--from-opt {option}={right} reads"):
            call(path, eos=EOS)
    (verdict,) = tokfmt.check(path, eos=EOS)
    assert [(one.code, one.severity) for one in verdict.findings] == [("TF903", "error")]
    with tokfmt.open(path, eos="none", options={option: stated}) as dataset:
        assert sum((one.tolist() for one in dataset), []) == sum(halves, [])


def test_documents_of_one_token_and_a_separator_of_zero_are_no_halves(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROWS", [[5 + 37 * k, 0] for k in range(400)])
    with tokfmt.open(of_megatron(tmp_path, 2, 8)) as dataset:
        assert [one.tolist() for one in dataset] == [[5 + 37 * k] for k in range(400)]


def test_a_stated_width_without_an_option_is_noted(tmp_path, monkeypatch):
    """A header of a pack is a fact: the tokens are read as it states, and a note says what they look like."""
    tokens, ends = np.array(sum(ROWS, []), "<u4").tobytes(), np.cumsum([0, *map(len, ROWS)]) * 4
    index = pickle.dumps([(int(a), int(b - a)) for a, b in itertools.pairwise(ends)])
    (tmp_path / "x.pbin").write_bytes(struct.pack("<QI", len(tokens), 2) + tokens + index)
    with tokfmt.open(tmp_path / "x.pbin", eos="none") as dataset:
        assert any("every second ID is 0" in note for note in dataset.info.notes)
        assert sum((one.tolist() for one in dataset), []) == np.frombuffer(tokens, "<u2").tolist()


@pytest.mark.parametrize("width", [4, 8])
def test_a_pack_whose_header_states_half_of_the_width(width, tmp_path):
    tokens, ends = np.array(sum(ROWS, []), f"<u{width}").tobytes(), np.cumsum([0, *map(len, ROWS)]) * width
    index = pickle.dumps([(int(a), int(b - a)) for a, b in itertools.pairwise(ends)])
    (tmp_path / "x.pbin").write_bytes(struct.pack("<QI", len(tokens), 2) + tokens + index)
    (verdict,) = tokfmt.check(tmp_path / "x.pbin")
    assert "TF903" in [one.code for one in verdict.findings]


@pytest.mark.parametrize("kind", ["npy", "ds"])
def test_two_ids_in_turn_are_no_wider_token(tmp_path, kind):
    path = written(tmp_path, kind, [[9, 7]] * 32, 2)
    with tokfmt.open(path, eos=7) as dataset:
        assert [ids.tolist() for ids in dataset] == [[9]] * 32
