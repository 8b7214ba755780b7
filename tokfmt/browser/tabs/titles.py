"""The words in the borders of the tab of sequences: the rows of the list, the row in the reader, and its layout."""

from __future__ import annotations

from tokfmt.browser.data.layout import Mode
from tokfmt.browser.data.parts import RowParts
from tokfmt.browser.data.rows import RowSource, Span, View
from tokfmt.browser.data.session import Session
from tokfmt.wording import counted, printable


def list_title(view: View, port: RowSource, split: str) -> str:
    """Return the title of the list: the number of rows, and the split if there are several."""
    count = counted(port.count, view.singular) if port.whole else f"{port.count:,}… {view.name}"
    count = count if port.count else f"no {view.name}"
    return count + (f" of {printable(split)}" if split else "")


def row_title(view: View, port: RowSource, row: int) -> str:
    """Return the title of the reader: the row, and its length."""
    span = port.peek_span(row)
    length = f" · {counted(span.length, port.unit)}" if isinstance(span, Span) else ""
    return f"{view.singular} {row:,}{length}" if port.count else ""


def shares_words(parts: RowParts, room: int) -> str:
    """Return the share of each source in a row, as far as there is room; the pass if it is not the first."""
    words = [f" · {printable(name)} {share:.0%}" for name, share in parts.shares]
    words += [f" · epoch {parts.epoch:,}"] if parts.epoch else []
    found = ""
    for word in words:
        if len(found) + len(word) <= room:
            found += word
    return found


def layout_words(session: Session, mode: Mode, *, of_text: bool) -> str:
    """Return the words about the layout of the reader, and the option that shows more."""
    text = mode.value if session.vocabulary else "text" if of_text else "ids"
    hint = [] if session.vocabulary or session.choice else ["T shows tokens" if of_text else "T shows text"]
    named = []
    if session.vocabulary and session.choice is not None:
        named = [session.choice.short + (" (as last time)" if session.choice.source == "last time" else "")]
    return " · ".join([*hint, text, *named])
