"""`tokfmt check`: print the findings of datasets, and repair one."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

import click

from tokfmt.cli.console import Watcher, annotate, document, note
from tokfmt.cli.parameters import (
    CODE,
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
from tokfmt.cli.usage import missing
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.commands.check import CheckRequest

_EPILOG = examples(
    "tokfmt check merged.pbin",
    "tokfmt check --deep pack.pbin samples",
    "tokfmt check --fix mended.pbin merged.pbin",
    "tokfmt check --explain TF107",
)
_COLORS = {"error": "red", "warning": "yellow", "info": "blue"}
_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}  # the levels of GitHub annotations
_WIDTH = 100
_SAVED = {
    "whole": "--fix OUT writes a correct copy",
    "part": "--fix OUT writes the sequences that are certain to be complete",
    "unknown": "--deep also reports whether --fix OUT can save a copy",
}


@click.command("check", cls=Command, epilog=_EPILOG, no_args_is_help=True)
@click.argument("paths", nargs=-1, type=PLACE, metavar="PATH...")
@click.option("--deep", is_flag=True, help="Read everything (default: headers, indexes, sizes, and some places).")
@tokenizer("Tokenizer to compare IDs, end of text and decoding with.")
@click.option(
    "--against", type=PLACE, metavar="CORPUS", help="Corpus whose documents the dataset has to hold, in order."
)
@click.option("--ignore-order", is_flag=True, help="Accept the documents of --against in any order.")
@click.option(
    "--fix",
    "fix_to",
    type=PLACE,
    metavar="OUT",
    help="Write a repaired copy, or else a copy of the complete sequences.",
)
@click.option("--overwrite", is_flag=True, help="Replace the OUT of --fix.")
@click.option(
    "--explain",
    type=CODE,
    metavar="CODE|LOSS",
    help="Explain a code, or a word of --allow-loss; all lists every code.",
)
@click.option(
    "--limit", type=Count(0), default=100, help="Findings to print per code; more are counted (default: 100)."
)
@workers()
@reading
@common
@click.pass_context
def command(
    context: click.Context,
    /,
    paths: tuple[str, ...],
    *,
    fix_to: str | None,
    overwrite: bool,
    explain: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Check datasets and report every problem.

    A finding is one line: severity, code, path, byte offset, message, remedy.

    The exit code is 0 without an error, 1 with an error, and 3 if a dataset cannot be opened or is unsafe to read.
    """
    if explain is not None:
        _explain(explain, as_json=as_json)
        return 0
    if not paths:
        context.fail(missing(context, "PATH..."))
    if fix_to and len(paths) > 1:
        context.fail(f"--fix repairs one dataset at a time (found {len(paths)}). Name one PATH")
    if given["ignore_order"] and not given["against"]:
        context.fail("--ignore-order has no effect without --against CORPUS. Add --against")
    from tokfmt.commands.check import CheckRequest

    request = CheckRequest(requested(paths, given), executor="auto", **beside_reading(given))
    return _check(request, fix_to, overwrite=overwrite, as_json=as_json, quiet=quiet)


def _check(request: CheckRequest, fix_to: str | None, *, overwrite: bool, as_json: bool, quiet: bool) -> int:
    """Check the datasets, print the findings, repair with --fix, and return the exit code."""
    from tokfmt.commands.check import Checked, check

    found, fixed = [], None
    with Watcher(quiet=quiet or as_json) as watcher:
        for report in check(request, watcher):
            found.append(report)
            if not as_json:
                _lines(report)
        if fix_to and found[0].format is not None:
            from tokfmt.commands.check.fix import fix  # imports the engine of conversions

            fixed = fix(found[0], fix_to, request, overwrite=overwrite, progress=watcher)
    if as_json:
        document("check", Checked([report.printed() for report in found], None if fixed is None else fixed.printed()))
    silent = quiet or as_json
    _offer_fix([] if silent or fix_to else found, request)
    for report in found:
        for text in () if silent else report.notes:
            note(text, f"{report.path}: " if len(found) > 1 else "")
        _conclude(report, quiet=quiet, repaired=fixed is not None and bool(fixed.destination))
        if not as_json:
            _annotations(report)
    if fixed is not None:
        _say_fixed(fixed, quiet=quiet)
    if fixed is not None and fixed.destination:
        return 0
    return max(report.exit_code for report in found)


