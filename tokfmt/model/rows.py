"""The rule of rows: what columns beside token IDs mean, in every format whose records are rows of IDs.

A format hands over the IDs of rows and the columns beside them by their names, and gets sequences, marks and facts. It
states no rule of its own.

    role        names (`ROLES`)                             value               states
    labels      labels                                      per ID: ID or -100  which IDs count in the loss
    mask        completion_mask, assistant_masks            per ID: 0 or 1      which IDs count in the loss
    loss mask   loss_mask                                   per ID: 0 or 1      the same, of the ID or of the next one
    attention   attention_mask                              per ID: 0 to n      what is padding; above 1, documents
    segments    inputs_segmentation, inputs_segment_ids     per ID: 0 to n      documents; 0 is padding
    positions   position_ids, inputs_position, …            per ID: from 0      where documents begin
    lengths     seq_lengths                                 per document        where documents begin
    starts      seq_start_id                                per document        where documents begin
    completion  completion; targets of pairs                IDs                 the IDs behind those of a prompt
    targets     targets beside inputs, targets_segmentation per ID: an ID       nothing: its labels

    what is there                                           what it means
    attention or segments of 0 at the ends of a document    padding: it is left out
    padding or fill in rows that are read as samples        stays in its row, is marked, and does not count in the loss
    attention or segments of 0 inside of a document         content that does not count in the loss
    attention of 0 at copies of one ID, behind a separator  padding: a document begins behind it, if the separator is
                                                              known, tokfmt did not write the row, the row excludes no
                                                              other ID, and nothing else divides it
    another number in attention or segments                 a document begins
    a position of 0                                         a document begins
    a position that is higher by more than its distance     nothing (PoSE, multimodal positions)
    a position that is lower or equal, and not 0            a contradiction
    positions of 0 and labels of -100, one ID, at the end   padding, unless tokfmt wrote the row
    k separators at the end of a document that its row      the last k - 1 are fill, and are left out, if the separator
      divides, of which the first counts, and no other        is known, and tokfmt did not write the row
    two columns that divide a row at different IDs          a contradiction
    lengths that are not those of a row, or of what         a contradiction
      attention and segments leave of it
    labels and masks that count different IDs               a contradiction, unless an option chooses one or all
    a completion behind its prompt                          one document, of which the completion counts in the loss
    targets of inputs with segments or positions, or        the labels of inputs (MaxText); the last one of a document
      of rows that are all inputs, or these moved by one      is padding, or the next ID of the row
    a label among these of 0 or -100, or beside a 0 in      its ID does not count in the loss; nor do the first IDs of
      targets_segmentation, inside of a document              documents in its row, if labels are moved by one
    another last label of a row without other columns       the last ID of its document; with them, a contradiction
    other targets of inputs                                 completions (seqio)
    targets that are the labels of inputs in the first      a contradiction
      rows, and hold other IDs in a later one
    no value (absent, NULL) of a column in a row            as a row without that column: every ID counts, is content,
                                                            and belongs to one document
    a first ID of a document                                is no label of the ID before it
    columns that only divide or leave out                   no mask: every ID counts

A row whose columns contradict each other, or do not fit its IDs, is reported with its number: a reader raises an error
for the first one, and a check lists all of them. Sources: transformers (labels, attention_mask, position_ids), TRL
(completion_mask, assistant_masks, seq_lengths), axolotl and LLaMA-Factory (numbers in attention_mask, PoSE, padding of
position 0), MaxText (segmentations and positions of `inputs`, of which `targets` are the labels), seqio (names of
segments; `PrefixLMFeatureConverter`, `loss_on_targets_only`), Megatron-Bridge (seq_start_id, fill).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.loss_mask import (
    ALL,
    ATTENTION,
    BEGINS,
    COUNTING,
    IGNORED,
    LABELS,
    LENGTHS,
    LOSS_MASK,
    OTHER,
    PADDING,
    POSITIONS,
    STARTS,
    TARGET,
    Flags,
    mask_fields,
    which_of,
)
from tokfmt.core.padding import Contradictions, contradictions
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.files.place import Place
from tokfmt.wording import counted

_LARGEST = (1 << 32) - 1

SEGMENTS = ("inputs_segmentation", "inputs_segment_ids")
"""Names of segments: of MaxText, of seqio. Not `segment_ids`, which BERT has, and which are 0 in the first sentence."""
ALL_POSITIONS = (POSITIONS, "inputs_position", "inputs_positions")
"""Names of positions: of Hugging Face, of MaxText, of seqio."""
DIVIDING = (*SEGMENTS, *ALL_POSITIONS, LENGTHS, STARTS)
"""Names of columns that divide rows. Numbers above 1 in `attention_mask` do so as well."""
COMPLETION, TARGETS, TARGET_SEGMENTS = "completion", "targets", "targets_segmentation"
SECOND = {"prompt": COMPLETION, "inputs": TARGETS}
"""The name of the second list of IDs, by that of the first one."""
PER_DOCUMENT = (LENGTHS, STARTS)
"""Names of columns with a value per document, instead of one per ID."""
ROLES = (*COUNTING, ATTENTION, *DIVIDING, COMPLETION, TARGETS, TARGET_SEGMENTS)
"""Names of all columns that are read beside the IDs of rows."""


def columns_to_read(path: Place, there: Sequence[str], choice: str | None, first: str = "") -> tuple[str, ...]:
    """Return which columns beside IDs are read. `choice` is the option `loss_mask`. A second column of IDs beside
    `first` may be the completion or the labels.
    """
    masks = mask_fields(path, there, choice)
    if {LOSS_MASK, STARTS} <= {*there} and choice is None:  # packed rows of Megatron-Bridge
        masks = (*masks, LOSS_MASK)
    others = (ATTENTION, *(name for name in DIVIDING if name != STARTS or LOSS_MASK in masks))
    second = SECOND.get(first, "")
    also = (second, TARGET_SEGMENTS) if second == TARGETS else (second,)
    return (*masks, *(name for name in (*others, *also) if name in there))


def are_pairs(names: Collection[str], rows: Iterable[tuple[Any, Any]]) -> bool:
    """Return whether `targets` of IDs, in rows of both, are completions; see the table of this module."""
    if TARGETS not in names or not {*SEGMENTS, *ALL_POSITIONS, TARGET_SEGMENTS}.isdisjoint(names):
        return False
    long = [(np.asarray(ids), np.asarray(targets)) for ids, targets in rows if len(ids) > 1 or len(targets) > 1]
    return not long or not all(
        len(ids) == len(targets) and (_are_labels(targets, ids) or _are_labels(targets[:-1], ids[1:]))
        for ids, targets in long
    )


def _are_labels(targets: NDArray[Any], ids: NDArray[Any]) -> bool:
    return bool(((targets == ids) | (targets == 0) | (targets == IGNORED)).all())


def may_divide(names: Collection[str]) -> bool:
    """Return whether columns may divide rows, or leave out IDs of them."""
    return not {*DIVIDING, ATTENTION}.isdisjoint(names)


def announcement(names: Collection[str]) -> tuple[str, ...]:
    """Return the note on columns of records that are read one after the other, so that no numbers are known before."""
    what = f"{', '.join(names)} beside the IDs are read"
    return (f"{what}: padding is left out, and packed rows are divided",) if may_divide(names) else ()


def states_loss(names: Collection[str], how: Reading) -> bool:
    """Return whether columns state which IDs count in the loss."""
    return not {*COUNTING, COMPLETION}.isdisjoint(names) or (how.pairs and TARGETS in names)


class Column(NamedTuple):
    """A column of rows: the values of row i are `values[offsets[i]:offsets[i + 1]]`."""

    values: NDArray[np.integer[Any]]  # one-dimensional integers of all rows, joined
    offsets: Offsets  # int64[rows + 1]
    there: Flags | None = None  # bool per row, False where the row has no value; None if every row has one


class RowFacts(NamedTuple):
    """What the columns of some rows state, in numbers."""

    rows: int = 0  # the number of rows
    divided: int = 0  # of those, the number that hold more than one document
    padding: int = 0  # IDs that are left out: excluded by attention or segments at the ends of documents
    ended: int = 0  # likewise, of position 0 and with ignored labels at the ends of rows
    fill: int = 0  # likewise, repeated separators that do not count
    inside: int = 0  # excluded IDs inside of documents, which are content that does not count in the loss
    masked: int = 0  # IDs that do not count in the loss because targets do not have them as labels
    jumps: int = 0  # positions that are higher than those before them by more than their distance
    excluding: Mapping[str, int] = {}  # IDs that are excluded, by the name of the column
    lacking: Mapping[str, int] = {}  # rows without a value, by the name of the column
    dividing: Mapping[str, int] = {}  # rows that hold more than one document, by the name of the column

    @property
    def left_out(self) -> int:
        """The number of IDs that are left out."""
        return self.padding + self.ended + self.fill

    @property
    def uncounted(self) -> int:
        """The number of IDs that do not count in the loss, by columns other than labels and masks."""
        return self.inside + self.masked

    def joined(self, later: RowFacts) -> RowFacts:
        """Return the sum of these rows and the rows that follow them."""
        found = Counter(self.numbers())
        found.update(later.numbers())
        return RowFacts.of(found)

    def numbers(self) -> dict[str, int]:
        """Return the numbers by name, without zeros, for `of` and for JSON: `excluding.NAME`, `lacking.NAME`."""
        listed = {name: number for name, number in self._asdict().items() if name not in _BY_COLUMN}
        for key in _BY_COLUMN:
            listed |= {f"{key}.{name}": number for name, number in getattr(self, key).items()}
        return {name: number for name, number in listed.items() if number}

    @staticmethod
    def of(numbers: Mapping[str, int]) -> RowFacts:
        """Return the facts with these numbers."""
        found = dict[str, Any]({key: {} for key in _BY_COLUMN})
        for name, number in numbers.items():
            key, _, column = name.partition(".")
            if column:
                found[key][column] = number
            else:
                found[key] = number
        return RowFacts(**found)

    def notes(self) -> tuple[str, ...]:
        """Return a sentence for each fact that changes what a reader of the rows sees."""
        found, by = [], " and ".join(self.excluding)
        if self.divided:
            what = f"{counted(self.divided, 'row')} of {self.rows:,} hold several documents, and are divided"
            found.append(f"{what}, by {' and '.join(self.dividing)}")
        if self.padding:
            found.append(f"{counted(self.padding, 'position')} at the ends of documents are padding, by {by}")
        if self.ended:
            what = f"{counted(self.ended, 'position')} at the ends of rows are padding"
            found.append(f"{what}: each has position 0 and a label that is ignored")
        if self.fill:
            what = f"{counted(self.fill, 'separator')} at the ends of documents are fill"
            found.append(f"{what}: only the first of each document counts in the loss")
        if self.inside:
            what = f"{counted(self.inside, 'position')} inside of documents are excluded, by {by}"
            found.append(f"{what}: these are content that does not count in the loss")
        if self.masked:
            what = f"{counted(self.masked, 'position')} inside of documents are not among {TARGETS}"
            found.append(f"{what}: these do not count in the loss")
        if self.jumps:
            found.append(f"{counted(self.jumps, 'position ID')} jump ahead inside of documents, which stay whole")
        found += [
            f"{counted(count, 'row')} of {self.rows:,} have no {name}: {_WITHOUT[name in COUNTING]}"
            for name, count in self.lacking.items()
        ]
        return tuple(found)


_BY_COLUMN = ("excluding", "lacking", "dividing")
_WITHOUT = ("read as rows without that column", "each of their IDs counts in the loss")


class IdRows(NamedTuple):
    """Consecutive rows of token IDs, or the documents in them."""

    tokens: Tokens  # of all sequences, joined
    offsets: Offsets  # int64[sequences + 1]; sequence i is `tokens[offsets[i]:offsets[i + 1]]`
    own: NDArray[np.integer[Any]] | None = None  # the label of each token itself, as it is stored; None without labels
    begins: Flags | None = None  # bool per token, True at the first token of a document; None without columns
    marks: NDArray[np.uint8] | None = None  # uint8 per token, bits of `core.loss_mask`; None without columns
    # sequences whose mask leaves out a token or whose labels hold another ID: their number, and the first
    odd: tuple[int, int] = (0, -1)
    facts: RowFacts = RowFacts()  # what the columns state
    counts: NDArray[np.int64] | None = None  # int64 per row, the number of its sequences; None without columns
    first: int = 0  # index of the first sequence in the dataset
    start: int = 0  # position of the first token in the dataset
    against: Contradictions = Contradictions()  # rows whose masks contradict their padding, if they are compared

    def span(self, *, rows: bool) -> tuple[int, int]:
        """Return the first index and the end on the axis of sequences (`rows`) or of tokens."""
        if rows:
            return self.first, self.first + len(self.offsets) - 1
        return self.start, self.start + len(self.tokens)

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return int64[stop - start]: the labels of some tokens, each at its ID, or -100 where it does not count."""
        own = self.tokens if self.own is None else self.own
        counts = 0 if self.marks is None else self.marks[start:stop] & (TARGET | OTHER)
        return np.where(counts, own[start:stop].astype(np.int64), IGNORED)


