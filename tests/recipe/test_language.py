"""What a recipe may say, what it may not, and in which words that is told."""

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
import registered

import tokfmt
from tokfmt.errors import ConversionError, FormatError, TokfmtError
from tokfmt.files.place import LocalPlace
from tokfmt.mix.language import entries_of, in_toml, is_recipe, parse_recipe, read_recipe

BASE = {"source": [{"path": "a.pbin"}]}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"seqlen": 4}, 'unknown key "seqlen". Did you mean seq_len?'),
        ({"seq_len": 4, "pack": "best-fit"}, "Did you mean bestfit?"),
        ({"seq_len": 0}, "seq_len: expected a whole number from 1 to 16,777,216, found 0"),
        ({"seq_len": "4"}, "seq_len: expected a whole number from 1 to 16,777,216, found '4'"),
        ({"seq_len": True}, "found True"),
        ({"seq_len": 4.5}, "found 4.5"),
        ({"tokfmt": 2}, "is of version 2 of the language. This tokfmt reads version 1"),
        ({"source": []}, "has no source"),
        ({"source": [{"path": "a", "wieght": 1}]}, '[[source]] 1: unknown key "wieght". Did you mean weight?'),
        ({"source": [{"name": "web"}]}, '[[source]] "web": has no path'),
        ({"source": [{"path": "a", "weight": 0}]}, "its weight is 0: expected more than 0"),
        ({"source": [{"path": "a", "weight": -1}]}, "its weight is -1"),
        ({"source": [{"path": "a", "weight": float("nan")}]}, "weight: expected a number, found nan"),
        ({"source": [{"path": "a", "weight": float("inf")}]}, "weight: expected a number, found inf"),
        ({"source": [{"path": "a", "weight": 1}, {"path": "b"}]}, 'source "b" has no weight, and others have'),
        ({"source": [{"path": "a", "weight": 1, "tokens": 9}]}, "has a weight and a quota"),
        ({"source": [{"path": "a", "name": "x"}, {"path": "b", "name": "x"}]}, 'two sources have the name "x"'),
        ({"source": [{"path": "a", "filter": "garbige"}], "filter": {"garbages": {}}}, "Did you mean garbages?"),
        ({"source": [{"path": "a", "to_eos": 5}]}, 'unknown key "to_eos". Write it above the first [[source]]'),
        ({"eos": 5}, 'unknown key "eos". Write to_eos for what the recipe writes, or eos below a [[source]]'),
        ({"bos": 5}, 'unknown key "bos". Write to_bos for what the recipe writes'),
        ({"seq_len": 4, "to_bos": 5}, 'to_bos with labels = "next". Leave it out; it is for labels = "starts"'),
        ({"seq_len": 4, "labels": "starts", "to_eos": 5}, 'to_eos with labels = "starts". Leave it out'),
        ({"seq_len": 4, "pack": "stored", "to_eos": 5}, 'to_eos with pack = "stored". Leave it out'),
        ({"weight": 1}, 'unknown key "weight". Write it below a [[source]]'),
        ({"source": [{"path": "a", "min_words": 5}]}, 'unknown key "min_words". Write it below a [filter.NAME]'),
        ({"filter": {"g": {"min_wrds": 5}}}, '[filter.g]: unknown key "min_wrds". Did you mean min_words?'),
        ({"pack": "stream"}, "pack needs seq_len. Add seq_len"),
        ({"shuffle": "samples"}, 'shuffle = "samples" needs seq_len'),
        ({"seq_len": 4, "pack": "document", "labels": "disjoint"}, 'Leave it out; it is for pack = "stream"'),
        ({"seq_len": 4, "pack": "stored", "labels": "same"}, 'labels = "same" with pack = "stored". Leave it out'),
        ({"seq_len": 4, "pack": "bestfit", "tail": "drop"}, "only a stream has an incomplete last sample"),
        ({"seq_len": 4, "long": "split"}, 'long with pack = "stream"'),
        ({"to_eos": -1}, "to_eos: expected a whole number from 0 to 2,147,483,647 or none, found -1"),
        ({"to_eos": "nothing"}, "or none, found 'nothing'"),
        ({"source": [{"path": "a", "eos": 2**31}]}, "[[source]] 1: eos: expected a whole number from 0 to"),
        ({"source": [{"path": "a", "weight": 1}]}, "weights of documents are shares of a budget"),
        (
            {"seed": 2**64},
            "seed: expected a whole number from 0 to 18,446,744,073,709,551,615, found 18,446,744,073,709,551,616",
        ),
        ({"seed": 1 << 20000}, "found a number of 6,021 digits"),
        ({"source": [{"path": {"a": 1}}]}, "[[source]] 1: path: expected a list of text, found {'a': 1}"),
        ({"source": [{"path": "a", "filter": {"g": 1}}]}, "[[source]] 1: filter: expected a list of text"),
        ({"source": [{"path": "a", "options": {"x": [1]}}]}, "[[source]] 1: options: expected a list of text"),
        ({"source": [{"path": "a\0b"}]}, '[[source]] 1: "a\\x00b" is not a path: it holds a null character'),
        ({"source": [{"path": "a", "filter": "\x1b[31m"}]}, "Add a table [filter.\\x1b[31m]"),
        ({"filter": {"\x1b[31m": {"min": 5}}}, "[filter.\\x1b[31m]: unknown key"),
    ],
)
def test_errors_have_a_cause_and_a_remedy(table, told):
    with pytest.raises(FormatError) as caught:
        parse_recipe({**BASE, **table}, Path("mix.toml"))
    assert str(caught.value).startswith("mix.toml: ")
    assert told in str(caught.value)


