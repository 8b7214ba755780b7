"""Recipes of text on several machines: tasks that read, filter and tokenise, one run that draws and writes."""

import pytest
from made_corpora import make
from paths import TOKENIZER

import tokfmt
from tokfmt.core.errors import ConversionError, CorruptError
from tokfmt.formats.jsonl.index import index_path, write_index
from tokfmt.ops.convert.convert import finish
from tokfmt.ops.source import ingest
from tokfmt.text import ingest as blocks

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
    write_index(home / "web.jsonl", index_path(home / "web.jsonl"))
    return home


@pytest.fixture
def done(monkeypatch):
    """Blocks of text that were tokenised: the source's directory in scratch, and the number; small ones."""
    seen, block = [], ingest.ingest_block

    def noting(job, item):
        seen.append((job.scratch.name, item[0]))
        return block(job, item)

    monkeypatch.setattr(ingest, "ingest_block", noting)
    monkeypatch.setattr(blocks, "_SMALLEST", 1 << 14)
    return seen


def taken(seen):
    """What was seen since it was last asked."""
    found = list(seen)
    seen.clear()
    return found


@pytest.mark.parametrize(("count", "order"), [(3, (2, 0, 1)), (2, (0, 1))])
def test_the_bytes_of_one_run(corpora, tmp_path, done, count, order):
    """Each block is tokenised by one task; what --finish reads is what tasks could not know of."""
    recipe, one = written(corpora, dedup='"exact"', seed=5, shuffle='"documents"'), {"executor": "serial", "jobs": 1}
    whole = tokfmt.convert(recipe, tmp_path / "whole.pbin", rejects=tmp_path / "whole.jsonl", **one)
    every = set(taken(done))
    parts = []
    for index in order:
        tokfmt.convert(recipe, tmp_path / "x.pbin", task=(index, count), rejects=tmp_path / "x.jsonl", **one)
        parts.append(taken(done))
        if index != order[-1]:
            with pytest.raises(ConversionError, match=r"missing.*Run it with the same words and --task"):
                finish(tmp_path / "x.pbin")
    assert not (tmp_path / "x.pbin").exists()
    found = finish(tmp_path / "x.pbin", **one)
    rest = taken(done)
    assert (tmp_path / "x.pbin").read_bytes() == (tmp_path / "whole.pbin").read_bytes()
    assert (tmp_path / "x.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert found.prepared == whole.prepared
    together = [block for part in parts for block in part]
    assert len(together) == len(set(together))
    assert min(map(len, parts)) > len(together) / count / 2
    assert len({source for source, _ in together}) == len(QUOTAS)
    assert all(source.rpartition("-part-")[2] in "123" for source, _ in rest), "a later range of keys"
    assert {source for source, _ in together + rest} == {source for source, _ in every}
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_shard_again_does_nothing_twice(corpora, tmp_path, done):
    recipe = written(corpora)
    for _ in range(2):
        tokfmt.convert(recipe, tmp_path / "x.pbin", task=(0, 2), executor="serial")
    assert len(done) == len(set(done)) > 0


def test_task_refuses_its_own_losses(tmp_path):
    """The task refuses them, and not only --finish, hours later."""
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": 1}\n')
    words = {"tokenizer": str(TOKENIZER), "executor": "serial"}
    with pytest.raises(CorruptError, match="line 2 .*--allow-loss"):
        tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "x.pbin", task=(0, 1), **words)
    with pytest.raises(ConversionError, match="task 0 of 1 is missing"):
        finish(tmp_path / "x.pbin")
