"""Describe opened datasets: the ID that separates their sequences, and the tokenizer that made their token IDs.

The first of these that applies gives the separator: `--eos`; the manifest; a fact that the dataset states; the
tokenizer; the convention of the format; the data. `model.separator.decide` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tokfmt.core.format import Format
from tokfmt.core.raw_ids import byte_swapped
from tokfmt.core.reader import Damage, Info, Inner, Layout, Separators, TokenReader
from tokfmt.core.records import RecordInfo, RecordReader
from tokfmt.core.tokenizer_ids import TokenizerIds, wrapped_bits
from tokfmt.errors import (
    ConversionError,
    CorruptError,
    OptionError,
    SeparatorUnknownError,
    TokenizerMismatchError,
    TokfmtError,
)
from tokfmt.files.listing import Listing
from tokfmt.files.place import Place
from tokfmt.model.batch import AFTER
from tokfmt.model.dataset import Dataset
from tokfmt.model.gap import Gap
from tokfmt.model.laid import KEPT
from tokfmt.model.readers import ContentReader, dataset_of, from_reader, is_unfinished
from tokfmt.model.separator import (
    ENOUGH,
    Statement,
    decide,
    led,
    named,
    refuse_other,
    refuse_undivided,
    sample_ends,
    unled,
)
from tokfmt.run.progress import Progress
from tokfmt.source.content import Manifest, dataset_path
from tokfmt.source.endings import LITTLE, few_runs
from tokfmt.source.manifest import located_tokenizer
from tokfmt.source.partial import Partial
from tokfmt.source.request import EosChoice, SourceFiles
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

_SOME = 1 << 16  # tokens that show a wrong byte order, or a separator
_NAMED = 5  # sources that a message names
_OTHERWISE = "was made with another tokenizer, by its manifest"
_KEPT = "no separator known, so none is removed from the ends of sequences. --eos ID removes one"
GIVEN, NO_SEPARATOR = "--eos", "--eos none"
"""The source of a separator that the user gives, and of the statement that there is none."""


class Separator(NamedTuple):
    """A separator and the source that it is known from."""

    eos_id: int | None  # None if there is no separator, or if it is not known
    source: str = ""  # in words: "--eos", "tokenizer", "manifest of X", "stage1 convention", "inferred"
    inferred: bool = False  # from the data
    doubt: str = ""  # on an ID that looks like a separator and is not used as one
    # False: the manifest states that the ID is in no gap between sequences; where it ends one, it is content
    is_stored: bool = True
    endings: tuple[int, ...] = ()  # distinct last IDs of the sequences that were looked at
    seen: str = ""  # how many of the sequences that were looked at end with it; see `Gap.seen`

    @property
    def is_none(self) -> bool:
        """Return whether it is known that there is no separator, so that every ID is content."""
        return self.eos_id is None and bool(self.source)

    @property
    def stated(self) -> Separator:
        """The separator without the IDs that were seen."""
        return self._replace(endings=())

    @property
    def guess(self) -> tuple[str, ...]:
        """A note on an inferred separator, or on one that is in doubt; empty for any other."""
        if self.doubt:
            return (self.doubt,)
        guess = f"separator {self.eos_id} inferred: {self.seen}. --eos ID overrides it"
        return (guess,) if self.inferred else ()


class Source(NamedTuple):
    """An opened source: a token axis, or records that are not tokenized yet."""

    paths: tuple[Place, ...]  # one path, or several that form one dataset
    format: Format
    reader: TokenReader | RecordReader
    separator: Separator
    notes: tuple[str, ...]  # including inferred facts
    # its sequences, with what a look at their ends has shown; None of records, and if the format stores no separator
    # at the ends of sequences
    dataset: Dataset | None = None
    # of the token IDs by each manifest, see `made`; of a recipe, the one that is known to make or to have made all of
    # its IDs
    tokenizers: tuple[Mapping[str, Any] | None, ...] = ()
    left_out: tuple[str, ...] = ()  # files in its directories that are not read, in words
    damage: tuple[Damage, ...] = ()  # of a source that is read in part
    partial: Partial | None = None  # of a source that is read in part
    made_labels: bool = False  # a recipe made its labels and loss masks, by its manifest
    bos_id: int | None = None  # the lead, which is no content at the beginning of its sequences
    manifests: tuple[Manifest, ...] = ()  # of each path, as it was read when the source was opened

    @property
    def made(self) -> tuple[Place, ...]:
        """The path of what each of `tokenizers` made: the paths, or the files of directories that have manifests."""
        each = [one for manifest in self.manifests for one in manifest.each]
        return (
            self.paths
            if len(each) != len(self.tokenizers)
            else tuple(
                path / dataset_path(one.path).name if manifest.members and one.content else path
                for path, manifest in zip(self.paths, self.manifests, strict=True)
                for one in manifest.each
            )
        )

    @property
    def axis(self) -> TokenReader | None:
        """Its token axis; None for records."""
        return None if isinstance(self.reader, RecordReader) else self.reader

    @property
    def gap(self) -> Gap:
        """What is known of its separator."""
        gap, separator = Gap() if self.dataset is None else self.dataset.gap, self.separator
        is_told = bool(separator.doubt)  # A note says already why an ID at the ends is not the separator.
        common, only = (None, None) if is_told else (gap.common, gap.only)
        return replace(gap, id=separator.eos_id, stored=separator.is_stored, common=common, only=only)

    @property
    def records(self) -> RecordReader | None:
        """Its records; None for a token axis."""
        return self.reader if isinstance(self.reader, RecordReader) else None

    @property
    def stored_ids(self) -> RecordReader | None:
        """The records of token IDs that its files store; None for text, a token axis and a recipe."""
        return None if self.format.is_computed or self.reader.info.is_text else self.records

    @property
    def stored_documents(self) -> TokenReader | None:
        """The token axis of documents that its files store; None for records, samples, a stream and a recipe."""
        if isinstance(self.reader, RecordReader) or self.format.is_computed:
            return None
        return self.reader if self.reader.info.layout is Layout.DOCUMENTS else None

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes on the dataset itself, without those on its manifest and on other files in its directory."""
        info = self.reader.info
        undivided = _undivided(axis, self.separator) if (axis := self.axis) is not None else []
        splits = [note for note in (unread_splits(info),) if note in self.notes]
        return tuple(
            dict.fromkeys((*splits, *info.inferred, *info.notes, *self.accepted, *self.separator.guess, *undivided))
        )

    @property
    def accepted(self) -> tuple[str, ...]:
        """The notes on what is left out because the user accepted its loss."""
        return tuple(loss.note for loss in self.reader.info.lost)


