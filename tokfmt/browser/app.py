"""The app of the browser: open datasets, the tab on the screen, loading, keys, screens and the command palette."""

from __future__ import annotations

import asyncio
import os
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual import getters
from textual.app import ComposeResult
from textual.driver import Driver
from textual.events import CursorPosition, Event, MouseDown, Resize
from textual.geometry import Offset
from textual.keys import KEY_NAME_REPLACEMENTS, Keys
from textual.message import Message
from textual.reactive import Reactive
from textual.screen import Screen
from textual.theme import ThemeProvider
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from tokfmt.browser import keys
from tokfmt.browser.clipboard import given_to_programs
from tokfmt.browser.colors import DEFAULTS, colors_of
from tokfmt.browser.data.check import checked, is_cheap
from tokfmt.browser.data.opening import UNKNOWN, Stamp, stamp_of
from tokfmt.browser.data.saving import free_name, json_lines, refusal, saved
from tokfmt.browser.data.session import (
    NONE,
    Choice,
    Loading,
    Session,
    Stage,
    Vocabulary,
    known_tokenizers,
    other_split,
    reopened,
    shown_path,
    shown_session,
)
from tokfmt.browser.data.spots import History, Spot, last_place
from tokfmt.browser.data.state import is_written
from tokfmt.browser.data.types import SourceRequest
from tokfmt.browser.data.workers import Job, said
from tokfmt.browser.tabs import TABS
from tokfmt.browser.tabs.base import Entry, Tab
from tokfmt.browser.tabs.sequences import SequencesTab
from tokfmt.browser.typeahead import TypeAhead
from tokfmt.browser.widgets.frame import Card, KeyBar, TopBar, badge, loading_words, transfer
from tokfmt.browser.widgets.loading import WithLoader
from tokfmt.browser.widgets.reader import Reader
from tokfmt.browser.widgets.sequence_list import SequenceList
from tokfmt.browser.widths import Anchored, answered
from tokfmt.browser.work import Work
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tokfmt.browser.data.catalog import Catalog, Listed

_MOMENT, _LONG = 3.0, 8.0  # seconds
_EVERY = 1.0  # seconds between two looks at what was fetched from stores, and at the files of the dataset
MOMENT = 1.0
"""Seconds after which rows of fixed length are shown, if the documents are not there yet."""
_OPEN = 3  # datasets that stay open, besides those that the user named

_NAMED = 3  # tokenizers that a prompt lists

DARK = "tokyo-night"


class Quit(Message):
    """A signal asks the app to end."""


