"""`tokfmt show`: print sequences, stored samples (--samples), or the parts of files field by field (--raw)."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tokfmt.base.plain import plain
from tokfmt.cli.console import Watcher, document, listed, note, terminal
from tokfmt.cli.parameters import (
    PLACE,
    Command,
    Count,
    F,
    Grouped,
    common,
    examples,
    rare,
    reading,
    requested,
    tokenizer,
)
from tokfmt.cli.show_step import Printing, origin_lines, show_seen, show_step
from tokfmt.cli.table import Table
from tokfmt.wording import counted, listed_facts, printable, separator_words, shortened, visible

if TYPE_CHECKING:
    from tokfmt.commands.show.parts import HexRow, Raw
    from tokfmt.commands.show.show import PrintedSample, Sample, SampleView, Shown
    from tokfmt.files.fields import Field, Section
    from tokfmt.text.decoding import TextDecoder

_EPILOG = examples(
    "tokfmt show pack.pbin",
    "tokfmt show pack.pbin 3 --ids",
    "tokfmt show pack.pbin -3:",
    "tokfmt show pack.pbin random:2 --seed 1",
    "tokfmt show pack.pbin token:464,2068",
    "tokfmt show pack.pbin 'len>100'",
    "tokfmt show pack.pbin dup --limit 0",
    "tokfmt show corpus.jsonl 0:3 --tokenizer tokenizer",
    "tokfmt show corpus.jsonl 'text:f(x)'",
    "tokfmt show corpus.jsonl 'regex:(?i)a whale'",
    "tokfmt show pack.pbin --raw",
    "tokfmt show samples 0:2 --samples",
    "tokfmt show mix.toml --step 1 --batch-size 2",
)


_OF_STEPS = ("step", "batch_size", "rank", "world_size", "sample")


def _of_recipe(name: str, kind: Count | type[str], metavar: str, text: str, **how: Any) -> Callable[[F], F]:
    """Return an option on the steps of a recipe or a run."""
    return click.option(name, cls=Grouped, group="Recipes and runs", type=kind, metavar=metavar, help=text, **how)


class _Selecting(Command):
    """A command whose arguments may begin with a minus and a digit (`-3:`). No option begins with a digit."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # click parses a word that begins with a blank as an argument; the blank is stripped when the selection is
        # parsed
        return super().parse_args(ctx, [f" {word}" if re.match(r"-\d", word) else word for word in args])


