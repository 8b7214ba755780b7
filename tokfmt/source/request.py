"""Describe the sources of a command: paths and patterns, format, options, split, selection and permitted losses.

`source.discover` finds the datasets that a request names, and `source.open` opens them.
"""

from __future__ import annotations

import glob
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tokfmt import registry
from tokfmt.base.options import choices, fit, given_options, nearest, parse_count, parse_options
from tokfmt.core.format import Format, Hints
from tokfmt.core.inspection import Inspection
from tokfmt.core.losses import LOSSES
from tokfmt.errors import FormatError, OptionError
from tokfmt.files.file import MANIFEST, File, matching, natural_key
from tokfmt.files.listing import Listing
from tokfmt.files.place import LocalPlace, Place, PlaceLike, place_of
from tokfmt.source.content import Manifest
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.run.progress import Progress
    from tokfmt.text.tokenizer import TokenizerHandle

EosChoice = int | Literal["none"] | None
Options = Iterable[str] | Mapping[str, object]
"""Options as a user gives them: `key=value` words, or a mapping. `base.options.given_options` makes them mappings."""

STREAM = "-"
"""Standard input as a source, standard output as a destination."""


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """The sources of a command, as the user gives them."""

    paths: tuple[PlaceLike, ...]  # files and directories, in order
    format: str | None = None  # None to detect the format of each path
    eos: EosChoice = None  # ID of the separator, "none", or None to infer it
    options: Mapping[str, object] = field(default_factory=dict)  # of the format, by name
    text_field: str | None = None  # dotted path of the text in JSON records
    split: str | None = None  # for formats that store several
    allow_loss: frozenset[str] = frozenset()
    recursive: bool = False  # a directory also names the datasets in the directories below it
    ignore_manifest: bool = False  # continue without a manifest that contradicts its dataset, instead of an error
    # read the sequences of a damaged source that are certain to be complete; see `source.partial`
    allow_partial: bool = False
    # ID of the lead, which is no content at the beginning of sequences; "none"; or None for what the manifest states
    bos: EosChoice = None
    # Look at the end of every sequence that an index bounds. By default, all are presumed to end with the separator
    # if all that are looked at do, and reading one that does not raises UnendedError.
    every_end: bool = False
    view: str | None = None  # the option `view` of formats that have it, if no other is among the options

    def __post_init__(self) -> None:
        if "split" in self.options:  # The option of a format, and --split, mean the same.
            others = {name: value for name, value in self.options.items() if name != "split"}
            object.__setattr__(self, "split", self.split or str(self.options["split"]))
            object.__setattr__(self, "options", others)
        for name, value in (("eos", self.eos), ("bos", self.bos)):
            if value is not None:
                fitted = fit(name, value, EosChoice, {"minimum": 0, "maximum": sys.maxsize})
                object.__setattr__(self, name, fitted)  # an int, also if it was a number of numpy

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
        bos: EosChoice = None,
    ) -> SourceRequest:
        """Return the request for arguments as users give them: one path or several, options as a mapping or `key=value`
        words, and one name of --allow-loss or several.
        """
        return SourceRequest(
            several(paths),
            format,
            eos,
            given_options(options),
            text_field,
            split,
            check_losses(allow_loss),
            recursive,
            ignore_manifest,
            allow_partial,
            bos,
        )

    def accepting(self, losses: frozenset[str]) -> SourceRequest:
        """Return the request that accepts further losses; `core.losses.READS` has those of each command."""
        return replace(self, allow_loss=self.allow_loss | losses)

    def of_split(self, split: str) -> SourceRequest:
        """Return the request for one split of the same sources."""
        return replace(self, split=split)