class Browser(TypeAhead):
    """Show a session and `others`, which are opened when they are first shown; with a catalog, it is of the folder."""

    TITLE = "tokfmt browse"
    CSS_PATH = "browse.tcss"
    theme: Reactive[str] = Reactive(DARK)  # set before it is running, another one would have all styles parsed twice
    sequences = getters.query_one(SequencesTab)
    """The tab of sequences, which always exists."""
    ENABLE_COMMAND_PALETTE = True
    ALLOW_IN_MAXIMIZED_VIEW = "Card, TopBar, KeyBar"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (60, "-wide")]  # noqa: RUF012 - as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-high")]  # noqa: RUF012
    BINDINGS = keys.browser((tab.name, tab.title, tab.key) for tab in TABS)

    def __init__(
        self,
        session: Session,
        others: Sequence[SourceRequest] = (),
        tokenizer: str | None = None,
        theme: str = DARK,
        catalog: Catalog | None = None,
        at: Spot | None = None,
    ) -> None:
        super().__init__()
        self.scroll_sensitivity_y = 3.0  # lines per turn of the wheel
        self.requests = [session.request, *others]
        self.sessions: dict[int, Session] = {0: session}
        self.catalog = catalog
        self.loadings: dict[int, Loading] = {}
        self._openings, self._exports, self._copies = Work(self), Work(self), Work(self)
        self._new: list[Tab] = []  # tabs without a layout
        self._aside: dict[tuple[int, str], Session] = {}  # sessions of splits that were shown before
        self._history = History()
        self._given = len(self.requests)  # later ones are of a catalog, or sources of these
        self._choices: dict[int, Choice | None] = {}  # tokenizers for datasets that have none of their own
        self._looks, self._probes = Work(self), Work(self)  # whether the dataset has changed; checks
        self._pressed: tuple[Screen[Any], Offset, float] | None = None  # the last press: its screen, place and time
        self._spots = {} if at is None else {0: at}  # places to show when the datasets have loaded them
        self.current, self._tokenizer, self.resumes = 0, tokenizer, False
        self.entry: Entry = TABS[0]
        if theme != DARK:
            self.theme = theme

    def compose(self) -> ComposeResult:
        yield Card()
        yield TopBar([(tab.name, tab.title, tab.key) for tab in TABS])
        with ContentSwitcher(initial=self.entry.name):
            yield TABS[0].make(self)
        yield KeyBar()

    def _resume(self) -> None:
        """Begin at the place where the first dataset was left, if it is remembered."""
        place = last_place(self.session)
        if place is not None:
            self._spots[0] = place
            self.notify("Where you left it; home goes to the first row.")

    def on_mount(self) -> None:
        if self.resumes:
            self._resume()
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        self.screen.screen_layout_refresh_signal.subscribe(self, self._laid_out)
        few = self.console.color_system == "standard" and not self.is_headless  # 16, and not in a picture
        self.screen.set_class(few, "-few-colors")
        self._want(0, lambda: self._show(0))
        self._show_tab(self.entry)
        if self.catalog is not None:
            self._show_catalog()
        if transfer(self.session) or not all(shown_path(request).is_local for request in self.requests):
            self.set_interval(_EVERY, self.say)
        self.set_interval(_EVERY, self._look_for_changes)
        # Textual does not update the footer of an app without focus, as a page is until it gets the focus.
        self.watch(self, "app_focus", self._footer, init=False)

    def get_css_variables(self) -> dict[str, str]:
        """Return the colors of the theme, with those of the browser (`colors`)."""
        theme = super().get_css_variables()
        self.theme_variables = {**theme, **colors_of(theme, dark=self.current_theme.dark)}
        return self.theme_variables

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return the colors of the browser for a theme whose colors are those of the terminal."""
        return DEFAULTS

    def get_driver_class(self) -> type[Driver]:
        """Return the driver of the terminal or the page, whose lines keep their place (`widths`)."""
        return type("AnchoredDriver", (Anchored, super().get_driver_class()), {})

    def on_cursor_position(self, event: CursorPosition) -> None:
        """Take the terminal's answer to `widths.PROBE`, which it drew over the last line."""
        self.query_one(KeyBar).refresh()
        if answered(event.x):
            for reader in self.query(Reader):
                reader.lay_out()
            self.query_one(SequenceList).refresh()

    async def on_event(self, event: Event) -> None:
        """Handle an event, but not the second press of a double click whose first press led to another screen."""
        if isinstance(event, MouseDown) and not event.is_forwarded:
            before, self._pressed = self._pressed, (self.screen, event.screen_offset, event.time)
            again = before is not None and event.time - before[2] <= self.CLICK_CHAIN_TIME_THRESHOLD
            if again and before[0] is not self.screen and before[1] == event.screen_offset:  # type: ignore[index]
                return
        await super().on_event(event)

    def _footer(self) -> None:
        self.call_after_refresh(self.screen.refresh_bindings)

    @property
    def session(self) -> Session:
        """Return the dataset on the screen."""
        return self.sessions[self.current]

    @property
    def tab(self) -> Tab:
        """Return the tab on the screen."""
        return self.query_one(f"#{self.entry.name}", Tab)

    @property
    def idle(self) -> bool:
        """Return whether nothing is loading."""
        busy = self._openings or self._copies or self._probes or self._exports or self.is_typing
        loaded = not busy and all(loading.job is None for loading in self.loadings.values())
        places = [*self.query(Tab), self.screen, *self.screen.query("Prompt")]
        places += [widget.loader for widget in self.query("*").results(WithLoader)]
        return loaded and is_written() and all(getattr(place, "idle", True) for place in places)

    # datasets

    def _show(self, number: int) -> None:
        """Show an open dataset. Of those that nobody named, only the last ones used stay open."""
        self.current = number
        if number >= self._given:
            self.sessions[number] = self.sessions.pop(number)  # the last one used is last
        for other in [other for other in self.sessions if other >= self._given][:-_OPEN]:
            self.loadings.pop(other).cancel()
            del self.sessions[other]  # its files are closed with the last thread that reads them
            self._aside = {place: session for place, session in self._aside.items() if place[0] != other}
        self.refresh_tabs()

    def number_of(self, request: SourceRequest) -> int:
        """Return the number of a dataset, which is added if it has none."""
        first = int(self.catalog is not None)  # Before a dataset of a catalog is open, the first one is none.
        for number, known in enumerate(self.requests[first:], first):
            if _is_same(known, request):
                return number
        self.requests.append(request)
        self._choices[len(self.requests) - 1] = self.session.choice
        return len(self.requests) - 1

    @property
    def hides(self) -> bool:
        """Return whether the rows are not shown yet, as their text is coming."""
        loading = self.loadings.get(self.current)
        return loading is not None and loading.hides

    # going to places

    def go(self, spot: Spot, *, leaves: bool = True) -> None:
        """Go to a place as soon as its dataset, split and view are there; `leaves` keeps this one for the way back."""
        if leaves:
            self.leave()
        number = self.current if spot.number is None else spot.number

        def opened() -> None:
            if number != self.current:
                self._show(number)
            self._spots.pop(number, None)
            if spot.split:
                self._show_split(spot.split, lambda: self._enter(spot, number))
            else:
                self._enter(spot, number)

        self._want(number, opened)

    def _enter(self, spot: Spot, number: int) -> None:
        """Show the tab of a place, and then the rest of it."""
        self._spots[number] = spot
        if number != self.current:
            return
        if spot.tab and spot.tab != self.entry.name:
            self.action_tab(spot.tab)
        if spot.inside is not None:
            tab = self.tab
            tab.call_after_refresh(lambda: tab.show_inside(spot.inside))
        self._arrive()

    def _arrive(self) -> None:
        """Show what is wanted of the dataset on the screen, unless it is still being loaded."""
        spot, session, loading = self._spots.pop(self.current, None), self.session, self.loadings[self.current]
        if spot is None or session.refused is not None:
            return
        opened, shown = session.opened, spot.view or session.shown
        known = shown in {view.name for view in opened.views}
        early = opened.starts and spot.where is not None and not spot.view
        lists = bool(spot.words) and shown == UNKNOWN  # a query is about documents
        if opened.pending and (early or lists or not known):
            self._spots[self.current] = spot
            if lists and loading.stage is None:
                self.notify("The documents are being found. The list follows.")
            loading.start_documents()  # does nothing while a stage is running
            self.say()
        elif not known and loading.job is None:
            why = f"{printable(session.path.name)} has no {shown}"
            self.notify(why, severity="warning", timeout=_LONG, markup=False)
        elif not known:
            self._spots[self.current] = spot
        else:
            self._reach(spot, shown)

    def _reach(self, spot: Spot, shown: str) -> None:
        """Show the view, the filter and the row of a place."""
        session = self.session
        if shown != session.shown:
            session.see(shown)
            self.refresh_tabs()
        if spot.words is not None:
            self.sequences.filter_for(spot.words, spot.where)
        if spot.where is None:
            return
        (row, unit), count, view = spot.where, session.port.count, session.view
        row = row + count if row < 0 else row
        if not 0 <= row < count:
            there = f"{counted(count, view.singular)}: 0 to {count - 1:,}" if count else f"no {view.name}"
            why = f"there is no {view.singular} {row:,} in {printable(session.path.name)}, which has {there}"
            self.notify(why, severity="warning", timeout=_LONG, markup=False)
            return
        session.where = row, unit
        self.sequences.loader.forget()  # the place that another view would go to
        self.sequences.go(session.where)

    def _want(self, number: int, then: Callable[[], None]) -> None:
        """Call `then` when a dataset is open: at once, or after a thread opened it."""
        if number in self.sessions:
            if number not in self.loadings:
                self._load(number)
            then()
            return

        def opened(session: Session) -> None:
            session.choice = session.choice or self._choices.get(number)
            self.sessions[number] = session
            self._load(number)
            then()

        request, tokenizer = self.requests[number], self._tokenizer
        self._open(number, lambda: shown_session(request, tokenizer), opened)

    # a catalog

    def _show_catalog(self) -> None:
        from tokfmt.browser.datasets import Datasets

        if self.catalog is not None:
            self.push_screen(Datasets(self.catalog, self._open_listed, self.export_lines, opened=self.current > 0))

    def _open_listed(self, listed: Listed, then: Callable[[], None]) -> None:
        """Show a dataset of the catalog, and call `then` when it is on the screen. Only a few stay open."""
        self._openings.cancel()
        if self.catalog is None:
            return
        number = self.number_of(self.catalog.request_of(listed))
        self._choices.pop(number, None)  # that of another dataset

        def shown() -> None:
            self._show(number)
            then()

        self._want(number, shown)

    def _open(self, number: int, work: Callable[[], Session], then: Callable[[Session], None]) -> None:
        """Open a session of a dataset in a thread, and cancel an earlier request for the same dataset."""

        def arrived(outcome: object) -> None:
            if isinstance(outcome, Session):
                then(outcome)
            else:
                self.notify(f"{type(outcome).__name__}: {outcome}", severity="error", markup=False)
            self.say()

        self._openings.begin(number, lambda _: work(), arrived)
        self.say()

    def _load(self, number: int, vocabulary: Vocabulary | None = None) -> None:
        """Start to load the remaining stages of a dataset."""
        loading = Loading(self.sessions[number], lambda *result: self.call_later(self._loaded, *result))
        self.loadings[number] = loading
        loading.start(vocabulary)
        self._wait_for_documents(loading)

    def _wait_for_documents(self, loading: Loading) -> None:
        """Show the rows of a dataset whose documents are not there in a moment."""
        job = loading.job

        def late() -> None:
            if loading.job is job and loading.hides:
                loading.waits = False
                self.refresh_tabs()

        if loading.stage == "documents":
            self.set_timer(MOMENT, late)

    # the same dataset again

    def action_reopen(self) -> None:
        """Open the dataset on the screen again, at the same place."""
        before = self.session
        self._open_again(lambda: reopened(before), Spot(before.where, before.shown) if before.port.count else None)

    def action_follow_advice(self) -> None:
        """Open the dataset on the screen with the options that its error, or a note, advises."""
        if (advice := self.session.advice) is not None:
            self.requests[self.current], tokenizer = advice[1], self._tokenizer
            self._open_again(lambda: shown_session(advice[1], tokenizer), None)

    def _open_again(self, work: Callable[[], Session], spot: Spot | None) -> None:
        """Open the dataset on the screen again, in place of what is there, and go to a place."""
        number, before = self.current, self.session

        def opened(after: Session) -> None:
            if after.refused is not None and before.refused is None:
                self.notify(str(after.refused), title="Not opened again", severity="error", markup=False)
                return
            if number in self.loadings:
                self.loadings[number].cancel()
            self._aside = {key: one for key, one in self._aside.items() if key[0] != number}
            self.sessions[number] = after
            if spot is not None:
                self._spots[number] = spot
            self._load(number, before.vocabulary)
            self.refresh_tabs()

        self._open(number, work, opened)

    def _look_for_changes(self) -> None:
        """Show whether the dataset on the screen is not what was opened, unless it is loading or being opened."""
        session, loading, stamp = self.session, self.loadings.get(self.current), self.session.stamp
        if self._looks or self._openings or loading is None or loading.job is not None or stamp is None:
            return

        def seen(outcome: Stamp | Exception | None) -> None:
            outdated = ""
            if outcome is None:
                outdated = "deleted"
            elif isinstance(outcome, Stamp) and outcome != stamp:
                outdated = "grew" if outcome.size > stamp.size else "changed"
            if outdated != session.outdated:
                session.outdated = outdated
                self.say()

        format_ = session.opened.format
        self._looks.begin("", lambda _: stamp_of(session.path, format_), seen)

    def _show_split(self, split: str, then: Callable[[], None]) -> None:
        """Show a split of the dataset on the screen, if it has it, and call `then`."""
        number, before, tokenizer = self.current, self.session, self._tokenizer
        if split not in before.splits or split == before.split:
            if split == before.split:  # the last request wins
                self._openings.cancel(number)
            then()
            return

        def opened(after: Session) -> None:
            self.loadings[number].cancel()
            self._aside[number, before.split] = before
            after.verdict, after.choice = before.verdict, before.choice  # these are facts of the whole dataset
            self.sessions[number] = after
            self._load(number, before.vocabulary)
            self.refresh_tabs()
            then()

        aside = self._aside.get((number, split))
        if aside is not None:
            opened(aside)
        else:
            self._open(number, lambda: other_split(before, split, tokenizer), opened)

    def refresh_tabs(self) -> None:
        for tab in self.query(Tab):
            if tab.is_mounted:  # else `_show_tab` shows the session
                tab.show(self.session)
        self._arrive()
        self.call_after_refresh(self.probe)
        self.say()

    def probe(self) -> None:
        """Start the cheap check of the dataset on the screen when it is loaded and shown."""
        session, loading = self.session, self.loadings.get(self.current)
        if session.probed or session.verdict is not None or loading is None or loading.job is not None:
            return
        of_folder = self.catalog is not None and not self.current  # which is no dataset
        shown = session.refused is not None or not session.port.count or self.sequences.reader.lines
        if of_folder or not shown or not is_cheap(session):
            return
        session.probed = True

        def found(outcome: object) -> None:
            if session.verdict is None and not isinstance(outcome, Exception):
                session.verdict = outcome  # type: ignore[assignment]
                self.show_health()

        self._probes.begin(id(session), lambda job: checked(session, job), found)

    @property
    def _several(self) -> int:
        return len(self.requests) if self.catalog is None else 1

    def show_health(self) -> None:
        for tab in self.query(Tab):
            if tab.is_mounted and hasattr(tab, "session"):
                tab.judged()
        for bar in self.query(TopBar):  # a browser that ends has removed it
            bar.say_health(badge(self.session.verdict))
        for card in self.query(Card):
            more = f" ({self.current + 1} of {self._several}, d)" if self._several > 1 else ""
            card.say(self.session, more, hides=self.hides)

    def say(self) -> None:
        """Update the first line."""
        bars, session = self.query(TopBar), self.session
        if not bars:  # the browser ends
            return
        bar = bars.first()
        names = [printable(shown_path(self.requests[number]).name) for number in self._openings]
        loading = f"◌ opening {' and '.join(names)} · esc stops" if names else ""
        writing = [job.share or 0 for job in map(self._exports.get, self._exports) if job is not None]
        loading = loading or (f"◌ writing {writing[-1]:.0%} · esc stops" if writing else "")
        loading = loading or loading_words(session, self.loadings.get(self.current))
        bar.say(" · ".join(filter(None, (loading, transfer(session)))))
        bar.say_splits(session.splits, session.split)
        self.show_health()
        self.refresh_bindings()

    def _loaded(self, session: Session, stage: Stage, outcome: object) -> None:
        """Take a result of a worker for a session."""
        loading = next((one for one in self.loadings.values() if one.session is session), None)
        if loading is None:  # another split is shown by now
            return
        if outcome is not None:
            loading.take(stage, outcome)
            self._wait_for_documents(loading)
            choice = session.choice
            if isinstance(outcome, Vocabulary) and choice is not None and choice.source == "last time":
                self.notify(f"Tokenizer {choice.name}, as last time; --tokenizer sets another", markup=False)
            if isinstance(outcome, Exception):
                why = session.failure or str(outcome)
                self.notify(why, severity="warning", timeout=10, markup=False)
            self.refresh_tabs()
        self.say()

    def next_view(self) -> None:
        """Show the next view of the dataset, or start to search for the documents if they are not known."""
        session, loading = self.session, self.loadings[self.current]
        if len(session.opened.views) > 1:
            names = [view.name for view in session.opened.views]
            self.go(Spot(view=names[(names.index(session.shown) + 1) % len(names)], tab=""))
        elif session.opened.pending:
            loading.start_documents()
            self.say()
        else:
            why = f" {session.opened.notes[-1]}" if session.opened.notes else ""
            self.notify(f"This dataset has only {session.view.name}.{why}", markup=False)

    def on_quit(self) -> None:
        self.exit()

    # tabs

    def _show_tab(self, entry: Entry) -> None:
        self.screen.minimize()
        switcher, self.entry = self.query_one(ContentSwitcher), entry
        if not switcher.query(f"#{entry.name}"):
            tab = entry.make(self)
            switcher.mount(tab)  # unlike `add_content`, this registers the tab at once
            self._new.append(tab)
            tab.call_later(lambda: tab.show(self.session))  # in the tab's queue, when its widgets exist
        switcher.current = entry.name
        self.query_one(TopBar).choose(entry.name)
        self.tab.call_after_refresh(self.tab.enter)

    def _laid_out(self, screen: Screen[object]) -> None:  # noqa: ARG002 - the signal's
        """Send the widgets of new tabs their size.

        Textual sends no Resize if a widget asked for its place between mounting and layout, as the layout then finds no
        change.
        """
        for tab in [tab for tab in self._new if tab.size]:
            self._new.remove(tab)
            for widget in tab.walk_children(Widget, with_self=True):
                widget.post_message(Resize(widget.size, widget.virtual_size, widget.container_size))

    def action_tab(self, name: str) -> None:
        self._show_tab(next(entry for entry in TABS if entry.name == name))

    def action_list(self, words: str) -> None:
        """List the rows that a query finds; all of them for ""."""
        self.go(Spot(words=words))

    def action_unfilter(self) -> None:
        self.sequences.filter("")

    # the way back

    def leave(self, **left: Any) -> None:
        """Keep the place on the screen, as a jump leaves it; `left` has parts of it that have changed already."""
        self._history.leave(self._spot()._replace(**left))
        self.refresh_bindings()

    def _spot(self) -> Spot:
        session, sequences = self.session, self.sequences
        words = sequences.filtered.words if sequences.filtered is not None else ""
        view = "" if session.shown == UNKNOWN else session.shown
        where, inside = sequences.bound_for, self.tab.spot()
        return Spot(where, view, session.split, self.current, words, self.entry.name, inside)

    def action_travel(self, step: int) -> None:
        """Go to the place before the last jump, or forward again."""
        spot = self._history.go(step, self._spot())
        if spot is not None:
            self.go(spot, leaves=False)
        elif step < 0 and self.catalog is not None:
            self._show_catalog()
        else:
            self.notify("No jump has led here." if step < 0 else "There is no place to go forward to.")

    async def action_ask(self, what: str) -> None:
        """Ask what to find or to list in the sequences, from another tab."""
        await self.sequences.run_action(what)

    def action_cancel(self) -> bool:
        """Stop to load, to open and to read; return whether something was stopped."""
        self._spots.pop(self.current, None)
        opening = self._openings.cancel() or self._exports.cancel()
        reading = [widget.loader.leave() for widget in (self.tab, *self.tab.query("*").results(WithLoader))]
        stopped = opening or self.loadings[self.current].cancel() or any(reading)
        if stopped:
            self.refresh_tabs()
        return stopped

    def on_unmount(self) -> None:
        for loading in self.loadings.values():
            loading.cancel()
        for work in (self._openings, self._exports, self._looks, self._probes):
            work.cancel()

    # notifications and dialogs

    def notify(self, message: str, *, title: str = "", timeout: float | None = None, **kwargs: Any) -> None:
        """Show a message in the last line for a few seconds, in place of an earlier one."""
        self.clear_notifications()
        self.query("ToastHolder").remove()  # Textual leaves an empty line of each
        words = f"{title}: {message}" if title else message
        super().notify(words, timeout=_MOMENT if timeout is None else timeout, **kwargs)

    async def action_quit(self) -> None:
        """Leave the browser; from a dataset of a folder, go up to the folder."""
        if not self.go_up():
            await super().action_quit()

    def go_up(self) -> bool:
        """Go up from a dataset of a folder to the folder; return False where there is no up."""
        there = self.catalog is not None and bool(self.current) and len(self.screen_stack) == 1
        if there:
            self._show_catalog()
        return there

    def action_no_split(self) -> None:
        self.notify("This dataset has no other splits.")

    def action_help(self) -> None:
        """Show the help beside the data, or close it."""
        from tokfmt.browser.dialogs import Help

        if not self.action_close_help():
            self.screen.mount(Help(id="help"))

    def action_close_help(self) -> bool:
        """Close the help; return whether it was there."""
        shown = self.screen.query("#help")
        shown.remove()
        return bool(shown)

    async def action_tokenizers(self) -> None:
        """Ask for a tokenizer, and show the dataset with it."""
        from tokfmt.browser.dialogs import Prompt

        known = known_tokenizers(self.session)
        named = "".join(f" · {printable(one.name)} ({one.source})" for one in known[:_NAMED])
        hint = f"a name, a directory or a tokenizer.json · none shows IDs{named}"
        earlier = [one.name for one in reversed(known)]
        await Prompt("Tokenizer", self.use_tokenizer, hint, recent=earlier).ask(self.screen)

    def use_tokenizer(self, name: str) -> None:
        """Show the dataset on the screen with another tokenizer, or with none."""
        if self.current in self.loadings:
            self.loadings[self.current].change(None if name == NONE else Choice(name, "key T"))
        self.refresh_tabs()

    async def action_datasets(self) -> None:
        if self.catalog is not None:
            self._show_catalog()
            return
        if len(self.requests) == 1:
            self.notify("Only one dataset is open; tokfmt browse A B opens several.")
            return
        names = [str(request.paths[0]) for request in self.requests]
        await self._ask_which("Datasets", names, self.current, lambda number: self.go(Spot(number=number, tab="")))

    async def action_split(self) -> None:
        """Show the other split, or ask for one of several."""
        names = self.session.splits
        at = names.index(self.session.split)
        if len(names) == 2:
            self.go(Spot(split=names[1 - at], tab=""))
        else:
            await self._ask_which("Splits", names, at, lambda number: self.go(Spot(split=names[number], tab="")))

    async def _ask_which(self, title: str, names: Iterable[str], current: int, then: Callable[[int], object]) -> None:
        from tokfmt.browser.dialogs import OneOf

        def answered(number: int | None) -> None:
            if number is not None:
                then(number)

        await self.push_screen(OneOf(title, list(map(printable, names)), current), answered)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; `split` needs several splits."""
        if action in ("split", "no_split"):
            return (len(self.session.splits) > 1) == (action == "split")
        if action == "ask":
            return self.session.refused is None
        if action == "close_help":
            return bool(self.screen.query("#help")) and not self.screen.query("Prompt")
        return super().check_action(action, parameters)

    def offers(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Return whether an action would do something now (`keys.is_offered`)."""
        if action == "travel":
            back = parameters == (-1,)
            return self._history.has(-1 if back else 1) or (back and self.catalog is not None)
        if action == "cancel":
            loading = self.loadings.get(self.current)
            return bool(self._openings or self._exports) or (loading is not None and loading.job is not None)
        several = len(self.requests) > 1 or self.catalog is not None
        if action == "follow_advice":
            return self.session.advice is not None
        return {"no_split": False, "datasets": several, "suspend_process": not self.is_web}.get(action, True)

    def picture(self, title: str | None = None) -> str:
        """Return the screen as SVG."""
        from tokfmt.browser.pictures import corrected

        return corrected(self.export_screenshot(title=self.TITLE if title is None else title))

    def copy(self, text: str, description: str = "") -> None:
        """Copy a text, and show where it is now, with the text in words."""
        super().copy_to_clipboard(text)  # to the terminal

        def copied(outcome: object) -> None:
            holds = outcome if isinstance(outcome, list) else []
            words = description or counted(len(text), "character")
            if holds:
                self.notify(f"{words}, in {' and in '.join(holds)}", title="Copied", markup=False)
            else:
                page = "page" if self.is_web else "terminal"
                ignored = f"The {page} may ignore it{'' if words == text else '; e writes a file'}"
                self.notify(f"{words}. {ignored}", title=f"Sent to the {page}", timeout=_LONG, markup=False)

        if self.is_web:  # the clipboard of this machine is not that of the reader
            copied([])
        else:
            self._copies.begin(object(), lambda _: given_to_programs(text), copied)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text that was selected with the mouse."""
        self.copy(text)

    async def export_lines(self, records: Iterable[Mapping[str, object]], what: str, stem: str) -> None:
        """Ask for a file, and write records to it."""
        await self.export(what, stem, lambda path, _: saved(json_lines(records), path))

    async def export(self, what: str, stem: str, write: Callable[[str, Job], int]) -> None:
        """Ask for a file, named `stem` at first, and write JSON lines, `what` in words; `write` returns their bytes."""
        from tokfmt.browser.dialogs import Prompt

        def save(answer: str) -> None:
            path = os.path.abspath(os.path.expanduser(answer))

            def written(outcome: object) -> None:
                if isinstance(outcome, int):
                    self.notify(f"{what}, {outcome:,} bytes, in {printable(path)}", title="Exported", markup=False)
                elif isinstance(outcome, Exception):
                    self.notify(said(outcome), title="Not written", severity="error", markup=False)
                self.say()

            self._exports.begin(path, lambda job: write(path, job), written, self.say)

        prompt = Prompt(f"Write {what} as JSON lines to", save, "", free_name(stem, ".jsonl"), refusal)
        await prompt.ask(self.screen)

    def action_command_palette(self) -> None:
        """Show the list of commands."""
        from tokfmt.browser.dialogs import Commands, Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette([Commands], placeholder="Search for commands…"))

    def search_themes(self) -> None:
        """Show the list of themes."""
        from tokfmt.browser.dialogs import Palette

        self.push_screen(Palette([ThemeProvider], placeholder="Search for themes…"))


def _is_same(a: SourceRequest, b: SourceRequest) -> bool:
    """Return whether two requests open the same dataset in the same way, as far as the browser shows it."""
    places = [shown_path(one).normalized() for one in (a, b)]
    read = [(one.split, one.text_field, one.eos, one.bos, dict(one.options)) for one in (a, b)]
    return places[0] == places[1] and read[0] == read[1]


# pictures, drawn without a terminal and saved

_PATIENCE = 30.0


def screenshot(app: Browser, keys: Sequence[str], size: tuple[int, int]) -> str:
    """Return the SVG of an app, which is not running yet, after some keys by their names in Textual."""
    return asyncio.run(_drawn(app, keys, size))


def unknown_key(name: str) -> bool:
    """Return whether no key has this name."""
    *modifiers, key = name.split("+") if len(name) > 1 else [name]
    known = {one.value for one in Keys} | {"space", "tab", *KEY_NAME_REPLACEMENTS.values()}
    if not {"ctrl", "shift", "alt"}.issuperset(modifiers):
        return True
    return len(key) != 1 and key not in known and not _is_character(key)


def _is_character(name: str) -> bool:
    try:
        return bool(unicodedata.lookup(name.replace("_", " ").upper()))
    except KeyError:
        return "_" in name and _is_character(name.replace("_", "-", 1))


async def _drawn(app: Browser, keys: Sequence[str], size: tuple[int, int]) -> str:
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        for key in keys:
            await pilot.press(key)
            await settled(app, pilot)
        return app.picture()


async def settled(app: Browser, pilot: Pilot[None]) -> None:
    """Wait until nothing is loading and everything is drawn, at most 30 seconds."""
    loop = asyncio.get_running_loop()
    until, quiet = loop.time() + _PATIENCE, 0
    while quiet < 2 and loop.time() < until:
        await pilot.pause()
        quiet = quiet + 1 if app.idle else 0
        if not quiet:
            await asyncio.sleep(0.005)
