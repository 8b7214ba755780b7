"""The tables of the model on random datasets: which separator is found, what a destination writes, what is refused."""

from collections import Counter
from typing import NamedTuple

import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from model.naive import BOS, EOS, indexed, laid, slots, split, streamed, trimmed

from tokfmt.errors import ConversionError, LossyConversionError, OptionError, TokfmtError
from tokfmt.model import Boundaries, Laid, Ledger, Statement, concat, decide, led
from tokfmt.model.separator import lead_to_write, separator_to_write

OTHER = 8
IDS = (EOS, OTHER, 300)
LOSSES = frozenset({"empty-sequences", "embedded-separators", "leads"})


class RefusedError(Exception):
    """The row of the tables that refuses, the kind of its error, and a word that its message has."""


class Found(NamedTuple):
    """What the tables say of one source: its sequences, its separator, its lead, and whether every destination asks."""

    sequences: list
    id: int | None
    lead: int | None = None
    known: bool = True
    asks: bool = False
    stored: bool = True


def decided(documents, eos, stated, tokenizer, bos):
    """What separates the sequences of a source, or the refusal."""
    full = [one for one in documents if one]
    ends = Counter(one[-1] for one in full)
    (last, count), *others = ends.most_common(2) or [(None, 0)]
    rival = last if not others and count >= 2 and not any(last in one[:-1] for one in full) else None

    def found(trims, **facts):
        return Found([trimmed(one, trims, bos) for one in documents], lead=bos, **{"id": trims, **facts})

    if eos == "none":
        return found(None)
    if stated and not stated.stored and eos in (None, stated.id):
        return found(None, id=stated.id, stored=False)
    if stated and eos not in (None, stated.id) and ends[eos] <= ends[stated.id]:
        raise RefusedError("contradiction", OptionError, f"--to-eos {eos}")
    id_ = eos or (stated.id if stated else tokenizer)
    if id_ is None:
        if rival is not None and len(full) >= 8:
            return found(rival)
        return found(None, known=False, asks=len(full) >= 8 and count >= 0.9 * len(full))
    if (eos or stated) and not ends[id_] and rival is not None:
        raise RefusedError("missed", OptionError if eos else ConversionError, f"--eos {rival}")
    return found(id_)


def targeted(parts, kind, to_eos, to_bos, fixed, needs, accepted):
    """What is refused, any of which may be named, and the target."""
    refused, by_index = [], kind == "index"
    lead = next((part.lead for part in parts if part.lead is not None), None)
    ids = list(dict.fromkeys(part.id for part in parts if part.id is not None))
    if isinstance(to_bos, int):
        leads = to_bos, "all"
    else:
        leads = (lead if by_index and to_bos is None else None), "as-read"
        if kind == "between" and lead is not None and to_bos is None and "leads" not in accepted:
            refused.append(("leads", LossyConversionError, f"lead {lead}"))
    if any(part.asks for part in parts) and not (by_index and to_eos == "as-stored"):
        refused.append(("unclear", ConversionError, "--eos none"))
    if to_eos == "none":
        refused += [] if by_index else [("none", OptionError, "--to-eos none")]
        return refused, Boundaries(None, kind, *leads)
    chosen = to_eos if isinstance(to_eos, int) else None
    if len(ids) > 1 and chosen is None:
        refused.append(("several", OptionError if to_eos else ConversionError, "different separators"))
    id_ = chosen or (ids[0] if len(ids) == 1 else None)
    if to_eos == "as-stored" and not all(part.id is not None and part.stored for part in parts):
        if any(part.id is not None and part.stored for part in parts):
            refused.append(("some", OptionError, "only some of the sources"))
        id_ = None
    if fixed not in (None, id_):
        refused.append(("fixed", ConversionError, f"--to-eos {fixed}"))
    elif id_ is None and (not by_index or (needs and to_eos is None and not parts[0].known)):
        refused.append(("unknown", ConversionError, "is not known"))
    as_stored = to_eos == "as-stored" and id_ is not None
    return refused, Boundaries(id_, kind, *leads, as_stored, accepted, "x")


def unwritable(sequences, to):
    """What a destination cannot write."""
    if to.kind == "index":
        return
    if to.only_closed and any(one.separator is None for one in sequences[:-1]):
        yield "lacking", OptionError, "as-stored"
    if to.kind == "between" and "empty-sequences" not in to.accepted and not all(one.content for one in sequences):
        yield "empty", LossyConversionError, "empty sequence"
    if "embedded-separators" not in to.accepted and any(to.id in one.content for one in sequences):
        yield "embedded", LossyConversionError, f"{to.id} inside sequences"


