"""Find formats by name and by content.

tokfmt's formats are listed here; those of other packages are entry points of the group `tokfmt.formats`. A list of
names imports no format. Using a format imports that format. Detection imports the formats whose signature fits the
file, and all formats of other packages. A format of another package that cannot be imported, or that fails in `sniff`,
is skipped with a warning. If you give its name, the failure is an error.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import re
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points

from tokfmt.base.options import nearest
from tokfmt.core.format import Confidence, Format, Probe, Signature, probe_of
from tokfmt.errors import (
    AmbiguousFormatError,
    DetectionError,
    FormatError,
    OptionError,
    PluginWarning,
    UnknownFormatError,
)
from tokfmt.files.file import EMPTY, PAGE_HEAD, File, files_at_hand, page_error, reading_error
from tokfmt.files.place import AnyPlace, LocalPlace, Place, PlaceLike
from tokfmt.files.splits import stated_split
from tokfmt.wording import printable

GROUP = "tokfmt.formats"

_SKIPPED = tuple(bytes([0x50 + number]) + b"\x2a\x4d\x18" for number in range(16))
"""The magic numbers of frames that a zstandard decoder skips; RFC 8878, 3.1.2. Files of pzstd begin with one."""

_LLMC = (20240520, 20240801, 278895051, 20240522, 20240326, 20240327, 20240328)

BUILT_IN = (
    ("jsonl", "jsonl:FORMAT", Signature(
        (".json", ".ndjson"), text=True, starts=(b"\x1f\x8b", b"\x28\xb5\x2f\xfd", *_SKIPPED)
    )),
    ("modalities", "modalities:FORMAT", Signature((".pbin",), binary=True)),
    ("stage1", "stage1:FORMAT", Signature(("stage1_block_",), binary=True)),
    ("hdf5", "hdf5:FORMAT", Signature((".h5",), starts=(b"\x89HDF",), at=(0, *(512 << k for k in range(7))))),
    ("flat-tokens", "flat_tokens:FORMAT", Signature((".zarr",), starts=(b"PK\3\4",))),
    ("array", "array:FORMAT", Signature(
        (".npy", ".npz"), beside=".bin.json", starts=(b"\x93NUMPY", b"PK\3\4", b"\x89HDF")
    )),
    ("arrayrecord", "arrayrecord:FORMAT", Signature((".array_record", ".arrayrecord"), starts=(b"\x83\xaf\x70\xd1",))),
    ("arrow", "arrow:ARROW", Signature((".arrow",), starts=(b"ARROW1", b"\xff\xff\xff\xff"))),
    ("datatrove", "datatrove:FORMAT", Signature((".ds",))),
    ("internevo", "internevo:FORMAT", Signature((".bin",))),
    ("levanter", "levanter:FORMAT", Signature()),
    ("litdata", "litdata:FORMAT", Signature()),
    ("litgpt-packed", "litgpt_packed:FORMAT", Signature(starts=(b"LITPKDS",))),
    ("llmc", "llmc:FORMAT", Signature(
        ("_train_", "_val_"), starts=tuple(number.to_bytes(4, order) for number in _LLMC for order in ("little", "big"))
    )),
    ("mds", "mds:FORMAT", Signature((".mds",))),
    ("megatron", "megatron:FORMAT", Signature(("_document.", "_sentence.", ".idx"), beside=".idx", text=True)),
    ("nanogpt", "nanogpt:FORMAT", Signature(("train.bin", "val.bin"))),
    ("olmo", "olmo:FORMAT", Signature((".npy",))),
    ("parquet", "arrow:PARQUET", Signature((".parquet", ".pq"), starts=(b"PAR1",))),
    ("recipe", "tokfmt.mix.format:FORMAT", Signature(words=(b"tokfmt",))),
    ("run", "tokfmt.runs.format:FORMAT", Signature(words=(b"[run]", b"[ run ]"))),
    ("text", "text:FORMAT", Signature((".txt", ".text", ".md", ".markdown", ".rst"))),
    # field 1 of an Example, after the length
    ("tfrecord", "tfrecord:FORMAT", Signature((".tfrec",), starts=(b"\n",), at=(12,))),
    ("webdataset", "webdataset:FORMAT", Signature((".tar",), starts=(b"ustar",), at=(257,))),
)  # fmt: skip
"""tokfmt's formats, in the order of lists: the name, the module in `tokfmt.formats` and its object, and the signature.

