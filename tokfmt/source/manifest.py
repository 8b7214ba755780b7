"""The manifest `DST.tokfmt.json` beside each destination: what tokfmt wrote, from what, and with which options.

    {"schema": "tokfmt.manifest/1", "tokfmt": "0.1.0", "format": ..., "eos_id": ..., "eos_from": ...,
     "eos_stored": "after" | "before" | "none" | null, "bos_id": ID | null, "bos_stored": "before" | "none" | null,
     "sequences": ..., "tokens": ..., "max_id": ...,
     "separators": {"kept", "replaced", "added", "dropped", "bare"} | null,
     "leads": the same | null,
     "sources": [{"path", "format", "bytes", "files", "xxh3_128"}], "output": {...},
     "tokenizer": {...} | null, "options": {...}, "losses": {...}, "notes": [...], "shuffle": seed | null,
     "recipe": fingerprint | null, "labels": "recipe" | "stored" | null,
     "split": {"shares": {name: share}, "seed": ..., "by": ...} | null,
     "splits": {name: {"destination", "sequences", ...}},
     "more_sources": {"sources", "bytes", "files", "xxh3_128"}}

- `eos_stored` is "none" if the separators of the source were left out, or if it is known to have none (`--eos none`):
  an ID at the end of a sequence is then content. It is null if the destination stores no separator, and that of the
  source was not known.
- `bos_id` is the lead of the destination, or of the source if it was left out. `bos_stored` is "none" if no sequence of
  the destination begins with a lead: the ID at the beginning of a sequence is then content. Without a lead, both are
  null.
- `xxh3_128` of a file is the hash that `xxhsum -H128` prints. For a dataset of several files (`Format.files`) it is the
  hash of lines `relative-path size digest`, sorted by path. The paths are relative to the directory of the dataset, or
  to the directory of the file that was named. It is null for sources that are large in all.
- `sources` lists a recipe, and then the datasets that it names.
- `tokenizer` is null unless all IDs are known to be its own. It has the `name` that the user gave, and as `gaps` the
  numbers below its largest ID that it leaves out. A tokenizer of this machine also has its `path`, relative to the
  manifest.
- `output` of a dataset in a store also has `objects`: the key, bytes, ETag and xxh3_128 of each, if they are at most
  20,000.
- `partial` exists if a source is damaged. It has what was saved of each; see `tokfmt.source.partial`.
- `packed` exists if rows hold several documents or padding: `sequences` counts rows, and `tokens` what they hold.
- `ledger` exists if one was written: {"unit", "rows"}; see `tokfmt.mix.ledger`.
- `more_sources` exists if there are more than 20,000 sources. Its hash is over lines `path size digest` of the sources
  that are not listed, in order, with each path as given.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from tokfmt.base.options import parse_options
from tokfmt.base.threads import in_threads
from tokfmt.core.format import Format
from tokfmt.core.reader import Damage
from tokfmt.errors import ContradictionError, CorruptError, FormatError, OptionError, TokfmtError
from tokfmt.files.file import MANIFEST, File, names_in, open_file, read_whole, reading_error
from tokfmt.files.named import place_named
from tokfmt.files.place import AnyPlace, LocalPlace, Place, PlaceLike, is_address, place_of
from tokfmt.source.content import Manifest, dataset_path
from tokfmt.source.request import SourceFiles, SourceRequest, given_to, words_of
from tokfmt.wording import grouped, printable

SCHEMA = "tokfmt.manifest/1"
_LIMIT = 1 << 24  # maximum size of a manifest, in bytes
_PIECE = 1 << 19  # bytes of a local file that are hashed at a time, which stay in the cache of a core
_PIECE_OF_STORE = 1 << 23  # bytes of an object that are hashed at a time
_TOKENIZER = 1 << 28  # maximum size of a tokenizer.json, in bytes
_AT_ONCE = 16  # manifests in a store that are requested at a time
LITTLE = 1 << 26
"""Largest size in bytes of sources in stores, or of a text whose origin is asked for, to read for a checksum alone.

