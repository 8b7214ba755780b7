"""Numbers and bars as people read them."""

from tokfmt.wording import bar


def test_bars():
    assert (bar(0, 10), bar(1, 10), bar(0.5, 4)) == ("", "█" * 10, "██")
    assert bar(1e-9, 10) == "▏"
    assert bar(1 / 16, 2) == "▏"
