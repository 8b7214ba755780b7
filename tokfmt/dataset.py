"""Hold a reader as Python users do: `len`, `[i]`, slices, iteration; selected, joined, shuffled and saved."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import MissingDependencyError, OptionError, TokenRangeError
from tokfmt.core.ragged import Offsets, Ragged, Tokens
from tokfmt.core.reader import (
    INT64_MAX,
    WINDOW,
    Info,
    TokenReader,
    batches,
    check_position,
    largest_id,
    sequence_reader,
)
from tokfmt.core.seeds import check_seed
from tokfmt.views.select import Concat, Picked, Shuffled, Slice
from tokfmt.wording import CONVERTING, spoken

if TYPE_CHECKING:
    from tokfmt.ops.convert.request import Conversion
    from tokfmt.ops.source.ingest import Texts
    from tokfmt.ops.source.request import EosChoice, Options
    from tokfmt.ops.source.stored import Source

_CLOSED = "this dataset is closed: open it again to read from it"
_WIDEST = 8  # bytes of an ID
_SHOWN, _SHOWN_IDS = 5, 12  # sequences in the table for notebooks, and first ids of each


class Dataset:
    """Sequences of token ids, separators removed. A context manager; also a TokenReader.

    A DataLoader of PyTorch takes it as it is, and gets IDs of int64. Where sequences differ in length, it needs:

        def collate(rows): return pad_sequence([torch.from_numpy(row) for row in rows], True)
        loader = DataLoader(tokfmt.open("corpus.pbin"), batch_size=8, shuffle=True, num_workers=4, collate_fn=collate)

    `select`, `shuffle` and `+` give other Datasets, which read when they are asked; `save` stores what they hold:

        (tokfmt.open("a.pbin").select(slice(1000)) + tokfmt.open("b.zarr")).shuffle(7).save("mixed.pbin")

    Tables of Arrow are made of it without more words: `pyarrow.table(dataset)`, `polars.DataFrame(dataset)`.

    Attributes:
        format: Name of the format, e.g. `modalities`.
        inferred, notes: What was guessed on opening, and what a person should be told; `info` has them.
        origin: What was opened: paths, formats, separators.
    """

    def __init__(
        self,
        reader: TokenReader,
        format_name: str,
        *,
        inferred: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        origin: tuple[Source, ...] = (),
    ) -> None:
        self._reader, self.format, self.inferred, self.notes = reader, format_name, inferred, notes
        self.origin = origin
        self._one: Callable[[int], Tokens]  # reads a sequence, if its number is below `_ready`
        self._ready = 0
        self._closed = False

    @property
    def reader(self) -> TokenReader:
        """The reader underneath.

        Raises:
            ValueError: The dataset is closed.
        """
        if self._closed:
            raise ValueError(_CLOSED)
        return self._reader

    @property
    def info(self) -> Info:
        """Layout, dtype, counts and what was inferred."""
        return replace(self._reader.info, inferred=self.inferred, notes=self.notes)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sequence, int64[len(self)]."""
        return np.diff(self.offsets(0, len(self)))

    def __len__(self) -> int:
        return self._reader.info.sequences

    @overload
    def __getitem__(self, index: int | np.integer) -> Tokens: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | NDArray[np.integer]) -> Ragged: ...

    def __getitem__(self, index: int | np.integer | slice | Sequence[int] | NDArray[np.integer]) -> Tokens | Ragged:
        """Sequence `i` as an array uint[n]; those of a slice, or of several numbers, as a Ragged.

        Raises:
            IndexError: There is no such sequence.
            TypeError: It is no number, slice, or list or array of numbers; masks (bool) are none.
            ValueError: The dataset is closed.
        """
        if type(index) is int:  # the most frequent
            if 0 <= index < self._ready:
                one = self._one  # called as a method it would be looked up in the class first
                return one(index)
            return self._sequence(index)
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            if step == 1:
                return self._ragged(first, max(first, last))
            return self._gathered(range(first, last, step))
        # int first, as asking for a protocol costs more than to read a sequence from the cache
        if isinstance(index, (int, np.integer, SupportsIndex)) and not isinstance(index, (bool, np.bool_, np.ndarray)):
            return self._sequence(operator.index(index))
        if isinstance(index, np.ndarray) and index.ndim == 0:
            return self._sequence(operator.index(index[()]))
        return self._gathered(sequence_numbers(index))

    def __getitems__(self, indices: Iterable[int]) -> Sequence[Any]:
        """Several sequences as int64[n] each: what a DataLoader of PyTorch asks for, which trains on no other integers.

        Raises:
            IndexError: There is no such sequence.
            TokenRangeError: An ID is beyond int64.
        """
        found = [self._sequence(number) for number in sequence_numbers(list(indices))]
        if self._dtype.itemsize == _WIDEST:
            for tokens in found:
                if (top := largest_id(tokens)) > INT64_MAX:
                    raise TokenRangeError(self.format, top, INT64_MAX, int(np.argmax(tokens)), "Select other sequences")
        return [tokens.astype(np.int64) for tokens in found]

    def _sequence(self, number: int) -> Tokens:
        count = self._reader.info.sequences
        if not -count <= number < count:
            raise IndexError(f"sequence {number} of {count}")
        if self._closed:
            raise ValueError(_CLOSED)
        if not self._ready:  # here, as of some readers it takes work to count sequences
            self._one, self._ready = sequence_reader(self._reader), count
        return self._one(number % count)

    def _gathered(self, numbers: Iterable[int]) -> Ragged:
        return Ragged.of([self._sequence(number) for number in numbers], self.info.dtype)

    def _ragged(self, first: int, last: int) -> Ragged:
        bounds = self.reader.offsets(first, last)
        return Ragged(self.reader.tokens(int(bounds[0]), int(bounds[-1])), bounds - bounds[0])

    def __iter__(self) -> Iterator[Tokens]:
        for batch in self.batches():
            yield from batch

    def batches(self, size: int = WINDOW) -> Iterator[Ragged]:
        """Whole sequences in order, about `size` tokens at a time."""
        return batches(self.reader, 0, len(self), size)

    def select(self, which: slice | Sequence[int] | NDArray[np.integer] | NDArray[np.bool_]) -> Dataset:
        """Some of the sequences, in the order asked for, as another Dataset; reads no token.

        Args:
            which: A slice; numbers, each any number of times (24 bytes are kept for each); or bool[len(self)].

        Raises:
            IndexError: There is no such sequence, or a mask has another length.
            TypeError: It is none of these.
        """
        if isinstance(which, slice):
            first, last, step = which.indices(len(self))
            if step == 1:
                return self._derived(Slice(self.reader, first, max(first, last)))
            return self._derived(Picked(self.reader, np.arange(first, last, step, dtype=np.int64)))
        if isinstance(which, np.ndarray) and which.dtype == np.bool_:
            if which.shape != (len(self),):
                raise IndexError(f"a mask of shape {which.shape} for {len(self)} sequences")
            return self._derived(Picked(self.reader, np.flatnonzero(which)))
        numbers = np.array(sequence_numbers(which), np.int64)
        wrong = (numbers < -len(self)) | (numbers >= len(self))
        if wrong.any():
            raise IndexError(f"sequence {numbers[wrong][0]} of {len(self)}")
        return self._derived(Picked(self.reader, np.where(numbers < 0, numbers + len(self), numbers)))

    def shuffle(self, seed: int) -> Dataset:
        """All sequences in the order that a seed draws, that of `tokfmt convert --shuffle`; reads no token.

        Args:
            seed: 0..2^64-1. 32 bytes are kept for each sequence.

        Raises:
            OptionError: It is no seed.
        """
        return self._derived(Shuffled(self.reader, check_seed(seed, "seed")))

    def __add__(self, other: Dataset) -> Dataset:
        """The sequences of both, one after the other."""
        if not isinstance(other, Dataset):
            return NotImplemented
        parts = [
            part
            for reader in (self.reader, other.reader)
            for part in (reader.sources if isinstance(reader, Concat) else [reader])
        ]
        names = dict.fromkeys([*self.format.split(" + "), *other.format.split(" + ")])
        return Dataset(
            Concat(parts),
            " + ".join(names),
            inferred=tuple(dict.fromkeys((*self.inferred, *other.inferred))),
            notes=tuple(dict.fromkeys((*self.notes, *other.notes))),
            origin=(*self.origin, *other.origin),
        )

    def _derived(self, reader: TokenReader) -> Dataset:
        return Dataset(reader, self.format, inferred=self.inferred, notes=self.notes, origin=self.origin)

    @spoken(CONVERTING)
    def save(
        self,
        destination: str | os.PathLike[str],
        *,
        to_format: str | None = None,
        to_options: Options = (),
        tokenizer: str | None = None,
        eos: EosChoice = None,
        seq_len: int | None = None,
        allow_loss: Iterable[str] = (),
        jobs: int | None = None,
        executor: str = "threads",
        overwrite: bool = False,
        verify: bool = False,
        manifest: bool = True,
    ) -> Conversion:
        """Store it, in any format, as `tokfmt.convert` does: whole or not at all, with a manifest beside it.

        A shuffled dataset goes through the shuffle of `convert`, in constant memory, and the manifest has its seed.

        Args:
            destination: A path; the format follows from its name.
            to_format, to_options: Name of the format, and its own options, as {"chunk": 64}.
            tokenizer: Makes text of the ids, for formats that hold text.
            eos: The separator's id, where sources have several, or none and the format needs one.
            seq_len: Tokens a sample, for formats that have samples.
            allow_loss: What may be given up: a word or several.
            jobs, executor: How many workers, by default one a core, and which: "threads", "processes" or "serial".
            overwrite: Replace an existing destination, in one step, when the new one is whole.
            verify: Read the destination back and compare it before it appears.
            manifest: Write `DST.tokfmt.json`.

        Returns:
            What was done.

        Raises:
            TokfmtError: One of its kinds; the destination is then as it was before.
        """
        from tokfmt.core.options import given_options
        from tokfmt.core.records import RecordReader
        from tokfmt.ops.convert.arrangement import Arrangement
        from tokfmt.ops.convert.convert import carry_out
        from tokfmt.ops.convert.request import Request
        from tokfmt.ops.source.request import SourceRequest
        from tokfmt.run.execute import NullProgress, worker_count

        if not self.origin:
            raise OptionError(
                "this dataset was not opened from files, so that nothing can be said of where it comes from"
            )
        reader = self.reader
        axis, seed = (reader.source, reader.seed) if isinstance(reader, Shuffled) else (reader, None)
        paths = tuple(path for source in self.origin for path in source.paths)
        request = Request(
            source=SourceRequest.of(paths, eos=eos, allow_loss=allow_loss), destination=Path(destination), to=to_format,
            to_options=given_options(to_options), tokenizer=tokenizer, seq_len=seq_len, arrangement=Arrangement(seed),
            jobs=worker_count(jobs), executor=executor, overwrite=overwrite, verify=verify,
            manifest=manifest,
        )  # fmt: skip
        sources = [s._replace(reader=axis) if isinstance(s.reader, RecordReader) else s for s in self.origin]
        return carry_out(request, NullProgress(), given=(sources, axis))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's stream of record batches, for pyarrow, polars, pandas, duckdb.

        Columns: `sequence` int64, its number; `length` int64, tokens; `tokens` large_list of the ids' own type. A batch
        holds about 1 Mi tokens, or one sequence that is longer; it is read when it is asked for.

        Raises:
            MissingDependencyError: The package pyarrow is not installed.
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise MissingDependencyError("pyarrow", "arrow", "a table of Arrow") from error
        ids = pa.from_numpy_dtype(self._dtype)
        columns = {"sequence": pa.int64(), "length": pa.int64(), "tokens": pa.large_list(ids)}
        schema = pa.schema(list(columns.items()))

        def made() -> Iterator[Any]:
            first = 0
            for batch in self.batches():
                tokens = pa.LargeListArray.from_arrays(
                    pa.array(batch.offsets), pa.array(batch.tokens.astype(self._dtype, copy=False))
                )
                numbers = np.arange(first, first + len(batch))
                lengths = np.diff(batch.offsets)
                yield pa.record_batch([pa.array(numbers), pa.array(lengths), tokens], schema=schema)
                first += len(batch)

        return pa.RecordBatchReader.from_batches(schema, made()).__arrow_c_stream__(requested_schema)

    @property
    def _dtype(self) -> np.dtype[np.unsignedinteger]:
        """Of the ids."""
        return self.reader.info.dtype

    def tokens(self, start: int, stop: int) -> Tokens:
        """Tokens at axis positions `start <= p < stop`; see `axis.TokenReader`."""
        return self.reader.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        """Offsets of sequences `first <= i < last` and the end; see `axis.TokenReader`."""
        return self.reader.offsets(first, last)

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        """See `protocols.Underlying`."""
        check_position(position, self.info.tokens)
        return self.reader, position

    def from_source(self, reader: TokenReader, position: int) -> int | None:
        """See `protocols.Underlying`."""
        return position if reader is self.reader else None

    def readers(self) -> tuple[TokenReader]:
        """See `protocols.Underlying`."""
        return (self.reader,)

    def close(self) -> None:
        """Release open files; reading is a ValueError from then on."""
        self._reader.close()
        self._closed, self._ready = True, 0

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key != "_one"} | {"_ready": 0}

    def __enter__(self) -> Dataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tokfmt {self.format}: {self._facts()}>"

    def _facts(self) -> str:
        """Counts, in words, for people."""
        info = self.info
        return f"{info.sequences:,} sequences, {info.tokens:,} tokens, {info.dtype}"

    def _beginning(self, number: int) -> tuple[int, Tokens]:
        """Length of a sequence, and its first ids."""
        start, stop = self.reader.offsets(number, number + 1).tolist()
        return stop - start, self.reader.tokens(start, min(stop, start + _SHOWN_IDS))

    def _repr_html_(self) -> str:
        """For notebooks: what it is, and the first ids of the first sequences, as a table without scripts."""
        from html import escape

        shown = [self._beginning(number) for number in range(min(_SHOWN, len(self)))]
        rows = [
            f"<tr><td>{number:,}</td><td>{length:,}</td><td style='text-align:left'>"
            f"{escape(' '.join(map(str, ids.tolist())))}{' …' if length > len(ids) else ''}</td></tr>"
            for number, (length, ids) in enumerate(shown)
        ]
        more = len(self) - len(shown)
        rest = f"<tr><td colspan=3 style='text-align:left'>… {more:,} more</td></tr>" if more else ""
        notes = "".join(f"<div>{escape(note)}</div>" for note in (*self.inferred, *self.notes))
        return (
            f"<div><b>tokfmt</b> {escape(self.format)}: {escape(self._facts())}{notes}<table><thead><tr>"
            "<th>sequence</th><th>length</th><th style='text-align:left'>tokens</th></tr></thead>"
            f"<tbody>{''.join(rows)}{rest}</tbody></table></div>"
        )