A store would send, and bill, larger ones twice.
"""
IGNORED = "the manifest is ignored"
_JOINING = {"view", "stride"}
"""Options of readers that decide if samples are joined."""
_HIDDEN = re.compile(r"\.(.+)\.tokfmt-[^.]+")  # the directory in which a destination is built: `files.publisher`
_OTHERS = 64  # manifests in a store that are read to find the splits of one run
_SHOWN = 40  # characters of a value that a message quotes
_IDS, _COUNTS = (1 << 32) - 1, (1 << 63) - 1
_BOUNDS = {
    **dict.fromkeys(("eos_id", "bos_id"), (0, _IDS)),
    "max_id": (-1, _IDS),
    **dict.fromkeys(("sequences", "tokens"), (0, _COUNTS)),
}


def manifest_path(path: AnyPlace) -> AnyPlace:
    """Return the path of the manifest of a dataset, which need not exist."""
    return path.parent / f"{path.name}{MANIFEST}"


def ledger_paths(path: AnyPlace) -> tuple[AnyPlace, AnyPlace]:
    """Return the paths of the ledger of a dataset, its rows and JSON that explains them, if it has one."""
    return path.parent / f"{path.name}.ledger", path.parent / f"{path.name}.ledger.json"


def read_manifest(path: Place) -> Manifest:
    """Return the manifest beside a dataset. If a link has none beside it, return that beside its target."""
    beside = manifest_path(path.normalized())
    if not beside.is_there():
        if not path.is_symlink():
            return Manifest({}, beside)
        beside = manifest_path(path.real())
    return _read_file(beside)


def announce_manifest(path: Place) -> None:
    """Announce the manifest beside a dataset in a store, before its format is known: .idx may stand for .bin."""
    names = {place.name: place for place in path.beside()}
    own = [name for name in (f"{path.name}{MANIFEST}", f"{path.stem}.bin{MANIFEST}") if name in names][:1]
    for place in map(names.__getitem__, own):
        size = place.status().size
        if size <= _LIMIT:
            open_file(place).prefetch([(0, size)], keep=True)


def manifests_of_siblings(dataset: Place) -> Iterator[Manifest]:
    """Yield the manifests in the directory of a dataset, and those that interrupted runs left in hidden directories.

    In a store, at most 64 with the stem of the dataset.
    """
    if not dataset.is_local:
        names = sorted(place.name for place in dataset.beside() if place.name.endswith(MANIFEST))
        yield from (_read_file(dataset.parent / name) for name in names[:_OTHERS])
        return
    with suppress(OSError):
        for name in sorted(dataset.parent.entries()):
            hidden = _HIDDEN.fullmatch(name)
            file = dataset.parent / (f"{name}/{hidden[1]}{MANIFEST}.draft" if hidden else name)
            if hidden or name.endswith(MANIFEST):
                yield _read_file(file)


def _read_file(file: Place) -> Manifest:
    try:
        content = json.loads(read_whole(file, _LIMIT))
    except FormatError as error:
        if isinstance(error.__cause__, FileNotFoundError):  # the target of a link has none, or it was just removed
            return Manifest({}, file)
        content = None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        return Manifest({}, file, broken="it is not JSON of a manifest")
    wrong = _invalid(content)
    return Manifest({}, file, broken=wrong) if wrong else Manifest(content, file)


def _invalid(content: Mapping[str, Any]) -> str:
    """Describe the first count or ID of a manifest that is out of bounds; "" if all are valid."""
    splits = content.get("splits")
    parts = [part for part in splits.values() if isinstance(part, dict)] if isinstance(splits, dict) else []
    for part in [content, *parts]:
        for key, (minimum, maximum) in _BOUNDS.items():
            value = part.get(key)
            if value is not None and (type(value) is not int or not minimum <= value <= maximum):
                shown = grouped(value) if type(value) is int else printable(json.dumps(value))[:_SHOWN]
                return f"its {key} is {shown} (expected a number from {minimum} to {maximum:,})"
    return ""


class LocatedTokenizer(NamedTuple):
    """The tokenizer that a manifest names, on this machine."""

    # of its file, its directory, or its directory in the cache of the hub; None if it was not found
    place: str | None = None
    problem: str = ""  # why it was not found; "" if it was found, or if the manifest names none


def located_tokenizer(path: Place, manifest: Manifest | None = None) -> LocatedTokenizer:
    """Find the tokenizer that made a dataset among the files of this machine, by the manifest of the dataset.

    A file with the digest of the manifest precedes any other. tokfmt does not use the network for this.
    """
    made = (read_manifest(path) if manifest is None else manifest).tokenizer
    name = made.get("name") if made is not None else None
    if made is None or not isinstance(name, str) or not name or "\0" in name:
        return LocatedTokenizer()
    if is_address(name):
        return _tokenizer_in_store(path, name, str(made["digest"]))
    from tokfmt.text.hub import TokenizerError, snapshot

    stated = [made["path"]] if "path" in made else []  # else the manifest has the name alone, as the user gave it
    beside = [str(path.parent / name)] if path.is_local else []
    looked = list(dict.fromkeys([name, *stated, *beside]))
    digests = {place: _tokenizer_digest(LocalPlace(place)) for place in looked if _is_there(LocalPlace(place))}
    for wanted in (made["digest"], None):  # None: a place without a tokenizer.json to compare
        for place, digest in digests.items():
            if digest == wanted:
                return LocatedTokenizer(place)
    with suppress(TokenizerError, ModuleNotFoundError):  # without huggingface-hub
        return LocatedTokenizer(snapshot(name, local=True))
    named = f"the manifest names {printable(name)} with digest {made['digest'][:8]}"
    if digests:
        other, other_digest = next(iter(digests.items()))
        return LocatedTokenizer(
            None, f"{named}, and {printable(other)} is another file (digest {str(other_digest)[:8]})"
        )
    return LocatedTokenizer(None, f"{named}, which is not at {' or '.join(map(printable, looked))}")


def _tokenizer_in_store(path: Place, name: str, digest: str) -> LocatedTokenizer:
    """Find a tokenizer that the manifest names by its address: in the store of the dataset only."""
    named = f"the manifest names {printable(name)} with digest {digest[:8]}"
    if path.is_local:
        return LocatedTokenizer(None, f"{named}, which is in a store")
    try:
        place = place_named(manifest_path(path), name)
    except TokfmtError:
        return LocatedTokenizer(None, f"{named}, which is not in the store of the dataset")
    if not _is_there(place):
        return LocatedTokenizer(None, f"{named}, which is not there")
    digest_in_store = _tokenizer_digest(place)
    if digest_in_store != digest:
        return LocatedTokenizer(None, f"{named}, which is another file now (digest {str(digest_in_store)[:8]})")
    return LocatedTokenizer(str(place))


def _is_there(place: Place) -> bool:
    with suppress(OSError, FormatError):  # the name of a tokenizer of the hub may be invalid as a file name
        return place.exists()
    return False


def _tokenizer_digest(place: Place) -> str | None:
    """Return the digest of a tokenizer.json, given by its path or directory; None if it is missing or too large."""
    from xxhash import xxh3_128_hexdigest

    try:
        file = place / "tokenizer.json" if place.is_dir() else place
        return xxh3_128_hexdigest(read_whole(file, _TOKENIZER))
    except FormatError:
        return None


def manifests_beside(
    datasets: Sequence[SourceFiles], request: SourceRequest, of_folder: FolderManifests | None = None
) -> tuple[list[Manifest], list[str]]:
    """Return the manifest of each dataset, compared with its files, and notes on manifests that are ignored."""
    read, notes = list[Manifest](), list[str]()
    of_folder = FolderManifests() if of_folder is None else of_folder
    for dataset in datasets:
        manifest = manifest_of(dataset, of_folder)
        wrong = next(contradictions(dataset, manifest), None)
        if wrong is not None:
            is_shrunk = request.allow_partial and not request.ignore_manifest and shrunk(dataset, manifest) is not None
            if not is_shrunk and not request.ignore_manifest:
                raise wrong
            if not is_shrunk:
                manifest = Manifest({})
                notes.append(f"the dataset {wrong.what}; {IGNORED}")
        elif manifest.broken:
            problem = f"the manifest {printable(manifest.path.name)} cannot be read"
            notes.append(f"{problem} and is not used: {manifest.broken}")
        read.append(manifest)
    return read, notes


def own_manifest(dataset: SourceFiles) -> Manifest:
    """Return the manifest of a dataset, which was read when the dataset was found."""
    return read_manifest(dataset.path) if dataset.manifest is None else dataset.manifest


def with_members(dataset: SourceFiles) -> Manifest:
    """Return the manifest beside a dataset. If a directory has none, return what those of its files are together.

    It has the facts that all of them state, and sums of their counts. Only the names in the directory are looked at to
    find them.
    """
    manifest = own_manifest(dataset)
    if manifest.content or manifest.broken or not dataset.files or not dataset.path.is_dir():
        return manifest
    names = set(names_in(dataset.path))
    files = {file.name: file for file in dataset.visible if file.parent == dataset.path}
    places = [file for name, file in files.items() if f"{name}{MANIFEST}" in names]
    if not places:
        return manifest
    read = list(in_threads(read_manifest, places, 1 if dataset.path.is_local else _AT_ONCE))
    described = {*places, *(file for place in places for file in dataset.format.companions(place))}
    path, content = dataset.path / f"*{MANIFEST}", dict[str, Any]()
    if not described.issuperset(dataset.visible):
        return Manifest({}, path, members=(*read, Manifest({}, manifest_path(dataset.path))))
    for key in _SHARED:
        values = [manifest.content.get(key) for manifest in read]
        if all(value == values[0] for value in values):
            content[key] = values[0]
    if not dataset.format.has_splits:
        counts = [manifest.counts(samples=manifest.rows) for manifest in read]
        for key, total in (("sequences", sum), ("tokens", sum), ("max_id", max)):
            numbers = [count[key] for count in counts if isinstance(count.get(key), int)]
            if len(numbers) == len(read):
                content[key] = total(numbers)
    return Manifest(content, path, members=tuple(read))


def members_of(dataset: SourceFiles, manifest: Manifest) -> Iterator[SourceFiles]:
    """Yield a dataset, or the files of a directory as datasets of their own if these have manifests."""
    if not manifest.members:
        yield dataset._replace(manifest=manifest)
    for member in manifest.members:
        if member.path.name != manifest_path(dataset.path).name:
            path, format_ = dataset.path / dataset_path(member.path).name, dataset.format
            yield SourceFiles(path, format_, tuple(format_.files(path)), opened=dataset.opened, manifest=member)


class FolderManifests(dict[tuple[Format, Place], tuple[Manifest, frozenset[str]]]):
    """The facts of a directory's manifest that hold for each file in it, without counts, and their names."""

    def __missing__(self, key: tuple[Format, Place]) -> tuple[Manifest, frozenset[str]]:
        format_, folder = key
        manifest, facts, names = read_manifest(folder), Manifest({}), frozenset[str]()
        if describes(manifest, format_, folder):
            facts = Manifest({key: manifest.content.get(key) for key in _SHARED}, manifest.path)
            names = frozenset(file.name for file in written_files(format_, folder) if file.parent == folder)
        self[key] = facts, names
        return facts, names


