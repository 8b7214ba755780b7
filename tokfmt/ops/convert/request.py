"""What is asked of a conversion, what is said of it afterwards, and `--shuffle` and `--split NAME=SHARE,...`.

Sequence i of the selection goes to the split that `draws(seed, SPLIT, i)` falls to, whatever else is asked for: a
shuffle by another seed, another format or dropped empty sequences never move a sequence from one split to another. Each
split is then shuffled by itself.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import TokenReader
from tokfmt.core.draws import SPLIT, check_seed, draws
from tokfmt.core.errors import DestinationExistsError, OptionError
from tokfmt.core.format import REGION, Format, TokenWriter
from tokfmt.core.options import parse_options
from tokfmt.core.protocols import marks_of
from tokfmt.core.records import RecordReader
from tokfmt.core.text_format import counted, printable
from tokfmt.ops.destination import guard
from tokfmt.ops.source.request import SourceFiles, SourceRequest, option_names, parse_selection
from tokfmt.run.execute import Progress
from tokfmt.run.plan import Shard, Workers, plan, run
from tokfmt.views.select import Chosen
from tokfmt.views.view import Joined, Parted

if TYPE_CHECKING:
    from tokfmt.ops.source.opened import Source

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_SHARE = re.compile(r"[0-9]*\.?[0-9]+([eE]-[0-9]{1,2})?")
_NEAR = Fraction(1, 10**9)
_EXAMPLE = "Write for example --split train=0.99,validation=0.01"


@dataclass(frozen=True, slots=True)
class Shares:
    """How sequences are dealt out.

    Attributes:
        names: Of the splits, in order.
        shares: Of each, more than 0; together 1.
        seed: What deals.
        seeded: Somebody chose that seed.
    """

    names: tuple[str, ...]
    shares: tuple[Fraction, ...]
    seed: int
    seeded: bool

    def split_of(self, first: int, last: int) -> NDArray[np.intp]:
        """Number of the split of each sequence `first <= i < last`."""
        most = (1 << 64) - 1
        bounds = [min(int(share * (most + 1)), most) for share in accumulate(self.shares[:-1])]
        drawn = draws(self.seed, SPLIT, first, last)
        return np.searchsorted(np.array(bounds, np.uint64), drawn, side="right")

    def described(self) -> dict[str, object]:
        """For the manifest."""
        return {
            "shares": {name: float(share) for name, share in zip(self.names, self.shares, strict=True)},
            "seed": self.seed,
        }


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What is asked for; by default every sequence, in order.

    Attributes:
        shuffle: Seed of the shuffled order, None for the order there is.
        shares: How sequences are dealt out to splits, None when they are not.
    """

    shuffle: int | None = None
    shares: Shares | None = None

    @property
    def plain(self) -> bool:
        """Everything stays as it is."""
        return self.shuffle is None and self.shares is None


AS_IT_IS = Arrangement()


@dataclass(frozen=True, slots=True)
class Portion:
    """What one writer writes.

    Attributes:
        number: 0, 1, ...
        split: Name of the split, None when all sequences are written.
        destination: Where they go; splits may share it.
        options: Of the writer: the format's `write_options`.
    """

    number: int
    split: str | None
    destination: Path
    options: Any


@dataclass(frozen=True, slots=True)
class Written:
    """What was written of a portion, or would be; None where nobody knows yet, or nothing is counted.

    Attributes:
        sequences, tokens: How many.
        max_id: Largest id written.
        tasks: How many wrote it.
        merged: Final separators of sequences that were given no other; see `TokenWriter.merged`.
        least: Bytes that it would take at least; see `TokenWriter.least_bytes`.
    """

    portion: Portion
    sequences: int | None
    tokens: int | None
    max_id: int | None = None
    tasks: int = 0
    merged: int = 0
    least: int | None = None


def holds_something(source: Source) -> bool:
    """Sequences, or at least bytes that may be records."""
    return bool(source.reader.info.size if isinstance(source.reader, RecordReader) else source.reader.info.sequences)