def unread_splits(info: Info | RecordInfo) -> str:
    """Return the note on the splits that are not read."""
    return f"split {info.split} is read, not {', '.join(info.other_splits)}; --split NAME reads another"


def axes_of(sources: Iterable[Source]) -> list[TokenReader]:
    """Return the token axes of the sources that hold no records, in order."""
    return [source.reader for source in sources if not isinstance(source.reader, RecordReader)]


def records_of(sources: Iterable[Source]) -> list[RecordReader]:
    """Return the records of the sources that hold no token axis, in order."""
    return [source.reader for source in sources if isinstance(source.reader, RecordReader)]


def paths_of(sources: Iterable[Source]) -> list[Place]:
    """Return the paths of all sources, in order."""
    return [path for source in sources for path in source.paths]


def tokenizer_of(name: str | None, **how: Any) -> TokenizerHandle | None:
    """Load the tokenizer with a name, directory or file, as `load_tokenizer` does; return None for None."""
    if name is None:
        return None
    from tokfmt.text.tokenizer import load_tokenizer  # imported only by commands that name a tokenizer

    return load_tokenizer(name, **how)


def files_of_sources(sources: Iterable[Source], listing: Listing | None = None) -> list[SourceFiles]:
    """Return the files of opened datasets, whose places carry a listing."""
    return [
        SourceFiles(path, source.format, tuple(source.format.files(path.hiding(()))))
        for source in sources
        for path in (path.asking(listing) for path in source.paths)
    ]


