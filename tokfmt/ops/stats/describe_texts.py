"""What is said of text that nobody tokenised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tokfmt.core.errors import FormatError
from tokfmt.ops.open import Source
from tokfmt.ops.stats.duplicates import Group, repeats
from tokfmt.ops.stats.lengths import lengths_of
from tokfmt.ops.stats.report import Duplicates, FieldCount, RepeatedSequence, Share, Statistics, TextFacts
from tokfmt.ops.stats.texts import TextStats, TextSurvey

_FIELDS = 100
_SHOWN = 200  # characters of a repeated text


@dataclass(frozen=True, slots=True)
class TextSubject:
    """One source of text and what the pass has shown of it; attributes as of `describe.Subject`."""

    source: Source
    size: int
    survey: TextSurvey
    notes: tuple[str, ...] = ()


def described_texts(subjects: Sequence[TextSubject]) -> Statistics:
    """All that is said of one source, or of several as one."""
    one = subjects[0]
    total = TextStats()
    for subject in subjects:
        total += replace(subject.survey.stats, counts=())
    several = len(subjects) > 1
    extras = one.survey.records.info.extras
    lengths = total.lengths
    return Statistics(
        path="total" if several else str(one.source.paths[0]),
        format=one.source.format.name,
        layout="text",
        variant={} if several else {key: value for key, value in extras.items() if value not in (None, "", (), [])},
        dtype=None,
        bytes=sum(subject.size for subject in subjects),
        bytes_per_token=None,
        sequences=lengths.total,
        tokens=None,
        max_id=None,
        eos_id=None,
        eos_from="",
        eos_inferred=False,
        sample_length=None,
        estimated=False,
        lengths=lengths_of(lengths, "characters"),
        empty=Share.of(int(lengths.counts[lengths.keys == 0].sum()), lengths.total),
        duplicates=_duplicates(subjects, int(lengths.counts[lengths.keys > 0].sum()), lengths.weight),
        text=TextFacts(
            bytes=total.bytes,
            characters=lengths.weight,
            field=str(extras.get("field", "")),
            fields=[FieldCount(name, count) for name, count in _commonest(total)],
            invalid=total.invalid,
        ),
        notes=() if several else one.notes,
    )


def _commonest(total: TextStats) -> list[tuple[str, int]]:
    return sorted(total.fields.items(), key=lambda item: (-item[1], item[0]))[:_FIELDS]


def _duplicates(subjects: Sequence[TextSubject], documents: int, characters: int) -> Duplicates | None:
    stores = [subject.survey.store for subject in subjects if subject.survey.store is not None]
    if len(stores) < len(subjects):
        return None
    found = repeats(stores)
    return Duplicates(
        sequences=found.surplus,
        share=found.surplus / documents if documents else 0.0,
        tokens=found.tokens,
        token_share=found.tokens / characters if characters else 0.0,
        groups=found.groups,
        largest=[_repeated(group, subjects) for group in found.largest],
    )


def _repeated(group: Group, subjects: Sequence[TextSubject]) -> RepeatedSequence:
    subject = subjects[group.dataset]
    number = subject.survey.number(group.position)
    path = str(subject.source.paths[0]) if len(subjects) > 1 else None
    try:
        text = str(subject.survey.records.record(number))[:_SHOWN]
    except (IndexError, FormatError):  # a sample's records have no number in the whole
        return RepeatedSequence(group.count, group.length, None, None, None, path)
    return RepeatedSequence(group.count, group.length, number, None, text, path)
