"""`check`: every file in fixtures/ and every case gives the findings expected; every code has a case."""

import gzip
import json
import os
import re

import closed
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import registered
from check_cases import CASES, converted, look
from paths import CORPUS, FIXTURES, TOKENIZER, golden
from plugged import plugged

import tokfmt
from tokfmt.commands.check import explain
from tokfmt.commands.check.codes import all_codes
from tokfmt.core.format import Format
from tokfmt.core.inspection import Inspection
from tokfmt.errors import OptionError
from tokfmt.plugin import Confidence, Finding, UnsafeError

BAD = FIXTURES / "bad"
FORMATS = ("modalities", "stage1", "hdf5", "flat-tokens", "jsonl")
DAMAGED = sorted(path.parent.name for path in BAD.glob("*/expected.json"))
FOUND = {f: json.loads((BAD / f / "findings.json").read_bytes()) for f in DAMAGED}
EXPECTED = {f: json.loads((BAD / f / "expected.json").read_bytes()) for f in DAMAGED}


def test_every_bad_file_has_findings():
    assert {f: FOUND[f].keys() for f in DAMAGED} == {f: EXPECTED[f].keys() for f in DAMAGED}


AGE = {"TF113", "TF114", "TF115", "TF119", "TF120", "TF121", "TF941"}
GOLDENS = sorted(
    path
    for f in FORMATS
    for path in (FIXTURES / f).iterdir()
    if path.name not in ("PROVENANCE.md", "expected.json", "make.py", "idx_history")
    and path.suffix != ".idx"
    and not path.name.endswith(".tokfmt.json")
    and not (f == "hdf5" and path.suffix == ".jsonl")
)
DEFECTIVE = {
    "padded_pad0_inverted": {"TF340"}, "multi_file": {"TF325"}, "new_packed_disjoint": {"TF342"}, "new_packed_split_text": {"TF947"},
    "new_shuffled": {"TF901"}, "shuffled": {"TF901"},
    "doc_example_bare.zarr": {"TF414"}, "empties_bare.zarr": {"TF414"}, "multi_chunk_bare.zarr": {"TF414"},
    "empty_dataset.zarr": {"TF418"}, "train_empty.zarr": {"TF418"},
    "bom.jsonl": {"TF507"}, "nan.jsonl": {"TF510"}, "with_empty_text.jsonl": {"TF509"}, "corpus.jsonl": {"TF517"},
    "corpus_ascii.jsonl": {"TF517"}, "empty_line.jsonl": {"TF519"}, "only_newline.jsonl": {"TF519"},
}  # fmt: skip
WRONG = {
    "wild_branch_only_A_broken_offsets_6bcc334f.pbin": {"TF106", "TF112"},
    "wild_branch_only_A_len_plus1_b8211997.pbin": {"TF106", "TF111"},
    "wild_branch_only_P0_noheader.pbin": {"TF102"},
    "wild_branch_only_P2_header4_len_plus3.pbin": {"TF106"},
    "faulty.jsonl": {"TF501"}, "latin1.jsonl": {"TF503"}, "non_dict.jsonl": {"TF501"},
    "surrogate.jsonl": {"TF504"},
}  # fmt: skip


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.name)
def test_golden(path):
    """Valid ones have no error; defective ones have theirs, in a deep look and in a shallow one."""
    for deep in (False, True):
        verdict = look(path, deep=deep)
        errors = {f.code for f in verdict.findings if f.severity == "error"}
        merged = {"TF107"} if path.name.startswith("E_") and path.name != "E_mixed_D_then_C_2byte.pbin" else set()
        assert errors == WRONG.get(path.name, merged)
        assert (verdict.exit_code == 1) == bool(errors)
        if deep:
            assert verdict.counts.keys() - errors - AGE == DEFECTIVE.get(path.name, set())


@pytest.mark.parametrize("name", ["wild_repo_C_lorem_ipsum.pbin", "wild_repo_D_lorem_ipsum.pbin"])
def test_packs_of_others(name):
    assert look(golden("modalities", name), deep=True).errors == 0


