"""`tokfmt check` as people and CI see it."""

import json

import pytest
from click.testing import CliRunner

from tokfmt.cli.check import command
from tokfmt.ops.check.codes import all_codes


def run(*words):
    """Exit code, stdout, stderr; in this process."""
    result = CliRunner().invoke(command, list(words), standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, result.stdout, result.stderr


@pytest.mark.parametrize("code", ["TF107", "tf934"])
def test_explain(code):
    exit_code, out, _ = run("--explain", code)
    assert exit_code == 0
    meaning = all_codes()[code.upper()]
    assert out.startswith(f"{code.upper()} ({meaning.owner}): {meaning.title}\n\n")
    assert " ".join(out.split("\n\n")[1].split()) == meaning.text
    assert max(map(len, out.splitlines())) <= 100


def test_explain_all():
    _, out, _ = run("--explain", "all")
    assert [line[:5] for line in out.splitlines()] == list(all_codes())
    found = json.loads(run("--explain", "all", "--json")[1])
    assert found["schema"] == "tokfmt.codes/1"
    assert {one["code"]: one["text"] for one in found["codes"]} == {c: m.text for c, m in all_codes().items()}
