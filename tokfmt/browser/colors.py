"""Colors of the browser, made from those of any theme so that each text has a contrast of at least 4.5:1.

$text-…, $footer-…        the colors of a theme, moved to black or white until they can be read
$quiet                    labels, prompts, padding: text that is read, but not first
$hue-0 … $hue-5, $ink     the grounds of tokens in turn, and the text on them
$hue-odd-0 … $hue-odd-5   the same hues, nearer to the background: every second token of a source
$tone-0 … $tone-5         the same hues as text and bars: sources, parts of a sample
$trained, $trained-odd    the grounds of tokens that are trained, in turn, and $trained-ink on them
$primary-ink              the text on $primary
$line, $line-blurred      the ground of the line of the cursor, with the focus and without, and $line-ink
$hit, $marked             hits and marks, and $hit-ink, $marked-ink
$last-hit, $last-hit-ink  the hit under the cursor
$odd, $bad                special tokens and separators; bytes and IDs that are no text; $odd-ink, $bad-ink
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from textual.color import Color, ColorParseError

LEAST = 4.5
"""Contrast of text with its ground, as WCAG 2 defines it and asks for."""

HUES = (0.73, 0.58, 0.46, 0.30, 0.11, 0.94)
"""Violet, blue, teal, green, amber and pink, as shares of the circle."""


TONES = len(HUES)
"""Colors of sources."""

SHADES = "█▓▒░"
"""Sources differ in a shade too, for terminals without colors."""


def sign_of(shade: int) -> tuple[str, str]:
    """Return the sign of a source in a legend, and its style."""
    return f"{SHADES[shade % len(SHADES)]} ", f"$tone-{tone_of(shade)}"


def tone_of(shade: int) -> int:
    """Return the number of the color of a source by the number of the source: those of the first ones are far apart."""
    return (0, 4, 2, 5, 1, 3)[shade % len(HUES)]


_WHITE, _BLACK = Color(255, 255, 255), Color(0, 0, 0)
_STEPS = 20
_TEXTS = ("foreground", "text-primary", "text-secondary", "text-accent", "text-success", "text-warning", "text-error")
_OF_FOOTER = ("footer-foreground", "footer-key-foreground", "footer-description-foreground")


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colors: 1 to 21."""
    first, second = _luminance(one), _luminance(other)
    return (max(first, second) + 0.05) / (min(first, second) + 0.05)


@lru_cache(maxsize=1 << 10)
def _luminance(color: Color) -> float:
    luminance = 0.0
    for part, weight in zip(color.normalized, (0.2126, 0.7152, 0.0722), strict=True):
        luminance += weight * (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4)
    return luminance


def readable(color: Color, *grounds: Color) -> Color:
    """Return a color, moved to white or black until it can be read on all of these grounds."""
    far = max((_WHITE, _BLACK), key=lambda end: min([contrast(end, ground) for ground in grounds]))
    for step in range(_STEPS + 1):
        moved = color.blend(far, step / _STEPS)
        if min([contrast(moved, ground) for ground in grounds]) >= LEAST:
            return moved
    return far


def ground(background: Color, color: Color, share: float, *texts: Color) -> Color:
    """Return the background with a share of a color, or less until all of these texts can be read on it."""
    for step in range(_STEPS, 0, -1):
        mixed = background.blend(color, share * step / _STEPS)
        if min([contrast(text, mixed) for text in texts]) >= LEAST:
            return mixed
    return background


def colors_of(theme: Mapping[str, str], *, dark: bool) -> dict[str, str]:
    """Return the variables of the browser for those of a theme; {} for one whose colors are those of the terminal."""
    try:
        background, panel, surface, foreground = (
            Color.parse(theme[name]) for name in ("background", "panel", "surface", "foreground")
        )
        named = {name: Color.parse(theme[name]) for name in (*_TEXTS, "primary", "secondary", "success", "error")}
        footer = {name: Color.parse(theme[name]) for name in ("footer-background", *_OF_FOOTER)}
    except ColorParseError:
        return {}
    if background.ansi is not None or foreground.ansi is not None:
        return {}
    below = [background, *(one for one in (panel, surface) if one.a == 1)]  # those of lines and dialogs too
    colors = {name: readable(named[name], *below) for name in _TEXTS}
    at_foot = panel if footer["footer-background"].is_transparent else footer["footer-background"]
    colors |= {name: readable(footer[name], at_foot) for name in _OF_FOOTER}
    colors["quiet"] = readable(background.blend(foreground, 0.6), *below)
    colors["primary-ink"] = readable(background, named["primary"])
    hues = [Color.from_hsl(hue, 0.36 if dark else 0.75, 0.42 if dark else 0.72) for hue in HUES]
    far = _WHITE if dark else _BLACK
    ink = foreground.blend(far, 0.35)
    grounds = [ground(background, hue, 0.7 if dark else 0.6, ink) for hue in hues]
    colors |= {f"hue-{number}": color for number, color in enumerate(grounds)}
    colors |= {f"tone-{number}": readable(hue, background) for number, hue in enumerate(hues)}
    beside = [ground(background, hue, 0.4 if dark else 0.3, ink) for hue in hues]
    colors |= {f"hue-odd-{number}": color for number, color in enumerate(beside)}
    colors["ink"] = readable(ink, *grounds, *beside)
    trained = [ground(background, named["success"], share, ink) for share in (0.34, 0.22)]
    colors |= {"trained": trained[0], "trained-odd": trained[1], "trained-ink": readable(ink, *trained)}
    colors |= _pair("line", ground(background, named["primary"], 0.34, ink), ink)
    colors |= _pair("line-blurred", ground(background, foreground, 0.16, ink), ink)
    colors |= _pair("hit", named["text-success"], background)
    colors |= _pair("last-hit", named["text-warning"], background)
    colors |= _pair("marked", named["secondary"], background)
    colors |= _pair("odd", ground(background, named["text-warning"], 0.25, ink), named["text-warning"])
    colors |= _pair("bad", ground(background, named["error"], 0.3, ink), named["text-error"])
    return {name: color.hex for name, color in colors.items()}


def _pair(name: str, below: Color, text: Color) -> dict[str, Color]:
    """Return a ground and the text on it."""
    return {name: below, f"{name}-ink": readable(text, below)}


DEFAULTS = {
    "quiet": "ansi_default",
    "primary-ink": "ansi_default",
    "ink": "ansi_default",
    **{f"hue-{number}": "ansi_bright_black" if number % 2 else "transparent" for number in range(len(HUES))},
    **{f"hue-odd-{number}": "transparent" for number in range(len(HUES))},
    **{
        f"tone-{number}": color
        for number, color in enumerate(
            ("ansi_magenta", "ansi_blue", "ansi_cyan", "ansi_green", "ansi_yellow", "ansi_red")
        )
    },
    "trained": "ansi_green",
    "trained-odd": "ansi_green",
    "trained-ink": "ansi_black",
    "line": "ansi_blue",
    "line-ink": "ansi_white",
    "line-blurred": "ansi_bright_black",
    "line-blurred-ink": "ansi_white",
    "hit": "ansi_green",
    "hit-ink": "ansi_black",
    "last-hit": "ansi_yellow",
    "last-hit-ink": "ansi_black",
    "marked": "ansi_magenta",
    "marked-ink": "ansi_black",
    "odd": "ansi_yellow",
    "odd-ink": "ansi_black",
    "bad": "ansi_red",
    "bad-ink": "ansi_white",
}
"""The variables for a theme whose colors are those of the terminal, of which nothing is known."""
