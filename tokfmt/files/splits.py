"""Find the splits of a directory, such as train and validation: by the names of its files, or by energon's split.yaml.

A folder or a part of a name states a split if it is one of the words below. Where names state splits, the files whose
names state none are those of train, or `others` if names state train too. So every format is asked the same question,
and none joins what its owner divided.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence

from tokfmt.errors import CorruptError, FormatError
from tokfmt.files.file import read_whole
from tokfmt.files.place import Place
from tokfmt.wording import counted, printable

_WORD = re.compile(r"(?<![a-z])(train|validation|valid|val|test|dev)(?![a-z])")
_USUAL, _OTHERS, _EXCLUDED = "train", "others", "excluded"
_STORE = (".zarray", ".zgroup", "zarr.json")
_ENERGON, _LARGEST = ".nv-meta", 1 << 24
_ITEM = re.compile(r"(?P<indent> *)(?:(?P<key>\w+): *(?:\[(?P<flow>.*)\])?|- +(?P<item>.+?)) *(?:#.*)?")
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")

Splits = Mapping[str, Sequence[Place]]


def splits_of(directory: Place, files: Sequence[Place], *, titled: bool = False) -> Splits:
    """Return the files or datasets of each split of a directory; empty if nothing states a split. `files` are those of
    its dataset, or the datasets below it. With `titled`, files are named by what is in them, so that all must state a
    split if any does.
    """
    if any(file.relative(directory) is None or file.name in _STORE for file in files):
        return {}  # An index names files elsewhere, or a store of zarr names its arrays.
    if _ENERGON in directory.entries() and (listed := directory / _ENERGON / "split.yaml").is_file():
        return _of_energon(listed, directory, files)
    return _of_names(directory, files, titled=titled)


def _of_names(directory: Place, files: Sequence[Place], *, titled: bool) -> Splits:
    """Return the files of each split by their names alone; see `splits_of`."""
    splits: dict[str, list[Place]] = {}
    for file in files:
        splits.setdefault(stated_split(file.parts[len(directory.parts) :]), []).append(file)
    others = splits.pop("", [])
    kinds = {_kind(file) for some in splits.values() for file in some}
    if splits and (usual := [file for file in others if _kind(file) in kinds]):
        if titled:
            return {}
        splits[_OTHERS if _USUAL in splits else _USUAL] = usual
    return splits


def notes_on_splits(paths: Sequence[Place], *, titled: bool) -> Iterator[str]:
    """Yield a note if the names of files that were given one by one, or match a pattern, state several splits."""
    above = next((parent for parent in paths[0].parents if all(parent in path.parents for path in paths)), None)
    splits = {} if above is None else _of_names(above, paths, titled=titled)
    if len(splits) > 1:
        each = ", ".join(f"{printable(name)} ({counted(len(some), 'path')})" for name, some in splits.items())
        yield f"several splits are read together: {each}"


def stated_split(names: Sequence[str]) -> str:
    """Return the split that the first of some names states, those of folders and a file; "" if none states one."""
    return next((words[-1] for words in (_WORD.findall(name.lower()) for name in names) if words), "")


def chosen_split(directory: Place, splits: Splits, wanted: str | None) -> str:
    """Return the split to read: the given one, else train, else the first."""
    if wanted is not None and wanted not in splits:
        raise FormatError(directory, f"holds no split {printable(wanted)}", found=", ".join(splits))
    return wanted or (_USUAL if _USUAL in splits else next(iter(splits)))


def hidden_for(directory: Place, splits: Splits, chosen: str) -> set[Place]:
    """Return the files of the other splits, and the folders that hold nothing else."""
    left_out = {file for name, files in splits.items() if name != chosen for file in files}
    kept = {above for file in splits[chosen] for above in file.parents}
    return left_out | {
        above for file in left_out for above in file.parents if above not in kept and directory in above.parents
    }


def refuse_several(directory: Place, splits: Splits) -> None:
    """Raise FormatError for datasets below a directory that are of several splits, if none was chosen."""
    each = ", ".join(f"{printable(name)} ({counted(len(some), 'dataset')})" for name, some in splits.items())
    remedy = f"--split {printable(next(iter(splits)))} reads one; name the directories to read several"
    raise FormatError(directory, f"holds datasets of several splits: {each}", remedy=remedy)


def _kind(file: Place) -> str:
    """Return the suffix of a file without numbers, which tells data from a description beside it."""
    return re.sub(r"\d+", "", file.suffix)


def _of_energon(listed: Place, directory: Place, files: Sequence[Place]) -> Splits:
    """Return the splits that the split.yaml of Megatron-Energon states. What it does not name is excluded."""
    parts: dict[str, list[str]] = {}
    key = ""
    for line in read_whole(listed, _LARGEST).decode("utf-8", "replace").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (found := _ITEM.fullmatch(line)) is None:
            raise CorruptError(listed, "is not a list of splits", found=printable(line[:60]))
        if found["key"]:
            key = found["key"]
            parts[key] = [name for name in (found["flow"] or "").split(",") if name.strip()]
        else:
            parts.setdefault(key, []).append(found["item"])
    named = {key: {one for name in names for one in _expanded(name.strip(" '\""))} for key, names in parts.items()}
    excluded = named.pop("exclude", set())
    names = {"/".join(file.parts[len(directory.parts) :]): file for file in files}
    if some := next((one for one in excluded if one.partition(".tar/")[1] or one.partition(".jsonl/")[1]), ""):
        remedy = "Name the files one by one to read all samples"
        raise FormatError(
            listed, "excludes samples of a file, which tokfmt cannot leave out", found=some, remedy=remedy
        )
    splits: dict[str, list[Place]] = {}
    for name, file in names.items():
        of = next(
            (key for key, patterns in named.items() if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)),
            "",
        )
        of = _EXCLUDED if any(fnmatch.fnmatchcase(name, one) for one in excluded) else of or _EXCLUDED
        splits.setdefault(of, []).append(file)
    return splits


def _expanded(name: str) -> list[str]:
    """Return the names that a name with a range in braces stands for."""
    if (found := _RANGE.search(name)) is None:
        return [name]
    first, last = int(found[1]), int(found[2])
    numbers = range(first, min(last, first + 10**6) + 1)
    each = (f"{name[: found.start()]}{n:0{len(found[1])}}{name[found.end() :]}" for n in numbers)
    return [one for expanded in each for one in _expanded(expanded)]
