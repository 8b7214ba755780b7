"""Examine a dataset of columns once: its files, the column to read, and problems, for the reader and for `check`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tokfmt.core.findings import Audit, Finding, Problem
from tokfmt.core.format import Hints
from tokfmt.core.inspection import Inspection, Unreadable
from tokfmt.core.padding import Contradictions, findings_of
from tokfmt.core.reader import Damage
from tokfmt.errors import FormatError, Loss, UnsafeError, UnsupportedError
from tokfmt.files.place import Place
from tokfmt.formats.arrow.container import (
    TEXT,
    Container,
    Group,
    agreed,
    arrow,
    lost_rows,
    open_containers,
    own_blocks,
    plain,
    typed,
)
from tokfmt.formats.arrow.partial import keep_following, keep_readable, readable_files
from tokfmt.formats.arrow.reader import ColumnReader, NotTextError, NullRowError, Rows, TextReader, reading_of
from tokfmt.formats.row_reader import OtherLabels, other_labels

if TYPE_CHECKING:
    from tokfmt.formats.arrow.options import ReadOptions, Variant


def inspect(format_: Variant, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> Inspection:
    """Open the files of one or more datasets as one, and choose the column to read."""
    arrow()  # A missing package is reported before anything that is wrong with the files.
    try:
        return ColumnsInspection(format_, paths, options, hints)
    except FormatError as error:
        return Unreadable(_finding(format_.hundred, error).code, paths[0], error)


class ColumnsInspection(Inspection):
    """The inspection of a dataset of columns.

    Attributes:
        containers: The files, open; with `Hints.allow_partial`, those that can be opened.
        column: The column to read.
    """

    def __init__(self, format_: Variant, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> None:
        """Examine the files; the arguments are those of `inspect`."""
        self.format, self.options, self.hints = format_, options, hints
        each = [format_.find(path, options.split) for path in paths]
        self.first, self.files = each[0], [file for one in each for file in one.files]
        self.damage = list[Damage]()
        if hints.allow_partial:
            self.containers, self.damage = readable_files(format_, self.files)
        else:
            self.containers = open_containers(format_, self.files, tail="tail" in hints.allow_loss)
        self.column = agreed(self.containers, options)
        self.left_out: tuple[str, ...] = ()
        if "loss-mask" in hints.allow_loss:
            read = self.column
            self.column = read.unmasked
            self.left_out = tuple(name for name in read.columns if name not in self.column.columns)
        self.problems = [problem for container in self.containers for problem in container.problems]

    def reader(self) -> ColumnReader | TextReader:
        """Return the reader of IDs or texts; see `Inspection.reader`."""
        column, options, hints = self.column, self.options, self.hints
        damage = (*self.damage, *(self._keep_readable() if hints.allow_partial else ()))
        lost = tuple(self._lost())
        if column.kind == TEXT:
            return TextReader(self.containers, column, hints, self.first, damage, lost)
        return ColumnReader(self.containers, column, options, hints, self.first, damage, lost)

    def _keep_readable(self) -> list[Damage]:
        """Leave out the groups that cannot be decoded, and return what is left out."""
        column, reading = self.column, reading_of(self.containers, self.column, self.options, self.hints.eos_id)
        rows = Rows(self.format.hundred, column, reading, self.hints.allow_loss)
        is_text = column.kind == TEXT
        decode = partial(_decode_text, column.name) if is_text else partial(_decode_rows, rows)
        fixed = arrow().types.is_fixed_size_list(plain(typed(self.containers[0].schema, column.name)))
        asked = self.options.rows
        blocks = asked == "blocks" or own_blocks(self.containers[0]) or (fixed and asked is None)
        damage = keep_following(self.files, self.containers) if blocks else []
        return damage + keep_readable(self.containers, decode, first_only=blocks)

    def _lost(self) -> Iterator[Loss]:
        """Yield what is left out because the user accepted it; `Info.damage` has what is damaged."""
        if not self.hints.allow_partial:
            yield from (loss for container in self.containers for loss in container.lost)
        if self.left_out:
            yield Loss("loss-mask", f"loss masks of its rows ({', '.join(self.left_out)})")
        if "null-rows" in self.hints.allow_loss:
            yield from lost_rows(self.containers, self.column)

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. It decodes the first group of each file; all groups if `how.deep`."""
        return self._texts(how) if self.column.kind == TEXT else self._rows(how)

    def _texts(self, how: Audit) -> Iterator[Finding]:
        """Yield the findings of a column of text: the first block of rows, or all of them if the check is deep."""
        try:
            reader = self.reader()
        except FormatError as error:
            yield _finding(self.format.hundred, error)
            return
        if not isinstance(reader, TextReader):
            return
        for block in reader.blocks(1) if how.deep else reader.blocks(1)[:1]:
            try:
                for _ in reader.texts(block):
                    pass
            except FormatError as error:
                yield _finding(self.format.hundred, error)
            how.advance(block.stop - block.start)

    def _rows(self, how: Audit) -> Iterator[Finding]:
        """Yield the findings of the decoded rows of IDs."""
        column, hundred = self.column, self.format.hundred
        reading = reading_of(self.containers, column, self.options, self.hints.eos_id)._replace(
            samples=False, compares=True
        )
        rows = Rows(hundred, column, reading)
        labels = dict[Place, tuple[OtherLabels, Contradictions]]()
        groups = [
            (container, group)
            for container in self.containers
            for group in (container.groups if how.deep else container.groups[:1])
        ]

        for item, looked in zip(groups, how.spread(partial(_looked_at, rows), groups), strict=True):
            seen = (yield from _problems(rows, item)) if looked is None else looked
            how.advance(seen.tokens)
            before = labels.get(item[0].path, (OtherLabels(), Contradictions()))
            labels[item[0].path] = before[0].joined(seen.others), before[1].joined(seen.against)
            if seen.error is not None:
                yield _finding(hundred, seen.error)
        for file, (others, against) in labels.items():
            if others.unlike:
                yield _of_labels(hundred, file, others, deep=how.deep)
            yield from findings_of(f"TF{hundred + 9}", file, against, whole=how.deep)

    def close(self) -> None:
        for container in self.containers:
            container.file.close()


