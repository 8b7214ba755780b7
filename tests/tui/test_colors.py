"""Text that must be read has a contrast of at least 4.5:1, in each theme that knows its colors."""

from amount import NIGHTLY
from browsing import HDF5, browse
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from tokfmt.browser.colors import LEAST, contrast

THEMES = [name for name in BUILTIN_THEMES if not name.startswith("ansi")]
DRAWN = ("bar", "shown", "point")
"""The last words of styles that no text has."""


def color(found):
    return Color(*found.get_truecolor())


def test_all_styles_can_be_read():
    """Of each widget that draws its lines; a style that is dim would count as half."""
    low = {}

    async def steps(app, press):
        await press("2", "3", "2", "1")
        for theme in THEMES if NIGHTLY else THEMES[::4]:
            app.theme = theme
            await press.pilot.pause()
            for tab in app.query(".tab"):
                found = contrast(color(tab.rich_style.color), color(tab.rich_style.bgcolor))
                if found < LEAST:
                    low[theme, tab.id] = round(found, 1)
            title = app.focused.styles
            if contrast(title.border_title_color, app.screen.styles.background) < LEAST:
                low[theme, "title"] = 0
            for widget in app.query("*"):
                for name in type(widget).COMPONENT_CLASSES:
                    if type(widget).__module__.startswith("tokfmt") and not name.endswith(DRAWN):
                        style = widget.get_component_rich_style(name)
                        found = contrast(color(style.color), color(style.bgcolor))
                        if found < LEAST or style.dim:
                            low[theme, name] = round(found, 1)

    browse([HDF5], steps)
    assert not low
