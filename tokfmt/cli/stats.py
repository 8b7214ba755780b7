"""`tokfmt stats`: print statistics, compare them with expectations and a baseline, and write a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tokfmt.cli.console import Watcher, annotate, document, note, terminal
from tokfmt.cli.parameters import (
    PLACE,
    Command,
    Count,
    Words,
    beside_reading,
    common,
    examples,
    rare,
    reading,
    requested,
    running,
    tokenizer,
    workers,
)
from tokfmt.wording import counted, printable

Problem = tuple[str, str, str]
"""The path, the message, and the beginning of the line on stderr."""

if TYPE_CHECKING:
    from tokfmt.commands.expectations import Expectation
    from tokfmt.commands.stats import StatsReport, StatsRequest
    from tokfmt.commands.stats.report import Unmet
    from tokfmt.files.place import Place
    from tokfmt.files.publisher import Publisher

_EPILOG = examples(
    "tokfmt stats pack.pbin",
    "tokfmt stats gpt2_text_document --vocab-size 50257 --seq-len 512",
    "tokfmt stats corpus.jsonl --tokenizer tokenizer",
    "tokfmt stats pack.pbin merged.pbin --duplicate-groups groups.jsonl",
    "tokfmt stats pack.pbin --expect 'max_id < 50257' --expect 'duplicates.share < 0.01'",
)


@click.command("stats", cls=Command, epilog=_EPILOG, no_args_is_help=True)
@click.argument("paths", nargs=-1, required=True, type=PLACE, metavar="PATH...")
@tokenizer("Tokenizer that encodes text, shows IDs as text, and gives the vocabulary.")
@click.option("--vocab-size", type=Count(1), help="Vocabulary size, to report its share in use and the IDs beyond it.")
@click.option(
    "--seq-len", type=Count(1), help="Tokens per sample, to estimate the cost of packing: 2048 or 2Ki (2k is 2,000)."
)
@click.option("--no-duplicates", is_flag=True, help="Do not count duplicates, which takes 24 bytes per sequence.")
@click.option(
    "--duplicate-groups",
    type=PLACE,
    metavar="GROUPS.jsonl",
    help="Write each group of equal sequences with all members, over all PATHs; replaces only an older list.",
)
@click.option(
    "--sample", type=Count(1), metavar="N", help="Read about N sequences of each PATH, and estimate the values."
)
@click.option("--select", metavar="A:B", help="Count tokens by source in these samples of a recipe or a run.")
@click.option("--step", metavar="A:B", help="Count tokens by source in these steps of a run.")
@rare("--seed", type=Count(0), default=0, help="Seed of --sample (default: 0).")
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="'KEY OP VALUE'",
    help="Condition that has to hold, else the exit code is 1: 'max_id < 50257'; repeatable.",
)
@click.option("--baseline", type=PLACE, metavar="OLD.json", help="Earlier output of --json to compare with.")
@click.option(
    "--tolerance",
    default="0",
    metavar="PERCENT",
    help="Largest difference from --baseline, such as 1% (default: 0).",
)
@click.option(
    "--html",
    type=PLACE,
    metavar="PAGE.html",
    help="Write one page with plots; replaces only an older page.",
)
@click.option(
    "--plot",
    type=PLACE,
    metavar="LENGTHS.svg",
    help="Write the histogram of lengths, of all PATHs together; replaces only an older plot.",
)
@workers()
@running(
    "--executor",
    type=Words(("serial", "threads", "processes", "dask")),
    default="threads",
    help="Pool that runs the tasks; dask is worker processes of this machine (default: threads).",
)
@reading
@common
def command(
    paths: tuple[str, ...],
    *,
    no_duplicates: bool,
    expected: Sequence[str],
    baseline: str | None,
    tolerance: str,
    html: str | None,
    plot: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Count sequences, tokens, lengths, IDs and duplicates.

    Each PATH is a dataset. If a PATH cannot be read, an error names it, the others are reported, and the exit code is
    3.

    --expect takes the keys of --json, dotted, such as tokens, max_id, lengths.p50 or duplicates.share. total.tokens is
    the number of tokens of all datasets. Write values like 1e6, 10M or 1%, or compare with the baseline: 'tokens >=
    baseline', 'lengths.mean > 99% of baseline'; other values may then differ.
    """
    from tokfmt.commands.stats import StatsRequest, stats
    from tokfmt.commands.stats.report import deviations, parse_expectation, parse_tolerance, read_baseline, unmet

    allowed = parse_tolerance(tolerance)
    expectations = [parse_expectation(text, has_baseline=baseline is not None) for text in expected]
    before = read_baseline(baseline) if baseline is not None else None
    is_compared = before is not None and not any(expectation.is_of_baseline for expectation in expectations)
    request = StatsRequest(requested(paths, given), duplicates=not no_duplicates, **beside_reading(given))
    with (
        _product_place("page", html, (".html", ".htm")) as page_place,
        _product_place("plot", plot, (".svg",)) as plot_place,
        Watcher(quiet=quiet) as watcher,
    ):
        report = stats(request, watcher)
        failed = unmet(report, expectations, before)
        changed = deviations(report, before, allowed) if before is not None and is_compared else []
        if page_place is not None and report.datasets:
            _write_page(report, page_place, request, watcher)
        if plot_place is not None and report.datasets:
            _write_plot(report, plot_place, request)
    if request.duplicate_groups is not None and not quiet:
        why = ", because a dataset cannot be read"
        click.echo(
            f"{'did not write' if report.failures else 'wrote'} {printable(request.duplicate_groups)}"
            f"{why if report.failures else ''}",
            err=True,
        )
    for written in (html, plot) if report.datasets and not quiet else ():
        if written is not None:
            click.echo(f"wrote {printable(written)}", err=True)
    against = f"{baseline} (tolerance {tolerance.strip()})"
    problems = [(failure.path, str(failure.error), "") for failure in report.failures]
    problems += [(one.path, one.message, f"{printable(one.path)}: ") for one in failed]
    problems += _by_dataset(changed, against)
    held = _held(len(expectations), {one.expected for one in failed}, is_compared and not changed, against)
    _print(report, problems, held, as_json=as_json, quiet=quiet)
    if report.failures:
        return 3
    return 1 if failed or changed else 0


