"""No module of tokfmt imports itself through other modules.

Every import statement counts: at the top of a module, inside functions, and under TYPE_CHECKING, as a reader follows
all of them. The contract `acyclic_siblings` in pyproject.toml compares packages with packages beside them; it does not
see a circle between the `__init__` of a package and a module of that package.
"""

from __future__ import annotations

import graphlib

import grimp
import pytest


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
        ("tokfmt.core.version", "tokfmt"),
        ("tokfmt.formats.arrow.container", "tokfmt.formats.arrow"),
        ("tokfmt.ops.source.discover", "tokfmt.ops.source.open"),
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
    assert graph.direct_import_exists(importer="tokfmt.ops.source.open", imported="tokfmt.ops.source.recipe")
    assert graph.direct_import_exists(importer="tokfmt.api", imported="tokfmt.ops.stats.report")
