"""`tokfmt recipe`: writes mixes, reads blend lists, explains."""

import json
import os
import stat
from typing import Any

import commands
import pytest
from paths import ROOT, TOKENIZER
from schemas import validate

from tokfmt import recipe as opened_recipe

PACK = ROOT / "fixtures/modalities/E_D_2byte_gpt2.pbin"


tokfmt = commands.run  # exit code, stdout and stderr


def test_writes_one_that_opens(tmp_path):
    path = tmp_path / "sub" / "mix.toml"
    path.parent.mkdir()
    words = [
        f"web={PACK}:0.7",
        f"{PACK}:0.3",
        "--eos",
        "50256",
        "--seq-len",
        "16",
        "--shuffle",
        "samples",
        "-o",
        str(path),
    ]
    code, out, err = tokfmt("recipe", *words)
    assert (code, out) == (0, "")
    assert "2 sources" in err
    assert 'name = "web"' in path.read_text()
    assert "weight = 0.7" in path.read_text()
    code, out, _ = tokfmt("stats", str(path), "--json")
    assert code == 0
    code, _, err = tokfmt("recipe", *words)
    assert code == 4
    assert "already exists. --overwrite replaces it" in err
    assert tokfmt("recipe", *words, "--overwrite")[0] == 0


def test_recipe_output_keeps_special_files_and_follows_links(tmp_path):
    words = [f"web={PACK}", "--seq-len", "16", "--overwrite", "-o"]
    os.mkfifo(tmp_path / "pipe")
    code, _, err = tokfmt("recipe", *words, str(tmp_path / "pipe"))
    assert (code, stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)) == (4, True)
    assert "is not replaced: it is a FIFO" in err
    (tmp_path / "link.toml").symlink_to("real.toml")
    assert tokfmt("recipe", *words, str(tmp_path / "link.toml"))[0] == 0
    assert (tmp_path / "link.toml").is_symlink()
    assert 'name = "web"' in (tmp_path / "real.toml").read_text()


def test_prints_one_without_a_destination():
    code, out, _ = tokfmt("recipe", f"a={PACK}", "--to-eos", "none")
    assert code == 0
    assert out.startswith("tokfmt = 1\n")
    assert 'to_eos = "none"' in out


_WRITES = "NAME=PATH:WEIGHT ... -o FILE.toml writes a recipe"


def test_paths_are_seen_from_the_recipe(tmp_path, monkeypatch):
    (tmp_path / "a.pbin").write_bytes(PACK.read_bytes())
    (tmp_path / "recipes").mkdir()
    monkeypatch.chdir(tmp_path)
    assert tokfmt("recipe", "a.pbin", "--eos", "50256", "--seq-len", "8", "-o", "recipes/mix.toml")[0] == 0
    assert 'path = "../a.pbin"' in (tmp_path / "recipes/mix.toml").read_text()
    assert tokfmt("recipe", "recipes/mix.toml", "--explain")[0] == 0