class Reading(NamedTuple):
    """What a command reads of the datasets that it opens, and with what."""

    # gives the separator, and is compared with the one that made the token IDs
    tokenizer: TokenizerHandle | None = None
    jobs: int | None = None  # threads that scan streams
    progress: Progress | None = None  # of that scan
    collect_invalid: bool = False  # leave out and count invalid records instead of raising; see `Hints`
    # that the command reads, from the first; a stream is not scanned beyond them; None: all
    max_sequences: int | None = None
    few_sequences: bool = False  # command reads few sequences; see `Hints`
    # the files that were looked at to detect the format stay open for checksums; see `SourceFiles`
    keeps_files: bool = False
    # the reader has the axis as it is stored, with the separators; no count is compared with a manifest
    as_stored: bool = False
    # the separator of datasets that are read together with this one; see `separator.separator_beside`
    beside: int | None = None
    # Read the ends of sequences to infer a separator; with `SourceRequest.allow_partial`, read the whole dataset to
    # find damage. False reads only what opening takes.
    reads_ends: bool = True


CONTENTS = Reading()
"""All sequences without separators, as most commands read them."""


def is_pipe(path: PlaceLike) -> bool:
    """Return True if a path is standard input or a FIFO, which can be read only once."""
    place = place_of(path)
    with suppress(OSError):
        return place == LocalPlace(STREAM) or place.is_fifo()
    return False


def several(paths: object) -> tuple[PlaceLike, ...]:
    """Return one path or several as a tuple."""
    if isinstance(paths, (str, os.PathLike, Place)):
        return (paths,)
    checked = list[PlaceLike]()
    for path in paths if isinstance(paths, Iterable) else (None,):
        if not isinstance(path, (str, os.PathLike, Place)):
            wrong = type(path if isinstance(paths, (list, tuple)) else paths).__name__
            raise TypeError(f"a path or a list of paths is needed, not {wrong} (a Dataset's .save(PATH) writes one)")
        checked.append(path)
    if not checked:
        raise OptionError("no path is given")
    return tuple(checked)


BESIDE = (MANIFEST, ".ledger", ".ledger.json")
"""Suffixes of manifests and ledgers, which are beside datasets but are not datasets."""


def expanded(paths: Iterable[PlaceLike], listing: Listing | None = None) -> tuple[Place, ...]:
    """Return the places of paths, and of what patterns (`'part-*.jsonl'`) match, in natural order."""
    places = list[Place]()
    for path in paths:
        if not isinstance(path, Place) and not os.fspath(path):
            raise OptionError("a path is empty. Check that the variable is set; the current directory is .")
        place = place_of(path)
        if listing is not None and (place.listing is None or not place.listing.depth):
            place = place.asking(listing)
        names = str(place) if place.is_local else "/".join(place.parts[1:])
        if not glob.has_magic(names) or place.is_there():
            places.append(place)
            continue
        matches = _matches(place)
        if not matches:
            raise FormatError(path, "no file matches this pattern")
        places += matches
    stems = {place: place.name.rpartition(".")[0] for place in places if not place.name.endswith(_INDEX)}
    datasets = {*places, *(place.with_name(name) for place, name in stems.items() if name)}
    return tuple(place for place in places if not _is_beside(place, datasets))


_INDEX = ".idx"


def _is_beside(place: Place, datasets: Set[Place]) -> bool:
    """Return whether a file is the manifest or the index of a dataset that is named as well."""
    suffix = next((suffix for suffix in (*BESIDE, _INDEX) if place.name.endswith(suffix)), None)
    return suffix is not None and place.with_name(place.name.removesuffix(suffix)) in datasets


def _matches(pattern: Place) -> list[Place]:
    """Return the places that match a pattern in natural order, without what is beside datasets.

    A pattern of one file of each pair (`'*.bin'`, `'*.idx'`), or of their prefixes, also has the files of pairs whose
    other file is missing, so that opening them is an error.
    """
    places = {place for place in _matching(pattern) if not place.name.endswith(BESIDE)}
    suffixes = registry.suffixes_of_pairs()
    if (pattern.suffix in suffixes) == bool(places):  # A pattern of prefixes matches no file.
        prefix = pattern.with_suffix("") if pattern.suffix in suffixes else pattern
        names = (prefix.with_name(prefix.name + suffix) for suffix in suffixes - {pattern.suffix})
        files = {file for name in names for file in _matching(name)}
        numbers = Counter(file.with_suffix("") for file in places | files)
        places |= {file for file in files if numbers[file.with_suffix("")] > 1 or registry.is_of_pair(file)}
    return sorted(places, key=lambda place: natural_key(str(place)))


