"""Open evals, and read datasets that are compared with them: as texts for n-grams of words, else as token IDs.

An eval is a dataset of any format, whose items are its records or sequences. The text of an item is that of one field,
or of several, joined by line ends; of a chat, it is what the messages say. Memory follows the evals: at most 90 bytes
for each byte of their texts, and 60 for each token ID.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from tokfmt.base.options import fit, hints_of, nearest, option
from tokfmt.core.chats import texts_of_message
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import TokenReader, batches
from tokfmt.core.records import Block, RecordBatch, RecordReader, RecordView
from tokfmt.errors import FormatError, OptionError, reword
from tokfmt.files.place import PlaceLike
from tokfmt.source.discover import dataset_paths
from tokfmt.source.ingest import encoder_of, ingested
from tokfmt.source.open import open_dataset
from tokfmt.source.request import Reading, SourceRequest, option_names, several
from tokfmt.source.stored import Source, agreed_tokenizer, manifest_tokenizer
from tokfmt.text.decoded import DecodedRecords
from tokfmt.text.ingest import encoded_batches
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.text.ngrams import NgramIndex
    from tokfmt.text.tokenizer import TokenizerHandle

_BLOCK, _BATCH = 1 << 24, 1 << 10
_LOSSES = frozenset({"fields"})  # that reading evals accepts


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapRules:
    """Evals, and what counts as overlap with them: `{ with = [...], ngram = 13, by = "words", field = [...] }`."""

    evals: tuple[PlaceLike, ...]
    ngram: int = option(13, minimum=1, maximum=255)  # words or tokens in a row
    by: Literal["words", "tokens"] = "words"
    # fields of the text of evals, as "question,answer": for all, or for each (default: as for any dataset)
    field: tuple[str, ...] = ()

    @staticmethod
    def of(given: object, name: str = "without") -> OverlapRules:
        """Return the rules of a table, or those with the defaults for paths of evals."""
        table = dict(given) if isinstance(given, Mapping) else {"with": given}
        evals = table.pop("with", None)
        if not evals:
            raise OptionError(f"{name}: names no evals. Give files or datasets of evals", name=name)
        kinds, values, known = hints_of(OverlapRules), dict[str, Any](), {key.name: key for key in fields(OverlapRules)}
        for key, value in table.items():
            if key not in known or key == "evals":
                listed = "with, ngram, by, field"
                raise OptionError(f"{name} has no key {key!r} (expected {listed})", nearest=nearest(str(key), known))
            values[key] = fit(f"{name}: {key}", value, kinds[key], known[key].metadata)
        rules = OverlapRules(evals=several(evals), **values)
        if len(rules.field) > 1 and len(rules.field) != len(rules.evals):
            found = f"{len(rules.field)} for {counted(len(rules.evals), 'eval')}"
            raise OptionError(f"{name}: field is given once, or once for each eval in their order (found {found})")
        return rules


class _Fields(RecordView):
    """Records whose text is that of several fields; they are read as one block."""

    def __init__(self, readers: Sequence[RecordReader]) -> None:
        super().__init__(readers[0])
        self._readers = readers

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:  # noqa: ARG002
        return [Block(0, 0, self.info.size, first, -1 if last is None else last - first)]

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        stop = None if block.records < 0 else block.first + block.records
        rows = itertools.islice(zip(*map(_texts, self._readers), strict=True), block.first, stop)
        while texts := ["\n".join(row) for row in itertools.islice(rows, _BATCH)]:
            yield RecordBatch(texts)

    def record(self, index: int) -> str:
        return "\n".join(str(reader.record(index)) for reader in self._readers)


def _texts(records: RecordReader) -> Iterator[str]:
    return (text for block in records.blocks(_BLOCK) for batch in records.texts(block) for text in batch.texts)


class _Said(RecordView):
    """Chats as the texts of their messages."""

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        return (batch._replace(texts=list(map(_said, batch.texts))) for batch in self.records.texts(block))

    def record(self, index: int) -> str:
        return _said(str(self.records.record(index)))


def _said(text: str) -> str:
    chat = json.loads(text) if text else []
    parts = chat.values() if isinstance(chat, dict) else [chat]
    said = (
        [part] if isinstance(part, str) else itertools.chain.from_iterable(map(texts_of_message, part))
        for part in parts
    )
    return "\n".join(itertools.chain.from_iterable(said))


@dataclass(frozen=True, slots=True)
class Comparison:
    """How datasets and evals are read to be compared. Picklable."""

    by: Literal["words", "tokens"]
    tokenizer: TokenizerHandle | None  # that the user gave, or that a manifest names

    def readable(self, source: Source) -> TokenReader | RecordReader:
        """Return a dataset as records of text for words, and as it is for tokens."""
        reader, path = source.reader, printable(source.paths[0])
        if reader.info.is_text and isinstance(reader, RecordReader):
            if self.by == "words":
                return _Said(reader) if reader.info.chats else reader
            if self.tokenizer is None:
                raise OptionError(f"{path}: holds text, and tokens are compared. Add --tokenizer, or use --by words")
        elif self.by == "words" and not (isinstance(reader, RecordReader) and not reader.info.size):
            handle = self.tokenizer or manifest_tokenizer([source])
            if handle is None:
                raise OptionError(
                    f"{path}: holds token IDs, and words are compared. Add --tokenizer, or use --by tokens"
                )
            axis = ingested(reader, None) if isinstance(reader, RecordReader) else reader
            return DecodedRecords(axis, source.paths[0], handle.decoder(lenient=True))
        return reader

    def read(self, records: RecordReader, block: Block) -> Iterator[Sequence[str] | Ragged]:
        """Yield the texts of the records of a block, or their token IDs."""
        if self.by == "words":
            return (batch.texts for batch in records.texts(block))
        return iter(encoded_batches(records, encoder_of(records, self.tokenizer), block))

    def items(self, source: Source) -> Iterator[Any]:
        """Yield the text or the token IDs of each item of an eval."""
        reader = self.readable(source)
        if isinstance(reader, RecordReader):
            every: Iterable[Any] = (batch for block in reader.blocks(_BLOCK) for batch in self.read(reader, block))
        else:
            every = batches(reader, 0, reader.info.sequences)
        return itertools.chain.from_iterable(every)

    def item(self, source: Source, number: int) -> str | list[int]:
        """Return an item as it is shown: its text if it has one, else its token IDs."""
        reader = self.readable(source)
        if isinstance(reader, RecordReader):
            return reader.record(number)
        ids: list[int] = reader.tokens(*reader.offsets(number, number + 1).tolist()).tolist()
        return ids


def open_evals(rules: OverlapRules, tokenizer: TokenizerHandle | None = None) -> list[Source]:
    """Open the evals, with the texts of all fields joined."""
    found, count = list[Source](), len(rules.evals)
    names_of_each = rules.field if len(rules.field) == count else (rules.field or ("",)) * count
    for path, names in zip(rules.evals, names_of_each, strict=True):
        request = SourceRequest((path,), allow_loss=_LOSSES, every_end=True)
        with _naming_field():
            found += [_opened(replace(request, paths=(one,)), names, tokenizer) for one in dataset_paths(request)]
    return found


@contextmanager
def _naming_field() -> Iterator[None]:
    """Name the option of evals in errors of reading them."""
    try:
        yield
    except FormatError as error:
        left_out = "; --allow-loss invalid-lines leaves such lines out"
        reword(error, lambda text: text.replace("--text-field", "--field").replace(left_out, ""))
        raise


def _opened(request: SourceRequest, joined: str, tokenizer: TokenizerHandle | None) -> Source:
    names = [name.strip() for name in joined.split(",")] if joined else []
    sources = [open_dataset(replace(request, text_field=name), Reading(tokenizer)) for name in names or (None,)]
    readers = [reader for source in sources if (reader := source.records) is not None and reader.info.is_text]
    if names and ("text_field" not in option_names(sources[0].format.read_options) or len(readers) < len(names)):
        raise FormatError(sources[0].paths[0], "has no fields of text", remedy="Leave --field out")
    return sources[0]._replace(reader=_Fields(readers)) if len(names) > 1 else sources[0]


def comparison_of(
    by: Literal["words", "tokens"], sources: Sequence[Source], tokenizer: TokenizerHandle | None
) -> Comparison:
    """Return how datasets and evals are compared; raise if several tokenizers made the token IDs that are compared."""
    if by == "tokens":
        agreed_tokenizer(sources, tokenizer, frozenset())
        if tokenizer is None and any(source.reader.info.is_text for source in sources):
            tokenizer = manifest_tokenizer([source for source in sources if not source.reader.info.is_text])
    return Comparison(by, tokenizer)


def index_of(rules: OverlapRules, evals: Sequence[Source], how: Comparison) -> tuple[NgramIndex, list[int]]:
    """Read all evals; return their n-grams, and the number of items of each."""
    from tokfmt.text.ngrams import of_texts, of_tokens

    counts = [0] * len(evals)

    def items() -> Iterator[Any]:
        for number, source in enumerate(evals):
            with _naming_field():
                for item in how.items(source):
                    counts[number] += 1
                    yield item

    return (of_texts if rules.by == "words" else of_tokens)(items(), rules.ngram), counts
