"""A line to type in below the data, the help beside them, and screens above: a choice, the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from inspect import isawaitable
from operator import itemgetter
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Footer, Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from tokfmt.browser import keys
from tokfmt.browser.data.search import EXAMPLES
from tokfmt.browser.keys import is_offered, words_of
from tokfmt.errors import TokfmtError


class Dialog(ModalScreen[ScreenResultType | None]):
    """A screen above the others; `leave` dismisses it with None.

    It is dismissed at once. Textual's own action waits first, and keys typed in that time would reach the screen below.
    Below another screen, it is dismissed when that has gone, as Textual would remove that one in its place.
    `ready` runs when the widgets exist, which is never in an app that is ending.
    """

    _late: Callable[[], object] | None = None  # dismisses it when the screen above has gone

    def on_mount(self) -> None:
        if self.children:
            self.ready()

    def ready(self) -> None:
        """Set up the widgets."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        if self.is_active:
            return super().dismiss(result)
        self._late = partial(super().dismiss, result)
        return AwaitComplete()

    def on_screen_resume(self) -> None:
        if self._late is not None:
            self._late()

    def action_leave(self) -> None:
        self.dismiss(None)


def has_lines(rows: OptionList) -> bool:
    """Return whether a list has laid out its lines. Before that, Textual's moves by a page end in a KeyError."""
    return bool(rows.scrollable_content_region)


class Choices(OptionList):
    """A list to choose from, which keys of vim move through as through any list of the browser."""

    BINDINGS = keys.CHOICES

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; a move by a page does on a list that is laid out."""
        return super().check_action(action, parameters) if has_lines(self) or not action.startswith("page_") else False


class Commands(Provider):
    """What the keys do here and now, each once, and the themes: a line each, with its key at the right."""

    def offered(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        """Yield the name of each command, its key, and what it does."""
        app, words = self.app, set[str]()
        for node, binding, _, _ in self.screen.active_bindings.values():
            moves = binding.system and node is not app  # a cursor
            if binding.group is not None and not moves and words_of(binding) not in words and is_offered(node, binding):
                words.add(words_of(binding))
                yield words_of(binding), app.get_key_display(binding), partial(app.run_action, binding.action, node)
        yield "Theme", "", app.action_change_theme

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, key, run in self.offered():
            if (match := matcher.match(name)) > 0:
                yield Hit(
                    match, Content.assemble(matcher.highlight(name), f"{key:>{max(1, _WIDE - len(name))}}"), run, name
                )

    async def discover(self) -> Hits:
        for name, key, run in sorted(self.offered(), key=itemgetter(0)):
            yield DiscoveryHit(Content(f"{name}{key:>{max(1, _WIDE - len(name))}}"), run, name)


_WIDE = 64  # cells of a command and its key


class Palette(CommandPalette):
    """Textual's list of commands or themes; keys that come before its lines are laid out do nothing."""

    @property
    def idle(self) -> bool:
        """Return whether its lines are complete."""
        return all(worker.is_finished for worker in self.workers)

    def on_mount(self, event: events.Mount) -> None:
        """Leave the commands alone in an app that is ending, which has made no list for them."""
        if not self.children:
            event.prevent_default()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; a move in the list does when it is there and laid out."""
        moves = action in ("command_list", "cursor_down")
        rows = self.query(CommandList)
        return False if moves and not (rows and has_lines(rows.first())) else super().check_action(action, parameters)


class Line(Input):
    """A line to type in, whose Enter is a key of the last line of the screen."""

    BINDINGS = keys.LINE


_PAUSE = 0.2  # seconds after the last key
_ENDS = {"g": 0, "G": -1}


class Prompt(Vertical):
    """A line to type in, in place of the last line of a screen, with its meaning above; the data stay visible.

    `check` returns the meaning of a line, or raises a TokfmtError for one that is not accepted. `ends` is called with
    0 for `g`, which needs no Enter, and with -1 for `G`: `gg` goes to the first line of a pane. `meanwhile` is called
    with an accepted line when the user has stopped typing for a moment, and with None if the prompt is left.
    """

    BINDINGS = keys.PROMPT
    _pause: Timer | None = None  # until `meanwhile` is called
    _before: Widget | None = None  # what had the focus
    _left = False

    def __init__(
        self,
        name: str,
        then: Callable[[str], object],
        hint: str = "",
        value: str = "",
        check: Callable[[str], str] | None = None,
        recent: Sequence[str] = (),
        ends: Callable[[int], object] | None = None,
        meanwhile: Callable[[str | None], object] | None = None,
        *,
        empty: bool = False,
    ) -> None:
        super().__init__()
        self._what, self._then, self._hint, self._value, self._check = name, then, hint, value, check
        self._ends, self._meanwhile, self._empty = ends, meanwhile, empty
        earlier = [line for line in recent if line != value]
        self._lines, self._line = [*earlier, value], len(earlier)

    async def ask(self, screen: Screen[Any]) -> None:
        """Ask, and return when the line has the focus, to get all typed keys."""
        self._before = screen.focused
        screen.add_class("asks")
        await screen.mount(self)
        screen.set_focus(self.query_one(Input))
        self._holds(self._value)

    def compose(self) -> ComposeResult:
        yield Label("", id="meaning", markup=False)
        with Horizontal():
            yield Label(self._what, markup=False)
            yield Line(self._value, compact=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies. The keys for earlier lines need at least one earlier line."""
        return len(self._lines) > 1 if action == "recent" else super().check_action(action, parameters)

    def action_recent(self, step: int) -> None:
        """Put an earlier or later line in place of the typed one, which stays the last of them."""
        line, last = self.query_one(Input), len(self._lines) - 1
        if self._line == last:
            self._lines[last] = line.value
        self._line = max(0, min(self._line + step, last))
        line.value = self._lines[self._line]
        line.cursor_position = len(line.value)

    async def action_leave(self) -> None:
        await self._answer(None)

    async def on_descendant_blur(self) -> None:
        """Leave the prompt if something else takes the focus, as with a click."""
        if self.is_attached and self.app.app_focus and self.screen.is_current:
            await self._answer(None)

    async def on_input_changed(self, event: Input.Changed) -> None:
        if event.value in _ENDS and self._ends is not None:
            await self._answer(event.value)
            return
        holds = self._holds(event.value)
        if self._pause is not None:
            self._pause.stop()
            self._pause = None
        if holds and self._meanwhile is not None and event.value != self._value:
            self._pause = self.set_timer(_PAUSE, partial(self._show_meanwhile, event.value.strip()))

    @property
    def idle(self) -> bool:
        """Return whether no line waits to be shown."""
        return self._pause is None

    def _show_meanwhile(self, line: str) -> None:
        self._pause = None
        if self._meanwhile is not None and not self._left:
            self._meanwhile(line)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        if not event.value.strip() or self._holds(event.value):
            await self._answer(event.value.strip())

    async def _answer(self, answer: str | None) -> None:
        """Give the focus back, and do what was asked for, which may be to ask more; None leaves the prompt."""
        if self._left:
            return
        self._left, self._pause = True, None
        self.screen.remove_class("asks")
        if self.query_one(Input).has_focus:
            self.screen.set_focus(self._before)
        self.remove()
        try:
            if answer in _ENDS and self._ends is not None:
                self._ends(_ENDS[answer])
            elif answer or (self._empty and answer is not None):
                more = self._then(answer)
                if isawaitable(more):
                    await more
            elif self._meanwhile is not None:
                self._meanwhile(None)
        except TokfmtError as error:
            self.app.notify(str(error), severity="error", markup=False)

    def _holds(self, answer: str) -> bool:
        """Show the meaning of an answer, or its error, or what can be typed; return whether it is accepted."""
        text, holds = self._hint, not answer.strip()
        if self._check is not None and not (holds and text):
            try:
                text, holds = self._check(answer), True
            except TokfmtError as error:
                text = str(error)
        label = self.query_one("#meaning", Label)
        label.update(text)
        label.display = bool(text)
        label.set_class(not holds and bool(answer.strip()), "wrong")
        return holds or self._check is None


