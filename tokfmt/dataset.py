"""`tokfmt.Dataset`: `len`, indexing, slices and iteration over a reader, and `select`, `shuffle`, `+` and `save`."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import fit
from tokfmt.base.seeds import check_seed
from tokfmt.core.ragged import Offsets, Ragged, Tokens
from tokfmt.core.reader import INT64_MAX, WINDOW, Info, TokenReader, batches, check_interval, largest_id
from tokfmt.errors import MissingDependencyError, OptionError, TokenRangeError, UnendedError
from tokfmt.files.place import PlaceLike, destination_of
from tokfmt.model.readers import sequence_reader
from tokfmt.model.select import Concat, Picked, Shuffled, Slice
from tokfmt.settings import count, settings
from tokfmt.wording import html_table

if TYPE_CHECKING:
    from tokfmt.commands.convert.request import Conversion
    from tokfmt.model.separator import Choice, ToEos
    from tokfmt.source.ingest import Texts
    from tokfmt.source.request import Options
    from tokfmt.source.stored import Source
    from tokfmt.text.tokenizer import TokenizerHandle


def _concat(readers: Iterable[TokenReader]) -> TokenReader:
    return Concat([one for reader in readers for one in (reader.sources if isinstance(reader, Concat) else [reader])])


_CLOSED = "this dataset is closed: open it again to read from it"
_WIDEST = 8  # Bytes of the widest token ID.
_SHOWN, _SHOWN_IDS = 5, 12  # Sequences in the table for notebooks, and IDs of each.


class Dataset:
    """A sequence of arrays of token IDs without separators. It is a context manager and a TokenReader.

    A PyTorch DataLoader takes a Dataset directly, and gets token IDs as int64. If sequences differ in length, pass a
    `collate_fn`:

        def collate(rows): return pad_sequence([torch.from_numpy(row) for row in rows], True)
        loader = DataLoader(tokfmt.open("corpus.pbin"), batch_size=8, shuffle=True, num_workers=4, collate_fn=collate)

    `select`, `shuffle` and `+` return other Datasets, which read a sequence when you ask for it. `save` stores one:

        (tokfmt.open("a.pbin").select(slice(1000)) + tokfmt.open("b.zarr")).shuffle(7).save("mixed.pbin")

    A Dataset is also a source of Arrow tables: `pyarrow.table(dataset)`, `polars.DataFrame(dataset)`. For
    pandas, `pyarrow.table(dataset).to_pandas()` has a row for each sequence, and `pandas.DataFrame(dataset)` has a
    column for each position.

    Attributes:
        format: Name of the format, such as `modalities`.
        inferred: Facts that tokfmt inferred when it opened the dataset, one sentence each.
        notes: Other facts about the dataset, one sentence each.
        origin: The opened sources: paths, formats and separators. Empty if the dataset was not opened from files.
    """

    def __init__(
        self,
        reader: TokenReader,
        format_name: str,
        *,
        inferred: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        origin: tuple[Source, ...] = (),
        again: Callable[[], TokenReader] | None = None,
        tokenizer: TokenizerHandle | None = None,
    ) -> None:
        """Hold a reader.

        Args:
            reader: The reader.
            format_name: Name of the format.
            inferred: See the class.
            notes: See the class.
            origin: See the class.
            again: Opens the same sequences, and looks at the end of each. None: positions presume nothing. Picklable.
            tokenizer: The tokenizer that the dataset was opened with.
        """
        self._reader, self.format, self.inferred, self.notes = reader, format_name, inferred, notes
        self.origin, self._again, self._tokenizer = origin, again, tokenizer
        self._one: Callable[[int], Tokens]  # Reads the sequence of a number below `_ready`.
        self._ready = 0
        self._closed = False

    @property
    def reader(self) -> TokenReader:
        """The reader of the token axis that the dataset reads from.

        Raises:
            ValueError: If the dataset is closed.
        """
        if self._closed:
            raise ValueError(_CLOSED)
        return self._reader

    @property
    def info(self) -> Info:
        """The layout, the dtype, the counts, `inferred` and `notes`.

        If most sequences were not looked at, `tokens` presumes that each ends as those that were. It is certain once
        `lengths`, `offsets` or `tokens` were asked for, which look at the end of each.
        """
        return replace(self._reader.info, inferred=self.inferred, notes=self.notes)

    @property
    def tokenizer(self) -> TokenizerHandle | None:
        """The tokenizer that the dataset was opened with, or else that of its manifest; None if neither is known.

        It has a `name`, an `eos_id`, a `vocab_size`, an `encoder()` and a `decoder()`.
        """
        if self._tokenizer is None and self.origin:
            from tokfmt.source.stored import manifest_tokenizer

            self._tokenizer = manifest_tokenizer(self.origin)
        return self._tokenizer

    def text(self, index: int) -> str:
        """Return the text of a sequence, decoded by `tokenizer`. An ID that it does not have is ⟨id⟩.

        Args:
            index: The number of the sequence (negative: from the end).

        Raises:
            OptionError: If the tokenizer is not known.
            IndexError: If there is no such sequence.
        """
        if self.tokenizer is None:
            raise OptionError("the tokenizer of the dataset is not known. Open it with tokenizer=NAME")
        return self.tokenizer.decoder(lenient=True).decode(self[index])

    def _look_at_ends(self) -> TokenReader:
        """Return the reader, whose positions presume nothing from now on: asked for once, they stay true."""
        if self._again is not None and not self._closed:
            self._reader, self._again, self._ready = self._again(), None, 0
        return self.reader

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each sequence, int64[len(self)]."""
        return np.diff(self.offsets(0, len(self)))

    def __len__(self) -> int:
        return self._reader.info.sequences

    @overload
    def __getitem__(self, index: int | np.integer) -> Tokens: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | NDArray[np.integer]) -> Ragged: ...

    def __getitem__(self, index: int | np.integer | slice | Sequence[int] | NDArray[np.integer]) -> Tokens | Ragged:
        """Return sequence `index` as an unsigned integer array, or several sequences as a Ragged.

        Args:
            index: A number (negative: from the end), a slice, or a list or array of numbers.

        Raises:
            IndexError: If there is no such sequence.
            TypeError: If the index has another type. A bool and a mask of bools are refused.
            ValueError: If the dataset is closed.
        """
        if type(index) is int:  # The most frequent index comes first.
            if 0 <= index < self._ready:
                one = self._one  # A call as a method would look the name up in the class first.
                try:
                    return one(index)
                except UnendedError:
                    if self._again is None:
                        raise
                    self._look_at_ends()
            return self._sequence(index)
        if isinstance(index, slice):
            first, last, step = index.indices(self._count_for(index))
            if step == 1:
                return self._ragged(first, max(first, last))
            return self._gathered(range(first, last, step))
        # `int` comes first, because an isinstance() of a protocol takes longer than a read of a cached sequence.
        if isinstance(index, (int, np.integer, SupportsIndex)) and not isinstance(index, (bool, np.bool_, np.ndarray)):
            return self._sequence(operator.index(index))
        if isinstance(index, np.ndarray) and index.ndim == 0:
            return self._sequence(operator.index(index[()]))
        return self._gathered(sequence_numbers(index))

    def __getitems__(self, indices: Iterable[int]) -> Sequence[Any]:
        """Return several sequences as int64[n] each, for a PyTorch DataLoader.

        Losses of PyTorch take labels of int64 only.

        Raises:
            IndexError: If there is no such sequence.
            TokenRangeError: If a token ID exceeds the range of int64.
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
            raise IndexError(f"there is no sequence {number} (the dataset has {count:,})")
        if self._closed:
            raise ValueError(_CLOSED)
        if not self._ready:  # Not in __init__, because some readers read files to count sequences.
            self._one, self._ready = sequence_reader(self._reader), count
        try:
            return self._one(number % count)
        except UnendedError:
            if self._again is None:
                raise
            self._look_at_ends()
            return self._sequence(number)

    def _gathered(self, numbers: Iterable[int]) -> Ragged:
        return Ragged.of([self._sequence(number) for number in numbers], self.info.dtype)

    def _count_for(self, chosen: slice) -> int:  # noqa: ARG002 - all are counted
        """Return the number of sequences, with which a slice is resolved."""
        return len(self)

    def _reader_of(self, last: int) -> TokenReader:  # noqa: ARG002 - one reader has all
        """Return a reader of the sequences below `last`."""
        return self.reader

    def _ragged(self, first: int, last: int) -> Ragged:
        reader = self._reader_of(last)
        try:
            bounds = reader.offsets(first, last)
            return Ragged(reader.tokens(int(bounds[0]), int(bounds[-1])), bounds - bounds[0])
        except UnendedError:
            if self._again is None:
                raise
            self._look_at_ends()
            return self._ragged(first, last)

    def __iter__(self) -> Iterator[Tokens]:
        for batch in self.batches():
            yield from batch

    def batches(self, size: int = WINDOW) -> Iterator[Ragged]:
        """Yield all sequences in order, in batches of about `size` tokens. A sequence is never split.

        Raises:
            OptionError: If `size` is not a whole number of at least 1.
        """
        size, first = fit("size", size, int, {"minimum": 1}), 0

        def found() -> Iterator[Ragged]:
            nonlocal first
            try:
                for batch in batches(self.reader, first, len(self), size):
                    first += len(batch)
                    yield batch
            except UnendedError:
                if self._again is None:
                    raise
                self._look_at_ends()
                yield from found()

        return found()

    def select(self, which: slice | Sequence[int] | NDArray[np.integer] | NDArray[np.bool_]) -> Dataset:
        """Return some of the sequences, in the given order, as another Dataset. Reads no token.

        Args:
            which: A slice, numbers of sequences, or a mask bool[len(self)]. A number may occur several times. Numbers
                and masks take 24 bytes per selected sequence.

        Raises:
            IndexError: If there is no such sequence, or the mask has another length.
            TypeError: If `which` has another type.
        """
        if isinstance(which, slice):
            first, last, step = which.indices(len(self))
            if step == 1:
                return self._derived(partial(Slice, first=first, last=max(first, last)))
            return self._derived(partial(Picked, numbers=np.arange(first, last, step, dtype=np.int64)))
        if isinstance(which, np.ndarray) and which.dtype == np.bool_:
            if which.shape != (len(self),):
                raise IndexError(f"the mask has the shape {which.shape} (expected {(len(self),)})")
            return self._derived(partial(Picked, numbers=np.flatnonzero(which)))
        numbers = np.array(sequence_numbers(which), np.int64)
        wrong = (numbers < -len(self)) | (numbers >= len(self))
        if wrong.any():
            raise IndexError(f"there is no sequence {numbers[wrong][0]} (the dataset has {len(self):,})")
        return self._derived(partial(Picked, numbers=np.where(numbers < 0, numbers + len(self), numbers)))

    def shuffle(self, seed: int) -> Dataset:
        """Return all sequences in the order that `tokfmt convert --shuffle` gives for the seed. Reads no token.

        Args:
            seed: An integer from 0 to 2^64 - 1. The order takes 32 bytes per sequence.

        Raises:
            OptionError: If the seed is not an integer of that range.
        """
        return self._derived(partial(Shuffled, seed=check_seed(seed, "seed")))

    def __add__(self, other: Dataset) -> Dataset:
        """Return the sequences of this dataset, followed by those of the other."""
        if not isinstance(other, Dataset):
            return NotImplemented
        names = dict.fromkeys([*self.format.split(" + "), *other.format.split(" + ")])
        return Dataset(
            _concat(one.reader for one in (self, other)),
            " + ".join(names),
            inferred=tuple(dict.fromkeys((*self.inferred, *other.inferred))),
            notes=tuple(dict.fromkeys((*self.notes, *other.notes))),
            origin=(*self.origin, *other.origin),
            again=partial(self._joined_again, other) if self._again or other._again else None,
            tokenizer=self._tokenizer,
        )

    def _derived(self, view: Callable[[TokenReader], TokenReader]) -> Dataset:
        try:
            reader = view(self.reader)
        except UnendedError:  # It reads lengths.
            reader = view(self._look_at_ends())
        return Dataset(
            reader,
            self.format,
            inferred=self.inferred,
            notes=self.notes,
            origin=self.origin,
            again=None if self._again is None else partial(self._viewed_again, view),
            tokenizer=self._tokenizer,
        )

    def _viewed_again(self, view: Callable[[TokenReader], TokenReader]) -> TokenReader:
        return view(self._look_at_ends())

    def _joined_again(self, other: Dataset) -> TokenReader:
        return _concat([self._look_at_ends(), other._look_at_ends()])

    def save(
        self,
        destination: PlaceLike,
        *,
        to_format: str | None = None,
        to_options: Options = (),
        tokenizer: str | None = None,
        to_eos: ToEos = None,
        to_bos: Choice = None,
        seq_len: int | None = None,
        allow_loss: Iterable[str] = (),
        jobs: int | None = None,
        executor: str = "threads",
        overwrite: bool = False,
        verify: bool = False,
        manifest: bool = True,
    ) -> Conversion:
        """Convert the dataset to a file or directory, as `tokfmt.convert` does, and write its manifest.

        The destination is complete, or not written. A shuffled dataset is written by the shuffle of `convert`, in
        constant memory, and the manifest records the seed.

        Args:
            destination: A path, or an address (s3, gs, az).
            to_format: Name of the destination's format (default: it follows from the name of the destination).
            to_options: Write options of the format, such as {"chunk": 64} or ["chunk=64"].
            tokenizer: Name, directory or path of a tokenizer.json, for formats that store text.
            to_bos: Token ID of the lead to write in front of each sequence, or "none" (default: as in the sources, if
                the destination has an index; else none).
            to_eos: Token ID of the separator to write, "none" or "as-stored" (default: that of the sources). Required
                if the format needs a separator and the sources have none, or several.
            seq_len: Tokens per sample, for formats that store samples.
            allow_loss: Names of the losses that you accept, one or several.
            jobs: Number of workers (default: one per core).
            executor: Kind of workers: "threads", "processes" or "serial".
            overwrite: Replace an existing destination, in one step, when the new one is complete.
            verify: Read the destination back and compare it before it appears.
            manifest: Write the manifest `DST.tokfmt.json`.

        Returns:
            A report of the conversion.

        Raises:
            TokfmtError: If the dataset cannot be converted. The destination stays as it was. `tokfmt.errors` lists
                the subclasses.
        """
        with settings("save"):
            from tokfmt.base.options import given_options
            from tokfmt.commands.convert.arrangement import Arrangement
            from tokfmt.commands.convert.convert import convert_files
            from tokfmt.commands.convert.request import Request, to_bos_of, to_eos_of
            from tokfmt.core.records import RecordReader
            from tokfmt.run.execute import worker_count
            from tokfmt.run.progress import Progress
            from tokfmt.source.open import presuming
            from tokfmt.source.request import SourceRequest

            if not self.origin:
                raise OptionError("this dataset was not opened from files, so its manifest cannot record its origin")
            seed = self._reader.seed if isinstance(self._reader, Shuffled) else None
            paths = tuple(path for source in self.origin for path in source.paths)
            request = Request(
                source=SourceRequest.of(paths, allow_loss=allow_loss),
                destination=destination_of(destination),
                to=to_format,
                to_options=given_options(to_options),
                to_eos=None if to_eos is None else to_eos_of(to_eos),
                to_bos=None if to_bos is None else to_bos_of(to_bos),
                tokenizer=tokenizer,
                seq_len=count("seq_len", seq_len),
                arrangement=Arrangement(seed),
                jobs=worker_count(count("jobs", jobs)),
                executor=executor,
                overwrite=overwrite,
                verify=verify,
                manifest=manifest,
            )

            def saved(*, every_end: bool) -> Conversion:
                reader = self._look_at_ends() if every_end else self.reader
                axis = reader.source if isinstance(reader, Shuffled) else reader
                sources = [s._replace(reader=axis) if isinstance(s.reader, RecordReader) else s for s in self.origin]
                return convert_files(request, Progress(), opened=(sources, axis))

            return presuming(saved, lambda _: None)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a stream of Arrow record batches, for pyarrow, polars, pandas and duckdb.

        The columns are `sequence` (int64, its number), `length` (int64, tokens) and `tokens` (large_list of the
        dataset's dtype). A batch holds about 1 Mi tokens, or one sequence that is longer. It is read when the consumer
        asks for it.

        Args:
            requested_schema: The schema that the consumer asks for; see Arrow's PyCapsule interface.

        Raises:
            MissingDependencyError: If the package pyarrow is not installed.
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise MissingDependencyError("pyarrow", "a table of Arrow") from error
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
        """The dtype of the token IDs."""
        return self.reader.info.dtype

    def tokens(self, start: int, stop: int) -> Tokens:
        """Return the tokens at positions `start <= p < stop` of the token axis; see `TokenReader.tokens`."""
        check_interval(start, stop, self.info.tokens)
        return self._look_at_ends().tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        """Return the start of each sequence `first <= i < last`, and the end of the last; see `TokenReader.offsets`."""
        check_interval(first, last, self.info.sequences, "sequences")
        return self._look_at_ends().offsets(first, last)

    def close(self) -> None:
        """Close the files. A later read raises ValueError."""
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
        """Return the counts and the dtype as text."""
        info = self.info
        return f"{info.sequences:,} sequences, {info.tokens:,} tokens, {info.dtype}"

    def _beginning(self, number: int) -> tuple[int, Tokens]:
        """Return the length of a sequence, and its first IDs."""
        start, stop = self.reader.offsets(number, number + 1).tolist()
        return stop - start, self.reader.tokens(start, min(stop, start + _SHOWN_IDS))

    def _repr_html_(self) -> str:
        """Return an HTML table of the first IDs of the first sequences, for notebooks."""
        shown = [self._beginning(number) for number in range(min(_SHOWN, len(self)))]
        rows: list[Sequence[object]] = [
            (number, length, " ".join(map(str, ids.tolist())) + " …" * (length > len(ids)))
            for number, (length, ids) in enumerate(shown)
        ]
        if more := len(self) - len(shown):
            rows.append((f"… {more:,} more", "", ""))
        title, notes = f"{self.format}: {self._facts()}", (*self.inferred, *self.notes)
        return html_table(title, ("sequence", "length", "tokens"), rows, notes)


def sequence_numbers(index: object) -> list[int]:
    """Return the numbers of a list or an array as ints.

    Raises:
        TypeError: If `index` is not a sequence or a one-dimensional array, or holds something else than integers.
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
    raise TypeError(f"an index is a number, a slice, or a list or an array of numbers, not {found}")


