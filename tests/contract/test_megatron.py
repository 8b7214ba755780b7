"""megatron under the laws of every format; the oracle is struct and numpy."""

import itertools
import json
import struct
import subprocess

import numpy as np
import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.errors import FormatError, OptionError, TokfmtError, UnsupportedError
from tokfmt.formats.megatron import FORMAT
from tokfmt.testing import FormatContract


def documents(path):
    """Documents as stored, by pointers and lengths, as Megatron reads them."""
    raw, index = path.read_bytes(), path.with_suffix(".idx").read_bytes()
    magic, version, code, sequences, marks = struct.unpack("<9sQBQQ", index[:34])
    assert (magic, version) == (b"MMIDIDX\0\0", 1)
    dtype = np.dtype({8: "<u2", 4: "<i4"}[code])
    assert len(index) == 34 + 12 * sequences + 8 * marks
    lengths = np.frombuffer(index, "<i4", sequences, 34).tolist()
    pointers = np.frombuffer(index, "<i8", sequences, 34 + 4 * sequences).tolist()
    cuts = np.frombuffer(index, "<i8", marks, 34 + 12 * sequences).tolist()
    assert (cuts[0], cuts[-1]) == (0, sequences)
    assert sum(lengths) * dtype.itemsize == len(raw)
    held = [np.frombuffer(raw, dtype, n, at).tolist() for n, at in zip(lengths, pointers, strict=True)]
    return [[t for s in held[a:b] for t in s] for a, b in itertools.pairwise(cuts)]


class TestPair(FormatContract):
    format = FORMAT
    filename = "x_document.bin"
    eos_id = 50256
    write_variants = ({}, {"dtype": "int32"})

    def oracle(self, path, options):
        stored = documents(path)
        assert all(document[-1] == self.eos_id for document in stored if document)
        return [document[:-1] for document in stored]


class Elsewhere(type(FORMAT)):
    name = "elsewhere"


class TestNoSeparator(FormatContract):
    """Empty documents are repeated indices. The format is not the one that is installed under that name, nor any."""

    format = Elsewhere()
    filename = "x_document.bin"
    eos_id = "none"
    write_variants = ({},)

    def oracle(self, path, options):
        return documents(path)


class TestPrefixes(FormatContract):
    format = FORMAT
    filename = "folder"
    sharded = {"shard_size": "1"}
    eos_id = 50256
    write_variants = ({"shard_size": "12"}, {"shard_size": "1"}, {"shard_size": "40", "dtype": "int32"})
    long_options = {"shard_size": "100000"}

    def oracle(self, path, options):
        stored = [documents(file) for file in sorted(path.glob("*.bin"))]
        most = int(options["shard_size"])
        assert all(len(prefix) <= 1 or sum(map(len, prefix)) <= most for prefix in stored)
        assert all(document[-1] == self.eos_id for prefix in stored for document in prefix if document)
        return [document[:-1] for prefix in stored for document in prefix]


def test_the_current_directory_is_a_dataset(tmp_path, monkeypatch):
    tokfmt.convert(FIXTURES / "modalities" / "D_2byte_gpt2.pbin", tmp_path / "x.bin", to_format="megatron")
    monkeypatch.chdir(tmp_path)
    assert tokfmt.info(".").sequences == 42 and not tokfmt.check(".")[0].findings


def test_several_prefixes_need_a_folder_and_one_does_not(tmp_path):
    source = FIXTURES / "megatron" / "legacy" / "neox_cached_text_document.idx"
    with pytest.raises(OptionError, match=r"out\.bin is one file. Name a folder"):
        tokfmt.convert(source, tmp_path / "out.bin", eos=50256, to_format="megatron", to_options={"shard_size": 10})
    tokfmt.convert(source, tmp_path / "out", eos=50256, to_format="megatron", to_options={"shard_size": 10})
    tokfmt.convert(source, tmp_path / "one", eos=50256, to_format="megatron")
    tokfmt.convert(tmp_path / "out", tmp_path / "joined", to_format="megatron")
    for suffix in ("bin", "idx"):
        assert (tmp_path / f"joined.{suffix}").read_bytes() == (tmp_path / f"one.{suffix}").read_bytes()
    assert tokfmt.diff(source, tmp_path / "out", eos=50256).identical


