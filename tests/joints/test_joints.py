"""Whatever makes a dataset and whatever reads it say the same of it: how many sequences and tokens, and which."""

import inspect
import itertools
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import registered
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from joints.table import APART, COMMANDS, FORMATS, MAKERS, OPTIONS, READERS, VERBS, Case, RefusedError, multiset

import tokfmt
from tokfmt.cli.main import COMMANDS as OF_THE_COMMAND_LINE
from tokfmt.errors import TokfmtError

EXAMPLES = int(os.environ.get("JOINTS") or 3)
"""Of each maker; each is read by every reader."""

MIDDLES = ("jsonl", "modalities", "flat-tokens", "megatron", "parquet", "datatrove", "mds", "tape", "stage1", "nanogpt")
TARGETS = (
    "modalities",
    "jsonl",
    "flat-tokens",
    "megatron",
    "parquet",
    "arrow",
    "datatrove",
    "tape",
    "stage1",
    "nanogpt",
)


@st.composite
def cases(draw):
    top = draw(st.sampled_from([5, 300, 70_000]))
    document = st.lists(st.integers(1, top), max_size=9).map(tuple)
    files = draw(st.lists(st.lists(document, max_size=6).map(tuple), min_size=1, max_size=3).map(tuple))
    count = sum(map(len, files))
    return Case(
        files,
        draw(st.sampled_from([0, top + 1])),
        draw(st.sampled_from(MIDDLES)),
        draw(st.sampled_from(TARGETS)),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.integers(2, 5)),
        draw(st.integers(0, 3)),
        (draw(st.integers(0, count)), draw(st.integers(0, count))),
    )


PLAIN = Case((((5, 6, 7), (8,)), ((9, 10, 11, 12),)))


def agrees(part, maker, home):
    """Every reader of a part says the same; returns the sequences."""
    part = part if part.certain else replace(part, documents=None)
    seen = {}
    for name, read in READERS.items():
        if (maker, name) in APART:
            continue
        if name == "Loader" and not getattr(seen["open"], "tokens", 0):  # without a token there is no sample
            continue
        try:
            seen[name] = read(part, home)
        except TokfmtError as error:
            seen[name] = error
    if not part.certain:  # what has to be inferred may be refused; what is not refused is the same
        seen = {name: report for name, report in seen.items() if not isinstance(report, TokfmtError)}
    failed = {name: report for name, report in seen.items() if isinstance(report, TokfmtError)}
    assert not failed, failed
    whole = {name: report for name, report in seen.items() if not report.without_empty}
    for what in ("sequences", "tokens"):
        counted = {name: getattr(report, what) for name, report in whole.items()}
        if part.certain and part.counts is not None:
            counted["maker"] = part.counts[what == "tokens"]
        assert len(set(counted.values()) - {None}) <= 1, (what, counted)
    listed = {name: report.documents for name, report in whole.items() if report.documents is not None}
    for (one, a), (other, b) in itertools.pairwise(listed.items()):
        assert a == b, (one, other)
    found = next(iter(listed.values()), None)
    if part.certain and part.documents is not None:
        assert found == part.documents
    for name, report in seen.items():
        if report.without_empty and found is not None:
            assert report.tokens == sum(map(len, found)), name
            assert report.documents in (None, [one for one in found if one]), name
    return found


def holds(maker, case):
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        made = MAKERS[maker](case, home)
        found = []
        for number, part in enumerate(made.parts):
            place = home / f"read-{number}"
            place.mkdir()
            found += agrees(part, maker, place) or []
        if all(part.certain for part in made.parts):
            assert multiset(found) == multiset(made.together)


@pytest.mark.parametrize("maker", MAKERS)
def test_plain_documents(maker):
    """None of them is refused."""
    holds(maker, PLAIN)


@pytest.mark.parametrize("maker", MAKERS)
def test_joints(maker):
    same = not os.environ.get("JOINTS")

    @settings(max_examples=EXAMPLES, database=None, derandomize=same, suppress_health_check=list(HealthCheck))
    @given(cases())
    def law(case):
        try:
            holds(maker, case)
        except RefusedError:
            assume(False)

    law()


def test_every_joint_is_in_the_table():
    """A command, verb, option or format that is added needs a maker or a reader, or a word that it has none."""
    known = {*MAKERS, *READERS, ""}
    assert set(COMMANDS) == set(OF_THE_COMMAND_LINE)
    assert set(VERBS) == {*tokfmt.__all__, "Loader"}
    assert set(FORMATS) == set(registered.names())
    assert set(OPTIONS) == set(inspect.signature(tokfmt.convert).parameters)
    for listed in (COMMANDS, VERBS, OPTIONS, FORMATS):
        assert known.issuperset(listed.values())
    assert {*MIDDLES, *TARGETS} <= set(FORMATS)
    assert {maker for maker, _ in APART} <= set(MAKERS)
    assert {reader for _, reader in APART} <= set(READERS)


def test_formats_that_only_are_read_cannot_be_written():
    for name, maker in FORMATS.items():
        assert bool(maker) != (name in ("internevo", "levanter", "litgpt-packed", "run", "text"))
