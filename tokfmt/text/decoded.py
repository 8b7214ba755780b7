"""Sequences of token IDs as records of text, for the tokenizer that encodes them again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tokfmt.core.format import Decoder
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import WINDOW, TokenReader
from tokfmt.core.records import Block, RecordBatch, RecordInfo, RecordReader
from tokfmt.errors import ConversionError, Loss, TokfmtError
from tokfmt.files.place import Place
from tokfmt.wording import printable

_BYTES = 4  # of text in a token, about
_MANY = 1 << 12  # sequences that are decoded at once


class Decoded(NamedTuple):
    """The text of a sequence."""

    text: str
    is_whole: bool  # False: bytes that are not UTF-8, or IDs without a token, are replaced


class DecodedRecords(RecordReader):
    """The texts of the sequences of a token axis. A byte of a `Block` is a quarter of a token.

    If the decoder is lenient, `strict` is one that raises where it replaces something.
    """

    def __init__(
        self,
        reader: TokenReader,
        place: Place,
        decoder: Decoder,
        strict: Decoder | None = None,
        lost: tuple[Loss, ...] = (),
    ) -> None:
        self.reader, self.place, self.decoder, self.strict = reader, place, decoder, strict
        info = reader.info
        self.info = RecordInfo(
            "text",
            _BYTES * info.tokens,
            info.sequences,
            random_access=True,
            notes=info.notes,
            split=info.split,
            other_splits=info.other_splits,
            damage=info.damage,
            lost=lost,
        )

    def count(self) -> int:
        return self.reader.info.sequences

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        last, found = self.count() if last is None else last, list[Block]()
        while first < last:
            start = int(self.reader.offsets(first, first)[0])
            end = start + max(1, size // _BYTES)
            inside = end < self.reader.info.tokens
            until = min(last, max(first + 1, self.reader.sequence_at(end))) if inside else last
            stop = int(self.reader.offsets(until, until)[0])
            found.append(Block(0, _BYTES * start, _BYTES * stop, first, until - first))
            first = until
        return found

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        for first, last in self._runs(block.first, block.first + block.records):
            yield RecordBatch(texts=[one.text for one in self.decoded(first, last)])

    def decoded(self, first: int, last: int) -> Iterator[Decoded]:
        """Yield the texts of sequences `first <= i < last`, which are read at once."""
        bounds = self.reader.offsets(first, last).tolist()
        tokens = self.reader.tokens(bounds[0], bounds[-1])
        for number in range(first, last):
            a, b = (bounds[k] - bounds[0] for k in (number - first, number - first + 1))
            try:
                if self.strict is not None:
                    try:
                        yield Decoded(self.strict.decode(tokens[a:b]), is_whole=True)
                        continue
                    except TokfmtError:
                        yield Decoded(self.decoder.decode(tokens[a:b]), is_whole=False)
                        continue
                yield Decoded(self.decoder.decode(tokens[a:b]), is_whole=True)
            except TokfmtError as error:
                raise ConversionError(f"{printable(self.place)}: sequence {number:,}: {error}") from error

    def _runs(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield runs of sequences of about a window of tokens."""
        while first < last:
            bounds = self.reader.offsets(first, min(last, first + _MANY))
            fit = int(bounds.searchsorted(bounds[0] + WINDOW, side="right")) - 1
            until = first + max(1, fit)
            yield first, until
            first = until

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        """Yield an empty batch, because the records are text."""
        del block
        yield RecordBatch(ragged=Ragged.of([]))

    def record(self, index: int) -> str:
        return next(self.decoded(index, index + 1)).text

    def close(self) -> None:
        self.reader.close()
