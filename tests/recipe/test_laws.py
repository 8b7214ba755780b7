"""Laws of packings over made datasets, against an oracle that shares no code."""

from collections import Counter

import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recipe import oracle
from recipe.held import EOS, FIELDS, expected, explain, languages, opened, sources


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
    pad = 0 if words.get("to_eos") == "none" else EOS
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
    separator = None if words["labels"] == "starts" or words.get("to_eos") == "none" else EOS
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
    words = {"pack": pack, "seq_len": width, "to_eos": "none", "shuffle": "documents" if shuffled else "none"}
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
    words = {"pack": "bestfit", "seq_len": width, "labels": "starts", "to_eos": "none"}
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
