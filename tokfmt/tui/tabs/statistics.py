"""Statistics: counts, lengths, ids; at once what the index tells, then what a pass over all of it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, ItemGrid, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tokfmt.core.errors import TokfmtError
from tokfmt.core.records import RecordReader
from tokfmt.core.text_format import counted, printable, short
from tokfmt.ops.source.opened import Source, SourceFiles, open_stored
from tokfmt.ops.stats import Statistics, glance, stats_of
from tokfmt.ops.stats.report import Duplicates, Ends, Id, Share
from tokfmt.tui.session import LOOKING, Session
from tokfmt.tui.tabs import Working
from tokfmt.tui.widgets.charts import Bars, Curve, Line, Ranking
from tokfmt.tui.widgets.reader import spelling
from tokfmt.tui.workers import Job

AT_ONCE = 2 << 30
"""Tokens up to which the whole pass starts by itself."""

BYTES_AT_ONCE = 2 << 30
"""Bytes of text up to which it does."""

Pair = tuple[str, str]


def _opened(session: Session) -> Source:
    """The dataset once more, as it is stored: a pass of its own must not close the readers of the screen."""
    request, format_, known = session.request, session.opened.format, session.opened.separator
    if session.refused is not None or format_ is None:
        raise TokfmtError(session.failure)
    wanted = replace(
        request, eos=known.eos_id if request.eos is None else request.eos, drop=request.drop | LOOKING,
        ignore_manifest=True,
    )  # fmt: skip
    handle = session.vocabulary.handle if session.vocabulary else None
    source = open_stored([SourceFiles(Path(request.paths[0]), format_, ())], wanted, handle)
    # what separates the rows of the list separates those that are counted, whatever tokenizer spells them
    return source if known.eos_id is None else source._replace(separator=known)


def first_look(session: Session) -> Statistics | None:
    """What header and index tell, or the pass if it was done; None of text.

    Raises:
        TokfmtError: It cannot be read.
    """
    opened = session.opened
    if session.refused is not None or opened.format is None:
        raise TokfmtError(session.failure)
    if session.statistics is not None or isinstance(session.view.reader, RecordReader):
        return session.statistics
    if not opened.pending and not session.failure:  # its index has been read
        return glance(Source((session.path,), opened.format, opened.views[0].reader, opened.separator, opened.notes))
    source = _opened(session)
    try:
        return glance(source)
    finally:
        source.reader.close()


def whole_pass(session: Session, job: Job) -> Statistics:
    """Every token, or every text where there is no tokenizer.

    Raises:
        TokfmtError: It cannot be read, or was cancelled.
    """
    source = _opened(session)
    try:
        handle = session.vocabulary.handle if session.vocabulary else None
        return stats_of(source, tokenizer=handle, progress=job)
    finally:
        source.reader.close()


def is_settled(session: Session) -> bool:
    """Nothing is known that a pass made now would say otherwise: text has its tokenizer, if one is to come."""
    return not (session.of_text and session.choice is not None and session.vocabulary is None)


def is_outdated(session: Session) -> bool:
    """The pass was made over text before its tokenizer was there."""
    found = session.statistics
    return session.of_text and session.vocabulary is not None and found is not None and found.tokens is None


def starts_alone(session: Session) -> bool:
    """The pass is short enough to be made without being asked for."""
    reader = session.view.reader
    if isinstance(reader, RecordReader):
        return reader.info.size <= BYTES_AT_ONCE
    return reader.info.tokens <= AT_ONCE


# in words


def pairs_of(found: Statistics, session: Session) -> list[Pair]:
    """Facts, one a pair."""
    pairs = [("sequences", f"{found.sequences:,}" if found.sequences or found.lengths else "not split yet")]
    pairs += [(name, value) for name, value in _counts(found) if value]
    lengths = found.lengths
    if lengths is not None and lengths.mean is not None:
        pairs.append(("length", f"{lengths.mean:,.1f} mean, {lengths.min:,} to {lengths.max:,}"))
        pairs.append(("5/50/95 % of lengths", f"{lengths.p5:,} · {lengths.p50:,} · {lengths.p95:,}"))
    pairs += _shares(found)
    if found.ids is not None:
        pairs += _ids(found)
    if session.verdict is not None:
        told = [counted(count, name) for name, count in session.verdict.severities.items()]
        pairs.append(("findings", ", ".join(told) or "none"))
    return pairs


def _counts(found: Statistics) -> list[Pair]:
    separator = "" if found.eos_id is None else f"{found.eos_id} ({printable(found.eos_from)})"
    return [
        ("tokens", "" if found.tokens is None else f"{found.tokens:,}"),
        ("on disk", f"{found.bytes:,} bytes" if found.bytes < 10**6 else f"{short(found.bytes)} bytes"),
        ("a token", "" if found.bytes_per_token is None else f"{found.bytes_per_token:.2f} bytes on disk"),
        ("type", found.dtype or ""),
        ("largest id", "" if found.max_id is None else f"{found.max_id:,}"),
        ("separator", separator),
        ("characters", "" if found.text is None else f"{found.text.characters:,}"),
    ]


def _shares(found: Statistics) -> list[Pair]:
    shares: list[tuple[str, Share | None]] = [
        ("empty", found.empty), ("separators", found.separators), ("padding", found.padding), ("masked", found.masked),
    ]  # fmt: skip
    pairs = [(name, f"{share.count:,} ({share.share:.2%})") for name, share in shares if share is not None]
    again = found.duplicates
    if again is not None:
        pairs.append(("duplicates", f"{again.sequences:,} ({again.share:.2%}, tokens {again.token_share:.2%})"))
    return pairs


def _ids(found: Statistics) -> list[Pair]:
    ids = found.ids
    if ids is None:
        return []
    of = f" of {ids.vocab_size:,} ({ids.coverage:.1%})" if ids.vocab_size and ids.coverage is not None else ""
    about = "about " if ids.estimated else ""
    pairs = [("different ids", f"{about}{ids.distinct:,}{of}"), ("ids met once", f"{ids.once:,}")]
    return pairs + ([("beyond the vocabulary", f"{ids.beyond:,}")] if ids.beyond else [])


def rankings_of(found: Statistics, session: Session) -> list[tuple[str, list[Line]]]:
    """Headed lists: ids that are frequent and rare, first and last tokens, sequences that are there again."""
    lists: list[tuple[str, list[Line]]] = []
    if found.ids is not None:
        lists.append(("most frequent tokens", _of_ids(found.ids.most_frequent, session)))
        lists.append(("least frequent tokens", _of_ids(found.ids.least_frequent, session)))
    lists += [
        (f"{name} tokens of sequences", _of_ids(ends.top, session))
        for name, ends in (("first", found.first_tokens), ("last", found.last_tokens))
        if isinstance(ends, Ends)
    ]
    if found.duplicates is not None and found.duplicates.largest:
        lists.append(("sequences that are there again", _repeated(found.duplicates, session, found.sequences)))
    return lists


def _of_ids(ids: Sequence[Id], session: Session) -> list[Line]:
    return [Line(str(one.id), one.count, one.share, spelling(session.token_style, one.id)[1] or "") for one in ids]


def _repeated(found: Duplicates, session: Session, sequences: int) -> list[Line]:
    lines = []
    for one in found.largest:
        begins = one.text or "".join(spelling(session.token_style, token)[1] or f"{token} " for token in one.ids or ())
        name = "" if one.sequence is None else f"#{one.sequence:,}"
        lines.append(Line(name, one.count, one.count / max(1, sequences), printable(begins)))
    return lines


def _glanced(session: Session) -> Statistics | str | None:
    try:
        return first_look(session)
    except TokfmtError as error:
        return str(error)


WIDE = 110
"""Columns from which the charts stand side by side."""


class StatisticsTab(Working):
    """Facts, charts, rankings; scrolls where they do not fit.

    Attributes:
        failure: Why nothing could be counted; "" when nothing went wrong.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "all", "Count every token"),
    ]
    failure = ""
    _glance: Statistics | None = None
    _called_off = False

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._filled: dict[str, Sequence[tuple[Any, Any]]] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="counting", markup=False)
        with VerticalScroll(id="figures", can_focus=False):
            yield ItemGrid(id="pairs", min_column_width=34)
            with Container(id="charts"):
                yield Bars()
                yield Curve()
            yield ItemGrid(id="rankings", min_column_width=50)

    def show(self, session: Session) -> None:
        other = not hasattr(self, "session") or session is not self.session
        self.session = session
        if is_outdated(session):
            session.statistics = None
        if other:
            self.stop()
            self._glance, self._called_off, self.failure = None, False, ""
            self.show_figures()
            self.loader.ask(lambda: _glanced(session), self._glanced)
        else:
            self.show_figures()
            self._start()

    def enter(self) -> None:
        self.query_one(Bars).focus(scroll_visible=False)  # what stands above it is seen first

    # showing

    def show_figures(self) -> None:
        found, session = self.found, self.session
        self.say()
        counting = "counted by the pass over all tokens (c)" if self.job is None else "being counted"
        counting = "not counted" if self.failure else counting
        lengths = None if found is None else found.lengths
        self.query_one(Bars).show(lengths, counting)
        ids = None if found is None else found.ids
        told = "text has no ids without --tokenizer" if found is not None and found.text else counting
        self.query_one(Curve).show(None if ids is None else ids.frequencies, told)
        pairs = [] if found is None else pairs_of(found, session)
        self._fill("#pairs", pairs, lambda name, text: Static(Content.assemble((f"{name}  ", "$foreground 55%"), text)))
        lists = [] if found is None else rankings_of(found, session)
        self._fill("#rankings", lists, Ranking)

    def _fill(self, place: str, content: Sequence[tuple[Any, Any]], make: Callable[[Any, Any], Static]) -> None:
        """Put a widget for each pair into a grid, unless these are there."""
        grid = self.query_one(place)
        if self._filled.get(place, []) == content:
            return
        self._filled[place] = content
        with self.app.batch_update():
            grid.remove_children()
            grid.mount_all(make(*pair) for pair in content)

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")

    @on(Bars.Chosen)
    def _chosen(self, message: Bars.Chosen) -> None:
        self.app.filter(f"{message.low}<=len<{message.high}")

    # counting

    @property
    def found(self) -> Statistics | None:
        """What is known: of the whole pass, or of the index."""
        return self.session.statistics or self._glance

    def _glanced(self, found: Statistics | str | None) -> None:
        if isinstance(found, str):
            self.failure = found
        else:
            self._glance = found
        self.show_figures()
        self._start()

    def _start(self) -> None:
        """Begin the pass, if nothing speaks against it."""
        session = self.session
        done = session.statistics is not None or self.job is not None or self._called_off or self.failure
        if not done and is_settled(session) and starts_alone(session):
            self.action_all()
        self.say()

    def _counted(self, outcome: object) -> None:
        if isinstance(outcome, Statistics):
            self.session.statistics = outcome
        else:
            self.failure = str(outcome)
        self.show_figures()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is counted need not be counted."""
        done = hasattr(self, "session") and (self.session.statistics is not None or self.job is not None)
        return not done if action == "all" else super().check_action(action, parameters)

    def action_all(self) -> None:
        session = self.session
        self._called_off, self.failure = False, ""
        self.begin(lambda job: whole_pass(session, job), self._counted)

    def action_stop(self) -> None:
        self._called_off = True
        super().action_stop()

    def say(self) -> None:
        """How far the pass is."""
        told, place = self._told(), self.query_one("#counting", Static)
        place.update(told)
        place.display = bool(told)
        self.refresh_bindings()

    def _told(self) -> str:
        if self.job is not None:
            return self.doing("counting")
        if self.failure:
            return f"✗ {printable(self.failure)}"
        if self.session.statistics is not None:
            return ""
        if not is_settled(self.session):
            return "◌ waits for the tokenizer"
        known = "known from the index" if self._glance else "nothing is counted yet"
        return f"{known}; c counts every token" + (" (stopped)" if self._called_off else "")
