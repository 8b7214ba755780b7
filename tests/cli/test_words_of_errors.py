"""Errors name the fault, with its exit code, and a remedy that fits what was given."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import OptionError, OutageError, UnknownFormatError

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def test_unreadable_path_is_not_a_usage_error(monkeypatch):
    """tokfmt opens the path itself, without the check of click."""
    monkeypatch.setattr(os, "access", lambda *words, **how: False)
    for words in (["stats", PACK, "-q"], ["check", PACK, "-q"], ["show", PACK, "0"]):
        done = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
        assert "Invalid value" not in done.output
        assert not isinstance(done.exception, SystemExit)
        assert done.exception is None, done.exception


@pytest.mark.parametrize("selection", ["0-10", "first", "1:x", "0:10:2"])
def test_invalid_selection_has_the_expected_form(selection, tmp_path):
    with pytest.raises(OptionError) as error:
        tokfmt.convert(PACK, tmp_path / "x.zarr", select=selection)
    assert selection in str(error.value)


def test_a_missing_tokenizer_is_not_a_statistics_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("base.json").write_text("{}")
    with pytest.raises(tokfmt.errors.TokfmtError) as error:
        tokfmt.stats(PACK, tokenizer="nosuch/base2.json")
    assert "Did you mean" not in str(error.value)
    with pytest.raises(tokfmt.errors.TokfmtError) as error:
        tokfmt.stats(PACK, tokenizer="bas.json")
    assert "Did you mean" not in str(error.value)
    Path("my_tokenizer.json").write_text("{}")
    with pytest.raises(tokfmt.errors.TokfmtError, match="Did you mean my_tokenizer.json"):
        tokfmt.stats(PACK, tokenizer="my_tokenzer.json")


def test_given_separator_is_not_requested_again(tmp_path):
    source = tmp_path / "mystery.bin"
    np.random.default_rng(1).integers(0, 60_000, 1000).astype("<u2").tofile(source)
    with pytest.raises(UnknownFormatError, match="--from") as error:
        tokfmt.convert(source, tmp_path / "x.zarr", eos=0)
    assert "--eos" not in str(error.value)
    with pytest.raises(UnknownFormatError, match="--eos ID"):
        tokfmt.convert(source, tmp_path / "x.zarr")


def test_samples_as_text(tmp_path):
    """`show --samples --text` prints the text of a sample, without padding, and nothing else."""
    path = tmp_path / "x.h5"
    tokfmt.convert(CORPUS, path, tokenizer=str(TOKENIZER), seq_len=64)
    shown = CliRunner().invoke(
        cli, ["show", str(path), "1", "--samples", "--text", "--tokenizer", str(TOKENIZER), "-q"], standalone_mode=False
    )
    view = CliRunner().invoke(
        cli, ["show", str(path), "1", "--text", "--tokenizer", str(TOKENIZER), "-q", "--from-opt", "view=samples"],
        standalone_mode=False,
    )  # fmt: skip
    assert shown.exception is None
    assert len(shown.output.strip()) > 64
    assert shown.output.split() == view.output.split()


def test_a_directory_that_takes_no_files():
    with pytest.raises(OutageError, match="/proc/x.zarr: cannot be written: its directory does not allow new files"):
        tokfmt.convert(PACK, "/proc/x.zarr")
    with pytest.raises(OutageError, match="the directory it should go to does not exist"):
        tokfmt.convert(PACK, "/no/where/x.zarr")


def test_a_library_in_rust_prints_no_backtrace():
    """The command line sets it before any library is imported."""
    script = "import atexit, os; atexit.register(lambda: print(os.environ['RUST_BACKTRACE'])); "
    script += "from tokfmt.cli.main import run; run(['--version'])"
    environment = {**os.environ, "RUST_BACKTRACE": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-1] == "0", done.stderr
