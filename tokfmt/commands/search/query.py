"""The queries of `tokfmt show` and the browser, and their hits.

`token:50256`       sequences that hold an ID
`token:464,3290`    sequences that hold a run of consecutive IDs
`text:'f(x) = 1'`   sequences whose text holds these characters; quotes are optional
`regex:'f.*1'`      sequences whose text matches a regular expression; quotes are optional; flags as in (?i)
`first:464`         sequences that begin with an ID, or one of several: first:464,13
`last:0`            sequences that end with an ID, or one of several
`len>4096`          sequences by length; also length>4096, len<=10, len==0, 10<len<20, 1Ki<=len<2Ki
`padding>0`         samples by their number of padding positions
`masked>0`          samples by their number of positions that do not count in the loss
`b/t<1.4`           sequences by the bytes of text per token, of those that are not empty; also 1.4<b/t<=5
`any:464,3290`      sequences that hold at least one of several IDs; also ranges, any:1000:1400,50257:
`id>=50257`         sequences that hold an ID of a range; also id==7, 10<id<20
`same:17`           sequences with the same tokens as sequence 17; also same:17,42
`seq:3,17,20:30`    sequences by their numbers; a range ends before its second number; also 3,17,20:30
`not len>4096`      the sequences that a query does not find; also not 5, not 0:10
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import nearest, parse_count
from tokfmt.core.reader import TokenReader, windows
from tokfmt.errors import OptionError

if TYPE_CHECKING:
    import regex

_KINDS = ("token", "text", "regex", "len", "padding", "masked", "b/t", "any", "id", "first", "last", "same", "seq")
_LENGTH_WORDS = ("len", "length")
_HOW = "write token:50256, token:464,3290, text:'some words', len>4096, 10<len<20 or not len>4096"
_NUMBER = r"-?\s*[\d][\d_.,]*(?:[eE]\+?\d+)?\s*[kKmMgGtT]?i?"
_SIGN = r"<=|>=|==|=|<|>"
_LENGTH = re.compile(
    rf"\s*(?:(?P<low>{_NUMBER})\s*(?P<first>{_SIGN})\s*)?(?P<word>[a-zA-Z]+(?:/[a-zA-Z]+)?)\s*"
    rf"(?:(?P<second>{_SIGN})\s*(?P<high>{_NUMBER})\s*)?"
)
_LIST = re.compile(r"[\d_:\s]*\d\s*,[\d_:,\s]*")
_NOT = re.compile(r"\s*not\b\s*(.*)", re.IGNORECASE | re.DOTALL)
_GROUPED = re.compile(r"\s*(?:\d{1,3}(?:,\d{3})+|\d*)(?:\s*:\s*(?:\d{1,3}(?:,\d{3})+|\d*))?\s*")
LARGEST = (1 << 64) - 1
"""The largest ID that a dataset can hold."""

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "==": "="}
_PER_SECOND = 1_000_000  # characters; every pattern without excessive backtracking is faster


@dataclass(frozen=True, slots=True)
class TokenQuery:
    """A query for a run of consecutive IDs."""

    whole: ClassVar[bool] = False
    ids: tuple[int, ...]  # at least one


@dataclass(frozen=True, slots=True)
class AnyQuery:
    """A query for single tokens with one of several IDs."""

    whole: ClassVar[bool] = False
    spans: tuple[tuple[int, int], ...]  # intervals (lowest, highest), ascending; no two of them touch


@dataclass(frozen=True, slots=True)
class EndQuery:
    """A query for sequences by their first or last token."""

    whole: ClassVar[bool] = False
    ids: tuple[int, ...]  # at least one
    is_last: bool  # of the sequence, not the first


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A query for characters, or a regular expression, in the text of a sequence."""

    whole: ClassVar[bool] = False
    pattern: regex.Pattern[str]  # the `regex` module, unlike `re`, releases the GIL and has a timeout
    literal: str | None  # the characters that the pattern matches; None for a regular expression

    def spans(self, text: str, start: int = 0, patience: float | None = None) -> Iterator[tuple[int, int]]:
        """Yield matches from left to right, as (first character, end); `patience` is in seconds."""
        timeout = None if patience is None else patience + len(text) / _PER_SECOND
        try:
            for match in self.pattern.finditer(text, start, timeout=timeout):
                yield match.span()
        except TimeoutError:
            raise OptionError(
                f"regex:{self.pattern.pattern}: no end after {timeout:.0f} s in {len(text):,} characters. Rewrite the "
                "pattern: a repeat within a repeat, as in (a+)+, may run forever",
                name="regex",
            ) from None


