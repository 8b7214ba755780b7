"""`tokfmt info`: print what a dataset is, in at most 15 lines."""

from __future__ import annotations

import shutil
import sys
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
_EPILOG = examples(
    "tokfmt info pack.pbin", "tokfmt info corpus.jsonl",
)  # fmt: skip


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
    rows = [
        ("layout", _layout(found)),
        ("size", _size(found)),
        ("samples", _samples(found)),
        ("fields", shortened(", ".join(map(printable, found.fields)), _FIELDS)),
        (
            "sequences",
            _count(found.sequences, found.counts_from, is_divided=found.eos_id is not None or found.layout != "stream"),
        ),
        ("tokens", _tokens(found)),
        ("dtype", _dtype(found)),
        ("largest ID", _largest(found)),
        ("separator", _separator(found)),
        ("tokenizer", _tokenizer(found)),
        ("manifest", _manifest(found)),
        ("first IDs", " ".join(map(str, found.ids or ()))),
        ("first words", found.text or ""),
    ]
    told = [f"{printable(found.path)}: {found.format}, {found.title}"]
    told += [f"  {name:<12}{printable(words)}" for name, words in rows if words]
    listed = list(found.notes) if notes else []
    room = _LINES - len(told)
    if len(listed) > room:
        hidden = len(listed) - room + 1
        listed = [*listed[: room - 1], f"{counted(hidden, 'other note')}; --json lists all"]
    return [*told, *(f"  {'note':<12}{printable(text)}" for text in listed)]


def _layout(found: Overview) -> str:
    others = {name: value for name, value in found.extras.items() if name != "dtype" or found.dtype is None}
    return ", ".join(filter(None, (found.layout, listed_facts(others))))


def _dtype(found: Overview) -> str:
    stored = found.extras.get("dtype", found.dtype)
    return f"{found.dtype}{f', stored as {stored}' if stored != found.dtype else ''}" if found.dtype else ""


def _size(found: Overview) -> str:
    files = counted(found.files, "file")
    return files if found.size_bytes is None else f"{human_bytes(found.size_bytes)} in {files}"


def _count(number: int | None, origin: str, *, is_divided: bool = True) -> str:
    if number is None:
        return "not known; tokfmt stats counts them" if is_divided else "not known; --eos ID divides the stream"
    return f"{number:,}{' (by the manifest)' if origin == 'manifest' else ''}"


def _samples(found: Overview) -> str:
    """Return the samples that a stream is stored in, and how full they are, rounded down."""
    if found.layout == "samples" or found.samples is None or found.sample_length is None:
        return ""
    samples = f"{found.samples:,} of {found.sample_length:,}"
    if found.padding is None or not found.samples:
        return samples
    positions = found.samples * found.sample_length
    hundredths = 10_000 * (positions - found.padding) // positions
    return f"{samples}, {hundredths / 100:.4g} % full"


def _tokens(found: Overview) -> str:
    if found.layout == "text" and found.tokens is None:
        return ""
    if found.tokens is None and found.stored_tokens is not None:
        return f"{found.stored_tokens:,} with separators"
    if found.layout == "samples" and found.sample_length is not None:
        return f"{_count(found.tokens, found.counts_from)}, in samples of {found.sample_length:,}"
    return f"{_count(found.tokens, found.counts_from)}{_stored(found)}"


def _stored(found: Overview) -> str:
    """Return the number of tokens with separators, and of padding that is in no samples of one length."""
    padding = f"; {found.padding:,} of padding" if found.padding and not found.samples else ""
    if found.tokens is None or found.stored_tokens is None or found.stored_tokens <= found.tokens:
        return padding
    return f"; {found.stored_tokens:,} with separators{padding}"


def _largest(found: Overview) -> str:
    if found.max_id is None:
        return ""
    origins = {"dataset": "", "manifest": " (by the manifest)"}
    return f"{found.max_id:,}{origins.get(found.max_id_from, f' in the first {found.max_id_from}')}"


def _separator(found: Overview) -> str:
    if found.eos_id is not None:
        return separator_words(found.eos_id, found.eos_from, found.eos_seen)
    if found.layout == "text":
        return ""
    if found.eos_from:
        return f"none ({found.eos_from})"
    return "" if found.separators in (None, "none") else "not known; --eos ID states it"


def _tokenizer(found: Overview) -> str:
    if found.tokenizer is None:
        return ""
    return f"{found.tokenizer['name'] or 'of no name'} (digest {found.tokenizer['digest'][:8]}, by the manifest)"


def _manifest(found: Overview) -> str:
    made = found.manifest
    if made is None:
        return "none"
    by = f" of tokfmt {made.tokfmt}" if made.tokfmt else ""
    more = f" and {made.more_sources:,} more" if made.more_sources else ""
    origin = f", from {', '.join(made.sources)}{more}" if made.sources else ""
    return f"{PurePosixPath(made.path).name}{by}{origin}"