@pytest.mark.parametrize("code", CASES)
def test_case(code, tmp_path):
    path, demands = CASES[code](tmp_path)
    assert code in look(path, **demands).counts


BELOW = {"TF668", "TF669", "TF688", "TF689", "TF917", "TF942", "TF943", "TF944", "TF945", "TF946", "TF947", "TF948"}
"""Codes whose tests are at the end."""


def produced_by_fixtures():
    listed = {
        c for f in DAMAGED for found in FOUND[f].values() for c in (found if isinstance(found, list) else found["deep"])
    }
    return listed | {c for codes in (*DEFECTIVE.values(), *WRONG.values()) for c in codes} | AGE | {"TF107"}


def test_every_code_has_a_test():
    elsewhere = {
        "TF900",
        "TF902",
        "TF811",
        "TF812",
        "TF813",
        "TF814",
        "TF815",
        "TF949",
    } | BELOW  # runs and zeros have their own
    assert all_codes().keys() - produced_by_fixtures() - CASES.keys() - elsewhere == set()


def test_nothing_to_open(tmp_path):
    (tmp_path / "x.bin").write_bytes(b"\xff" * 999)
    os.mkfifo(tmp_path / "fifo")
    for name in ("absent.pbin", "x.bin", "fifo"):
        verdict = look(tmp_path / name)
        assert (verdict.counts, verdict.exit_code, verdict.format) == ({"TF900": 1}, 3, None)
    assert look(tmp_path / "absent.pbin", format="modalities").exit_code == 3


def test_explanations():
    for code, meaning in all_codes().items():
        assert re.fullmatch(r"TF\d{3}", code)
        assert len(meaning.text) > 80, code
        assert "  " not in meaning.text
        assert meaning.text.endswith(".")
        assert not meaning.title.endswith(".")
    assert explain("tf107").owner == "modalities"
    with pytest.raises(OptionError, match="Did you mean TF1"):
        explain("TF170")


def test_a_flood_is_counted(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"text": "a"}\n' + b"{\n" * 5000)
    verdict = look(path, limit=10)
    assert verdict.counts == {"TF501": 5000}
    assert len(verdict.findings) == 10
    assert verdict.left_out == {"TF501": 4990}


class Counted:
    """Bytes that were read."""

    def __init__(self, monkeypatch):
        self.total = 0
        for name, size in (("pread", len), ("preadv", int)):
            monkeypatch.setattr(os, name, self.counting(getattr(os, name), size))

    def counting(self, call, size):
        def counted(*args):
            found = call(*args)
            self.total += size(found)
            return found

        return counted


def test_a_terabyte_is_looked_at_in_places(tmp_path, monkeypatch):
    home = tmp_path / "blocks"
    home.mkdir()
    for number in range(4):
        with open(home / f"stage1_block_{number:04d}.bin", "wb") as file:
            file.truncate(1 << 38)
    counted = Counted(monkeypatch)
    assert look(home).counts["TF209"] == 4
    assert 0 < counted.total < 4 << 20


def test_much_text_is_looked_at_in_places(tmp_path, monkeypatch):
    path = tmp_path / "x.jsonl"
    line = b'{"text": "' + b"a" * 989 + b'"}\n'
    with open(path, "wb") as file:
        file.writelines(line * 1024 for _ in range(40))
        file.write(b"{\n")
    counted = Counted(monkeypatch)
    (finding,) = look(path).findings
    assert (finding.code, finding.offset) == ("TF501", 40 * 1024 * len(line) + 1)
    assert "the line at byte" in finding.message
    assert 0 < counted.total < 20 << 20


def test_a_good_conversion_has_no_findings(tmp_path):
    """Manifest, tokenizer and corpus agree, in every format."""
    pack = converted(tmp_path)
    own = {"deep": True, "tokenizer": str(TOKENIZER), "against": str(CORPUS)}
    verdict = look(pack, **own)
    assert (verdict.counts, verdict.sequences) == ({}, 184)
    for name, how in (("x.zarr", {}), ("x.h5", {"seq_len": 128}), ("stage1", {"to_format": "stage1"})):
        tokfmt.convert(pack, tmp_path / name, **how)
        verdict = look(tmp_path / name, **own)
        assert verdict.errors == 0, verdict.findings
        assert {f.code for f in verdict.findings} <= {"TF324"}
        assert verdict.sequences == 184


