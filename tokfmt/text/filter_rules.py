"""The rules of a filter on text, as a recipe states them; `text.filters` applies them."""

from __future__ import annotations

from dataclasses import dataclass

from tokfmt.base.options import option


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRules:
    """The rules of a `[filter.NAME]` table on text; a rule that is None does not apply.

    Each rule is a method of `_Characters` and one of `_Long` in `text/filters.py`, for short and for long texts.
    """

    min_words: int | None = option(None, minimum=0)
    min_chars: int | None = option(None, minimum=0)
    max_symbol_ratio: float | None = option(None, minimum=0)
    max_char_repetition: float | None = option(None, minimum=0)
    min_word_diversity: float | None = option(None, minimum=0)
    max_word_share: float | None = option(None, minimum=0)