def notes_on_tokenizers(
    places: Sequence[Place],
    tokenizers: Sequence[Mapping[str, Any] | None],
    tokenizer: TokenizerHandle,
    allow_loss: frozenset[str],
) -> Iterator[str]:
    """Yield notes on sources that another tokenizer made, by their manifests. The tokenizers are those of the sources
    by their manifests; None if unknown. If `allowed_loss` does not accept it, that is an error.
    """
    for path, made in zip(places, tokenizers, strict=True):
        if made is not None and made["digest"] != tokenizer.digest:
            if "tokenizers" not in allow_loss:
                problem = (
                    f"{_OTHERWISE}: another file was at that path" if tokenizer.name == made.get("name") else _OTHERWISE
                )
                raise TokenizerMismatchError(path, problem, titled(tokenizer.describe()), titled(made))
            yield f"{path.name} was made with the tokenizer {titled(made)} and is read with {tokenizer.name}"


def titled(made: Mapping[str, Any]) -> str:
    return f"{made.get('name') or 'of no name'} ({str(made['digest'])[:8]})"


def unknown_id(path: Place, name: object, ids: TokenizerIds, found: int) -> TokenizerMismatchError:
    """Return the error of a dataset with an ID that the tokenizer in use does not have."""
    problem = "holds IDs that the tokenizer does not have"
    return TokenizerMismatchError(path, problem, f"{ids}, as {name} has them", f"{found:,}")


def hold_chats(sources: Iterable[Source]) -> bool:
    """Return whether a source holds chats."""
    return any(records.info.chats for records in records_of(sources))


def agreed_tokenizer(
    sources: Sequence[Source], tokenizer: TokenizerHandle | None, allow_loss: frozenset[str]
) -> tuple[Mapping[str, Any] | None, str]:
    """Return the tokenizer that is known to have made all token IDs, and the accepted differences in words.

    The tokenizer in use makes the IDs of text. The tokenizer of other IDs is known from their manifests only: those of
    a source without one are copied, whatever tokenizer is in use. The description is None if it is unknown or if there
    are several; the words are "" or the list of several.
    """
    mixed = _named_in_metadata(sources, allow_loss)
    named = tokenizer.describe(chats=hold_chats(sources)) if tokenizer is not None else None
    made: dict[str, tuple[Place, Mapping[str, Any]]] = {}
    unknown = False
    for source in sources:
        # A recipe of text can have sources of token IDs too.
        is_text = source.reader.info.is_text and not source.format.is_computed
        for path, stated in zip(source.made, source.tokenizers, strict=True):
            maker = named if is_text else stated
            unknown |= maker is None
            if maker is not None:
                made.setdefault(str(maker["digest"]), (path, maker))
    if named is not None and made:
        made = {str(named["digest"]): (sources[0].paths[0], named), **made}
    if len(made) > 1:
        (_, first), (path, other) = list(made.values())[:2]
        if "tokenizers" not in allow_loss:
            raise TokenizerMismatchError(path, _OTHERWISE, titled(first), titled(other))
        several = f"IDs of {len(made)} tokenizers: {', '.join(titled(one) for _, one in made.values())}"
        return None, f"{several}; {mixed}" if mixed else several
    if unknown or not made or mixed:
        return None, mixed
    return named or next(iter(made.values()))[1], ""


