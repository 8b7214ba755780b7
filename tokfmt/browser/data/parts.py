"""The parts of a row: its documents with their sources, its padding, and the way from a token to where it comes from.

The way has three steps, each in another dataset: from a sample to the document of a source, by the recipe; from a
stored sample to its document, by the bytes; from a document to the record that it was made of, by the ledger.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from tokfmt.browser.data.layout import TokenStyle, begins_of
from tokfmt.browser.data.opening import recipe_of, run_of, samples_of
from tokfmt.browser.data.prompts import odd_mask
from tokfmt.browser.data.rows import Damage, RowSource, Span, fetched, fetched_span, padded_from
from tokfmt.browser.data.session import Session, Where, has_parts
from tokfmt.browser.data.spots import Spot
from tokfmt.core.loss_mask import Flags, counted_of
from tokfmt.core.reader import Layout
from tokfmt.core.records import RecordReader
from tokfmt.errors import OptionError, TokfmtError
from tokfmt.files.place import place_of
from tokfmt.source.request import EosChoice, SourceRequest
from tokfmt.wording import counted, printable, shortened

if TYPE_CHECKING:
    from tokfmt.mix import Documents, Samples
    from tokfmt.runs.reader import RunReader

MOST = 4096
"""Maximum number of parts of a row."""

_CELLS = 24  # characters of the names of sources
_READ = 1 << 20  # units of a stored sample that are searched for documents
_SOUGHT = 1 << 12  # rows that are read for one that is trained otherwise


class SamplePart(NamedTuple):
    """The part of a row that holds one document, or a part of one."""

    # start, stop: units of the row
    start: int
    stop: int
    source: str = ""  # name of the source; "" if it is unknown
    document: int | None = None  # number of the document in its source; None if it is unknown
    first: int = 0  # position of its first unit in the document; -1 if that is a BOS
    shade: int = 0  # number of the source, or of the document, for its color

    @property
    def label(self) -> str:
        """Return the source and the document in words; the number of tokens if they are unknown."""
        if self.document is None:
            return f"{self.stop - self.start:,}"
        return f"{printable(self.source)}#{self.document:,}"

    def words(self, unit: int) -> str:
        """Return the document and the position of a unit of the row in it; "" if the document is unknown."""
        return "" if self.document is None else f"{self.label}, token {max(0, self.first + unit - self.start):,}"


@dataclass(frozen=True)
class RowParts:
    """The parts of a row."""

    row: int  # number of the row
    length: int  # units of the row, padding included
    filled: int  # units before the padding
    parts: Sequence[SamplePart]  # the parts in order
    epoch: int = 0  # the pass over the source that it is drawn from, from 0
    trained: int | None = None  # positions whose label counts in the loss; None if nothing says it
    prompts: Sequence[range] = ()  # intervals of units that are not trained, if there are more of them than documents
    odd: str = ""  # how the loss mask differs from that of most samples, in words; "" if it does not
    divided: bool = True  # it is known where documents begin in the row
    read_by: str = ""  # the step and the rank of a run that read it, in words

    @property
    def is_alone(self) -> bool:
        """Return whether the row is one document, which nothing names."""
        return len(self.parts) == 1 and self.parts[0].document is None

    def is_prompt(self, unit: int) -> bool:
        """Return whether a unit is in an interval that is not trained."""
        found = bisect_right(self.prompts, unit, key=lambda prompt: prompt.start) - 1
        return found >= 0 and unit in self.prompts[found]

    @property
    def borders(self) -> set[int]:
        """Return the units at which documents begin, the loss begins or ends after a prompt, or the padding begins."""
        loss = (border for prompt in self.prompts for border in (prompt.start, prompt.stop))
        return {*(part.start for part in self.parts), *loss, self.filled} - {self.length}

    @property
    def words(self) -> str:
        """Return the length as a sum: of prompt, trained and padding, if a part is not trained; else of documents."""
        padding, count = self.length - self.filled, len(self.parts)
        if self.trained is None or not self.prompts:
            documents = [counted(count, "doc")] if self.divided else []
            return " · ".join(filter(None, [f"{self.length:,}", *documents, f"{padding:,} padding", self.read_by]))
        return (
            f"{self.length:,} = {self.filled - self.trained:,} prompt + {self.trained:,} trained + {padding:,} padding"
        )

    @cached_property
    def _starts(self) -> list[int]:
        return [part.start for part in self.parts]

    def at(self, unit: int) -> int | None:
        """Return the index of the part that holds a unit; None in padding."""
        found = bisect_right(self._starts, unit) - 1
        return found if found >= 0 and unit < self.parts[found].stop else None

    @cached_property
    def shares(self) -> list[tuple[str, float]]:
        """Return the share of the row that each source has, the largest first; [] without sources."""
        held: dict[str, int] = {}
        for part in self.parts:
            if part.source:
                held[part.source] = held.get(part.source, 0) + part.stop - part.start
        return sorted(((name, count / (self.length or 1)) for name, count in held.items()), key=lambda one: -one[1])


def parts_of(port: RowSource, token_style: TokenStyle, row: int) -> RowParts | None:
    """Return the parts of a row; None for a row that is one document, or cannot be read. Reads."""
    span, reader = fetched_span(port, row), port.reader
    if isinstance(span, Damage) or not has_parts(port):
        return None
    try:
        if not isinstance(reader, RecordReader) and (recipe := recipe_of(reader)) is not None:
            return _with_loss(parts_in_recipe(recipe, row, span.length), port, span)
        if (run := run_of(reader)) is not None:
            return _of_run(run, row)
        parts = _of_stored(port, token_style, row, span.length)
        if parts is None:
            return None
        parts = _with_loss(parts, port, span)
        samples = not isinstance(reader, RecordReader) and reader.info.layout is Layout.SAMPLES
        if not samples and not parts.prompts:
            return None  # a document
        return replace(parts, odd=odd_mask(port, row, parts.filled, token_style))
    except TokfmtError:
        return None  # the reader shows the error


def next_odd(port: RowSource, token_style: TokenStyle, row: int, step: int) -> tuple[int, bool]:
    """Return the next row that is trained otherwise than most rows and True, or the last row that was read. Reads."""
    last = row
    for last in range(row, port.count if step > 0 else -1, step)[1 : _SOUGHT + 1]:
        parts = parts_of(port, token_style, last)
        if parts is not None and parts.odd:
            return last, True
    return last, False


def _with_loss(parts: RowParts, port: RowSource, span: Span) -> RowParts:
    """Return the parts of a row with what is trained of it."""
    reader = port.reader
    if not 0 < span.length <= _READ:
        return parts
    piece = fetched(port, parts.row, 0, parts.filled)
    if isinstance(piece, Damage) or piece.targets is None:
        return parts
    counts: Flags | None = piece.targets
    if not isinstance(reader, RecordReader) and span.start is not None:
        counts = counted_of(reader, span.start, span.start + span.length)
    if counts is None:
        return parts
    trained, flags = int(np.count_nonzero(counts[: parts.filled])), piece.targets[: parts.filled]
    prompts = list[range]()
    if parts.filled - trained > len(parts.parts):  # the first token of a document has no label before it
        changes = (np.flatnonzero(np.diff(flags)) + 1).tolist()[:MOST]
        prompts = [range(a, b) for a, b in pairwise([0, *changes, parts.filled]) if a < b and not flags[a]]
    return replace(parts, trained=trained, prompts=prompts)


def _shift(recipe: Samples | Documents) -> int:
    """Return 1 if a BOS is before each document, which moves its tokens by one; else 0."""
    return int(recipe.file.seq_len is not None and recipe.file.convention == "starts")


def parts_in_recipe(recipe: Samples | Documents, row: int, length: int) -> RowParts:
    """Return the parts of a row of a recipe, without what is trained of it. Reads indexes."""
    from tokfmt.mix import traced

    names, samples = [source.name for source in recipe.sources], samples_of(recipe)
    filled = length if samples is None else samples.filled(row)
    shift, found, at, held = _shift(recipe), list[SamplePart](), 0, 0
    for one in islice(traced(recipe, row), MOST):
        held += one.span.stop - one.span.start
        stop = min(filled, held)  # a last position may be only a label
        if at < stop:
            shade = next((k for k, name in enumerate(names) if one.name in (name, f"{name}/{one.source.name}")), 0)
            found.append(SamplePart(at, stop, one.name, one.span.sequence, one.span.start - shift, shade))
        at = stop
    if at < filled:
        found.append(SamplePart(at, filled))
    if samples is None:
        return RowParts(row, length, filled, found)
    return RowParts(row, length, filled, found, samples.where(row).epoch)


def _of_run(run: RunReader, row: int) -> RowParts:
    order, sample, at = run.order, run.order.first + row, 0
    found = list[SamplePart]()
    for part in islice(run.parts(sample), MOST):
        stop = min(run.seq_len, at + part.stop - part.start)  # the last token may be only a label
        if at < stop:
            name = order.sources[part.source].name
            found.append(SamplePart(at, stop, name, part.sequence, part.start, part.source))
        at = stop
    read_by = ""
    if order.batches.is_known:
        step = order.batches.step_of(sample)
        rank = run.rank_of(step, sample)
        read_by = f"step {step:,}" + ("" if rank is None else f", rank {rank:,}")
    return RowParts(row, run.seq_len, at, found, read_by=read_by)


def _of_stored(port: RowSource, token_style: TokenStyle, row: int, length: int) -> RowParts | None:
    piece = fetched(port, row, 0, min(length, _READ))
    if isinstance(piece, Damage):
        return None
    filled = min(length, padded_from(port, row))
    begins = np.flatnonzero(begins_of(piece, token_style))[: MOST - 1].tolist()
    bounds = sorted({0, *(at for at in begins if at < filled), filled})
    parts = [SamplePart(a, b, shade=k % 2) for k, (a, b) in enumerate(pairwise(bounds))]
    divided = piece.begins is not None or token_style.separator is not None
    return RowParts(row, length, filled, parts, divided=divided)


# from a token to where it comes from


T = TypeVar("T")
Target = tuple[SourceRequest, Spot]
"""A dataset, and a place in it."""


def target_of(session: Session, where: Where) -> Target:
    """Return the place that a token comes from, in the dataset that the run, the recipe or the ledger names. Reads."""
    reader = session.view.reader
    if (run := run_of(reader)) is not None:
        return _in_run(run, where)
    recipe = recipe_of(reader)
    return _in_source(recipe, where) if recipe is not None else _in_ledger(session, where)


def _holding(unit: int, spans: Iterable[tuple[T, int]]) -> tuple[T, int]:
    """Return the span of a row that holds a unit, given each with its length, and the place of the unit in it."""
    for span, length in spans:
        if unit < length:
            return span, unit
        unit -= length
    raise OptionError("padding comes from no document")


def _in_run(run: RunReader, where: Where) -> Target:
    row, unit = where
    part, at = _holding(unit, ((part, part.stop - part.start) for part in run.parts(run.order.first + row)))
    source = run.order.sources[part.source]
    if len(source.paths) > 1:
        raise OptionError(f"{printable(source.name)}: has several paths, whose sequences follow each other")
    options = {key: str(value) for key, value in source.options.items()}
    eos: EosChoice = "none" if source.eos_id is None else source.eos_id
    request = SourceRequest.of(source.paths[0], source.format, eos, options)
    return request, Spot((part.sequence, min(part.start + at, max(0, part.length - 1))), "documents")


def _in_source(recipe: Samples | Documents, where: Where) -> Target:
    from tokfmt.mix import shortest, stored_sequence, traced, traced_request

    row, unit = where
    one, at = _holding(unit, ((one, one.span.stop - one.span.start) for one in traced(recipe, row)))
    held = stored_sequence(one)
    if held.dataset is None and len(one.source.paths) > 1:
        raise OptionError(f"{printable(one.name)}: its format does not state which file holds the document")
    path = place_of(shortest(held.dataset or one.source.paths[0]))
    inside = max(0, one.span.start + at - _shift(recipe))
    view = "samples" if recipe.file.pack == "stored" else "documents"
    return traced_request(one, path), Spot((held.number, min(inside, held.length - 1)), view)


def _in_ledger(session: Session, where: Where) -> Target:
    from tokfmt.mix import listed_request, read_ledger

    view, (row, unit) = session.view, where
    if isinstance(view.reader, RecordReader):
        raise OptionError(f"a record of {printable(session.path.name)} is where its text begins; x shows its bytes")
    ledger = read_ledger(session.path, session.format_name)
    unit_of = "samples" if view.name == "samples" else "sequences"
    if ledger is None:
        raise OptionError(f"no ledger beside {printable(session.path.name)} states what its {view.name} are made of")
    if ledger.unit != unit_of or ledger.sequences != view.port.count:
        raise OptionError(f"the ledger counts {ledger.sequences:,} {ledger.unit}; v shows them")
    pieces = ledger.pieces(row, unit, unit + 1)
    if not pieces or not 0 <= pieces[0][0] < len(ledger.sources):
        raise OptionError("padding comes from no record")
    source, record, start, _ = pieces[0]
    listed = ledger.sources[source]
    text = listed.get("kind") == "text"
    return listed_request(ledger, listed), Spot((record, 0 if text else start), "records" if text else "")


def names_of(samples: Samples, first: int, last: int) -> list[str]:
    """Return the names of the recipe's own sources of some rows: that of a row, or those of its documents. Reads."""
    names = list[str]()
    for row in range(first, last):
        held = Counter[str]()
        for span in samples.spans(row) if not samples.where(row).source else ():
            held[samples.sources[span.source].name] += span.stop - span.start
        named = samples.where(row).source or ", ".join(name for name, _ in held.most_common())
        names.append(shortened(printable(named), _CELLS))
    return names


