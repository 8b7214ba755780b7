"""`--allow-partial` of text sources: every line that is certain is saved, and which are lost is reported."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
import zstandard

import tokfmt
from tokfmt.errors import FormatError

LISTS = [[(k * 7919 + i * i) % 50_000 for i in range(1 + k % 60)] for k in range(7_000)]
LINES = [json.dumps({"input_ids": ids}).encode() for ids in LISTS]
TEXT = b"\n".join(LINES) + b"\n"


def saved(path: Path, **how: object) -> list[list[int]]:
    out = path.parent / "saved.jsonl"
    done = tokfmt.convert(path, out, allow_partial=True, verify=True, overwrite=True, **how)
    found = [json.loads(line)["input_ids"] for line in out.read_text().splitlines()]
    assert done.sequences == len(found)
    return found


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("suffix", [".zst", ".gz"])
def test_every_line_that_decodes_of_one_cut_frame_is_saved(suffix, share, tmp_path):
    """A decoder of zstd gives nothing for many pieces, and then 128 KiB at once."""
    content = zstandard.compress(TEXT) if suffix == ".zst" else gzip.compress(TEXT)
    content, path = content[: int(len(content) * share)], tmp_path / f"x.jsonl{suffix}"
    path.write_bytes(content)
    decoder = zstandard.ZstdDecompressor().decompressobj()
    whole = decoder.decompress(content).count(b"\n") if suffix == ".zst" else len(LISTS) * share * 0.9
    with pytest.raises(FormatError, match="ends too early.*--allow-partial saves the complete sequences"):
        tokfmt.convert(path, tmp_path / "refused.jsonl")
    found = saved(path)
    assert len(found) >= whole > 1000
    assert found == LISTS[: len(found)]


@pytest.mark.parametrize("suffix", [".zst", ".gz"])
def test_of_data_that_are_damaged_the_members_before_are_saved(suffix, tmp_path):
    """Decoding may go wrong before it fails: only what a checksum, or the end of a frame, covers is certain."""
    made = [b"\n".join(LINES[k : k + 1000]) + b"\n" for k in range(0, 4000, 1000)]
    pack = gzip.compress if suffix == ".gz" else zstandard.ZstdCompressor(write_checksum=True).compress
    parts, path = [pack(one) for one in made], tmp_path / f"x.jsonl{suffix}"
    rng = random.Random(5)
    for member in (0, 2, 3):
        damaged = bytearray(parts[member])
        damaged[rng.randrange(len(damaged) // 2, len(damaged))] ^= 0x10
        path.write_bytes(b"".join([*parts[:member], damaged, *parts[member + 1 :]]))
        if member:
            assert saved(path) == LISTS[: 1000 * member]
            continue
        part = "member" if suffix == ".gz" else "frame"
        with pytest.raises(FormatError, match=f"in its first {part}, so that no line of it is certain"):
            saved(path)
        with pytest.raises(FormatError) as caught:
            tokfmt.convert(path, tmp_path / "refused.jsonl")
        assert "partial" not in str(caught.value)


def test_gzip_damaged_in_its_last_bytes_is_not_taken_for_cut(tmp_path):
    """The end of the data may decode to something else, and run on over the checksum."""
    content, path = gzip.compress(b"\n".join(LINES[:300]) + b"\n"), tmp_path / "x.jsonl.gz"
    refused = 0
    for at in range(9, 20):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[-at] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                with tokfmt.open(path, allow_partial=True) as dataset:  # bits that pad the last byte mean nothing
                    assert [one.tolist() for one in dataset] == LISTS[:300]
            except FormatError as error:
                assert "no line of it is certain" in str(error)
                refused += 1
    assert refused > 75


def test_bytes_after_gzip_lose_no_line(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(TEXT) + b"garbage")
    assert saved(path) == LISTS


def test_lines_around_damaged_ones_are_saved(tmp_path):
    """Damaged lines are reported by number; the manifest of the result has it."""
    path, lines = tmp_path / "x.jsonl", LINES[:12]
    lines[3], lines[7], lines[9] = b"garbage", b"\0" * 4096, b'{"input_ids": [1, -2]}'
    path.write_bytes(b"\n".join(lines) + b"\n" + LINES[12][:9])
    with pytest.raises(FormatError, match=r"line 4 is not valid JSON.*--allow-partial saves"):
        tokfmt.convert(path, tmp_path / "refused.jsonl")
    done = tokfmt.convert(path, tmp_path / "o.jsonl", allow_partial=True, verify=True)
    whole = [ids for k, ids in enumerate(LISTS[:12]) if k not in (3, 7, 9)]
    assert [json.loads(line)["input_ids"] for line in (tmp_path / "o.jsonl").read_text().splitlines()] == whole
    assert (done.sequences, done.losses) == (9, {})
    (partial,) = json.loads((tmp_path / "o.jsonl.tokfmt.json").read_text())["partial"]
    assert partial["reasons"][0].endswith("x.jsonl: its last line is cut")
    assert partial["reasons"][1].endswith("3 lines in all are not records: 4, 8, 10")
    assert saved(path, jobs=2, select="2:5") == whole[2:5]
    with tokfmt.open(path, allow_partial=True) as dataset:
        assert [one.tolist() for one in dataset] == whole
    dropped = tokfmt.convert(path, tmp_path / "p.jsonl", allow_partial=True, allow_loss="invalid-lines")
    assert (dropped.sequences, list(dropped.losses)) == (9, ["invalid-lines"])


def test_damaged_lines_of_text(tmp_path):
    path = tmp_path / "x.jsonl"
    texts = [json.dumps({"text": f"document {k}", "id": k}).encode() for k in range(5)]
    path.write_bytes(b"\n".join([*texts[:2], b'{"text": "caf\xe9"}', *texts[2:]]) + b"\n")
    tokfmt.convert(path, tmp_path / "o.jsonl", allow_partial=True, verify=True)
    assert (tmp_path / "o.jsonl").read_bytes() == b"\n".join(texts) + b"\n"


@pytest.mark.parametrize(
    "content",
    [b'{"input_id": [1]}\n', b"\n\n" + LINES[9][:20], b"\xff\xfe\n\xff\n", LINES[9][:30], b"\n \n" + LINES[9][:4]],
    ids=["other-field", "blank", "not-text", "cut", "blank-and-cut"],
)
def test_nothing_saved_is_refused(content, tmp_path):
    """No dataset without a record is written of one that had some, and the option is not named as a remedy."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    for partial in (False, True):
        with pytest.raises(FormatError) as caught:
            tokfmt.convert(path, tmp_path / "o.jsonl", allow_partial=partial)
        assert "partial=True" not in str(caught.value)
    assert not (tmp_path / "o.jsonl").exists()