def _named_in_metadata(sources: Sequence[Source], allow_loss: frozenset[str]) -> str:
    """Return the list of several tokenizers that the metadata of the sources name; "" for one or none."""
    places = dict[str, Place]()
    for source in sources:
        info = source.reader.info
        for name in info.tokenizers:
            places.setdefault(name, source.paths[0])
    if len(places) <= 1:
        return ""
    (first, before), (other, path) = list(places.items())[:2]
    if "tokenizers" not in allow_loss:
        problem = "has files of several tokenizers" if path == before else "was made with another tokenizer"
        raise TokenizerMismatchError(path, f"{problem}, by its metadata", first, other)
    return f"IDs of {len(places)} tokenizers, by metadata: {', '.join(places)}"


def manifest_tokenizer(sources: Sequence[Source]) -> TokenizerHandle | None:
    """Return the tokenizer of all sources (of a recipe, its sources) that this machine has unchanged; else None."""
    made, _ = agreed_tokenizer(sources, None, frozenset({"tokenizers"})) if sources else (None, "")
    if made is None:
        return None
    path, manifest = sources[0].paths[0], sources[0].manifests[0]
    is_own = manifest.members or dataset_path(manifest.path) == path.normalized()
    own = manifest if is_own else None  # Else it is that of the directory.
    if sources[0].format.is_computed:
        own = manifest._replace(content={"tokenizer": made})
    with suppress(TokfmtError, ImportError):  # an installation without dependencies has no tokenizers
        handle = tokenizer_of(located_tokenizer(path, own).place)
        return handle if handle is not None and handle.digest == made["digest"] else None
    return None


def tokenizer_note(handle: TokenizerHandle, source: Source) -> str:
    """Return the note that names the tokenizer of `manifest_tokenizer`."""
    whose = "the manifests of the sources" if source.format.is_computed else "the manifest"
    return f"tokenizer {handle.name}, by {whose} of {printable(source.paths[0].name)}"


def refuse_other_ends(source: Source) -> None:
    """Refuse a source whose separator is that of the tokenizer, and whose sequences end with another ID."""
    separator, gap = source.separator, Gap() if source.dataset is None else source.dataset.gap
    if separator.doubt or gap.closed or gap.lack < ENOUGH or len(separator.endings) != 1:
        return
    path, looked = printable(source.paths[0]), f"{counted(gap.looked, 'sequence')} that were looked at"
    (alike,) = separator.endings
    problem = f"{path}: the tokenizer ends texts with {separator.eos_id}, and all of {looked} end with {alike}"
    problem += _wrapped(separator.eos_id or 0, separator.endings)
    raise ConversionError(f"{problem}. --eos {alike} reads it as the separator, --eos none as content")


def known_separator(choice: EosChoice, paths: Sequence[Place], manifests: Sequence[Manifest]) -> Separator | None:
    """Return the separator that is certain before a source is opened: by --eos, or by its manifest; else None."""
    if choice == "none":
        return Separator(None, NO_SEPARATOR)
    each = [member for manifest in manifests for member in manifest.each]
    left_out = {manifest.ids[0] for manifest in each if manifest.content.get("eos_stored") == "none"}
    if choice is not None:
        return Separator(choice, GIVEN, is_stored=choice not in left_out)
    for path, manifest in zip(paths, manifests, strict=True):
        for member in manifest.each:
            if (eos_id := member.ids[0]) is not None:
                name = dataset_path(member.path).name if manifest.members else path.name
                return Separator(eos_id, f"manifest of {name}", is_stored=eos_id not in left_out)
    if left_out == {None} and all(manifest.content.get("eos_stored") == "none" for manifest in each):
        return Separator(None, f"manifest of {paths[0].name}")
    return None


def without_leads(
    contents: TokenReader, lead: int, path: Place, *, each: bool = False
) -> tuple[TokenReader, list[str]]:
    """Return contents that begin behind a lead, and a note if none has it. Samples keep it: only documents begin with a
    lead. With `each`, the beginning of each sequence is looked at; see `SourceRequest.every_end`.
    """
    if contents.info.layout is Layout.SAMPLES or not contents.info.tokens:
        return contents, []
    dataset = dataset_of(contents)
    if dataset.gap.lead == lead:  # It was left out when the dataset was opened.
        return contents, []
    try:
        dataset = led(dataset, lead, each=each)
    except OptionError as error:
        raise OptionError(f"{printable(path)}: {error}", name=error.name) from None
    dataset = replace(dataset, facts={**dataset.facts, "path": path})
    is_bare = dataset.spans.led is False
    return ContentReader(dataset), [f"no sequence that was read begins with the lead {lead}"] * is_bare