@pytest.mark.parametrize(("zeros", "found"), [(0, []), (100, ["TF210"])])
def test_padding_with_separator_0_is_not_an_unfinished_copy(zeros, found, tmp_path):
    """GPT-NeoX has the separator 0, but padding ends with the sample."""
    source = tmp_path / "in.jsonl"
    source.write_text('{"input_ids": [5, 6, 7]}\n')
    tokfmt.convert(source, tmp_path / "x.bin", to_format="stage1", eos=0, to_options={"seq_len": 100}, manifest=False)
    with (tmp_path / "x.bin").open("ab") as file:
        file.write(bytes(4 * zeros))
    for deep in (False, True):
        verdict = tokfmt.check(tmp_path / "x.bin", format="stage1", options={"seq_len": 100}, eos=0, deep=deep)[0]
        assert [one.code for one in verdict.findings if one.severity == "error"] == found


@pytest.mark.parametrize("name", ["nanogpt", "stage1"])
def test_tokenizer_gives_the_separator_if_nothing_else_does(name, tmp_path):
    """Stats and check count the same with a tokenizer."""
    tokfmt.convert(CORPUS, tmp_path / "x.bin", to_format=name, tokenizer=str(TOKENIZER), manifest=False)
    verdict = look(tmp_path / "x.bin", format=name, tokenizer=str(TOKENIZER))
    told = tokfmt.stats(tmp_path / "x.bin", format=name, tokenizer=str(TOKENIZER)).datasets[0]
    assert (verdict.counts, verdict.sequences, verdict.tokens) == ({}, told.sequences, told.tokens)
    assert told.sequences == 184


def test_a_file_has_the_separator_of_its_directory(tmp_path):
    """Zeros are its padding, by the directory's manifest: no unfinished copy."""
    source = tmp_path / "in.jsonl"
    source.write_text('{"input_ids": [5, 6, 7]}\n')
    tokfmt.convert(source, tmp_path / "x", to_format="stage1", eos=0, to_options={"seq_len": 100})
    (block,) = (tmp_path / "x").iterdir()
    for deep in (False, True):
        assert look(tmp_path / "x", deep=deep).counts == look(block, deep=deep).counts == {}


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", [name for name in registered.names() if not registered.get(name).read_only])
def test_a_dataset_without_tokens(name, deep, tmp_path):
    if registered.get(name).is_computed:
        return
    (tmp_path / "empty.jsonl").write_text("")
    path = tmp_path / ("x_document.bin" if name == "megatron" else f"x{suffix_of(name)}")
    tokfmt.convert(tmp_path / "empty.jsonl", path, to_format=name, eos=0)
    verdict = look(path, format=name, deep=deep)
    assert (verdict.counts["TF941"], verdict.exit_code) == (1, 0)


def suffix_of(name):
    (*suffixes,) = (one for one in registered.get(name).extensions if one.startswith("."))
    return suffixes[0] if suffixes else ""


def test_a_dataset_of_one_token_is_not_empty(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"input_ids": [5]}\n')
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "x.parquet")
    for path in ("x.jsonl", "x.parquet"):
        assert "TF941" not in look(tmp_path / path, deep=True).counts


NUMBERED = [
    ("olmo", "part-0-{:05d}.npy", "part-0-00002.npy"),
    ("olmo", "part-{}-00000.npy", "part-2-*.npy"),
    ("datatrove", "{:05d}_00000_shuffled.ds", "00002_*_shuffled.ds"),
    ("llmc", "edufineweb_train_{:06d}.bin", "edufineweb_train_000002.bin"),
    ("jsonl", "shard{}.jsonl", "shard2.jsonl"),
    ("parquet", "part-{:05d}.parquet", "part-00002.parquet"),
    ("megatron", "web_{:03d}_text_document.bin", "web_002_text_document.bin"),
]


