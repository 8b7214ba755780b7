"""The datasets that the pictures and snapshots of the browser show."""

import json
import os

import pytest
from builder import screens
from click.testing import CliRunner
from paths import FIXTURES

from tokfmt.cli.main import cli


@pytest.fixture(scope="session")
def shown(tmp_path_factory):
    """The directory of the datasets; no test changes them."""
    home = tmp_path_factory.mktemp("screens")
    screens.prepare(home)
    (home / "fixtures").symlink_to(FIXTURES)
    lines = [{"text": "a b c" * k, "id": k, "lang": "de" if k % 2 else "en"} for k in range(1, 9)]
    (home / "fields.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return home


@pytest.fixture
def draw(shown, tmp_path, monkeypatch):
    """Draw a screen in this process, and return its lines of text."""

    def draw(screen, size):
        environment = screens.environment(str(tmp_path))
        for name in os.environ.keys() - environment.keys():
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(shown)
        done = CliRunner().invoke(cli, screens.words_of(screen, size, tmp_path / "drawn.svg"))
        assert done.exit_code == 0, done.output
        return screens.text_of(tmp_path / "drawn.svg")

    return draw
