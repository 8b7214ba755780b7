"""What is known of a run: the options of the format `run`, which are also the keys of `[run]` in a TOML file."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, TypeVar, cast

from tokfmt.base.options import fit, given_options, hints_of, nearest, option
from tokfmt.core.reader import INT32_MAX
from tokfmt.errors import FormatError, OptionError, UnsafeError
from tokfmt.files.named import place_named
from tokfmt.files.place import Place, is_address, place_of
from tokfmt.mix import RECIPE_VERSION, read_table
from tokfmt.wording import printable

Framework = Literal[
    "megatron-core", "megatron-lm", "gpt-neox", "nanoset", "mosaic-streaming", "litdata", "olmo-core", "olmo"
]
_MANY = 1 << 40
_BATCH, _RANKS = 1 << 22, 1 << 17
_T = TypeVar("_T")
_DEPTH = 8  # levels of sources
_LARGEST = 1e15  # sum of weights


_Table = TypeVar("_Table", "ReadOptions", "SourceTable")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The facts of a run. Those that its order files state are taken from there."""

    framework: Framework | None = option(None, "framework that ran; auto: the one whose order files are there")
    cache: str | None = option(None, "folder of the order files; auto: the path")
    root: str | None = option(None, "the folder in which relative paths of order files begin")
    order: str | None = option(None, "beginning of the name of the order file to read, if there are several")
    split: str = option("train", "train, valid or test")
    batch_size: int | None = option(None, "samples of a step, over all ranks", minimum=1, maximum=_BATCH)
    batch_schedule: tuple[str, ...] = option((), "SAMPLES:BATCH, with commas: the batch size from a number of samples")
    rampup: tuple[str, ...] = option((), "START,INCREMENT,SAMPLES: batch sizes that grow (rampup_batch_size)")
    micro_batch_size: int = option(1, "samples of a micro batch of one rank", minimum=1, maximum=_BATCH)
    world_size: int | None = option(None, "data-parallel ranks; auto: 1", minimum=1, maximum=_RANKS)
    consumed: int | None = option(None, "samples read before this stretch; auto: 0", minimum=0, maximum=_MANY)
    samples: int | None = option(None, "samples that the run asked for", minimum=1, maximum=_MANY)
    dataloader_type: Literal["single", "cyclic"] = option("single", "megatron: how the loader passes over samples")
    data_sharding: bool = option(True, "megatron: a cyclic loader shuffles the share of each rank by itself")
    extra_token: bool = option(True, "megatron: a sample has one token more, its last label")
    data_path: tuple[str, ...] = option((), "megatron-lm: WEIGHT,PATH,WEIGHT,PATH as in the run's arguments; or PATH")
    train_data_paths: tuple[str, ...] = option((), "gpt-neox: the paths of the data, with commas")
    train_data_weights: tuple[str, ...] = option((), "gpt-neox: their weights, with commas")
    preshuffled: bool = option(False, "gpt-neox: the sequences of data_path are the samples, in order (Pythia)")
    dataset_folders: tuple[str, ...] = option((), "nanoset: the folders, with commas")
    dataset_weights: tuple[str, ...] = option((), "nanoset: their weights, with commas")
    sequence_length: int | None = option(None, "input tokens of a sample", minimum=1, maximum=1 << 24)
    seed: int | None = option(
        None, "nanoset, litdata, olmo, olmo-core: seed of the order", minimum=0, maximum=INT32_MAX
    )
    streams: tuple[str, ...] = option((), "mosaic-streaming: the folders, with commas")
    proportion: tuple[str, ...] = option((), "mosaic-streaming: their shares of an epoch, with commas")
    repeat: tuple[str, ...] = option((), "mosaic-streaming: how often each is in an epoch, with commas")
    choose: tuple[str, ...] = option((), "mosaic-streaming: samples of each in an epoch, with commas")
    epoch_size: int | None = option(None, "mosaic-streaming: samples of an epoch", minimum=1, maximum=_MANY)
    shuffle: bool | None = option(None, "mosaic-streaming, litdata, olmo-core: samples are shuffled")
    shuffle_algo: Literal["py1e", "py1br", "py1s", "py2s", "naive"] = option("py1e", "mosaic-streaming: how")
    shuffle_seed: int | None = option(None, "mosaic-streaming: seed; auto: 9176", minimum=0, maximum=INT32_MAX)
    shuffle_block_size: int | None = option(
        None, "mosaic-streaming: samples that are mixed; auto: as upstream", minimum=2, maximum=_MANY
    )
    num_canonical_nodes: int | None = option(
        None, "mosaic-streaming: of the state; auto: as upstream", minimum=1, maximum=1 << 17
    )
    sampling_method: Literal["balanced", "fixed"] = option("balanced", "mosaic-streaming: balanced or fixed")
    batching_method: Literal["random", "stratified", "per_stream"] = option("random", "mosaic-streaming: how")
    nodes: int = option(1, "mosaic-streaming, litdata: physical nodes", minimum=1, maximum=_RANKS)
    num_workers: int | None = option(None, "mosaic-streaming, litdata: of a rank; auto: 1", minimum=1, maximum=1 << 16)
    input_dir: tuple[str, ...] = option((), "litdata: the folders, with commas")
    weights: tuple[str, ...] = option((), "litdata: the weights of several folders, with commas")
    combined_seed: int | None = option(
        None, "litdata: seed of CombinedStreamingDataset; auto: 42", minimum=0, maximum=INT32_MAX
    )
    block_size: int | None = option(None, "litdata: IDs of a block of TokensLoader", minimum=2, maximum=1 << 24)
    drop_last: bool | None = option(None, "litdata, olmo: the end of an epoch is left out; litdata, auto: with ranks")
    item_shuffle_window: int | None = option(
        None, "litdata: samples of a chunk that are shuffled together; auto: 256", minimum=0, maximum=_MANY
    )
    epoch: int | None = option(
        None, "epoch in which this stretch began; olmo-core, litdata: from 1", minimum=0, maximum=INT32_MAX
    )
    sample_in_epoch: int | None = option(
        None, "samples of that epoch that were read before this stretch", minimum=0, maximum=_MANY
    )
    paths: tuple[str, ...] = option((), "olmo, olmo-core: the token files as the run names them, in order")
    dtype: Literal["uint8", "uint16", "uint32", "uint64"] | None = option(None, "olmo, olmo-core: type of the IDs")
    eos_token_id: int | None = option(None, "olmo, olmo-core: ID that ends documents", minimum=0, maximum=_MANY)
    dataset: Literal["fsl", "packed_fsl", "padded_fsl", "vsl"] | None = option(
        None, "olmo-core: kind of the dataset; auto: by the order files"
    )
    max_target_sequence_length: int | None = option(
        None,
        "olmo-core: instances of so many tokens stay together; auto: by the order files",
        minimum=1,
        maximum=1 << 24,
    )
    shuffle_strategy: Literal["inter_source", "intra_source", "interleaved_source"] | None = option(
        None, "olmo-core: how several sources are shuffled; auto: by the order files"
    )
    requested_tokens: int | None = option(
        None, "olmo-core: tokens that a source mixture asks for", minimum=1, maximum=1 << 60
    )
    pad_id: int | None = option(None, "ID that fills short samples", minimum=0, maximum=INT32_MAX)


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table `[[run.source]]`: token files, or a mix of the tables `[[run.source.source]]` below it."""

    name: str | None = option(None, "name of the source; auto: that of its first file")
    paths: tuple[str, ...] = option((), "the token files of the source, in order")
    ratio: float | None = option(None, "share of the source in its mix", minimum=0, maximum=1)
    max_repetition_factor: float | None = option(None, "how often a mix may repeat it", minimum=1, maximum=1 << 20)
    seed: int | None = option(None, "of a mix", minimum=0, maximum=INT32_MAX)


class SourceTree(NamedTuple):
    """A source of a run, and those that it mixes."""

    table: SourceTable
    inner: tuple[SourceTree, ...]


Roots = Mapping[str, str]
"""Where paths that order files name are now: the beginning of a path, and what takes its place."""


def weights_of(name: str, words: Sequence[str], many: int) -> list[float]:
    """Return the numbers of a key that has one for each source of a run."""
    try:
        weights = [float(word) for word in words]
    except ValueError:
        weights = []
    if len(weights) != many or not 0 < sum(weights) < _LARGEST or not all(weight >= 0 for weight in weights):
        raise OptionError(f"{name} is not one number, of at least 0, for each of {many} sources", name=name)
    return weights


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of a run, and the place that paths are relative to."""

    where: Place  # the TOML file, or the folder of the order files
    home: Place  # that paths are relative to
    given: ReadOptions
    roots: Roots | None  # None: nothing says where the paths that order files name are
    tree: tuple[SourceTree, ...] = ()
    _read: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, name: str, read: Callable[[RunFacts], _T]) -> _T:
        """Return what a framework reads of order files, which its sources and its order are made of."""
        if name not in self._read:
            self._read[name] = read(self)
        found: _T = self._read[name]
        return found

    @property
    def cache(self) -> Place:
        """The folder of the order files."""
        cache = self.given.cache
        return self.home if cache is None else place_named(self.where, cache, self.home)

    def located(self, path: str, by: Place) -> Place:
        """Return where a dataset is that an order file names. Only the user says what is opened: `root`, or a table of
        beginnings of paths.
        """
        if self.roots is None:
            raise FormatError(
                by,
                f"names {printable(path)}",
                remedy="--from-opt root=DIR says where such paths begin now, and root = { OLD = NEW } below [run] of "
                "a TOML file maps absolute ones",
            )
        for old in sorted(self.roots, key=len, reverse=True):
            if old and (path == old or path.startswith(old.rstrip("/") + "/")):
                return self._below(self.roots[old], path[len(old) :].lstrip("/"), by)
        if "" in self.roots and not path.startswith("/") and not is_address(path):
            return self._below(self.roots[""], path, by)
        raise UnsafeError(
            by,
            f"names {printable(path)}, which root does not map",
            remedy="Add the beginning of that path to the table root below [run]",
        )

    def named(self, path: str) -> Place:
        """Return where a dataset is that the user names, as the run named it."""
        is_absolute = path.startswith("/") or is_address(path)
        roots = self.roots or {}
        if roots and (not is_absolute or any(old and path.startswith(old.rstrip("/") + "/") for old in roots)):
            return self.located(path, self.where)
        return place_named(self.where, path, self.home)

    def _below(self, root: str, path: str, by: Place) -> Place:
        rest = posixpath.normpath(path) if path else "."
        if rest.startswith(("..", "/")):
            raise UnsafeError(by, f"names {printable(path)}, which is outside of {printable(root)}")
        home = place_named(self.where, root, self.home)
        return home if rest == "." else home / rest


