"""Find out from some texts or documents what a tokenizer does with the sources of a conversion, and say it in notes.

Not every tokenizer gives back what it encodes or decodes: SentencePiece models drop a space at the start of a text,
others lower its case, and one that lacks a token for a character drops the character.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from tokfmt.commands.convert.destination import Destination
from tokfmt.commands.convert.inputs import Inputs, encode_again
from tokfmt.commands.convert.notes import Notes
from tokfmt.commands.convert.request import Request
from tokfmt.commands.source.ingest import some_ids
from tokfmt.commands.source.stored import Source
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

_DOCUMENTS = 64
_LONGEST = 1 << 12  # characters of a text, and tokens of a document, that are tried
_BEFORE, _SHOWN = 8, 24  # characters before a difference, and in all, that a note shows


def try_tokenizer(
    request: Request,
    inputs: Inputs,
    destination: Destination,
    tokenizer: TokenizerHandle,
    texts: Sequence[str],
    notes: Notes,
) -> Inputs:
    """Return the inputs with a tokenizer that was tried on some texts, and add notes on what it does with the sources.

    Args:
        request: The request.
        inputs: The sources.
        destination: The destination.
        tokenizer: The tokenizer.
        texts: Some texts of the sources; empty if they hold token IDs.
        notes: Receives the notes.
    """
    _note_copied_ids(request, inputs, destination, tokenizer, notes)
    if texts:
        tokenizer = tokenizer.tried_on(texts)
        for note in tokenizer.notes:
            notes.add(note)
        _note_bos(request, destination, tokenizer, notes)
        if note := _note_on_texts(tokenizer, texts):
            notes.add(note)
    elif destination.decodes:
        stored = [source for source in inputs.sources if not source.format.is_computed]
        for note in filter(None, (_note_on_documents(tokenizer, source) for source in stored[:1])):
            notes.add(note)
    return replace(inputs, tokenizer=tokenizer)


def _note_copied_ids(
    request: Request, inputs: Inputs, destination: Destination, tokenizer: TokenizerHandle, notes: Notes
) -> None:
    """Add a note on token IDs that are copied, although a tokenizer is given that is not known to have made them."""
    if destination.decodes or not inputs.holds_something:
        return
    copied = [
        path
        for source in inputs.sources
        if not isinstance(source.reader, RecordReader) or source.reader.info.kind == "ids"
        for path, made in zip(source.paths, source.tokenizers, strict=True)
        if made is None or made["digest"] != tokenizer.digest
    ]
    if copied:
        others = f" and {len(copied) - 1:,} more" if len(copied) > 1 else ""
        name, source = printable(tokenizer.name), printable(copied[0])
        notes.add(
            f"{source}{others}: token IDs are copied, not encoded again: {name} is not known to have made them. "
            f"{encode_again(source, printable(request.destination), name)}"
        )


def _note_bos(request: Request, destination: Destination, tokenizer: TokenizerHandle, notes: Notes) -> None:
    """Add a note on the ID that the tokenizer puts in front of a text, if the destination has no lead: D10."""
    bos_id = tokenizer.bos_id
    if bos_id is None or destination.copies_lines or destination.lead.id is not None or request.to_bos == "none":
        return
    what = f"{printable(tokenizer.name)} puts {bos_id} in front of a text, and it is not written"
    notes.add(f"{what}. --to-bos {bos_id} writes it, --to-bos none omits this note")


def _note_on_texts(handle: TokenizerHandle, texts: Sequence[str]) -> str:
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


def _note_on_documents(handle: TokenizerHandle, source: Source) -> str:
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
