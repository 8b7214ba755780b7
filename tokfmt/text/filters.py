"""Filter texts: rules that keep garbage out of a corpus.

A rule without a threshold does not apply. A value equal to its threshold passes. A rejected text is counted under the
first rule, in the order below, that it breaks.

    min_words             words, which are separated by white space; case is kept
    min_chars             code points
    max_symbol_ratio      symbols over letters, marks and numbers (Unicode's L, M, N); symbols are all other code points
                          except white space; infinite without any letter, mark or number
    max_char_repetition   share of the code points, without white space, in runs of one character that are longer than
                          4; 0 if all is white space
    min_word_diversity    distinct words over words, of the first 1,000; 1 without any word
    max_word_share        share of the most frequent word among the first 1,000; 0 without any word
    min_tokens            tokens, without separators; token IDs can be judged by these two and the last rule alone
    max_tokens            the same
    without               no n-gram of evals; see `text.ngrams`

White space is where `str.split` splits. For languages that write without spaces, set no word rules. Usual values are 50
words, 200 characters, 0.3, 0.2, 0.1 and 0.3. The rules are the four heuristics that the card of the stage-1 corpus
lists without numbers: length, symbols, repetition, diversity.

numpy judges texts in batches. It distinguishes words by their first bytes only, which can only underestimate the number
of distinct words and overestimate the most frequent one. A text that passes by these bounds passes exactly, and only
the other texts are split into words and counted.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.chats import said_in
from tokfmt.core.ragged import Ragged, offsets_of, true_at
from tokfmt.text.filter_rules import TOKEN_RULES, DocumentMatcher, FilterRules, OverlapRules

FIRST_WORDS = 1000
"""Number of words at the start of a text that `min_word_diversity` and `max_word_share` read."""
_LONG_RUN = 4
_BINS = 1 << 8
_BATCH = 1 << 19  # code points judged at once, so that the arrays stay in the processor's cache
_SPACE, _SYMBOL, WORD, _UNKNOWN = 0, 1, 2, 3
_BEHIND, _LOOKED_AHEAD = (
    b"\n" * 68,
    4,
)  # padding after the last text: whole numbers of 64 flags, and 4 bytes to look ahead
_SPREAD = np.uint8(37)  # multiplier that keeps letters distinct and spreads pairs of letters over all bins
_SPELLED = re.compile(r"\S+")
_LONG_RUNS = re.compile(rf"(\S)\1{{{_LONG_RUN},}}+")  # possessive, else each character of a run takes 90 bytes
_BEFORE = (np.uint64(1) << np.arange(64, dtype=np.uint64)) - np.uint64(
    1
)  # for each of 64 flags, the mask of those before

_SPACES = bytes(code for code in range(128) if chr(code).isspace())
_WORDS = bytes(code for code in range(128) if chr(code).isalnum())
_SYMBOLS = bytes(code for code in range(128) if code not in _SPACES + _WORDS)
_CODES = bytes.maketrans(_SPACES + _WORDS + _SYMBOLS, bytes(len(_SPACES)) + bytes(range(1, 129 - len(_SPACES))))
"""Codes of bytes: 0 for white space, then letters and numbers, then symbols. Bytes beyond ASCII are unchanged."""

Flags = NDArray[np.uint64]
"""One bit per byte of text, 64 per number, which takes an eighth of the time of booleans."""


_RULES = tuple(one.name for one in fields(FilterRules))

GARBAGE = FilterRules(
    min_words=50,
    min_chars=200,
    max_symbol_ratio=0.3,
    max_char_repetition=0.2,
    min_word_diversity=0.1,
    max_word_share=0.3,
)
"""The filter of `filter = "garbage"`, unless the recipe has a table of that name."""


class Rejection(NamedTuple):
    """The reason why a text is rejected."""

    rule: str  # the name of a field of `FilterRules`
    value: float  # of the text


ENTRY = np.dtype([("tokens", "<i4"), ("chars", "<i4"), ("rule", "<i4"), ("high", "<u8"), ("low", "<u8")])
"""The facts about a record before documents are drawn.

    tokens     number of tokens, 0 if the record is rejected
    chars      code points
    rule       number of the rule that it breaks (`FilterChain.rule`), or 0
    high, low  128-bit hash of the content, if equal documents are searched for
