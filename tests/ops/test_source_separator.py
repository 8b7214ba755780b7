"""Which ID is the separator of a source: what is stated, unless the ends of the sequences show another one."""

import gzip
import itertools
import json
import pickle
import struct
from contextlib import nullcontext

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paths import TOKENIZER

import tokfmt
from tokfmt.errors import ConversionError, OptionError, TokfmtError

FORMATS = ("megatron", "modalities")


def texts(count, ends):
    """Documents whose tokens occur once each, so that only their ends can be alike."""
    return [[100 + 3 * k, 101 + 3 * k, 102 + 3 * k, *ends(k)] for k in range(count)]


def dataset(home, name, documents, stated=None):
    """Files as other tools write them, with the separator in a manifest if one is stated."""
    bounds = [0, *itertools.accumulate(map(len, documents))]
    tokens = np.concatenate([np.array(one, "<u2") for one in documents]).tobytes()
    path = home / {"megatron": "in_document.bin", "modalities": "in.pbin"}[name]
    if name == "modalities":
        index = pickle.dumps([(2 * a, 2 * (b - a)) for a, b in itertools.pairwise(bounds)])
        path.write_bytes(struct.pack("<QI", len(tokens), 2) + tokens + index)
    else:
        head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(documents), len(documents) + 1)
        lengths = np.diff(bounds).astype("<i4").tobytes()
        starts = np.array(bounds[:-1], "<i8") * 2
        path.write_bytes(tokens)
        path.with_suffix(".idx").write_bytes(
            head + lengths + starts.tobytes() + np.arange(len(bounds), dtype="<i8").tobytes()
        )
    if stated is not None:
        facts = {"schema": "tokfmt.manifest/1", "format": name, "eos_id": stated, "eos_from": "--eos"}
        path.with_name(f"{path.name}.tokfmt.json").write_text(json.dumps(facts))
    return path


def contents(path, **given):
    with tokfmt.open(path, **given) as found:
        known = found.origin[0].separator
        return [one.tolist() for one in found], known.eos_id, known.source


@pytest.mark.parametrize("name", FORMATS)
def test_none_is_trimmed_if_the_user_says_so(name, tmp_path):
    documents = texts(20, lambda _: [7])
    path = dataset(tmp_path, name, documents)
    assert contents(path, eos="none") == (documents, None, "--eos none")


@pytest.mark.parametrize("name", FORMATS)
def test_the_users_separator_ends_each_sequence_that_has_it(name, tmp_path):
    documents = texts(20, lambda k: [7] * (k % 3))
    path = dataset(tmp_path, name, documents)
    trimmed = [one[:-1] if one[-1] == 7 else one for one in documents]
    assert contents(path, eos=7) == (trimmed, 7, "--eos")
    plain = dataset(tmp_path, name, texts(20, lambda _: []))
    assert contents(plain, eos=7)[:2] == (texts(20, lambda _: []), 7)


@pytest.mark.parametrize("name", FORMATS)
def test_another_separator_than_the_one_that_all_end_with_is_refused(name, tmp_path):
    path = dataset(tmp_path, name, texts(20, lambda _: [7]))
    with pytest.raises(OptionError, match="--eos 5 is given, and no sequence ends with it: all 20 .* end with 7") as no:
        tokfmt.open(path, eos=5)
    assert no.value.name == "eos"
    assert "--eos 7" in str(no.value) and "--to-eos 5" in str(no.value)
    two = dataset(tmp_path, name, texts(2, lambda _: [7]))
    with pytest.raises(OptionError, match="all 2"):
        tokfmt.open(two, eos=5)
    one = dataset(tmp_path, name, texts(1, lambda _: [7]))
    assert contents(one, eos=5)[:2] == (texts(1, lambda _: [7]), 5)


@pytest.mark.parametrize("name", FORMATS)
def test_what_the_manifest_states_is_no_guess(name, tmp_path):
    """Also of a few sequences, of which no separator is inferred."""
    stated = dataset(tmp_path, name, texts(3, lambda _: [7]), stated=7)
    assert contents(stated, ignore_manifest=False)[1:] == (7, f"manifest of {stated.name}")
    for eos, count, of in ((5, 0, 20), (5, 8, 20)):
        path = dataset(tmp_path, name, texts(of, lambda k, count=count: [5 if k < count else 7]), stated=7)
        with pytest.raises(OptionError, match=f"--eos {eos} contradicts the manifest, which states 7 .*{count} with 5"):
            tokfmt.open(path, eos=eos)
    path = dataset(tmp_path, name, texts(20, lambda k: [7 if k < 8 else 5]), stated=7)
    assert contents(path, eos=5)[1:] == (5, "--eos")
    wrong = dataset(tmp_path, name, texts(20, lambda _: [7]), stated=5)
    with pytest.raises(ConversionError, match="the manifest states the separator 5, and no sequence ends with it"):
        tokfmt.open(wrong)