def test_errors_of_files(tmp_path):
    path = tmp_path / "mix.toml"
    for content, told in (
        (b"tokfmt = 1\n[[source]\n", "is not TOML"),
        (b"seq_len = 4\n[[source]]\npath = 'a'\n", "does not state its version"),
        (b"tokfmt = 1\n[[source]]\n" + b"a." * (1 << 22), "a key of more than 64 parts at byte 22"),
        (b"tokfmt = 1\n[[source]]\n" + b'"a"  .' * (1 << 20), "a key of more than 64 parts at byte 22"),
        (b"tokfmt = 1\n\xff\n[[source]]\n", "is not TOML"),
        (b"tokfmt = " + b"[" * 5000, "is not TOML"),
        (b"tokfmt = 1\nseed = " + b"1" * 5000, "is not TOML"),
    ):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=told):
            read_recipe(path)


def test_written_recipe_reads_back(tmp_path):
    table = {
        "tokfmt": 1, "seq_len": 4096, "pack": "bestfit", "shuffle": "samples", "seed": 2**63, "tokens": 3 * 10**11,
        "to_eos": "none", "pad": 7,
        "source": [
            {"path": ["a b.pbin", 'q"uote\\.bin'], "weight": 0.7, "name": "web", "options": {"width": 2}, "eos": 0},
            {"path": "c.zarr", "weight": 0.3, "epochs": 4, "format": "flat-tokens", "select": "10:"},
        ],
    }  # fmt: skip
    recipe = parse_recipe(table, tmp_path / "mix.toml")
    (tmp_path / "mix.toml").write_text(in_toml(recipe))
    assert read_recipe(tmp_path / "mix.toml") == recipe
    assert recipe.sources[0].weight == Fraction(7, 10)


def test_names_come_from_paths_and_are_different():
    paths = ("x/a.pbin", "y/a.zarr", "web/*.pbin", "/", "*.txt", "../*.txt", "**/*.md", "*", "*.jsonl.zst")
    recipe = parse_recipe({"source": [{"path": path} for path in paths]}, Path("m"))
    names = ["a", "a-2", "web", "source", "txt", "txt-2", "md", "source-2", "zst"]
    assert [entry.name for entry in recipe.sources] == names