def manifest_of(dataset: SourceFiles, of_folder: FolderManifests | None = None) -> Manifest:
    """Return the manifest beside a dataset. For a file without one, return the shared facts of its directory's."""
    manifest = own_manifest(dataset)
    if manifest.content or dataset.path.is_dir():
        return manifest
    of_folder = FolderManifests() if of_folder is None else of_folder
    shared, names = of_folder[dataset.format, dataset.path.normalized().parent]
    return shared if dataset.path.name in names else manifest


_SHARED = ("format", "eos_id", "eos_stored", "bos_id", "bos_stored", "tokenizer", "options", "recipe", "labels")
"""Facts of the manifest of a directory that hold for each of its files."""


def as_written(
    format_: Format, request: SourceRequest, manifests: Sequence[Manifest]
) -> tuple[SourceRequest, tuple[str, ...]]:
    """Return the request with the options and the lead that the sources were written with, by their manifests.

    An option counts if the reader has it too, all manifests agree, and the user does not give it. There are two
    exceptions: a reader with the default "auto" finds the value in the files, and a split is the user's choice. Samples
    that were stored as they are, are read as sequences; see `core.rows`. Manifests of which some state that samples are
    sequences, or a lead, are an error; so is a lead for a recipe.
    """
    if format_.is_computed and isinstance(request.bos, int):
        raise OptionError(
            f"--bos: {printable(request.paths[0])} is a recipe, which makes its own sequences", name="bos"
        )
    manifests = [one for manifest in manifests for one in manifest.each]
    if request.eos is None:
        _check_separators(manifests)
    if not manifests or any(manifest.content.get("format") != format_.name for manifest in manifests):
        return request, ()
    asked = {name.replace("-", "_") for name in given_to(format_, request)}
    usual, written = asdict(format_.read_options()), manifests[0].options
    unlike = {name for one in manifests for name in usual if one.options.get(name) != written.get(name)}
    read_with = needed_to_read(format_, written, {*asked, *unlike, "split"})
    stated = [word for word in words_of(read_with) if word.partition("=")[0] in written]
    first = printable(manifests[0].path.name.removesuffix(MANIFEST))
    notes = [
        f"read with {word}, by the manifest of {first}; --from-opt {word} or another value overrides it"
        for word in stated
    ]
    if any(manifest.rows for manifest in manifests) and "view" in usual and not asked & _JOINING:
        _check_all_rows(manifests)
        read_with["view"] = "samples"
        joins = "stride=overlap" if "stride" in usual else "view=documents"
        joined = f"--from-opt {joins} joins them"
        notes.append(f"each sample is a sequence, by the manifest of {first}; {joined}")
    bos = request.bos
    if bos is None and any(manifest.ids[1] is not None for manifest in manifests):
        bos = _stated_lead(manifests)
        note = f"the lead {bos} of sequences is not content, by the manifest of {first}"
        notes.append(f"{note}; --bos none reads it as content")
    return replace(request, options={**request.options, **read_with}, bos=bos), tuple(notes)


