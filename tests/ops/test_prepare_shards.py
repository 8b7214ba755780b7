"""Recipes of text on several machines: tasks that read, filter and tokenise, one run that draws and writes."""

import json

import pytest
from commands import run
from finishing import finish
from made_corpora import make
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.errors import ConversionError, CorruptError, OptionError


def test_conversions_that_cannot_be_divided_refuse_tasks(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(OptionError, match="task: lines are copied as they are, which is done in one run"):
        tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl", task=(0, 2))
    pack = json.dumps(str(FIXTURES / "modalities" / "D_2byte_gpt2.pbin"))
    (tmp_path / "ids.toml").write_text(f'tokfmt = 1\ndedup = "exact"\n[[source]]\npath = {pack}\n')
    with pytest.raises(OptionError, match="task: equal sequences of token IDs are left out, which is done in one run"):
        tokfmt.convert(tmp_path / "ids.toml", tmp_path / "b.pbin", task=(0, 2))


QUOTAS = {
    "web.jsonl": 900, "books.jsonl.gz": 2_000, "code.jsonl": None, "wiki.jsonl": 9_000, "law.jsonl": None,
    "papers.jsonl.zst": None,
}  # fmt: skip


def written(directory, **keys):
    """A recipe of sources that are read whole, compressed, or drawn by an index."""
    lines = ["tokfmt = 1", f'tokenizer = "{TOKENIZER}"', *(f"{key} = {value}" for key, value in keys.items())]
    for name, quota in QUOTAS.items():
        lines += ["[[source]]", f'path = "{name}"', 'filter = "garbage"', f"tokens = {quota}" if quota else ""]
        lines += ['text = "body.text"'] if name.startswith("papers") else []
    (directory / "mix.toml").write_text("\n".join(lines) + "\n")
    return directory / "mix.toml"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    home = tmp_path_factory.mktemp("corpora")
    make(home)
    run("index", home / "web.jsonl", check=0)
    return home


@pytest.mark.parametrize(("count", "order"), [(3, (2, 0, 1)), (2, (0, 1))])
def test_the_bytes_of_one_run(corpora, tmp_path, count, order):
    recipe, one = written(corpora, dedup='"exact"', seed=5, shuffle='"documents"'), {"executor": "serial", "jobs": 1}
    whole = tokfmt.convert(recipe, tmp_path / "whole.pbin", rejects=tmp_path / "whole.jsonl", **one)
    for index in order:
        tokfmt.convert(recipe, tmp_path / "x.pbin", task=(index, count), rejects=tmp_path / "x.jsonl", **one)
        if index != order[-1]:
            with pytest.raises(ConversionError, match=r"missing.*Run it with the same words and --task"):
                finish(tmp_path / "x.pbin")
    assert not (tmp_path / "x.pbin").exists()
    found = finish(tmp_path / "x.pbin", **one)
    assert (tmp_path / "x.pbin").read_bytes() == (tmp_path / "whole.pbin").read_bytes()
    assert (tmp_path / "x.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert found.prepared == whole.prepared
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_task_refuses_its_own_losses(tmp_path):
    """The task refuses them, and not only --finish, hours later."""
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": 1}\n')
    words = {"tokenizer": str(TOKENIZER), "executor": "serial"}
    with pytest.raises(CorruptError, match="line 2 .*--allow-loss"):
        tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "x.pbin", task=(0, 1), **words)
    with pytest.raises(ConversionError, match="task 0 of 1 is missing"):
        finish(tmp_path / "x.pbin")