def _product_place(kind: str, path: str | None, endings: tuple[str, ...]) -> Any:
    """Return the staging file of a page or a plot; raise before any work if its name or what exists is another."""
    from contextlib import nullcontext

    if path is None:
        return nullcontext()
    from tokfmt.cli.page import BEGINNINGS
    from tokfmt.errors import OptionError
    from tokfmt.files.replacing import begins_with
    from tokfmt.files.spool import staging_for

    if path != "-" and not path.lower().endswith(endings):
        option, other = ("html", "plot") if kind == "page" else ("plot", "html")
        raise OptionError(
            f"--{option} {printable(path)}: the {kind} needs a name that ends in {' or '.join(endings)}. Rename it, or "
            f"use --{other}, which writes a {'plot of the lengths (.svg)' if kind == 'page' else 'page (.html)'}"
        )
    return staging_for(path, overwrite=True, objection=begins_with(f"{kind} of tokfmt stats", BEGINNINGS[kind]))


def _write_plot(report: StatsReport, place: Publisher, request: StatsRequest) -> None:
    """Write the histogram of the lengths of all datasets together."""
    from tokfmt.cli.page import plot

    places = _places(report, request)
    name = f"{len(places)} datasets" if report.total else next(iter(places.values())).name
    _publish(report, places, place, plot(report.total or report.datasets[0], name))