@click.command("show", cls=_Selecting, epilog=_EPILOG, no_args_is_help=True)
@click.argument("path", type=PLACE)
@click.argument("selection", required=False, metavar="[SEL]")
@tokenizer("Tokenizer that encodes text, and shows IDs as text (default: that of the manifest, for IDs).")
@click.option("--ids", "only_ids", is_flag=True, help="Print IDs only.")
@click.option("--text", "only_text", is_flag=True, help="Print text only.")
@click.option("--full", is_flag=True, help="Print all of each sequence on a terminal.")
@click.option("--samples", "rows", is_flag=True, help="Print stored samples: input_ids, mask and labels.")
@click.option("--raw", is_flag=True, help="Print the annotated bytes of files, also of damaged ones.")
@click.option("--origin", is_flag=True, help="Print origins, from the ledger of PATH; with --step: no tokens.")
@rare("--seed", type=Count(), default=0, help="Seed of random:N (default: 0).")
@click.option(
    "--limit",
    type=Count(0),
    metavar="N",
    help="Sequences to print; 0: all (default: all, and 10 of a search without --json). With --raw: fields per part "
    "(default: 12).",
)
@_of_recipe("--step", Count(0), "S", "Step whose samples to print, from 0.")
@_of_recipe("--batch-size", Count(1), "B", "Samples per step, over all ranks.")
@_of_recipe("--rank", Count(0), "R", "Rank whose samples to print, from 0 (default: all).")
@_of_recipe("--world-size", Count(1), "W", "Number of ranks.")
@_of_recipe("--sample", Count(), "K", "Sample to print, with its sources.")
@_of_recipe(
    "--seen", str, "SOURCE#SEL", "List the samples and steps that read sequence SEL; repeatable.", multiple=True
)
@_of_recipe("--before", Count(1), "S", "With --seen: only steps before step S.")
@reading
@common
def command(path: str, selection: str | None, **given: Any) -> None:
    """Print sequences as text or token IDs.

    SEL selects sequences (default: the first five). It is a number (5, -1), a range (0:10, -3:), random:5, or a search:
    token:464, token:464,3290 (consecutive IDs), any:464,3290 (any of several IDs), first:464, last:0, id>=50257,
    text:words (these characters), regex:w.*s, len>4096, len==0, 10<len<20, dup (the first of each group of equal
    sequences), same:17 (equal to sequence 17), or seq:3,17,20:30; not before it: the others.

    A search that finds nothing reports that, and exits with 0.

    For a recipe or a run, --step and --sample print the parts of the sequences that the model reads, and --seen lists
    when it read a sequence.
    """
    from tokfmt.commands.show.show import SEARCHED, searches, show, show_origins

    only_ids, only_text, full = given.pop("only_ids"), given.pop("only_text"), given.pop("full")
    quiet, as_json = given.pop("quiet"), given.pop("as_json")
    origin = given.pop("origin")
    asked = {name: given.pop(name) for name in _OF_STEPS}
    queries, before = given.pop("seen"), given.pop("before")
    if queries:
        show_seen(path, queries, before, asked, given, selection=selection, quiet=quiet, as_json=as_json)
        return
    if any(value is not None for value in asked.values()):
        show_step(path, selection, asked, given, Printing(only_ids, only_text, origin, full, quiet, as_json))
        return
    if given["raw"] and selection is not None:
        raise click.UsageError(f"--raw prints files, not sequences. Leave {selection.strip()!r} out")
    if origin and (given["raw"] or given["rows"]):
        what = "--raw" if given["raw"] else "--samples"
        raise click.UsageError(
            f"--origin and {what} cannot be combined: --origin prints sequences, or samples if the ledger has these. "
            f"Leave {what} out"
        )
    if given.pop("raw"):
        show_raw(path, given, limit=given["limit"], as_json=as_json, quiet=quiet)
        return
    rows = given.pop("rows")
    if rows:
        show_samples(path, given, selection=selection, full=full, only_text=only_text, as_json=as_json, quiet=quiet)
        return
    # on a terminal, a bar and the printed sequences would mix
    with Watcher(quiet=quiet or _terminal()) as watcher:
        how = {name: given[name] for name in ("tokenizer", "seed", "limit")}
        if how["limit"] is None and not as_json and searches(selection):
            how["limit"] = SEARCHED
        preview = (show_origins if origin else show)(
            requested((path,), given), selection, only_ids=only_ids, progress=watcher, **how
        )
        if as_json:
            listed("show", preview, map(_as_json, preview.shown), lambda: {"stopped_after": preview.cut()})
            return
        print_preview(preview, only_ids=only_ids, only_text=only_text, quiet=quiet, full=full)


def print_preview(
    preview: Any,
    *,
    only_ids: bool = False,
    only_text: bool = False,
    quiet: bool = False,
    full: bool = False,
) -> None:
    """Print the heading and the notes on stderr, and the sequences on stdout."""
    if not quiet:
        click.echo(_heading(preview), err=True)
        for text in preview.notes:
            note(text)
    terminal = _terminal()
    style = _Style(only_ids, only_text, terminal and not full, shutil.get_terminal_size().columns if terminal else 0)
    count = 0
    for count, shown in enumerate(preview.shown, 1):
        if only_ids and shown.decoding.reader is None:
            raise click.UsageError("--ids needs a tokenizer, because text has no IDs. Add --tokenizer NAME")
        if only_text and shown.record is None and shown.decoding.decoder is None:
            raise _no_tokenizer(preview.path)
        if count > 1 and not style.bare:
            click.echo()
        _write_sequence(shown, style)
    if not quiet:
        _print_end(preview.sequences, preview.cut(), count)


