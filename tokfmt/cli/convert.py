"""`tokfmt convert`: convert datasets."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from tokfmt.base.resources import cpus
from tokfmt.cli.console import Watcher, document
from tokfmt.cli.parameters import (
    FORMAT,
    PLACE,
    WRITE_OPTION,
    Command,
    Count,
    Eos,
    ExecutorName,
    TaskNumber,
    Words,
    WrittenEos,
    common,
    examples,
    rare,
    reading,
    running,
    tokenizer,
    workers,
)
from tokfmt.cli.table import Table
from tokfmt.cli.usage import missing
from tokfmt.wording import counted, human_bytes, human_time, printable, separator_words

_EPILOG = examples(
    "tokfmt convert corpus.jsonl out.pbin --tokenizer tokenizer",
    "tokfmt convert out.pbin out.zarr",
    "tokfmt convert out.zarr packed/ --to hdf5 --seq-len 512 --to-eos 4095",
    "tokfmt convert out.pbin text.jsonl --tokenizer tokenizer",
    "tokfmt convert out.pbin parts.zarr --split train=0.9,validation=0.1 --shuffle 7",
)


_NUMBER = re.compile(r"[0-9.]+")
_OFTEN = ("--eos", "--split", "--text-field", "--recursive", "--allow-loss", "--jobs", "--resume", "--json", "--quiet")


@click.command("convert", cls=Command, epilog=_EPILOG, no_args_is_help=True, often=_OFTEN)
@click.argument("sources", nargs=-1, type=PLACE, metavar="SRC...")
@click.argument("destination", type=PLACE, metavar="DST")
@click.option(
    "--to", "to_format", type=FORMAT, metavar="FORMAT", help="Destination format (default: by the name of DST)."
)
@click.option(
    "--to-opt",
    "to_options",
    multiple=True,
    type=WRITE_OPTION,
    metavar="KEY=VALUE",
    help="Option of that format: tokfmt formats NAME.",
)
@click.option(
    "--to-eos",
    type=WrittenEos(0),
    metavar="ID",
    help="Separator to write: an ID, none, or as-stored.",
)
@rare(
    "--to-bos",
    type=Eos(0),
    metavar="ID",
    help="Lead to write in front of each sequence: an ID, or none (default: as in SRC, if DST has an index).",
)
@reading
@tokenizer("Encodes text; decodes IDs for jsonl; copies other IDs.")
@click.option("--from-tokenizer", type=PLACE, metavar="NAME", help="Made the IDs of SRC, which are encoded again.")
@rare(
    "--special-tokens",
    type=Words(["text", "parse"]),
    default="text",
    help="Read special tokens in text as plain text, or parse them (default: text).",
)
@rare(
    "--engine",
    type=Words(["auto", "fastokens", "tokenizers"]),
    default="auto",
    help="Library that encodes text; both give the same IDs (default: auto).",
)
@click.option("--seq-len", type=Count(1), metavar="N", help="Tokens per sample, for formats with samples.")
@click.option("--select", metavar="SEL", help="Only these: 0:140, 3,17, len>=50, not text:words.")
@click.option("--without", multiple=True, type=PLACE, metavar="EVAL", help="Leave out what overlaps with an eval.")
@rare("--without-opt", multiple=True, metavar="KEY=VALUE", help="Option of --without: ngram=8, by=tokens, field=a,b.")
@click.option("--shuffle", type=Count(maximum=None), metavar="SEED", help="Shuffle all sequences by a seed.")
@rare("--seed", type=Count(maximum=None), help="Seed of --split NAME=SHARE,... (default: 0).")
@rare(
    "--split-by",
    type=Words(["number", "content"]),
    help="Draw the split for the number of a sequence, or for its content, so that equal sequences are in the same "
    "split (default: number).",
)
@workers()
@running(
    "--executor",
    type=ExecutorName(["auto", "threads", "processes", "serial", "dask"]),
    default="auto",
    help="Pool that runs the tasks; auto is processes for much text or many HDF5 samples, else threads; "
    "dask:ADDRESS is a cluster (default: auto).",
)
@running("--resume", is_flag=True, help="Continue what an interrupted --resume left.")
@running("--task", type=TaskNumber(), help="Run only task I of N (0 <= I < N); other runs do the rest.")
@running("--finish", is_flag=True, help="Publish DST once all tasks are done; takes no SRC.")
@running("--status", is_flag=True, help="With --finish: list tasks that are done, running or missing.")
@click.option("--rejects", type=PLACE, metavar="FILE", help="List what a recipe or a --select leaves out.")
@rare("--ledger", is_flag=True, help="Write DST.ledger: the origin of each sequence.")
@click.option("--overwrite", is_flag=True, help="Replace DST once the new one is complete.")
@running("--spool", type=PLACE, metavar="DIR", help="Where a DST in a store is built (default: $TMPDIR).")
@click.option("--verify", is_flag=True, help="Compare DST with SRC before it appears.")
@click.option("--dry-run", is_flag=True, help="Print the plan; write nothing.")
@rare(
    "--scale",
    type=Count(1, of_bytes=True),
    metavar="BYTES",
    help="With --dry-run: estimate for as many bytes of SRC as it is stored, such as 2TB.",
)
@click.option("--allow-partial", is_flag=True, help="Save the complete sequences of a damaged SRC.")
@rare("--no-manifest", is_flag=True, help="Do not write DST.tokfmt.json.")
@common
@click.pass_context
def command(context: click.Context, /, sources: tuple[str, ...], destination: str, **given: Any) -> None:
    """Convert any format to any format.

    The format of a SRC is detected from its content, that of DST follows from its name. Several sources are joined in
    order. DST is complete, or not written. Nothing is lost, repeated or changed unless --allow-loss accepts it.
    \f

    A quoted pattern ('part-*.jsonl') means the files that it matches, part-2 before part-10.

    A SRC of - is JSON Lines from stdin. A DST of - is stdout, as jsonl or as the blocks of --to stage1. Both go through
    $TMPDIR.
    """
    quiet, as_json, finishing = given.pop("quiet"), given.pop("as_json"), given.pop("finish")
    given["manifest"] = not given.pop("no_manifest")
    given["without"] = _without(context, given["without"], given.pop("without_opt"))
    from tokfmt.run.execute import POOLS

    for pool in POOLS:  # tokenizer libraries read these variables on first use
        os.environ.setdefault(pool, str(given["jobs"] or cpus()))
    if as_json and destination == "-":
        context.fail("--json and a DST of - would both write to stdout. Leave --json out")
    if given.pop("status"):
        _status(context, sources, destination, finishing=finishing, quiet=quiet)
        return
    _check_sources(context, sources, finishing=finishing)
    from tokfmt.api import convert

    run = _finish(context, sources, given) if finishing else partial(convert, sources)
    began = time.monotonic()
    with Watcher(quiet=quiet) as watcher:
        done = run(destination, progress=watcher, **given)
    if as_json:
        document("convert", done)
    elif done.dry_run:
        click.echo("\n".join(_plan(done)))
    elif not quiet and given.get("task"):
        index, count = given["task"]
        click.echo(f"task {index} of {count} is written; --finish publishes when all are", err=True)
    elif not quiet:
        for line in table_of_prepared(done.prepared).lines() if done.prepared else ():
            click.echo(line)
        click.echo(_summary(done, time.monotonic() - began), err=True)


def _check_sources(context: click.Context, sources: tuple[str, ...], *, finishing: bool) -> None:
    if not sources and not finishing:
        context.fail(missing(context, "DST"))
    if weight := next((word for word in sources if _NUMBER.fullmatch(word) and not os.path.lexists(word)), ""):
        mixed = f"tokfmt recipe {' '.join(sources)} --seq-len N -o mix.toml"
        context.fail(f"{weight} is not a file. A recipe mixes by weights: {mixed}")


def _without(context: click.Context, evals: tuple[str, ...], options: tuple[str, ...]) -> dict[str, object] | None:
    """Return the table of evals, and what counts as overlap with them; None without any."""
    from tokfmt.base.options import given_options

    if options and not evals:
        context.fail("--without-opt goes with --without EVAL. Give an eval")
    return {"with": evals, **given_options(options)} if evals else None


def _status(
    context: click.Context, sources: tuple[str, ...], destination: str, *, finishing: bool, quiet: bool
) -> None:
    """Print the state of each task, or with `quiet` only the numbers of those that are not done, as Slurm takes them.

    Exit with 1 if some are not done.
    """
    from tokfmt.commands.convert.tasks import status_of_tasks

    if not finishing or sources:
        context.fail("--status goes with --finish and DST alone. Use --finish --status DST")
    tasks = status_of_tasks(destination)
    left = [task for task in tasks if task.state != "done"]
    if quiet and left:
        click.echo(",".join(str(task.index) for task in left))
    elif not quiet:
        for task in tasks:
            click.echo(f"task {task.index} of {len(tasks)}: {task.state}{f' ({task.owner})' if task.owner else ''}")
        counts = [(state, sum(task.state == state for task in left)) for state in ("running", "missing")]
        parts = [f"{counted(count, 'task')} {state}" for state, count in counts if count]
        click.echo(", ".join(parts) or "all tasks are done", err=True)
    if left:
        context.exit(1)


def _finish(context: click.Context, sources: tuple[str, ...], given: dict[str, Any]) -> Callable[..., Any]:
    """Return the function that publishes tasks, and remove from `given` the options that it does not take."""
    from tokfmt.commands.convert.convert import finish

    if sources:
        context.fail("--finish takes DST alone, because the tasks hold the sources. Leave SRC out")
    for name in set(given) - {"jobs", "executor", "overwrite", "verify", "manifest", "spool"}:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = name.removesuffix("_options").replace("_", "-")
            context.fail(f"--finish takes no --{option}, because the tasks hold it. Leave it out")
        del given[name]
    return finish


def _summary(done: Any, seconds: float) -> str:
    what = [_size(done), *(f"{name} {words}" for name, words in _marks(done).items())]
    compared = " and ".join(counted(count, what[:-1]) for what, count in done.compared.items())
    verified = f", verified: {compared} read back and compared" if done.verified else ""
    of = f"{counted(len(done.splits), 'split')} of " if done.splits else ""
    place = f"{of}{printable(done.destination)} ({done.format})"
    lines = [f"lost {name}: {printable(lost)}" for name, lost in done.losses.items()]
    return "\n".join([*lines, f"{place}: {', '.join(what)}{verified}, {seconds:.1f} s", *_splits(done)])


def _size(done: Any) -> str:
    """Return what a destination holds, or will hold."""
    if done.tokens is None:
        return "records, counted as they are read" if done.sequences is None else counted(done.sequences, "record")
    samples = f" in samples of {done.sample_length:,}" if done.sample_length else ""
    padded = f" ({done.padded:,} of them padding)" if done.padded else ""
    return f"{counted(done.sequences, 'sequence')}, {counted(done.tokens, 'token')}{samples}{padded}"


def _marks(done: Any) -> dict[str, str]:
    """Return the words on the separator and on the lead, if the sequences have them."""
    found, separator, lead = dict[str, str](), done.separator, done.lead["bos_id"]
    if separator["eos_id"] is not None:
        seen = "; ".join(filter(None, (separator["seen"], *_changed(done.separators))))
        found["separator"] = separator_words(separator["eos_id"], separator["from"] or "", seen)
    if lead is not None:
        left_out = "" if done.lead["stored"] == "before" else ", which is left out"
        found["lead"] = f"{lead}{left_out}" + "".join(f" ({words})" for words in _changed(done.leads))
    return found


def _changed(counts: Mapping[str, int] | None) -> list[str]:
    """Return the clause on the separators or the leads of sequences; none if all were kept, or there are none."""
    found = {name: count for name, count in (counts or {}).items() if count}
    if set(found) <= {"kept"} or set(found) <= {"bare"}:
        return []
    return [", ".join(f"{count:,} {name}" for name, count in found.items())]


def _plan(done: Any) -> Iterator[str]:
    """Yield the lines on what a conversion would do."""
    rows = (
        *(("source", f"{printable(source['path'])} ({source['format']})") for source in done.sources),
        ("destination", f"{printable(done.destination)} ({done.format})"),
        *(("replaces", f"{printable(path)}: {what}") for path, what in done.replaces.items()),
        ("holds", _size(done)),
        *{"separator": "none", **_marks(done)}.items(),
        ("tasks", done.plan["tasks"] if done.sequences is not None else "planned when they are counted"),
        *_resources(done.plan),
        ("runs in", f"{done.plan['jobs']} {done.plan['executor']}"),
    )
    for name, what in (*_estimate(done), *rows):
        yield f"{name:<13}{what}"
    yield from _splits(done)
    yield from (f"{'loses':<13}{name}: {what}" for name, what in done.losses.items())
    yield from table_of_prepared(done.prepared).lines() if done.prepared else ()
    yield "dry run: nothing was written"


def _estimate(done: Any) -> Iterator[tuple[str, str]]:
    """Yield the row about what a run takes: tokens, time, memory, and space on disk."""
    found = done.plan.get("estimate")
    if found is None:
        return
    about = "" if found["is_exact"] else "about "
    jobs, size, scratch = done.plan["jobs"], found["size_bytes"], found["scratch_bytes"]
    together = f" and {human_bytes(scratch)} of scratch, {human_bytes(size + scratch)} at once" if scratch else ""
    rough = ", a rough guess as the sample takes under a second" if found["measured_seconds"] < 1 else ""
    processes = jobs if done.plan["executor"] == "processes" else 1
    parts = [
        f"{about}{counted(found['tokens'], 'token')} in {counted(found['sequences'], 'sequence')}",
        f"{human_bytes(size)} in {printable(done.destination)}{together}",
        f"{'about ' * (found['cpu_seconds'] >= jobs)}{human_time(found['cpu_seconds'] / jobs)} with -j {jobs}{rough}",
        f"about {human_bytes(processes * found['memory_bytes'])} of memory with -j {jobs}",
    ]
    if found["scaled_to"] is not None:
        parts.insert(0, f"for {human_bytes(found['scaled_to'])} of such files")
    origin = f"from {human_bytes(found['read_bytes'])} in {counted(found['places'], 'place')}"
    yield "estimate", f"{', '.join(parts)} ({origin})"


def _resources(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows about the space of the destination, what is read from stores, and what is uploaded to one."""
    from tokfmt.commands.guards import sized

    space = [] if plan["minimum_bytes"] is None else [f"at least {sized(plan['minimum_bytes'])}"]
    if space := [*space, *([] if plan["free_bytes"] is None else [f"{sized(plan['free_bytes'])} free"])]:
        yield "space", ", ".join(space)
    if read := plan.get("download"):
        requests = f"about {counted(read['requests'], 'request')} ({counted(read['lists'], 'list')})"
        passes = f" in {read['passes']} passes" if read["passes"] > 1 else ""
        yield "reads", f"{counted(read['objects'], 'object')}, {human_bytes(read['bytes'])}{passes}, {requests}"
    if upload := plan.get("upload"):
        size = "" if upload["minimum_bytes"] is None else f"{human_bytes(upload['minimum_bytes'])} in "
        yield "upload", f"at least {size}{counted(upload['minimum_requests'], 'request')}"
        yield "spool", printable(plan["spool"])


