"""Tokenizers to choose from."""

from __future__ import annotations

import os

from tokfmt.browser.data.session import Choice, Session
from tokfmt.browser.data.state import tokenizers_of_all

NONE = "none"
"""The word for no tokenizer."""


def known_tokenizers(session: Session) -> list[Choice]:
    """Return the tokenizers to choose from: the one in use, and those of other datasets, the last used first."""
    used = [] if session.choice is None else [session.choice]
    found = {_place(one.name): one for one in used}
    for name in tokenizers_of_all():
        found.setdefault(_place(name), Choice(name, "used before"))
    return list(found.values())


def _place(name: str) -> str:
    """Return the path of a tokenizer that is a file or a directory here, else its name."""
    return os.path.realpath(name) if os.path.exists(name) else name
