"""Files of records that only reading finds: what is read of them to show a few, and what is saved of damaged ones."""

import json

import pytest
from made_plugins import tokfmt_reel
from plugged import plugged

import tokfmt
from tokfmt.core.ragged import Ragged
from tokfmt.errors import FormatError
from tokfmt.plugin import Hints, RecordFiles
from tokfmt.testing import write


def test_text_is_read_in_the_same_way(tmp_path):
    class Lines(RecordFiles):
        def records(self, path):
            return iter(path.read_text().splitlines())

    for number, lines in enumerate((["a", "b"], [], ["c"])):
        (tmp_path / f"{number}.txt").write_text("\n".join(lines))
    reader = Lines("text", sorted(tmp_path.glob("*.txt")), Hints(), field="line")
    assert (reader.info.records, reader.count(), reader.record(2)) == (None, 3, "c")
    blocks = reader.blocks(1, 1, 3)
    assert [text for block in blocks for batch in reader.texts(block) for text in batch.texts] == ["b", "c"]
    assert [len(batch.texts) for block in reader.blocks(1) for batch in reader.texts(block)] == [2, 0, 1]


LISTS = [[k, k + 1, k + 2][: 1 + k % 3] for k in range(300)]


@pytest.fixture
def reel(tmp_path, monkeypatch):
    return write(
        plugged(monkeypatch, tokfmt_reel.Format()), tmp_path / "x.reel", Ragged.of(LISTS), options={"shard_size": 100}
    )


def damaged(reel, how):
    """Damage the third of seven files; return the sequences of it that are certain."""
    file, counts = reel / "00002.reel.gz", json.loads((reel / "reel.json").read_text())["records"]
    raw = file.read_bytes()
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(raw[: len(raw) // 2] if how == "cut" else raw[:40] + b"\xff" + raw[41:])
    first = sum(counts[:2])
    return LISTS[:first], LISTS[first : first + counts[2]], LISTS[first + counts[2] :]


@pytest.mark.parametrize("how", ["cut", "flipped", "missing"])
def test_what_is_certain_of_damaged_files_is_saved(reel, tmp_path, how):
    before, inside, after = damaged(reel, how)
    with pytest.raises(FormatError, match=r"00002\.reel"):
        tokfmt.convert(reel, tmp_path / "o.jsonl")
    done = tokfmt.convert(reel, tmp_path / "o.jsonl", allow_partial=True)
    found = [one.tolist() for one in tokfmt.open(tmp_path / "o.jsonl")]
    kept = found[len(before) : len(found) - len(after)]
    assert found == before + kept + after
    assert kept == inside[: len(kept)]
    assert bool(kept) == (how == "cut")
    assert len(kept) < len(inside)
    assert "00002.reel.gz" in str(done.partial) + str(done.notes)
