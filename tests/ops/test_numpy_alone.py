"""Where only numpy is installed (`pip install --no-deps tokfmt`: images for training pin everything else)."""

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import numpy as np
import pytest
from amount import first
from paths import FIXTURES

import tokfmt
from tokfmt.errors import MissingDependencyError

pytestmark = pytest.mark.slow

RAW = {
    "stage1": FIXTURES / "stage1" / "stage1_block_0000.bin",
    "modalities": FIXTURES / "modalities" / "D_2byte_gpt2.pbin",
    "megatron": FIXTURES / "megatron" / "gpt2_text_document.bin",
    "llmc": FIXTURES / "llmc" / "fineweb_val_000000.bin",
    "nanogpt": FIXTURES / "nanogpt" / "openwebtext" / "train.bin",
    "olmo": FIXTURES / "olmo" / "core-00000.npy",
    "datatrove": FIXTURES / "datatrove" / "00001_unshuffled.ds",
    "litdata": FIXTURES / "litdata" / "torch_int32",
    "mds": FIXTURES / "mds" / "packed256_static",
}
"""A dataset of raw integers of each format."""

READ = """
import json, sys, tokfmt
with tokfmt.open(sys.argv[1]) as dataset:
    lengths = [len(row) for row in dataset]
    print(json.dumps([dataset.format, lengths, dataset[len(dataset) - 1].tolist(), dataset[:2].tolist(),
                      dataset[[0, 0]].tolist(), sorted(name for name in sys.modules if "." not in name)]))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Python in an environment that has numpy and tokfmt, as links to those of this one, and nothing else."""
    home = tmp_path_factory.mktemp("alone")
    venv.create(home, symlinks=True, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    numpy = Path(np.__file__).parent
    for path in (numpy, numpy.with_name("numpy.libs"), Path(tokfmt.__file__).parent):
        if path.exists():
            (packages / path.name).symlink_to(path)

    def run(*words):
        return subprocess.run([home / "bin" / "python", *words], cwd=home, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize("name", first(3, RAW))
def test_raw_integers_are_read(python, name):
    done = python("-c", READ, str(RAW[name]))
    assert not done.stderr
    found, lengths, last, some, twice, modules = json.loads(done.stdout)
    with tokfmt.open(RAW[name]) as here:
        assert (found, lengths, last) == (here.format, [len(row) for row in here], here[-1].tolist())
        assert (some, twice) == (here[:2].tolist(), [here[0].tolist()] * 2)
    assert found == name
    assert {"numpy", "tokfmt"} <= set(modules)


def test_only_numpy_is_there(python):
    done = python("-c", "import msgspec")
    assert "No module named 'msgspec'" in done.stderr


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (
            "hdf5/new_shuffled/output_chunk_0.h5",
            "hdf5 needs the packages h5py, deflate, isal: pip install h5py deflate isal",
        ),
        ("jsonl/crlf.jsonl", "tokfmt.open needs the package msgspec: pip install msgspec"),
        ("flat-tokens/doc_example.zarr", "tokfmt.open needs the package numcodecs: pip install numcodecs"),
    ],
)
def test_missing_packages_are_listed(python, path, sentence):
    code = """
import sys, tokfmt
try:
    tokfmt.open(sys.argv[1])
except tokfmt.TokfmtError as error:
    print(type(error).__name__, error.package, "|", error)
"""
    done = python("-c", code, str(FIXTURES / path))
    kind, _, said = done.stdout.strip().partition(" ")
    assert (kind, done.stderr) == ("MissingDependencyError", "")
    assert said.partition(" | ")[2] == sentence


def test_missing_packages_for_text_are_listed(python, tmp_path):
    code = "import sys, tokfmt; tokfmt.convert(sys.argv[1], sys.argv[2], tokenizer=sys.argv[3])"
    corpus = str(FIXTURES / "text" / "corpus.jsonl")
    done = python("-c", code, corpus, str(tmp_path / "x.pbin"), str(FIXTURES / "tokenizer"))
    assert "MissingDependencyError: " in done.stderr.splitlines()[-1]
    assert "pip install " in done.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["--help"], ["stats", "x"]])
def test_command_lists_missing_packages(python, words):
    done = python("-m", "tokfmt", *words)
    said = "needs the package click: pip install click. Without it, import tokfmt"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tokfmt: error: the command line {said} in Python reads\n"


@pytest.mark.parametrize("words", [["info", "x"], ["formats"]])
def test_numpy_itself_is_named(words):
    """`pip install --no-deps` leaves out numpy as well."""
    code = f"import sys; sys.modules['numpy'] = None\nfrom tokfmt.__main__ import main\nmain({words})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    said = f"tokfmt: error: tokfmt {words[0]} needs the package numpy: pip install numpy\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_missing_tokenizer_library_is_named(monkeypatch):
    """It is no reason to doubt the tokenizer.json."""
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingDependencyError, match="needs the package tokenizers: pip install tokenizers"):
        tokfmt.stats(FIXTURES / "text" / "corpus.jsonl", tokenizer=str(FIXTURES / "tokenizer"))


def test_a_lost_tokenizer_of_a_manifest_needs_no_package(tmp_path):
    path = tmp_path / "x.pbin"
    shutil.copytree(FIXTURES / "tokenizer", tmp_path / "tokenizer")
    tokfmt.convert(FIXTURES / "text" / "corpus.jsonl", path, tokenizer=str(tmp_path / "tokenizer"))
    shutil.rmtree(tmp_path / "tokenizer")
    code = "import sys; sys.modules['huggingface_hub'] = None\nfrom tokfmt.__main__ import main\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}main(['show', {str(path)!r}, '0', '--text'])"], capture_output=True, text=True
    )
    assert "the manifest names" in done.stderr and "needs the package" not in done.stderr


@pytest.mark.parametrize(
    ("receipt", "command"),
    [
        ("uv-receipt.toml", "uv tool install tokfmt -w h5py -w isal"),
        ("pipx_metadata.json", "pipx inject tokfmt h5py isal"),
        ("pyvenv.cfg", "pip install h5py isal"),
    ],
)
def test_a_missing_package_is_added_to_the_tool_that_tokfmt_is(receipt, command, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / receipt).touch()
    said = str(MissingDependencyError("h5py isal", "hdf5"))
    assert said == f"hdf5 needs the packages h5py, isal: {command}"


def test_a_module_of_tokfmt_that_is_missing_is_a_bug():
    from tokfmt.errors import missing_package

    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        missing_package(ModuleNotFoundError("nowhere", name="tokfmt.nowhere"), "this")
