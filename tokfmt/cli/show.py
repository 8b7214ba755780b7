"""`tokfmt show`."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sys
from functools import partial
from typing import Any

import click

from tokfmt.cli.parameters import Count, common, examples, reading
from tokfmt.cli.show_raw import show_raw
from tokfmt.cli.show_samples import show_samples

_EPILOG = examples(
    "tokfmt show fixtures/modalities/D_2byte_gpt2.pbin",
    "tokfmt show fixtures/modalities/D_2byte_gpt2.pbin 3 --ids",
    "tokfmt show fixtures/text/corpus.jsonl 0:3 --tokenizer fixtures/tokenizer",
    "tokfmt show fixtures/modalities/D_2byte_gpt2.pbin --raw",
    "tokfmt show fixtures/hdf5/padded_eos 0:2 --samples",
)
_FROM_THE_END = re.compile(r"-[0-9]")
_LINES = 3  # of a sequence on a terminal; everything when piped or with --full


class _Selecting(click.Command):
    """Takes `-3:` for the selection that it is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put what begins like a negative number last, where it cannot be taken for an option."""
        counted = [word for word in args if _FROM_THE_END.match(word)] if "--" not in args else []
        options = [word for word in args if word not in counted]
        return super().parse_args(ctx, [*options, "--", *counted] if counted else options)


@click.command("show", cls=_Selecting, epilog=_EPILOG, no_args_is_help=True)
@click.argument("path")
@click.argument("selection", required=False, metavar="[SEL]")
@click.option("--tokenizer", metavar="NAME|DIR|FILE", help="Shows text beside ids; tokenizes text sources.")
@click.option("--ids", "only_ids", is_flag=True, help="Ids only.")
@click.option("--text", "only_text", is_flag=True, help="Text only.")
@click.option("--full", is_flag=True, help="Do not shorten on a terminal.")
@click.option("--samples", "rows", is_flag=True, help="Rows as stored: input_ids, mask and labels.")
@click.option("--raw", is_flag=True, help="Header, index and bytes, annotated; damaged files too.")
@click.option("--limit", type=Count(), metavar="N", help="With --raw: fields shown of each part (default 12).")
@reading
@common
def command(path: str, selection: str | None, **given: Any) -> None:
    """Print sequences: SEL is one number (5, -1) or a range (0:10, -3:); default the first five."""
    from tokfmt.ops.show import show

    only_ids, only_text, full = given.pop("only_ids"), given.pop("only_text"), given.pop("full")
    quiet, as_json = given.pop("quiet"), given.pop("as_json")
    given.pop("debug")
    raw, rows, limit = given.pop("raw"), given.pop("rows"), given.pop("limit")
    if raw or rows:
        inside = partial(show_raw, limit=limit) if raw else partial(show_samples, selection=selection, full=full)
        inside(path, given, as_json=as_json, quiet=quiet)
        return
    if only_text and not given["tokenizer"] and not _may_be_text(path):
        raise click.UsageError("--text needs --tokenizer")
    preview = show(path, selection, **given)
    if as_json:
        _as_json(preview)
        return
    if not quiet:
        click.echo(_heading(preview), err=True)
        for note in preview.notes:
            click.echo(f"note: {note}", err=True)
    short = sys.stdout.isatty() and not full
    for number, shown in enumerate(preview.shown):
        if number and not (only_ids or only_text):
            click.echo()
        click.echo(_lines(shown, only_ids, only_text, short))


def _may_be_text(path: str) -> bool:
    from tokfmt import registry

    return registry.detect(path).name == "jsonl"


def _as_json(preview: Any) -> None:
    facts = {f.name: getattr(preview, f.name) for f in dataclasses.fields(preview) if f.name != "shown"}
    facts["shown"] = [dataclasses.asdict(shown) for shown in preview.shown]
    click.echo(json.dumps({"schema": "tokfmt.show/1", **facts}, default=str, indent=2))


def _heading(preview: Any) -> str:
    from tokfmt.cli.console import counted
    from tokfmt.core.errors import printable

    parts = [counted(preview.sequences, "sequence" if preview.tokens is not None else "record")]
    if preview.tokens is not None:
        parts.append(counted(preview.tokens, "token"))
    if preview.eos_id is not None:
        parts.append(f"separator {preview.eos_id} ({preview.eos_from})")
    told = {key: value for key, value in preview.extras.items() if value not in (0, -1, None, "") and value != ()}
    detail = ", ".join(f"{key.replace('_', ' ')} {_words(value)}" for key, value in told.items())
    return f"{printable(preview.path)}: {preview.format}{f' ({detail})' if detail else ''}: {', '.join(parts)}"


def _words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _lines(shown: Any, only_ids: bool, only_text: bool, short: bool) -> str:
    """One sequence: bare when one kind was asked for (pipes), else headed and indented."""
    ids = " ".join(map(str, shown.ids)) if shown.ids is not None else ""
    text = _visible(shown.text) if shown.text is not None else ""
    if only_ids:
        return _shortened(ids, shown.cut, short)
    if only_text:
        return _shortened(text, shown.cut, short)
    unit = "tokens" if shown.ids is not None else "characters"
    blocks = [click.style(f"#{shown.index}", bold=True) + click.style(f"  {shown.length:,} {unit}", dim=True)]
    if shown.ids is not None:
        blocks.append(_shortened(ids, shown.cut, short))
    if shown.text is not None:
        blocks.append(click.style(_shortened(text, shown.cut, short), fg="green"))
    return "\n".join(block for block in blocks if block)


def _visible(text: str) -> str:
    """Text from a file, with control characters escaped; line breaks and tabs stay."""
    from tokfmt.core.errors import printable

    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in text.split("\n"))


def _shortened(text: str, cut: int, short: bool) -> str:
    """For a terminal, a few lines; `cut` more tokens are not in the text at all."""
    room = (shutil.get_terminal_size().columns - 2) * _LINES
    if not short or (len(text) <= room and text.count("\n") < _LINES):
        return f"{text} … (+{cut:,} tokens)" if cut else text
    kept = "\n".join(text[:room].split("\n")[:_LINES])
    more = f" and {cut:,} tokens" if cut else ""
    return f"{kept} … (+{len(text) - len(kept):,} characters{more}; --full)"
