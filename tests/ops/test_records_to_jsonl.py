"""Records of a format of another package: jsonl gets JSON lines of them, and nothing of them is lost without a word."""

import dataclasses
import json

import numpy as np
import pytest
from made_plugins import tokfmt_reel
from reels import LISTS, Texts, records

import tokfmt
from tokfmt.core.ragged import Ragged
from tokfmt.core.records import RecordBatch, SkippedRecords
from tokfmt.errors import ConversionError, LossyConversionError, OptionError, TokenRangeError, VerificationError


class Miscounted(tokfmt_reel.Reader):
    """Says that it holds a record more."""

    def count(self):
        return super().count() + 1


class Wide(tokfmt_reel.Reader):
    """Ids of 64 bits."""

    def ids(self, block):
        yield RecordBatch(ragged=Ragged.of([[1, 2**32]], np.dtype(np.uint64)))


class Masked(tokfmt_reel.Reader):
    """Each record has a mask beside its ids."""

    def ids(self, block):
        for batch in super().ids(block):
            count = len(batch.ragged)
            yield RecordBatch(
                ragged=batch.ragged, skipped=SkippedRecords(others=count, first=(0, 0), fields={"mask": count})
            )


class Lines(tokfmt_reel.Reader):
    """Records that are JSON lines, with a field beside the ids."""

    ending = b""

    def __init__(self, paths, options, hints):
        super().__init__(paths, options, hints)
        self.info = dataclasses.replace(vars(self)["info"], json_lines=True)

    def lines(self, block):
        for batch in self.ids(block):
            lines = [json.dumps({"ids": ids, "mask": [1] * len(ids)}).encode() for ids in batch.ragged.tolist()]
            yield RecordBatch(lines=[line + self.ending for line in lines])


class Broken(Lines):
    ending = b"\n"


def test_ids_become_json_lines(reel, tmp_path):
    """Through the token axis: counted, verified, and under the name that is asked for."""
    done = tokfmt.convert(reel(), tmp_path / "o.jsonl", verify=True)
    tokens = sum(map(len, LISTS))
    assert (done.sequences, done.tokens, done.max_id) == (60, tokens, 60)
    assert done.compared == {"sequences": 60, "tokens": tokens}
    assert (tmp_path / "o.jsonl").read_bytes() == (tmp_path / "i.jsonl").read_bytes()
    tokfmt.convert(reel(), tmp_path / "n.jsonl", to_options={"ids_field": "meta.ids"}, verify=True)
    assert [one["ids"] for one in records(tmp_path / "n.jsonl", "meta")] == LISTS
    tokfmt.convert(reel(), tmp_path / "s.jsonl", select="10:20", verify=True)
    assert records(tmp_path / "s.jsonl") == LISTS[10:20]
    tokfmt.convert(reel(), tmp_path / "r.jsonl.gz", shuffle=1, verify=True)
    assert sorted(ids.tolist() for ids in tokfmt.open(tmp_path / "r.jsonl.gz")) == sorted(LISTS)
    tokfmt.convert([tmp_path / "i.jsonl", reel()], tmp_path / "b.jsonl", verify=True)
    assert records(tmp_path / "b.jsonl") == [*LISTS, *LISTS]


@pytest.mark.parametrize("name", ["o.jsonl", "o.pbin"])
def test_verify_counts_the_records_of_the_source(reel, tmp_path, name):
    tokfmt.convert(reel(Miscounted), tmp_path / "unverified.jsonl")
    with pytest.raises(VerificationError, match=r"i\.reel: 60 of its 61 records were read"):
        tokfmt.convert(reel(Miscounted), tmp_path / name, verify=True, eos=99)
    assert not (tmp_path / name).exists()


def test_verify_counts_the_records_that_are_copied(reel, tmp_path):
    class Both(Miscounted, Lines):
        pass

    class Text(Miscounted, Texts):
        pass

    for reader in (Both, Text):
        with pytest.raises(VerificationError, match=r"i\.reel: 60 of its 61 records were read"):
            tokfmt.convert(reel(reader), tmp_path / "o.jsonl", verify=True)


