"""What reads datasets asks a place and `files.file`, never the operating system: a place may be an address."""

import ast
from functools import cache
from pathlib import Path

import tokfmt

HOME = Path(tokfmt.__file__).parent
READERS = (
    "api.py", "base", "browser", "cli", "commands", "core", "dataset.py", "files", "formats", "mix", "recipe_dataset.py",
    "registry.py", "source", "unsupported.py",
)  # fmt: skip
LOCAL_STORE = {
    "files/place.py": "answers for local paths",
    "files/file.py": "reads local files",
    "files/durable.py": "flushes and renames local files",
    "files/publisher.py": "publishes local files",
    "files/journal.py": "is in the hidden directory of a destination, which is local",
    "files/replacing.py": "looks at what a local destination replaces",
    "core/output.py": "writes local files",
    "files/locks.py": "makes locks and private directories, which are local",
    "base/resources.py": "reads limits of this machine",
    "files/spool.py": "builds what is uploaded in a local directory",
}
"""Modules that are the local store, or write to it."""
OS = {"stat", "lstat", "scandir", "listdir", "walk", "access", "open", "readlink"}
METHODS = {"stat", "lstat", "samefile", "iterdir", "glob", "rglob",
           "read_text", "read_bytes"}  # fmt: skip
OF_OTHERS = {"self", "h5a", "h5o", "h5d", "handle.id.links"}
"""Receivers of such names that are not paths."""

WRITTEN = "a writer reads what it has written in the staging directory, which is local"
OWN = "a file that this process, or a worker of it, has made"
DESTINATION = "a destination is a local path"
WORDS = "words of a user, before they are read"
BROWSER = "a local path that the browser is given or shows"
ALLOWED = {
    "commands/overlap/examples.py": {"open": OWN},
    "formats/hdf5/writer.py": {"open": OWN},
    "formats/hdf5_arrays/container.py": dict.fromkeys(("open", "os.stat"), "locks of local files, as this system lists them"),
    "formats/jsonl/index.py": {"open": OWN, "os.path.samefile": "the index is written, so it is a local path"},
    "formats/jsonl/lines.py": {"open": OWN},
    "formats/arrow/writer.py": dict.fromkeys(("File", "read_bytes"), WRITTEN),
    "mix/cache.py": dict.fromkeys(
        ("os.scandir", "os.path.getsize", "read_bytes", "stat"), "the cache of this user is local"
    ),
    "mix/language.py": dict.fromkeys(("os.path.isabs", "os.path.relpath"), WORDS),
    "source/content.py": {"os.path.normpath": "a name of a manifest, which is compared and not read"},
    "source/request.py": {"glob.glob": "patterns of local paths; `_objects` expands those of addresses"},
    "files/new_directory.py": dict.fromkeys(("os.path.lexists", "iterdir"), DESTINATION),
    "cli/browse.py": {"os.path.splitext": DESTINATION},
    "cli/console.py": {"os.open": "the terminal"},
    "cli/convert.py": {"os.path.lexists": "a local file that is named like a weight"},
    "cli/index.py": dict.fromkeys(("os.path.getsize", "os.path.isfile"), "an index stands beside a local text"),
    "cli/usage.py": {"os.path.lexists": "a local file that looks like an option"},
    "cli/page.py": {"read_text": "a file of this package"},
    "commands/check/manifests.py": dict.fromkeys(
        ("os.path.dirname", "os.path.isfile", "os.path.realpath", "os.stat"), "sources beside a local dataset"
    ),
    "commands/compare/diff.py": {"open": OWN},
    "commands/fleet.py": {"os.stat": "when local files were written"},
    "commands/convert/lines.py": {"File": OWN},
    "commands/convert/selection.py": {"open": OWN},
    "commands/convert/report.py": dict.fromkeys(
        ("os.path.exists", "os.path.realpath", "os.path.relpath"), "a tokenizer of this machine"
    ),
    "commands/convert/inputs.py": dict.fromkeys(("open", "os.open", "stat"), "pipes, and copies of them"),
    "commands/convert/resume.py": dict.fromkeys(
        ("glob", "os.path.abspath", "os.path.exists", "os.path.lexists", "os.scandir", "os.stat",
         "read_bytes"), DESTINATION
    ),
    "commands/convert/spread.py": {"rglob": OWN},
    "commands/convert/publish.py": {"read_bytes": OWN},
    "commands/convert/tasks.py": dict.fromkeys(("open", "os.open", "os.path.lexists", "read_bytes", "stat"), OWN),
    "files/store_publisher.py": dict.fromkeys(("read_bytes", "read_text", "stat"), OWN),
    "commands/guards.py": dict.fromkeys(
        ("open", "os.lstat", "os.path.abspath", "os.path.islink", "os.path.join", "os.path.lexists", "os.walk",
         "os.path.realpath", "os.path.split", "os.stat"), DESTINATION
    ),
    "mix/prepare.py": dict.fromkeys(("open", "stat"), OWN),
    "mix/rejects.py": {"open": OWN, **dict.fromkeys(("os.path.isabs", "os.path.relpath"), WORDS)},
    "mix/ledger.py": dict.fromkeys(
        ("os.path.abspath", "os.path.normpath", "os.path.realpath", "os.path.relpath", "os.path.samefile"),
        "a ledger names local files relative to it",
    ),
    "commands/show/export.py": dict.fromkeys(("open", "os.stat"), DESTINATION),
    "mix/trace.py": dict.fromkeys(
        ("os.path.exists", "os.path.normpath", "os.path.samefile"), "a local path, made shorter to be shown"
    ),
    "commands/stats/stats.py": {"open": OWN},
    "commands/stats/report.py": {"File": "a report is a local file"},
    "browser/app.py": dict.fromkeys(("os.path.abspath", "os.path.expanduser"), DESTINATION),
    "browser/data/saving.py": dict.fromkeys(("os.path.expanduser", "os.path.isdir", "os.path.lexists"), DESTINATION),
    "browser/data/catalog.py": {"os.path.commonprefix": "names, character by character"},
    "browser/data/opening.py": dict.fromkeys(("os.path.isdir", "os.scandir", "os.stat", "stat"), BROWSER),
    "browser/data/session.py": dict.fromkeys(("os.path.abspath", "os.path.exists", "os.path.realpath"), BROWSER),
    "browser/signals.py": {"os.open": "the terminal"},
    "browser/data/state.py": dict.fromkeys(("open", "read_bytes", "stat"), "the state of the browser is a local file"),
}  # fmt: skip


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


