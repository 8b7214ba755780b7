"""Ledgers: the rows of as many sequences as there may be are written in little memory."""

import tracemalloc
from unittest.mock import MagicMock

from amount import FUZZ_ONLY

import tokfmt
from tokfmt.mix import ledger


@FUZZ_ONLY
def test_memory_does_not_grow_with_rows(tmp_path):
    peaks = []
    for count in (100_000, 400_000):
        path = tmp_path / f"{count}.jsonl"
        path.write_text('{"input_ids": [1, 2]}\n' * count)
        tokfmt.convert(path, tmp_path / f"{count}.pbin", eos=4095)
        (tmp_path / "mix.toml").write_text(f'tokfmt = 1\nshuffle = "documents"\n[[source]]\npath = "{count}.pbin"\n')
        with tokfmt.open(tmp_path / "mix.toml") as dataset:
            reader = dataset.reader
            tracemalloc.start()
            told = ledger.write_ledger(tmp_path, reader, reader, reader, {}, MagicMock())
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert told["rows"] == count
    assert peaks[1] < peaks[0] + (3 << 20), "the rows take 36 bytes each, 10.8 MB"
