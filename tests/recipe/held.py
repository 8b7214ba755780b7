"""Recipes of sequences in memory, and what the oracle says of them."""

from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from recipe import oracle

from tokfmt.core.reader import Info, Layout, TokenReader, check_interval
from tokfmt.mix.documents import Documents, TokenSource
from tokfmt.mix.fields import FIELDS
from tokfmt.mix.language import parse_recipe
from tokfmt.mix.samples import Samples
from tokfmt.mix.tree import explain

__all__ = ["EOS", "FIELDS", "Held", "expected", "explain", "languages", "opened", "sources"]

EOS = 99
sequence = st.lists(st.integers(1, 60), max_size=11)
source = st.lists(sequence, min_size=1, max_size=12)
sources = st.lists(source, min_size=1, max_size=3).filter(lambda found: sum(map(len, sum(found, []))) > 1)


class Held(TokenReader):
    """Sequences in memory."""

    def __init__(self, sequences):
        self.flat = np.array([token for ids in sequences for token in ids], np.uint16)
        self.bounds = np.cumsum([0, *map(len, sequences)]).astype(np.int64)
        self.info = Info(Layout.DOCUMENTS, np.dtype(np.uint16), len(sequences), len(self.flat))

    def tokens(self, start, stop):
        check_interval(start, stop, len(self.flat))
        return self.flat[start:stop]

    def offsets(self, first, last):
        check_interval(first, last, len(self.bounds) - 1)
        return self.bounds[first : last + 1]

    def close(self):
        pass


def opened(found, **words):
    """A recipe of sequences in memory."""
    weights = words.pop("weights", None) or [None] * len(found)
    epochs = words.pop("epochs_of", None) or [None] * len(found)
    entries = [
        {"path": f"s{k}", **({"weight": w} if w else {}), **({"epochs": e} if e else {})}
        for k, (w, e) in enumerate(zip(weights, epochs, strict=True))
    ]
    file = parse_recipe({**words, "source": entries}, Path("mix.toml"))
    held = [
        TokenSource(f"s{k}", (Path(f"s{k}"),), "held", Held(sequences), None, [k], {"name": k})
        for k, sequences in enumerate(found)
    ]
    if file.seq_len is None:
        return Documents(file, held, None)
    return Samples(file, held)


def tokens_of(spans, found, separator):
    rows = {}
    for item in (item for row in oracle.items_of(found, separator) for item in row):
        rows[item.source, item.sequence, item.position] = item.id
    return [rows[s, q, p] for s, q, start, stop in spans for p in range(start, stop)]


def expected(found, words):
    labels, pack = words.get("labels", "next"), words["pack"]
    separator = None if labels == "starts" else words.get("to_eos", EOS)
    sequences = oracle.items_of(found, None if separator == "none" else separator)
    borders = None
    if pack == "stream":
        samples = oracle.stream(sequences, words["seq_len"], labels, words.get("tail", "pad"))
    elif pack == "document":
        samples = oracle.document(sequences, words["seq_len"], labels, words.get("long", "split"))
    else:
        samples, borders = oracle.bestfit(sequences, words["seq_len"], labels)
    flat = [item for row in sequences for item in row]
    following = [None] * len(samples)
    if labels == "disjoint":
        step = words["seq_len"] + 1
        following = [flat[min((k + 1) * step, len(flat)) - 1] for k in range(len(samples))]
    return samples, borders, following


@st.composite
def languages(draw):
    pack = draw(st.sampled_from(["stream", "document", "bestfit"]))
    words = {"pack": pack, "seq_len": draw(st.integers(1, 9)), "to_eos": draw(st.sampled_from([EOS, "none"]))}
    words["labels"] = draw(st.sampled_from(["next", "starts", "same", *(["disjoint"] if pack == "stream" else [])]))
    if words["labels"] == "starts":
        words["to_eos"] = "none"
    if pack == "stream":
        words["tail"] = draw(st.sampled_from(["pad", "drop"]))
    if words["labels"] == "same" and pack != "stream":
        words["seq_len"] = max(2, words["seq_len"])  # a model that shifts labels learns nothing from one token
    if pack == "document":
        words["long"] = draw(st.sampled_from(["split", "truncate"]))
    return words


def source_of(name, reader):
    """A source of a recipe, that lies nowhere."""
    return TokenSource(name, (Path(name),), "held", reader, None, [name, id(reader)], {"name": name})


def samples_of(words, readers):
    """A recipe whose sources, in the order of its entries, are these readers."""
    return Samples(parse_recipe(words, Path("mix.toml")), [source_of(f"s{k}", one) for k, one in enumerate(readers)])