def _write_page(report: StatsReport, place: Publisher, request: StatsRequest, watcher: Watcher) -> None:
    """Write the page of a report, with the findings of a shallow check."""
    from tokfmt.cli.page import page, prepared_of
    from tokfmt.commands.check import CheckRequest, check
    from tokfmt.source.manifest import read_manifest

    places = _places(report, request)
    paths = tuple(places.values())
    source = dataclasses.replace(request.source, paths=paths, allow_loss=frozenset(), recursive=False)
    findings = {}
    watcher.phase("checking", len(paths), "datasets")
    for verdict in check(CheckRequest(source, tokenizer=request.tokenizer, jobs=request.jobs)):
        findings[verdict.path] = verdict.findings
        watcher.advance(1)
    prepared = {}
    if not source.ignore_manifest:
        prepared = {path: prepared_of(read_manifest(at).content.get("prepared")) for path, at in places.items()}
    _publish(report, places, place, page(report, findings, prepared))


def _places(report: StatsReport, request: StatsRequest) -> dict[str, Place]:
    """Return where each dataset of a report is, which omits what is secret."""
    from tokfmt.files.place import place_of

    by_name = {str(place): place for place in map(place_of, request.source.paths)}
    return {dataset.path: by_name.get(dataset.path, place_of(dataset.path)) for dataset in report.datasets}


def _publish(report: StatsReport, places: Mapping[str, Place], place: Publisher, text: str) -> None:
    """Write a page or a plot, readable by those who may read the datasets, because it shows their content."""
    from tokfmt import registry
    from tokfmt.files.file import writing
    from tokfmt.files.replacing import readable_by

    files = (file for dataset in report.datasets for file in registry.get(dataset.format).files(places[dataset.path]))
    place.readable = readable_by(files)
    with writing(place.destination):
        place.path.write_text(text, "utf-8")
    place.publish()


def _by_dataset(changed: Sequence[Unmet], against: str) -> list[Problem]:
    """Return one problem per dataset that differs from the baseline: the number of values, then a line for each."""
    lines: dict[str, list[str]] = {}
    for one in changed:
        lines.setdefault(one.path, []).append(one.message)
    found = []
    for path, texts in lines.items():
        head = [f"{counted(len(texts), 'value')} outside of the baseline {against}"] if path else []
        found.append((path, "\n  ".join([*head, *texts]), f"{printable(path)}: " if path else ""))
    return found


def _held(count: int, failed: Collection[Expectation | None], is_baseline_held: bool, against: str) -> list[str]:
    """Return a line about the expectations that hold, and one about the baseline if it holds."""
    lines = []
    if count:
        lines.append(f"{count - len(failed):,} of {counted(count, 'expectation')} held")
    if is_baseline_held:
        lines.append(f"every value is within the baseline {against}")
    return lines


def _print(
    report: StatsReport, problems: Sequence[Problem], held: Sequence[str], *, as_json: bool, quiet: bool
) -> None:
    """Print the report on stdout, then a line on stderr for each problem, then what holds, then annotations.

    A quiet run that compares with expectations or a baseline prints problems only.
    """
    if as_json:
        document("stats", report.as_json())
    elif report.datasets and not (quiet and (held or problems)):
        _table(report, quiet=quiet)
    for _, message, where in problems:
        head, *lines = message.split("\n")
        click.echo("\n".join([f"tokfmt: error: {where}{printable(head)}", *map(printable, lines)]), err=True)
    for text in () if quiet else held:
        click.echo(text, err=True)
    for path, message, _ in () if as_json else problems:
        annotate("error", path, "tokfmt stats", message)


def _table(report: StatsReport, *, quiet: bool) -> None:
    from tokfmt.cli.stats_table import show

    show(report, terminal())
    by_note: dict[str, list[str]] = {}
    for one in () if quiet else report.datasets:
        for text in one.notes:
            by_note.setdefault(text, []).append(one.path)
    for text, paths in by_note.items():
        others = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
        note(text, f"{paths[0]}{others}: " if report.several else "")