@pytest.mark.parametrize(("name", "pattern", "lost"), NUMBERED)
def test_a_number_that_is_left_out(name, pattern, lost, tmp_path):
    """Files of a folder that no index lists: the third of four is lost, then none is, then most are."""
    (tmp_path / "x.jsonl").write_text('{"input_ids": [5, 6, 7]}\n' * 40)
    home = tmp_path / "home"
    home.mkdir()
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "one.pbin", eos=0)

    def counts(*numbers):
        for file in home.iterdir():
            file.unlink()
        for number in numbers:
            tokfmt.convert(tmp_path / "one.pbin", home / pattern.format(number), to_format=name, manifest=False)
        return look(home, format=name)

    found = counts(0, 1, 3)
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("TF917", "warning")
    assert f"lacks {lost}: " in finding.message
    assert not counts(0, 1, 2, 3).counts
    assert not counts(5, 6).counts, "the first files may have been left out"
    assert not counts(3, 7, 8).counts, "numbers that do not count files"


def test_names_that_are_hashes_are_not_numbered(tmp_path):
    for name in ("3f2a", "5f2a", "7f2a", "a1b", "a3b", "a4b"):
        (tmp_path / f"{name}.jsonl").write_text('{"input_ids": [5]}\n')
    assert not look(tmp_path).counts


def test_each_rank_has_numbers_of_its_own(tmp_path):
    """Rank 1 wrote one file only: nothing shows that another is missing."""
    for name in ("part-0-00000", "part-0-00001", "part-1-00000", "part-2-00000", "part-2-00001"):
        (tmp_path / f"{name}.jsonl").write_text('{"input_ids": [5]}\n')
    assert not look(tmp_path).counts
    (tmp_path / "part-1-00000.jsonl").unlink()
    (finding,) = look(tmp_path).findings
    assert "lacks part-1-*.jsonl: " in finding.message


def olmo(home, *files):
    """Documents that end with 0 as OLMo stores them; each file is (name, dtype, documents, masks or None)."""
    home.mkdir()
    for name, dtype, sequences, masks in files:
        ends = np.cumsum([len(one) for one in sequences]).tolist()
        rows = "".join(f"{a},{b},d,s,1\n" for a, b in zip([0, *ends], ends, strict=False))
        (home / f"{name}.npy").write_bytes(np.concatenate(sequences).astype(dtype).tobytes())
        (home / f"{name}.csv.gz").write_bytes(gzip.compress(rows.encode()))
        if masks is not None:
            home.joinpath(name.replace("token_ids", "labels_mask") + ".npy").write_bytes(
                np.concatenate(masks).astype("u1").tobytes()
            )
    return home


@pytest.mark.parametrize("deep", [False, True])
def test_files_of_several_widths(deep, tmp_path):
    one = [[5, 6, 0], [7, 0]]
    mixed = olmo(tmp_path / "mixed", ("part-0-00000", "<u2", one, None), ("part-0-00001", "<u4", one, None))
    (finding,) = (one for one in look(mixed, deep=deep).findings if one.code == "TF943")
    assert "2 bytes in part-0-00000.npy, 4 bytes in part-0-00001.npy" in finding.message
    same = olmo(tmp_path / "same", ("part-0-00000", "<u4", one, None), ("part-0-00001", "<u4", one, None))
    assert "TF943" not in look(same, deep=deep).counts


def silent(verdict):
    """The numbers in the finding on sequences without a token that counts; None without one."""
    found = [one for one in verdict.findings if one.code == "TF942"]
    return [int(number) for number in re.findall(r"[\d]+", found[0].message)] if found else None


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_rows_without_a_label_that_counts(suffix, tmp_path):
    ids = [[1, 2, 3], [4, 5], [6], [], [7, 8]]
    none = [[-100] * len(one) for one in ids]
    some = [none[0], [-100, 5], [6], [], none[4]]
    for name, labels, expected in (("none", none, [4, 5, 0]), ("some", some, [2, 5, 0]), ("all", ids, None)):
        path = tmp_path / f"{name}.{suffix}"
        convert_table(pa.table({"input_ids": pa.array(ids, pa.list_(pa.int32())), "labels": labels}), path)
        assert silent(look(path, deep=True)) == expected
        assert "TF942" not in look(path).counts, "the quick check reads some rows only"