def _matching(pattern: Place) -> Iterable[Place]:
    if pattern.is_local:
        return (LocalPlace(path).asking(pattern.listing) for path in glob.glob(pattern.text, recursive=True))
    return _objects(pattern.parents[-1], pattern.parts[1:])


def _objects(directory: Place, names: Sequence[str]) -> Iterator[Place]:
    """Yield the addresses below an address that match names, some of them patterns. `**` matches any number of
    names.
    """
    if not names:
        yield directory
        return
    name, *rest = names
    if name == "**":
        yield from _objects(directory, rest or ["*"])
        for below in matching(directory, "[!.]*"):
            if below.is_dir():
                yield from _objects(below, names)
    elif glob.has_magic(name):
        for below in matching(directory, name):
            if name.startswith(".") or not below.name.startswith("."):
                yield from _objects(below, rest)
    elif (directory / name).exists():
        yield from _objects(directory / name, rest)


def option_names(kind: type) -> set[str]:
    """Return the names of the fields of an options dataclass."""
    return {field.name for field in fields(kind)}


def words_of(options: Mapping[str, object]) -> list[str]:
    """Return options as `key=value` words, for messages and manifests."""
    return [f"{name}={value}" for name, value in options.items()]


def given_to(format_: Format, request: SourceRequest) -> dict[str, object]:
    """Return the read options that the user gave, with --text-field, --split and the view if the format has these."""
    also = {"text_field": request.text_field, "split": request.split, "view": request.view}
    names = option_names(format_.read_options)
    return {**request.options, **{name: value for name, value in also.items() if value is not None and name in names}}


def read_options(format_: Format, request: SourceRequest) -> Any:
    """Return the read options of a format with the values that the user gave."""
    return parse_options(format_.read_options, given_to(format_, request), format_.name)


def viewed(request: SourceRequest, format_: Format, view: str) -> SourceRequest:
    """Return the request with the option `view`, if the format has that view and the user gave none."""
    if "view" in request.options or view not in choices(format_.read_options, "view"):
        return request
    return replace(request, view=view)


Selection = str | int | slice | range | Iterable[int] | None
"""Sequence numbers: `A:B` as in a Python slice, one number, several, or a slice or a range without a step."""


def selection_words(selection: Selection) -> str | None:
    """Return a selection as `A:B` or as a query, or None for all sequences."""
    if selection is None or isinstance(selection, str):
        return selection
    if isinstance(selection, (slice, range)):
        if selection.step not in (None, 1):
            raise OptionError(f"{selection}: a selection has no step")
        first, last = ("" if end is None else str(int(end)) for end in (selection.start, selection.stop))
        return f"{first}:{last}"
    if isinstance(selection, Iterable):
        return f"seq:{','.join(map(str, selection))}"
    if isinstance(selection, bool) or not hasattr(selection, "__index__"):
        raise OptionError(f"{selection!r} selects no sequences: expected A:B, a number, a slice or a range")
    return str(int(selection))


def parse_selection(text: str, count: int, paths: Sequence[PlaceLike] = ()) -> tuple[int, int]:
    """Return the first and last + 1 of the sequences that `A:B` selects of `count`, as a Python slice does.

    Examples are `5`, `0:10`, `-3:` and `:1e6`. A range is cut at the end of the dataset.
    """
    text = text.strip()
    if not text:
        raise OptionError("a selection is empty. Check that the variable is set; all sequences are :")
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
    """Return one end of a selection as a number."""
    try:
        return parse_count(word) if word.strip() else default
    except OptionError as error:
        bounds = "sequences A to B - 1, as 0:10, A: or :B, or one number"
        raise OptionError(f"selection {selection!r}: expected A:B ({bounds}), found {word.strip()!r}") from error


def needed(selection: str | None, default: int) -> int | None:
    """Return how many sequences have to be counted to resolve a selection, or `default`; None for all."""
    if selection is None:
        return default
    first, colon, last = selection.strip().partition(":")
    bounds = [_bound(word, selection, 0) for word in (first, last) if word.strip()]
    if min(bounds, default=-1) < 0 or (colon and not last.strip()):
        return None
    return max(bounds) + (not colon)