STATED = st.none() | st.builds(Statement, st.sampled_from(IDS), st.sampled_from(["manifest", "file"]), st.booleans())
KNOWN = st.sampled_from([None, None, *IDS])


@st.composite
def sources(draw):
    """Functions that open a source and that say what the tables say of it: an index or a stream, and what is known."""
    eos, stated, tokenizer = draw(KNOWN | st.just("none")), draw(STATED), draw(KNOWN)
    how = draw(st.sampled_from(["index", "index", "after", "before", "between"]))
    if how != "index":
        tokens = draw(st.lists(st.integers(5, 8), max_size=30))
        opens = sorted(set(draw(st.lists(st.integers(1, 30), max_size=2))) & set(range(1, len(tokens))))
        dataset = streamed(tokens, how, opens)[0]
        return lambda: dataset, lambda: Found(split(slots(tokens), EOS, how, opens), EOS)
    top, usual = draw(st.sampled_from([5, 6, 9])), draw(st.sampled_from([[], [EOS], [OTHER]]))
    beyond = draw(st.lists(st.sampled_from([[], [EOS], [OTHER], [EOS, EOS]]), max_size=3))
    content = st.lists(st.integers(0, top), max_size=4)
    documents = [[*draw(content), *usual] for _ in range(draw(st.integers(0, 20)))]
    documents += [[*draw(content), *end] for end in beyond]
    documents = draw(st.permutations(documents)) if beyond else documents
    bos = draw(st.sampled_from([None, BOS]))
    dataset = indexed(documents, None)[0]
    return (
        lambda: (
            decide(dataset, eos, stated, tokenizer)
            if bos is None
            else led(decide(dataset, eos, stated, tokenizer), bos)
        ),
        lambda: decided([slots(one) for one in documents], eos, stated, tokenizer, bos),
    )


def refuses(rows, do):
    """What the tables refuse is refused, by one of the rows that do; returns what was done otherwise."""
    if not rows:
        return do()
    with pytest.raises(TokfmtError) as error:
        do()
    assert any(isinstance(error.value, kind) and word in str(error.value) for _, kind, word in rows), (rows, error)
    return None


@settings(max_examples=examples(400))
@given(
    st.lists(sources(), min_size=1, max_size=3),
    st.sampled_from(["index", "after", "before", "between"]),
    st.sampled_from([None, None, "none", "as-stored", *IDS]),
    st.sampled_from([None, None, None, "none", BOS, 3]),
    st.sampled_from([None, None, None, EOS]),
    st.booleans(),
    st.sampled_from([frozenset(), LOSSES]),
)
def test_the_tables(several, kind, to_eos, to_bos, fixed, needs, accepted):
    datasets, parts = [], []
    for open_, say in several:
        try:
            part = say()
        except RefusedError as row:
            refuses([row.args], open_)
            return
        dataset = open_()
        assert [dataset[k].tolist() for k in range(len(dataset))] == [one.content for one in part.sequences]
        assert (dataset.gap.id, dataset.gap.lead) == (part.id, part.lead)
        datasets.append(dataset)
        parts.append(part)
    joined, sequences = concat(datasets), [one for part in parts for one in part.sequences]
    refused, to = targeted(parts, kind, to_eos, to_bos, fixed, needs, accepted)

    def found_target():
        lead, leads = lead_to_write(joined.gap.leads, kind, to_bos, accepted, "x")
        id_ = separator_to_write(joined.gap, kind, to_eos, fixed, needs=needs, name="x")
        return Boundaries(id_, kind, lead, leads, to_eos == "as-stored" and id_ is not None, accepted, "x")

    found = refuses(refused, found_target)
    if found is None:
        return
    assert found[:5] == to[:5]

    def write():
        ledger, axis = Ledger(), Laid(joined, found)
        for batch in joined.batches(20):
            ledger = ledger.plus(batch.laid_out(found).ledger)
        return axis.tokens(0, axis.length).tolist(), [list(counts) for counts in ledger]

    written = refuses(list(unwritable(sequences, to)), write)
    if written is not None:  # All ends were looked at, so that no position is presumed wrongly.
        tokens, _, fates = laid(sequences, to)
        assert written == (tokens, fates)