def test_a_file_without_a_certain_line_leaves_the_others(tmp_path):
    home = tmp_path / "many"
    home.mkdir()
    packed = bytearray(gzip.compress(b"\n".join(LINES[10:20])))
    packed[-6] ^= 1
    (home / "a.jsonl").write_bytes(b"\n".join(LINES[:10]))
    (home / "b.jsonl.gz").write_bytes(packed)
    (home / "c.jsonl.gz").write_bytes(gzip.compress(b"\n".join(LINES[20:30])))
    assert saved(home) == LISTS[:10] + LISTS[20:30]


LETTERS = "".join(random.Random(1).choices("abcdefgh \u00fc\n", k=200_000))
DOCUMENTS = [f"{LETTERS[66 * k :][: 500 + k % 500]}\n" for k in range(3000)]
MARK = "<|endoftext|>\n"


@pytest.mark.parametrize("suffix", [".zst", ".gz"])
def test_documents_of_cut_text_that_a_separator_closes(suffix, tmp_path):
    """A separator at the very end of what decodes closes nothing: its line may go on."""
    text = MARK.join(DOCUMENTS).encode()
    content = zstandard.compress(text) if suffix == ".zst" else gzip.compress(text, 3)
    path, options = tmp_path / f"x.txt{suffix}", {"separator": "<|endoftext|>"}
    path.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(FormatError, match="ends too early.*--allow-partial saves"):
        tokfmt.convert(path, tmp_path / "refused.jsonl", options=options)
    tokfmt.convert(path, tmp_path / "o.jsonl", options=options, allow_partial=True, verify=True)
    found = [json.loads(line)["text"] for line in (tmp_path / "o.jsonl").read_text("utf-8").splitlines()]
    assert len(found) > 1000
    assert found == DOCUMENTS[: len(found)]
    with pytest.raises(FormatError) as caught:
        tokfmt.convert(path, tmp_path / "one.jsonl", allow_partial=True)
    assert "no record of it is certain to be complete" in str(caught.value)


def test_files_of_text_around_damaged_ones(tmp_path):
    home, out = tmp_path / "texts", tmp_path / "o.jsonl"
    home.mkdir()
    for k, one in enumerate(DOCUMENTS[:5]):
        (home / f"{k}.txt.gz").write_bytes(gzip.compress(one.encode()))
    (home / "1.txt.gz").write_bytes((home / "1.txt.gz").read_bytes()[:-9])
    (home / "3.txt.gz").write_bytes(gzip.compress("caf\u00e9".encode("latin-1")))
    done = tokfmt.convert(home, out, allow_partial=True)
    assert [json.loads(line)["text"] for line in out.read_text("utf-8").splitlines()] == DOCUMENTS[0:5:2]
    reasons = done.partial[0]["reasons"]
    assert [reason.partition(": ")[0] for reason in reasons] == [str(home / "1.txt.gz"), str(home / "3.txt.gz")]


def test_documents_around_one_that_is_not_text(tmp_path):
    path, out, many = tmp_path / "x.txt", tmp_path / "o.jsonl", [one.encode() for one in DOCUMENTS[:9]]
    many[2], many[5] = b"caf\xe9\n", b"\xff\xff\n"
    path.write_bytes(MARK.encode().join(many))
    done = tokfmt.convert(path, out, options={"separator": "<|endoftext|>"}, allow_partial=True, select="1:6")
    whole = [one for k, one in enumerate(DOCUMENTS[:9]) if k not in (2, 5)]
    assert [json.loads(line)["text"] for line in out.read_text("utf-8").splitlines()] == whole[1:6]
    assert done.partial[0]["reasons"][0].endswith("is not UTF-8; 2 documents in all are not")
