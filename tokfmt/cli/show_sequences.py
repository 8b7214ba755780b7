"""How `tokfmt show` prints sequences: as they are read, cut to what fits on a terminal, with what was found marked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tokfmt.cli.visible import visible

if TYPE_CHECKING:
    from tokfmt.ops.shown import Shown

_LINES = 3  # of a sequence on a terminal; everything when piped or with --full
_MARK = {"bold": True, "reverse": True}

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Style:
    """What to print.

    Attributes:
        only_ids, only_text: One kind, bare, for pipes.
        short: Cut to what fits on a terminal.
    """

    only_ids: bool
    only_text: bool
    short: bool

    @property
    def bare(self) -> bool:
        """Without headings."""
        return self.only_ids or self.only_text


def write_sequence(shown: Shown, style: Style) -> None:
    """Print one sequence: bare when one kind was asked for, else headed."""
    from tokfmt.cli.console import counted

    has_ids = shown.look.reader is not None
    if not style.bare:
        heading = counted(shown.length, "token" if has_ids else "character")
        if shown.found is not None:
            heading += f", found at {shown.found[0]:,}..{shown.found[1]:,}"
        click.echo(click.style(f"#{shown.index}", bold=True) + click.style(f"  {heading}", dim=True))
    if has_ids and not style.only_text:
        _write(_ids(shown, style), shown, style)
    if (shown.record is not None or shown.look.decoder is not None) and not style.only_ids:
        _write(_text(shown, style), shown, style)


def _write(pieces: Iterator[str], shown: Shown, style: Style) -> None:
    wrote = False
    for piece in pieces:
        click.echo(piece, nl=False)
        wrote = wrote or bool(piece)
    if wrote or style.bare:
        click.echo()


def _room() -> int:
    return (shutil.get_terminal_size().columns - 2) * _LINES


def _window(shown: Shown, style: Style, fits: int) -> Span:
    """The part of a sequence that is read: all, or its beginning, or what is around what was found.

    Args:
        shown: The sequence.
        style: How it is printed.
        fits: Units that fit for sure.
    """
    if not style.short:
        return 0, shown.length
    start = 0
    if shown.found is not None and shown.found[1] > fits:
        start = max(0, shown.found[0] - fits // 2)
    return start, min(shown.length, start + _room())


def _spans(shown: Shown, window: Span) -> list[tuple[Span, bool]]:
    """A window cut at what was found in it, and which part that is."""
    start, stop = window
    if shown.found is None:
        return [(window, False)]
    a, b = (min(max(p, start), stop) for p in shown.found)
    return [((start, a), False), ((a, b), True), ((b, stop), False)]


def _ids(shown: Shown, style: Style) -> Iterator[str]:
    window = _window(shown, style, _room() // 8)
    taken, room = 0, _room()
    if window[0]:
        yield click.style(f"(+{window[0]:,} tokens) … ", dim=True)
    for (a, b), found in _spans(shown, window):
        for tokens in shown.tokens(a, b):
            words = tokens.astype(str).tolist()
            if style.short:
                words = _fitting(words, room)
                room -= sum(map(len, words)) + len(words)
            text = " ".join(words)
            gap = " " if taken and words else ""
            taken += len(words)
            yield gap + (click.style(text, **_MARK) if found and words else text)
            if len(words) < len(tokens):
                yield _left(shown.length - window[0] - taken, "tokens")
                return
    if window[0] + taken < shown.length:
        yield _left(shown.length - window[0] - taken, "tokens")


def _fitting(words: list[str], room: int) -> list[str]:
    """As many words as there is room for."""
    for k, word in enumerate(words):
        room -= len(word) + 1
        if room < 0:
            return words[:k]
    return words


def _text(shown: Shown, style: Style) -> Iterator[str]:
    color = "green" if not style.bare else None
    unit = "characters" if shown.record is not None else "tokens"
    window = _window(shown, style, _room() // 2 if shown.record is not None else _room() // 8)
    parts = _spans(shown, window)
    if not style.short:
        marks = [found for _, found in parts]
        spans = [span for span, _ in parts]
        texts = shown.texts(spans)
        for k, text in enumerate(texts):
            found = marks[k] if len(spans) > 1 else False
            yield _styled(text, color, found=found)
        return
    if window[0]:
        yield click.style(f"(+{window[0]:,} {unit}) … ", dim=True)
    room, lines, printed = _room(), _LINES, 0
    for k, text in enumerate(shown.texts([span for span, _ in parts])):
        found = parts[k][1]
        before = len(parts) > 1 and k == 0
        kept = _cut(text, room, text.count("\n") + 1 if before else lines)  # what was found is to be seen
        yield _styled(kept, color, found=found)
        room, printed = room - len(kept), printed + len(kept)
        lines -= 0 if before else kept.count("\n")
        if len(kept) < len(text):
            yield _left(shown.length - window[0] - printed if shown.record is not None else None, unit)
            return
    if window[1] < shown.length:
        yield _left(shown.length - window[1], unit)


def _styled(text: str, color: str | None, *, found: bool) -> str:
    shown = visible(text)
    if found and shown:
        return click.style(shown, fg=color, **_MARK)
    return click.style(shown, fg=color) if color and shown else shown


def _cut(text: str, room: int, lines: int) -> str:
    return "\n".join(text[: max(0, room)].split("\n")[: max(0, lines)])


def _left(count: int | None, unit: str) -> str:
    many = "--full" if count is None else f"+{count:,} {unit}; --full"
    return click.style(f" … ({many})", dim=True)


def write_json(facts: dict[str, Any], sequences: Iterator[Shown]) -> None:
    """One JSON document, written as it is read: no sequence is held whole, nor all of them."""
    head = json.dumps({"schema": "tokfmt.show/1", **facts}, default=str, indent=2)
    click.echo(head[:-2] + ',\n  "shown": [', nl=False)
    count = 0
    for count, shown in enumerate(sequences, 1):
        own = {"index": shown.index, "length": shown.length, "found": shown.found}
        click.echo((",\n    " if count > 1 else "\n    ") + json.dumps(own)[:-1], nl=False)
        click.echo(', "ids": ' + ("null" if shown.look.reader is None else "["), nl=False)
        for k, tokens in enumerate(shown.tokens(0, shown.length)):
            click.echo((", " if k else "") + ", ".join(tokens.astype(str).tolist()), nl=False)
        click.echo("" if shown.look.reader is None else "]", nl=False)
        if shown.record is None and shown.look.decoder is None:
            click.echo(', "text": null}', nl=False)
            continue
        click.echo(', "text": "', nl=False)
        for text in shown.texts([(0, shown.length)]):
            click.echo(json.dumps(text)[1:-1], nl=False)
        click.echo('"}', nl=False)
    click.echo("\n  ]\n}" if count else "]\n}")