def convert_table(table, path):
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=2)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)


def test_packed_rows_without_a_label_that_counts(tmp_path):
    table = pa.table({
        "input_ids": pa.array([[1, 2, 3, 4], [5, 6, 7]], pa.list_(pa.int32())),
        "loss_mask": pa.array([[0, 0, 1, 0], [0, 0, 0]], pa.list_(pa.uint8())),
        "seq_start_id": pa.array([[0, 2], [0]], pa.list_(pa.int32())),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "x.idx.parquet")
    assert silent(look(tmp_path / "x.idx.parquet", deep=True, format="parquet")) == [2, 3, 0]


def test_documents_of_which_only_the_separator_counts(tmp_path):
    """A mask describes its own token in OLMo; the separator of the second document counts, and that of the others not."""
    masks = [[0, 0, 0], [0, 1], [1, 0], [0, 0]]
    files = ("token_ids_part_0000", "<u2", [[5, 6, 0], [7, 0], [8, 0], [9, 0]], masks)
    assert silent(look(olmo(tmp_path / "x", files), deep=True)) == [2, 4, 0]


@pytest.mark.parametrize("deep", [False, True])
def test_labels_that_are_moved_already(deep, tmp_path):
    ids = [[1, 2, 3, 4], [5, 6, 7], [9, 9, 9], [1, 2]]
    moved = [[2, 3, 4, -100], [-100, 7, -100], [9, 9, -100], [2, -100]]
    for name, labels, expected in (
        ("moved", moved, "labels of 3 of 4 rows are the next tokens (first: row 0)"),
        ("other", [ids[0], [5, 60, 7], ids[2], ids[3]], "labels of 1 of 4 rows are other IDs than their tokens (first: row 1)"),
        ("right", [[-100, 2, 3, 4], ids[1], ids[2], [-100, 2]], None),
    ):  # fmt: skip
        for suffix, code in (("parquet", "TF668"), ("arrow", "TF688")):
            path = tmp_path / f"{name}.{suffix}"
            convert_table(pa.table({"input_ids": pa.array(ids, pa.list_(pa.int32())), "labels": labels}), path)
            verdict = look(path, deep=deep)
            found = [one.message for one in verdict.findings if one.code == code]
            assert bool(found) == (expected is not None)
            assert not found or not deep or found == [expected]
            assert verdict.exit_code == int(expected is not None)


FIVES = [[5, 6, 17 + number, 3] for number in range(12)]


def test_every_format_holds_separators_or_records():
    assert closed.INDEXED.keys() | closed.STREAMS.keys() | closed.TEXTS == {*registered.names()}


def of_codes(path, *codes, **demands):
    (verdict,) = tokfmt.check(path, deep=True, **demands)
    return {one.code: (one.severity, one.message) for one in verdict.findings if one.code in codes}


@pytest.mark.parametrize("eos", [None, 9])
@pytest.mark.parametrize("name", closed.INDEXED)
def test_documents_that_lack_the_separator_are_counted_in_every_format(name, eos, tmp_path):
    documents = [[*one, 9] for one in FIVES]
    documents[4], documents[7], documents[8] = [1, 2], [9], [3]
    found = of_codes(closed.indexed(tmp_path, name, documents), "TF944", "TF116", "TF945", "TF946", "TF121", eos=eos)
    (code, (severity, message)), *others = found.items()
    assert (code, severity, others) == ("TF116" if name == "modalities" else "TF944", "warning", [])
    assert message.startswith("2 of 12 documents") and "first: document 4" in message


@pytest.mark.parametrize("name", sorted(closed.INDEXED.keys() - {"flat-tokens", "parquet", "arrow"}))  # these need none
def test_a_separator_that_no_document_has_is_reported(name, tmp_path):
    path = closed.indexed(tmp_path, name, [[*one[:2], one[3], one[2]] for one in FIVES])
    found = of_codes(path, "TF944", "TF117", eos=9)
    assert list(found) == ["TF117" if name == "modalities" else "TF944"]
    if name != "modalities":
        assert found["TF944"][0] == "warning" and "none of 12 documents" in found["TF944"][1]
        (verdict,) = tokfmt.check(path, tokenizer=str(TOKENIZER))  # it needs no look at every token
        assert "none of 12 documents" in " ".join(one.message for one in verdict.findings if one.code == "TF944")
    assert of_codes(path, "TF944") == {}


def test_one_document_of_many_that_lacks_the_separator_is_counted(tmp_path):
    """It is none of those that were looked at when the dataset was opened, and no error."""
    documents = [[1 + number % 8, 9] for number in range(6000)]
    documents[80], documents[81] = [1, 2], []
    (verdict,) = tokfmt.check(closed.indexed(tmp_path, "megatron", documents), deep=True)
    assert verdict.counts == {"TF944": 1}
    assert verdict.findings[0].message.startswith("1 of 6,000 documents")
    assert "document 80" in verdict.findings[0].message
    assert (verdict.sequences, verdict.tokens) == (6000, 6000)


@pytest.mark.parametrize("eos", [None, 9])
@pytest.mark.parametrize("name", closed.INDEXED)
def test_documents_that_end_with_the_separator_twice_are_counted_in_every_format(name, eos, tmp_path):
    documents = [[*one, 9, 9] for one in FIVES]
    documents[2] = [1, 9]
    found = of_codes(closed.indexed(tmp_path, name, documents), "TF944", "TF945", "TF946", eos=eos)
    severity, message = found.pop("TF945")
    assert (severity, found) == ("warning", {})
    assert message.startswith("11 of 12 documents") and "first: document 0" in message


@pytest.mark.parametrize("eos", [None, 9])
@pytest.mark.parametrize("name", closed.INDEXED)
def test_separators_inside_documents_are_counted_in_every_format(name, eos, tmp_path):
    documents = [[*one, 9] for one in FIVES]
    documents[3], documents[5] = [1, 9, 2, 9, 4, 9], [1, 9, 9]
    found = of_codes(closed.indexed(tmp_path, name, documents), "TF944", "TF945", "TF946", "TF121", eos=eos)
    (code, (severity, message)), *others = found.items()
    assert (code, severity, others) == ("TF121" if name == "modalities" else "TF946", "info", [])
    assert " 3x " in message and "first: document 3" in message


def test_a_full_stop_that_ends_texts_is_no_separator(tmp_path):
    documents = [[5, 9, number, 9, 7, 9] for number in range(20)]
    documents[3].pop()
    assert of_codes(closed.indexed(tmp_path, "datatrove", documents), "TF944", "TF945", "TF946") == {}


@pytest.mark.parametrize("name", closed.STREAMS)
def test_separators_that_follow_each_other_in_a_stream_are_counted(name, tmp_path):
    """As in an index, if most documents have two; two of one or of none are empty documents, which may be."""
    documents = [[*one, 9, 9] for one in FIVES]
    documents[2], documents[11] = [1, 9], [8, 9]
    few = [one[:-1] if number % 3 else one for number, one in enumerate(documents)]
    for several, expected in ((documents, "10 of 12 documents"), (few, None)):
        ids = [token for one in several for token in (one if name != "llmc" else one[::-1])]
        path, options = closed.stream(tmp_path / str(len(ids)), name, ids)
        found = of_codes(path, "TF945", format=name, eos=9, options=options)
        assert list(found) == ["TF945"] * (expected is not None)
        for severity, message in found.values():
            assert severity == "warning" and message.startswith(expected) and "first: document" in message


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    "name", sorted(closed.STREAMS.keys() - {"llmc"})
)  # where separators are in front, none is missing
def test_a_last_document_that_is_not_finished_is_reported_in_every_stream(name, finished, tmp_path):
    ids = [token for one in FIVES for token in (*one, 9)] + [4] * 3 + [9] * finished
    path, options = closed.stream(tmp_path, name, ids)
    found = of_codes(path, "TF947", "TF645", format=name, eos=9, options=options)
    assert set(found) == (set() if finished else {"TF645" if name == "nanogpt" else "TF947"})
    how = {"format": name, "eos": 9, "options": options}
    for notes in (tokfmt.stats(path, **how).datasets[0].notes, tokfmt.info(path, **how).notes):
        assert len([note for note in notes if "not finished" in note and "separator 9" in note]) == (not finished)
    done = tokfmt.convert(path, tmp_path / "out.pbin", **how)
    assert done.separators["added"] == (not finished)
    assert [note for note in done.notes if "not finished" in note and "separator 9" in note] == done.notes[-1:] * (
        not finished
    )


