"""The directory that a command runs in is somebody else's: processes import nothing from it, and variables come back."""

import os

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.run.isolation import isolated

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def test_variables_come_back(monkeypatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    with isolated(), isolated():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert os.environ["PYTHONSAFEPATH"] == ""


@pytest.mark.slow
def test_variables_are_gone_after_a_conversion(monkeypatch, tmp_path):
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    tokfmt.convert(PACK, tmp_path / "x.zarr", jobs=1, executor="processes")
    assert "PYTHONSAFEPATH" not in os.environ