class Misfit(NamedTuple):
    """A row whose columns do not fit its IDs, or contradict each other."""

    row: int
    problem: str  # as "has labels of another length"
    expected: object = None  # what fits; None if that is clear
    found: object = None  # what the row has; None likewise
    remedy: str = ""  # "" if no other remedy is known than to correct the column


Report = Callable[[Misfit], object]
"""Receives each row that does not fit. The function of a reader raises an error."""


class Reading(NamedTuple):
    """How columns are read."""

    choice: str | None = None  # the option `loss_mask`; see `loss_mask.mask_fields`
    samples: bool = False  # each row stays one sequence as it is stored, instead of the documents in it
    compares: bool = False  # masks are compared with the padding, for `IdRows.against`
    is_own: bool = False  # tokfmt wrote the rows, so that nothing has to be taken for padding or fill
    eos_id: int | None = None  # if it is known; only its repetitions are fill
    pairs: bool = False  # `targets` are completions; see `are_pairs`
    option: str = "column"  # that names the column of IDs, for remedies

    @property
    def alone(self) -> str:
        """The remedy for inputs and targets that do not fit each other."""
        return f"--from-opt {self.option}=inputs or {self.option}={TARGETS} reads one of them alone"


class _Rows(NamedTuple):
    """Rows and their columns, each with one value per ID, before anything is left out."""

    tokens: Tokens
    offsets: Offsets  # int64[rows + 1]
    values: Mapping[str, NDArray[np.integer[Any]]]  # by name of column
    there: Mapping[str, Flags]  # bool per row, False where a row has no value, by name of column
    sizes: NDArray[np.int64]  # int64 per row
    opens: Flags  # True at the first ID of each row

    def of_ids(self, some: Flags, flags: Flags) -> Flags:
        """Return flags of IDs, where the flag of their row is set."""
        return flags if some.all() else flags & np.repeat(some, self.sizes)