def needed_to_read(format_: Format, written: Mapping[str, object], others: Container[str] = ()) -> dict[str, object]:
    """Return the options that a reader needs for what was written with some options, except `others`."""
    usual, writer, needed = asdict(format_.read_options()), asdict(format_.write_options()), dict[str, object]()
    for name in writer:
        value = written.get(name, writer[name])
        if name not in usual or name in others or value is None or usual[name] == "auto":
            continue
        with suppress(OptionError):  # the reader does not accept this value of the writer
            read = getattr(parse_options(format_.read_options, {name: str(value)}, format_.name), name)
            own = read == writer[name] and not isinstance(read, int)  # readers look for the writer's default themselves
            if read != usual[name] and not own:
                needed[name] = read
    return needed


def _stated_lead(manifests: Sequence[Manifest]) -> int | None:
    """Return the lead that all manifests state. If they state different ones, that is an error."""
    (_, lead), first = manifests[0].ids, manifests[0].path
    for other in manifests:
        if other.ids[1] != lead:
            stated = ["none" if lead_id is None else lead_id for lead_id in (lead, other.ids[1])]
            problem = f"states the lead {stated[0]}, and {printable(other.path.name)} states {stated[1]}"
            raise FormatError(first, problem, remedy="Read them one by one, or give --bos ID or --bos none")
    return lead