class OneOf(Dialog[int]):
    """Ask for one of several; the result is its number, or None after Escape."""

    BINDINGS = keys.ONE_OF

    def __init__(self, text: str, choices: Sequence[str], current: int = 0) -> None:
        super().__init__()
        self._text, self._choices, self._current = text, choices, current

    def compose(self) -> ComposeResult:
        with Vertical(classes="box tall"):
            yield Label(self._text, markup=False)
            yield Choices(*(Option(choice) for choice in self._choices), markup=False)
        yield Footer(compact=True, show_command_palette=False)

    def ready(self) -> None:
        self.query_one(OptionList).highlighted = self._current

    def on_click(self, event: events.Click) -> None:
        """Leave after a click beside the box."""
        if self.get_widget_at(event.screen_x, event.screen_y)[0] is self and self.is_current:
            self.action_leave()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)


class Help(VerticalScroll):
    """What the keys do now, beside the data, and what searches and signs mean. It follows the focus."""

    BINDINGS = keys.SCROLL

    def compose(self) -> ComposeResult:
        yield Static("", markup=False)

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self._say())
        self._say()

    def _say(self) -> None:
        """Show the keys of what has the focus; a reader of the help keeps those that it has."""
        if self.has_focus or not self.children:
            return
        tasks: dict[str, dict[str, list[str]]] = {task: {} for task in keys.TASKS}
        for _, binding, _, _ in self.screen.active_bindings.values():
            if binding.group is not None:
                names = tasks[binding.group.description].setdefault(words_of(binding), [])
                names.append(self.app.get_key_display(binding))
        blocks = [
            (task, [(" ".join(names[:2]), words) for words, names in rows.items()]) for task, rows in tasks.items()
        ]
        blocks += [("Searches", EXAMPLES), ("Signs", _SIGNS), ("Mouse and focus", _GESTURES)]
        parts = list[Text | Table]()
        for heading, rows in blocks:
            if rows:
                table = Table.grid(padding=(0, 1, 0, 0))
                table.add_column(style=self.app.theme_variables["text-accent"], no_wrap=True, min_width=_KEY)
                for name, text in rows:
                    table.add_row(Text(name), Text(text))
                parts += [Text(f"\n{heading}" if parts else heading, "bold"), table]
        self.query_one(Static).update(Group(*parts))


_KEY = 6  # cells of a key
_GESTURES = [
    ("tab", "Next pane; this one, too"),
    ("⇧+tab", "Previous pane"),
    ("^p", "Command palette"),
    ("click", "Choose a row, token, tab or key; sort by a heading; follow underlined words"),
    ("2 clicks", "Open the row"),
    ("wheel", "Scroll the pane below it"),
    ("drag", "Mark tokens; choose several bars or lines; move a border or a scrollbar"),
]
_SIGNS = [
    ("●", "A row with a hit"),
    ("✓", "A selected row; a check without findings"),
    ("✗ ▲ ·", "An error, a warning, a remark"),
    ("◌", "Work in progress"),
    ("█▓▒░", "Parts of a sample, by source; ░ a prompt"),
    ("···", "Padding"),
    ("╌╌", "The next document of a row"),
    ("⏎", "A line feed"),
    ("hues", "A token each; of a recipe, a source each, in two shades"),
    ("green", "Tokens that are trained, if others are not"),
    ("grey", "Tokens that are not trained: prompts"),
]