class _Seen(NamedTuple):
    """What was seen of a group so far."""

    tokens: int = 0  # the number of IDs, with those that `attention_mask` excludes
    # others, against: the labels and masks of its rows
    others: OtherLabels = OtherLabels()
    against: Contradictions = Contradictions()
    error: FormatError | None = None  # Why the group cannot be decoded to its end


def _looked_at(rows: Rows, item: tuple[Container, Group]) -> _Seen | None:
    """Decode a group up to the first problem of a row; None if there is one."""
    seen, found = _Seen(), list[Problem]()
    for step in _steps(rows, item, found):
        if found:
            return None
        seen = step
    return seen


def _problems(rows: Rows, item: tuple[Container, Group]) -> Generator[Finding, None, _Seen]:
    """Decode a group again, some rows at a time, as each of them may have problems, and yield these."""
    seen, found = _Seen(), list[Problem]()
    for step in _steps(rows, item, found):
        yield from (problem.finding() for problem in found)
        found.clear()
        seen = step
    return seen


def _steps(rows: Rows, item: tuple[Container, Group], found: list[Problem]) -> Iterator[_Seen]:
    """Decode a group, some rows at a time, and compare the number of its IDs with what the file states."""
    (container, group), seen, has_problems = item, _Seen(), False
    try:
        for decoded in rows.decode(container, group, found.append):
            has_problems = has_problems or bool(found)
            tokens = seen.tokens + len(decoded.tokens) + decoded.facts.left_out
            seen = _Seen(tokens, seen.others.joined(other_labels(decoded)), seen.against.joined(decoded.against))
            yield seen
        stated = container.facts(group, rows.column.name).values
    except FormatError as error:
        yield seen._replace(error=error)
        return
    if stated is not None and not has_problems and seen.tokens != stated:
        what = f"IDs of {container.unit} {group.number:,}"
        yield seen._replace(error=FormatError(container.path, what, expected=stated, found=seen.tokens))


def _decode_rows(rows: Rows, container: Container, group: Group) -> None:
    for _ in rows.decode(container, group):
        pass


def _decode_text(name: str, container: Container, group: Group) -> None:
    for _ in container.batches(group, (name,)):
        pass


def _finding(hundred: int, error: FormatError) -> Finding:
    """Return the finding of an error; the class of the error chooses its code."""
    kinds = ((UnsupportedError, 2), (NullRowError, 3), (NotTextError, 6), (UnsafeError, 7), (FormatError, 1))
    number = next(number for kind, number in kinds if isinstance(error, kind))
    return Finding.of(f"TF{hundred + number}", error)


def _of_labels(hundred: int, path: Place, others: OtherLabels, *, deep: bool) -> Finding:
    """Return the finding of labels that are other IDs than their tokens."""
    of = f"of {others.rows:,} rows" if deep else f"of the first {others.rows:,} rows"
    what = "the next tokens" if others.shifted == others.unlike else "other IDs than their tokens"
    message = f"labels of {others.unlike:,} {of} are {what} (first: row {others.first:,})"
    remedy = "Write labels that are the tokens or -100: models of Hugging Face move labels by one themselves"
    return Finding(f"TF{hundred + 8}", "error", str(path), message, remedy)
