"""The frameworks whose runs are read: the names of their order files, and the module of each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType

ORDER_FILES = {
    "megatron-core": re.compile(r"[0-9a-f]{32}-\w+(-\w+)?-(description\.txt|\w+_index\.npy)"),
    "gpt-neox": re.compile(
        r".+_(train|valid|test)(_\d+)?_indexmap_\w+sl_\d+s_\w+pi(_ac)?_(doc|sample|shuffle)_idx\.npy"
    ),
    "megatron-lm": re.compile(
        r"[0-9a-f]{32}(\.dsc|_(doc|sample|shuffle)_idx\.npy|(_sample)?_index\.npy)"
        r"|.+_(train|valid|test)_indexmap_\w+sl_\d+s_(doc|sample|shuffle)_idx\.npy"
    ),
    "olmo-core": re.compile(r"global_indices_\w+_v\d+\.npy|dataset-[0-9a-f]{64}"),
    "olmo": re.compile(r"global_indices\.npy|rank\d+\.tsv\.gz"),
}
"""The names of the order files of each framework."""


def module_of(framework: str) -> ModuleType:
    """Return the module of a framework."""
    return import_module(f"tokfmt.runs.{framework.replace('-', '_')}")


def framework_of(names: Iterable[str]) -> str | None:
    """Return the framework whose order files are among names; None without one."""
    names = list(names)
    return next((one for one, pattern in ORDER_FILES.items() if any(map(pattern.fullmatch, names))), None)


def is_only_order_files(names: Iterable[str]) -> bool:
    """Return True if a directory holds nothing but order files and folders of them."""
    names = [name for name in names if not name.startswith(".")]
    framework = framework_of(names)
    if framework is None:
        return False
    return all(ORDER_FILES[framework].fullmatch(name) or "." not in name for name in names)
