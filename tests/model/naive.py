"""Datasets as lists, and what a destination stores of them, by code that shares nothing with tokfmt."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from model.axes import ArrayAxis, Listed, Pieces

from tokfmt.model import Boundaries, Bounds, Dataset, Ended, Gap, Led, Split, concat, led

AFTER, BEFORE, LEAD = "after", "before", "lead"
EOS, BOS = 7, 5


class Slot(int):
    """A token that knows its mark, wherever it goes."""

    mark = 1


def slots(tokens, marks=()):
    """The tokens of an axis with their marks (default: each counts in the loss)."""
    found = [Slot(token) for token in tokens]
    for slot, mark in zip(found, marks):
        slot.mark = mark
    return found


class Sequence(NamedTuple):
    """A content, its separator (None: it has none), and its lead."""

    content: list
    separator: int | None = None
    lead: int | None = None


def trimmed(stored, eos, bos=None):
    """A stored sequence of an index, by the definition of content."""
    separator = lead = None
    if eos is not None and stored and stored[-1] == eos:
        stored, separator = stored[:-1], stored[-1]
    if bos is not None and stored and stored[0] == bos:
        stored, lead = stored[1:], stored[0]
    return Sequence(stored, separator, lead)


def split(stream, eos, how, opens=()):
    """The sequences of a stream, token by token."""
    found, content, begun = [], [], None
    for position, token in [*enumerate(stream), (len(stream), None)]:
        if (position and position in opens) or token is None:
            if content or begun is not None:
                found.append(Sequence(content, begun))
            content, begun = [], None
        if token == eos:
            if how == "before":
                if content or begun is not None:
                    found.append(Sequence(content, begun))
                begun = token
            elif content or how == "after":
                found.append(Sequence(content, token))
            content = []
        elif token is not None:
            content.append(token)
    return found


def stored(sequence, target):
    """What a destination stores of a sequence, and what it says of its separator and its lead."""
    content, separator, lead = sequence
    had = separator is not None
    if target.id is None:
        puts = False
    elif target.only_closed:
        puts = had
    else:
        puts = {"index": had or bool(content), "between": bool(content)}.get(target.kind, True)
    leads = target.lead is not None and (target.leads == "all" or lead is not None)
    tokens = [target.lead] * leads + content
    tokens = [target.id] * puts + tokens if target.kind == "before" else tokens + [target.id] * puts
    return tokens, fate(separator, target.id, puts), fate(lead, target.lead, leads)


def fate(had, written, puts):
    if puts:
        return "added" if had is None else "kept" if had == written else "replaced"
    return "bare" if had is None else "dropped"


def marked(sequence, target, lacks):
    """The marks of what `stored` returns. An added lead counts, and so does a separator without a token in front.

    `lacks`: a separator that is added behind a token does not count, as no data trains it.
    """
    content, separator, lead = sequence
    _, *fates = stored(sequence, target)
    puts, leads = (one in {"kept", "replaced", "added"} for one in fates)
    added = 0 if content and (lacks or content[-1].mark & 2) else 1
    beside = [added if separator is None else separator.mark] * puts
    found = [1 if lead is None else lead.mark] * leads + [token.mark for token in content]
    return beside + found if target.kind == "before" else found + beside


def laid(sequences, target):
    """All tokens of a destination, the end of each sequence, and the five numbers of separators and of leads."""
    tokens, ends, fates = [], [], ([], [])
    for sequence in sequences:
        more, *found = stored(sequence, target)
        tokens += more
        ends.append(len(tokens))
        for kind, one in zip(fates, found):
            kind.append(one)
    names = ("kept", "replaced", "added", "dropped", "bare")
    return tokens, ends, [[kind.count(name) for name in names] for kind in fates]


def marks_axis(marks):
    return ArrayAxis(np.array(marks, "u1")) if len(marks) else None


def indexed(documents, eos=EOS, bos=None, presumed=None, dtype="u2", marks=(), **gap):
    """A dataset that an index bounds, and its sequences."""
    flat = slots([token for document in documents for token in document], marks)
    bounds = np.cumsum([0, *map(len, documents)])
    spans = Bounds(ArrayAxis(bounds))
    if eos is not None:
        spans = Ended(spans, eos, presumed)
    if bos is not None:
        spans = Led(spans, bos)
    axis = ArrayAxis(np.array(flat, dtype))
    dataset = Dataset(axis, spans, Gap(eos, lead=bos, of=len(documents), **gap), marks_axis(marks))
    cuts = bounds.tolist()
    return dataset, [trimmed(flat[a:b], eos, bos) for a, b in zip(cuts, cuts[1:])]


def without(sequence, lead):
    """A sequence without a lead at the beginning of its content."""
    content, separator, _ = sequence
    return Sequence(content[1:], separator, content[0]) if content[:1] == [lead] else sequence


def streamed(tokens, how, opens=(), eos=EOS, jobs=1, marks=()):
    """A stream, and its sequences."""
    axis = ArrayAxis(np.array(tokens, "u2"))
    spans = Split(axis, eos, how, np.array(opens, np.int64) if opens else None, jobs)
    side = "before" if how == "before" else "after"
    dataset = Dataset(axis, spans, Gap(eos, side, alone=True), marks_axis(marks))
    return dataset, split(slots(tokens, marks), eos, how, opens)


def viewed(tokens, intervals, eos=EOS, bos=None, marks=(), whole=False):
    """Intervals of an axis in any order, which repeat and overlap; `whole`: an axis made of them. And the sequences."""
    flat, axis, marks = slots(tokens, marks), ArrayAxis(np.array(tokens, "u2")), marks_axis(marks)
    starts, stops = (np.array([one[k] for one in intervals], np.int64) for k in (0, 1))
    if whole:
        axis, marks = (one and Pieces(one, starts, stops - starts) for one in (axis, marks))
        spans = Bounds(ArrayAxis(np.cumsum([0, *(stops - starts)])))
    else:
        spans = Listed(ArrayAxis(starts), ArrayAxis(stops - starts))
    if eos is not None:
        spans = Ended(spans, eos)
    if bos is not None:
        spans = Led(spans, bos)
    dataset = Dataset(axis, spans, Gap(eos, lead=bos, of=len(intervals)), marks)
    return dataset, [trimmed(flat[a:b], eos, bos) for a, b in intervals]


TOKENS = st.lists(st.integers(0, 9), max_size=8)
DOCUMENTS = st.lists(
    st.tuples(TOKENS, st.booleans(), st.booleans()).map(lambda one: [BOS] * one[2] + one[0] + [EOS] * one[1]),
    max_size=40,
)
BY_INDEX = st.builds(
    Boundaries,
    id=st.sampled_from([None, EOS, 9, 70_000]),
    kind=st.just("index"),
    lead=st.sampled_from([None, BOS, 3]),
    leads=st.sampled_from(["as-read", "all"]),
    only_closed=st.booleans(),
    accepted=st.just(frozenset()),
    name=st.just("x"),
)
BY_SEPARATORS = st.builds(
    Boundaries,
    id=st.sampled_from([EOS, 9]),
    kind=st.sampled_from(["after", "before", "between"]),
    lead=st.sampled_from([None, BOS, 3]),
    leads=st.sampled_from(["as-read", "all"]),
    only_closed=st.just(False),
    accepted=st.just(frozenset({"empty-sequences", "embedded-separators"})),
    name=st.just("x"),
)
TARGETS = BY_INDEX | BY_SEPARATORS
ALONE = ("index", "lead", "lead alone", "none", "after", "before", "between", "led", "listed", "pieces")


def marks_of(draw, tokens):
    """Marks of any bits for these tokens, or none."""
    return draw(st.lists(st.integers(0, 7), min_size=tokens, max_size=tokens)) if draw(st.booleans()) else ()


@st.composite
def datasets(draw, alone=ALONE):
    """A dataset of any spans, with or without marks, taken, cut or joined or all of it, and its sequences."""
    kind = draw(st.sampled_from([*alone, "joined", "taken", "sliced"]))
    if kind == "led":
        how = draw(st.sampled_from(["after", "before", "between"]))
        dataset, sequences = streamed(draw(st.lists(st.integers(4, 9), max_size=60)), how)
        lead = draw(st.sampled_from([4, BOS]))
        return led(dataset, lead, each=draw(st.booleans())), [without(one, lead) for one in sequences]
    if kind == "joined":
        parts = draw(st.lists(datasets(alone), min_size=1, max_size=3))
        return concat([dataset for dataset, _ in parts]), [one for _, sequences in parts for one in sequences]
    if kind in {"taken", "sliced"}:
        dataset, sequences = draw(datasets(alone))
        if kind == "sliced":
            first, last = sorted(draw(st.tuples(*[st.integers(0, len(sequences))] * 2)))
            return dataset.slice(first, last), sequences[first:last]
        if not sequences:
            return dataset, sequences
        numbers = draw(st.lists(st.integers(0, len(sequences) - 1), max_size=30))
        dtype = draw(st.sampled_from(["i8", "u4"]))
        return dataset.take(np.array(numbers, dtype)), [sequences[number] for number in numbers]
    if kind in {"after", "before", "between"}:
        tokens = draw(st.lists(st.integers(4, 9), max_size=60))
        opens = draw(st.lists(st.integers(0, 60), max_size=3))
        opens = sorted({position for position in opens if 0 < position < len(tokens)})
        return streamed(tokens, kind, opens, marks=marks_of(draw, len(tokens)))
    eos = draw(st.sampled_from([EOS, 8])) if kind not in {"none", "lead alone"} else None
    bos = BOS if kind in {"lead", "lead alone"} else draw(st.sampled_from([None, BOS])) if kind == "listed" else None
    if kind in {"listed", "pieces"}:
        tokens = draw(st.lists(st.integers(4, 9), max_size=40))
        place = st.integers(0, len(tokens))
        intervals = draw(st.lists(st.tuples(place, place).map(sorted), max_size=20))
        return viewed(tokens, intervals, eos, bos, marks_of(draw, len(tokens)), kind == "pieces")
    documents = draw(DOCUMENTS)
    return indexed(documents, eos, bos, marks=marks_of(draw, sum(map(len, documents))))