A file that does not fit the signature of a format is not shown to it, and the format is not imported. `Format.sniff` of
the others decides. A format without a signature sees every file, and every format sees directories. For another variant
of a format, add to its row what its files begin with, or how they are named, and then to `sniff` of the format, or
`recognize` of a flat one, what makes it certain.
"""


@functools.cache
def _points() -> dict[str, EntryPoint]:
    """Return tokfmt's formats by name, in the order of `BUILT_IN`, then the entry points of others alphabetically.

    If two have the same name, tokfmt's own format is used, or else that of the alphabetically first package.
    """
    own = ((name, value if value.startswith("tokfmt.") else f"tokfmt.formats.{value}") for name, value, _ in BUILT_IN)
    found = {name: EntryPoint(name, value, GROUP) for name, value in own}
    others = [point for point in entry_points(group=GROUP) if not _is_own(point)]
    for point in sorted(others, key=lambda point: (point.name, _package(point))):
        kept = found.setdefault(point.name, point)
        if kept.value != point.value:
            _warn(f"the format {point.name} of {_package(point)} is left out: {_package(kept)} has one of that name")
    return found


def _package(point: EntryPoint) -> str:
    """Return the distribution that a format belongs to."""
    return "tokfmt" if _is_own(point) else point.dist.name if point.dist is not None else point.value


def _is_own(point: EntryPoint) -> bool:
    return point.value.startswith("tokfmt.")


def _warn(text: str) -> None:
    warnings.warn(text, PluginWarning, stacklevel=2)


def names() -> list[str]:
    """Return the names of all formats: tokfmt's own first, then those of other packages alphabetically."""
    return list(_points())


_INITIALS = 3  # letters of a word that may be in any title


@functools.cache
def get(name: str) -> Format:
    """Return the format of a name."""
    point = _points().get(name)
    if point is None:
        known, word = names(), name.lower().removeprefix(".")
        titled = next(
            (
                one.name
                for one in list_formats()
                if f".{word}" in one.extensions
                or word in re.findall(r"[\w.-]+", title := one.title.lower())
                or (len(word) > _INITIALS and word in title.replace(" ", ""))
            ),
            None,
        )
        near = titled or nearest(name, known)
        raise OptionError(f"no format {name!r} (known: {', '.join(known)})", name=name, nearest=near)
    if _is_own(point):
        own: Format = point.load()
        return own
    try:
        loaded: Format = point.load()
        if not isinstance(loaded, Format):
            raise TypeError(f"{point.value} is not a format")  # noqa: TRY301 - one way out for all
        if missing := [word for word in ("name", "title") if not hasattr(loaded, word)]:
            raise TypeError(f"it does not define {' or '.join(missing)}")  # noqa: TRY301
    except (Exception, SystemExit) as error:  # The import of a package may raise any error, or exit.
        raise OptionError(
            f"the format {name} of {_package(point)} cannot be used: {_text_of(error)}", name=name
        ) from error
    return loaded