class Plainly(Inspection):
    """One finding of its own, and the reader of a pack."""

    def __init__(self, pack, error):
        self.pack, self.error = pack, error

    def reader(self):
        if self.error:
            raise self.error
        return self.pack.reader()

    def look(self, how):
        yield Finding("XY1", "warning", str(self.pack.file.path), "is plain")


class Plain(Format):
    """A plug-in that knows nothing of deep looks: only what the contract asks for."""

    packs = registered.get("modalities")
    name, title, extensions, read_options = "plain", "Plain packs", (".plain",), packs.read_options
    error = None

    def sniff(self, probe):
        return Confidence.CERTAIN

    def inspect(self, paths, options, hints):
        return Plainly(self.packs.inspect(paths, options, hints), self.error)


def test_plug_ins(monkeypatch):
    """Deep looks go through their reader; what it refuses is a finding."""
    plain, path = plugged(monkeypatch, Plain()), FIXTURES / "modalities/D_2byte_gpt2_eod_always.pbin"
    (verdict,) = tokfmt.check(path, format="plain", deep=True)
    assert (verdict.counts, verdict.sequences, verdict.exit_code) == ({"XY1": 1, "TF946": 1}, 42, 0)
    plain.error = UnsafeError(path, "would take all memory")
    (verdict,) = tokfmt.check(path, format="plain", deep=True)
    assert (verdict.counts, verdict.exit_code) == ({"XY1": 1, "TF902": 1}, 3)


