"""--verify: a destination that differs in one token, one length or one record is never called verified."""

import gzip
import json
import os
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paths import CORPUS, TOKENIZER

import tokfmt
from tokfmt.errors import CorruptError, VerificationError


@pytest.mark.parametrize("name", ["o.pbin", "o.zarr", "o.jsonl"])
def test_verification_counts_comparisons(tmp_path, name):
    done = tokfmt.convert(CORPUS, tmp_path / name, tokenizer=str(TOKENIZER), verify=True)
    assert done.compared == {"sequences": 184, "tokens": 17_450}
    assert tokfmt.convert(CORPUS, tmp_path / "plain.pbin", tokenizer=str(TOKENIZER)).compared == {}


def test_ids_that_look_wider_are_verified_as_they_were_written(tmp_path):
    """Nothing in the file tells its width; that of the writer is known."""
    (tmp_path / "in.jsonl").write_text('{"input_ids": [0]}\n' * 400)
    done = tokfmt.convert(tmp_path / "in.jsonl", tmp_path / "o.bin", to_format="nanogpt", eos=99, verify=True)
    assert done.sequences == 400


# what differs


def lines_of(rows):
    return [json.dumps({"input_ids": row}).encode() + b"\n" for row in rows]


def verified(source, out, written, **how):
    """Convert and verify; what was written is replaced by other bytes right before it is opened to be verified."""
    opened, damaged = os.open, []

    def damage(path, flags, *more, **named):
        if not damaged and os.fspath(path).endswith(f"build/{out.name}") and flags & os.O_ACCMODE == os.O_RDONLY:
            damaged.append(path)
            place = Path(path)
            place.write_bytes(written(place.read_bytes()) if callable(written) else written)
        return opened(path, flags, *more, **named)

    with mock.patch.object(os, "open", damage):
        return tokfmt.convert(source, out, verify=True, **how)


ROWS = [[k, k + 1, 7] for k in range(300)]
WRONG = [
    ([*ROWS[:100], [100, 5, 7], *ROWS[101:]], "sequence 100 |token position 301 "),
    ([*ROWS[:100], [100, 101], [7, 101, 102, 7], *ROWS[102:]], "sequence 100 "),
    (ROWS[:-1], "holds 299 sequences, the source 300"),
    ([*ROWS, [1]], "holds 301 sequences, the source 300"),
    ([*ROWS[:5], ROWS[6], ROWS[5], *ROWS[7:]], "sequence 5 |token position 15 "),
]


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", ["o.pbin", "o.jsonl"])
@pytest.mark.parametrize(("rows", "message"), WRONG)
def test_a_difference_is_found(tmp_path, rows, message, name, jobs):
    """Nothing is published, and the error does not name the hidden place where it is built."""
    for home, content in (("right", ROWS), ("wrong", rows)):
        (tmp_path / f"{home}.jsonl").write_bytes(b"".join(lines_of(content)))
        tokfmt.convert(tmp_path / f"{home}.jsonl", tmp_path / f"{home}.pbin", eos=50_256, manifest=False)
    wrong = tmp_path / ("wrong.pbin" if name == "o.pbin" else "wrong.jsonl")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(VerificationError, match=message) as raised:
        verified(tmp_path / "right.pbin", tmp_path / name, wrong.read_bytes(), jobs=jobs)
    assert ".tokfmt-" not in str(raised.value)
    assert sorted(os.listdir(tmp_path)) == before
    assert verified(tmp_path / "right.pbin", tmp_path / name, lambda raw: raw, jobs=jobs).compared["sequences"] == 300


