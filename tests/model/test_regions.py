"""Regions are written in any order, killed at every step, and continued; the file is that of one run in order."""

import json
import random

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from model.naive import DOCUMENTS, EOS, indexed, laid, streamed

from tokfmt.model import AFTER, ArrayAxis, Bounds, Dataset, Ended, Gap, Laid, NotPresumedError, Target, concat
from tokfmt.model.regions import write_regions


class KilledError(Exception):
    """The process is gone."""


class Disk:
    """A file and a journal that survive, and a process that is killed at a step of its work.

    A line of the journal that was not synced is lost by a kill, and so is what a write had not reached.
    """

    def __init__(self, seed, presumed):
        self.presumed = presumed
        self.file, self.lines, self.unsynced, self.left, self.random = (
            np.zeros(0, "u4"),
            [],
            [],
            None,
            random.Random(seed),
        )

    def step(self):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KilledError

    def run(self, axis, size, steps=None):
        """Run up to a number of steps. Returns what was written, or None after a kill."""
        self.left, self.unsynced = steps, []
        self.loaded = [json.loads(line) for line in self.lines]
        try:
            return write_regions(axis, size, self.write, self.prepare, self, self.run_all)
        except KilledError:
            return None

    # The journal: `done` knows the lines of earlier runs alone, as that of `run.plan` does.

    def done(self, kind):
        return {number: facts for name, number, facts in self.loaded if name == kind}

    def add(self, kind, number, facts):
        self.step()
        self.unsynced.append(json.dumps([kind, number, facts]))
        if self.random.random() < 0.3:
            self.sync()

    def sync(self):
        self.step()
        self.lines += self.unsynced
        self.unsynced = []

    # The destination

    def prepare(self, axis):
        self.step()
        kept = self.file[: axis.length]
        self.file = np.concatenate([kept, np.full(axis.length - len(kept), 123_456, "u4")])

    def write(self, axis, region, ledgers):
        if axis.is_exact and not self.presumed.is_exact:
            assert any(json.loads(line)[0] == "exact" for line in self.lines), "regions of before are not void yet"
        at = region.tokens.start
        for part in axis.walk(region):
            self.step()
            self.file[at : at + len(part.tokens)] = part.tokens
            at += len(part.tokens)
            ledgers.add(part.ledger)
        assert at == region.tokens.stop
        return {"max_id": 0}

    def run_all(self, function, regions):
        """Regions are begun in another order than they are given, some at a time."""
        waiting = []
        for region in regions:
            waiting.append(region)
            if len(waiting) > 3:
                yield function(waiting.pop(self.random.randrange(len(waiting))))
        while waiting:
            yield function(waiting.pop(self.random.randrange(len(waiting))))


def check(axis, disk, written, tokens, fates):
    assert disk.file.tolist() == tokens
    assert [list(counts) for counts in written.ledger] == fates
    assert written.laid.length == len(tokens)
    assert [receipt.region for receipt in written.receipts] == list(range(len(written.receipts)))


