"""Files beside a dataset in a bucket: its ledger, its tokenizer, the index of its lines."""

import shutil

import pytest
from click.testing import CliRunner
from paths import FIXTURES

import tokfmt
from tokfmt.cli.main import cli


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def drawn(fresh, bucket):
    """A dataset that a recipe made, with its ledger, in the bucket."""
    (bucket / "mix.toml").write_text('tokfmt = 1\nseq_len = 64\n[[source]]\npath = "pack.pbin"\neos = 50256\n')
    shutil.copy(FIXTURES / "modalities/D_2byte_gpt2.pbin", bucket / "pack.pbin")
    tokfmt.convert(bucket / "mix.toml", bucket / "out.pbin", ledger=True)
    return bucket / "out.pbin"


def test_one_row_of_a_ledger_is_read_by_ranges(drawn, fresh, monkeypatch):
    monkeypatch.setattr("tokfmt.mix.ledger.np.memmap", None)
    assert run("show", "s3://bkt/out.pbin", "3", "--origin").exit_code == 0
