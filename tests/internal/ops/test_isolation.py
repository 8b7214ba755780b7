"""The directory that a command runs in is somebody else's: nothing is imported from it, in no process."""

import os

from tokfmt.run.execute import make_executor
from tokfmt.run.isolation import isolated


def test_the_environment_comes_back(monkeypatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    with isolated(), isolated():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert os.environ["PYTHONSAFEPATH"] == ""
    monkeypatch.delenv("PYTHONSAFEPATH")
    with make_executor("processes", 1) as executor:
        assert executor.submit(abs, -1).result() == 1
    assert "PYTHONSAFEPATH" not in os.environ
