"""Clusters keep their columns in a terminal of any opinion about the width of signs."""

import re
import unicodedata

import numpy as np
import pytest
from browsing import Characters, Kind, Mode, Piece, TokenStyle, glyphs, lines_of
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tokfmt.browser.widths import BASE, PAD, anchored, extends, joined

HINDI = "हिन्दी में लिखा हुआ किताब"
TAMIL = "தமிழ் மொழி கொடு"
EMOJI = "❤️ 👍🏽 👩‍🚀 🇩🇪 1️⃣ ☺️"
TEXTS = [HINDI, TAMIL, EMOJI, "e\u0301a\u0308", "ไทยกำ", "中文 かな 한국어", "﷽", "plain", "\u0301 begins with a sign"]


class Terminal:
    """One line of cells. `width` is what this terminal takes the width of a character for.

    A character of width 0 is drawn in the cell before; a wide one that is overwritten by half becomes a blank.
    """

    def __init__(self, width, columns=200):
        self.cells, self.at, self.width = ["~"] * columns, 0, width

    def write(self, data):
        for _, column, char in re.findall(r"(\x1b\[(?:\d+;)?(\d+)[HG]|\x1b\[[^@-~]*m)|(.)", data, re.DOTALL):
            if not char:
                self.at = int(column) - 1 if column else self.at
                continue
            wide = self.width(char)
            for k in range(wide):
                self.cells[self.at + k] = char if not k else ""
            self.at += wide


def of_tmux(char):
    if unicodedata.category(char) == "Mc" or 0x1F3FB <= ord(char) <= 0x1F3FF:
        return 1 + (ord(char) > 0xFFFF)
    return cell_len(char)


def of_clusters(char):
    return cell_len(char)


def of_old(char):
    """A terminal that knows neither emoji nor signs."""
    return 1 if unicodedata.category(char)[0] in "MS" else cell_len(char)


@pytest.mark.parametrize("width", [of_tmux, of_clusters, of_old])
@pytest.mark.parametrize("text", TEXTS)
def test_a_border_stays_in_its_column(text, width):
    shown = "".join(glyphs(np.array(list(map(ord, text))), 0, TokenStyle(Characters(), characters=True)).texts)
    room = cell_len(shown)
    terminal = Terminal(width)
    terminal.write(anchored(f"\x1b[3;11H\x1b[1m{shown}\x1b[0m│\x1b[3;1H"))
    line = terminal.cells
    assert line[10 + room] == "│"
    assert line.count("│") == 1
    assert "~" not in line[10 : 10 + room]  # no cell keeps what was there before
    assert set(line[:10]) == {"~"}


@given(st.text(st.sampled_from("कखिीुं्eé\u0301中👍🏽❤\ufe0f ab\n"), max_size=30), st.integers(2, 12))
def test_every_token_of_a_text_with_signs_is_in_a_line(text, width):
    units = np.array(list(map(ord, text)), np.uint32)
    style = TokenStyle(Characters(), characters=True)
    found = glyphs(units, 0, style)
    assert len(found.texts) == len(found.cells) == len(found.tokens) == len(found.kinds)
    assert found.cells == [cell_len(one) for one in found.texts]
    assert "".join(found.texts).replace(PAD, "").replace(BASE, "") == text.replace("\n", " ")
    assert all(not extends(one[0]) for one in found.texts if one)
    lines = lines_of(Piece(units), 0, style, Mode.TEXT, width)
    covered = {token for one in lines for token in range(one.first, one.last)}
    assert covered == set(range(len(text)))
    for one in lines:
        assert sum(run.cells for run in one.runs) == cell_len("".join(run.text for run in one.runs))
        cells = [run.cells for run in one.runs if run.kind is not Kind.BREAK]
        assert sum(cells) <= width or len(cells) == 1


def test_what_needs_no_care_is_written_as_it_is():
    for data in ("\x1b[1;1Hplain │ ▲ ✗ “é”\n", "\x1b]52;c;YWJj\x07", "\x1b[2;3H中文かな한국어│"):
        assert anchored(data) is data
    assert anchored("\x1b[1;1Hไทย│") == "\x1b[1;1Hไทย│"
    assert "\x1b[38;5;1m" in anchored("\x1b[2;4H\x1b[38;5;1m\u093f\x1b[0m")


def test_a_sign_of_its_own_cell_has_room_beside_its_letter():
    assert joined("क", "ि") == "कि" + PAD
    assert cell_len(joined("क", "ि")) == 2
    assert joined(joined("क", "ि"), "ं") == "किं" + PAD
    assert joined("e", "\u0301") == "e\u0301"
    assert not PAD.isprintable()  # so text from a file never has one
