"""README and docs show what the commands print: their sessions are run, a page in a directory of its own.

It has what `tokfmt demo` writes, and nothing of a checkout: who reads the site has a wheel.
"""

import dataclasses
import importlib.util
import inspect
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import commands
import forkserver
import pytest
import yaml
from amount import FUZZ_ONLY
from paths import FIXTURES, ROOT
from schemas import validate

import tokfmt
from tokfmt.cli.main import COMMANDS, cli

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"\b\d+\.\d s\b")
FINGERPRINT = re.compile(r"\b[0-9a-f]{32}\b")
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
    """Text as its words, however its lines are broken; how long something took is any time.

    The fingerprint of a recipe is one of the bytes of its sources, which may be compressed.
    """
    return FINGERPRINT.sub("FINGERPRINT", TIME.sub("TIME", text)).split()


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


def test_hosts_of_jax_take_the_samples_of_ranks(monkeypatch, tmp_path):
    """The loop of the page reads what `where` names for the rank, up to the last whole batch."""
    page = (ROOT / "docs" / "python.md").read_text()
    block = next(block for block in PYTHON.findall(page) if "jax.process_index" in block)
    commands.run("demo", "sample", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    taken = []
    for host in range(2):
        names = {}
        exec(block.replace("host, batch_size = 2, 0, 8", f"host, batch_size = 2, {host}, 8"), names)
        view, step, rows = names["view"], names["step"], list(names["rows"])
        assert step == len(view) // 8 - 1
        assert rows == [one.sample for one in view.where(step=step, batch_size=8, rank=host, world_size=2)]
        taken += rows
    assert taken == list(range(step * 8, step * 8 + 8))


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


TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "tokfmt/formats/README.md")]
TEXTS = {path.relative_to(ROOT): path.read_text() for path in (*TOP, *sorted((ROOT / "docs").rglob("*.md")))}
TEXTS[Path("CHANGELOG.md")] = (ROOT / "CHANGELOG.md").read_text().partition("### Changed")[0]
"""The pages; of the changelog what was added, as the rest also names what is gone."""
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def options_of(name):
    """The options of a command, or of `tokfmt` itself."""
    command = cli.get_command(click.Context(cli), name) if name else cli
    given = {word for one in command.params for word in (*one.opts, *one.secondary_opts)}
    return {*given, "--help"}


OPTIONS = {name: options_of(name) for name in ("", *COMMANDS)}
ANY = set().union(*OPTIONS.values())
OTHERS = {"--array", "--data-cache-path"}
"""Options of other programs that a sentence names."""


def written_options(line):
    """The options in a command line, up to what follows the command, and names of options of formats after their `=`."""
    line = re.split(r" [|>#]|&&|;", line)[0]
    return re.findall(r"(?<![\w/-])--[a-z][\w-]*", line), re.findall(r"--(?:to|from)-opt(?:-[ab])? ([a-z_]+)=", line)


@pytest.mark.parametrize("page", TEXTS, ids=str)
def test_pages_name_commands_and_options_that_exist(page):
    """In lines of code that begin with `tokfmt`, and in code within sentences that begins with it or with an option."""
    blocks = "\n".join(FENCED.findall(TEXTS[page])).replace("\\\n", " ")
    codes = re.findall(r"`([^`\n]+)`", FENCED.sub("", TEXTS[page]))
    lines = re.findall(r"^ *(?:\$ )?tokfmt (.+)$", blocks, re.MULTILINE)
    lines += [code.removeprefix("tokfmt ") for code in codes if code.startswith("tokfmt ")]
    formats = {
        field.name
        for one in tokfmt.list_formats()
        for options in (one.read_options, one.write_options)
        for field in dataclasses.fields(options)
    }
    unknown = []
    for line in lines:
        name = line.split()[0] if re.match(r"[a-z]", line) else ""
        options, fields = written_options(line)
        if name not in OPTIONS or not set(options) <= (OPTIONS[name] if name else ANY) or not set(fields) <= formats:
            unknown.append(f"tokfmt {line}")
    for code in codes:
        options, fields = written_options(code) if code.startswith("--") else ([], [])
        if not set(options) <= ANY | OTHERS or not set(fields) <= formats:
            unknown.append(code)
    assert unknown == []