@dataclass(frozen=True, slots=True)
class LengthQuery:
    """A query for sequences by length."""

    whole: ClassVar[bool] = True
    low: int  # in tokens; in characters if the text is not tokenized
    high: int | None


@dataclass(frozen=True, slots=True)
class UnusedQuery:
    """A query for samples by the number of positions that are not trained on."""

    whole: ClassVar[bool] = True
    masked: bool  # positions whose label does not count in the loss; else the padding at the end
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class DensityQuery:
    """A query for sequences by the bytes of text per token."""

    whole: ClassVar[bool] = True
    low: float
    high: float | None


@dataclass(frozen=True, slots=True)
class SameQuery:
    """A query for sequences with the same content as others; these are found too."""

    whole: ClassVar[bool] = True
    numbers: tuple[int, ...]  # of the others, at least one, ascending


@dataclass(frozen=True, slots=True)
class NumberQuery:
    """A query for sequences by their numbers. Numbers beyond the last sequence are ignored."""

    whole: ClassVar[bool] = True
    spans: tuple[tuple[int, int], ...]  # intervals (first, last + 1), ascending; no two of them touch

    def between(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the intervals cut to the numbers `first <= i < last`."""
        cut = [(max(a, first), min(b, last)) for a, b in self.spans]
        return [(a, b) for a, b in cut if a < b]

    def moved(self, by: int) -> NumberQuery:
        """Return the query for numbers that `by` is added to."""
        return NumberQuery(tuple((a + by, b + by) for a, b in self.spans))


PlainQuery = (
    TokenQuery | AnyQuery | EndQuery | TextQuery | LengthQuery | UnusedQuery | DensityQuery | SameQuery | NumberQuery
)
"""A query without `not`."""


@dataclass(frozen=True, slots=True)
class NotQuery:
    """A query for the sequences that another query does not find."""

    whole: ClassVar[bool] = True
    negated: PlainQuery


Query = PlainQuery | NotQuery
"""A query. If its attribute `whole` is true, a hit is a complete sequence."""


T = TypeVar("T")


def affirmed(query: T | NotQuery) -> T | PlainQuery:
    """Return a query without its `not`."""
    return query.negated if isinstance(query, NotQuery) else query


def needs_tokenizer(query: object) -> bool:
    """Return whether a query is about the text of token IDs."""
    return isinstance(affirmed(query), (TextQuery, DensityQuery))


def _negation(query: Query) -> Query:
    if isinstance(query, NotQuery):
        return query.negated
    if not isinstance(query, NumberQuery):
        return NotQuery(query)
    ends = [0, *(number for span in query.spans for number in span), LARGEST]
    return NumberQuery(tuple((a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if a < b))


def _instead(text: str) -> str:
    """Return the remedy for words that are not a query."""
    if text.lower() == "dup":
        return 'tokfmt show takes it, without "not"; in a recipe, dedup = "exact" leaves out what is equal'
    return f"write 'text:{text}' to find these words"


def parse_query(text: str) -> Query:
    """Return the query that a text such as `token:50256` states; the syntax is in the docstring of the module."""
    if negation := _NOT.fullmatch(text):
        return _negation(parse_query(negation[1] if is_query(negation[1]) else f"seq:{negation[1]}"))
    word, colon, rest = text.partition(":")
    kind = word.strip().lower()
    if _LIST.fullmatch(text):
        _refuse_grouped(text)
        return _READ["seq"](text)
    if colon and kind in _READ:
        return _READ[kind](rest)
    match = _LENGTH.fullmatch(text)
    if match and (match["first"] or match["second"]):
        kind = match["word"].lower()
        if kind in _LENGTH_WORDS:
            return LengthQuery(*_limits(text, match, "no sequence has such a length"))
        if kind in ("padding", "masked"):
            return UnusedQuery(kind == "masked", *_limits(text, match, "no sample has such a number"))
        if kind == "b/t":
            return DensityQuery(*_limits(text, match, "no sequence has so many", _decimal, _next_float))
        if kind == "id":
            low, high = _limits(text, match, "there is no such ID")
            return AnyQuery(((low, LARGEST if high is None else high),))
        kind = match["word"]
    elif not colon:
        near = _meant(kind)
        how = _instead(text.strip()) if near is None and kind else _HOW
        raise OptionError(f"{text!r} is not a query; {how}", name=text, nearest=near)
    raise OptionError(f"{text!r}: there is no query {kind!r}; {_HOW}", name=text, nearest=_meant(kind))


def _refuse_grouped(text: str) -> None:
    """Refuse `1,234`, which is the number 1234 or the list 1 and 234."""
    if _GROUPED.fullmatch(text):
        plain = text.replace(",", "")
        raise OptionError(f"{text.strip()}: is one number or several. Write {plain.strip()} or seq:{text.strip()}")


def is_query(text: str) -> bool:
    """Return True if a text is a query, and not sequence numbers such as `5`, `0:10` or `-3:`."""
    return _LIST.fullmatch(text) is not None or not re.fullmatch(rf"(?:\s*(?:{_NUMBER})?\s*:?){{1,2}}", text)


def _meant(kind: str) -> str | None:
    spellings = {"tokens": "token", "ids": "any", "regexp": "regex", "re": "regex", "sequence": "seq"}
    return spellings.get(kind.lower()) or nearest(kind, _KINDS)


def _numbers(rest: str, kind: str, unit: str) -> tuple[int, ...]:
    try:
        numbers = tuple(parse_count(part) for part in re.split(r"[,\s]+", rest.strip()))
    except OptionError:
        examples = f"such as {kind}:50256 or {kind}:464,3290"
        raise OptionError(f"{kind}:{rest}: expected {unit}s {examples}", name=kind) from None
    if min(numbers) < 0:
        raise OptionError(f"{kind}:{rest}: {unit}s are not negative", name=kind)
    return numbers


def _any(rest: str) -> AnyQuery:
    spans = _spans(rest, "any", "IDs such as any:464,3290 or any:464,1000:1400,50257:", LARGEST + 1)
    return AnyQuery(tuple((low, end - 1) for low, end in spans))


def _spans(rest: str, kind: str, unit: str, end: int | None = None) -> tuple[tuple[int, int], ...]:
    """Return numbers and ranges `A:B` as intervals (first, last + 1); with `end`, `A:` is the range up to it."""
    spans = []
    for part in re.split(r"[,\s]+", rest.strip()):
        first, colon, last = part.partition(":")
        try:
            low = parse_count(first)
            high = low + 1 if not colon else end if end is not None and not last else parse_count(last)
        except OptionError:
            raise OptionError(f"{kind}:{rest}: expected {unit}", name=kind) from None
        if not 0 <= low < high:
            raise OptionError(f"{kind}:{rest}: {part} holds no number (expected A:B with 0 <= A < B)", name=kind)
        spans.append((low, high))
    return _joined(spans)


def _joined(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return intervals (first, last + 1) ascending, and those that touch as one."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def _words(rest: str, kind: str) -> str:
    quoted = len(rest) >= 2 and rest[0] == rest[-1] and rest[0] in "'\""
    words = rest[1:-1] if quoted else rest
    if not words:
        raise OptionError(f"{kind}: needs something to look for, such as {kind}:'some words'", name=kind)
    return words


def _text(rest: str) -> TextQuery:
    import regex  # the import takes longer than a search for a literal

    words = _words(rest, "text")
    return TextQuery(regex.compile(regex.escape(words, literal_spaces=True)), words)


def _regex(rest: str) -> TextQuery:
    import regex

    try:
        return TextQuery(regex.compile(_words(rest, "regex")), None)
    except (regex.error, OverflowError, RecursionError) as error:
        raise OptionError(f"regex:{rest}: not a regular expression: {error}", name="regex") from None


N = TypeVar("N", int, float)


def _limits(
    text: str,
    match: re.Match[str],
    nothing: str,
    parse: Callable[[str], N] = parse_count,
    beside: Callable[[N, int], N] = operator.add,
) -> tuple[N, N | None]:
    """Return the limits that a text states, both included; `beside` returns the next number above or below one."""
    low, high = parse("0"), None
    limits = [(match["second"], match["high"]), (_MIRRORED.get(match["first"] or ""), match["low"])]
    for sign, number in limits:
        if sign is None:
            continue
        count = parse(number)
        if sign[0] in ">=":
            low = max(low, beside(count, 1) if sign == ">" else count)
        if sign[0] in "<=":
            top = beside(count, -1) if sign == "<" else count
            high = top if high is None else min(high, top)
    if high is not None and (high < 0 or low > high):
        raise OptionError(f"{text!r}: {nothing}", name=match["word"].lower())
    return low, high


def _decimal(number: str) -> float:
    try:
        return float(number.replace("_", ""))
    except ValueError:
        raise OptionError(f"b/t: {number.strip()} is not a number such as 1.4", name="b/t") from None


def _next_float(number: float, step: int) -> float:
    return math.nextafter(number, step * math.inf)


_READ: Mapping[str, Callable[[str], Query]] = {
    "token": lambda rest: TokenQuery(_numbers(rest, "token", "ID")),
    "any": _any,
    "first": lambda rest: EndQuery(_numbers(rest, "first", "ID"), is_last=False),
    "last": lambda rest: EndQuery(_numbers(rest, "last", "ID"), is_last=True),
    "text": _text,
    "regex": _regex,
    "same": lambda rest: SameQuery(tuple(sorted(set(_numbers(rest, "same", "number"))))),
    "seq": lambda rest: NumberQuery(_spans(rest, "seq", "numbers such as seq:5 or seq:3,17,20:30")),
}


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit of a search."""

    sequence: int
    start: int  # on the token axis, not within the sequence; characters within a record of text
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Many hits in the order in which they were found: the columns of `Hit`, int64[hits] each."""

    sequences: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @staticmethod
    def of(hits: Iterable[Hit]) -> Hits:
        """Return single hits as columns."""
        rows = np.array([(hit.sequence, hit.start, hit.stop) for hit in hits], np.int64).reshape(-1, 3)
        return Hits(rows[:, 0], rows[:, 1], rows[:, 2])

    def __len__(self) -> int:
        return len(self.sequences)

    def __iter__(self) -> Iterator[Hit]:
        return map(Hit, self.sequences.tolist(), self.starts.tolist(), self.stops.tolist())


def never() -> bool:
    """Return False: the search is not stopped."""
    return False


def unwatched(amount: int) -> None:
    """Discard the progress of a search."""


@dataclass(frozen=True, slots=True)
class Search:
    """The options of a search."""

    each: bool = False  # only the first hit of each sequence (the last one backwards)
    backwards: bool = False  # search from the end to the beginning, and return hits in that order
    stopped: Callable[[], bool] = never  # asked between windows; True ends the search
    # gets the tokens since the last call (sequences for a query by length, bytes for records)
    progress: Callable[[int], None] = unwatched
    patience: float | None = None  # seconds for a regular expression in one text; None: no timeout


@dataclass(frozen=True, slots=True)
class SearchPart:
    """Consecutive sequences of the reader under a view, and the shifts that lead back to the view."""

    reader: TokenReader  # under the view
    first: int  # of that reader
    last: int
    sequence: int = 0  # added to a sequence number of the reader, it gives that of the view
    token: int = 0  # added to a position of the reader, it gives that of the view


def stretches(first: int, last: int, size: int, *, backwards: bool) -> Iterator[tuple[int, int]]:
    """Cut an interval into consecutive pieces of at most `size`, from the start or, `backwards`, from the end."""
    if not backwards:
        yield from windows(first, last, size)
        return
    for b in range(last, first, -size):
        yield max(first, b - size), b
