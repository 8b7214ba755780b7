"""Files beside a dataset in a bucket: its ledger, its tokenizer, the index of its lines."""

import json
import shutil

import numpy as np
import pytest
from amount import FUZZ_ONLY
from click.testing import CliRunner
from made_tokenizers import llama3_like
from paths import FIXTURES, TOKENIZER
from stores import close_stores

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import OptionError, TokfmtError


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def drawn(fresh, bucket):
    """A dataset that a recipe made, with its ledger, in the bucket."""
    (bucket / "mix.toml").write_text('tokfmt = 1\nseq_len = 64\n[[source]]\npath = "pack.pbin"\neos = 50256\n')
    shutil.copy(FIXTURES / "modalities/D_2byte_gpt2.pbin", bucket / "pack.pbin")
    tokfmt.convert(bucket / "mix.toml", bucket / "out.pbin", ledger=True)
    return bucket / "out.pbin"


@FUZZ_ONLY
def test_one_row_of_a_ledger_is_read_by_ranges(fresh, bucket):
    """The ledger of 2,400 samples has more than one block of 64 KiB."""
    (np.arange(19_200) % 97).astype("<u2").tofile(bucket / "train.bin")
    (bucket / "mix.toml").write_text(
        'tokfmt = 1\nseq_len = 8\n[[source]]\npath = "train.bin"\nformat = "nanogpt"\neos = 0\n'
    )
    tokfmt.convert(bucket / "mix.toml", bucket / "out.pbin", ledger=True)
    assert run("show", "s3://bkt/out.pbin", "3", "--origin").exit_code == 0
    size = (bucket / "out.pbin.ledger").stat().st_size
    assert sum(min(one.stop, size) - one.start for one in fresh.bodies("bkt/out.pbin.ledger")) < size


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


def test_the_tokenizer_that_a_manifest_names_by_its_address(fresh, bucket, tmp_path):
    """It is looked for in the bucket of the dataset, and not elsewhere: a manifest of others names no server."""
    shutil.copytree(TOKENIZER, bucket / "made")
    shutil.copy(FIXTURES / "text/corpus.jsonl", bucket / "corpus.jsonl")
    tokfmt.convert("s3://bkt/corpus.jsonl", "s3://bkt/out.pbin", tokenizer="s3://bkt/made")
    done = run("show", "s3://bkt/out.pbin", "0", "--text")
    assert done.exit_code == 0, done.output
    assert done.stdout == run("show", "s3://bkt/out.pbin", "0", "--text", "--tokenizer", TOKENIZER).stdout
    manifest = bucket / "out.pbin.tokfmt.json"
    for other, why in (("s3://other/made", "not in the store of the dataset"), ("s3://bkt/gone", "not there")):
        manifest.write_text(manifest.read_text().replace("s3://bkt/made", other))
        close_stores()
        done = run("show", "s3://bkt/out.pbin", "0", "--text")
        assert done.exit_code == 2 and f"the manifest names {other} " in done.stderr and why in done.stderr
        manifest.write_text(manifest.read_text().replace(other, "s3://bkt/made"))
    assert not [one for one in fresh.seen if one.key.startswith("other")]
    shutil.copy(bucket / "out.pbin", tmp_path / "out.pbin")
    shutil.copy(manifest, tmp_path / "out.pbin.tokfmt.json")
    done = run("show", tmp_path / "out.pbin", "0", "--text")
    assert done.exit_code == 2 and "names s3://bkt/made " in done.stderr and "s3:/b" not in done.stderr


def test_check_offers_no_repair_of_a_dataset_in_a_store(fresh, bucket, tmp_path):
    """`check --fix` repairs local files only."""
    for home in (bucket, tmp_path):
        shutil.copytree(FIXTURES / "megatron", home / "megatron")
        tokens = home / "megatron/gpt2_text_document.bin"
        tokens.write_bytes(tokens.read_bytes()[:-100])
    local = run("check", tmp_path / "megatron/gpt2_text_document.bin")
    stored = run("check", "s3://bkt/megatron/gpt2_text_document.bin")
    assert "--fix OUT" in local.output and "TF" in stored.output and "--fix OUT" not in stored.output
