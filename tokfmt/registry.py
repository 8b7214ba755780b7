"""Formats by name and by content: entry points of the group `tokfmt.formats`.

Listing names imports nothing; using a format imports that one; detection imports those that a file may be of. A format
of another package that cannot be imported, or fails when it looks at a file, is left out with a warning: only who names
it gets an error.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from tokfmt.core.errors import AmbiguousFormatError, FormatError, OptionError, PluginWarning, UnknownFormatError
from tokfmt.core.files import reading_error
from tokfmt.core.format import Confidence, Format, Probe, Signature, look
from tokfmt.core.messages import Option
from tokfmt.core.options import nearest
from tokfmt.core.text_format import printable

GROUP = "tokfmt.formats"
_OWN = ("jsonl", "modalities", "stage1", "hdf5", "flat-tokens")


@functools.cache
def _points() -> dict[str, EntryPoint]:
    """The entry points by name; of two with one name tokfmt's own, or that of the package first in the alphabet."""
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: "" if _is_own(point) else _package(point)):
        kept = found.setdefault(point.name, point)
        if kept.value != point.value:
            _warn(f"the format {point.name} of {_package(point)} is left out: {_package(kept)} has one of that name")
    return found


def _package(point: EntryPoint) -> str:
    """The distribution that brings a format."""
    return point.dist.name if point.dist is not None else point.value


def _is_own(point: EntryPoint) -> bool:
    return point.value.startswith("tokfmt.formats.")


def _warn(text: str) -> None:
    warnings.warn(text, PluginWarning, stacklevel=2)


def names() -> list[str]:
    """Names of all formats installed, tokfmt's own first."""
    return [n for n in _OWN if n in _points()] + sorted(n for n in _points() if n not in _OWN)


@functools.cache
def get(name: str) -> Format:
    """The format of that name.

    Raises:
        OptionError: There is none, and the nearest is named; or it is another package's and cannot be used.
    """
    point = _points().get(name)
    if point is None:
        known = names()
        raise OptionError(f"no format {name!r} (known: {', '.join(known)})", name=name, nearest=nearest(name, known))
    if _is_own(point):
        own: Format = point.load()
        return own
    try:
        loaded: Format = point.load()
        if not isinstance(loaded, Format):
            raise TypeError(f"{point.value} is not a tokfmt.plugin.Format")  # noqa: TRY301 - one way out for all
        if missing := [word for word in ("name", "title") if not hasattr(loaded, word)]:
            raise TypeError(f"it states no {' and no '.join(missing)}")  # noqa: TRY301
    except (Exception, SystemExit) as error:  # whatever a package does when it is imported
        raise OptionError(
            f"the format {name} of {_package(point)} cannot be used: {_said(error)}", name=name
        ) from error
    return loaded


def _said(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def unexpected(error: BaseException) -> str:
    """What to say of an error that no code has worded: which code it is a bug in, tokfmt's or that of a plug-in."""
    return f"unexpected {type(error).__name__}: {error}. This is a bug in {plugin_of(error) or 'tokfmt'}"


def plugin_of(error: BaseException) -> str:
    """The format of another package in whose code an error was raised, with its distribution and version; else ""."""
    homes = [(home, name, point) for name, point in _points().items() if (home := _home(point))]
    for file in _files_of(error):
        for home, name, point in homes:
            if file == home or file.startswith(f"{home}{os.sep}"):
                version = f" {point.dist.version}" if point.dist is not None else ""
                return f"the format {name} of {_package(point)}{version}"
    return ""


def _home(point: EntryPoint) -> str:
    """The file of a plug-in that was imported, or the folder of its package; "" of tokfmt's own formats."""
    if _is_own(point):
        return ""
    file = getattr(sys.modules.get(point.module.partition(".")[0]), "__file__", None)
    file = file or getattr(sys.modules.get(point.module), "__file__", None) or ""
    return os.path.dirname(file) if os.path.basename(file) == "__init__.py" else file


def _files_of(error: BaseException | None) -> Iterator[str]:
    """The files of the code that an error passed through, innermost first, in this process and in a worker's."""
    while error is not None:
        worker = error.__cause__ if type(error.__cause__).__name__ == "_RemoteTraceback" else None
        yield from reversed(re.findall(r'^  File "(.+?)", line \d', str(worker or ""), re.MULTILINE))
        yield from reversed([frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)])
        error = error.__cause__


