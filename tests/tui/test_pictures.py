"""The pictures of the documentation are snapshots: each screen still shows the text of its pictures.

`make pictures` draws them again after a change of layout.
"""

import difflib

import pytest
from amount import first
from builder import screens
from rich.cells import cell_len


@pytest.mark.parametrize("size", first(1, screens.SIZES))
@pytest.mark.parametrize("screen", screens.SCREENS, ids=lambda screen: screen.name)
def test_a_screen_is_the_one_of_its_picture(screen, size, draw):
    kept = screen.picture(size)
    assert kept.exists(), "run make pictures"
    columns, lines = map(int, size.split("x"))
    found, _ = draw(screen, size)
    assert len(found) <= lines + 1 and max(map(cell_len, found)) <= columns  # its title is a line too
    changed = list(difflib.unified_diff(screens.text_of(kept), found, kept.name, "drawn now", lineterm=""))
    assert not changed, "\n".join([*changed, "If this is the layout that you want, run make pictures"])


def test_every_picture_is_of_a_screen_and_shown_on_a_page():
    wanted = {screen.picture(size).name for screen in screens.SCREENS for size in screens.SIZES}
    assert {path.name for path in screens.PICTURES.glob("*.svg")} == wanted
    page = (screens.ROOT / "docs" / "screens.md").read_text()
    assert all(f"pictures/{name})" in page for name in wanted)
