"""Write the groups of equal sequences as JSON Lines (`tokfmt stats --duplicate-groups`).

    {"group": 0, "count": 3, "length": 53, "unit": "tokens", "ids": [464, …], "text": "…",
     "members": [{"path": "a.pbin", "sequences": [17, 93]}, {"path": "b.pbin", "sequences": [4]}]}

A group is one line. Memory holds the members of all groups as numbers, and the text of a part of one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

import numpy as np

from tokfmt.commands.stats.duplicates import Groups
from tokfmt.core.ragged import Offsets

BEGINNING = b'{"group": 0, "count": '
"""The beginning of every such file that has a group."""

_GROUPS = 1 << 16  # groups whose beginnings are read together
_MEMBERS = 1 << 16  # members written at once

Beginning = tuple[list[int] | None, str | None]
"""The first IDs of a sequence, None for text; and its first characters, None without a tokenizer."""


@dataclass(frozen=True, slots=True)
class GroupedDataset:
    """A dataset whose sequences are grouped."""

    path: str
    unit: str  # "tokens" or "characters": the unit of lengths
    numbers: Callable[[Offsets], Offsets]  # of the sequences at ascending positions
    # takes numbers, positions and lengths of sequences, by position
    beginnings: Callable[[Offsets, Offsets, Offsets], list[Beginning]]


def write_groups(file: TextIO, groups: Groups, datasets: Sequence[GroupedDataset]) -> None:
    """Write one line per group. The members are positions."""
    numbered = groups.numbered([dataset.numbers for dataset in datasets])
    for first in range(0, len(groups), _GROUPS):
        last = min(first + _GROUPS, len(groups))
        for number, beginning in zip(
            range(first, last), _beginnings(groups, numbered, first, last, datasets), strict=True
        ):
            _write_group(file, numbered, number, beginning, datasets)


def _beginnings(
    groups: Groups, numbered: Groups, first: int, last: int, datasets: Sequence[GroupedDataset]
) -> list[Beginning]:
    """Return the beginning of the first member of each of some groups."""
    at = groups.offsets[first:last]
    beginnings: list[Beginning] = [(None, None)] * (last - first)
    for k, dataset in enumerate(datasets):
        own = np.flatnonzero(groups.datasets[at] == k)
        own = own[np.argsort(groups.members[at[own]])]
        begins = dataset.beginnings(numbered.members[at[own]], groups.members[at[own]], groups.lengths[first + own])
        for group, beginning in zip(own.tolist(), begins, strict=True):
            beginnings[group] = beginning
    return beginnings


def _write_group(
    file: TextIO, groups: Groups, number: int, beginning: Beginning, datasets: Sequence[GroupedDataset]
) -> None:
    start, stop = groups.offsets[number : number + 2].tolist()
    ids, text = beginning
    facts = {
        "group": number,
        "count": stop - start,
        "length": int(groups.lengths[number]),
        "unit": datasets[0].unit,
        "ids": ids,
        "text": text,
    }
    file.write(json.dumps(facts, ensure_ascii=False)[:-1] + ', "members": [')
    holders = groups.datasets[start:stop]
    for at, dataset in enumerate(np.unique(holders).tolist()):
        file.write(f'{", " if at else ""}{{"path": {json.dumps(datasets[dataset].path)}, "sequences": [')
        a, b = (start + int(np.searchsorted(holders, dataset, side)) for side in ("left", "right"))
        file.writelines(_listed(groups.members[a:b]))
        file.write("]}")
    file.write("]}\n")


def _listed(numbers: Offsets) -> Iterator[str]:
    """Yield the pieces of a list of numbers."""
    for a in range(0, len(numbers), _MEMBERS):
        yield (", " if a else "") + ", ".join(map(str, numbers[a : a + _MEMBERS].tolist()))
