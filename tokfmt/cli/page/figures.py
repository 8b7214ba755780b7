"""Figures of the page, as the JSON that plotly.js draws. Colours and fonts are page.js's business."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from tokfmt.cli.page.tables import number, spelled
from tokfmt.ops.stats.report import Ends, Frequencies, Histogram, Lengths

Figure = dict[str, Any]

_MARKED = ("p5", "p50", "p95", "p99")
_SHOWN = 40  # characters of a token's spelling on an axis


def lengths_figure(lengths: Lengths) -> Figure:
    """Bars, one a bin, each as wide as the others; percentiles stand where they lie between the bins' edges."""
    histogram = lengths.histogram
    labels = _bins(histogram)
    total = sum(histogram.counts) or 1
    hover = [
        f"{label} {lengths.unit}<br><b>{count:,}</b> sequences, {100 * count / total:.2f} %"
        for label, count in zip(labels, histogram.counts, strict=True)
    ]
    marks = [(name, value) for name in _MARKED if (value := getattr(lengths, name)) is not None]
    if not histogram.counts:
        marks = []
    bars = {
        "type": "bar", "x": list(range(len(labels))), "y": histogram.counts, "hovertext": hover, "hoverinfo": "text",
        "marker": {"color": "@series"},
    }  # fmt: skip
    return {
        "data": [bars],
        "layout": {
            "bargap": 0.06,
            "xaxis": {"title": {"text": f"length in {lengths.unit}"}, **_ticks(labels)},
            "yaxis": {"title": {"text": "sequences"}, "rangemode": "tozero"},
            "shapes": [_line(_at(histogram, value)) for _, value in marks],
            "annotations": [_label(name, value, _at(histogram, value), row) for row, (name, value) in enumerate(marks)],
        },
        "switchable": "yaxis",
    }


def frequency_figure(frequencies: Frequencies) -> Figure:
    """Frequency over rank, both logarithmic: a straight line for natural language, steps where ids were made up."""
    hover = [
        f"rank {rank:,}<br><b>{count:,}</b> times"
        for rank, count in zip(frequencies.rank, frequencies.count, strict=True)
    ]
    curve = {
        "type": "scatter", "mode": "lines+markers", "x": frequencies.rank, "y": frequencies.count, "hovertext": hover,
        "hoverinfo": "text", "line": {"color": "@series", "width": 2}, "marker": {"size": 4, "color": "@series"},
    }  # fmt: skip
    return {
        "data": [curve],
        "layout": {
            "xaxis": {"title": {"text": "rank"}, "type": "log", "dtick": 1, "exponentformat": "SI"},
            "yaxis": {"title": {"text": "occurrences"}, "type": "log", "dtick": 1, "exponentformat": "SI"},
        },
    }


def ends_figure(ends: Ends) -> Figure:
    """The commonest first (or last) tokens; what none of them is, is said last."""
    top = ends.top[::-1]
    names = [spelled(one.text, one.id, _SHOWN) for one in top]
    hover = [f"id {one.id:,}<br><b>{one.count:,}</b> sequences, {100 * one.share:.2f} %" for one in top]
    bars = {
        "type": "bar", "orientation": "h", "x": [100 * one.share for one in top], "y": list(range(len(top))),
        "hovertext": hover, "hoverinfo": "text", "marker": {"color": "@series"},
    }  # fmt: skip
    return {
        "data": [bars],
        "layout": {
            "bargap": 0.25,
            "xaxis": {"title": {"text": "% of sequences"}, "rangemode": "tozero"},
            "yaxis": {"tickvals": list(range(len(top))), "ticktext": [_plain(name) for name in names]},
        },
        "height": 120 + 24 * len(top),
    }


def _bins(histogram: Histogram) -> list[str]:
    """`48-63`, or `5` for a bin of one length."""
    return [
        number(a) if b - a == 1 else f"{number(a)}–{number(b - 1)}"  # noqa: RUF001 - an en dash, as in print
        for a, b in zip(histogram.edges, histogram.edges[1:], strict=False)
    ]


def _ticks(labels: list[str], most: int = 14) -> dict[str, Any]:
    step = -(-len(labels) // most) if labels else 1
    return {"tickvals": list(range(0, len(labels), step)), "ticktext": labels[::step]}


def _at(histogram: Histogram, value: int) -> float:
    """Where a length stands among bars at 0, 1, 2 ..., whose borders are at -0.5, 0.5, ..."""
    edges = histogram.edges
    k = min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)
    return k - 0.5 + min((value + 0.5 - edges[k]) / (edges[k + 1] - edges[k]), 1.0)


def _line(x: float) -> dict[str, Any]:
    return {
        "type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper",
        "line": {"color": "@muted", "width": 1, "dash": "dot"},
    }  # fmt: skip


def _label(name: str, value: int, x: float, row: int) -> dict[str, Any]:
    """Rows alternate, so that close percentiles do not lie on each other."""
    return {
        "x": x, "y": 1.0, "yref": "paper", "yanchor": "bottom", "yshift": 14 * (row % 2), "showarrow": False,
        "text": f"{name} {number(value)}", "font": {"size": 11, "color": "@muted"},
    }  # fmt: skip


def _plain(text: str) -> str:
    """Plotly reads some HTML and TeX in labels."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("$", "&#36;")
