"""`tokfmt convert`: any format to any format, whole or not at all; the tasks of a conversion, put together.

`-` is standard input as a source, standard output as a destination; FIFOs (`<(...)`) are sources as well. Sources are
read more than once, and output is whole or absent; so both go by way of private scratch in $TMPDIR.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tokfmt import registry
from tokfmt.core.errors import FormatError, OptionError
from tokfmt.core.files import write_error
from tokfmt.core.locks import Scratch
from tokfmt.core.messages import Option
from tokfmt.core.once import OpenedOnce
from tokfmt.core.options import given_options
from tokfmt.core.text_format import printable
from tokfmt.ops.convert.arrangement import arrangement_of
from tokfmt.ops.convert.dry_run import dry_run
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.pipes import piped, print_files, renamed
from tokfmt.ops.convert.prepare import prepare
from tokfmt.ops.convert.publish import Proof, publish
from tokfmt.ops.convert.request import Conversion, Request, task_of
from tokfmt.ops.convert.resolve import Given, resolve
from tokfmt.ops.convert.results import finished_before
from tokfmt.ops.convert.resume import facts_of, request_of_tasks
from tokfmt.ops.convert.workplace import workers_of, workplace
from tokfmt.ops.convert.write import write
from tokfmt.ops.source.open import with_remedy
from tokfmt.ops.source.request import (
    STREAM,
    EosChoice,
    Options,
    Path_,
    Selection,
    SourceRequest,
    expanded,
    is_pipe,
    selection_words,
)
from tokfmt.run.execute import NullProgress, Progress, is_cluster, worker_count


def convert(
    sources: Path_ | Sequence[Path_],
    destination: Path_,
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
    allow_loss: Iterable[str] = (),
    jobs: int | None = None,
    executor: str = "auto",
    overwrite: bool = False,
    verify: bool = False,
    dry_run: bool = False,
    manifest: bool = True,
    checksums: bool = False,
    recursive: bool = False,
    ignore_manifest: bool = False,
    allow_partial: bool = False,
    resume: bool = False,
    task: tuple[int, int] | None = None,
    rejects: Path_ | None = None,
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
        select: Sequence numbers `A:B`, a number, or a slice or range without step.
        allow_loss: Losses that are accepted, by name.
        jobs: Workers, by default one a core.
        executor: "threads", "processes", "serial", "dask", "dask:ADDRESS", or "auto": processes for much text or
            many HDF5 samples, which do not run the script that calls; else threads, as for readers of classes that
            the script defines. The bytes written do not depend on it.
        overwrite: Replace what is there in one step; verify: read it back and compare it before it appears.
        dry_run: Say what would be done; manifest: write `DST.tokfmt.json`; checksums: those of large sources too.
        recursive: Read directories below a directory; ignore_manifest: go on where one contradicts its source.
        allow_partial: Of a damaged source save the sequences that are certain to be whole.
        resume: Continue what an interrupted run with `resume` has left, or leave it when this one is interrupted.
        task: (i, n): write only share i of n, 0 <= i < n; `finish` publishes. progress: Told how far it is.
        rejects: A file of JSON lines for the texts that a recipe leaves out: where each is, why, and its twin.
        ledger: Write `DST.ledger`: from which record of which file each sequence of a recipe is.

    Raises:
        TokfmtError: One of its kinds; the destination is then as it was before.
    """
    arrangement = arrangement_of(shuffle, split, seed)
    read = None if arrangement.shares else split
    source = SourceRequest.of(
        sources, from_format, eos, from_options, text_field, read, allow_loss, recursive, ignore_manifest, allow_partial
    )
    request = Request(
        source=source, destination=Path(destination), to=to_format, to_options=given_options(to_options),
        tokenizer=tokenizer, special_tokens=special_tokens, engine=engine, seq_len=seq_len, arrangement=arrangement,
        select=selection_words(select), jobs=worker_count(jobs), executor=executor, overwrite=overwrite, verify=verify,
        dry_run=dry_run, manifest=manifest, checksums=checksums, resume=resume, ledger=ledger,
        task=None if task is None else task_of(task), rejects=None if rejects is None else Path(rejects),
    )  # fmt: skip
    return _convert(request, progress or NullProgress())


