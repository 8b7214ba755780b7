"""`tokfmt convert`: any format to any format, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from tokfmt.core.errors import OptionError
from tokfmt.core.publish import write_error
from tokfmt.ops.arrangement import arrangement_of
from tokfmt.ops.conversion import Run
from tokfmt.ops.open import Options
from tokfmt.ops.progress import Progress, Silent
from tokfmt.ops.request import Conversion, Request
from tokfmt.ops.separator import EosChoice
from tokfmt.ops.sources import SourceRequest, check_drops, expanded
from tokfmt.run.cluster import is_cluster
from tokfmt.run.journal import Shard

PathLike = str | os.PathLike[str]


def convert(
    sources: PathLike | Sequence[PathLike],
    destination: PathLike,
    *,
    from_format: str | None = None,
    to_format: str | None = None,
    from_options: Options = (),
    to_options: Options = (),
    tokenizer: str | None = None,
    special_tokens: Literal["text", "parse"] = "text",
    engine: Literal["auto", "fastokens", "tokenizers"] = "auto",
    text_field: str | None = None,
    eos: EosChoice = None,
    seq_len: int | None = None,
    split: str | None = None,
    seed: int | None = None,
    shuffle: int | None = None,
    select: str | None = None,
    drop: Iterable[str] = (),
    jobs: int | None = None,
    executor: str = "threads",
    overwrite: bool = False,
    verify: bool = False,
    dry_run: bool = False,
    manifest: bool = True,
    resume: bool = False,
    shard: tuple[int, int] | None = None,
    progress: Progress | None = None,
) -> Conversion:
    """Convert one or more datasets into one of another format (or the same).

    Args:
        sources: A path or several, concatenated in order. A pattern (`part-*.jsonl`) stands for what it matches, in
            natural order (part-2 before part-10).
        destination: Appears whole or not at all.
        from_format, to_format: Names of formats; by default by content, and by the destination's name.
        from_options, to_options: The formats' own options, as mappings or `key=value` words.
        tokenizer: Name, directory or tokenizer.json: encodes text sources, decodes ids for text targets.
        special_tokens: Whether a literal special token in text is text, or the token.
        engine: Which engine encodes.
        text_field: Dotted path of the text in JSON records.
        eos: The separator's id, "none", or None to find out.
        seq_len: Tokens a sample, for formats that have samples.
        split: Which split to read, and to write; or `NAME=SHARE,...`: deal sequences out to several splits.
        seed: What deals them out; by default 0.
        shuffle: Seed of a global shuffle of the sequences (of each split by itself).
        select: Sequence numbers `A:B`.
        drop: What may be given up, by name.
        jobs: Workers; by default one a core.
        executor: "threads", "processes", "serial", "dask", "dask:ADDRESS", or "auto": processes for much text (a script
            then needs `if __name__ == "__main__":`), else threads. The bytes written do not depend on it.
        overwrite: Replace an existing destination, in one step, when the new one is whole.
        verify: Read the destination back and compare it with the source before it appears.
        dry_run: Say what would be done.
        manifest: Write `DST.tokfmt.json`.
        resume: Continue what an interrupted run with `resume` has left, or leave it when this one is interrupted.
        shard: (i, n): write only share i of n, 0 <= i < n; `tokfmt.ops.finish.finish` publishes when all are written.
        progress: Told how far it is.

    Returns:
        What was done.

    Raises:
        TokfmtError: One of its kinds; the destination is then as it was before.
    """
    paths = expanded((sources,) if isinstance(sources, (str, os.PathLike)) else sources)
    if is_cluster(executor):  # its workers stand in other directories
        paths = tuple(os.path.abspath(path) for path in paths)
    if not paths:
        raise OptionError("nothing to convert: name at least one source")
    arrangement = arrangement_of(shuffle, split, seed)
    read = None if arrangement.shares else split
    source = SourceRequest(paths, from_format, eos, from_options, text_field, read, check_drops(drop))
    request = Request(
        source=source, destination=Path(destination), to=to_format, to_options=to_options, tokenizer=tokenizer,
        special_tokens=special_tokens, engine=engine, seq_len=seq_len, select=select, arrangement=arrangement,
        jobs=max(1, jobs or os.cpu_count() or 1), executor=executor, overwrite=overwrite, verify=verify,
        dry_run=dry_run, manifest=manifest, resume=resume, shard=_shard(shard),
    )  # fmt: skip
    try:
        return Run(request, progress or Silent()).convert()
    except OSError as error:  # readers word their own; what is left is writing
        raise write_error(request.destination, error) from error


def _shard(shard: tuple[int, int] | None) -> Shard | None:
    if shard is None:
        return None
    index, count = shard
    if not 0 <= index < count:
        raise OptionError(f"--shard {index}/{count}: shards of {count} are 0/{count} to {count - 1}/{count}")
    return Shard(index, count)
