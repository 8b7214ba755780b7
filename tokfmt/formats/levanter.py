"""Levanter's and Marin's token caches: a ledger, and one jagged array in zarr v3 or one per shard.

    file                               content
    FOLDER/shard_ledger.json           {"total_num_rows", "shard_rows": {name: rows}, "is_finished", "finished_shards":
                                        [names], "field_counts": {leaf: elements}, "field_counts_by_shard", "layout"}
    FOLDER/input_ids/offsets, .../data i64 and i32 or u32, zarr v3, sharded, blosc; shapes of 2^54 declared
    FOLDER/NAME/...                    layout "sharded": the same arrays for each of finished_shards, in that order

- offsets[0] is the number of rows R, and offsets[i] the end of row i - 1; row 0 begins at 0. Without any chunk, R is 0.
- The tokens are data[: offsets[R]]. A killed writer may leave more data, which is ignored.
- Without `layout`, a cache is consolidated, as the older package wrote it. An empty row repeats an offset; empty shards
  occur.
- A separator may follow each document, by the tokenizer's settings; preprocessor_metadata records them loosely.
Source: stanford-crfm/levanter 9263f81e and marin-levanter 0.2.227, store/{cache,jagged_array,tree_store}.py, run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from tokfmt.base.options import option
from tokfmt.core.annotation import Part, shown
from tokfmt.core.findings import Problem, fatal
from tokfmt.core.format import Confidence, Hints, Probe
from tokfmt.core.ragged import Offsets
from tokfmt.core.reader import Damage, Separators
from tokfmt.errors import NO_DAMAGE, CorruptError, FormatError, OptionError, UnsafeError, UnsupportedError
from tokfmt.files.fields import Field
from tokfmt.files.file import names_in, open_file
from tokfmt.files.place import AnyPlace, Place
from tokfmt.formats.cells import chunked_tokens
from tokfmt.formats.flat import FileLayout, FlatFormat, joined
from tokfmt.formats.folders import inside, json_object, whole_number
from tokfmt.formats.zarr_arrays.array import Array, dtype_of
from tokfmt.formats.zarr_arrays.store import Directory, json_of
from tokfmt.wording import printable

LEDGER = "shard_ledger.json"
_BUILD = "__shards__"  # folder of an unfinished build of the older package
_RATIO, _ROWS = 1100, 1 << 20  # rows, at most: 1,100 per stored byte of offsets, plus 2^20


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading caches."""

    leaf: str = option("input_ids", "array of the cache to read")
    holes: Literal["refuse", "fill"] = option("refuse", "missing chunks are an error, or zeros")
    rows: Literal["documents", "blocks"] = option(
        "documents", "rows are documents, or blocks of a stream that --eos splits"
    )
    overlap: int | None = option(None, "tokens of a block that repeat the block before, which are left out", minimum=0)


class Shard(NamedTuple):
    """A store in the ledger: its folder, its number of rows, and its number of elements if the ledger states it."""

    folder: Place
    rows: int
    elements: int | None


