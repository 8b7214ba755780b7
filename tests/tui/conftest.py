"""The datasets that the pictures and snapshots of the browser show."""

import json
import os
import re
import string

import browsing  # Apps start and settle sooner with it.
import pytest
from builder import screens
from click.testing import CliRunner
from paths import FIXTURES

import tokfmt
from tokfmt.cli.main import cli

LETTERS = string.ascii_letters + string.digits


def colors_of(picture):
    """For each line of a picture a letter for each run of one style, and what the letters stand for."""
    styles = dict(re.findall(r"\.terminal-[\w-]*-(r\d+) \{ ([^}]*) \}", picture))
    runs = {}
    for name, x, y in re.findall(r'<text class="terminal-[\w-]*-(r\d+)" x="([\d.]+)" y="([\d.]+)"', picture):
        runs.setdefault(float(y), []).append((float(x), styles[name]))
    for fill, x, y in re.findall(r'<rect fill="(#\w+)" x="([\d.]+)" y="([\d.]+)"', picture):
        runs.setdefault(float(y) + 18.5, []).append((float(x), f"on {fill}"))
    letters = {}
    lines = [
        "".join(letters.setdefault(style, LETTERS[len(letters)]) for _, style in sorted(line))
        for _, line in sorted(runs.items())
    ]
    return [*lines, *(f"{letter}: {style}" for style, letter in letters.items())]


def in_process(words, home):
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    """What the browser remembers, and writes without a directory, is of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def repeated(tmp_path):
    """A store of documents of which three occur several times."""
    text = tmp_path / "x.jsonl"
    text.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in browsing.DOCUMENTS))
    tokfmt.convert(text, tmp_path / "x.pbin", to_eos="none", eos="none", executor="serial")
    return tmp_path / "x.pbin"


@pytest.fixture(scope="session")
def shown(tmp_path_factory):
    """The directory of the datasets; no test changes them."""
    home = tmp_path_factory.mktemp("screens")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in screens.environment(str(tmp_path_factory.mktemp("memory"))).items():
            patch.setenv(name, value)
        patch.chdir(home)
        screens.prepare(home, in_process)
    (home / "fixtures").symlink_to(FIXTURES)
    return home


@pytest.fixture
def draw(shown, tmp_path, monkeypatch):
    """Draw a screen in this process, and return its lines of text and those of its colors."""

    def draw(screen, size):
        environment = screens.environment(str(tmp_path))
        for name in os.environ.keys() - environment.keys():
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(shown)
        done = CliRunner().invoke(cli, screens.words_of(screen, size, tmp_path / "drawn.svg"))
        assert done.exit_code == 0, done.output
        return screens.text_of(tmp_path / "drawn.svg"), colors_of((tmp_path / "drawn.svg").read_text())

    return draw
