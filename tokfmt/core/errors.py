"""What can go wrong, as a tree; each error words itself as one sentence that a stranger can act on.

    TokfmtError
    ├─ FormatError(path, what, offset, expected, found, remedy)      exit code 3
    │    ├─ TruncatedError      the file ends before it should
    │    ├─ CorruptError        its parts contradict each other
    │    │    └─ ContradictionError  its tokens contradict what it states of them
    │    ├─ UnsupportedError    a known layout that cannot be read as asked
    │    ├─ UnsafeError         reading on could execute, escape, or exhaust something
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
    │    ├─ OutageError         the disk, a worker: run again, it may succeed
    │    └─ VerificationError
    ├─ OptionError(name, nearest)                                    exit code 2
    └─ MissingDependencyError(package, extra)                        exit code 2

Every fact in the message is an attribute as well (`facts()` for `--json`). Errors survive pickling, so that a worker
process may raise them. Context is added with `add_note`, never by wrapping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, Protocol

from tokfmt.core.messages import Message, Option, Words, allowing, marked
from tokfmt.core.text_format import grouped, printable


class Address(Protocol):
    """What an object has instead of a path; see `core.place.Url`."""

    @property
    def address(self) -> str: ...


Path = str | PathLike[str] | Address


class PluginWarning(UserWarning):
    """A format of another package was left out: it cannot be imported, or it failed."""


class LoaderWarning(UserWarning):
    """A Loader waits for a read, or has no batch left."""


class TokfmtError(Exception):
    """Any failure that tokfmt words itself. `exit_code` is what the command line leaves with.

    Attributes:
        accepted_by: The word of `--allow-loss` with which it is none; "" for most.
    """

    exit_code = 3
    accepted_by = ""

    def __init__(self, *args: object) -> None:
        super().__init__(*(Message(value) if isinstance(value, str) else value for value in args))

    def facts(self) -> Mapping[str, object]:
        """The attributes behind the message, ready for JSON."""
        plain = (str, int, float, bool, type(None), list, tuple)
        return {
            key: value if isinstance(value, plain) else str(value)
            for key, value in vars(self).items()
            if not key.startswith("_")
        }

    def add_note(self, note: str) -> None:
        """Add a sentence to the error."""
        super().add_note(Message(note))

    def reword(self, words: Words) -> None:
        """Name options in the words of another interface, in the message, its notes and its attributes."""
        self.change(lambda text: text.reworded(words) if isinstance(text, Message) else text)

    def change(self, change: Callable[[str], str]) -> None:
        """Change each text of the error: its message, its notes and its attributes."""
        self.args = tuple(change(value) if isinstance(value, str) else value for value in self.args)
        for key, value in list(vars(self).items()):
            if isinstance(value, str):
                setattr(self, key, change(value))
        notes = getattr(self, "__notes__", [])
        notes[:] = map(change, notes)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(vars(self)))


def _rebuild(kind: type[TokfmtError], args: tuple[object, ...], state: dict[str, object]) -> TokfmtError:
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(state)
    return error


def replace_paths(error: TokfmtError, real: Path, shown: Path) -> None:
    """Replace the path of a hidden place with the path that the user knows: the destination."""
    names = [(str(real), str(shown)), (printable(real), printable(shown))]

    def replaced(text: str) -> str:
        for old, new in names:
            text = text.replace(old, new)
        return text

    error.change(lambda text: text.with_texts(replaced) if isinstance(text, Message) else replaced(text))


class FormatError(TokfmtError):
    """A file is not what its format says it should be.

    Attributes:
        path: The file.
        what: What is wrong, in words.
        offset: Byte offset in the file, when there is one place to point at.
        expected, found: The two values that disagree.
        remedy: What the reader of the message can do.
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
        self.path, self.what, self.offset = str(path), Message(what), offset
        self.expected, self.found, self.remedy = expected, found, Message(remedy) if remedy else None
        super().__init__(self._sentence())

    @property
    def statement(self) -> Message:
        """What is wrong, where, and the two values that disagree: the sentence without path and remedy."""
        at = "" if self.offset is None else f" at byte {self.offset:,}"
        return Message(f"{self.what.marked}{at}{_contrast(self.expected, self.found)}")

    @property
    def sentence(self) -> Message:
        """The path, and what is wrong with it: the message without the remedy."""
        return Message(f"{printable(self.path)}: {self.statement.marked}")

    def advise(self, more: str) -> None:
        """Name one more remedy."""
        self.remedy = Message(f"{self.remedy.marked}. {marked(more)}" if self.remedy else more)
        self.args = (self._sentence(), *self.args[1:])

    def _sentence(self) -> str:
        text = self.sentence
        return Message(f"{text.marked}. {self.remedy.marked}") if self.remedy else text


