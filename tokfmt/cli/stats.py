"""`tokfmt stats`."""

from __future__ import annotations

import json
from typing import Any

import click

from tokfmt.cli.parameters import Count, ExecutorName, common, examples, reading

_EPILOG = examples(
    "tokfmt stats fixtures/modalities/D_2byte_gpt2.pbin",
    "tokfmt stats fixtures/flat-tokens/train_only.zarr --vocab-size 50257 --seq-len 512",
    "tokfmt stats fixtures/text/corpus.jsonl --tokenizer fixtures/tokenizer",
    "tokfmt stats fixtures/modalities/D_*.pbin --expect 'max_id < 50257' --expect 'duplicates.share < 0.01'",
)


@click.command("stats", epilog=_EPILOG, no_args_is_help=True)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--tokenizer", metavar="NAME|DIR|FILE", help="Spells ids, knows the vocabulary, tokenizes text sources.")
@click.option(
    "--vocab-size", type=Count(), help="To tell how much of a vocabulary occurs, and which ids are beyond it."
)
@click.option("--seq-len", type=Count(), help="Tokens in a sample: what packing to that length would cost.")
@click.option("--no-duplicates", is_flag=True, help="Do not look for equal sequences (24 bytes of memory a sequence).")
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
    """Counts, lengths, vocabulary and duplicates of datasets of any format."""
    from tokfmt.cli.console import Watcher
    from tokfmt.ops.sources import SourceRequest
    from tokfmt.ops.stats import StatsRequest, stats

    source = SourceRequest(
        paths, given["from_format"], given["eos"], given["from_options"], given["text_field"], given["split"]
    )
    request = StatsRequest(
        source,
        tokenizer=given["tokenizer"],
        vocab_size=given["vocab_size"],
        seq_len=given["seq_len"],
        duplicates=not given["no_duplicates"],
        jobs=given["jobs"],
        executor=given["executor"],
    )
    with Watcher(quiet=given["quiet"]) as watcher:
        report = stats(request, watcher)
    if given["as_json"]:
        click.echo(json.dumps(report.as_json(), ensure_ascii=False, indent=2))
    return 0
