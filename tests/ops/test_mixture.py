"""The table of sources that a stored recipe comes with, beside what its ledger says is stored."""

import json
from collections import Counter

import numpy as np
import pytest
from amount import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_corpora import WORDS
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.errors import OptionError, TokfmtError

TEXTS = [f"{word} " * (1 + 7 * k % 23) for k, word in enumerate(WORDS)]
KINDS = {"text": "{}.jsonl", "ids": "{}.pbin", "nested": "nested.toml"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Three texts that share some documents, the same as ids, and a recipe over two of these."""
    home = tmp_path_factory.mktemp("mixture")
    for k, name in enumerate("abc"):
        rows = [TEXTS[k * 4 : k * 4 + 12], TEXTS[:3], ["", "one"]]
        (home / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for row in rows for text in row))
        tokfmt.convert(
            home / f"{name}.jsonl", home / f"{name}.pbin", tokenizer=str(TOKENIZER), allow_loss="empty-sequences"
        )
    nested = 'tokfmt = 1\nshuffle = "documents"\n[[source]]\npath = "a.pbin"\nepochs = 2\n[[source]]\npath = "c.pbin"\n'
    (home / "nested.toml").write_text(nested)
    return home


@st.composite
def recipes(draw):
    """A recipe as a table, and a selection of what it gives."""
    packed = draw(st.booleans())
    table = {"tokenizer": str(TOKENIZER), "shuffle": draw(st.sampled_from(["none", "documents"])), "seed": 3}
    if packed:
        table |= {"seq_len": draw(st.sampled_from([16, 50])), "pack": draw(st.sampled_from(["stream", "bestfit"]))}
        table["shuffle"] = draw(st.sampled_from(["none", "samples", "documents"]))
    if draw(st.booleans()):
        table["dedup"] = "exact"
    weighted = packed and draw(st.booleans())
    if draw(st.booleans()):
        table["tokens"] = draw(st.sampled_from([200, 700]))
    entries = []
    for name in draw(st.sampled_from(["a", "ab", "abc"])):
        kind = draw(st.sampled_from(sorted(KINDS)))
        entry = {"name": name, "path": KINDS[kind].format(name), "epochs": draw(st.integers(1, 4))}
        if kind == "text" and draw(st.booleans()):
            entry["filter"] = "long"
        if weighted:
            entry["weight"] = draw(st.integers(1, 3))
        elif draw(st.booleans()):
            entry["tokens"] = draw(st.sampled_from([90, 250, 900]))
        if kind != "nested" and draw(st.booleans()):
            entry["select"] = "1:9"
        entries.append(entry)
    return table, entries, draw(st.sampled_from([None, None, "3:11"]))


def written(path, table, entries):
    lines = ["tokfmt = 1", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    for entry in entries:
        lines += ["[[source]]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
    if any("filter" in entry for entry in entries):
        lines += ["[filter.long]", "min_words = 6"]
    path.write_text("\n".join(lines) + "\n")
    return path


def stored(path):
    """By source of the recipe tokens, and pieces of documents, as the ledger has them."""
    rows = np.load(f"{path}.ledger")
    names = [
        one["name"].partition("/")[0]
        for one in json.loads(path.with_name(f"{path.name}.ledger.json").read_text())["sources"]
    ]
    tokens, pieces = Counter(), Counter()
    for _, source, _, start, stop in rows.tolist():
        tokens[names[source]] += stop - start
        pieces[names[source]] += 1
    return tokens, pieces


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recipes())
def test_the_table_is_a_count_over_what_is_stored(home, made):
    table, entries, selection = made
    packed = "seq_len" in table
    selection = None if packed else selection
    path = home / ("out.h5" if packed else "out.ds")
    recipe = written(home / "mix.toml", table, entries)
    try:
        done = tokfmt.convert(
            recipe, path, select=selection, ledger=selection is None, overwrite=True, allow_loss="empty-sequences"
        )
    except TokfmtError:  # less than was asked for, or nothing that is left
        return
    rows = {row["source"]: row for row in done.prepared}
    assert [*rows] == [entry["name"] for entry in entries]
    assert json.loads(path.with_name(f"{path.name}.tokfmt.json").read_text())["prepared"] == done.prepared
    if selection is not None:
        assert (sum(row["tokens"] for row in rows.values()), done.padded) == (done.tokens, 0)
        return
    tokens, pieces = stored(path)
    assert {name: row["tokens"] for name, row in rows.items()} == {name: tokens[name] for name in rows}
    assert sum(row["tokens"] for row in rows.values()) + done.padded == done.tokens
    if not packed:
        empty = 1 if table["shuffle"] == "none" else 2  # at most one empty document a pass, which is not stored
        for name, row in rows.items():
            out = row["passes"] * row["kept"]
            assert pieces[name] <= out + 1e-6 <= pieces[name] + empty * max(1, row["passes"]) + 1


def test_a_source_that_is_passed_again(home, tmp_path):
    """Its quota of 40,000 tokens are two passes and a third that ends early."""
    entries = [
        {"name": "a", "path": str(FIXTURES / "text" / "corpus.jsonl"), "epochs": 3, "tokens": 40_000},
        {"name": "b", "path": str(FIXTURES / "text" / "with_fields.jsonl")},
    ]
    recipe = written(tmp_path / "mix.toml", {"tokenizer": str(TOKENIZER), "shuffle": "documents"}, entries)
    done = tokfmt.convert(recipe, tmp_path / "a.pbin")
    first, second = done.prepared
    assert (first["tokens"], second["tokens"]) == (39_818, 2_375)
    assert done.tokens == 39_818 + 2_375
    assert first["passes"] == pytest.approx(424 / 184)
    assert (first["kept"], second["passes"]) == (184, 1.0)


def test_sources_of_ids_have_a_row_beside_those_of_text(home):
    entries = [{"name": "a", "path": "a.jsonl"}, {"name": "b", "path": "b.pbin", "epochs": 2}]
    recipe = written(home / "beside.toml", {"tokenizer": str(TOKENIZER)}, entries)
    done = tokfmt.convert(recipe, home / "beside.ds", overwrite=True, allow_loss="empty-sequences")
    text, ids = done.prepared
    assert text["tokens"] + ids["tokens"] == done.tokens
    assert (text["passes"], ids["passes"], ids["characters"]) == (1.0, 2.0, None)


def test_dry_run_of_text_reports_known_facts(home, tmp_path):
    """It reports the length of samples, no counts, and the refusals of a conversion."""
    table = {"tokenizer": str(TOKENIZER), "seq_len": 16}
    recipe = written(home / "dry.toml", table, [{"name": "a", "path": "a.jsonl"}])
    done = tokfmt.convert(recipe, tmp_path / "a.h5", dry_run=True)
    assert (done.sequences, done.sample_length, done.prepared) == (None, 16, [])
    assert not any("is empty" in note for note in done.notes)
    stored = tokfmt.convert(recipe, tmp_path / "a.h5", allow_loss="empty-sequences")
    assert stored.sample_length == 16
    with pytest.raises(OptionError, match="select: samples of a recipe are stored in its order"):
        tokfmt.convert(recipe, tmp_path / "b.h5", select="0:3", dry_run=True)
    plain = tokfmt.convert(home / "a.jsonl", tmp_path / "a.pbin", tokenizer=str(TOKENIZER), dry_run=True)
    assert not any("is empty" in note for note in plain.notes)
    (tmp_path / "empty.jsonl").write_text("")
    empty = tokfmt.convert(tmp_path / "empty.jsonl", tmp_path / "a.pbin", tokenizer=str(TOKENIZER), dry_run=True)
    assert (empty.sequences, [note for note in empty.notes if "is empty" in note]) == (0, empty.notes[-1:])


def test_a_dry_run_of_ids_shows_the_table(home):
    entries = [{"name": "a", "path": "a.pbin", "epochs": 3, "tokens": 500}, {"name": "b", "path": "nested.toml"}]
    recipe = written(home / "ids.toml", {"seq_len": 16, "shuffle": "samples"}, entries)
    planned = tokfmt.convert(recipe, home / "ids.h5", dry_run=True)
    stored = tokfmt.convert(recipe, home / "ids.h5", overwrite=True)
    assert planned.prepared == stored.prepared != []


@pytest.mark.parametrize("path", ["a.jsonl", "a.pbin"])
def test_samples_as_sequences_report_padding(path, home, tmp_path):
    recipe = written(home / "said.toml", {"tokenizer": str(TOKENIZER), "seq_len": 16}, [{"name": "a", "path": path}])
    done = tokfmt.convert(recipe, tmp_path / "a.ds", allow_loss="empty-sequences")
    assert [note for note in done.notes if "each sample is a sequence of IDs with padding" in note]
    done = tokfmt.convert(recipe, tmp_path / "a.h5", allow_loss="empty-sequences")
    assert not [note for note in done.notes if "IDs with padding" in note]


@pytest.mark.parametrize("path", ["a.jsonl", "a.pbin"])
def test_packed_rows_have_no_padding(path, home, tmp_path):
    recipe = written(home / "rows.toml", {"tokenizer": str(TOKENIZER), "seq_len": 16}, [{"name": "a", "path": path}])
    how = {"to_format": "parquet", "to_options": {"pack_size": 16}}
    padded = [
        tokfmt.convert(recipe, tmp_path / name, allow_loss="empty-sequences", **words).padded
        for name, words in (("a.h5", {}), ("a.parquet", how))
    ]
    assert padded[0] > 0 == padded[1]


def test_separators_that_documents_end_with_are_no_tokens_in_the_table(tmp_path):
    for name, rows in (("a", [[1, 2, 0], [4, 0]]), ("b", [[5, 0]])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in rows))
    entries = [{"path": "a.jsonl", "epochs": 2}, {"path": "b.jsonl"}]
    done = tokfmt.convert(written(tmp_path / "mix.toml", {"to_eos": "none"}, entries), tmp_path / "m.pbin", eos=0)
    assert [row["tokens"] for row in done.prepared] == [6, 1]
    assert done.tokens == 7