@pytest.mark.parametrize("name", FORMATS)
def test_it_is_inferred_from_eight_sequences_on_that_have_it_nowhere_else(name, tmp_path):
    for count, found in ((7, None), (8, 7)):
        path = dataset(tmp_path, name, texts(count, lambda _: [7]))
        assert contents(path)[1] == found
    inside = texts(20, lambda _: [7])
    inside[4][1] = 7
    assert contents(dataset(tmp_path, name, inside))[:2] == (inside, None)
    empty = texts(20, lambda _: [7])
    empty[5] = []
    trimmed, known, why = contents(dataset(tmp_path, name, empty))
    assert (trimmed, known) == ([one[:-1] for one in empty], 7)
    assert why == "inferred"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("to", ["out.pbin", "out.zarr", "out.jsonl", "out_document.bin"])
def test_an_id_that_ends_nearly_all_sequences_is_asked_about(name, to, tmp_path):
    """Whatever the destination: the result must not depend on which sequences are looked at."""
    documents = texts(200, lambda k: [7 if k % 11 else 8])
    path = dataset(tmp_path, name, documents)
    with pytest.raises(ConversionError, match=r"181 of 200 sequences .* end with 7\. --eos 7 .*--eos none"):
        tokfmt.convert(path, tmp_path / to)
    assert not (tmp_path / to).exists()
    done = tokfmt.convert(path, tmp_path / to, eos=7, verify=True)
    assert done.tokens == 4 * 200 - 181
    (shown,) = tokfmt.show(path, 0).shown
    assert shown.ids == documents[0]
    rarer = dataset(tmp_path, name, texts(200, lambda k: [7 if k % 9 else 8]))
    with nullcontext() if to in ("out.zarr", "out.jsonl") else pytest.raises(TokfmtError, match="--eos ID"):
        tokfmt.convert(rarer, tmp_path / to, overwrite=True)


@pytest.mark.parametrize("name", FORMATS)
def test_the_separator_of_a_tokenizer_that_did_not_make_the_ids_is_refused(name, tmp_path):
    """Each document ends with 0, and the tokenizer ends texts with 4095: one of both would become content."""
    path, out = dataset(tmp_path, name, texts(20, lambda _: [0])), tmp_path / "out.pbin"
    (verdict,) = tokfmt.check(path, tokenizer=str(TOKENIZER))
    assert [one.code for one in verdict.findings] == ["TF922"]
    with pytest.raises(ConversionError, match="4095, and all of 20 sequences .* end with 0") as no:
        tokfmt.convert(path, out, tokenizer=str(TOKENIZER))
    assert "--eos 0 " in str(no.value) and not out.exists()
    done = tokfmt.convert(path, out, eos=0, to_eos=4095)
    assert done.separators["replaced"] == 20


# A stream, which only its separator divides.

STREAM = [1, 2, 7, 3, 8, 7, 4]


def stream(home, stated=None, tokens=STREAM):
    np.array(tokens, "<u2").tofile(home / "val.bin")
    if stated is not None:
        facts = {"schema": "tokfmt.manifest/1", "format": "nanogpt", "eos_id": stated, "eos_from": "--eos"}
        (home / "val.bin.tokfmt.json").write_text(json.dumps(facts))
    return home / "val.bin"


@pytest.mark.parametrize(
    ("stated", "eos", "wanted", "source"),
    [
        (None, 7, [[1, 2], [3, 8], [4]], "--eos"),
        (7, None, [[1, 2], [3, 8], [4]], "manifest of val.bin"),
        (7, 7, [[1, 2], [3, 8], [4]], "--eos"),
        (6, 7, [[1, 2], [3, 8], [4]], "--eos"),
        (None, 8, [[1, 2, 7, 3], [7, 4]], "--eos"),
        (None, None, [STREAM], ""),
        (None, "none", [STREAM], "--eos none"),
        (7, "none", [STREAM], "--eos none"),
    ],
)
def test_a_stream_is_split_at_the_separator_that_is_stated(stated, eos, wanted, source, tmp_path):
    found, eos_id, known = contents(stream(tmp_path, stated), eos=eos, format="nanogpt")
    assert (found, known) == (wanted, source)
    assert eos_id == {"": None, "--eos none": None}.get(source, eos or stated)