def test_words_and_blend_lists():
    assert entries_of(["web=w.pbin:0.7", "c.zarr:3", "/d/x.bin"], LocalPlace()) == [
        {"name": "web", "path": "w.pbin", "weight": 0.7}, {"path": "c.zarr", "weight": 3}, {"path": "/d/x.bin"},
    ]  # fmt: skip
    assert entries_of(["0.7", "a_document", "0.3", "b_document"], LocalPlace("out")) == [
        {"path": "../a_document", "weight": 0.7}, {"path": "../b_document", "weight": 0.3},
    ]  # fmt: skip
    with pytest.raises(TokfmtError, match="expected an even number of words, found "):
        entries_of(["0.7", "a", "0.3"], LocalPlace())
    with pytest.raises(TokfmtError, match="a weight is expected here, before d"):
        entries_of(["0.7", "a", "c", "d"], LocalPlace())


@pytest.fixture
def packs(tmp_path):
    for name, eos in (("a", 0), ("b", 1), ("c", None)):
        lines = [json.dumps({"input_ids": [5 + k, 6, 7]}) for k in range(30)]
        (tmp_path / "x.jsonl").write_text("\n".join(lines) + "\n")
        if eos is None:
            tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "c.zarr")
        else:
            tokfmt.convert(tmp_path / "x.jsonl", tmp_path / f"{name}.pbin", eos=eos)
    return tmp_path


def test_sources_that_do_not_go_together(packs):
    with pytest.raises(ConversionError, match=r'different separators \(0 in "a", 1 in "b"\). Write to_eos = ID'):
        tokfmt.recipe([packs / "a.pbin", packs / "b.pbin"], seq_len=4)
    assert tokfmt.recipe([packs / "a.pbin", packs / "b.pbin"], seq_len=4, to_eos=9)[0]["input_ids"].tolist() == [
        5,
        6,
        7,
        9,
    ]


def test_a_source_that_cannot_be_read_is_named(packs):
    with pytest.raises(TokfmtError) as caught:
        tokfmt.recipe([packs / "a.pbin", {"path": packs / "gone*.pbin", "name": "lost"}], seq_len=4)
    assert "no file matches this pattern" in str(caught.value)
    assert any('source "lost"' in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"select": "a:b"}, "recipe: source \"a\": selection 'a:b': expected A:B (sequences A to B - 1, as 0:10"),
        ({"select": ""}, "recipe: [[source]] 1: select is empty"),
        ({"select": "5:2"}, "recipe: source \"a\": selection '5:2' ends before it begins"),
        ({"format": "modalitys"}, "recipe: source \"a\": no format 'modalitys'"),
        ({"options": {"layuot": "A"}}, "recipe: source \"a\": modalities has no option 'layuot'"),
        ({"path": "both"}, "both: could be jsonl or parquet. Name one of the datasets in it, such as x"),
        ({"eos": 3}, 'recipe: source "a": a.pbin: eos = 3 contradicts the manifest, which states 0'),
    ],
)
def test_an_error_of_a_source_names_the_recipe_and_its_keys(packs, monkeypatch, entry, told):
    (packs / "both").mkdir()
    (packs / "both" / "x.jsonl").symlink_to(packs / "x.jsonl")
    tokfmt.convert(packs / "x.jsonl", packs / "both" / "x.parquet", manifest=False)
    monkeypatch.chdir(packs)
    with pytest.raises(TokfmtError) as caught:
        tokfmt.recipe([{"path": "a.pbin", **entry}])
    assert str(caught.value).startswith(told)
    assert not re.search("--(eos|to-eos|from|from-opt|text-field|split)", str(caught.value)), "keys are named"


def test_the_recipe_that_names_a_tokenizer_is_named(packs):
    (packs / "mix.toml").write_text('tokfmt = 1\ntokenizer = "./none"\n[[source]]\npath = "a.pbin"\n')
    with pytest.raises(TokfmtError) as caught:
        tokfmt.open(packs / "mix.toml")
    assert f"It is the tokenizer of {packs / 'mix.toml'}" in caught.value.__notes__


