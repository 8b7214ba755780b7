"""Long texts that are short: pieces of 8,192 characters, and at most 131,072 without a cut."""

import pytest

from tokfmt.text import long_texts


@pytest.fixture
def piece(monkeypatch):
    """Characters of a piece; what cannot be cut is accepted up to 16 times as many."""
    monkeypatch.setattr(long_texts, "PIECE", 1 << 13)
    monkeypatch.setattr(long_texts, "LONGEST", 1 << 17)
    return 1 << 13
