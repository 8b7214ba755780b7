"""`tokfmt info`: print what a dataset is, in at most 15 lines."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from tokfmt.cli.console import document
from tokfmt.cli.parameters import PLACE, Command, common, examples, reading, requested, tokenizer
from tokfmt.wording import counted, human_bytes, listed_facts, printable, separator_words, shortened

if TYPE_CHECKING:
    from tokfmt.commands.info import Overview

_LINES = 15
_FIELDS = 200  # characters
_EPILOG = examples("tokfmt info pack.pbin", "tokfmt info corpus.jsonl")


@click.command("info", cls=Command, epilog=_EPILOG, no_args_is_help=True)
@click.argument("path", type=PLACE)
@tokenizer("Tokenizer that shows the first IDs as text (default: that of the manifest).")
@reading
@common
def command(path: str, *, as_json: bool, quiet: bool, debug: bool, **given: Any) -> None:
    """Identify a dataset in at most 15 lines.

    It prints the format, the layout, the counts, the largest ID, the separator, the tokenizer, the manifest and the
    first words. The time does not depend on the number of tokens. A fact that would take a read of the whole dataset
    is marked as not known; tokfmt stats counts it.
    """
    from tokfmt.commands.info import info

    found = info(requested((path,), given), given["tokenizer"])
    if as_json:
        document("info", found)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in lines(found, notes=not quiet):
        click.echo(shortened(line, width) if width else line)


def lines(found: Overview, *, notes: bool = True) -> list[str]:
    """Return the facts of a dataset in words, at most 15 lines. The notes are added as far as there is room."""
    rows = [f"  {name:<12}{printable(words)}" for name, words in _facts(found) if words]
    room, listed = _LINES - 1 - len(rows), list(found.notes) if notes else []
    if len(listed) > room:
        listed[room - 1 :] = [f"{counted(len(listed) - room + 1, 'other note')}; --json lists all"]
    rows += [f"  {'note':<12}{printable(text)}" for text in listed]
    return [f"{printable(found.path)}: {found.format}, {found.title}", *rows]


def _facts(found: Overview) -> Iterator[tuple[str, str]]:
    """Yield the name of each line and its words, which are empty if the fact is not known."""
    extras, files = dict(found.extras), counted(found.files, "file")
    stored = extras.pop("dtype", found.dtype) if found.dtype else None
    yield "layout", ", ".join(filter(None, (found.layout, listed_facts(extras))))
    yield "size", files if found.size_bytes is None else f"{human_bytes(found.size_bytes)} in {files}"
    if found.layout != "samples" and found.samples is not None and found.sample_length is not None:
        positions, full = found.samples * found.sample_length, ""
        if found.padding is not None and positions:
            full = f", {10_000 * (positions - found.padding) // positions / 100:.4g} % full"  # rounded down
        yield "samples", f"{found.samples:,} of {found.sample_length:,}{full}"
    yield "fields", shortened(", ".join(map(printable, found.fields)), _FIELDS)
    is_divided = found.eos_id is not None or found.layout != "stream"
    unknown = "not known; tokfmt stats counts them" if is_divided else "not known; --eos ID divides the stream"
    yield "sequences", unknown if found.sequences is None else _count(found, found.sequences)
    if found.layout != "text" or found.tokens is not None:
        yield "tokens", _tokens(found)
    yield "dtype", f"{found.dtype}{f', stored as {stored}' if stored != found.dtype else ''}" if found.dtype else ""
    if found.max_id is not None:
        origins = {"dataset": "", "manifest": " (by the manifest)"}
        yield "largest ID", f"{found.max_id:,}{origins.get(found.max_id_from, f' in the first {found.max_id_from}')}"
    if found.eos_id is not None:
        yield "separator", separator_words(found.eos_id, found.eos_from, found.eos_seen)
    elif found.layout != "text" and found.eos_from:
        yield "separator", f"none ({found.eos_from})"
    elif found.layout != "text" and found.separators not in (None, "none"):
        yield "separator", "not known; --eos ID states it"
    if (made := found.tokenizer) is not None:
        yield "tokenizer", f"{made['name'] or 'of no name'} (digest {made['digest'][:8]}, by the manifest)"
    yield "manifest", _manifest(found)
    yield "first IDs", " ".join(map(str, found.ids or ()))
    yield "first words", found.text or ""


def _count(found: Overview, number: int) -> str:
    return f"{number:,}{' (by the manifest)' if found.counts_from == 'manifest' else ''}"


def _tokens(found: Overview) -> str:
    """Return the number of tokens, of those with separators, and of padding that is in no samples of one length."""
    if found.tokens is None and found.stored_tokens is not None:
        return f"{found.stored_tokens:,} with separators"
    words = "not known; tokfmt stats counts them" if found.tokens is None else _count(found, found.tokens)
    if found.layout == "samples" and found.sample_length is not None:
        return f"{words}, in samples of {found.sample_length:,}"
    if found.tokens is not None and found.stored_tokens is not None and found.stored_tokens > found.tokens:
        words += f"; {found.stored_tokens:,} with separators"
    return words + (f"; {found.padding:,} of padding" if found.padding and not found.samples else "")


def _manifest(found: Overview) -> str:
    made = found.manifest
    if made is None:
        return "none"
    by = f" of tokfmt {made.tokfmt}" if made.tokfmt else ""
    more = f" and {made.more_sources:,} more" if made.more_sources else ""
    origin = f", from {', '.join(made.sources)}{more}" if made.sources else ""
    return f"{PurePosixPath(made.path).name}{by}{origin}"
