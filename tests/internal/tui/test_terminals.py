"""Any terminal: from 40x12 to 200x60, of few colors or none, with scripts whose width is its own; left as it was."""

import os

import pytest
from browsing import PACK, browse
from paths import TOKENIZER


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


# the clipboard of a machine


def fake(path, code, out):
    path.write_text(f"#!/bin/sh\ncat > {out}\nexit {code}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(("name", "needs", "code", "title", "says"), [
    ("wl-copy", "WAYLAND_DISPLAY", 0, "Copied", "in the clipboard (wl-copy)"),
    ("xclip", "DISPLAY", 0, "Copied", "in the clipboard (xclip)"),
    ("tmux", "TMUX", 0, "Copied", "in the buffer of tmux (prefix ] pastes it)"),
    ("xclip", "DISPLAY", 1, "Sent to the terminal", "The terminal may ignore it"),
    ("xclip", "NOTHING", 0, "Sent to the terminal", "The terminal may ignore it"),
])  # fmt: skip
def test_a_copy_says_where_it_went(name, needs, code, title, says, tmp_path, monkeypatch):
    programs = tmp_path / "programs"
    programs.mkdir()
    fake(programs / name, code, tmp_path / "taken")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv(needs, "x")

    async def steps(app, press):
        await press("c")
        told = list(app._notifications)[-1]
        assert told.title == title
        assert says in told.message
        assert "of document 0 as text" in told.message
        assert app.clipboard

    browse([PACK], steps, tokenizer=str(TOKENIZER))
    taken = tmp_path / "taken"
    assert (taken.exists() and taken.read_text() == "The quick brown") == (needs != "NOTHING") or taken.read_text()


def test_a_link_that_nothing_takes_is_not_said_to_be_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    async def steps(app, press):
        await press("y")
        told = list(app._notifications)[-1].message
        assert told.startswith("tokfmt browse ")
        assert told.endswith(". The terminal may ignore it")
        await press("c")
        assert list(app._notifications)[-1].message.endswith("e writes a file")

    browse([PACK], steps)
