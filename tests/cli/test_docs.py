"""README and docs show what the commands print: their sessions are run, a page in a directory of its own.

It has what `tokfmt demo` writes, and nothing of a checkout: who reads the site has a wheel.
"""

import importlib.util
import inspect
import json
import re
import shlex
import subprocess
import sys

import commands
import forkserver
import pytest
from amount import FUZZ_ONLY
from paths import FIXTURES, ROOT
from schemas import validate

import tokfmt
from tokfmt.cli.main import COMMANDS

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"\b\d+\.\d s\b")
PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if "```console" in page.read_text()
]


def sessions(page):
    """Each command of a page and what the page says that it prints."""
    for block in BLOCK.findall(page.read_text()):
        for part in re.split(r"^\$ ", block.replace(" \\\n", " "), flags=re.MULTILINE)[1:]:
            line, _, printed = part.partition("\n")
            yield line, printed


def words(text):
    """Text as its words, however its lines are broken; how long something took is any time."""
    return TIME.sub("TIME", text).split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sessions_of_pages_print_their_output(page, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    for line, printed in sessions(page):
        program, *rest = shlex.split(line)
        if program in ("cp", "head"):
            subprocess.run(line, cwd=tmp_path, shell=True, check=True)
            assert not printed.strip(), line
            continue
        assert program == "tokfmt", line
        done = commands.run(*rest, cwd=tmp_path, is_merged=True)
        assert words(done.stdout) == words(printed), f"$ {line}\n{done.stdout}"


def test_first_commands_of_inspect_page_find_something(tmp_path):
    """They use the sample."""
    page = (ROOT / "docs" / "inspect.md").read_text().replace("\\\n", "")
    made = ["tokfmt demo sample", *re.search(r"```bash\n(.*?)\n```", page, re.DOTALL)[1].splitlines()]
    look = re.search(r"```\n(tokfmt info.*?)```", page, re.DOTALL)[1]
    wants = {"info": "17,450", "stats": "17,450", "check": "no findings", "diff": "identical: 184 sequences, 17,450 tokens",
             "show": "found at", "browse": "#0  "}  # fmt: skip
    told = [line.partition(" # ")[::2] for line in look.splitlines()]
    also = re.findall(r"'[^']+'|\"[^\"]+\"", next(why for line, why in told if " show " in f" {line}"))
    more = [f"tokfmt show corpus.pbin {word} --tokenizer sample/tokenizer" for word in also]
    for line in [*made, *(line for line, _ in told), *more]:
        program, command, *rest = shlex.split(line)
        assert program == "tokfmt"
        done = commands.run(command, *rest, cwd=tmp_path)
        assert done.returncode == 0, f"$ {line}\n{done.stderr}"
        assert "warning" not in done.stdout + done.stderr and "nothing found" not in done.stderr, line
        if line in made:
            continue
        assert wants[command] in done.stdout + done.stderr or line in more, f"$ {line}\n{done.stdout}"


PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = {
    "train.md": "tests/ops/test_training.py",
    "remote.md": "tests/remote/test_pages.py", "cluster.md": "tests/remote/test_cluster_page.py",
}  # fmt: skip
"""Pages whose Python needs what other tests set up, and these tests."""
PYTHON_PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if page.name not in ELSEWHERE and "```python" in page.read_text()
]


@FUZZ_ONLY
@pytest.mark.parametrize("page", PYTHON_PAGES, ids=lambda page: page.name)
def test_python_of_pages_runs(page, tmp_path):
    """The blocks of a page, one after the other, after the commands of its sessions; those with PyTorch where it is."""
    for line in ["tokfmt demo sample", *(line for line, _ in sessions(page) if line.startswith("tokfmt recipe"))]:
        forkserver.run([sys.executable, "-m", "tokfmt", *shlex.split(line)[1:]], cwd=tmp_path, check=True)
    for name in ("web.pbin", "code.zarr"):
        words = [FIXTURES / "modalities/D_2byte_gpt2.pbin", name]
        forkserver.run([sys.executable, "-m", "tokfmt", "convert", *words], cwd=tmp_path, check=True)
    blocks = PYTHON.findall(page.read_text())
    if importlib.util.find_spec("torch") is None:
        blocks = [block for block in blocks if "torch" not in block and "Loader" not in block]
    script = "\n".join(blocks)
    done = forkserver.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if page.name != "ten-tasks.md":
        assert "184" in done.stdout
    if page.name == "python.md":
        assert done.stdout.startswith("184 17450 ")


def test_pages_that_run_elsewhere_do():
    for name, test in ELSEWHERE.items():
        assert "```python" in (ROOT / "docs" / name).read_text()
        assert name in (ROOT / test).read_text(), test


