"""Separators of sources (`eos`), and of the samples and documents of a recipe (`to_eos`, `to_bos`)."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import ConversionError, FormatError, OptionError, TokfmtError

COUNT = 12
DOCUMENTS = [[20 + k, 2, 50 + k] for k in range(COUNT)]


def stored(path, separator, documents=DOCUMENTS, lacking=()):
    """A datatrove file, whose index bounds documents; each ends with the separator, except those that lack it."""
    rows = [[*ids, *([] if separator is None or k in lacking else [separator])] for k, ids in enumerate(documents)]
    tokens = np.array([token for row in rows for token in row], "<u2")
    path.write_bytes(tokens.tobytes())
    path.with_name(f"{path.name}.index").write_bytes(np.cumsum([len(row) for row in rows]).astype("<u8").tobytes())
    path.with_name(f"{path.name}.metadata").write_text(f"x|2\n{len(tokens)}\n{len(tokens)} T")
    return path


def written(path, *sources, **keys):
    """A recipe with sources, each a path or a table."""
    lines = ["tokfmt = 1", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    for source in sources:
        table = source if isinstance(source, dict) else {"path": source.name}
        lines += ["[[source]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


def stream(*parts):
    """The tokens of documents, each followed by the ID of its part; None: nothing follows."""
    return [token for separator, rows in parts for row in rows for token in [*row, *[separator][separator is None :]]]


def tokens(view):
    """The input IDs of all samples, one after the other."""
    return [token for k in range(len(view)) for token in view[k]["input_ids"].tolist()]


@pytest.mark.parametrize("how", ["file", "call"])
def test_eos_of_a_source_is_what_its_data_has(tmp_path, how):
    """Some documents lack it and one holds it inside, so that it cannot be inferred."""
    documents = [[5, 6], [7, 9, 8], *DOCUMENTS]
    source = stored(tmp_path / "a.ds", 9, documents, lacking=[0])
    table = {"path": "a.ds", "eos": 9}
    if how == "file":
        view = tokfmt.open(written(tmp_path / "mix.toml", table, seq_len=4, tail="drop"))
    else:
        view = tokfmt.recipe([{**table, "path": source}], seq_len=4, tail="drop")
    wanted = stream((9, documents))
    assert tokens(view) == wanted[: len(wanted) // 4 * 4]
    plain = tokfmt.recipe([{"path": source, "eos": "none"}], seq_len=4, tail="drop")
    assert tokens(plain) == stream((None, [[5, 6]]), (9, documents[1:]))[: len(plain) * 4]
    assert plain.fingerprint != view.fingerprint


def test_each_source_has_its_own_and_to_eos_replaces_them(tmp_path):
    sources = [stored(tmp_path / "a.ds", 8), stored(tmp_path / "b.ds", 9)]
    view = tokfmt.open(written(tmp_path / "mix.toml", *sources, seq_len=4, to_eos=7))
    assert tokens(view) == stream((7, DOCUMENTS * 2))
    assert [note for note in view.notes if "replaced" in note] == [
        "a: its separator 8 is replaced by 7 (to_eos)",
        "b: its separator 9 is replaced by 7 (to_eos)",
    ]
    none = tokfmt.open(written(tmp_path / "mix.toml", *sources, seq_len=4, to_eos="none"))
    assert tokens(none) == stream((None, DOCUMENTS * 2))
    assert len([note for note in none.notes if "is in no sample" in note]) == 2


def test_sources_with_different_separators_need_to_eos(tmp_path):
    sources = [stored(tmp_path / "a.ds", 8), stored(tmp_path / "b.ds", 9)]
    for keys in ({}, {"seq_len": 4}):
        with pytest.raises(ConversionError, match=r'\(8 in "a", 9 in "b"\). Write to_eos = ID .* or to_eos = "none"'):
            tokfmt.open(written(tmp_path / "mix.toml", *sources, **keys))
    with pytest.raises(
        OptionError, match=r'source "x": its files have different separators \(8, 9\). Write to_eos = ID'
    ):
        tokfmt.open(written(tmp_path / "mix.toml", {"name": "x", "path": ["a.ds", "b.ds"]}, seq_len=4))
    view = tokfmt.open(written(tmp_path / "mix.toml", {"name": "x", "path": ["a.ds", "b.ds"]}, seq_len=4, to_eos=7))
    assert tokens(view) == stream((7, DOCUMENTS * 2))


def test_a_source_without_a_separator_gets_that_of_the_others(tmp_path):
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in DOCUMENTS))
    view = tokfmt.recipe([stored(tmp_path / "a.ds", 8), tmp_path / "b.jsonl"], seq_len=4)
    assert tokens(view) == stream((8, DOCUMENTS * 2))
    (note,) = [note for note in view.notes if "no separator" in note]
    assert note.startswith("b: ") and f"8, that of the other sources, is put after each of its {COUNT}" in note


def test_a_contradiction_names_keys_and_the_source(tmp_path):
    """All documents end with 9, and none with 5."""
    stored(tmp_path / "a.ds", 9)
    recipe = written(tmp_path / "mix.toml", {"name": "web", "path": "a.ds", "eos": 5}, seq_len=4)
    with pytest.raises(OptionError) as caught:
        tokfmt.open(recipe)
    said = str(caught.value)
    assert 'source "web": ' in said and "eos = 5 is given" in said
    assert "eos = 9 reads it as the separator" in said and "to_eos = 5 writes 5 in its place" in said
    assert "--" not in said
    assert caught.value.name == "eos"
    assert tokens(tokfmt.recipe([tmp_path / "a.ds"], seq_len=4, to_eos=5)) == stream((5, DOCUMENTS))


def test_documents_that_may_end_with_a_separator_are_asked_for(tmp_path):
    """One has it inside, so that it may be content; a conversion of the file itself asks, too."""
    documents = [[1, 9, 2], *DOCUMENTS]
    source = stored(tmp_path / "a.ds", 9, documents)
    for keys in ({}, {"seq_len": 4}):
        with pytest.raises(ConversionError, match='eos = 9 reads it as the separator, eos = "none" as content'):
            tokfmt.recipe([source], **keys)
    with pytest.raises(ConversionError, match="--eos 9 reads it as the separator, --eos none as content"):
        tokfmt.convert(source, tmp_path / "x.jsonl")
    words = ["recipe", str(source), "--eos", "9", "--seq-len", "4", "-o", str(tmp_path / "mix.toml")]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert tokens(tokfmt.open(tmp_path / "mix.toml")) == stream((9, documents))


def test_separators_are_dropped_with_a_word_if_labels_are_starts(tmp_path):
    view = tokfmt.recipe([stored(tmp_path / "a.ds", 8)], seq_len=3, labels="starts", to_bos=7)
    assert [one["input_ids"].tolist() for one in view] == [[7, *ids[:-1]] for ids in DOCUMENTS]
    assert [one["labels"].tolist() for one in view] == DOCUMENTS
    assert 'a: its separator 8 is in no sample (labels = "starts")' in view.notes
    plain = tokfmt.recipe([stored(tmp_path / "a.ds", None)], seq_len=3, labels="starts")
    assert plain[0]["input_ids"].tolist() == [0, 20, 2]
    assert not [note for note in plain.notes if "in no sample" in note]


def lines(path, rows):
    path.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in rows))
    return path


@pytest.mark.parametrize("stated", [{"eos": 9}, {"to_eos": 9}])
def test_rows_that_end_with_the_separator_get_no_second_one(tmp_path, stated):
    """The key of the source trims each row by itself; without it, all of them have to end with the separator."""
    entry = {key: value for key, value in stated.items() if key == "eos"}
    keys = {key: value for key, value in stated.items() if key != "eos"}
    source = lines(tmp_path / "a.jsonl", [[*ids, 9] for ids in DOCUMENTS])
    view = tokfmt.open(written(tmp_path / "mix.toml", {"path": source.name, **entry}, seq_len=4, **keys))
    assert tokens(view) == stream((9, DOCUMENTS))
    assert any("a: its sequences end with the separator 9 already" in note for note in view.notes)
    lines(source, [[*ids, *([9] * (k > 0))] for k, ids in enumerate(DOCUMENTS)])
    view = tokfmt.open(tmp_path / "mix.toml")
    some = stream((9, DOCUMENTS)) if entry else stream((9, [DOCUMENTS[0]]), (9, [[*ids, 9] for ids in DOCUMENTS[1:]]))
    assert tokens(view)[: len(some)] == some
    done = tokfmt.convert(written(tmp_path / "all.toml", {"path": source.name, "eos": 9}), tmp_path / "x.ds")
    assert np.fromfile(tmp_path / "x.ds", "<u2").tolist() == stream((9, DOCUMENTS))
    assert (done.separators["kept"], done.separators["added"]) == (COUNT - 1, 1)


def test_rows_that_end_with_the_separator_of_other_sources_are_asked_for(tmp_path):
    sources = [stored(tmp_path / "a.ds", 9), lines(tmp_path / "b.jsonl", [[*ids, 9] for ids in DOCUMENTS])]
    recipe = tmp_path / "mix.toml"
    with pytest.raises(ConversionError, match='source "b" .* end with 9.* eos = 9 reads .* eos = "none" as content'):
        tokfmt.open(written(recipe, *sources, seq_len=4))
    assert tokens(tokfmt.open(written(recipe, sources[0], {"path": "b.jsonl", "eos": 9}, seq_len=4))) == stream(
        (9, DOCUMENTS * 2)
    )
    kept = tokfmt.open(written(recipe, sources[0], {"path": "b.jsonl", "eos": "none"}, seq_len=4, tail="drop"))
    assert tokens(kept) == stream((9, DOCUMENTS), (9, [[*ids, 9] for ids in DOCUMENTS]))[: len(tokens(kept))]


@pytest.mark.parametrize("kind", ["ds", "jsonl"])
def test_leads_are_kept_or_replaced(tmp_path, kind):
    rows = [[1, *ids] for ids in DOCUMENTS]
    source = stored(tmp_path / "a.ds", 9, rows) if kind == "ds" else lines(tmp_path / "a.jsonl", rows)
    plain = tokfmt.recipe([{"path": source, "eos": 9}], seq_len=5)
    assert tokens(plain) == stream((9, rows))
    view = tokfmt.recipe([{"path": source, "eos": 9, "bos": 1}], seq_len=3, labels="starts", to_bos=7)
    assert [one["labels"].tolist() for one in view] == DOCUMENTS
    assert [one["input_ids"].tolist() for one in view] == [[7, *ids[:-1]] for ids in DOCUMENTS]
    assert "a: its lead 1 is replaced by 7 (to_bos)" in view.notes
    with pytest.raises(ConversionError, match='source "a" begin with 1.* Write to_bos = 1'):
        tokfmt.recipe([{"path": source, "eos": 9, "bos": 1}], seq_len=3, labels="starts")
    for keys in ({"seq_len": 4}, {}):
        with pytest.raises(FormatError, match='has bos, and labels = "next". Leave it out'):
            tokfmt.recipe([{"path": source, "bos": 1}], **keys)


def test_a_lead_that_a_manifest_states_is_kept_or_replaced(tmp_path):
    source = tmp_path / "b.ds"
    tokfmt.convert(stored(tmp_path / "a.ds", 9), source, to_bos=1)
    assert tokens(tokfmt.recipe([source], seq_len=5)) == stream((9, [[1, *ids] for ids in DOCUMENTS]))
    view = tokfmt.recipe([source], seq_len=3, labels="starts", to_bos=1)
    assert [one["input_ids"].tolist() for one in view] == [[1, *ids[:-1]] for ids in DOCUMENTS]
    with pytest.raises(ConversionError, match="Write to_bos = 1"):
        tokfmt.recipe([source], seq_len=3, labels="starts")


def test_a_recipe_in_a_recipe_has_the_separator_that_it_states(tmp_path):
    stored(tmp_path / "a.ds", 8)
    inner = written(tmp_path / "inner.toml", tmp_path / "a.ds", to_eos=7)
    outer = tmp_path / "outer.toml"
    assert tokens(tokfmt.open(written(outer, inner, seq_len=4))) == stream((7, DOCUMENTS))
    other = tokfmt.open(written(outer, inner, seq_len=4, to_eos=6))
    assert tokens(other) == stream((6, DOCUMENTS))
    assert "inner: its separator 7 is replaced by 6 (to_eos)" in other.notes
    for eos in (6, "none"):
        with pytest.raises(
            OptionError, match=f"eos = .* contradicts the recipe, whose separator is 7.*to_eos = .*{eos}"
        ):
            tokfmt.open(written(outer, {"path": "inner.toml", "eos": eos}, seq_len=4))
        with pytest.raises(OptionError, match=f"--eos {eos} contradicts the recipe, .* --to-eos {eos}"):
            tokfmt.open(inner, eos=eos)
    assert tokens(tokfmt.open(written(outer, {"path": "inner.toml", "eos": 7}, seq_len=4))) == stream((7, DOCUMENTS))


def test_a_stored_recipe_says_which_separator_it_has(tmp_path):
    """The result counts what became of those of the sources."""
    sources = [stored(tmp_path / "a.ds", 8), stored(tmp_path / "b.ds", 7)]
    recipe = written(tmp_path / "mix.toml", *sources, to_eos=7)
    done = tokfmt.convert(recipe, tmp_path / "x.ds", verify=True)
    manifest = json.loads((tmp_path / "x.ds.tokfmt.json").read_text())
    assert manifest["eos_id"] == 7
    assert (done.separators["kept"], done.separators["replaced"], done.separators["added"]) == (COUNT, COUNT, 0)
    assert np.fromfile(tmp_path / "x.ds", "<u2").tolist() == stream((7, DOCUMENTS * 2))


def test_options_are_keys(tmp_path):
    out = CliRunner().invoke(cli, ["recipe", "a.pbin", "--eos", "none", "--to-eos", "5", "--seq-len", "8"]).stdout
    assert re.search(r"^to_eos = 5$", out.partition("[[source]]")[0], re.MULTILINE)
    assert 'eos = "none"' in out.partition("[[source]]")[2]
    out = CliRunner().invoke(cli, ["recipe", "a", "--to-bos", "5", "--labels", "starts", "--seq-len", "8"]).stdout
    assert "to_bos = 5" in out
    for words in (["--eos", "5"], ["--to-eos", "none"]):
        recipe = written(tmp_path / "mix.toml", stored(tmp_path / "a.ds", 8), seq_len=4)
        said = CliRunner().invoke(cli, ["recipe", str(recipe), *words])
        assert isinstance(said.exception, OptionError) and f"{words[0]} has no effect" in str(said.exception)


@pytest.mark.parametrize("key", ["eos", "bos"])
def test_keys_that_were_renamed_are_named(tmp_path, key):
    with pytest.raises(FormatError, match=f'unknown key "{key}". Write to_{key}'):
        tokfmt.open(written(tmp_path / "mix.toml", stored(tmp_path / "a.ds", 8), **{key: 8}))


def test_samples_as_they_are_stored_have_the_separators_of_each_source(tmp_path):
    """They may differ, and nothing is put between them."""
    sources = [stored(tmp_path / "a.ds", 8, [[1, 2, 8, 3]] * 9), stored(tmp_path / "b.ds", 9, [[4, 9, 5, 6]] * 9)]
    entries = [{"path": str(path), "eos": "none"} for path in sources]
    view = tokfmt.recipe(entries, seq_len=5, pack="stored")
    assert tokens(view) == [*[1, 2, 8, 3, 8] * 9, *[4, 9, 5, 6, 9] * 9]


def test_a_source_of_text_has_the_separator_that_it_states(tmp_path):
    from paths import TOKENIZER

    (tmp_path / "t.jsonl").write_text('{"text": "in corpore sano"}\n' * 3)
    recipe = written(tmp_path / "mix.toml", {"path": "t.jsonl", "eos": 7}, tokenizer=str(TOKENIZER))
    tokfmt.convert(recipe, tmp_path / "x.ds")
    assert json.loads((tmp_path / "x.ds.tokfmt.json").read_text())["eos_id"] == 7
    with pytest.raises(TokfmtError, match="to_eos"):
        tokfmt.open(written(tmp_path / "mix.toml", {"path": "t.jsonl"}, eos=7))


def test_a_separator_at_the_end_of_a_sample_is_no_padding(tmp_path):
    """It is stored with the document, and the recipe pads with the same ID."""
    source = lines(tmp_path / "a.jsonl", [[1, 2, 3], [4, 5], [6, 7, 8, 11, 12, 13], [14]])
    recipe = written(tmp_path / "mix.toml", source, seq_len=5, pack="document", to_eos=9)
    said = CliRunner().invoke(cli, ["show", str(recipe), ":", "--samples", "--json"]).stdout
    shown = json.loads(said)["shown"]
    assert [one["input_ids"] for one in shown] == [
        [1, 2, 3, 9, 9], [4, 5, 9, 9, 9], [6, 7, 8, 11, 12], [13, 9, 9, 9, 9], [14, 9, 9, 9, 9],
    ]  # fmt: skip
    assert [one["padding"] for one in shown] == [1, 2, 0, 3, 3]
    found = CliRunner().invoke(cli, ["show", str(recipe), "padding>=3", "--json"]).stdout
    assert [one["index"] for one in json.loads(found)["shown"]] == [3, 4]