@pytest.mark.parametrize("given", ["words", "file"])
def test_blend_lists_of_megatron(tmp_path, given, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blend.txt").write_text(f"0.25 {PACK}\n0.75 {PACK}\n")
    words = ["blend.txt"] if given == "file" else ["0.25", str(PACK), "0.75", str(PACK)]
    code, out, _ = tokfmt("recipe", *words, "--seq-len", "8")
    assert code == 0
    assert out.count("[[source]]") == 2
    assert "weight = 0.25" in out


def test_explain_is_a_tree(tmp_path):
    inner = tmp_path / "inner.toml"
    inner.write_text(f'tokfmt = 1\n[[source]]\nname = "deep"\npath = "{PACK}"\neos = "none"\n')
    outer = tmp_path / "outer.toml"
    outer.write_text(
        'tokfmt = 1\nseq_len = 16\nto_eos = "none"\n[[source]]\npath = "inner.toml"\nweight = 1\n'
        f'[[source]]\nname = "other"\npath = "{PACK}"\neos = "none"\nweight = 3\n'
    )
    code, out, _ = tokfmt("recipe", str(outer), "--explain")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("55 samples of 16: 880 tokens; pack stream, labels next")
    assert [line.split()[0] for line in lines[2:6]] == ["all", "inner", "deep", "other"]
    assert lines[4].startswith("  deep")
    code, out, err = tokfmt("recipe", str(outer), "--explain", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["schema"] == "tokfmt.recipe/1"
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["other"]["samples"] == 41
    assert rows["other"]["passes"] == 1.0
    assert abs(rows["inner"]["share"] - 0.25) < 0.02
    assert rows["deep"]["depth"] == 2
    assert rows["other"]["tokens"] == 653


def test_stats_begin_with_the_table_of_sources():
    """The table of `recipe --explain` is in the text and in the JSON of stats."""
    path = str(ROOT / "fixtures" / "recipe" / "mix.toml")
    tree = tokfmt("recipe", path, "--explain")[1].splitlines()[1:5]
    shown = [line.strip() for line in tokfmt("stats", path)[1].splitlines()]
    at = shown.index("Sources")
    assert shown[at + 1 : at + 5] == [line.strip() for line in tree]
    rows = json.loads(tokfmt("recipe", path, "--explain", "--json")[1])["rows"]
    found = json.loads(tokfmt("stats", path, "--json")[1])
    assert found["recipe"] == rows
    validate(found)


def test_a_budget_is_drawn_in_several_passes(tmp_path):
    """With --tokens, --epochs limits the passes; too few of them are refused with the number that suffices for all."""
    words = (
        "recipe",
        f"a={PACK}:0.25",
        f"b={PACK}:0.75",
        "--seq-len",
        "8",
        "--tokens",
        "10k",
        "--eos",
        "50256",
        "--explain",
    )
    code, _, err = tokfmt(*words)
    assert (code, "Allow epochs = 12, or ask for fewer tokens" in err) == (4, True), err
    code, out, _ = tokfmt(*words, "--epochs", "12")
    assert (code, out.splitlines()[0].split(";")[0]) == (0, "1,250 samples of 8: 10,000 tokens")


def test_errors_are_one_line_with_a_remedy(tmp_path):
    code, _, err = tokfmt("recipe", str(tmp_path / "none.toml"), "--explain")
    assert (code, err) == (3, f"tokfmt: error: {tmp_path}/none.toml: no such file. {_WRITES}\n")
    path = tmp_path / "mix.toml"
    path.write_text('tokfmt = 1\nseq_len = 16\n[[source]]\npth = "x"\n')
    code, _, err = tokfmt("recipe", str(path), "--explain")
    assert code == 3
    assert 'unknown key "pth". Did you mean path?' in err
    code, _, err = tokfmt("recipe", str(path), "--seq-len", "5")
    assert code in (2, 3)
    (tmp_path / "x.txt").write_text("hello")
    code, _, err = tokfmt("recipe", str(tmp_path / "x.txt"))
    assert code == 3
    assert "is neither a recipe nor a blend list" in err
    code, _, err = tokfmt("convert", str(PACK), str(tmp_path / "y.toml"), "--to", "recipe")
    assert code == 2
    assert "recipes are not written from data" in err


def test_words_that_are_empty_are_left_out(tmp_path):
    path = tmp_path / "mix.toml"
    for key in ("name", "format", "split", "text", "select"):
        path.write_text(f'tokfmt = 1\n[[source]]\npath = "{PACK}"\n{key} = ""\n')
        code, _, err = tokfmt("recipe", str(path))
        assert code == 3
        assert f"{key} is empty. Leave it out" in err


def test_ids_that_are_compared_before_they_are_drawn(tmp_path):
    """Of a recipe with dedup: there are no samples yet, and its sources are what they are."""
    path = tmp_path / "mix.toml"
    path.write_text(
        f'tokfmt = 1\ndedup = "exact"\n[[source]]\npath = "{PACK}"\neos = 50256\nname = "a"\ntokens = 1000\n'
    )
    code, out, _ = tokfmt("recipe", str(path))
    assert (code, [line.split() for line in out.splitlines()[:2]]) == (
        0, [["source", "sequences", "tokens", "quota"], ["a", "29", "624", "1,000"]],
    )  # fmt: skip
    found = json.loads(tokfmt("recipe", str(path), "--json")[1])
    assert (found["texts"], found["ids"]) == (
        [], [{"source": "a", "sequences": 29, "tokens": 624, "quota": 1000}],
    )  # fmt: skip


def test_check_reports_an_invalid_recipe(tmp_path):
    """TF801 has the nearest word and an explanation."""
    wrong = tmp_path / "mix.toml"
    wrong.write_text(f'tokfmt = 1\nseq_lem = 16\n[[source]]\npath = "{PACK}"\n')
    code, out, _ = tokfmt("check", wrong)
    assert code == 1
    assert out.split()[:2] == ["error", "TF801"]
    assert 'unknown key "seq_lem". Did you mean seq_len?' in " ".join(out.split())
    code, out, _ = tokfmt("check", "--explain", "TF801")
    assert (code, out.split()[0]) == (0, "TF801")


def test_ids_that_the_tokenizer_does_not_have_are_refused_and_the_remedy_works(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"input_ids": [1, 2, 5000, 4]}\n')
    assert tokfmt("convert", str(tmp_path / "x.jsonl"), str(tmp_path / "x.pbin"), "--eos", "0")[0] == 0
    path = tmp_path / "mix.toml"
    words = ["recipe", f"x={tmp_path / 'x.pbin'}", "--seq-len", "4", "--tokenizer", str(TOKENIZER), "-o", str(path)]
    assert tokfmt(*words)[0] == 0
    code, _, err = tokfmt("recipe", str(path), "--explain")
    assert code == 4
    assert "x.pbin: holds IDs that the tokenizer does not have: expected IDs below 4,096" in err
    assert "found 5,000. To accept that, add --allow-loss tokenizers" in err
    code, out, err = tokfmt("recipe", str(path), "--explain", "--allow-loss", "tokenizers")
    assert (code, out.splitlines()[0].split(":")[0]) == (0, "1 samples of 4")
    assert "note: x: no manifest names the tokenizer that made its IDs" in err
    code, out, _ = tokfmt("recipe", str(path), "--explain", "--allow-loss", "tokenizers", "--json")
    assert [note for note in json.loads(out)["notes"] if note.startswith("x: no manifest names the tokenizer")]
    assert tokfmt("recipe", str(path), "--explain", "--allow-loss", "tokeniser")[0] == 2
    assert tokfmt("recipe", str(tmp_path / "x.pbin"), "--allow-loss", "tokenizers")[0] == 2


@pytest.mark.parametrize("words", [("check",), ("check", "--deep")])
def test_check_reports_invalid_sources_of_a_recipe(words, tmp_path):
    """TF802: missing, circular, reinterpreted or incompatible sources, in the words of stats."""
    path, begin = tmp_path / "mix.toml", "tokfmt = 1\n[[source]]\n"
    for text, message in (
        (f'{begin}path = "gone.pbin"\n', 'gone.pbin: no such file. It is source "gone" of'),
        (f'{begin}path = "mix.toml"\n', "mix.toml: includes itself"),
        (f'{begin}path = "{PACK}"\nfilter = "garbage"\n', "its filter has rules on text, but it holds token IDs"),
        (f'{begin}path = "{PACK}"\neos = 50256\ntokens = 10_000\n', "and the quota is 10,000: short by"),
    ):
        path.write_text(text)
        code, out, _ = tokfmt(*words, path)
        assert (code, out.split()[:2]) == (1, ["error", "TF802"]), out
        assert message in " ".join(out.split())
        code, _, err = tokfmt("stats", path)
        assert code not in (0, 70) and message.partition(". It is")[0] in err
    path.write_text(f'{begin}path = "{PACK}"\n')
    assert "its separator is not known" in tokfmt(*words, path)[1]
    path.write_text(f'{begin}path = "{PACK}"\neos = 50256\n')
    assert tokfmt(*words, path)[0] == 0


@pytest.mark.parametrize(("word", "helps"), [("a.pbin:70%", "a.pbin:70"), ("nothere.pbin:1", "nothere.pbin")])
def test_a_share_in_percent_or_a_path_that_does_not_exist_is_not_written(tmp_path, word, helps):
    code, _, err = tokfmt("recipe", f"x={word}", "--seq-len", "4", "-o", str(tmp_path / "wrong.toml"))
    assert code
    assert helps in err
    assert not (tmp_path / "wrong.toml").exists()


def test_samples_have_the_fields_of_their_view():
    mix: Any = opened_recipe([{"path": str(PACK), "eos": 50256}], seq_len=8)
    view = mix.with_fields(["labels", "position_ids"])
    assert list(view[0]) == list(view.samples(range(1))) == ["labels", "position_ids"]
    assert list(view.samples(range(1), ["input_ids"])) == ["input_ids"]
