"""--verify: a destination that differs in one token, one length or one record is never called verified."""

import gzip
import json
import re
import threading

import pytest
from paths import CORPUS, TOKENIZER

import tokfmt
from tokfmt.core.errors import VerificationError
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.ops.compare.fingerprint import hands
from tokfmt.ops.convert import lines, verify
from tokfmt.ops.convert.verify import compare, compare_records, verify_records
from tokfmt.ops.source.open import open_source
from tokfmt.run.progress import Progress
from tokfmt.text.tokenizer import load_tokenizer

ROWS = [[k, k + 1, 7] for k in range(300)]
WRONG = [
    ([*ROWS[:100], [100, 5, 7], *ROWS[101:]], "sequence 100 |token position 301 "),
    ([*ROWS[:100], [100, 101], [7, 101, 102, 7], *ROWS[102:]], "sequence 100 "),
    (ROWS[:-1], "holds 299 sequences, the source 300"),
    ([*ROWS, [1]], "holds 301 sequences, the source 300"),
    ([*ROWS[:5], ROWS[6], ROWS[5], *ROWS[7:]], "sequence 5 |token position 15 "),
]


def memory(rows):
    return MemoryReader(Ragged.of(rows))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("rows", "message"), WRONG)
def test_a_difference_is_found(tmp_path, rows, message, jobs):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in rows))
    with hands(jobs) as workers:
        with pytest.raises(VerificationError, match=message):
            compare(memory(ROWS), memory(rows), workers, Progress())
        records = open_source([path]).reader
        with pytest.raises(VerificationError, match=message):
            compare_records(memory(ROWS), None, records, workers, Progress())
        assert compare_records(memory(rows), None, records, workers, Progress())["sequences"] == len(rows)


def test_a_text_that_differs_is_found(tmp_path):
    tokenizer = load_tokenizer(str(TOKENIZER))
    tokfmt.convert(CORPUS, tmp_path / "o.pbin", tokenizer=str(TOKENIZER))
    done = tokfmt.convert(tmp_path / "o.pbin", tmp_path / "o.jsonl", tokenizer=str(TOKENIZER), verify=True)
    assert done.compared == {"texts": 184}
    ids = tokfmt.open(tmp_path / "o.pbin")
    with hands(2) as workers:
        for number, text in ((0, "x"), (183, ""), (90, "é")):
            lines = (tmp_path / "o.jsonl").read_text().splitlines()
            lines[number] = json.dumps({"text": text})
            (tmp_path / "other.jsonl").write_text("\n".join(lines) + "\n")
            records = open_source([tmp_path / "other.jsonl"]).reader
            with pytest.raises(VerificationError, match=f"the text of sequence {number} "):
                compare_records(ids, tokenizer.decoder(), records, workers, Progress())


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
def test_lines_that_differ_are_found(tmp_path, monkeypatch, damage, jobs, suffix):
    """Copied or dealt out, plain or compressed; by as many threads as there are jobs."""
    (tmp_path / "x.jsonl").write_bytes(b"".join(RECORDS))
    written, message = DAMAGED[damage]
    monkeypatch.setattr(lines, "_BLOCK", 1000)
    reader = open_source([tmp_path / "x.jsonl"]).reader
    axis = lines.LineReader(tmp_path / "x.jsonl", len(RECORDS))
    sources = (
        (lines.copied_text, [reader], lines.selected_blocks([reader], None)),
        (lines.dealt_text, axis, [(a, min(a + 1000, axis.info.tokens)) for a in range(0, axis.info.tokens, 1000)]),
    )
    for text, shared, items in sources:
        for content, wrong in ((RECORDS, None), (written, message)):
            out = tmp_path / f"o.jsonl{suffix}"
            out.write_bytes(gzip.compress(b"".join(content)) if suffix else b"".join(content))
            assert len(items) > 10
            with hands(jobs) as workers:
                if wrong is None:
                    found = verify_records(text, shared, items, out, workers, Progress())
                    assert found == {"records": len(RECORDS)}
                    continue
                with pytest.raises(VerificationError, match=re.escape(wrong)):
                    verify_records(text, shared, items, out, workers, Progress())


def test_copied_lines_are_read_back_by_all_workers(tmp_path, monkeypatch):
    """Both the source and what was written, a block at a time: neither is one thread's."""
    (tmp_path / "x.jsonl").write_bytes(b"".join(RECORDS))
    monkeypatch.setattr(lines, "_BLOCK", 1000)
    for task in ("_stretch", "_read_back"):
        together, alone = threading.Barrier(2), getattr(verify, task)

        def both(shared, item, alone=alone, together=together):
            if item[0] < 2:
                together.wait(30)  # breaks where one has to end before the other begins
            return alone(shared, item)

        monkeypatch.setattr(verify, task, both)
    done = tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "o.jsonl", verify=True, jobs=2)
    assert done.compared == {"records": 900}
