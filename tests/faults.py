"""Seeded faults: how many small faults in tokfmt do the tests find?

    python tests/faults.py --count 200 --seed 1

`make faults` chooses COUNT places in tokfmt/ by SEED, every line with the same chance, and changes the code at one place
at a time: a boundary moves by one, a condition is reversed, a check is skipped, a dtype changes, a note is dropped, two
arguments change places. For each fault it runs the tests that execute the changed statement, the quick ones first, and
stops at the first that fails.

No file changes. A process that has `TOKFMT_FAULT` in its environment compiles the one module with the fault; so do the
processes that it starts. A first run of all tests, with `TOKFMT_PROBES` in its environment, records which test reaches
which statement, and how long each test takes.

build/faults/results.jsonl has a line for each fault: the fault, and the test that found it, or null. A fault that
changes nothing which a user could see is listed in EQUIVALENT, with the reason, and is not counted. (PYTEST_DONT_REWRITE)
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tokfmt"
FAULT, PROBES = "TOKFMT_FAULT", "TOKFMT_PROBES"
GIVE_UP = 60
"""Seconds for the tests of one fault."""
HANGS = 20
"""Seconds after which a test of a fault fails."""

# ---------------------------------------------------------------------------------------------------------------------
# faults
# ---------------------------------------------------------------------------------------------------------------------

DTYPES = {
    "uint8": "int8", "int8": "uint8", "uint16": "int16", "int16": "uint16", "uint32": "int32", "int32": "uint32",
    "uint64": "int64", "int64": "uint64", "float32": "float64", "float64": "float32", "<u2": ">u2", "<u4": ">u4",
    "<i4": ">i4", "<i8": ">i8", "<u8": ">u8", "little": "big", "big": "little",
}  # fmt: skip
COMPARISONS = {
    "Lt": "LtE", "LtE": "Lt", "Gt": "GtE", "GtE": "Gt", "Eq": "NotEq", "NotEq": "Eq", "Is": "IsNot", "IsNot": "Is",
    "In": "NotIn", "NotIn": "In",
}  # fmt: skip
ARITHMETIC = {
    "Add": "Sub", "Sub": "Add", "Mult": "FloorDiv", "FloorDiv": "Mult", "Mod": "FloorDiv", "LShift": "RShift",
    "RShift": "LShift", "BitAnd": "BitOr", "BitOr": "BitAnd",
}  # fmt: skip


def faults_of(tree):
    """Yield each possible fault of a module as (node, its statement, function, kind, change).

    `change` makes the fault in the tree. `function` is the qualified name, or "" outside of functions. The order is that
    of the source, which both the choice of a fault and its making rely on.
    """
    import ast

    def visit(node, statement, function, scope):
        if isinstance(node, (ast.JoinedStr, ast.AnnAssign)) and not (isinstance(node, ast.AnnAssign) and node.value):
            return  # wording and annotations
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = f"{scope}{node.name}"
            for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
                yield from visit(default, statement or node, function, scope)
            for child in node.body:
                yield from visit(child, child, name, f"{name}.")
            return
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                yield from visit(child, child, function, f"{scope}{node.name}.")
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        for kind, change in changes(node):
            yield node, statement, function, kind, change
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "returns", "op", "ops", "ctx"}:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    inner = child if isinstance(child, ast.stmt) else statement
                    yield from visit(child, inner, function, scope)

    def changes(node):
        name = type(node).__name__

        def put(**fields):
            def change():
                for field, value in fields.items():
                    setattr(node, field, value)

            return change

        if name == "Compare":
            other = COMPARISONS[type(node.ops[0]).__name__]
            boundary = other in {"Lt", "LtE", "Gt", "GtE"}
            yield ("boundary" if boundary else "condition"), put(ops=[getattr(ast, other)(), *node.ops[1:]])
        elif name == "BoolOp":
            yield "condition", put(op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        elif name == "If":
            yield "condition", put(test=ast.UnaryOp(ast.Not(), node.test))
            if any(isinstance(child, (ast.Raise, ast.Return, ast.Continue)) for child in node.body):
                yield "skipped check", put(test=ast.Constant(value=False))
        elif name == "Constant" and type(node.value) is int and -1 <= node.value < 1 << 12:
            yield "off by one", put(value=node.value + 1)
        elif name == "Constant" and type(node.value) is bool:
            yield "condition", put(value=not node.value)
        elif name == "Constant" and isinstance(node.value, str) and node.value in DTYPES:
            yield "dtype", put(value=DTYPES[node.value])
        elif name == "Attribute" and node.attr in DTYPES:
            yield "dtype", put(attr=DTYPES[node.attr])
        elif name == "BinOp" and type(node.op).__name__ in ARITHMETIC and not isinstance(node.left, ast.JoinedStr):
            words = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
            if not words:
                yield "arithmetic", put(op=getattr(ast, ARITHMETIC[type(node.op).__name__])())
        elif name == "Expr" and isinstance(node.value, ast.Call):
            yield "dropped call", put(value=ast.Constant(value=None))
        elif name == "Call" and len(node.args) > 1 and not any(isinstance(arg, ast.Starred) for arg in node.args[:2]):
            first, second, *rest = node.args
            if ast.dump(first) != ast.dump(second):
                yield "exchanged arguments", put(args=[second, first, *rest])
        if name == "Call" and isinstance(node.func, ast.Name) and node.func.id in {"min", "max"}:
            yield "condition", lambda: setattr(node.func, "id", "max" if node.func.id == "min" else "min")

    for child in tree.body:
        yield from visit(child, child, "", "")


def with_fault(tree, number):
    """Make one fault of a module, by its place in `faults_of`."""
    import itertools

    *_, change = next(itertools.islice(faults_of(tree), number, None))
    change()
    return tree


def choose(count, seed):
    """Choose faults, every line of tokfmt that can have one with the same chance.

    The choice depends on the texts of the lines, so that it stays the same where the code does.
    """
    import ast
    import hashlib

    def chance(*words):
        return hashlib.sha256(":".join(map(str, (seed, *words))).encode()).hexdigest()

    lines = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text().split("\n")
        name = path.relative_to(ROOT).as_posix()
        for number, (node, statement, function, kind, _) in enumerate(faults_of(ast.parse(path.read_bytes()))):
            line = text[node.lineno - 1].strip()
            order = chance(name, function, line, kind), chance(name, function, line, kind, number)
            fault = name, number, function, node.lineno, statement.lineno, kind, line
            lines.setdefault((chance(name, function, line), name, node.lineno), []).append((order, fault))
    keys = "file", "number", "function", "line", "statement", "kind", "text"
    return [dict(zip(keys, min(lines[key])[1], strict=True)) for key in sorted(lines)[:count]]


# ---------------------------------------------------------------------------------------------------------------------
# in the processes of the tests
# ---------------------------------------------------------------------------------------------------------------------


def install():
    """Compile modules of tokfmt with the fault, or with probes, that the environment names. Called when Python starts."""
    fault, probes = os.environ.get(FAULT), os.environ.get(PROBES)
    if not fault and not probes:
        return
    from importlib.machinery import SourceFileLoader

    get_code, package = SourceFileLoader.get_code, f"{PACKAGE}{os.sep}"
    faulty, _, number = (fault or "").rpartition(":")

    def code_of(self, fullname):
        path = self.path
        if not path.startswith(package):
            return get_code(self, fullname)
        if probes:
            return _with_probes(path, Path(probes))
        if faulty and path == str(ROOT / faulty):
            import ast

            return compile(
                ast.fix_missing_locations(with_fault(ast.parse(Path(path).read_bytes()), int(number))), path, "exec"
            )
        return get_code(self, fullname)

    SourceFileLoader.get_code = code_of
    if probes:
        _install_probe(Path(probes))


_reached = set()


def _install_probe(folder):
    import builtins

    def probe(number, seen=_reached):
        if number not in seen:
            seen.add(number)
            test = os.environ.get("PYTEST_CURRENT_TEST")
            if test is not None:
                with open(folder / f"reached-{os.getpid()}", "a") as file:
                    file.write(f"{test.rpartition(' (')[0]}\t{number}\n")

    vars(builtins)["__probe__"] = probe
    os.register_at_fork(after_in_child=_reached.clear)


def _with_probes(path, folder):
    """Code of a module that says which functions and which chosen statements run; kept, as many processes compile it."""
    import marshal

    name = Path(path).relative_to(ROOT).as_posix()
    kept = folder / "code" / f"{name.replace('/', '.')}.{sys.version_info[1]}"
    try:
        return marshal.loads(kept.read_bytes())
    except (OSError, ValueError, EOFError):
        pass
    import ast
    import json

    tree = ast.parse(Path(path).read_bytes())
    wanted = {}
    for number, fault in enumerate(json.loads((folder / "chosen.json").read_bytes())):
        if fault["file"] == name and fault["function"]:
            wanted.setdefault(fault["statement"], []).append(f"#{number}")

    def probed(body, marks):
        out = []
        for child in body:
            here = marks + wanted.get(child.lineno, []) if isinstance(child, ast.stmt) else marks
            marks = []
            out += [_call(mark, child) for mark in here]
            out.append(child)
        return out

    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            continue
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                marks, doc = [], False
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and field == "body":
                    marks = [f"{name}:{node.name}:{node.lineno}"]
                    doc = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
                inside = (
                    probed(body[1:] or [ast.copy_location(ast.Pass(), body[0])], marks) if doc else probed(body, marks)
                )
                setattr(node, field, [body[0], *inside] if doc else inside)
    code = compile(ast.fix_missing_locations(tree), path, "exec")
    kept.parent.mkdir(exist_ok=True)
    partial = kept.with_name(f"{kept.name}.{os.getpid()}")
    partial.write_bytes(marshal.dumps(code))
    partial.replace(kept)
    return code


def _call(mark, where):
    import ast

    call = ast.Expr(ast.Call(ast.Name("__probe__", ast.Load()), [ast.Constant(mark)], []))
    return ast.copy_location(call, where)


# pytest loads this file with `-p faults`; it imports pytest's hooks by their names


def pytest_runtest_logstart(nodeid, location):
    _reached.clear()


def pytest_runtest_logreport(report):
    """Record how long each test takes, with its set-up, and whether it passes."""
    folder = os.environ.get(PROBES)
    if folder and os.environ.get("PYTEST_XDIST_WORKER") is None:
        with open(Path(folder, "durations"), "a") as file:
            file.write(f"{report.nodeid}\t{report.when}\t{report.duration:.4f}\t{report.outcome}\n")


def pytest_runtest_setup(item):
    """Let a test that a fault makes wait for ever fail."""
    if os.environ.get(FAULT):
        import signal

        def hangs(*_):
            raise TimeoutError(f"{item.nodeid} hangs")

        signal.signal(signal.SIGALRM, hangs)
        signal.alarm(HANGS)


def pytest_runtest_teardown(item):
    if os.environ.get(FAULT):
        import signal

        signal.alarm(0)


# ---------------------------------------------------------------------------------------------------------------------
# the command
# ---------------------------------------------------------------------------------------------------------------------


@contextmanager
def hooked():
    """Let every Python of this environment import this file when it starts, until the end of the block."""
    import sysconfig

    hook = Path(sysconfig.get_path("purelib")) / "tokfmt_faults.pth"
    hook.write_text(
        f"import os; (os.environ.get({FAULT!r}) or os.environ.get({PROBES!r})) and exec("
        '"import importlib.util as u, sys; '
        f"s = u.spec_from_file_location('faults', {str(Path(__file__).resolve())!r}); "
        "sys.modules['faults'] = m = u.module_from_spec(s); s.loader.exec_module(m); m.install()\")\n"
    )
    try:
        yield
    finally:
        hook.unlink()


def words_of(*words):
    return [sys.executable, "-m", "pytest", "-p", "faults", "-p", "no:cacheprovider", "-q", *words]


def probe(build, faults, paths, jobs):
    """Run all tests once, to learn which test reaches which fault."""
    import json
    import shutil
    import subprocess

    shutil.rmtree(build / "probes", ignore_errors=True)
    (build / "probes").mkdir(parents=True)
    (build / "probes/chosen.json").write_text(json.dumps(faults))
    words = words_of("-n", str(jobs + 1), "--dist", "worksteal", *paths)
    with open(build / "probes/log", "w") as log:
        subprocess.run(words, cwd=ROOT, env={**os.environ, PROBES: str(build / "probes")}, stdout=log, check=False)


def reaching(build, faults):
    """For each fault the tests that reach it, as (seconds, test); tests that fail without a fault are left out."""
    seconds, failed = {}, set()
    for line in (build / "probes/durations").read_text().splitlines():
        test, _, duration, outcome = line.rsplit("\t", 3)
        seconds[test] = seconds.get(test, 0) + float(duration)
        if outcome == "failed":
            failed.add(test)
    marks, files = {}, {}
    for file in (build / "probes").glob("reached-*"):
        for line in file.read_text().splitlines():
            test, _, mark = line.rpartition("\t")
            if test in failed or test not in seconds:
                continue
            if mark.startswith("#"):
                marks.setdefault(int(mark[1:]), set()).add(test)
            else:
                files.setdefault(mark.partition(":")[0], set()).add(test)
    out = []
    for number, fault in enumerate(faults):
        tests = marks.get(number, set()) if fault["function"] else files.get(fault["file"], set())
        out.append(sorted((seconds[test], test) for test in tests))
    return out


def in_order(tests):
    """One case of each test function before the second of any; the quick ones first."""
    seen, ranked = {}, []
    for duration, test in tests:
        function = test.partition("[")[0]
        seen[function] = seen.get(function, -1) + 1
        ranked.append((seen[function], duration, test))
    chosen, total = [], 0.0
    for _, duration, test in sorted(ranked):
        total += duration
        if chosen and (total > GIVE_UP or len(chosen) == 1500):
            break
        chosen.append(test)
    return chosen


def find(build, fault, tests):
    """The first test that finds a fault; None if none does within the time."""
    import re
    import signal
    import subprocess

    if not tests:
        return None
    names = build / f"tests-{os.getpid()}-{abs(hash(fault))}"
    names.write_text("\n".join(tests) + "\n")
    build.mkdir(parents=True, exist_ok=True)
    words = words_of("-n0", "-x", "--no-header", "-rfE", "--tb=no", f"@{names}")
    process = subprocess.Popen(
        words, cwd=ROOT, env={**os.environ, **({FAULT: fault} if fault else {})}, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        printed = process.communicate(timeout=GIVE_UP + HANGS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    finally:
        names.unlink()
    if process.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", printed, re.MULTILINE)
    return failed[1] if failed else printed[-300:]


def main():
    import argparse

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--build", type=Path, default=ROOT / "build/faults")
    parser.add_argument("--kept", action="store_true", help="use the probes of the run before")
    parser.add_argument("paths", nargs="*", default=["tests"], help="tests (default: those of `make test`)")
    args = parser.parse_args()
    faults = choose(args.count, args.seed)
    with hooked():
        if not args.kept:
            probe(args.build, faults, args.paths, args.jobs)
        run(args, faults)


def run(args, faults):
    """Try each fault, and print what was found."""
    import json
    import time
    from collections import Counter
    from concurrent.futures import ThreadPoolExecutor

    reach = reaching(args.build, faults)

    def tried(number):
        fault, begin = faults[number], time.monotonic()
        where = f"{fault['file']}:{fault['number']}"
        found = find(args.build, where, in_order(reach[number]))
        result = {**fault, "reached": len(reach[number]), "found": found, "seconds": round(time.monotonic() - begin, 1)}
        result["equivalent"] = EQUIVALENT.get(f"{fault['file']}:{fault['function']}:{fault['kind']}:{fault['text']}")
        with open(args.build / "results.jsonl", "a") as file:
            file.write(json.dumps(result) + "\n")
        print(
            f"{number:3} {'found' if found else 'NOT FOUND'} {where} {fault['kind']}: {fault['text']} {found or ''}",
            flush=True,
        )
        return result

    (args.build / "results.jsonl").unlink(missing_ok=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(tried, range(len(faults))))
    unsteady = find(
        args.build, "", sorted({one["found"] for one in results if one["found"]} & {t for r in reach for _, t in r})
    )
    counted = [one for one in results if not one["equivalent"]]
    for kind, count in sorted(Counter(one["kind"] for one in counted).items()):
        print(f"{kind:20} {sum(bool(one['found']) for one in counted if one['kind'] == kind):3} of {count}")
    found = sum(bool(one["found"]) for one in counted)
    print(
        f"{found} of {len(counted)} faults are found: {found / len(counted):.1%}; {len(results) - len(counted)} change nothing"
    )
    if unsteady:
        print(f"a test that found a fault fails without one as well: {unsteady}")


EQUIVALENT = {
    'tokfmt/core/annotation.py:stated_tokens:boundary:accepted = "tail" if short or stored > size else ""': (
        "the sizes differ here, so > and >= say the same"
    ),
    'tokfmt/browser/data/opening.py:_at_once:boundary:return Opening(request, format_, (_fixed(reader),), source.separator, notes, "documents", info.tokens <= AT_ONCE)': (
        "at exactly the threshold both ways show the same rows"
    ),
    "tokfmt/commands/check/check.py:_Checking._walked.look_at:off by one:beyond, top = [], -1": (
        "any number below 0 says that no ID was seen"
    ),
    "tokfmt/formats/hdf5/check.py:_negative:boundary:if values.shape[1] > 2:": (
        "rows of two fields are refused before"
    ),
    "tokfmt/core/reader.py:largest_id:off by one:return int(tokens.max()) if len(tokens) else -1": (
        "any number below 0 says that there is no ID"
    ),
    "tokfmt/text/ingest.py:ingest_block:exchanged arguments:top, skipped = max(top, largest_id(ragged.tokens)), skipped + batch.skipped": (
        "max takes its arguments in any order"
    ),
    "tokfmt/formats/arrow/container.py:ParquetContainer._open:off by one:buffer_size=1 << 20,": (
        "how much is read ahead changes no result"
    ),
    "tokfmt/browser/tabs/sequences.py:SequencesTab._list_found:boundary:if len(rows) and not filtered.results.has(row) and (row < int(rows[-1]) or not filtered.running):": (
        "the row is not among those that were found, so that it is not the last of them"
    ),
    "tokfmt/browser/data/check.py:checked:off by one:asked = replace(request, paths=request.paths[:1], format=session.format_name, allow_loss=frozenset())": (
        "a check reports the datasets one after the other, and only the report of the first is asked for"
    ),
    "tokfmt/browser/data/workers.py:Job.__init__:condition:self.running, self._cancelled, self._last = True, False, 0.0": (
        "the fault that is chosen is in `running`, which the browser does not ask a job for"
    ),
    "tokfmt/formats/hdf5/sections.py:_attributes:off by one:stored = header_of(file, handle, dataset, Table(file, box_of(shape_of(file, dataset)), _ANY, 0))": (
        "no value is read through this table, so where it begins does not matter"
    ),
    "tokfmt/formats/jsonl/lines.py:TextFile.passing:boundary:if end - at < PIECE:": (
        "a last piece of the full size is read into a buffer of the same size, the old one or a new one"
    ),
    'tokfmt/mix/torch.py:Loader._compare:off by one:"content of samples": hashlib.sha256(content.encode()).hexdigest()[:16],': (
        "one digit more or less of a digest is compared alike"
    ),
    "tokfmt/commands/search/search.py:_by_number:dropped call:search.progress(b - a)": (
        "a search by numbers ends at once, so that how far it is is not seen"
    ),
    "tokfmt/formats/codecs.py::off by one:_WORDS = 1 << 20  # words of a Fletcher checksum that are summed at once": (
        "how many words are summed at a time changes no checksum"
    ),
    "tokfmt/browser/data/session.py:open_session:condition:if first.format is not None and first.format.prefix:": (
        "what was opened has a format, and of a format without a prefix the state is the same one"
    ),
    "tokfmt/commands/compare/fingerprint.py:RecordSide.neighbors:off by one:for block in self.records.blocks(1 << 20, first, last):": (
        "how much is read at a time changes no ID"
    ),
    "tokfmt/files/publisher.py:Publisher.__init__:off by one:self._kept, self._shared, self._lock, self._new = kept, shared, -1, False": (
        "any number below 0 says that no lock is held"
    ),
    'tokfmt/commands/show/export.py:_copy:dropped call:progress.phase("copying", len(rows), "records")': (
        "a progress that begins no phase shows nothing, and what is written is the same"
    ),
    "tokfmt/formats/modalities/check.py:_last_tokens:exchanged arguments:firsts = np.linspace(0, count - _RUN_IN_STORE, _RUNS_IN_STORE).astype(np.int64)": (
        "the runs are sorted before they are read"
    ),
    "tokfmt/model/readers.py::condition:def as_dataset(self, *, drawn: bool = False) -> Dataset:  # noqa: ARG002 - it has the separators of its sources": (
        "this reader does not read the argument"
    ),
    "tokfmt/source/manifest.py::off by one:_PIECE = 1 << 19  # bytes of a local file that are hashed at a time, which stay in the cache of a core": (
        "how much is hashed at a time changes no hash"
    ),
    "tokfmt/commands/convert/arrangement.py:contents_of:skipped check:if laid.lead is None and not laid.only_closed:": (
        "the other way looks at the last token of each sequence, which is the separator here"
    ),
}
"""Faults of `choose` that change nothing, as file:function:kind:line, each with the reason."""

if __name__ == "__main__":
    main()
