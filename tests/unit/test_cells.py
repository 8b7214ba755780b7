"""The lines of tables in the browser."""

from tokfmt.browser.data.cells import fitted


def test_what_is_cut_off_is_told():
    assert [fitted("reading", cells) for cells in (9, 7, 6, 1, 0)] == ["reading  ", "reading", "readi…", "…", ""]
    assert fitted("日本語", 5) == "日本…"