def test_source_without_sequences_is_noted(packs):
    (packs / "empty.jsonl").write_text("")
    sources = [{"path": packs / "a.pbin", "select": "500:"}, packs / "empty.jsonl", packs / "x.jsonl"]
    notes = tokfmt.recipe(sources, to_eos=0).notes
    assert 'a: select = "500:" takes none of its 30 sequences' in notes
    assert "empty: it has no sequences" in notes
    assert len(notes) == 2


def test_a_budget_that_gives_nothing_is_refused(packs):
    with pytest.raises(ConversionError, match="nothing to the budget of 2 tokens: the first document drawn has 3"):
        tokfmt.recipe([packs / "a.pbin"], tokens=2)
    with pytest.raises(
        ConversionError, match=r"the budget of 3 tokens is less than one sample. Set tokens to 4 or more"
    ):
        tokfmt.recipe([packs / "a.pbin"], tokens=3, seq_len=4)
    (note,) = tokfmt.recipe([packs / "a.pbin"], tokens=5).notes
    assert note.startswith("3 of the 5 tokens of its budget: the next document drawn has 3")
    assert not tokfmt.recipe([packs / "a.pbin"], tokens=6).notes


def test_a_source_that_changed_is_refused(packs):
    view = tokfmt.recipe([packs / "a.pbin"], seq_len=4)
    before = view.fingerprint
    view[0]
    content = (packs / "a.pbin").read_bytes()
    (packs / "new").write_bytes(content + b"more")
    view.close()
    (packs / "new").rename(packs / "a.pbin")
    with pytest.raises((TokfmtError, ValueError)):
        view[0]
    (packs / "a.pbin").write_bytes(content)
    (packs / "a.pbin.tokfmt.json").unlink()
    assert tokfmt.recipe([packs / "a.pbin"], seq_len=4).fingerprint == before, "a manifest is not the data"


def test_rows_of_another_length_are_refused(packs):
    tokfmt.convert(packs / "a.pbin", packs / "x.h5", seq_len=8)
    with pytest.raises(FormatError, match="its samples have another length: expected 4, found 8") as error:
        tokfmt.recipe([packs / "x.h5"], seq_len=4, pack="stored")
    assert "Set options" not in str(error.value)
    tokfmt.convert(packs / "a.pbin", packs / "blocks", to_format="stage1", seq_len=8, manifest=False)
    with pytest.raises(FormatError, match="another length: expected 4, found 8") as error:
        tokfmt.recipe([{"path": packs / "blocks", "options": {"seq_len": 8}}], seq_len=4, pack="stored")
    assert 'Set options = { seq_len = "4" } for the source' in str(error.value)
    with pytest.raises(FormatError, match="not samples of one length: sequence 0 has another: expected 4, found 3"):
        tokfmt.recipe([packs / "a.pbin"], seq_len=4, pack="stored")


def test_paths_are_relative_to_the_recipe(packs, monkeypatch, tmp_path):
    (packs / "sub").mkdir()
    (packs / "sub/mix.toml").write_text('tokfmt = 1\nseq_len = 4\n[[source]]\npath = "../a.pbin"\n')
    monkeypatch.chdir("/")
    assert len(tokfmt.open(packs / "sub/mix.toml")) > 0


def test_quotas_of_documents(packs):
    """Whole documents up to the first beyond, drawn by the seed, in order of the source."""
    found = [
        [tuple(ids) for ids in tokfmt.recipe([{"path": packs / "a.pbin", "tokens": 31}], seed=seed)] for seed in (0, 1)
    ]
    assert [len(one) for one in found] == [10, 10]
    assert found[0] != found[1]
    assert all(one == sorted(one) for one in found)
    with pytest.raises(
        ConversionError, match=r"has 90 tokens, which may be read once, and the quota is 200: short by 110"
    ):
        tokfmt.recipe([{"path": packs / "a.pbin", "tokens": 200}])
    repeated = list(tokfmt.recipe([{"path": packs / "a.pbin", "tokens": 200, "epochs": 3}]))
    assert len(repeated) == 66


