"""The errors of tokfmt, as a tree. Each message is a cause, the facts, and a remedy.

    TokfmtError
    ├─ FormatError(path, what, offset, expected, found, remedy)      exit code 3
    │    ├─ TruncatedError      the file ends before it should
    │    ├─ CorruptError        its parts contradict each other
    │    │    ├─ UnendedError  a sequence lacks the separator that all that were looked at have
    │    │    └─ ContradictionError  its tokens contradict what it states about them
    │    ├─ UnsupportedError    a known layout that cannot be read as requested
    │    ├─ UnsafeError         reading could run code, leave the dataset or exhaust memory
    │    ├─ StandInError        a placeholder or an error page is in the place of the data
    │    ├─ UnreachableError    a server does not answer: run again
    │    └─ SourceChangedError  the file changed while it was being read
    ├─ DetectionError                                                exit code 3
    │    ├─ UnknownFormatError(path)
    │    └─ AmbiguousFormatError(path, candidates)
    ├─ ConversionError                                               exit code 4
    │    ├─ LossyConversionError(losses)
    │    ├─ TokenRangeError(token, limit, position)
    │    ├─ SeparatorUnknownError
    │    ├─ TokenizerMismatchError
    │    ├─ DestinationExistsError(path)
    │    ├─ IncompleteWriteError
    │    ├─ EngineDifferenceError(text, position)
    │    ├─ ShortfallError      a source has fewer tokens than a recipe asks for
    │    ├─ OutageError         the disk or a worker failed: run again
    │    └─ VerificationError
    ├─ OptionError(name, nearest)                                    exit code 2
    └─ MissingDependencyError(package)                               exit code 2

Every fact of a message is also an attribute (`facts()` for `--json`). Errors are picklable, because worker processes
raise them. `add_note` adds context; errors are never wrapped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, Protocol

from tokfmt.wording import grouped, printable


class Address(Protocol):
    """A place, which has an address instead of a path if it is in a store; see `files.place.Place`."""

    @property
    def text(self) -> str: ...


Path = str | PathLike[str] | Address


class PluginWarning(UserWarning):
    """A format of another package is skipped, because it cannot be imported or it failed."""


class StoreWarning(UserWarning):
    """A store answers slowly."""


class LoaderWarning(UserWarning):
    """A Loader waits long for a read, does not compare its ranks, or has no batch left; or tokens are copied first."""


class TokfmtError(Exception):
    """The base class of all errors that tokfmt raises itself. `exit_code` is the exit code of the command line.

    Attributes:
        accepted_by: The word of `--allow-loss` that accepts the problem; "" without one.
    """

    exit_code = 3
    accepted_by = ""

    def facts(self) -> Mapping[str, object]:
        """Return the attributes, as JSON values."""
        plain = (str, int, float, bool, type(None), list, tuple)
        return {
            key: value if isinstance(value, plain) else str(value)
            for key, value in vars(self).items()
            if not key.startswith("_")
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(vars(self)))


def _rebuild(kind: type[TokfmtError], args: tuple[object, ...], state: dict[str, object]) -> TokfmtError:
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(state)
    return error


def replace_paths(error: TokfmtError, real: Path, shown: Path) -> None:
    """Replace the path of a hidden file in the message, the notes and the attributes of an error."""
    names = [(str(real), str(shown)), (printable(real), printable(shown))]

    def replaced(text: str) -> str:
        for old, new in names:
            text = text.replace(old, new)
        return text

    reword(error, replaced)


def reword(error: TokfmtError, reworded: Callable[[str], str]) -> None:
    """Change the words of the message, the notes and the attributes of an error."""
    error.args = tuple(reworded(said) if isinstance(said, str) else said for said in error.args)
    for key, value in list(vars(error).items()):
        if isinstance(value, str):
            setattr(error, key, reworded(value))
    notes = getattr(error, "__notes__", [])
    notes[:] = map(reworded, notes)


class FormatError(TokfmtError):
    """A file is not valid in its format.

    Attributes:
        path: The file.
        what: The problem, in words.
        offset: Byte offset of the problem in the file; None if it is not at one place.
        expected: The expected value; None without one.
        found: The value found; None without one.
        remedy: What the user can do; None if there is no remedy.
    """

    def __init__(
        self,
        path: Path,
        what: str,
        *,
        offset: int | None = None,
        expected: object = None,
        found: object = None,
        remedy: str | None = None,
    ) -> None:
        self.path, self.what, self.offset, self._place = str(path), what, offset, path
        self.expected, self.found, self.remedy = expected, found, remedy or None
        super().__init__(self._sentence())

    @property
    def place(self) -> Any:
        """The file, as a place that `files.place.place_of` accepts."""
        return self._place

    @property
    def statement(self) -> str:
        """The problem, its byte offset, and the two values that differ: the message without path and remedy."""
        at = "" if self.offset is None else f" at byte {self.offset:,}"
        return f"{self.what}{at}{_contrast(self.expected, self.found)}"

    @property
    def sentence(self) -> str:
        """The path and the problem: the message without the remedy."""
        return f"{printable(self.path)}: {self.statement}"

    def advise(self, more: str) -> None:
        """Add a remedy."""
        self.remedy = f"{self.remedy}. {more}" if self.remedy else more
        self.args = (self._sentence(), *self.args[1:])

    def _sentence(self) -> str:
        text = self.sentence
        return f"{text}. {self.remedy}" if self.remedy else text


def _contrast(expected: object, found: object) -> str:
    if expected is not None and found is not None:
        return f": expected {_worded(expected)}, found {_worded(found)}"
    if expected is not None:
        return f": expected {_worded(expected)}"
    return f": found {_worded(found)}" if found is not None else ""


def _worded(value: object) -> str:
    return grouped(value) if isinstance(value, int) and not isinstance(value, bool) else printable(value)


ENDS_EARLY = "ends too early"
"""The words of a `TruncatedError` for a file, an index or compressed data that was cut."""


class TruncatedError(FormatError):
    """The file ends before the end that its header or index states."""


class CorruptError(FormatError):
    """Parts of the file contradict each other or the format."""


class UnendedError(CorruptError):
    """A sequence does not end with the separator, although all sequences that were looked at do.

    The data are valid. `SourceRequest.every_end` reads each sequence by its own end.

    Attributes:
        sequence: Its number.
    """

    sequence: int = -1


class UnsupportedError(FormatError):
    """The layout is known, but tokfmt cannot read it as requested."""


class UnsafeError(FormatError):
    """Reading could run code, leave the dataset, or exhaust memory."""


class StandInError(FormatError):
    """A placeholder of Git LFS, or an error page of a server, is in the place of the data."""


class UnreachableError(FormatError):
    """A server does not answer, or its answer is not valid. The data may be intact: run the command again later."""


class SourceChangedError(FormatError):
    """The size, the modification time or the inode of the file changed while it was being read."""

    @classmethod
    def while_read(cls, path: Path) -> SourceChangedError:
        """Return the error of a file that another program changed."""
        remedy = "Try again when no other program changes it"
        return cls(path, "changed while it was being read", remedy=remedy)


class ContradictionError(CorruptError):
    """The tokens of a file contradict what it or its manifest states, so it is unknown which tokens are right."""


NO_DAMAGE = (
    UnendedError,
    UnsupportedError,
    UnsafeError,
    StandInError,
    UnreachableError,
    SourceChangedError,
    ContradictionError,
)
"""Errors after which no part of a dataset is certain, so that `--allow-partial` cannot save any."""


class DetectionError(TokfmtError):
    """No single format claims the path."""


class UnknownFormatError(DetectionError):
    """No format recognizes the content."""

    def __init__(self, path: Path, why: str, remedy: str) -> None:
        self.path, self.why, self.remedy = str(path), why, remedy
        super().__init__(f"{printable(path)}: {why}. {remedy}")


class AmbiguousFormatError(DetectionError):
    """Several formats recognize the content equally well.

    Attributes:
        candidates: The names of the formats.
        remedy: A remedy that is better than the choice of a format; "" for none.
    """

    def __init__(self, path: Path, candidates: Sequence[str], remedy: str = "") -> None:
        self.path, self.candidates, self.remedy = str(path), list(candidates), remedy
        choices = " or ".join(f"--from {name}" for name in candidates)
        choose = f"{remedy}. {choices} reads the files of that format" if remedy else f"Choose one with {choices}"
        super().__init__(f"{printable(path)}: could be {' or '.join(candidates)}. {choose}")


class ConversionError(TokfmtError):
    """The source is valid, but the requested conversion failed."""

    exit_code = 4


class Loss(NamedTuple):
    """Something that a destination cannot store.

    Attributes:
        name: The word that `--allow-loss` accepts, such as `empty-sequences`.
        what: What is lost, with counts and the first position, such as `3 empty sequences (first: sequence 7)`.
    """

    name: str
    what: str

    @property
    def note(self) -> str:
        """The note of a command that reads a dataset without it."""
        return f"left out (--allow-loss {self.name}): {self.what}"


class LossyConversionError(ConversionError):
    """The destination cannot store everything that the source holds, and the user did not accept the loss."""

    def __init__(self, target: str, losses: Sequence[Loss]) -> None:
        self.target, self.losses = target, [loss.name for loss in losses]
        what = "; ".join(loss.what for loss in losses)
        accepting = " ".join(f"--allow-loss {name}" for name in self.losses)
        super().__init__(f"{printable(target)}: cannot store {what}. To accept that, add {accepting}")


class TokenRangeError(ConversionError):
    """A token ID does not fit into the dtype or the vocabulary of its destination.

    Attributes:
        where: The path or the format that limits the ID.
        token: The token ID.
        limit: The largest ID that fits.
        position: The position of the token on the token axis.
        remedy: What the user can do; "" if there is no remedy.
    """

    def __init__(self, where: str, token: int, limit: int, position: int, remedy: str = "") -> None:
        self.where, self.token, self.limit, self.position, self.remedy = where, token, limit, position, remedy
        text = f"{printable(where)}: token ID {token:,} at position {position:,} is outside 0..{limit:,}"
        super().__init__(f"{text}. {remedy}" if remedy else text)


NAME_SEPARATOR = "Give its token ID with --eos ID, or give --tokenizer"
"""The remedy if a separator is needed and unknown."""


class SeparatorUnknownError(ConversionError):
    """A separator is needed, and its token ID is unknown."""

    def __init__(self, path: Path, why: str, remedy: str = NAME_SEPARATOR) -> None:
        self.path, self.why, self.remedy = str(path), why, remedy
        super().__init__(f"{printable(path)}: {why}. {remedy}")


class TokenizerMismatchError(ConversionError):
    """Token IDs of different tokenizers would be treated as those of one tokenizer.

    Attributes:
        path: The source.
        what: The evidence, in words.
        expected: The tokenizer in use.
        found: The tokenizer of the source.
    """

    def __init__(self, path: Path, what: str, expected: str, found: str) -> None:
        self.path, self.what, self.expected, self.found = str(path), what, expected, found
        wrong = f"{printable(path)}: {what}{_contrast(expected, found)}"
        super().__init__(f"{wrong}. To accept that, add --allow-loss tokenizers")


class DestinationExistsError(ConversionError):
    """The destination already exists."""

    def __init__(self, path: Path, why_not: str = "", *, has_overwrite: bool = True) -> None:
        """Build the message. A command without the option `overwrite` has only the reason `why_not`."""
        self.path = str(path)
        if not has_overwrite:
            super().__init__(f"{printable(path)}: already exists: {why_not}. Choose another destination")
            return
        but = f" does not replace it: {why_not}. Choose another destination" if why_not else " replaces it"
        super().__init__(f"{printable(path)}: already exists. --overwrite{but}")


class IncompleteWriteError(ConversionError):
    """Some regions of the plan were not written, so the destination is not published."""


class OutageError(ConversionError):
    """The request is valid, but the system failed: a full disk, a quota, a killed worker. Run again later."""


class VerificationError(ConversionError):
    """The destination, read back, differs from the source. It was removed."""


class EngineDifferenceError(ConversionError):
    """The fast tokenizer engine and the reference return different IDs, or the fast engine fails.

    Attributes:
        text: The first 60 characters of the text.
        position: The first token that differs.
        fast: The token ID or error of the fast engine there.
        reference: The token ID of the reference there.
    """

    def __init__(self, text: str, position: int, fast: object, reference: object) -> None:
        self.text, self.position, self.fast, self.reference = text[:60], position, fast, reference
        wrong = (
            f"fastokens and tokenizers disagree on the text that begins {printable(repr(self.text))}: at token "
            f"{position:,}, {fast} instead of {reference}"
        )
        super().__init__(f"{wrong}. --engine tokenizers uses the reference")


class ShortfallError(ConversionError):
    """A recipe requires more tokens than its sources have in the allowed number of passes."""


class OptionError(TokfmtError):
    """An unknown option, format or value, or a value that is out of range.

    Attributes:
        name: The option.
        nearest: The most similar word that it accepts; None without one.
        expected: The values that it accepts, in words; None if the message states them.
        found: The given value, if `expected` is not None.
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        name: str = "",
        nearest: str | None = None,
        expected: str | None = None,
        found: str | None = None,
    ) -> None:
        self.name, self.nearest, self.expected, self.found = name, nearest, expected, found
        text = f"{message}{_contrast(expected, found)}"
        super().__init__(f"{text}. Did you mean {nearest}?" if nearest else text)


