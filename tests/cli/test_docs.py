"""README and docs show what the commands print: their sessions are run, a page in a directory of its own."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from paths import FIXTURES, ROOT

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"\b\d+\.\d s\b")
PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if "```console" in page.read_text()
]


def commands(page):
    """Each command of a page and what the page says that it prints."""
    for block in BLOCK.findall(page.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, printed = part.partition("\n")
            yield line, printed


def words(text):
    """Text as its words, however its lines are broken; how long something took is any time."""
    return TIME.sub("TIME", text).split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_session_prints_what_it_shows(page, tmp_path):
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    for line, printed in commands(page):
        program, *rest = shlex.split(line)
        assert program == "tokfmt", line
        done = subprocess.run(
            [sys.executable, "-m", "tokfmt", *rest],
            cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
        )  # fmt: skip
        assert words(done.stdout) == words(printed), f"$ {line}\n{done.stdout}"


def test_pages_name_files_that_exist():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"
