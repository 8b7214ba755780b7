"""Files of records that only reading finds: what is read of them to show a few, and what is saved of damaged ones."""

import json

import numpy as np
import pytest
from made_plugins import tokfmt_reel
from plugged import plugged

import tokfmt
from tokfmt.core.errors import FormatError
from tokfmt.core.format import Hints
from tokfmt.core.ragged import Ragged
from tokfmt.formats.record_files import RecordFiles
from tokfmt.ops.show import show as showing
from tokfmt.testing import write

LISTS = [[k, k + 1, k + 2][: 1 + k % 3] for k in range(300)]


class Uncounted(tokfmt_reel.Reader):
    """A reader whose index states no numbers of records."""

    asked = 0

    def __init__(self, paths, options, hints):
        self.opened = []
        super().__init__(paths, options, hints)
        RecordFiles.__init__(self, "ids", self.files, hints)

    def records(self, path):
        self.opened.append(path.name)
        return super().records(path)

    def count(self):
        type(self).asked += 1
        return super().count()


class Reel(tokfmt_reel.Format):
    Reader = Uncounted


@pytest.fixture
def reel(tmp_path, monkeypatch):
    return write(plugged(monkeypatch, Reel()), tmp_path / "x.reel", Ragged.of(LISTS), options={"shard_size": 100})


def test_what_is_shown_of_many_records_is_read_alone(reel, monkeypatch):
    """Neither `count` nor any file but the first is asked for the first records."""
    monkeypatch.setattr(showing, "_LITTLE", 0)
    monkeypatch.setattr(Uncounted, "asked", 0)
    found = tokfmt.show(reel, limit=1)
    assert [one.ids for one in found.shown] == LISTS[:1]
    assert (found.sequences, Uncounted.asked) == (None, 0)
    reader = Reel().open([reel], None, Hints())
    assert len(reader.files) == 7
    assert reader.record(3) == LISTS[3]
    assert set(reader.opened) == {"00000.reel.gz"}
    assert [one.ids for one in tokfmt.show(reel, "200:202").shown] == LISTS[200:202]
    with pytest.raises(IndexError):
        reader.blocks(1, 0, 301)


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
@pytest.mark.parametrize("indexed", [True, False])
def test_what_is_certain_of_damaged_files_is_saved(reel, monkeypatch, tmp_path, how, indexed):
    if indexed:
        monkeypatch.setattr(Reel, "Reader", tokfmt_reel.Reader)
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


def test_ids_that_are_wider_than_a_batch_come_alone(monkeypatch, reel):
    monkeypatch.setattr("tokfmt.formats.record_files._BATCH", 4)
    reader = Reel().open([reel], None, Hints())
    batches = [batch.ragged for block in reader.blocks(1) for batch in reader.ids(block)]
    assert [ids.tolist() for batch in batches for ids in batch] == LISTS
    assert max(len(batch.tokens) for batch in batches) <= 6
    assert np.concatenate([batch.tokens for batch in batches]).max() == 301
