"""`tokfmt diff`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import click

from tokfmt.cli.parameters import Count, common, examples, reading

_EPILOG = examples(
    "tokfmt diff fixtures/modalities/D_2byte_gpt2.pbin fixtures/modalities/synthetic_D_2byte_proto2.pbin",
    "tokfmt diff fixtures/modalities/D_2byte_gpt2.pbin "
    "fixtures/modalities/D_2byte_gpt2_shuffled_seed7.pbin --ignore-order",
)
_KINDS = {
    "changed": "{} changed",
    "only_in_a": "{} only in A",
    "only_in_b": "{} only in B",
    "moved": "{} moved",
    "swapped": "{} swapped with another",
}
_SIDES = {"changed": "ab", "only_in_a": "a", "only_in_b": "b"}
"""Whose sequences the differences count that are listed together when they are neighbours."""


@click.command("diff", epilog=_EPILOG, no_args_is_help=True)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--tokenizer", metavar="NAME|DIR|FILE", help="Tokenizes text to compare it with ids; shows ids as text.")
@click.option("--ignore-order", is_flag=True, help="Compare as multisets: which sequences, not where.")
@click.option("--samples", is_flag=True, help="Compare rows as they are stored, with loss masks and labels.")
@click.option("--limit", type=Count(), default=10, show_default=True, help="Differences listed.")
@click.option("--jobs", type=Count(), help="Threads. Default: one a core.")
@click.option("--from-a", "format_a", metavar="FORMAT", help="Format of A, when --from does not fit both.")
@click.option("--from-b", "format_b", metavar="FORMAT", help="Format of B.")
@reading
@common
def command(a: str, b: str, **given: Any) -> int:
    """Compare two datasets, of any formats: exit 0 when they hold the same sequences, 1 when they do not.

    Where a sequence is missing on one side, what follows is still recognised. Two sources of text are compared as text.
    """
    from tokfmt.cli.console import Watcher
    from tokfmt.ops.compared import Request
    from tokfmt.ops.diff import diff

    for option in ("limit", "jobs"):
        if given[option] is not None and given[option] < (option == "jobs"):
            raise click.UsageError(f"--{option} {given[option]}: expected at least {int(option == 'jobs')}")
    request = Request(
        a,
        b,
        given["format_a"] or given["from_format"],
        given["format_b"] or given["from_format"],
        given["from_options"],
        given["tokenizer"],
        given["samples"],
        given["eos"],
        given["split"],
        given["text_field"],
    )
    with Watcher(quiet=given["quiet"]) as watcher:
        report = diff(
            request,
            ignore_order=given["ignore_order"],
            limit=given["limit"],
            jobs=given["jobs"],
            progress=watcher,
        )
    if given["as_json"]:
        click.echo(json.dumps({"schema": "tokfmt.diff/1", **dataclasses.asdict(report)}, indent=2))
    else:
        if not given["quiet"]:
            _tell_both(report)
        _tell(report)
    return 0 if report.identical else 1


def _tell_both(report: Any) -> None:
    from tokfmt.cli.console import counted
    from tokfmt.core.errors import printable

    for name, side in (("A", report.a), ("B", report.b)):
        size = f"{counted(side.sequences, 'sequence')}, {counted(side.tokens, report.unit[:-1])}"
        click.echo(f"{name}: {printable(side.path)}: {side.format}: {size}", err=True)
        for note in side.notes:
            click.echo(f"note: {name}: {printable(note)}", err=True)


def _tell(report: Any) -> None:
    from tokfmt.cli.console import counted

    if report.identical:
        order = ", in whatever order" if report.surplus else ""
        size = f"{counted(report.a.sequences, 'sequence')}, {counted(report.a.tokens, report.unit[:-1])}"
        click.echo(f"identical: {size}{order}")
        return
    parts = [words.format(f"{n:,}") for kind, words in _KINDS.items() if (n := report.counts.get(kind))]
    alike = "" if report.same is None else f"; {counted(report.same, 'sequence')} alike"
    click.echo(click.style("different: ", bold=True) + ", ".join(parts) + alike)
    if not report.complete:
        click.echo("what moved was looked for among the first differences only")
    if report.first is not None:
        _tell_first(report)
    for run in _runs(report.differences[1:]):
        click.echo(f"then {_sentence(run[0]) if len(run) == 1 else _sentences(run[0], run[-1])}")
    left = sum(report.counts.values()) - len(report.differences)
    if report.differences and left > 0:
        click.echo(f"… and {left:,} more (--limit)")
    _tell_surplus(report)


def _tell_surplus(report: Any) -> None:
    for side, surplus in zip("AB", report.surplus or (), strict=False):
        if surplus.count:
            more = " …" if surplus.count > len(surplus.examples) else ""
            numbers = ", ".join(f"{number:,}" for number in surplus.examples)
            click.echo(f"only in {side}: sequence{'' if surplus.count == 1 else 's'} {numbers}{more}")


def _runs(differences: Sequence[Any]) -> Iterator[list[Any]]:
    """Neighbours that differ in the same way, put together."""

    def kind(numbered: tuple[int, Any]) -> tuple[object, ...]:
        number, difference = numbered
        sides = _SIDES.get(difference.kind)
        return (
            (number,) if sides is None else (difference.kind, *(getattr(difference, side) - number for side in sides))
        )

    for _, run in groupby(enumerate(differences), kind):
        yield [difference for _, difference in run]


def _sentences(first: Any, last: Any) -> str:
    if first.kind == "only_in_a":
        return f"sequences {first.a:,} to {last.a:,} of A are missing in B"
    if first.kind == "only_in_b":
        return f"sequences {first.b:,} to {last.b:,} of B are missing in A"
    a, b = f"sequences {first.a:,} to {last.a:,}", f"{first.b:,} to {last.b:,}"
    return f"{a} differ" if first.a == first.b else f"{a} of A differ from {b} of B"


def _sentence(difference: Any) -> str:
    a, b = difference.a, difference.b
    if difference.kind == "only_in_a":
        return f"sequence {a:,} of A is missing in B"
    if difference.kind == "only_in_b":
        return f"sequence {b:,} of B is missing in A"
    if difference.kind == "moved":
        return f"sequence {a:,} of A is sequence {b:,} of B"
    if difference.kind == "swapped":
        where = "" if (a, difference.with_a) == (b, difference.with_b) else f" ({b:,} and {difference.with_b:,} there)"
        return f"sequences {a:,} and {difference.with_a:,} of A are swapped in B{where}"
    return f"sequence {a:,} differs" if a == b else f"sequence {a:,} of A differs from {b:,} of B"


def _tell_first(report: Any) -> None:
    from tokfmt.cli.visible import visible

    first, kind = report.first, report.first.difference.kind
    click.echo(f"first: {_sentence(first.difference)}{'' if kind == 'changed' else _rest(report)}")
    if kind in ("changed", "swapped"):
        unit = "byte" if report.unit == "bytes" else "token"
        what = "" if first.what == "tokens" else f"{first.what} of "
        x, y = ("its end" if value is None else str(value) for value in first.values)
        click.echo(f"  at {what}{unit} {first.position:,}: {x} in A, {y} in B")
    for name, excerpt, color in (("A", first.a, "red"), ("B", first.b, "green")):
        if excerpt is None:
            continue
        click.echo(f"  {name} {excerpt.sequence:,}: {_ids(report, excerpt, color)}")
        if excerpt.text is not None:
            click.echo(click.style(f"    {visible(excerpt.text, one_line=True)}", fg=color))


def _rest(report: Any) -> str:
    return "; the rest is the same" if sum(report.counts.values()) == 1 else ""


def _ids(report: Any, excerpt: Any, color: str) -> str:
    from tokfmt.cli.console import counted

    first = report.first
    at = first.position - excerpt.start if first.difference.kind in ("changed", "swapped") else -1
    words = [str(value) for value in excerpt.values]
    if 0 <= at < len(words):
        words[at] = click.style(f"[{words[at]}]", fg=color, bold=True)
    elif at == len(words):
        words.append(click.style("[end]", fg=color, bold=True))
    before = "… " if excerpt.start else ""
    after = " …" if excerpt.start + len(excerpt.values) < excerpt.length else ""
    return f"{before}{' '.join(words)}{after}  ({counted(excerpt.length, report.unit[:-1])})"
