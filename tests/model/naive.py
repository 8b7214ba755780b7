"""Datasets as lists, and what a destination stores of them, by code that shares nothing with tokfmt."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from tokfmt.model import ArrayAxis, Bounds, Dataset, Ended, Gap, Led, Split, Target, led

AFTER, BEFORE, LEAD = "after", "before", "lead"
EOS, BOS = 7, 5


class Sequence(NamedTuple):
    """A content, the ID of its separator (None: it has none), and that of its lead."""

    content: list
    separator: int | None = None
    lead: int | None = None


def trimmed(stored, eos, bos=None):
    """A stored sequence of an index, by the definition of content."""
    separator = lead = None
    if eos is not None and stored and stored[-1] == eos:
        stored, separator = stored[:-1], eos
    if bos is not None and stored and stored[0] == bos:
        stored, lead = stored[1:], bos
    return Sequence(stored, separator, lead)


def split(stream, eos, how, opens=()):
    """The sequences of a stream, token by token."""
    found, content, begun = [], [], False
    for position, token in [*enumerate(stream), (len(stream), None)]:
        if (position and position in opens) or token is None:
            if content or (how == "before" and begun):
                found.append(Sequence(content, eos if how == "before" and begun else None))
            content, begun = [], False
        if token == eos:
            if how == "before":
                if content or begun:
                    found.append(Sequence(content, eos if begun else None))
                begun = True
            elif content or how == "after":
                found.append(Sequence(content, eos))
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


def indexed(documents, eos=EOS, bos=None, presumed=None, dtype="u2", **gap):
    """A dataset that an index bounds, and its sequences."""
    tokens = np.array([token for document in documents for token in document], dtype)
    spans = Bounds(ArrayAxis(np.cumsum([0, *map(len, documents)])))
    if eos is not None:
        spans = Ended(spans, eos, presumed)
    if bos is not None:
        spans = Led(spans, bos)
    dataset = Dataset(ArrayAxis(tokens), spans, Gap(eos, lead=bos, of=len(documents), **gap))
    return dataset, [trimmed(document, eos, bos) for document in documents]


def without(sequence, lead):
    """A sequence without a lead at the beginning of its content."""
    content, separator, _ = sequence
    return Sequence(content[1:], separator, lead) if content[:1] == [lead] else sequence


def streamed(tokens, how, opens=(), eos=EOS, jobs=1):
    """A stream, and its sequences."""
    axis = ArrayAxis(np.array(tokens, "u2"))
    spans = Split(axis, eos, how, np.array(opens, np.int64) if opens else None, jobs)
    side = "before" if how == "before" else "after"
    return Dataset(axis, spans, Gap(eos, side, alone=True)), split(tokens, eos, how, opens)


TOKENS = st.lists(st.integers(0, 9), max_size=8)
DOCUMENTS = st.lists(
    st.tuples(TOKENS, st.booleans(), st.booleans()).map(lambda one: [BOS] * one[2] + one[0] + [EOS] * one[1]),
    max_size=40,
)
BY_INDEX = st.builds(
    Target,
    id=st.sampled_from([None, EOS, 9, 70_000]),
    kind=st.just("index"),
    lead=st.sampled_from([None, BOS, 3]),
    leads=st.sampled_from(["as-read", "all"]),
    only_closed=st.booleans(),
    accepted=st.just(frozenset()),
    name=st.just("x"),
)
BY_SEPARATORS = st.builds(
    Target,
    id=st.sampled_from([EOS, 9]),
    kind=st.sampled_from(["after", "before", "between"]),
    lead=st.sampled_from([None, BOS, 3]),
    leads=st.sampled_from(["as-read", "all"]),
    only_closed=st.just(False),
    accepted=st.just(frozenset({"empty-sequences", "embedded-separators"})),
    name=st.just("x"),
)
TARGETS = BY_INDEX | BY_SEPARATORS


@st.composite
def datasets(draw):
    """A dataset of any spans, taken or joined or both, and its sequences."""
    kind = draw(st.sampled_from(["index", "lead", "none", "after", "before", "between", "led", "joined", "taken"]))
    if kind == "led":
        how = draw(st.sampled_from(["after", "before", "between"]))
        dataset, sequences = streamed(draw(st.lists(st.integers(4, 9), max_size=60)), how)
        lead = draw(st.sampled_from([4, BOS]))
        return led(dataset, lead, each=draw(st.booleans())), [without(one, lead) for one in sequences]
    if kind == "joined":
        from tokfmt.model import concat

        parts = draw(st.lists(datasets(), min_size=1, max_size=3))
        return concat([dataset for dataset, _ in parts]), [one for _, sequences in parts for one in sequences]
    if kind == "taken":
        dataset, sequences = draw(datasets())
        if not sequences:
            return dataset, sequences
        numbers = draw(st.lists(st.integers(0, len(sequences) - 1), max_size=30))
        dtype = draw(st.sampled_from(["i8", "u4"]))
        return dataset.take(np.array(numbers, dtype)), [sequences[number] for number in numbers]
    if kind in {"after", "before", "between"}:
        tokens = draw(st.lists(st.integers(4, 9), max_size=60))
        opens = draw(st.lists(st.integers(0, 60), max_size=3))
        return streamed(tokens, kind, sorted({p for p in opens if 0 < p < len(tokens)}))
    eos = draw(st.sampled_from([EOS, 8])) if kind != "none" else None
    return indexed(draw(DOCUMENTS), eos, BOS if kind == "lead" else None)
