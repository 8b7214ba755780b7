"""Recipes of several sources in memory, nested and weighted, and what each of them gives, counted one by one."""

from collections import Counter
from pathlib import Path

from hypothesis import strategies as st
from recipe.held import Held, languages, source_of, sources

from tokfmt.errors import TokfmtError
from tokfmt.mix.documents import Documents, with_quotas
from tokfmt.mix.language import parse_recipe
from tokfmt.mix.samples import Samples

__all__ = ["Documents", "counted", "cut", "mixes", "whole_passes"]


def nested(found, words):
    """A recipe of documents over sources in memory."""
    file = parse_recipe({**words, "source": [{"path": f"n{k}"} for k in range(len(found))]}, Path("inner.toml"))
    return Documents(file, [source_of(f"n{k}", Held(one)) for k, one in enumerate(found)], None)


@st.composite
def mixes(draw, weighted=True):
    """A recipe over one to three sources, one of which may be a recipe; with quotas, weights, epochs, a budget."""
    found = draw(sources)
    readers = [Held(one) for one in found]
    if draw(st.booleans()):
        words = {"shuffle": draw(st.sampled_from(["none", "documents"])), "epochs": draw(st.integers(1, 3))}
        readers[draw(st.integers(0, len(found) - 1))] = nested(draw(sources), {**words, "seed": 5})
    table = draw(st.one_of(languages(), st.just({})))
    choices = ["none", "documents", *(["samples"] if table else [])]
    table |= {"shuffle": draw(st.sampled_from(choices)), "seed": draw(st.integers(0, 9))}
    weighted = weighted and bool(table.get("seq_len")) and draw(st.booleans())
    entries = []
    for k, reader in enumerate(readers):
        entry = {"path": f"s{k}", "epochs": draw(st.integers(1, 3))}
        if weighted:
            entry["weight"] = draw(st.integers(1, 5))
        elif reader.info.tokens and draw(st.booleans()):
            entry["tokens"] = draw(st.integers(1, reader.info.tokens * entry["epochs"]))
        entries.append(entry)
    if draw(st.booleans()):
        table["tokens"] = draw(st.integers(1, 2 * sum(reader.info.tokens for reader in readers)))
    file = parse_recipe({**table, "source": entries}, Path("mix.toml"))
    held = [source_of(f"s{k}", reader) for k, reader in enumerate(readers)]
    try:
        held = with_quotas(file, held)
        return Samples(file, held) if file.seq_len else Documents(file, held, None)
    except TokfmtError:  # less than was asked for, or no sample
        return None


def counted(view, numbers):
    """Tokens by source and by source of a source, one span after the other."""
    found = Counter()
    for number in numbers:
        for k, sequence, start, stop in view.spans(number):
            found[k] += stop - start
            inner = view.sources[k].whole or view.sources[k].reader
            if isinstance(inner, Documents):
                ((j, *_),) = inner.spans(sequence)
                found[k, j] += stop - start
    return found


def cut(view):
    """Documents in the result that lie in more than one sample of a pass; documents by source and number."""
    drawn = {}
    for sample in range(view.count):
        turn, _, number = view._locate(sample)
        drawn.setdefault(id(turn.packing), set()).add(number)
    found = set()
    for turn in view._turns:
        where = {}  # by where a document begins on the row, as a quota may have it there twice
        for number in range(turn.packing.samples):
            for a, b in turn.packing.intervals(number):
                at = a
                for k, sequence, start, stop in turn.packing.axis.spans(a, b):
                    where.setdefault((at - start, k, sequence), set()).add(number)
                    at += stop - start
        taken = drawn.get(id(turn.packing), set())
        found |= {(k, q) for (_, k, q), numbers in where.items() if len(numbers) > 1 and numbers & taken}
    return found


def whole_passes(found, words, epochs, shuffle):
    """A recipe of so many passes over each source; None where that gives no sample."""
    entries = [{"path": f"s{k}", "epochs": epochs} for k in range(len(found))]
    file = parse_recipe({**words, "shuffle": shuffle, "source": entries}, Path("mix.toml"))
    try:
        return Samples(file, [source_of(f"s{k}", Held(one)) for k, one in enumerate(found)])
    except TokfmtError:
        return None
