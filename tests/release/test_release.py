"""What a release has beside the package is what the commands and pyproject.toml say."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
from paths import ROOT
from release import check, share
from release.commands import pages

from tokfmt.cli.main import COMMANDS, cli

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_man_pages_and_completions_are_those_of_the_commands():
    """`make share` writes them."""
    wanted = share.files()
    there = {path.relative_to(share.HOME).as_posix() for path in share.HOME.rglob("*") if path.is_file()}
    assert there == set(wanted)
    for name, text in wanted.items():
        assert (share.HOME / name).read_text() == text, f"{name}: run make share"


def test_every_command_has_a_page_with_its_options():
    found = {page.name.removeprefix("tokfmt").strip(): page for page in pages()}
    assert [*found] == ["", *COMMANDS]
    assert list(cli.commands) == list(COMMANDS)
    listed = {names for records in found["convert"].options.values() for names, _ in records}
    assert {"--to FORMAT", "--verify", "--allow-loss NAME"} <= listed
    assert {"leads", "loss-mask"} <= set(found["convert"].losses)
    assert not found["formats"].losses
    for page in found.values():
        assert page.examples and all(line.startswith("tokfmt ") for line in page.examples), page.name
        assert page.summary.endswith(".")


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_man_pages_are_valid():
    for path in (share.HOME / "man" / "man1").iterdir():
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z", path], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), path.name
    shown = subprocess.run(
        ["groff", "-man", "-Tascii", share.HOME / "man/man1/tokfmt-convert.1"], capture_output=True, text=True
    )
    plain = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", shown.stdout)
    assert "--allow-loss NAME" in plain and "tokfmt convert corpus.jsonl out.pbin --tokenizer tokenizer" in plain


@pytest.mark.parametrize(
    ("shell", "path"), [("bash", "bash-completion/completions/tokfmt"), ("zsh", "zsh/site-functions/_tokfmt")]
)
def test_completions_are_valid(shell, path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    assert subprocess.run([shell, "-n", share.HOME / path], check=False).returncode == 0


def test_the_owner_of_the_repository_is_stated_once():
    assert list(check.other_owners()) == []
    assert all(check.owner() in address for address in PROJECT["urls"].values())


def test_what_cannot_be_released_is_named(monkeypatch):
    found = list(check.problems("v9.9.9"))
    assert any(line.startswith("tag v9.9.9: is not that of the version") for line in found)
    if check.owner() == check.PLACEHOLDER:
        assert any("the owner is OWNER" in line for line in found)
    done = subprocess.run(
        [sys.executable, ROOT / ".github/release/check.py", "v9.9.9"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (1, "")


def test_the_recipe_of_conda_has_the_requirements_of_the_package():
    text = (ROOT / ".github" / "release" / "conda" / "recipe.yaml").read_text()
    listed = re.search(r"^  run:\n((?:    - .*\n)+)", text, re.MULTILINE)[1]
    found = [line.removeprefix("    - ").replace(" ", "", 1) for line in listed.splitlines()]
    assert found == [f"python{PROJECT['requires-python']}", *PROJECT["dependencies"]]
    assert f'version: "{check.version()}"' in text


def test_versions_agree():
    version = check.version()
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## {re.escape(version)} \(", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    tested = re.findall(
        r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", (ROOT / ".github/workflows/ci.yml").read_text())[1]
    )
    assert [f"Programming Language :: Python :: {one}" for one in tested] == [
        one for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)
    ]


def test_workflows_use_pinned_actions_and_no_permission_they_do_not_name():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text()
        assert re.search(r"^permissions: \{\}$", text, re.MULTILINE), path.name
        for used in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", used), used
        # what comes from outside is a variable of the environment, never a part of a script
        scripts = re.findall(r"run: (.*)", text)
        assert not [line for line in scripts if "${{" in line], path.name


def test_the_image_takes_what_the_package_is_built_from():
    taken = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert {"pyproject.toml", "README.md", "LICENSE", "constraints.txt", "tokfmt", "fixtures", ".github"} == taken
    assert re.search(r"^USER 1000$", (ROOT / ".github" / "release" / "Dockerfile").read_text(), re.MULTILINE)


def test_extras_are_those_that_dist_test_tries():
    from release.dist_test import EXTRAS, OF_EXTRAS

    assert set(EXTRAS) == set(OF_EXTRAS) == set(PROJECT["optional-dependencies"]) - {"zstd"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this tree; `make dist-test` installs one that is built from a commit."""
    home = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(home)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(home.glob("*.whl"))) as archive:
        archive.extractall(home / "files")
    return home / "files"


def test_a_wheel_has_the_package_and_what_it_installs_beside(wheel):
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "tokfmt", ".github/release/share"]
    tracked = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    held = {path.relative_to(wheel).as_posix() for path in wheel.rglob("*") if path.is_file()}
    inside = {name for name in held if not re.match(r"[^/]*\.(dist-info|data)/", name)}
    shared = {re.sub(r"^[^/]*\.data/data/", ".github/release/", name) for name in held if ".data/data/" in name}
    assert inside | shared == set(tracked)


def test_the_description_of_a_wheel_has_no_relative_links(wheel):
    (text,) = (path.read_text() for path in wheel.glob("*.dist-info/METADATA"))
    assert text.count("](https://") > 10
    assert not re.findall(r"\]\((?!https?://|#)[^)]*\)", text)
    assert "Project-URL: Documentation, " in text and "Description-Content-Type: text/markdown" in text


def test_a_wheel_has_the_sample_and_the_explanations(wheel, tmp_path):
    """They are links to fixtures/ in a checkout, and files in a wheel."""
    code = f"import sys; sys.path.insert(0, {str(wheel)!r}); from tokfmt.cli.main import run; run(sys.argv[1:])"

    def tokfmt(*words):
        done = subprocess.run([sys.executable, "-P", "-c", code, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert not [path for path in wheel.rglob("*") if path.is_symlink()]
    tokfmt("demo", "sample")
    assert "modalities" in tokfmt("info", "sample/pack.pbin")
    assert json.loads(tokfmt("schema", "info"))["$id"] == "urn:tokfmt:info:1"
    assert tokfmt("check", "--explain", "TF641").startswith("TF641 (nanogpt): ")
