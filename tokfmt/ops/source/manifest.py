"""`DST.tokfmt.json`: what was converted, from what, how; written beside each destination.

    {"schema": "tokfmt.manifest/1", "tokfmt": "0.1.0", "format": ..., "eos_id": ..., "eos_from": ..., "sequences": ...,
     "tokens": ..., "max_id": ..., "sources": [{"path", "format", "bytes", "files", "xxh3_128"}], "output": {...},
     "tokenizer": {...} | null, "options": {...}, "dropped": {...}, "notes": [...], "shuffle": seed | null,
     "recipe": fingerprint | null, "labels": "recipe" | "stored" | null,
     "split": {"shares": {name: share}, "seed": ...} | null, "splits": {name: {"destination", "sequences", ...}},
     "more_sources": {"sources", "bytes", "files", "xxh3_128"}}

`xxh3_128` of a file is what `xxhsum -H128` prints. Of a dataset of several files (`Format.files`): the same over lines
`relative-path size digest`, sorted by path; relative to the directory, or to where the file is that was named. It is
null where sources are large and nobody asked for --checksums. Behind a recipe stand the datasets that it names.
A tokenizer of this machine has its `path`, relative to the manifest, beside the `name` that the user gave.
`partial` is there when a source is damaged: of each what was saved, see `tokfmt.ops.source.partial`.
`ledger` is there when one was written: {"unit", "rows"}, see `tokfmt.ops.provenance`. `more_sources` is there when
sources
are too many to be listed: of the others, the same over such lines with the path as given, in order.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tokfmt.core import listing
from tokfmt.core.errors import CorruptError, FormatError, OptionError
from tokfmt.core.files import open_file, read_whole, reading_error
from tokfmt.core.format import Format
from tokfmt.core.messages import Message, Option, from_option
from tokfmt.core.options import parse_options
from tokfmt.core.place import absolute, real
from tokfmt.core.reader import Damage
from tokfmt.core.text_format import counted, grouped, printable
from tokfmt.ops.source.request import SourceFiles, SourceRequest, given_to, words_of

if TYPE_CHECKING:
    pass

SCHEMA = "tokfmt.manifest/1"
_LIMIT = 1 << 24
_PIECE = 1 << 23
_TOKENIZER = 1 << 28  # bytes of a tokenizer.json
LITTLE = 1 << 26
"""Bytes of sources, which the page cache still holds when they are read again."""
IGNORED = "the manifest is ignored"
_JOINING = {"view", "stride"}
"""Options of readers that say whether samples are joined."""
_SUFFIX = ".tokfmt.json"
_SEVERAL, _NAMED = 2, 3  # splits; sources
_SHOWN = 40  # characters of a value
_IDS, _COUNTS = (1 << 32) - 1, (1 << 63) - 1
_BOUNDS = {"eos_id": (0, _IDS), "max_id": (-1, _IDS), "sequences": (0, _COUNTS), "tokens": (0, _COUNTS)}


def manifest_path(path: Path) -> Path:
    """Where the manifest of a dataset stands."""
    return path.parent / f"{path.name}{_SUFFIX}"


def ledger_paths(path: Path) -> tuple[Path, Path]:
    """Where the ledger of a dataset stands, if it has one: its rows, and what they mean; see
    `tokfmt.ops.provenance`.
    """
    return path.parent / f"{path.name}.ledger", path.parent / f"{path.name}.ledger.json"


class Manifest(NamedTuple):
    """What a manifest says. Anybody may have written it: nothing is taken to be of the right kind.

    Attributes:
        content: The JSON object; empty when there is none, or it is not one of ours.
        path: The file.
        broken: Why the file that is there says nothing; "" if it can be read, or is not there.
    """

    content: Mapping[str, Any]
    path: Path = Path()
    broken: str = ""

    @property
    def eos_id(self) -> int | None:
        """The separator of what was written."""
        found = self.content.get("eos_id")
        return found if isinstance(found, int) else None

    @property
    def tokenizer(self) -> Mapping[str, Any] | None:
        """What made the ids, described as `TokenizerHandle.describe` does; its digest is a string.

        Its `path`, which the file states relative to itself, begins with the directory of the file.
        """
        found = self.content.get("tokenizer")
        if not isinstance(found, dict) or not isinstance(found.get("digest"), str):
            return None
        place = found.get("path")
        if not isinstance(place, str) or not place or "\0" in place:
            return {key: value for key, value in found.items() if key != "path"}
        return {**found, "path": os.path.normpath(self.path.parent / place)}

    @property
    def ledger(self) -> Mapping[str, Any]:
        """`unit` and `rows` of the ledger that was written beside it; empty without one."""
        found = self.content.get("ledger")
        return found if isinstance(found, dict) else {}

    @property
    def partial(self) -> str:
        """What it says of a dataset that was saved of a damaged one, for people; "" of others."""
        found = self.content.get("partial")
        parts = [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []
        if not parts:
            return ""
        paths = ", ".join(printable(part.get("path")) for part in parts[:_NAMED])
        lost = [part.get("lost_sequences") for part in parts]
        known = [count for count in lost if isinstance(count, int)]
        what = (
            f"at least {counted(sum(known), 'sequence')}" if len(known) < len(lost) else counted(sum(known), "sequence")
        )
        return f"partial, by its manifest: saved of damaged sources ({paths}), without {what} of theirs"

    @property
    def rows(self) -> bool:
        """Whether its sequences are samples of a recipe, stored as they are; see `core.rows`."""
        return self.content.get("recipe") is not None

    @property
    def made_labels(self) -> bool:
        """Whether labels and masks of these samples are those that the recipe makes, and makes again."""
        return self.rows and self.content.get("labels") == "recipe"

    @property
    def output(self) -> Mapping[str, Any]:
        """`bytes`, `files` and `xxh3_128` of what was written."""
        found = self.content.get("output")
        return found if isinstance(found, dict) else {}

    @property
    def options(self) -> Mapping[str, object]:
        """Options of the writer that were given, by name."""
        found = self.content.get("options")
        words = found.get("to") if isinstance(found, dict) else None
        pairs = (
            [word.split("=", 1) for word in words if isinstance(word, str) and "=" in word]
            if isinstance(words, list)
            else []
        )
        return {name.replace("-", "_"): value for name, value in pairs}

    def counts(self, split: object = None, *, samples: bool = False) -> Mapping[str, Any]:
        """Where `sequences` and `tokens` stand: of one split, where there are several.

        Nowhere, when sequences were split at separators inside them; or when `samples` are to be compared with
        documents, or documents with samples.
        """
        if self.rows != samples:
            return {}
        dropped, splits = self.content.get("dropped"), self.content.get("splits")
        if isinstance(dropped, dict) and "embedded-separators" in dropped:
            return {}
        if not isinstance(splits, dict) or len(splits) < _SEVERAL:
            return self.content
        found = splits.get(split) if isinstance(split, str) else None
        return found if isinstance(found, dict) else {}


def read_manifest(path: Path) -> Manifest:
    """The manifest beside a dataset; beside what it is a link to, when there is none beside the link."""
    return listing.once(("manifest", path), functools.partial(_read_manifest, path))


def _read_manifest(path: Path) -> Manifest:
    beside = manifest_path(absolute(path))
    if not listing.is_there(beside):
        if not listing.is_link(path):
            return Manifest({}, beside)
        beside = manifest_path(real(path))
    try:
        content = json.loads(read_whole(beside, _LIMIT))
    except FormatError as error:
        if isinstance(error.__cause__, FileNotFoundError):  # the target of a link, or removed by now
            return Manifest({}, beside)
        content = None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        return Manifest({}, beside, broken="it is not JSON of that kind")
    wrong = _invalid(content)
    return Manifest({}, beside, broken=wrong) if wrong else Manifest(content, beside)


def _invalid(content: Mapping[str, Any]) -> str:
    """The first number of a manifest, or of one of its splits, that counts and IDs cannot be; "" if there is none."""
    splits = content.get("splits")
    parts = [part for part in splits.values() if isinstance(part, dict)] if isinstance(splits, dict) else []
    for part in [content, *parts]:
        for key, (least, most) in _BOUNDS.items():
            found = part.get(key)
            if found is not None and (type(found) is not int or not least <= found <= most):
                said = grouped(found) if type(found) is int else printable(json.dumps(found))[:_SHOWN]
                return f"its {key} is {said}, and not a number from {least} to {most:,}"
    return ""


class Located(NamedTuple):
    """The tokenizer that a manifest names, on this machine.

    Attributes:
        place: Its file, its directory, or its directory in the cache of the hub; None if it was not found.
        problem: Why it was not found, in words; "" if it was, or if no manifest names one.
    """

    place: str | None = None
    problem: str = ""


def located_tokenizer(path: Path) -> Located:
    """Find the tokenizer that made a dataset, by its manifest, among the files of this machine.

    A file with the digest of the manifest goes before any other. The network is never asked for what a file names.
    """
    made = read_manifest(path).tokenizer
    name = made.get("name") if made is not None else None
    if made is None or not isinstance(name, str) or not name or "\0" in name:
        return Located()
    from tokfmt.text.hub import TokenizerError, snapshot

    stated = [made["path"]] if "path" in made else []  # else the manifest has the name alone, as the user gave it
    looked = list(dict.fromkeys([name, *stated, str(path.parent / name)]))
    digests = {place: _tokenizer_digest(Path(place)) for place in looked if _is_there(place)}
    for wanted in (made["digest"], None):  # None: there is no file whose digest could be compared
        for place, digest in digests.items():
            if digest == wanted:
                return Located(place)
    with suppress(TokenizerError):
        return Located(snapshot(name, local=True))
    named = f"the manifest names {printable(name)} with digest {made['digest'][:8]}"
    if digests:
        other, found = next(iter(digests.items()))
        return Located(None, f"{named}, and {printable(other)} is another file (digest {str(found)[:8]})")
    return Located(None, f"{named}, which is not at {' or '.join(map(printable, looked))}")


def _is_there(place: str) -> bool:
    with suppress(OSError):  # the name of a tokenizer of the hub may be no name of a file
        return listing.exists(place)
    return False


def _tokenizer_digest(place: Path) -> str | None:
    """The digest of a tokenizer.json, or of that in a directory; None if there is no such file, or it is too large."""
    from xxhash import xxh3_128_hexdigest

    try:
        return xxh3_128_hexdigest(read_whole(place / "tokenizer.json" if listing.is_dir(place) else place, _TOKENIZER))
    except FormatError:
        return None


def manifests_beside(found: Sequence[SourceFiles], request: SourceRequest) -> tuple[list[Manifest], list[str]]:
    """What `manifest_of` says of each path, compared with its files, and notes on those that are ignored.

    Raises:
        CorruptError: One contradicts its dataset.
    """
    said, notes, of_folder = [], [], functools.cache(_of_folder)
    for one in found:
        manifest = manifest_of(one, of_folder)
        wrong = file_contradiction(one, manifest) if one.files else None
        if wrong is not None:
            kept = request.allow_partial and not request.ignore_manifest and shrunk(one, manifest) is not None
            if not kept and not request.ignore_manifest:
                raise wrong
            if not kept:
                manifest = Manifest({})
                notes.append(f"the dataset {wrong.what}; {IGNORED}")
        elif manifest.broken:
            what = f"the manifest {printable(manifest.path.name)} cannot be read"
            notes.append(f"{what}, so nothing is known from it: {manifest.broken}")
        said.append(manifest)
    return said, notes


def manifest_of(
    one: SourceFiles, of_folder: Callable[[Format, Path], tuple[Manifest, frozenset[str]]] | None = None
) -> Manifest:
    """The manifest beside a dataset; of a file without one, what that of its directory says of all files there."""
    manifest = read_manifest(one.path)
    if manifest.content or listing.is_dir(one.path):
        return manifest
    shared, files = (of_folder or _of_folder)(one.format, absolute(one.path).parent)
    return shared if one.path.name in files else manifest


def _of_folder(format_: Format, folder: Path) -> tuple[Manifest, frozenset[str]]:
    """What the manifest of a directory says of every file in it, and their names; not how much there is of all."""
    manifest = read_manifest(folder)
    if not describes(manifest, format_, folder):
        return Manifest({}), frozenset()
    files = written_files(format_, folder)
    told = {key: manifest.content.get(key) for key in ("format", "eos_id", "tokenizer", "options", "recipe", "labels")}
    return Manifest(told, manifest.path), frozenset(file.name for file in files if file.parent == folder)


def as_written(
    format_: Format, request: SourceRequest, said: Sequence[Manifest]
) -> tuple[SourceRequest, tuple[str, ...]]:
    """Sources that are read as they were written, by all of their manifests, where the user says nothing else.

    That is of use where the format's reader has an option of the writer's name, and a value for it that may be wrong:
    "auto" finds out by what the files state themselves, and a split is a choice among what there is. Samples that were
    stored as they are, are read so; see `core.rows`.

    Returns:
        The request with these options, and notes on them.

    Raises:
        FormatError: Some state that their samples are sequences, and others do not.
    """
    if not said or any(manifest.content.get("format") != format_.name for manifest in said):
        return request, ()
    asked = {name.replace("-", "_") for name in given_to(format_, request)}
    usual, found, given = asdict(format_.read_options()), dict[str, object](), said[0].options
    writer = asdict(format_.write_options())
    for name in [name for name in writer if name in usual and name not in {*asked, "split"}]:
        value = given.get(name, writer[name])
        if value is None or usual[name] == "auto" or any(one.options.get(name) != given.get(name) for one in said):
            continue
        with suppress(OptionError):  # a value that only writers know, or none at all
            read = getattr(parse_options(format_.read_options, {name: str(value)}, format_.name), name)
            own = read == writer[name] and not isinstance(read, int)  # a name that readers look for by themselves
            if read != usual[name] and not own:
                found[name] = read
    told = [word for word in words_of(found) if word.partition("=")[0] in given]
    one = printable(said[0].path.name.removesuffix(_SUFFIX))
    notes = [
        Message(f"read with {word}, by the manifest of {one}; {Option('from-opt', word)} or another value overrides it")
        for word in told
    ]
    if any(manifest.rows for manifest in said) and format_.stores_rows and not asked & _JOINING:
        _check_all_rows(said)
        found["view"] = "samples"
        joins = "stride=overlap" if "stride" in usual else "view=documents"
        joined = f"{Option('from-opt', joins)} joins them"
        notes.append(Message(f"each sample is a sequence, by the manifest of {one}; {joined}"))
    return replace(request, options={**request.options, **found}), tuple(notes)


def _check_all_rows(said: Sequence[Manifest]) -> None:
    rows, others = ([one.path for one in said if one.rows is stated] for stated in (True, False))
    if others:
        what = f"says that each sample is a sequence, and {printable(others[0].name)} does not"
        remedy = f"Read them one by one, or join the samples with {from_option('view', 'documents')}"
        raise FormatError(rows[0], what, remedy=remedy)


def found_as_written(one: SourceFiles, request: SourceRequest) -> tuple[SourceRequest, tuple[str, ...]]:
    """The same of a dataset that may be damaged: a manifest that contradicts it says nothing, nor is it an error."""
    try:
        said, _ = manifests_beside([one], replace(request, ignore_manifest=True))
    except FormatError:
        return request, ()
    return as_written(one.format, request, said)


def file_contradiction(one: SourceFiles, manifest: Manifest) -> CorruptError | None:
    """How a manifest contradicts the format, the number and the sizes of the files that it stands beside, if it does.

    Raises:
        FormatError: A file cannot be looked at.
    """
    for what, expected, found in file_differences(one, manifest):
        return _contradiction(one.path, manifest, what, expected, found)
    return None


def file_differences(one: SourceFiles, manifest: Manifest) -> Iterator[tuple[str, Any, Any]]:
    """What a manifest says of the files that it stands beside, and what there is, where these differ.

    Yields:
        "the format", which ends it; "files", "bytes": how many.

    Raises:
        FormatError: A file cannot be looked at.
    """
    if not manifest.output:
        return
    if manifest.content.get("format") != one.format.name:
        yield "the format", manifest.content.get("format"), one.format.name
        return
    found = extent(written_files(one.format, one.path, one.files))
    for key in ("files", "bytes"):
        if manifest.output.get(key) != found[key]:
            yield key, manifest.output.get(key), found[key]


def shrunk(one: SourceFiles, manifest: Manifest) -> Damage | None:
    """What a manifest tells of a dataset of which files or bytes are missing by now; None where nothing is.

    Raises:
        FormatError: A file cannot be looked at.
    """
    differences = list(file_differences(one, manifest)) if one.files else []
    if not differences or not all(type(told) is int and type(found) is int and found < told
                                  for _, told, found in differences):  # fmt: skip
        return None
    told = "; ".join(f"expected {grouped(told)} {what}, found {found:,}" for what, told, found in differences)
    return Damage(f"{printable(one.path)}: its manifest {printable(manifest.path.name)} tells of more: {told}")


def describes(manifest: Manifest, format_: Format, path: Path) -> bool:
    """Whether a manifest tells the format of a dataset, and as many files and bytes as there are.

    Raises:
        FormatError: A file cannot be looked at.
    """
    if not manifest.output or manifest.content.get("format") != format_.name:
        return False  # before a directory is listed
    one = SourceFiles(path, format_, tuple(format_.files(path)))
    return next(file_differences(one, manifest), None) is None


def count_contradiction(
    path: Path, split: object, known: tuple[int, int | None], eos_id: int | None, *, samples: bool = False
) -> CorruptError | None:
    """How the manifest of a dataset contradicts how many sequences and tokens there are, `eos_id` taken away.

    `samples`: the sequences are samples, as they are stored. With another separator sequences may be others, and
    tokens are counted with separators in one, without in the other.
    """
    manifest = read_manifest(path)
    if manifest.eos_id != eos_id:
        return None
    counts = manifest.counts(split, samples=samples)
    for key, found in zip(("sequences", "tokens"), known, strict=True):
        expected = counts.get(key)
        if isinstance(expected, int) and found is not None and expected != found:
            return _contradiction(path, manifest, key, expected, found)
    return None


def _contradiction(path: Path, manifest: Manifest, what: str, expected: object, found: object) -> CorruptError:
    return CorruptError(
        path,
        f"contradicts its manifest {printable(manifest.path.name)} in {what}",
        expected=expected,
        found=found,
        remedy=f"Copy it again, or remove the manifest if the change was meant; {Option('ignore-manifest')} goes "
        "on without it",
    )


def written_files(format_: Format, path: Path, files: Sequence[Path] | None = None) -> list[Path]:
    """Files of a dataset that a conversion wrote: itself and its companions, or those in its directory.

    No index that was made beside it later.
    """
    inside, own = f"{path}{os.sep}", {path, *format_.companions(path)}
    inside = inside.removeprefix(f"{os.curdir}{os.sep}")  # which paths do not begin with
    found = format_.files(path) if files is None else files
    return [file for file in found if file in own or str(file).startswith(inside)]


def extent(files: Iterable[Path]) -> dict[str, Any]:
    """Size and number of files, without a checksum."""
    total, count = 0, 0
    for file in files:
        try:
            total, count = total + listing.status(file).size, count + 1
        except OSError as error:
            raise reading_error(file, error) from error
    return {"bytes": total, "files": count, "xxh3_128": None}


def fingerprint(path: Path, files: Sequence[Path], jobs: int = 1) -> dict[str, Any]:
    """Size, number and checksum of the files of a dataset, of which `jobs` are read at a time."""
    from concurrent.futures import ThreadPoolExecutor

    import xxhash

    if list(files) == [path]:
        size, digest = _digest(path)
        return {"bytes": size, "files": 1, "xxh3_128": digest}
    base = path if listing.is_dir(path) else path.parent
    named = [(file.relative_to(base).as_posix() if file.is_relative_to(base) else file.name, file) for file in files]
    total, tree = 0, xxhash.xxh3_128()
    named.sort()
    with ThreadPoolExecutor(jobs) as pool:
        for (name, _), (size, digest) in zip(named, pool.map(_digest, [file for _, file in named]), strict=True):
            total += size
            tree.update(f"{name} {size} {digest}\n".encode("utf-8", "surrogateescape"))
    return {"bytes": total, "files": len(named), "xxh3_128": tree.hexdigest()}


def _digest(path: Path) -> tuple[int, str]:
    import xxhash

    file, state = open_file(path), xxhash.xxh3_128()
    buffer = bytearray(min(_PIECE, file.size))
    try:
        for offset in range(0, file.size, _PIECE):
            piece = memoryview(buffer)[: min(_PIECE, file.size - offset)]
            file.read_into(offset, piece)
            state.update(piece)
    finally:
        file.close()
    return file.size, state.hexdigest()
