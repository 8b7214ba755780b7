"""Render the page of `tokfmt stats --html`, one file that needs no network.

    page.html  the frame
    page.css   all styles, light and dark
    page       the sections of a dataset; *_table: rows and numbers; *_figure: inline SVG

The page holds no script. Its policy allows no script, no connection, and no style except page.css, so no text in a
private dataset can leak it. All content of files is escaped where it is inserted.

A figure is as wide as the page. Horizontal coordinates are percentages, so letters keep their size, and a scale of
fixed width is next to the figure. `<title>` elements hold exact values. Class `more` is hidden on a narrow screen.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from string import Template

import msgspec

from tokfmt.base.version import __version__
from tokfmt.cli.convert import table_of_prepared
from tokfmt.cli.table import Markup, Table, safe
from tokfmt.commands.convert.request import PreparedSource
from tokfmt.commands.stats.report import (
    Duplicates,
    Ends,
    Failure,
    Frequencies,
    Histogram,
    Id,
    Lengths,
    Packing,
    Statistics,
    StatsReport,
    TextFacts,
)
from tokfmt.core.findings import Finding
from tokfmt.wording import human_bytes, printable, shortened, value_words

BEGINNING = b"<!doctype html>\n<!-- tokfmt stats -->\n"
"""The first bytes of a page. A file that begins with other bytes is not replaced by a page."""


def prepared_of(content: object) -> list[PreparedSource]:
    """Return the report about a preparation from a manifest; [] if the content is not such a report."""
    try:
        return msgspec.convert(content, list[PreparedSource])
    except msgspec.ValidationError:
        return []


def page(
    report: StatsReport,
    findings: Mapping[str, Sequence[Finding]] | None = None,
    prepared: Mapping[str, Sequence[PreparedSource]] | None = None,
) -> str:
    """Return the HTML page of a report.

    Args:
        report: The result of `commands.stats`.
        findings: The findings of `commands.check` by path; a dataset that is missing was not checked.
        prepared: The reports about preparations by path.

    Returns:
        An HTML document of about 100 kB per dataset. Its policy allows no script and no connection.
    """
    datasets = [("total", report.total)] if report.total else []
    datasets += [(f"dataset-{k}", one) for k, one in enumerate(report.datasets)]
    parts = []
    if report.total:
        parts.append(_section("Datasets", overview_table(datasets)))
    if report.failures:
        parts.append(_section("Unreadable datasets", failures_table(report.failures)))
    for anchor, one in datasets:
        found, made = (findings or {}).get(one.path), (prepared or {}).get(one.path, ())
        parts.append(_dataset(anchor, one, found, made, alone=not report.several))
    title = report.datasets[0].path if len(report.datasets) == 1 else f"{len(report.datasets)} datasets"
    here = files(__package__)
    style = (here / "page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return Template((here / "page.html").read_text("utf-8")).substitute(
        title=safe(title),
        style=style,
        style_hash=f"sha256-{digest}",
        version=escape(__version__),
        body="\n".join(parts),
        report=escape(json.dumps(report.as_json(), ensure_ascii=True), quote=False),
    )


def _section(title: str, *content: str, note: str = "") -> str:
    remark = f'<p class="note">{note}</p>' if note else ""
    return f'<section class="panel"><h3>{safe(title)}</h3>{remark}{"".join(content)}</section>'


def _dataset(
    anchor: str, one: Statistics, findings: Sequence[Finding] | None, prepared: Sequence[PreparedSource], *, alone: bool
) -> str:
    sequences, tokens = counted_as(one)
    parts = [_heading(one, alone=alone), _cards(one)]
    if findings is not None:
        parts.append(_findings(findings))
    if prepared:
        parts.append(_section("Preparation", prepared_table(prepared), note=_LOOKED))
    if one.lengths is not None and one.sequences:
        parts.append(_section("Lengths", lengths_figure(one.lengths, counted_as(one)[0]), lengths_list(one.lengths)))
    if one.ids is not None and one.ids.distinct:
        parts.append(_section("Token frequency", frequency_figure(one.ids.frequencies), note=_vocabulary(one)))
        columns = f"<div><h4>most frequent</h4>{ids_table(one.ids.most_frequent)}</div>"
        columns += f"<div><h4>least frequent</h4>{ids_table(one.ids.least_frequent)}</div>"
        parts.append(_section("IDs", f'<div class="columns">{columns}</div>'))
    if one.first_tokens is not None and one.last_tokens is not None and one.first_tokens.top:
        columns = _ends("first tokens", one.first_tokens) + _ends("last tokens", one.last_tokens)
        parts.append(_section("Where sequences begin and end", f'<div class="columns">{columns}</div>'))
    if one.duplicates is not None and one.duplicates.groups:
        summary = (
            f"{number(one.duplicates.sequences)} {sequences} ({percent(one.duplicates.share)}) repeat an earlier one; "
            f"they hold {percent(one.duplicates.token_share)} of the {tokens}."
        )
        parts.append(_section(f"Repeated {sequences}", duplicates_table(one.duplicates, tokens), note=summary))
    if one.packing is not None:
        title = f"Packing into samples of {one.packing.seq_len:,} tokens"
        parts.append(_section(title, packing_table(one.packing)))
    if one.text is not None and one.text.fields:
        parts.append(_section("Fields", fields_table(one.text)))
    if one.notes:
        parts.append(_section("Notes", "<ul>" + "".join(f"<li>{safe(note)}</li>" for note in one.notes) + "</ul>"))
    return f'<article id="{anchor}">{"".join(parts)}</article>'


def _heading(one: Statistics, *, alone: bool) -> str:
    facts = [one.format, one.layout, *([one.dtype] if one.dtype else []), human_bytes(one.bytes)]
    facts += [
        f"{key.replace('_', ' ')} {value_words(value)}" for key, value in one.variant.items() if value not in (None, "")
    ]
    badge = ""
    if one.sampled is not None:
        looked = f"{one.sampled.sequences:,} of {number(one.sampled.of)} {counted_as(one)[0]} read"
        basis = f"Estimated for the whole: {looked}, seed {one.sampled.seed}."
        badge = f'<p class="estimated">{safe(basis)}</p>'
    title = "" if alone else f"<h2>{safe(one.path)}</h2>"
    return f'{title}<p class="facts">{safe(" · ".join(map(str, facts)))}</p>{badge}'


def _cards(one: Statistics) -> str:
    cards: list[tuple[str, object, str]] = [
        (counted_as(one)[0], exact(one.sequences), _mean(one)),
    ]
    if one.text is not None:
        cards.append(("characters", exact(one.text.characters), f"{human_bytes(one.text.bytes)} of text"))
    else:
        per = "" if one.bytes_per_token is None else f"{one.bytes_per_token:.2f} bytes per token on disk"
        cards.append(("tokens", exact(one.tokens), per))
    if one.ids is not None:
        covered = "" if one.ids.coverage is None else f"{percent(one.ids.coverage)} of {one.ids.vocab_size:,}"
        cards += [("distinct IDs", exact(one.ids.distinct), covered), ("largest ID", _plain(one.max_id), _beyond(one))]
    if one.text is None:
        cards.append(("separator", _plain(one.eos_id), one.eos_from))
    for name, share in (("empty", one.empty), ("padding", one.padding), ("masked", one.masked)):
        if share is not None:
            cards.append((name, exact(share.count), percent(share.share)))
    if one.duplicates is not None:
        cards.append(("repeated", exact(one.duplicates.sequences), percent(one.duplicates.share)))
    made = "".join(
        f'<div class="card"><div class="name">{safe(name)}</div><div class="value">{safe(value)}</div>'
        f'<div class="more">{safe(more)}</div></div>'
        for name, value, more in cards
    )
    return f'<div class="cards">{made}</div>'


def _plain(id_: int | None) -> Markup:
    return Markup("none" if id_ is None else str(id_))


def _mean(one: Statistics) -> str:
    return (
        "" if one.lengths is None or one.lengths.mean is None else f"mean {number(one.lengths.mean)} {one.lengths.unit}"
    )


def _beyond(one: Statistics) -> str:
    return f"{number(one.ids.beyond)} tokens beyond the vocabulary" if one.ids and one.ids.beyond else ""


def _vocabulary(one: Statistics) -> str:
    if one.ids is None:
        return ""
    return f"{number(one.ids.distinct)} IDs occur, {number(one.ids.once)} of them once."


def _ends(title: str, ends: Ends) -> str:
    summary = f"{percent(ends.share)} with the most frequent, {number(ends.distinct)} distinct"
    return f'<div><h4>{safe(title)}</h4><p class="note">{safe(summary)}</p>{ends_figure(ends)}</div>'


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return '<p class="clean">tokfmt check: no findings</p>'
    return _section("Findings of tokfmt check", findings_table(findings))


_CUT = 120  # characters of a text in a table


def number(value: float | None) -> str:
    """Return a number as `1,234,567`, from ten million on as `12.3 M` or `3.21 G`; a dash for None."""
    if value is None:
        return "–"  # noqa: RUF001 - an en dash, as in print
    if abs(value) < 1e7:
        return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    scale, unit = next(pair for pair in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")) if abs(value) >= pair[0])
    return f"{value / scale:,.4g} {unit}"


def exact(value: float | None) -> Markup:
    """Return a number that shows all its digits under the mouse."""
    shown = number(value)
    full = f"{value:,}" if value is not None else ""
    return Markup(f'<span title="{full}">{shown}</span>' if full and full != shown else shown)


def percent(share: float | None) -> str:
    """Return a share in percent with three digits."""
    if share is None:
        return "–"  # noqa: RUF001
    if 0 < share < 0.0001:
        return "< 0.01 %"
    return f"{100 * share:.3g} %" if share < 0.9995 or share == 1 else "> 99.9 %"


def spelled(text: str | None, id_: int, limit: int = _CUT) -> str:
    """Return the text of a token with visible white space, cut to `limit` characters; without a text, its ID."""
    if text is None:
        return f"{id_}"
    shown = printable(text.replace("\n", "⏎").replace("\t", "⇥"))
    shown = "".join("·" if character.isspace() else character for character in shown)
    shown = shown or "(nothing)"
    return shortened(shown, limit)


def token(one: Id) -> Markup:
    """Return a token as HTML: its text, or its ID."""
    return Markup(f"<code>{escape(spelled(one.text, one.id, 40))}</code>")


def ids_table(ids: Sequence[Id]) -> Markup:
    """Return the table of IDs: token, ID, count, share."""
    decoded = any(one.text is not None for one in ids)
    heads = ["token", "ID", "count", "share"] if decoded else ["ID", "count", "share"]
    rows = [([token(one)] if decoded else []) + [f"{one.id}", exact(one.count), percent(one.share)] for one in ids]
    return Table(heads, rows, words=(0,) if decoded else ()).html()


def lengths_list(lengths: Lengths) -> Markup:
    """Return the list of percentiles."""
    names = ("min", "p1", "p5", "p25", "p50", "mean", "p75", "p95", "p99", "max")
    cells = "".join(f"<div><dt>{name}</dt><dd>{exact(getattr(lengths, name))}</dd></div>" for name in names)
    return Markup(f'<dl class="lengths">{cells}</dl>')


def counted_as(one: Statistics) -> tuple[str, str]:
    """Return the counted unit and the unit of lengths: sequences and tokens, or documents and characters."""
    return ("documents", "characters") if one.text is not None else ("sequences", "tokens")


def prepared_table(prepared: Sequence[PreparedSource]) -> Markup:
    """Return the table of a preparation: documents, characters, tokens and shares by source and rule."""
    table = table_of_prepared(prepared)
    rows = [
        (Markup(f'<span class="part">{safe(name.strip())}</span>') if name.startswith("  ") else name, *numbers)
        for name, *numbers in table.rows
    ]
    return replace(table, rows=rows).html("prepared")


_LOOKED = (
    "The documents read of each source until its quota was full, those that filters left out by rule, and those kept: "
    "their tokens in this dataset, and the mean number of copies of a document."
)


def failures_table(failures: Sequence[Failure]) -> Markup:
    """Return the table of unreadable datasets with their errors."""
    return Table(("dataset", "error"), [(one.path, one.error) for one in failures], words=(0, 1)).html()


def duplicates_table(duplicates: Duplicates, unit: str) -> Markup:
    """Return the table of the largest groups of equal sequences, with the first dataset if there are several."""
    several = any(group.path is not None for group in duplicates.largest)
    rows = [
        (
            "–" if group.sequence is None else f"#{group.sequence:,}",  # noqa: RUF001
            _beginning(group.text, group.ids),
            exact(group.length),
            exact(group.count),
            *([group.path or ""] if several else []),
        )
        for group in duplicates.largest
    ]
    heads = ("first at", "begins with", unit, "times", *(["in"] if several else []))
    return Table(heads, rows, words=(1, 4)).html()


def _beginning(text: str | None, ids: Sequence[int] | None) -> Markup:
    if text is not None:
        return Markup(f"<code>{escape(spelled(text, 0))}</code>")
    return Markup(f'<code class="ids">{" ".join(map(str, (ids or [])[:12]))}</code>')


def packing_table(packing: Packing) -> Markup:
    """Return the table of the costs of both ways of packing."""
    rows = [
        (
            name,
            exact(cost.samples),
            exact(cost.padding),
            percent(cost.padding_share),
            exact(cost.documents_cut),
            percent(cost.cut_share),
        )
        for name, cost in (
            ("one stream, cut", packing.concatenated),
            ("padded, one document per sample", packing.padded),
        )
    ]
    return Table(("way", "samples", "padding", "", "documents cut", ""), rows).html()


def fields_table(text: TextFacts) -> Markup:
    """Return the table of the fields of the records."""
    return Table(("field", "records"), [(field.name, exact(field.count)) for field in text.fields]).html()


def findings_table(findings: Sequence[Finding]) -> Markup:
    """Return the table of findings."""
    rows = [
        (
            Markup(f'<span class="badge {safe(one.severity)}">{safe(one.severity)}</span>'),
            one.code,
            "" if one.offset is None else f"{one.offset:,}",
            Markup(f"{safe(one.message)}<br><small>{safe(one.remedy)}</small>" if one.remedy else safe(one.message)),
        )
        for one in findings
    ]
    return Table(("severity", "code", "at byte", "finding and remedy"), rows, words=(0, 1, 3)).html("findings")


def overview_table(rows: Sequence[tuple[str, Statistics]]) -> Markup:
    """Return the table of datasets, with a link from each row to its section."""
    sequences, tokens = counted_as(rows[0][1])
    return Table(
        ("dataset", "format", sequences, tokens, "bytes", "mean length", "largest ID", "duplicates"),
        [
            (
                Markup(f'<a href="#{safe(anchor)}">{safe(one.path)}</a>'),
                one.format,
                exact(one.sequences),
                exact(one.tokens if one.text is None else one.text.characters),
                exact(one.bytes),
                exact(None if one.lengths is None else one.lengths.mean),
                exact(one.max_id),
                percent(None if one.duplicates is None else one.duplicates.share),
            )
            for anchor, one in rows
        ],
        words=(0, 1),
    ).html()


_MARKED = ("p5", "p50", "p95", "p99")
_HEIGHT = 220  # pixels of the area, as all numbers below
_ROW, _FOOT, _SCALE = 16, 40, 64
_TICKS, _FEW = 12, 4  # labels along a wide screen and a narrow one


def lengths_figure(lengths: Lengths, counted: str) -> Markup:
    """Return the histogram of lengths, one bar of equal width per bin, with marks at percentiles.

    The bars are drawn with a linear and with a logarithmic scale; a switch shows one of them.
    """
    top = max(lengths.histogram.counts, default=0) or 1
    steps = _steps(top)
    linear = _bars(lengths, counted, [(step / steps[-1], short(step)) for step in steps], 1 / steps[-1])
    powers = [10**k for k in range(len(str(top)))]
    ceiling = math.log(2 * top)  # the scale begins at 0.5, so that a count of 1 has a bar
    log = _bars(lengths, counted, [(math.log(2 * power) / ceiling, short(power)) for power in powers], None)
    switch = '<label class="switch"><input type="checkbox"> log scale</label>'
    return Markup(f'{switch}<div class="linear">{linear}</div><div class="log">{log}</div>')


def _bars(lengths: Lengths, counted: str, scale: Sequence[tuple[float, str]], each: float | None) -> str:
    """Return one figure of bars. `each` is the share of the height per unit of count; None for a logarithmic scale."""
    histogram = lengths.histogram
    counts, edges = histogram.counts, histogram.edges
    width, total, top = 100 / len(counts), sum(counts) or 1, max(counts) or 1
    marks = _marks(lengths)
    above = _ROW * len(marks) + 6
    parts = [_line(0, 100, above + _HEIGHT * (1 - share), "grid") for share, _ in scale]
    for k, (low, high, count) in enumerate(zip(edges, edges[1:], counts, strict=False)):
        share = count * each if each is not None else math.log(2 * count) / math.log(2 * top) if count else 0.0
        tall = max(_HEIGHT * share, 1) if count else 0
        tip = f"{_range(low, high)} {lengths.unit}: {count:,} {counted}, {percent(count / total)}"
        parts.append(
            f'<g class="bar"><title>{escape(tip)}</title>'
            f'<rect class="hit" x="{k * width:.3f}%" y="{above}" width="{width:.3f}%" height="{_HEIGHT}"/>'
            f'<rect class="series" x="{(k + 0.04) * width:.3f}%" y="{above + _HEIGHT - tall:.1f}" '
            f'width="{0.92 * width:.3f}%" height="{tall:.1f}"/></g>'
        )
    names = []
    for row, (name, value) in enumerate(marks):
        x = (_at(histogram, value) + 0.5) * width
        side, shift = ("start", 4) if x < 50 else ("end", -4)
        parts.append(f'<line class="mark" x1="{x:.3f}%" x2="{x:.3f}%" y1="{_ROW * row + 3}" y2="{above + _HEIGHT}"/>')
        names.append(
            f'<text class="mark" x="{x:.3f}%" dx="{shift}" y="{_ROW * row + 12}" text-anchor="{side}">'
            f"{name} {number(value)}</text>"
        )
    parts += names  # over the lines
    parts += _ticks([(k * width, short(edge)) for k, edge in enumerate(edges)], above + _HEIGHT)
    return _figure("histogram of lengths", above, scale, parts, f"length in {lengths.unit}", counted)


def frequency_figure(frequencies: Frequencies) -> Markup:
    """Return the plot of frequency over rank, both logarithmic: a straight line for natural language."""
    across, up = math.log10(max(frequencies.rank[-1], 10)), math.log10(max(frequencies.count[0], 10))
    places = [
        (100 * math.log10(rank) / across, math.log10(max(count, 1)) / up)
        for rank, count in zip(frequencies.rank, frequencies.count, strict=True)
    ]
    scale = [(k / up, short(10**k)) for k in range(int(up) + 1)]
    above = 10
    parts = [_line(0, 100, above + _HEIGHT * (1 - share), "grid") for share, _ in scale]
    points = " ".join(f"{10 * x:.1f},{_HEIGHT * (1 - share):.1f}" for x, share in places)
    parts.append(
        f'<svg y="{above}" width="100%" height="{_HEIGHT}" viewBox="0 0 1000 {_HEIGHT}" preserveAspectRatio="none">'
        f'<polyline class="curve" points="{points}"/></svg>'
    )
    for (x, share), rank, count in zip(places, frequencies.rank, frequencies.count, strict=True):
        parts.append(
            f'<circle class="series" cx="{x:.2f}%" cy="{above + _HEIGHT * (1 - share):.1f}" r="2.5">'
            f"<title>rank {rank:,}: {count:,} times</title></circle>"
        )
    parts += _ticks([(100 * k / across, short(10**k)) for k in range(int(across) + 1)], above + _HEIGHT)
    return _figure("token frequency over rank", above, scale, parts, "rank", "times")


def ends_figure(ends: Ends) -> Markup:
    """Return the table of the most frequent first or last tokens, with a bar for the share of each."""
    largest = ends.top[0].share
    rows = [
        (
            token(one),
            Markup(
                f'<svg class="share" height="14" aria-hidden="true"><title>ID {one.id}: {one.count:,}</title>'
                f'<rect class="series" height="14" width="{100 * one.share / largest:.2f}%"/></svg>'
            ),
            percent(one.share),
        )
        for one in ends.top
    ]
    return Table(("token", "", "share"), rows, words=(0, 1)).html("ends")


def short(value: int) -> str:
    """Return a number as the label of a scale: `150`, `1,500`, `150 k`, `1.5 M`."""
    if value < 10_000:
        return f"{value:,}"
    units = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (1000, "k"))
    scale, unit = next(pair for pair in units if value >= pair[0])
    return f"{value / scale:,.1f}".removesuffix(".0") + f" {unit}"


def _figure(
    name: str, above: int, scale: Sequence[tuple[float, str]], parts: Sequence[str], across: str, up: str
) -> Markup:
    """Return a figure: a scale of fixed width, and the area to the right of it."""
    height = above + _HEIGHT + _FOOT
    labels = "".join(
        f'<text x="{_SCALE - 8}" y="{above + _HEIGHT * (1 - share) + 4:.1f}" text-anchor="end">{label}</text>'
        for share, label in scale
    )
    middle = above + _HEIGHT / 2
    labels += (
        f'<text class="title" transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">{safe(up)}</text>'
    )
    title = f'<text class="title" x="50%" y="{height - 4}" text-anchor="middle">{safe(across)}</text>'
    base = _line(0, 100, above + _HEIGHT, "base")
    return Markup(
        f'<div class="figure"><svg class="scale" width="{_SCALE}" height="{height}" aria-hidden="true">{labels}</svg>'
        f'<svg class="area" height="{height}" role="img" aria-label="{safe(name)}">{"".join(parts)}{base}{title}</svg>'
        "</div>"
    )


def _line(left: float, right: float, y: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{left}%" x2="{right}%" y1="{y:.1f}" y2="{y:.1f}"/>'


def _ticks(places: Sequence[tuple[float, str]], y: int) -> list[str]:
    """Return at most 12 centered labels below the area, of which a narrow screen shows four."""
    every = -(-len(places) // _TICKS) or 1
    kept = places[::every]
    few = -(-len(kept) // _FEW) or 1
    return [
        f'<text class="{"tick" if k % few == 0 else "tick more"}" x="{x:.3f}%" y="{y + 16}" '
        f'text-anchor="{"start" if x < 1 else "end" if x > 99 else "middle"}">{label}</text>'
        for k, (x, label) in enumerate(kept)
    ]


def _marks(lengths: Lengths) -> list[tuple[str, int]]:
    """Return the marked percentiles by value; equal percentiles share one label."""
    found: dict[int, list[str]] = {}
    for name in _MARKED:
        value = getattr(lengths, name)
        if value is not None:
            found.setdefault(value, []).append(name)
    return [(", ".join(names), value) for value, names in found.items()]


def _steps(top: int) -> list[int]:
    """Return 0 and round numbers, the last of which is at least `top`."""
    step = next(s * 10**k for k in range(20) for s in (1, 2, 5) if 5 * s * 10**k >= top)
    return list(range(0, top + step, step))


def _range(low: int, high: int) -> str:
    """Return the lengths in a bin: `48-63`, or `5` if it has one length."""
    return f"{low:,}" if high - low == 1 else f"{low:,}–{high - 1:,}"  # noqa: RUF001 - an en dash, as in print


def _at(histogram: Histogram, value: int) -> float:
    """Return the coordinate of a length, in units of bars: bar k covers k - 0.5 to k + 0.5."""
    edges = histogram.edges
    k = min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)
    return k - 0.5 + min((value + 0.5 - edges[k]) / (edges[k + 1] - edges[k]), 1.0)