def facts_of(path: Place, options: ReadOptions) -> RunFacts:
    """Return the facts of a run: of a TOML file, or of a folder of order files with the options of the user."""
    options = replace(
        options,  # a word of the command line is relative to the directory of the user, a key to the file that has it
        root=None if options.root is None else _absolute(options.root),
        cache=None if options.cache is None else _absolute(options.cache),
    )
    if path.is_dir():
        return RunFacts(path, path, _split_lists(options), None if options.root is None else {"": options.root})
    table = read_table(path)
    if "source" in table:
        raise FormatError(path, "has both [run] and [[source]]", remedy="A recipe and a run are two files")
    version = table.pop("tokfmt")
    if version != RECIPE_VERSION:
        raise FormatError(
            path, f"is of version {printable(str(version))}", remedy=f"This tokfmt reads version {RECIPE_VERSION}"
        )
    stated = table.pop("run", {})
    if unknown := [*table] or (not isinstance(stated, Mapping) and ["run"]):
        raise FormatError(path, f"has {printable(str(unknown[0]))}, which no run has", remedy="Write keys below [run]")
    roots = _roots(path, stated.get("root"))
    tree = _tree(stated.get("source", []), path) if "source" in stated else ()
    values = {key: value for key, value in stated.items() if key not in ("root", "source")}
    values.update({f.name: now for f in fields(options) if (now := getattr(options, f.name)) != f.default})
    if options.root is not None:
        roots = {"": options.root}
    return RunFacts(path, path.parent, _split_lists(_parsed(ReadOptions, values, path, "[run]")), roots, tree)


