"""Long texts: cut into pieces whose ids, joined, are the ids of the text, so that an engine never holds a long one.

An engine takes 50 to 500 bytes for each character of the text that it encodes. Two kinds of cuts are certain:

- At a border: a place at which the pre-tokenizer ends a word whatever stands before and behind it. "the dog. It" has
  one before " dog" and none before ". It". Borders are known of pre-tokenizers that many tokenizers share (`_KNOWN`).
- Within a word of one kind of letter, under BPE: the piece ends in the middle of the word, and the next one begins
  where one of the last tokens of this piece begins. If it begins with that very token, the tokens before it and those
  of the next piece are the ids of both: BPE merges across a place in a word if and only if it does so in the two tokens
  that meet there, encoded by themselves, and those two stand side by side in the first piece.

Where there is neither, a text is encoded as it is, up to `LONGEST` characters. A longer one is encoded if the memory
suffices, and if its file is large enough to hold such a text: a few kilobytes, compressed, do not fill the memory.
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

from tokfmt.core import resources
from tokfmt.core.errors import TokfmtError
from tokfmt.core.messages import Option
from tokfmt.core.ragged import Ragged, Tokens, offsets_of
from tokfmt.core.text_format import printable

if TYPE_CHECKING:
    from tokfmt.text.decoding import Content

PIECE = 1 << 19
"""Characters that an engine is given at once where they can be cut: 256 MB at most."""
LONGEST = 1 << 21
"""Characters without a place to cut that are always encoded: 1 GB at most."""
PER_CHARACTER = 1 << 9
"""Bytes of memory for each: 417 were measured of punctuation under a BERT tokenizer, 346 of emoji as single bytes."""
PER_BYTE = 8
"""Characters for each byte of a file that a longer text may have: compressed text has 2 to 5."""
LETTERS = 1 << 8
"""Characters of a token at most, where texts are cut within words."""
_RUN = 1 << 10  # letters on either side of such a cut

_LETTER = "A-Za-z\u0430-\u044f\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3"
_MARK = "[ ,\uff0c\u3001\u3002]"
_BORDER = re.compile(rf"(?<=[{_LETTER}])(?={_MARK}[{_LETTER}])|(?<=\S\n)(?=[{_LETTER}])")
_ACROSS = re.compile(rf"[{_LETTER}]{_MARK}|\n[{_LETTER}]")  # an added token that holds this may cross a border
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
"""Regular expressions of GPT-2, Qwen 2, Llama 3 and GPT-4, and GPT-4o and Llama 4: none looks behind a word."""

Encode = Callable[[list[str]], Ragged]


class UnbrokenTextError(TokfmtError):
    """A text that is too long to be encoded in one piece, with no place at which it may be cut.

    Attributes:
        length: Of the text, in characters.
        what: What is wrong, in words.
        remedy: What to do.
    """

    def __init__(self, text: str, at: int, most: Accepted) -> None:
        self.length = len(text)
        memory = self.length * PER_CHARACTER
        self.what = (
            f"has more than {most.characters:,} characters from character {at:,} on between which this tokenizer "
            f"cannot split it, and may fill {memory / 1e9:,.1f} GB of memory ({most.why})"
        )
        self.remedy = most.remedy
        super().__init__(f"the text that begins {printable(repr(text[:60]))} {self.what}. {self.remedy}")


@dataclass(frozen=True, slots=True)
class Accepted:
    """How many characters without a place to cut are encoded.

    Attributes:
        characters: At most.
        why: What allows no more.
        remedy: What to do about a longer text.
    """

    characters: int
    why: str
    remedy: str


def accepted(file_bytes: int) -> Accepted:
    """How many characters without a place to cut are encoded of a text in a file of `file_bytes` bytes."""
    room, alone = resources.share(), ""
    if multiprocessing.parent_process() is not None:  # one of several workers
        room, alone = room // resources.cpus(), f"Use {Option('jobs', 1)}. Otherwise, split"
    by_file, by_memory = PER_BYTE * file_bytes, room // PER_CHARACTER
    if by_file <= max(LONGEST, by_memory):
        why = f"a longer text is accepted of a file with a byte for each {PER_BYTE} of its characters"
        return Accepted(max(LONGEST, by_file), why, "Split the text, leave it out, or decompress its file")
    why = f"a worker may use {room / 1e9:,.1f} GB"
    return Accepted(max(LONGEST, by_memory), why, f"{alone or 'Split'} the text, or leave it out")


_file_bytes: ContextVar[Callable[[], int]] = ContextVar("_file_bytes", default=lambda: 0)
_alone = threading.Lock()


@contextmanager
def of_file(size: Callable[[], int]) -> Iterator[None]:
    """Encode texts of a file in this thread; `size`, its bytes, is asked for if one of them is long."""
    token = _file_bytes.set(size)
    try:
        yield
    finally:
        _file_bytes.reset(token)


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where texts may be cut for a tokenizer.

    Attributes:
        borders: At borders.
        lengths: Characters of each token made of letters, if texts may be cut within words; else empty.
    """

    borders: bool
    lengths: Mapping[int, int]

    def border(self, text: str, start: int, stop: int) -> int | None:
        """The first border between two characters of a text."""
        found = _BORDER.search(text, start, stop) if self.borders else None
        return None if found is None else found.start()


