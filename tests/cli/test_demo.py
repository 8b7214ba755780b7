"""`tokfmt demo`: what it writes is the fixtures, and what it tells to try runs."""

import json
import shlex

import commands
import pytest
from paths import FIXTURES
from schemas import validate

from tokfmt.errors import DestinationExistsError
from tokfmt.sample import COMMANDS, write_sample


def tokfmt(*words, cwd):
    return commands.run(*words, cwd=cwd)


def test_its_commands_run_in_order(tmp_path):
    told = tokfmt("demo", "a place", cwd=tmp_path).stdout
    said = [line.strip() for line in told.splitlines()[2:]]
    assert said == ["cd 'a place'", *COMMANDS]
    for line in COMMANDS:
        done = tokfmt(*shlex.split(line)[1:], cwd=tmp_path / "a place")
        assert done.returncode == (1 if "check" in line else 0), done.stderr
        assert done.stdout + done.stderr


def test_files_are_the_fixtures_and_nothing_else(tmp_path):
    document = json.loads(tokfmt("demo", "d", "--json", cwd=tmp_path).stdout)
    validate(document)
    written = sorted(path for path in (tmp_path / "d").rglob("*") if path.is_file())
    assert sorted(document["files"]) == [str(path.relative_to(tmp_path)) for path in written]
    assert not [path for path in written if path.is_symlink() or path.suffix in (".py", ".pyc")]
    assert (tmp_path / "d" / "corpus.jsonl").read_bytes() == (FIXTURES / "text" / "corpus.jsonl").read_bytes()
    assert sum(path.stat().st_size for path in written) < 300_000


def test_a_directory_with_files_is_not_touched(tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(DestinationExistsError):
        write_sample(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