def run_names(run: RunReader, first: int, last: int) -> list[str]:
    """Return the names of the sources of some rows of a run. Reads."""
    row, source, length = run.order.inputs(np.arange(first, last) + run.order.first)
    held = length > 0
    pairs = np.unique(np.column_stack([row[held], source[held]]), axis=0).tolist()
    names: list[list[str]] = [[] for _ in range(first, last)]
    for at, of_source in pairs:
        names[at].append(printable(run.order.sources[of_source].name))
    return [shortened(", ".join(some), _CELLS) for some in names]


# the sources of a recipe in words


def recipe_facts(recipe: Samples | Documents) -> list[tuple[str, str]]:
    """Return what a recipe asks for, as names and values."""
    file = recipe.file
    found = [("makes", "documents" if file.seq_len is None else f"samples of {file.seq_len:,} tokens")]
    words = {"pack": file.pack, "labels": file.labels, "tail": file.tail, "long": file.long}
    found += [(name, value) for name, value in words.items() if value is not None]
    if file.shuffle != "none":
        found.append(("shuffle", f"{file.shuffle}, seed {file.seed}"))
    if file.tokens is not None:
        found.append(("budget", f"{file.tokens:,} tokens"))
    found.append(("fingerprint", recipe.fingerprint))
    return found
