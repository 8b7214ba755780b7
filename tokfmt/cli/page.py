"""Render the page of `tokfmt stats --html`, one file that needs no network.

    page.html  the template
    page.css   all styles, light and dark
    page       numbers, and *_figure: inline SVG

The page holds no script. Its policy allows no script, no connection, and no style except page.css, so no text in a
private dataset can leak it. All content of files is escaped where it is inserted.

A figure is as wide as the page. Horizontal coordinates are percentages, so letters keep their size, and a scale of
fixed width is next to the figure. `<title>` elements hold exact values. Class `more` is hidden on a narrow screen.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

import msgspec
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tokfmt.base.version import __version__
from tokfmt.cli.convert import table_of_prepared
from tokfmt.commands.convert.request import PreparedSource
from tokfmt.commands.stats.report import Frequencies, Histogram, Lengths, Statistics, StatsReport
from tokfmt.core.findings import Finding
from tokfmt.wording import human_bytes, printable, short, shortened, value_words

BEGINNINGS = {"page": b"<!doctype html>\n<!-- tokfmt stats -->\n", "plot": b"<!-- tokfmt stats -->\n<svg "}
"""The first bytes of a page and of a plot. A file that begins with other bytes is not replaced by one."""


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
    """Return the HTML page of a report: a document of about 100 kB per dataset, without scripts and connections.

    `findings` are those of `commands.check` by path: a dataset that is missing was not checked. `prepared` are the
    reports about preparations by path.
    """
    here = files(__package__)
    style = (here / "page.css").read_text("utf-8")
    environment = Environment(autoescape=True, finalize=_finalized, undefined=StrictUndefined)
    environment.filters |= {"number": number, "exact": exact, "percent": percent, "bytes": human_bytes}
    functions = (counted_as, facts, frequency_figure, lengths_figure, spelled, table_of_prepared)
    datasets = [("total", report.total)] if report.total else []
    return environment.from_string((here / "page.html").read_text("utf-8")).render(
        {function.__name__: function for function in functions},
        title=report.datasets[0].path if len(report.datasets) == 1 else f"{len(report.datasets)} datasets",
        style=style,
        style_hash=f"sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}",
        version=__version__,
        total=report.total,
        failures=report.failures,
        datasets=[*datasets, *((f"dataset-{k}", one) for k, one in enumerate(report.datasets))],
        findings=findings or {},
        prepared=prepared or {},
        alone=not report.several,
        report=html.escape(json.dumps(report.as_json()), quote=False),
    )


def _finalized(value: object) -> object:
    """Return a value as the template inserts it: control characters are visible. It is escaped after this."""
    return value if isinstance(value, Markup) else printable(str(value))


def facts(one: Statistics) -> list[str]:
    """Return the format of a dataset, its layout, its size and what else the format states."""
    known = [one.format, one.layout, *([one.dtype] if one.dtype else []), human_bytes(one.bytes)]
    stated = {key: value for key, value in one.variant.items() if value not in (None, "")}
    return known + [f"{key.replace('_', ' ')} {value_words(value)}" for key, value in stated.items()]


_CUT = 120  # characters of a text in a table


def number(value: float | None) -> str:
    """Return a number as `1,234,567`, from ten million on as `12.3M` or `3.21G`; a dash for None."""
    if value is None:
        return "–"  # noqa: RUF001 - an en dash, as in print
    if abs(value) >= 1e7:
        return short(int(value))
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def exact(value: float | None) -> str:
    """Return a number that shows all its digits under the mouse."""
    shown = number(value)
    full = f"{value:,}" if value is not None else ""
    return Markup('<span title="{}">{}</span>').format(full, shown) if full and full != shown else shown


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


def counted_as(one: Statistics) -> tuple[str, str]:
    """Return the counted unit and the unit of lengths: sequences and tokens, or documents and characters."""
    return ("documents", "characters") if one.text is not None else ("sequences", "tokens")


_MARKED = ("p5", "p50", "p95", "p99")
_HEIGHT = 220  # pixels of the area, as all numbers below
_ROW, _FOOT, _SCALE = 16, 40, 64
_TICKS, _FEW = 12, 4  # labels along a wide screen and a narrow one


def lengths_figure(lengths: Lengths, counted: str) -> str:
    """Return the histogram of lengths, one bar of equal width per bin, with marks at percentiles.

    The bars are drawn with a linear and with a logarithmic scale; a switch shows one of them.
    """
    top = max(lengths.histogram.counts, default=0) or 1
    steps = _steps(top)
    linear = _bars(lengths, counted, [(step / steps[-1], short(step)) for step in steps], 1 / steps[-1])
    powers = [10**k for k in range(len(str(top)))]
    ceiling = math.log(2 * top)  # the scale begins at 0.5, so that a count of 1 has a bar
    log = _bars(lengths, counted, [(math.log(2 * power) / ceiling, short(power)) for power in powers], None)
    shown, other = (_figure("histogram of lengths", drawing) for drawing in (linear, log))
    switch = '<label class="switch"><input type="checkbox"> log scale</label>'
    return f'{switch}<div class="linear">{shown}</div><div class="log">{other}</div>'


_PLOT = 900  # pixels across
_PLOT_STYLE = """
text { font: 12px sans-serif; fill: #1c2330 } .title { font-size: 14px } .series { fill: #3563d0 } .hit { fill: none }
.grid { stroke: #e3e6eb } .base, line.mark { stroke: #667085 } line.mark { stroke-dasharray: 2 3 }
text.mark { font-size: 11px } svg { overflow: visible }
"""


def plot(one: Statistics, name: str) -> str:
    """Return the histogram of lengths as an SVG file: dark on white, with a title and named axes."""
    counted, unit = counted_as(one)
    whole = f", {one.tokens:,} tokens" if unit == "tokens" else ""
    title = html.escape(printable(f"{name}: length of {one.sequences:,} {counted}{whole}"))
    counts = one.lengths.histogram.counts if one.lengths is not None else []
    steps = _steps(max(counts, default=0) or 1)
    scale = [(step / steps[-1], f"{step:,}") for step in steps]
    drawing = _bars(one.lengths, counted, scale, 1 / steps[-1]) if one.lengths is not None else Drawing(0, "", "")
    height = drawing.height + 50
    return (
        f'{BEGINNINGS["plot"].decode()}xmlns="http://www.w3.org/2000/svg" width="{_PLOT}" height="{height}">'
        f'<title>{title}</title><style>{_PLOT_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
        f'<text class="title" x="{_PLOT // 2}" y="24" text-anchor="middle">{title}</text>'
        f'<svg y="40">{drawing.scale}</svg><svg x="{_SCALE}" y="40" width="{_PLOT - _SCALE - 30}" '
        f'height="{drawing.height}">{drawing.area}</svg></svg>\n'
    )


def _bars(lengths: Lengths, counted: str, scale: Sequence[tuple[float, str]], each: float | None) -> Drawing:
    """Return one drawing of bars. `each` is the share of the height per unit of count; None for a logarithmic scale."""
    histogram = lengths.histogram
    counts, edges = histogram.counts, histogram.edges
    width, total, top = 100 / len(counts), sum(counts) or 1, max(counts) or 1
    marks = _marks(lengths)
    above = _ROW * len(marks) + 6
    parts = [_line(0, 100, above + _HEIGHT * (1 - share), "grid") for share, _ in scale]
    for k, (low, high, count) in enumerate(zip(edges, edges[1:], counts, strict=False)):
        share = count * each if each is not None else math.log(2 * count) / math.log(2 * top) if count else 0.0
        tall = max(_HEIGHT * share, 1) if count else 0
        bin_ = f"{low:,}" if high - low == 1 else f"{low:,}–{high - 1:,}"  # noqa: RUF001 - an en dash, as in print
        tip = f"{bin_} {lengths.unit}: {count:,} {counted}, {percent(count / total)}"
        parts.append(
            f'<g class="bar"><title>{html.escape(tip)}</title>'
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
    return _drawn(above, scale, parts, f"length in {lengths.unit}", f"number of {counted}")


def frequency_figure(frequencies: Frequencies) -> str:
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
    return _figure("token frequency over rank", _drawn(above, scale, parts, "rank", "times"))


class Drawing(NamedTuple):
    """A scale of fixed width, and the area to the right of it, as content of SVG."""

    height: int
    scale: str
    area: str


def _drawn(above: int, scale: Sequence[tuple[float, str]], parts: Sequence[str], across: str, up: str) -> Drawing:
    """Return a drawing, with the names of both axes."""
    height = above + _HEIGHT + _FOOT
    labels = "".join(
        f'<text x="{_SCALE - 8}" y="{above + _HEIGHT * (1 - share) + 4:.1f}" text-anchor="end">{label}</text>'
        for share, label in scale
    )
    middle = above + _HEIGHT / 2
    labels += f'<text class="title" transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">{up}</text>'
    title = f'<text class="title" x="50%" y="{height - 4}" text-anchor="middle">{across}</text>'
    base = _line(0, 100, above + _HEIGHT, "base")
    return Drawing(height, labels, f"{''.join(parts)}{base}{title}")


def _figure(name: str, drawing: Drawing) -> str:
    """Return a drawing that is as wide as the page."""
    height, scale, area = drawing
    return (
        f'<div class="figure"><svg class="scale" width="{_SCALE}" height="{height}" aria-hidden="true">{scale}</svg>'
        f'<svg class="area" height="{height}" role="img" aria-label="{name}">{area}</svg></div>'
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


def _at(histogram: Histogram, value: int) -> float:
    """Return the coordinate of a length, in units of bars: bar k covers k - 0.5 to k + 0.5."""
    edges = histogram.edges
    k = min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)
    return k - 0.5 + min((value + 0.5 - edges[k]) / (edges[k + 1] - edges[k]), 1.0)