"""


@dataclass(frozen=True, slots=True)
class FilterChain:
    """Named filters that a text has to pass, in order."""

    filters: tuple[tuple[str, FilterRules], ...] = ()  # the name and the thresholds of each
    hashed: bool = False  # entries hold a hash
    matchers: Mapping[OverlapRules, DocumentMatcher] = field(default_factory=dict)  # of the rules `without`
    chats: bool = False  # texts are chats

    def entries(self, texts: Sequence[str]) -> NDArray[np.void]:
        """Return an entry for each text, with 0 tokens, as tokens are counted later: ENTRY[len(texts)]."""
        found = np.zeros(len(texts), ENTRY)
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        found["chars"] = lengths
        for number, (_, rules) in enumerate(self.filters):
            left = np.flatnonzero(found["rule"] == 0)
            for k, rejection in _broken([texts[k] for k in left.tolist()], lengths[left], rules).items():
                found["rule"][left[k]] = self._number(number, rejection.rule)
            if rules.without is not None and rules.without.by == "words":
                left = np.flatnonzero(found["rule"] == 0)
                some = [said_in(texts[k]) if self.chats else texts[k] for k in left.tolist()]
                found["rule"][left[self.matchers[rules.without].in_texts(some)]] = self._number(number, "without")
        if self.hashed:
            from xxhash import xxh3_128_digest

            digests = b"".join(xxh3_128_digest(text.encode("utf-8", "surrogatepass")) for text in texts)
            words = np.frombuffer(digests, "<u8").reshape(-1, 2)
            found["high"], found["low"] = words[:, 0], words[:, 1]
        return found

    def _number(self, which: int, rule: str) -> int:
        return which * len(_RULES) + _RULES.index(rule) + 1

    def judge_tokens(self, entries: NDArray[np.void], ids: Ragged, *, of_text: bool) -> None:
        """Write the lengths in tokens of entries that broke no rule to them, 0 for those that break one on tokens.

        The words of texts have been judged before.
        """
        entries["tokens"] = lengths = np.diff(ids.offsets)
        for number, (_, rules) in enumerate(self.filters):
            for name in TOKEN_RULES:
                if (limit := getattr(rules, name)) is not None:
                    broken = lengths < limit if name.startswith("min_") else lengths > limit
                    broken &= entries["rule"] == 0
                    entries["rule"][broken] = self._number(number, name)
            if rules.without is not None and not (of_text and rules.without.by == "words"):
                broken = self.matchers[rules.without].in_ids(ids) & (entries["rule"] == 0)
                entries["rule"][broken] = self._number(number, "without")
        entries["tokens"][entries["rule"] != 0] = 0

    def rule(self, number: int) -> tuple[str, str]:
        """Return the names of filter and rule by the number in an entry, from 1."""
        which, rule = divmod(number - 1, len(_RULES))
        return self.filters[which][0], _RULES[rule]


def value_of(text: str, rules: FilterRules, rule: str) -> float | None:
    """Return the value of a text under a rule that it breaks; None if the value is infinite."""
    (found,) = rejections([text], FilterRules(**{rule: getattr(rules, rule)}))
    return None if found is None or found.value == float("inf") else found.value


def rejections(texts: Sequence[str], rules: FilterRules) -> list[Rejection | None]:
    """Return the first rule that each text breaks, or None for a text that passes."""
    broken = _broken(texts, np.fromiter(map(len, texts), np.int64, len(texts)), rules)
    return [broken.get(k) for k in range(len(texts))]


def _broken(texts: Sequence[str], lengths: NDArray[np.int64], rules: FilterRules) -> dict[int, Rejection]:
    """Return the rejections by the index of the text."""
    found: dict[int, Rejection] = {}
    ends = np.flatnonzero(np.diff(np.cumsum(lengths) // _BATCH)) + 1
    ends = np.union1d(ends, np.flatnonzero(lengths[:-1] > _BATCH) + 1)  # a long text is judged alone
    for first, last in itertools.pairwise([0, *ends.tolist(), len(texts)]):
        rejected = _judge(texts[first:last], lengths[first:last], rules)
        found.update((first + k, rejection) for k, rejection in rejected.items())
    return found


def _judge(texts: Sequence[str], lengths: NDArray[np.int64], rules: FilterRules) -> dict[int, Rejection]:
    found: dict[int, Rejection] = {}
    if not texts:
        return found
    characters = _Long(texts[0]) if len(texts) == 1 and len(texts[0]) > _BATCH else _Characters(texts, lengths)
    for name in _RULES:
        limit = getattr(rules, name)
        if limit is None or name in (*TOKEN_RULES, "without"):
            continue
        values, exact = getattr(characters, name)()
        for k in np.flatnonzero(values < limit if name.startswith("min_") else values > limit).tolist():
            if k not in found:
                value = values[k].item() if exact is None else exact(k)
                if value < limit if name.startswith("min_") else value > limit:
                    found[k] = Rejection(name, value)
    return found


Values = tuple[NDArray[Any], Callable[[int], float] | None]
"""The value of each text under a rule, and None if the values are exact.

