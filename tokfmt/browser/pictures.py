"""Pictures of the screen: the SVG of Rich, without fonts of the network, and with each character in its column."""

from __future__ import annotations

import html
import re

from rich.cells import cell_len

from tokfmt.browser.widths import PAD

_FONTS = re.compile(r"@font-face\s*\{[^}]*\}\s*")
_RUN = re.compile(r'textLength="([\d.]+)"([^>]*)>([^<]+)<')


def corrected(drawn: str) -> str:
    """Return a picture of Rich that shows the same columns as the terminal.

    Rich names fonts that a viewer would fetch from the network. It also states the length of a run of text by the
    number of its characters, so that ideographs are pressed together, and a vowel sign pushes what follows it away.
    """
    return _RUN.sub(_in_cells, _FONTS.sub("", drawn)).replace(PAD, "&#160;")


def _in_cells(run: re.Match[str]) -> str:
    text = html.unescape(run[3])
    if text.isascii():
        return run[0]
    length = float(run[1]) / len(text) * cell_len(text)
    return f'textLength="{length:.6g}"{run[2]}>{run[3]}<'
