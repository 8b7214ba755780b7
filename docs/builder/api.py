"""Write the page of the Python API from the source: signatures and Google docstrings, without an import."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = {
    "open": "tokfmt/api.py",
    "info": "tokfmt/api.py",
    "fleet": "tokfmt/api.py",
    "convert": "tokfmt/api.py",
    "stats": "tokfmt/api.py",
    "check": "tokfmt/api.py",
    "diff": "tokfmt/api.py",
    "show": "tokfmt/api.py",
    "overlap": "tokfmt/api.py",
    "recipe": "tokfmt/recipe_dataset.py",
    "list_formats": "tokfmt/registry.py",
}
"""The functions of `tokfmt.__all__`, and their files."""
CLASSES = {
    "tokfmt.Dataset": "tokfmt/dataset.py",
    "tokfmt.torch.Loader": "tokfmt/mix/torch.py",
}
RESULTS = {
    "Overview": "tokfmt/commands/info.py",
    "Fleet": "tokfmt/commands/fleet.py",
    "Conversion": "tokfmt/commands/convert/request.py",
    "DiffReport": "tokfmt/commands/compare/diff.py",
    "Preview": "tokfmt/commands/show/show.py",
    "Shown": "tokfmt/commands/show/show.py",
    "OverlapReport": "tokfmt/commands/overlap/report.py",
    "EvalOverlap": "tokfmt/commands/overlap/report.py",
    "ItemOverlap": "tokfmt/commands/overlap/report.py",
    "Ragged": "tokfmt/core/ragged.py",
    "Facts": "tokfmt/core/reader.py",
    "Info": "tokfmt/core/reader.py",
}
"""Classes of results, of which the attributes are listed."""
ERRORS = "tokfmt/errors.py"
_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):$", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}[\w, ]+): (.*)$")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def api_page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from ("# Python API", "", "Look up every public function, class and attribute of the package.", "")
    yield from ("What is listed here is stable: [compatibility](compatibility.md).", "", "## Functions", "")
    for name, file in FUNCTIONS.items():
        yield from _function(_found(file, name), f"tokfmt.{name}", "###")
    yield from ("## Classes", "")
    for name, file in CLASSES.items():
        node = _found(file, name.rpartition(".")[2])
        assert isinstance(node, ast.ClassDef), name
        yield from (f"### {name}", "", *_documented(node))
        for method in node.body:
            public = isinstance(method, Function) and not method.name.startswith("_") and ast.get_docstring(method)
            if public and isinstance(method, Function):
                is_property = any(isinstance(one, ast.Name) and one.id == "property" for one in method.decorator_list)
                yield from _function(
                    method, f"{name.rpartition('.')[2]}.{method.name}", "####", is_property=is_property
                )
    yield from ("## Results", "")
    for name, file in RESULTS.items():
        yield from (f"### {name}", "", *_documented(_found(file, name)))
    yield from ("## Errors", "", "Every error is a `tokfmt.TokfmtError`.")
    yield from ("`tokfmt.errors` has its subclasses, and warnings:", "")
    yield from ("| class | base | meaning |", "|---|---|---|")
    raised = {"Exception", "UserWarning"}
    for node in ast.parse((ROOT / ERRORS).read_text()).body:
        if isinstance(node, ast.ClassDef) and raised & {*map(ast.unparse, node.bases)}:
            raised.add(node.name)
            bases = ", ".join(map(ast.unparse, node.bases))
            text = ast.get_docstring(node) or ""
            yield f"| `{node.name}` | `{bases}` | {_cell(text.partition(chr(10) + chr(10))[0])} |"
    yield ""


def _found(file: str, name: str) -> Function | ast.ClassDef:
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
            return node
    raise LookupError(f"{file} has no {name}")


def _function(node: Function | ast.ClassDef, title: str, level: str, *, is_property: bool = False) -> Iterator[str]:
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)), title
    yield from (f"{level} {title}", "")
    if not is_property:
        yield from ("```text", *_signature(node, title), "```", "")
    yield from _documented(node)


def _signature(node: Function, title: str) -> Iterator[str]:
    """Yield the lines of a signature: one parameter per line."""
    whole = node.args
    positional = [*whole.posonlyargs, *whole.args]
    defaults: list[ast.expr | None] = [*[None] * (len(positional) - len(whole.defaults)), *whole.defaults]
    listed = [_parameter(one, default) for one, default in zip(positional, defaults, strict=True) if one.arg != "self"]
    if whole.vararg:
        listed.append(f"*{_parameter(whole.vararg, None)}")
    elif whole.kwonlyargs:
        listed.append("*")
    listed += [_parameter(one, default) for one, default in zip(whole.kwonlyargs, whole.kw_defaults, strict=True)]
    if whole.kwarg:
        listed.append(f"**{_parameter(whole.kwarg, None)}")
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    if not listed:
        yield f"{title}(){result}"
        return
    yield f"{title}("
    yield from (f"    {one}," for one in listed)
    yield f"){result}"


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(one.annotation)}" if one.annotation is not None else ""
    return f"{one.arg}{kind}{f' = {ast.unparse(default)}' if default is not None else ''}"


def _documented(node: Function | ast.ClassDef) -> Iterator[str]:
    """Yield a docstring: its paragraphs, then a table for each section."""
    text = inspect.cleandoc(ast.get_docstring(node) or "")
    first, *sections = _SECTION.split(text)
    yield from _paragraphs(first)
    for heading, content in zip(sections[::2], sections[1::2], strict=True):
        entries, rest = _entries(inspect.cleandoc(content))
        title = {"Args": "Arguments"}.get(heading, heading)
        if entries and heading in ("Args", "Attributes", "Raises"):
            yield from ("", f"| {title.lower()} | meaning |", "|---|---|")
            yield from (f"| `{name}` | {_cell(meaning)} |" for name, meaning in entries)
            yield ""
            if rest:
                yield from (_inline(rest), "")
        else:
            yield from (f"**{title}**: {_inline(' '.join(content.split()))}", "")


def _paragraphs(text: str) -> Iterator[str]:
    for part in text.strip("\n").split("\n\n"):
        lines = part.splitlines()
        if lines and all(line.startswith("    ") for line in lines):
            yield from ("```text", *(line[4:] for line in lines), "```", "")
        elif lines and all(re.match(r"- |  ", line) for line in lines):
            yield from (*map(_inline, lines), "")
        elif part.strip():
            yield from (_inline(" ".join(part.split())), "")


def _entries(text: str) -> tuple[list[tuple[str, str]], str]:
    """Return the entries of a section, and its other text."""
    found, rest = list[tuple[str, str]](), list[str]()
    for line in text.splitlines():
        entry = _ENTRY.match(line)
        if entry:
            found.append((entry[1], entry[2]))
        elif found and (line.startswith("    ") or not line.strip()):
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        else:
            rest.append(line.strip())
    return found, " ".join(rest).strip()


def _inline(text: str) -> str:
    """Return prose with characters that Markdown would read as HTML or as links escaped, outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"\[", r"\\[", part) for part in parts[::2]]
    parts[::2] = [re.sub(r"\bdocs/(\w+)\.md", r"[\g<0>](\g<1>.md)", part) for part in parts[::2]]
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def _cell(text: str) -> str:
    return _inline(" ".join(text.split())).replace("|", "\\|")
