"""Numbers and tables of the page. Everything that comes from a file is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from tokfmt.core.errors import printable
from tokfmt.core.format import Finding
from tokfmt.ops.stats.report import Duplicates, Id, Lengths, Packing, Statistics, TextFacts

_CUT = 120  # characters of a text in a table


class Markup(str):
    """HTML that is safe as it stands."""

    __slots__ = ()


def safe(value: object) -> str:
    """Text as HTML; control characters are made visible first."""
    return value if isinstance(value, Markup) else escape(printable(str(value)))


def number(value: float | None) -> str:
    """`1,234,567`, from ten million on `12.3 M`, `3.21 G`; a dash for what is not known."""
    if value is None:
        return "–"  # noqa: RUF001 - an en dash, as in print
    if abs(value) < 1e7:
        return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    scale, unit = next(pair for pair in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")) if abs(value) >= pair[0])
    return f"{value / scale:,.4g} {unit}"


def exact(value: float | None) -> Markup:
    """A number with all its digits where the mouse rests on it."""
    shown = number(value)
    full = f"{value:,}" if value is not None else ""
    return Markup(f'<span title="{full}">{shown}</span>' if full and full != shown else shown)


def percent(share: float | None) -> str:
    """A share as per cent with sensible digits."""
    if share is None:
        return "–"  # noqa: RUF001
    if 0 < share < 0.0001:
        return "< 0.01 %"
    return f"{100 * share:.3g} %" if share < 0.9995 or share == 1 else "> 99.9 %"


def spelled(text: str | None, id_: int, most: int = _CUT) -> str:
    """What a token stands for, with spaces and line breaks visible; its id when no tokenizer tells."""
    if text is None:
        return f"{id_}"
    shown = printable(text.replace("\n", "⏎").replace("\t", "⇥")).replace(" ", "·")
    shown = shown or "(nothing)"
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], kind: str = "", words: Sequence[int] = (0,)
) -> Markup:
    """Rows of numbers; columns in `words` hold text and are set to the left."""

    def cell(tag: str, column: int, value: object) -> str:
        return f'<{tag} class="word">{safe(value)}</{tag}>' if column in words else f"<{tag}>{safe(value)}</{tag}>"

    head = "".join(cell("th", column, title) for column, title in enumerate(heads))
    body = "".join(f"<tr>{''.join(cell('td', column, value) for column, value in enumerate(row))}</tr>" for row in rows)
    return Markup(
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def token(one: Id) -> Markup:
    """A token as a person reads it: what it stands for, or nothing but its id."""
    return Markup(f"<code>{escape(spelled(one.text, one.id, 40))}</code>")


def ids_table(ids: Sequence[Id]) -> Markup:
    """Token, id, count, share."""
    decoded = any(one.text is not None for one in ids)
    heads = ["token", "id", "count", "share"] if decoded else ["id", "count", "share"]
    rows = [([token(one)] if decoded else []) + [f"{one.id}", exact(one.count), percent(one.share)] for one in ids]
    return table(heads, rows, words=(0,) if decoded else ())


def lengths_table(lengths: Lengths) -> Markup:
    """One row of percentiles."""
    names = ("min", "p1", "p5", "p25", "p50", "mean", "p75", "p95", "p99", "max")
    return table(names, [[exact(getattr(lengths, name)) for name in names]], "even", words=())


def duplicates_table(duplicates: Duplicates) -> Markup:
    """The largest groups of equal sequences."""
    rows = [
        (
            "–" if group.sequence is None else f"#{group.sequence:,}",  # noqa: RUF001
            _beginning(group.text, group.ids),
            exact(group.length),
            exact(group.count),
        )
        for group in duplicates.largest
    ]
    return table(("first at", "begins with", "tokens", "times"), rows, words=(0, 1))


def _beginning(text: str | None, ids: Sequence[int] | None) -> Markup:
    if text is not None:
        return Markup(f"<code>{escape(spelled(text, 0))}</code>")
    return Markup(f"<code>{' '.join(map(str, (ids or [])[:12]))}</code>")


def packing_table(packing: Packing) -> Markup:
    """Both ways of making samples."""
    rows = [
        (name, exact(cost.samples), exact(cost.padding), percent(cost.padding_share), exact(cost.documents_cut),
         percent(cost.cut_share))
        for name, cost in (("one stream, cut", packing.concatenated), ("padded, one document a sample", packing.padded))
    ]  # fmt: skip
    return table(("way", "samples", "padding", "", "documents cut", ""), rows)


def fields_table(text: TextFacts) -> Markup:
    """Fields of the records."""
    return table(("field", "records"), [(field.name, exact(field.count)) for field in text.fields])


def findings_table(findings: Sequence[Finding]) -> Markup:
    """What `tokfmt check` says."""
    rows = [
        (
            Markup(f'<span class="badge {safe(one.severity)}">{safe(one.severity)}</span>'),
            one.code,
            "" if one.offset is None else f"{one.offset:,}",
            Markup(f"{safe(one.message)}<br><small>{safe(one.remedy)}</small>" if one.remedy else safe(one.message)),
        )
        for one in findings
    ]
    return table(("severity", "code", "at byte", "what, and what to do"), rows, "findings", words=(0, 1, 3))


def overview_table(rows: Sequence[tuple[str, Statistics]]) -> Markup:
    """A row for each dataset, with a link to its part of the page."""
    return table(
        ("dataset", "format", "sequences", "tokens", "bytes", "mean length", "largest id", "duplicates"),
        [
            (
                Markup(f'<a href="#{safe(anchor)}">{safe(one.path)}</a>'),
                one.format,
                exact(one.sequences),
                exact(one.tokens),
                exact(one.bytes),
                exact(None if one.lengths is None or one.lengths.mean is None else round(one.lengths.mean, 1)),
                exact(one.max_id),
                percent(None if one.duplicates is None else one.duplicates.share),
            )
            for anchor, one in rows
        ],
        words=(0, 1),
    )
