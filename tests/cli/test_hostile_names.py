"""A name of a file is whatever somebody liked: it never controls a terminal, nor the runner of a workflow."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tomllib
from html import escape

import forkserver
import pytest
from amount import every
from paths import FIXTURES

from tokfmt.wording import printable

NAMES = [
    "::stop-commands::x",
    "##[add-mask]z",
    "a\x1b]0;owned\x07bidi\u202ec1\x9b31mred",
    "two\n::set-output name=x::y\r::warning::q",
    "b[/]c",
    "[bold red]x[link=file:evil]y[@click=app.quit]:smile:",
]
COMMANDS = {
    "stats": ["stats", "{}.pbin"],
    "stats of several": ["stats", "{}.pbin", "other.pbin"],
    "stats --html": ["stats", "{}.pbin", "--html", "page.html"],
    "stats --plot": ["stats", "{}.pbin", "--plot", "plot.svg"],
    "stats --expect": ["stats", "{}.pbin", "--expect", "tokens > 1e9"],
    "stats json": ["stats", "{}.pbin", "--json"],
    "check": ["check", "--deep", "{}.bad.pbin", "{}.pbin"],
    "check --fix": ["check", "{}.bad.pbin", "--fix", "{}.mended.pbin"],
    "diff": ["diff", "{}.pbin", "{}.bad.pbin"],
    "overlap": ["overlap", "{}.pbin", "--with", "other.pbin", "--by", "tokens"],
    "show": ["show", "{}.pbin", "0:2"],
    "show --raw": ["show", "{}.jsonl", "--raw"],
    "show --samples": ["show", "{}.h5", "0", "--samples"],
    "info": ["info", "{}.pbin"],
    "info of text": ["info", "{}.jsonl"],
    "index": ["index", "{}.jsonl", "--overwrite"],
    "convert": ["convert", "{}.pbin", "{}.zarr", "--overwrite"],
    "convert --dry-run": ["convert", "{}.pbin", "{}.other.zarr", "--dry-run"],
    "browse": ["browse", "{}.pbin"],
    "recipe": ["recipe", "{}.pbin", "other.pbin"],
    "recipe --explain": ["recipe", "{}.pbin", "other.pbin", "--explain"],
    "stats --baseline": ["stats", "{}.pbin", "--baseline", "{}.jsonl"],
    "an error": ["stats", "{}.absent"],
    "no option": ["stats", "--{}", "x"],
    "no format": ["formats", "{}"],
    "no choice": ["stats", "{}.pbin", "--executor", "{}"],
    "no command": ["{}"],
}  # fmt: skip
FEW = ("info", "check", "show --raw", "convert", "an error", "no option")
"""All commands print by one function: `make fuzz` tries the others."""
NAMELESS = ("show", "stats --html", "recipe", "recipe --explain", "no option")
"""Commands that print no name of a file, or half of it."""
STYLES = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|\(B|=|>)")
ALLOWED = re.compile(r"^::(error|warning|notice) file=[^:]*,title=[^:]*::")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("names")
    sources = {
        ".pbin": "modalities/D_2byte_gpt2.pbin", ".bad.pbin": "modalities/E_D_2byte_gpt2.pbin", ".jsonl": "text/corpus.jsonl",
    }  # fmt: skip
    samples = next(iter(sorted((FIXTURES / "hdf5" / "padded_eos").glob("*.h5"))))
    for name in NAMES:
        (home / name).parent.mkdir(exist_ok=True)
        for ending, source in sources.items():
            shutil.copy(FIXTURES / source, home / f"{name}{ending}")
        shutil.copy(samples, home / f"{name}.h5")
    shutil.copy(FIXTURES / sources[".pbin"], home / "other.pbin")
    return home


def words_of(command, name):
    # a path that begins with a blank or a colon stands as it is: no option does
    return [sys.executable, "-m", "tokfmt", *(word.replace("{}", name) for word in COMMANDS[command])]


def on_a_terminal(words, cwd):
    """What a command writes to a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "GITHUB_ACTIONS")}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "100"}
    process = forkserver.Popen(words, cwd=cwd, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    read = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        read += piece
    os.close(ours)
    assert process.wait(60) != 70
    return read.decode()


@pytest.mark.parametrize("command", [one if one in FEW else every(one) for one in COMMANDS])
def test_nothing_controls_a_terminal(home, command):
    for name in NAMES[2:]:
        text = STYLES.sub("", on_a_terminal(words_of(command, name), home)).replace("\r\n", "\n")
        # rich draws its bars over themselves, and hides the cursor
        left = {c for c in text if not c.isprintable()} - {"\n", "\t", "\r"}
        assert not left, (name, text)
        assert "\n::set-output" not in text
        if "[" in name and command not in NAMELESS:  # no markup of Rich's: every character of it is printed
            assert name.rpartition("/")[2] in re.sub(r"\n *", "", text), text


def test_a_field_that_is_lost_controls_no_terminal(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"input_ids":[1],"a\\u001b[31mb":1}\n')
    words = [sys.executable, "-m", "tokfmt", "convert", "x.jsonl", "x.pbin", "--eos", "9", "--allow-loss", "fields"]
    done = forkserver.run(words, cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 0 and b"\\x1b[31mb" in done.stderr and b"\x1b" not in done.stderr


@pytest.mark.parametrize("command", [one if one in FEW else every(one) for one in COMMANDS])
def test_no_line_is_a_command_of_a_workflow(home, command):
    """Both streams reach the runner; of ours it obeys annotations only."""
    for name in NAMES:
        done = forkserver.run(
            words_of(command, name),
            cwd=home,
            env={**os.environ, "GITHUB_ACTIONS": "true"},
            capture_output=True,
            timeout=60,
        )
        text = done.stdout.decode() + done.stderr.decode()
        assert done.returncode != 70, text
        for line in re.split(r"[\r\n]", text):
            assert "##[" not in line, line
            assert not line.strip().startswith("::") or ALLOWED.match(line), line
        if command == "stats --html":
            assert f"<h1>{escape(printable(name))}.pbin</h1>" in (home / "page.html").read_text()
        if command == "stats json":
            assert json.loads(done.stdout)["path"] == f"{name}.pbin"


def test_texts_are_printed_as_they_are(tmp_path):
    """Documents are data: nothing of them is rewritten, in a workflow either."""
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": "::std\n##[x]"}) + "\n")
    words = [sys.executable, "-m", "tokfmt", "show", "c.jsonl", "--text"]
    done = forkserver.run(
        words, cwd=tmp_path, env={**os.environ, "GITHUB_ACTIONS": "true"}, capture_output=True, text=True
    )
    assert done.stdout == "::std\n##[x]\n"


@pytest.mark.parametrize("name", [NAMES[1], "###[x", '\\\\##[\\"x', NAMES[3]])
def test_a_recipe_printed_in_a_workflow_is_the_recipe(home, name):
    for source in {f"{name}.pbin", "other.pbin"}:
        shutil.copyfile(FIXTURES / "modalities/D_2byte_gpt2.pbin", home / source)
    words = [sys.executable, "-m", "tokfmt", "recipe", f"{name}.pbin", "other.pbin"]
    done = forkserver.run(words, cwd=home, env={**os.environ, "GITHUB_ACTIONS": "true"}, capture_output=True, text=True)
    assert "##[" not in done.stdout
    assert tomllib.loads(done.stdout)["source"][0]["path"] == f"{name}.pbin"


def test_names_of_fields_are_no_markup(tmp_path):
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": "a", "x[/]": 1, "[link=file:evil]y": 2}) + "\n")
    printed = on_a_terminal([sys.executable, "-m", "tokfmt", "stats", "c.jsonl"], tmp_path)
    assert "x[/]" in printed
    assert "[link=file:evil]y" in printed
