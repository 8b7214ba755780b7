"""`tokfmt stats`."""

from __future__ import annotations

import json
from typing import Any

import click

from tokfmt.cli.parameters import Count, ExecutorName, Words, common, examples, reading

_EPILOG = examples(
    "tokfmt stats fixtures/modalities/D_2byte_gpt2.pbin",
    "tokfmt stats fixtures/flat-tokens/train_only.zarr --vocab-size 50257 --seq-len 512",
    "tokfmt stats fixtures/text/corpus.jsonl --tokenizer fixtures/tokenizer",
    "tokfmt stats fixtures/modalities/D_2byte_gpt2.pbin --expect 'max_id < 50257' --expect 'duplicates.share < 0.01'",
)


@click.command("stats", epilog=_EPILOG, no_args_is_help=True)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--tokenizer", metavar="NAME|DIR|FILE", help="Spells ids, knows the vocabulary, tokenizes text sources.")
@click.option(
    "--vocab-size", type=Count(), help="To tell how much of a vocabulary occurs, and which ids are beyond it."
)
@click.option("--seq-len", type=Count(), help="Tokens in a sample: what packing to that length would cost.")
@click.option("--no-duplicates", is_flag=True, help="Do not look for equal sequences (24 bytes of memory a sequence).")
@click.option("--sample", type=Count(), metavar="N", help="Look at N sequences only; figures are estimates.")
@click.option("--seed", type=Count(), default=0, show_default=True, help="Of the choice of the sample.")
@click.option("--expect", "expected", multiple=True, metavar="'KEY OP VALUE'", help="What must hold, or exit with 1.")
@click.option("--baseline", metavar="OLD.json", help="An earlier document of --json to compare with.")
@click.option("--tolerance", default="0", metavar="1%", show_default=True, help="How far from the baseline is fine.")
@click.option("--drop", multiple=True, metavar="NAME", help="What may be given up in reading, such as invalid-lines.")
@click.option(
    "--output-format",
    type=Words(("text", "json", "github")),
    default="text",
    show_default=True,
    help="A table, one JSON document, or the table and annotations for GitHub Actions.",
)
@click.option("--html", metavar="PAGE.html", help="Write one self-contained page with plots, replacing an older one.")
@click.option("--jobs", type=Count(), help="Workers. Default: one a core.")
@click.option(
    "--executor",
    type=ExecutorName(("serial", "threads", "processes", "dask")),
    default="threads",
    help="Where they run.",
)
@reading
@common
def command(paths: tuple[str, ...], **given: Any) -> int:
    """Counts, lengths, vocabulary and duplicates of datasets of any format.

    Each PATH is a dataset. --expect names the keys of --json, dotted, such as tokens, max_id, lengths.p50,
    duplicates.share; total.tokens is that of all datasets together. Values are written like 1e6, 10M or 1%.
    """
    from tokfmt.cli.console import Watcher
    from tokfmt.ops.stats import stats
    from tokfmt.ops.stats.baseline import deviations, parse_tolerance, read_baseline
    from tokfmt.ops.stats.expectations import parse_expectation, unmet

    expected = [parse_expectation(text) for text in given["expected"]]
    tolerance = parse_tolerance(given["tolerance"])
    before = read_baseline(given["baseline"]) if given["baseline"] is not None else None
    with Watcher(quiet=given["quiet"]) as watcher:
        report = stats(_request(paths, given), watcher)
    failed = unmet(report, expected)
    changed = deviations(report, before, tolerance) if before is not None else []
    if given["html"] is not None:
        _write_page(report, paths, given)
    _print(report, failed + changed, given)
    return 1 if failed or changed else 0


def _request(paths: tuple[str, ...], given: dict[str, Any]) -> Any:
    from tokfmt.ops.sources import SourceRequest, check_drops
    from tokfmt.ops.stats import StatsRequest

    return StatsRequest(
        SourceRequest(
            paths,
            given["from_format"],
            given["eos"],
            given["from_options"],
            given["text_field"],
            given["split"],
            check_drops(given["drop"]),
        ),
        tokenizer=given["tokenizer"],
        vocab_size=given["vocab_size"],
        seq_len=given["seq_len"],
        duplicates=not given["no_duplicates"],
        sample=given["sample"],
        seed=given["seed"],
        jobs=given["jobs"],
        executor=given["executor"],
    )


def _write_page(report: Any, paths: tuple[str, ...], given: dict[str, Any]) -> None:
    """The page of the report, with what a shallow check finds."""
    from tokfmt.cli.page import page
    from tokfmt.core.errors import printable
    from tokfmt.core.publish import Staging, write_error
    from tokfmt.ops.check import Demands, check

    demands = Demands(
        format=given["from_format"],
        options=given["from_options"],
        eos=given["eos"],
        split=given["split"],
        text_field=given["text_field"],
        tokenizer=given["tokenizer"],
        jobs=given["jobs"],
    )
    findings = {verdict.path: verdict.findings for verdict in check(paths, demands)}
    with Staging(given["html"], overwrite=True) as staging:
        try:
            staging.path.write_text(page(report, findings), "utf-8")
        except OSError as error:
            raise write_error(staging.destination, error) from error
        staging.publish()
    if not given["quiet"]:
        click.echo(f"wrote {printable(given['html'])}", err=True)


def _print(report: Any, failed: list[Any], given: dict[str, Any]) -> None:
    from tokfmt.cli.github import annotation
    from tokfmt.core.errors import printable

    output = given["output_format"]
    if given["as_json"] or output == "json":
        click.echo(json.dumps(report.as_json(), ensure_ascii=False, indent=2))
    elif not given["quiet"]:
        _table(report)
    for one in failed:
        if output == "github":
            click.echo(annotation("error", one.path, "tokfmt stats", one.message))
        else:
            click.echo(f"tokfmt: error: {printable(one.path)}: {one.message}", err=True)


def _table(report: Any) -> None:
    from rich.console import Console

    from tokfmt.cli.stats_table import show
    from tokfmt.core.errors import printable

    show(report, Console(highlight=False))
    for one in report.datasets:
        place = f"{printable(one.path)}: " if report.total is not None else ""
        for note in one.notes:
            click.echo(f"note: {place}{printable(note)}", err=True)
