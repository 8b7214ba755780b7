"""The frame around the tabs: the first line, the line of keys, lines of colored words, a border to drag."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from tokfmt.browser import keys
from tokfmt.browser.data.opening import UNKNOWN
from tokfmt.browser.data.session import Loading, Session
from tokfmt.browser.keys import is_offered, pressed, pressing, rank
from tokfmt.errors import TokfmtError
from tokfmt.wording import counted, human_bytes, plural, printable, short, shortened

if TYPE_CHECKING:
    from tokfmt.browser.data.search import SearchJob
    from tokfmt.browser.data.types import CheckReport

_GAP = " · "


_LEAST = 6  # cells of a name that is cut
_NAMED = 22  # cells of what has failed


def loading_words(session: Session, loading: Loading | None) -> str:
    """Return the stage in which a dataset is loaded in words, or what has failed; "" for neither."""
    if session.refused is not None:
        return ""
    if loading is not None and loading.job is not None:
        job, share = loading.job, loading.job.share
        if loading.stage == "tokenizer":
            return "◌ tokenizer"
        name = job.name or f"opening {session.opened.pending}"
        return f"◌ {name} {share:.1%} · esc stops" if share is not None else f"◌ {name}"
    if session.opened.pending:
        return f"v finds the {session.opened.pending}" if session.opened.pending == "documents" else ""
    named = shortened(printable(session.failure).partition(": ")[0], _NAMED)
    return f"✗ {named} · 3 shows why" if session.failure else ""


def transfer(session: Session) -> str:
    """Return what was fetched from stores, or that one is slow to answer; "" if none was asked."""
    account = sys.modules.get("tokfmt.stores.account")  # imported by the first address
    fetched = account.so_far() if account is not None else None
    if account is None or not fetched:
        return ""
    if account.waiting() > account.SLOW:
        return str(account.slow_words(None if session.path.is_local else session.path))
    return f"fetched {human_bytes(fetched.read)}, {counted(sum(fetched.requests.values()), 'request')}"


class Card(Static):
    """The line above the tabs: what the dataset is, what it counts, and whether it was checked. A click shows more."""

    def __init__(self) -> None:
        super().__init__("", id="card", markup=False)
        self._shown: tuple[str, list[str], list[str], Content] = "", [], [""], Content("")

    def say(self, session: Session, more: str, *, hides: bool) -> None:
        """Show a dataset; `more` follows its name. Its counts are not shown if others are coming."""
        counts = [] if hides and session.shown == UNKNOWN else _counts(session)
        line = f"{printable(session.path.name)}{more}", _beside(session), counts, _verdict(session)
        if line != self._shown:
            self._shown = line
            self.refresh()

    def render(self) -> Content:
        room, gap, (named, beside, counts, verdict) = (
            self.content_size.width,
            Content.styled(_GAP, "$quiet"),
            self._shown,
        )
        name = Content.styled(shortened(named, max(_LEAST, room // 2)), "bold")
        tails = [(*map(Content, counts[:many]), verdict) for many in range(len(counts), 0, -1)]
        for tail in (*tails, (*map(Content, counts[:1]),)):
            right = gap.join([part for part in tail if part])
            left = room - right.cell_length - 2
            for kept in range(len(beside), -1, -1):
                line = name + Content.styled(f"  {_GAP.join(beside[:kept])}", "$quiet")
                if line.cell_length <= left:
                    return line + Content(" " * (room - line.cell_length - right.cell_length)) + right
        return Content.styled(shortened(named, max(_LEAST, left)), "bold") + Content("  ") + right

    async def on_click(self, event: events.Click) -> None:
        event.stop()
        await self.run_action("app.tab('statistics')")


def _beside(session: Session) -> list[str]:
    """Return the format, the type, the size and the tokenizer of a dataset, as far as they are known."""
    axis = session.view.axis
    kind = "" if session.refused is not None or axis is None else str(axis.info.dtype)
    size = human_bytes(session.stamp.size) if session.stamp is not None and session.stamp.is_whole else ""
    named = session.choice.short if session.choice is not None and session.vocabulary is not None else ""
    return [one for one in (session.format_name or "unknown format", kind, size, named) if one]


def _counts(session: Session) -> list[str]:
    """Return the number of rows, of tokens and the share of padding, as far as they are known."""
    if session.refused is not None:
        return ["cannot be read"]
    view, padding = session.view, session.padding.get(session.view.name)
    words = [f"{short(view.port.count)}{'' if view.port.whole else '+'} {plural(view.singular, view.port.count)}"]
    if view.axis is not None:
        noun = "position" if padding and view.name == "samples" else "token"  # the padding is on the axis
        words.append(f"{short(view.tokens)} {plural(noun, view.tokens)}")
    return [*words, *([f"{padding:.1%} padding"] if padding else [])]


def badge(verdict: CheckReport | None) -> Content:
    """Return the number of errors and of warnings, for the label of a tab; empty without any."""
    counts = verdict.severities if verdict is not None else {}
    parts = [
        Content.styled(f"{mark}{counts[name]:,}", f"bold {style}")
        for name, mark, style in (("error", "✗", "$text-error"), ("warning", "▲", "$text-warning"))
        if counts.get(name)
    ]
    return Content(" ").join(parts)


def _verdict(session: Session) -> Content:
    """Return what the check found, in words; nothing before it ran."""
    verdict = session.verdict
    if session.outdated:
        remedy = "" if session.outdated == "deleted" else "; R opens it again"
        return Content.styled(f"▲ {session.outdated}{remedy}", _ODD)
    if verdict is None:
        return Content("")
    for name, mark, style in (("error", "✗", "$text-error"), ("warning", "▲", "$text-warning")):
        if count := verdict.severities.get(name):
            return Content.styled(f"{mark} {counted(count, name)}", f"bold {style}")
    return Content.styled(f"✓ {'all' if verdict.deep else 'index'} checked", "$text-success")


_ODD = "bold $text-warning"


class TopBar(Horizontal):
    """The line below the card: tabs by name, title and key; filter, splits, loading."""

    def __init__(self, tabs: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(id="topbar")
        self._tabs = tabs
        self._splits: tuple[Sequence[str], str] = ((), "")
        self._labels: dict[str, str | Content] = {}
        self._current, self._badge = "", Content("")

    def compose(self) -> ComposeResult:
        for name, _, _ in self._tabs:
            yield Static(id=f"label-{name}", classes="tab", markup=False)
        for name in ("filtered", "split", "loading"):
            yield Static(id=name, markup=False)

    async def on_click(self, event: events.Click) -> None:
        kind, _, tab = (event.widget.id or "" if event.widget is not None else "").partition("-")
        action = {"label": f"app.tab('{tab}')", "filtered": "app.unfilter", "split": "app.split"}.get(kind)
        if action is not None:
            await self.run_action(action)

    def choose(self, name: str) -> None:
        """Mark a tab as the current one."""
        self._current = name
        for label in self.query(".tab"):
            label.set_class(label.id == f"label-{name}", "current")
        self._say_tabs()

    def _say_tabs(self) -> None:
        """Show the key and the title of each tab; the title of the current one only if there is no room for all."""
        beside = [cell_len(str(self._labels.get(label, ""))) for label in ("#filtered", "#split")]
        taken = sum(
            cells + 2 for cells in (*(len(f"{key} {title}") for _, title, key in self._tabs), *filter(None, beside))
        )
        for name, title, key in self._tabs:
            whole = taken <= (self.size.width or self.app.size.width) or name == self._current
            words = Content.assemble(
                (key, "$text-muted" if name != self._current else ""), f" {title}" if whole else ""
            )
            of_findings = [self._badge] if name == "file" and self._badge else []
            if name == self._current:
                of_findings = [Content(badge.plain) for badge in of_findings]  # whose colors the ground would hide
            self._set_label(f"#label-{name}", Content(" ").join([words, *of_findings]))

    def _set_label(self, label: str, words: str | Content) -> None:
        """Set the words of a label, which is hidden for "". Do nothing while the labels come or go."""
        before = self._labels.get(label)
        if words == before and getattr(words, "spans", []) == getattr(before, "spans", []):
            return  # an update lays out the whole screen
        for place in self.query(label).results(Static):
            self._labels[label] = words
            place.update(words)
            place.display = bool(words)

    def say_health(self, badge: Content) -> None:
        """Show the number of findings on the label of their tab; nothing for an empty badge."""
        if badge != self._badge:
            self._badge = badge
            self._say_tabs()

    def say_filter(self, words: str) -> None:
        """Show the filter of the list; "" for none."""
        self._set_label("#filtered", words)
        self._say_tabs()

    def say_splits(self, names: Sequence[str], shown: str) -> None:
        """Show the names of all splits, if there are several, and mark the current one."""
        self._splits = names, shown
        self._set_label("#split", _splits(names, shown, self.app.size.width // 6) if len(names) > 1 else "")
        self._say_tabs()

    def on_resize(self) -> None:
        self.say_splits(*self._splits)

    def say(self, loading: str) -> None:
        """Show the loading stage."""
        self._set_label("#loading", pressing(loading))


def _splits(names: Sequence[str], shown: str, room: int) -> Content:
    """Return all names if they fit, else the current one with its number and the number of splits."""
    labels = {name: printable(name) for name in names}
    if sum(len(name) + 1 for name in labels.values()) > room:
        parts = [Content.styled(labels[shown], "bold"), Content(f"{names.index(shown) + 1}/{len(names)}")]
    else:
        parts = [Content.styled(labels[name], "bold reverse" if name == shown else "$text-muted") for name in names]
    return Content(" ").join([Content.styled("V", "$text-muted"), *parts])


_SHOWN = 6
"""Keys in the last line at most."""

_KEPT = ("help", "quit")
"""Actions that are always in it, at its end."""


class KeyBar(Static):
    """The line of at most six keys that do something now, those of what is under the cursor first; a click presses one.

    `keys.rank` has their order.
    """

    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__(id="keys")
        self._shown: list[Binding] = []
        self._under = ""  # the key under the mouse

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)
        self._changed(self.screen)

    def _changed(self, screen: Screen[object]) -> None:
        offered = [one.binding for one in screen.active_bindings.values() if _in_line(one.node, one.binding)]
        first = list({binding.action: binding for binding in reversed(offered)}.values())[::-1]  # key of each action
        selects = bool(getattr(screen.focused, "selected", None))
        kept = [binding for binding in first if _action(binding) in _KEPT]
        others = [binding for binding in first if binding not in kept]
        others.sort(key=lambda binding: rank(_action(binding), selects=selects))
        shown = [*others[: _SHOWN - len(kept)], *kept]
        if shown != self._shown:
            self._shown = shown
            self.refresh()

    def render(self) -> Content:
        shown, gap = list(self._shown), Content("  ")
        while True:
            line = gap.join(map(self._label, shown))
            if line.cell_length <= self.content_size.width or len(shown) < 2:
                return line
            others = [one for one in shown if _action(one) not in _KEPT] or shown
            shown.remove(others[-1])  # the last one is needed least

    def _label(self, binding: Binding) -> Content:
        words = f" {binding.description}"
        label = Content.assemble((self.app.get_key_display(binding), _KEY), (words, "$footer-description-foreground"))
        label = label.stylize("on $boost") if binding.key == self._under else label
        return label.stylize(Style.from_meta({"key": binding.key}))

    def on_click(self, event: events.Click) -> None:
        if key := event.style.meta.get("key"):
            self.app.simulate_key(key)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._hover(event.style.meta.get("key", ""))

    def on_leave(self) -> None:
        self._hover("")

    def _hover(self, key: str) -> None:
        if key != self._under:
            self._under = key
            self.refresh()


_KEY = "bold $footer-key-foreground"


def _action(binding: Binding) -> str:
    """Return an action without the name of the place that has it."""
    return binding.action.rpartition("app.")[2]


def _in_line(node: DOMNode, binding: Binding) -> bool:
    """Return whether the line has a place for a key."""
    listed = binding.description and not binding.system and binding.group is not None
    return bool(listed) and is_offered(node, binding)


_QUIET = "$quiet"


class FindBar(Static):
    """The line below the list and the reader during a search: its words, progress and number of hits."""

    def __init__(self) -> None:
        super().__init__(id="findbar")
        self.number, self.wrapped = -1, False  # of the hit under the cursor; the move to it went around an end
        self._search: SearchJob | None = None
        self._filter: SearchJob | None = None
        self.display = False

    def say(self, search: SearchJob | None, filtered: SearchJob | None = None) -> None:
        """Show a search and how many of its rows the filter lists, if there is another one; hide the line for None."""
        if search is not self._search:
            self.number, self.wrapped = -1, False
        self._search, self.display = search, search is not None
        self._filter = None if filtered is search else filtered
        self.refresh()

    def render(self) -> Content:
        search = self._search
        if search is None:
            return Content("")
        words = shortened(printable(search.words), max(_LEAST, self.content_size.width // 3))
        parts = [Content.styled(words, "bold $foreground"), self._hits(search)]
        if search.failure:
            parts.append(Content.styled(search.failure, "$text-error"))
        if search.running:
            parts.append(Content.styled(f"{search.job.share or 0:.0%}", _QUIET))
        elif search.cancelled:
            parts.append(Content.styled("stopped", "$text-warning"))
        if self.wrapped:
            parts.append(Content.styled("went around", "$text-warning"))
        return Content("   ").join(parts)

    def _hits(self, search: SearchJob) -> Content:
        results, row = search.results, search.scope.singular
        name = "hit" if search.marks else row
        if not results.hits:
            return Content.styled("nothing yet" if search.running else "nothing found", _QUIET)
        count = f"{results.hits:,}{'…' if search.running else ''}"
        text = f"{name} {self.number + 1:,} of {count}" if self.number >= 0 else f"{count} {plural(name, results.hits)}"
        text += f" in {counted(results.sequences, row)}" if search.marks else ""
        listed = None if self._filter is None else search.listed_by(self._filter)
        text += "" if listed is None else f", {listed:,} listed" if listed else ", none listed"
        text += f" ({short(results.held)} kept)" if results.capped else ""
        return Content.styled(text, "$text-success")


def filter_words(filtered: SearchJob) -> str:
    """Return the words about a filter in the first line."""
    results = filtered.results
    more = "…" if filtered.running else ""
    rows = filtered.results.rows_held
    cut = f", the first {short(rows)} listed" if rows < results.sequences else ""
    failed = " ✗" if filtered.failure else ""
    return f"▼ {printable(filtered.words)}: {short(results.sequences)}{more}{cut}{failed}"


class Divider(Widget):
    """A border that is dragged to a column of the screen."""

    def __init__(self, dragged: Callable[[int], object]) -> None:
        super().__init__()
        self._dragged = dragged

    def render(self) -> Content:
        return Content("")

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        self.capture_mouse()
        self.add_class("held")

    def on_mouse_up(self, event: events.MouseUp) -> None:
        event.stop()
        self.release_mouse()
        self.remove_class("held")

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.has_class("held"):
            event.stop()
            self._dragged(event.screen_x)


class Refusal(Static, can_focus=True):
    """The error in place of a dataset. It takes the focus, so that keys work."""

    BINDINGS = keys.REFUSAL

    def __init__(self) -> None:
        super().__init__(id="refusal", markup=False)

    def say(self, session: Session, datasets: int) -> None:
        """Show the error of a session, and the keys that help."""
        error = session.refused
        known = isinstance(error, TokfmtError)
        why = " ".join(str(error).split()) if known else session.failure
        ways = [("⏎", session.advice[0])] if session.advice is not None else []
        ways += [("3", "File: its parts and bytes, and all that a check finds")]
        ways += [("d", "Another dataset")] if datasets > 1 else []
        ways += [("V", "Another split")] if len(session.splits) > 1 else []
        self.update(
            Content("\n").join(
                [
                    Content.styled("✗ This dataset cannot be read", "bold $text-error"),
                    Content(""),
                    Content(printable(why)),
                    Content(""),
                    *(
                        Content.assemble((f"{key}  ", "bold $text-accent"), text).stylize(
                            pressed("enter" if key == "⏎" else key)
                        )
                        for key, text in ways
                    ),
                ]
            )
        )