def _absolute(path: str) -> str:
    return place_of(path).normalized().text


def _tree(entries: object, path: Place, depth: int = 0) -> tuple[SourceTree, ...]:
    if not isinstance(entries, list) or not entries or not all(isinstance(one, Mapping) for one in entries):
        raise FormatError(path, "[run]: source is not a table", remedy="Begin each source with [[run.source]]")
    if depth > _DEPTH:
        raise FormatError(path, f"has mixes of mixes in more than {_DEPTH} levels")
    found = list[SourceTree]()
    for entry in entries:
        values = {key: value for key, value in entry.items() if key != "source"}
        inner = _tree(entry["source"], path, depth + 1) if "source" in entry else ()
        table = _parsed(SourceTable, values, path, "[[run.source]]")
        if bool(inner) == bool(table.paths):
            raise FormatError(path, "[[run.source]] has either paths, or [[run.source.source]] tables below it")
        found.append(SourceTree(table, inner))
    return tuple(found)


def _parsed(kind: type[_Table], values: Mapping[str, object], path: Place, where: str) -> _Table:
    known, hints = {f.name: f for f in fields(kind)}, hints_of(cast("Any", kind))
    fitting = dict[str, Any]()
    for key, value in given_options(values).items():
        if key not in known:
            near = nearest(key, known)
            what = f"has the key {printable(key)} below {where}, which no run has"
            raise FormatError(path, what, remedy=f"Write {near}" if near else "tokfmt formats run lists them")
        listed = [str(one) for one in value] if isinstance(value, list) else value
        try:
            fitting[key] = fit(key, listed, hints[key], known[key].metadata)
        except OptionError as error:
            raise FormatError(path, f"{where}: {error}") from error
    return kind(**fitting)


def _split_lists(options: ReadOptions) -> ReadOptions:
    """Return options whose lists are divided at commas, as the command line gives them."""
    values = {f.name: getattr(options, f.name) for f in fields(options)}
    for name, value in values.items():
        if isinstance(value, tuple):
            values[name] = tuple(word for one in cast("tuple[str, ...]", value) for word in one.split(",") if word)
    return ReadOptions(**values)


def _roots(path: Place, root: object) -> Roots | None:
    if root is None:
        return None
    if isinstance(root, str):
        return {"": root}
    if isinstance(root, Mapping) and all(isinstance(value, str) for value in root.values()):
        return {str(old): str(new) for old, new in root.items()}
    raise FormatError(path, "[run]: root is neither a folder nor a table of folders", remedy='root = "." is one')