_AFTER_SCAN = frozenset({"_reader", "_again", "inferred", "notes", "origin"})
"""Attributes of a `Dataset` that a `StreamDataset` does not have before its stream was scanned."""
_SCANNING = threading.RLock()  # of all datasets, as one that holds a lock could not be pickled


class StreamDataset(Dataset):
    """A Dataset of a long stream, of which the first sequences are known when it is opened.

    `ds[i]`, `ds[a:b]` and an iterator read no more for these. Anything else, such as `len(ds)`, scans the stream once,
    and is then as of any other Dataset.
    """

    def __init__(
        self,
        first: TokenReader,
        whole: Callable[[], Dataset],
        format_name: str,
        *,
        tokenizer: TokenizerHandle | None = None,
    ) -> None:
        """Hold the reader of the first sequences.

        Args:
            first: The reader.
            whole: Opens the whole stream. Picklable.
            format_name: Name of the format.
            tokenizer: The tokenizer that the dataset was opened with.
        """
        self._first, self._whole, self.format, self._tokenizer = first, whole, format_name, tokenizer
        self._one, self._ready, self._closed = sequence_reader(first), first.info.sequences, False

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of `Dataset` that is known after a scan of the stream.

        Raises:
            SourceChangedError: The file is not the one that was opened.
            ValueError: The dataset is closed.
        """
        known = vars(self)
        if name not in _AFTER_SCAN or "_closed" not in known:
            raise AttributeError(f"a dataset has no attribute {name!r}")
        with _SCANNING:
            if name not in known:
                if self._closed:
                    raise ValueError(_CLOSED)
                known.update(vars(self._whole()))
                del self._whole
                self._first.close()
        return known[name]

    def __iter__(self) -> Iterator[Tokens]:
        first = self._ready if "_whole" in vars(self) else 0
        yield from self._ragged(0, first)
        for batch in batches(self.reader, first, len(self)):
            yield from batch

    def _is_known(self, last: int) -> bool:
        return "_whole" in vars(self) and last <= self._ready

    def _count_for(self, chosen: slice) -> int:
        first, last = chosen.start or 0, chosen.stop
        if isinstance(first, int) and isinstance(last, int) and 0 <= first <= last and self._is_known(last):
            return self._ready
        return len(self)

    def _reader_of(self, last: int) -> TokenReader:
        return self._first if self._is_known(last) else self.reader

    def close(self) -> None:
        if "_whole" in vars(self):
            self._first.close()
            self._closed, self._ready = True, 0
        else:
            super().close()


class TextDataset(Dataset):
    """A Dataset of text records: `len(ds)` counts records, `ds[i]` and `ds[a:b]` tokenize the records that you ask for.

    `ds.info`, `ds.tokens`, `ds.offsets`, and Datasets derived from this one, need the whole token axis. The first use
    tokenizes all records into a temporary directory.
    """

    def __init__(
        self,
        texts: Texts,
        format_name: str,
        *,
        inferred: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        origin: tuple[Source, ...] = (),
        tokenizer: TokenizerHandle | None = None,
    ) -> None:
        super().__init__(texts, format_name, inferred=inferred, notes=notes, origin=origin, tokenizer=tokenizer)
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
            raise IndexError(f"there is no sequence {number} (the dataset has {len(self):,})") from None

    def _ragged(self, first: int, last: int) -> Ragged:
        return self._texts.sequences(first, last)

    def batches(self, size: int = WINDOW) -> Iterator[Ragged]:
        del size  # A batch is a batch of the records' reader.
        return self._texts.batches()

    def _beginning(self, number: int) -> tuple[int, Tokens]:
        ids = self._sequence(number)
        return len(ids), ids[:_SHOWN_IDS]

    def _facts(self) -> str:
        return f"{len(self):,} records, tokenized when they are read"
