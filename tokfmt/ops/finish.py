"""`tokfmt convert --finish`: publish what the shards of a conversion have written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokfmt
from tokfmt.core.errors import ConversionError, printable
from tokfmt.core.publish import hidden_sibling, write_error
from tokfmt.ops.arrangement import AS_IT_IS
from tokfmt.ops.conversion import Run
from tokfmt.ops.progress import Progress, Silent
from tokfmt.ops.request import Conversion, Request
from tokfmt.ops.sources import SourceRequest
from tokfmt.ops.workplace import read_conversion
from tokfmt.run.journal import Shard, read_journal


def finish(
    destination: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    executor: str = "threads",
    overwrite: bool = False,
    verify: bool = False,
    manifest: bool = True,
    progress: Progress | None = None,
) -> Conversion:
    """Publish a destination whose shards (`convert(..., shard=(i, n))`) are all written.

    Args:
        destination: As the shards were given it.
        jobs, executor, overwrite, verify, manifest, progress: As for `convert`. Sources and options are the shards'.

    Raises:
        ConversionError: Shards are missing (they are named), or are being written.
        TokfmtError: As for `convert`. What the shards have written stays.
    """
    home = hidden_sibling(Path(os.path.abspath(destination)), "shards")
    kept = read_conversion(home / "conversion.json")
    if kept is None:
        raise ConversionError(
            f"{printable(destination)}: there are no shards of it. Write them first, with --shard I/N"
        )
    version = kept["facts"].get("the version of tokfmt")
    if version != tokfmt.__version__:
        raise ConversionError(
            f"{printable(destination)}: its shards were written by tokfmt {version}, this is {tokfmt.__version__}"
        )
    request = replace(
        _rebuilt(kept["request"]), destination=Path(destination), jobs=max(1, jobs or os.cpu_count() or 1),
        executor=executor, overwrite=overwrite, verify=verify, manifest=manifest,
    )  # fmt: skip
    _need_all(home, request.destination, request.finish)
    try:
        return Run(request, progress or Silent()).convert()
    except OSError as error:
        raise write_error(request.destination, error) from error


def _rebuilt(stored: Mapping[str, Any]) -> Request:
    """The request that all shards shared, from JSON."""
    given = dict(stored["source"])
    source = SourceRequest(**{**given, "paths": tuple(given["paths"]), "drop": frozenset(given["drop"])})
    return Request(
        **{**stored, "source": source, "arrangement": AS_IT_IS, "shard": None, "finish": int(stored["shard"]["count"])}
    )


def _need_all(home: Path, destination: Path, count: int) -> None:
    missing = [shard for shard in (Shard(k, count) for k in range(count)) if not _written(home, shard)]
    if not missing:
        return
    begun = [shard.index for shard in missing if (home / shard.journal).exists()]
    listed = _listed([shard.index for shard in missing])
    which = f"shard {missing[0]} is missing" if len(missing) == 1 else f"shards {listed} of {count} are missing"
    why = f" (begun, not finished: {_listed(begun)})" if begun else ""
    raise ConversionError(
        f"{printable(destination)}: {which}{why}. Run it with the same words and --shard {missing[0].index}/{count}"
    )


def _written(home: Path, shard: Shard) -> bool:
    return any(kind == "shard" for kind, _, _ in read_journal(home / shard.journal)[0])


def _listed(numbers: Sequence[int], most: int = 20) -> str:
    more = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return ", ".join(map(str, numbers[:most])) + more
