"""Files beside a dataset in a bucket: its ledger, its tokenizer, the index of its lines."""

import json
import shutil

import pytest
from click.testing import CliRunner
from made_tokenizers import llama3_like
from paths import FIXTURES

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.core.errors import OptionError, TokfmtError


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def drawn(fresh, bucket):
    """A dataset that a recipe made, with its ledger, in the bucket."""
    (bucket / "mix.toml").write_text('tokfmt = 1\neos = 50256\nseq_len = 64\n[[source]]\npath = "pack.pbin"\n')
    shutil.copy(FIXTURES / "modalities/D_2byte_gpt2.pbin", bucket / "pack.pbin")
    tokfmt.convert(bucket / "mix.toml", bucket / "out.pbin", ledger=True)
    return bucket / "out.pbin"


def origins(path):
    done = run("show", path, "--limit", 0, "--origin", "--json")
    assert done.exit_code == 0, done.output
    return json.dumps(json.loads(done.stdout)).replace(str(path), "PATH").replace(str(path).rpartition("/")[0], "HOME")


def test_the_origin_of_each_sequence(drawn):
    assert origins("s3://bkt/out.pbin") == origins(drawn)


def test_a_ledger_of_another_dataset(drawn, bucket):
    (bucket / "out.pbin.ledger").write_bytes((bucket / "out.pbin.ledger").read_bytes()[:-4])
    done = run("show", "s3://bkt/out.pbin", "3", "--origin")
    assert isinstance(done.exception, TokfmtError)
    assert str(done.exception).startswith("s3://bkt/out.pbin.ledger: is cut")


def test_an_index_is_written_beside_the_lines_or_to_a_local_file(fresh, bucket, tmp_path):
    shutil.copy(FIXTURES / "jsonl/corpus.jsonl", bucket / "corpus.jsonl")
    assert run("index", "s3://bkt/corpus.jsonl", "-o", tmp_path / "corpus.idx").exit_code == 0
    assert run("index", "s3://bkt/corpus.jsonl").exit_code == 0
    for written in (tmp_path / "corpus.idx", bucket / "corpus.idx"):
        assert written.read_bytes() == (FIXTURES / "jsonl/corpus.idx").read_bytes()
    done = run("index", "s3://bkt/corpus.jsonl", "-o", "s3://bkt/corpus.jsonl", "--overwrite")
    assert isinstance(done.exception, OptionError) and "would replace the text" in str(done.exception)


def test_a_tokenizer(fresh, bucket, tmp_path):
    (tmp_path / "made").mkdir()
    llama3_like().save(str(tmp_path / "made/tokenizer.json"))
    shutil.copytree(tmp_path / "made", bucket / "made")
    shutil.copy(FIXTURES / "text/corpus.jsonl", bucket / "corpus.jsonl")
    local = run("stats", FIXTURES / "text/corpus.jsonl", "--tokenizer", tmp_path / "made", "--json")
    for name in ("made", "made/tokenizer.json"):
        stored = run("stats", "s3://bkt/corpus.jsonl", "--tokenizer", f"s3://bkt/{name}", "--json")
        assert stored.exit_code == local.exit_code == 0, stored.output
        assert json.loads(stored.stdout)["tokens"] == json.loads(local.stdout)["tokens"]
    done = run("stats", "s3://bkt/corpus.jsonl", "--tokenizer", "s3://bkt/gone")
    assert "s3://bkt/gone: does not exist" in str(done.exception)
