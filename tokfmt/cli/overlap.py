"""`tokfmt overlap`: print which items of evals are in datasets, and compare that with expectations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tokfmt.cli.console import Watcher, annotate, document, note
from tokfmt.cli.parameters import (
    PLACE,
    Command,
    Count,
    TaskNumber,
    Words,
    common,
    examples,
    reading,
    requested,
    running,
    tokenizer,
    workers,
)
from tokfmt.cli.table import Table
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.commands.overlap import OverlapReport

_ROWS = 10
_EPILOG = examples(
    "tokfmt overlap corpus.jsonl --with more.jsonl --field text --ngram 8",
    "tokfmt overlap pack.pbin --with more.jsonl --tokenizer tokenizer --list hits.jsonl --expect 'max_share < 1'",
    "tokfmt overlap pack.pbin --with more.jsonl --by tokens --tokenizer tokenizer",
)


@click.command("overlap", cls=Command, epilog=_EPILOG, no_args_is_help=True)
@click.argument("paths", nargs=-1, required=True, type=PLACE, metavar="CORPUS...")
@click.option("--with", "evals", multiple=True, required=True, type=PLACE, metavar="EVAL", help="Eval; repeatable.")
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="NAME,...",
    help="Fields of the text of EVAL, which are joined: question,answer; once, or once for each EVAL in their order.",
)
@click.option("--ngram", type=Count(1, 255), default=13, metavar="N", help="Words or tokens in a row (default: 13).")
@click.option(
    "--by", type=Words(("words", "tokens")), default="words", help="Compare words or token IDs (default: words)."
)
@tokenizer("Tokenizer that decodes IDs to words, or encodes text to tokens (default: that of the manifest).")
@click.option(
    "--list", "listed", type=PLACE, metavar="FILE.jsonl", help="Write items beside documents; replaces an older list."
)
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="'KEY OP VALUE'",
    help="Condition on a key such as max_share or hit_items, else the exit code is 1; repeatable.",
)
@workers()
@running(
    "--executor",
    type=Words(("auto", "serial", "threads", "processes", "dask")),
    default="auto",
    help="Pool that runs the tasks; auto is processes for much text, else threads (default: auto).",
)
@running("--task", type=TaskNumber(), help="Search only share I of N (0 <= I < N), and write its sums to --parts.")
@running("--finish", is_flag=True, help="Add the sums of all tasks in --parts; takes the options of the tasks.")
@running("--parts", type=PLACE, metavar="DIR", help="Directory for the sums of tasks.")
@reading
@common
def command(
    paths: tuple[str, ...],
    *,
    evals: tuple[str, ...],
    fields: tuple[str, ...],
    ngram: int,
    by: str,
    tokenizer: str | None,
    listed: str | None,
    expected: Sequence[str],
    jobs: int | None,
    executor: str,
    task: tuple[int, int] | None,
    finish: bool,
    parts: str | None,
    as_json: bool,
    quiet: bool,
    **reading: Any,
) -> int:
    """Find the n-grams of evals in datasets.

    An EVAL is a dataset of any format, such as JSON Lines or Parquet. Each CORPUS is a dataset. Every hit is exact.

    Words are runs of letters, marks and numbers in lower case. Items with fewer than N words or tokens are counted as
    short. `tokfmt show CORPUS DOCUMENT` prints the document of a hit.
    """
    from tokfmt.commands.overlap import OverlapRequest, overlap
    from tokfmt.text.filter_rules import OverlapRules

    rules = OverlapRules.of({"with": evals, "ngram": ngram, "by": by, "field": fields}, "overlap")
    request = OverlapRequest(
        requested(paths, reading), rules, tokenizer, expected, listed, jobs, executor, task, parts, finish
    )
    with Watcher(quiet=quiet) as watcher:
        report = overlap(request, watcher)
    if as_json:
        document("overlap", report)
    elif task is not None:
        if not quiet:
            click.echo(f"task {task[0]} of {task[1]} is written; --finish adds all tasks", err=True)
        return 0
    elif not (quiet and expected):
        _print(report, quiet=quiet)
    if listed is not None and not quiet:
        click.echo(f"wrote {printable(listed)}", err=True)
    for text in report.unmet:
        click.echo(f"tokfmt: error: {text}", err=True)
        if not as_json:
            annotate("error", paths[0], "tokfmt overlap", text)
    if expected and not quiet:
        held = len(expected) - len(report.unmet)
        click.echo(f"{held:,} of {counted(len(expected), 'expectation')} held", err=True)
    return 1 if report.unmet else 0


def _print(report: OverlapReport, *, quiet: bool) -> None:
    """Print a row for each eval, the items with the largest shares, and a row for each dataset."""
    rows = [
        (
            one.path,
            f"{one.items:,}",
            f"{len(one.hits):,}",
            f"{one.short:,}",
            f"{one.share:.2%}",
            f"{one.longest:,}",
            f"{one.documents:,}",
        )
        for one in report.evals
    ]
    heads = ("eval", "items", "hit", "short", "n-grams found", "longest run", "documents")
    tables = [Table(heads, rows)]
    hits = [(one.path, hit) for one in report.evals for hit in one.hits]
    hits.sort(key=lambda pair: -pair[1].share)
    found = [
        (
            f"{path} {hit.item}",
            f"{hit.share:.2%}",
            f"{hit.longest:,}",
            f"{hit.documents:,}",
            f"{hit.examples[0].path} {hit.examples[0].sequence}",
        )
        for path, hit in hits[:_ROWS]
    ]
    if found:
        tables.append(Table(("item", "n-grams found", "longest run", "documents", "first document"), found))
    searched = [(corpus.path, f"{corpus.documents:,}", f"{corpus.hit_documents:,}") for corpus in report.corpora]
    tables.append(Table(("corpus", "documents", "hit"), searched))
    click.echo("\n\n".join("\n".join(table.lines()) for table in tables))
    if quiet:
        return
    if report.short_items:
        what = f"{counted(report.short_items, 'item')} with fewer than {report.ngram} {report.by}"
        note(f"{what} cannot be found. --ngram N finds shorter ones; --expect 'short_items == 0' makes it an error")
    if len(hits) > _ROWS:
        note(f"{len(hits) - _ROWS:,} more items are in --json and --list")
    for text in report.notes:
        note(text)
