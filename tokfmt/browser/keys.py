"""The keys of the browser: one table for each place that has some, and what is of use at the moment.

A line of a table is (key, action, word for the last line, words for the help and the palette, key as it is shown). The
order of a table is that of the last line of the screen, and its group the task below which the help lists a key. Keys
that move a cursor are only in the help.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from textual.actions import parse
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.dom import DOMNode
from textual.style import Style

# the tasks, in the order of the help

MOVE, GO, FIND, LOOK, TAKE, OPEN = (
    Binding.Group(name)
    for name in ("Move", "Go to", "Find and list", "Look", "Select, copy and export", "Datasets and tokenizers")
)
TASKS = tuple(group.description for group in (GO, FIND, LOOK, TAKE, OPEN, MOVE))
"""The headings of the help."""


def _keys(group: Binding.Group | None, *lines: tuple[str, ...]) -> list[BindingType]:
    """Return the bindings of a task; None for keys of a dialog, which the help does not list."""
    found: list[BindingType] = []
    for key, action, *words in lines:
        word, full, display = (*words, "", "", "")[:3]
        found.append(
            Binding(
                key,
                action,
                word,
                show=bool(word),
                tooltip=full,
                key_display=display or None,
                system=group is MOVE,
                group=group,
            )
        )
    return found


_BY_PAGES = (
    ("pagedown,ctrl+f", "pages(1)", "Page down"),
    ("pageup,ctrl+b", "pages(-1)", "Page up"),
    ("ctrl+d", "halves(1)", "Half a page down"),
    ("ctrl+u", "halves(-1)", "Half a page up"),
)
_LINES = (
    ("down,j", "by(1)", "Down"),
    ("up,k", "by(-1)", "Up"),
    *_BY_PAGES,
    ("ctrl+e", "roll(1)", "Scroll down"),
    ("ctrl+y", "roll(-1)", "Scroll up"),
    ("home", "to(0)", "First"),
    ("end,G", "to(-1)", "Last"),
)
_FIRST = ("g", "to(0)", "First")

# the browser and its tabs

_BROWSER = [
    *_keys(OPEN, ("V", "split", "Split", "Show another split"), ("V", "no_split", "Split", "Show another split")),
    *_keys(FIND, ("slash", "ask('find')", "Find", "", "/"), ("f", "ask('filter')", "Filter")),
    *_keys(LOOK, ("question_mark", "help", "All keys", "", "?")),
    Binding("escape", "close_help", show=False, priority=True),
    *_keys(OPEN, ("escape", "cancel", "Stop", "Stop loading")),
    *_keys(
        GO,
        ("backspace,ctrl+o,alt+left", "travel(-1)", "Back", "Back to the place before the jump"),
        ("alt+right,ctrl+i", "travel(1)", "Forward", "Forward again"),
    ),
    *_keys(
        OPEN,
        ("d", "datasets", "Datasets", "Choose a dataset"),
        ("T", "tokenizers", "Tokenizer", "Choose a tokenizer"),
        ("R", "reopen", "Reopen", "Open again"),
        ("q", "quit", "Quit"),
    ),
    *_keys(GO, ("g", "ask('jump')", "Go to", "Go to a row, a token or a byte")),
    *_keys(MOVE, ("ctrl+z", "suspend_process", "Suspend", "Suspend (fg returns)")),
]


def browser(tabs: Iterable[tuple[str, str, str]]) -> list[BindingType]:
    """Return the keys of the browser, with one for each tab, of which its name, its title and its key are given."""
    full = {"statistics": "Overview: statistics"}  # under either name, the palette finds it
    lines = [(key, f"tab('{name}')", title, full.get(name, title)) for name, title, key in tabs]
    return [*_BROWSER, *_keys(MOVE, *lines)]


DATA = [
    *_keys(GO, ("g", "jump", "Go to", "Go to a row, a token or a byte; gg goes to the first line")),
    *_keys(FIND, ("slash", "find", "Find", "", "/"), ("f", "filter", "Filter")),
    *_keys(
        LOOK,
        ("m", "mode", "Text/IDs"),
        ("v", "view", "View", "Show documents or samples"),
        ("b", "batch", "Batch", "Show the batch of a step"),
    ),
    *_keys(TAKE, ("c", "copy", "Copy", "Copy what is shown: text, or IDs (m)"), ("e", "export", "Export")),
    *_keys(LOOK, ("enter,l", "read", "Read", "Focus the reader")),
    *_keys(
        FIND,
        ("enter", "occurrences", "List rows", "In the reader: list the rows that have the token"),
        # these come and go: keys before them keep their places, and the line of a search has them, too
        ("escape", "escape", "Clear", "Stop the search, remove mark or hits"),
        ("n", "hit(1)", "Next hit"),
        ("N", "hit(-1)", "Previous hit"),
        ("n", "odd(1)", "Next ▲", "Next row that is trained otherwise than most"),
        ("N", "odd(-1)", "Previous ▲"),
        ("F", "unfilter", "Unfilter", "Remove the filter"),
    ),
    *_keys(
        GO,
        ("x", "bytes", "Bytes", "Show the bytes of the token"),
        ("O", "origin", "Origin", "To the document or record that it comes from"),
        ("right_curly_bracket", "part(1)", "Next part", "Next document of the sample, or border of the loss", "}"),
        ("left_curly_bracket", "part(-1)", "Part before", "Document before, or border", "{"),
    ),
    *_keys(FIND, ("vertical_line", "order", "Sort", "Order by length, by b/t, or as stored", "|")),
    *_keys(TAKE, ("y", "link", "Link", "Copy a command that opens this place")),
    *_keys(
        GO,
        ("right_square_bracket", "next(1)", "Next", "Next row", "]"),
        ("left_square_bracket", "next(-1)", "Previous", "Row before", "["),
    ),
    *_keys(LOOK, ("z", "zoom", "Enlarge", "Enlarge the reader")),
    *_keys(GO, ("r", "random", "Random", "Go to a random row")),
]

REFUSAL = _keys(OPEN, ("enter", "app.follow_advice", "Read it", "Read it with the options that the error names"))

STOP = _keys(OPEN, ("escape", "stop", "Stop", "Stop counting or checking"))
OVERVIEW = [
    *_keys(FIND, ("a", "all", "Check all", "Count and check every token")),
    *_keys(TAKE, ("e", "export", "Export")),
    *_keys(LOOK, ("z", "zoom", "Enlarge", "Enlarge; Escape shows all")),
]

FILE = [
    *_keys(GO, ("g", "byte", "Go to", "Go to a byte offset; gg goes to the first line")),
    *_keys(FIND, ("a", "all", "Check all", "Check every token")),
    *_keys(TAKE, ("e", "export", "Export", "Export the findings")),
    *_keys(LOOK, ("z", "zoom", "Enlarge", "Enlarge the bytes")),
]

# lists and readers

LINES = [
    *_keys(MOVE, *_LINES),
    *_keys(
        MOVE,
        ("space", "select", "Select"),
        ("shift+down,J", "extend(1)", "Select down"),
        ("shift+up,K", "extend(-1)", "Select up"),
    ),
]
ROWS = [*_keys(TAKE, ("space", "select", "Select")), *_keys(MOVE, ("right", "choose", "Read"))]
TABLE = [*_keys(FIND, ("enter", "choose", "List")), *_keys(MOVE, _FIRST)]
TOKENS = [
    *_keys(LOOK, ("right,l", "turn(1)", "Rare ones", "Turn to rare, first and last tokens")),
    *_keys(MOVE, ("left,h", "turn(-1)", "Turn back")),
]
PARTS = [
    *_keys(GO, ("enter", "choose", "Open/go to")),
    *_keys(MOVE, ("right,l", "open", "Open a part"), ("left,h", "close", "Close a part")),
]
HEX = [
    *_keys(MOVE, ("right,l", "bytes(1)", "Next byte"), ("left,h", "bytes(-1)", "Previous byte")),
    *_keys(GO, ("enter", "choose", "To the sequence")),
]
READER = _keys(
    MOVE,
    ("right,l", "tokens(1)", "Next token"),
    ("left,h", "tokens(-1)", "Previous token"),
    *_LINES,
    ("0,circumflex_accent", "line_end(-1)", "First token of the line"),
    ("dollar_sign", "line_end(1)", "Last token of the line", "", "$"),
)

READER += _keys(TAKE, ("space", "mark", "Mark", "Start or remove a mark"))

# screens above the browser

CATALOG = [
    *_keys(GO, ("escape,d", "leave", "Back")),
    *_keys(
        FIND,
        ("slash,f", "filter", "Filter", "", "/"),
        ("vertical_line", "order", "Sort", "Choose the column that orders the list", "|"),
        ("a", "read_all", "Read all", "Read the facts of all datasets, or stop it"),
    ),
    *_keys(TAKE, ("e", "export", "Export")),
    *_keys(LOOK, ("question_mark", "app.help", "All keys", "", "?")),
    *_keys(OPEN, ("q", "app.quit", "Quit")),
]
BATCH = [
    *_keys(
        GO,
        ("escape,q", "leave", "Back"),
        ("right_square_bracket", "step(1)", "Next step", "", "]"),
        ("left_square_bracket", "step(-1)", "Step before", "", "["),
        ("g", "ask_step", "Step", "Go to a step"),
    ),
    *_keys(LOOK, ("b,r", "sizes", "Batch/ranks", "Samples of a batch, and ranks: 512/64")),
    *_keys(GO, ("O", "origin", "Origin", "To the document that it comes from")),
    *_keys(LOOK, ("question_mark", "app.help", "All keys", "", "?")),
]
BATCH_LIST = _keys(
    GO,
    ("enter,l", "choose", "Read"),
    ("right_curly_bracket,right", "part(1)", "Next document", "", "}"),
    ("left_curly_bracket,left", "part(-1)", "Document before", "", "{"),
)
CATALOG_LIST = [*_keys(OPEN, ("enter,l", "choose", "Open")), *_keys(MOVE, _FIRST)]
PROMPT = _keys(
    None,
    ("escape", "leave", "Cancel"),
    ("ctrl+c", "leave"),  # with a selection, the line copies it
    ("up", "recent(-1)", "Earlier line"),
    ("down", "recent(1)"),
)
CHOICES = _keys(
    None,
    ("j", "cursor_down"),
    ("k", "cursor_up"),
    ("g", "first"),
    ("G", "last"),
    ("ctrl+d,ctrl+f", "page_down"),
    ("ctrl+u,ctrl+b", "page_up"),
)
SCROLL = _keys(
    None,
    ("j", "scroll_down"),
    ("k", "scroll_up"),
    ("g", "scroll_home"),
    ("G", "scroll_end"),
    ("space,ctrl+d,ctrl+f", "page_down"),
    ("ctrl+u,ctrl+b", "page_up"),
)
LINE = _keys(None, ("enter", "submit", "OK"))
ONE_OF = _keys(None, ("escape,q", "leave", "Cancel"))


# what is of use

_RANKS = (
    ("escape", "stop", "cancel", "leave"),  # these come and go
    ("hit", "odd"),
    ("unfilter", "all"),
    ("read", "occurrences", "choose", "follow_advice"),
    ("jump", "byte"),
    ("split",),
    ("travel(-1)",),  # after a jump
    ("find", "ask('find')"),
    ("batch", "sizes"),
    ("turn", "open", "part(1)", "step(1)", "step(-1)"),
    ("datasets",),  # only where there are several, as in a catalog: nothing else shows the way back to it
    ("filter",),
    ("order", "read_all"),
    ("bytes", "copy", "origin"),
    ("select", "export", "zoom", "mode"),
)
"""Actions in the order in which the last line has them; those after all of these are in the order of the tables."""


def rank(action: str, *, selects: bool) -> int:
    """Return the place of an action in the last line, the first one for the least; `selects` if lines are selected."""
    if selects and action == "export":
        return -1
    bare = action.partition("(")[0]
    return min([k for k, names in enumerate(_RANKS) if action in names or bare in names], default=len(_RANKS))


def words_of(binding: Binding) -> str:
    """Return the words about a key for the help and the palette."""
    return binding.tooltip or binding.description


def is_offered(node: DOMNode, binding: Binding) -> bool:
    """Return whether the key of a widget does something now; its `offers` states that of some keys.

    Other keys still work, and show why they do nothing.
    """
    _, action, parameters = parse(binding.action)
    if not node.check_action(action, parameters):
        return False
    offers = getattr(node, "offers", None)
    return offers is None or bool(offers(action, parameters))


# the mouse

_NAMED = re.compile(r"\b(esc|[A-Za-z]|3)(?= (?:stops|shows|finds|counts)\b)")


def pressing(words: str) -> Content:
    """Return words whose keys, as in "esc stops", are pressed by a click on them."""
    content = Content(words)
    for found in _NAMED.finditer(words):
        end = words.find(" ", found.end() + 1)
        key = "escape" if found[1] == "esc" else found[1]
        content = content.stylize(pressed(key), found.start(), len(words) if end < 0 else end)
    return content


def pressed(key: str) -> Style:
    """Return the style of words that press a key when they are clicked."""
    return Style.from_meta({"@click": f"app.simulate_key({key!r})"})
