"""Cut long texts into pieces whose IDs, joined, are the IDs of the text, so that an engine gets no long text.

An engine takes 50 to 500 bytes of memory per character of the text that it encodes. Two kinds of cuts are safe:

- At a border: a position at which the pre-tokenizer ends a word, whatever the text before and after it. "the dog. It"
  has one before " dog" and none before ". It". Borders are known for pre-tokenizers that many tokenizers share
  (`_KNOWN`).
- Within a word of one kind of letter, with BPE: the piece ends in the middle of the word, and the next piece begins
  where one of the last tokens of this piece begins. If the next piece begins with that same token, the earlier tokens
  of this piece and the tokens of the next piece are the IDs of both. The reason: BPE merges across a position in a word
  if and only if it does so in the two tokens next to it, encoded by themselves, and the first piece holds both.

A text with neither is encoded whole up to `LONGEST` characters. A longer one is encoded if the memory suffices and its
file is large enough for such a text, so that a few compressed kilobytes cannot fill the memory.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tokfmt.base import resources
from tokfmt.core.ragged import Ragged, Tokens, offsets_of
from tokfmt.errors import TokfmtError
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.text.decoding import Content

PIECE = 1 << 19
"""Limit of characters per piece if the text can be cut, which take at most 256 MB."""
LONGEST = 1 << 21
"""Limit of characters without a cut that are always encoded, which take at most 1 GB."""
PER_CHARACTER = 1 << 9
"""Bytes of memory per character; measured: 417 (punctuation, BERT tokenizer) and 346 (emoji as single bytes)."""
PER_BYTE = 8
"""Limit of characters of a longer text per byte of its file; compressed text has 2 to 5."""
LETTERS = 1 << 8
"""Limit of characters per token of a tokenizer whose texts are cut within words."""
_RUN = 1 << 10  # letters on each side of a cut within a word

_LETTER = "A-Za-z\u0430-\u044f\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3"
_MARK = "[ ,\uff0c\u3001\u3002]"
_BORDER = re.compile(rf"(?<=[{_LETTER}])(?={_MARK}[{_LETTER}])|(?<=\S\n)(?=[{_LETTER}])")
_ACROSS = re.compile(rf"[{_LETTER}]{_MARK}|\n[{_LETTER}]")  # in an added token, this may cross a border
_ALIKE = re.compile(r"[a-z]+|[A-Z]+")

_TAILS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_SUFFIX}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SUFFIX}?|"
    rf"\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{_TAILS}"
)
_KNOWN = {
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    *(
        rf"{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{_TAILS}"
        for digits in ("", "{1,3}")
    ),
    _CASED,
}
"""The patterns of GPT-2, Qwen 2, Llama 3 and GPT-4, and GPT-4o and Llama 4. None depends on text before a word."""

Encode = Callable[[list[str]], Ragged]


class UnbrokenTextError(TokfmtError):
    """A text that is too long to be encoded whole and cannot be cut."""

    def __init__(self, text: str, at: int, limit: Accepted) -> None:
        self.length = len(text)  # in characters
        memory = self.length * PER_CHARACTER
        self.what = (
            f"has more than {limit.characters:,} characters from character {at:,} on at which this tokenizer "
            f"cannot split it, and may fill {memory / 1e9:,.1f} GB of memory ({limit.why})"
        )  # without the name of the text
        self.remedy = limit.remedy
        super().__init__(f"the text that begins {printable(repr(text[:60]))} {self.what}. {self.remedy}")


@dataclass(frozen=True, slots=True)
class Accepted:
    """The limit of characters without a cut that are encoded."""

    characters: int  # the limit
    why: str  # the reason for the limit
    remedy: str  # for a longer text


def accepted(file_bytes: int) -> Accepted:
    """Return the limit of characters without a cut for a text in a file of `file_bytes` bytes."""
    room, alone = resources.share(), ""
    if multiprocessing.parent_process() is not None:  # one of several workers
        room, alone = room // resources.cpus(), "Use --jobs 1. Otherwise, split"
    by_file, by_memory = PER_BYTE * file_bytes, room // PER_CHARACTER
    if by_file <= max(LONGEST, by_memory):
        why = f"a longer text is accepted if its file has a byte for each {PER_BYTE} of its characters"
        return Accepted(max(LONGEST, by_file), why, "Split the text, leave it out, or decompress its file")
    why = f"a worker may use {room / 1e9:,.1f} GB"
    return Accepted(max(LONGEST, by_memory), why, f"{alone or 'Split'} the text, or leave it out")


_file_bytes: ContextVar[Callable[[], int]] = ContextVar("_file_bytes", default=lambda: 0)
_alone = threading.Lock()


@contextmanager
def of_file(size: Callable[[], int]) -> Iterator[None]:
    """Encode texts of one file in this thread; `size` returns its bytes and is called only for a long text."""
    token = _file_bytes.set(size)
    try:
        yield
    finally:
        _file_bytes.reset(token)


@dataclass(frozen=True, slots=True)
class Cuts:
    """The kinds of cuts that are safe for a tokenizer."""

    borders: bool  # cuts at borders are safe
    lengths: Mapping[int, int]  # characters of each token that consists of letters, if cuts within words are safe

    def border(self, text: str, start: int, stop: int) -> int | None:
        """Return the first border in an interval of a text; None without one."""
        found = _BORDER.search(text, start, stop) if self.borders else None
        return None if found is None else found.start()


NOWHERE = Cuts(borders=False, lengths={})


@lru_cache(maxsize=2)
def cuts_of(content: Content) -> Cuts:
    """Return the cuts that are safe for a tokenizer.json."""
    found = json.loads(content.json.tobytes())
    added = [token for token in found.get("added_tokens") or () if isinstance(token, dict)]
    bert = _kind(found.get("pre_tokenizer")) == "BertPreTokenizer"
    if not bert and not _splits(found.get("pre_tokenizer")):
        return NOWHERE
    if _kind(found.get("normalizer")) not in (None, "NFC", *(["BertNormalizer"] if bert else [])):
        return NOWHERE
    if any(_crosses(token) for token in added):
        return NOWHERE
    model = found["model"]
    vocabulary: dict[str, int] = model["vocab"] if isinstance(model.get("vocab"), dict) else {}
    affixes = bert or model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
    alike = any(_ALIKE.fullmatch(token["content"]) for token in added)
    if _kind(model) != "BPE" or affixes or alike or max(map(len, vocabulary), default=0) > LETTERS:
        return Cuts(borders=True, lengths={})
    lengths = {number: len(token) for token, number in vocabulary.items() if _ALIKE.fullmatch(token)}
    return Cuts(borders=True, lengths=lengths)


def _kind(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else part


def _splits(part: Any) -> bool:
    """Return whether a pre-tokenizer ends words at borders, and splits a piece as it splits the text."""
    steps = part["pretokenizers"] if _kind(part) == "Sequence" else [part]
    regex = False
    for step in steps:
        kind = _kind(step)
        if kind == "Split":
            pattern = step.get("pattern", {}).get("Regex")
            if pattern not in _KNOWN or step.get("behavior") != "Isolated" or step.get("invert"):
                return False
            regex = True
        elif kind == "ByteLevel":
            if step.get("add_prefix_space"):
                return False
            regex = regex or bool(step.get("use_regex", True))
        elif kind != "Digits":
            return False
    return regex and _kind(steps[-1]) == "ByteLevel"


def _crosses(token: Mapping[str, Any]) -> bool:
    """Return whether an added token may cross a border, or take white space from its other side."""
    content = token["content"]
    taken = (token.get("rstrip") and content[-1:].isalpha()) or (token.get("lstrip") and content[:1].isalpha())
    single = token.get("single_word") and not (content[:1].isalnum() and content[-1:].isalnum())
    return bool(taken or single or _ACROSS.search(content))


def in_pieces(texts: list[str], encode: Encode, cuts: Callable[[], Cuts]) -> Ragged:
    """Return the IDs of texts, encoded in groups; a long text is encoded in pieces, by the safe `cuts`."""
    if sum(map(len, texts)) <= PIECE:
        return encode(texts)
    ids, lengths = list[Tokens](), list[int]()
    for group in _groups(texts):
        if len(group[0]) > PIECE:
            parts = list(_pieces(group[0], encode, cuts()))
            ids += parts
            lengths.append(sum(map(len, parts)))
        else:
            ragged = encode(group)
            ids.append(ragged.tokens)
            lengths += np.diff(ragged.offsets).tolist()
    return Ragged(np.concatenate(ids), offsets_of(lengths))


def _groups(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield groups of at most `PIECE` characters in order, with a longer text in its own group."""
    group, size = list[str](), 0
    for text in texts:
        if group and size + len(text) > PIECE:
            yield group
            group, size = [], 0
        group.append(text)
        size += len(text)
    if group:
        yield group


