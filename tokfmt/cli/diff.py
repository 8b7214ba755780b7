"""`tokfmt diff`: print how two datasets differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import click

from tokfmt.cli.console import Watcher, document, note
from tokfmt.cli.parameters import (
    FORMAT,
    PLACE,
    Command,
    Count,
    beside_reading,
    common,
    examples,
    reading,
    requested,
    tokenizer,
    workers,
)
from tokfmt.wording import counted, plural, printable, visible

_EPILOG = examples(
    "tokfmt diff pack.pbin pack.pbin",
    "tokfmt diff --eos 50256 pack.pbin shuffled.pbin --ignore-order",
)
_SIDES = {"only_in_a": "a", "only_in_b": "b"}
"""By kind of difference, the side whose sequence numbers must follow each other to be listed as one range."""


@click.command("diff", cls=Command, epilog=_EPILOG, no_args_is_help=True)
@click.argument("a", type=PLACE, metavar="A")
@click.argument("b", type=PLACE, metavar="B...", nargs=-1, required=True)
@tokenizer("Tokenizer that encodes text, and shows IDs as text.")
@click.option("--from-tokenizer", type=PLACE, metavar="NAME", help="Made the IDs of A, if not --tokenizer: texts.")
@click.option("--ignore-order", is_flag=True, help="Compare the sequences in any order.")
@click.option("--samples", is_flag=True, help="Compare stored samples, with loss masks and labels.")
@click.option("--output", type=PLACE, metavar="FILE", help="Write all differences as JSON lines, with their text.")
@click.option("--limit", type=Count(0), default=10, help="Differences to print; 0: all (default: 10).")
@workers()
@click.option("--from-a", "format_a", type=FORMAT, metavar="FORMAT", help="Format of A, if --from does not fit both.")
@click.option("--from-b", "format_b", type=FORMAT, metavar="FORMAT", help="Format of B, if --from does not fit both.")
@reading
@common
def command(
    a: str,
    b: tuple[str, ...],
    *,
    output: str | None,
    format_a: str | None,
    format_b: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Compare two datasets, sequence by sequence.

    The formats can differ. If a sequence is missing on one side, the sequences after it are still matched. Two sources
    of text are compared as text. Several B, such as splits, are compared as if they were joined.

    The exit code is 0 if both hold the same sequences, and 1 if not.
    """
    from tokfmt.commands.compare.diff import diff
    from tokfmt.files.place import destination_of

    with Watcher(quiet=quiet) as watcher:
        report = diff(
            requested((a,), given, format=format_a or given["format"]),
            requested(b, given, format=format_b or given["format"]),
            output=None if output is None else destination_of(output),
            executor="auto",
            progress=watcher,
            **beside_reading(given),
        )
    if as_json:
        document("diff", report)
    else:
        if not quiet:
            _print_sides(report)
        _print_report(report)
    return 0 if report.identical else 1


def _print_sides(report: Any) -> None:
    for name, side in (("A", report.a), ("B", report.b)):
        size = f"{counted(side.sequences, _noun(report))}, {counted(side.tokens, report.unit[:-1])}"
        click.echo(f"{name}: {printable(side.path)}: {side.format}: {size}", err=True)
        for text in side.notes:
            note(text, f"{name}: ")


def _noun(report: Any) -> str:
    """Return the noun for the compared unit: "text" if no tokenizer gives token IDs, else "sequence"."""
    return "text" if report.unit == "bytes" else "sequence"


def _print_report(report: Any) -> None:
    from tokfmt.commands.compare.diff import counted as counted_kinds

    if report.identical:
        order = ", in any order" if report.surplus else ""
        size = f"{counted(report.a.sequences, _noun(report))}, {counted(report.a.tokens, report.unit[:-1])}"
        click.echo(f"identical: {size}{order}")
        return
    alike = "" if report.same is None else f"; {counted(report.same, _noun(report))} alike"
    click.echo(click.style("different: ", bold=True) + counted_kinds(report.counts) + alike)
    if not report.complete:
        click.echo(f"too many {_noun(report)}s are equal to find the best pairs; fewer may have moved")
    for number, excerpt in enumerate(report.excerpts):
        _print_excerpt(report, excerpt, "then" if number else "first:")
    for run in _runs([difference for difference in report.differences[1:] if difference.kind != "changed"]):
        click.echo(
            f"then {_sentence(_noun(report), run[0]) if len(run) == 1 else _sentences(_noun(report), run[0], run[-1])}"
        )
    listed = report.counts.get("changed", 0) if report.surplus else sum(report.counts.values())
    left = listed - len(report.differences)
    if report.differences and left > 0:
        click.echo(f"… and {left:,} more (--limit)")
    if report.counts.get("moved"):
        click.echo("--ignore-order compares in any order")
    _print_surplus(report)