@pytest.mark.parametrize("ends", [None, "none"])
def test_several_prefixes_come_with_the_files_that_list_them(ends, tmp_path):
    """What `--data-args-path` and `--per-dataset-sequences-path` take; upstream cannot map a prefix without tokens."""
    rows, source = [[1, 2, 3], [4], [], [], [], [5, 6, 7, 8, 9], [], [1, 1]], tmp_path / "x.jsonl"
    source.write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in rows))
    for again in range(2):
        how = {"to_format": "megatron", "to_options": {"shard_size": 5}, "to_eos": ends, "overwrite": again > 0}
        tokfmt.convert(source, tmp_path / "out", eos=0, **how)
    stored = {file.stem: documents(file) for file in sorted((tmp_path / "out").glob("*.bin"))}
    assert len(stored) > 2
    whole = [prefix for prefix, held in stored.items() if any(held)]
    assert (tmp_path / "out" / "data_args.txt").read_text() == "".join(f"{prefix}\n" for prefix in whole)
    counts = {prefix: [sum(map(bool, held)), len(held) + 1] for prefix, held in stored.items()}
    assert json.loads((tmp_path / "out" / "sequences.json").read_text()) == {key: counts[key] for key in whole}
    with (
        tokfmt.open(tmp_path / "out", eos="none") as folder,
        tokfmt.open(tmp_path / "out" / "data_args.txt", eos="none") as listed,
    ):
        assert [one.tolist() for one in folder] == [one for held in stored.values() for one in held]
        assert [one.tolist() for one in listed] == [one for prefix in whole for one in stored[prefix]]
    assert {file.name for file in FORMAT.files(tmp_path / "out")} == {
        file.name for file in (tmp_path / "out").iterdir()
    }
    tokfmt.convert(source, tmp_path / "one", eos=50256, to_format="megatron", to_options={"shard_size": 500})
    assert sorted(file.suffix for file in (tmp_path / "one").iterdir()) == [".bin", ".idx"]


@pytest.mark.parametrize("words", ["1 a_document b_document c", "nan x_document", "-1 x_document", "x_document \xff"])
def test_ambiguous_blend_list_is_a_finding(words, tmp_path):
    """`files` is called before the list is examined."""
    path = tmp_path / "blend.txt"
    path.write_bytes(words.encode("latin-1"))
    (verdict,) = tokfmt.check(path, format="megatron")
    assert [one.code for one in verdict.findings] == ["TF601"]


def test_a_blend_list_with_weights_is_the_user_s_and_not_replaced(tmp_path):
    source, out = tmp_path / "x.jsonl", tmp_path / "out"
    source.write_text('{"input_ids": [1, 2, 3]}\n{"input_ids": [4, 5]}\n')
    options = {"to_format": "megatron", "eos": 0, "to_options": {"shard_size": 3}}
    tokfmt.convert(source, out, **options)
    weighed = "0.9 00000_text_document 0.1 00001_text_document\n"
    (out / "data_args.txt").write_text(weighed)
    with pytest.raises(tokfmt.TokfmtError, match=r"holds data_args\.txt, which belongs to no dataset there"):
        tokfmt.convert(source, out, overwrite=True, **options)
    assert (out / "data_args.txt").read_text() == weighed


def test_uncounted_separators_are_recognized(tmp_path):
    """Megatron-LM#431: the documents of the index are shifted by one more token each."""
    source, path = tmp_path / "x.jsonl", tmp_path / "x_document.bin"
    source.write_text('{"input_ids": [1, 2, 3]}\n{"input_ids": [4, 5]}\n')
    tokfmt.convert(source, path, eos=0, to_format="megatron", to_eos="none", manifest=False)
    np.array([1, 2, 3, 0, 4, 5, 0], "<u2").tofile(path)
    (found,) = FORMAT.audit(path, FORMAT.read_options())
    assert (found.code, found.message) == ("TF604", "bytes of tokens: expected 10, found 14")
    assert found.remedy.startswith("Each of 2 sequences has one token more: separators were written and not counted")
    assert "--from nanogpt --eos 0," in found.remedy
    with pytest.raises(tokfmt.TokfmtError, match="not counted"):
        tokfmt.open(path)
    assert tokfmt.open(path, format="nanogpt", eos=0)[:].tolist() == [[1, 2, 3], [4, 5]]
    np.array([1, 2, 3, 0, 4, 5, 6], "<u2").tofile(path)
    (found,) = FORMAT.audit(path, FORMAT.read_options())
    assert "nanogpt" not in found.remedy
    np.array([1, 2, 3, 4, 5, 6], "<u2").tofile(path)
    (found,) = FORMAT.audit(path, FORMAT.read_options())
    assert found.remedy == "--allow-loss tail leaves out the last 2 bytes"


