"""Statistics of a session: what is known at once, the whole pass, and both in words. Reads; for a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokfmt.core.errors import TokfmtError, printable
from tokfmt.core.records import RecordReader
from tokfmt.ops.open import Source, open_stored
from tokfmt.ops.sources import read_options
from tokfmt.ops.stats import Statistics, glance, stats_of
from tokfmt.ops.stats.report import Duplicates, Ends, Id, Share
from tokfmt.tui.facts import spelling
from tokfmt.tui.headings import short
from tokfmt.tui.jobs import Job
from tokfmt.tui.session import Session

AT_ONCE = 2 << 30
"""Tokens up to which the whole pass starts by itself."""

BYTES_AT_ONCE = 2 << 30
"""Bytes of text up to which it does."""

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a ranking: an id or a sequence, how often, its share of all, what it stands for."""

    name: str
    count: int
    share: float
    text: str


def _opened(session: Session) -> Source:
    """The dataset once more, as it is stored: a pass of its own must not close the readers of the screen."""
    request, format_, known = session.request, session.opened.format, session.opened.separator
    if session.refused is not None or format_ is None:
        raise TokfmtError(session.failure)
    eos = session.vocabulary.handle.eos_id if session.vocabulary else None
    source = open_stored(
        [Path(path) for path in request.paths[:1]],
        format=session.format_name,
        eos=known.eos_id if request.eos is None else request.eos,
        tokenizer_eos=eos,
        options=read_options(request, format_),
        drop=request.drop | {"fields"},
    )
    # what separates the rows of the list separates those that are counted, whatever tokenizer spells them
    return source if known.eos_id is None else source._replace(separator=known)


def first_look(session: Session) -> Statistics | None:
    """What header and index tell, or the pass if it was done; None of text.

    Raises:
        TokfmtError: It cannot be read.
    """
    opened = session.opened
    if session.refused is not None or opened.format is None:
        raise TokfmtError(session.failure)
    if session.statistics is not None or isinstance(session.view.reader, RecordReader):
        return session.statistics
    if not opened.pending and not session.failure:  # its index has been read
        return glance(Source((session.path,), opened.format, opened.views[0].reader, opened.separator, opened.notes))
    source = _opened(session)
    try:
        return glance(source)
    finally:
        source.reader.close()


def whole_pass(session: Session, job: Job) -> Statistics:
    """Every token, or every text where there is no tokenizer.

    Raises:
        TokfmtError: It cannot be read, or was cancelled.
    """
    source = _opened(session)
    try:
        handle = session.vocabulary.handle if session.vocabulary else None
        return stats_of(source, tokenizer=handle, progress=job)
    finally:
        source.reader.close()


def is_settled(session: Session) -> bool:
    """Nothing is known that a pass made now would say otherwise: text has its tokenizer, if one is to come."""
    return not (session.of_text and session.choice is not None and session.vocabulary is None)


def is_outdated(session: Session) -> bool:
    """The pass was made over text before its tokenizer was there."""
    found = session.statistics
    return session.of_text and session.vocabulary is not None and found is not None and found.tokens is None


def starts_alone(session: Session) -> bool:
    """The pass is short enough to be made without being asked for."""
    reader = session.view.reader
    if isinstance(reader, RecordReader):
        return reader.info.size <= BYTES_AT_ONCE
    return reader.info.tokens <= AT_ONCE


# in words


def pairs_of(found: Statistics, session: Session) -> list[Pair]:
    """Facts, one a pair."""
    pairs = [("sequences", f"{found.sequences:,}" if found.sequences or found.lengths else "not split yet")]
    pairs += [(name, value) for name, value in _counts(found) if value]
    lengths = found.lengths
    if lengths is not None and lengths.mean is not None:
        pairs.append(("length", f"{lengths.mean:,.1f} mean, {lengths.min:,} to {lengths.max:,}"))
        pairs.append(("5/50/95 % of lengths", f"{lengths.p5:,} · {lengths.p50:,} · {lengths.p95:,}"))
    pairs += _shares(found)
    if found.ids is not None:
        pairs += _ids(found)
    if session.verdict is not None:
        told = [f"{count:,} {name}{'' if count == 1 else 's'}" for name, count in session.verdict.severities.items()]
        pairs.append(("findings", ", ".join(told) or "none"))
    return pairs


def _counts(found: Statistics) -> list[Pair]:
    separator = "" if found.eos_id is None else f"{found.eos_id} ({printable(found.eos_from)})"
    return [
        ("tokens", "" if found.tokens is None else f"{found.tokens:,}"),
        ("on disk", f"{found.bytes:,} bytes" if found.bytes < 10**6 else f"{short(found.bytes)} bytes"),
        ("a token", "" if found.bytes_per_token is None else f"{found.bytes_per_token:.2f} bytes on disk"),
        ("type", found.dtype or ""),
        ("largest id", "" if found.max_id is None else f"{found.max_id:,}"),
        ("separator", separator),
        ("characters", "" if found.text is None else f"{found.text.characters:,}"),
    ]


def _shares(found: Statistics) -> list[Pair]:
    shares: list[tuple[str, Share | None]] = [
        ("empty", found.empty), ("separators", found.separators), ("padding", found.padding), ("masked", found.masked),
    ]  # fmt: skip
    pairs = [(name, f"{share.count:,} ({share.share:.2%})") for name, share in shares if share is not None]
    again = found.duplicates
    if again is not None:
        pairs.append(("duplicates", f"{again.sequences:,} ({again.share:.2%}, tokens {again.token_share:.2%})"))
    return pairs


def _ids(found: Statistics) -> list[Pair]:
    ids = found.ids
    if ids is None:
        return []
    of = f" of {ids.vocab_size:,} ({ids.coverage:.1%})" if ids.vocab_size and ids.coverage is not None else ""
    about = "about " if ids.estimated else ""
    pairs = [("different ids", f"{about}{ids.distinct:,}{of}"), ("ids met once", f"{ids.once:,}")]
    return pairs + ([("beyond the vocabulary", f"{ids.beyond:,}")] if ids.beyond else [])


def rankings_of(found: Statistics, session: Session) -> list[tuple[str, list[Line]]]:
    """Headed lists: ids that are frequent and rare, first and last tokens, sequences that are there again."""
    lists: list[tuple[str, list[Line]]] = []
    if found.ids is not None:
        lists.append(("most frequent tokens", _of_ids(found.ids.most_frequent, session)))
        lists.append(("least frequent tokens", _of_ids(found.ids.least_frequent, session)))
    lists += [
        (f"{name} tokens of sequences", _of_ids(ends.top, session))
        for name, ends in (("first", found.first_tokens), ("last", found.last_tokens))
        if isinstance(ends, Ends)
    ]
    if found.duplicates is not None and found.duplicates.largest:
        lists.append(("sequences that are there again", _repeated(found.duplicates, session, found.sequences)))
    return lists


def _of_ids(ids: Sequence[Id], session: Session) -> list[Line]:
    return [Line(str(one.id), one.count, one.share, spelling(session, one.id)[1] or "") for one in ids]


def _repeated(found: Duplicates, session: Session, sequences: int) -> list[Line]:
    lines = []
    for one in found.largest:
        begins = one.text or "".join(spelling(session, token)[1] or f"{token} " for token in one.ids or ())
        name = "" if one.sequence is None else f"#{one.sequence:,}"
        lines.append(Line(name, one.count, one.count / max(1, sequences), printable(begins)))
    return lines