class _Parts(NamedTuple):
    """Rows, or documents, as intervals of IDs of which some are passed over."""

    content: NDArray[np.int64] | None  # the IDs that are not passed over, ascending; None if all are content
    low: NDArray[np.int64]  # int64 per part, how many IDs of content are before it
    high: NDArray[np.int64]  # likewise, up to its end

    @staticmethod
    def of(begins: NDArray[np.int64], size: int, content: NDArray[np.int64] | None) -> _Parts:
        """Return the parts of `size` IDs that begin at some of them."""
        ends = np.append(begins[1:], size)[: len(begins)]
        if content is None:
            return _Parts(None, begins, ends)
        return _Parts(content, np.searchsorted(content, begins), np.searchsorted(content, ends))

    def at(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return IDs by their number among the content."""
        return numbers if self.content is None else self.content[numbers]

    @property
    def first(self) -> NDArray[np.int64]:
        """The first ID of content of each part that has one."""
        return self.at(self.low[self.high > self.low])

    @property
    def last(self) -> NDArray[np.int64]:
        """Likewise, the last one."""
        return self.at(self.high[self.high > self.low] - 1)


def _content(passed: Flags) -> NDArray[np.int64] | None:
    """Return the IDs that are not passed over, ascending; None if all are content."""
    return np.flatnonzero(~passed) if passed.any() else None


def with_columns(
    tokens: Tokens, offsets: Offsets, columns: Mapping[str, Column], how: Reading, report: Report
) -> IdRows:
    """Return rows with what the columns beside them state; see the table of this module.

    If `report` returns, what is returned of the row that it received is not what is stored: a row with a column of
    another length is empty. Row i is `tokens[offsets[i]:offsets[i + 1]]`. `report` receives each row that does not fit,
    with every problem of its columns.
    """
    if not columns:
        return IdRows(tokens, offsets, facts=RowFacts(len(offsets) - 1))
    second = COMPLETION if COMPLETION in columns else TARGETS  # its name, if it is behind the IDs from here on
    tokens, offsets, columns = _completed(tokens, offsets, columns, how, report)
    rows, columns = _of_equal_length(tokens, offsets, columns, how, report)
    excluded = _excluded(rows, report)
    content = _content(excluded)
    of_content = _Parts.of(rows.offsets[:-1], len(rows.tokens), content)
    begins, jumps = _begins(rows, columns, of_content, report)
    dividing = _dividing(rows, columns)
    starts = _one_division(rows, begins, dividing, excluded, report)
    packed = np.logical_or.reduce([np.zeros(len(rows.sizes), np.bool_), *dividing.values()])
    if content is not None and how.eos_id is not None and not how.is_own:
        borders = rows.of_ids(~packed, _behind_padding(rows, content, how.eos_id))
        starts |= borders
        by = _some_in_rows(rows.offsets, borders) | dividing.get(ATTENTION, False)
        packed |= by
        dividing |= {ATTENTION: by} if by.any() else {}
    ended = None if how.is_own else _ended(rows, excluded, of_content)
    passed = excluded if ended is None else excluded | ended
    shifted = {LOSS_MASK} if how.choice == "next" or STARTS in columns else set[str]()
    stated = _stated(rows, starts, shifted)
    opening = np.flatnonzero(starts)
    documents = _Parts.of(opening, len(starts), content if ended is None else _content(passed))
    fill = None
    if how.eos_id is not None and not how.is_own and packed.any() and _repeats(rows.tokens, documents, how.eos_id):
        fill = rows.of_ids(packed, _fill(rows, starts, stated, passed)) & (rows.tokens == how.eos_id)
        documents = _Parts.of(opening, len(starts), _content(passed | fill))
    first, last = documents.first, documents.last + 1
    lengths = offsets_of(last - first)
    is_whole, kept = int(lengths[-1]) == len(starts), _within(first, last, len(starts))
    inside = _count(excluded & kept) if content is not None else 0
    _report_other_flags(rows, kept, report)
    masked = _masked_targets(rows, starts, excluded, how, report) & kept if TARGETS in rows.values else None
    if how.choice != ALL:
        _report_differences(rows, stated, kept, report)
    of_rows = np.searchsorted(first, rows.offsets)
    number = np.diff(of_rows)
    facts = RowFacts(
        len(packed),
        _count(number > 1),
        _count(excluded) - inside if content is not None else 0,
        0 if ended is None else _count(ended),
        0 if fill is None else _count(fill),
        inside,
        0 if masked is None else _count(masked),
        jumps,
        {} if content is None else _excluding(rows),
        {second if name == COMPLETION else name: _count(~one) for name, one in rows.there.items() if not one.all()},
        {name: count for name, divided in dividing.items() if (count := _count(divided & (number > 1)))},
    )
    padding = None if is_whole or not how.samples else ~kept
    if padding is not None:
        kept, is_whole, lengths = kept | padding, True, np.append(first, len(starts))
    firsts, own_rows = lengths[:-1], rows.offsets if is_whole else lengths[of_rows]
    # a row that nothing divides is a sequence, empty if nothing of it remains
    begun = np.sort(np.concatenate([firsts[np.repeat(packed, number)], own_rows[:-1][~packed]]))
    own = rows.values.get(LABELS)
    found = IdRows(
        rows.tokens if is_whole else rows.tokens[kept],
        own_rows if how.samples else np.append(begun, lengths[-1]),
        own if own is None or is_whole else own[kept],
        begins=_flags(int(lengths[-1]), firsts),
        facts=facts,
        counts=np.ones(len(packed), np.int64) if how.samples else np.where(packed, number, 1),
        against=contradictions(rows.tokens, rows.offsets, rows.values, excluded & ~kept)
        if how.compares
        else Contradictions(),
    )
    counting = {name: flags if is_whole else flags[kept] for name, flags in stated.items()}
    for name in shifted & counting.keys():
        counting[name][firsts[np.repeat(rows.there[name], number)]] = False
    counting |= {ATTENTION: ~excluded[kept]} if inside else {}
    counting |= {TARGETS: ~masked[kept]} if masked is not None and facts.masked else {}
    return _marked(found, counting, firsts, padding, how, begins=how.samples and bool(dividing or packed.any()))


class NeedsIdsError(Exception):
    """What divides rows cannot be told without their IDs and all of their columns."""


def dividing(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns that state the sequences of rows, and what is left out; None if IDs may state it as well."""
    if COMPLETION in names or TARGETS in names:
        return None
    return tuple(name for name in names if name == ATTENTION or name in DIVIDING)


def divided(names: Collection[str], offsets: Offsets | None, columns: Mapping[str, Column], how: Reading) -> IdRows:
    """Return what `with_columns` does, except for IDs and marks. `names` are all columns of the rows, and `columns`
    those that `dividing` returned. Without `offsets`, they are those of a column with a value per ID. It raises
    NeedsIdsError if the result depends on IDs or other columns, or a row does not fit.
    """
    per_id = [column for name, column in columns.items() if name not in PER_DOCUMENT]
    if offsets is None and per_id and (per_id[0].there is None or per_id[0].there.all()):
        offsets = per_id[0].offsets
    numbers = columns.get(ATTENTION)
    is_packed = not {*DIVIDING}.isdisjoint(columns) or (numbers is not None and (numbers.values > 1).any())
    may_end = is_packed and not how.is_own and not {*COUNTING}.isdisjoint(names)
    if offsets is None or (may_end and how.eos_id is not None):  # the separators at the end may be fill
        raise NeedsIdsError

    def refuse(_: Misfit) -> None:
        raise NeedsIdsError

    rows = with_columns(np.zeros(int(offsets[-1]), np.uint8), offsets, columns, how._replace(eos_id=None), refuse)
    firsts = np.flatnonzero(rows.begins) if rows.begins is not None else offsets[:-1]
    is_counted = LABELS in names and not {*ALL_POSITIONS}.isdisjoint(columns)
    if how.eos_id is not None and not how.is_own and rows.facts.inside:
        raise NeedsIdsError  # what is excluded behind a separator is padding
    if may_end and is_counted and (how.samples or (np.diff(firsts, append=len(rows.tokens)) == 1).any()):
        raise NeedsIdsError  # a document of one ID may be padding of position 0
    return rows


def without_masks(columns: Mapping[str, Column], offsets: Offsets) -> dict[str, Column]:
    """Return columns if labels and masks are not read: labels still show padding, where they fit the IDs."""
    kept = {name: column for name, column in columns.items() if name not in COUNTING}
    if kept and (labels := columns.get(LABELS)) is not None:
        fits = np.diff(labels.offsets) == np.diff(offsets)
        kept[LABELS] = labels._replace(there=fits if labels.there is None else fits & labels.there)
    return kept


def unlike_labels(found: IdRows, tokens: Tokens, offsets: Offsets, columns: Mapping[str, Column]) -> Iterator[Misfit]:
    """Yield each row with a label that is another ID than its token."""
    if found.marks is None or found.counts is None or LABELS not in columns:
        return
    labels = columns[LABELS]
    for row, at in first_in_rows(found.offsets[offsets_of(found.counts)], found.marks & OTHER != 0):
        token, ids = int(found.tokens[at]), tokens[offsets[row] : offsets[row + 1]]
        own = labels.values[labels.offsets[row] : labels.offsets[row + 1]]
        others = own[(ids == token) & (own != token) & (own != IGNORED)]
        yield other_value(row, LABELS, token, int(others[0]) if len(others) else None)


def some_rows(rows: IdRows, first: int, last: int) -> IdRows:
    """Return the IDs and the marks of rows `first <= i < last`."""
    start, stop = int(rows.offsets[first]), int(rows.offsets[last])
    marks = None if rows.marks is None else rows.marks[start:stop]
    return IdRows(rows.tokens[start:stop], rows.offsets[first : last + 1] - start, marks=marks)


def row_at(offsets: Offsets, position: int) -> int:
    """Return the row that holds a position."""
    return int(np.searchsorted(offsets, position, side="right")) - 1


def row_of_each(offsets: Offsets, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the row that holds each position."""
    return np.searchsorted(offsets, positions, side="right") - 1


def first_in_rows(offsets: Offsets, wrong: Flags) -> Iterator[tuple[int, int]]:
    """Yield each row with a wrong position, and the first in `offsets[i] <= p < offsets[i + 1]`."""
    positions = np.flatnonzero(wrong)
    rows, first = np.unique(row_of_each(offsets, positions), return_index=True)
    return zip(rows.tolist(), positions[first].tolist(), strict=True)


def _some_in_rows(offsets: Offsets, flags: Flags) -> Flags:
    """Return in which rows a flag is set."""
    found: Flags = np.diff(np.searchsorted(np.flatnonzero(flags), offsets)) > 0
    return found


def _within(first: NDArray[np.int64], last: NDArray[np.int64], size: int) -> Flags:
    """Return flags that are set from the first ID of each interval to before its last; intervals ascend."""
    edges = np.zeros(2 * len(first) + 2, np.int64)
    edges[1:-1:2], edges[2:-1:2], edges[-1] = first, last, size
    return np.repeat(np.arange(len(edges) - 1) % 2 == 1, np.diff(edges))


def _count(flags: Flags) -> int:
    return int(np.count_nonzero(flags))


def _flags(size: int, places: NDArray[np.int64]) -> Flags:
    found = np.zeros(size, np.bool_)
    found[places] = True
    return found


def _completed(
    tokens: Tokens, offsets: Offsets, columns: Mapping[str, Column], how: Reading, report: Report
) -> tuple[Tokens, Offsets, Mapping[str, Column]]:
    """Return prompts with their completions behind them, with a mask of these in place of the column.

    Labels of inputs without other columns have one ID more than these, unless it is padding.
    """
    columns = {name: columns[name] for name in ROLES if name in columns}  # so that problems have one order
    name = COMPLETION if COMPLETION in columns else TARGETS
    if name not in columns or (name == TARGETS and not how.pairs and len(columns) > 1):
        return tokens, offsets, columns
    if name == TARGETS and not how.pairs:
        return _with_last_labels(tokens, offsets, columns[name])
    second = columns[name]
    for row, at in first_in_rows(second.offsets, (second.values < 0) | (second.values > _LARGEST)):
        report(Misfit(row, f"has a number in {name} that is no ID", f"0 to {_LARGEST:,}", int(second.values[at])))
    joined, bounds, behind = _behind(Column(tokens, offsets), second)
    others = {key: column for key, column in columns.items() if key != name}
    return joined.astype(np.uint32), bounds, {**others, COMPLETION: Column(behind, bounds, second.there)}


def _behind(first: Column, second: Column) -> tuple[NDArray[np.int64], Offsets, NDArray[np.uint8]]:
    """Return rows with other values behind them, the offsets of both, and 1 at the values behind."""
    sizes = np.stack([np.diff(first.offsets), np.diff(second.offsets)], axis=1)
    behind = np.repeat(np.tile(np.array([0, 1], np.uint8), len(sizes)), sizes.ravel())
    joined = np.empty(len(behind), np.int64)
    joined[behind == 0], joined[behind == 1] = first.values, second.values
    return joined, offsets_of(sizes.sum(axis=1)), behind


def _with_last_labels(
    tokens: Tokens, offsets: Offsets, targets: Column
) -> tuple[Tokens, Offsets, Mapping[str, Column]]:
    """Return inputs with the last label of each row behind them, unless it is padding or labels are the IDs."""
    sizes = np.diff(offsets)
    fits = (sizes > 0) & (sizes == np.diff(targets.offsets))
    last = np.zeros(len(sizes), np.int64)
    last[fits] = targets.values[targets.offsets[1:][fits] - 1]
    own = np.zeros(len(sizes), np.bool_)
    values = targets.values[np.repeat(fits, np.diff(targets.offsets))]
    same = (values == tokens[np.repeat(fits, sizes)]) | (values == 0) | (values == IGNORED)
    bounds = offsets_of(sizes[fits])
    own[fits] = np.diff(offsets_of(same.view(np.uint8))[bounds]) == sizes[fits]
    more = fits & ~own & (last > 0) & (last <= _LARGEST)
    ids, bounds, _ = _behind(Column(tokens, offsets), Column(last[more], offsets_of(more)))
    padding = Column(np.zeros(int(more.sum()), np.int64), offsets_of(more))
    values, ends, _ = _behind(targets, padding)
    return ids.astype(np.uint32), bounds, {TARGETS: Column(values, ends, targets.there)}


def _of_equal_length(
    tokens: Tokens, offsets: Offsets, columns: Mapping[str, Column], how: Reading, report: Report
) -> tuple[_Rows, dict[str, Column]]:
    """Report columns that do not have one value per ID, and return rows in which each column has one.

    A row without a value gets what a row without the column means; a row of another length becomes empty.
    """
    sizes = np.diff(offsets)
    unequal = np.zeros(len(sizes), np.bool_)
    there = {name: np.ones(len(sizes), np.bool_) if one.there is None else one.there for name, one in columns.items()}
    for name, column in columns.items():
        if name not in PER_DOCUMENT:
            found = np.diff(column.offsets)
            wrong = there[name] & (found != sizes)
            for row in np.flatnonzero(wrong).tolist():
                remedy = how.alone if name == TARGETS else ""
                report(Misfit(row, f"has {name} of another length", int(sizes[row]), int(found[row]), remedy))
            unequal |= wrong
    if unequal.any():
        tokens, offsets, columns = emptied(tokens, offsets, columns, unequal)
        sizes = np.diff(offsets)
    values = {}
    for name, column in columns.items():
        if name in PER_DOCUMENT:
            continue
        if there[name].all():
            values[name] = column.values
            continue
        full = _value_of_nothing(name, tokens, offsets)
        full[np.repeat(there[name], sizes)] = column.values[np.repeat(there[name], np.diff(column.offsets))]
        values[name] = full
    opens = _flags(len(tokens), offsets[:-1][sizes > 0])
    return _Rows(tokens, offsets, values, there, sizes, opens), dict(columns)


def _value_of_nothing(name: str, tokens: Tokens, offsets: Offsets) -> NDArray[np.int64]:
    """Return the values that mean the same as none: every ID counts, is content, and belongs to one document."""
    if name in (LABELS, TARGETS):
        return tokens.astype(np.int64)
    if name in ALL_POSITIONS:
        return np.arange(len(tokens)) - np.repeat(offsets[:-1], np.diff(offsets))
    return np.ones(len(tokens), np.int64)


def emptied(
    tokens: Tokens, offsets: Offsets, columns: Mapping[str, Column], empty: Flags
) -> tuple[Tokens, Offsets, dict[str, Column]]:
    """Return IDs and columns without the values of the rows in `empty`, which keep their numbers."""
    ids: Any
    ids, bounds, _ = _emptied(Column(tokens, offsets), empty)
    return ids, bounds, {name: _emptied(column, empty) for name, column in columns.items()}


def _emptied(column: Column, empty: Flags) -> Column:
    sizes = np.diff(column.offsets)
    values = column.values[np.repeat(~empty, sizes)]
    return Column(values, offsets_of(np.where(empty, 0, sizes)), column.there)


def _excluded(rows: _Rows, report: Report) -> Flags:
    """Return which IDs attention or segments exclude, and report negative numbers in them."""
    found = np.zeros(len(rows.tokens), np.bool_)
    for name in (ATTENTION, *SEGMENTS):
        if name in rows.values:
            found |= rows.values[name] == 0
            if not len(found) or rows.values[name].min() >= 0:
                continue
            for row, at in first_in_rows(rows.offsets, rows.values[name] < 0):
                report(Misfit(row, f"has a negative number in {name}", "0 or more", int(rows.values[name][at])))
    return found


def _begins(rows: _Rows, columns: Mapping[str, Column], parts: _Parts, report: Report) -> tuple[dict[str, Flags], int]:
    """Return where documents begin, bool per ID, by name of column, and the number of jumps of positions."""
    size = len(rows.tokens)
    opens = rows.opens if parts.content is None else _flags(len(parts.content), parts.low[parts.high > parts.low])
    found, jumps = dict[str, Flags](), 0

    def spread(flags: Flags) -> Flags:
        return flags if parts.content is None else _flags(size, parts.content[flags])

    for name in (ATTENTION, *SEGMENTS):
        if name in rows.values and (name != ATTENTION or _numbered(rows).any()):
            number = rows.values[name] if parts.content is None else rows.values[name][parts.content]
            begins = opens.copy()
            begins[1:] |= number[1:] != number[:-1]
            found[name] = spread(begins)
    for name in ALL_POSITIONS:
        if name in rows.values:
            position = rows.values[name] if parts.content is None else rows.values[name][parts.content]
            position = position.astype(np.int64, copy=False)
            begins = opens | (position == 0)
            other = ~begins[1:] & (position[1:] != position[:-1] + 1)
            if other.any():
                lower = position[1:] <= position[:-1]
                step = 1 if parts.content is None else np.diff(parts.content)
                jumps += _count(other & ~lower & (np.diff(position) > step))
                for at, first in first_in_rows(rows.offsets, spread(np.append(False, other & lower))):
                    before = int(rows.values[name][first - 1])
                    problem = f"has {name} that neither go on nor begin again at 0"
                    report(Misfit(at, problem, f"more than {before:,}", int(rows.values[name][first])))
            found[name] = spread(begins)
    if LENGTHS in columns:
        found[LENGTHS] = _begins_of_lengths(rows, columns[LENGTHS], parts, report)
    if STARTS in columns:
        found[STARTS] = _begins_of_starts(rows, columns[STARTS], report)
    return found, jumps


def _dividing(rows: _Rows, columns: Mapping[str, Column]) -> dict[str, Flags]:
    """Return which rows each column divides, bool per row by name, if into one document only."""
    found = {name: rows.there[name] for name in columns if name in DIVIDING}
    if ATTENTION in columns:
        numbered = _numbered(rows)
        found |= {ATTENTION: numbered} if numbered.any() else {}
    return found


def _numbered(rows: _Rows) -> Flags:
    """Return which rows have attention that numbers documents."""
    attention = rows.values[ATTENTION]
    if not len(attention) or attention.max() <= 1:
        return np.zeros(len(rows.sizes), np.bool_)
    return _some_in_rows(rows.offsets, attention > 1)


def _begins_of_lengths(rows: _Rows, lengths: Column, parts: _Parts, report: Report) -> Flags:
    """Return where documents begin by their lengths, whose sum is that of a row, or of its content."""
    sums = np.diff(offsets_of(lengths.values)[lengths.offsets])
    there = rows.there[LENGTHS]
    some = parts.high > parts.low
    first, last = rows.offsets[:-1].copy(), rows.offsets[:-1].copy()
    first[some], last[some] = parts.first, parts.last + 1
    short = (sums != rows.sizes) & (sums == last - first)
    negative = np.diff(offsets_of((lengths.values <= 0).view(np.uint8))[lengths.offsets]) > 0
    wrong = there & (((sums != rows.sizes) & ~short) | negative)
    problem = f"has {LENGTHS} that are not those of its documents"
    for row in np.flatnonzero(wrong).tolist():
        report(Misfit(row, problem, f"a sum of {rows.sizes[row]:,}", f"{sums[row]:,}"))
    own = _emptied(lengths, wrong | ~there)
    counts = np.diff(own.offsets)
    base = np.where(short, first, rows.offsets[:-1])
    before = offsets_of(own.values)[own.offsets[:-1]]
    places = np.repeat(base - before, counts) + offsets_of(own.values)[:-1]
    return _flags(len(rows.tokens), places) | rows.opens


def _begins_of_starts(rows: _Rows, starts: Column, report: Report) -> Flags:
    """Return where documents begin by their starts; see Megatron-Bridge."""
    count, there = np.diff(starts.offsets), rows.there[STARTS]
    first = starts.values.astype(np.int64)
    row = np.repeat(np.arange(len(count)), count)
    opens = _flags(len(first), starts.offsets[:-1][count > 0])
    wrong = there & (count == 0) & (rows.sizes > 0)
    for lacking in np.flatnonzero(wrong).tolist():
        report(Misfit(lacking, f"has no {STARTS}", "0", "nothing"))
    for problem, expected, flags in (
        (f"has a {STARTS} that does not begin with 0", "0", opens & (first != 0)),
        (f"has a {STARTS} that decreases", "at least the one before", ~opens & (np.diff(first, prepend=0) < 0)),
        (f"has a {STARTS} at or beyond its end", "less than its tokens", first >= rows.sizes[row]),
    ):
        for number, at in first_in_rows(starts.offsets, flags):
            if not wrong[number]:
                report(Misfit(number, problem, expected, int(first[at])))
                wrong[number] = True
    right = ~wrong[row]
    return _flags(len(rows.tokens), rows.offsets[row[right]] + first[right]) | rows.opens


def _one_division(
    rows: _Rows, begins: Mapping[str, Flags], dividing: Mapping[str, Flags], excluded: Flags, report: Report
) -> Flags:
    """Return where documents begin, and report rows that two columns divide at different IDs of content. `begins` and
    `dividing`, the rows that it divides, are by the name of each column that divides. `excluded` are the IDs that are
    no content.
    """
    flags = {name: rows.of_ids(some, begins[name]) for name, some in dividing.items()}
    found: Flags = np.logical_or.reduce([rows.opens, *flags.values()])
    if any(not np.array_equal(flag | rows.opens, found) for flag in flags.values()):
        wanted, names = _first_of_each(found, ~excluded), " and ".join(flags)
        other = [
            (_first_of_each(flags[name] | rows.opens, ~excluded) != wanted) & np.repeat(some, rows.sizes)
            for name, some in dividing.items()
        ]
        for row, at in first_in_rows(rows.offsets, np.logical_or.reduce(other)):
            place = at - int(rows.offsets[row])
            report(Misfit(row, f"has {names} that differ: not all of them begin a document at its token {place:,}"))
    return found


def _first_of_each(starts: Flags, kept: Flags) -> Flags:
    """Return the first of the kept IDs of each document that has one."""
    return _flags(len(kept), _Parts.of(np.flatnonzero(starts), len(kept), np.flatnonzero(kept)).first)


def _excluding(rows: _Rows) -> dict[str, int]:
    """Return the number of IDs that each column excludes."""
    found = {name: _count(rows.values[name] == 0) for name in (ATTENTION, *SEGMENTS) if name in rows.values}
    return {name: number for name, number in found.items() if number}


def _behind_padding(rows: _Rows, content: NDArray[np.int64], eos_id: int) -> Flags:
    """Return the first content behind a separator and copies of one ID that attention excludes; see the table."""
    before, behind = content[:-1], content[1:]
    gaps = (behind - before > 1) & (rows.tokens[before] == eos_id)
    before, behind = before[gaps], behind[gaps]
    found = _flags(len(rows.tokens), behind[row_of_each(rows.offsets, before) == row_of_each(rows.offsets, behind)])
    if found.any():
        places = np.flatnonzero(rows.values[ATTENTION] == 0) if ATTENTION in rows.values else content[:0]
        row, ids = row_of_each(rows.offsets, places), rows.tokens[places]
        several = np.zeros(len(rows.sizes), np.bool_)
        several[row[1:][(row[1:] == row[:-1]) & (ids[1:] != ids[:-1])]] = True
        found = rows.of_ids(~several, found)
    return found


def _ended(rows: _Rows, excluded: Flags, parts: _Parts) -> Flags | None:
    """Return the padding at ends of rows that positions of 0 and ignored labels of one ID show; else None."""
    names = [name for name in ALL_POSITIONS if name in rows.values]
    if LABELS not in rows.values or not names:
        return None
    position, labels, at = rows.values[names[0]], rows.values[LABELS], parts.last
    if not ((position[at] == 0) & (labels[at] == IGNORED)).any():  # the last content of each row
        return None
    has_both = rows.there[LABELS] & rows.there[names[0]]
    last = np.repeat(rows.tokens[np.maximum(rows.offsets[1:] - 1, 0)], rows.sizes)
    flags = (position == 0) & (labels == IGNORED) & (rows.tokens == last) | excluded
    flags = rows.of_ids(has_both, flags)
    content = np.append(-1, np.flatnonzero(~flags))
    stop = content[np.searchsorted(content, rows.offsets[1:]) - 1] + 1  # after the last ID of each row that is not so
    is_part = stop > rows.offsets[:-1]
    ended = _within(stop[is_part], rows.offsets[1:][is_part], len(flags)) & ~excluded
    return ended if ended.any() else None


def _stated(rows: _Rows, starts: Flags, shifted: Collection[str]) -> dict[str, Flags]:
    """Return which IDs count in the loss, by column; the columns in `shifted` speak of the next ID."""
    found = {}
    for name in (*COUNTING, COMPLETION):
        if name in rows.values:
            counts = rows.values[name] != (IGNORED if name == LABELS else 0)
            found[name] = np.append(False, counts)[:-1] & ~starts if name in shifted else counts
    lacking = {name: np.repeat(~rows.there[name], rows.sizes) for name in found if not rows.there[name].all()}
    if lacking:  # where a row has no value of a column, the others speak alone
        every = np.logical_and.reduce([counts | lacking.get(name, False) for name, counts in found.items()])
        for name, flags in lacking.items():
            found[name] = np.where(flags, every, found[name])
    return found


def _repeats(tokens: Tokens, documents: _Parts, eos_id: int) -> bool:
    """Return whether any document ends with two separators."""
    last = documents.high[documents.high > documents.low + 1] - 1
    return bool(((tokens[documents.at(last)] == eos_id) & (tokens[documents.at(last - 1)] == eos_id)).any())


def _fill(rows: _Rows, starts: Flags, stated: Mapping[str, Flags], passed: Flags) -> Flags:
    """Return the separators at the ends of documents after the first one, where that one counts, and no other."""
    size = len(rows.tokens)
    found = np.zeros(size, np.bool_)
    content = np.flatnonzero(~passed)
    if not len(content) or not stated:
        return found
    tokens, counts = rows.tokens[content], np.logical_and.reduce([flags[content] for flags in stated.values()])
    document = np.cumsum(starts)[content]
    new = np.append(True, (tokens[1:] != tokens[:-1]) | (document[1:] != document[:-1]))
    run = np.cumsum(new) - 1
    opens = np.flatnonzero(new)
    ends = np.append(document[1:] != document[:-1], True)  # the last ID of a document
    closing = np.zeros(len(opens), np.bool_)
    closing[run[ends]] = True
    total = np.bincount(run, counts, len(opens))
    fills = closing & counts[opens] & (total == 1)
    found[content[fills[run] & ~new]] = True
    return found


def _report_other_flags(rows: _Rows, kept: Flags, report: Report) -> None:
    """Report rows with masks that are neither 0 nor 1."""
    for name in COUNTING[1:]:
        values = rows.values.get(name, rows.tokens[:0])
        if len(values) and not (values.min() >= 0 and values.max() <= 1):
            for row, at in first_in_rows(rows.offsets, kept & (values != 0) & (values != 1)):
                report(other_value(row, name, int(rows.tokens[at]), int(values[at])))


def _masked_targets(rows: _Rows, starts: Flags, excluded: Flags, how: Reading, report: Report) -> Flags:
    """Return the IDs that are not among their labels, and report rows with targets that are not their labels."""
    targets, content, offsets = rows.values[TARGETS], ~excluded, rows.offsets
    segments = rows.values.get(TARGET_SEGMENTS, rows.tokens[:0])
    off = rows.of_ids(rows.there[TARGETS], segments == 0) if len(segments) else np.zeros(len(targets), np.bool_)
    following, ends = np.append(rows.tokens[1:], 0), np.append(rows.opens[1:], True)[: len(targets)]
    moved, same = (targets == following) & ~ends, targets == rows.tokens
    stated = content & ~off & (targets != 0) & (targets != IGNORED)
    inner = content & np.append(content[1:] & ~starts[1:], False)[: len(content)]
    is_own = _some_in_rows(offsets, stated & same) & ~_some_in_rows(offsets, stated & ~same)
    wrong = rows.of_ids(~is_own, stated & ~moved)
    is_short = ~_some_in_rows(offsets, wrong & inner)
    for row, at in first_in_rows(offsets, wrong & inner | rows.of_ids(is_short, wrong)):
        what = f"inputs without the last of their {TARGETS}"
        what = what if is_short[row] else f"{TARGETS} that are not its IDs, nor these moved by one"
        problem = f"has {what}: at its token {at - int(offsets[row]):,}"
        expected = 0 if ends[at] else int(following[at])
        report(Misfit(row, problem, expected, int(targets[at]), how.alone))
    before = inner & (off | ~moved)  # before each ID that does not count
    before = np.append(False, before)[:-1] | rows.of_ids(
        _some_in_rows(offsets, before), _first_of_each(starts, content)
    )
    return rows.of_ids(~is_own, before) | rows.of_ids(is_own, content & (off | ~same))


def _report_differences(rows: _Rows, stated: Mapping[str, Flags], kept: Flags, report: Report) -> None:
    """Report rows whose labels and masks count different IDs."""
    for first, second, differing in differences(stated):
        for row, at in first_in_rows(rows.offsets, differing & kept):
            report(Misfit(row, differ(first, second, at - int(rows.offsets[row])), remedy=which_of(stated)))


def differences(stated: Mapping[str, Flags]) -> Iterator[tuple[str, str, Flags]]:
    """Yield the first column with each one that counts other IDs, and a flag at these."""
    names = list(stated)
    for name in names[1:]:
        differing = stated[name] != stated[names[0]]
        if differing.any():
            yield names[0], name, differing


def differ(first: str, second: str, position: int) -> str:
    """Return the words for two columns of a row that contradict each other at a token."""
    return f"has {first} and {second} that differ: only one of them counts its token {position:,} in the loss"


def other_value(row: int, name: str, token: int, value: int | None) -> Misfit:
    """Return what is wrong with a row whose labels are other IDs than its tokens, or whose mask is neither 0 nor 1."""
    if name == LABELS:
        return Misfit(row, f"has {LABELS} that are other IDs than its tokens", f"{token} or {IGNORED}", value)
    return Misfit(row, f"has a value in {name} that is not 0 or 1", None, value)


def _marked(
    rows: IdRows,
    stated: Mapping[str, Flags],
    firsts: NDArray[np.int64],
    padding: Flags | None,
    how: Reading,
    *,
    begins: bool,
) -> IdRows:
    """Add marks to rows, and the number of those whose labels are not those of plain text. `stated` is which tokens
    count in the loss, by the name of each column that states it. `firsts` is the first token of each document.
    `padding` are the tokens that are padding that stays. With `begins`, the first token of each document is marked.
    """
    counts = np.logical_and.reduce([*stated.values()]) if stated else np.ones(len(rows.tokens), np.bool_)
    if rows.own is not None:
        counts = counts & (rows.own != IGNORED)
        is_plain = counts & (rows.own == rows.tokens)
        marks = is_plain * np.uint8(TARGET) | (counts ^ is_plain) * np.uint8(OTHER)
    else:
        is_plain, marks = counts, counts * np.uint8(TARGET)
    if how.samples:  # no token of a sample predicts its first token, but that of a document has one before it
        is_plain = is_plain | _flags(len(is_plain), firsts)
    if padding is not None:
        is_plain, marks[padding] = is_plain | padding, PADDING
    if begins:
        marks[firsts] |= BEGINS
    odd = _some_in_rows(rows.offsets, ~is_plain)
    return rows._replace(marks=marks, odd=(_count(odd), int(np.argmax(odd)) if odd.any() else -1))