NOWHERE = Cuts(borders=False, lengths={})


@lru_cache(maxsize=2)
def cuts_of(content: Content) -> Cuts:
    """Where texts may be cut for a tokenizer.json."""
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
    """Whether a pre-tokenizer ends words at borders, and makes no difference between a text and its parts."""
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
    """Whether an added token may lie on both sides of a border, or take white space from the other side."""
    content = token["content"]
    taken = (token.get("rstrip") and content[-1:].isalpha()) or (token.get("lstrip") and content[:1].isalpha())
    single = token.get("single_word") and not (content[:1].isalnum() and content[-1:].isalnum())
    return bool(taken or single or _ACROSS.search(content))


def in_pieces(texts: list[str], encode: Encode, cuts: Callable[[], Cuts]) -> Ragged:
    """The ids of texts, encoded some at a time; those of a long text in pieces.

    Args:
        texts: Of any length.
        encode: What encodes a few texts.
        cuts: Gives the places where a long text may be cut.

    Raises:
        UnbrokenTextError: One is too long and cannot be cut.
    """
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
    """Texts in order: a long one by itself, others together."""
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
    """The ids of a long text, piece by piece."""
    at, following = 0, None
    while at < len(text):
        stop = _stop(text, at, cuts)
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


def _stop(text: str, at: int, cuts: Cuts) -> int | None:
    """Where a piece may end, or the text does; None if there is no such place that is near."""
    return len(text) if len(text) - at <= PIECE else cuts.border(text, at + PIECE // 2, at + PIECE)


def _far_stop(text: str, at: int, cuts: Cuts) -> int:
    """The same farther away."""
    stop = cuts.border(text, at + PIECE, at + LONGEST)
    if stop is None and len(text) - at > LONGEST:
        most = accepted(_file_bytes.get()())
        stop = cuts.border(text, at + LONGEST, at + most.characters)
        if stop is None and len(text) - at > most.characters:
            raise UnbrokenTextError(text, at, most)
    return stop or len(text)


def _at_once(text: str, encode: Encode) -> Tokens:
    """The ids of a text without a place to cut; of the threads of a process, one at a time encodes a long one."""
    if len(text) <= LONGEST:
        return encode([text]).tokens
    with _alone:
        return encode([text]).tokens


def _within_word(text: str, stop: int, tokens: Tokens, encode: Encode, cuts: Cuts) -> tuple[int, int] | None:
    """How many tokens of a piece that ends within a word are kept, and where the next piece begins.

    The next one is expected to begin with the token that follows them, as a short beginning of it does.
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
