"""Find out from some texts or documents whether a tokenizer gives back what it encodes or decodes.

Not every tokenizer does: SentencePiece models drop a space at the start of a text, others lower its case, and one that
lacks a token for a character drops the character.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.core.text_format import printable
from tokfmt.ops.source.ingest import some_ids
from tokfmt.ops.source.stored import Source

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

_DOCUMENTS = 64
_LONGEST = 1 << 12  # characters of a text, and tokens of a document, that are tried
_BEFORE, _SHOWN = 8, 24  # characters before a difference, and in all, that a note shows


def note_on_texts(handle: TokenizerHandle, texts: Sequence[str]) -> str:
    """Return a note if the IDs of some texts decode to other texts; "" if they do not.

    Args:
        handle: The tokenizer that encodes the texts.
        texts: Texts, of which the first 64 are tried, each up to 4,096 characters.
    """
    tried = [text[:_LONGEST] for text in texts[:_DOCUMENTS]]
    decoder = handle.decoder(lenient=True)
    back = [decoder.decode(ids) for ids in handle.encoder().encode(tried)]
    changed = [(a, b) for a, b in zip(tried, back, strict=True) if a != b]
    if not changed:
        return ""
    before, after = changed[0]
    at = next((k for k, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after)))
    begin = max(0, at - _BEFORE)
    first, second = (printable(repr(text[begin : begin + _SHOWN])) for text in (before, after))
    return (
        f"tokenizer {printable(handle.name)} does not give every text back: {len(changed):,} of {len(tried):,} that "
        f"were tried differ once encoded and decoded (first: {first} becomes {second})"
    )


def note_on_documents(handle: TokenizerHandle, source: Source) -> str:
    """Return a note if the texts of some documents have other IDs than the documents; "" if they do not.

    Args:
        handle: The tokenizer that decodes the documents.
        source: A source of token IDs, of whose documents the first 64 are tried, without those above 4,096 tokens.
    """
    tried = [ids for ids in _first_documents(source.reader) if not handle.ids.lacks(ids).any()]
    if not tried:
        return ""
    decoder = handle.decoder(lenient=True)
    again = handle.encoder().encode([decoder.decode(ids) for ids in tried])
    changed = sum(new.tolist() != ids.tolist() for new, ids in zip(again, tried, strict=True))
    if not changed:
        return ""
    return (
        f"{source.paths[0]}: its text does not give every ID back: {changed:,} of {len(tried):,} documents that were "
        f"tried differ once decoded and encoded again with {printable(handle.name)}"
    )


def _first_documents(reader: TokenReader | RecordReader) -> list[Tokens]:
    if isinstance(reader, RecordReader):
        return [ids for ids in islice(some_ids(reader, 1), _DOCUMENTS) if 0 < len(ids) <= _LONGEST]
    bounds = reader.offsets(0, min(reader.info.sequences, _DOCUMENTS)).tolist()
    spans = [(a, b) for a, b in zip(bounds, bounds[1:], strict=False) if 0 < b - a <= _LONGEST]
    return [reader.tokens(a, b) for a, b in spans]
