"""The rules that keep the tests independent of how tokfmt is built; `make lint` checks them.

A file of tests imports public names and values, and at most one module or package of tokfmt besides: the one under test, which the
file is named after; a file of a folder that is named after a package imports any modules of it. It replaces no name of tokfmt, and uses no private one. Nothing is asked of `../shared` while tests
are collected, as it may be absent. Helpers may do what they like.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = {
    "tokfmt", "tokfmt.cli.main", "tokfmt.errors",
    "tokfmt.model", "tokfmt.plugin", "tokfmt.sample", "tokfmt.testing", "tokfmt.torch",
}  # fmt: skip
"""`tokfmt.cli.main` is what click's CliRunner runs; docs/python.md lists the others."""
VALUES = {
    "tokfmt.core.annotation", "tokfmt.core.findings", "tokfmt.core.format", "tokfmt.core.inspection", "tokfmt.core.memory",
    "tokfmt.core.output", "tokfmt.core.ragged", "tokfmt.core.reader", "tokfmt.core.records", "tokfmt.files.fields",
    "tokfmt.files.file", "tokfmt.files.place", "tokfmt.wording",
}  # fmt: skip
"""What formats, readers and writers take and return: any file may import these modules."""
FOLDERS = {"recipe": "tokfmt.mix", "remote": "tokfmt.stores", "run": "tokfmt.run", "text": "tokfmt.text"}
"""Folders that are named after a package: their files may import all modules of it."""
PACKAGES = ("formats", "commands")
"""Their modules are parts of what they lie in: `tokfmt.formats.hdf5.table` is a part of `tokfmt.formats.hdf5`."""


def broken(path: Path) -> Iterator[tuple[int, str]]:
    """Yield a line number and a sentence for each rule that a file of tests breaks."""
    tree = ast.parse(path.read_bytes())
    ours: set[str] = set()
    inside: dict[str, int] = {}
    for node in ast.walk(tree):
        for name, module, line in imports(node):
            ours.add(name)
            if module not in PUBLIC | VALUES:
                inside.setdefault(part(module, path.parent.name).removesuffix("_arrays"), line)
    if len(inside) > 1:
        yield (
            max(inside.values()),
            f"imports more than one module of tokfmt that is not public: {', '.join(sorted(inside))}",
        )
    for module, line in inside.items():
        last = module.rpartition(".")[2]
        if last not in path.stem and module != FOLDERS.get(path.parent.name):
            yield line, f"is not named after {module}, the module that it tests"
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tokfmt"):
            for alias in node.names:
                if alias.name.startswith("_") and not alias.name.endswith("_"):
                    yield node.lineno, f"imports a private name: {alias.name}"
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("_"):
            if root(node.value) not in {"self", "cls", "os", "sys", "np"}:
                yield node.lineno, f"uses a private name: {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("setattr", "setitem", "patch", "patch.object")
        ):
            target = node.args[0] if node.args else None
            words = isinstance(target, ast.Constant) and str(target.value).startswith("tokfmt")
            if words or root(target) in ours:
                yield node.lineno, f"replaces a name of tokfmt: {ast.unparse(target or node)}"
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                if any(isinstance(call, ast.Name) and call.id == "golden" for call in ast.walk(decorator)):
                    yield decorator.lineno, "asks for a golden while it is collected"


def imports(node: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Yield each name that a statement imports from tokfmt, with the module that it lies in and the line."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.partition(".")[0] == "tokfmt":
                yield alias.asname or "tokfmt", alias.name, node.lineno
    elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tokfmt":
        for alias in node.names:
            module = f"{node.module}.{alias.name}"
            place = ROOT.joinpath(*module.split("."))
            is_module = place.with_suffix(".py").exists() or (place / "__init__.py").exists()
            yield alias.asname or alias.name, module if is_module else str(node.module), node.lineno


def part(module: str, folder: str) -> str:
    """The module, or what of tokfmt it is a part of, for a file of a folder of tests."""
    package = FOLDERS.get(folder, "")
    if package and module.startswith(f"{package}."):
        return package
    words = module.split(".")
    return ".".join(words[:3]) if words[1] in PACKAGES else "tokfmt.source" if words[1] == "source" else module


def root(node: ast.AST | None) -> str:
    """The name that an expression begins with."""
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def main() -> int:
    """Print what is broken; returns the exit code."""
    count = 0
    for path in sorted(ROOT.joinpath("tests").rglob("test_*.py")):
        for line, sentence in broken(path):
            print(f"{path.relative_to(ROOT)}:{line}: {sentence}")
            count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
