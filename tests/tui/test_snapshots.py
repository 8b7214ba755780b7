"""What the browser shows after some keys: the text of a screen of 100 columns and 30 lines, kept in snapshots/.

`SNAPSHOTS=renew pytest tests/tui/test_snapshots.py` writes them again. Read each line that changed before you commit it.
"""

import difflib
import os
from pathlib import Path

import pytest
from amount import only
from builder.screens import Screen

KEPT = Path(__file__).with_name("snapshots")
TOKENIZER = ("--tokenizer", "sample/tokenizer")
PACK, TEXT, MIX = ("corpus.pbin", *TOKENIZER), ("sample/corpus.jsonl",), ("mix.toml", *TOKENIZER)
PADDED = ("fixtures/hdf5/padded_eos",)
SCREENS = {
    # the list, and moves in it
    "ids": (("corpus.pbin",), ""),
    "text without a tokenizer": (TEXT, "down enter right"),
    "last row": (PACK, "G"),
    "half a page": (PACK, "ctrl+d"),
    "a page and half a page back": (PACK, "pagedown pagedown ctrl+u"),
    "a row by its number": (PACK, "g 1 0 0 enter"),
    "a row that is not there": (PACK, "g 9 9 9 9 enter"),
    "a position": (PACK, "g t colon 5 0 0 0 enter"),
    "a byte": (PACK, "g at 5 0 0 0 enter"),
    "a byte of lines": (TEXT, "g at 5 0 0 0 enter"),
    "a byte of lines that are not JSON": (("sample/messy.jsonl",), "g at 4 0 0 enter"),
    "a byte of samples": (PADDED, "g at 3 0 0 0 0 enter"),
    "a byte of blocks": (("fixtures/stage1/blocks",), "g at 5 0 0 0 enter"),
    "back": (PACK, "g 1 0 0 enter backspace"),
    "forward": (PACK, "g 1 0 0 enter backspace alt+right"),
    "enlarged reader": (PACK, "z"),
    "sorted by length": (PACK, "vertical_line"),
    # the reader
    "second line of the reader": (PACK, "g 1 1 enter enter down down right"),
    "end of a line": (PACK, "g 1 1 enter enter dollar_sign"),
    "last token": (PACK, "g 1 1 enter enter end"),
    "half a page of the reader": (PACK, "g 1 1 enter enter ctrl+d"),
    "pages of the reader": (PACK, "g 1 1 enter enter pagedown pageup down"),
    "scrolled reader": (PACK, "g 1 1 enter enter ctrl+e ctrl+e ctrl+e ctrl+y"),
    "reader as ids": (PACK, "m enter right right"),
    "bytes of a token": (PACK, "enter right x"),
    "rows with a token": (PACK, "enter right right enter"),
    "a mark": (PACK, "enter right space right right"),
    # find and filter
    "a hit and the next one": (PACK, "slash t h e enter n n"),
    "the hit before": (PACK, "slash t h e enter n N N"),
    "a token": (PACK, "slash t o k e n colon 2 6 1 enter"),
    "long samples": (PADDED, "v f l e n greater_than_sign 5 0 enter"),
    "a hit in text": (TEXT, "slash t h e enter n"),
    "nothing is found": (PACK, "slash z q z q z q enter"),
    "a query that is wrong": (PACK, "slash t o k n colon 5 enter"),
    "filtered by tokens": (PACK, "f t o k e n colon 2 6 1 enter end"),
    "filter removed": (PACK, "f l e n greater_than_sign 2 0 0 enter F"),
    "filtered text": (TEXT, "f l e n greater_than_sign 9 0 0 enter"),
    # the other tabs
    "file": (PACK, "3"),
    "file, a part open": (PACK, "3 home down down down down right down down"),
    "file of lines": (TEXT, "3 down down"),
    "file, a byte": (PACK, "3 g 2 0 0 enter"),
    "file with problems, all checked": (("sample/merged.pbin",), "3 a"),
    "overview of text": (TEXT, "2"),
    "overview of samples": (PADDED, "2 end"),
    "fact of the overview": (PACK, "2 shift+tab down down enter"),
    "sequences of some lengths": (PACK, "2 space space enter"),
    "sequences of the most frequent token": (PACK, "2 tab enter"),
    "sequences of a token": (PACK, "2 tab right right down enter"),
    # samples and recipes
    "samples": (PADDED, "v down"),
    "a sample in the reader": (PADDED, "v g 2 enter enter end"),
    "a sample of a recipe": (MIX, "g 5 enter enter right right"),
    "a sample of a recipe as ids": (MIX, "m g 5 enter enter right"),
    "next part": (MIX, "g 5 enter enter right_curly_bracket"),
    "origin": (MIX, "g 5 enter enter right_curly_bracket O"),
    "overview of a recipe": (MIX, "2"),
    "a batch": (MIX, "b down right"),
    # several datasets
    "export": (PACK, "e"),
    "export of selected rows": (PACK, "space space shift+down e"),
    "palette": (PACK, "ctrl+p r o w"),
    "help of the overview": (PACK, "2 question_mark"),
    "datasets": (("corpus.pbin", "short.pbin"), "d"),
    "another dataset": (("corpus.pbin", "short.pbin"), "d down enter"),
    "catalog, sorted": (("sample",), "vertical_line down enter"),
    "catalog, filtered": (("sample",), "slash c o r p enter"),
    "catalog, opened": (("sample",), "down enter"),
    "tokenizers": (PACK, "T"),
    # what is wrong
    "damaged": (("sample/merged.pbin",), ""),
    "lines that are not JSON": (("sample/messy.jsonl",), "down"),
}


COLORED = (
    "ids", "text without a tokenizer", "reader as ids", "a mark", "a hit and the next one", "samples",
    "a sample of a recipe as ids", "file, a part open",
)  # fmt: skip
"""Screens whose colors are kept as well: a letter for each run of one style."""


ALIKE = {
    "half a page", "a page and half a page back", "a byte of lines", "a byte of samples", "back",
    "second line of the reader", "end of a line", "half a page of the reader", "pages of the reader",
    "the hit before", "filtered text", "file of lines", "file, a byte", "sequences of a token",
    "a sample of a recipe", "next part", "filter removed", "palette", "a row by its number", "a byte",
    "filtered by tokens", "sequences of some lengths", "fact of the overview",
}  # fmt: skip
"""Screens that others show after more keys, or of another format: `make fuzz` and `SNAPSHOTS=renew` draw them."""


@pytest.mark.parametrize("name", only(SCREENS.keys() - ALIKE, SCREENS))
def test_a_screen_is_the_one_that_was_kept(name, draw):
    kept = KEPT / f"{name}.txt"
    for _ in range(3):  # what a busy machine draws late is drawn again
        found, colors = draw(Screen(name, *SCREENS[name]), "100x30")
        found += ["", *colors] if name in COLORED else []
        if os.environ.get("SNAPSHOTS") == "renew":
            kept.write_text("\n".join(found) + "\n")
        changed = list(difflib.unified_diff(kept.read_text().splitlines(), found, kept.name, "now", lineterm=""))
        if not changed:
            break
    assert not changed, "\n".join(changed)


def test_every_snapshot_is_of_a_screen():
    assert {path.stem for path in KEPT.iterdir()} == set(SCREENS)