def _contrast(expected: object, found: object) -> str:
    if expected is not None and found is not None:
        return f": expected {_worded(expected)}, found {_worded(found)}"
    if expected is not None:
        return f": expected {_worded(expected)}"
    return f": found {_worded(found)}" if found is not None else ""


def _worded(value: object) -> str:
    return grouped(value) if isinstance(value, int) and not isinstance(value, bool) else printable(value)


class TruncatedError(FormatError):
    """The file ends before its own header or index says it should."""


class CorruptError(FormatError):
    """Parts of the file contradict each other or its format."""


class UnsupportedError(FormatError):
    """A layout that is recognised but cannot be read as asked."""


class UnsafeError(FormatError):
    """Reading on could execute code, leave the dataset, or exhaust memory."""


class SourceChangedError(FormatError):
    """The file's size, modification time or inode changed while it was being read."""


class ContradictionError(CorruptError):
    """What a file holds contradicts what it states of it, so that nothing tells which of its tokens are right."""


NO_DAMAGE = (UnsupportedError, UnsafeError, SourceChangedError, ContradictionError)
"""Errors that leave nothing certain of a dataset: no part of it can be saved."""


class DetectionError(TokfmtError):
    """No single format claims the path."""


class UnknownFormatError(DetectionError):
    """No format recognises the content."""

    def __init__(self, path: Path, why: str, remedy: str) -> None:
        self.path, self.why, self.remedy = str(path), Message(why), Message(remedy)
        super().__init__(f"{printable(path)}: {marked(why)}. {marked(remedy)}")


class AmbiguousFormatError(DetectionError):
    """Several formats recognise the content equally well."""

    def __init__(self, path: Path, candidates: Sequence[str]) -> None:
        self.path, self.candidates = str(path), list(candidates)
        choices = " or ".join(f"{Option('from', name)}" for name in candidates)
        super().__init__(f"{printable(path)}: could be {' or '.join(candidates)}. Say which with {choices}")


class ConversionError(TokfmtError):
    """The source is fine, but the conversion asked for could not be done."""

    exit_code = 4


class Loss(NamedTuple):
    """Something a target cannot carry.

    Attributes:
        name: The word that `--allow-loss` accepts, e.g. `empty-sequences`.
        what: What would be lost, with counts and first position, e.g. `3 empty sequences (first: sequence 7)`.
    """

    name: str
    what: str


class LossyConversionError(ConversionError):
    """The target cannot carry everything the source holds, and nobody accepted the loss."""

    def __init__(self, target: str, losses: Sequence[Loss]) -> None:
        self.target, self.losses = target, [loss.name for loss in losses]
        what = "; ".join(marked(loss.what) for loss in losses)
        super().__init__(f"{printable(target)}: cannot carry {what}. To accept that, add {allowing(*self.losses)}")


class TokenRangeError(ConversionError):
    """A token id does not fit where it has to go.

    Attributes:
        token: The id. limit: The largest id that fits. position: Its position on the token axis.
        remedy: What to do about it; "" for nothing.
    """

    def __init__(self, where: str, token: int, limit: int, position: int, remedy: str = "") -> None:
        self.where, self.token, self.limit, self.position, self.remedy = where, token, limit, position, Message(remedy)
        text = f"{printable(where)}: token id {token:,} at position {position:,} is outside 0..{limit:,}"
        super().__init__(f"{text}. {marked(remedy)}" if remedy else text)


NAME_SEPARATOR = f"Name its id with {Option('eos', 'ID')}, or give {Option('tokenizer')}"
"""The remedy where a separator is needed."""