def _pieces(text: str, encode: Encode, cuts: Cuts) -> Iterator[Tokens]:
    """Yield the IDs of a long text, piece by piece."""
    at, following = 0, None
    while at < len(text):
        stop = len(text) if len(text) - at <= PIECE else cuts.border(text, at + PIECE // 2, at + PIECE)
        tokens = encode([text[at : stop or at + PIECE]]).tokens
        if following is not None and int(tokens[0]) != following:
            raise UnbrokenTextError(text, at, accepted(_file_bytes.get()()))
        within = None if stop is not None else _within_word(text, at + PIECE, tokens, encode, cuts)
        if within is None:
            stop, following = stop or _far_stop(text, at, cuts), None
            yield tokens if stop <= at + PIECE else _at_once(text[at:stop], encode)
            at = stop
        else:
            kept, at = within
            following = int(tokens[kept])
            yield tokens[:kept]


def _far_stop(text: str, at: int, cuts: Cuts) -> int:
    """Return the next border beyond `PIECE` characters, or the end of the text."""
    stop = cuts.border(text, at + PIECE, at + LONGEST)
    if stop is None and len(text) - at > LONGEST:
        limit = accepted(_file_bytes.get()())
        stop = cuts.border(text, at + LONGEST, at + limit.characters)
        if stop is None and len(text) - at > limit.characters:
            raise UnbrokenTextError(text, at, limit)
    return stop or len(text)


def _at_once(text: str, encode: Encode) -> Tokens:
    """Return the IDs of a text without a cut; only one thread of a process at a time encodes a long one."""
    if len(text) <= LONGEST:
        return encode([text]).tokens
    with _alone:
        return encode([text]).tokens


def _within_word(text: str, stop: int, tokens: Tokens, encode: Encode, cuts: Cuts) -> tuple[int, int] | None:
    """Return how many tokens of a piece that ends within a word are kept, and where the next piece begins.

    The first 2,048 characters of the next piece begin with the token after the kept ones; the caller compares the same
    token after encoding the whole piece. None if no such cut exists.
    """
    if not cuts.lengths or not _ALIKE.fullmatch(text, stop - 2 * _RUN, stop + _RUN):
        return None
    kept, begin = len(tokens), stop
    while stop - begin < 2 * _RUN - LETTERS:
        kept -= 1
        begin -= cuts.lengths[int(tokens[kept])]
        if stop - begin >= _RUN and encode([text[begin : begin + 2 * _RUN]]).tokens[0] == tokens[kept]:
            return kept, begin
    return None
