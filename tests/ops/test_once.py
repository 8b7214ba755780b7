"""What one `tokfmt convert` runs and touches: functions, files opened, directories listed, manifests read, writers."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from paths import CORPUS, FIXTURES, ROOT, TOKENIZER
from reads import asked_of

import tokfmt

pytestmark = pytest.mark.slow

MOST = 434
"""Functions of tokfmt that `convert in.bin out.zarr` may run, detection and the command line among them."""
COLD = {"megatron/gpt2_text_document.bin": 463, "nanogpt/openwebtext/train.bin": 439}
"""The same from the first import on, for fixtures without a manifest, with the functions that importing runs.

What counts is a function with a name: no comprehension, lambda or body of a class or a module. A review once counted 592
at commit 002b4ea, with the bodies of classes, which run when a module is imported. Without them, these were 371 and 347.
They were 400, 440 and 415 before a place was a class, whose questions are functions of tokfmt, and not of `Path`.
"""

COUNTED = """
import json, os, sys, threading
from pathlib import Path
from tokfmt.cli.main import run
from tokfmt.formats import flat, flat_tokens
from tokfmt.formats.flat_tokens import writer
from tokfmt.source import manifest

home, *words = sys.argv[1:]
HOME = os.path.dirname(sys.modules["tokfmt"].__file__) + os.sep
ran, opened, listed, read, made = set(), [], [], [], []

def profiled(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(HOME) and not code.co_name.startswith("<"):
        ran.add((code.co_filename, code.co_qualname))

def audited(event, args):
    if event == "open" and isinstance(args[0], (str, os.PathLike)):
        opened.append(os.fspath(args[0]))
    elif event in ("os.listdir", "os.scandir") and isinstance(args[0], (str, os.PathLike)):
        listed.append(os.fspath(args[0]))

def counting(function, into):
    def counted(*given, **more):
        into.append(str(given[0]))
        return function(*given, **more)
    return counted

def call():
    try:
        run(words)
    except SystemExit as ended:
        assert not ended.code, ended.code

call()  # imports everything
destination = Path(words[2])
import shutil
shutil.rmtree(destination) if destination.is_dir() else destination.unlink()
destination.with_name(destination.name + ".tokfmt.json").unlink()
destination.with_suffix(".idx").unlink(missing_ok=True)
manifest.read_whole = counting(manifest.read_whole, read)
for kind in (writer.FlatTokensWriter, flat.FlatWriter):
    kind.__init__ = (lambda made_by: lambda self, path, *more: (made.append(str(path)), made_by(self, path, *more))[1])(
        kind.__init__
    )
sys.addaudithook(audited)
threading.setprofile(profiled)
sys.setprofile(profiled)
call()
sys.setprofile(None)
threading.setprofile(None)
mine = lambda paths: sorted(os.path.relpath(path, home) for path in paths if path.startswith(home))
print(json.dumps({
    "functions": len(ran), "opened": mine(opened), "listed": mine(listed), "read": mine(read), "made": len(made),
}))
"""


FROM_THE_START = """
import json, os, sys, threading
ran, home = set(), sys.argv[1] + os.sep

def profiled(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(home) and code.co_flags & 1 and not code.co_name.startswith("<"):
        ran.add((code.co_filename.removeprefix(home), code.co_qualname))

threading.setprofile(profiled)
sys.setprofile(profiled)
from tokfmt.cli.main import run

try:
    run(sys.argv[2:])
except SystemExit as ended:
    assert not ended.code, ended.code
sys.setprofile(None)
threading.setprofile(None)
print(json.dumps(sorted(ran)))
"""


@pytest.fixture
def pair(tmp_path):
    """A Megatron pair and a manifest, made by tokfmt."""
    tokfmt.convert(CORPUS, tmp_path / "in.bin", to_format="megatron", tokenizer=str(TOKENIZER), executor="serial")
    return tmp_path / "in.bin"


@pytest.fixture(autouse=True)
def scratch(tmp_path_factory, monkeypatch):
    """A directory that no other process has left anything in: a new scratch directory looks at all that are there."""
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("scratch")))


def counted(home, *words):
    """What the second of two equal commands in a process runs and touches below `home`."""
    made = [sys.executable, "-c", COUNTED, str(home), "convert", *map(str, words), "--executor", "serial", "-q"]
    done = subprocess.run(made, capture_output=True, text=True, check=False, cwd=home)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_conversion_looks_at_everything_once(pair):
    """Functions are counted in the whole command, second in its process, so that nothing is imported."""
    found = counted(pair.parent, pair, pair.with_name("out.zarr"))
    print(f"{found['functions']} functions (at most {MOST})")
    assert found["functions"] <= MOST
    opened = Counter(path for path in found["opened"] if path.startswith("in."))
    assert opened == {"in.bin": 1, "in.bin.tokfmt.json": 1, "in.idx": 1}  # To detect, to read and for the checksum.
    assert found["read"] == ["in.bin.tokfmt.json"]
    assert found["made"] == 1, "a writer is made to write, not to be asked"


@pytest.mark.parametrize("deep", [False, True])
def test_a_check_opens_every_file_once(pair, deep):
    """To detect, to examine, to read and for the checksum."""
    with asked_of(pair.parent) as asked:
        (report,) = tokfmt.check(pair, deep=deep)
    assert not report.errors
    names = Counter(Path(path).name for path in asked.opened)
    assert names == {"in.bin": 1, "in.bin.tokfmt.json": 1, "in.idx": 1}


@pytest.mark.parametrize("source", COLD)
def test_functions_of_a_process_that_converts_once(source, tmp_path):
    for path in (FIXTURES / source).parent.glob(f"{(FIXTURES / source).stem}.*"):
        shutil.copy(path, tmp_path)
    words = ["convert", tmp_path / Path(source).name, tmp_path / "out.zarr", "--jobs", "1", "-q"]
    made = [sys.executable, "-c", FROM_THE_START, str(ROOT / "tokfmt"), *map(str, words)]
    done = subprocess.run(made, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    ran = json.loads(done.stdout.splitlines()[-1])
    print(f"{len(ran)} functions (at most {COLD[source]}, goal {MOST})")
    assert len(ran) <= COLD[source], "\n".join(" ".join(one) for one in ran)


def test_a_directory_is_listed_once_to_open_it_and_once_to_see_that_it_is_the_same(pair):
    store = pair.with_name("store.zarr")
    tokfmt.convert(pair, store, executor="serial")
    found = counted(pair.parent, store, pair.with_name("back.bin"), "--to", "megatron")
    listed = [path for path in found["listed"] if path.startswith("store.zarr")]
    inside = ["", "/train", "/train/encoded_tokens", "/train/seq_starts"]
    assert listed == sorted(2 * [f"store.zarr{name}" for name in inside])
    assert found["read"] == ["store.zarr.tokfmt.json"]
    metadata = [path for path in found["opened"] if path.startswith("store.zarr/") and path.rpartition("/.")[1]]
    assert set(Counter(metadata).values()) == {2}, "to read it, and for its checksum"
    assert found["made"] == 1
