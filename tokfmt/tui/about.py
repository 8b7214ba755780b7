"""Words about a session: the first line, the page of facts, the page of keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tokfmt.core.errors import printable
from tokfmt.core.records import RecordReader
from tokfmt.tui.headings import short
from tokfmt.tui.loading import Loading
from tokfmt.tui.session import Session

if TYPE_CHECKING:
    from tokfmt.tui.app import Browser

Block = tuple[str, list[tuple[str, str]]]


def summary(session: Session, loading: Loading | None, datasets: int) -> tuple[str, str]:
    """The dataset in a line, and what is being loaded; "" for nothing."""
    view = session.view
    facts = [f"{short(view.port.count)}{'' if view.whole else '+'} {view.name}"]
    if not isinstance(view.reader, RecordReader):
        facts.append(f"{short(view.reader.info.tokens)} tokens")
    more = f" (1 of {datasets}, d)" if datasets > 1 else ""
    return f"{printable(session.path.name)}{more} · {session.opened.format.name} · {' · '.join(facts)}", _loading(
        session, loading
    )


def _loading(session: Session, loading: Loading | None) -> str:
    if loading is not None and loading.job is not None:
        job, share = loading.job, loading.job.share
        if loading.stage == "tokenizer":
            return "◌ tokenizer"
        name = job.name or f"opening {session.opened.pending}"
        return f"◌ {name} {share:.0%} · esc stops" if share is not None else f"◌ {name}"
    if session.opened.pending:
        return f"v finds the {session.opened.pending}" if session.opened.pending == "documents" else ""
    return ""


def about(session: Session) -> list[Block]:
    """Everything that is known of a dataset."""
    opened, view = session.opened, session.view
    facts = [("path", ", ".join(map(printable, session.request.paths))), ("format", opened.format.title)]
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


def _axis(session: Session) -> list[tuple[str, str]]:
    reader = session.view.reader
    if isinstance(reader, RecordReader):
        return [("bytes", f"{reader.info.size:,}"), ("holds", reader.info.kind)]
    info = reader.info
    top = [("largest id", f"{info.max_id:,}")] if info.max_id is not None else []
    return [("tokens", f"{info.tokens:,}"), ("type", str(info.dtype)), *top]


def _extras(reader: Any) -> Iterable[tuple[str, object]]:
    return [(key, value) for key, value in reader.info.extras.items() if value not in (0, -1, None, "", (), [])]


def _plain(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def help_blocks(app: Browser) -> list[Block]:
    """Every key there is, by where it works."""
    blocks = []
    places = [("Everywhere", app), (app._entry.title, app.tab)]
    places += [(type(widget).__name__, widget) for widget in app.tab.query("*") if widget.can_focus]
    for title, place in places:
        rows: dict[str, str] = {}
        for cls in type(place).__mro__:
            for binding in vars(cls).get("BINDINGS", ()) if cls.__module__.startswith("tokfmt") else ():
                keys = " ".join(app.get_key_display(one) for one in binding.make_bindings([binding]))
                rows.setdefault(keys, binding.tooltip or binding.description)
        blocks.append((title, list(rows.items())))
    return blocks
