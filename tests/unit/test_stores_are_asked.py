"""What reads datasets asks `core.listing` and `core.files`, never the operating system: a place may be an address."""

import ast
from pathlib import Path

import tokfmt

HOME = Path(tokfmt.__file__).parent
READERS = ("formats", "views", "recipes", "ops/source")
OS = {"stat", "lstat", "scandir", "listdir", "walk", "access", "open", "readlink"}
METHODS = {"is_file", "is_dir", "is_symlink", "exists", "stat", "lstat", "samefile", "iterdir", "glob", "rglob",
           "read_text", "read_bytes"}  # fmt: skip
OF_OTHERS = {"listing", "h5a", "h5o", "h5d", "handle.id.links"}
"""Receivers of such names that are not paths."""

WRITTEN = "a writer reads what it has written in the staging directory, which is local"
OWN = "a file that this process, or a worker of it, has made"
ALLOWED = {
    "formats/hdf5/writer.py": {"open": OWN},
    "formats/jsonl/index.py": {"open": OWN, "samefile": "the index is written, so it is a local path"},
    "formats/jsonl/lines.py": {"open": OWN},
    "formats/arrow/writer.py": dict.fromkeys(("File", "is_file", "read_bytes"), WRITTEN),
    "recipes/cache.py": dict.fromkeys(("open", "os.scandir", "is_file", "stat"), "the cache of this user is local"),
    "recipes/language.py": dict.fromkeys(("os.path.isabs", "os.path.relpath"), "words of a user, before they are read"),
    "ops/source/manifest.py": {"os.path.normpath": "a name of a manifest, which is compared and not read"},
    "ops/source/request.py": {"glob.glob": "patterns of an address are expanded by its store, which nothing reads yet"},
}


def questions(tree):
    """What a module asks the operating system, and the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name.startswith("os.path.") or (name.startswith("os.") and node.attr in OS):
                yield name, node.lineno
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in ("open", "File"):
            yield node.func.id, node.lineno
        elif isinstance(node.func, ast.Attribute):
            of = ast.unparse(node.func.value)
            mode = [one.value for one in node.args[:1] if isinstance(one, ast.Constant)]
            if of == "glob" and node.func.attr in ("glob", "iglob"):
                yield f"glob.{node.func.attr}", node.lineno
            elif of not in OF_OTHERS and not of.startswith("os"):
                opens = node.func.attr == "open" and (not node.args or any(isinstance(one, str) for one in mode))
                if node.func.attr in METHODS or opens:
                    yield node.func.attr, node.lineno


def asked():
    for package in READERS:
        for file in sorted((HOME / package).rglob("*.py")):
            for name, line in questions(ast.parse(file.read_text())):
                yield file.relative_to(HOME).as_posix(), name, line


def test_readers_ask_the_store_of_a_place():
    wrong = [f"{file}:{line}: {name}" for file, name, line in asked() if name not in ALLOWED.get(file, ())]
    assert not wrong, "use core.listing, core.files.open_file, names_in, matching or read_whole: " + ", ".join(wrong)


def test_exceptions_are_needed():
    found = {(file, name) for file, name, _ in asked()}
    assert {(file, name) for file, names in ALLOWED.items() for name in names} <= found


def test_questions_are_seen():
    text = """
open(x); os.stat(x); os.path.isfile(x); path.is_file(); path.stat().st_size; path.open(); path.open("rb"); File(x)
(a / b).exists(); glob.glob(p); path.glob(p); path.read_text(); os.scandir(d); [*path.iterdir()]; map(os.path.exists, x)
"""
    names = sorted(name for name, _ in questions(ast.parse(text)))
    assert names == sorted(
        ["open", "os.stat", "os.path.isfile", "is_file", "stat", "open", "open", "File", "exists", "glob.glob", "glob",
         "read_text", "os.scandir", "iterdir", "os.path.exists"]
    )  # fmt: skip
    others = "listing.is_file(x); h5o.open(a, b); format_.open(paths, options, hints); rooms.open(wanted); open_file(x)"
    assert not list(questions(ast.parse(others)))