class Levanter(FlatFormat):
    """The format of Levanter's token caches."""

    name = "levanter"
    title = "Levanter and Marin token caches"
    read_only = True
    stores = "sequences in order, empty ones too"
    read_options = ReadOptions
    pattern, unreadable = re.escape(LEDGER), "TF781"
    below = r"shard_ledger\.json(\.bak)?|\.success|zarr\.json|\d+"
    member = LEDGER

    def sniff(self, probe: Probe) -> Confidence | None:
        return Confidence.CERTAIN if {LEDGER, _BUILD} & set(probe.entries) else None

    def destination(self, path: AnyPlace, options: Any) -> AnyPlace:  # noqa: ARG002 - none
        raise OptionError(f"{path}: tokfmt cannot write Levanter's caches. Write jsonl or parquet, and build a cache")

    def examine(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> FileLayout:
        path = paths[0] / LEDGER
        ledger = {} if (paths[0] / _BUILD).exists() and not path.exists() else json_object(open_file(path))
        shards, problems = _shards(paths[0], ledger, options.leaf)
        looks = [_look(shard, options) for shard in shards]
        if hints.allow_partial:
            looks = [_certain(shard, look) for shard, look in zip(shards, looks, strict=True)]
        rows = joined([FileLayout(extents=(), starts=np.zeros(1, np.int64)), *looks])
        metadata = ledger.get("metadata")
        recorded = metadata.get("preprocessor_metadata") if isinstance(metadata, dict) else None
        tokenizer = recorded.get("tokenizer") if isinstance(recorded, dict) else None
        others = _others(shards[0].folder, options.leaf) if shards else []
        return replace(
            rows,
            separators=Separators.TRAILING,
            problems=[*problems, *rows.problems],
            sections=[
                Part(
                    "ledger",
                    path,
                    lambda: [Field(shown(key), None, 0, shown(json.dumps(value))) for key, value in ledger.items()],
                )
            ],
            notes=(f"other arrays are not read: {', '.join(others)}",) if others else (),
            extras={
                "shards": len(shards),
                "layout": shown(ledger.get("layout", "consolidated")),
            },
            tokenizers=(shown(tokenizer),) if tokenizer else (),
        )


def _shards(folder: Place, ledger: Mapping[str, Any], leaf: str) -> tuple[list[Shard], list[Problem]]:
    """Return the stores that the ledger lists, and the problems of its names and sums."""
    path, layout = folder / LEDGER, ledger.get("layout", "consolidated")
    if ledger.get("is_finished") is not True:
        raise UnsupportedError(path, "the cache was not finished", expected="is_finished", remedy="Build it to its end")
    total = whole_number(path, "total_num_rows", ledger.get("total_num_rows"))
    counted = _count(path, ledger.get("field_counts"), leaf)
    if layout == "consolidated":
        return [Shard(folder, total, counted)], []
    names, rows = ledger.get("finished_shards"), ledger.get("shard_rows")
    by_shard = ledger.get("field_counts_by_shard") or {}
    if not (layout == "sharded" and isinstance(names, list) and isinstance(rows, dict) and isinstance(by_shard, dict)):
        expected = "consolidated or sharded" if layout != "sharded" else "finished_shards and shard_rows"
        raise UnsupportedError(path, "layout", expected=expected, found=str(layout)[:60])
    found, problems = list[Shard](), list[Problem]()
    for name in names:
        try:
            store = inside(folder, name)
        except FormatError as error:
            problems.append(fatal("TF786" if isinstance(error, UnsafeError) else "TF783", error))
            continue
        elements = _count(path, by_shard.get(name), leaf)
        found.append(Shard(store, whole_number(path, f"shard_rows of {printable(name)}", rows.get(name)), elements))
    if len({shard.folder for shard in found}) != len(found):
        problems.append(fatal("TF783", CorruptError(path, "lists a shard twice")))
    sums = [("shards of which only elements are counted", 0, len(by_shard.keys() - {*rows, *map(str, names)}))]
    sums.append(("rows of the finished shards", total, sum(shard.rows for shard in found)))
    if counted is not None and not any(shard.rows and shard.elements is None for shard in found):
        sums.append((f"elements of {leaf} in the finished shards", counted, sum(one.elements or 0 for one in found)))
    for what, summed, held in sums:
        if not problems and held != summed:
            problems.append(fatal("TF783", CorruptError(path, what, expected=summed, found=held)))
    return found, problems


def _count(path: Place, counts: object, leaf: str) -> int | None:
    """Return the number of elements of a leaf; None if the ledger does not state it."""
    count = counts.get(leaf) if isinstance(counts, dict) else None
    return None if count is None else whole_number(path, "field_counts", count)


def _look(shard: Shard, options: ReadOptions) -> FileLayout:
    """Return the layout of one store; a layout without items and with a problem if it cannot be read."""
    code = "TF782"
    try:
        inside(shard.folder, options.leaf)  # A leaf may be below another one, as those of a list are: input_ids/0.
        store, leaf = Directory(shard.folder), options.leaf
        _check_leaf(shard.folder, store, leaf)
        code, fill = "TF784", options.holes == "fill"
        starts = _starts(shard, store, leaf, fill=fill)
        tokens = int(starts[-1])
        data = Array(store, f"{leaf}/data", 3, fill=fill, length=tokens).complete()
    except FormatError as error:
        code = "TF786" if isinstance(error, UnsafeError) and "leaves" in error.what else code
        return FileLayout(extents=(), problems=[fatal(code, error)])
    metadata = open_file(data.layout.where)
    extent = chunked_tokens(data, metadata)
    metadata.close()
    return FileLayout(extents=[extent], starts=starts)


def _certain(shard: Shard, look: FileLayout) -> FileLayout:
    """Return the layout of a store; if it cannot be read, an empty layout with the damage."""
    failed = next((problem.error for problem in look.problems if not isinstance(problem.error, NO_DAMAGE)), None)
    if failed is None:
        return look
    return FileLayout(
        extents=(), starts=np.zeros(1, np.int64), damage=(Damage(failed.sentence, shard.rows, shard.elements),)
    )


def _check_leaf(folder: Place, store: Directory, leaf: str) -> None:
    """Raise an error if a leaf is not a one-dimensional array of integers.

    Raises:
        CorruptError: The store does not exist.
        UnsupportedError: The leaf is missing, or of another kind.
    """
    if not folder.is_dir():
        raise CorruptError(folder, "is missing: the ledger lists it as finished", remedy="Copy it again")
    if not {"offsets", "data"} <= (names := store.names(leaf)) or "shapes" in names:
        what, others = f"has no array {leaf} of one dimension", _others(folder, leaf)
        below = next((name for name in others if name.startswith(f"{leaf}/")), (others or [""])[0])
        remedy = f"--from-opt leaf={below} reads it" if below else None
        raise UnsupportedError(folder, what, found=", ".join(others) or "nothing", remedy=remedy)
    raw = json_of(store, f"{leaf}/data/zarr.json") or {}
    if dtype_of(raw, 3) is None:
        found = str(raw.get("data_type"))[:60]
        raise UnsupportedError(folder / leaf, "does not hold token IDs", expected="integers", found=found)


def _starts(shard: Shard, store: Directory, leaf: str, *, fill: bool) -> Offsets:
    """Return int64[rows + 1]: the position of the first token of each row, and the end."""
    first = Array(store, f"{leaf}/offsets", 3, ["int64"], fill=fill, length=1).complete()
    rows = int(first.read(0, 1)[0])
    if rows != shard.rows:
        raise CorruptError(first.path, "rows in offsets[0]", expected=shard.rows, found=rows)
    if rows > _ROWS + _RATIO * first.stored_bytes():
        raise UnsafeError(first.path, "declares far more rows than it stores", found=f"{rows:,} rows")
    array = Array(store, f"{leaf}/offsets", 3, ["int64"], fill=fill, length=rows + 1).complete()
    starts = array.read(0, rows + 1).view(np.int64)
    starts[0] = 0  # instead of the number of rows
    if (falls := np.flatnonzero(starts[1:] < starts[:-1])).size:
        raise CorruptError(array.path, f"decreases at row {int(falls[0]):,}", remedy="Copy or build it again")
    if shard.elements not in (None, end := int(starts[-1])):
        raise CorruptError(array.path, f"elements of {leaf}", expected=shard.elements, found=end)
    return starts


def _others(folder: Place, leaf: str) -> list[str]:
    """Return up to 9 other leaves of a store, in order of their names. Leaves of lists are below a directory."""
    found = list[str]()
    for name in sorted(names_in(folder)):
        if not (folder / name).is_dir():
            continue
        below = names_in(folder / name)
        found += [name] if "offsets" in below else [f"{name}/{one}" for one in sorted(below)]
    leaves = (name for name in found if name != leaf and (folder / name / "offsets").is_dir())
    return [printable(name) for name in islice(leaves, 9)]


FORMAT = Levanter()