def _convert(request: Request, progress: Progress) -> Conversion:
    if os.fspath(request.destination) == STREAM:
        if request.ledger:
            raise OptionError(
                f"{Option('ledger')} is written beside DST, and standard output has nothing beside it. Name a file"
            )
        return _to_stdout(request, progress)
    given = expanded(request.source.paths)
    if not given:
        raise OptionError("nothing to convert: name at least one source")
    if is_cluster(request.executor):  # its workers stand in other directories
        given = tuple(os.path.abspath(path) for path in given)
    pipe = next(filter(is_pipe, given), None)
    if pipe is not None and request.kept:
        raise OptionError(f"{printable(pipe)}: what is piped in cannot be read again. Save it to a file")
    request = replace(request, source=replace(request.source, paths=given))
    if pipe is None:
        return carry_out(request, progress)
    with piped(given, progress) as (paths, names):
        return carry_out(replace(request, source=replace(request.source, paths=paths), piped=names), progress)


def carry_out(
    request: Request, progress: Progress, *, prove: Proof | None = None, given: Given | None = None
) -> Conversion:
    """Convert what a request asks for, stage by stage.

    Args:
        prove: Looks at what was built, right before it is published; see `publish.Proof`.
        given: Sources that are open already, and the axis over them that is written instead of all they hold.

    Raises:
        TokfmtError: One of its kinds; the destination is then as it was before.
    """
    try:
        with OpenedOnce(request.source.paths) as opened:
            notes = Notes(progress, request.piped)
            resolved = resolve(request, notes, given)
            opened.settled()
            if request.dry_run:
                return dry_run(resolved, notes)
            facts = facts_of(resolved.request, resolved.facts(), resolved.before) if request.kept else {}
            again = request.resume and request.task is None
            if again and (done := finished_before(resolved, facts, notes)):
                return done
            with workplace(resolved, facts, notes) as place:
                with workers_of(resolved, place) as workers:
                    if resolved.copies:
                        from tokfmt.ops.convert.copy_lines import copy_lines  # with jsonl

                        written = copy_lines(resolved, place, workers, notes)
                    else:
                        prepared = prepare(resolved, place, workers, notes)
                        written = write(resolved, prepared, place, workers, notes)
                return publish(resolved, written, place, notes, prove)
    except BrokenPipeError:
        raise
    except FormatError as error:
        raise with_remedy(error, request.source) from error
    except OSError as error:  # readers word their own; what is left is writing
        raise write_error(request.destination, error) from error


def finish(
    destination: Path_,
    *,
    jobs: int | None = None,
    executor: str = "auto",
    overwrite: bool = False,
    verify: bool = False,
    manifest: bool = True,
    checksums: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """Publish a destination whose tasks (`convert(..., task=(i, n))`) are all written.

    Args:
        destination: As the tasks were given it.
        jobs, executor, overwrite, verify, manifest, checksums, progress: As for `convert`. What is converted, and how,
            the tasks know.

    Raises:
        ConversionError: Tasks are missing (they are named), or are being written.
        TokfmtError: As for `convert`. What the tasks have written stays.
    """
    request = replace(
        request_of_tasks(destination), jobs=worker_count(jobs),
        executor=executor, overwrite=overwrite, verify=verify, manifest=manifest, checksums=checksums,
    )  # fmt: skip
    return carry_out(request, progress or NullProgress())


def _to_stdout(request: Request, progress: Progress) -> Conversion:
    """Convert to scratch, and copy what came of it to standard output.

    Raises:
        OptionError: The format is no single stream, or what was asked for needs a place.
        BrokenPipeError: Whoever reads has had enough.
    """
    format_ = registry.get(request.to or "jsonl")
    if not format_.streams:
        raise OptionError(
            f"-: {format_.name} is no stream that could be piped; jsonl is, and the raw blocks of stage1. Name a file"
        )
    kept = f"{Option('resume')}" if request.resume else f"{Option('task')}" if request.task else ""
    if kept or request.arrangement.shares is not None:
        kept = kept or f"shares in {Option('split')}"
        raise OptionError(f"-: {kept} needs a place to write to. Name a file")
    with Scratch() as home:
        place = home / "piped"
        with renamed({str(place): STREAM}):
            filed = replace(request, destination=place, to=format_.name, manifest=False, overwrite=False)
            done = _convert(filed, progress)
            if not request.dry_run:
                print_files(format_.files(place))
    return replace(done, destination=STREAM)
