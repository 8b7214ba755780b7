"""Queries: what to search a dataset for, in words, and what is found. The same for `tokfmt show` and for the browser.

`token:50256`           sequences that hold an id
`token:464,3290`        ... that hold a run of ids, one right after the other
`text:'foo.*bar'`       ... whose text matches a regular expression; quotes may be left out; flags: (?i) and the like
`len>4096`              ... by length; also len<=10, len==0, 10<len<20, 1Ki<=len<2Ki
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import OptionError
from tokfmt.core.options import nearest, parse_count
from tokfmt.core.reader import TokenReader, windows

if TYPE_CHECKING:
    import regex

_KINDS = ("token", "text", "len")
_HOW = "write token:50256, token:464,3290, text:'some words', len>4096 or 10<len<20"
_NUMBER = r"-?\s*[\d][\d_.,]*(?:[eE]\+?\d+)?\s*[kKmMgGtT]?i?"
_SIGN = r"<=|>=|==|=|<|>"
_LENGTH = re.compile(
    rf"\s*(?:(?P<low>{_NUMBER})\s*(?P<first>{_SIGN})\s*)?(?P<word>[a-zA-Z]+)\s*"
    rf"(?:(?P<second>{_SIGN})\s*(?P<high>{_NUMBER})\s*)?"
)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "==": "="}
_PER_SECOND = 1_000_000  # characters; any pattern that ends looks at more
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
        pattern: Compiled, for str. Of the `regex` module: unlike `re` it lets other threads run, and can be called off.
        literal: What it matches when it has no special character, else None.
    """

    pattern: regex.Pattern[str]
    literal: str | None

    def spans(self, text: str, start: int = 0, patience: float | None = None) -> Iterator[tuple[int, int]]:
        """Where the matches in a text are, from a character on, left to right.

        Args:
            patience: Seconds, and as many as the text is long, after which the pattern is given up; None for ever.

        Raises:
            OptionError: It was.
        """
        timeout = None if patience is None else patience + len(text) / _PER_SECOND
        try:
            for match in self.pattern.finditer(text, start, timeout=timeout):
                yield match.span()
        except TimeoutError:
            raise OptionError(
                f"text:{self.pattern.pattern}: no end after {timeout:.0f} s in {len(text):,} characters. A repeat "
                "within a repeat, as in (a+)+, may try for ever: write it otherwise",
                name="text",
            ) from None


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
    import regex  # takes longer than looking for a literal

    try:
        pattern = regex.compile(words)
    except (regex.error, OverflowError, RecursionError) as error:
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


@dataclass(frozen=True, slots=True)
class Hit:
    """One place that was found.

    Attributes:
        sequence: Its number.
        start, stop: Token positions on the axis (not within the sequence). For a query of lengths, all of the sequence.
            For records of text: characters within the record.
    """

    sequence: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Hits side by side, in the order in which they were found: the columns of `Hit`, int64[hits]."""

    sequences: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @staticmethod
    def of(hits: Iterable[Hit]) -> Hits:
        """From single ones."""
        rows = np.array([(hit.sequence, hit.start, hit.stop) for hit in hits], np.int64).reshape(-1, 3)
        return Hits(rows[:, 0], rows[:, 1], rows[:, 2])

    def __len__(self) -> int:
        return len(self.sequences)

    def __iter__(self) -> Iterator[Hit]:
        return map(Hit, self.sequences.tolist(), self.starts.tolist(), self.stops.tolist())


def never() -> bool:
    """Nobody stops the search."""
    return False


def unwatched(amount: int) -> None:
    """Nobody watches the search."""


@dataclass(frozen=True, slots=True)
class Search:
    """How to search.

    Attributes:
        each: Only the first hit of each sequence (the last one when going backwards).
        backwards: From the end to the beginning; hits come in that order.
        stopped: Asked between windows; the search ends when it says yes.
        progress: Told how many more tokens (sequences, for lengths; bytes, for records) were looked at.
        patience: Seconds for a regular expression in one text, see `TextQuery.spans`; None for ever.
    """

    each: bool = False
    backwards: bool = False
    stopped: Callable[[], bool] = never
    progress: Callable[[int], None] = unwatched
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive sequences of a reader beneath a view, and what to add to come back to the view.

    Attributes:
        reader: The reader beneath.
        first, last: Sequence numbers in it.
        sequence, token: What numbers and positions above are larger by.
    """

    reader: TokenReader
    first: int
    last: int
    sequence: int = 0
    token: int = 0


def stretches(first: int, last: int, size: int, *, backwards: bool) -> Iterator[tuple[int, int]]:
    """Cut an interval into consecutive pieces of at most `size`, from either end."""
    if not backwards:
        yield from windows(first, last, size)
        return
    for b in range(last, first, -size):
        yield max(first, b - size), b