@functools.cache  # `EntryPoint.module` parses the entry point by a regular expression, 2 per format and file otherwise
def _signature(name: str) -> Signature | None:
    """The signature of a format, which is read without importing the format; None if it states none."""
    package = _points()[name].module.rpartition(".")[0]
    return _signatures(package).get(name) if package else None


@functools.cache
def _signatures(package: str) -> Mapping[str, Signature]:
    """The `SIGNATURES` of the module `signatures` of a package of formats, by the names of the formats."""
    try:
        found: Mapping[str, Signature] = import_module(f"{package}.signatures").SIGNATURES
    except Exception:  # noqa: BLE001 - most have none; what else is wrong with a package, importing its format reports
        return {}
    return found


@functools.cache
def _usable(name: str) -> Format | None:
    try:
        return get(name)
    except OptionError as error:
        _warn(f"{error}; it is left out")
        return None


def formats(wanted: Callable[[Signature], bool] = lambda signature: True) -> list[Format]:
    """Every format installed that can be used; of those with a signature, those whose signature is wanted."""
    asked = [name for name in names() if (found := _signature(name)) is None or wanted(found)]
    return [format_ for name in asked if (format_ := _usable(name)) is not None]


def detect(path: str | os.PathLike[str]) -> Format:
    """The format of an existing file or directory, by its content.

    Raises:
        FormatError: It cannot be read at all.
        UnknownFormatError: No format recognises it; says what it seems to be, and what to do.
        AmbiguousFormatError: Several do, equally surely.
    """
    probe = look(path)
    claims = candidates(probe)
    best = max(claims.values(), default=0)
    if whole := _whole(probe, claims):
        what = f"is a file of the {whole} dataset {printable(probe.path.parent)}, and no dataset by itself"
        raise UnknownFormatError(path, what, "Name that directory")
    bare = probe.path.suffix == "" and not probe.is_directory and list(claims) == ["jsonl"]
    if best <= Confidence.NAME or bare or probe.path.suffix == ".json":
        _refuse_foreign(path, probe, claimed=bool(claims))
    winners = [name for name, confidence in claims.items() if confidence == best]
    if len(winners) > 1:
        raise AmbiguousFormatError(path, winners)
    return get(winners[0])


def dataset_of(path: Path) -> Path:
    """The dataset that a file belongs to: itself, the file that stands for it, or the directory that it lies in.

    Args:
        path: An existing file; one that no format recognises is returned as it is.
    """
    if store := next((parent for parent in path.parents if parent.suffix == ".zarr"), None):
        return store
    with contextlib.suppress(FormatError):  # whoever reads it will say why it cannot be read
        probe = look(path)
        return path.parent if _whole(probe, candidates(probe)) else detect(path).canonical(path)
    return path


def _whole(probe: Probe, claims: Mapping[str, int]) -> str:
    """The format of the directory in which a file lies, where the file is no dataset by itself; else "".

    A file that has the name of a dataset of that format is one, whatever its content.
    """
    alone = bool(claims) and probe.path.suffix != ".json"  # many a folder has an index that is one line of JSON
    whole = "" if probe.is_directory or alone else _around(probe.path)
    return "" if whole in dict(_named(probe.path.name)) else whole


def _refuse_foreign(path: str | os.PathLike[str], probe: Probe, *, claimed: bool) -> None:
    """Raise UnknownFormatError for what no format claims, or only by its name while its magic says something else."""
    from tokfmt.unsupported import foreign

    sign = foreign(probe) if probe.is_directory or probe.size else None
    if sign is not None and (sign.certain or not claimed):
        raise UnknownFormatError(path, f"is {sign.name}, no format that tokfmt reads", sign.step)
    if not claimed:
        known = f"tokfmt reads {', '.join(names())}; {Option('from', 'NAME')} says that it is one of these"
        if not probe.is_directory and probe.size and (fitting := _named(probe.path.name)):
            name = max(fitting, key=lambda one: one[1])[0]
            known = f"Its name means {name}: {Option('from', name)} says what is wrong with it"
        if inside := _datasets_in(probe):
            known = (
                f"Name one of the datasets in it, such as {printable(inside[0])}, or read all by {Option('recursive')}"
            )
        raise UnknownFormatError(path, _describe(probe), known)