def test_a_view_of_documents_without_their_separators_keeps_them_out(tmp_path):
    """Pointers count the separators, and lengths do not: each document is read at its pointer, and gets one."""
    source, path = tmp_path / "x.jsonl", tmp_path / "x_document.bin"
    rows = [[number, 20 + number, 40 + number] for number in range(1, 11)]
    source.write_text("".join(f'{{"input_ids": {row}}}\n' for row in rows))
    tokfmt.convert(source, path, eos=0, to_format="megatron", to_eos="none", manifest=False)
    index = bytearray(path.with_suffix(".idx").read_bytes())
    index[34 + 40 : 34 + 40 + 80] = (np.arange(10, dtype="<i8") * 8).tobytes()
    path.with_suffix(".idx").write_bytes(index)
    np.array([[*row, 0] for row in rows], "<u2").tofile(path)
    assert tokfmt.open(path)[:].tolist() == rows
    (verdict,) = tokfmt.check(path, deep=True)
    assert (verdict.exit_code, verdict.counts) == (0, {"TF610": 1})
    done = tokfmt.convert(path, tmp_path / "y.pbin", eos=0, to_options={"width": 2}, verify=True)
    assert done.separators["added"] == 10
    raw = (tmp_path / "y.pbin").read_bytes()
    assert np.frombuffer(raw, "<u2", 40, 12).reshape(10, 4).tolist() == [[*row, 0] for row in rows]


def test_contradicting_sequences_file_is_a_finding(tmp_path):
    """Upstream trusts these counts without opening headers, and assumes one width for all prefixes."""
    source, out = tmp_path / "x.jsonl", tmp_path / "out"
    source.write_text(
        "".join(json.dumps({"input_ids": row}) + "\n" for row in [[1, 2, 3], [4], [5, 6, 7, 8, 9], [1, 1]])
    )
    tokfmt.convert(source, out, eos=0, to_format="megatron", to_options={"shard_size": 6})
    sizes, first = out / "sequences.json", "00000_text_document"

    def told(listed):
        sizes.write_text(json.dumps(listed))
        return [(one.code, one.path, one.message) for one in FORMAT.audit(out, FORMAT.read_options())]

    right = json.loads(sizes.read_text())
    assert told(right) == told({"no": "sequences file"}) == []
    ((code, path, message),) = told({**right, first: [1, 3]})
    assert (code, path) == ("TF607", str(sizes))
    assert message == f"sequences and document indices of {first}: expected [2, 3], found [1, 3]"
    ((_, _, message),) = told({**right, "gone": [1, 2]})
    assert (
        message
        == "lists the prefix gone, which has no index: expected gone.idx, in the directory of the list or the working directory"
    )
    tokfmt.convert(source, tmp_path / "wide", eos=0, to_format="megatron", to_options={"dtype": "int32"})
    for suffix in (".bin", ".idx"):
        (tmp_path / f"wide{suffix}").rename(out / f"wide_document{suffix}")
    ((_, _, message),) = told({**right, "wide_document": [4, 5]})
    (finding,) = FORMAT.audit(out, FORMAT.read_options())
    assert finding.severity == "warning"  # every prefix is right, and read without that option
    assert (
        message
        == f"prefixes of several dtypes, which upstream reads as one: expected uint16 of {first}, found int32 of wide_document"
    )
    sizes.write_text('{"00000_text')
    assert [one.code for one in FORMAT.audit(out, FORMAT.read_options())] == ["TF607"]


