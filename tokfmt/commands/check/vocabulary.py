"""Compare a dataset with a tokenizer: its IDs, the end of text, and the text that IDs decode to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tokfmt.base.threads import in_threads
from tokfmt.core.findings import Finding
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import Layout, TokenReader, largest_id, windows
from tokfmt.core.tokenizer_ids import TokenizerIds, wrapped_bits
from tokfmt.errors import TokfmtError
from tokfmt.source.stored import Source

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import SpecialTokens, TokenizerHandle


_CHEAP = 1 << 24  # up to this number of tokens, all are read: that takes less than a second
_PLACES = 64  # number of places that are read in a longer dataset
_PLACE = 1 << 14  # tokens that are read at each place
_SEQUENCES = 64  # sequences that are decoded
_LONGEST = 1 << 13  # tokens of a sequence that are decoded
_FEW = 4  # fewer texts are not enough for a finding
_REPLACED = "\ufffd"
_HALF = 0.5  # share of the texts from which on there is a finding
_SHORT = 8  # tokens: a shorter document is not compared with its encoding
_UINT16 = 1 << 16
_ENOUGH = 1 << 12  # tokens: fewer may hold no large ID by chance
_SAMPLED = " at the places that were read"


class Beyond(NamedTuple):
    """The IDs of a window that are not in the vocabulary."""

    number: int
    position: int  # on the token axis; -1 without one
    token: int  # -1 without one
    top: int  # the largest of all IDs of the window; -1 without one
    wrapped: int  # tokens with the ID to which the end of text wraps in 16 bits


class Vocabulary:
    """A search for IDs that a tokenizer does not have, in windows that a caller reads or at sampled places."""

    def __init__(self, reader: TokenReader, handle: TokenizerHandle, jobs: int, *, complete: bool = True) -> None:
        self.reader, self.handle, self.jobs, self.complete = reader, handle, jobs, complete
        self.found: list[Beyond] = []  # only those with such IDs, in order
        # the largest ID, tokens with the ID to which the end of text wraps in 16 bits, and whether all is read
        self.top, self.wrapped, self.whole = -1, 0, False
        self._wraps_to = -1 if handle.eos_id is None or handle.eos_id < _UINT16 else handle.eos_id % _UINT16

    def beyond(self, start: int, tokens: Tokens) -> Beyond:
        """Return the IDs without a token in the window that begins at position `start`. Threads may call this."""
        wrong = np.flatnonzero(self.handle.ids.lacks(tokens))
        wrapped = int(np.count_nonzero(tokens == self._wraps_to)) if self._wraps_to >= 0 else 0
        first, token = (start + int(wrong[0]), int(tokens[wrong[0]])) if len(wrong) else (-1, -1)
        return Beyond(len(wrong), first, token, largest_id(tokens), wrapped)

    def note(self, looked: Iterable[Beyond], *, whole: bool = False) -> None:
        """Record results in the order of the token axis; `whole` states that they cover all of it."""
        self.whole = self.whole or (whole and self.complete)
        for span in looked:
            self.top, self.wrapped = max(self.top, span.top), self.wrapped + span.wrapped
            self.found += [span] if span.number else []

    def sample(self) -> None:
        """Read some places of the token axis, or all of it if it has at most `_CHEAP` tokens."""
        total = self.reader.info.tokens
        if total <= _CHEAP:
            spans = windows(0, total)
            looked = in_threads(lambda span: self.beyond(span[0], self.reader.tokens(*span)), spans, self.jobs)
            self.note(looked, whole=True)
            return
        starts = np.unique(np.linspace(0, max(0, total - _PLACE), _PLACES).astype(np.int64)).tolist() if total else []

        def beyond_at(start: int) -> Beyond:
            return self.beyond(start, self.reader.tokens(start, min(start + _PLACE, total)))

        self.note(in_threads(beyond_at, starts, self.jobs))


def metadata_findings(source: Source) -> Iterator[Finding]:
    """Report files of one dataset whose metadata name different tokenizers."""
    info = source.reader.info
    named = info.tokenizers
    if len(named) > 1:
        yield Finding(
            "TF928",
            "error",
            str(source.paths[0]),
            f"the metadata of its files name {len(named)} tokenizers: {', '.join(named)}",
            "Convert the files of each alone; --allow-loss tokenizers joins IDs of several",
        )


def tokenizer_findings(
    source: Source, reader: TokenReader, handle: TokenizerHandle, vocabulary: Vocabulary
) -> Iterator[Finding]:
    """Compare a dataset with a tokenizer.

    The findings: the manifest lists another tokenizer, IDs are not in the vocabulary, IDs wrapped, the separator is not
    the end of text, or the decoded text shows another tokenizer. The dataset is sampled if the vocabulary did not see
    all of it.
    """
    name, named = str(source.paths[0]), handle.name
    for path, made in () if source.format.is_computed else zip(source.made, source.tokenizers, strict=True):
        if made is not None and made["digest"] != handle.digest:
            yield Finding(
                "TF926",
                "warning",
                str(path),
                f"its manifest lists a tokenizer with the checksum {made['digest']}, and {named} has {handle.digest}",
                "Give the tokenizer that it was made with",
            )
    try:
        if not vocabulary.whole:
            vocabulary.sample()
        wrapped = list(_wrapped(name, source, handle, vocabulary))
        if wrapped:  # decoding it with any tokenizer shows nothing else
            yield from wrapped
            return
        yield from _beyond(name, reader, handle, vocabulary)
        eos_id = source.separator.eos_id
        if eos_id is not None and handle.eos_id is not None and eos_id != handle.eos_id:
            yield Finding(
                "TF922",
                "warning",
                name,
                f"its separator is {eos_id:,} ({source.separator.source}), and the end of "
                f"text of {named} is {handle.eos_id:,}",
                "Give the tokenizer that it was made with, or the right separator with --eos ID",
            )
        yield from _decoded(name, reader, handle)
    except TokfmtError as error:
        yield Finding("TF901", "error", name, str(error).removeprefix(f"{name}: "))


def _wrapped(name: str, source: Source, handle: TokenizerHandle, vocabulary: Vocabulary) -> Iterator[Finding]:
    """Report IDs that wrapped around: the separator is what is left of the end of text in 16 bits."""
    eos_id, info, endings = handle.eos_id, vocabulary.reader.info, source.separator.endings
    if eos_id is None:
        return
    ends = [source.separator.eos_id, endings[0] if len(endings) == 1 else None]
    wrapped = next(((end, bits) for end in ends if end is not None and (bits := wrapped_bits(eos_id, end))), None)
    alone = source.separator.eos_id == eos_id and info.sequences <= 1 and info.tokens >= _ENOUGH
    severity, sentence, why = "error", "documents end with", "IDs wrapped around"
    if wrapped is None and alone and vocabulary.wrapped:
        wrapped = eos_id % _UINT16, 16
        severity, why = "warning", "IDs seem to have wrapped around"
        sentence = f"it is one sequence without {eos_id:,}, and {vocabulary.wrapped:,} of its tokens are"
    top = max(vocabulary.top, -1 if info.max_id is None else info.max_id)
    if wrapped is None or top >> wrapped[1]:
        return
    end, limit = wrapped[0], 1 << wrapped[1]
    yield Finding(
        "TF927",
        severity,
        name,
        f"{sentence} {end:,} = {eos_id:,} mod {limit:,}; {eos_id:,} is the end of text of {handle.name}, and of its "
        f"{handle.ids.size:,} IDs none above {limit - 1:,} is stored{'' if vocabulary.whole else _SAMPLED}: {why}",
        "Encode the text again, and store IDs in 32 bits: the lost bits are not in the dataset",
    )


def _beyond(name: str, reader: TokenReader, handle: TokenizerHandle, vocabulary: Vocabulary) -> Iterator[Finding]:
    """Report IDs that the tokenizer does not have: of all tokens, or of the sampled places."""
    beyond, ids = vocabulary.found, handle.ids
    if not beyond:
        top, bound = reader.info.max_id, reader.info.extras.get("max_token_id")
        stated = [
            (top, ids, "error", "its largest ID is"),
            (bound, TokenizerIds(ids.stop), "warning", "its max_token_id is"),
        ]
        for value, wanted, severity, sentence in stated if not vocabulary.whole else ():
            if isinstance(value, int) and wanted.lacks_largest(value, reader.info.eos_id):
                yield Finding(
                    "TF921",
                    severity,
                    name,
                    f"{sentence} {value:,}, and {handle.name} has {ids}",
                    "Give the tokenizer that it was made with; --deep finds the place",
                    query=ids.query,
                )
                return
        return
    position, token = beyond[0].position, beyond[0].token
    sequence = reader.sequence_at(position)
    place = reader.locate(position)
    at = position - int(reader.offsets(sequence, sequence)[0])
    where = "" if vocabulary.whole else _SAMPLED
    number = f"sequence {sequence:,}{'' if vocabulary.complete else ' of those that were read'}"
    count = sum(part.number for part in beyond)
    yield Finding(
        "TF921",
        "error",
        str(place.path) if place else name,
        f"tokens with an ID that {handle.name} does not have{where}: {count:,} (first: ID {token:,}, {number}, "
        f"position {at:,}; {handle.name} has {ids})",
        "Give the tokenizer that it was made with",
        place.offset if place else None,
        ids.query,
    )


@dataclass(slots=True)
class _Texts:
    """Some sequences and their decoded texts; `whole` if each is a complete document."""

    ids: list[list[int]]
    texts: list[str]
    whole: bool


def _decoded(name: str, reader: TokenReader, handle: TokenizerHandle) -> Iterator[Finding]:
    texts = _some(reader, handle)
    count = len(texts.texts)
    if count < _FEW:
        return
    replaced = sum(_REPLACED in text[8:-8] for text in texts.texts)
    if replaced > _HALF * count:
        yield Finding(
            "TF923",
            "warning",
            name,
            f"{replaced:,} of {count:,} sequences decoded with {handle.name} hold bytes that are not UTF-8",
            "Give the tokenizer that it was made with",
        )
        return
    foreign = [text for text in texts.texts if not text.isascii()]
    misread = sum(map(_is_misread, foreign))
    if misread >= _FEW and misread > _HALF * len(foreign):
        yield Finding(
            "TF924",
            "warning",
            name,
            f"{misread:,} of {len(foreign):,} texts that are not ASCII are UTF-8 read as Latin-1",
            "Pack the text again with a newer version: Modalities before 2024-02-06 read text as Latin-1",
        )
    if texts.whole:
        yield from _encoded_again(name, texts, handle)


def _encoded_again(name: str, texts: _Texts, handle: TokenizerHandle) -> Iterator[Finding]:
    """Report documents whose texts have other IDs. Special tokens among the IDs of a text were parsed."""
    special = set(handle.special.values())
    how: list[SpecialTokens] = ["text" if special.isdisjoint(ids) else "parse" for ids in texts.ids]
    again = {one: handle.parsing(one).encoder().encode(texts.texts) for one in dict.fromkeys(how)}
    long = [number for number, ids in enumerate(texts.ids) if len(ids) >= _SHORT]
    other = sum(again[how[number]][number].tolist() != texts.ids[number] for number in long)
    if len(long) >= _FEW and other > _HALF * len(long):
        yield Finding(
            "TF925",
            "warning",
            name,
            f"{other:,} of {len(long):,} documents, decoded with {handle.name} and encoded again, have other IDs",
            "Give the tokenizer that it was made with",
        )


def _some(reader: TokenReader, handle: TokenizerHandle) -> _Texts:
    """Decode sequences at even distances: documents of at most `_LONGEST` tokens, or the beginnings of samples."""
    info, decoder = reader.info, handle.decoder(lenient=True)
    count = min(info.sequences, _SEQUENCES)
    ids, whole = [], info.layout is Layout.DOCUMENTS
    for number in np.unique(np.linspace(0, info.sequences - 1, count).astype(np.int64)).tolist():
        start, stop = reader.offsets(number, number + 1).tolist()
        if stop - start > _LONGEST and whole:
            continue
        tokens = reader.tokens(start, min(stop, start + _LONGEST)).tolist()
        if handle.eos_id is not None and tokens and tokens[-1] == handle.eos_id:
            tokens.pop()
        if tokens and not handle.ids.lacks(np.array(tokens)).any():
            ids.append(tokens)
    return _Texts(ids, [decoder.decode(tokens) for tokens in ids], whole)


def _is_misread(text: str) -> bool:
    """Return True if all of a text is UTF-8 that was read as Latin-1."""
    try:
        text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return False
    return True