def sequence_numbers(index: object) -> list[int]:
    """The numbers of a list or an array.

    Raises:
        TypeError: It is neither, or holds something else.
    """
    if isinstance(index, np.ndarray):
        if index.ndim == 1 and (index.dtype.kind in "iu" or not index.size):
            return [int(number) for number in index.tolist()]
        found = f"an array of {index.ndim} dimensions of {index.dtype}"
    else:
        found = f"{type(index).__name__} {index!r}" if isinstance(index, (str, bool)) else type(index).__name__
        if isinstance(index, Sequence) and not isinstance(index, (str, bytes)):
            if all(isinstance(one, SupportsIndex) and not isinstance(one, (bool, np.bool_)) for one in index):
                return [operator.index(one) for one in index]
            found = f"a {type(index).__name__} of {', '.join(sorted({type(one).__name__ for one in index}))}"
    raise TypeError(f"a dataset is indexed by a number, a slice, or a list or an array of numbers, not {found}")


class TextDataset(Dataset):
    """A Dataset of records: `len(ds)` finds lines, `ds[i]` and `ds[a:b]` encode what is asked for.

    `ds.info`, `ds.tokens`, `ds.offsets` and Datasets made of this one are of the whole axis, which is made in a
    temporary directory then.
    """

    def __init__(
        self,
        texts: Texts,
        format_name: str,
        *,
        inferred: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        origin: tuple[Source, ...] = (),
    ) -> None:
        super().__init__(texts, format_name, inferred=inferred, notes=notes, origin=origin)
        self._texts = texts

    def __len__(self) -> int:
        return self._texts.count()

    def __getitem__(self, index: Any) -> Any:
        return self._sequence(index) if type(index) is int else super().__getitem__(index)

    def _sequence(self, number: int) -> Tokens:
        if number < 0:
            number += len(self)
        try:
            return self._ragged(number, number + 1)[0]
        except IndexError:
            raise IndexError(f"sequence {number} of {len(self)}") from None

    def _ragged(self, first: int, last: int) -> Ragged:
        return self._texts.sequences(first, last)

    def batches(self, size: int = WINDOW) -> Iterator[Ragged]:
        del size  # as they are read
        return self._texts.batches()

    def _beginning(self, number: int) -> tuple[int, Tokens]:
        ids = self._sequence(number)
        return len(ids), ids[:_SHOWN_IDS]

    def _facts(self) -> str:
        return f"{len(self):,} records, tokenized when they are read"
