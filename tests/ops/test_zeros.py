"""Zeros in the place of tokens, and bytes that are missing inside of a file: what half a copy leaves."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokfmt

EOS = 50_256


def documents(count, seed=0, end=(EOS,)):
    rng = np.random.default_rng(seed)
    return [[*rng.integers(1, 50_000, rng.integers(20, 300)).tolist(), *end] for _ in range(count)]


@pytest.fixture
def pair(tmp_path):
    """A Megatron pair without a manifest, its bytes, and where its documents begin (in tokens)."""
    docs = documents(200)
    (tmp_path / "d.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in docs))
    tokfmt.convert(tmp_path / "d.jsonl", tmp_path / "m", to_format="megatron", eos=EOS)
    (tmp_path / "m.bin.tokfmt.json").unlink()
    starts = np.cumsum([0, *map(len, docs)])
    return tmp_path / "m.bin", (tmp_path / "m.bin").read_bytes(), starts


def codes(path, **how):
    (report,) = tokfmt.check(path, **how)
    return {finding.code: finding for finding in report.findings if finding.severity != "info"}


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("first", [0, 77, 20_000])
def test_zeros_at_the_end(pair, deep, first):
    path, content, starts = pair
    path.write_bytes(content[: 2 * first] + bytes(len(content) - 2 * first))
    finding = codes(path, deep=deep)["TF949"]
    assert (finding.severity, finding.offset) == ("error", 2 * first)
    number = int(np.searchsorted(starts, first, "right")) - 1
    assert f"sequences {number:,} to 199" in finding.message
    report = tokfmt.convert(path, path.with_name("copy.jsonl"), eos="none")
    assert any(finding.message in note for note in report.notes)  # its zeros are kept, and said
    assert f"{int(starts[-1]) - first:,} tokens" in finding.message


def test_a_run_inside_is_found_by_a_deep_check(pair):
    path, content, starts = pair
    path.write_bytes(content[:20_480] + bytes(8192) + content[28_672:])
    assert "TF949" not in codes(path)
    finding = codes(path, deep=True)["TF949"]
    assert (finding.severity, finding.offset) == ("warning", 20_480)
    assert f"sequence {int(np.searchsorted(starts, 10_240, 'right')) - 1:,}" in finding.message


def test_zeros_that_are_meant(tmp_path, pair):
    """Those of the separator 0, of the padding of a row, and few of them."""
    path, content, _ = pair
    path.write_bytes(content[:-2000] + bytes(2000))
    assert "TF949" not in codes(path, deep=True)
    np.zeros(5000, "<u2").tofile(tmp_path / "x.ds")
    np.arange(1, 5001, dtype="<u8").tofile(tmp_path / "x.ds.index")
    assert "TF949" not in codes(tmp_path / "x.ds", deep=True, eos=0)
    rows = np.arange(1, 40_961, dtype=np.uint16).reshape(10, 4096)
    rows[-1, 100:] = 0
    np.save(tmp_path / "rows.npy", rows)
    assert "TF949" not in codes(tmp_path / "rows.npy", deep=True)


@given(begin=st.integers(0, 8000), length=st.integers(1, 6000))
def test_what_is_said_of_zeros_is_true(tmp_path_factory, begin, length):
    """Other IDs and zeros in any order before them: what is said is true."""
    home = tmp_path_factory.mktemp("zeros")
    ids = np.concatenate([np.arange(begin) % 7, np.zeros(length), [5] * (begin % 3), np.zeros(1500)]).astype("<u2")
    ids.tofile(home / "x.ds")
    np.array([len(ids)], "<u8").tofile(home / "x.ds.index")
    finding = codes(home / "x.ds", eos="none")["TF949"]
    assert not ids[finding.offset // 2 :].any()
    assert finding.offset == 0 or ids[finding.offset // 2 - 1]


@pytest.mark.parametrize("missing", [4096, 4094, 2])
@pytest.mark.parametrize("eos", [None, EOS])
def test_bytes_that_are_missing_inside_of_a_file(pair, tmp_path, missing, eos):
    """The documents behind them are moved: none is taken for complete."""
    path, content, starts = pair
    gap = len(content) // 3 // 2 * 2
    path.write_bytes(content[:gap] + content[gap + missing :])
    report = tokfmt.convert(path, tmp_path / "saved.jsonl", allow_partial=True, eos=eos)
    saved = [json.loads(line)["input_ids"] for line in (tmp_path / "saved.jsonl").read_text().splitlines()]
    whole = int(np.searchsorted(starts, gap // 2, "right")) - 1
    assert saved == [ids[:-1] for ids in documents(200)[:whole]]
    assert report.partial[0]["lost_sequences"] == 200 - whole


def test_documents_that_end_in_many_ways_are_saved_up_to_the_end_of_the_file(tmp_path):
    docs = documents(200, end=())
    (tmp_path / "d.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in docs))
    tokfmt.convert(tmp_path / "d.jsonl", tmp_path / "m", to_format="megatron", eos="none")
    (tmp_path / "m.bin.tokfmt.json").unlink()
    content = (tmp_path / "m.bin").read_bytes()
    (tmp_path / "m.bin").write_bytes(content[: len(content) // 2])
    tokfmt.convert(tmp_path / "m.bin", tmp_path / "saved.jsonl", allow_partial=True, eos="none")
    saved = [json.loads(line)["input_ids"] for line in (tmp_path / "saved.jsonl").read_text().splitlines()]
    whole = int(np.searchsorted(np.cumsum([0, *map(len, docs)]), len(content) // 4, "right")) - 1
    assert saved == docs[:whole]
