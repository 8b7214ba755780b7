"""The overview of a dataset: what is counted, first from the index, then by a pass over all tokens, and its facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tokfmt.browser.data.cells import Lines
from tokfmt.browser.data.layout import bytes_of
from tokfmt.browser.data.lines import SEVERITIES, Fact, GroupLines, TokenLines
from tokfmt.browser.data.opening import UNKNOWN, recipe_of
from tokfmt.browser.data.parts import recipe_facts
from tokfmt.browser.data.session import Counted, Session
from tokfmt.browser.data.workers import Job
from tokfmt.core.records import RecordReader
from tokfmt.errors import TokfmtError
from tokfmt.run.execute import worker_count
from tokfmt.source.stored import Source
from tokfmt.wording import counted, printable, separator_words, short, shown_facts

if TYPE_CHECKING:
    from tokfmt.commands.stats import Statistics
    from tokfmt.commands.stats.lists import Lists
    from tokfmt.commands.stats.report import Ids, Share

AT_ONCE = 2 << 30
"""Limit of tokens, or of bytes of text, for a pass that starts without a key."""

MOST_COMPARED = 1 << 21
"""Limit of rows among which the browser looks for equal ones, 24 bytes each."""

_WORKERS = 4  # threads of a pass at most; each takes some 10 MB


def _opened(session: Session) -> Source:
    """Open the dataset again in the current view."""
    if session.refused is not None or session.opened.format is None:
        raise TokfmtError(session.failure)
    session.check_unchanged()
    handle = session.vocabulary.handle if session.vocabulary else None
    return session.opened.to_count(handle, as_stored=session.view.as_stored)


def first_look(session: Session) -> Statistics | str | None:
    """Return the statistics from header and index, or of a finished pass; None for text, or the error in words."""
    from tokfmt.commands.stats import glance

    opened, view = session.opened, session.view
    if session.refused is not None or opened.format is None:
        return session.failure
    if session.statistics is not None or isinstance(view.reader, RecordReader):
        return session.statistics
    try:
        if not view.as_stored and not opened.pending and not session.failure:  # its index has been read
            return glance(Source((session.path,), opened.format, view.reader, opened.separator, opened.notes))
        source = _opened(session)
        try:
            return glance(source)
        finally:
            source.reader.close()
    except TokfmtError as error:
        return str(error)


def whole_pass(session: Session, job: Job) -> Counted:
    """Return the statistics of all tokens, or of all texts without a tokenizer, and their lists."""
    from tokfmt.commands.stats import stats_of

    source, lists = _opened(session), list["Lists"]()
    try:
        handle = session.vocabulary.handle if session.vocabulary else None
        found = stats_of(
            source,
            tokenizer=handle,
            jobs=min(_WORKERS, worker_count(None)),
            progress=job,
            most_compared=MOST_COMPARED,
            keep=lists.append,
        )
        return Counted(found, *lists)
    finally:
        source.reader.close()


def is_settled(session: Session) -> bool:
    """Return whether the tokenizer of text is loaded, if one is named, so that a pass can start."""
    return not (session.of_text and session.choice is not None and session.vocabulary is None)


def is_outdated(session: Session) -> bool:
    """Return whether the finished pass counted text without the tokenizer that is loaded now."""
    found = session.statistics
    return session.of_text and session.vocabulary is not None and found is not None and found.tokens is None


def starts_alone(session: Session) -> bool:
    """Return whether the pass is short enough to start without a key."""
    reader = session.view.reader
    return (reader.info.size if isinstance(reader, RecordReader) else reader.info.tokens) <= AT_ONCE


def row_name(session: Session) -> str:
    """Return the noun for a counted row: "document", "sample", "row" or "record"."""
    return session.view.name.removesuffix("s")


def left_out(found: Statistics, session: Session) -> int:
    """Return the number of listed records that a pass left out, as they cannot be read."""
    of_records = isinstance(session.view.reader, RecordReader)
    return session.port.count - found.sequences if of_records and session.port.whole else 0


def known_facts(found: Statistics | None, session: Session) -> list[Fact]:
    """Return the facts, with the actions of the tab that lead on from them."""
    facts = list[Fact]()
    for some in (_sizes(found, session), _contents(found, session), _checks(session), _about(session)):
        kept = [fact for fact in some if fact.value]
        facts += [Fact("", ""), *kept] if kept and facts else kept
    return facts


def _lists(words: str) -> str:
    """Return the action that lists the rows of a query."""
    return f"app.list({words!r})"


def _sizes(found: Statistics | None, session: Session) -> Iterator[Fact]:
    if found is None:
        return
    rows = f"{found.sequences:,}" if found.sequences or found.lengths else "not split yet"
    yield Fact(f"{row_name(session)}s", rows, _lists(""))
    if lost := left_out(found, session):
        yield Fact("left out", f"{counted(lost, 'record')} that cannot be read", "place('file')", odd=True)
    leads = "ranking('frequent')" if found.ids else ""
    of_positions = found.padding is not None and found.padding.count and row_name(session) == "sample"
    yield Fact("positions" if of_positions else "tokens", "" if found.tokens is None else f"{found.tokens:,}", leads)
    yield Fact("tokens", "" if found.text is None else "T chooses a tokenizer", "app.tokenizers")
    yield Fact("characters", "" if found.text is None else f"{found.text.characters:,}")
    each = text_bytes_per_token(session)
    yield Fact("text bytes/token", "" if each is None else f"{each:.2f}")
    lengths = found.lengths
    if lengths is not None and lengths.mean is not None:
        yield Fact("mean length", f"{lengths.mean:,.1f}")
        yield Fact("shortest", f"{lengths.min:,}", _lists(f"len=={lengths.min}"))
        yield Fact("longest", f"{lengths.max:,}", _lists(f"len=={lengths.max}"))


def text_bytes_per_token(session: Session) -> float | None:
    """Return the mean bytes of text of a token; None without a tokenizer, or before all tokens are counted."""
    words, ranked = session.vocabulary, None if session.lists is None else session.lists.ids
    if words is None or ranked is None or not len(ranked.ids):
        return None
    sizes = np.array(list(map(len, bytes_of(words.decoder, ranked.ids))))
    return float((sizes * ranked.counts).sum() / ranked.counts.sum())


def _contents(found: Statistics | None, session: Session) -> Iterator[Fact]:
    if found is None:
        return
    if found.ids is not None:
        yield from _ids(found.ids, _separator_alone(found, session.lists))
    yield Fact("largest ID", "" if found.max_id is None else f"{found.max_id:,}", _lists(f"token:{found.max_id}"))
    of_samples = row_name(session) == "sample"
    shares: list[tuple[str, Share | None, str, float]] = [
        ("separators", found.separators, f"token:{found.eos_id}", 1),
        ("padding", found.padding, "padding>0" if of_samples else "", 0.1),
        ("masked", found.masked, "masked>0" if of_samples else "", 1),
        ("empty", found.empty, "len==0", 0),
    ]
    for name, share, words, most in shares:
        if share is not None:
            leads = _lists(words) if words and share.count else ""
            percent = f"  {share.share:.1%}" if share.count else ""
            yield Fact(name, f"{share.count:,}{percent}", leads, odd=share.share > most)
    again = found.duplicates
    if again is not None:
        counted_all = bool(again.groups) and not left_out(found, session)
        words = f"{again.sequences:,}  {again.share:.1%}" if again.sequences else "0"
        yield Fact("duplicates", words, "focus_groups" if counted_all else "", odd=bool(again.sequences))
    elif found.lengths is not None and (found.ids is not None or found.text is not None):
        yield Fact("duplicates", f"not counted above {short(MOST_COMPARED)}")


def _ids(ids: Ids, alone: list[int]) -> Iterator[Fact]:
    about = "about " if ids.estimated else ""
    of = f" of {ids.vocab_size:,}" if ids.vocab_size else ""
    yield Fact("different IDs", f"{about}{ids.distinct:,}{of}", "ranking('frequent')")
    if (never := _never(ids, alone)) is not None:
        yield Fact("never seen", f"{never:,}", "ranking('never')" if never else "")
    yield Fact("seen once", f"{ids.once:,}", "ranking('rare')" if ids.once else "")
    if ids.beyond and ids.beyond_query is not None:
        yield Fact("beyond vocabulary", f"{ids.beyond:,}", _lists(ids.beyond_query), odd=True)


def _never(ids: Ids, alone: list[int]) -> int | None:
    """Return the number of IDs of the vocabulary that do not occur; None if it is unknown."""
    if not ids.vocab_size or ids.coverage is None or ids.estimated:
        return None
    return ids.vocab_size - round(ids.coverage * ids.vocab_size) - sum(one < ids.vocab_size for one in alone)


def _separator_alone(found: Statistics, lists: Lists | None) -> list[int]:
    """Return the separator if it is between sequences, but in none of them."""
    if lists is None or lists.ids is None or found.separators is None or not found.separators.count:
        return []
    return [] if found.eos_id is None or found.eos_id in lists.ids.ids else [found.eos_id]


_FINDINGS = 8
"""Findings of the check that are listed."""


def _checks(session: Session) -> Iterator[Fact]:
    """Yield what was checked, the findings, and what a check of all tokens would add."""
    if session.failure:
        yield Fact("✗", printable(session.failure), "place('file')", odd=True)
    verdict, port, view = session.verdict, session.port, session.view
    words = "" if view.axis is None else counted(view.tokens, "token")
    if verdict is None:
        yield Fact("·", f"headers and {words or 'texts'}: a checks all", "all")
        return
    if not any(verdict.severities.get(name) for name in ("error", "warning")):
        yield Fact("✓", "headers and metadata")
        rows = counted(port.count, view.singular) if port.whole else view.name
        yield Fact("✓", f"index of {rows}" if words else rows)
        yield Fact("✓", f"all {words or 'texts'}" if verdict.deep else "")
    order = list(SEVERITIES)
    for finding in sorted(verdict.findings, key=lambda one: order.index(one.severity))[:_FINDINGS]:
        leads = _lists(finding.query) if finding.query else "place('file')"
        yield Fact(SEVERITIES[finding.severity], printable(finding.message), leads, odd=finding.severity != "info")
    left = sum(verdict.severities.values()) - _FINDINGS
    yield Fact("·", f"and {counted(left, 'more finding')}" if left > 0 else "", "place('file')")
    yield Fact("·", "" if verdict.deep else f"{words or 'texts'}: a checks all", "all")


def _about(session: Session) -> Iterator[Fact]:
    """Yield what is known of a dataset without counting."""
    opened, reader = session.opened, session.view.reader
    splits = (f"{printable(split)}{' (shown)' if split == session.split else ''}" for split in session.splits)
    yield Fact("splits", ", ".join(splits))
    if session.refused is not None:
        return
    for view in opened.views if len(opened.views) > 1 else ():
        yield Fact(view.name, f"{view.port.count:,}{'' if view.port.whole else ' of more'}")
    separator = opened.separator
    if separator.eos_id is not None:
        known = separator_words(separator.eos_id, separator.source, separator.seen)
        yield Fact("separator", printable(known), _lists(f"token:{separator.eos_id}"))
    recipe = recipe_of(reader)
    if recipe is not None:
        yield from (Fact(name, value) for name, value in recipe_facts(recipe))
    else:
        for key, words in shown_facts(reader.info.facts).items():
            if key not in ("split", "other_splits"):
                yield Fact(key.replace("_", " "), printable(words))
    for note in opened.notes:
        yield Fact("note", printable(note))
    yield Fact("⏎", "" if session.advice is None else session.advice[0], "app.follow_advice", odd=True)


def rankings_of(found: Statistics | None, lists: Lists | None, session: Session) -> dict[str, Lines]:
    """Return the rankings of IDs by their name; {} without any."""
    if found is None or lists is None:
        return {}
    from tokfmt.commands.stats.lists import RankedIds  # imported by the thread that counted

    style, ranked = session.token_style, dict[str, Lines]()
    if lists.ids is not None:
        tokens = found.tokens or 0
        ranked["frequent"] = TokenLines(lists.ids, tokens, style, "token")
        rising = np.argsort(lists.ids.counts, kind="stable")
        rarest = RankedIds(lists.ids.ids[rising], lists.ids.counts[rising])
        ranked["rare"] = TokenLines(rarest, tokens, style, "token")
        alone = _separator_alone(found, lists)
        if found.ids is not None and found.ids.vocab_size and _never(found.ids, alone):
            seen = np.append(lists.ids.ids, np.array(alone, np.uint64))
            never = np.setdiff1d(np.arange(found.ids.vocab_size, dtype=np.uint64), seen)
            ranked["never"] = TokenLines(RankedIds(never, np.zeros(len(never), np.int64)), tokens, style, "token")
    filled = found.sequences - (found.empty.count if found.empty else 0)
    for name, ends in (("first", lists.first), ("last", lists.last)):
        if ends is not None:
            ranked[name] = TokenLines(ends, filled, style, name)
    return ranked


def groups_of(found: Statistics | None, lists: Lists | None, session: Session) -> GroupLines | None:
    """Return the groups of equal rows; None without any."""
    if found is None or lists is None or lists.groups is None or not len(lists.groups):
        return None
    if left_out(found, session):  # their numbers are not those of the list
        return None
    port = None if session.view.name == UNKNOWN else session.port
    return GroupLines(row_name(session), lists.groups, port, session.token_style)