def table_of_prepared(report: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table about a preparation, by source and rule. A row is the name (two spaces before the name of a
    rule), documents, their share of the source, characters, tokens in the result, share of all tokens, and passes over
    the kept documents. A source of which all is kept has one row. If no source is text, there is no column of
    characters.
    """
    rows: list[tuple[str, ...]] = []
    whole = max(1, sum(row["tokens"] for row in report))
    for row in report:
        quota = "" if row["quota"] is None else f" for a quota of {row['quota']:,}"
        of_all = (f"{row['tokens']:,}", f"{row['tokens'] / whole:.2%}", f"{row['passes']:.2f}")
        looked = (row["source"], row["documents"], row["characters"])
        found = [(f"  {rule}", part["documents"], part["characters"]) for rule, part in row["rejected"].items()]
        found += [(f"  equal to {name}", count, None) for name, count in row["duplicates"].items()]
        if found or quota or row["kept"] < row["documents"]:
            found = [looked, *found, (f"  kept{quota}", row["kept"], None)]
        else:
            found = [looked]
        for name, documents, characters in found:
            chars = "" if characters is None else f"{characters:,}"
            rows.append((name, f"{documents:,}", f"{documents / max(1, row['documents']):.2%}", chars, "", "", ""))
        rows[-1] = rows[-1][:4] + of_all
    heads: tuple[str, ...] = ("source", "documents", "of source", "characters", "tokens", "of all", "passes")
    if not any(row[3] for row in rows):  # no source is text
        heads, rows = heads[:3] + heads[4:], [row[:3] + row[4:] for row in rows]
    return Table(heads, rows)


def _splits(done: Any) -> list[str]:
    """Return a line for each split and its destination."""
    lines = []
    for name, split in done.splits.items():
        pairs = ((split["sequences"], "sequence"), (split["tokens"], "token"))
        what = ", ".join(counted(number, word) for number, word in pairs if number is not None)
        where = "" if split["destination"] == done.destination else f" {printable(split['destination'])}"
        lines.append(f"split {name}:{where} {what}".rstrip())
    return lines