def test_the_trust_page_names_tests_that_exist():
    """Each promise has a test, and no row has none."""
    page = (ROOT / "docs" / "survives.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith(("| if", "|---"))]
    assert len(rows) > 25
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, test in named:
            assert re.search(rf"^ *def {test}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE), (file, test)


def test_every_variable_of_the_environment_is_on_its_page():
    page = (ROOT / "docs" / "environment.md").read_text()
    own = {"TOKFMT_COMPLETE"}  # of click
    named = {
        name for path in (ROOT / "tokfmt").rglob("*.py") for name in re.findall(r"\bTOKFMT_[A-Z_]+", path.read_text())
    }
    assert named - own == set(re.findall(r"`(TOKFMT_[A-Z_]+)`", page))


def test_the_first_step_is_the_same_on_all_pages():
    pages = (ROOT / "README.md", ROOT / "docs" / "index.md", ROOT / "docs" / "ten-tasks.md")
    blocks = [
        re.findall(r"^```bash\n(pip install.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL) for page in pages
    ]
    assert blocks[0] and all(found[:1] == blocks[0] for found in blocks)


PACKS = "fixtures/modalities/"
DOCUMENTS = [
    "convert {0}D_2byte_gpt2.pbin {1}/o.zarr", "stats {0}D_2byte_gpt2.pbin", "stats {0}D_2byte_gpt2.pbin {0}E_D_2byte_gpt2.pbin",
    "info {0}D_2byte_gpt2.pbin", "check {0}E_D_2byte_gpt2.pbin", "check --explain TF107", "diff {0}D_2byte_gpt2.pbin {0}D_2byte_gpt2_filtered_mod3.pbin",
    "show {0}D_2byte_gpt2.pbin 0", "show fixtures/hdf5/padded_eos 0 --samples", "show {0}D_2byte_gpt2.pbin --raw",
    "show fixtures/recipe/mix.toml --step 1 --batch-size 2", "recipe fixtures/recipe/mix.toml --explain",
    "recipe fixtures/recipe/prepare.toml --explain", "index fixtures/jsonl/corpus.jsonl -o {1}/c.idx", "formats", "schema", "demo {1}/d", "stats nowhere",
]  # fmt: skip


@pytest.mark.parametrize(("row", "line"), [*enumerate(DOCUMENTS)], ids=DOCUMENTS)
def test_documents_of_json_have_the_keys_that_the_page_names(row, line, tmp_path):
    """All of them and no others, a row of the table each; its schema says the rest."""
    rows = re.findall(
        r"^\| `(tokfmt\.[\w-]+/\d+)` \| .*? \| (.*) \|$", (ROOT / "docs" / "json.md").read_text(), re.MULTILINE
    )
    assert len(rows) == len(DOCUMENTS)
    schema, told = rows[row]
    document = json.loads(commands.run(*line.format(PACKS, tmp_path).split(), "--json", cwd=ROOT).stdout)
    validate(document)
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
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    for page in (*top, *(ROOT / "docs").glob("*.md"), ROOT / "tokfmt" / "formats" / "README.md"):
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            if "://" in target:
                continue
            name, _, anchor = target.partition("#")
            other = page.parent / name if name else page
            assert other.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(other), f"{page.name}: {target}"


def test_the_bytes_of_a_format_are_described_without_names_of_the_source():
    """`tokfmt formats NAME` and the site print the description; its reader has a wheel only."""
    for one in tokfmt.list_formats():
        told = inspect.getdoc(sys.modules[type(one).__module__])
        assert not re.findall(r"see `\w|`(?:core|ops|container|tokfmt)\.\w|`_\w|\bInfo\.", told), one.name


def test_the_page_lists_every_repair():
    text = (ROOT / "docs" / "inspect.md").read_text().partition("### Repair a dataset")[2].partition("##")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| ([TF\d, ]+) \| (.+) \|$", text, re.MULTILINE)
    listed = {(name, code, how) for name, codes, how in rows for code in codes.split(", ")}
    formats = [one for one in tokfmt.list_formats() if type(one).__module__.startswith("tokfmt.")]
    assert listed == {
        (one.name, code, repair.how) for one in formats for code, repair in {**one.repairs(), **one.patches()}.items()
    }


def test_the_readme_is_short_and_counts_the_formats():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 200
    formats = [
        one for one in tokfmt.list_formats() if type(one).__module__.startswith("tokfmt.") and one.name != "recipe"
    ]
    written = [one for one in formats if not one.read_only]
    for page in (text, (ROOT / "docs" / "index.md").read_text()):
        assert f"reads {len(formats)} formats and writes {len(written)} of them" in page
    assert {f"`tokfmt {name}" for name in COMMANDS} <= {f"`tokfmt {name}" for name in re.findall(r"tokfmt (\w+)", text)}
