"""From what the pass has added up to what is said of a dataset, or of several together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from tokfmt.core.axis import TokenReader, windows
from tokfmt.core.filling import Filled, Filling
from tokfmt.core.format import Decoder
from tokfmt.core.inside import Sampled as WithMasks
from tokfmt.core.ragged import Tokens
from tokfmt.ops.open import Source
from tokfmt.ops.stats.axis import Indexed, StatsAxis, Streamed
from tokfmt.ops.stats.counts import Counts
from tokfmt.ops.stats.duplicates import Group, repeats
from tokfmt.ops.stats.frequencies import ends_of, ids_of, spelling
from tokfmt.ops.stats.lengths import lengths_of, packing
from tokfmt.ops.stats.measure import Survey
from tokfmt.ops.stats.report import Duplicates, RepeatedSequence, Share, Statistics
from tokfmt.ops.stats.table import Table
from tokfmt.views.split import SplitAt

_SHOWN = 32  # ids of a repeated sequence
_NOTHING = (0, -1, None, "", ())


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user wants to know beyond what the data shows.

    Attributes:
        vocab_size: To compare ids with.
        seq_len: To compute the cost of packing.
        decoder: To spell ids; lenient.
    """

    vocab_size: int | None = None
    seq_len: int | None = None
    decoder: Decoder | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """One dataset and what the pass has shown of it.

    Attributes:
        source: As opened, for its format, separator and notes.
        size: Bytes on disk.
        survey: Of the pass.
        notes: What a person should be told.
    """

    source: Source
    size: int
    survey: Survey
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """What adds up over datasets; pairs are (how many, of how many), None where it does not apply."""

    stored: Counts
    kept: Counts
    first: Counts
    last: Counts
    lengths: Table
    separators: tuple[int, int]
    padding: tuple[int, int] | None
    masked: tuple[int, int] | None
    size: int

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.stored + other.stored,
            self.kept + other.kept,
            self.first + other.first,
            self.last + other.last,
            self.lengths + other.lengths,
            _pair(self.separators, other.separators) or (0, 0),
            _pair(self.padding, other.padding),
            _pair(self.masked, other.masked),
            self.size + other.size,
        )


def _pair(a: tuple[int, int] | None, b: tuple[int, int] | None) -> tuple[int, int] | None:
    return (a[0] + b[0], a[1] + b[1]) if a is not None and b is not None else a or b


def figures_of(subject: Subject) -> Figures:
    """The figures of one dataset."""
    axis, stats = subject.survey.axis, subject.survey.stats
    stored = axis.stored
    filling = stored.filling() if isinstance(stored, Filled) else Filling(None, 0)
    told = subject.source.separator.eos_id
    eos_id = told if told is not None else -1
    made = filling.separators
    return Figures(
        stored=stats.ids.without(eos_id, made),
        kept=stats.ids.without(eos_id, axis.separators(stats)),
        first=stats.first,
        last=stats.last,
        lengths=stats.lengths,
        separators=(stats.ids.count(eos_id) - made, axis.info.tokens - made),
        padding=_in_a_row(subject.survey) if filling.padding is None else (filling.padding, filling.positions),
        masked=(stats.masked, axis.info.tokens) if isinstance(stored, WithMasks) else None,
        size=subject.size,
    )


def _in_a_row(survey: Survey) -> tuple[int, int] | None:
    """Separators of a stream that end no sequence: they cannot be told from padding."""
    axis, stats = survey.axis, survey.stats
    if not isinstance(axis, Streamed) or isinstance(axis.stored, Filled):
        return None
    total = axis.info.tokens
    unended = any(span.stop == total and span.last + 1 < total for span in stats.spans)
    return axis.separators(stats) - (stats.lengths.total - unended), total


@dataclass(frozen=True, slots=True)
class Outline:
    """One dataset before the pass; attributes as of `Subject`."""

    source: Source
    axis: StatsAxis
    size: int
    notes: tuple[str, ...] = ()


def outlined(outline: Outline) -> Statistics:
    """What is known of a dataset without reading its tokens."""
    heading, axis, info = _heading(outline), outline.axis, outline.axis.info
    if isinstance(axis, Streamed):
        return replace(heading, tokens=info.tokens, bytes_per_token=_ratio(outline.size, info.tokens))
    lengths = Table.empty()
    ended = axis.eos_id is not None
    for a, b in windows(0, info.sequences):
        lengths += Table.of(np.diff(axis.stored.offsets(a, b)) - ended)
    tokens = axis.content_tokens
    return replace(
        heading,
        sequences=info.sequences,
        tokens=tokens,
        bytes_per_token=_ratio(outline.size, tokens),
        max_id=info.max_id,
        lengths=lengths_of(lengths, "tokens"),
        empty=Share.of(int(lengths.counts[lengths.keys == 0].sum()), info.sequences),
        separators=_between(axis),
    )