def without_ends(
    source: Source, axis: TokenReader, eos_id: int | None, *, each: bool = False
) -> tuple[TokenReader, list[str]]:
    """Return contents of rows without the separators that they end with already, and a note if there are any.

    Other tools pack such rows. An ID that is not known to be the separator of the source, and that ends only some
    sequences, is content. The axis has its sequences, or its records as one axis. `eos_id` is the separator that is put
    after them.
    """
    separator, path = source.separator, source.paths[0]
    is_content = not separator.is_stored or separator.is_none
    if eos_id is None or is_content or eos_id in (axis.info.eos_id, axis.info.free_of):
        return axis, [] if eos_id is None else _on_bare(source, eos_id)
    if source.bos_id is not None and isinstance(axis, ContentReader):
        axis = ContentReader(unled(axis.dataset))  # A separator is behind the content, and the lead in front of both.
    extents = from_reader(axis)
    ends = sample_ends(extents.axis, extents.spans)
    if not ends.counts[eos_id]:
        return axis, []
    are_alike = ends.counts[eos_id] == ends.looked
    if not are_alike and eos_id != separator.eos_id:
        read = f"--eos {eos_id} reads the first as their separator"
        return axis, [f"some of its sequences end with {eos_id} already; they get a second one. {read}"]
    presumed = AFTER if are_alike and not each else None
    reader = ContentReader(from_reader(axis, eos_id, where=Separators.TRAILING, presumed=presumed, path=path))
    count, closed = axis.info.sequences, axis.info.tokens - reader.info.tokens
    if not closed:
        return axis, []
    those = "its sequences end" if closed == count else f"{closed:,} of {counted(count, 'sequence')} end"
    return reader, [f"{those} with the separator {eos_id} already; they do not get a second one"]


def _on_bare(source: Source, eos_id: int) -> list[str]:
    """Return a note on sequences that get a separator which they alone lacked before, by the manifest."""
    counts = source.manifests[0].content.get("separators") if source.manifests else None
    bare, dropped = (counts.get(key) if isinstance(counts, dict) else 0 for key in ("bare", "dropped"))
    if source.separator.is_stored or not (isinstance(bare, int) and bare and dropped):
        return []
    those = f"{bare:,} of its sequences had no separator where others had one, by its manifest"
    return [f"{those}; each gets {eos_id}. --to-eos none writes none"]


