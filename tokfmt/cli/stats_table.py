"""Print statistics on a terminal: facts, percentiles, bars. The output is plain text in a pipe, and needs no color.

No number is cut or broken over lines. On a narrow terminal, columns that do not fit are printed below each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from tokfmt.cli.console import terminal
from tokfmt.cli.recipe import table_of
from tokfmt.cli.table import Table
from tokfmt.wording import bar, counted, human_bytes, printable, separator_words, shortened, value_words

if TYPE_CHECKING:
    from tokfmt.commands.stats import Statistics, StatsReport
    from tokfmt.commands.stats.report import Cost, Histogram, Id, Ids, Packing, SourceTokens

_WIDE = 120
_INDENT = 2
_FULL_BAR = 60
_SHORTEST_BAR = 4
_DASH, _TIMES = "\u2013", "\u00d7"
_LISTED = 5  # groups of repeated sequences, fields
_PERCENTILES = ("min", "p1", "p5", "p25", "p50", "p75", "p95", "p99", "max", "mean")
_BEGINNING = 16  # least width of a column for names, or for the beginnings of sequences
_LABEL, _BAR, _TITLE = "dim", "cyan", "bold"


def show(report: StatsReport, console: Console) -> None:
    """Print the statistics of one dataset in full, or one row for each of several."""
    if report.several:
        console.print(_several(report, console.width))
    else:
        console.print(_one(report.datasets[0], console.width))


def _fits(content: RenderableType, width: int) -> bool:
    """Return whether the content fits in `width` columns without cuts or line breaks."""
    return terminal(width=1 << 12).measure(content).maximum <= width


def _one(found: Statistics, width: int) -> RenderableType:
    wide = width >= _WIDE
    room = (width // 2 - 4 if wide else width) - _INDENT
    left: list[RenderableType] = [_section("Lengths", _lengths(found, room))]
    right: list[RenderableType] = []
    if found.ids is not None and found.ids.most_frequent:
        right.append(_section("Token IDs", _ids(found.ids, room)))
    if found.text is not None and found.text.fields:
        right.append(_section("Fields", _fields(found, room)))
    if found.duplicates is not None and found.duplicates.largest:
        left.append(_section("Repeated sequences", _repeated(found, room)))
    if found.packing is not None:
        title = f"Packed into samples of {found.packing.seq_len:,} tokens"
        right.append(_section(title, _packing(found.packing, room)))
    body: RenderableType = Group(*left, *right)
    if wide and right:
        columns = Grid.grid(padding=(0, 4), expand=True)
        columns.add_column(ratio=1)
        columns.add_column(ratio=1)
        columns.add_row(Group(*left), Group(*right))
        body = columns
    parts: list[RenderableType] = [_heading(found), Padding(_facts(found), (0, 0, 0, _INDENT), expand=False)]
    if found.sources:
        return Group(*parts, _section("Tokens by source", Text("\n".join(_by_source(found.sources)))))
    if found.recipe:
        parts.append(_section("Sources", Text("\n".join(table_of(found.recipe).lines()))))
    return Group(*parts, body)


def _by_source(sources: Sequence[SourceTokens]) -> Sequence[str]:
    rows = [(source.name, f"{source.tokens:,}", _percent(source.share), f"{source.samples:,}") for source in sources]
    return Table(["source", "tokens", "share", "samples"], rows).lines()


def _section(title: str, content: RenderableType) -> RenderableType:
    return Group(Text(), Text(title, style=_TITLE), Padding(content, (0, 0, 0, _INDENT), expand=False))


def _heading(found: Statistics) -> Text:
    details = [found.format, found.layout, *([found.dtype] if found.dtype else [])]
    facts = {key: value for key, value in found.variant.items() if key not in ("header_bytes", "index_bytes")}
    details += [f"{key.replace('_', ' ')} {printable(value_words(value))}" for key, value in facts.items()]
    text = Text(printable(found.path), style=_TITLE)
    text.append("\n" + " · ".join(details), style="not bold dim")
    return text


# facts


def _facts(found: Statistics) -> Grid:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(style=_LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _named(found):
        if not found.sources or name in ("sequences", "tokens", "padding"):  # an interval has no other facts
            grid.add_row(name, Text(value))
    return grid


def _named(found: Statistics) -> list[tuple[str, str]]:
    about = "≈ " if found.estimated and "sequences" not in (found.sampled.exact if found.sampled else ()) else ""
    word = "documents" if found.tokens is None else "sequences"
    some = "≈ " if found.estimated else ""
    empty = f", {some}{found.empty.count:,} empty" if found.empty and found.empty.count else ""
    rows = [(word, f"{about}{found.sequences:,}{empty}")]
    if found.tokens is not None:
        each = f", {found.bytes_per_token:.2f} bytes per token" if found.bytes_per_token else ""
        of_recipe = ", the recipe alone" if found.recipe else ""
        rows += [("tokens", f"{about}{found.tokens:,}"), ("on disk", f"{human_bytes(found.bytes)}{each}{of_recipe}")]
    if found.text is not None:
        rows += [("characters", f"{about}{found.text.characters:,}"), ("on disk", human_bytes(found.bytes))]
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
    bound = "≥ " if found.estimated else ""
    largest = f", largest {bound}{found.max_id}" if found.max_id is not None else ""
    about = "≈ " if ids.estimated else bound
    rows = [("IDs", f"{about}{ids.distinct:,} distinct{largest}")]
    if ids.vocab_size is not None and ids.coverage is not None:
        beyond = f"; {counted(ids.beyond, 'token')} beyond it" if ids.beyond else ""
        rows.append(("vocabulary", f"{_percent(ids.coverage)} of {ids.vocab_size:,} IDs occur{beyond}"))
    for name, ends in (("first token", found.first_tokens), ("last token", found.last_tokens)):
        if ends is not None and ends.commonest is not None:
            text = _spelled(ends.top[0].text)
            rows.append((name, f"{ends.commonest}{text} in {_percent(ends.share)}, {ends.distinct:,} distinct"))
    return rows


def _of_shares(found: Statistics) -> list[tuple[str, str]]:
    rows = []
    if found.tokens is not None:
        stored = f", {found.separators.count:,} stored" if found.separators is not None else ""
        known = "none known"
        if found.eos_id is not None:
            known = f"{separator_words(found.eos_id, found.eos_from, found.eos_seen)}{stored}"
        rows.append(("separator", known))
    for name, share in (("padding", found.padding), ("masked", found.masked)):
        if share is not None and (share.count or name == "masked" or not found.columns):
            rows.append((name, f"{counted(share.count, 'position')} ({_percent(share.share)})"))
    return rows


def _duplicates(found: Statistics) -> str:
    repeated = found.duplicates
    if repeated is None:
        return "not counted"
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
    values = {name: getattr(lengths, name) for name in _PERCENTILES}
    shown = {name: f"{one:,.1f}" if isinstance(one, float) else f"{one:,}" for name, one in values.items()}
    unit = Text(f"in {lengths.unit}", style=_LABEL)
    return Group(unit, _side_by_side(shown, width), Text(), _bars(lengths.histogram, width))


def _side_by_side(shown: Mapping[str, str], width: int) -> Grid:
    """Return a table with values below their names, or next to their names if the row does not fit."""
    line = Grid.grid(padding=(0, 2))
    for _ in shown:
        line.add_column(justify="right", no_wrap=True)
    line.add_row(*(Text(name, style=_LABEL) for name in shown))
    line.add_row(*shown.values())
    return line if _fits(line, width) else _below(shown)


def _below(shown: Mapping[str, str]) -> Grid:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(style=_LABEL, no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    for name, value in shown.items():
        grid.add_row(name, value)
    return grid


def _bars(histogram: Histogram, width: int) -> Grid:
    """Return a row per bin: lengths, bar, count, share. Without room, the share and the bar are left out."""
    edges, counts = histogram.edges, histogram.counts
    largest, total = max(counts) or 1, sum(counts) or 1
    names = [
        f"{low:,}" if high == low + 1 else f"{low:,} {_DASH} {high - 1:,}"
        for low, high in zip(edges, edges[1:], strict=False)
    ]
    amounts = [f"{count:,}" for count in counts]
    shares = [_percent(count / total) for count in counts]
    taken = max(map(len, names)) + max(map(len, amounts)) + 2
    wanted = max(map(len, shares)) + 1
    shared = width - taken - wanted >= _SHORTEST_BAR
    room = min(width - taken - (wanted if shared else 0), _FULL_BAR)
    grid = Grid.grid(padding=(0, 1))
    grid.add_column(justify="right", style=_LABEL, no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(justify="right", style=_LABEL, no_wrap=True)
    for name, count, amount, share in zip(names, counts, amounts, shares, strict=True):
        drawn = bar(count / largest, room) if room >= _SHORTEST_BAR else ""
        grid.add_row(name, Text(drawn, style=_BAR), amount, *([share] if shared else []))
    return grid


def _ids(ids: Ids, width: int) -> RenderableType:
    parts = [
        (Text("most frequent", style=_LABEL), _listed(ids.most_frequent, bars=True)),
        (Text("least frequent", style=_LABEL), _listed(ids.least_frequent, bars=False)),
    ]
    both = Grid.grid(padding=(0, 4))
    both.add_row(*(Group(*part) for part in parts))
    return both if _fits(both, width) else Group(*parts[0], Text(), *parts[1])


def _listed(ids: Sequence[Id], *, bars: bool) -> Grid:
    grid = Grid.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True, style="green")
    grid.add_column(no_wrap=True, style=_BAR)
    grid.add_column(justify="right", no_wrap=True)
    largest = max((one.share for one in ids), default=0.0)
    for one in ids:
        drawn = bar(one.share / largest, 12) if bars else ""
        grid.add_row(
            str(one.id),
            Text(_spelled(one.text).strip()),
            drawn,
            _percent(one.share) if bars else f"{one.count:,} {_TIMES}",
        )
    return grid


def _fields(found: Statistics, width: int) -> Grid:
    grid = Grid.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, style=_BAR)
    grid.add_column(justify="right", no_wrap=True)
    fields = found.text.fields if found.text is not None else []
    largest = max((one.count for one in fields), default=1)
    room = max(_SHORTEST_BAR, min(20, (width - len(f"{largest:,}")) // 3))
    for field in fields[: 2 * _LISTED]:
        name = shortened(printable(field.name), max(_SHORTEST_BAR, min(30, width - room - len(f"{largest:,}") - 2)))
        grid.add_row(Text(name), bar(field.count / largest, room), f"{field.count:,}")
    if len(fields) > 2 * _LISTED:
        grid.add_row(f"and {len(fields) - 2 * _LISTED} more", "", "", style=_LABEL)
    return grid


def _repeated(found: Statistics, width: int) -> RenderableType:
    unit = "token" if found.tokens is not None else "character"
    repeated = found.duplicates
    lines = []
    for group in repeated.largest[:_LISTED] if repeated is not None else ():
        line = Text(f"{group.count:,} {_TIMES} {counted(group.length, unit)}")
        line.append(f"  #{group.sequence:,}" if group.sequence is not None else "", style=_LABEL)
        narrow = width - len(line) < _BEGINNING  # then the beginning of the sequence is printed below
        line.append("\n  " if narrow else "  ")
        room = width - 2 if narrow else width - len(line)
        begin = shortened(printable(group.text), room) if group.text is not None else _whole_ids(group.ids or (), room)
        line.append(begin, style="green")
        lines.append(line)
    return Group(*lines)


def _whole_ids(ids: Sequence[int], room: int) -> str:
    """Return the first IDs that fit in `room` characters, none of them cut."""
    for many in range(len(ids), 0, -1):
        shown = " ".join(map(str, ids[:many])) + (" …" if many < len(ids) else "")
        if len(shown) <= room:
            return shown
    return ""


def _packing(packing: Packing, width: int) -> RenderableType:
    names = ("samples", "padding", "documents cut")
    ways = {"one after the other": _cost(packing.concatenated, "≈ "), "each padded": _cost(packing.padded, "")}
    table = Table(("", *names), [(way, *cost) for way, cost in ways.items()]).drawn()
    if _fits(table, width):
        return table
    return Group(*(Group(Text(way), _below(dict(zip(names, cost, strict=True)))) for way, cost in ways.items()))


def _cost(cost: Cost, about: str) -> tuple[str, str, str]:
    return f"{cost.samples:,}", _percent(cost.padding_share), f"{about}{_percent(cost.cut_share)}"


# several datasets


def _several(report: StatsReport, width: int) -> RenderableType:
    """Return a row per dataset with the total last, or a block per dataset if a row does not fit."""
    each = [*report.datasets, *([report.total] if report.total is not None else [])]
    for wide in [True, False] if width >= _WIDE else [False]:
        details = [_details(one, wide=wide) for one in each]
        taken = sum(2 + max(len(name), *(len(cells[name]) for cells in details)) for name in details[0])
        if taken + _BEGINNING <= width:
            return _rows(each, details, total=report.total is not None)
    blocks = []
    for one in each:
        name = Text(printable(one.path), style=_TITLE, overflow="fold")
        blocks.append(Group(name, Padding(_below(_details(one, wide=False)), (0, 0, 0, _INDENT), expand=False)))
    return Group(*blocks)


def _rows(each: Sequence[Statistics], details: Sequence[Mapping[str, str]], *, total: bool) -> RenderableType:
    """Return the rows, with the path last because it may be long."""
    last = len(details[0])
    rows = [(*cells.values(), Text(printable(one.path))) for one, cells in zip(each, details, strict=True)]
    styles = [_TITLE if total and number == len(each) - 1 else "" for number in range(len(each))]
    return Table((*details[0], "dataset"), rows, words=(last,)).drawn(folds=(last,), styles=styles)


def _details(one: Statistics, *, wide: bool) -> dict[str, str]:
    """Return the cells of a dataset's row by the name of the column."""
    exact = one.sampled.exact if one.sampled is not None else ()
    about = "≈ " if one.estimated and "sequences" not in exact else ""
    texts, lengths = one.tokens is None, one.lengths
    amount = one.text.characters if one.text is not None else one.tokens
    cells = {"documents" if texts else "sequences": f"{about}{one.sequences:,}"}
    cells["characters" if texts else "tokens"] = f"{about}{amount:,}"
    if wide:
        cells["on disk"] = human_bytes(one.bytes)
        values = {name: getattr(lengths, name, None) for name in ("p50", "p99", "max")}
        cells |= {name: _DASH if value is None else f"{value:,}" for name, value in values.items()}
    if not texts:
        cells["largest ID"] = _DASH if one.max_id is None else str(one.max_id)
    cells["duplicates"] = _percent(one.duplicates.share) if one.duplicates is not None else _DASH
    return cells


# words


def _percent(share: float) -> str:
    percent = 100 * share
    if 0 < percent < 0.01:
        return "< 0.01 %"
    return f"{percent:.2f} %" if percent < 10 else f"{percent:.1f} %"


def _spelled(text: str | None) -> str:
    return "" if text is None else f" “{shortened(printable(text), 14)}”"
