"""Two runs for one destination, in every order, many times; signals in the very step that publishes."""

import os

import pytest

from tokfmt.core import atomic_output
from tokfmt.core.atomic_output import Staging
from tokfmt.core.errors import ConversionError, DestinationExistsError


def test_a_sibling_is_taken_for_a_leftover_before_it_is_locked(tmp_path, monkeypatch):
    mkdir, made = os.mkdir, []

    def made_and_removed(path, *mode):
        mkdir(path, *mode)
        made.append(path)
        if len(made) == 1:
            atomic_output.remove_leftovers(tmp_path / "out")

    monkeypatch.setattr(os, "mkdir", made_and_removed)
    with Staging(tmp_path / "out") as staging:
        staging.path.write_text("new")
        staging.publish()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert made[0] != staging.home


def test_race_does_not_overwrite_without_overwrite(tmp_path):
    with pytest.raises(DestinationExistsError), Staging(tmp_path / "out") as staging:
        staging.path.write_text("new")
        (tmp_path / "out").write_text("mine")
        staging.publish()
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("old", [False, True], ids=["fresh", "old"])
def test_a_companion_that_cannot_appear_takes_all_back(tmp_path, monkeypatch, old):
    """A pair is complete, or not written: what had appeared goes, and what it replaced comes back."""
    names = ["out.bin", "out.idx", "out.loss"]
    if old:
        for name in names:
            (tmp_path / name).write_text(f"old {name}")
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    replace = os.replace

    def fails(draft, place):
        if place == tmp_path / "out.loss" and draft.name.endswith(".draft"):
            raise OSError(5, "Input/output error")
        replace(draft, place)

    with pytest.raises(ConversionError, match=r"out\.bin: cannot be written: the disk reports") as caught:
        with Staging(tmp_path / "out.bin", overwrite=old, objection=lambda path: "", companions=names[1:]) as staging:
            for name in names:
                staging.path.with_name(name).write_text(f"new {name}")
            with monkeypatch.context() as patched:
                patched.setattr(os, "replace", fails)
                staging.publish()
    assert getattr(caught.value, "__notes__", []) == ["Nothing was left behind"]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