def _print_end(sequences: int | None, cut: int | None, count: int) -> None:
    if not count:
        click.echo("no sequences" if sequences == 0 else "nothing found", err=True)
    if cut is not None:
        note(f"stopped after {cut:,}; --limit N shows N, --limit 0 shows all")


def _no_tokenizer(path: str) -> click.UsageError:
    """Return the error about --text without a tokenizer, with the reason why that of the manifest is not used."""
    from tokfmt.files.place import place_of
    from tokfmt.source.manifest import located_tokenizer
    from tokfmt.source.stored import tokenizer_of

    located = located_tokenizer(place_of(path))
    tokenizer_of(located.place)  # raises the reason if that of the manifest cannot be read
    problem = located.problem
    return click.UsageError(f"--text needs a tokenizer{f': {problem}' if problem else ''}. Add --tokenizer")


def _heading(preview: Any) -> str:
    parts = []
    if preview.sequences is not None:
        parts.append(counted(preview.sequences, "sequence" if preview.tokens is not None else "record"))
    if preview.tokens is not None:
        parts.append(counted(preview.tokens, "token"))
    if preview.eos_id is not None:
        parts.append(f"separator {separator_words(preview.eos_id, preview.eos_from, preview.eos_seen)}")
    detail = listed_facts(preview.extras)
    what = f"{printable(preview.path)}: {preview.format}{f' ({detail})' if detail else ''}"
    return ": ".join(filter(None, (what, ", ".join(parts))))


def _terminal() -> bool:
    return sys.stdout.isatty()


# sequences

_EQUAL = 10  # equal sequences listed of a group
_LINES = 3  # of a sequence on a terminal; everything when piped or with --full
_MARK = {"bold": True, "reverse": True}

_Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Style:
    """The parts of a sequence to print."""

    only_ids: bool
    only_text: bool
    short: bool  # cut each sequence to `_LINES` lines of the terminal
    width: int = 0  # columns of the terminal, to break lines between IDs; 0 without a terminal

    @property
    def bare(self) -> bool:
        """Return whether headings are left out."""
        return self.only_ids or self.only_text


def _write_sequence(shown: Shown, style: _Style) -> None:
    """Print one sequence, with a heading unless `style.bare`; its origins are below the heading."""
    has_ids = shown.decoding.reader is not None
    if not style.bare or shown.origins is not None:
        heading = counted(shown.length, "token" if has_ids else "character")
        if shown.found is not None:
            heading += f", found at {shown.found[0]:,}..{shown.found[1]:,}"
        if shown.equal is not None:
            more = len(shown.equal) - _EQUAL
            others = ", ".join(f"#{number}" for number in shown.equal[:_EQUAL].tolist())
            heading += f", {len(shown.equal):,} times: {others}{f' and {more:,} more' if more > 0 else ''}"
        click.echo(click.style(f"#{shown.index}", bold=True) + click.style(f"  {heading}", dim=True))
        for line in origin_lines(shown.origins or ()):
            click.echo(line)
    if has_ids and not style.only_text:
        _write(_ids(shown, style), shown, style)
    if (shown.record is not None or shown.decoding.decoder is not None) and not style.only_ids:
        _write(_text(shown, style), shown, style)


def _write(pieces: Iterator[str], shown: Shown, style: _Style) -> None:
    wrote = False
    for piece in pieces:
        click.echo(piece, nl=False)
        wrote = wrote or bool(piece)
    if wrote or style.bare:
        click.echo()


def _room() -> int:
    return (shutil.get_terminal_size().columns - 2) * _LINES