def _check_separators(manifests: Sequence[Manifest]) -> None:
    """Refuse manifests that state different separators."""
    stated = {manifest.ids[0]: manifest.path for manifest in reversed(manifests) if manifest.ids[0] is not None}
    if len(stated) > 1:
        (first, path), (other, other_path), *_ = reversed(stated.items())
        problem = f"states the separator {first}, and {printable(other_path.name)} states {other}"
        raise FormatError(path, problem, remedy="Read them one by one, or give --eos ID or --eos none")


def _check_all_rows(manifests: Sequence[Manifest]) -> None:
    rows, others = ([manifest.path for manifest in manifests if manifest.rows is stated] for stated in (True, False))
    if others:
        problem = f"states that each sample is a sequence, and {printable(others[0].name)} does not"
        remedy = "Read them one by one, or join the samples with --from-opt view=documents"
        raise FormatError(rows[0], problem, remedy=remedy)


def found_as_written(dataset: SourceFiles, request: SourceRequest) -> tuple[SourceRequest, tuple[str, ...]]:
    """Return `as_written` for a dataset that may be damaged; a manifest that contradicts it is ignored."""
    try:
        manifests, _ = manifests_beside([dataset], replace(request, ignore_manifest=True))
        return as_written(dataset.format, request, manifests)
    except FormatError:
        return request, ()


