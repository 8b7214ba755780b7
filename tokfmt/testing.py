"""The laws that every format keeps, as test classes that the tests of a format inherit from.

    class TestMine(FormatContract):
        format = FORMAT                 # the object: it need not be installed
        filename = "x.mine"
        eos_id = 50256                  # None: the format needs no separator; "none": no separator, none is inferred
        max_id = 2**31 - 1
        write_variants = [{}, {"layout": "A"}]

        def oracle(self, path, options):
            ...                         # read `path` with code that shares nothing with the format: list of lists

The module also has a strategy for small datasets that break writers (`datasets`). `write` and `read` do what
conversions do, without the command line. `tree(path, format)` returns the bytes of all files of a dataset. The module
needs pytest and hypothesis.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import pickle
import random
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import numpy as np

from tokfmt import registry
from tokfmt.base.options import parse_options
from tokfmt.commands.convert.arrangement import stored_axis
from tokfmt.commands.convert.convert import convert_files
from tokfmt.commands.convert.request import Request
from tokfmt.core.findings import Audit, Finding
from tokfmt.core.format import (
    REGION,
    Confidence,
    Format,
    Hints,
    Target,
    TokenWriter,
    WriterTraits,
    probe_of,
    unrelated_files,
)
from tokfmt.core.inspection import Inspection
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Offsets, Ragged, Tokens
from tokfmt.core.reader import U16, Info, Layout, Separators, TokenReader, batches, windows
from tokfmt.core.records import Block, RecordBatch, RecordInfo, RecordReader
from tokfmt.errors import (
    FormatError,
    MissingDependencyError,
    OptionError,
    SeparatorUnknownError,
    SourceChangedError,
    TokfmtError,
)
from tokfmt.files.file import everything_in, known_file, open_file
from tokfmt.files.place import LocalPlace, Place, Url, identities_now, local_path, writable_store
from tokfmt.files.store import IF_ABSENT, IF_MATCH, Kind
from tokfmt.model.readers import sequence_reader
from tokfmt.run.execute import SerialExecutor, make_executor
from tokfmt.run.plan import Workers, commit, plan, run
from tokfmt.run.progress import Progress
from tokfmt.source.discover import dataset_at
from tokfmt.source.ingest import tokenized
from tokfmt.source.open import open_dataset
from tokfmt.source.request import EosChoice, SourceRequest

try:
    import pytest
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    raise MissingDependencyError("pytest hypothesis", "tokfmt.testing") from error

_QUICK = settings(max_examples=min(40, settings().max_examples), deadline=None, suppress_health_check=list(HealthCheck))
_SLOW = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))

Values = Mapping[str, object]


def write(
    format_: Format,
    path: Path,
    data: Ragged | TokenReader,
    *,
    eos_id: EosChoice = None,
    options: Values = {},  # noqa: B006 - never changed
    size: int = REGION,
    executor: Executor | None = None,
    jobs: int = 1,
) -> Path:
    """Write a dataset and return its path.

    Args:
        format_: The format. It need not be installed.
        path: The destination, which does not exist yet.
        data: The sequences, or a reader of them.
        eos_id: Token ID of the separator, "none", or None if the format needs no separator.
        options: Write options of the format.
        size: Tokens per region.
        executor: Executor of the workers (default: this process).
        jobs: Number of workers.

    Raises:
        TokfmtError: If the format cannot store the data.
    """
    source: TokenReader = MemoryReader(data) if isinstance(data, Ragged) else data
    scratch = path.parent / f"{path.name}.scratch"
    scratch.mkdir(exist_ok=True)
    parsed: Any = parse_options(format_.write_options, options, format_.name)
    wanted = target(eos_id, format_.writer_traits(parsed))
    if eos_id is None and wanted.separators is not Separators.NONE:
        raise SeparatorUnknownError(path, f"{format_.name} stores a separator after each sequence")
    job = plan(stored_axis(source, wanted), format_.writer(path, parsed, wanted), size)
    for _ in run(job, Workers(executor or SerialExecutor(), jobs, scratch)):
        pass
    return path


def read(
    format_: Format,
    path: str | Path,
    *,
    eos_id: EosChoice = None,
    options: Values = {},  # noqa: B006 - never changed
    partial: bool = False,
) -> TokenReader:
    """Open a dataset as a reader without separators; text has to be stored as IDs.

    Args:
        format_: The format. It need not be installed.
        path: The dataset.
        eos_id: Token ID of the separator, or "none" (default: inferred).
        options: Read options of the format.
        partial: Read the sequences of a damaged dataset that are certain to be complete.

    Raises:
        TokfmtError: If the dataset cannot be read.
    """
    request = SourceRequest((path,), eos=eos_id, options=options, allow_partial=partial)
    source = open_dataset(request, files=[dataset_at(LocalPlace(path), request, format_)])
    return tokenized(source.reader, None) if isinstance(source.reader, RecordReader) else source.reader


def sequences(reader: TokenReader) -> list[list[int]]:
    """Return all sequences of a reader as lists."""
    found: list[list[int]] = []
    for batch in batches(reader, 0, reader.info.sequences):
        found += batch.tolist()
    return found


def target(eos_id: EosChoice, traits: WriterTraits) -> Target:
    """Return the `Target` of a writer with these traits for a separator."""
    return Target() if eos_id == "none" else Target(eos_id, traits.separators)


def _id_of(eos_id: EosChoice) -> int | None:
    return None if eos_id == "none" else eos_id


def _local(places: Iterable[Place]) -> list[LocalPlace]:
    return [local_path(place, "a file of a contract") for place in places]


def tree(path: Path, format_: Format | None = None) -> dict[str, bytes]:
    """Return the relative path and the content of every file of a dataset, companions included.

    Args:
        path: The dataset.
        format_: The format, which lists the companions (default: companions of tokfmt's own formats).
    """
    if path.is_file():
        if format_ is not None:
            place = LocalPlace(path)
            beside: list[Path] = [*_local(format_.companions(place)), *_local(format_.files(place))]
        else:
            beside = [path.with_suffix(suffix) for suffix in (".idx", ".csv.gz")]
            beside += [path.with_name(path.name + suffix) for suffix in (".index", ".metadata", ".loss")]
        return {file.name: file.read_bytes() for file in dict.fromkeys((path, *beside)) if file.is_file()}
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def _files_in(home: Path) -> list[Path]:
    """Return all files below a directory, except those of the scratch directory of `write`."""
    return [file for file in home.rglob("*") if file.is_file() and ".scratch" not in str(file.relative_to(home))]


def _read_all(stored: TokenReader | RecordReader) -> Iterator[Tokens]:
    """Yield all tokens of a reader, some at a time, and read all offsets."""
    if isinstance(stored, RecordReader):
        for block in stored.blocks(1 << 20):
            for batch in stored.ids(block):
                if batch.ragged is not None:
                    yield batch.ragged.tokens
        return
    for a, b in windows(0, stored.info.sequences):
        stored.offsets(a, b)
    for a, b in windows(0, stored.info.tokens):
        yield stored.tokens(a, b)


@contextmanager
def traced() -> Iterator[None]:
    """Count what Python and NumPy allocate; a use inside another one does nothing.

    Repeated measurements stand in one outer use: before Python 3.12.9, to stop tracing while another thread allocates
    could crash the interpreter (https://github.com/python/cpython/issues/128679).
    """
    if tracemalloc.is_tracing():
        yield
        return
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@contextmanager
def little_memory(limit: int, what: str) -> Iterator[None]:
    """Fail if Python and NumPy allocate more than `limit` bytes at once."""
    with traced():
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            yield
        finally:
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < limit, f"{what}: {peak:,} bytes of memory (at most {limit:,})"


def datasets(
    max_id: int = 2**31 - 1,
    *,
    empty: bool = True,
    avoid: int | None = None,
    max_sequences: int = 12,
    max_length: int = 40,
) -> st.SearchStrategy[Ragged]:
    """Generate small datasets: none, one or several sequences, some empty, some of one token.

    Args:
        max_id: Largest token ID that may occur. It and 0 occur often.
        empty: Allow empty sequences.
        avoid: A token ID that must not occur (a separator).
        max_sequences: Largest number of sequences.
        max_length: Largest number of tokens per sequence.
    """
    ids = st.one_of(st.integers(0, max_id), st.sampled_from([0, 1, max_id]))
    if avoid is not None:
        ids = ids.filter(lambda token: token != avoid)
    sequence = st.lists(ids, min_size=0 if empty else 1, max_size=max_length)
    return st.lists(sequence, max_size=max_sequences).map(Ragged.of)


@contextlib.contextmanager
def _counting(limit: int | None) -> Iterator[list[int]]:
    """Count the calls of functions in all threads; fail as soon as there are more than `limit`."""
    calls = [0]

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            calls[0] += 1
            if limit is not None and calls[0] > limit:
                raise AssertionError(f"more than {limit:,} calls")

    was = gc.isenabled()
    gc.disable()  # Each collection calls Hypothesis.
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        if was:
            gc.enable()


class Sparse(TokenReader):
    """A large dataset that is computed: sequences of `each` tokens, with IDs from `min_id` to `min_id` + 498.

    Attributes:
        breaks_at: A position. A read of it raises `BrokenOffError`.
    """

    def __init__(self, tokens: int, min_id: int, breaks_at: int | None = None, each: int = 1 << 16) -> None:
        self.min_id, self.breaks_at, self.each = min_id, breaks_at, each
        self.info = Info(Layout.DOCUMENTS, U16, tokens // each, tokens, max_id=min_id + 498)

    def tokens(self, start: int, stop: int) -> Tokens:
        if self.breaks_at is not None and start <= self.breaks_at < stop:
            raise BrokenOffError
        return (np.arange(start, stop) % 499 + self.min_id).astype(np.uint16)

    def offsets(self, first: int, last: int) -> Offsets:
        return np.arange(first, last + 1, dtype=np.int64) * self.each

    def close(self) -> None:
        pass


class BrokenOffError(Exception):
    """Ends a write in a test, as a killed process or a full disk does."""


class _Together(MemoryReader):
    """A dataset whose two readers wait for each other at each read."""

    def __init__(self, data: Ragged, gate: threading.Barrier) -> None:
        super().__init__(data)
        self._gate = gate

    def tokens(self, start: int, stop: int) -> Tokens:
        with suppress(threading.BrokenBarrierError):
            self._gate.wait(0.2)  # The timeout ends the wait if one writer waits for the other, or reads less often.
        return super().tokens(start, stop)


_NOISE = random.Random(7).randbytes(4096)
FOREIGN = {
    "random bytes": _NOISE,
    "zeros": bytes(4096),
    "small ids": np.arange(2048, dtype="<u2").tobytes(),
    "text": b"It was the best of times.\n" * 40,
    "JSON lines": b'{"input_ids": [1, 2, 3]}\n' * 9,
    "JSON": b'{"version": 1, "shards": []}',
    "gzip": b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + _NOISE,
    "zip": b"PK\3\4" + _NOISE,
    "npy": b"\x93NUMPY\x01\0v\0{'descr': '<i8', 'fortran_order': False, 'shape': (9,), }"
    + b" " * 57
    + b"\n"
    + bytes(72),
    "HDF5": b"\x89HDF\r\n\x1a\n" + _NOISE,
    "Parquet": b"PAR1" + _NOISE + b"PAR1",
    "pickle": pickle.dumps([(0, 10), (10, 12)]),
}
"""Content that begins like other formats, or like no format."""


class FormatContract:
    """The laws of a format that is read and written. Set `format` and `filename`, and define `oracle`."""

    format: ClassVar[Format]
    filename: ClassVar[str]
    eos_id: ClassVar[EosChoice] = None
    max_id: ClassVar[int] = 2**31 - 1
    max_length: ClassVar[int | None] = None
    """The largest number of tokens of a sequence, at least 16; None: any number."""
    empty: ClassVar[bool] = True
    """Every variant stores empty sequences."""
    write_variants: ClassVar[Sequence[Mapping[str, object]]] = ({},)
    region: ClassVar[int] = 16
    """Tokens per region in the schedule tests: small, so that there are many regions."""
    long_options: ClassVar[Mapping[str, object]] = {}
    """Write options for the test with a sequence of 2.5 Mi tokens."""
    sharded: ClassVar[Mapping[str, object] | None] = None
    """Write options that store each sequence of one token in its own file; None: a dataset is one file."""
    shard: ClassVar[str] = ""
    """Name of file `k` in a folder that is one dataset, as "{k:05d}.mine"; "": a folder of copies is not a dataset."""
    many: ClassVar[int] = 480
    """Number of shards in the test of many shards."""
    flipped: ClassVar[int] = 64
    """Number of bytes at each end of each file that are flipped one by one."""
    checksummed: ClassVar[bool] = False
    """Checksums guard the IDs: a damaged file is refused, or read as it was."""
    accounted: ClassVar[bool] = False
    """A dataset lists its files: if one is missing, the dataset is refused, or read as it was."""
    sparse_tokens: ClassVar[int] = 1 << 24
    """Tokens of the large dataset."""
    peak_bytes: ClassVar[int] = 28 << 20
    """Limit of the memory that writing, and reading, the large dataset takes. As uint16 it has 32 MiB."""
    claims: ClassVar[frozenset[str]] = frozenset()
    """Keys of `FOREIGN` whose content is also valid in this format."""

    def oracle(self, path: Path, options: Mapping[str, object]) -> list[list[int]]:
        """Return the sequences of `path`, without separators, read by independent code."""
        raise NotImplementedError

    def read_options(self, options: Mapping[str, object]) -> Mapping[str, object]:
        """Return the read options that belong to these write options."""
        return {}

    # Helpers of the laws

    @property
    def _separator(self) -> int | None:
        return _id_of(self.eos_id)

    def _strategy(self) -> st.SearchStrategy[Ragged]:
        longest = min(40, self.max_length or 40)
        return datasets(self.max_id, empty=self.empty, avoid=self._separator, max_length=longest)

    def _write(self, path: Path, data: Ragged, options: Mapping[str, object], **how: Any) -> LocalPlace:
        return LocalPlace(write(self.format, path, data, eos_id=self.eos_id, options=options, **how))

    def _writer(self, path: Path, options: Mapping[str, object], *, keep_parts: bool = False) -> TokenWriter:
        parsed, wanted = self._wanted(options)
        return self.format.writer(path, parsed, wanted._replace(keep_parts=keep_parts))

    def _wanted(self, options: Mapping[str, object]) -> tuple[Any, Target]:
        """Return the parsed write options, and the target of a writer with them."""
        parsed: Any = parse_options(self.format.write_options, options, self.format.name)
        return parsed, target(self.eos_id, self.format.writer_traits(parsed))

    def _laid(self, contents: TokenReader, options: Mapping[str, object]) -> TokenReader:
        """Return the source of a writer with these options: contents with their separators."""
        return stored_axis(contents, self._wanted(options)[1])

    def _read(self, path: Path, options: Mapping[str, object], *, partial: bool = False) -> TokenReader:
        return read(self.format, path, eos_id=self.eos_id, options=self.read_options(options), partial=partial)

    def _stored(self, path: Path, options: Mapping[str, object]) -> TokenReader | RecordReader:
        return self.format.open([LocalPlace(path)], self._parsed(options), self._hints())

    def _inspected(self, path: Path, options: Mapping[str, object]) -> Inspection:
        return self.format.inspect([LocalPlace(path)], self._parsed(options), self._hints())

    def _hints(self) -> Hints:
        return Hints(self._separator, no_eos=self.eos_id == "none", jobs=1)

    def _parsed(self, options: Mapping[str, object]) -> Any:
        return parse_options(self.format.read_options, self.read_options(options), self.format.name)

    def _tree(self, path: Path) -> dict[str, bytes]:
        return tree(path, self.format)

    def _cases(self) -> Iterator[tuple[Mapping[str, object], Path]]:
        for options in self.write_variants:
            with tempfile.TemporaryDirectory() as directory:
                yield options, Path(directory) / self.filename

    # The laws

    @_QUICK
    @given(data=st.data())
    def test_round_trip_and_oracle(self, data: st.DataObject) -> None:
        """Laws 2 and 5: the reader, and an oracle that shares no code with it, return what was written."""
        dataset = data.draw(self._strategy())
        for options, path in self._cases():
            self._write(path, dataset, options)
            assert self.oracle(path, options) == dataset.tolist()
            reader = self._read(path, options)
            assert sequences(reader) == dataset.tolist()
            reader.close()

    @_QUICK
    @given(data=st.data())
    def test_axis(self, data: st.DataObject) -> None:
        """Law 1: offsets are monotone and end at `tokens`; windows concatenate; an interval out of range raises."""
        dataset = data.draw(self._strategy())
        for options, path in self._cases():
            self._write(path, dataset, options)
            reader = self._read(path, options)
            n, total = reader.info.sequences, reader.info.tokens
            offsets = reader.offsets(0, n)
            assert offsets.dtype == np.int64
            assert offsets.tolist() == dataset.offsets.tolist()
            a, b, c = sorted(data.draw(st.tuples(*[st.integers(0, total)] * 3)))
            whole = reader.tokens(a, c)
            assert whole.dtype == reader.info.dtype
            assert np.array_equal(np.concatenate([reader.tokens(a, b), reader.tokens(b, c)]), whole)
            i, k = sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))
            assert reader.offsets(i, k).tolist() == dataset.offsets[i : k + 1].tolist()
            assert [one.tolist() for one in map(sequence_reader(reader), range(i, k))] == dataset.tolist()[i:k]
            for start, stop in ((-1, 0), (0, total + 1), (1, 0)):
                with pytest.raises(IndexError):
                    reader.tokens(start, stop)
            for first, last in ((-1, 0), (0, n + 1), (1, 0)):
                with pytest.raises(IndexError):
                    reader.offsets(first, last)
            reader.close()

    @_SLOW
    @given(data=st.data())
    def test_schedule(self, data: st.DataObject) -> None:
        """Law 3: any order of tasks, repeats, region sizes and threads give the same bytes."""
        dataset = data.draw(self._strategy())
        for options, path in self._cases():
            expected = self._tree(self._write(path, dataset, options))
            shuffled = path.parent / "shuffled" / path.name
            shuffled.parent.mkdir()
            source = self._laid(MemoryReader(dataset), options)
            job = plan(source, self._writer(shuffled, options), self.region)
            order = [*job.regions, *job.regions[::2]]  # Some regions are written twice.
            random.Random(7).shuffle(order)
            job.writer.create(job.source)
            commit(job, [job.writer.write(region, job.source) for region in order])
            assert self._tree(shuffled) == expected
            with ThreadPoolExecutor(2) as pool:
                threaded = path.parent / "threaded" / path.name
                threaded.parent.mkdir()
                self._write(threaded, dataset, options, size=self.region, executor=pool, jobs=2)
            assert self._tree(threaded) == expected

    def test_processes(self, tmp_path: Path) -> None:
        """Law 3 again: worker processes give the same bytes as this process."""
        rng = np.random.default_rng(5)
        lengths = rng.integers(1, min(90, self.max_length or 90), 40).tolist()
        lists = [rng.integers(0, min(self.max_id, 255), length).tolist() for length in lengths]
        dataset = Ragged.of([[t for t in s if t != self._separator] or [1] for s in lists])
        expected = self._tree(self._write(tmp_path / self.filename, dataset, self.write_variants[0]))
        other = tmp_path / "processes" / self.filename
        other.parent.mkdir()
        with make_executor("processes", 2) as pool:
            self._write(other, dataset, self.write_variants[0], size=512, executor=pool, jobs=2)
        assert self._tree(other) == expected

    def test_files_are_named(self, tmp_path: Path) -> None:
        """`files` lists every file that was written, for guards, checksums and overwriting, and no other file."""
        for number, options in enumerate(self.write_variants):
            home = tmp_path / f"{number}"
            home.mkdir()
            path = self._write(home / self.filename, Ragged.of([[1, 2, 3], [4]]), options)
            written = self._look_at_files(home, path)
            if not path.is_dir():
                unnamed = written - {path, *self.format.companions(path)}
                assert not unnamed, f"companions() leaves out {unnamed}"
            assert unrelated_files(self.format, path) == []
            if path.is_dir():
                for name in ("thesis.tex", "src/train.py", ".git/HEAD"):
                    (path / name).parent.mkdir(exist_ok=True)
                    (path / name).write_text("not of the dataset")
                assert {p.name for p in unrelated_files(self.format, path)} == {"thesis.tex", "train.py", "HEAD"}
                assert set(_local(self.format.files(path))) == written

    def _look_at_files(self, home: Path, path: Path) -> set[Path]:
        """Return all files below a directory, and check that they are those of the dataset there."""
        there, named = set(_files_in(home)), set(_local(self.format.files(LocalPlace(path))))
        assert there == named, f"written and not listed: {there - named}; listed and not written: {named - there}"
        return there

    def test_largest_id_and_one_beyond(self, tmp_path: Path) -> None:
        """The largest ID is stored; the next one is refused, not wrapped."""
        options = self.write_variants[0]
        edge = Ragged.of([[self.max_id, 1], [self.max_id]], np.dtype(np.uint64))
        self._write(tmp_path / self.filename, edge, options)
        assert sequences(self._read(tmp_path / self.filename, options)) == edge.tolist()
        beyond = Ragged.of([[1, self.max_id + 1]], np.dtype(np.uint64))
        with pytest.raises(TokfmtError, match="id"):
            self._write(tmp_path / f"beyond-{self.filename}", beyond, options)

    def test_sequence_longer_than_window_and_region(self, tmp_path: Path) -> None:
        """The longest sequence, or one of 2.5 Mi tokens, is written in regions of 64 Ki tokens and read back. A longer
        one than `max_length` is refused.
        """
        options = self.long_options
        ids = (np.arange(self.max_length or 5 << 19) % 251).astype(np.uint32)
        ids[ids == self._separator] = 251
        if self.max_length is not None:
            with pytest.raises(TokfmtError):
                self._write(tmp_path / f"longer-{self.filename}", Ragged.of([[*ids.tolist(), 1]]), options)
        dataset = Ragged(ids, np.asarray([0, len(ids)], np.int64))
        self._write(tmp_path / self.filename, dataset, options, size=1 << 16)
        reader = self._read(tmp_path / self.filename, options)
        assert reader.info.sequences == 1
        assert np.array_equal(reader.tokens(0, len(ids)), ids)

    def test_nothing_written_twice_or_lost_is_counted(self, tmp_path: Path) -> None:
        """Regions are disjoint, in order, and cover the output; `lost` reports empty sequences if they are lost."""
        dataset = Ragged.of([[1, 2, 3], [4], [], [5, 6]])
        source = MemoryReader(dataset)
        refusing = 0
        for options in self.write_variants:
            writer = self._writer(tmp_path / self.filename, options)
            lost = self.format.writer_traits(self._wanted(options)[0]).lost(source, frozenset())
            refuses = "empty-sequences" in [loss.name for loss in lost]
            full = MemoryReader(Ragged.of([s for s in dataset.tolist() if s])) if refuses else source
            refusing += refuses
            for size in (1, 2, self.region, 1 << 24):
                job = plan(self._laid(full, options), writer, size)  # It refuses regions that do not cover the output.
                assert job.regions
        assert bool(refusing) is not self.empty

    def test_a_cut_off_commit_is_done_again(self, tmp_path: Path) -> None:
        """Law 8: receipts survive JSON; with `keep_parts`, a second commit gives the same bytes."""
        dataset = Ragged.of([[7, 8, 9], [10, 11], [12]] * 9)
        for number, options in enumerate(self.write_variants):
            (tmp_path / f"{number}").mkdir()
            expected = self._tree(self._write(tmp_path / f"{number}" / self.filename, dataset, options))
            path = tmp_path / f"{number}" / "again" / self.filename
            path.parent.mkdir()
            source = self._laid(MemoryReader(dataset), options)
            writer = self._writer(path, options, keep_parts=True)
            regions = writer.regions(source, self.region)
            writer.create(source)
            receipts = [writer.write(region, source) for region in regions]
            for receipt in receipts:
                assert json.loads(json.dumps(receipt.details)) == receipt.details
            for _ in range(2):
                writer.commit(source, receipts)
                assert self._tree(path) == expected

    def test_readers_travel_and_know_places(self, tmp_path: Path) -> None:
        """A stored reader survives pickling; each token is found at its place; finding codes have an explanation."""
        dataset = Ragged.of([[1, 2, 3], [4], [5, 6, 7, 8]])
        for number, options in enumerate(self.write_variants):
            (tmp_path / f"{number}").mkdir()
            path = self._write(tmp_path / f"{number}" / self.filename, dataset, options)
            parsed, stored = self._parsed(options), self._stored(path, options)
            again = pickle.loads(pickle.dumps(stored))
            if isinstance(stored, TokenReader):
                total = stored.info.tokens
                assert np.array_equal(again.tokens(0, total), stored.tokens(0, total))
                for position in range(min(total, 64)):
                    if (place := stored.locate(position)) is None:
                        break
                    found = stored.find(place.path, place.offset)
                    assert found == position or (place.width is None and found is not None and found <= position)
                self._look_at_pieces(stored)
            again.close()
            stored.close()
            codes = self.format.codes()
            findings = list(self.format.audit(path, parsed))
            assert [f for f in findings if f.severity == "error"] == []
            assert {f.code for f in findings} <= codes.keys()

    def _look_at_pieces(self, stored: TokenReader) -> None:
        """Check that the bytes of `pieces` are the tokens."""
        total = stored.info.tokens
        for start, stop in {(0, total), (min(1, total), max(total - 1, min(1, total))), (total, total)}:
            pieces = stored.pieces(start, stop)
            if pieces is not None:
                found = [np.frombuffer(p.file.read(p.offset, p.length), p.dtype).tolist() for p in pieces]
                assert [token for piece in found for token in piece] == stored.tokens(start, stop).tolist()

    def test_options_at_and_below_their_bounds(self, tmp_path: Path) -> None:
        """The smallest value of a write option gives a readable dataset, or an error; a smaller value is refused."""
        dataset = Ragged.of([[1, 2, 3], [4], [5, 6]])
        for field in dataclasses.fields(self.format.write_options):
            if (minimum := field.metadata.get("minimum")) is None:
                continue
            with pytest.raises(OptionError):
                parse_options(self.format.write_options, {field.name: minimum - 1}, self.format.name)
            options = {**self.write_variants[0], field.name: minimum}
            path = tmp_path / field.name / self.filename
            path.parent.mkdir()
            try:
                self._write(path, dataset, options)
            except TokfmtError:
                continue
            assert sequences(self._read(path, options)) == dataset.tolist()

    def test_damage_never_crashes(self, tmp_path: Path) -> None:
        """Law 6: a file that is cut or has a flipped byte gives data or a TokfmtError, in little memory.

        If opening refuses the dataset, `check` reports a finding. If reading refuses it, a deep check does. Damage is a
        problem of the inspection, which does not raise.
        """
        options = self.write_variants[0]
        dataset = Ragged.of(self.damaged)
        good = self._write(tmp_path / self.filename, dataset, options)
        damages = [(name, one) for name, content in self._tree(good).items() for one in self._damages(content)]
        with traced():
            refused = [(name, one) for name, one in damages if self._is_refused(good, name, one, options)]
        for name, one in refused:  # Tracing takes three times as long, and a check reads all again.
            with self._damaged_by(good, name, one):
                self._look_at_findings(good, options, f"{name} with {len(one):,} damaged bytes")

    def _damages(self, content: bytes) -> Iterator[bytes]:
        size = len(content)
        places = sorted({*range(min(size, self.flipped)), *range(max(0, size - self.flipped), size)})
        for at in places:
            yield content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]
        for at in places[:: max(1, len(places) // 24)]:
            yield content[:at]

    def _is_refused(self, good: Path, name: str, damaged: bytes, options: Mapping[str, object]) -> bool:
        """Read a dataset with a damaged file, in little memory."""
        what = f"{name} with {len(damaged):,} damaged bytes"
        with self._damaged_by(good, name, damaged), little_memory(64 << 20, what):
            found = self._found(good, options)
        assert not self.checksummed or found in (None, self.damaged), f"{what} is read as other IDs"
        return found is None

    @contextmanager
    def _damaged_by(self, good: Path, name: str, damaged: bytes) -> Iterator[None]:
        """Replace the content of a file of a dataset for the time of a block."""
        target = good.with_name(name) if good.is_file() else good / name
        content = target.read_bytes()
        target.write_bytes(damaged)
        try:
            yield
        finally:
            target.write_bytes(content)

    damaged: ClassVar[list[list[int]]] = [[7, 8, 9], [10, 11], [12]] * 3
    """The sequences of the datasets that the tests damage."""

    def _found(self, path: Path, options: Mapping[str, object]) -> list[list[int]] | None:
        """Return all sequences of a dataset that may be damaged; None if it is refused."""
        try:
            with closing(self._read(path, options)) as reader:
                return sequences(reader)
        except TokfmtError as error:
            assert "\n" not in str(error)
            return None

    def _look_at_findings(self, path: Path, options: Mapping[str, object], what: str) -> None:
        """Check that `check` reports what the reader refuses."""
        with closing(self._inspected(path, options)) as inspection:
            list(inspection.problems)
        try:
            stored = self._stored(path, options)
        except FormatError as error:
            found = self._findings(path, options, deep=False)
            assert found, f"{what} is refused ({error}), and check finds nothing"
            return
        try:
            with closing(stored):
                for _ in _read_all(stored):
                    pass
        except FormatError as error:
            found = self._findings(path, options, deep=True)
            assert found, f"{what} is refused when it is read ({error}), and a deep check finds nothing"

    def _findings(self, path: Path, options: Mapping[str, object], *, deep: bool) -> list[Finding]:
        parsed, place = self._parsed(options), LocalPlace(path)
        try:
            if deep:
                return list(self.format.audit(place, parsed, Audit(deep=True, eos_id=self._separator)))
            return list(self.format.audit(place, parsed))
        except FormatError as error:
            return [Finding.of("", error)]

    def test_work_follows_the_number_of_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Three times as many shards take about three times as many calls to write, find, open, read and check."""
        if not {"sharded", "shard"} & vars(type(self)).keys():
            pytest.skip("no `sharded` states the options of a folder of many files")
        monkeypatch.setattr("tokfmt.files.file._MOST_OPEN", 0)  # By default, the first 256 files stay open.
        few = self._calls(tmp_path / "few", self.many // 3, None)
        many = self._calls(tmp_path / "many", self.many, 4 * few)
        assert many <= 3.3 * few

    def _calls(self, home: Path, count: int, limit: int | None) -> int:
        """Return the number of function calls for a dataset of `count` files; fail beyond `limit`."""
        home.mkdir()
        path = LocalPlace(home / (self.filename if self.sharded is not None else "folder"))
        if self.sharded is None:
            self._copies(path, count)
        with _counting(limit) as calls:
            if self.sharded is not None:
                self._write(path, Ragged.of([[1]] * count), self.sharded, size=1)
            request = SourceRequest((path,), eos=self.eos_id, options=self.read_options(self.sharded or {}))
            assert self.format.sniff(probe_of(path)) is not None
            found = dataset_at(path, request, self.format)
            assert len(found.files) >= count
            unrelated_files(self.format, path)
            source = open_dataset(request, files=[found])
            reader = tokenized(source.reader, None) if isinstance(source.reader, RecordReader) else source.reader
            sequences(reader)
            list(self.format.audit(path, parse_options(self.format.read_options, request.options, self.format.name)))
        return calls[0]

    def _copies(self, folder: Path, count: int) -> None:
        """Make a folder of `count` copies of a small dataset and its companions."""
        folder.mkdir()
        one = self._write(folder.parent / self.filename, Ragged.of([[1]]), self.write_variants[0])
        stem = self.filename.partition(".")[0]
        for name, content in self._tree(one).items():
            ending = name.removeprefix(self.filename) if name.startswith(self.filename) else name.removeprefix(stem)
            for k in range(count):
                shard = self.shard.format(k=k)
                whole = name.startswith(self.filename)
                (folder / ((shard if whole else shard.partition(".")[0]) + ending)).write_bytes(content)

    @_SLOW
    @given(data=st.data())
    def test_a_cut_file_gives_sequences_of_the_original(self, data: st.DataObject) -> None:
        """Law 9: with `allow_partial`, a cut file gives an error, or sequences of the original, in order."""
        dataset = data.draw(self._strategy())
        for options, path in self._cases():
            self._write(path, dataset, options)
            files = sorted(tree(path).items())
            some = st.lists(st.sampled_from(files), min_size=1, max_size=3, unique=True) if files else st.just([])
            for name, content in data.draw(some):
                target = path.with_name(name) if path.is_file() else path / name
                places = st.integers(0, max(0, len(content) - 1))
                for size in data.draw(st.lists(places, min_size=1, max_size=6, unique=True)):
                    target.write_bytes(content[:size])
                    self._look_at_part(path, dataset.tolist(), options)
                target.unlink()
                self._look_at_part(path, dataset.tolist(), options)
                target.write_bytes(content)

    def _look_at_part(self, path: Path, whole: list[list[int]], options: Mapping[str, object]) -> None:
        try:
            reader = self._read(path, options, partial=True)
            found = sequences(reader)
            reader.close()
        except TokfmtError as error:
            assert "\n" not in str(error)
            return
        left = iter(whole)
        assert all(one in left for one in found), f"{found} are not sequences of {whole}, in order"

    def test_sniffs_its_own(self, tmp_path: Path) -> None:
        """The sniffer claims what the writer wrote, and does not claim an empty file with an unrelated name."""
        options = self.write_variants[0]
        path = self._write(tmp_path / self.filename, Ragged.of([[1, 2, 3]] * 4), options)
        assert self.format.sniff(probe_of(path)) is not None
        nothing = tmp_path / "nothing"
        nothing.touch()
        assert self.format.sniff(probe_of(nothing)) is None

    def test_a_missing_file_never_crashes(self, tmp_path: Path) -> None:
        """A dataset with a missing file is refused, or read; with `accounted`, it is refused, or read as it was."""
        expected = [[7, 8, 9], [10, 11], [12]] * 9
        for number, options in enumerate(self.write_variants):
            (tmp_path / f"{number}").mkdir()
            path = self._write(tmp_path / f"{number}" / self.filename, Ragged.of(expected), options)
            for file in [file for file in _local(self.format.files(path)) if file != path]:
                content = file.read_bytes()
                file.unlink()
                found = self._found(path, options)
                assert not self.accounted or found in (None, expected), f"without {file.name} it is read as other IDs"
                file.write_bytes(content)

    def test_records_tell_the_same_in_every_way(self, tmp_path: Path) -> None:
        """`count`, `record`, `blocks` of any range, and JSON lines of a record reader agree with the IDs."""
        lists = [list(range(3, 3 + n)) for n in (3, 1, 4, 1, 5, 9, 2, 6)]
        for number, options in enumerate(self.write_variants):
            (tmp_path / f"{number}").mkdir()
            stored = self._stored(
                self._write(tmp_path / f"{number}" / self.filename, Ragged.of(lists), options), options
            )
            if isinstance(stored, RecordReader):
                count = stored.count()
                assert count == len(lists), f"count() is {count}, and there are {len(lists)} records"
                assert stored.info.records in (None, count), "info.records is another number than count()"
                found = [stored.record(index) for index in range(count)]
                assert found == lists, f"record() gives {found} for {lists}"
                for size in (1, 24, 1 << 30):
                    for first, last in ((0, None), (0, count), (1, count - 1), (4, 5), (count, count)):
                        blocks = stored.blocks(size, first, last)
                        read_ = [batch.ragged for block in blocks for batch in stored.ids(block)]
                        part = [ids for some in read_ if some for ids in some.tolist()]
                        what = f"blocks({size}, {first}, {last})"
                        assert part == lists[first:last], f"{what} hold {part} of {lists}"
                        lines = [line for block in blocks for batch in stored.lines(block) for line in batch.lines]
                        assert len(lines) == len(part), f"{what} hold {len(lines)} JSON lines of {len(part)} records"
                        assert all(isinstance(json.loads(line), dict) and b"\n" not in line for line in lines)
            stored.close()

    def test_to_jsonl_and_back(self, tmp_path: Path) -> None:
        """A conversion to JSON lines, and back, counts, verifies and keeps every ID."""
        lists = [[7, 8, 9], [10, 11], [12]] * 3
        for number, options in enumerate(self.write_variants):
            home = tmp_path / f"{number}"
            home.mkdir()
            path = self._write(home / self.filename, Ragged.of(lists), options)
            asked = SourceRequest((path,), eos=self.eos_id, options=self.read_options(options))
            source = open_dataset(asked, files=[dataset_at(path, asked, self.format)])
            request = Request(asked, LocalPlace(home / "lines.jsonl"), to="jsonl", verify=True)
            given: Any = [source], source.reader  # The format need not be installed, so detection is skipped.
            done = convert_files(request, Progress(), opened=given)
            source.reader.close()
            assert (done.sequences, done.tokens) == (len(lists), sum(map(len, lists)))
            info, written = source.reader.info, (home / "lines.jsonl").read_text().splitlines()
            assert [type(json.loads(line)) for line in written] == [dict] * len(lists)
            field = {"ids_field": info.field} if isinstance(info, RecordInfo) and info.json_lines else {}
            with closing(read(registry.get("jsonl"), home / "lines.jsonl", options=field)) as lines:
                assert sequences(lines) == lists
                again = home / "again" / self.filename
                again.parent.mkdir()
                write(self.format, again, lines, eos_id=self.eos_id, options=options)
            with closing(self._read(again, options)) as reader:
                assert sequences(reader) == lists

    def test_large_datasets_in_little_memory(self, tmp_path: Path) -> None:
        """A region of 16 Mi tokens is written, after a write that broke off half-way, and read, in little memory."""
        min_id = 600 if self._separator is not None and self._separator < 600 else 3
        options, total, path = self.long_options, self.sparse_tokens, tmp_path / self.filename
        length = 1 << min(16, (self.max_length or 1 << 16).bit_length() - 1)
        source = self._laid(Sparse(total, min_id, each=length), options)
        broken = self._laid(Sparse(total, min_id, total // 2, length), options)
        writer = self._writer(path, options)
        regions = writer.regions(source, source.info.tokens)
        writer.create(source)
        with suppress(BrokenOffError):  # Some writers read tokens only in `commit`.
            for region in regions:
                writer.write(region, broken)
        with little_memory(self.peak_bytes, "writing"):
            writer.commit(source, [writer.write(region, source) for region in regions])
        self._look_at_files(tmp_path, path)
        with little_memory(self.peak_bytes, "reading"), closing(self._stored(path, options)) as stored:
            found = sum(int(np.count_nonzero((min_id <= ids) & (ids < min_id + 499))) for ids in _read_all(stored))
        assert found == total

    def test_two_write_a_region_at_once(self, tmp_path: Path) -> None:
        """Two processes that write the same region leave the same bytes, and no other file."""
        dataset = Ragged.of([[7, 8, 9], [10, 11], [12]] * 9)
        for number, options in enumerate(self.write_variants):
            home = tmp_path / f"{number}" / "twice"
            home.mkdir(parents=True)
            expected = self._tree(self._write(home.parent / self.filename, dataset, options))
            path, source = home / self.filename, self._laid(MemoryReader(dataset), options)
            writers, receipts = [self._writer(path, options) for _ in range(2)], []
            regions = writers[0].regions(source, self.region)
            writers[0].create(source)
            with ThreadPoolExecutor(2) as pool:
                for region in regions:
                    gate = threading.Barrier(2)
                    together = self._laid(_Together(dataset, gate), options)
                    pair = [pool.submit(writer.write, region, together) for writer in writers]
                    first, second = (one.result() for one in pair)
                    assert first == second
                    receipts.append(first)
            writers[0].commit(source, receipts)
            assert self._tree(path) == expected
            self._look_at_files(home, path)

    def test_is_certain_of_nothing_else(self, tmp_path: Path) -> None:
        """`sniff` is never certain of content of other formats, or of no format, whatever its name."""
        own = self._write(tmp_path / self.filename, Ragged.of([[1, 2, 3]] * 4), self.write_variants[0])
        begins = {content[:2] for content in self._tree(own).values()}
        for what, content in FOREIGN.items():
            for name in {"other", self.filename if own.is_file() else "other.bin"}:
                home = tmp_path / f"of {what}, {name}"
                home.mkdir()
                (home / name).write_bytes(content)
                certain = self.format.sniff(probe_of(home / name)) is Confidence.CERTAIN
                certain |= name == "other" and self.format.sniff(probe_of(home)) is Confidence.CERTAIN
                foreign = content[:2] not in begins and what not in self.claims
                assert not (certain and foreign), f"{what} called {name} is taken for certain"


class ReadOnlyContract:
    """The laws of a format that is only read. Set `format` and `filename`, and define `make`."""

    format: ClassVar[Format]
    filename: ClassVar[str]
    eos_id: ClassVar[EosChoice] = "none"
    contents: ClassVar[Sequence[Any]] = ([7, 8, 9], [10, 11], [12])
    """The content of the dataset: a list of IDs, or a text, for each sequence or record."""

    def make(self, path: Path) -> None:
        """Write a dataset of `contents` with code that shares nothing with the format."""
        raise NotImplementedError

    def _made(self, home: Path) -> LocalPlace:
        path = LocalPlace(home / self.filename)
        self.make(path)
        return path

    def _open(self, path: LocalPlace) -> TokenReader | RecordReader:
        hints = Hints(_id_of(self.eos_id), no_eos=self.eos_id == "none", jobs=1)
        return self.format.open([path], self.format.read_options(), hints)

    def _read(self, stored: TokenReader | RecordReader) -> list[Any]:
        """Return the sequences or the texts of a reader."""
        if not isinstance(stored, RecordReader):
            return sequences(stored)
        found = [batch for block in stored.blocks(1 << 20) for batch in self._batches(stored, block)]
        return [one for batch in found for one in (batch.texts or (batch.ragged.tolist() if batch.ragged else ()))]

    def _batches(self, stored: RecordReader, block: Block) -> Iterator[RecordBatch]:
        return stored.texts(block) if stored.info.is_text else stored.ids(block)

    def test_it_is_read_as_it_was_made(self, tmp_path: Path) -> None:
        """The reader, and its copy after pickling, return what was made."""
        stored = self._open(self._made(tmp_path))
        again = pickle.loads(pickle.dumps(stored))
        found = self._read(stored)
        assert found == list(self.contents), f"{found} are read of {self.contents}"
        assert self._read(again) == found, "a copy of the reader reads something else"
        stored.close()
        again.close()

    def test_nothing_is_written(self, tmp_path: Path) -> None:
        """The format is `read_only`, and `destination` and `writer` raise OptionError."""
        assert self.format.read_only
        options = self.format.write_options()
        with pytest.raises(OptionError):
            self.format.destination(tmp_path / "x", options)
        with pytest.raises(OptionError):
            self.format.writer(tmp_path / "x", options, Target(_id_of(self.eos_id)))
        assert list(tmp_path.iterdir()) == []

    def test_files_are_named(self, tmp_path: Path) -> None:
        """`files` lists the dataset's own files and no others; `sniff` claims it, and not an empty file."""
        path = self._made(tmp_path)
        there = set(_files_in(tmp_path))
        assert self.format.sniff(probe_of(path)) is not None, "its own dataset is not claimed"
        assert (left := unrelated_files(self.format, path)) == [], f"files() leaves out {left}"
        named = set(self.format.files(path))
        assert named <= there, f"listed, and missing: {named - there}"
        if path.is_dir():
            (path / "thesis.tex").write_text("not of the dataset")
            assert [file.name for file in unrelated_files(self.format, path)] == ["thesis.tex"]
        (tmp_path / "nothing").touch()
        assert self.format.sniff(probe_of(tmp_path / "nothing")) is None, "an empty file is claimed"

    def test_a_sound_dataset_has_no_errors(self, tmp_path: Path) -> None:
        """An audit reports no error, and the codes of its findings have an explanation."""
        findings = list(self._audit(self._made(tmp_path)))
        assert [finding for finding in findings if finding.severity == "error"] == []
        assert {finding.code for finding in findings} <= self.format.codes().keys()

    def _audit(self, path: LocalPlace) -> Iterator[Finding]:
        how = Audit(deep=True, eos_id=_id_of(self.eos_id))  # the separator that `_open` gives the reader
        return self.format.audit(path, self.format.read_options(), how)

    def test_damage_never_crashes(self, tmp_path: Path) -> None:
        """A damaged file is read or refused, in little memory; an audit reports what the reader refuses."""
        path = self._made(tmp_path)
        contents = {file: file.read_bytes() for file in _files_in(tmp_path)}
        damages = [(file, damaged) for file, content in contents.items() for damaged in self._damages(content)]
        refused = []
        with traced():
            for file, damaged in damages:
                file.write_bytes(damaged)
                with little_memory(64 << 20, f"{file.name} with {len(damaged):,} damaged bytes"):
                    if (error := self._refusal(path)) is not None:
                        refused.append((file, damaged, error))
                file.write_bytes(contents[file])
        for file, damaged, error in refused:  # Tracing takes three times as long, and a check reads all again.
            file.write_bytes(damaged)
            assert list(self._audit(path)), f"{file.name} is refused ({error}), and a deep check finds nothing"
            file.write_bytes(contents[file])

    def _damages(self, content: bytes) -> Iterator[bytes]:
        places = sorted({*range(min(64, len(content))), *range(0, len(content), max(1, len(content) // 12))})
        for at in places:
            yield content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]
        for at in places[:: max(1, len(places) // 24)]:
            yield content[:at]

    def _refusal(self, path: LocalPlace) -> FormatError | None:
        """Read a dataset; return why it is refused."""
        try:
            with closing(self._open(path)) as stored:
                self._read(stored)
        except FormatError as error:
            return error
        except TokfmtError as error:
            assert "\n" not in str(error)
        return None


class StoreContract:
    """The laws that a place keeps, wherever it is. A store for the entry points `tokfmt.stores` passes them.

    Subclass it in a test, and define `home`. A store that tokfmt only reads also defines `write` and `remove`.
    """

    def home(self, tmp_path: Path) -> Place:
        """Return a place that holds nothing: a directory, or an address in an empty store.

        Args:
            tmp_path: An empty directory of the test.
        """
        raise NotImplementedError

    def write(self, place: Place, content: bytes) -> None:
        """Create or replace a file, and the directories above it."""
        writable_store(_address(place)).put(_address(place).key, content)

    def remove(self, place: Place) -> None:
        """Remove a file."""
        writable_store(_address(place)).delete([_address(place).key])

    def _filled(self, tmp_path: Path) -> Place:
        home = self.home(tmp_path)
        for name, content in _STORED.items():
            self.write(home / name, content)
        return home

    def test_what_is_there(self, tmp_path: Path) -> None:
        """The status has the kind and the size; what is not there raises FileNotFoundError."""
        home = self._filled(tmp_path)
        for name, content in _STORED.items():
            place = home / name
            assert place.status_now().kind is Kind.FILE
            assert place.status_now().size == len(content)
            assert (place.exists(), place.is_file(), place.is_dir()) == (True, True, False)
            assert place.status_now() == place.status_now(), "the identity of a file changes although the file does not"
        for directory in (home, home / "b", home / "b/c"):
            assert directory.status_now().kind is Kind.DIRECTORY
            assert (directory.exists(), directory.is_file(), directory.is_dir()) == (True, False, True)
        for missing in (home / "a", home / "b/c/d/e", home / "no"):
            assert (missing.exists(), missing.is_file(), missing.is_dir()) == (False, False, False)
            for ask in (missing.status_now, lambda missing=missing: list(missing.entries_now())):
                with pytest.raises(FileNotFoundError):
                    ask()
            with pytest.raises(FormatError, match="no such file"):
                open_file(missing)

    def test_entries_are_the_names_directly_below(self, tmp_path: Path) -> None:
        """Each entry is stated once, in any order, with its kind. An identity is the one that the status states."""
        home = self._filled(tmp_path)
        for directory, names in _LISTED.items():
            place = home / directory if directory else home
            listed = list(place.entries_now())
            assert sorted(entry.name for entry in listed) == names
            assert place.entries() == {entry.name: entry.kind for entry in listed}
            for entry in listed:
                status = (place / entry.name).status_now()
                assert entry.kind is status.kind
                assert entry.identity is None or entry.kind is Kind.DIRECTORY or entry.identity == status.identity
        files = [home / name for name in _STORED]
        assert list(identities_now(files)) == [file.status_now().identity for file in files]
        assert set(everything_in(home)) == set(files)

    def test_names_beside_a_file_are_those_of_the_directory(self, tmp_path: Path) -> None:
        """A list of a stem holds every name that begins with it, up to the last that it states."""
        home = self._filled(tmp_path)
        for name in _STORED:
            beside = (home / name).beside_now()
            if beside is None:
                continue
            names = [each for each in (home / name).parent.entries() if each.startswith(beside.stem)]
            assert set(beside.entries) == {each for each in names if beside.last is None or each <= beside.last}

    def test_ranges_come_in_the_order_of_the_request(self, tmp_path: Path) -> None:
        """Ranges may be in any order, overlap and be empty. An announcement changes no bytes."""
        home = self._filled(tmp_path)
        for name, content in _STORED.items():
            size, file = len(content), open_file(home / name)
            ranges = [(0, size), (size // 2, size), (0, size // 3), (size // 2, size // 2), (size - size // 5, size)]
            for _ in range(2):
                assert [bytes(part) for part in file.read_ranges(ranges)] == [content[a:b] for a, b in ranges]
                file.prefetch([(0, size)], keep=True)
            again = pickle.loads(pickle.dumps(file))
            assert again.read(0, size) == content
            with pytest.raises(FormatError):
                file.read(size, 1)
            for opened in (file, again):
                opened.close()

    def test_a_changed_file_is_refused(self, tmp_path: Path) -> None:
        """Content of the same size has another identity. With the old one, no other content is read."""
        home = self._filled(tmp_path)
        for change in (lambda place: self.write(place, b"X" * len(_STORED["b/y.bin"])), self.remove):
            self.write(home / "b/y.bin", _STORED["b/y.bin"])
            identity = (home / "b/y.bin").status_now().identity
            change(home / "b/y.bin")
            file = known_file(home / "b/y.bin", identity)
            with pytest.raises(SourceChangedError):
                file.check_unchanged()
            with suppress(FormatError):  # A store may have kept bytes of the old content.
                assert file.read(0, 8) == _STORED["b/y.bin"][:8]

    def test_objects_are_written_under_conditions(self, tmp_path: Path) -> None:
        """A store that is written keeps the conditions that it states, and an object is there or is not."""
        place = self.home(tmp_path) / "made/x.bin"
        if place.is_local:
            pytest.skip("files of this machine are written by tokfmt.core.output")
        address = _address(place)
        try:
            store = writable_store(address)
        except OptionError:
            pytest.skip("it is only read")
        conditions, done = store.can or frozenset(), list[object]()
        first = store.put(address.key, b"first", if_absent=IF_ABSENT in conditions, done=done.append)
        assert done == [first]
        assert first == store.identity(address.key) == place.status_now().identity
        if IF_ABSENT in conditions:
            with pytest.raises(FileExistsError):
                store.put(address.key, b"other", if_absent=True)
        second = store.put(address.key, b"again", if_match=first if IF_MATCH in conditions else None)
        assert second != first
        if IF_MATCH in conditions:
            with pytest.raises(FileExistsError):
                store.put(address.key, b"other", if_match=first)
        assert open_file(place).read(0, 5) == b"again"
        source, uploaded = tmp_path / "uploaded", dict[str, object]()
        source.write_bytes(b"from a file")
        keys = [f"{address.key}.{number}" for number in range(3)]
        store.upload([(key, source) for key in keys], uploaded.__setitem__)
        assert uploaded == {key: store.identity(key) for key in keys}
        store.delete([*keys, address.key])
        store.delete([*keys, address.key])
        assert [store.identity(key) for key in [*keys, address.key]] == [None] * 4
        assert not place.exists()


_STORED = {
    "a.bin": bytes(range(256)) * 40,
    "a.bin.tokfmt.json": b"{}" * 9,
    "a.idx": b"index",
    "b/c/d.txt": b"text" * 300,
    "b/x y ü.bin": b"name",
    "b/y.bin": b"0123456789" * 5,
    "b/y.bin.d/z": b"below",
}
_LISTED = {
    "": ["a.bin", "a.bin.tokfmt.json", "a.idx", "b"],
    "b": ["c", "x y ü.bin", "y.bin", "y.bin.d"],
    "b/c": ["d.txt"],
}


def _address(place: Place) -> Url:
    if not isinstance(place, Url):
        raise TypeError(f"{place} is a local path: define write and remove")
    return place
