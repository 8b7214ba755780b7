"""Order sequences, deal them to splits, and lay them out with separators and leads, as a destination stores them.

Sequence i of the selection goes to the split in whose share `draws(seed, SPLIT, i)` falls (`--split NAME=SHARE,...`).
Nothing else decides that: the seed of a shuffle, another format or dropped empty sequences never move a sequence to
another split. With `--split-by content`, the fingerprint of its content takes the place of i, so that equal sequences
are in the same split. Exact amounts (`--split train=rest,valid=50`) take the sequences with the smallest draws. Each
split is then shuffled by itself (`--shuffle`).

The separator of a sequence is kept, replaced, added or dropped, or there is none. The datasets under the axis know
which sequences have one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt import model
from tokfmt.base.options import fit, parse_count, parse_options
from tokfmt.base.seeds import SPLIT, check_seed, draws
from tokfmt.core.format import Format, Target
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import Separators, TokenReader, windows
from tokfmt.errors import ConversionError, OptionError
from tokfmt.files.place import AnyPlace, Place
from tokfmt.model.axis import Numbers
from tokfmt.model.batch import AFTER, LEAD, SEP, Counts, Flags, Kind
from tokfmt.model.readers import ContentReader, LaidReader, dataset_of, from_reader, laid_reader
from tokfmt.model.select import Chosen, View
from tokfmt.model.separator import led
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress
from tokfmt.source.request import option_names
from tokfmt.wording import printable

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_SHARE = re.compile(r"([0-9]*\.?[0-9]+([eE]-[0-9]{1,2})?)(%?)")
_AMOUNT = re.compile(r"(\S+?)\s*(tokens)?")
_WEIGHTS = re.compile(r"[0-9]*\.?[0-9]+(\s*,\s*[0-9]*\.?[0-9]+){1,2}")
_OF_MEGATRON = ("train", "valid", "test")
_REST = "rest"
_NEAR = Fraction(1, 10**9)
_EXAMPLE = "Write for example --split train=99%,validation=1%, or train=rest,validation=500"
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_TOGETHER = 1 << 20  # sequences whose fingerprints are held at once, 16 bytes each

SplitBy = Literal["number", "content"]
"""What a split is drawn for: the number of a sequence, or its content."""


class Amount(NamedTuple):
    """The exact size of a split."""

    number: int  # of sequences, or at least so many tokens, with less than one sequence more
    of_tokens: bool

    def __str__(self) -> str:
        return f"{self.number} {'tokens' if self.of_tokens else 'sequences'}"


@dataclass(frozen=True, slots=True)
class Shares:
    """The splits that sequences are dealt to."""

    names: tuple[str, ...]
    shares: tuple[Fraction, ...]  # above 0; their sum is 1; none if there are amounts
    seed: int  # of the draws
    seeded: bool  # the user gave the seed
    by: SplitBy = "number"  # what a split is drawn for
    amounts: tuple[Amount | None, ...] = ()  # of each split; None for the one that gets the rest
    # the split of each sequence, once contents are read (`deal`); None if splits are drawn for numbers
    dealt: NDArray[np.unsignedinteger] | None = field(default=None, compare=False)

    def split_of(self, first: int, last: int) -> NDArray[np.integer]:
        """Return the number of the split of each sequence `first <= i < last`."""
        if self.dealt is not None:
            return self.dealt[first:last]
        return self._fallen(draws(self.seed, SPLIT, first, last))

    def _fallen(self, drawn: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the number of the split in whose share each draw falls."""
        maximum = (1 << 64) - 1
        bounds = [min(int(share * (maximum + 1)), maximum) for share in accumulate(self.shares[:-1])]
        return np.searchsorted(np.array(bounds, np.uint64), drawn, side="right")

    def of_contents(self, prints: NDArray[np.uint64]) -> NDArray[np.unsignedinteger]:
        """Return the number of the split of each sequence from its fingerprint, uint64[n, 2]."""
        mixed = prints[:, 0] ^ draws(self.seed, SPLIT, 0, 1)
        for shift, factor in _MIX:  # the finalizer of splitmix64: each bit of a fingerprint changes half of the draw
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return self._fallen(mixed ^ (mixed >> np.uint64(31))).astype(np.min_scalar_type(len(self.names)))

    def described(self) -> dict[str, object]:
        """Return the shares and the seed for the manifest."""
        sizes: list[object] = [_REST if amount is None else str(amount) for amount in self.amounts]
        sizes = sizes or [float(share) for share in self.shares]
        return {
            "shares": dict(zip(self.names, sizes, strict=True)),
            "seed": self.seed,
            "by": self.by,
        }


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The splits and the order that a request asks for; by default every sequence, in the order of the sources."""

    shuffle: int | None = None  # seed of the shuffled order; None for the order of the sources
    shares: Shares | None = None  # the splits that sequences are dealt to; None if all go to one destination

    @property
    def plain(self) -> bool:
        """True if all sequences are written to one destination, in the order of the sources."""
        return self.shuffle is None and self.shares is None


AS_IT_IS = Arrangement()


@dataclass(frozen=True, slots=True)
class SplitTarget:
    """The sequences that one writer writes, and their destination."""

    number: int  # of the portion, from 0
    split: str | None  # name of the split; None if all sequences are written
    destination: Place  # several splits may share it
    options: Any  # the format's `write_options`


def arrangement_of(
    shuffle: int | None, split: str | None, seed: int | None, split_by: SplitBy | None = None
) -> Arrangement:
    """Return the arrangement that --shuffle, --split, --split-by and --seed ask for; ignore a split without shares."""
    if shuffle is not None:
        shuffle = check_seed(shuffle, "--shuffle")
    if split is not None and not isinstance(split, str):
        raise OptionError(f"--split: expected text, found {printable(repr(split))}. {_EXAMPLE}", name="split")
    if split is not None and _WEIGHTS.fullmatch(split.strip()):
        split = _of_weights(split)
    if split is None or "=" not in split:
        unused = "seed" if seed is not None else "split-by" if split_by is not None else ""
        if unused:
            raise OptionError(f"--{unused}: nothing is dealt out to splits. {_EXAMPLE}", name=unused)
        return Arrangement(shuffle)
    sizes, by = _named(split), fit("--split-by", split_by or "number", SplitBy, name="split-by")
    names, amounts = tuple(sizes), _amounts(split, sizes)
    if amounts and by == "content":
        problem = "equal sequences are in one split, so its size is not exact"
        raise OptionError(f"--split-by content does not go with --split {printable(split)}: {problem}. Give shares")
    shares = () if amounts else _shares(split, sizes)
    return Arrangement(shuffle, Shares(names, shares, check_seed(seed or 0, "--seed"), seed is not None, by, amounts))


def deal(shares: Shares | None, axis: TokenReader, workers: Workers, progress: Progress) -> Shares | None:
    """Return splits with the split of each sequence, if their contents or exact amounts decide it."""
    if shares is not None and shares.by == "content":
        return dealt_by_content(shares, axis, workers, progress)
    return _dealt_by_amount(shares, axis) if shares is not None and shares.amounts else shares


def _dealt_by_amount(shares: Shares, axis: TokenReader) -> Shares:
    """Return splits with the split of each sequence; takes about 25 bytes per sequence."""
    count, at = axis.info.sequences, 0
    order = np.argsort(draws(shares.seed, SPLIT, 0, count), kind="stable")
    found = np.full(count, shares.amounts.index(None), np.min_scalar_type(len(shares.names)))
    for number, (name, amount) in enumerate(zip(shares.names, shares.amounts, strict=True)):
        if amount is None:
            continue
        taken = amount.number
        if amount.of_tokens:
            reached = np.diff(axis.offsets(0, count))[order[at:]].cumsum()
            taken = int(reached.searchsorted(amount.number)) + 1
        if taken > count - at:
            there = f"{count:,} sequences with {axis.info.tokens:,} tokens"
            raise OptionError(f"--split {name}={amount.number}: so many are not left of {there}. Take less", name=name)
        found[order[at : at + taken]], at = number, at + taken
    return replace(shares, dealt=found)


def dealt_by_content(shares: Shares, axis: TokenReader, workers: Workers, progress: Progress) -> Shares:
    """Return splits drawn for contents, with the split of each sequence, after reading all tokens."""
    from tokfmt.commands.compare.fingerprint import Hashing, hash_axis  # needs numpy.random and xxhash

    progress.phase("dealing sequences to splits", axis.info.tokens, "tokens")
    dealt, hashing = [np.empty(0, np.uint8)], Hashing(axis, [axis.tokens])
    for first, last in windows(0, axis.info.sequences, _TOGETHER):
        prints = np.empty((last - first, 2), np.uint64)
        hash_axis(hashing, first, prints, workers, progress.advance)
        dealt.append(shares.of_contents(prints))
    return replace(shares, dealt=np.concatenate(dealt))


def _of_weights(text: str) -> str:
    """Return `98,1,1` of Megatron-LM, the weights of train, valid and test, as names with shares."""
    weights = [Fraction(word.strip()) for word in text.split(",")]
    total = sum(weights, Fraction())
    if not total:
        raise OptionError(f"--split {text}: the weights sum to 0. {_EXAMPLE}", name="split")
    shares = [f"{name}={float(weight / total)}" for name, weight in zip(_OF_MEGATRON, weights, strict=False) if weight]
    return ",".join(shares)


def _named(text: str) -> dict[str, str]:
    """Return the size of each split as it is written, by its name."""
    sizes: dict[str, str] = {}
    for word in text.split(","):
        name, size = (part.strip() for part in (*word.split("=", 1), "")[:2])
        if not _NAME.fullmatch(name):
            raise OptionError(
                f"--split {printable(text)}: {printable(name)!r} is not a plain name. {_EXAMPLE}", name=name
            )
        if name in sizes:
            raise OptionError(f"--split {text}: {name} occurs twice", name=name)
        sizes[name] = size
    return sizes


def _amounts(text: str, sizes: Mapping[str, str]) -> tuple[Amount | None, ...]:
    """Return the exact amounts; () if the sizes are shares. Numbers beside `rest` are amounts, and so are tokens."""
    others = [size for size in sizes.values() if size != _REST]
    whole = [size for size in others if size.endswith("tokens") or re.fullmatch(r"[0-9][0-9_]*[kKmMgGtTB]?i?", size)]
    if not whole or (len(others) == len(sizes) and not any(size.endswith("tokens") for size in others)):
        return ()
    if len(sizes) - len(others) != 1 or len(whole) != len(others):
        problem = "with exact numbers, one split gets the rest, and each other one a number"
        raise OptionError(
            f"--split {printable(text)}: {problem}. Write train=rest,valid=50 or valid=1M tokens", name="split"
        )
    found = list[Amount | None]()
    for size in sizes.values():
        match = _AMOUNT.fullmatch(size)
        found.append(None if size == _REST or match is None else Amount(parse_count(match[1]), match[2] is not None))
    return tuple(found)


def _shares(text: str, sizes: Mapping[str, str]) -> tuple[Fraction, ...]:
    """Return the shares of all splits, of which one may be the rest."""
    shares = dict[str, Fraction]()
    for name, size in sizes.items():
        match = _SHARE.fullmatch(size)
        share = Fraction(0) if match is None else Fraction(match[1]) / (100 if match[3] else 1)
        if size != _REST and not 0 < share <= 1:
            remedy, other = _EXAMPLE, next((split for split in sizes if split != name), None)
            if share > 1 and other is not None:
                remedy = f"With a number of sequences, another split is the rest: {other}=rest,{name}={size}"
            problem = f"the share of {name} is no number above 0 and up to 1, and no percentage"
            raise OptionError(f"--split {printable(text)}: {problem}. {remedy}", name=name)
        shares[name] = share
    total, rests = sum(shares.values(), Fraction()), [name for name, size in sizes.items() if size == _REST]
    if len(rests) == 1 and total < 1:
        shares[rests[0]] = 1 - total
        total = Fraction(1)
    if abs(total - 1) > _NEAR or len(rests) > 1:
        raise OptionError(f"--split {text}: the shares sum to {float(total):.10g}, not to 1. {_EXAMPLE}", name="split")
    return tuple(shares.values())


def portions(
    arrangement: Arrangement, destination: Place, format_: Format, options_given: Mapping[str, object]
) -> list[SplitTarget]:
    """Return one portion per split; they share the destination if its format stores several splits."""
    shares = arrangement.shares
    if shares is None:
        return [SplitTarget(0, None, destination, parse_options(format_.write_options, options_given, format_.name))]
    if "split" not in option_names(format_.write_options):
        options: Any = parse_options(format_.write_options, options_given, format_.name)
        return [
            SplitTarget(k, name, split_path(destination, format_, name), options) for k, name in enumerate(shares.names)
        ]
    if "split" in options_given:
        raise OptionError(
            "--to-opt split=NAME names one split, --split NAME=SHARE,... several. Leave one out",
            name="split",
        )
    each = [{**options_given, "split": name} for name in shares.names]
    return [
        SplitTarget(k, name, destination, parse_options(format_.write_options, also, format_.name))
        for k, (name, also) in enumerate(zip(shares.names, each, strict=True))
    ]


def split_path(destination: AnyPlace, format_: Format, split: str) -> AnyPlace:
    """Insert the split into a name: `out.train.pbin` from `out.pbin`, `out.train` without a suffix of the format."""
    name = destination.name
    suffixes = [e if e.startswith(".") else Path(e).suffix for e in format_.extensions]
    ending = next((suffix for suffix in suffixes if suffix and name.endswith(suffix) and name != suffix), "")
    return destination.with_name(f"{name.removesuffix(ending)}.{split}{ending}")


def portion_of(axis: TokenReader, arrangement: Arrangement, portion: SplitTarget) -> TokenReader:
    """Return the sequences of a portion, in the order of the source."""
    shares = arrangement.shares
    if shares is None:
        return axis
    return Chosen(axis, lambda first, last: shares.split_of(first, last) == portion.number)


@contextmanager
def arranged(
    axis: TokenReader,
    arrangement: Arrangement,
    portion: SplitTarget,
    target: Target,
    workers: Workers,
    progress: Progress,
    *,
    marked: bool = False,
) -> Iterator[TokenReader]:
    """Yield the sequences of a portion in their order; remove its scratch files at the end, if nothing is kept.

    If an index marks boundaries in the destination, sequences are arranged with the separators and the leads that it
    stores: only they tell which sequences have one. With `marked`, loss masks and borders of documents
    (`TokenReader.marks`) are shuffled with the tokens.
    """
    if arrangement.plain:
        yield axis
        return
    lead = None if target.bos_for == "all" else target.bos_id
    is_laid = lead is not None or target.separators is Separators.TRAILING
    laid = stored_axis(axis, target._replace(bos_id=lead)) if is_laid else None
    if isinstance(laid, LaidReader):
        with _arranged(laid, arrangement, portion, workers, progress, marked=marked) as reader:
            yield contents_of(reader, laid.target, laid.bare)
        return
    with _arranged(axis, arrangement, portion, workers, progress, marked=marked) as reader:
        yield reader


@contextmanager
def _arranged(
    axis: TokenReader,
    arrangement: Arrangement,
    portion: SplitTarget,
    workers: Workers,
    progress: Progress,
    *,
    marked: bool,
) -> Iterator[TokenReader]:
    chosen = portion_of(axis, arrangement, portion)
    if arrangement.shuffle is None:
        yield chosen
        return
    from tokfmt.run.shuffle import shuffled

    marked = marked and chosen.marks(0, 0) is not None
    chosen = PackMarks(chosen) if marked else chosen
    progress.phase(" ".join(filter(None, ("shuffling", portion.split))), chosen.info.tokens, "tokens")
    part = portion.split or ""
    with shuffled(chosen, arrangement.shuffle, workers, part=part, progress=progress.advance) as reader:
        yield UnpackMarks(reader, axis.info.dtype) if marked else reader


_ABOVE = np.uint64(56)
"""Number of bits of a packed ID below its marks."""


class PackMarks(View):
    """Tokens with their marks in one ID of 64 bits, for code that moves tokens and does not know marks."""

    def __init__(self, source: TokenReader) -> None:
        super().__init__(source, replace(source.info, dtype=np.dtype(np.uint64), max_id=None))

    def tokens(self, start: int, stop: int) -> Tokens:
        ids, marks = self.source.tokens(start, stop).astype(np.uint64), self.source.marks(start, stop)
        if marks is None or (ids >> _ABOVE).any():
            raise ConversionError(f"a token ID of {1 << 56:,} or more has no room for marks beside it")
        return ids | marks.astype(np.uint64) << _ABOVE


class UnpackMarks(View):
    """The tokens and the marks of packed IDs."""

    def __init__(self, source: TokenReader, dtype: np.dtype[np.unsignedinteger]) -> None:
        super().__init__(source, replace(source.info, dtype=dtype))

    def tokens(self, start: int, stop: int) -> Tokens:
        ids = self.source.tokens(start, stop) & np.uint64((1 << 56) - 1)
        return ids.astype(self.info.dtype)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8]:
        return (self.source.tokens(start, stop) >> _ABOVE).astype(np.uint8)


AreWritten = Callable[[int, int, Numbers], Flags]
"""Which of the sequences `first <= i < last` are written, given their numbers of tokens."""

_AT_ONCE = 1 << 18
_KINDS: dict[Separators, Kind] = {Separators.TRAILING: "index", Separators.BEFORE: "before"}


def stored_axis(contents: TokenReader, target: Target) -> TokenReader:
    """Return the axis that a writer stores: contents with their separators, and the marks of both."""
    is_stored = target.separators is not Separators.NONE and target.eos_id is not None
    if not is_stored and target.bos_id is None:
        return contents
    kind: Kind = _KINDS.get(target.separators, "after") if is_stored else "index"
    eos_id, is_as_read = (target.eos_id, target.eos_for == "as-read") if is_stored else (None, False)
    return laid_reader(contents, model.Boundaries(eos_id, kind, target.bos_id, target.bos_for, is_as_read))


def contents_of(stored: TokenReader, laid: model.Boundaries, bare: int) -> TokenReader:
    """Return the contents of sequences that were laid out and then rearranged; at most `bare` are empty."""
    if laid.lead is None and not laid.only_closed:
        dataset = from_reader(stored, laid.id, where=Separators.TRAILING)
        return ContentReader(replace(dataset, gap=replace(dataset.gap, even=not bare)))
    dataset = from_reader(stored, laid.id, where=Separators.TRAILING, presumed=None)
    return ContentReader(dataset if laid.lead is None else led(dataset, laid.lead, each=True))


def count_beside(axis: TokenReader, chosen: AreWritten, count: int, to: model.Boundaries, bits: int = SEP) -> Counts:
    """Return what becomes of the separators or leads (`bits`: SEP or LEAD) of the sequences that are written."""
    if bits == SEP and isinstance(axis, ContentReader) and axis.dataset.spans.seamless and axis.dataset.gap.even:
        kept = count * (axis.dataset.gap.id == to.id)  # All were read, so all have it.
        return Counts(dropped=count) if to.id is None else Counts(kept, count - kept)
    dataset = dataset_of(axis, drawn=True)
    tokens = None if dataset.spans.presumes else dataset.axis
    of_leads = bits == LEAD
    id_, ids_there = (to.lead, dataset.gap.leads) if of_leads else (to.id, dataset.gap.ids)
    all_get = to.leads == "all" if of_leads else to.kind != "index" and not to.only_closed
    if not ids_there and (id_ is None or all_get):  # None has one, and all get one, or none does.
        return Counts(bare=count) if id_ is None else Counts(added=count)
    counts = Counts()
    for first, last in windows(0, axis.info.sequences, _AT_ONCE):
        starts, stops, beside = dataset.spans.read(first, last, tokens)
        taken = chosen(first, last, stops - starts)
        starts, stops, beside = starts[taken], stops[taken], beside[taken]
        wanted, closed = to.beside(stops - starts, beside)[of_leads], beside & bits != 0
        written, had, both = (int(np.count_nonzero(flags)) for flags in (wanted, closed, wanted & closed))
        kept = both * (ids_there == [id_])
        if both and len(ids_there) > 1:  # The tokens show which of several it is.
            places = starts - 1 if of_leads else np.where(beside & AFTER, stops, starts - 1 - (beside & LEAD != 0))
            kept = int(np.count_nonzero(dataset.axis.at(places[wanted & closed]) == id_))
        bare = len(closed) - written - had + both
        counts = counts.plus(Counts(kept, both - kept, written - both, had - both, bare))
    return counts