@pytest.mark.parametrize("value", [-1, 1, 1 << 62])
def test_a_damaged_legacy_index_is_refused_or_read(value, tmp_path):
    """Whatever stands in it instead of a number: an error of tokfmt's, or documents within the tokens."""
    source = FIXTURES / "megatron" / "legacy" / "neox_cached_text_document.idx"
    raw, path = source.read_bytes(), tmp_path / source.name
    path.with_suffix(".bin").symlink_to(source.with_suffix(".bin"))
    refused = 0
    items, sizes, documents = struct.unpack_from("<3q", raw, 32)
    assert items == sizes
    told = [8, 16, 24, 32, 40, 48]  # version, code and size of the ids, counts
    told += [56 + 8 * (items + 1 + k) for k in range(2 * items + 1)]  # where items begin, and their sizes
    for at in range(8, len(raw), 8):
        contradicts = at in told and struct.unpack_from("<q", raw, at)[0] != value
        path.write_bytes(raw[:at] + struct.pack("<q", value) + raw[at + 8 :])
        try:
            with tokfmt.open(path, eos="none") as dataset:
                assert sum(map(len, dataset)) <= path.with_suffix(".bin").stat().st_size
            assert not contradicts, at
        except tokfmt.TokfmtError:
            refused += 1
    assert refused >= len(told) - 2


def in_parts(folder, cuts, count):
    """An index beside parts of its tokens; returns the documents."""
    rows = [[1, 2, 3, 0], [4, 0], [5, 6, 7, 8, 0]]
    tokens = np.concatenate(rows).astype("<u2").tobytes()
    lengths = np.array([len(row) for row in rows], "<i4")
    with (folder / "x.idx").open("wb") as out:
        out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(rows), len(rows) + 1) + lengths.tobytes())
        (np.cumsum([0, *lengths[:-1]]) * 2).astype("<i8").tofile(out)
        np.arange(len(rows) + 1, dtype="<i8").tofile(out)
    for number, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(tokens)])):
        (folder / f"x-{number:05d}-of-{count:05d}.bin").write_bytes(tokens[a:b])
    return [row[:-1] for row in rows]


@pytest.mark.parametrize("count", [1, 2], ids=["the last number", "the count"])
def test_parts_of_the_tokens(tmp_path, count):
    """The command that is named joins them."""
    documents = in_parts(tmp_path, [7], count)
    for path in (tmp_path, tmp_path / "x", tmp_path / "x.idx"):
        with pytest.raises(
            FormatError, match="x.bin: no such file; 2 parts .*22 bytes in all, as x.idx states"
        ) as raised:
            tokfmt.info(path)
    assert tokfmt.check(tmp_path)[0].errors == 1
    with pytest.raises(TokfmtError, match="part of a .bin of Megatron-LM.*cat"):
        tokfmt.info(tmp_path / f"x-00001-of-{count:05d}.bin")
    command, says, _ = raised.value.remedy.partition(" joins them")
    assert says
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    with tokfmt.open(tmp_path / "x.idx", eos=0) as dataset:
        assert [ids.tolist() for ids in dataset] == documents


def test_parts_of_the_tokens_of_which_some_are_missing(tmp_path):
    in_parts(tmp_path, [7, 15], 3)
    (tmp_path / "x-00001-of-00003.bin").unlink()
    with pytest.raises(FormatError, match="2 parts .*14 bytes in all of 22 that x.idx states.*missing parts"):
        tokfmt.info(tmp_path)


def test_many_parts_of_the_tokens(tmp_path):
    documents = in_parts(tmp_path, list(range(1, 21)), 21)
    with pytest.raises(FormatError, match=r"21 parts") as raised:
        tokfmt.info(tmp_path)
    subprocess.run(raised.value.remedy.partition(" joins them")[0], shell=True, check=True, cwd=tmp_path)
    with tokfmt.open(tmp_path / "x.bin", eos=0) as dataset:
        assert [ids.tolist() for ids in dataset] == documents


SENTENCES = [[4, 9, 5, 2], [2], [6, 7, 2], [], [200, 5, 2]]
LENGTHS = np.array([len(one) for one in SENTENCES])
COLUMNS = LENGTHS.astype("<i4").tobytes() + (2 * (np.cumsum(LENGTHS) - LENGTHS)).astype("<i8").tobytes()
MARKS = np.arange(len(LENGTHS) + 1, dtype="<i8").tobytes()
SPANS = np.array([2, 0, 1, 0, 0, 0, 0, 2, 3, 1, 2], "<i4").tobytes()