def decided(
    stored: TokenReader,
    choice: EosChoice,
    by_request: Separator | None,
    by_manifest: Separator | None,
    tokenizer_eos: int | None,
    path: Place,
    *,
    reads_ends: bool = True,
    few: bool = False,
    max_sequences: int | None = None,
    bare: bool = False,
    beside: int | None = None,
) -> tuple[Separator, Dataset | None]:
    """Return the separator of an opened source; and its dataset, if an index bounds sequences that may end with one.
    `choice` is the option `eos`; "none" if the manifests state that there is none. `by_manifest` is what
    `known_separator` returns without a choice. With `reads_ends`, the ends of sequences are looked at, to infer the
    separator or to find a contradiction. With `bare`, the manifest counts sequences without a separator; here, these
    are empty.
    """
    info, stated = stored.info, None
    if by_manifest is not None and by_manifest.eos_id is not None:
        stated = Statement(by_manifest.eos_id, stored=by_manifest.is_stored)
    if not reads_ends or info.separators is not Separators.TRAILING or not info.sequences:
        if info.separators.alone and reads_ends and isinstance(choice, int) and stated is not None:
            refuse_other(stored, choice, stated, printable(path))
        by_tokenizer = Separator(tokenizer_eos, "" if tokenizer_eos is None else "tokenizer")
        by_file = Separator(info.eos_id, info.eos_from or "format") if info.eos_id is not None else None
        return by_request or by_file or by_tokenizer, None
    dataset = from_reader(stored, path=path)
    runs = few_runs(dataset.spans, info, max_sequences, decoded=stored.decoded_parts > 0) if few else None
    ends = sample_ends(dataset.axis, dataset.spans, runs)
    if stated is None and info.eos_id is not None:
        stated = Statement(info.eos_id, "file")
    try:
        dataset = decide(dataset, choice, stated, tokenizer_eos, ends=ends, beside=beside)
    except (OptionError, ConversionError) as error:
        raise _located(error, path) from None
    gap = dataset.gap
    if bare:
        gap = replace(gap, even=False)
        dataset = replace(dataset, gap=gap)
    source = {
        "user": GIVEN if gap.id is not None else by_request.source if by_request is not None else NO_SEPARATOR,
        "manifest": by_manifest.source if by_manifest is not None else "",
        "file": info.eos_from or "format",
        "tokenizer": "tokenizer",
    }.get(gap.known, "")
    seen = gap.seen
    if gap.known == "inferred":
        source = "inferred"
        seen += ", and none has it inside" if ends.tokens is not None else ", and none that was searched has it inside"
        seen += ", as in the sources beside it" if ends.full < ENOUGH else ""
    endings = tuple(ends.counts)
    some = ends.tokens if gap.known == "inferred" else None
    if gap.known == "inferred" and some is None:
        some = stored.for_look().tokens(0, min(info.tokens, _SOME))
    if some is not None and gap.id is not None and byte_swapped(some[:_SOME]):
        return Separator(None, doubt=_swapped(gap.id, info.dtype), endings=endings), from_reader(stored, path=path)
    return Separator(gap.id, source, gap.known == "inferred", is_stored=gap.stored, endings=endings, seen=seen), dataset


def _located(error: OptionError | ConversionError, path: Place) -> OptionError | ConversionError:
    """Return the error with the path of the dataset in front."""
    problem = f"{printable(path)}: {error}"
    return OptionError(problem, name=error.name) if isinstance(error, OptionError) else ConversionError(problem)


def _undivided(stored: TokenReader, separator: Separator) -> list[str]:
    """Return the note on a stream that is read as one sequence because its separator is not known."""
    info, is_known = stored.info, separator.eos_id is not None or separator.is_none
    if is_known or not info.tokens or info.separators not in (Separators.AFTER, Separators.BEFORE):
        return []
    likely = list[str]()
    with suppress(TokfmtError):  # what cannot be read shows nothing
        likely += likely_separator(stored, separator)
    what = f"read as one sequence of {info.tokens:,} tokens: the separator is not known"
    return [f"{what}. {likely[0]}" if likely else f"{what}; --eos ID splits it"]


def likely_separator(stored: TokenReader, separator: Separator) -> Iterator[str]:
    """Yield a note on the ID at an end of a stream whose separator is not known, if it is there often."""
    info = stored.info
    is_known = separator.eos_id is not None or separator.is_none
    if is_known or not info.separators.alone or info.beginning or not info.tokens:
        return
    at = 0 if info.separators is Separators.BEFORE else info.tokens - 1
    head, likely = stored.tokens(0, min(info.tokens, _SOME)), int(stored.tokens(at, at + 1)[0])
    if (count := int(np.count_nonzero(head == likely))) >= ENOUGH:
        those = "its" if len(head) == info.tokens else f"its first {len(head):,}"
        seen = f"it {'ends' if at else 'begins'} the stream, and is {count:,} of {those} tokens"
        yield f"{likely} may be its separator: {seen}. --eos {likely} splits it"


