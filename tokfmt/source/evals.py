"""Open evals, and read datasets that are compared with them: as texts for n-grams of words, else as token IDs.

An eval is a dataset of any format, whose items are its records or sequences. The text of an item is that of one field,
or of several, joined by line ends; of a chat, it is what the messages say. Memory follows the evals: at most 60 bytes
for each byte of their texts, or for each token ID.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.threads import in_threads
from tokfmt.core.chats import said_in
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import WINDOW, TokenReader, batches, windows
from tokfmt.core.records import Block, RecordBatch, RecordReader, RecordView
from tokfmt.errors import FormatError, OptionError, reword
from tokfmt.files.named import place_named
from tokfmt.files.place import Place
from tokfmt.source.discover import dataset_paths
from tokfmt.source.ingest import encoder_of, ingested
from tokfmt.source.open import open_dataset
from tokfmt.source.request import Reading, SourceRequest, option_names
from tokfmt.source.stored import Source, agreed_tokenizer, manifest_tokenizer, unknown_id
from tokfmt.text.decoded import DecodedRecords
from tokfmt.text.filter_rules import DocumentMatcher, FilterRules, OverlapRules
from tokfmt.text.ingest import block_size, encoded_batches
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.text.ngrams import Found, NgramIndex
    from tokfmt.text.tokenizer import TokenizerHandle

_BLOCK, _BATCH = 1 << 24, 1 << 10
_REGION = 1 << 22  # tokens that are searched at once
_JOBS = 8  # workers by which text is cut, so that all tasks cut it alike
_LOSSES = frozenset({"fields"})  # that reading evals accepts


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
        return (batch._replace(texts=list(map(said_in, batch.texts))) for batch in self.records.texts(block))

    def record(self, index: int) -> str:
        return said_in(str(self.records.record(index)))


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
            _check_ids(axis, source.paths[0], handle)
            return DecodedRecords(axis, source.paths[0], handle.decoder(lenient=True))
        elif self.tokenizer is not None and not isinstance(reader, RecordReader):
            _check_ids(reader, source.paths[0], self.tokenizer)
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


def _check_ids(axis: TokenReader, path: Place, handle: TokenizerHandle) -> None:
    """Raise TokenizerMismatchError if the tokenizer lacks one of the first IDs."""
    tokens = axis.tokens(0, min(WINDOW, axis.info.tokens))
    lacking = tokens[handle.ids.lacks(tokens)]
    if len(lacking):
        raise unknown_id(path, handle.name, handle.ids, int(lacking.max()))


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
        raise FormatError(sources[0].paths[0], "has no fields of text", remedy="Leave --field NAME out")
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


def matchers_of(
    filters: Iterable[FilterRules], recipe: Place, tokenizer: TokenizerHandle | None
) -> dict[OverlapRules, DocumentMatcher]:
    """Return what finds the overlap that filters of a recipe leave out, whose paths are relative to it."""
    from tokfmt.text.ngrams import Matcher

    found = dict[OverlapRules, DocumentMatcher]()
    for one in dict.fromkeys(one.without for one in filters if one.without is not None):
        rules = replace(one, evals=tuple(place_named(recipe, str(path)) for path in one.evals))
        evals = open_evals(rules, tokenizer)
        how = comparison_of(rules.by, evals, tokenizer)
        decoder = tokenizer.decoder(lenient=True) if tokenizer is not None and rules.by == "words" else None
        found[one] = Matcher(index_of(rules, evals, how)[0], decoder)
    return found


Interval = Block | tuple[int, int]
"""Records of a reader, or positions of a token axis."""


def cut(reader: TokenReader | RecordReader) -> Iterable[Interval]:
    """Return the parts of a dataset that are searched one by one, whatever the number of workers."""
    if isinstance(reader, RecordReader):
        return reader.blocks(block_size(reader.info.size, _JOBS))
    return windows(0, reader.info.tokens, _REGION)


def found_in(
    reader: TokenReader | RecordReader, how: Comparison, index: NgramIndex, interval: Interval
) -> tuple[Found, int]:
    """Return the n-grams in a part of a dataset, and its number of records. The documents of a Block count from 0."""
    from tokfmt.text.ngrams import Found

    found, count = list[Found](), 0
    if not isinstance(reader, RecordReader):
        return index.in_axis(reader, *interval[:2]), 0
    for batch in how.read(reader, interval) if isinstance(interval, Block) else ():
        one = index.in_ragged(batch).firsts() if isinstance(batch, Ragged) else index.in_texts(batch)
        found.append(one._replace(texts=one.texts + count))
        count += len(batch)
    return Found.joined(found), count


def overlapping(
    rules: OverlapRules,
    sources: Sequence[Source],
    axes: Sequence[TokenReader | None],
    tokenizer: TokenizerHandle | None,
    jobs: int,
) -> tuple[NDArray[np.bool_], int]:
    """Return for each document of some sources whether it holds an n-gram of evals; and the number of short items.

    The words of texts are those of the records. Else the token axis of a source is read, if it has one already.
    """
    evals, masks = open_evals(rules, tokenizer), [np.empty(0, np.bool_)]
    how = comparison_of(rules.by, [*sources, *evals], tokenizer)
    index, _ = index_of(rules, evals, how)
    for source, axis in zip(sources, axes, strict=True):
        is_text = source.reader.info.is_text and not source.format.is_computed
        reader = source.reader if axis is None or (is_text and rules.by == "words") else axis
        reader = how.readable(source._replace(reader=reader))
        in_axis = np.zeros(0 if isinstance(reader, RecordReader) else reader.info.sequences, np.bool_)
        for found, count in in_threads(partial(found_in, reader, how, index), cut(reader), jobs):
            if isinstance(reader, RecordReader):
                masks.append(np.bincount(found.texts, minlength=count) > 0)
            else:
                in_axis[found.texts] = True
        masks.append(in_axis)
    return np.concatenate(masks), int(np.count_nonzero(np.diff(index.bounds) < rules.ngram))