def _offer_fix(found: list[Any], request: CheckRequest) -> None:
    """Print what --fix would write. It repairs one dataset at a time."""
    if len(found) == 1 and found[0].errors:
        from tokfmt.commands.check.fix import repairable  # imports the engine of conversions

        if saved := repairable(found[0], request):
            note(_SAVED[saved])


def _lines(report: Any) -> None:
    for finding in report.findings:
        click.echo(_line(finding))
    for code, count in report.left_out.items():
        more = click.style("and more", dim=True)
        click.echo(f"{more} {code} {printable(report.path)}: {count:,} more of this code")


def _line(finding: Any) -> str:
    severity = click.style(finding.severity.ljust(7), fg=_COLORS.get(finding.severity), bold=True)
    at = "" if finding.offset is None else f" at byte {finding.offset:,}"
    where = "" if at in finding.message else at
    message = printable(finding.message)
    remedy = f". {printable(finding.remedy)}" if finding.remedy else ""
    return f"{severity} {finding.code} {printable(finding.path)}{where}: {message}{remedy}"


def _annotations(report: Any) -> None:
    """Annotate the findings in a workflow of GitHub Actions."""
    for finding in report.findings:
        place = "" if finding.offset is None else f" at byte {finding.offset:,}"
        at = "" if place in finding.message else place
        remedy = f". {finding.remedy}" if finding.remedy else ""
        level = _LEVELS.get(finding.severity, "notice")
        annotate(level, finding.path, finding.code, f"{finding.message}{at}{remedy}")
    for code, count in report.left_out.items():
        annotate("notice", report.path, code, f"{count:,} more of this code")


def _conclude(report: Any, *, quiet: bool, repaired: bool) -> None:
    """Print the last line about a dataset; with --quiet, only if it has errors of which there is no repaired copy."""
    known = {name: report.severities.get(name, 0) for name in _LEVELS}
    counts = [f"{count:,} info" if name == "info" else counted(count, name) for name, count in known.items() if count]
    what = ", ".join(counts)
    if known["error"] and not repaired:
        click.echo(f"tokfmt: error: {printable(report.path)}: {what}", err=True)
        return
    if quiet:
        return
    size = "" if report.sequences is None else f", {counted(report.sequences, 'sequence')}"
    size += "" if report.tokens is None else f", {counted(report.tokens, 'token')}"
    format_ = None if report.dataset is None else report.dataset.format
    left = "--deep reads every token" if format_ is None else format_.left_to_deep
    may_have_one = format_ is not None and not format_.is_computed
    not_compared = ["no manifest"] * (not what and may_have_one and report.manifest is None) + [left] * (
        not report.deep
    )
    hint = f" ({'; '.join(not_compared)})" if not_compared else ""
    click.echo(f"{printable(report.path)}: {report.format}{size}: {what or 'no findings'}{hint}", err=True)


def _say_fixed(fixed: Any, *, quiet: bool) -> None:
    if quiet:
        return
    if not fixed.destination:
        click.echo("nothing needs a repair; nothing was written", err=True)
        return
    for code, how in fixed.done.items():
        click.echo(f"repaired {code}: {how}", err=True)
    click.echo(f"{printable(fixed.destination)}: written, and checked: no errors", err=True)


def _explain(code: str, *, as_json: bool) -> None:
    from tokfmt.commands.check.codes import Codes, all_codes, explain

    found = list(all_codes().values()) if code == "all" else [explain(code)]
    if as_json:
        document("codes", Codes(found))
        return
    for one in found:
        if code == "all":
            click.echo(f"{click.style(one.code, bold=True)}  {one.owner.ljust(11)}  {one.title}")
        else:
            unsafe = " Unsafe: exit code 3." if one.unsafe else ""
            click.echo(f"{click.style(one.code, bold=True)} ({one.owner}): {one.title}\n")
            click.echo(textwrap.fill(one.text + unsafe, min(_WIDTH, _columns())))


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH
