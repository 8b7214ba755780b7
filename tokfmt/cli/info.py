"""`tokfmt info`: print what a dataset is, in at most 15 lines, or a line for each of several datasets."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from tokfmt.cli.console import Watcher, document, terminal
from tokfmt.cli.parameters import PLACE, Command, Count, common, examples, reading, requested, tokenizer, workers
from tokfmt.wording import counted, human_bytes, listed_facts, printable, separator_words, shortened

if TYPE_CHECKING:
    from tokfmt.commands.fleet import Fleet
    from tokfmt.commands.info import End, Overview

_LINES = 15
_FIELDS = 200  # characters
_NAMED = 5  # datasets that differ in a fact
_EPILOG = examples("tokfmt info pack.pbin", "tokfmt info corpus.jsonl", "tokfmt info . --recursive")


@click.command("info", cls=Command, epilog=_EPILOG, no_args_is_help=True)
@click.argument("paths", nargs=-1, required=True, type=PLACE, metavar="PATH...")
@tokenizer("Tokenizer that shows the first IDs as text (default: that of the manifest).")
@click.option("--sample", type=Count(1), metavar="N", help="Look at about N sequences of each dataset, not at 32.")
@click.option("--deep", is_flag=True, help="Read each dataset wholly, for its largest, first and last IDs.")
@workers()
@reading
@common
def command(
    paths: Sequence[str],
    *,
    sample: int | None,
    deep: bool,
    jobs: int | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Identify datasets: one in 15 lines, several in a line each.

    It prints the format, the layout, the counts, the largest ID, the separator, the tokenizer, the manifest and the
    first words. The time does not depend on the number of tokens. A fact that would take a read of the whole dataset
    is marked as not known; tokfmt stats counts it.

    Of several PATHS, or with --recursive those below a directory, it prints a line each, the totals, and what differs
    from the others: *. The first and last IDs are those of the first and the last 16 sequences.
    """
    from tokfmt.source.request import expanded

    request = requested(paths, given)
    if not (given["recursive"] or sample or deep) and len(expanded(paths)) == 1:
        from tokfmt.commands.info import info

        _print(info(request, given["tokenizer"]), as_json=as_json, quiet=quiet)
        return 0
    from tokfmt.commands.fleet import fleet

    with Watcher(quiet=quiet or as_json) as watcher:
        found = fleet(request, given["tokenizer"], sample=sample, deep=deep, jobs=jobs, progress=watcher)
    if as_json:
        document("fleet", found)
    else:
        _print_fleet(found, f"{paths[0]}/" if len(paths) == 1 else "")
    return 3 if found.errors else 0