def _visible_part(shown: Shown, style: _Style, fits: int) -> _Span:
    """Return the interval to read: all, as much as certainly fits, or the surroundings of a search result."""
    if not style.short:
        return 0, shown.length
    start = 0
    if shown.found is not None and shown.found[1] > fits:
        start = max(0, shown.found[0] - fits // 2)
    return start, min(shown.length, start + _room())


def _spans(shown: Shown, window: _Span) -> list[tuple[_Span, bool]]:
    """Split an interval at the search result in it; the boolean marks the result."""
    start, stop = window
    if shown.found is None:
        return [(window, False)]
    a, b = (min(max(p, start), stop) for p in shown.found)
    return [((start, a), False), ((a, b), True), ((b, stop), False)]


def _ids(shown: Shown, style: _Style) -> Iterator[str]:
    window = _visible_part(shown, style, _room() // 8)
    taken, room, column = 0, _room(), 0
    if window[0]:
        before = f"(+{window[0]:,} tokens) … "
        column = len(before)
        yield click.style(before, dim=True)
    for (a, b), found in _spans(shown, window):
        for tokens in shown.tokens(a, b):
            words = tokens.astype(str).tolist()
            if style.short:
                words = _fitting(words, room)
                room -= sum(map(len, words)) + len(words)
            gap = " " if taken and words else ""
            text, column = _folded(words, column + len(gap), style.width)
            if gap and text.startswith("\n"):
                gap = ""
            taken += len(words)
            yield gap + (click.style(text, **_MARK) if found and words else text)
            if len(words) < len(tokens):
                yield _left(shown.length - window[0] - taken, "tokens")
                return
    if window[0] + taken < shown.length:
        yield _left(shown.length - window[0] - taken, "tokens")


def _folded(words: list[str], column: int, width: int) -> tuple[str, int]:
    """Join words with blanks, or line breaks where a word does not fit; return the text and the column after it."""
    if not width:
        return " ".join(words), 0
    pieces = list[str]()
    for word in words:
        gap = " " if pieces else ""
        if column + len(gap) + len(word) > width and column:
            gap, column = "\n", 0
        pieces.append(gap + word)
        column += len(word) + (gap == " ")
    return "".join(pieces), column


def _fitting(words: list[str], room: int) -> list[str]:
    """Return the first words that fit in `room` characters."""
    for k, word in enumerate(words):
        room -= len(word) + 1
        if room < 0:
            return words[:k]
    return words


def _text(shown: Shown, style: _Style) -> Iterator[str]:
    color = "green" if not style.bare else None
    unit = "characters" if shown.record is not None else "tokens"
    window = _visible_part(shown, style, _room() // 2 if shown.record is not None else _room() // 8)
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
        many = text.count("\n") + 1 if before else max(0, lines)  # keeps room for the search result
        kept = "\n".join(text[: max(0, room)].split("\n")[:many])
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


def _left(count: int | None, unit: str) -> str:
    many = "--full" if count is None else f"+{count:,} {unit}; --full"
    return click.style(f" … ({many})", dim=True)


def _as_json(shown: Shown) -> Iterator[str]:
    """Yield a sequence as a JSON object, of which memory holds only a part."""
    own: dict[str, Any] = {"index": shown.index, "length": shown.length, "found": shown.found}
    own |= {} if shown.equal is None else {"equal": plain(shown.equal)}
    own |= {} if shown.origins is None else {"origins": plain(shown.origins)}
    yield json.dumps(own)[:-1] + ', "ids": ' + ("null" if shown.decoding.reader is None else "[")
    for k, tokens in enumerate(shown.tokens(0, shown.length)):
        yield (", " if k else "") + ", ".join(tokens.astype(str).tolist())
    yield "" if shown.decoding.reader is None else "]"
    if shown.record is None and shown.decoding.decoder is None:
        yield ', "text": null}'
        return
    yield ', "text": "'
    for text in shown.texts([(0, shown.length)]):
        yield json.dumps(text)[1:-1]
    yield '"}'


# --samples: input_ids, mask and labels in rows of a grid

_PIPED = 120  # columns without a terminal
_LABEL = 11
_PIECE = 12  # characters of a token's text
_BLOCKS = 4  # of columns, on a terminal without --full
_PADDED = 3  # columns of padding, without --full
_SHOWN_AS = {" ": "·", "\n": "↵", "\t": "⇥"}


def show_samples(
    path: str, given: dict[str, Any], *, selection: str | None, full: bool, only_text: bool, as_json: bool, quiet: bool
) -> None:
    """Print samples as they are stored, or only their text."""
    from tokfmt.commands.show.show import SEARCHED, samples, searches

    limit = given["limit"]
    if limit is None and not as_json and searches(selection):
        limit = SEARCHED
    view = samples(requested((path,), given), selection, tokenizer=given["tokenizer"], limit=limit)
    if as_json:
        listed("show-samples", view, map(_sample_as_json, view.shown), dict)
        return
    if not quiet:
        click.echo(_rows_heading(view), err=True)
        for text in view.notes:
            note(text)
        if not view.bordered:
            note("the separator is unknown; --eos ID marks where documents begin")
    if only_text:
        if view.decoder is None:
            raise _no_tokenizer(path)
        count = _write_texts(view, view.decoder)
    else:
        count = _write_rows(view, full=full)
    if not quiet and searches(selection):
        _print_end(view.samples, view.cut(), count)


def _write_texts(view: SampleView, decoder: TextDecoder) -> int:
    """Print the text of each sample, without padding, and return their number."""
    count = 0
    for sample in view.shown:
        click.echo(visible(decoder.decode(sample.ids[: len(sample.ids) - sample.padding])))
        count += 1
    return count


def _write_rows(view: SampleView, *, full: bool) -> int:
    """Print each sample as a grid of IDs, loss mask and labels, and return their number."""
    terminal = _terminal()
    width = shutil.get_terminal_size((_PIPED, 24)).columns
    number = 0
    for number, sample in enumerate(view.shown, 1):
        click.echo(("\n" if number > 1 else "") + _row_title(sample))
        folded = 0 if full else max(0, sample.padding - _PADDED)
        for k, block in enumerate(_blocks(sample, width, len(sample.ids) - folded)):
            if terminal and not full and k == _BLOCKS:
                left = len(sample.ids) - block.first
                click.echo(click.style(f"… {left:,} more tokens (--full)", dim=True))
                break
            click.echo(("\n" if k else "") + "\n".join(block.lines()))
        else:
            if folded:
                click.echo(click.style(f"… {folded:,} more padding IDs (--full)", dim=True))
    return number


def _rows_heading(view: SampleView) -> str:
    facts = [counted(view.samples, "sample")]
    if view.sample_length is not None:
        facts[0] += f" of {counted(view.sample_length, 'token')}"
    if view.eos_id is not None:
        facts.append(f"separator {separator_words(view.eos_id, view.eos_from, view.eos_seen)}")
    if view.pad_id is not None:
        facts.append(f"padding {view.pad_id}")
    return f"{printable(view.path)}: {view.format}: {', '.join(facts)}"


def _row_title(sample: Sample) -> str:
    facts = [counted(len(sample.ids), "token")]
    if sample.trained is not None:
        facts.append(f"{sample.trained:,} counted in the loss")
    if count := int(sample.begins.sum()):
        facts.append(f"{counted(count, 'document')} beginning inside")
    if sample.padding:
        facts.append(f"{sample.padding:,} of padding")
    return click.style(f"#{sample.index}", bold=True) + click.style(f"  {', '.join(facts)}", dim=True)


@dataclass(frozen=True)
class _Block:
    """The columns of a sample that fit side by side."""

    first: int  # number of the first column
    rows: list[tuple[str, str, list[str]]]  # name, style and cells of each row
    widths: list[int]  # characters of each column
    borders: list[bool]  # a document begins at the column
    real: int  # number of columns before the padding

    def lines(self) -> Iterator[str]:
        """Yield the rows as styled text."""
        for name, color, cells in self.rows:
            text = click.style(f"{name:>{_LABEL - 1}} ", dim=True)
            for k, (cell, width) in enumerate(zip(cells, self.widths, strict=True)):
                border = click.style("│", fg="yellow") if self.borders[k] else " "
                dim = k >= self.real or (name == "mask" and cell == "0") or (name == "labels" and cell == "-100")
                text += border + click.style(cell.rjust(width), fg=color or None, dim=dim or None)
                if not any(cells[k + 1 :]) and not any(self.borders[k + 1 :]):
                    break
            yield text


def _blocks(sample: Sample, room: int, stop: int) -> Iterator[_Block]:
    rows: list[tuple[str, str, list[str]]] = []
    if sample.pieces is not None:
        rows.append(("text", "green", [_piece(piece) for piece in sample.pieces]))
    rows.append(("input_ids", "", [str(token) for token in sample.ids.tolist()]))
    if sample.mask is not None:
        rows.append(("mask", "", [str(flag) for flag in sample.mask.tolist()]))
    if sample.labels is not None:
        rows.append(("labels", "cyan", [str(token) for token in sample.labels.tolist()]))
    widths = [max(map(len, column)) for column in zip(*(cells[:stop] for _, _, cells in rows), strict=True)]
    real = len(sample.ids) - sample.padding
    begins, first = sample.begins.tolist(), 0
    while first < len(widths):
        last, used = first, _LABEL
        while last < len(widths) and (last == first or used + widths[last] + 1 <= room):
            used, last = used + widths[last] + 1, last + 1
        numbers = [str(first)] + [""] * (last - first - 1)
        fitted = [max(widths[first], len(numbers[0])), *widths[first + 1 : last]]
        some = [("position", "", numbers), *((n, c, x[first:last]) for n, c, x in rows)]
        yield _Block(first, some, fitted, begins[first:last], real - first)
        first = last


def _piece(text: str) -> str:
    """Return the text of a token in at most `_PIECE` characters, with visible white space."""
    shown = printable("".join(_SHOWN_AS.get(char, char) for char in text))
    return shortened(shown, _PIECE)


def _sample_as_json(sample: Sample) -> Iterator[str]:
    """Yield a sample as a JSON object."""
    row: PrintedSample = {
        "index": sample.index,
        "input_ids": sample.ids.tolist(),
        "mask": plain(sample.mask),
        "labels": plain(sample.labels),
        "begins": sample.begins.nonzero()[0].tolist(),
        "padding": sample.padding,
    }
    if sample.pieces is not None:
        row["pieces"] = sample.pieces
    yield json.dumps(row)


# --raw: the parts of files

_FIELDS = 12
"""Fields of each part without --limit."""

_PARTS = 40  # a directory may have thousands of files
_BYTES = 16
_FEW_BYTES = 8  # on a terminal
_HEX_ROWS = 4
_TOGETHER = 1000  # fields aligned with each other
_AHEAD, _WRONG = 256, 3  # fields read beyond the limit to find wrong ones, and wrong ones shown
_COLUMNS = ("offset", "length", "bytes", "field", "value", "meaning")


def show_raw(path: str, given: dict[str, Any], *, limit: int | None, as_json: bool, quiet: bool) -> None:
    """Print the annotated parts of the files of a dataset. Fields per part: 0 for all, None for the default."""
    from tokfmt.commands.show.parts import sections

    raw = sections(path, format=given["format"], options=list(given["options"]))
    fields = _FIELDS if limit is None else limit or sys.maxsize
    if as_json:
        document("show-raw", raw.printed(fields, _BYTES))
        return
    if not quiet:
        for text in raw.notes:
            note(text)
    terminal = _terminal()
    for number, section in enumerate(raw.sections[:_PARTS]):
        shown = min(fields, section.count)
        if number and not section.count:
            continue
        click.echo(("" if not number else "\n") + _part_title(section, raw))
        for first in range(0, max(shown, 1), _TOGETHER):  # an index may have millions
            (_field_table if terminal else _aligned)(raw, section, section.fields(first, min(first + _TOGETHER, shown)))
        if (more := section.count - shown) > 0:
            _beyond(raw, section, shown, more, terminal)
    if (more := len(raw.sections) - _PARTS) > 0:
        click.echo(f"\n… {more:,} more parts: name one of the files")
    _first_bytes(raw)


def _beyond(raw: Raw, section: Section, first: int, more: int, terminal: bool) -> None:
    """Print the number of fields that are left out, and the first wrong ones of these."""
    wrong = [field for field in section.fields(first, first + _AHEAD) if field.wrong][:_WRONG]
    listed = "; the first wrong ones are" if wrong else ""
    click.echo(click.style(f"  … {more:,} more (--limit N, 0: all){listed}", dim=True))
    if wrong:
        (_field_table if terminal else _aligned)(raw, section, wrong)


def _part_title(section: Section, raw: Raw) -> str:
    where = "" if section.path == raw.path else f"  {printable(section.path)}"
    return click.style(printable(section.title), bold=True) + click.style(where, dim=True)


def _field_cells(raw: Raw, section: Section, field: Field, byte_limit: int) -> list[str]:
    data = raw.bytes_of(section, field, byte_limit)
    shown = data.hex(" ") + (" …" if field.length > len(data) > 0 else "")
    offset = "" if field.offset is None else f"{field.offset:,}"
    if field.path is not None and field.path not in (section.path, raw.path) and field.offset is not None:
        offset = f"{printable(field.path.name)}:{offset}"
    words = (printable(text) for text in (field.name, field.value, field.meaning))
    return [offset, f"{field.length:,}" if field.length else "", shown, *words]


def _aligned(raw: Raw, section: Section, fields: Sequence[Field]) -> None:
    """Print fields as aligned text, with a `!` before each wrong field."""
    rows = [_field_cells(raw, section, field, _BYTES) for field in fields]
    lines = Table(_COLUMNS, rows, words=range(2, len(_COLUMNS))).lines()
    for mark, line in zip([" ", *("!" if field.wrong else " " for field in fields)], lines, strict=True):
        click.echo(f"{mark} {line}".rstrip())


def _field_table(raw: Raw, section: Section, fields: Sequence[Field]) -> None:
    from rich.text import Text

    room = shutil.get_terminal_size().columns
    byte_limit = _BYTES if room >= 160 else _FEW_BYTES if room >= 110 else 4
    rows = [_field_cells(raw, section, field, byte_limit) for field in fields]
    shown = [number for number in range(len(_COLUMNS)) if any(row[number] for row in rows)]
    drawn = []
    for field, row in zip(fields, rows, strict=True):
        styles = ("cyan", "dim", "magenta", "bold", "red" if field.wrong else "", "red" if field.wrong else "dim")
        mark = Text("!" if field.wrong else " ", "bold red")
        drawn.append((mark, *(Text(row[number], styles[number]) for number in shown)))
    numbers = [place for place, number in enumerate(shown, 1) if number < 2]
    table = Table(
        ("", *(_COLUMNS[number] for number in shown)),
        drawn,
        words=[place for place in range(len(shown) + 1) if place not in numbers],
    )
    folds = [place for place, number in enumerate(shown, 1) if number >= 4]
    terminal(width=room).print(table.drawn(folds=folds, padding=(0, 1)))


def _first_bytes(raw: Raw) -> None:
    if not raw.path.is_file():
        return
    click.echo("\n" + click.style("first bytes", bold=True))
    for line in hex_lines(raw.hex_rows(raw.path, 0, _HEX_ROWS)):
        click.echo(line)


def hex_lines(rows: Sequence[HexRow]) -> Iterator[str]:
    """Yield the lines of a hex view: byte offset, bytes, printable characters."""
    for row in rows:
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row.data)
        yield f"  {row.offset:08x}  {row.data[:8].hex(' '):23}  {row.data[8:].hex(' '):23}  {text}".rstrip()
