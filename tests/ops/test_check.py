"""`check`: every file in fixtures/ and every case gives the findings expected; every code has a case."""

import json
import os
import re

import pytest
from check_cases import CASES, converted, look
from paths import CORPUS, FIXTURES, TOKENIZER, golden

import tokfmt
from tokfmt.core.errors import OptionError
from tokfmt.ops.check import explain
from tokfmt.ops.check.codes import all_codes

BAD = FIXTURES / "bad"
FORMATS = ("modalities", "stage1", "hdf5", "flat-tokens", "jsonl")
FOUND = {f: json.loads((BAD / f / "findings.json").read_bytes()) for f in FORMATS}
EXPECTED = {f: json.loads((BAD / f / "expected.json").read_bytes()) for f in FORMATS}


def test_every_bad_file_has_findings():
    assert {f: FOUND[f].keys() for f in FORMATS} == {f: EXPECTED[f].keys() for f in FORMATS}


AGE = {"TF113", "TF114", "TF115", "TF119", "TF120", "TF121", "TF124"}
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
    "padded_pad0_inverted": {"TF340"}, "multi_file": {"TF325"}, "new_packed_disjoint": {"TF342"},
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


def produced_by_fixtures():
    listed = {
        c for f in FORMATS for found in FOUND[f].values() for c in (found if isinstance(found, list) else found["deep"])
    }
    return listed | {c for codes in (*DEFECTIVE.values(), *WRONG.values()) for c in codes} | AGE | {"TF107"}


def test_every_code_has_a_test():
    elsewhere = {"TF900", "TF902"}  # below
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
