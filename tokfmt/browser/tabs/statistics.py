"""The tab of the overview: facts, lengths, IDs and groups, first from the index, then from a pass over all tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Static

from tokfmt.browser.data import (
    UNKNOWN,
    Ids,
    Lists,
    RecordReader,
    Share,
    Source,
    Statistics,
    glance,
    opened_to_count,
    recipe_of,
    stats_of,
    worker_count,
)
from tokfmt.browser.keys import pressing
from tokfmt.browser.packing import FillHistogram, Fills, fills_of
from tokfmt.browser.parts import recipe_facts
from tokfmt.browser.search import SearchJob, parse_search, search_scope
from tokfmt.browser.session import Counted, Session
from tokfmt.browser.tabs.base import Working
from tokfmt.browser.widgets.row_view import Loader
from tokfmt.browser.widgets.table import (
    Fact,
    FactLines,
    FillLines,
    GroupLines,
    GroupTable,
    LengthLines,
    Lines,
    Table,
    TokenLines,
    TokenTable,
)
from tokfmt.browser.workers import Job
from tokfmt.errors import TokfmtError
from tokfmt.wording import counted, human_bytes, printable, separator_words, short

AT_ONCE = 2 << 30
"""Limit of tokens for a pass that starts without a key."""

BYTES_AT_ONCE = 2 << 30
"""Limit of bytes of text for a pass that starts without a key."""

MOST_COMPARED = 1 << 21
"""Limit of rows among which the browser looks for equal ones, 24 bytes each."""

_WORKERS = 4  # threads of a pass at most; each takes some 10 MB


def _opened(session: Session) -> Source:
    """Open the dataset again in the current view."""
    format_ = session.opened.format
    if session.refused is not None or format_ is None:
        raise TokfmtError(session.failure)
    session.check_unchanged()
    handle = session.vocabulary.handle if session.vocabulary else None
    return opened_to_count(session.request, format_, session.opened.separator, handle, as_stored=session.view.as_stored)


def first_look(session: Session) -> Statistics | None:
    """Return the statistics from header and index, or of a finished pass; None for text.

    Raises:
        TokfmtError: The dataset cannot be read.
    """
    opened = session.opened
    if session.refused is not None or opened.format is None:
        raise TokfmtError(session.failure)
    if session.statistics is not None or isinstance(session.view.reader, RecordReader):
        return session.statistics
    view = session.view
    if not view.as_stored and not opened.pending and not session.failure:  # its index has been read
        return glance(Source((session.path,), opened.format, view.reader, opened.separator, opened.notes))
    source = _opened(session)
    try:
        return glance(source)
    finally:
        source.reader.close()


def whole_pass(session: Session, job: Job) -> Counted:
    """Return the statistics of all tokens, or of all texts without a tokenizer, and their lists.

    Raises:
        TokfmtError: The dataset cannot be read, or the job was cancelled.
    """
    source, lists = _opened(session), list[Lists]()
    try:
        handle = session.vocabulary.handle if session.vocabulary else None
        found = stats_of(
            source,
            tokenizer=handle,
            jobs=min(_WORKERS, worker_count(None)),
            progress=job,
            most_compared=MOST_COMPARED,
            keep=lists.append,
        )
        return Counted(found, *lists)
    finally:
        source.reader.close()


def is_settled(session: Session) -> bool:
    """Return whether the tokenizer of text is loaded, if one is named, so that a pass can start."""
    return not (session.of_text and session.choice is not None and session.vocabulary is None)


def is_outdated(session: Session) -> bool:
    """Return whether the finished pass counted text without the tokenizer that is loaded now."""
    found = session.statistics
    return session.of_text and session.vocabulary is not None and found is not None and found.tokens is None


def starts_alone(session: Session) -> bool:
    """Return whether the pass is short enough to start without a key."""
    reader = session.view.reader
    if isinstance(reader, RecordReader):
        return reader.info.size <= BYTES_AT_ONCE
    return reader.info.tokens <= AT_ONCE


# in words


def row_name(session: Session) -> str:
    """Return the noun for a counted row: "sample" or "sequence"."""
    return "sample" if session.view.name == "samples" else "sequence"


def left_out(found: Statistics, session: Session) -> int:
    """Return the number of listed records that a pass left out, as they cannot be read."""
    of_records = isinstance(session.view.reader, RecordReader)
    return session.port.count - found.sequences if of_records and session.port.whole else 0


def facts_of(found: Statistics | None, session: Session) -> list[Fact]:
    """Return the facts, with the actions of the tab that lead on from them."""
    failed = [Fact("✗", printable(session.failure), odd=True)] if session.failure else []
    facts = [*failed, *_section("SIZE", _sizes(found, session)), *_section("CONTENT", _contents(found, session))]
    return [*facts, *_section("CHECK", _checks(session)), *_section("DATASET", _about(session))]


def _section(name: str, facts: Iterable[Fact]) -> list[Fact]:
    kept = [fact for fact in facts if fact.value]
    return [Fact("", name), *kept] if kept else []


def _lists(words: str) -> str:
    """Return the action that lists the rows of a query."""
    return f"list({words!r})"


def _sizes(found: Statistics | None, session: Session) -> Iterator[Fact]:
    if found is None:
        return
    rows = f"{found.sequences:,}" if found.sequences or found.lengths else "not split yet"
    yield Fact(f"{row_name(session)}s", rows, _lists(""))
    if lost := left_out(found, session):
        yield Fact("left out", f"{counted(lost, 'record')} that cannot be read", "app.tab('findings')", odd=True)
    leads = "ranking('frequent')" if found.ids else ""
    yield Fact("tokens", "" if found.tokens is None else f"{found.tokens:,}", leads)
    yield Fact("characters", "" if found.text is None else f"{found.text.characters:,}")
    yield Fact("on disk", human_bytes(found.bytes), "app.tab('index')")
    yield Fact("bytes/token", "" if found.bytes_per_token is None else f"{found.bytes_per_token:.2f}")
    yield Fact("type", found.dtype or "")
    lengths = found.lengths
    if lengths is not None and lengths.mean is not None:
        yield Fact("mean length", f"{lengths.mean:,.1f}")
        yield Fact("shortest", f"{lengths.min:,}", _lists(f"len=={lengths.min}"))
        yield Fact("longest", f"{lengths.max:,}", _lists(f"len=={lengths.max}"))


def _contents(found: Statistics | None, session: Session) -> Iterator[Fact]:
    if found is None:
        return
    if found.ids is not None:
        yield from _ids(found.ids)
    yield Fact("largest ID", "" if found.max_id is None else f"{found.max_id:,}", _lists(f"token:{found.max_id}"))
    of_samples = row_name(session) == "sample"
    shares: list[tuple[str, Share | None, str, float]] = [
        ("separators", found.separators, f"token:{found.eos_id}", 1),
        ("padding", found.padding, "padding>0" if of_samples else "", 0.1),
        ("masked", found.masked, "masked>0" if of_samples else "", 1),
        ("empty", found.empty, "len==0", 0),
    ]
    for name, share, words, most in shares:
        if share is not None:
            leads = _lists(words) if words and share.count else ""
            percent = f"  {share.share:.1%}" if share.count else ""
            yield Fact(name, f"{share.count:,}{percent}", leads, odd=share.share > most)
    again = found.duplicates
    if again is not None:
        counted_all = bool(again.groups) and not left_out(found, session)
        words = f"{again.sequences:,}  {again.share:.1%}" if again.sequences else "0"
        yield Fact("duplicates", words, "focus_groups" if counted_all else "", odd=bool(again.sequences))
    elif found.lengths is not None and (found.ids is not None or found.text is not None):
        yield Fact("duplicates", f"not counted above {short(MOST_COMPARED)}")


def _ids(ids: Ids) -> Iterator[Fact]:
    of = f" of {ids.vocab_size:,}  {ids.coverage:.1%}" if ids.vocab_size and ids.coverage is not None else ""
    about = "about " if ids.estimated else ""
    yield Fact("different IDs", f"{about}{ids.distinct:,}{of}", "ranking('frequent')")
    yield Fact("seen once", f"{ids.once:,}", "ranking('rare')" if ids.once else "")
    if ids.beyond and ids.beyond_query is not None:
        yield Fact("beyond vocabulary", f"{ids.beyond:,}", _lists(ids.beyond_query), odd=True)


def _checks(session: Session) -> Iterator[Fact]:
    verdict = session.verdict
    if verdict is not None:
        counts = [counted(count, name) for name, count in verdict.severities.items()]
        depth = "all tokens" if verdict.deep else "headers and index"
        wrong = bool(verdict.severities.get("error") or verdict.severities.get("warning"))
        words = f"{', '.join(counts)}" if counts else f"✓ {depth}"
        yield Fact("findings", words, "app.tab('findings')", odd=wrong)


def _about(session: Session) -> Iterator[Fact]:
    """Yield what is known of a dataset without counting."""
    opened, reader = session.opened, session.view.reader
    yield Fact("path", ", ".join(map(printable, session.request.paths)))
    yield Fact("format", opened.format.title if opened.format else "unknown")
    splits = (f"{printable(one)}{' (shown)' if one == session.split else ''}" for one in session.splits)
    yield Fact("splits", ", ".join(splits))
    if session.refused is not None:
        return
    for view in opened.views:
        yield Fact(view.name, f"{view.port.count:,}{'' if view.port.whole else ' of more'}")
    separator = opened.separator
    if separator.eos_id is not None:
        known = separator_words(separator.eos_id, separator.source, separator.seen)
        yield Fact("separator", printable(known), _lists(f"token:{separator.eos_id}"))
    named = session.choice
    yield Fact("tokenizer", "none (T)" if named is None else f"{printable(named.name)} ({named.source})")
    recipe = recipe_of(reader)
    if recipe is not None:
        yield from (Fact(name, value) for name, value in recipe_facts(recipe))
    else:
        for key, value in reader.info.facts.items():
            if value not in (0, -1, None, "", (), []) and key not in ("split", "other_splits"):
                yield Fact(str(key).replace("_", " "), printable(_plain(value)))
    for note in opened.notes:
        yield Fact("note", printable(note))


def _plain(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def rankings_of(found: Statistics | None, lists: Lists | None, session: Session) -> dict[str, Lines]:
    """Return the rankings of IDs by their name; {} without any."""
    style, ranked = session.token_style, dict[str, Lines]()
    if found is None or lists is None:
        return ranked
    if lists.ids is not None:
        tokens = found.tokens or 0
        ranked["frequent"] = TokenLines("most frequent tokens", lists.ids, tokens, style, "token")
        ranked["rare"] = TokenLines("least frequent tokens", lists.ids, tokens, style, "token", rarest_first=True)
    filled = found.sequences - (found.empty.count if found.empty else 0)
    for name, ends in (("first", lists.first), ("last", lists.last)):
        if ends is not None:
            ranked[name] = TokenLines(f"{name} tokens of {row_name(session)}s", ends, filled, style, name)
    return ranked


def groups_of(found: Statistics | None, lists: Lists | None, session: Session) -> GroupLines | None:
    """Return the groups of equal rows; None without any."""
    if found is None or lists is None or lists.groups is None or not len(lists.groups.numbers):
        return None
    if left_out(found, session):  # their numbers are not those of the list
        return None
    port = None if session.view.name == UNKNOWN else session.port
    return GroupLines(row_name(session), lists.groups, port, session.token_style)


def _fills(session: Session) -> Fills | None:
    try:
        return fills_of(session)
    except TokfmtError:
        return None  # the row that cannot be read shows the error


def _glanced(session: Session) -> Statistics | str | None:
    try:
        return first_look(session)
    except TokfmtError as error:
        return str(error)


# the tab

WIDE = 110
"""Width in columns from which the facts have a column of their own."""


class StatisticsTab(Working):
    """Facts, and lists of lengths, tokens and groups of equal rows.

    Attributes:
        failure: The error of the count; "" without one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "all", "Count all", tooltip="Count every token"),
        Binding("e", "export", "Export"),
        Binding("z", "zoom", "Enlarge"),
        Binding("escape", "stop", "Stop"),  # a class with a binding of a key has none of its base for this key
        Binding("escape", "whole", "Show all"),
    ]
    failure = ""
    _glance: Statistics | None = None
    _as_stored = False
    _called_off = False
    _last: Widget | None = None  # the list that had the focus
    _finding: SearchJob | None = None  # the search for the members of the open group

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._filled = Loader(self)

    def compose(self) -> ComposeResult:
        yield Static(id="counting", markup=False)
        with Container(id="figures"):
            yield Table("facts")
            yield Table("lengths", "lengths")
            yield TokenTable("tokens")
            yield GroupTable("groups", "equal rows")

    @property
    def idle(self) -> bool:
        """Return whether nothing is counted or searched."""
        return super().idle and not (self._finding is not None and self._finding.busy)

    def show(self, session: Session) -> None:
        as_stored = session.view.as_stored
        other = not hasattr(self, "session") or session is not self.session or as_stored != self._as_stored
        self.session, self._as_stored = session, as_stored
        if is_outdated(session):
            session.keep_statistics(None)
        if other:
            self.stop()
            self._glance, self._called_off, self.failure = None, False, ""
            self.show_figures()
            self.loader.ask(lambda: _glanced(session), self._glanced)
        else:
            self.show_figures()
            self._start()

    def enter(self) -> None:
        last = self._last if self._last is not None and self._last.display else self.query_one("#lengths", Table)
        last.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if self.display:  # else the focus only leaves the tab
            self._last = event.widget

    # the figures

    def show_figures(self) -> None:
        found, session = self.found, self.session
        self.say()
        counting = "counted by the pass over all tokens (c)" if self.job is None else "being counted"
        counting = "not counted" if self.failure else counting
        facts = facts_of(found, session)
        self.query_one("#facts", Table).show(FactLines(facts))
        self._show_lengths(found, counting)
        reason = "IDs of text need --tokenizer" if found is not None and found.text else counting
        self.query_one(TokenTable).offer(rankings_of(session.statistics, session.lists, session), reason)
        groups, shown = groups_of(session.statistics, session.lists, session), self.query_one(GroupTable)
        if groups is None or shown.groups is None or shown.groups.ranked is not groups.ranked:
            shown.show(groups, f"no {row_name(session)}s are equal" if session.statistics else counting)

    def _show_lengths(self, found: Statistics | None, counting: str) -> None:
        """Show the lengths of rows, or how full samples are if all of them have the same length."""
        table, session = self.query_one("#lengths", Table), self.session
        before = table.lines
        lengths = None if found is None or found.lengths is None else LengthLines(found.lengths, row_name(session))
        if lengths is not None and lengths.count < 2 and session.view.name == "samples":
            self._filled.ask(lambda: _fills(session), self._show_fills)
            if isinstance(before, FillLines):
                return
        same = isinstance(before, LengthLines) and lengths is not None
        if not same or before.lengths.histogram != lengths.lengths.histogram:  # type: ignore[union-attr]
            table.show(lengths, counting, lambda: 0 if lengths is None else lengths.fullest)

    def _show_fills(self, fills: Fills | None) -> None:
        """Show how full samples are in place of their lengths, which are all the same."""
        table = self.query_one("#lengths", Table)
        if fills is not None and not isinstance(table.lines, FillLines):
            lines = FillLines(FillHistogram(fills, 10))
            table.show(lines, first=lambda: lines.fullest)

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")

    # what leads on

    @on(Table.Chosen)
    async def _chosen(self, message: Table.Chosen) -> None:
        lines = message.table.lines
        if isinstance(lines, FactLines):
            action = lines.facts[message.lines[0]].action
            if action:
                await self.run_action(action)
        elif isinstance(lines, GroupLines):
            member = lines.at(message.lines[0])[1] is not None and len(message.lines) == 1
            self.host.filter(lines.query(message.lines), lines.row(message.lines[0]) if member else None)
        elif lines is not None:
            self.host.filter(lines.query(message.lines))

    def action_list(self, words: str) -> None:
        """List the rows of a query in the first tab."""
        self.host.filter(words)

    def action_ranking(self, name: str) -> None:
        """Go to a ranking of IDs."""
        table = self.query_one(TokenTable)
        table.turn_to(name)
        table.focus()

    def action_focus_groups(self) -> None:
        self.query_one(GroupTable).focus()

    @on(GroupTable.Opened)
    def _group_opened(self, message: GroupTable.Opened) -> None:
        """Find the members of the group that was opened."""
        self._stop_finding()
        if message.row is None:
            return
        words, scope = f"same:{message.row}", search_scope(self.session)
        self._finding = SearchJob(
            words, parse_search(words, scope), scope, 0, lambda job: self.call_later(self._members, job)
        )

    def _members(self, job: SearchJob) -> None:
        if job is self._finding:
            ranking = self.query_one(GroupTable)
            ranking.show_members(job.results.rows(), finding=job.running)
            if job.failure:
                self.notify(job.failure, severity="warning", markup=False)

    def _stop_finding(self) -> None:
        if self._finding is not None:
            self._finding.cancel()
            self._finding = None

    def stop(self) -> None:
        self._stop_finding()
        super().stop()

    def action_zoom(self) -> None:
        """Let the list with the focus fill the tab, or show all again."""
        focused = self.app.focused
        if isinstance(focused, Table) and not self.has_class("zoomed"):
            focused.add_class("whole")
            self.add_class("zoomed")
        else:
            self.action_whole()

    def action_whole(self) -> None:
        """Show all lists again."""
        self.query(Table).remove_class("whole")
        self.remove_class("zoomed")

    async def action_export(self) -> None:
        """Ask for a file, and write the list with the focus."""
        focused = self.app.focused
        if not isinstance(focused, Table):
            return
        name = f"{Path(self.session.path.name).stem}-{focused.id}"
        await self.host.export_lines(focused.records(), str(focused.border_title or "the facts"), name)

    # the count

    @property
    def found(self) -> Statistics | None:
        """Return the statistics of the pass, or of the index."""
        return self.session.statistics or self._glance

    def _glanced(self, found: Statistics | str | None) -> None:
        if isinstance(found, str):
            self.failure = found
        else:
            self._glance = found
        self.show_figures()
        self._start()

    def _start(self) -> None:
        """Start the pass if it is short, not done and not stopped."""
        session = self.session
        done = session.statistics is not None or self.job is not None or self._called_off or self.failure
        if not done and is_settled(session) and starts_alone(session):
            self.action_all()
        self.say()

    def _counted(self, outcome: object) -> None:
        if isinstance(outcome, Counted):
            self.session.keep_statistics(outcome)
        else:
            self.failure = str(outcome)
        self.show_figures()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; a finished count is not repeated."""
        done = hasattr(self, "session") and (self.session.statistics is not None or self.job is not None)
        if action == "whole":
            return self.has_class("zoomed") and self.job is None
        return not done if action == "all" else super().check_action(action, parameters)

    def action_all(self) -> None:
        session = self.session
        self._called_off, self.failure = False, ""
        self.begin(lambda job: whole_pass(session, job), self._counted)

    def action_stop(self) -> None:
        self._called_off = True
        super().action_stop()

    def say(self) -> None:
        """Show the progress of the pass."""
        words, place = self._progress_words(), self.query_one("#counting", Static)
        place.update(pressing(words))
        place.display = bool(words)
        self.refresh_bindings()

    def _progress_words(self) -> str:
        if self.job is not None:
            return self.doing("counting")
        if self.failure:
            return f"✗ {printable(self.failure)}"
        if self.session.statistics is not None:
            return ""
        if not is_settled(self.session):
            return "◌ waiting for the tokenizer"
        if starts_alone(self.session) and not self._called_off:
            return "◌ counting"
        known = "known from the index" if self._glance else "not counted yet"
        return f"{known}; c counts every token" + (" (stopped)" if self._called_off else "")