def _datasets_in(probe: Probe) -> list[str]:
    """Those of a directory's first directories that some format recognises."""
    folders = [name for name in probe.entries if (probe.path / name).is_dir() and not name.startswith(".")]
    with contextlib.suppress(FormatError):  # one may be closed to us
        return [name for name in folders[:8] if candidates(look(probe.path / name))]
    return []


def _around(path: Path) -> str:
    """The format of a dataset that is the directory in which a file lies, if it is a file of it; else ""."""
    with contextlib.suppress(FormatError):  # the directory may be closed to us
        claims = candidates(look(path.parent))
        sure = [name for name, confidence in claims.items() if confidence >= Confidence.CERTAIN]
        if len(sure) == 1 and path in get(sure[0]).files(path.parent):
            return sure[0]
    return ""


def of_prefix(path: Path) -> Path:
    """A file of the dataset that a prefix means, where no file has that name; else the path itself.

    A format whose datasets go by a prefix (`data/my_text_document` of .bin and .idx) names a suffix as `prefix`.

    Raises:
        FormatError: What is there cannot be looked at.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise reading_error(path, error) from error
    except ValueError as error:
        raise FormatError(path, "is no name that a file can have") from error  # with a zero byte
    else:
        return path
    prefixed = [format_ for format_ in formats() if format_.prefix]
    found = [path.with_name(path.name + format_.prefix) for format_ in prefixed]
    for format_ in prefixed:  # by a name that means the format, it will say which file is missing
        named = (path.with_name(path.name + suffix) for suffix in format_.suffixes)
        found += [place for place in named if any(fnmatch.fnmatch(place.name, one) for one in format_.extensions)]
    return next((place for place in found if place.is_file()), path)


def candidates(probe: Probe) -> dict[str, int]:
    """Every format that claims the probe, with its confidence."""
    asked = formats() if probe.is_directory else formats(lambda signature: signature.fits(probe))
    claims = {format_.name: _claim(format_, probe) for format_ in asked}
    return {name: int(confidence) for name, confidence in claims.items() if confidence is not None}


def _claim(format_: Format, probe: Probe) -> Confidence | None:
    if _is_own(_points()[format_.name]):
        return format_.sniff(probe)
    try:
        return format_.sniff(probe)
    except Exception as error:  # noqa: BLE001 - whatever a package does with a file that is not its own
        _warn(f"the format {format_.name} of {_package(_points()[format_.name])} fails at {probe.path}: {_said(error)}")
        return None


def _describe(probe: Probe) -> str:
    if probe.is_directory:
        return "an empty directory" if not probe.entries else "a directory that no format recognises"
    return "an empty file" if not probe.size else "no format recognises its content"


def for_destination(path: str | os.PathLike[str]) -> Format:
    """The format that a destination's name means: that with the longest suffix or pattern which fits.

    Raises:
        OptionError: The name means none, or several; names --to.
    """
    name = os.path.basename(os.path.normpath(path))
    fitting = _named(name)
    if not fitting:
        known = ", ".join(f"{format_.extensions[0]} ({format_.name})" for format_ in formats() if format_.extensions)
        raise OptionError(
            f"cannot tell the format of {name!r} from its name. Use {Option('to', 'NAME')}, or a name like {known}"
        )
    longest = max(length for _, length in fitting)
    best = sorted({format_ for format_, length in fitting if length == longest})
    if len(best) > 1:
        choices = " or ".join(f"{Option('to', format_)}" for format_ in best)
        raise OptionError(f"the name {name!r} may mean {' or '.join(best)}. Say which with {choices}")
    return get(best[0])


def _named(name: str) -> list[tuple[str, int]]:
    """The formats that a name means, each with the length of the suffix or pattern which fits."""
    return [
        (format_.name, len(pattern))
        for format_ in formats(lambda signature: signature.is_named(name))
        for pattern in format_.extensions
        if (name.endswith(pattern) if pattern.startswith(".") else fnmatch.fnmatch(name, pattern))
    ]
