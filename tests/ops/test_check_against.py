"""`check --against`: what happened to documents on their way, compared with plain lists."""

import json

import numpy as np
import pytest
from check_cases import asked, converted, own, pack, stored
from paths import CORPUS, TOKENIZER, golden

import tokfmt
from tokfmt import convert
from tokfmt.ops.check import check


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
    assert finding.message == "164 of 184 documents are missing (from document 21 of the corpus on)"
    assert finding.code == "TF931"


def test_a_line_left_out(tmp_path):
    lines = CORPUS.read_bytes().splitlines(keepends=True)
    (tmp_path / "t.jsonl").write_bytes(b"".join(lines[:6] + lines[7:]))
    convert(tmp_path / "t.jsonl", tmp_path / "x.pbin", tokenizer=str(TOKENIZER))
    (finding,) = look(tmp_path / "x.pbin").findings
    assert finding.message == "1 of 184 documents are missing (first: document 7 of the corpus)"


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
    assert f"sequence 5, document 6 of the corpus, position 3: {now:,}, expected {was:,}" in finding.message
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
        assert "from document 101" in next(f.message for f in verdict.findings if f.code == "TF931")


def test_upstreams_truncated_pack():
    """The golden that upstream's packer cut at an empty text, with exit code 0."""
    gpt2 = golden("gpt2")
    home = golden("modalities")
    for name, code in (("D_2byte_TRUNCATED_by_empty_text.pbin", "TF931"),):
        (verdict,) = check(asked(home / name, tokenizer=str(gpt2), against=str(home / "with_empty_text.jsonl")))
        assert verdict.counts == {code: 1}
        assert "8 of 10 documents are missing (from document 3" in verdict.findings[0].message


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