def test_the_action_and_the_hooks_name_options_that_exist():
    scripts = [step.get("run", "") for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]]
    named = {
        re.search(r"^ *tokfmt (\w+)", one, re.MULTILINE)[1]: one for one in scripts if "pip install" not in one and one
    }
    assert named.keys() == {"check", "stats"}
    for name, script in named.items():
        assert set(written_options(script.replace("\n", " ").replace(";", " ").replace("|", " "))[0]) <= OPTIONS[name]
    assert set(re.findall(r"--[a-z][\w-]*", (ROOT / ".pre-commit-hooks.yaml").read_text())) <= ANY


def test_pages_name_keys_of_recipes_that_exist(tmp_path):
    """In recipes, and in sentences as `key = value`."""
    (tmp_path / "x.toml").write_text("tokfmt = 1\nx = 1\n")
    (tmp_path / "y.toml").write_text('tokfmt = 1\n[[source]]\npath = "a"\nx = 1\n')
    (tmp_path / "z.toml").write_text('tokfmt = 1\n[[source]]\npath = "a"\n[filter.y]\nx = 1\n')
    known = set()
    for name in "xyz":
        listed = commands.run("recipe", f"{name}.toml", cwd=tmp_path).stderr.partition("Write one of ")[2]
        known |= set(listed.strip().split(", "))
    assert {"seq_len", "weight", "min_words"} <= known
    described = json.loads(commands.run("formats", "run", "--json").stdout)["formats"][0]
    known |= {option["name"] for option in described["read_options"]}
    count, unknown = 0, []
    for page, text in TEXTS.items():
        for block in re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            if "tokfmt = 1" in block:
                count += 1
                (tmp_path / "recipe.toml").write_text(block)
                said = commands.run("recipe", "recipe.toml", cwd=tmp_path).stderr
                if "[run]" in block:  # its keys are options of the format run
                    said = commands.run("info", "recipe.toml", cwd=tmp_path).stderr
                    assert "which no run has" not in said, f"{page}: {said}"
                    continue
                assert "unknown key" not in said, f"{page}: {said}"
        unknown += [
            f"{page}: {key}"
            for key in re.findall(r'`(\w+) = (?:"|\[|[\d.]+`|true|false)', FENCED.sub("", text))
            if key not in known
        ]
    assert (count > 5, unknown) == (True, [])


def test_pages_name_extras_and_variables_of_the_environment_that_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    own = {"TOKFMT_COMPLETE"}  # of click
    used = {
        name for path in (ROOT / "tokfmt").rglob("*.py") for name in re.findall(r"\bTOKFMT_[A-Z_]+", path.read_text())
    }
    for page, text in TEXTS.items():
        named = re.findall(r"\btokfmt\[([\w,-]+)\]", text) + re.findall(r"\bextras? `([\w-]+)`", text)
        assert {extra for one in named for extra in one.split(",")} <= extras.keys(), page
        assert set(re.findall(r"\bTOKFMT_[A-Z_]+", text)) <= used, page
    assert used - own == set(re.findall(r"`(TOKFMT_[A-Z_]+)`", TEXTS[Path("docs/environment.md")]))


def test_the_first_step_is_the_same_on_all_pages():
    pages = (ROOT / "README.md", ROOT / "docs" / "index.md", ROOT / "docs" / "ten-tasks.md")
    blocks = [
        re.findall(r"^```bash\n(pip install.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL) for page in pages
    ]
    assert blocks[0] and all(found[:1] == blocks[0] for found in blocks)


PACKS = "fixtures/modalities/"
DOCUMENTS = [
    "convert {0}D_2byte_gpt2.pbin {1}/o.zarr", "stats {0}D_2byte_gpt2.pbin", "stats fixtures/recipe/mix.toml --select 0:3", "stats {0}D_2byte_gpt2.pbin {0}E_D_2byte_gpt2.pbin",
    "info {0}D_2byte_gpt2.pbin", "info {0}D_2byte_gpt2.pbin {0}E_D_2byte_gpt2.pbin", "check {0}E_D_2byte_gpt2.pbin", "check --explain TF107", "diff {0}D_2byte_gpt2.pbin {0}D_2byte_gpt2_filtered_mod3.pbin",
    "overlap {0}D_2byte_gpt2.pbin --with {0}D_2byte_gpt2_filtered_mod3.pbin --by tokens",
    "show {0}D_2byte_gpt2.pbin 0", "show fixtures/hdf5/padded_eos 0 --samples", "show {0}D_2byte_gpt2.pbin --raw",
    "show fixtures/recipe/mix.toml --step 1 --batch-size 2", "show fixtures/recipe/mix.toml --seen pack#0", "recipe fixtures/recipe/mix.toml --explain",
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
    assert listed == {(one.name, code, repair.how) for one in formats for code, repair in one.repairs().items()}


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
