"""Write and read a dataset through a format, the way conversions do, without the command line."""

from __future__ import annotations

import random
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from tokfmt.core.axis import TokenReader, batches
from tokfmt.core.format import REGION, Format, Target
from tokfmt.core.options import parse_options
from tokfmt.core.ragged import Ragged
from tokfmt.core.records import RecordReader
from tokfmt.ops.dataset import MemoryReader
from tokfmt.ops.source.ingest import tokenized
from tokfmt.ops.source.opened import found_at, open_found
from tokfmt.ops.source.request import EosChoice, SourceRequest
from tokfmt.run.execute import SerialExecutor
from tokfmt.run.plan import Plan, Workers, commit, plan, run

Values = Mapping[str, object]


def write(
    format_: Format,
    path: Path,
    data: Ragged | TokenReader,
    *,
    eos_id: EosChoice = None,
    options: Values = {},  # noqa: B006 - never changed
    size: int = REGION,
    executor: Executor | None = None,
    jobs: int = 1,
) -> Path:
    """Write a dataset; `size` is tokens a region."""
    source: TokenReader = MemoryReader(data) if isinstance(data, Ragged) else data
    scratch = path.parent / f"{path.name}.scratch"
    scratch.mkdir(exist_ok=True)
    writer = format_.writer(path, _parsed(format_.write_options, options, format_.name), target(eos_id))
    for _ in run(plan(source, writer, size), Workers(executor or SerialExecutor(), jobs, scratch)):
        pass
    return path


def write_shuffled(
    format_: Format, path: Path, data: Ragged, *, eos_id: EosChoice, options: Values, size: int, seed: int
) -> Path:
    """Write a dataset with its tasks in random order, some of them twice."""
    source = MemoryReader(data)
    writer = format_.writer(path, _parsed(format_.write_options, options, format_.name), target(eos_id))
    job: Plan = plan(source, writer, size)
    order = list(job.regions) + list(job.regions)[::2]
    random.Random(seed).shuffle(order)
    writer.create(source)
    receipts = [writer.write(region, source) for region in order]
    commit(job, receipts)
    return path


def read(
    format_: Format,
    path: str | Path,
    *,
    eos_id: EosChoice = None,
    options: Values = {},  # noqa: B006 - never changed
) -> TokenReader:
    """Open a dataset of ids as an axis without separators; the format need not be installed."""
    request = SourceRequest((path,), eos=eos_id, options=options)
    source = open_found([found_at(Path(path), format_, request)], request)
    return tokenized(source.reader, None) if isinstance(source.reader, RecordReader) else source.reader


def sequences(reader: TokenReader) -> list[list[int]]:
    """All sequences as lists."""
    found: list[list[int]] = []
    for batch in batches(reader, 0, reader.info.sequences):
        found += batch.tolist()
    return found


def _parsed(kind: type, options: Values, name: str) -> Any:
    return parse_options(kind, options, name)


def target(eos_id: EosChoice) -> Target:
    """What a writer is told of the separator."""
    return Target(None if eos_id == "none" else eos_id)