Else the values are bounds on the side that breaks the rule, and the function returns the exact value by index.
"""


class _Characters:
    """The characters of several texts, each followed by a newline, with their kinds. There is one method per rule.

    The texts are UTF-8 bytes mapped by `_CODES`. The kind of a character beyond ASCII is looked up at its first byte;
    its other bytes have the same kind and are not counted.
    """

    def __init__(self, texts: Sequence[str], lengths: NDArray[np.int64]) -> None:
        self._texts, self._lengths = texts, lengths
        try:
            each = [*map(str.encode, texts)]  # takes a third of the time of encoding the joined text
        except UnicodeEncodeError:
            each = [text.encode("utf-8", "surrogatepass") for text in texts]
        encoded = b"\n".join([*each, _BEHIND])
        self._at = offsets_of(np.fromiter(map(len, each), np.int64, len(each)) + 1)
        self._codes = np.frombuffer(encoded.translate(_CODES), np.uint8, (len(encoded) - _LOOKED_AHEAD) & ~63)
        word = self._codes - np.uint8(1) < len(_WORDS)
        self._beyond = true_at(self._codes >= 0xC0)  # first bytes of characters beyond ASCII
        if len(self._beyond):
            self._look_up(word)
        self._word, self._inside = _flags(word), _flags(self._codes != 0)

    def _look_up(self, word: NDArray[np.bool_]) -> None:
        self._points = characters_at(self._codes, self._beyond)
        kinds = kinds_of(self._points)
        word[self._beyond[kinds == WORD]] = True
        spaces = self._beyond[kinds == _SPACE]  # white space beyond ASCII has two or three bytes
        if len(spaces):
            self._codes, long = self._codes.copy(), spaces[self._codes[spaces] >= 0xE0]
            self._codes[np.concatenate((spaces, spaces + 1, long + 2))] = 0

    def min_words(self) -> Values:
        return self._words, None

    def min_chars(self) -> Values:
        return self._lengths, None

    def max_symbol_ratio(self) -> Values:
        words = self._counts(self._word)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(words > 0, (self._solid - words) / words, np.inf), None

    def max_char_repetition(self) -> Values:
        runs = np.diff(np.searchsorted(self._repeated, self._at))
        upper = np.minimum((_LONG_RUN + 1) * runs, self._solid)
        return upper / np.maximum(self._solid, 1), self._repetition

    def totals(self) -> tuple[int, int, int, int]:
        """Return the sums of characters but spaces, of letters and numbers, of words, and of runs of five."""
        sums = (self._solid, self._counts(self._word), self._words)
        solid, letters, words = (int(each.sum()) for each in sums)
        return solid, letters, words, len(self._repeated)

    def _repetition(self, k: int) -> float:
        return _in_long_runs(self._texts[k]) / int(self._solid[k])

    def min_word_diversity(self) -> Values:
        words = np.minimum(self._words, FIRST_WORDS)
        lower = np.where(words > 0, self._bins[0] / np.maximum(words, 1), 1.0)
        return lower, lambda k: len(set(_first_words(self._texts[k]))) / int(words[k]) if words[k] else 1.0

    def max_word_share(self) -> Values:
        words = np.minimum(self._words, FIRST_WORDS)
        upper = self._bins[1] / np.maximum(words, 1)
        return upper, lambda k: max(Counter(_first_words(self._texts[k])).values()) / int(words[k])

    def _counts(self, flags: Flags) -> NDArray[np.int64]:
        """Return the number of set flags in each text, from cumulative sums, as one call per text would be slow."""
        sums, whole = offsets_of(np.bitwise_count(flags)), self._at >> 6
        before: NDArray[np.int64] = sums[whole] + np.bitwise_count(flags[whole] & _BEFORE[self._at & 63])
        return np.diff(before)

    @functools.cached_property
    def _solid(self) -> NDArray[np.int64]:
        """The characters of each text that are not white space."""
        first = self._codes.view(np.int8) >= -64  # the first byte of each character; the others are 0x80 to 0xBF
        return self._counts(self._inside & _flags(first) if len(self._beyond) else self._inside)

    @functools.cached_property
    def _begins(self) -> Flags:
        """The flags of bytes at which a word begins."""
        behind = self._inside << np.uint64(1)
        behind[1:] |= self._inside[:-1] >> np.uint64(63)
        return self._inside & ~behind

    @functools.cached_property
    def _words(self) -> NDArray[np.int64]:
        """The number of words of each text."""
        return self._counts(self._begins)

    @functools.cached_property
    def _bins(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Bounds for the first words of each text: the fewest distinct words, and the most occurrences of one."""
        begins = np.unpackbits(self._begins.view(np.uint8), bitorder="little").view(np.bool_)
        mixed = self._codes * _SPREAD
        mixed[:-1] += self._codes[1:]  # 0 if the word ends
        if len(self._beyond):  # two bytes may be only one letter
            long = self._beyond[begins[self._beyond]]
            third = self._codes[long + 2]
            mixed[long] += third * _SPREAD
            mixed[long] += self._codes[long + 3] * (third > 0)
        bins, texts = mixed[np.flatnonzero(begins)], np.repeat(np.arange(len(self._texts)) * _BINS, self._words)
        if self._words.max(initial=0) > FIRST_WORDS:
            early = np.arange(len(bins)) - np.repeat(np.cumsum(self._words) - self._words, self._words) < FIRST_WORDS
            bins, texts = bins[early], texts[early]
        counts = np.bincount(texts + bins, minlength=len(self._texts) * _BINS).reshape(-1, _BINS)
        distinct = np.bitwise_count(np.packbits(counts > 0, axis=1)).sum(axis=1, dtype=np.int64)
        return distinct, counts.max(axis=1)

    @functools.cached_property
    def _repeated(self) -> NDArray[np.int64]:
        """The bytes at which five or more equal characters begin that are not white space."""
        found = _places(_five_alike(self._codes) & self._inside)  # five equal bytes in a row are ASCII
        if len(self._beyond):
            alike = _places(_five_alike(self._points))
            begins, width = self._beyond[alike], 2 + (self._points[alike] > 0x7FF) + (self._points[alike] > 0xFFFF)
            near = self._beyond[alike + _LONG_RUN] - begins == _LONG_RUN * width
            begins = begins[near & (self._codes[begins] > 0)]
            found = np.sort(np.append(found, begins)) if len(begins) else found
        return found