@pytest.mark.parametrize(("number", "text"), [(0, "x"), (183, ""), (90, "é")])
def test_a_text_that_differs_is_found(tmp_path, number, text):
    tokfmt.convert(CORPUS, tmp_path / "o.pbin", tokenizer=str(TOKENIZER))
    done = tokfmt.convert(tmp_path / "o.pbin", tmp_path / "o.jsonl", tokenizer=str(TOKENIZER), verify=True)
    assert done.compared == {"texts": 184}

    def other(raw):
        lines = raw.splitlines()
        lines[number] = json.dumps({"text": text}).encode()
        return b"\n".join(lines) + b"\n"

    with pytest.raises(VerificationError, match=f"the text of sequence {number} "):
        verified(tmp_path / "o.pbin", tmp_path / "other.jsonl", other, tokenizer=str(TOKENIZER))


RECORDS = [f'{{"input_ids": [{k}, 7]}}\n'.encode() for k in range(900)]
DAMAGED = {
    "changed": ([*RECORDS[:600], RECORDS[0], *RECORDS[601:]], "record 600 of the destination differs"),
    "lost": ([*RECORDS[:600], *RECORDS[601:]], "record 600 of the destination differs"),
    "cut": (RECORDS[:850], "record 850 of the destination differs"),
    "more": ([*RECORDS, RECORDS[5]], "the destination holds more records than the source"),
    "moved": ([RECORDS[1], RECORDS[0], *RECORDS[2:]], "record 0 of the destination differs"),
    "nothing": ([], "record 0 of the destination differs"),
}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("damage", DAMAGED)
def test_lines_that_differ_are_found(tmp_path, damage, jobs, suffix):
    """Copied or dealt out, plain or compressed; by as many threads as there are jobs."""
    source, out = tmp_path / "x.jsonl", tmp_path / f"o.jsonl{suffix}"
    source.write_bytes(b"".join(RECORDS))
    written, message = DAMAGED[damage]
    packed = gzip.compress(b"".join(written)) if suffix else b"".join(written)
    with pytest.raises(VerificationError, match=re.escape(message)):
        verified(source, out, packed, jobs=jobs)
    assert os.listdir(tmp_path) == ["x.jsonl"]
    with pytest.raises(VerificationError, match="of the destination differs|more records than"):
        verified(source, out, packed, jobs=jobs, shuffle=1)
    for order in ({}, {"shuffle": 1}):
        assert tokfmt.convert(source, out, verify=True, jobs=jobs, overwrite=True, **order).compared == {"records": 900}


def test_a_mask_that_differs_is_found(tmp_path):
    rows = [{"input_ids": [1, 2], "loss_mask": [1, 0]}, {"input_ids": [3], "loss_mask": [1]}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    how = {"eos": 9, "verify": True, "options": {"loss_mask": "own"}}
    assert tokfmt.convert(tmp_path / "x.parquet", tmp_path / "y.ds", **how).sequences == 2
    opened = os.open

    def damage(path, flags, *more, **named):
        if os.fspath(path).endswith("build/x.ds.loss") and flags & os.O_ACCMODE == os.O_RDONLY:
            Path(path).write_bytes(bytes([1, 1, 1, 1, 1]))
        return opened(path, flags, *more, **named)

    with mock.patch.object(os, "open", damage), pytest.raises(VerificationError, match="token position 1 "):
        tokfmt.convert(tmp_path / "x.parquet", tmp_path / "x.ds", **how)


def test_a_large_source_that_changed_is_not_proven(tmp_path):
    """Its checksum is in its manifest; without --verify, no source above 64 MiB is read for it."""
    ids = np.full(40 << 20, 7, "<u2")
    ids[999::1000] = 9
    ids.tofile(tmp_path / "train.bin")
    tokfmt.convert(tmp_path / "train.bin", tmp_path / "a.pbin", eos=9)
    with (tmp_path / "a.pbin").open("r+b") as file:
        file.seek(1000)
        file.write(b"\x08\x00")
    with pytest.raises(CorruptError, match="checksum"):
        tokfmt.convert(tmp_path / "a.pbin", tmp_path / "b.pbin", verify=True)
    assert not (tmp_path / "b.pbin").exists()
