"""README and docs show what the commands print: their sessions are run, a page in a directory of its own."""

import json
import os
import re
import shlex
import subprocess
import sys

import forkserver
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
def test_sessions_of_pages_print_their_output(page, tmp_path):
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    for line, printed in commands(page):
        program, *rest = shlex.split(line)
        assert program == "tokfmt", line
        done = forkserver.run(
            [sys.executable, "-m", "tokfmt", *rest],
            cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert words(done.stdout) == words(printed), f"$ {line}\n{done.stdout}"


def test_first_commands_of_inspect_page_find_something(tmp_path):
    """They use the files and the tokenizer of the session in README.md."""
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    made = [
        line for line, _ in commands(ROOT / "README.md") if line.startswith("tokfmt convert") and "blocks" not in line
    ]
    look = re.search(r"```\n(tokfmt stats.*?)```", (ROOT / "docs" / "inspect.md").read_text(), re.DOTALL)[1]
    wants = {"stats": "17,450", "check": "no findings", "diff": "identical: 184 sequences, 17,450 tokens",
             "show": "found at", "browse": "#0  "}  # fmt: skip
    told = [line.partition(" # ")[::2] for line in look.splitlines()]
    also = re.findall(r"'[^']+'|\"[^\"]+\"", next(why for line, why in told if " show " in f" {line}"))
    more = [f"tokfmt show corpus.pbin {word} --tokenizer fixtures/tokenizer" for word in also]
    for line in [*made, *(line for line, _ in told), *more]:
        program, command, *rest = shlex.split(line)
        done = forkserver.run(
            [sys.executable, "-m", program, command, *rest],
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"$ {line}\n{done.stderr}"
        assert "warning" not in done.stdout + done.stderr and "nothing found" not in done.stderr, line
        if line in made:
            continue
        assert wants[command] in done.stdout + done.stderr or line in more, f"$ {line}\n{done.stdout}"


def test_the_first_example_of_the_python_page_runs(tmp_path):
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    code = re.search(r"^```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    done = forkserver.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("184 17450 ")


PACKS = "fixtures/modalities/"
DOCUMENTS = [
    "convert {0}D_2byte_gpt2.pbin {1}/o.zarr", "stats {0}D_2byte_gpt2.pbin", "stats {0}D_2byte_gpt2.pbin {0}E_D_2byte_gpt2.pbin",
    "check {0}E_D_2byte_gpt2.pbin", "check --explain TF107", "diff {0}D_2byte_gpt2.pbin {0}D_2byte_gpt2_filtered_mod3.pbin",
    "show {0}D_2byte_gpt2.pbin 0", "show fixtures/hdf5/padded_eos 0 --samples", "show {0}D_2byte_gpt2.pbin --raw",
    "show fixtures/recipe/mix.toml --step 1 --batch-size 2", "recipe fixtures/recipe/mix.toml --explain",
    "recipe fixtures/recipe/prepare.toml --explain", "index fixtures/jsonl/corpus.jsonl -o {1}/c.idx", "cache --cache-dir {1}", "formats", "plugin new mine {1}/p", "stats nowhere",
]  # fmt: skip


@pytest.mark.parametrize(("row", "line"), [*enumerate(DOCUMENTS)], ids=DOCUMENTS)
def test_documents_of_json_have_the_keys_that_the_page_names(row, line, tmp_path):
    """All of them and no others, a row of the table each; of stats its schema says the rest."""
    rows = re.findall(
        r"^\| `(tokfmt\.[\w-]+/\d+)` \| .*? \| (.*) \|$", (ROOT / "docs" / "json.md").read_text(), re.MULTILINE
    )
    assert len(rows) == len(DOCUMENTS)
    schema, told = rows[row]
    words = [sys.executable, "-m", "tokfmt", *line.format(PACKS, tmp_path).split(), "--json"]
    document = json.loads(forkserver.run(words, cwd=ROOT, stdout=subprocess.PIPE).stdout)
    assert (next(iter(document)), document.pop("schema")) == ("schema", schema)
    named = dict(re.findall(r"`(\w+)(?:\[([\w, ]+)\])?`", told))
    missing = document.keys() - named.keys() if "…" not in told else set()
    assert (missing, named.keys() - document.keys()) == (set(), set())
    for key, inner in named.items():
        for one in document[key] if isinstance(document[key], list) else [document[key]] if inner else []:
            assert not inner or [*one] == inner.split(", "), key


def anchors(page):
    """The headings of a page, as links name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_pages_name_files_and_headings_that_exist():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "tokfmt" / "formats" / "README.md"):
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            if "://" in target:
                continue
            name, _, anchor = target.partition("#")
            other = page.parent / name if name else page
            assert other.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(other), f"{page.name}: {target}"
