"""What to look for in a dataset, in words: the same for `tokfmt show` and for the browser.

`token:50256`           sequences that hold an id
`token:464,3290`        ... that hold a run of ids, one right after the other
`text:'foo.*bar'`       ... whose text matches a regular expression; quotes may be left out; flags: (?i) and the like
`len>4096`              ... by length; also len<=10, len==0, 10<len<20, 1Ki<=len<2Ki
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokfmt.core.errors import OptionError
from tokfmt.core.options import nearest, parse_count

_KINDS = ("token", "text", "len")
_HOW = "write token:50256, token:464,3290, text:'some words', len>4096 or 10<len<20"
_NUMBER = r"-?\s*[\d][\d_.,]*(?:[eE]\+?\d+)?\s*[kKmMgGtT]?i?"
_SIGN = r"<=|>=|==|=|<|>"
_LENGTH = re.compile(
    rf"\s*(?:(?P<low>{_NUMBER})\s*(?P<first>{_SIGN})\s*)?(?P<word>[a-zA-Z]+)\s*"
    rf"(?:(?P<second>{_SIGN})\s*(?P<high>{_NUMBER})\s*)?"
)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "==": "="}
_SPECIAL = frozenset(r".^$*+?{}[]\|()")


@dataclass(frozen=True, slots=True)
class TokenQuery:
    """A run of ids.

    Attributes:
        ids: At least one.
    """

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A regular expression on the text of a sequence.

    Attributes:
        pattern: Compiled, for str.
        literal: What it matches when it has no special character, else None.
    """

    pattern: re.Pattern[str]
    literal: str | None


@dataclass(frozen=True, slots=True)
class LengthQuery:
    """Lengths of sequences.

    Attributes:
        low: At least so many tokens (characters, for text that nobody tokenised).
        high: At most so many; None for no bound.
    """

    low: int
    high: int | None


Query = TokenQuery | TextQuery | LengthQuery


def parse_query(text: str) -> Query:
    """A query from its words; see the module.

    Raises:
        OptionError: It is none; names what may have been meant.
    """
    word, colon, rest = text.partition(":")
    kind = word.strip().lower()
    if colon and kind == "token":
        return TokenQuery(_ids(rest))
    if colon and kind == "text":
        return _text(rest)
    match = _LENGTH.fullmatch(text)
    if match and (match["first"] or match["second"]):
        if match["word"].lower() == "len":
            return _length(text, match)
        kind = match["word"]
    elif not colon:
        raise OptionError(f"{text!r} is no query; {_HOW}", name=text, nearest=_meant(kind))
    raise OptionError(f"{text!r}: there is no query {kind!r}; {_HOW}", name=text, nearest=_meant(kind))


def is_query(text: str) -> bool:
    """Whether a word is meant as a query, not as sequence numbers (`5`, `0:10`, `-3:`): it has letters of its own."""
    return not re.fullmatch(rf"(?:\s*(?:{_NUMBER})?\s*:?){{1,2}}", text)


def _meant(kind: str) -> str | None:
    known = {"length": "len", "tokens": "token", "id": "token", "ids": "token", "regex": "text", "re": "text"}
    return known.get(kind.lower()) or nearest(kind, _KINDS)


def _ids(rest: str) -> tuple[int, ...]:
    try:
        ids = tuple(parse_count(part) for part in re.split(r"[,\s]+", rest.strip()))
    except OptionError:
        raise OptionError(f"token:{rest}: expected ids such as token:50256 or token:464,3290", name="token") from None
    if min(ids) < 0:
        raise OptionError(f"token:{rest}: a token id is not negative", name="token")
    return ids


def _text(rest: str) -> TextQuery:
    quoted = len(rest) >= 2 and rest[0] == rest[-1] and rest[0] in "'\""
    words = rest[1:-1] if quoted else rest
    if not words:
        raise OptionError("text: needs something to look for, such as text:'some words'", name="text")
    try:
        pattern = re.compile(words)
    except (re.error, OverflowError, RecursionError) as error:
        raise OptionError(f"text:{rest}: not a regular expression: {error}", name="text") from None
    return TextQuery(pattern, None if _SPECIAL & set(words) else words)


def _length(text: str, match: re.Match[str]) -> LengthQuery:
    low, high = 0, None
    limits = [(match["second"], match["high"]), (_MIRRORED.get(match["first"] or ""), match["low"])]
    for sign, number in limits:
        if sign is None:
            continue
        count = parse_count(number)
        if sign[0] in ">=":
            low = max(low, count + (sign == ">"))
        if sign[0] in "<=":
            top = count - (sign == "<")
            high = top if high is None else min(high, top)
    if high is not None and (high < 0 or low > high):
        raise OptionError(f"{text!r}: no sequence has such a length", name="len")
    return LengthQuery(low, high)
