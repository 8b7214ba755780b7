"""--verify: a destination that differs in one token, one length or one record is never called verified."""

import json

import pytest
from paths import CORPUS, TOKENIZER

import tokfmt
from tokfmt.core.errors import VerificationError
from tokfmt.core.ragged import Ragged
from tokfmt.ops.compare.fingerprint import hands
from tokfmt.ops.convert.verify import compare, compare_records
from tokfmt.ops.dataset import MemoryReader
from tokfmt.ops.source.opened import open_source
from tokfmt.run.execute import Silent
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
            compare(memory(ROWS), memory(rows), workers, Silent())
        records = open_source([path]).reader
        with pytest.raises(VerificationError, match=message):
            compare_records(memory(ROWS), None, records, workers, Silent())
        assert compare_records(memory(rows), None, records, workers, Silent())["sequences"] == len(rows)


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
                compare_records(ids, tokenizer.decoder(), records, workers, Silent())


@pytest.mark.parametrize("name", ["o.pbin", "o.zarr", "o.jsonl"])
def test_what_was_compared_is_counted(tmp_path, name):
    done = tokfmt.convert(CORPUS, tmp_path / name, tokenizer=str(TOKENIZER), verify=True)
    assert done.compared == {"sequences": 184, "tokens": 17_450}
    assert tokfmt.convert(CORPUS, tmp_path / "plain.pbin", tokenizer=str(TOKENIZER)).compared == {}
