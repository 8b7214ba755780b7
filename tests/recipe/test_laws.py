"""Laws of packings over made datasets, against an oracle that shares no code."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recipe import oracle

from tokfmt.core.reader import Info, Layout, check_interval
from tokfmt.recipes.documents import Documents, Source
from tokfmt.recipes.fields import FIELDS
from tokfmt.recipes.language import parse_recipe
from tokfmt.recipes.samples import Samples
from tokfmt.recipes.tree import explain

EOS = 99
sequence = st.lists(st.integers(1, 60), max_size=11)
source = st.lists(sequence, min_size=1, max_size=12)
sources = st.lists(source, min_size=1, max_size=3).filter(lambda found: sum(map(len, sum(found, []))) > 1)


class Held:
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
        Source(f"s{k}", (Path(f"s{k}"),), "held", Held(sequences), None, [k], [k]) for k, sequences in enumerate(found)
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
    separator = None if labels == "starts" else words.get("eos", EOS)
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
    words = {"pack": pack, "seq_len": draw(st.integers(1, 9)), "eos": draw(st.sampled_from([EOS, "none"]))}
    words["labels"] = draw(st.sampled_from(["next", "starts", "same", *(["disjoint"] if pack == "stream" else [])]))
    if pack == "stream":
        words["tail"] = draw(st.sampled_from(["pad", "drop"]))
    if pack == "document":
        words["long"] = draw(st.sampled_from(["split", "truncate"]))
    return words


@settings(max_examples=examples(300), deadline=None)
@given(sources, languages())
def test_samples_are_what_the_oracle_says(found, words):
    samples, borders, following = expected(found, words)
    if not samples:
        with pytest.raises(Exception, match="give no sample"):
            opened(found, **words)
        return
    view = opened(found, **words)
    assert len(view) == len(samples)
    got = view.samples(range(len(view)), FIELDS)
    pad = 0 if words["eos"] == "none" else EOS
    for k, rows in enumerate(samples):
        inner = borders[k] if borders is not None else None
        wanted = oracle.fields(rows, words["seq_len"], words["labels"], pad, 0, inner)
        for name in FIELDS:
            assert got[name][k].tolist() == wanted[name], (k, name)
        assert view.spans(k) == oracle.spans_of(rows, words["labels"], following[k])
    flat = got["input_ids"].reshape(-1)
    assert view.tokens(0, view.info.tokens).tolist() == flat.tolist()
    assert explain(view)[0].padded == (got["document_ids"] == -1).sum()
    assert view.masks(0, view.info.tokens).tolist() == got["loss_mask"].reshape(-1).tolist()
    assert view.labels(0, view.info.tokens).tolist() == got["labels"].reshape(-1).tolist()
    assert view.begins(0, view.info.tokens).tolist() == [
        k % words["seq_len"] == 0 or d != before if d >= 0 else False
        for before, (k, d) in zip([-2, *got["document_ids"].reshape(-1)], enumerate(got["document_ids"].reshape(-1)))
    ]


@settings(max_examples=examples(150), deadline=None)
@given(sources, languages(), st.integers(0, 3), st.sampled_from(["samples", "documents"]))
def test_shuffled_samples_lose_and_repeat_nothing(found, words, seed, shuffle):
    words = {**words, "tail": "pad"} if words["pack"] == "stream" else words
    if not expected(found, words)[0]:
        return
    plain, view = opened(found, **words), opened(found, **words, shuffle=shuffle, seed=seed)
    separator = None if words["labels"] == "starts" or words["eos"] == "none" else EOS
    ids = {}
    for item in (item for row in oracle.items_of(found, separator) for item in row):
        ids[item.source, item.sequence, item.position] = item.id

    def positions(one):
        return Counter(
            (s, q, p) for k in range(len(one)) for s, q, start, stop in one.spans(k) for p in range(start, stop)
        )

    assert positions(view) == positions(plain) or words["pack"] == "stream"
    if words["pack"] == "stream":  # one position may be nothing but the last label, another one when documents move
        assert sum((positions(view) - positions(plain)).values()) <= 1
        assert max(positions(view).values()) == 1
    for k in range(len(view)):
        row = view.samples([k], ["input_ids" if words["labels"] != "starts" else "labels"])
        told = [ids[s, q, p] for s, q, start, stop in view.spans(k) for p in range(start, stop)]
        width = words["seq_len"]
        assert (
            next(iter(row.values()))[0].tolist()[: len(told[:width])][: width if len(told) > width else None][
                : len(told) - (words["labels"] == "disjoint")
            ]
            == told[:width][: len(told) - (words["labels"] == "disjoint")]
        )
    if shuffle == "samples":
        assert sorted(map(view.spans, range(len(view)))) == sorted(map(plain.spans, range(len(plain))))


@settings(max_examples=examples(150), deadline=None)
@given(sources, st.integers(1, 9), st.sampled_from(["stream", "document", "bestfit"]), st.booleans())
def test_every_token_but_the_first_is_a_target_exactly_once(found, width, pack, shuffled):
    sequences = [[1000 * s + 10 * q + 1] * len(ids) for s, one in enumerate(found) for q, ids in enumerate(one)]
    tagged, number = [], 0
    for one in found:  # every token has an id of its own
        tagged.append([])
        for ids in one:
            tagged[-1].append(list(range(number + 1, number + 1 + len(ids))))
            number += len(ids)
    words = {"pack": pack, "seq_len": width, "eos": "none", "shuffle": "documents" if shuffled else "none"}
    filled = [ids for one in tagged for ids in one if ids]
    firsts = {ids[0] for ids in filled} if pack != "stream" else set()
    targets = Counter(token for ids in filled for token in ids if token not in firsts)
    if not targets or sum(targets.values()) < 2:
        return
    view = opened(tagged, **words)
    labels = view.samples(range(len(view)), ["labels"])["labels"]
    got = Counter(labels[labels != -100].tolist())
    assert max(got.values()) == 1
    if pack == "stream":
        assert len(targets) - len(got) == 1  # the first of the stream
        assert set(got) <= set(targets)
    else:
        assert got == targets
    del sequences


@settings(max_examples=examples(100), deadline=None)
@given(sources, st.integers(1, 9))
def test_best_fit_never_splits_a_piece_and_never_exceeds(found, width):
    if not any(found):
        return
    words = {"pack": "bestfit", "seq_len": width, "labels": "same", "eos": "none"}
    view = opened(found, **words)
    for k in range(len(view)):
        spans = view.spans(k)
        assert sum(stop - start for _, _, start, stop in spans) <= width
        for s, q, start, stop in spans:
            length = len(found[s][q])
            assert start % width == 0
            assert stop == min(start + width, length)


@settings(max_examples=examples(60), deadline=None)
@given(sources, st.integers(0, 2**64 - 1))
def test_documents_are_drawn_once_each(found, seed):
    plain, view = opened(found), opened(found, shuffle="documents", seed=seed)
    every = [ids for one in found for ids in one]

    def sequences(reader):
        bounds = reader.offsets(0, reader.info.sequences).tolist()
        return [reader.tokens(a, b).tolist() for a, b in zip(bounds, bounds[1:])]

    assert sequences(plain) == every
    assert sorted(sequences(view)) == sorted(every)
    for k, ids in enumerate(sequences(view)):
        ((s, q, start, stop),) = view.spans(k)
        assert (found[s][q], start, stop) == (ids, 0, len(ids))
    assert view.tokens(0, view.info.tokens).tolist() == [token for ids in sequences(view) for token in ids]


@settings(max_examples=examples(60), deadline=None)
@given(sources, st.integers(1, 9), st.integers(1, 9))
def test_best_fit_in_groups_is_best_fit_of_each_group(found, width, group):
    """Pieces are planned so many at a time; a group has no part in another's samples."""
    from unittest import mock

    sequences = oracle.items_of(found, None)
    pieces = oracle.document(sequences, width, "same", "split")
    if not pieces:
        return
    wanted = []
    for at in range(0, len(pieces), group):
        rows, _ = oracle.bestfit([[item for item, _ in piece] for piece in pieces[at : at + group]], width, "same")
        wanted += rows
    with mock.patch("tokfmt.recipes.packing.GROUP", group):
        view = opened(found, pack="bestfit", seq_len=width, labels="same", eos="none")
    assert [view.spans(k) for k in range(len(view))] == [oracle.spans_of(rows, "same", None) for rows in wanted]
