"""The page of a report: its sections, and the frame around them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

import tokfmt
from tokfmt.cli.console import human_bytes
from tokfmt.cli.page.figures import Figure, ends_figure, frequency_figure, lengths_figure
from tokfmt.cli.page.tables import (
    Markup,
    duplicates_table,
    exact,
    fields_table,
    findings_table,
    ids_table,
    lengths_table,
    number,
    overview_table,
    packing_table,
    percent,
    safe,
)
from tokfmt.core.format import Finding
from tokfmt.ops.stats.report import Ends, Report, Statistics


class _Figures:
    """Figures in the order they are drawn; a place for each in the page."""

    def __init__(self) -> None:
        self.all: list[Figure] = []

    def place(self, figure: Figure, title: str) -> str:
        self.all.append(figure)
        height = f' style="height:{int(figure["height"])}px"' if "height" in figure else ""
        number_ = len(self.all) - 1
        return f'<div class="figure" id="figure-{number_}" role="img" aria-label="{escape(title)}"{height}></div>'


def page(report: Report, findings: Mapping[str, Sequence[Finding]] | None = None) -> str:
    """The HTML page of a report.

    Args:
        report: What `ops.stats` found.
        findings: What `ops.check` found, by the path of the dataset; a dataset that is missing was not checked.

    Returns:
        A whole document with plotly.js in it, about 5 MB. Its policy allows no connection.
    """
    from plotly.offline import get_plotlyjs  # 0.3 s, for pages only

    figures = _Figures()
    datasets = [("total", report.total)] if report.total else []
    datasets += [(f"dataset-{k}", one) for k, one in enumerate(report.datasets)]
    parts = []
    if report.total:
        parts.append(_section("Datasets", overview_table(datasets)))
    for anchor, one in datasets:
        found = (findings or {}).get(one.path)
        parts.append(_dataset(anchor, one, found, figures, alone=len(datasets) == 1))
    title = report.datasets[0].path if len(report.datasets) == 1 else f"{len(report.datasets)} datasets"
    here = files(__package__)
    return Template((here / "page.html").read_text("utf-8")).substitute(
        title=safe(title),
        style=(here / "page.css").read_text("utf-8"),
        version=escape(tokfmt.__version__),
        body="\n".join(parts),
        figures=_inline(figures.all),
        report=_inline(report.as_json()),
        plotly=get_plotlyjs(),
        script=(here / "page.js").read_text("utf-8"),
    )


def _inline(value: object) -> str:
    """JSON that may stand in a script element: no `<` can end it."""
    return json.dumps(value, ensure_ascii=True).replace("<", "\\u003c")


def _section(title: str, *content: str, note: str = "") -> str:
    said = f'<p class="note">{note}</p>' if note else ""
    return f'<section class="panel"><h3>{safe(title)}</h3>{said}{"".join(content)}</section>'


def _dataset(
    anchor: str, one: Statistics, findings: Sequence[Finding] | None, figures: _Figures, *, alone: bool
) -> str:
    parts = [_heading(one, alone=alone), _cards(one)]
    if findings is not None:
        parts.append(_findings(findings))
    if one.lengths is not None and one.sequences:
        drawn = figures.place(lengths_figure(one.lengths), "histogram of lengths")
        parts.append(_section("Lengths", drawn, lengths_table(one.lengths)))
    if one.ids is not None and one.ids.distinct:
        drawn = figures.place(frequency_figure(one.ids.frequencies), "token frequency over rank")
        parts.append(_section("Token frequency", drawn, note=_vocabulary(one)))
        columns = f"<div><h4>most frequent</h4>{ids_table(one.ids.most_frequent)}</div>"
        columns += f"<div><h4>least frequent</h4>{ids_table(one.ids.least_frequent)}</div>"
        parts.append(_section("Ids", f'<div class="columns">{columns}</div>'))
    if one.first_tokens is not None and one.last_tokens is not None and one.first_tokens.top:
        columns = _ends("first tokens", one.first_tokens, figures) + _ends("last tokens", one.last_tokens, figures)
        parts.append(_section("Where sequences begin and end", f'<div class="columns">{columns}</div>'))
    if one.duplicates is not None and one.duplicates.groups:
        said = (
            f"{number(one.duplicates.sequences)} sequences ({percent(one.duplicates.share)}) repeat an earlier one; "
            f"{percent(one.duplicates.token_share)} of the tokens are theirs."
        )
        parts.append(_section("Repeated sequences", duplicates_table(one.duplicates), note=said))
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
        f"{key.replace('_', ' ')} {_words(value)}" for key, value in one.variant.items() if value not in (None, "")
    ]
    badge = ""
    if one.sampled is not None:
        told = f"{one.sampled.sequences:,} of {number(one.sampled.of)} sequences looked at, seed {one.sampled.seed}"
        badge = f'<p class="estimated">Estimated: {safe(told)}. Counts are of the sample.</p>'
    title = "" if alone else f"<h2>{safe(one.path)}</h2>"
    return f'{title}<p class="facts">{safe(" · ".join(map(str, facts)))}</p>{badge}'


def _words(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _cards(one: Statistics) -> str:
    cards: list[tuple[str, object, str]] = [
        ("documents" if one.layout == "text" else "sequences", exact(one.sequences), _mean(one)),
    ]
    if one.text is not None:
        cards.append(("characters", exact(one.text.characters), f"{human_bytes(one.text.bytes)} of text"))
    else:
        per = "" if one.bytes_per_token is None else f"{one.bytes_per_token:.2f} bytes a token on disk"
        cards.append(("tokens", exact(one.tokens), per))
    if one.ids is not None:
        covered = "" if one.ids.coverage is None else f"{percent(one.ids.coverage)} of {one.ids.vocab_size:,}"
        cards += [("distinct ids", exact(one.ids.distinct), covered), ("largest id", _plain(one.max_id), _beyond(one))]
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
    return "" if one.lengths is None or one.lengths.mean is None else f"mean {one.lengths.mean:,.1f} {one.lengths.unit}"


def _beyond(one: Statistics) -> str:
    return f"{number(one.ids.beyond)} tokens beyond the vocabulary" if one.ids and one.ids.beyond else ""


def _vocabulary(one: Statistics) -> str:
    if one.ids is None:
        return ""
    return f"{number(one.ids.distinct)} ids occur, {number(one.ids.once)} of them once."


def _ends(title: str, ends: Ends, figures: _Figures) -> str:
    said = f"{percent(ends.share)} with the commonest, {number(ends.distinct)} different"
    drawn = figures.place(ends_figure(ends), title)
    return f'<div><h4>{safe(title)}</h4><p class="note">{safe(said)}</p>{drawn}</div>'


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return '<p class="clean">tokfmt check: no findings</p>'
    return _section("Findings of tokfmt check", findings_table(findings))