@pytest.mark.parametrize("open_", [tokfmt.open, tokfmt.show], ids=["open", "show"])
@pytest.mark.parametrize(
    ("stated", "eos", "error", "words"),
    [
        (7, 8, OptionError, "--eos 8 contradicts the manifest, which states 7 .*--to-eos 8"),
        (None, 6, OptionError, "separator 6 .*does not occur in 7 tokens.*--eos none"),
        (6, None, ConversionError, "separator 6 .manifest of val.bin. does not occur in 7 tokens.*--eos ID"),
    ],
)
def test_what_does_not_divide_a_stream_is_refused(stated, eos, error, words, open_, tmp_path):
    """A mistyped ID must not make one document of all."""
    with pytest.raises(error, match=words):
        open_(stream(tmp_path, stated), eos=eos, format="nanogpt")


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_rows_of_one_length_are_not_joined_at_a_separator_that_they_lack(suffix, tmp_path):
    """Lists of fixed size are blocks of a stream; without --eos they are rows."""
    path, rows = tmp_path / f"x.{suffix}", [[number, number + 1] for number in range(10, 70, 2)]
    table = pa.table({"input_ids": pa.array(rows, pa.list_(pa.uint16(), 2))})
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    with pytest.raises(OptionError, match="separator 3 .*does not occur in 60 tokens"):
        tokfmt.open(path, eos=3)
    for eos in (None, "none"):
        assert contents(path, eos=eos)[0] == rows
    assert contents(path, eos=11)[0] == [[10], sum(rows[1:], [])]


def test_a_stream_of_one_document_is_read(tmp_path):
    assert contents(stream(tmp_path, tokens=[1, 2, 7]), eos=7, format="nanogpt")[0] == [[1, 2]]
    assert contents(stream(tmp_path, tokens=[]), eos=7, format="nanogpt")[0] == []


def test_a_separator_that_the_files_state_need_not_occur(tmp_path):
    """The one document fills its sample, so that its separator is behind the last token that is stored."""
    (tmp_path / "a.jsonl").write_text('{"input_ids": [0, 0, 0, 0, 0, 0, 0, 0, 0]}\n')
    tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "x.h5", eos=50256, to_options={"seq_len": 8, "stride": "disjoint"})
    for stated in ({}, {"eos": 50256}, {"ignore_manifest": True}):
        with tokfmt.open(tmp_path / "x.h5", **stated) as dataset:
            assert dataset[:].tolist() == [[0] * 9]


