"""Errors name the fault, with its exit code, and a remedy that fits what was given."""

import os

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.core.errors import OutageError
from tokfmt.core.files import write_error

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def test_a_directory_that_takes_no_files():
    with pytest.raises(OutageError, match="/proc/x.zarr: cannot be written: its directory does not allow new files"):
        tokfmt.convert(PACK, "/proc/x.zarr")
    error = FileNotFoundError(2, "no such file")
    assert "the directory it should go to does not exist" in str(write_error("/no/where/x.zarr", error))


def test_a_library_in_rust_prints_no_backtrace(monkeypatch):
    from tokfmt.cli import main

    for name in ("RUST_BACKTRACE", "OPENBLAS_NUM_THREADS", "PYTHONSAFEPATH"):
        monkeypatch.setenv(name, "1")
    main._tune_interpreter()
    assert os.environ["RUST_BACKTRACE"] == "0"
