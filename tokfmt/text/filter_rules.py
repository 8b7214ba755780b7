"""The rules of a filter, as a recipe states them; `text.filters` applies them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tokfmt.base.options import fit, hints_of, nearest, option, parse_count
from tokfmt.errors import OptionError
from tokfmt.files.place import PlaceLike
from tokfmt.wording import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tokfmt.core.ragged import Ragged


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapRules:
    """Evals, and what counts as overlap with them: `{ with = [...], ngram = 13, by = "words", field = [...] }`."""

    evals: tuple[PlaceLike, ...]
    ngram: int = option(13, minimum=1, maximum=255)  # words or tokens in a row
    by: Literal["words", "tokens"] = "words"
    # fields of the text of evals, as "question,answer": for all, or for each (default: as for any dataset)
    field: tuple[str, ...] = ()

    @staticmethod
    def of(given: object, name: str = "without") -> OverlapRules:
        """Return the rules of a table, or those with the defaults for paths of evals."""
        table = dict(given) if isinstance(given, Mapping) else {"with": given}
        paths = table.pop("with", None)
        evals = tuple(paths) if isinstance(paths, Iterable) and not isinstance(paths, str) else (paths,)
        if not evals or not all(map(_is_path, evals)):
            raise OptionError(f"{name}: names no evals. Give files or datasets of evals", name=name)
        known = {key.name: key for key in fields(OverlapRules) if key.name != "evals"}
        kinds, values = hints_of(OverlapRules), dict[str, Any]()
        for key, value in table.items():
            if key not in known:
                listed = f"(expected with, {', '.join(known)})"
                raise OptionError(f"{name} has no key {key!r} {listed}", nearest=nearest(str(key), known))
            value = parse_count(value) if key == "ngram" and isinstance(value, str) else value  # noqa: PLW2901
            values[key] = fit(f"{name}: {key}", value, kinds[key], known[key].metadata)
        rules = OverlapRules(evals=evals, **values)
        if len(rules.field) > 1 and len(rules.field) != len(evals):
            found = f"{len(rules.field)} for {counted(len(evals), 'eval')}"
            raise OptionError(f"{name}: field is given once, or once for each eval in their order (found {found})")
        return rules

    def in_toml(self, written: Callable[[Any], str]) -> str:
        """Return the rules as an inline table; `written` writes one value."""
        keys = {"with": tuple(map(str, self.evals)), "ngram": self.ngram, "by": self.by, "field": self.field}
        return f"{{ {', '.join(f'{key} = {written(value)}' for key, value in keys.items() if value)} }}"


class DocumentMatcher(Protocol):
    """What finds the documents that break a rule `without`."""

    def in_texts(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return for each text whether it breaks the rule, if the rule compares words."""

    def in_ids(self, ids: Ragged) -> NDArray[np.bool_]:
        """Return for each sequence of token IDs whether it breaks the rule."""


def _is_path(value: object) -> bool:
    return bool(value) and (isinstance(value, str) or hasattr(value, "__fspath__") or hasattr(value, "is_local"))


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
    without: OverlapRules | None = None

    @property
    def is_on_tokens(self) -> bool:
        """True if it has only rules that token IDs can be judged by: on the number of tokens, and on overlap."""
        return all(getattr(self, one.name) is None or one.name in (*TOKEN_RULES, "without") for one in fields(self))


TOKEN_RULES = ("min_tokens", "max_tokens")
"""The rules on the number of tokens, without separators."""
