"""Blend lists of Megatron-LM that `tokfmt recipe` reads with their weights."""

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import FormatError, OptionError

PAIRS = ["0.3", "A_text_document", "0.7", "B_text_document"]
LISTS = {
    "args.txt": "0.3 A_text_document\n0.7 B_text_document\n",
    "args": "0.3 A_text_document 0.7 B_text_document",
    "split.json": json.dumps({"train": PAIRS, "valid": ["1.0", "A_text_document"], "test": None}, indent=4),
    "split_one_line.json": json.dumps({"train": PAIRS, "valid": "1 A_text_document", "test": None}),
}


@pytest.fixture
def lists(tmp_path):
    """A folder with two prefixes, and each kind of list of them."""
    for name, count in (("A", 10), ("B", 20)):
        rows = [[k + 1] * 31 for k in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in rows))
        tokfmt.convert(tmp_path / f"{name}.jsonl", tmp_path / f"{name}_text_document.bin", eos=999)
        (tmp_path / f"{name}.jsonl").unlink()
    for name, content in LISTS.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("away", [False, True])
def test_recipe_reads_a_list_with_its_weights(lists, name, away, tmp_path_factory, monkeypatch):
    """From any directory: prefixes are found beside the list, as `info` finds them."""
    monkeypatch.chdir(tmp_path_factory.mktemp("away") if away else lists)
    assert tokfmt.info(lists / name).format == "megatron"
    done = run("recipe", lists / name, "--seq-len", 32, "-o", "mix.toml")
    assert done.exit_code == 0, done.output
    sources = tomllib.loads(Path("mix.toml").read_text())["source"]
    assert [(one["name"], one["weight"]) for one in sources] == [("A_text_document", 0.3), ("B_text_document", 0.7)]
    assert [Path(one["path"]).resolve() for one in sources] == [lists / f"{one}_text_document" for one in "AB"]
    done = run("recipe", lists / name, "--seq-len", 32, "--explain", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["rows"] == json.loads(run("recipe", "mix.toml", "--explain", "--json").stdout)["rows"]
    assert [row["name"] for row in report["rows"]][1:] == ["A_text_document", "B_text_document"]
    assert 0.27 < report["rows"][1]["share"] < 0.33
    assert not any("weight" in note for note in report["notes"])


@pytest.mark.parametrize("name", ["split.json", "split_one_line.json"])
def test_recipe_reads_another_split(lists, name):
    done = run("recipe", lists / name, "--split", "valid", "--seq-len", 32)
    assert [(one["name"], one["weight"]) for one in tomllib.loads(done.stdout)["source"]] == [("A_text_document", 1)]
    assert "--split valid" in run("recipe", lists / name, "--seq-len", 32).stderr
    done = run("recipe", lists / name, "--split", "test")
    assert isinstance(done.exception, FormatError)
    done = run("recipe", lists / "A_text_document.bin", "--split", "valid")
    assert isinstance(done.exception, OptionError)
    assert "--split" in str(done.exception)


def test_the_note_on_weights_leads_to_a_recipe(lists):
    """The note of `info` names the command, and `recipe` does not name itself."""
    for name in ("args.txt", "split.json"):
        (note,) = [note for note in tokfmt.info(lists / name).notes if "weight" in note]
        assert f"tokfmt recipe {name}" in note
    done = run("recipe", f"x={lists / 'args.txt'}", "--explain")
    assert "mixes by weight" not in done.stderr


def test_one_object_on_a_line_is_still_a_record(tmp_path):
    for name in ("x.json", "x.jsonl"):
        (tmp_path / name).write_text('{"train": [1, 2], "valid": [3], "test": null, "input_ids": [5, 6]}')
        assert tokfmt.info(tmp_path / name).format == "jsonl"
