"""Describe the sources of a command: paths and patterns, format, options, split, selection and permitted losses.

`ops.source.discover` finds the datasets that a request names, and `ops.source.open` opens them.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tokfmt import registry
from tokfmt.core import listing
from tokfmt.core.errors import FormatError, OptionError
from tokfmt.core.files import natural_key
from tokfmt.core.format import Format
from tokfmt.core.messages import allowing
from tokfmt.core.options import choices, given_options, nearest, parse_count, parse_options
from tokfmt.core.place import Kind, path_of
from tokfmt.core.text_format import printable

EosChoice = int | Literal["none"] | None
Options = Iterable[str] | Mapping[str, object]
"""As a user gives them: `key=value` words, or a mapping. Requests hold mappings, see `core.options.given_options`."""

Path_ = str | os.PathLike[str]

STREAM = "-"
"""Standard input as a source, standard output as a destination."""

_DROPS = (
    "embedded-separators", "empty-sequences", "loss-mask", "masked-separators", "last-labels", "inner-boundaries",
    "invalid-lines", "invalid-utf8", "fields", "splits", "order", "tail", "other-files", "tokenizers",
)  # fmt: skip
WRITTEN = frozenset({
    "embedded-separators", "empty-sequences", "masked-separators", "last-labels", "inner-boundaries", "invalid-utf8",
})  # fmt: skip
"""Words of --allow-loss that mean something to who writes, and nothing to who only reads."""


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """What a user says of the sources.

    Attributes:
        paths: Files and directories, in order.
        format: A format's name, or None to detect each.
        eos: The separator's id, "none", or None to find out.
        options: The formats' own read options, by name.
        text_field: Dotted path of the text in JSON records.
        split: Which split to read, for formats that have them.
        allow_loss: What may be given up.
        recursive: Directories mean the datasets in the directories below them as well.
        ignore_manifest: A manifest that contradicts its dataset is left unread, not an error.
        allow_partial: Of a damaged source read the sequences that are certain to be whole; see `ops.source.partial`.
    """

    paths: tuple[Path_, ...]
    format: str | None = None
    eos: EosChoice = None
    options: Mapping[str, object] = field(default_factory=dict)
    text_field: str | None = None
    split: str | None = None
    allow_loss: frozenset[str] = frozenset()
    recursive: bool = False
    ignore_manifest: bool = False
    allow_partial: bool = False

    def __post_init__(self) -> None:
        eos: object = self.eos  # in Python anybody may say anything
        number = isinstance(eos, int) and not isinstance(eos, bool) and 0 <= eos <= sys.maxsize
        known = eos is None or eos == "none" or number
        if not known:
            raise OptionError(f"eos: expected a token id, none, or nothing at all; found {eos!r}", name="eos")

    @staticmethod
    def of(
        paths: object,
        format: str | None = None,  # noqa: A002 - the word users know
        eos: EosChoice = None,
        options: Options = (),
        text_field: str | None = None,
        split: str | None = None,
        allow_loss: str | Iterable[str] = (),
        recursive: bool = False,
        ignore_manifest: bool = False,
        allow_partial: bool = False,
    ) -> SourceRequest:
        """As users say it: a path by itself or several, options as words or a mapping, words of --allow-loss.

        Raises:
            OptionError: A word means nothing.
            TypeError: Something is no path.
        """
        return SourceRequest(
            several(paths), format, eos, given_options(options), text_field, split, check_losses(allow_loss), recursive,
            ignore_manifest, allow_partial,
        )  # fmt: skip

    @property
    def one_split(self) -> bool:
        """The user said which split of the sources is meant."""
        return self.split is not None or "split" in self.options

    def of_split(self, split: str) -> SourceRequest:
        """The same sources, but this split of them."""
        others = {name: value for name, value in self.options.items() if name != "split"}
        return replace(self, options=others, split=split)


def is_pipe(path: Path_) -> bool:
    """Standard input, or a FIFO: what can be read once only."""
    if os.fspath(path) == STREAM:
        return True
    try:
        return listing.status_now(path).kind is Kind.FIFO
    except OSError:
        return False


def several(paths: object) -> tuple[Path_, ...]:
    """Paths, of which one may be given by itself.

    Raises:
        OptionError: There is none.
        TypeError: Something is no path, as a Dataset.
    """
    if isinstance(paths, (str, os.PathLike)):
        return (paths,)
    found = list[Path_]()
    for path in paths if isinstance(paths, Iterable) else (None,):
        if not isinstance(path, (str, os.PathLike)):
            wrong = type(path if isinstance(paths, (list, tuple)) else paths).__name__
            raise TypeError(f"a path or a list of paths is needed, not {wrong} (a Dataset's .save(PATH) writes one)")
        found.append(path)
    if not found:
        raise OptionError("no path is given")
    return tuple(found)


_BESIDE = (".tokfmt.json", ".ledger", ".ledger.json")
"""What stands beside datasets, and is none: manifests and ledgers."""


def expanded(paths: Iterable[Path_]) -> tuple[Path_, ...]:
    """Paths, with patterns that the shell left alone (`'part-*.jsonl'`) replaced by what they match, in natural order.

    Raises:
        FormatError: A pattern matches nothing.
        OptionError: A path is empty, or no path at all but an address.
    """
    found: list[Path_] = []
    for path in paths:
        if not os.fspath(path):
            raise OptionError("a path is empty: is a variable not set? The current directory is .")
        path_of(path)
        if not glob.has_magic(os.fspath(path)) or listing.is_there(path):
            found.append(path)
            continue
        named = glob.glob(os.fspath(path), recursive=True)
        matches = sorted((name for name in named if not name.endswith(_BESIDE)), key=natural_key)
        if not matches:
            raise FormatError(path, "no file matches this pattern")
        found += matches
    return tuple(found)


def option_names(kind: type) -> set[str]:
    """Names of the fields of an options dataclass."""
    return {field.name for field in fields(kind)}


def words_of(options: Mapping[str, object]) -> list[str]:
    """Options as `key=value` words, for people and for files."""
    return [f"{name}={value}" for name, value in options.items()]


def given_to(format_: Format, request: SourceRequest) -> dict[str, object]:
    """What the user said of the sources, as far as it is options of this format."""
    also = {"text_field": request.text_field, "split": request.split}
    known = option_names(format_.read_options)
    return {**request.options, **{name: value for name, value in also.items() if value is not None and name in known}}


def read_options(format_: Format, request: SourceRequest) -> Any:
    """The read options of a format, as the user has set them.

    Raises:
        OptionError: It has no such option, or not of that value.
    """
    return parse_options(format_.read_options, given_to(format_, request), format_.name)


def viewed(request: SourceRequest, format_: Format, view: str) -> SourceRequest:
    """The same sources seen in a certain way, where the format has that view and the user has chosen none."""
    if "view" in request.options or view not in choices(format_.read_options, "view"):
        return request
    return replace(request, options={**request.options, "view": view})


Selection = str | int | slice | range | None
"""Sequence numbers: `A:B` as in a Python slice, one number, or a slice or a range without a step."""


def selection_words(selection: Selection) -> str | None:
    """A selection as `A:B`.

    Raises:
        OptionError: It has a step, or is none.
    """
    if selection is None or isinstance(selection, str):
        return selection
    if isinstance(selection, (slice, range)):
        if selection.step not in (None, 1):
            raise OptionError(f"{selection}: a selection has no step")
        first, last = ("" if end is None else str(int(end)) for end in (selection.start, selection.stop))
        return f"{first}:{last}"
    if isinstance(selection, bool) or not hasattr(selection, "__index__"):
        raise OptionError(f"{selection!r} selects no sequences: expected A:B, a number, a slice or a range")
    return str(int(selection))


def parse_selection(text: str, count: int, paths: Sequence[Path_] = ()) -> tuple[int, int]:
    """`A:B` as sequence numbers, like a Python slice: `5`, `0:10`, `-3:`, `:1e6`. What lies beyond the end is cut off.

    Raises:
        OptionError: It is no selection, names one sequence that is not there, or ends before it begins.
    """
    text = text.strip()
    if not text:
        raise OptionError("a selection is empty: is a variable not set? All sequences are :")
    first, colon, last = text.partition(":")
    a, b = _bound(first, text, 0), _bound(last, text, count)
    if not colon:
        if not -count <= a < count:
            there = f"the {count:,} sequences there are: 0 to {count - 1:,}" if count else "the dataset: it has none"
            more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
            of = f"{printable(paths[0])}{more}: " if paths else ""
            raise OptionError(f"{of}sequence {text} is not one of {there}")
        return a % count, a % count + 1
    a, b = (min(max(n + count if n < 0 else n, 0), count) for n in (a, b))
    if a > b:
        raise OptionError(f"selection {text!r} ends before it begins: A:B are sequences A to B - 1")
    return a, b


def _bound(word: str, selection: str, default: int) -> int:
    """One end of a selection.

    Raises:
        OptionError: It is not a whole number.
    """
    try:
        return parse_count(word) if word.strip() else default
    except OptionError as error:
        what = "sequences A to B - 1, as 0:10, A: or :B, or one number"
        raise OptionError(f"selection {selection!r}: expected A:B ({what}), found {word.strip()!r}") from error


def needed(selection: str | None, default: int) -> int | None:
    """How many sequences of a dataset a selection has to know of; None: all, for it counts from the end.

    Args:
        selection: As in `parse_selection`, or None for the first `default`.
        default: How many then.
    """
    if selection is None:
        return default
    first, colon, last = selection.strip().partition(":")
    bounds = [_bound(word, selection, 0) for word in (first, last) if word.strip()]
    if min(bounds, default=-1) < 0 or (colon and not last.strip()):
        return None
    return max(bounds) + (not colon)


def loss_words() -> tuple[str, ...]:
    """All words of --allow-loss, those of formats from elsewhere too."""
    theirs = [word for format_ in registry.formats() for word in format_.drops]
    return tuple(dict.fromkeys((*_DROPS, *theirs)))


def check_losses(names: Iterable[str]) -> frozenset[str]:
    """The words of --allow-loss: tokfmt's own, and those of the formats installed.

    Raises:
        OptionError: A word that means nothing; names the nearest.
    """
    words = frozenset([names] if isinstance(names, str) else names)
    if not words <= set(_DROPS):  # only then are all formats asked, which imports them
        known = loss_words()
        for name in sorted(words - set(known)):
            raise OptionError(
                f"{allowing(name)}: is none of {', '.join(known)}", name=name, nearest=nearest(name, known)
            )
    return words


class SourceFiles(NamedTuple):
    """One dataset that was named, not opened yet.

    Attributes:
        path: A file or a directory.
        format: Its format.
        files: Every file of it; see `Format.files`. None: nobody has listed them, nothing is compared with them.
        left_out: What else lies in the directory and is not read, in words; "" for nothing.
        below: Some of that lies in directories below.
        named: Of a recipe whose sources were looked for already, these; see `find_sources`.
    """

    path: Path
    format: Format
    files: tuple[Path, ...]
    left_out: str = ""
    below: bool = False
    named: Found | None = None

    def all(self) -> Iterator[SourceFiles]:
        """This one, those that it names, and so on."""
        yield self
        for one in (self.named or {}).values():
            yield from one.all()


Found = Mapping[tuple[Path, str | None], SourceFiles]
"""Datasets that were looked for already, by path and the name of the format that was said."""
