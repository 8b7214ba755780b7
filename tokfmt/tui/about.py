"""Words about a session: the first line, the page of facts, the page of keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.widget import Widget

from tokfmt.core.errors import printable
from tokfmt.core.records import RecordReader
from tokfmt.tui.headings import short
from tokfmt.tui.layout import Mode
from tokfmt.tui.loading import Loading
from tokfmt.tui.session import Session
from tokfmt.tui.viewport import Span

Block = tuple[str, list[tuple[str, str]]]


def summary(session: Session, loading: Loading | None, datasets: int) -> tuple[str, str]:
    """The dataset in a line, and what is being loaded; "" for nothing."""
    view, more = session.view, f" (1 of {datasets}, d)" if datasets > 1 else ""
    named = f"{printable(session.path.name)}{more} · {session.format_name or 'unknown format'}"
    if session.refused is not None:
        return f"{named} · cannot be read", ""
    facts = [f"{short(view.port.count)}{'' if view.whole else '+'} {view.name}"]
    if not isinstance(view.reader, RecordReader):
        facts.append(f"{short(view.reader.info.tokens)} tokens")
    return f"{named} · {' · '.join(facts)}", _loading(session, loading)


def _loading(session: Session, loading: Loading | None) -> str:
    if loading is not None and loading.job is not None:
        job, share = loading.job, loading.job.share
        if loading.stage == "tokenizer":
            return "◌ tokenizer"
        name = job.name or f"opening {session.opened.pending}"
        return f"◌ {name} {share:.1%} · esc stops" if share is not None else f"◌ {name}"
    if session.opened.pending:
        return f"v finds the {session.opened.pending}" if session.opened.pending == "documents" else ""
    return "✗ i tells what failed" if session.failure else ""


def titles(session: Session, row: int) -> tuple[str, str]:
    """Over the list, and over the reader."""
    view, port = session.view, session.port
    span = port.peek_span(row)
    length = f" · {span.length:,} {port.unit}{'' if span.length == 1 else 's'}" if isinstance(span, Span) else ""
    count = f"{port.count:,}{'' if view.whole else '…'} {view.name}" if port.count else f"no {view.name}"
    count += f" of {printable(session.split)}" if len(session.splits) > 1 else ""
    return count, f"{view.singular} {row:,}{length}" if port.count else ""


def manner_of(session: Session, mode: Mode, *, whitespace: bool, wrap: bool) -> str:
    """How the reader shows a row, and what to do for more."""
    text = mode.value if session.vocabulary else "text" if session.of_text else "ids"
    words = [text, *(["whitespace"] if whitespace else []), *([] if wrap else ["not wrapped"])]
    hint = (
        []
        if session.vocabulary or session.choice
        else ["--tokenizer shows tokens" if session.of_text else "--tokenizer shows text"]
    )
    return " · ".join(hint + words)


def about(session: Session) -> list[Block]:
    """Everything that is known of a dataset."""
    opened, view = session.opened, session.view
    path, title = ", ".join(map(printable, session.request.paths)), opened.format.title if opened.format else "unknown"
    facts = [("path", path), ("format", title)]
    if session.refused is not None:
        return [("Dataset", facts), ("Cannot be read", [("✗", printable(session.failure))])]
    facts += [("splits", _splits(session))] if session.splits else []
    facts += [(one.name, f"{one.port.count:,}{'' if one.whole else ' of more'}") for one in opened.views]
    facts += _axis(session)
    if opened.separator.eos_id is not None:
        facts.append(("separator", f"{opened.separator.eos_id} ({printable(opened.separator.source)})"))
    tokenizer = "none: --tokenizer NAME|DIR|FILE shows text"
    if session.choice is not None:
        tokenizer = f"{printable(session.choice.name)} ({session.choice.source})"
    facts.append(("tokenizer", tokenizer))
    extras = [(str(key).replace("_", " "), printable(_plain(value))) for key, value in _extras(view.reader)]
    notes = [("·", printable(note)) for note in (*opened.notes, *([session.failure] if session.failure else []))]
    return [("Dataset", facts), *([("Format", extras)] if extras else []), *([("Notes", notes)] if notes else [])]


def _splits(session: Session) -> str:
    return ", ".join(f"{printable(one)}{' (shown)' if one == session.split else ''}" for one in session.splits)


def _axis(session: Session) -> list[tuple[str, str]]:
    reader = session.view.reader
    if isinstance(reader, RecordReader):
        return [("bytes", f"{reader.info.size:,}"), ("holds", reader.info.kind)]
    info = reader.info
    top = [("largest id", f"{info.max_id:,}")] if info.max_id is not None else []
    return [("tokens", f"{info.tokens:,}"), ("type", str(info.dtype)), *top]


def _extras(reader: Any) -> Iterable[tuple[str, object]]:
    told = {"split", "other_splits"}  # above
    extras = reader.info.extras.items()
    return [(key, value) for key, value in extras if value not in (0, -1, None, "", (), []) and key not in told]


def _plain(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def help_blocks(app: App[None], title: str, tab: Widget) -> list[Block]:
    """Every key there is, by where it works: in what has the focus, in the tab, everywhere."""
    focused = [widget for widget in tab.query("*") if widget.can_focus]
    places: list[tuple[str, DOMNode]] = [(f"In the {widget.id or type(widget).__name__}", widget) for widget in focused]
    places = [(title, tab), *places, ("Everywhere", app)]
    blocks = []
    for heading, place in dict(places).items():  # two readers side by side are told once
        rows: dict[str, list[str]] = {}
        for binding in bindings_of(place):
            rows.setdefault(binding.description, []).append(app.get_key_display(binding))
        blocks.append((heading, [(" ".join(keys), description) for description, keys in rows.items()]))
    return blocks


def bindings_of(node: DOMNode) -> Iterator[Binding]:
    """The keys of a widget that tokfmt gave it, one at a time."""
    seen = set()
    for cls in type(node).__mro__:
        if cls.__module__.startswith("tokfmt"):
            for binding in Binding.make_bindings(vars(cls).get("BINDINGS", ())):
                if binding.key not in seen:
                    seen.add(binding.key)
                    yield binding
