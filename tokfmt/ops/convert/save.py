"""Save a Dataset: a conversion whose sources are open already, and of which any view is written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tokfmt.api import CONVERTING, spoken
from tokfmt.core.errors import OptionError
from tokfmt.core.files import write_error
from tokfmt.core.options import given_options
from tokfmt.core.records import RecordReader
from tokfmt.ops.convert.request import Arrangement, Conversion, Request
from tokfmt.ops.convert.run import Run
from tokfmt.ops.source.request import EosChoice, Options, SourceRequest, check_drops
from tokfmt.run.execute import Silent, worker_count
from tokfmt.views.select import Shuffled

if TYPE_CHECKING:
    from tokfmt.ops.dataset import Dataset


@spoken(CONVERTING)
def save(
    dataset: Dataset,
    destination: str | os.PathLike[str],
    *,
    to_format: str | None,
    to_options: Options,
    tokenizer: str | None,
    eos: EosChoice,
    seq_len: int | None,
    drop: Iterable[str],
    jobs: int | None,
    executor: str,
    overwrite: bool,
    verify: bool,
    manifest: bool,
) -> Conversion:
    """Store a Dataset; see `Dataset.save`.

    A shuffled one goes through the shuffle of `convert`, in constant memory, and the manifest has its seed.
    """
    if not dataset.origin:
        raise OptionError("this dataset was not opened from files, so that nothing can be said of where it comes from")
    reader = dataset.reader
    axis, seed = (reader.source, reader.seed) if isinstance(reader, Shuffled) else (reader, None)
    paths = tuple(path for source in dataset.origin for path in source.paths)
    request = Request(
        source=SourceRequest(paths, eos=eos, drop=check_drops(drop)), destination=Path(destination), to=to_format,
        to_options=given_options(to_options), tokenizer=tokenizer, seq_len=seq_len, arrangement=Arrangement(seed),
        jobs=worker_count(jobs), executor=executor, overwrite=overwrite, verify=verify,
        manifest=manifest,
    )  # fmt: skip
    sources = [s._replace(reader=axis) if isinstance(s.reader, RecordReader) else s for s in dataset.origin]
    try:
        return Run(request, Silent(), given=(sources, axis)).convert()
    except OSError as error:
        raise write_error(request.destination, error) from error
