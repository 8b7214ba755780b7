"""The records that a trial reads, and the estimate of a dry run against the run."""

import gzip
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opened import open_source
from paths import CORPUS, TOKENIZER

import tokfmt
from tokfmt.commands.convert.estimate import SomeRecords
from tokfmt.errors import OptionError


@pytest.mark.parametrize("name", ["plain.jsonl", "packed.jsonl.gz", "table.parquet"])
def test_the_share_of_a_block_that_was_read(tmp_path, name):
    """It follows from byte offsets, from the compressed bytes before them, or from the number of rows."""
    texts = [json.loads(line)["text"] for line in CORPUS.read_text().splitlines()] * 20
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    (tmp_path / "plain.jsonl").write_bytes(lines)
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(lines))
    pq.write_table(pa.table({"text": texts}), tmp_path / "table.parquet", row_group_size=100)
    records = open_source(tmp_path / name).reader
    (block,) = records.blocks(1 << 30)
    some = SomeRecords(records, [block], 300_000)
    read = [text for batch in some.texts(block) for text in batch.texts]
    assert read == texts[: len(read)]
    assert 300_000 < sum(map(len, read)) < sum(map(len, texts)) / 2
    assert some.read_bytes / (block.stop - block.start) == pytest.approx(len(read) / len(texts), rel=0.1)


def test_an_estimate_is_exact_if_all_is_read(tmp_path):
    """Of text and of token IDs; a dry run leaves nothing."""
    for source, name, how in ((CORPUS, "x.pbin", {"tokenizer": str(TOKENIZER)}), (tmp_path / "x.pbin", "x.ds", {})):
        found = tokfmt.convert(source, tmp_path / "new" / name, dry_run=True, **how).plan["estimate"]
        assert not (tmp_path / "new").exists()
        done = tokfmt.convert(source, tmp_path / name, manifest=False, **how)
        size = sum(path.stat().st_size for path in tmp_path.glob(f"{name}*"))
        assert (found["sequences"], found["tokens"], found["is_exact"]) == (done.sequences, done.tokens, True)
        assert found["size_bytes"] == size
        assert found["scratch_bytes"] == (4 * done.tokens + 8 * done.sequences if source == CORPUS else 0)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_an_estimate_has_the_parts_that_are_joined_at_the_end(tmp_path, monkeypatch, name):
    beside, remove = [], shutil.rmtree

    def removed(path, *rest, **how):
        if str(path).endswith(".parts"):
            beside.append(sum(part.stat().st_size for part in Path(path).iterdir()))
        return remove(path, *rest, **how)

    monkeypatch.setattr(shutil, "rmtree", removed)
    how = {"tokenizer": str(TOKENIZER)}
    done = tokfmt.convert(CORPUS, tmp_path / name, **how)
    found = tokfmt.convert(CORPUS, tmp_path / f"o{name}", dry_run=True, **how).plan["estimate"]
    assert beside[0] > 10_000 and beside[0] == beside[-1]
    assert found["scratch_bytes"] == beside[0] + 4 * done.tokens + 8 * done.sequences


def test_an_estimate_is_scaled_to_other_sources(tmp_path):
    texts = [f"text number {number}" for number in range(300)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    size = (tmp_path / "a.jsonl").stat().st_size
    how = {"tokenizer": str(TOKENIZER), "dry_run": True}
    done = [
        tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "o.pbin", scale=scale, **how) for scale in (None, 10**9 * size)
    ]
    assert ["at once" in "".join(one.notes) for one in done] == [False, True]  # no disk has room for the second
    plain, many = (
        tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "o.pbin", scale=scale, **how).plan["estimate"]
        for scale in (None, 1000 * size)
    )
    assert 0 < plain["measured_seconds"] == plain["cpu_seconds"]  # all of it is read
    assert (plain["scaled_to"], many["scaled_to"]) == (None, 1000 * size)
    for name in ("sequences", "tokens", "size_bytes"):
        assert many[name] == 1000 * plain[name]
    assert not many["is_exact"] and 0 < plain["memory_bytes"] <= many["memory_bytes"] < 4 << 30
    with pytest.raises(OptionError):
        tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "o.pbin", scale=5, tokenizer=str(TOKENIZER))