def all_ways(axis, size, seed, tokens, fates, kills=None):
    """A whole run, and runs that are killed after some number of steps, each continued until it is through."""
    whole = Disk(seed, axis)
    check(axis, whole, whole.run(axis, size), tokens, fates)
    for steps in kills or (1 + seed % 3, 3 + seed % 17):
        disk, written = Disk(seed + steps, axis), None
        for attempt in range(300):
            written = disk.run(axis, size, steps + attempt // 4)
            if written is not None:
                break
        check(axis, disk, written, tokens, fates)


INDEXED = st.sampled_from(
    [Target(EOS), Target(9), Target(None), Target(EOS, only_closed=True), Target(EOS, lead=3, leads="all")]
)
STREAMS = st.sampled_from([Target(9, kind) for kind in ("after", "before")])


@settings(max_examples=examples(20))
@given(DOCUMENTS, INDEXED | STREAMS, st.sampled_from([0, AFTER]), st.integers(1, 30), st.integers(0, 999))
def test_whatever_is_presumed_the_bytes_are_the_same(documents, target, presumed, size, seed):
    if target.id == 9:
        documents = [[token for token in document if token != 9] for document in documents]
    dataset, sequences = indexed(documents, EOS, presumed=presumed)
    tokens, _, fates = laid(sequences, target)
    all_ways(Laid(dataset, target), size, seed, tokens, fates)


@settings(max_examples=examples(20))
@given(DOCUMENTS, DOCUMENTS, INDEXED, st.integers(1, 30), st.integers(0, 999))
def test_several_sources_each_presumed_for_itself(first, second, target, size, seed):
    one, before = indexed(first, EOS, presumed=AFTER)
    other, after = indexed(second, EOS, presumed=0)
    dataset = concat([one, other])
    tokens, _, fates = laid(before + after, target)
    all_ways(Laid(dataset, target), size, seed, tokens, fates)


def documents_of(count, exceptions=()):
    return [[k % 5 + 1, 8] + [EOS] * (k not in exceptions) for k in range(count)]


def test_without_an_exception_no_end_is_looked_at_and_each_region_is_written_once():
    documents = documents_of(10_000)
    dataset, _ = indexed(documents, EOS, presumed=AFTER)
    reads, read = [], dataset.axis.read
    dataset.axis.read = lambda a, b: reads.append((a, b)) or read(a, b)
    axis = Laid(dataset, Target(9))
    assert (axis.is_exact, reads) == (False, [])
    assert axis.offsets(5000, 5001).tolist() == [15_000, 15_003]
    assert axis.sequence_at(15_001) == (5000, 1)
    assert len(axis.bases) == 10_000 // 4096 + 2
    assert reads == []
    disk = Disk(0, axis)
    disk.run(axis, 1000)
    assert sum(b - a for a, b in reads) == pytest.approx(30_000, rel=0.2)  # regions share a sequence at their borders


@pytest.mark.parametrize("exception", [0, 4999, 9999])
def test_regions_before_the_first_exception_stay(exception):
    dataset, sequences = indexed(documents_of(10_000, {exception}), EOS, presumed=AFTER)
    axis, target = Laid(dataset, Target(EOS)), Target(EOS)
    with pytest.raises(NotPresumedError) as error:
        axis.read(0, axis.length)
    assert error.value.sequence == exception
    assert axis.exact().exception == exception
    assert axis.exact().length == axis.length + 1
    disk = Disk(1, axis)
    written = disk.run(axis, 1000)
    kinds = [json.loads(line)[:2] for line in disk.lines]
    first = exception * 3 // 1000
    assert [json.loads(line) for line in disk.lines if '"exact"' in line] == [["exact", 0, first]]
    assert {number for kind, number in kinds if kind == "exact-region"} == {
        region for region in range(30) if region >= first or ["region", region] not in kinds
    }
    tokens, _, fates = laid(sequences, target)
    check(axis, disk, written, tokens, fates)


@pytest.mark.parametrize("exceptions", [(), (3,), (11, 12)])
def test_killed_after_every_step(exceptions):
    dataset, sequences = indexed(documents_of(14, exceptions), EOS, presumed=AFTER)
    tokens, _, fates = laid(sequences, Target(EOS))
    all_ways(Laid(dataset, Target(EOS)), 6, 1, tokens, fates, range(1, 40))


def test_mixed_ends_are_exact_from_the_beginning():
    dataset, sequences = indexed(documents_of(100, {3}), EOS, presumed=None)
    axis = Laid(dataset, Target(EOS))
    assert axis.is_exact
    tokens, _, fates = laid(sequences, Target(EOS))
    all_ways(axis, 7, 3, tokens, fates)


@pytest.mark.parametrize("how", ["after", "before", "between"])
def test_a_stream_is_always_exact(how):
    tokens = [1, 7, 2, 3, 7, 4, 7, 5]
    dataset, sequences = streamed(tokens, how)
    for target in (Target(None), Target(7), Target(9, "after")):
        expected, _, fates = laid(sequences, target)
        axis = Laid(dataset, target)
        assert axis.read(0, axis.length).tolist() == expected
        all_ways(axis, 3, 5, expected, fates)


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("target", [Target(EOS), Target(9, "before", lead=3, leads="all"), Target(None)])
def test_a_sequence_longer_than_a_window_is_held_in_windows(closed, target):
    """Memory does not depend on the length of a sequence, and regions inside of it read their own part alone."""
    length = 3 << 20
    content = np.arange(length, dtype="u4") % 5
    stored = np.concatenate([[1, EOS], content, [EOS] * closed, [2, EOS]]).astype("u4")
    bounds = np.array([0, 2, 2 + length + closed, 4 + length + closed])
    dataset = Dataset(ArrayAxis(stored), Ended(Bounds(ArrayAxis(bounds)), EOS, presumed=AFTER), Gap(EOS))
    axis = Laid(dataset, target).exact()
    found, at = [], 0
    for region in axis.regions(1 << 20):
        for part in axis.walk(region):
            assert len(part.tokens) <= (1 << 20) + 2
            found.append(part.tokens)
    expected = [[1], content, [2]]
    lead = [[target.lead]] * (target.lead is not None)
    separator = [[target.id]] * (target.id is not None)
    order = separator + lead if target.kind == "before" else lead
    after = [] if target.kind == "before" else separator
    whole = np.concatenate([part for one in expected for part in (*order, one, *after)])
    assert np.array_equal(np.concatenate(found), whole)
    for at in (0, 1, 5, 1 << 20, (2 << 20) + 3, length - 8):
        assert axis.read(at, at + 9).tolist() == whole[at : at + 9].tolist()
    for at in [*range(8), *range(length, len(whole))]:
        assert axis.read(at, at + 1).tolist() == [whole[at]]
    if not closed and target.id is not None:
        with pytest.raises(NotPresumedError):
            Laid(dataset, target).read(length - 5, length + 3)