@cache
def asked():
    """What all readers ask, as (module, name, line)."""
    return list(_asked())


def _asked():
    for reader in READERS:
        home = HOME / reader
        for file in sorted(home.rglob("*.py")) if home.is_dir() else [home]:
            module = file.relative_to(HOME).as_posix()
            for name, line in questions(ast.parse(file.read_text())) if module not in LOCAL_STORE else ():
                yield module, name, line


def test_readers_ask_the_store_of_a_place():
    wrong = [f"{file}:{line}: {name}" for file, name, line in asked() if name not in ALLOWED.get(file, ())]
    assert not wrong, "ask the place, or use files.file.open_file, names_in, matching or read_whole: " + ", ".join(
        wrong
    )


def test_exceptions_are_needed():
    for module in LOCAL_STORE:
        assert list(questions(ast.parse((HOME / module).read_text()))), module
    found = {(file, name) for file, name, _ in asked()}
    assert {(file, name) for file, names in ALLOWED.items() for name in names} <= found


def test_questions_are_seen():
    text = """
open(x); os.stat(x); os.path.isfile(x); path.lstat(); path.stat().st_size; path.open(); path.open("rb"); File(x)
(a / b).samefile(c); glob.glob(p); path.glob(p); path.read_text(); os.scandir(d); [*path.iterdir()]; map(os.path.exists, x)
"""
    names = sorted(name for name, _ in questions(ast.parse(text)))
    assert names == sorted(
        ["open", "os.stat", "os.path.isfile", "lstat", "stat", "open", "open", "File", "samefile", "glob.glob", "glob",
         "read_text", "os.scandir", "iterdir", "os.path.exists"]
    )  # fmt: skip
    others = "place.is_file(); h5o.open(a, b); format_.open(paths, options, hints); rooms.open(wanted); open_file(x)"
    assert not list(questions(ast.parse(others)))
