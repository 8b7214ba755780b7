"""Screens above the browser: a question, a choice, a page to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette
from textual.containers import ItemGrid, Vertical, VerticalScroll
from textual.screen import ModalScreen, ScreenResultType
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Footer, Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from tokfmt.browser import keys
from tokfmt.browser.keys import bindings_of, words_of
from tokfmt.errors import TokfmtError

Block = tuple[str, list[tuple[str, str]]]
"""A heading, and rows of two columns."""


class Dialog(ModalScreen[ScreenResultType | None]):
    """A screen above the others; `leave` dismisses it with None.

    It is dismissed at once. Textual's own action waits first, and keys typed in that time would reach the screen below.
    Below another screen, it is dismissed when that has gone, as Textual would remove that one in its place.
    `ready` runs when the widgets exist, which is never in an app that is ending. A click beside the box leaves it.
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

    def on_click(self, event: events.Click) -> None:
        beside = self.get_widget_at(event.screen_x, event.screen_y)[0] is self
        if beside and self.is_current and getattr(self, "idle", True):
            self.action_leave()


def has_lines(rows: OptionList) -> bool:
    """Return whether a list has laid out its lines. Before that, Textual's moves by a page end in a KeyError."""
    return bool(rows.scrollable_content_region)


class Choices(OptionList):
    """A list to choose from, which keys of vim move through as through any list of the browser."""

    BINDINGS = keys.CHOICES

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; a move by a page does on a list that is laid out."""
        return super().check_action(action, parameters) if has_lines(self) or not action.startswith("page_") else False


class Palette(CommandPalette):
    """Textual's list of commands or themes; keys that come before its lines are laid out do nothing."""

    def on_mount(self, event: events.Mount) -> None:
        """Leave the commands alone in an app that is ending, which has made no list for them."""
        if not self.children:
            event.prevent_default()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; a move in the list does when it is there and laid out."""
        moves = action in ("command_list", "cursor_down")
        rows = self.query(CommandList)
        return False if moves and not (rows and has_lines(rows.first())) else super().check_action(action, parameters)


class Scroll(VerticalScroll):
    """The part of a page that scrolls, also with keys of vim."""

    BINDINGS = keys.SCROLL


class Line(Input):
    """A line to type in, whose Enter is a key of the last line of the screen."""

    BINDINGS = keys.LINE


_PAUSE = 0.2  # seconds after the last key
_ENDS = {"g": 0, "G": -1}


class Question(Dialog[str]):
    """Ask for a line; the result is the line, or None after Escape.

    Args:
        text: The question.
        then: Called by `ask` with the line; a TokfmtError is shown.
        value: The line at first.
        check: Returns the meaning of a line, which is shown while the user types. It raises a TokfmtError for a line
            that is not accepted.
        recent: Lines that were typed before, the oldest first.
        ends: Called with 0 for `g`, which needs no Enter, and with -1 for `G`: `gg` goes to the first line of a pane.
        meanwhile: Called with an accepted line when the user has stopped typing for a moment; by `ask` with None if the
            question is left.
    """

    BINDINGS = keys.QUESTION
    _pause: Timer | None = None  # until `meanwhile` is called

    def __init__(
        self,
        text: str,
        then: Callable[[str], object],
        value: str = "",
        check: Callable[[str], str] | None = None,
        recent: Sequence[str] = (),
        ends: Callable[[int], object] | None = None,
        meanwhile: Callable[[str | None], object] | None = None,
    ) -> None:
        super().__init__()
        self._text, self._then, self._value, self._check, self._ends = text, then, value, check, ends
        self._meanwhile = meanwhile
        earlier = [line for line in recent if line != value]
        self._lines, self._line = [*earlier, value], len(earlier)

    async def ask(self, app: App[None]) -> None:
        """Ask, and return when the question is on the screen, to get all typed keys."""

        def answered(answer: str | None) -> None:
            try:
                if answer in _ENDS and self._ends is not None:
                    self._ends(_ENDS[answer])
                elif answer:
                    self._then(answer)
                elif self._meanwhile is not None:
                    self._meanwhile(None)
            except TokfmtError as error:
                app.notify(str(error), severity="error", markup=False)

        await app.push_screen(self, answered)

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Label(self._text, markup=False)
            yield Line(self._value, compact=True)
            if self._check is not None:
                yield Label("", id="meaning", markup=False)
        yield Footer(compact=True, show_command_palette=False)

    def ready(self) -> None:
        self.set_focus(self.query_one(Input))
        self._holds(self._value)

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

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.value in _ENDS and self._ends is not None and self.is_current:
            self.dismiss(event.value)
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
        if self._meanwhile is not None and self.is_current:
            self._meanwhile(line)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if self.is_current and (not event.value.strip() or self._holds(event.value)):
            self.dismiss(event.value.strip())

    def _holds(self, answer: str) -> bool:
        """Show the meaning of an answer, or its error; return whether it is accepted."""
        if self._check is None:
            return True
        label, holds = self.query_one("#meaning", Label), False
        try:
            text, holds = self._check(answer), True
        except TokfmtError as error:
            text = str(error)
        label.update(text)
        label.set_class(not holds and bool(answer.strip()), "wrong")
        return holds


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

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)


class Page(Dialog[None]):
    """A page of blocks with a heading and two columns. Escape, q, ? and Enter close it.

    Args:
        title: Title of the page.
        blocks: Heading and rows of each block; as many blocks as fit are side by side.
    """

    BINDINGS = keys.PAGE

    def __init__(self, title: str, blocks: Sequence[Block]) -> None:
        super().__init__()
        self._title, self._blocks = title, blocks

    def compose(self) -> ComposeResult:
        accent = self.app.theme_variables["text-accent"]
        with Vertical(classes="box page"):
            yield Label(self._title, classes="title", markup=False)
            with Scroll(), ItemGrid(min_column_width=_BLOCK):
                for heading, rows in self._blocks:
                    table = Table.grid(padding=(0, 2, 0, 0))
                    table.add_column(style=accent, no_wrap=True)
                    for name, text in rows:
                        table.add_row(Text(name), Text(text))
                    yield Static(Group(Text(heading, "bold"), table), classes="block")
        yield Footer(compact=True, show_command_palette=False)


_BLOCK = 32  # least cells of a block


# the page of keys

_GESTURES = (
    ("tab", "Next pane"),
    ("shift+tab", "Previous pane"),
    ("ctrl+p", "Command palette"),
    ("click", "Choose a row, token, tab or key; sort by a heading; follow underlined words"),
    ("double click", "Open the row"),
    ("wheel", "Scroll the pane below it"),
    ("drag", "Mark tokens; choose several bars or lines; move a border or a scrollbar"),
)
_SEARCHES = (
    ("whale", "The text, in any case (/ and f)"),
    ("token:464,3290", "These IDs in a row; any:, first: and last: one of some"),
    ("len>2000", "Lengths; also 10<=len<20"),
    ("padding>0", "Positions of padding of a sample; masked>0 those without loss"),
    ("same:17", "The rows that equal a row"),
    ("seq:3,9", "Rows by number"),
)
_SIGNS = (
    ("●", "A row with a hit"),
    ("✓", "A selected row; a check without findings"),
    ("✗ ▲ ·", "An error, a warning, a remark"),
    ("◌", "Work in progress"),
    ("█▓▒░", "Parts of a sample, by source; ░ a prompt"),
    ("···", "Padding"),
    ("╌╌", "The next document of a row"),
    ("⏎ → ␣", "A line feed, a tab, a space"),
    ("hues", "A token each; of a recipe, a source each, in two shades"),
    ("green", "Tokens that are trained, if others are not"),
    ("grey", "Tokens that are not trained: prompts"),
)


def help_blocks(app: App[None], *places: Widget | App[None]) -> list[Block]:
    """Return the blocks of the help, one for each task: the keys of some places, and of the widgets in them.

    Args:
        app: The browser.
        places: What has keys: a tab or a screen, and the browser. A key of an earlier one hides that of a later one.
    """
    blocks: dict[str, dict[str, list[str]]] = {task: {} for task in keys.TASKS}
    hidden: set[str] = set()
    for place in places:
        inside = [] if place is app else [one for one in place.query("*") if one.can_focus]
        own = [binding for binding in bindings_of(place) if binding.key not in hidden]
        hidden |= {binding.key for binding in own}
        for binding in (*own, *(binding for widget in inside for binding in bindings_of(widget))):
            if binding.group is not None:
                names = blocks[binding.group.description].setdefault(words_of(binding), [])
                names += [] if (name := app.get_key_display(binding)) in names else [name]
    found = [(task, [(" ".join(names), words) for words, names in rows.items()]) for task, rows in blocks.items()]
    shown = [block for block in found if block[1]]
    return [*shown, ("Searches", list(_SEARCHES)), ("Signs", list(_SIGNS)), ("Mouse and focus", list(_GESTURES))]
