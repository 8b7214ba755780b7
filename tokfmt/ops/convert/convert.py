"""`tokfmt convert`: any format to any format, whole or not at all; and the shards of a conversion, put together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tokfmt.core.errors import OptionError
from tokfmt.core.files import write_error
from tokfmt.core.options import given_options
from tokfmt.core.text_format import printable
from tokfmt.ops.convert.pipes import piped, to_stdout
from tokfmt.ops.convert.request import Conversion, Request, arrangement_of, shard_of
from tokfmt.ops.convert.resume import request_of_shards
from tokfmt.ops.convert.run import Run
from tokfmt.ops.source.request import (
    STREAM,
    EosChoice,
    Options,
    Selection,
    SourceRequest,
    check_drops,
    expanded,
    is_pipe,
    selection_words,
    several,
)
from tokfmt.run.execute import Progress, Silent, is_cluster, worker_count

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
    select: Selection = None,
    drop: Iterable[str] = (),
    jobs: int | None = None,
    executor: str = "auto",
    overwrite: bool = False,
    verify: bool = False,
    dry_run: bool = False,
    manifest: bool = True,
    checksums: bool = False,
    recursive: bool = False,
    ignore_manifest: bool = False,
    resume: bool = False,
    shard: tuple[int, int] | None = None,
    rejects: PathLike | None = None,
    ledger: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """Convert one or more datasets into one of another format (or the same), and say what was done.

    Args:
        sources: A path or several, concatenated in order. A pattern (`part-*.jsonl`) stands for what it matches, in
            natural order (part-2 before part-10). `-` is standard input: JSON lines, as what other pipes bring.
        destination: Appears whole or not at all. `-` is standard output, for jsonl (the default) and stage1.
        from_format, to_format: Names of formats; by default by content, and by the destination's name.
        from_options, to_options: The formats' own options, as mappings or `key=value` words.
        tokenizer: Name, directory or tokenizer.json: encodes text sources, decodes ids for text targets.
        special_tokens, engine: Whether a literal special token in text is text, or the token; what encodes.
        text_field: Dotted path of the text in JSON records.
        eos: The separator's id, "none", or None to find out.
        seq_len: Tokens a sample, for formats that have samples.
        split, seed: Which split to read, and to write; or `NAME=SHARE,...`: splits that a seed (0) deals sequences to.
        shuffle: Seed of a global shuffle of the sequences (of each split by itself).
        select: Sequence numbers `A:B`; also a number, or a slice or a range without a step.
        drop: What may be given up, by name; jobs: workers, by default one a core.
        executor: "threads", "processes", "serial", "dask", "dask:ADDRESS", or "auto": processes for much text where
            that is safe (the command line, a notebook; in a script say "processes", which then needs
            `if __name__ == "__main__":`), else threads. The bytes written do not depend on it.
        overwrite: Replace what is there, in one step, when the new one is whole; verify: read it back and compare it
            with the source before it appears.
        dry_run: Say what would be done; manifest: write `DST.tokfmt.json`; checksums: those of large sources too.
        recursive: Read directories below a directory; ignore_manifest: go on where one contradicts its source.
        resume: Continue what an interrupted run with `resume` has left, or leave it when this one is interrupted.
        shard: (i, n): write only share i of n, 0 <= i < n; `finish` publishes.
        rejects: A file of JSON lines for the texts that filters of a recipe leave out, with rule and value.
        ledger: Write `DST.ledger`: from which record of which file each sequence of a recipe is.
        progress: Told how far it is.

    Raises:
        TokfmtError: One of its kinds; the destination is then as it was before.
    """
    arrangement = arrangement_of(shuffle, split, seed)
    source = SourceRequest(
        several(sources), from_format, eos, given_options(from_options), text_field,
        None if arrangement.shares else split, check_drops(drop), recursive, ignore_manifest,
    )  # fmt: skip
    request = Request(
        source=source, destination=Path(destination), to=to_format, to_options=given_options(to_options),
        tokenizer=tokenizer, special_tokens=special_tokens, engine=engine, seq_len=seq_len, arrangement=arrangement,
        select=selection_words(select), jobs=worker_count(jobs), executor=executor, overwrite=overwrite, verify=verify,
        dry_run=dry_run, manifest=manifest, checksums=checksums, resume=resume, shard=shard_of(shard), ledger=ledger,
        rejects=None if rejects is None else Path(rejects),
    )  # fmt: skip
    return _convert(request, progress or Silent())


def _convert(request: Request, progress: Progress) -> Conversion:
    if os.fspath(request.destination) == STREAM:
        if request.ledger:
            raise OptionError("--ledger is written beside DST, and standard output has nothing beside it. Name a file")
        return to_stdout(request, lambda filed: _convert(filed, progress))
    given = expanded(request.source.paths)
    if not given:
        raise OptionError("nothing to convert: name at least one source")
    if is_cluster(request.executor):  # its workers stand in other directories
        given = tuple(os.path.abspath(path) for path in given)
    pipe = next(filter(is_pipe, given), None)
    if pipe is not None and request.kept:
        raise OptionError(f"{printable(pipe)}: what is piped in cannot be read again. Save it to a file")
    request = replace(request, source=replace(request.source, paths=given))
    try:
        if pipe is None:
            return Run(request, progress).convert()
        with piped(given, progress) as (paths, names):
            source = replace(request.source, paths=paths)
            return Run(replace(request, source=source, piped=names), progress).convert()
    except BrokenPipeError:
        raise
    except OSError as error:  # readers word their own; what is left is writing
        raise write_error(request.destination, error) from error


def finish(
    destination: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    executor: str = "auto",
    overwrite: bool = False,
    verify: bool = False,
    manifest: bool = True,
    checksums: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """Publish a destination whose shards (`convert(..., shard=(i, n))`) are all written.

    Args:
        destination: As the shards were given it.
        jobs, executor, overwrite, verify, manifest, checksums, progress: As for `convert`. What is converted, and how,
            the shards know.

    Raises:
        ConversionError: Shards are missing (they are named), or are being written.
        TokfmtError: As for `convert`. What the shards have written stays.
    """
    request = replace(
        request_of_shards(destination), jobs=worker_count(jobs),
        executor=executor, overwrite=overwrite, verify=verify, manifest=manifest, checksums=checksums,
    )  # fmt: skip
    try:
        return Run(request, progress or Silent()).convert()
    except OSError as error:
        raise write_error(request.destination, error) from error