def _swapped(eos_id: int, dtype: np.dtype[np.unsignedinteger]) -> str:
    """Return the note on sequences whose token IDs seem to have the wrong byte order."""
    other = dtype.type(eos_id).byteswap()
    return (
        "token IDs seem to be big-endian, where little-endian ones are expected: all sequences end with "
        f"{eos_id}, which is {other} with its bytes swapped. Nothing is changed; write the tokens "
        f"again, with bytes swapped. --eos {eos_id} reads them as they are"
    )


def _wrapped(eos_id: int, endings: Sequence[int]) -> str:
    """Return a sentence if sequences end with what is left of the separator in 16 bits or less; else ""."""
    seen_id = endings[0] if len(endings) == 1 else eos_id
    bits = wrapped_bits(eos_id, seen_id)
    if bits is None:
        return ""
    return f". Those that were read end with {seen_id} = {eos_id} mod {1 << bits}: IDs seem to have wrapped around"


def without_separators(
    stored: TokenReader,
    separator: Separator,
    dataset: Dataset | None,
    path: Place,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    few_sequences: bool = False,
    every_end: bool = False,
) -> tuple[TokenReader, list[str]]:
    """Return the token axis without separators, and notes on how they were found. `dataset` is that of `decided`; it is
    None if the format stores no separator at the ends of sequences. Rows may end with one all the same, which --eos
    names. If only some sequences end with the separator, a command that reads few keeps it in a long dataset, because
    the ends of all would have to be read.
    """
    info = stored.info
    if info.separators.alone and info.tokens:
        return _of_stream(stored, separator, path, jobs, progress)
    if info.separators is Separators.NONE:
        dataset = _of_rows(stored, separator, path, few=few_sequences)
    if dataset is None or not separator.is_stored or not info.tokens:
        return stored, []
    return _of_index(stored, separator, dataset, path, few_sequences=few_sequences, every_end=every_end)


def contents_of(
    source: Source,
    stored: TokenReader,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    few_sequences: bool = False,
    every_end: bool = False,
) -> tuple[TokenReader, list[str]]:
    """Return the stored axis of a source without its separators and leads, and notes on how they were found."""
    separator, dataset, path = source.separator, source.dataset, source.paths[0]
    reader, notes = without_separators(
        stored, separator, dataset, path, jobs, progress, few_sequences=few_sequences, every_end=every_end
    )
    if source.bos_id is None:
        return reader, notes
    reader, noted = without_leads(reader, source.bos_id, path, each=every_end)
    return reader, notes + noted


def _of_index(
    stored: TokenReader, separator: Separator, dataset: Dataset, path: Place, *, few_sequences: bool, every_end: bool
) -> tuple[TokenReader, list[str]]:
    """Return the sequences that an index bounds; see `without_separators`."""
    info, eos_id = stored.info, separator.eos_id
    gap, spans = dataset.gap, dataset.spans
    if eos_id is None:
        return stored, _on_unknown(separator, gap)
    if eos_id == info.eos_id and (gap.lack or gap.empty):
        raise CorruptError(
            path,
            f"sequences do not end with the separator {eos_id} that the dataset states",
            remedy=KEPT,
        )
    if spans.usual == AFTER and (not every_end or gap.is_known or eos_id == info.eos_id):
        reader = ContentReader(dataset)
        if reader.info.tokens:  # Else no read of a content would look at a separator.
            return reader, []
    is_long = few_sequences and max(info.tokens, info.sequences) > LITTLE
    if not is_long and (gap.closed or every_end):
        reader = _looked_at(stored, gap, path)
        if closed := info.tokens - reader.info.tokens:
            ends = f"{closed:,} of {counted(info.sequences, 'sequence')} end with the separator {eos_id}"
            return reader, [f"{ends}; the others are kept as stored"] if closed < info.sequences else []
    reason = f"not every sequence ends with {eos_id}" if gap.closed else f"no sequence that was read ends with {eos_id}"
    return stored, [f"{reason}; sequences are kept as stored{_wrapped(eos_id, separator.endings)}"]


