"""`check --against`: what happened to documents on their way, compared with plain lists."""

import json
from collections import Counter

import numpy as np
import pytest
from amount import FUZZ_ONLY, examples
from check_cases import asked, converted, own, pack, stored
from comparing import compared
from hypothesis import given, settings
from hypothesis import strategies as st
from moments import At
from paths import CORPUS, TOKENIZER, golden

import tokfmt
from tokfmt import convert, show
from tokfmt.commands.check import check


def look(path, **demands):
    (verdict,) = check(asked(path, **{**own(against=str(CORPUS)), **demands}))
    return verdict


def test_the_order_may_not_count(tmp_path):
    path = converted(tmp_path, shuffle=7)
    assert not look(path).counts  # its manifest says so
    (tmp_path / "x.pbin.tokfmt.json").unlink()
    (finding,) = look(path).findings
    assert (finding.code, finding.remedy) == ("TF935", "If their order does not matter, add --ignore-order")
    assert not look(path, ignore_order=True).counts
    convert(path, tmp_path / "less.pbin", select="0:150")
    (finding,) = look(tmp_path / "less.pbin", ignore_order=True).findings
    assert finding.message.startswith("34 of 184 documents are missing (first: document ")


def test_a_corpus_with_other_fields(tmp_path):
    """As every real one has them: they are not compared, and nobody has to give them up."""
    lines = [
        {"text": json.loads(line)["text"], "meta": {"n": n}} for n, line in enumerate(CORPUS.read_text().splitlines())
    ]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = converted(tmp_path)
    assert not look(path, against=str(tmp_path / "c.jsonl")).counts
    lines.insert(9, {"text": 5})
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (finding,) = look(path, against=str(tmp_path / "c.jsonl")).findings
    assert finding.code == "TF901"
    assert "--allow-loss invalid-lines" in finding.message
    assert not look(path, against=str(tmp_path / "c.jsonl"), allow_loss=frozenset({"invalid-lines"})).counts


def test_truncated(tmp_path):
    (finding,) = look(converted(tmp_path, select="0:20")).findings
    assert finding.message == "164 of 184 documents are missing (from document 20 of the corpus on)"
    assert finding.code == "TF931"


def test_a_line_left_out(tmp_path):
    lines = CORPUS.read_bytes().splitlines(keepends=True)
    (tmp_path / "t.jsonl").write_bytes(b"".join(lines[:6] + lines[7:]))
    convert(tmp_path / "t.jsonl", tmp_path / "x.pbin", tokenizer=str(TOKENIZER))
    (finding,) = look(tmp_path / "x.pbin").findings
    assert finding.message == "1 of 184 documents are missing (first: document 6 of the corpus)"


def test_a_changed_token_is_located(tmp_path):
    path = converted(tmp_path)
    tokens, index = stored(path)
    start = index[5][0] // 2
    raw = bytearray(path.read_bytes())
    at = 12 + 2 * (start + 3)
    raw[at] ^= 1
    path.write_bytes(raw)
    (finding,) = [f for f in look(path).findings if f.code == "TF933"]
    was, now = int(tokens[start + 3]), int(tokens[start + 3]) ^ 1
    assert f"sequence 5, document 5 of the corpus, position 3: {now:,}, expected {was:,}" in finding.message
    assert finding.offset is None or finding.offset in (at, at - at % 2)