def total_of(counts: Sequence[int | None]) -> int | None:
    """The sum of what was written; None if one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def arrangement_of(shuffle: int | None, split: str | None, seed: int | None) -> Arrangement:
    """From the values of --shuffle, --split and --seed; a split without shares is not its business.

    Raises:
        OptionError: Shares that are none, a seed that is none, a seed that nothing uses.
    """
    if shuffle is not None:
        check_seed(shuffle, "--shuffle")
    if split is None or "=" not in split:
        if seed is not None:
            raise OptionError(f"--seed: nothing is dealt out to splits. {_EXAMPLE}", name="seed")
        return Arrangement(shuffle)
    names, shares = _parsed(split)
    return Arrangement(shuffle, Shares(names, shares, check_seed(seed or 0, "--seed"), seed is not None))


def _parsed(text: str) -> tuple[tuple[str, ...], tuple[Fraction, ...]]:
    shares: dict[str, Fraction] = {}
    for word in text.split(","):
        name, share = (part.strip() for part in (*word.split("=", 1), "")[:2])
        if not _NAME.fullmatch(name):
            raise OptionError(
                f"--split {printable(text)}: {printable(name)!r} is not a plain name. {_EXAMPLE}", name=name
            )
        if name in shares:
            raise OptionError(f"--split {text}: {name} is there twice", name=name)
        if not _SHARE.fullmatch(share) or not 0 < Fraction(share) <= 1:
            raise OptionError(
                f"--split {printable(text)}: the share of {name} is not a number above 0 and up to 1. {_EXAMPLE}",
                name=name,
            )
        shares[name] = Fraction(share)
    total = sum(shares.values(), Fraction())
    if abs(total - 1) > _NEAR:
        raise OptionError(f"--split {text}: the shares sum to {float(total):.10g}, not to 1. {_EXAMPLE}", name="split")
    return tuple(shares), tuple(shares.values())


def portions(
    arrangement: Arrangement, destination: Path, format_: Format, given: Mapping[str, object]
) -> list[Portion]:
    """What is written where: all splits to one destination if its format has splits, else one each.

    Args:
        given: The writer's options that were given.

    Raises:
        OptionError: The format has no such option, or its option `split` contradicts --split.
    """

    def portion(number: int, name: str | None, path: Path, also: Mapping[str, object] = given) -> Portion:
        return Portion(number, name, path, parse_options(format_.write_options, also, format_.name))

    shares = arrangement.shares
    if shares is None:
        return [portion(0, None, destination)]
    if "split" not in option_names(format_.write_options):
        return [portion(k, name, split_path(destination, format_, name)) for k, name in enumerate(shares.names)]
    if "split" in given:
        raise OptionError(
            "--to-opt split= names one split, --split NAME=SHARE,... several. Leave one out", name="split"
        )
    return [portion(k, name, destination, {**given, "split": name}) for k, name in enumerate(shares.names)]


def split_path(destination: Path, format_: Format, split: str) -> Path:
    """`out.pbin` to `out.train.pbin`; a name without one of the format's suffixes to `out.train`."""
    name = destination.name
    suffixes = [e if e.startswith(".") else Path(e).suffix for e in format_.extensions]
    found = next((suffix for suffix in suffixes if suffix and name.endswith(suffix) and name != suffix), "")
    return destination.with_name(f"{name.removesuffix(found)}.{split}{found}")


def portion_of(axis: TokenReader, arrangement: Arrangement, portion: Portion) -> TokenReader:
    """The sequences of a portion, in order of the source."""
    shares = arrangement.shares
    if shares is None:
        return axis
    return Chosen(axis, lambda first, last: shares.split_of(first, last) == portion.number)


@contextmanager
def arranged(
    axis: TokenReader, arrangement: Arrangement, portion: Portion, workers: Workers, progress: Progress,
    *, marked: bool = False,
) -> Iterator[TokenReader]:  # fmt: skip
    """The sequences of a portion, in their order; what it takes in scratch goes at the end, if nothing is kept.

    With `marked`, what stands beside tokens (`protocols.Marked`) goes through the shuffle with them.
    """
    chosen = portion_of(axis, arrangement, portion)
    if arrangement.shuffle is None:
        yield chosen
        return
    from tokfmt.run.shuffle import shuffled

    marked = marked and marks_of(chosen) is not None
    chosen = Joined(chosen) if marked else chosen
    progress.phase(" ".join(filter(None, ("shuffling", portion.split))), chosen.info.tokens, "tokens")
    part = portion.split or ""
    with shuffled(chosen, arrangement.shuffle, workers, part=part, progress=progress.advance) as reader:
        yield Parted(reader, axis.info.dtype) if marked else reader


def write(
    reader: TokenReader,
    writer: TokenWriter,
    portion: Portion,
    size: int,
    workers: Workers,
    progress: Progress,
    shard: Shard | None = None,
) -> Written:
    """Write a reader, or one shard of it, in regions of about `size` tokens."""
    job = plan(reader, writer, size)
    lengths = {region.index: len(region.tokens) for region in job.regions}
    progress.phase(" ".join(filter(None, ("writing", portion.split))), sum(lengths.values()), "tokens")
    top = -1
    for receipt in run(job, workers, shard, portion.split or ""):
        top = max(top, receipt.max_id)
        progress.advance(lengths[receipt.region])
    info = reader.info
    merged = getattr(writer, "merged", lambda source: 0)(reader)
    return Written(portion, info.sequences, info.tokens - merged, top if top >= 0 else None, len(job.regions), merged)


