"""Screens above the browser: a question, a choice, a page to read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from rich.cells import cell_len, set_cell_size
from textual import events, on
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette
from textual.containers import ItemGrid, Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Footer, Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from tokfmt.browser import keys
from tokfmt.browser.keys import bindings_of, words_of
from tokfmt.browser.work import Work
from tokfmt.errors import TokfmtError
from tokfmt.wording import printable


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


class Question(Dialog[str]):
    """Ask for a line; the result is the line, or None after Escape.

    Args:
        text: The question.
        value: The line at first.
        check: Returns the meaning of a line, which is shown while the user types. It raises a TokfmtError for a line
            that is not accepted.
        recent: Lines that were typed before, the oldest first.
        at_once: Lines that need no Enter.
    """

    BINDINGS = keys.QUESTION

    def __init__(
        self,
        text: str,
        value: str = "",
        check: Callable[[str], str] | None = None,
        recent: Sequence[str] = (),
        at_once: Collection[str] = (),
    ) -> None:
        super().__init__()
        self._text, self._value, self._check, self._at_once = text, value, check, at_once
        earlier = [line for line in recent if line != value]
        self._lines, self._line = [*earlier, value], len(earlier)

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
        if event.value in self._at_once and self.is_current:
            self.dismiss(event.value)
        else:
            self._holds(event.value)

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


class Menu(Choices):
    """A list of which a click chooses a line, and a double click or Enter takes it.

    OptionList takes the line at any click, so that the other keys of a dialog could not be used on a line.

    Args:
        mark: Number of cells at the beginning of a line whose click posts `Marked` instead.
    """

    BINDINGS = keys.MENU

    class Marked(Message):
        """The user clicked the mark of the highlighted line."""

    def __init__(self, *, mark: int = 0) -> None:
        super().__init__(markup=False)
        self._mark = mark

    def on_click(self, event: events.Click) -> None:
        line, at = event.style.meta.get("option"), event.get_content_offset(self)
        if line is None or at is None:
            return
        event.prevent_default()
        self.highlighted = line
        if at.x < self._mark:
            self.post_message(self.Marked())
        elif event.chain > 1:
            self.action_select()


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


Rows = Sequence[tuple[str, str]]


class Page(Dialog[None]):
    """A page of blocks with a heading and two columns. Escape, q, ?, i and Enter close it.

    Args:
        title: Title of the page.
        blocks: Heading and rows of each block.
        column: Least width of a block in cells; as many blocks as fit are side by side.
        later: Heading of another block, and the function that reads its rows, which is called in a thread.
    """

    BINDINGS = keys.PAGE

    def __init__(
        self,
        title: str,
        blocks: Sequence[tuple[str, Rows]],
        column: int = 32,
        later: tuple[str, Callable[[], Rows]] | None = None,
    ) -> None:
        super().__init__()
        self._title, self._blocks, self._column, self._later = title, blocks, column, later
        self._work = Work(self)

    @property
    def idle(self) -> bool:
        """Return whether all blocks are there."""
        return not self._work

    def compose(self) -> ComposeResult:
        with Vertical(classes="box page"):
            yield Label(self._title, classes="title", markup=False)
            with Scroll(), ItemGrid(min_column_width=self._column):
                if self._later is not None:
                    yield PageBlock(self._later[0], [("◌", "counting")], "block later")
                for heading, rows in self._blocks:
                    yield PageBlock(heading, rows)

        yield Footer(compact=True, show_command_palette=False)

    def ready(self) -> None:
        if self._later is not None:
            _, work = self._later
            self._work.begin("", lambda _: work(), self._arrived)

    def _arrived(self, outcome: object) -> None:
        rows = [("✗", printable(outcome))] if isinstance(outcome, Exception) else outcome
        for block in self.query(".later").results(PageBlock):
            block.say(rows)  # type: ignore[arg-type]


class PageBlock(Static):
    """A heading with rows of two columns below it; a text of several lines stays in its column."""

    def __init__(self, heading: str, rows: Rows, classes: str = "block") -> None:
        super().__init__(classes=classes)
        self._heading, self._rows = heading, rows
        self._wrapped = dict[int, list[Content]]()  # by width; a layout asks for the height several times

    def say(self, rows: Rows) -> None:
        """Show other rows below the heading."""
        self._rows = rows
        self._wrapped.clear()
        self.refresh(layout=True)

    def render(self) -> Content:
        return Content("\n").join(self._lines(self.content_size.width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 - Textual's
        return len(self._lines(width))

    def _lines(self, width: int) -> list[Content]:
        if width not in self._wrapped:
            self._wrapped[width] = self._wrap(width)
        return self._wrapped[width]

    def _wrap(self, width: int) -> list[Content]:
        wide = max((cell_len(name) for name, _ in self._rows), default=0)
        room = max(_LEAST, width - wide - 2)
        lines = [Content.styled(self._heading, "bold")]
        for name, text in self._rows:
            first, *more = Content(text).wrap(room) or [Content("")]
            lines.append(Content.assemble((f"{set_cell_size(name, wide)}  ", "$text-accent"), first))
            lines += [Content.assemble(" " * (wide + 2), line) for line in more]
        return lines


_LEAST = 8  # cells of a text, however narrow the page


class ColumnList(Dialog[str]):
    """Ask for the column that orders the list; the result is its name, or None. Columns are shown or hidden here.

    Args:
        names: Names of the columns.
        shown: Those that are shown. The set is changed here.
        fixed: Those that are always shown.
        order: The column that orders the list, and its sign.
    """

    BINDINGS = keys.COLUMNS

    def __init__(self, names: Sequence[str], shown: set[str], fixed: Collection[str], order: tuple[str, str]) -> None:
        super().__init__()
        self._names, self._shown, self._fixed, self._order = names, shown, fixed, order

    def compose(self) -> ComposeResult:
        with Vertical(classes="box tall"):
            space = " · space shows or hides" if {*self._names} - {*self._fixed} else ""
            yield Label(f"Columns · enter sorts, again reverses{space}", classes="title")
            yield Menu(mark=_MARK)
        yield Footer(compact=True)

    def ready(self) -> None:
        rows = self.query_one(OptionList)
        rows.add_options(Option(self._line(name)) for name in self._names)
        rows.highlighted = 0
        rows.focus()

    def _line(self, name: str) -> Content:
        mark = " " if name in self._fixed else "✓" if name in self._shown else "·"
        sign = self._order[1] if name == self._order[0] else ""
        return Content.assemble((f"{mark} ", "$text-success"), printable(name), (f" {sign}", "$text-warning"))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._names[event.option_index])

    @on(Menu.Marked)
    def action_show_or_hide(self) -> None:
        rows = self.query_one(OptionList)
        at = rows.highlighted
        if at is not None and self._names[at] not in self._fixed:
            self._shown ^= {self._names[at]}
            rows.replace_option_prompt_at_index(at, self._line(self._names[at]))


_MARK = 2
"""Cells of the mark of a column, and of the blank after it."""

# the page of keys

_GESTURES = (
    ("tab", "Next pane"),
    ("shift+tab", "Previous pane"),
    ("ctrl+p", "Command palette"),
    ("click", "Choose a row, token, tab or key; sort by a heading; follow underlined words"),
    ("double click", "Open the row"),
    ("wheel", "Scroll the pane below it; with Shift, long lines aside"),
    ("drag", "Mark tokens; choose several bars or lines; move a border, a scrollbar or the map"),
)
Block = tuple[str, list[tuple[str, str]]]


def help_blocks(app: App[None], *places: Widget | App[None], without: Collection[str] = ()) -> list[Block]:
    """Return the blocks of the help, one for each task: the keys of some places, and of the widgets in them.

    Args:
        app: The browser.
        places: What has keys: a tab or a screen, and the browser. A key of an earlier one hides that of a later one.
        without: Actions that this run does not have.
    """
    blocks: dict[str, dict[str, list[str]]] = {task: {} for task in keys.TASKS}
    hidden: set[str] = set()
    for place in places:
        inside = [] if place is app else [one for one in place.query("*") if one.can_focus]
        own = [binding for binding in bindings_of(place) if binding.key not in hidden]
        hidden |= {binding.key for binding in own}
        for binding in (*own, *(binding for widget in inside for binding in bindings_of(widget))):
            if binding.group is not None and binding.action not in without:
                names = blocks[binding.group.description].setdefault(words_of(binding), [])
                names += [] if (name := app.get_key_display(binding)) in names else [name]
    found = [(task, [(" ".join(names), words) for words, names in rows.items()]) for task, rows in blocks.items()]
    return [*(block for block in found if block[1]), ("Mouse and focus", list(_GESTURES))]