@pytest.mark.parametrize("later", [1, 60])
def test_shifted(later, tmp_path):
    """Documents as a program saw them that believed the offsets of a merge."""
    tokens, index = stored(converted(tmp_path))
    moved = [(a // 2 - (6 if k >= later else 0), n // 2) for k, (a, n) in enumerate(index)]
    docs = [tokens[a : a + n].tolist() for a, n in moved]
    found = look(pack(tmp_path / "y.pbin", docs)).findings
    (finding,) = [f for f in found if f.code == "TF934"]
    assert "they begin 6 tokens too early" in finding.message
    assert f"{len(index) - later:,} documents differ (first: sequence {later:,}" in finding.message


def test_a_merged_pack_has_all_documents(tmp_path):
    """Only its offsets are wrong; by length the documents are those of the corpus."""
    tokens, index = stored(converted(tmp_path))
    import pickle
    import struct

    half = len(index) // 2
    shifted = [(a - (12 if k >= half else 0), n) for k, (a, n) in enumerate(index)]
    raw = struct.pack("<QI", 2 * len(tokens), 2) + tokens.tobytes() + pickle.dumps(shifted, protocol=4)
    (tmp_path / "m.pbin").write_bytes(raw)
    assert look(tmp_path / "m.pbin").counts == {"TF107": 1}


def test_every_format(tmp_path):
    path = converted(tmp_path, select="0:100")
    for name, how in (("x.zarr", {}), ("x.h5", {"seq_len": 64}), ("s", {"to_format": "stage1"}), ("x.jsonl", {})):
        convert(path, tmp_path / name, **how)
        verdict = look(tmp_path / name)
        assert verdict.counts.get("TF931") == 1, name
        assert "from document 100" in next(f.message for f in verdict.findings if f.code == "TF931")


def test_upstreams_truncated_pack():
    """The golden that upstream's packer cut at an empty text, with exit code 0."""
    gpt2 = golden("gpt2")
    home = golden("modalities")
    for name, code in (("D_2byte_TRUNCATED_by_empty_text.pbin", "TF931"),):
        (verdict,) = check(asked(home / name, tokenizer=str(gpt2), against=str(home / "with_empty_text.jsonl")))
        assert verdict.counts == {code: 1}
        assert "8 of 10 documents are missing (from document 2" in verdict.findings[0].message


def test_latin1_goldens():
    gpt2 = golden("gpt2")
    for name, wrong in (("A_4byte_gpt2_latin1", True), ("A_4byte_gpt2", False), ("B_2byte_gpt2_latin1", True)):
        (verdict,) = check(asked(golden("modalities", f"{name}.pbin"), tokenizer=str(gpt2)))
        assert ("TF924" in verdict.counts) == wrong
        assert verdict.counts.keys().isdisjoint({"TF923", "TF925", "TF921", "TF922"})


def test_documents_that_were_cut(tmp_path):
    tokens, index = stored(converted(tmp_path))
    docs = [tokens[a // 2 : (a + n) // 2].tolist() for a, n in index]
    cut = [[*d[:50], 4095] if len(d) > 51 else d for d in docs]
    found = look(pack(tmp_path / "y.pbin", cut)).findings
    (finding,) = [f for f in found if f.code == "TF933"]
    assert "it ends after 50 of" in finding.message


@pytest.mark.parametrize("at", [0, 70_000, 2_999_999])
def test_one_id_beyond_the_vocabulary_is_found_without_deep(tmp_path, at):
    """Where there is little, a quick check looks at every ID: places alone missed it."""
    ids = np.full(3_000_000, 7, "<u2")
    ids[999::1000] = 4095
    ids[at] = 50_000
    ids.tofile(tmp_path / "x.ds")
    np.arange(1000, len(ids) + 1, 1000, dtype="<u8").tofile(tmp_path / "x.ds.index")
    (verdict,) = tokfmt.check(tmp_path / "x.ds", eos="none", tokenizer=str(TOKENIZER))
    (found,) = [finding for finding in verdict.findings if finding.code == "TF921"]
    assert f"first: ID 50,000, sequence {at // 1000:,}, position {at % 1000:,}" in found.message
    assert found.offset == 2 * at


DOCS = [[k, k + 1, k + 2] for k in range(40)]


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        (DOCS, (0, 0, 0)),
        (DOCS[:30], (10, 0, 0)),
        (DOCS[:3] + DOCS[4:], (1, 0, 0)),
        (DOCS[:3] + DOCS[13:], (10, 0, 0)),
        (DOCS[:3] + [[7, 7]] + DOCS[3:], (0, 1, 0)),
        (DOCS[:3] + [[7, 7]] + DOCS[4:], (0, 0, 1)),
        (DOCS[:3] + [[3, 4]] + DOCS[4:20], (20, 0, 1)),
        ([[7, 7]] * 40, (0, 0, 40)),
        ([], (40, 0, 0)),
        (DOCS * 2, (0, 40, 0)),
    ],
)
def test_kinds(here, expected):
    found = compared(here, DOCS)
    assert (found.missing, found.extra, found.changed) == expected


def test_where():
    found = compared([[9, 9], *DOCS[1:3], *DOCS[5:9], [8, 8], *DOCS[9:20]], DOCS)
    assert [found.first(kind) for kind in ("changed", "missing", "extra")] == [(0, 0), (3, 3), (7, 9)]
    assert (found.changed, found.missing, found.extra, found.cut_off) == (1, 22, 1, False)
    assert compared(DOCS[:30], DOCS).cut_off


def longest_common(a, b):
    """Length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row
        row = [0]
        for k, y in enumerate(b):
            row.append(before[k] + 1 if x == y else max(before[k + 1], row[k]))
    return row[-1]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(0, 30), max_size=60),
    st.lists(st.integers(0, 30), max_size=60),
    st.booleans(),
)
def test_laws(mine, theirs, related):
    """Equal only if equal; what is in both is never missing; no fewer in order than can be; counts add up."""
    mine = theirs[1::2] + mine[:5] + theirs[::2] if related else mine
    here, there = [[k] for k in mine], [[k] for k in theirs]
    found = compared(here, there)
    assert (found.missing == found.extra == found.changed == found.moved == 0) == (mine == theirs)
    both = sum((Counter(mine) & Counter(theirs)).values())
    assert found.missing + found.changed == len(theirs) - both
    assert found.extra + found.changed == len(mine) - both
    assert both - found.moved == longest_common(mine, theirs)
    unordered = compared(here, there, ignore_order=True)
    assert (unordered.missing, unordered.extra) == (len(theirs) - both, len(mine) - both)
    assert (unordered.moved, unordered.changed) == (0, 0)


@pytest.mark.parametrize("gap", [4_000, 4_096, 4_097, 4_500, 20_000, 39_000])
def test_a_gap_of_any_length_is_a_gap(gap):
    """What follows it is found again."""
    docs = [[k, k >> 8, 7] for k in range(40_000)]
    found = compared(docs[:700] + docs[700 + gap :], docs)
    assert (found.missing, found.extra, found.changed, found.moved) == (gap, 0, 0, 0)
    assert found.first("missing") == (700, 700)
    found = compared(docs, docs[:700] + docs[700 + gap :])
    assert (found.missing, found.extra, found.changed, found.moved) == (0, gap, 0, 0)


def test_nothing_is_written_to_scratch(tmp_path, monkeypatch):
    path = converted(tmp_path)
    monkeypatch.setattr("tempfile.mkdtemp", None)
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    assert not look(path, deep=True).counts
    assert not look(path, deep=True, jobs=1).counts


def test_comparison_and_search_report_progress(tmp_path):
    """Progress of comparisons, and of searches of `show`, reaches the total."""
    path = converted(tmp_path)
    for work in (
        lambda told: list(check(asked(path, **own(against=str(CORPUS))), told)),
        lambda told: list(show(path, "token:2,2,2", progress=told).shown),
        lambda told: list(show(CORPUS, "text:no such words", progress=told).shown),
    ):
        told = At()
        work(told)
        name, total, _, done = told.phases[-1]
        assert name in ("searching", f"comparing with {CORPUS.name}")
        assert 0 < total <= done, (told.phases, name)


def test_empty_documents_may_not_count():
    there = [[1], [], [2], [], []]
    found = compared([[1], [2]], there, skip_empty=True)
    assert (found.missing, found.changed, found.extra) == (0, 0, 0)
    assert compared([[1], [2]], there).missing == 3


@FUZZ_ONLY
def test_the_largest_id_that_a_store_records_is_compared(tmp_path):
    """Where there is much, and places show nothing."""
    ids = np.tile([1, 2, 3], 6_000_000).astype("<u2")
    ids[9_000_001], ids[-1] = 50_000, 50_256
    ids.tofile(tmp_path / "in.npy")
    how = {"format": "olmo", "options": {"width": 2}, "eos": 50_256, "to_eos": "none", "manifest": False}
    tokfmt.convert(tmp_path / "in.npy", tmp_path / "x.zarr", **how)
    (verdict,) = tokfmt.check(tmp_path / "x.zarr", tokenizer=str(TOKENIZER))
    (found,) = [finding for finding in verdict.findings if finding.code == "TF921"]
    assert "its max_token_id is 50,000, and " in found.message
    assert found.severity == "warning", "it is a bound: none has to be that large"