class MissingDependencyError(TokfmtError):
    """A required package is not installed.

    Attributes:
        package: The pip name of the package, or several names separated by spaces.
        purpose: What needs the package.
    """

    exit_code = 2

    def __init__(self, package: str, purpose: str) -> None:
        self.package, self.purpose = package, purpose
        words = package.split()
        named = f"package{'s' if len(words) > 1 else ''} {', '.join(words)}"
        super().__init__(f"{purpose} needs the {named}: {_installs(words)}")


def _installs(packages: Sequence[str]) -> str:
    """Return the command that adds packages to this installation of tokfmt, which may be that of a tool."""
    if os.path.exists(os.path.join(sys.prefix, "uv-receipt.toml")):
        return " -w ".join(["uv tool install tokfmt", *packages])
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return " ".join(["pipx inject tokfmt", *packages])
    return " ".join(["pip install", *packages])


def missing_package(error: ModuleNotFoundError, purpose: str, needs: Sequence[str] = ()) -> MissingDependencyError:
    """Return the error for a failed import: tokfmt was installed with numpy only, or without an extra. `needs` are the
    pip names of all packages; the message lists all that are missing. A missing module of tokfmt itself is a bug, and
    raised as it is.
    """
    from importlib.util import find_spec

    name = (error.name or "").partition(".")[0]
    if name in ("", "tokfmt"):
        raise error
    absent = [package for package in needs if find_spec(package.replace("-", "_")) is None]
    return MissingDependencyError(" ".join(absent) or name.replace("_", "-"), purpose)