def _print(found: Overview, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        document("info", found)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in lines(found, notes=not quiet):
        click.echo(shortened(line, width) if width else line)


# Several datasets.

_COLUMNS = (
    "format",
    "sequences",
    "tokens",
    "dtype",
    "eos",
    "first ID",
    "last ID",
    "largest ID",
    "size",
    "tokenizer",
    "written",
)
_DROPPED = ("written", "tokenizer", "size", "dtype", "last ID", "largest ID")
"""The columns that a narrow terminal leaves out, in this order."""
_OF_FACTS = {
    "format": "format",
    "dtype": "dtype",
    "eos_id": "eos",
    "tokenizer": "tokenizer",
    "first": "first ID",
    "last": "last ID",
}
_WORDS = ("format", "dtype", "tokenizer")  # columns that are aligned to the left
_NAME = 24  # least width of the column of names
_DASH = "\u2013"


def _print_fleet(found: Fleet, below: str) -> None:
    """Print a row per dataset, the totals, what differs, then errors on stderr; names are relative to `below`."""
    from tokfmt.cli.table import Table

    odd = {(other.path, _OF_FACTS[one.fact]) for one in found.differences for other in one.others}
    rows = [_cells(dataset) for dataset in found.datasets]
    for one, cells in zip(found.datasets, rows, strict=True):
        cells.update({name: f"{cells[name]}*" for name in cells if (one.path, name) in odd})
    total = found.total
    about = "≥ " if total.uncounted else ""
    sums = {
        "sequences": f"{about}{total.sequences:,}",
        "tokens": f"{about}{total.tokens:,}",
        "size": human_bytes(total.size_bytes),
    }
    rows += [{**dict.fromkeys(_COLUMNS, _DASH), "format": "not readable*"} for _ in found.errors]
    rows.append({name: sums.get(name, "") for name in _COLUMNS})
    aside = ["recipes and runs aside"] if total.datasets < len(found.datasets) else []
    aside += [f"without {len(found.errors):,} that cannot be read"] if found.errors else []
    paths = [*(dataset.path for dataset in found.datasets), *(error.path for error in found.errors)]
    names = [path.removeprefix(below) for path in paths]
    names.append(", ".join([f"total of {counted(total.datasets, 'dataset')}", *aside]))
    columns = [name for name in _COLUMNS if any(cells[name] not in ("", _DASH) for cells in rows)]
    console, is_terminal = terminal(), sys.stdout.isatty()
    for name in _DROPPED if is_terminal else ():
        taken = sum(2 + max(len(column), *(len(cells[column]) for cells in rows)) for column in columns)
        columns = [column for column in columns if column != name or taken + _NAME <= console.width]
    last = len(columns)
    words = {k for k, name in enumerate(columns) if name in _WORDS} | {last}
    cut = [[*(cells[name] for name in columns), name] for cells, name in zip(rows, map(printable, names), strict=True)]
    table = Table([*columns, "dataset"], cut, words)
    if is_terminal:
        styles = ["yellow" if any(cell.endswith("*") for cell in cells.values()) else "" for cells in rows[:-1]]
        console.print(table.drawn(folds=(last,), styles=[*styles, "bold"]))
    else:
        click.echo("\n".join(table.lines()))
    for difference in found.differences:
        others = [f"{other.path.removeprefix(below)} ({other.value})" for other in difference.others]
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        usual = f"* {_OF_FACTS[difference.fact]}: {difference.usual} in {counted(difference.datasets, 'dataset')}"
        click.echo(printable(f"{usual}, but not in {', '.join(others[:_NAMED])}{more}"))
    if found.other_files:
        click.echo(f"{counted(found.other_files, 'other file')} below")
    for other in found.unidentified[:_NAMED]:
        click.echo(f"not identified: {printable(other.message)}")
    for failed in found.errors:
        click.echo(f"tokfmt: error: {printable(failed.message)}", err=True)


def _cells(one: Overview) -> dict[str, str]:
    """Return the cells of a dataset's row by the name of the column."""
    about = "≈ " if one.counts_from == "sample" else ""
    bound = "" if one.max_id_from in ("dataset", "manifest") else "≥ "
    return {
        "format": one.format,
        "sequences": _DASH if one.sequences is None else f"{about}{one.sequences:,}",
        "tokens": _DASH if one.tokens is None else f"{about}{one.tokens:,}",
        "dtype": one.dtype or _DASH,
        "eos": _DASH if one.eos_id is None else str(one.eos_id),
        "first ID": _end(one.first),
        "last ID": _end(one.last),
        "largest ID": _DASH if one.max_id is None else f"{bound}{one.max_id}",
        "size": _DASH if one.size_bytes is None else human_bytes(one.size_bytes),
        "tokenizer": printable(PurePosixPath((one.tokenizer or {}).get("name") or "").name) or _DASH,
        "written": _DASH if one.written is None else one.written[:10],
    }


def _end(end: End | None) -> str:
    return _DASH if end is None else f"{end.id} {int(100 * end.share)}%"  # rounded down: 100% are all


# One dataset.


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
    if found.tokens is None and found.stored_tokens is not None and found.layout != "samples":
        return f"{found.stored_tokens:,} with separators"
    words = "not known; tokfmt stats counts them" if found.tokens is None else _count(found, found.tokens)
    if found.layout == "samples" and found.sample_length is not None:
        return f"{words}, in samples of {found.sample_length:,}" + _padding(found)
    if found.tokens is not None and found.stored_tokens is not None and found.stored_tokens > found.tokens:
        words += f"; {found.stored_tokens:,} with separators"
    return words + ("" if found.samples else _padding(found))


def _padding(found: Overview) -> str:
    return f"; {found.padding:,} of padding" if found.padding else ""


def _manifest(found: Overview) -> str:
    made = found.manifest
    if made is None:
        return "none"
    by = f" of tokfmt {made.tokfmt}" if made.tokfmt else ""
    more = f" and {made.more_sources:,} more" if made.more_sources else ""
    origin = f", from {', '.join(made.sources)}{more}" if made.sources else ""
    return f"{PurePosixPath(made.path).name}{by}{origin}"