class _Long:
    """One text longer than a batch, judged in pieces, because the arrays take up to 25 bytes per character."""

    def __init__(self, text: str) -> None:
        self._text = text

    def min_words(self) -> Values:
        return np.array([self._sums[2]]), None

    def min_chars(self) -> Values:
        return np.array([len(self._text)]), None

    def max_symbol_ratio(self) -> Values:
        solid, letters, _, _ = self._sums
        return np.array([(solid - letters) / letters if letters else np.inf]), None

    def max_char_repetition(self) -> Values:
        solid, runs = self._sums[0], self._sums[3]
        return np.array([min((_LONG_RUN + 1) * runs, solid) / max(solid, 1)]), self._repetition

    def _repetition(self, _: int) -> float:
        return _in_long_runs(self._text) / self._sums[0]

    def min_word_diversity(self) -> Values:
        words = self._first.total()
        return np.array([len(self._first) / words if words else 1.0]), None

    def max_word_share(self) -> Values:
        words = self._first.total()
        return np.array([max(self._first.values()) / words if words else 0.0]), None

    @functools.cached_property
    def _first(self) -> Counter[str]:
        """The occurrences of each of the first words."""
        return Counter(found[0] for found in itertools.islice(_SPELLED.finditer(self._text), FIRST_WORDS))

    @functools.cached_property
    def _sums(self) -> tuple[int, int, int, int]:
        """The sums of `_Characters.totals`; the last one is an upper bound."""
        solid = letters = words = runs = 0
        for at in range(0, len(self._text), _BATCH):
            piece = self._text[at : at + _BATCH]
            one = _Characters([piece], np.array([len(piece)]))
            seen = one.totals()
            solid, letters, words, runs = solid + seen[0], letters + seen[1], words + seen[2], runs + seen[3]
            if at and not self._text[at - 1].isspace() and not piece[0].isspace():
                words, runs = words - 1, runs + _LONG_RUN  # a word continues across the cut, and a run may
        return solid, letters, words, runs


