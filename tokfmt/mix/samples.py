"""Read the samples of a recipe with `seq_len`: sequence k is sample k with its padding, loss mask and labels.

Sources that are packed together are a *list*. With weights, each source is a list; without weights, all sources are one
list. Each epoch passes a list once, in its own order of samples. The list, the pass and the sample in it follow from
the number k alone.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import json
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.loss_mask import BEGINS, IGNORED, OTHER, PADDING, TARGET, other_label
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.reader import Info, Layout, TokenReader, check_interval, check_position, smallest, windows
from tokfmt.errors import (
    ConversionError,
    FormatError,
    LoaderWarning,
    OptionError,
    ShortfallError,
    TokenizerMismatchError,
)
from tokfmt.mix.cache import Unkept, has_room, key_of
from tokfmt.mix.documents import Axis, Slow, Span, SpanTable, TokenSource, Vocabulary, masks_of_sources
from tokfmt.mix.fields import Grid, Ids, PackedSample, arrays, check_fields, sampled_beneath
from tokfmt.mix.language import VERSION, RecipeFile
from tokfmt.mix.order import ORDER_SAMPLES, EvenTree, Permutation, permutation, samples_of_step
from tokfmt.mix.packing import Packing, Selection, StoredSamples, packed
from tokfmt.wording import counted, human_bytes, printable

_WINDOW = 1 << 18  # tokens read at once
_TOKENS, _MARKS = 1, 2
_FEW = 0.5  # seconds of slow reads after which tokens are copied, however few there are
_COPIED_PER_SECOND = 2e8  # tokens of a source per second of slow reads, at most, before they are copied
_TRIED = 3  # intervals that are read to measure a source
_NAMED = 5  # sources that a message names
DEFAULT_FIELDS = ("input_ids", "labels")
CHOOSE_SEPARATOR = 'Write to_eos = ID above the first [[source]] to replace all by one, or to_eos = "none"'
"""The remedy if sources have different separators."""


@dataclass(frozen=True, slots=True)
class Where:
    """The origin of a sample."""

    sample: int  # the number of the sample
    source: str  # the name of the source that the sample is drawn from by weight; "" if all sources are one list
    epoch: int  # the pass over the list, from 0
    # the spans that the sample advances by; `Span.source` is the number of a source of the recipe
    spans: tuple[Span, ...]


class Ending(Protocol):
    """A source with a known separator, or without one: opened, or of text that is not tokenized yet."""

    @property
    def name(self) -> str: ...
    @property
    def eos_id(self) -> int | None: ...


class _Turn(NamedTuple):
    """Consecutive passes over one list."""

    packing: Packing
    list_number: int  # for the keys of its permutations
    first: int
    passes: int


class Drawn(NamedTuple):
    """The samples that are drawn from a list."""

    packing: Packing  # of the list
    first: int  # pass over the list
    drawn: int  # samples, over all passes
    whole: int  # complete passes
    parts: list[Selection]  # of the passes that are not complete; at most two


class Samples(TokenReader):
    """The reader of a recipe with `seq_len`. It is picklable, and threads may share it."""

    has_labels = True
    has_begins = True

    def __init__(
        self,
        file: RecipeFile,
        sources: Sequence[TokenSource],
        vocabulary: Vocabulary | None = None,
        made_by: Mapping[str, Any] | None = None,
        unkept: Unkept | None = None,
    ) -> None:
        """Pack every list, and count the samples. `unkept` receives notes on what the cache does not keep."""
        # vocabulary: of all sources; None if unknown
        self.file, self.sources, self.vocabulary = file, tuple(sources), vocabulary
        self.seq_len = file.seq_len or 1
        self.eos_id = separator_of(file, self.sources)
        self.pad_id = file.pad if file.pad is not None else self.eos_id or 0
        # the separator that is inserted after each sequence; None for stored samples and for `labels = "starts"`
        self.after = self.eos_id if file.separates else None
        _refuse_leads(file, self.sources)
        self.content: list[list[Any]] | None = None  # hashes of some samples, once they are known; see `mix.state`
        self._seconds = 0.0
        self._tree: EvenTree | None = None
        self._turns = self._pack_lists(unkept)
        axes = dict.fromkeys(turn.packing.axis for turn in self._turns)
        self._slow = [(axis, slow) for axis in axes for slow in axis.slow]
        if file.weighted:
            self._tree = EvenTree([self._samples_of(turn, k) for k, turn in enumerate(self._turns)])
        self._bounds = [0, *itertools.accumulate(turn.packing.samples * turn.passes for turn in self._turns)]
        self.count = self._counted()  # of samples
        stored_dtypes = {turn.packing.axis.stored for turn in self._turns}
        natural = np.result_type(smallest(max(self.pad_id, 0)), *(turn.packing.axis.dtype for turn in self._turns))
        common = stored_dtypes.pop() if len(stored_dtypes) == 1 else None
        self._dtype = common if common is not None and common.itemsize == natural.itemsize else natural
        if file.convention == "starts":
            natural = np.promote_types(natural, smallest(file.lead))
        self.info = replace(self._info_of(natural), made_by=made_by)  # facts of the samples

    def _pack_lists(self, unkept: Unkept | None) -> list[_Turn]:
        file, every = self.file, range(len(self.sources))
        if file.weighted:
            return [_Turn(self._packed([k], k, unkept), k, 0, file.passes(k)) for k in every]
        turns, before = list[_Turn](), 0
        for passes in sorted({file.passes(k) for k in every}):
            members = [k for k in every if file.passes(k) >= passes]
            turns.append(_Turn(self._packed(members, 0, unkept), 0, before, passes - before))
            before = passes
        return turns

    def _packed(self, members: Sequence[int], list_number: int, unkept: Unkept | None) -> Packing:
        file, sources = self.file, [self.sources[k] for k in members]
        key = key_of(VERSION, self.after, [source.state for source in sources])
        if file.pack == "stored":
            for source in sources:
                _check_rows(source, self.seq_len, file.labels)
        own = file.pack == "stored" and any(map(_has_labels, sources))  # labels are read from the source anyway
        width = self.seq_len if file.pack == "stored" else 0
        shuffled = file.shuffle != "none" and not own
        axis = Axis(sources, members, self.after, key, width, shuffled=shuffled, unkept=unkept)
        packing = packed(axis, file, list_number, key)
        if not packing.samples:
            named = f'source "{printable(sources[0].name)}"' if len(sources) == 1 else "the sources"
            raise FormatError(
                file.where,
                f"{named}: {axis.tokens:,} tokens give no sample of {self.seq_len:,}",
                remedy='A shorter seq_len, or tail = "pad", would give some' if file.tail == "drop" else None,
            )
        return packing

    def _samples_of(self, turn: _Turn, source: int) -> Fraction:
        """Return the weight of a source in samples, because weights count tokens, and samples can hold padding."""
        weight = self.file.sources[source].weight or Fraction(1)
        return weight * turn.packing.samples / turn.packing.tokens

    def _counted(self) -> int:
        """Return the number of samples."""
        wanted = None if self.file.tokens is None else self.file.tokens // self.seq_len
        if wanted == 0:
            raise ShortfallError(
                f"{printable(self.file.where)}: the budget of {self.file.tokens:,} tokens is less than one sample. "
                f"Set tokens to {self.seq_len:,} or more"
            )
        if self._tree is None:
            if wanted is not None and wanted > self._bounds[-1]:
                raise self._short("the sources", wanted, self._bounds[-1], max(map(self.file.passes, self._every)))
            return self._bounds[-1] if wanted is None else wanted
        caps = [turn.packing.samples * turn.passes for turn in self._turns]
        if wanted is None:
            return self._tree.maximum(caps)
        counts = self._tree.counts(wanted)
        short = [k for k in self._every if counts[k] > caps[k]]
        if short:
            k = max(short, key=lambda k: counts[k] * self.file.passes(k) / caps[k])
            raise self._short(f'source "{printable(self.sources[k].name)}"', counts[k], caps[k], self.file.passes(k))
        return wanted

    @property
    def _every(self) -> range:
        return range(len(self.sources))

    def _short(self, unit: str, needed: int, there: int, passes: int) -> ShortfallError:
        missing, epochs = needed - there, needed * passes / there
        times = "one pass yields" if passes == 1 else f"{passes:,} passes yield"
        return ShortfallError(
            f"{printable(self.file.where)}: {unit}: the budget needs {needed:,} samples; {times} {there:,}: "
            f"short by {missing:,} samples ({missing * self.seq_len:,} tokens). Allow epochs = {-int(-epochs // 1)}, "
            "or ask for fewer tokens"
        )

    def _info_of(self, dtype: np.dtype[Any]) -> Info:
        file, notes = self.file, list[str]()
        empty = sum(turn.packing.axis.empty for turn in self._turns[: 1 if not file.weighted else None])
        if empty:
            gives = "contributes" if empty == 1 else "contribute"
            notes.append(f"{counted(empty, 'empty sequence')} of the sources {gives} no samples")
        for turn in self._turns[: 1 if not file.weighted else None]:
            if truncated := turn.packing.left_out().get("truncated"):
                notes.append(f'{truncated:,} tokens beyond seq_len are left out of each pass (long = "truncate")')
        notes += [f"{source.name}: {note}" for source in self.sources for note in source.notes]
        notes += [f"{printable(source.name)}: {note}" for source in self.sources for note in self._as_stored(source)]
        notes += [f"{printable(source.name)}: {note}" for source in self.sources for note in self._unlike(source)]
        notes += [self._slowly(slow) for _, slow in self._slow]
        stored = [source.info for source in self.sources if file.pack == "stored"]
        return Info(
            layout=Layout.SAMPLES,
            dtype=dtype,
            sequences=self.count,
            tokens=self.count * self.seq_len,
            sample_length=self.seq_len,
            eos_id=self.eos_id,
            eos_from="recipe" if self.eos_id is not None else "",
            notes=tuple(notes),
            pad_id=self.pad_id,
            odd=(sum(info.nonstandard_masks or 0 for info in stored), -1) if stored else None,
            loss_masks=next((info.loss_masks for info in stored if info.loss_masks), masks_of_sources(self.sources)),
            segmented=any(info.segmented for info in stored),
            extras={"pack": file.pack or "stream", "labels": file.labels_from},
        )

    def _slowly(self, slow: Slow) -> str:
        """Return the note on a source that takes long to read in another order."""
        reason = f"{printable(slow.source.name)}: shuffled samples of {slow.source.format}"
        if has_room(slow.size_bytes):
            copy = human_bytes(slow.size_bytes)
            return f"{reason} take long to decode. Training first copies its tokens to the cache, once: {copy}"
        reader, tokens = slow.source.reader, slow.source.info.tokens
        begun, read, length = time.thread_time(), 0, min(self.seq_len, tokens)
        for start in np.linspace(0, tokens - length, _TRIED).astype(np.int64).tolist():
            read += len(reader.tokens(start, start + length))
        speed = read / max(time.thread_time() - begun, 1e-6) / 1e6
        return (
            f"{reason} are read at about {speed:,.2g} million tokens per second, and a copy of its tokens "
            f"({human_bytes(slow.size_bytes)}) does not fit into the cache. Convert it to a .pbin, which is read fast"
        )

    def _as_stored(self, source: TokenSource) -> Iterator[str]:
        """Yield notes on a source whose sequences are samples that are stored without labels."""
        count, tokens = source.info.sequences, source.info.tokens
        if self.file.pack == "stored":
            if tokens and not _has_labels(source) and not (source.masked and self.file.labels):
                lacks = "no labels" if source.masked else "neither labels nor masks"
                yield (
                    "stores no masks, so that padding counts"
                    if self.file.labels
                    else f"stores {lacks}: the labels of a sample are its own IDs, not moved by one"
                    f'{"" if source.masked else ", and padding counts"}. labels = "next" moves them'
                )
        elif self.after is not None and count > 1 and tokens == count * self.seq_len:
            first, last = (int(np.diff(source.reader.offsets(k, k + 1))[0]) for k in (0, count - 1))
            if first == last == self.seq_len:
                yield (
                    f"its {count:,} sequences have {self.seq_len:,} tokens on average, as stored samples have, and "
                    f'separator {self.after} is put after each. pack = "stored" takes each as a sample'
                )

    def _unlike(self, source: TokenSource) -> Iterator[str]:
        """Yield the note on a source whose documents have other separators in the samples than in its data."""
        file, others = self.file, [eos_id for eos_id in source.removed if eos_id != self.after]
        for lead in source.leads:
            if lead != file.lead:
                yield f"its lead {lead} is replaced by {file.lead} (to_bos)"
        listed = "separator " + " and ".join(map(str, others))
        if file.pack == "stored":
            return
        if others and self.after is None:
            why = 'to_eos = "none"' if file.to_eos is not None else f'labels = "{file.convention}"'
            yield f"its {listed} is in no sample ({why})"
        elif others:
            yield f"its {listed} is replaced by {self.after} (to_eos)"
        elif file.to_eos is None and self.after is not None and source.eos_id is None and source.info.sequences:
            count = counted(source.info.sequences, "sequence")
            yield f"it has no separator, so {self.after}, that of the other sources, is put after each of its {count}"
        if self.after is not None and source.masked and not source.removed and not source.files:
            count = counted(source.info.sequences, "separator")
            yield f'{count} {self.after} added to its documents do not count in the loss. to_eos = "none" adds none'

    @property
    def shifted(self) -> bool:  # type: ignore[override]
        """True if labels are the next tokens, by the recipe or as stored; False if they are the tokens themselves."""
        if self.file.pack != "stored":
            return self.file.convention != "same"
        readers = [sampled_beneath(source.reader, 0)[0] for source in self.sources if source.info.tokens]
        moved = self.file.labels is not None
        return all(reader.shifted if isinstance(reader, Samples) else moved or reader.has_labels for reader in readers)

    @property
    def labels_from(self) -> str:
        """The origin of labels and masks: "stored" if the sources store them, else "recipe"."""
        return "stored" if self.info.loss_masks or self.info.nonstandard_masks else "recipe"

    @cached_property
    def facts(self) -> dict[str, Any]:
        """All facts that the order of samples depends on, by name; "sources" has those of each source.

        They do not depend on the budget, the maximum passes of weighted sources, names, paths and manifests.
        """
        file, sources = self.file, self.file.sources
        passes = [file.passes(k) for k in self._every]
        return {
            "tokfmt": VERSION,
            "seq_len": file.seq_len,
            "pack": file.pack or "stream",
            "labels": file.convention,
            "tail": file.tail or "pad",
            "long": file.long or "split",
            "shuffle": file.shuffle,
            "seed": file.seed,
            "to_eos": self.eos_id,
            "to_bos": file.lead if file.convention == "starts" else None,
            "pad": self.pad_id,
            "passes": None if file.weighted or len(set(passes)) == 1 else passes,
            "sources": [
                {
                    "weight": str(entry.weight),
                    "quota": entry.tokens,
                    "select": entry.select,
                    "split": entry.split,
                    **source.facts,
                }
                for entry, source in zip(sources, self.sources, strict=True)
            ],
        }

    @cached_property
    def fingerprint(self) -> str:
        """A hash of `facts`, 32 hexadecimal digits."""
        return hashlib.sha256(json.dumps(self.facts, sort_keys=True, default=str).encode()).hexdigest()[:32]

    def __len__(self) -> int:
        return self.count

    @property
    def advance(self) -> int:
        """The number of positions that a full sample advances by: `seq_len`, or one more with labels = "disjoint"."""
        return self.seq_len + (self.file.convention == "disjoint")

    def _locate(self, sample: int) -> tuple[_Turn, int, int]:
        """Return the list of a sample, the pass over the list, and the number of the sample in the packing."""
        if self._tree is not None:
            k, number = self._tree.locate(sample)
            turn = self._turns[k]
        else:
            k = bisect.bisect_right(self._bounds, sample) - 1
            turn, number = self._turns[k], sample - self._bounds[k]
        count = turn.packing.samples
        epoch, number = divmod(number, count)
        epoch += turn.first
        order = self._order(turn, epoch)
        return turn, epoch, number if order is None else order(number)

    def _order(self, turn: _Turn, epoch: int) -> Permutation | None:
        """Return the order of the samples of a pass over a list; None if they are not shuffled."""
        if self.file.shuffle == "none":
            return None
        return permutation(turn.packing.samples, self.file.seed, ORDER_SAMPLES, turn.list_number << 32 | epoch)

    def lists(self, first: int = 0, last: int | None = None) -> list[Drawn]:
        """Return what samples `first <= k < last` draw from each list; a `last` of None is the end."""
        last = self.count if last is None else last
        if self._tree is not None:
            low, high = self._tree.counts(first), self._tree.counts(last)
        else:
            every = list(itertools.pairwise(self._bounds))
            low, high = ([min(max(k, a), b) - a for a, b in every] for k in (first, last))
        return [self._drawn(*bounded) for bounded in zip(self._turns, low, high, strict=True)]

    def _drawn(self, turn: _Turn, first: int, last: int) -> Drawn:
        """Return samples `first <= k < last` of a list, counted over its passes."""
        count, whole, parts = turn.packing.samples, 0, list[Selection]()
        for epoch in dict.fromkeys((first // count, last // count)):
            low, high = max(first - epoch * count, 0), min(last - epoch * count, count)
            if low < high and high - low < count:
                parts.append(_selected(self._order(turn, turn.first + epoch), low, high))
                whole -= 1
        if first < last:
            whole += -(-last // count) - first // count
        return Drawn(turn.packing, turn.first, last - first, whole, parts)

    def _check(self, sample: int) -> int:
        if not -self.count <= sample < self.count:
            raise IndexError(f"sample {sample} of {self.count}")
        return sample % self.count

    def _packings(self, samples: Iterable[int]) -> list[PackedSample]:
        packings = []
        for sample in samples:
            turn, _, number = self._locate(self._check(sample))
            packings.append((turn.packing, number))
        return packings

    def spans(self, sample: int) -> list[Span]:
        """Return the spans of sequences that a sample advances by, in order. No span holds padding."""
        return list(self.where(sample).spans)

    def table(self, samples: NDArray[np.int64]) -> SpanTable:
        """Return the spans of some samples; `row` is the index in `samples`. No span holds padding."""
        intervals_of: dict[int, tuple[Axis, list[tuple[int, int, int]]]] = {}
        for row, sample in enumerate(samples.tolist()):
            turn, _, number = self._locate(self._check(sample))
            axis = turn.packing.axis
            intervals_of.setdefault(id(axis), (axis, []))[1].extend(
                (row, *interval) for interval in turn.packing.intervals(number)
            )
        tables = []
        for axis, intervals in intervals_of.values():
            rows, starts, stops = np.array(intervals, np.int64).reshape(-1, 3).T
            table = axis.table(starts, stops)
            tables.append(table._replace(row=rows[table.row]))
        return SpanTable.joined(tables)

    def where(self, sample: int) -> Where:
        """Return the origin of a sample."""
        sample = self._check(sample)
        turn, epoch, number = self._locate(sample)
        source = self.sources[turn.packing.axis.numbers[0]].name if self._tree is not None else ""
        packing = turn.packing
        spans = [span for a, b in packing.intervals(number) for span in packing.axis.spans(a, b)]
        return Where(sample, source, epoch, tuple(spans))

    def seen(self, source: int, number: int) -> list[tuple[int, int]]:
        """Return the samples that hold tokens of a sequence of a source, ascending, and the pass of each."""
        found = list[tuple[int, int]]()
        for k, turn in enumerate(self._turns):
            if source not in turn.packing.axis.numbers:
                continue
            place = turn.packing.axis.numbers.index(source)
            held = [turn.packing.holding(*one) for one in turn.packing.axis.intervals_of(place, number)]
            samples = np.unique(np.concatenate(held)) if held else np.empty(0, np.int64)
            for epoch in range(turn.first, turn.first + turn.passes):
                order, before = self._order(turn, epoch), (epoch - turn.first) * turn.packing.samples
                if before >= self.count:
                    break
                numbers = ((samples if order is None else order.inverse(samples)) + before).tolist()
                drawn = [
                    self._bounds[k] + one if self._tree is None else self._tree.number_of(k, one) for one in numbers
                ]
                found += [(sample, epoch) for sample in drawn if sample < self.count]
        return sorted(found)

    def where_at(self, step: int, batch_size: int, rank: int = 0, world_size: int = 1, start: int = 0) -> list[Where]:
        """Return the origins of the samples that a rank takes at a step."""
        try:
            taken = samples_of_step(step, batch_size, rank, world_size, start)
        except ValueError as error:
            raise OptionError(str(error)) from error
        if (start + (step + 1) * batch_size) > self.count:
            last = (self.count - start) // batch_size - 1
            raise OptionError(f"step {step:,} is beyond the last whole batch, step {last:,}: {self.count:,} samples")
        return [self.where(sample) for sample in taken]

    def samples(
        self,
        samples: Sequence[int] | NDArray[np.integer] | range,
        fields: Iterable[str] = DEFAULT_FIELDS,
        dtype: Ids = np.int32,
    ) -> dict[str, NDArray[Any]]:
        """Read samples as arrays with one row per sample. `mix.fields` has names, dtypes and shapes of fields."""
        wanted = samples.tolist() if isinstance(samples, np.ndarray) else samples
        names, grid = check_fields(fields), self.grid(wanted)
        if self.vocabulary is not None:
            self._refuse_beyond(self.vocabulary, grid, wanted)
        return dict(arrays(grid, names, dtype))

    def copy_slow_sources(self) -> None:
        """Copy the tokens of sources that take long to decode in another order to the cache, once per machine.

        Sources whose copy does not fit are left as they are. A warning lists what is copied.
        """
        slow, self._slow = self._slow, []
        for axis, draft in slow:
            if not has_room(draft.size_bytes):
                continue
            where, name = printable(self.file.where), printable(draft.source.name)
            amount = f"{human_bytes(draft.size_bytes)} of tokens of {name} ({draft.source.format})"
            note = f"{where}: copying {amount} to the cache"
            warnings.warn(f"{note}, once, as shuffled samples take long to decode", LoaderWarning, stacklevel=3)
            if not axis.copy(draft):
                warnings.warn(f"{note} failed; shuffled samples are decoded one by one", LoaderWarning, stacklevel=3)

    def _refuse_beyond(self, vocabulary: Vocabulary, grid: Grid, samples: Sequence[int]) -> None:
        """Raise TokenizerMismatchError for IDs without a token, except the separator and the padding."""
        wrong = vocabulary.ids.lacks(grid.tokens)
        if wrong.any():
            ours = [token for token in (self.eos_id, self.pad_id) if token is not None]
            wrong &= ~np.isin(grid.tokens, ours)
        if wrong.any():
            row, column = np.argwhere(wrong)[0].tolist()
            raise TokenizerMismatchError(
                self.file.where,
                f"sample {samples[row]:,} holds an ID that the tokenizer does not have",
                f"{vocabulary.ids}, as {vocabulary.name} has them",
                f"{int(grid.tokens[row, column]):,} at position {column:,}",
            )

    def grid(self, samples: Iterable[int]) -> Grid:
        """Read some samples. If reads of slow sources have taken long by then, copy their tokens first."""
        if self._slow and self._seconds > max(_FEW, sum(slow.tokens for _, slow in self._slow) / _COPIED_PER_SECOND):
            self.copy_slow_sources()
        begun = time.thread_time()
        grid = Grid(self._packings(samples), self.file, self.pad_id, self._dtype)
        self._seconds += time.thread_time() - begun
        return grid

    def tokens(self, start: int, stop: int) -> Tokens:
        return self._flat(start, stop, lambda grid: grid.inputs().astype(self.info.dtype, copy=False))

    def masks(self, start: int, stop: int) -> NDArray[np.uint8]:
        mask: NDArray[np.uint8] = self._flat(start, stop, Grid.mask)
        return mask

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Return None unless a source has loss masks or labels."""
        stored = self.file.pack == "stored" and any(source.reader.marks(0, 0) is not None for source in self.sources)
        if not stored and not any(source.masked for source in self.sources):
            return None
        moved = self.shifted or (stored and any(map(_has_labels, self.sources)))
        marks: NDArray[np.uint8] = self._flat(start, stop, lambda grid: _marks_of(grid, moved=moved))
        if len(wrong := np.flatnonzero(marks & OTHER)):
            at = start + int(wrong[0])
            raise other_label(at - 1, int(self.tokens(at, at + 1)[0]), int(self.labels(at - 1, at)[0]))
        return marks.astype(np.uint8, copy=False)

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        return np.asarray(self._flat(start, stop, lambda grid: grid.labels(np.int64)), np.int64)

    def filled(self, sample: int) -> int:
        """Return the number of positions of a sample before its padding."""
        ((packing, number),) = self._packings([sample])
        if isinstance(packing, StoredSamples):
            return self.grid([sample]).filled[0]
        return max((run.column + run.length for run in packing.runs(number)), default=0)

    def is_padding(self, start: int, stop: int) -> NDArray[np.bool_]:
        return np.asarray(self._flat(start, stop, lambda grid: _places_of(grid) == PADDING), np.bool_)

    def begins(self, start: int, stop: int) -> NDArray[np.bool_]:
        flat: NDArray[np.bool_] = self._flat(start, stop, lambda grid: _places_of(grid) == BEGINS)
        return flat

    def _flat(self, start: int, stop: int, field: Any) -> NDArray[Any]:
        """Return a field for an interval of positions, read in windows of samples."""
        check_interval(start, stop, self.info.tokens)
        width, parts = self.seq_len, list[NDArray[Any]]()
        first, last = start // width, -(-stop // width) if stop > start else start // width
        for a, b in windows(first, last, max(1, _WINDOW // width)):
            parts.append(field(self.grid(range(a, b))).reshape(-1))
        if not parts:
            return np.empty(0, self.info.dtype)
        flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return flat[start - first * width : stop - first * width]

    def offsets(self, first: int, last: int) -> Offsets:
        return np.arange(first, last + 1, dtype=np.int64) * self.seq_len

    def to_source(self, position: int) -> tuple[TokenReader, int] | None:
        """Return None in padding as well."""
        check_position(position, self.info.tokens)
        sample, column = divmod(position, self.seq_len)
        turn, _, number = self._locate(sample)
        column -= self.file.convention == "starts"  # inputs are shifted right by one
        for run in turn.packing.runs(number):
            if run.column <= column < run.column + run.length:
                return turn.packing.axis.to_source(run.start + column - run.column)
        return None

    def close(self) -> None:
        for turn in self._turns:
            turn.packing.axis.close()


def _places_of(grid: Grid) -> NDArray[np.uint8]:
    """Return the marks BEGINS and PADDING of samples, uint8[n, width]."""
    places = np.zeros(grid.rows.shape, np.uint8)
    places.reshape(-1)[grid.begins()] = BEGINS
    places[np.arange(grid.width) >= np.array(grid.filled)[:, None]] = PADDING
    return places


def _marks_of(grid: Grid, *, moved: bool) -> NDArray[np.uint8]:
    """Return the marks of samples, uint8[n, width], with OTHER where a label that counts is not the ID that it is for.
    If labels are `moved`, they are those of the next IDs: the last one of a sample is dropped, and its first ID is no
    target.
    """
    labels, ids = grid.labels(np.int64), grid.inputs()
    if moved:
        labels[:, 1:], labels[:, 0] = labels[:, :-1].copy(), IGNORED
    counts = labels != IGNORED
    marks: NDArray[np.uint8] = counts * np.uint8(TARGET) | _places_of(grid)
    if moved:
        marks[counts & (labels != ids)] = OTHER
    return marks


class PackedRows(TokenReader):
    """The samples of a recipe as packed rows without padding, for formats in which each token is the next label.

    A part of a row is its input IDs, and its last label if that counts. Each part therefore has the same labels as in
    the sample, and a document of a stream ends with the first token of the next document. Marks are 1 where a token
    counts as a label, and 4 where a part begins. The reader holds 8 bytes per sample. It is a `TokenReader`, `HasMarks`
    and picklable.
    """

    def __init__(self, samples: Samples, size: int) -> None:
        """Read all samples once, to compute the lengths of rows. Their labels are the next tokens."""
        if size != samples.seq_len:
            problem = f"--to-opt pack_size={size}: samples of this recipe predict up to {samples.seq_len:,} tokens"
            way = f"Use --to-opt pack_size={samples.seq_len}, or leave seq_len out of the recipe"
            raise OptionError(f"{problem}. {way}", name="pack_size")
        if not samples.shifted:
            problem = "packed rows predict the next token, and labels of these samples are not moved by one"
            way = 'Write labels = "next" in the recipe, or leave pack_size out, which stores labels and positions'
            raise OptionError(f"--to-opt pack_size={size}: {problem}. {way}", name="pack_size")
        self.samples, self._at_once = samples, max(1, _WINDOW // samples.seq_len)
        lengths = [self._rows(a, b)[0] for a, b in windows(0, samples.count, self._at_once)]
        self._offsets = offsets_of(np.concatenate([np.empty(0, np.int64), *lengths]))
        self.info = replace(
            samples.info,
            tokens=int(self._offsets[-1]),
            sample_length=None,
            segmented=True,
            extras={"pack_size": samples.seq_len},
        )

    def _rows(self, first: int, last: int) -> tuple[NDArray[np.int64], Tokens, NDArray[np.uint8]]:
        """Return the lengths of rows `first <= i < last`, their tokens, and the marks of the tokens."""
        grid, width = self.samples.grid(range(first, last)), self.samples.seq_len
        inputs, labels = grid.inputs().astype(self._dtype, copy=False).reshape(-1), grid.labels().reshape(-1)
        begins = grid.begins()  # padding begins a part as well
        ends = np.append(begins[1:], len(inputs))
        filled = np.repeat(np.arange(len(grid.filled)) * width + grid.filled, width)
        pieces = begins < filled[begins]
        begins, ends = begins[pieces], ends[pieces]
        counts = np.append(False, labels[:-1] != IGNORED)
        counts[begins] = False
        real = np.arange(len(inputs)) < filled
        if (wrong := np.flatnonzero(counts & real & (np.append(0, labels[:-1]) != inputs))).size:
            unlike = int(wrong[0])
            raise other_label(first * width + unlike - 1, int(inputs[unlike]), int(labels[unlike - 1]))
        marks = counts * np.uint8(TARGET)
        marks[begins] = BEGINS
        more = labels[ends - 1] != IGNORED
        after = np.cumsum(ends - begins)[more]
        lengths = np.bincount(begins // width, ends - begins + more, last - first).astype(np.int64)
        tokens = np.insert(inputs[real], after, labels[ends - 1][more].astype(self._dtype))
        return lengths, tokens, np.insert(marks[real], after, TARGET)

    @property
    def _dtype(self) -> np.dtype[Any]:
        return self.samples.info.dtype

    def _window(self, start: int, stop: int, part: int) -> NDArray[Any]:
        """Return one array of `_rows` for an interval of positions."""
        first, last = np.searchsorted(self._offsets, (start, stop), side="right").tolist()
        first, last = first - 1, min(last, self.samples.count)
        parts = [self._rows(a, b)[part] for a, b in windows(first, last, self._at_once)]
        if start == stop:
            return np.empty(0, self._dtype if part == _TOKENS else np.uint8)
        base = int(self._offsets[first])
        return np.concatenate(parts)[start - base : stop - base]

    def tokens(self, start: int, stop: int) -> Tokens:
        return self._window(start, stop, _TOKENS)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8]:
        return self._window(start, stop, _MARKS)

    def offsets(self, first: int, last: int) -> Offsets:
        return self._offsets[first : last + 1]

    def close(self) -> None:
        self.samples.close()


def _selected(order: Permutation | None, first: int, last: int) -> Selection:
    """Return the selection of the samples that are at positions `first <= k < last` in the order of a pass."""

    def those(a: int, b: int) -> NDArray[np.bool_]:
        positions = np.arange(a, b)
        positions = positions if order is None else order.inverse(positions)
        return (positions >= first) & (positions < last)

    return those


def _refuse_leads(file: RecipeFile, sources: Sequence[TokenSource]) -> None:
    """Refuse a source that has a lead, if the recipe does not state the one that it puts in front of documents."""
    for source in sources if file.to_bos is None else ():
        for lead in source.leads:
            problem = f'documents of source "{printable(source.name)}" begin with {lead}, and labels = "starts" with 0'
            raise ConversionError(
                f"{printable(file.where)}: {problem}. Write to_bos = {lead} above the first [[source]]"
            )


def separator_of(file: RecipeFile, sources: Sequence[Ending]) -> int | None:
    """Return the separator of the recipe, or else of all sources that have one; None without one."""
    if file.to_eos is not None:
        return None if file.to_eos == "none" else int(file.to_eos)
    first_with: dict[int, Ending] = {}
    for source in sources:
        if source.eos_id is not None:
            first_with.setdefault(source.eos_id, source)
    if len(first_with) > 1 and file.separates:
        listed = ", ".join(
            f'{eos_id} in "{printable(source.name)}"' for eos_id, source in list(first_with.items())[:_NAMED]
        )
        where = printable(file.where)
        raise ConversionError(f"{where}: the sources have different separators ({listed}). {CHOOSE_SEPARATOR}")
    return next(iter(first_with)) if len(first_with) == 1 else None


def has_labels(reader: TokenReader) -> bool:
    """Return True if a reader has samples that are stored with labels and masks."""
    return bool(reader.info.tokens) and sampled_beneath(reader, 0)[0].has_labels


def _has_labels(source: TokenSource) -> bool:
    return has_labels(source.reader)


def _check_rows(source: TokenSource, width: int, labels: str | None) -> None:
    """Check that the sequences of a source are samples of one length that can be taken as they are stored."""
    info, path = source.info, source.paths[0]
    if info.segmented and info.sample_length is None:
        raise FormatError(
            path,
            "its rows are packed documents, each of which ends with a token that is only a label",
            remedy='pack = "bestfit" packs its documents again',
        )
    own = _has_labels(source)
    if own and labels is not None:
        raise FormatError(path, "its samples have labels of their own", remedy="Leave labels out of the recipe")
    if info.layout is Layout.SAMPLES and info.sample_length not in (None, width):
        remedy = None
        if info.length_given:
            remedy = f'Set options = {{ seq_len = "{width}" }} for the source, if its blocks have that length'
        problem, found = "its samples have another length", info.sample_length
        raise FormatError(path, problem, expected=width, found=found, remedy=remedy)
    for a, b in () if info.sample_length == width else windows(0, info.sequences, _WINDOW):
        lengths = np.diff(source.reader.offsets(a, b))
        if (other := np.flatnonzero(lengths != width)).size:
            raise FormatError(
                path,
                f"its sequences are not samples of one length: sequence {a + int(other[0]):,} has another",
                expected=width,
                found=int(lengths[other[0]]),
                remedy='pack = "stream" cuts its sequences into samples',
            )