def contradictions(dataset: SourceFiles, manifest: Manifest) -> Iterator[CorruptError]:
    """Yield an error for each fact on the files of a dataset that its manifest, or one of a file, contradicts."""
    for member in members_of(dataset, manifest) if dataset.files else ():
        stated = own_manifest(member)
        yield from (contradiction(member.path, stated, *wrong) for wrong in file_differences(member, stated))


def file_differences(dataset: SourceFiles, manifest: Manifest) -> Iterator[tuple[str, Any, Any]]:
    """Compare a manifest with its files, and yield what differs. A difference is the fact ("the format", "files" or
    "bytes"), the value in the manifest, and the value found. If the formats differ, nothing follows.
    """
    if not manifest.output:
        return
    if manifest.content.get("format") != dataset.format.name:
        yield "the format", manifest.content.get("format"), dataset.format.name
        return
    of_files = extent(written_files(dataset.format, dataset.path, dataset.files))
    for key in ("files", "bytes"):
        if manifest.output.get(key) != of_files[key]:
            yield key, manifest.output.get(key), of_files[key]


def checksum_contradictions(
    dataset: SourceFiles, manifest: Manifest, files: Sequence[Measured]
) -> Iterator[CorruptError]:
    """Yield the errors of `checksum_contradiction`, also of the files of a directory without a manifest."""
    if not manifest.members:
        single = list(dataset.files) == [dataset.path]
        wrong = checksum_contradiction(dataset.path, manifest, combined(files, single=single))
        yield from () if wrong is None else (wrong,)
        return
    by_name = {file.name: file for file in files}
    for member in members_of(dataset, manifest):
        names = sorted(file.name for file in member.files if file.name in by_name)
        found = combined([by_name[name] for name in names], single=list(member.files) == [member.path])
        wrong = checksum_contradiction(member.path, own_manifest(member), found)
        yield from () if wrong is None else (wrong,)


def checksum_contradiction(path: Place, manifest: Manifest, measured: Mapping[str, Any]) -> CorruptError | None:
    """Return the error of a manifest that states another checksum than the files of its dataset have, or None.
    `measured` is what `fingerprint` returns. If its size or number is another one, nothing is compared: an index was
    made later, or `file_contradiction` reports it.
    """
    alike = all(manifest.output.get(key) == measured[key] for key in ("files", "bytes"))
    expected, found = manifest.output.get("xxh3_128"), measured["xxh3_128"]
    if not alike or not isinstance(expected, str) or expected == found:
        return None
    return contradiction(path, manifest, "the checksum", expected, found)


def shrunk(dataset: SourceFiles, manifest: Manifest) -> Damage | None:
    """Return the damage of a dataset that has fewer files or bytes than its manifest states; None for any other."""
    differences = list(file_differences(dataset, manifest)) if dataset.files else []
    if not differences or not all(
        type(stated) is int and type(found) is int and found < stated for _, stated, found in differences
    ):
        return None
    facts = "; ".join(
        f"expected {grouped(stated)} {quantity}, found {found:,}" for quantity, stated, found in differences
    )
    reason = f"{printable(dataset.path)}: its manifest {printable(manifest.path.name)} states more: {facts}"
    return Damage(reason, at_end=None)


def describes(manifest: Manifest, format_: Format, path: Place) -> bool:
    """Return whether a manifest states the format, the number of files and the size that a dataset has."""
    if not manifest.output or manifest.content.get("format") != format_.name:
        return False  # this answer needs no list of the directory
    dataset = SourceFiles(path, format_, tuple(format_.files(path)))
    return next(file_differences(dataset, manifest), None) is None


