"""Clusters keep their columns in a terminal of any opinion about the width of signs."""

from rich.cells import cell_len

from tokfmt.browser.widths import PAD, anchored, joined


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