def _flags(mask: NDArray[np.bool_]) -> Flags:
    packed = np.packbits(mask, bitorder="little")
    packed.resize(-(-len(packed) // 8) * 8, refcheck=False)
    return packed.view(np.uint64)


def _places(flags: Flags) -> NDArray[np.int64]:
    """Return the indices of set flags, fast if few are set."""
    some = np.flatnonzero(flags)
    found = np.flatnonzero(np.unpackbits(flags[some].view(np.uint8), bitorder="little"))
    places: NDArray[np.int64] = some[found >> 6] * 64 + (found & 63)
    return places


def _five_alike(characters: NDArray[np.unsignedinteger]) -> Flags:
    """Return the flags of places at which five equal characters begin."""
    found = _flags(characters[1:] == characters[:-1])
    for step in (1, 2):
        ahead = found >> np.uint64(step)
        ahead[:-1] |= found[1:] << np.uint64(64 - step)
        found &= ahead
    return found


def _in_long_runs(text: str) -> int:
    """Return the number of characters in runs of more than four."""
    return sum(run.end() - run.start() for run in _LONG_RUNS.finditer(text))


def _first_words(text: str) -> list[str]:
    return text.split(None, FIRST_WORDS)[:FIRST_WORDS]


def _kind(character: str) -> int:
    if character.isspace():
        return _SPACE
    return WORD if unicodedata.category(character)[0] in "LMN" else _SYMBOL


def characters_at(codes: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the code points of UTF-8 characters of two to four bytes that begin at `at`."""
    first, *others = (codes[at + k].astype(np.uint32) for k in range(3))
    second, third = (other & 0x3F for other in others)
    found = np.where(first < 0xE0, (first & 0x1F) << 6 | second, (first & 0x0F) << 12 | second << 6 | third)
    long = np.flatnonzero(first >= 0xF0)
    found[long] = (first[long] & 0x07) << 18 | second[long] << 12 | third[long] << 6 | codes[at[long] + 3] & 0x3F
    return found


def kinds_of(codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return the kinds of code points: _SPACE, _SYMBOL or WORD."""
    known = _known_kinds()
    kinds = known[codes]
    new = codes[kinds == _UNKNOWN]
    if len(new):
        for code in np.unique(new).tolist():
            known[code] = _kind(chr(code))
        kinds = known[codes]
    return kinds


@functools.cache
def _known_kinds() -> NDArray[np.uint8]:
    """Return the table of kinds of all code points; _UNKNOWN for those not yet seen in this process."""
    return np.full(sys.maxunicode + 1, _UNKNOWN, np.uint8)
