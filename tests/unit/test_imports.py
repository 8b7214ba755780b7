"""No module of tokfmt imports itself through other modules.

Every import statement counts: at the top of a module, inside functions, and under TYPE_CHECKING, as a reader follows
all of them. The contract `acyclic_siblings` in pyproject.toml compares packages with packages beside them; it does not
see a circle between the `__init__` of a package and a module of that package.
"""

from __future__ import annotations

import graphlib

import grimp
import pytest
from paths import ROOT


def imports() -> grimp.ImportGraph:
    return grimp.build_graph("tokfmt", cache_dir=None)


def check_acyclic(graph: grimp.ImportGraph) -> None:
    """Raise CycleError with a circle of modules, if there is one."""
    found = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    graphlib.TopologicalSorter(found).prepare()


def test_no_module_imports_itself_through_others():
    check_acyclic(imports())


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("tokfmt.base.version", "tokfmt"),
        ("tokfmt.formats.arrow.container", "tokfmt.formats.arrow"),
        ("tokfmt.source.discover", "tokfmt.source.open"),
        ("tokfmt.dataset", "tokfmt.api"),
    ],
)
def test_a_circle_is_found(importer, imported):
    graph = imports()
    graph.add_import(importer=importer, imported=imported)
    with pytest.raises(graphlib.CycleError):
        check_acyclic(graph)


def test_imports_inside_functions_and_for_types_count():
    graph = imports()
    assert graph.direct_import_exists(importer="tokfmt.mix.format", imported="tokfmt.mix.open")
    assert graph.direct_import_exists(importer="tokfmt.api", imported="tokfmt.commands.stats.report")


PARTS = {
    "cli": ("cli", "__main__"),
    "browser": ("browser",),
    "torch": ("torch", "mix.torch"),
    "api": ("api", "dataset", "recipe_dataset", "settings", "testing"),
    "commands": ("commands",),
    "mix": ("mix",),
    "source": ("source",),
    "run": ("run",),
    "registry, plugin": ("registry", "unsupported", "plugin"),
    "text": ("text",),
    "formats": ("formats",),
    "model": ("model",),
    "core": ("core",),
    "stores": ("stores",),
    "files": ("files",),
    "base": ("base", "errors", "wording"),
}
"""The parts of the picture in CONTRIBUTING.md, and the packages and modules of each. Data (`sample`, `schemas`) is none.

What `tokfmt.mix.torch` imports, it imports as a user: it belongs to the part of `tokfmt.torch`.
"""


def picture(graph: grimp.ImportGraph) -> str:
    """Draw the parts as Mermaid does, with an arrow from each to those that it imports, unless another path shows it."""
    arrows: dict[str, set[str]] = {part: set() for part in PARTS}
    for module in graph.modules:
        part = part_of(module)
        for imported in graph.find_modules_directly_imported_by(module):
            other = part_of(imported)
            if part is not None and other is not None and part != other:
                arrows[part].add(other)
    below: dict[str, set[str]] = {}
    for part in graphlib.TopologicalSorter(arrows).static_order():
        below[part] = set().union(*({other} | below[other] for other in arrows[part]))
    lines = ["graph TD"]
    for part, others in arrows.items():
        shown = {other for other in others if not any(other in below[between] for between in others)}
        lines += [f"    {words(part)} --> {words(other)}" for other in PARTS if other in shown]
    return "\n".join(lines)


def part_of(module: str) -> str | None:
    """The part that a module belongs to: that of its package within a package, else that of its package."""
    path = module.split(".")[1:]
    names = (".".join(path[:2]), ".".join(path[:1]))
    return next((part for name in names for part, modules in PARTS.items() if name in modules), None)


def words(part: str) -> str:
    """A node of Mermaid: its key, and what it shows."""
    return f'{part.replace(", ", "_")}["{part}"]'


def test_the_picture_of_the_parts_is_that_of_the_imports():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    drawn = text.partition("```mermaid\n")[2].partition("\n```")[0]
    assert drawn == picture(imports())
