"""The rules of a filter, as a recipe states them; `text.filters` applies them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tokfmt.base.options import option


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRules:
    """The rules of a `[filter.NAME]` table; a rule that is None does not apply.

    Each rule on text is a method of `_Characters` and of `_Long` in `text/filters.py`, for short and for long texts.
    """

    min_words: int | None = option(None, minimum=0)
    min_chars: int | None = option(None, minimum=0)
    max_symbol_ratio: float | None = option(None, minimum=0)
    max_char_repetition: float | None = option(None, minimum=0)
    min_word_diversity: float | None = option(None, minimum=0)
    max_word_share: float | None = option(None, minimum=0)
    min_tokens: int | None = option(None, minimum=0)
    max_tokens: int | None = option(None, minimum=0)

    @property
    def is_on_tokens(self) -> bool:
        """True if it has rules on the number of tokens alone, which token IDs can be judged by."""
        return all(getattr(self, one.name) is None or one.name in TOKEN_RULES for one in fields(self))


TOKEN_RULES = ("min_tokens", "max_tokens")
"""The rules on the number of tokens, without separators."""
