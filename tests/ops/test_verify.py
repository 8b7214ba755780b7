"""--verify: a destination that differs in one token, one length or one record is never called verified."""

import pytest
from paths import CORPUS, TOKENIZER

import tokfmt


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