# several sources, and what later commands know


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("sizes", "ends", "expected"),
    [
        ((9, 3), (7, 7), 7),  # the first one shows it
        ((3, 1, 9), (7, 7, 7), 7),
        ((3, 3, 3), (7, 7, 7), 7),  # all together show it, as one folder does
        ((3, 3), (7, 7), None),
        ((9, 3), (7, 8), None),  # the second one has other ends
    ],
)
def test_few_sequences_are_read_as_those_beside_them(name, sizes, ends, expected, tmp_path):
    """Trimmed where all end with the ID that the others have, and in no source of another end; see `separator_beside`."""
    paths, kept = [], []
    for number, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        (home := tmp_path / str(number)).mkdir()
        documents = texts(size, lambda _, end=end: [end])
        paths.append(dataset(home, name, documents))
        is_trimmed = size >= 8 or end == expected
        kept += [one[:-1] if is_trimmed else one for one in documents]
    report = tokfmt.convert(paths, tmp_path / "out.jsonl")
    written = [json.loads(line)["input_ids"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert written == kept
    assert report.sequences == len(kept)
    if expected is not None:  # and no later step adds one to what has it
        back = tmp_path / ("back_document.bin" if name == "megatron" else "back.pbin")
        tokfmt.convert(tmp_path / "out.jsonl", back)
        assert contents(back)[:2] == (kept, 7)


@pytest.mark.parametrize("name", FORMATS)
def test_few_sequences_that_have_their_last_id_inside_show_no_separator(name, tmp_path):
    (tmp_path / "0").mkdir()
    (tmp_path / "1").mkdir()
    parts = texts(7, lambda _: [7]), [[4, 7], [7, 7], [5, 7]]
    paths = [dataset(tmp_path / str(number), name, documents) for number, documents in enumerate(parts)]
    tokfmt.convert(paths, tmp_path / "out.jsonl")
    written = [json.loads(line)["input_ids"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert written == [*parts[0], *parts[1]]


@pytest.mark.parametrize(
    "name", [*FORMATS, "datatrove", "mds", "flat-tokens", "jsonl", "parquet", "tfrecord", "litdata"]
)
def test_that_there_is_no_separator_is_a_fact_for_every_later_command(name, tmp_path):
    documents = texts(20, lambda _: [7])
    path = dataset(tmp_path, "modalities", documents)
    out = tmp_path / {"megatron": "out_document.bin", "datatrove": "out.ds"}.get(name, f"out-{name}")
    tokfmt.convert(path, out, to_format=name, eos="none")
    assert json.loads(out.with_name(f"{out.name}.tokfmt.json").read_text())["eos_stored"] == "none"
    with tokfmt.open(out) as found:
        assert [one.tolist() for one in found] == documents
    assert tokfmt.info(out).eos_id is None
    assert tokfmt.stats(out).datasets[0].tokens == 80
    (checked,) = tokfmt.check(out, deep=True)
    assert (checked.tokens, [one.code for one in checked.findings]) == (80, [])
    tokfmt.convert(out, tmp_path / "again.pbin")
    assert contents(tmp_path / "again.pbin")[:2] == (documents, None)
    assert contents(out, eos=7)[0] == [one[:-1] for one in documents]


def test_a_stream_ends_with_its_file(tmp_path):
    """Also where arrays are named one by one; and of OLMo, unless the documents inside of files end with the separator."""
    np.save(tmp_path / "a.npy", np.array([1, 2, 0, 3, 4], "<u2"))
    np.save(tmp_path / "b.npy", np.array([5, 6, 0], "<u2"))
    report = tokfmt.convert([tmp_path / "a.npy", tmp_path / "b.npy"], tmp_path / "out.jsonl", eos=0)
    assert [json.loads(line)["input_ids"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == [
        [1, 2],
        [3, 4],
        [5, 6],
    ]
    assert any("not finished" in note for note in report.notes)
    inside_of_one = ([1, 2, 3], [4, 5]), ([6, 7], [8]), [[1, 2, 3], [4, 5], [6, 7], [8]]
    inside_of_all = ([1, 2, 0], [4, 5]), ([6, 7, 0], [8, 0]), [[1, 2], [4, 5, 6, 7], [8]]
    for number, (*files, expected) in enumerate((inside_of_one, inside_of_all)):
        (home := tmp_path / str(number)).mkdir()
        for part, rows in enumerate(files):
            np.array(sum(rows, []), "<u2").tofile(home / f"part-{part}-00000.npy")
            ends = [0, *itertools.accumulate(map(len, rows))]
            lines = "".join(f"{a},{b},id,src,0\n" for a, b in itertools.pairwise(ends))
            (home / f"part-{part}-00000.csv.gz").write_bytes(gzip.compress(lines.encode()))
        with tokfmt.open(home, format="olmo", options={"width": 2}, eos=0) as found:
            assert [one.tolist() for one in found] == expected


def test_the_likely_separator_of_a_stream_is_named_with_its_count(tmp_path):
    np.array([*range(1, 5), 0] * 30, "<u2").tofile(tmp_path / "train.bin")
    notes = tokfmt.info(tmp_path / "train.bin").notes
    assert any("--eos 0" in note and "30 of its tokens" in note for note in notes)
    np.arange(1, 150, dtype="<u2").tofile(tmp_path / "val.bin")
    assert not any("--eos 149" in note for note in tokfmt.info(tmp_path / "val.bin").notes)


@pytest.mark.parametrize("layout", ["samples", "corpus"])
def test_an_empty_file_of_hdf5_states_no_separator_that_its_source_did_not(layout, tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b"")
    path = tmp_path / "x.h5"
    tokfmt.convert(tmp_path / "x.jsonl", path, format="jsonl", to_options={"layout": layout}, manifest=False)
    assert tokfmt.info(path).eos_id is None
    with h5py.File(path) as file:
        assert "eos_id" not in file["data"].attrs
