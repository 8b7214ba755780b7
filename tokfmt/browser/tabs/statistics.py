"""The tab of statistics: counts, lengths and IDs, first from the index, then from a pass over all tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, ItemGrid, VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from tokfmt.browser.keys import pressing
from tokfmt.browser.search import SearchJob, parse_search, search_scope
from tokfmt.browser.session import UNKNOWN, Counted, Session, shown_path
from tokfmt.browser.tabs.base import Working
from tokfmt.browser.widgets.charts import Bars, Curve
from tokfmt.browser.widgets.facts import Fact, Facts
from tokfmt.browser.widgets.rankings import GroupLines, GroupRanking, Ranked, Ranking, TokenLines
from tokfmt.browser.workers import Job
from tokfmt.commands.stats import Statistics, glance, stats_of
from tokfmt.commands.stats.lists import Lists
from tokfmt.commands.stats.report import Ids, Share
from tokfmt.core.losses import READS
from tokfmt.core.records import RecordReader
from tokfmt.errors import TokfmtError
from tokfmt.run.execute import worker_count
from tokfmt.source.open import open_dataset
from tokfmt.source.request import Reading, SourceFiles, viewed
from tokfmt.source.stored import Source
from tokfmt.wording import counted, printable, separator_words, short

RANKINGS = ("most", "least", "groups", "first", "last")
"""IDs of the rankings, in order."""

_COLUMN = 50  # least width of a ranking in cells
_NARROW = 38  # the same, if all fit beside each other
_LOW = 12  # least height of a ranking in lines
_CHART, _LEAST_CHART = 13, 6  # height of a chart in lines, and the least one

AT_ONCE = 2 << 30
"""Limit of tokens for a pass that starts without a key."""

BYTES_AT_ONCE = 2 << 30
"""Limit of bytes of text for a pass that starts without a key."""

MOST_COMPARED = 1 << 21
"""Limit of rows among which the browser looks for equal ones, 24 bytes each."""

_WORKERS = 4  # threads of a pass at most; each takes some 10 MB


def _opened(session: Session) -> Source:
    """Open the dataset again in the current view, as the end of a pass must not close the readers of the screen."""
    request, format_, known = session.request, session.opened.format, session.opened.separator
    if session.refused is not None or format_ is None:
        raise TokfmtError(session.failure)
    session.check_unchanged()
    wanted = replace(request.accepting(READS["browse"] | {"invalid-lines"}), ignore_manifest=True)
    if session.view.as_stored:
        wanted = viewed(replace(wanted, allow_loss=wanted.allow_loss | {"tail"}), format_, "samples")
    elif request.eos is None:
        wanted = replace(wanted, eos=known.eos_id)
    handle = session.vocabulary.handle if session.vocabulary else None
    source = open_dataset(wanted, Reading(handle, as_stored=True), [SourceFiles(shown_path(request), format_, ())])
    if session.view.as_stored or known.eos_id is None:
        return source
    # count with the separator of the listed rows, not with that of the tokenizer
    return source._replace(separator=known)


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


def facts_of(found: Statistics, session: Session) -> list[Fact]:
    """Return the facts, with the actions of the tab that lead on from them."""
    rows = f"{found.sequences:,}" if found.sequences or found.lengths else "not split yet"
    facts = [Fact(f"{row_name(session)}s", rows, _lists(""))]
    if lost := left_out(found, session):
        facts.append(Fact("left out", f"{counted(lost, 'record')} that cannot be read", "app.tab('findings')"))
    facts += [fact for fact in _counts(found) if fact.value]
    lengths = found.lengths
    if lengths is not None and lengths.mean is not None:
        facts += [
            Fact("mean length", f"{lengths.mean:,.1f} {lengths.unit}"),
            Fact("shortest", f"{lengths.min:,}", _lists(f"len=={lengths.min}")),
            Fact("longest", f"{lengths.max:,}", _lists(f"len=={lengths.max}")),
            Fact("shortest 5 %", f"up to {lengths.p5:,}", _lists(f"len<={lengths.p5}")),
            Fact("median length", f"{lengths.p50:,}", _lists(f"len=={lengths.p50}")),
            Fact("longest 5 %", f"from {lengths.p95:,}", _lists(f"len>={lengths.p95}")),
        ]
    facts += _shares(found, session)
    if found.ids is not None:
        facts += _ids(found.ids)
    if session.verdict is not None:
        counts = [counted(count, name) for name, count in session.verdict.severities.items()]
        none = "none" if session.verdict.deep else "none in headers and index"
        facts.append(Fact("findings", ", ".join(counts) or none, "app.tab('findings')"))
    return facts


def _lists(words: str) -> str:
    """Return the action that lists the rows of a query."""
    return f"list({words!r})"


def _counts(found: Statistics) -> list[Fact]:
    separator = ""
    if found.eos_id is not None:
        separator = printable(separator_words(found.eos_id, found.eos_from, found.eos_seen))
    return [
        Fact("tokens", "" if found.tokens is None else f"{found.tokens:,}", "ranking('most')" if found.ids else ""),
        Fact(
            "on disk",
            f"{found.bytes:,} bytes" if found.bytes < 10**6 else f"{short(found.bytes)} bytes",
            "app.tab('index')",
        ),
        Fact("per token", "" if found.bytes_per_token is None else f"{found.bytes_per_token:.2f} bytes on disk"),
        Fact("type", found.dtype or ""),
        Fact("largest ID", "" if found.max_id is None else f"{found.max_id:,}", _lists(f"token:{found.max_id}")),
        Fact("separator", separator, _lists(f"token:{found.eos_id}")),
        Fact("characters", "" if found.text is None else f"{found.text.characters:,}"),
    ]


def _shares(found: Statistics, session: Session) -> list[Fact]:
    of_samples = row_name(session) == "sample"
    shares: list[tuple[str, Share | None, str]] = [
        ("empty", found.empty, "len==0"),
        ("separators", found.separators, f"token:{found.eos_id}"),
        ("padding", found.padding, "padding>0" if of_samples else ""),
        ("masked", found.masked, "masked>0" if of_samples else ""),
    ]
    facts = [
        Fact(name, f"{share.count:,} ({share.share:.2%})", _lists(words) if words and share.count else "")
        for name, share, words in shares
        if share is not None
    ]
    again = found.duplicates
    if again is not None:
        words = f"{again.sequences:,} ({again.share:.2%}, tokens {again.token_share:.2%})"
        leads = again.groups and not left_out(found, session)
        facts.append(Fact("duplicates", words, "ranking('groups')" if leads else ""))
    elif found.lengths is not None and (found.ids is not None or found.text is not None):
        facts.append(Fact("duplicates", f"not counted above {short(MOST_COMPARED)}"))
    return facts


def _ids(ids: Ids) -> list[Fact]:
    of = f" of {ids.vocab_size:,} ({ids.coverage:.1%})" if ids.vocab_size and ids.coverage is not None else ""
    about = "about " if ids.estimated else ""
    facts = [
        Fact("different IDs", f"{about}{ids.distinct:,}{of}", "ranking('most')"),
        Fact("IDs seen once", f"{ids.once:,}", "ranking('least')" if ids.once else ""),
    ]
    if ids.beyond and ids.beyond_query is not None:
        facts.append(Fact("beyond the vocabulary", f"{ids.beyond:,}", _lists(ids.beyond_query)))
    return facts


def rankings_of(found: Statistics | None, lists: Lists | None, session: Session) -> dict[str, Ranked | None]:
    """Return the lines of each ranking by its ID; None without any."""
    style, row, ranked = session.token_style, row_name(session), dict[str, Ranked | None].fromkeys(RANKINGS)
    if found is None or lists is None:
        return ranked
    if lists.ids is not None:
        tokens = found.tokens or 0
        ranked["most"] = TokenLines("most frequent tokens", lists.ids, tokens, style, "token")
        ranked["least"] = TokenLines("least frequent tokens", lists.ids, tokens, style, "token", rarest_first=True)
    filled = found.sequences - (found.empty.count if found.empty else 0)
    for name, ends in (("first", lists.first), ("last", lists.last)):
        if ends is not None:
            ranked[name] = TokenLines(f"{name} tokens of {row}s", ends, filled, style, name)
    if lists.groups is not None and not left_out(found, session):  # else its numbers are not those of the list
        ranked["groups"] = GroupLines(
            f"repeated {row}s",
            lists.groups,
            found.sequences,
            None if session.view.name == UNKNOWN else session.port,
            style,
        )
    return ranked


def _glanced(session: Session) -> Statistics | str | None:
    try:
        return first_look(session)
    except TokfmtError as error:
        return str(error)


# the tab

WIDE = 110
"""Width in columns from which the charts are side by side."""


class StatisticsTab(Working):
    """Facts, charts and rankings.

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
    _hidden: Widget | None = None  # the list that had the focus before the rows were counted again
    _finding: SearchJob | None = None  # the search for the members of the open group

    def compose(self) -> ComposeResult:
        yield Static(id="counting", markup=False)
        with VerticalScroll(id="figures", can_focus=False):
            yield Facts()
            with Container(id="charts"):
                yield Bars()
                yield Curve()
            with ItemGrid(id="rankings", min_column_width=_COLUMN):
                for name in RANKINGS:
                    yield GroupRanking(name) if name == "groups" else Ranking(name)

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
        last = self._last if self._last is not None and self._last.display else self.query_one(Bars)
        last.focus(scroll_visible=False)  # so that the facts above the bars stay visible

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if self.display:  # else the focus only leaves the tab
            self._last = event.widget

    # the figures

    def show_figures(self) -> None:
        found, session = self.found, self.session
        self.say()
        counting = "counted by the pass over all tokens (c)" if self.job is None else "being counted"
        counting = "not counted" if self.failure else counting
        lengths = None if found is None else found.lengths
        self.query_one(Bars).show(lengths, counting, row_name(session))
        ids = None if found is None else found.ids
        reason = "IDs of text need --tokenizer" if found is not None and found.text else counting
        self.query_one(Curve).show(None if ids is None else ids.frequencies, reason)
        self.query_one(Facts).show([] if found is None else facts_of(found, session))
        for name, ranked in rankings_of(session.statistics, session.lists, session).items():
            self.query_one(f"#{name}", Ranking).show(ranked)
        self._keep_focus()
        self.call_after_refresh(self._fit)

    def _keep_focus(self) -> None:
        """Let the bars hold the focus for a list that is not shown before its rows are counted again."""
        bars, last, hidden = self.query_one(Bars), self._last, self._hidden
        if last is not None and last.has_focus and not last.display:
            self._hidden = last
            bars.focus(scroll_visible=False)
        elif hidden is not None and hidden.display:
            self._hidden = None
            if bars.has_focus:
                hidden.focus()

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Put the charts where they are seen, and give the rankings the room that they leave."""
        self._place_charts()
        shown = [ranking for ranking in self.query(Ranking) if ranking.display]
        if not shown:
            return
        figures, grid = self.query_one("#figures"), self.query_one("#rankings", ItemGrid)
        width, height = figures.size
        grid.min_column_width = _NARROW if width >= _NARROW * len(shown) else _COLUMN
        columns = max(1, min(len(shown), width // grid.min_column_width))
        if not self.has_class("zoomed"):
            height -= sum(self.query_one(place).outer_size.height for place in ("#facts", "#charts"))
        grid.styles.grid_rows = str(max(_LOW, height // -(-len(shown) // columns)))
        for ranking in shown:
            ranking.styles.column_span = 1
        shown[-1].styles.column_span = columns - (len(shown) - 1) % columns  # nothing beside it stays empty

    def _place_charts(self) -> None:
        """Show the charts above the facts, and lower, if a low screen would have no line of them below."""
        if self.has_class("zoomed"):
            return
        figures, facts, charts = (self.query_one(place) for place in ("#figures", "#facts", "#charts"))
        height = figures.size.height
        low = 0 < height < facts.outer_size.height + _LEAST_CHART
        if low != self.has_class("low"):
            self.set_class(low, "low")
            if low:
                figures.move_child(charts, before=facts)
            else:
                figures.move_child(charts, after=facts)
        # two more lines show that there is more below
        lines = max(_LEAST_CHART, min(_CHART, height - 2)) if low else None
        for chart in (self.query_one(Bars), self.query_one(Curve)):
            chart.styles.height = lines

    # what leads on

    @on(Bars.Chosen)
    def _listed(self, message: Bars.Chosen) -> None:
        self.action_list(f"{message.low}<=len<{message.high}")

    @on(Curve.Chosen)
    def _at_rank(self, message: Curve.Chosen) -> None:
        ranking = self.query_one("#most", Ranking)
        ranking.focus()
        ranking.choose(message.rank - 1)

    @on(Ranking.Chosen)
    def _ranked(self, message: Ranking.Chosen) -> None:
        self.host.filter(message.words, message.row)

    @on(Facts.Chosen)
    async def _followed(self, message: Facts.Chosen) -> None:
        await self.run_action(message.fact.action)

    def action_list(self, words: str) -> None:
        """List the rows of a query in the tab of sequences."""
        self.host.filter(words)

    def action_ranking(self, name: str) -> None:
        """Go to a ranking."""
        self.query_one(f"#{name}").focus()

    @on(GroupRanking.Opened)
    def _group_opened(self, message: GroupRanking.Opened) -> None:
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
            ranking = self.query_one(GroupRanking)
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
        if isinstance(focused, Ranking) and not self.has_class("zoomed"):
            focused.add_class("whole")
            self.add_class("zoomed")
            self.call_after_refresh(self._fit)
        else:
            self.action_whole()

    def action_whole(self) -> None:
        """Show all lists again."""
        self.query(Ranking).remove_class("whole")
        self.remove_class("zoomed")
        self.call_after_refresh(self._fit)

    async def action_export(self) -> None:
        """Ask for a file, and write the list with the focus."""
        focused = self.app.focused
        if not isinstance(focused, (Facts, Bars, Ranking)):
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
        known = "known from the index" if self._glance else "not counted yet"
        return f"{known}; c counts every token" + (" (stopped)" if self._called_off else "")