@dataclass(frozen=True, slots=True)
class Request:
    """Everything a user may say about a conversion; see `convert` for the meaning of each.

    Attributes:
        rejects: Where what filters of a recipe leave out is written.
        ledger: Write which record of which file each sequence of a recipe comes from.
        piped: Sources that are copies of what was piped in, and the names of the pipes.
    """

    source: SourceRequest
    destination: Path
    to: str | None = None
    to_options: Mapping[str, object] = field(default_factory=dict)
    tokenizer: str | None = None
    special_tokens: Literal["text", "parse"] = "text"
    engine: Literal["auto", "fastokens", "tokenizers"] = "auto"
    seq_len: int | None = None
    select: str | None = None
    arrangement: Arrangement = AS_IT_IS
    jobs: int = 1
    executor: str = "threads"
    overwrite: bool = False
    verify: bool = False
    dry_run: bool = False
    manifest: bool = True
    checksums: bool = False
    region: int = REGION
    resume: bool = False
    shard: Shard | None = None
    finish: int = 0
    rejects: Path | None = None
    ledger: bool = False
    piped: Mapping[str, str] = field(default_factory=dict)

    @property
    def kept(self) -> str:
        """Name of the staging directory that outlives an interruption; empty: none does."""
        return "shards" if self.shard or self.finish else "resume" if self.resume else ""

    def given_to_writer(self, format_: Format) -> dict[str, object]:
        """The writer's options, as far as they were given.

        Raises:
            OptionError: A length of samples, and the format has none.
        """
        known, given = option_names(format_.write_options), dict(self.to_options)
        if self.seq_len is not None:
            if "seq_len" not in known:
                raise OptionError(f"--seq-len: {format_.name} has no samples", name="seq-len")
            given["seq_len"] = self.seq_len
        if self.source.split and "split" in known:
            given.setdefault("split", self.source.split)
        return given


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was converted, or would be (`dry_run`).

    Attributes:
        destination: Path as given.
        format: The destination's.
        sources: Path and format of each source.
        sequences, tokens: What the destination holds, separators not counted; None before text is tokenised.
        max_id: Largest id written (separators included where they are stored); None if not known.
        separator: The id, how it is known, and whether that was inferred.
        dropped: What was given up, by its --drop name.
        notes: What a person should know.
        plan: Tasks and executor.
        verified: The destination was read back and compared.
        compared: What of it, in numbers: "sequences" and "tokens", "texts", or "records".
        tokenizer: What made or read the ids.
        sample_length: Tokens in a sample, for formats that have samples.
        dry_run: Nothing was written.
        shuffle: Seed of the shuffled order, None if the order is the source's.
        splits: Where each split went, and what it holds, by name.
        recipe: Fingerprint of the recipe whose samples are stored as they are, None where sequences are stored.
        replaces: What stands at a destination and would go (`dry_run`), in words, by path.
        prepared: Of a recipe, what each source gives, and of text what became of its documents: see
            `tokfmt.ops.prepare.report`.
        padded: Positions that hold padding in the samples of recipes, which are among `tokens`.
        partial: Of each source that is damaged, what was saved and what was not; see `ops.source.partial.Partial`.
    """

    destination: str
    format: str
    sources: list[dict[str, object]]
    sequences: int | None
    tokens: int | None
    max_id: int | None
    separator: dict[str, object]
    dropped: dict[str, str]
    notes: list[str]
    plan: dict[str, object]
    verified: bool = False
    compared: dict[str, int] = field(default_factory=dict)
    tokenizer: dict[str, object] | None = None
    sample_length: int | None = None
    dry_run: bool = False
    shuffle: int | None = None
    splits: dict[str, dict[str, object]] = field(default_factory=dict)
    recipe: str | None = None
    replaces: dict[str, str] = field(default_factory=dict)
    prepared: list[Mapping[str, Any]] = field(default_factory=list)
    padded: int = 0
    partial: list[Mapping[str, Any]] = field(default_factory=list)


def refuse_shards(request: Request) -> None:
    """Refuse an order or shares with --shard: a shard writes its part without any other being there.

    Raises:
        OptionError.
    """
    arrangement = request.arrangement
    if not request.shard or arrangement.plain:
        return
    if arrangement.shuffle is not None:
        what, why = "--shuffle", "in a shuffled order a part may need any sequence, so each shard would read all"
    else:
        what, why = "shares in --split", "--finish publishes one destination, and splits are several"
    raise OptionError(
        f"--shard does not go with {what}: {why}. --executor dask spreads one run over machines, and --resume "
        "continues it"
    )


def refuse_splits_of_one_file(portions: Sequence[Portion], writer: TokenWriter) -> None:
    """Refuse several splits in one file: a format that has splits keeps them in a folder.

    Raises:
        OptionError.
    """
    first, *others = portions
    if getattr(writer, "single", False) and any(one.destination == first.destination for one in others):
        raise OptionError(
            f"--split: {printable(first.destination)} is one file (expected a folder, which holds a file for each "
            "split). Name a folder"
        )


def refuse_text(sources: Sequence[Source], format_: Format) -> None:
    """Refuse text without a tokenizer.

    Raises:
        OptionError.
    """
    for source in sources:
        if isinstance(source.reader, RecordReader) and source.reader.info.kind == "text":
            raise OptionError(
                f"{printable(source.paths[0])}: holds text, and {format_.name} holds token ids. "
                "Say how to encode it with --tokenizer NAME|DIR|FILE"
            )


def refuse_undealt(request: Request, sources: Sequence[Source], *, copies: bool) -> None:
    """Refuse shards of a conversion that has nothing to deal out.

    Raises:
        OptionError: Its lines are copied, or it compares ids, both in one go.
    """
    if request.shard is None:
        return
    why = "lines are copied as they stand" if copies else ""
    for source in sources:
        records = source.reader
        if source.format.name == "recipe" and isinstance(records, RecordReader) and records.info.kind == "ids":
            why = "equal sequences of ids are looked for"
    if why:
        raise OptionError(f"--shard: {why}, which is done in one go. Leave it out; --resume continues such a run")


def refuse_selection_of_none(selection: str, sources: Sequence[Source]) -> None:
    """Refuse a selection without sequences, where the target has to know what separates them.

    Raises:
        OptionError.
    """
    readers = [source.reader for source in sources]
    count = sum(one.count() if isinstance(one, RecordReader) else one.info.sequences for one in readers)
    first, last = parse_selection(selection, count, [path for source in sources for path in source.paths])
    if first == last:
        there = counted(count, "sequence")
        raise OptionError(f"--select {printable(selection)}: nothing is selected: the sources have {there}")


def nothing_in(request: Request) -> str:
    """A note on a destination without sequences."""
    why = "the sources contain no sequences"
    if request.select is not None:
        why = f"--select {request.select} takes none of the sequences of the sources"
    return f"{request.destination}: the dataset is empty: {why}"


def refuse_ledger(request: Request, sources: Sequence[Source]) -> None:
    """Refuse a ledger of what is no recipe, or of something else than all of it, in order.

    Raises:
        OptionError.
    """
    if not request.ledger:
        return
    if len(sources) > 1 or sources[0].format.name != "recipe":
        raise OptionError("--ledger tells what a recipe took from where: name one recipe as SRC, and nothing else")
    if request.select is not None or not request.arrangement.plain:
        shuffled = request.arrangement.shuffle is not None
        what = "--select" if request.select is not None else "--shuffle" if shuffled else "--split"
        raise OptionError(f"{what} does not go with --ledger: say it in the recipe")


def refuse_rejects(request: Request, sources: Sequence[Source], read: Sequence[SourceFiles]) -> None:
    """Refuse a file of rejects that nothing would be written to, or that is there.

    Raises:
        OptionError, ConversionError, DestinationExistsError.
    """
    path = request.rejects
    if path is None:
        return
    if not any(source.format.name == "recipe" and isinstance(source.reader, RecordReader) for source in sources):
        raise OptionError("--rejects is for what filters of a recipe of text leave out, and there is none")
    guard(path, (*request.source.paths, request.destination), read)
    if os.path.lexists(path) and not (request.overwrite and path.is_file()):
        raise DestinationExistsError(path)


def shard_of(shard: tuple[int, int] | None) -> Shard | None:
    """The value of --shard.

    Raises:
        OptionError: There is no such share.
    """
    if shard is None:
        return None
    try:
        index, count = map(operator.index, shard)
    except (TypeError, ValueError) as error:
        raise OptionError(f"shard is {shard!r}: is a pair of whole numbers, (index, count)") from error
    if not 0 <= index < count:
        raise OptionError(f"--shard {index}/{count}: shards of {count} are 0/{count} to {count - 1}/{count}")
    return Shard(index, count)
