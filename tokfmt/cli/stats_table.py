"""Statistics on a terminal: facts, percentiles, bars. Plain text when piped; legible without colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tokfmt.cli.console import counted, human_bytes
from tokfmt.core.errors import printable

if TYPE_CHECKING:
    from tokfmt.ops.stats import Report, Statistics
    from tokfmt.ops.stats.report import Cost, Id, Ids, Packing

_WIDE = 120
_EIGHTHS = "▏▎▍▌▋▊▉█"
_DASH, _TIMES = "\u2013", "\u00d7"
_LISTED = 5  # groups of repeated sequences, fields
_PERCENTILES = ("min", "p1", "p5", "p25", "p50", "p75", "p95", "p99", "max", "mean")
_DETAILS = ("on disk", "p50", "p99", "max")
_LABEL, _BAR, _TITLE = "dim", "cyan", "bold"


def show(report: Report, console: Console) -> None:
    """Print the statistics of one dataset in full, of several as a row each."""
    if report.total is None:
        console.print(_one(report.datasets[0], console.width))
        return
    console.print(_rows([*report.datasets, report.total], console.width))


def _one(found: Statistics, width: int) -> RenderableType:
    wide = width >= _WIDE
    left: list[RenderableType] = [_section("Lengths", _lengths(found, width // 2 - 2 if wide else width))]
    right: list[RenderableType] = []
    if found.ids is not None and found.ids.most_frequent:
        right.append(_section("Token ids", _ids(found.ids)))
    if found.text is not None and found.text.fields:
        right.append(_section("Fields", _fields(found)))
    if found.duplicates is not None and found.duplicates.largest:
        left.append(_section("Repeated sequences", _repeated(found)))
    if found.packing is not None:
        right.append(_section(f"Packed into samples of {found.packing.seq_len:,} tokens", _packing(found.packing)))
    body: RenderableType = Group(*left, *right)
    if wide and right:
        columns = Table.grid(padding=(0, 4), expand=True)
        columns.add_column(ratio=1)
        columns.add_column(ratio=1)
        columns.add_row(Group(*left), Group(*right))
        body = columns
    return Group(_heading(found), Padding(_facts(found), (0, 0, 0, 2), expand=False), body)


def _section(title: str, content: RenderableType) -> RenderableType:
    return Group(Text(), Text(title, style=_TITLE), Padding(content, (0, 0, 0, 2), expand=False))


def _heading(found: Statistics) -> Text:
    details = [found.format, found.layout, *([found.dtype] if found.dtype else [])]
    told = {key: value for key, value in found.variant.items() if key not in ("header_bytes", "index_bytes")}
    details += [f"{key.replace('_', ' ')} {_plain(value)}" for key, value in told.items()]
    text = Text(printable(found.path), style=_TITLE)
    text.append("\n" + " · ".join(details), style="not bold dim")
    return text


def _plain(value: object) -> str:
    return printable(" ".join(map(str, value)) if isinstance(value, (tuple, list)) else value)


# facts


def _facts(found: Statistics) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=_LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _named(found):
        grid.add_row(name, value)
    return grid


def _named(found: Statistics) -> list[tuple[str, str]]:
    about = "≈ " if found.estimated and "sequences" not in (found.sampled.exact if found.sampled else ()) else ""
    word = "documents" if found.tokens is None else "sequences"
    empty = f", {found.empty.count:,} empty" if found.empty and found.empty.count else ""
    rows = [(word, f"{about}{found.sequences:,}{empty}")]
    if found.tokens is not None:
        each = f", {found.bytes_per_token:.2f} bytes a token" if found.bytes_per_token else ""
        rows += [("tokens", f"{about}{found.tokens:,}"), ("on disk", f"{human_bytes(found.bytes)}{each}")]
    if found.text is not None:
        rows += [("characters", f"{found.text.characters:,}"), ("on disk", human_bytes(found.bytes))]
        if found.text.invalid:
            rows.append(("invalid", f"{counted(found.text.invalid, 'line')} left out"))
    rows += _of_ids(found) + _of_shares(found)
    rows.append(("duplicates", _duplicates(found)))
    if found.sampled is not None:
        of = f" of {about}{found.sequences:,}"
        rows.append(("estimated", f"from {found.sampled.sequences:,}{of} {word}, seed {found.sampled.seed}"))
    return rows


def _of_ids(found: Statistics) -> list[tuple[str, str]]:
    ids = found.ids
    if ids is None:
        return []
    least = "≥ " if found.estimated else ""
    largest = f", largest {least}{found.max_id:,}" if found.max_id is not None else ""
    about = "≈ " if ids.estimated else least
    rows = [("ids", f"{about}{ids.distinct:,} distinct{largest}")]
    if ids.vocab_size is not None and ids.coverage is not None:
        beyond = f"; {counted(ids.beyond, 'token')} beyond it" if ids.beyond else ""
        rows.append(("vocabulary", f"{_percent(ids.coverage)} of {ids.vocab_size:,} ids occur{beyond}"))
    for name, ends in (("first token", found.first_tokens), ("last token", found.last_tokens)):
        if ends is not None and ends.commonest is not None:
            text = _spelled(ends.top[0].text)
            rows.append((name, f"{ends.commonest}{text} in {_percent(ends.share)}, {ends.distinct:,} distinct"))
    return rows


def _of_shares(found: Statistics) -> list[tuple[str, str]]:
    rows = []
    if found.tokens is not None:
        known = f"{found.eos_from}{', inferred' if found.eos_inferred else ''}"
        stored = f", {found.separators.count:,} stored" if found.separators is not None else ""
        rows.append(("separator", f"{found.eos_id} ({known}){stored}" if found.eos_id is not None else "none known"))
    for name, share in (("padding", found.padding), ("masked", found.masked)):
        if share is not None:
            rows.append((name, f"{counted(share.count, 'position')} ({_percent(share.share)})"))
    return rows


def _duplicates(found: Statistics) -> str:
    repeated = found.duplicates
    if repeated is None:
        return "not looked for"
    if not repeated.sequences:
        return "none"
    unit = "token" if found.tokens is not None else "character"
    return (
        f"{counted(repeated.sequences, 'sequence')} ({_percent(repeated.share)}), "
        f"{counted(repeated.tokens, unit)} ({_percent(repeated.token_share)})"
    )


# sections


def _lengths(found: Statistics, width: int) -> RenderableType:
    lengths = found.lengths
    if lengths is None or lengths.max is None:
        return Text("no sequences", style=_LABEL)
    line = Table.grid(padding=(0, 2))
    values = [getattr(lengths, name) for name in _PERCENTILES]
    for _ in _PERCENTILES:
        line.add_column(justify="right")
    line.add_row(*(Text(name, style=_LABEL) for name in _PERCENTILES))
    line.add_row(*(f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" for value in values))
    edges, counts = lengths.histogram.edges, lengths.histogram.counts
    bars = Table.grid(padding=(0, 1))
    bars.add_column(justify="right", style=_LABEL, no_wrap=True)
    bars.add_column(no_wrap=True)
    bars.add_column(justify="right", no_wrap=True)
    bars.add_column(justify="right", style=_LABEL, no_wrap=True)
    room, most, total = max(10, min(width, 100) - 38), max(counts), sum(counts)
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        name = f"{low:,}" if high == low + 1 else f"{low:,} {_DASH} {high - 1:,}"
        bars.add_row(name, Text(bar(count / most, room), style=_BAR), f"{count:,}", _percent(count / total))
    unit = Text(f"in {lengths.unit}", style=_LABEL)
    return Group(unit, line, Text(), bars)


def _ids(ids: Ids) -> RenderableType:
    both = Table.grid(padding=(0, 4))
    both.add_row(Text("most frequent", style=_LABEL), Text("least frequent", style=_LABEL))
    both.add_row(_listed(ids.most_frequent, bars=True), _listed(ids.least_frequent, bars=False))
    return both


def _listed(ids: Sequence[Id], *, bars: bool) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True, style="green")
    grid.add_column(no_wrap=True, style=_BAR)
    grid.add_column(justify="right", no_wrap=True)
    most = max((one.share for one in ids), default=0.0)
    for one in ids:
        drawn = bar(one.share / most, 12) if bars else ""
        grid.add_row(
            str(one.id), _spelled(one.text).strip(), drawn, _percent(one.share) if bars else f"{one.count:,} {_TIMES}"
        )
    return grid


def _fields(found: Statistics) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, style=_BAR)
    grid.add_column(justify="right", no_wrap=True)
    fields = found.text.fields if found.text is not None else []
    for field in fields[: 2 * _LISTED]:
        share = field.count / max(one.count for one in fields)
        grid.add_row(_short(printable(field.name), 30), bar(share, 20), f"{field.count:,}")
    if len(fields) > 2 * _LISTED:
        grid.add_row(f"and {len(fields) - 2 * _LISTED} more", "", "", style=_LABEL)
    return grid


def _repeated(found: Statistics) -> RenderableType:
    unit = "token" if found.tokens is not None else "character"
    repeated = found.duplicates
    lines = []
    for group in repeated.largest[:_LISTED] if repeated is not None else ():
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{group.count:,} {_TIMES} {counted(group.length, unit)}")
        line.append(f"  #{group.sequence:,}  " if group.sequence is not None else "  ", style=_LABEL)
        begin = group.text if group.text is not None else " ".join(map(str, group.ids or ()))
        line.append(printable(begin), style="green")
        lines.append(line)
    return Group(*lines)


def _packing(packing: Packing) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    for _ in range(3):
        grid.add_column(justify="right", no_wrap=True)
    grid.add_row("", "samples", "padding", "documents cut", style=_LABEL)
    grid.add_row("one after the other", *_cost(packing.concatenated, "≈ "))
    grid.add_row("each padded", *_cost(packing.padded, ""))
    return grid


def _cost(cost: Cost, about: str) -> tuple[str, str, str]:
    return f"{cost.samples:,}", _percent(cost.padding_share), f"{about}{_percent(cost.cut_share)}"


# several datasets


def _rows(each: Sequence[Statistics], width: int) -> Table:
    """A row each, the total last; the name comes last, for it may be long."""
    texts, wide = each[0].tokens is None, width >= _WIDE
    table = Table(box=None, pad_edge=False, header_style=_LABEL, padding=(0, 2, 0, 0))
    names = ["documents", "characters"] if texts else ["sequences", "tokens"]
    for name in (*names, *(_DETAILS if wide else ()), *([] if texts else ["largest id"]), "duplicates"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("dataset", overflow="fold")
    for number, one in enumerate(each):
        lengths, amount = one.lengths, one.text.characters if one.text is not None else one.tokens
        about = "≈ " if one.estimated else ""
        cells = [f"{about}{one.sequences:,}", f"{about}{amount:,}"]
        if wide:
            cells += [human_bytes(one.bytes), *(_number(getattr(lengths, name, None)) for name in _DETAILS[1:])]
        cells += [] if texts else [_number(one.max_id)]
        cells.append(_percent(one.duplicates.share) if one.duplicates is not None else _DASH)
        style = _TITLE if number == len(each) - 1 else ""
        table.add_row(*cells, printable(one.path), style=style)
    return table


# words


def bar(share: float, room: int) -> str:
    """A bar of block characters, `room` of them for a share of 1; something for every share above 0."""
    eighths = max(round(share * room * 8), 1 if share > 0 else 0)
    return _EIGHTHS[-1] * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")


def _number(value: int | None) -> str:
    return _DASH if value is None else f"{value:,}"


def _percent(share: float) -> str:
    percent = 100 * share
    if 0 < percent < 0.01:
        return "< 0.01 %"
    return f"{percent:.2f} %" if percent < 10 else f"{percent:.1f} %"


def _spelled(text: str | None) -> str:
    return "" if text is None else f" “{_short(printable(text), 14)}”"


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
