"""`tokfmt show`."""

from __future__ import annotations

import dataclasses
import re
import sys
from typing import Any

import click

from tokfmt.cli.parameters import Count, common, examples, reading
from tokfmt.cli.show_raw import show_raw
from tokfmt.cli.show_samples import show_samples

_EPILOG = examples(
    "tokfmt show fixtures/modalities/D_2byte_gpt2.pbin",
    "tokfmt show fixtures/modalities/D_2byte_gpt2.pbin 3 --ids",
    "tokfmt show fixtures/modalities/D_2byte_gpt2.pbin -3:",
    "tokfmt show fixtures/modalities/D_2byte_gpt2.pbin random:2 --seed 1",
    "tokfmt show fixtures/modalities/D_2byte_gpt2.pbin token:464,2068",
    "tokfmt show fixtures/modalities/D_2byte_gpt2.pbin 'len>100'",
    "tokfmt show fixtures/text/corpus.jsonl 0:3 --tokenizer fixtures/tokenizer",
    "tokfmt show fixtures/text/corpus.jsonl \"text:'(?i)the end'\"",
    "tokfmt show fixtures/modalities/D_2byte_gpt2.pbin --raw",
    "tokfmt show fixtures/hdf5/padded_eos 0:2 --samples",
)


class _Selecting(click.Command):
    """A command whose arguments may begin with a minus and a digit (`-3:`), which no option does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # click takes no word for an option that begins with a blank, and numbers are stripped
        return super().parse_args(ctx, [f" {word}" if re.match(r"-\d", word) else word for word in args])


@click.command("show", cls=_Selecting, epilog=_EPILOG, no_args_is_help=True)
@click.argument("path")
@click.argument("selection", required=False, metavar="[SEL]")
@click.option("--tokenizer", metavar="NAME|DIR|FILE", help="Shows text beside ids; tokenizes text sources.")
@click.option("--ids", "only_ids", is_flag=True, help="Ids only.")
@click.option("--text", "only_text", is_flag=True, help="Text only.")
@click.option("--full", is_flag=True, help="Do not shorten on a terminal.")
@click.option("--samples", "rows", is_flag=True, help="Rows as stored: input_ids, mask and labels.")
@click.option("--raw", is_flag=True, help="Header, index and bytes, annotated; damaged files too.")
@click.option("--seed", type=Count(), default=0, show_default=True, help="Of random:N.")
@click.option(
    "--limit",
    type=Count(),
    metavar="N",
    help="At most so many sequences; 0: all. Default: 10 of a search, else all. With --raw: fields of a part (12).",
)
@reading
@common
def command(path: str, selection: str | None, **given: Any) -> None:
    """Print sequences; the first five, or those that SEL selects.

    SEL is a number (5, -1), a range (0:10, -3:), random:5, or a search: token:50256, token:464,3290 (a run of ids),
    text:'regex' (of the decoded text), len>4096, len==0, 10<len<20.
    """
    from tokfmt.cli.console import Watcher
    from tokfmt.cli.show_sequences import write_json
    from tokfmt.ops.show import show

    only_ids, only_text, full = given.pop("only_ids"), given.pop("only_text"), given.pop("full")
    quiet, as_json = given.pop("quiet"), given.pop("as_json")
    given.pop("debug")
    if given.pop("raw"):
        show_raw(path, given, limit=given["limit"], as_json=as_json, quiet=quiet)
        return
    if given.pop("rows"):
        show_samples(path, given, selection=selection, full=full, as_json=as_json, quiet=quiet)
        return
    if only_text and not given["tokenizer"] and not _may_be_text(path):
        raise click.UsageError("--text needs --tokenizer")
    if given["limit"] is not None and given["limit"] < 0:
        raise click.UsageError(f"--limit {given['limit']}: expected 0 (all) or more")
    # on a terminal a bar would run into what is printed
    with Watcher(quiet=quiet or sys.stdout.isatty()) as watcher:
        preview = show(path, selection, progress=watcher, **given)
        if as_json:
            facts = {f.name: getattr(preview, f.name) for f in dataclasses.fields(preview)}
            write_json({name: fact for name, fact in facts.items() if name not in ("shown", "cut")}, preview.shown)
            return
        print_preview(preview, only_ids=only_ids, only_text=only_text, quiet=quiet, full=full)


def print_preview(
    preview: Any, *, only_ids: bool = False, only_text: bool = False, quiet: bool = False, full: bool = False
) -> None:
    """The heading and the notes on stderr, the sequences on stdout."""
    from tokfmt.cli.show_sequences import Style, write_sequence

    if not quiet:
        click.echo(_heading(preview), err=True)
        for note in preview.notes:
            click.echo(f"note: {note}", err=True)
    style = Style(only_ids, only_text, sys.stdout.isatty() and not full)
    count = 0
    for count, shown in enumerate(preview.shown, 1):
        if count > 1 and not style.bare:
            click.echo()
        write_sequence(shown, style)
    if not quiet:
        _tell_end(preview, count)


def _tell_end(preview: Any, count: int) -> None:
    if not count:
        click.echo("nothing found" if preview.sequences else "no sequences", err=True)
    if preview.cut() is not None:
        click.echo(f"note: stopped after {preview.cut():,}; --limit N goes on, --limit 0 shows all", err=True)


def _may_be_text(path: str) -> bool:
    from tokfmt import registry

    return registry.detect(path).name == "jsonl"


def _heading(preview: Any) -> str:
    from tokfmt.cli.console import counted
    from tokfmt.core.errors import printable

    parts = [counted(preview.sequences, "sequence" if preview.tokens is not None else "record")]
    if preview.tokens is not None:
        parts.append(counted(preview.tokens, "token"))
    if preview.eos_id is not None:
        parts.append(f"separator {preview.eos_id} ({preview.eos_from})")
    told = {key: value for key, value in preview.extras.items() if value not in (0, -1, None, "", (), [])}
    detail = ", ".join(f"{key.replace('_', ' ')} {_words(value)}" for key, value in told.items())
    return f"{printable(preview.path)}: {preview.format}{f' ({detail})' if detail else ''}: {', '.join(parts)}"


def _words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