def test_a_quota_of_whole_passes_repeats_no_empty_sequence(packs):
    """Whatever is drawn first."""
    (packs / "y.jsonl").write_text('{"input_ids": []}\n{"input_ids": [1, 2]}\n{"input_ids": []}\n')
    for seed in range(8):
        view = tokfmt.recipe([{"path": packs / "y.jsonl", "tokens": 4, "epochs": 2}], seed=seed)
        assert [ids.tolist() for ids in view] == [[], [1, 2], []] * 2


def test_weights_of_documents_are_quotas(packs):
    sources = [{"path": packs / "a.pbin", "weight": 1}, {"path": packs / "c.zarr", "weight": 2}]
    view = tokfmt.recipe(sources, tokens=90, to_eos=0)
    assert len(view) == 30
    assert [view.reader.spans(k)[0].source for k in range(30)] == [0] * 10 + [1] * 20


def test_a_mask_that_is_not_plain_is_not_lost_in_silence(packs):
    import h5py
    import numpy as np

    tokfmt.convert(packs / "a.pbin", packs / "x.h5", seq_len=8)
    with h5py.File(packs / "x.h5", "r+") as file:
        rows = file["data"][:]
        rows[:, 1, :3] = 0
        del file["data"]
        file.create_dataset("data", data=rows, chunks=(1, 3, 8))
    (packs / "x.h5.tokfmt.json").unlink()
    with pytest.raises(TokfmtError, match="loss mask"):
        tokfmt.recipe([{"path": packs / "x.h5", "eos": 0}], seq_len=8)
    assert len(tokfmt.recipe([{"path": packs / "x.h5", "eos": 0}], seq_len=8, allow_loss="loss-mask"))
    view = tokfmt.recipe([packs / "x.h5"], seq_len=8, pack="stored")
    assert (view[0]["labels"][:3] == -100).all()
    assert np.array_equal(view.sample(0, ["loss_mask"])["loss_mask"], rows[0, 1])


def test_check_reports_errors_of_a_recipe(tmp_path):
    (tmp_path / "mix.toml").write_text("tokfmt = 1\nseqlen = 4\n[[source]]\npath = 'a'\n")
    (finding,) = tokfmt.check(tmp_path / "mix.toml")[0].findings
    assert (finding.code, finding.message) == ("TF801", 'unknown key "seqlen"')
    assert finding.remedy == "Did you mean seq_len?"


def test_sniffed_by_content(tmp_path):
    assert is_recipe(b'tokfmt = "1"\n[[source]]\n', toml=True)  # and reading it says that this is no number
    assert is_recipe(b"# mine\ntokfmt = 1  # version\nseq_len = 4\n[[source]]\npath = 'x'\n", toml=False)
    assert not is_recipe(b"[project]\nname = 'tokfmt'\n", toml=True)
    assert not is_recipe(b"tokfmt = 1\n", toml=False)
    quoted = b"# A page\n\nThat quotes a recipe:\n\ntokfmt = 1\n[[source]]\npath = 'x'\n"
    assert not is_recipe(quoted, toml=False)
    hostile = b"\n" * 60_000 + b"!\ntokfmt = 1\n[[source]]\n"
    assert not is_recipe(hostile, toml=False)  # patterns that take a line break for a blank need 10 s for it
    assert is_recipe(b"tokfmt = 1\n[sources.web]\npath = 'x'\n", toml=True)  # a mistake in it is said by what reads it
    path = tmp_path / "no-suffix"
    path.write_text("tokfmt = 1\n[[source]]\npath = 'x.pbin'\n")
    assert registered.detect(path).name == "recipe"