def _of_rows(stored: TokenReader, separator: Separator, path: Place, *, few: bool) -> Dataset | None:
    """Return rows of a format that stores no separators, if some end with the one that --eos names; else None."""
    info, eos_id = stored.info, separator.eos_id
    if eos_id is None or separator.source != GIVEN or not separator.is_stored:
        return None
    if not info.tokens or info.layout is not Layout.DOCUMENTS or {info.eos_id, info.free_of} != {None}:
        return None
    dataset = from_reader(stored, path=path)
    ends = sample_ends(
        dataset.axis,
        dataset.spans,
        few_runs(dataset.spans, info, None, decoded=stored.decoded_parts > 0) if few else None,
    )
    return named(dataset, eos_id, ends) if ends.counts[eos_id] else None


def _looked_at(stored: TokenReader, gap: Gap, path: Place) -> ContentReader:
    """Return the contents of a dataset after a look at the end of every sequence."""
    whole = from_reader(stored, gap.id, presumed=None, where=Separators.TRAILING, path=path)
    if whole.spans.usual == AFTER:
        gap = replace(gap, looked=gap.of, closed=gap.of, lack=0, empty=0)
    return ContentReader(replace(whole, gap=gap))


def _on_unknown(separator: Separator, gap: Gap) -> list[str]:
    """Return the note on sequences that are kept as stored because their separator is not known."""
    if separator.doubt or separator.is_none:
        return []
    if gap.common is None:
        return [_KEPT]
    alike, count = gap.common
    those = "all" if count == gap.looked == gap.of else f"{count:,} of {gap.looked:,} that were looked at"
    why = f"{those} end with {alike}, which may be a separator and may be content"
    return [f"sequences are kept as stored: {why}. --eos {alike} removes it, --eos none keeps it"]


def _of_stream(
    stored: TokenReader, separator: Separator, path: Place, jobs: int | None, progress: Progress | None
) -> tuple[TokenReader, list[str]]:
    """Return the sequences of a stream; see `without_separators`."""
    info, eos_id = stored.info, separator.eos_id
    if eos_id is not None:
        watched = progress or Progress()
        watched.phase("finding separators", info.tokens, "tokens")
        dataset = from_reader(stored, eos_id, jobs=jobs, scanned=watched.advance, path=path)
        split = ContentReader(dataset)
        is_claimed = separator.is_stored and separator.source.startswith((GIVEN, "manifest"))
        if info.eos_id == eos_id:  # The files state it, unless they have it from --eos, or it is only what is usual.
            is_claimed = info.eos_from == "given" and separator.source == GIVEN
        if is_claimed:
            refuse_undivided(dataset, separator.source, printable(path))
        (empty, first), notes = dataset.spans.empty, list[str]()
        if empty:
            reason = f"{empty:,} of {counted(split.info.sequences, 'sequence')} are empty, the first is {first:,}"
            notes.append(f"{reason}: separators follow each other")
        if is_unfinished(split):
            notes.append(unfinished(eos_id))
        return split, notes
    if separator.is_none:
        return stored, [f"read as one sequence of {info.tokens:,} tokens ({separator.source})"]
    if note := _undivided(stored, separator):
        return stored, note
    raise SeparatorUnknownError(path, "a stream of tokens whose separator is not known")


def unfinished(eos_id: int) -> str:
    """Return the note on a stream that ends without its separator."""
    return f"its last document is not finished: no separator {eos_id} follows it"


def boundaries_of(inner: Inner) -> str:
    """Return in words where sequences of an index begin inside of documents."""
    where = f"{printable(inner.path.name)} from byte {inner.offset:,} on"
    return (
        f"where {counted(inner.sequences, 'sequence')} of {counted(inner.documents, 'document')} begin ({where}; "
        "--from-opt unit=sequences reads each by itself)"
    )
