"""`tokfmt show --step` and `--sample`: print the samples of a recipe and the sequences that they come from."""

from __future__ import annotations

import json
import shutil
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tokfmt.base.plain import plain
from tokfmt.cli.console import document, listed, note
from tokfmt.cli.table import Table
from tokfmt.wording import counted, printable, shortened, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokfmt.commands.show.step import Step, StepPart, StepSample
    from tokfmt.mix import Origin

_COLORS = ("cyan", "green", "yellow", "magenta", "blue")
"""Colors of sources, in the order of their first sample."""

_LINES, _SAMPLES = 2, 8  # lines of a part's text, and samples, on a terminal without --full


class Printing(NamedTuple):
    """The options of output."""

    only_ids: bool
    only_text: bool
    only_origins: bool  # samples and their parts, with IDs or text only if these are asked for too
    full: bool  # do not cut text on a terminal
    quiet: bool
    as_json: bool


def show_step(path: str, selection: str | None, asked: dict[str, Any], given: dict[str, Any], how: Printing) -> None:
    """Print the samples of a step, or one sample, with the parts of sequences in them. The selection must be None."""
    from tokfmt.commands.show.step import show_step as find

    for word, wrong in (("SEL", selection is not None), ("--raw", given["raw"]), ("--samples", given["rows"])):
        if wrong:
            raise click.UsageError(f"{word} cannot be combined with --step or --sample. Leave it out")
    names = ("format", "options", "tokenizer", "eos", "bos", "allow_loss")
    asked = {name: value for name, value in asked.items() if value is not None}
    found = find(
        path, **asked, **{name: given[name] for name in names}, only_ids=how.only_ids, origins=how.only_origins
    )
    if how.only_text and not found.has_text:
        raise click.UsageError("--text needs a tokenizer. Add --tokenizer")
    if how.as_json:
        listed("show-step", found, map(_as_json, found.shown), dict)
        return
    terminal = sys.stdout.isatty() and not how.full
    limit = given["limit"] if given["limit"] is not None else _SAMPLES if terminal else 0
    _print(found, how, limit or found.last - found.first, terminal=terminal)