def counts(version, code=8, flags=b"", marks=True):
    head = b"MMIDIDX\0\0" + struct.pack("<Q", version) + flags + struct.pack("<BQ", code, len(LENGTHS))
    return head + (struct.pack("<Q", len(LENGTHS) + 1) if marks else b"")


OF_OTHERS = {
    "fairseq": counts(1, marks=False) + COLUMNS,
    "fairseq, uint32": counts(1, 9, marks=False) + COLUMNS,
    "Fast-LLM 2 without a flag": counts(2) + COLUMNS + SPANS + MARKS,
    "Fast-LLM 2 with spans": counts(2, flags=b"\1") + COLUMNS + SPANS + MARKS,
    "Fast-LLM 3": counts(3, flags=b"\0\0") + COLUMNS + MARKS,
}


@pytest.mark.parametrize("kind", OF_OTHERS)
def test_an_index_of_another_tool_is_named_with_the_next_step(kind, tmp_path):
    (tmp_path / "train.idx").write_bytes(OF_OTHERS[kind])
    np.concatenate(SENTENCES).astype("<u2").tofile(tmp_path / "train.bin")
    with pytest.raises(UnsupportedError) as caught:
        tokfmt.open(tmp_path / "train.bin", eos="none")
    assert str(tmp_path / "train.idx") in str(caught.value) and kind.split(",")[0].split()[0] in str(caught.value)
    assert "--from array --from-opt bare=DTYPE --eos ID" in str(caught.value)
    with tokfmt.open(tmp_path / "train.bin", format="array", options={"bare": "uint16"}, eos=2) as dataset:
        assert [*dataset[0], 2, 2, *dataset[2]] == [4, 9, 5, 2, 2, 6, 7]


def test_no_cut_of_an_index_is_read(tmp_path):
    """One of Megatron-LM that lacks 16 bytes or more can have the size of one of fairseq."""
    path = tmp_path / "train.bin"
    np.concatenate(SENTENCES).astype("<u2").tofile(path)
    for whole in (counts(1) + COLUMNS + MARKS, *OF_OTHERS.values()):
        for size in range(len(whole)):
            path.with_suffix(".idx").write_bytes(whole[:size])
            with pytest.raises(FormatError):
                tokfmt.open(path, format="megatron", eos="none")
    path.with_suffix(".idx").write_bytes(counts(1) + COLUMNS + MARKS)
    with tokfmt.open(path, eos="none") as dataset:
        assert [one.tolist() for one in dataset] == SENTENCES


def test_the_older_index_of_fairseq_is_refused_because_its_ids_are_shifted(tmp_path):
    """fairseq adds one to each ID, and takes it away when it reads; its index has no number of documents."""
    bounds = np.cumsum([0, *LENGTHS]).astype("<i8")
    head = b"TNTIDX\0\0" + struct.pack("<5Q", 1, 4, 4, len(SENTENCES), len(SENTENCES))
    arrays = np.arange(len(bounds), dtype="<i8"), bounds, np.diff(bounds)
    (tmp_path / "train.idx").write_bytes(head + b"".join(one.tobytes() for one in arrays))
    (np.concatenate(SENTENCES) + 1).astype("<i4").tofile(tmp_path / "train.bin")
    with pytest.raises(FormatError) as caught:
        tokfmt.open(tmp_path / "train.bin", eos="none")
    assert "fairseq" in str(caught.value) and "numpy.fromfile('train.bin', '<i4') - 1" in str(caught.value)


@pytest.mark.parametrize("name", ["X.BIN", "X.IDX"])
@pytest.mark.parametrize("format_", [None, "megatron"])
def test_names_in_capitals_are_refused_as_what_they_are(name, format_, tmp_path):
    (tmp_path / "X.BIN").write_bytes(bytes(22))
    (tmp_path / "X.IDX").write_bytes(counts(1) + COLUMNS + MARKS)
    with pytest.raises(FormatError) as caught:
        tokfmt.open(tmp_path / name, format=format_, eos="none")
    assert str(tmp_path / name) in str(caught.value)
    assert "Megatron-LM" in str(caught.value) and "Rename" in str(caught.value)