def contradiction(path: Place, manifest: Manifest, quantity: str, expected: object, found: object) -> CorruptError:
    """Return the error of a manifest that states another fact than its dataset shows."""
    may_be_cut = quantity in ("files", "bytes")
    return (CorruptError if may_be_cut else ContradictionError)(
        path,
        f"contradicts its manifest {printable(manifest.path.name)} in {quantity}",
        expected=expected,
        found=found,
        remedy="Copy it again, or remove the manifest if the change was intended; --ignore-manifest "
        "continues without it",
    )


def written_files(format_: Format, path: Place, files: Sequence[Place] | None = None) -> list[Place]:
    """Return the files of a dataset that a conversion wrote, companions too, but no index made later."""
    inside, own = f"{path}{os.sep}", {path, *format_.companions(path)}
    inside = inside.removeprefix(f"{os.curdir}{os.sep}")  # pathlib removes a leading "./" from the paths of the files
    written = format_.files(path) if files is None else files
    return [file for file in written if file in own or str(file).startswith(inside)]


def extent(files: Iterable[Place]) -> dict[str, Any]:
    """Return the total size and the number of files as `bytes` and `files`, without a checksum."""
    total, count = 0, 0
    for file in files:
        try:
            total, count = total + file.status().size, count + 1
        except OSError as error:
            raise reading_error(file, error) from error
    return {"bytes": total, "files": count, "xxh3_128": None}


class Measured(NamedTuple):
    """A file of a dataset."""

    name: str  # relative to the directory of the dataset, or to the directory of the file that was named
    size: int  # in bytes
    digest: str  # XXH3-128 in hexadecimal


def fingerprint(
    path: Place, files: Sequence[Place], jobs: int = 1, opened: dict[Place, File] | None = None
) -> dict[str, Any]:
    """Return the size, number and checksum of the files of a dataset; `opened` ones are taken and closed."""
    return combined(measured(path, files, jobs, opened), single=list(files) == [path])


def measured(
    path: Place, files: Sequence[Place], jobs: int = 1, opened: dict[Place, File] | None = None
) -> list[Measured]:
    """Return the size and the checksum of each file of a dataset, sorted by name."""
    if list(files) == [path]:  # a thread would take longer than most files of a conversion from thousands of files
        return [Measured(path.name, *digest_of_file(path, opened))]
    base = path if path.is_dir() else path.parent
    below = ((file.relative(base), file) for file in files)
    named = [(file.name if names is None else names.as_posix(), file) for names, file in below]
    named.sort(key=lambda one: (one[0], one[1].parts))
    digests = in_threads(lambda file: digest_of_file(file, opened), [file for _, file in named], jobs)
    return [Measured(name, *digest) for (name, _), digest in zip(named, digests, strict=True)]


def combined(files: Sequence[Measured], *, single: bool) -> dict[str, Any]:
    """Return the size, number and checksum of a dataset of these files; a single one keeps its checksum."""
    import xxhash

    if single:
        return {"bytes": files[0].size, "files": 1, "xxh3_128": files[0].digest}
    total, tree = 0, xxhash.xxh3_128()
    for name, size, digest in files:
        total += size
        tree.update(f"{name} {size} {digest}\n".encode("utf-8", "surrogateescape"))
    return {"bytes": total, "files": len(files), "xxh3_128": tree.hexdigest()}


def digest_of_file(path: PlaceLike, opened: dict[Place, File] | None = None) -> tuple[int, str]:
    """Return the size and the XXH3-128 of a file. If it is open already, it is taken out of `opened`."""
    import xxhash

    place, state = place_of(path), xxhash.xxh3_128()
    file = (opened or {}).pop(place, None) or open_file(place)
    file.expect(may_be_page=True)
    size = file.size
    step = _PIECE if place.is_local else _PIECE_OF_STORE
    buffer = bytearray(min(step, size))
    try:
        for offset in range(0, size, step):
            piece = memoryview(buffer)[: min(step, size - offset)]
            file.read_into(offset, piece)
            state.update(piece)
    finally:
        file.close()
    return size, state.hexdigest()