def test_ids_beyond_32_bits_are_refused(reel, tmp_path):
    with pytest.raises(TokenRangeError, match=r"4,294,967,296 at position 1 is outside 0\.\.4,294,967,295"):
        tokfmt.convert(reel(Wide), tmp_path / "o.jsonl")


def test_text_gets_lines_of_its_own(reel, tmp_path):
    """What lies in the file is not copied, unless the reader says that it is JSON lines."""
    expected = [f"{ids}\n\x0a é" for ids in LISTS]
    done = tokfmt.convert(reel(Texts), tmp_path / "o.jsonl", verify=True)
    assert (done.sequences, done.compared) == (60, {"records": 60})
    assert records(tmp_path / "o.jsonl", "text") == expected
    tokfmt.convert(reel(Texts), tmp_path / "s.jsonl", shuffle=1, verify=True)
    assert sorted(records(tmp_path / "s.jsonl", "text")) == sorted(expected)
    with pytest.raises(OptionError, match="text_field=words"):
        tokfmt.convert(reel(Texts), tmp_path / "w.jsonl", to_options={"text_field": "words"})
    found = tokfmt.stats(reel(Texts))
    assert found.datasets[0].sequences == 60
    assert [(field.name, field.count) for field in found.datasets[0].text.fields] == [("text", 60)]


def test_json_lines_are_copied_with_all_their_fields(reel, tmp_path):
    tokfmt.convert(reel(Lines), tmp_path / "o.jsonl", verify=True)
    assert records(tmp_path / "o.jsonl", "ids") == LISTS
    assert records(tmp_path / "o.jsonl", "mask") == [[1] * len(ids) for ids in LISTS]
    with pytest.raises(ConversionError, match="a JSON line has a line feed in it"):
        tokfmt.convert(reel(Broken), tmp_path / "b.jsonl")


def test_ids_that_are_copied_are_counted(tmp_path):
    (tmp_path / "i.jsonl").write_text("".join(json.dumps({"input_ids": ids, "x": 1}) + "\n" for ids in LISTS))
    for arrangement in ({}, {"shuffle": 1}, {"select": "4:"}):
        lists = LISTS[4:] if "select" in arrangement else LISTS
        done = tokfmt.convert(tmp_path / "i.jsonl", tmp_path / "o.jsonl", overwrite=True, verify=True, **arrangement)
        assert (done.sequences, done.tokens) == (len(lists), sum(map(len, lists)))


class Phases:
    """A progress that keeps of each phase its name, its total and what was reported of it."""

    def __init__(self):
        self.seen = []

    def phase(self, name, total, unit):
        self.seen.append([name, total, 0])

    def advance(self, amount):
        self.seen[-1][2] += amount

    def note(self, text):
        pass


@pytest.mark.parametrize("select", [None, "4:50"])
def test_the_progress_of_copied_lines_ends_at_its_total(select, tmp_path):
    (tmp_path / "i.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in LISTS))
    progress = Phases()
    tokfmt.convert(tmp_path / "i.jsonl", tmp_path / "o.jsonl", select=select, progress=progress)
    size = (tmp_path / "o.jsonl").stat().st_size
    assert [phase for phase in progress.seen if phase[0] == "copying"] == [["copying", size, size]]


def test_other_fields_are_lost_only_with_allow_loss(reel, tmp_path):
    for name in ("o.jsonl", "o.pbin"):
        with pytest.raises(
            LossyConversionError, match=r'fields beside "ids" of 60 records .*"mask" in 60\).*--allow-loss fields'
        ):
            tokfmt.convert(reel(Masked), tmp_path / name, eos=99)
        assert not (tmp_path / name).exists()
        done = tokfmt.convert(reel(Masked), tmp_path / name, eos=99, allow_loss=["fields"])
        assert "fields" in done.losses