LED = [[2 + (number * 7 + k) % 90 for k in range(6)] for number in range(300)]
PART = {number for number in range(300) if number % 3}


@pytest.mark.parametrize("bos", [1, 400])
@pytest.mark.parametrize("name", [*closed.INDEXED, *closed.STREAMS])
def test_documents_of_which_some_begin_with_a_bos_are_counted_in_every_format(name, bos, tmp_path):
    """No option states the BOS; a word that begins as many is inside of others, or among the words, and is none."""
    begun = {
        "part": [[bos] * (number in PART) + one for number, one in enumerate(LED)],
        "all": [[bos, *one] for one in LED],
        "inside": [[bos] * (number in PART) + [*one, bos, 5] for number, one in enumerate(LED)],
        "word": [[50] * (number in PART) + one for number, one in enumerate(LED)],
    }
    counted = dict.fromkeys(begun)
    for key, documents in begun.items():
        if name in closed.INDEXED:
            path, demands = closed.indexed(tmp_path / key, name, [[*one, 401] for one in documents]), {}
        else:
            ids = [token for one in documents for token in ([401, *one] if name == "llmc" else [*one, 401])]
            path, options = closed.stream(tmp_path / key, name, ids)
            demands = {"format": name, "eos": 401, "options": options}
        for severity, message in of_codes(path, "TF948", **demands).values():
            counted[key] = severity, message.partition(" documents")[0]
            assert "document 0)" in message
        if key == "inside":  # where it is stated, it is the BOS
            assert list(of_codes(path, "TF948", **demands, bos=bos)) == ["TF948"]
    assert counted == dict.fromkeys(begun) | {"part": ("warning", f"{len(PART)} of {len(LED)}")}


def test_records_of_which_some_begin_with_a_bos_are_counted(tmp_path):
    (tmp_path / "x.jsonl").write_text(
        "".join(json.dumps({"input_ids": [1] * (number in PART) + one}) + "\n" for number, one in enumerate(LED))
    )
    for path in (tmp_path / "x.jsonl", tmp_path / "x.tfrecord"):
        if path.suffix == ".tfrecord":
            tokfmt.convert(tmp_path / "x.jsonl", path, eos="none")
        severity, message = of_codes(path, "TF948")["TF948"]
        assert severity == "warning" and message.startswith("200 of 300 documents")