def _text_of(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


@functools.cache
def _usable(name: str) -> Format | None:
    try:
        return get(name)
    except OptionError as error:
        _warn(f"{error}; it is left out")
        return None


def list_formats(wanted: Callable[[Signature], bool] = lambda signature: True) -> list[Format]:
    """Return every installed format that can be used.

    Args:
        wanted: Predicate on signatures. A format whose signature it rejects is left out.
    """
    rejected = {name for name, _, signature in BUILT_IN if signature is not None and not wanted(signature)}
    return [found for name in names() if name not in rejected and (found := _usable(name)) is not None]


def detect(path: PlaceLike) -> Format:
    """Return the format of an existing file or directory, by its content; see `detected`."""
    format_, files = detected(path)
    for file in files.values():
        file.close()
    return format_


def detected(path: PlaceLike) -> tuple[Format, dict[Place, File]]:
    """Return the format of an existing file or directory, by its content, and the open files that were looked at."""
    with files_at_hand():
        probe = probe_of(path)
        return _recognized(path, probe, candidates(probe)), probe.files or {}


def _recognized(path: PlaceLike, probe: Probe, claims: Mapping[str, int]) -> Format:
    """Return the format that claims a probe with the highest confidence; see `detected`."""
    if (
        claims and "text" not in claims and PAGE_HEAD.match(probe.head)
    ):  # `_refuse_foreign` reports one that nothing claims.
        raise page_error(path)
    best = max(claims.values(), default=0)
    if whole := _whole(probe, claims):
        what = f"is a file of the {whole} dataset {printable(probe.path.parent)}, not a dataset by itself"
        remedy = "Name that directory"
        if not probe.path.parent.is_dir():  # A web server lists nothing, so what is in it shows no format.
            remedy += f", with --from {whole}"
        raise UnknownFormatError(path, what, remedy)
    bare = probe.path.suffix == "" and not probe.is_directory and list(claims) == ["jsonl"]
    plausible = best == Confidence.PLAUSIBLE and not probe.is_directory
    plausible = plausible and "text" not in claims  # A document may begin like a magic number.
    if best <= Confidence.NAME or plausible or bare or probe.path.suffix == ".json":
        _refuse_foreign(path, probe, claimed=bool(claims), head_only=plausible)
    winners = [name for name, confidence in claims.items() if confidence == best]
    if len(winners) > 1:
        raise AmbiguousFormatError(path, winners, _name_one(probe))
    return get(winners[0])


def dataset_of(path: AnyPlace) -> AnyPlace:
    """Return the dataset that a file belongs to: its directory, the main file of the dataset, or the file itself."""
    if store := next((parent for parent in path.parents if parent.suffix == ".zarr"), None):
        return store
    with contextlib.suppress(FormatError):  # The command that reads the file reports the error.
        probe = probe_of(path)
        claims = candidates(probe)
        if _whole(probe, claims):
            return path.parent
        recognized = _recognized(path, probe, claims)
        main = recognized.canonical(path)
        # a shard of MDS is also a dataset by itself
        is_named = bool(recognized.prefix) or recognized.name in dict(_named(main.name))
        return path.parent if not is_named and _around(probe_of(main).path) == recognized.name else main
    return path


def _whole(probe: Probe, claims: Mapping[str, int]) -> str:
    """Return the format of the directory dataset that a file is only a part of; else "".

    A file that has the name of a dataset of that format is a dataset, whatever its content.
    """
    # The index of many directory formats is one line of JSON, and that of WebDataset is a line for each shard.
    alone = bool(claims) and probe.path.suffix != ".json" and probe.path.name != "manifest.jsonl"
    whole = "" if probe.is_directory or alone else _around(probe.path)
    return "" if not whole or whole in dict(_named(probe.path.name)) else whole


def _refuse_foreign(path: PlaceLike, probe: Probe, *, claimed: bool, head_only: bool) -> None:
    """Raise UnknownFormatError if no format claims the path, or none by a magic number and that of another kind fits.
    `claimed` is True if a format claims it. With `head_only`, no more of the file is looked at than the head that was
    read already.
    """
    from tokfmt.unsupported import foreign, overruling

    sign = (overruling if head_only else foreign)(probe) if probe.is_directory or probe.size else None
    if sign is not None and (sign.certain or not claimed):
        why = "and does not state its format" if sign.readable else "which tokfmt does not read"
        raise UnknownFormatError(path, f"{sign.verb} {sign.name}, {why}", sign.step)
    if not claimed and not probe.is_directory and not probe.size:
        raise UnknownFormatError(path, EMPTY, "Copy it again")
    if not claimed:
        known = f"tokfmt reads {', '.join(names())}. If it is one of these, add --from NAME"
        if not probe.is_directory and (fitting := _named(probe.path.name)):
            name = max(fitting, key=lambda one: one[1])[0]
            known = f"Its name implies {name}. Use --from {name} to see what is wrong with it"
        raise UnknownFormatError(path, _describe(probe), _name_one(probe) or known)


def _name_one(probe: Probe) -> str:
    """Return the remedy of a directory that holds several datasets; else ""."""
    if not (inside := _datasets_in(probe)):
        return ""
    one = f"Name one of the datasets in it, such as {printable(inside[0])}"
    splits = dict.fromkeys(filter(None, (stated_split(name.split("/")) for name in inside)))
    if len(splits) > 1:
        chosen = "train" if "train" in splits else next(iter(splits))
        return f"{one}; with --recursive --split {chosen}, convert, stats and check read those of one split"
    return f"{one}; with --recursive, info, convert, stats and check read all of them"


def _datasets_in(probe: Probe, levels: int = 3) -> list[str]:
    """Return those of the first eight subdirectories that a format recognizes, else files with names of datasets. If
    there are none, those of the first eight files whose content shows a format, or else the datasets below the first
    eight subdirectories.
    """
    folders = [name for name in probe.entries if (probe.path / name).is_dir() and not name.startswith(".")]
    files = [name for name in probe.entries if name not in folders]
    some = [name for name in files if not name.endswith(".json")]
    below: list[Probe] = []
    with contextlib.suppress(FormatError):  # A subdirectory may be unreadable.
        below = [probe_of(probe.path / name) for name in folders[:8]]
        if found := [one.path.name for one in below if candidates(one)]:
            return found
    found = [name for name in some if _named(name)] or [name for name in files[:8] if _shows(probe.path / name)]
    if found or not levels:
        return found
    return [f"{one.path.name}/{name}" for one in below for name in _datasets_in(one, levels - 1)]


def _shows(path: Place) -> bool:
    """Return whether the content of a file, and not only its name, shows a format."""
    with contextlib.suppress(FormatError):
        return max(candidates(probe_of(path)).values(), default=0) >= Confidence.STRUCTURE
    return False


def _around(path: Place) -> str:
    """Return the format of the parent directory if the file is a part of that dataset; else ""."""
    above = path.parent
    with contextlib.suppress(FormatError):  # The directory may be unreadable. On a web server, it shows no other names.
        probe = probe_of(above) if above.is_dir() else Probe(above, is_directory=True, entries=(path.name,))
        claims = candidates(probe)
        sure = [name for name, confidence in claims.items() if confidence >= Confidence.CERTAIN]
        if len(sure) == 1 and path in get(sure[0]).files(above):
            return sure[0]
    return ""


def suffixes_of_pairs() -> frozenset[str]:
    """Return what the names of files have after the prefixes that name datasets: `.bin` and `.idx`."""
    return frozenset(suffix for format_ in list_formats() if format_.prefix for suffix in format_.suffixes)


def is_of_pair(file: Place) -> bool:
    """Return whether a file without the other one of its pair belongs to one: no other dataset has it."""
    try:
        return bool(detect(file).prefix)
    except DetectionError:
        return file.suffix not in {format_.prefix for format_ in list_formats()}  # A folder of .tar has .idx as well.


def of_prefix(path: Place) -> Place:
    """Return a file of the dataset with a prefix; the path itself if it exists or is not a prefix.

    Formats with `Format.prefix` name a dataset by a prefix: `data/my_text_document` for its .bin and .idx.
    """
    try:
        path.status()
    except OSError as error:
        if path.is_symlink():
            return path
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise reading_error(path, error) from error
    except ValueError as error:
        raise FormatError(path, "is not a valid file name") from error  # It has a zero byte.
    else:
        return path
    if not path.name:  # a bucket
        return path
    prefixed = [format_ for format_ in list_formats() if format_.prefix]
    found = [path.with_name(path.name + format_.prefix) for format_ in prefixed]
    for format_ in prefixed:  # If the name implies a format, that format reports which file is missing.
        named = (path.with_name(path.name + suffix) for suffix in format_.suffixes)
        found += [
            place for place in named if any(fnmatch.fnmatch(place.name, extension) for extension in format_.extensions)
        ]
    return next((place for place in found if place.is_file()), path)


def candidates(probe: Probe) -> dict[str, int]:
    """Return the name of every format that claims the probe, with its confidence."""
    name, head, is_text = probe.path.name.lower(), probe.head, b"\0" not in probe.head

    def may_be(signature: Signature) -> bool:
        fits = probe.is_directory or signature.fits(name, head, is_text=is_text)
        return fits or (signature.beside != "" and signature.has_beside(probe.path))

    claims = {format_.name: _claim(format_, probe) for format_ in list_formats(may_be)}
    return {name: int(confidence) for name, confidence in claims.items() if confidence is not None}


def _claim(format_: Format, probe: Probe) -> Confidence | None:
    try:
        return format_.sniff(probe)
    except Exception as error:  # A plug-in may raise any error for a file of another format.
        point = _points()[format_.name]
        if _is_own(point):
            raise
        _warn(f"the format {format_.name} of {_package(point)} fails at {probe.path}: {_text_of(error)}")
        return None


def _describe(probe: Probe) -> str:
    if probe.is_directory:
        return "an empty directory" if not probe.entries else "a directory that no format recognizes"
    return "no format recognizes its content"


def for_destination(path: PlaceLike) -> Format:
    """Return the format that the name of a destination implies.

    If several fit, the format with the longest suffix or pattern wins.
    """
    name = (path if isinstance(path, Place) else LocalPlace(path)).name
    fitting = _named(name) or _named_by_prefix(name)
    if not fitting:
        known = ", ".join(f"{one.extensions[0]} ({one.name})" for one in list_formats() if one.extensions)
        *several, last = (one.name for one in list_formats() if not (one.extensions or one.read_only))
        nameless = f"{', '.join(several)} and {last}"
        raise OptionError(
            f"cannot tell the format of {name!r} from its name. Use --to NAME, or a name like {known}; "
            f"{nameless} have no such name"
        )
    longest = max(length for _, length in fitting)
    best = sorted({format_ for format_, length in fitting if length == longest})
    if len(best) > 1:
        choices = " or ".join(f"--to {format_}" for format_ in best)
        raise OptionError(f"the name {name!r} may mean {' or '.join(best)}. Choose one with {choices}")
    return get(best[0])


def _named_by_prefix(name: str) -> list[tuple[str, int]]:
    """Return the formats whose files a prefix implies."""
    prefixed = [format_ for format_ in list_formats() if format_.prefix]
    names = [(format_.name, name + suffix) for format_ in prefixed for suffix in format_.suffixes]
    return [one for format_, file in names for one in _named(file) if one[0] == format_]


def _named(name: str) -> list[tuple[str, int]]:
    """Return the formats that a name implies, each with the length of the suffix or pattern that fits."""
    return [
        (format_.name, len(pattern))
        for format_ in list_formats(lambda signature: signature.is_named(name.lower()))
        for pattern in format_.extensions
        if (name.endswith(pattern) if pattern.startswith(".") else fnmatch.fnmatch(name, pattern))
    ]