def _between(axis: Indexed) -> Share | None:
    """Separators, where a scan has counted them."""
    if isinstance(axis.stored, SplitAt):
        stored = axis.stored.stored
        made = stored.filling().separators if isinstance(stored, Filled) else 0
        return Share.of(stored.info.tokens - axis.info.tokens - made, stored.info.tokens - made)
    return None  # each sequence may hold more than the one at its end


def described(subject: Subject, wanted: Wanted) -> Statistics:
    """All that is said of one dataset."""
    outline = Outline(subject.source, subject.survey.axis, subject.size, subject.notes)
    return _filled(_heading(outline), figures_of(subject), [subject], wanted)


def _heading(outline: Outline) -> Statistics:
    source, info = outline.source, outline.axis.info
    return Statistics(
        path=str(source.paths[0]),
        format=source.format.name,
        layout=info.layout.value,
        variant={key: one for key, one in info.extras.items() if one not in _NOTHING},
        dtype=info.dtype.name,
        bytes=outline.size,
        bytes_per_token=None,
        sequences=0,
        tokens=0,
        max_id=None,
        eos_id=source.separator.eos_id,
        eos_from=source.separator.source,
        eos_inferred=source.separator.inferred,
        sample_length=info.sample_length,
        estimated=False,
        lengths=None,
        notes=outline.notes,
    )


def _ratio(size: int, tokens: int) -> float | None:
    return size / tokens if tokens else None


def total_of(subjects: Sequence[Subject], wanted: Wanted) -> Statistics:
    """All datasets as one; sequences that are equal in different ones are duplicates too."""
    sources, infos = [one.source for one in subjects], [one.survey.axis.info for one in subjects]
    separators = {source.separator.eos_id for source in sources}
    heading = Statistics(
        path="total",
        format=_agreed([source.format.name for source in sources]),
        layout=_agreed([info.layout.value for info in infos]),
        variant={},
        dtype=_agreed([info.dtype.name for info in infos]),
        bytes=0,
        bytes_per_token=None,
        sequences=0,
        tokens=0,
        max_id=None,
        eos_id=separators.pop() if len(separators) == 1 else None,
        eos_from="",
        eos_inferred=False,
        sample_length=None,
        estimated=False,
        lengths=None,
    )
    return _filled(heading, reduce(Figures.__add__, map(figures_of, subjects)), subjects, wanted)


def _agreed(words: Sequence[str]) -> str:
    return words[0] if len(set(words)) == 1 else "mixed"


def _filled(heading: Statistics, figures: Figures, subjects: Sequence[Subject], wanted: Wanted) -> Statistics:
    spelled = spelling(wanted.decoder)
    lengths, tokens = figures.lengths, figures.lengths.weight
    samples = heading.layout == "samples"
    return replace(
        heading,
        bytes=figures.size,
        bytes_per_token=_ratio(figures.size, tokens),
        sequences=lengths.total,
        tokens=tokens,
        max_id=figures.stored.largest if figures.stored.largest >= 0 else None,
        lengths=lengths_of(lengths, "tokens"),
        empty=Share.of(int(lengths.counts[lengths.keys == 0].sum()), lengths.total),
        separators=Share.of(*figures.separators),
        padding=None if figures.padding is None else Share.of(*figures.padding),
        masked=None if figures.masked is None else Share.of(*figures.masked),
        ids=ids_of(figures.kept, wanted.vocab_size, spelled),
        first_tokens=ends_of(figures.first, spelled),
        last_tokens=ends_of(figures.last, spelled),
        duplicates=_duplicates(figures, subjects, wanted.decoder),
        packing=packing(lengths, wanted.seq_len, separator=heading.eos_id is not None)
        if wanted.seq_len is not None and not samples
        else None,
    )


def _duplicates(figures: Figures, subjects: Sequence[Subject], decoder: Decoder | None) -> Duplicates | None:
    stores = [subject.survey.store for subject in subjects if subject.survey.store is not None]
    if len(stores) < len(subjects):
        return None
    found, lengths = repeats(stores), figures.lengths
    filled = lengths.total - int(lengths.counts[lengths.keys == 0].sum())
    return Duplicates(
        sequences=found.surplus,
        share=found.surplus / filled if filled else 0.0,
        tokens=found.tokens,
        token_share=found.tokens / lengths.weight if lengths.weight else 0.0,
        groups=found.groups,
        largest=[_repeated(group, subjects, decoder) for group in found.largest],
    )


def _repeated(group: Group, subjects: Sequence[Subject], decoder: Decoder | None) -> RepeatedSequence:
    subject = subjects[group.dataset]
    survey = subject.survey
    ids = _beginning(survey.axis.stored, group)
    return RepeatedSequence(
        count=group.count,
        length=group.length,
        sequence=survey.axis.number(group.position, survey.begun),
        ids=ids.tolist(),
        text=decoder.decode(ids) if decoder is not None else None,
        path=str(subject.source.paths[0]) if len(subjects) > 1 else None,
    )


def _beginning(stored: TokenReader, group: Group) -> Tokens:
    return stored.tokens(group.position, group.position + min(group.length, _SHOWN))