def _print_surplus(report: Any) -> None:
    for side, surplus in zip("AB", report.surplus or (), strict=False):
        if surplus.count:
            more = " …" if surplus.count > len(surplus.examples) else ""
            numbers = ", ".join(f"{number:,}" for number in surplus.examples)
            click.echo(f"only in {side}: {plural(_noun(report), surplus.count)} {numbers}{more}")


def _runs(differences: Sequence[Any]) -> Iterator[list[Any]]:
    """Group neighbors that differ in the same way."""

    def kind(numbered: tuple[int, Any]) -> tuple[object, ...]:
        number, difference = numbered
        side = _SIDES.get(difference.kind)
        return (number,) if side is None else (difference.kind, getattr(difference, side) - number)

    for _, run in groupby(enumerate(differences), kind):
        yield [difference for _, difference in run]


def _sentences(noun: str, first: Any, last: Any) -> str:
    if first.kind == "only_in_a":
        return f"{noun}s {first.a:,} to {last.a:,} of A are missing in B"
    return f"{noun}s {first.b:,} to {last.b:,} of B are missing in A"


def _sentence(noun: str, difference: Any) -> str:
    a, b = difference.a, difference.b
    if difference.kind == "only_in_a":
        return f"{noun} {a:,} of A is missing in B"
    if difference.kind == "only_in_b":
        return f"{noun} {b:,} of B is missing in A"
    if difference.kind == "moved":
        return f"{noun} {a:,} of A is {noun} {b:,} of B"
    if difference.kind == "swapped":
        where = "" if (a, difference.with_a) == (b, difference.with_b) else f" ({b:,} and {difference.with_b:,} there)"
        return f"{noun}s {a:,} and {difference.with_a:,} of A are swapped in B{where}"
    return f"{noun} {a:,} differs" if a == b else f"{noun} {a:,} of A differs from {b:,} of B"


def _print_excerpt(report: Any, first: Any, word: str) -> None:
    kind = first.difference.kind
    click.echo(f"{word} {_sentence(_noun(report), first.difference)}{'' if kind == 'changed' else _rest(report)}")
    if kind in ("changed", "swapped"):
        unit = "byte" if report.unit == "bytes" else "token"
        what = "" if first.what == "tokens" else f"{first.what} of "
        x, y = ("its end" if value is None else str(value) for value in first.values)
        click.echo(f"  at {what}{unit} {first.position:,}: {x} in A, {y} in B")
    for name, excerpt, color in (("A", first.a, "red"), ("B", first.b, "green")):
        if excerpt is None:
            continue
        if report.unit == "bytes":
            click.echo(f"  {name} {excerpt.sequence:,} ({counted(excerpt.length, 'byte')}):")
        else:
            click.echo(f"  {name} {excerpt.sequence:,}: {_ids(first, excerpt, color)}")
        if excerpt.text:
            click.echo(click.style(f"    {visible(excerpt.text, one_line=True)}", fg=color))


def _rest(report: Any) -> str:
    return "; the rest is the same" if sum(report.counts.values()) == 1 else ""


def _ids(first: Any, excerpt: Any, color: str) -> str:
    at = first.position - excerpt.start if first.difference.kind in ("changed", "swapped") else -1
    words = [str(value) for value in excerpt.values]
    if 0 <= at < len(words):
        words[at] = click.style(f"[{words[at]}]", fg=color, bold=True)
    elif at == len(words):
        words.append(click.style("[end]", fg=color, bold=True))
    before = "… " if excerpt.start else ""
    after = " …" if excerpt.start + len(excerpt.values) < excerpt.length else ""
    return f"{before}{' '.join(words) or 'empty'}{after}  ({counted(excerpt.length, 'token')})"