class SeparatorUnknownError(ConversionError):
    """A separator is needed and nothing says which id it is."""

    def __init__(self, path: Path, why: str, remedy: str = NAME_SEPARATOR) -> None:
        self.path, self.why, self.remedy = str(path), Message(why), Message(remedy)
        super().__init__(f"{printable(path)}: {marked(why)}. {marked(remedy)}")


class TokenizerMismatchError(ConversionError):
    """Ids of different tokenizers would be taken for those of one.

    Attributes:
        path: The source. what: How that is known. expected, found: Of the tokenizer in use, and of the source.
    """

    def __init__(self, path: Path, what: str, expected: str, found: str) -> None:
        self.path, self.what, self.expected, self.found = str(path), what, expected, found
        wrong = f"{printable(path)}: {what}{_contrast(expected, found)}"
        super().__init__(f"{wrong}. To accept that, add {allowing('tokenizers')}")


class DestinationExistsError(ConversionError):
    """The destination is there already."""

    def __init__(self, path: Path, why_not: str = "") -> None:
        """`why_not`: why `overwrite` does not replace it, as "it is a FIFO"."""
        self.path = str(path)
        but = f" does not replace it: {why_not}. Choose another destination" if why_not else " replaces it"
        super().__init__(f"{printable(path)}: already exists. {Option('overwrite')}{but}")


class IncompleteWriteError(ConversionError):
    """Not every region of the plan was written; nothing is published."""


class OutageError(ConversionError):
    """Nothing is wrong with what was asked for: a full disk, a quota, a worker that was killed. Run again later."""


class VerificationError(ConversionError):
    """The destination, read back, differs from the source; it was removed."""


class EngineDifferenceError(ConversionError):
    """The fast engine and the reference give different ids, or the fast one fails.

    Attributes:
        text: How the text begins. position: Token at which they part. fast, reference: What each says there.
    """

    def __init__(self, text: str, position: int, fast: object, reference: object) -> None:
        self.text, self.position, self.fast, self.reference = text[:60], position, fast, reference
        wrong = (
            f"fastokens and tokenizers disagree on the text that begins {printable(repr(self.text))}: at token "
            f"{position:,}, {fast} instead of {reference}"
        )
        super().__init__(f"{wrong}. {Option('engine', 'tokenizers')} takes the reference")


class ShortfallError(ConversionError):
    """A recipe asks for more tokens than its sources have in the passes allowed."""


class OptionError(TokfmtError):
    """An option, a format or a value that does not exist."""

    exit_code = 2

    def __init__(self, message: str, *, name: str = "", nearest: str | None = None) -> None:
        self.name, self.nearest = name, nearest
        super().__init__(f"{marked(message)}. Did you mean {nearest}?" if nearest else message)


class MissingDependencyError(TokfmtError):
    """A package that is not installed is needed.

    Attributes:
        package: Its name, or several names with spaces between, as pip knows them.
        extra: Of tokfmt's extras the one that brings it; "" for what an ordinary installation of tokfmt brings.
        purpose: What needs it.
    """

    exit_code = 2

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package, self.extra, self.purpose = package, extra, purpose
        words = package.split()
        named = f"package{'s' if len(words) > 1 else ''} {', '.join(words)}"
        install = f"'tokfmt[{extra}]'" if extra else package
        super().__init__(f"{marked(purpose)} needs the {named}: pip install {install}")


def missing_package(error: ModuleNotFoundError, purpose: str, needs: Sequence[str] = ()) -> MissingDependencyError:
    """What to say when an import fails: tokfmt was installed without its dependencies, beside numpy alone.

    Args:
        error: The failure.
        purpose: What cannot be done without it.
        needs: All packages that it needs, as pip knows them; those that are missing are named together.

    Raises:
        ModuleNotFoundError: It is tokfmt's own module that is missing, which is a bug.
    """
    from importlib.util import find_spec

    name = (error.name or "").partition(".")[0]
    if name in ("", "tokfmt"):
        raise error
    absent = [package for package in needs if find_spec(package.replace("-", "_")) is None]
    return MissingDependencyError(" ".join(absent) or name.replace("_", "-"), "", purpose)
