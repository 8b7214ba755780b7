"""Read names such as `train-00001-of-00003.parquet`, which state how many files a dataset has.

A second upload with another number of files leaves the first one in the folder, and an interrupted copy leaves holes.
Both are in the names alone, so every format is asked the same question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tokfmt.errors import CorruptError
from tokfmt.files.place import Place
from tokfmt.wording import counted, printable

_NAME = re.compile(r"(?P<prefix>.*?)(?P<number>\d+)(?P<of>[-_]of[-_])(?P<count>\d+)(?P<hash>-\w+)?(?P<suffix>\..*)?")
_LAST = re.compile(r"(.*?)(\d+)(\D*)")
_NUMBER = re.compile(r"(\d+)(?![0-9A-Za-z])")
"""A number in the name of a file; the digits of a hash have letters behind them."""
_ENDS = "-_."  # between the name of a set and a number
_SHOWN = 3


class ShardSet(NamedTuple):
    """The files of a directory whose names have one prefix and state one number of files."""

    name: str  # the prefix without the character that separates it from the number, such as "train"
    pattern: str  # shell pattern that matches the names
    total: int  # number of files that the names state
    files: dict[int, list[str]]  # by number; several names of one number are two uploads
    template: str  # with {} in the place of the number
    suffix: str  # end of the names, from their first dot behind the numbers

    @property
    def size(self) -> int:
        """The number of files."""
        return sum(map(len, self.files.values()))

    @property
    def numbers(self) -> range:
        """The numbers that the set should have, from 0 or 1. Some writers count from 0 to the number in the names."""
        last = self.total in self.files
        return range(int(last and 0 not in self.files), self.total + last)

    @property
    def missing(self) -> Iterator[str]:
        """The names of the files that are not there."""
        return (self.template.format(k) for k in self.numbers if k not in self.files)


def shard_sets(names: Iterable[str]) -> list[ShardSet]:
    """Return the sets of the names that state how many files there are, in the order of their first names."""
    sets: dict[tuple[str, ...], ShardSet] = {}
    for name in names:
        if "of" not in name or (match := _NAME.fullmatch(name)) is None:
            continue
        prefix, of, count, suffix = match["prefix"], match["of"], match["count"], match["suffix"] or ""
        key = prefix, of, count, suffix
        if key not in sets:
            end = f"{of}{count}{'-*' if match['hash'] else ''}{suffix}"
            template = f"{_literal(prefix)}{{:0{len(match['number'])}}}{_literal(end)}"
            sets[key] = ShardSet(prefix.rstrip(_ENDS), f"{prefix}*{end}", int(count), {}, template, suffix)
        sets[key].files.setdefault(int(match["number"]), []).append(name)
    return list(sets.values())


def _set_of(name: str) -> str:
    """Return the name of the set of a file; "" if its name states no number of files."""
    match = _NAME.fullmatch(name)
    return match["prefix"].rstrip(_ENDS) if match else ""


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def follows(before: str, name: str) -> bool:
    """Return False if the names of two files differ only in their number, and the second is not the next one."""
    (home, first), (other, second) = map(_numbered, (before, name))
    return home != other or first is None or second == first + 1


def _numbered(name: str) -> tuple[tuple[str, ...], int | None]:
    """Return the parts of a name that its series has in common, and its number; None without one."""
    if match := _NAME.fullmatch(name):
        return (match["prefix"], match["of"], match["count"], match["suffix"] or ""), int(match["number"])
    if match := _LAST.fullmatch(name):
        return (match[1], match[3]), int(match[2])
    return (name,), None


def shard_problem(names: Iterable[str]) -> str:
    """Describe two sets of one name, two files of one number, or a set with holes; "" if each set is complete."""
    sets, alike_of = shard_sets(names), dict[tuple[str, str], list[ShardSet]]()
    for one in sets:
        alike_of.setdefault((one.name, one.suffix), []).append(one)
    for (name, _), alike in alike_of.items():
        if len(alike) > 1:
            each = [f"{counted(one.size, 'file')} of {printable(one.pattern)}" for one in alike]
            return f"holds {len(alike)} sets of {printable(name) or 'files'}: {', '.join(each)}"
    for one in sets:
        if twice := next((some for some in one.files.values() if len(some) > 1), None):
            return f"holds two files of one number: {', '.join(map(printable, twice))}"
        if shown := ", ".join(map(printable, islice(one.missing, _SHOWN))):
            more = len(one.numbers) - sum(number in one.numbers for number in one.files) - _SHOWN
            return f"lacks {shown}{f' and {more:,} more' if more > 0 else ''} of {counted(len(one.numbers), 'file')}"
        if beyond := next((some[0] for number, some in one.files.items() if number not in one.numbers), ""):
            return f"holds {printable(beyond)}, which is beyond {counted(one.total, 'file')}"
    return ""


def refuse_incomplete(
    path: Place, names: Iterable[str], *, partial: bool = False, left_out: Collection[str] = ()
) -> str:
    """Refuse a directory if the names of its files contradict each other; see `shard_problem`. The names are those in
    one directory. With `partial`, holes are accepted. A second set is never accepted, as its documents are those of the
    first. `left_out` are names of sets that are not read, such as other splits. The result is a sentence about the
    holes; "" if there is none.
    """
    problem = shard_problem(name for name in names if not left_out or _set_of(name) not in left_out)
    holes = problem.startswith("lacks")
    if problem and not (holes and partial):
        remedy = "Find it, or give the files one by one"
        if not holes:
            remedy = "Keep the files of one upload, or name them by a pattern"
        raise CorruptError(path, problem, remedy=remedy)
    return f"{printable(path)} {problem}" if problem else ""


def notes_on_shards(paths: Sequence[Place], *, numbered: bool = False) -> Iterator[str]:
    """Yield a note for each directory in which the names of several given files contradict each other, or leave out a
    number if numbers count files.
    """
    if len(paths) > 1:
        for directory, names in names_by_directory(paths).items():
            problem = shard_problem(names)
            problems = [problem] if problem else missing_numbers(directory / name for name in names if numbered)
            yield from (f"{printable(directory)}, as far as its files are read, {problem}" for problem in problems)


def missing_numbers(files: Iterable[Place]) -> Iterator[str]:
    """Describe numbers that are left out in the names of files.

    Numbers are compared among names of a directory that are equal before them. If most of them are left out, they do
    not count files.
    """
    series: dict[tuple[object, ...], dict[int, str]] = {}
    for file in files:
        parts = _NUMBER.split(file.name)
        for k in range(1, len(parts), 2):
            key = file.parent, "".join(parts[:k]), parts[k + 1], parts[-1], k + 2 == len(parts)
            series.setdefault(key, {})[int(parts[k])] = parts[k]
    told = set[tuple[object, int]]()  # a file may have others of its number beside it
    for (home, before, behind, end, last), numbers in series.items():
        low, high = min(numbers), max(numbers)
        if not 0 < (missing := high - low + 1 - len(numbers)) < len(numbers):
            continue
        first = next(number for number in range(low, high) if number not in numbers)
        if ((home, before), first) in told:
            continue
        told.add(((home, before), first))
        width = len(numbers[low]) if len(numbers[low]) == len(numbers[high]) else 0
        name = printable(f"{before}{first:0{width}}{behind}{'' if last else f'*{end}'}")
        more = f" and {missing - 1:,} more" if missing > 1 else ""
        yield f"lacks {name}{more}: the others are numbered from {low:,} to {high:,}"


def names_by_directory(paths: Iterable[Place]) -> dict[Place, list[str]]:
    """Return the names of files by their directory, in order."""
    names: dict[Place, list[str]] = {}
    for path in paths:
        names.setdefault(path.parent, []).append(path.name)
    return names
