"""The page of the names of `tokfmt.plugin`: each with the first line of its docstring.

python tests/plugin_names.py > docs/plugin-names.md
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = """\
# Names for plug-ins

`tokfmt.plugin` has every name that a format of another package needs. [Write a format](../tokfmt/formats/README.md) explains how to use
them, and `help(tokfmt.plugin.NAME)` prints the rest of each description.

"""
TITLES = {
    "core.format": "Formats, readers and writers",
    "core.inspection": "Formats, readers and writers",
    "formats.flat": "Flat formats",
    "core.annotation": "Parts of flat files",
    "formats.record_files": "Files of records",
    "core.records": "Records",
    "core.reader": "Readers of tokens",
    "core.ragged": "Sequences in memory",
    "core.memory": "Sequences in memory",
    "files.file": "Read files",
    "formats.folders": "Read files",
    "core.output": "Write files",
    "files.place": "Places and stores",
    "files.store": "Places and stores",
    "errors": "Errors",
    "core.findings": "Findings of check",
    "files.fields": "Fields of files",
    "base.options": "Options",
    "wording": "Messages",
}


def first_line(module: str, name: str) -> str:
    """Return the first sentence of the docstring of a name in a module, or of the string below its assignment."""
    path = ROOT / "tokfmt" / f"{module.replace('.', '/')}.py"
    tree = ast.parse(path.read_text())
    for node, following in zip(tree.body, [*tree.body[1:], None]):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            return (ast.get_docstring(node) or "").split("\n\n")[0].split("\n")[0]
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            below = following.value if isinstance(following, ast.Expr) else None
            text = below.value if isinstance(below, ast.Constant) else ""
            return " ".join(str(text).split("\n\n")[0].split())
    return ""


def names() -> dict[str, list[tuple[str, str]]]:
    """Return the names under each title, each with its first line, in the order of `TITLES`."""
    found = {title: [] for title in TITLES.values()}
    for node in ast.parse((ROOT / "tokfmt" / "plugin.py").read_text()).body:
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            module = node.module.removeprefix("tokfmt.")
            is_module = (ROOT / "tokfmt" / module / f"{alias.name}.py").is_file()
            module = f"{module}.{alias.name}" if is_module else module
            if is_module:
                source = (ROOT / "tokfmt" / f"{module.replace('.', '/')}.py").read_text()
                text = ast.get_docstring(ast.parse(source)).split("\n")[0]
            else:
                text = first_line(module, alias.name)
            found[TITLES[module]].append((alias.name, text))
    return found


def page() -> str:
    """Return the page."""
    lines = []
    for title, listed in names().items():
        rows = sorted((f"| `{name}` | {text.replace('|', '/')} |" for name, text in listed), key=str.lower)
        lines += [f"## {title}", "", "| name | what it is |", "|---|---|", *rows, ""]
    return HEAD + "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