def show_seen(
    path: str,
    queries: Sequence[str],
    before: int | None,
    asked: dict[str, Any],
    given: dict[str, Any],
    *,
    selection: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Print the samples that read some sequences, in the order of training."""
    from tokfmt.commands.show.seen import seen

    wrong = [f"--{name.replace('_', '-')}" for name in ("step", "rank", "sample") if asked[name] is not None]
    if selection is not None or wrong:
        raise click.UsageError(f"{wrong[0] if wrong else 'SEL'} cannot be combined with --seen. Leave it out")
    names = ("format", "options", "tokenizer", "eos", "bos", "allow_loss")
    sizes = {name: asked[name] for name in ("batch_size", "world_size")}
    found = seen(path, queries, before=before, **sizes, **{name: given[name] for name in names})
    if as_json:
        document("show-seen", found)
        return
    rows = [
        (f"{one.source}#{one.sequence}", *("-" if cell is None else f"{cell:,}" for cell in cells))
        for one in found.reads
        for cells in [(one.sample, one.step, one.rank, one.epoch)]
    ]
    for line in Table(["sequence", "sample", "step", "rank", "epoch"], rows).lines() if rows else ():
        click.echo(line)
    if not quiet:
        steps = "" if found.steps is None else f" in {counted(found.steps, 'step')}"
        limit = "" if before is None else f" before step {before:,}"
        what = f"{counted(len(found.reads), 'sample')}{steps}{limit} read {counted(found.sequences, 'sequence')}"
        click.echo(f"{printable(path)}: {what}", err=True)


def _print(found: Step, how: Printing, limit: int, *, terminal: bool) -> None:
    """Print the heading and the notes on stderr, and samples with their parts on stdout."""
    if not how.quiet:
        click.echo(_heading(found), err=True)
        for text in found.notes:
            note(text)
    room = _LINES * shutil.get_terminal_size().columns if terminal else 0
    colors, unread, rank = dict[str, str](), dict[str, None](), None
    of_ranks = found.rank is None and found.world_size > 1
    for number, drawn in enumerate(islice(found.shown, limit)):
        if (how.only_ids or how.only_text) and not how.only_origins:
            for part in drawn.parts:
                click.echo(_words(part, how))
            continue
        click.echo("\n" if number and not how.only_origins else "", nl=False)
        if of_ranks and drawn.rank != rank:
            rank = drawn.rank
            click.echo(click.style(f"rank {rank}", bold=True))
        click.echo(_title(drawn, of_several=found.world_size > 1 and not of_ranks))
        for part in drawn.parts:
            _print_part(part, how, colors.setdefault(part.source, _COLORS[len(colors) % len(_COLORS)]), room)
            unread |= {part.unread: None} if part.unread else {}
        if drawn.padding:
            click.echo(click.style(f"  {drawn.padding:,} of padding", dim=True))
    left = found.last - found.first - limit
    more = [f"{left:,} more samples in this step; --limit 0 shows all"] if left > 0 else []
    for text in () if how.quiet else (*(f"origins are left out: {problem}" for problem in unread), *more):
        note(text)


def _print_part(part: StepPart, how: Printing, color: str, room: int) -> None:
    click.echo(_line(part, color))
    for line in origin_lines(part.origins):
        click.echo(f"  {line}")
    if how.only_ids or how.only_text or not how.only_origins:
        click.echo(_indented(_words(part, how), room))


def _words(part: StepPart, how: Printing) -> str:
    return part.text if part.text is not None and not how.only_ids else " ".join(map(str, part.ids.tolist()))


def _as_json(drawn: StepSample) -> Iterator[str]:
    """Yield a sample as a JSON object, part by part."""
    facts = {"sample": drawn.sample, "number": drawn.number, "rank": drawn.rank, "drawn_from": drawn.drawn_from or None}
    yield (
        json.dumps({**facts, "epoch": drawn.epoch, "padding": drawn.padding, "only_labels": drawn.only_labels})[:-1]
        + ', "parts": ['
    )
    for number, part in enumerate(drawn.parts):
        yield (", " if number else "") + json.dumps({**plain(part), "ids": part.ids.tolist()})
    yield "]}"


def _heading(found: Step) -> str:
    kind = "recipe" if found.framework is None else f"run of {found.framework}"
    what = f"{printable(found.path)}: {kind}: {counted(found.samples, 'sample')} of {counted(found.seq_len, 'token')}"
    if found.step is None:
        return what
    which = "all" if found.rank is None else f"rank {found.rank} of"
    of_rank = f", {which} {found.world_size}{' ranks' if found.rank is None else ''}" if found.world_size > 1 else ""
    one = found.last - found.first == 1
    samples = f"sample {found.first:,}" if one else f"samples {found.first:,} to {found.last - 1:,}"
    return f"{what}; step {found.step:,} (from 0) of batches of {found.batch_size:,}{of_rank}: {samples}"


def _title(drawn: StepSample, *, of_several: bool) -> str:
    facts = [f"rank {drawn.rank}"] if of_several and drawn.rank is not None else []
    if drawn.number not in (None, drawn.sample):
        facts.append(f"number {drawn.number:,} of the dataset")
    if drawn.drawn_from:
        facts.append(f"drawn from {drawn.drawn_from}")
    if drawn.epoch:
        facts.append(f"epoch {drawn.epoch:,}")
    if drawn.only_labels:
        facts.append("the last ID is only a label")
    return click.style(f"#{drawn.sample}", bold=True) + click.style(f"  {', '.join(facts)}" if facts else "", dim=True)


def _line(part: StepPart, color: str) -> str:
    whole = part.start == 0 and part.stop >= part.length
    there = "" if whole else f", {part.start:,} to {min(part.stop, part.length):,}"
    end = " and its end" if part.stop > part.length else ""
    name = click.style(printable(part.source), fg=color, bold=True)
    stored = f", sequence {part.stored:,} there" if part.stored != part.sequence else ""
    where = click.style(f"  {printable(part.path)}{stored}", dim=True)
    return f"  {name} sequence {part.sequence:,}: {counted(part.length, 'token')}{there}{end}{where}"


def origin_lines(origins: Sequence[Origin]) -> Iterator[str]:
    """Yield a line for each piece of a sequence: its file, and its place in the file."""
    for origin in origins:
        where = f"line {origin.line:,}, at byte {origin.byte_offset:,}" if origin.line is not None else origin.detail
        where += " of the decompressed text" if origin.decompressed else ""
        via = "".join(f", through sequence {number:,} of {printable(path)}" for path, number in origin.via)
        place = f"{printable(origin.path)}{', ' if where else ''}{where}{via}"
        what = click.style(f"  from {printable(origin.source)}", bold=True)
        yield f"{what} record {origin.record:,}, {origin.start:,} to {origin.stop:,}" + click.style(
            f"  {place}", dim=True
        )


def _indented(text: str, room: int) -> str:
    """Return the indented text of a part, with escaped control characters, cut to `room` characters if not 0."""
    lines = visible(shortened(text, room) if room else text).rstrip("\n").split("\n")
    return "\n".join(f"    {line}" for line in lines)
