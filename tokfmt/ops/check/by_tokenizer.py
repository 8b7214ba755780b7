"""Compare a dataset with a tokenizer: ids, end of text, and what the ids decode to."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tokfmt.core.axis import Layout, TokenReader, sequence_at, windows
from tokfmt.core.errors import TokfmtError
from tokfmt.core.format import REGION, Finding
from tokfmt.core.inside import place_of
from tokfmt.ops.manifest import read_manifest
from tokfmt.ops.open import Source

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

_PLACES = 64
_PLACE = 1 << 14  # tokens in each place, when not all are looked at
_SEQUENCES = 64  # decoded
_LONGEST = 1 << 13  # tokens of a sequence that are decoded
_FEW = 4
_REPLACED = "\ufffd"
_HALF = 0.5
_SHORT = 8  # tokens: a shorter document tells nothing


class Wants(Protocol):
    """What of the demands counts here."""

    @property
    def deep(self) -> bool: ...
    @property
    def jobs(self) -> int | None: ...


def findings(source: Source, reader: TokenReader, handle: TokenizerHandle, wants: Wants) -> Iterator[Finding]:
    """Ids beyond the vocabulary; a separator that is not the end of text; decoding that shows another tokenizer."""
    name, named = str(source.paths[0]), handle.name
    said = read_manifest(source.paths[0]).get("tokenizer")
    digest = said.get("digest") if isinstance(said, dict) else None
    if isinstance(digest, str) and digest != handle.digest:
        yield Finding("TF926", "warning", name, f"its manifest names a tokenizer with checksum {digest}, {named} has "
                      f"{handle.digest}", "Name the tokenizer that it was made with")  # fmt: skip
    try:
        yield from _beyond(name, reader, handle, wants)
        eos_id = source.separator.eos_id
        if eos_id is not None and handle.eos_id is not None and eos_id != handle.eos_id:
            yield Finding(
                "TF922",
                "warning",
                name,
                f"its separator is {eos_id:,} ({source.separator.source}), the end of "
                f"text of {named} is {handle.eos_id:,}",
                "If that is not meant, another tokenizer was used",
            )
        yield from _decoded(name, reader, handle)
    except TokfmtError as error:
        yield Finding("TF901", "error", name, str(error).removeprefix(f"{name}: "))


def _beyond(name: str, reader: TokenReader, handle: TokenizerHandle, wants: Wants) -> Iterator[Finding]:
    """Ids that are not in the vocabulary: of all tokens, or of some windows."""
    total, size = reader.info.tokens, handle.vocab_size
    if wants.deep:
        cuts = list(windows(0, total, REGION))
    else:
        starts = np.unique(np.linspace(0, max(0, total - _PLACE), _PLACES).astype(np.int64)).tolist() if total else []
        cuts = [(a, min(a + _PLACE, total)) for a in starts]

    def look(cut: tuple[int, int]) -> tuple[int, int, int]:
        count, first, token = 0, -1, -1
        for a, b in windows(*cut):
            ids = reader.tokens(a, b)
            wrong = np.flatnonzero(ids >= size)
            if len(wrong) and not count:
                first, token = a + int(wrong[0]), int(ids[wrong[0]])
            count += len(wrong)
        return count, first, token

    with ThreadPoolExecutor(wants.jobs or 1) as pool:
        found = [part for part in pool.map(look, cuts) if part[0]]
    if not found:
        return
    _, position, token = found[0]
    sequence = sequence_at(reader, position)
    place = place_of(reader, position)
    at = position - int(reader.offsets(sequence, sequence)[0])
    where = "" if wants.deep else " where it was looked at"
    count = sum(part[0] for part in found)
    yield Finding(
        "TF921", "error", str(place.path) if place else name,
        f"{count:,} ids are beyond the {size:,} tokens of {handle.name}{where} (first: id {token:,}, sequence "
        f"{sequence:,}, position {at:,})", "Name the tokenizer that it was made with",
        place.offset if place else None,
    )  # fmt: skip


@dataclass(slots=True)
class _Texts:
    """What some sequences decode to."""

    ids: list[list[int]]
    texts: list[str]
    whole: bool


def _decoded(name: str, reader: TokenReader, handle: TokenizerHandle) -> Iterator[Finding]:
    found = _some(reader, handle)
    count = len(found.texts)
    if count < _FEW:
        return
    replaced = sum(_REPLACED in text[8:-8] for text in found.texts)
    if replaced > _HALF * count:
        yield Finding(
            "TF923",
            "warning",
            name,
            f"{replaced:,} of {count:,} sequences decoded with {handle.name} hold bytes that are not UTF-8",
            "It was probably made with another tokenizer",
        )
        return
    foreign = [text for text in found.texts if not text.isascii()]
    misread = sum(map(_is_misread, foreign))
    if misread >= _FEW and misread > _HALF * len(foreign):
        yield Finding(
            "TF924",
            "warning",
            name,
            f"{misread:,} of {len(foreign):,} texts that are not ASCII are UTF-8 read as Latin-1",
            "Pack the text again: Modalities before 2024-02-06 read it so",
        )
    if found.whole:
        yield from _encoded_again(name, found, handle)


def _encoded_again(name: str, found: _Texts, handle: TokenizerHandle) -> Iterator[Finding]:
    again = handle.encoder().encode(found.texts)
    long = [number for number, ids in enumerate(found.ids) if len(ids) >= _SHORT]
    other = sum(again[number].tolist() != found.ids[number] for number in long)
    if len(long) >= _FEW and other > _HALF * len(long):
        yield Finding("TF925", "warning", name, f"{other:,} of {len(long):,} documents, decoded with {handle.name} and "
                      "encoded again, give other ids", "It was probably made with another tokenizer")  # fmt: skip


def _some(reader: TokenReader, handle: TokenizerHandle) -> _Texts:
    """Sequences spread over the dataset, decoded: documents that are not too long, or the beginnings of samples."""
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
        if tokens and max(tokens) < handle.vocab_size:
            ids.append(tokens)
    return _Texts(ids, [decoder.decode(tokens) for tokens in ids], whole)


def _is_misread(text: str) -> bool:
    """Whether all of a text is UTF-8 that was read as Latin-1."""
    try:
        text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return False
    return True