def loss_words() -> tuple[str, ...]:
    """Return all names of --allow-loss, including those of plug-ins."""
    theirs = [word for format_ in registry.list_formats() for word in format_.losses]
    return tuple(dict.fromkeys((*LOSSES, *theirs)))


def check_losses(names: Iterable[str]) -> frozenset[str]:
    """Return names of --allow-loss as a set, after a check that tokfmt or an installed format has each."""
    words = frozenset([names] if isinstance(names, str) else names)
    if not words <= set(LOSSES):  # otherwise no format has to be imported
        acceptable = loss_words()
        for name in sorted(words - set(acceptable)):
            raise OptionError(
                f"--allow-loss {name}: is not one of {', '.join(acceptable)}",
                name=name,
                nearest=nearest(name, acceptable),
            )
    return words


class Inspections:
    """The inspections of a dataset that several parts of a command read. What was examined is not examined again."""

    def __init__(self) -> None:
        """Begin without any."""
        self._made: dict[object, Inspection] = {}

    def of(self, format_: Format, places: Sequence[Place], options: Any, hints: Hints) -> Inspection:
        """Return the inspection for these arguments of `Format.inspect`, from an earlier call with the same."""
        every_end = hints.every_end and format_.is_computed  # Only a recipe looks at ends when it is inspected.
        asked = hints._replace(jobs=None, files=None, source_files=None, every_end=every_end)
        key = tuple(places), options, asked
        if key not in self._made:
            self._made[key] = format_.inspect(places, options, hints)
        return self._made[key]

    def close(self) -> None:
        """Close all."""
        for inspection in self._made.values():
            inspection.close()


class SourceFiles(NamedTuple):
    """The files of one dataset that a request names, before it is opened."""

    path: Place  # file or directory of the dataset, which may be an address
    format: Format
    files: tuple[Place, ...]  # see `Format.files`; empty if they were not listed, and are not compared with a manifest
    left_out: str = ""  # the other files in the directory, which are not read, in words
    below: bool = False  # some of the other files are in directories below
    named: Found | None = None  # the datasets that a recipe names, if they were found already; see `find_sources`
    within: Any = None  # the recipes that name this recipe; see `mix.open.Nesting`
    # files that were looked at to detect the format, by path; see `hand_out`
    opened: dict[Place, File] = {}  # noqa: RUF012 - never changed: files are taken from those that are given
    manifest: Manifest | None = None  # the one beside it, if it was read already
    inspections: Inspections | None = None  # if the caller has more use for them
    split: str = ""  # the split that `path` is limited to, if the names of files state several
    other_splits: tuple[str, ...] = ()  # that it hides

    @property
    def visible(self) -> list[Place]:
        """The files but for those of other splits."""
        return [file for file in self.files if str(file) not in self.path.hidden]

    @property
    def is_numbered(self) -> bool:
        """True for a directory whose files are counted by the numbers in their names."""
        return self.format.numbers_files and self.path.is_dir()

    def asking(self, listing: Listing) -> SourceFiles:
        """Return the same with places that ask a listing."""
        files = tuple(file.asking(listing) for file in self.files)
        return self._replace(path=self.path.asking(listing), files=files)

    def hand_out(self, *, keep: bool) -> dict[Place, File]:
        """Return the open files for a reader to take. If they are kept, it gets duplicates."""
        if keep:
            return {place: file.duplicate() for place, file in self.opened.items()}
        files = dict(self.opened)
        self.opened.clear()
        return files

    def close(self) -> None:
        """Close the files that no reader took. They are opened again if they are needed."""
        for file in self.opened.values():
            file.close()

    def all(self) -> Iterator[SourceFiles]:
        """Yield this dataset, and those that a recipe names, at every level."""
        yield self
        for one in (self.named or {}).values():
            yield from one.all()


Found = Mapping[tuple[Place, str | None, str | None], SourceFiles]
"""Datasets that were found already, by path, and the given names of the format and of the split."""
