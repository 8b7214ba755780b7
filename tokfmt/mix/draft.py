"""A recipe of text before it is prepared: its sources are open, and its samples do not exist yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from tokfmt.core.records import Block, RecordInfo, RecordReader, SkippedRecords
from tokfmt.errors import Loss, OptionError, TokfmtError, reword
from tokfmt.files.place import Place
from tokfmt.mix.documents import TokenSource
from tokfmt.mix.language import RecipeFile, SourceEntry, in_keys
from tokfmt.mix.samples import separator_of
from tokfmt.source.stored import Source as Opened
from tokfmt.source.stored import records_of
from tokfmt.text.filter_rules import DocumentMatcher, FilterRules, OverlapRules
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle


@dataclass(frozen=True, slots=True, eq=False)
class TextSource:
    """A source of a recipe that holds text."""

    entry: SourceEntry  # its table in the recipe
    parts: tuple[Opened, ...]  # of its paths, in order; their records are numbered through
    filters: tuple[tuple[str, FilterRules], ...]  # of each filter: name and thresholds
    eos_id: int | None
    state: Any
    facts: Any

    @property
    def name(self) -> str:
        """The name of the source in the recipe."""
        return self.entry.name

    @property
    def paths(self) -> tuple[Place, ...]:
        """The files or directories of the source."""
        return tuple(path for part in self.parts for path in part.paths)

    @property
    def size(self) -> int:
        """The size of its files in bytes."""
        return sum(reader.info.size for reader in self.readers)

    @property
    def readers(self) -> list[RecordReader]:
        """The reader of the records of each part."""
        return records_of(self.parts)


def filters_of(file: RecipeFile, entry: SourceEntry) -> tuple[tuple[str, FilterRules], ...]:
    """Return the filters of a source by name; `garbage` has default values if the recipe has no table for it."""
    if not entry.filter:
        return ()
    from tokfmt.text.filters import GARBAGE

    return tuple((name, file.filters.get(name, GARBAGE)) for name in entry.filter)


@dataclass(frozen=True, slots=True)
class HeldIds:
    """A source of token IDs.

    Attributes:
        quota: The tokens that the recipe takes; None for all.
    """

    source: str
    sequences: int
    tokens: int
    quota: int | None


@dataclass(frozen=True, slots=True)
class Previewed:
    """A recipe of text, or one that leaves out equal texts.

    Attributes:
        texts: The sources of text.
        ids: The sources of token IDs.
        notes: What tokfmt inferred, and defects that change no token, one sentence each.
    """

    recipe: str
    texts: list[SourcePreview]
    ids: list[HeldIds]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class SourcePreview:
    """The numbers of some texts of a source that filters leave out.

    Attributes:
        source: Name of the source.
        format: Name of the format of its files.
        size: Size of its files in bytes.
        quota: Tokens that the recipe takes of it; None for all.
        texts: Number of texts that were read.
        rejected: Number of these texts that break each rule, by "filter.rule".
    """

    source: str
    format: str
    size: int
    quota: int | None
    texts: int
    rejected: dict[str, int]


def _look(source: TextSource, matchers: Mapping[OverlapRules, DocumentMatcher], notes: list[str]) -> SourcePreview:
    from tokfmt.source.ingest import sample_records  # The Loader needs nothing that encodes texts.
    from tokfmt.text.filters import FilterChain

    texts = list[str]()
    for part in source.parts:
        texts_of_part, skipped = sample_records(part)
        texts += texts_of_part
        if skipped.invalid and isinstance(part.reader, RecordReader) and part.reader.describes_lines:
            lines = counted(skipped.invalid, "invalid line")
            error = part.reader.record_error(skipped.faults[0])
            notes.append(f"{printable(source.name)}: {lines} among those that were read, the first: {error}")
    sieve = FilterChain(source.filters, False, matchers, any(reader.info.chats for reader in source.readers))
    broken = Counter(number for number in sieve.entries(texts)["rule"].tolist() if number)
    rejected = {".".join(sieve.rule(number)): count for number, count in sorted(broken.items())}
    return SourcePreview(
        source.name, source.parts[0].format.name, source.size, source.entry.tokens, len(texts), rejected
    )


class TextRecipe(RecordReader):
    """A recipe of text, or with `dedup`, which has to be stored before its sequences or samples can be read. Picklable.

    Reading a record is an error.
    """

    def __init__(
        self,
        file: RecipeFile,
        sources: Sequence[TextSource | TokenSource],
        tokenizer: TokenizerHandle | None,
        made_by: Mapping[str, Any] | None = None,
    ) -> None:
        # file: as written
        # tokenizer: that the recipe names for its texts; None if it holds token IDs
        # made_by: the tokenizer that is known to have made or to make all IDs, as manifests describe it
        self.file, self.sources, self.tokenizer, self.made_by = file, tuple(sources), tokenizer, made_by
        # eos_id: that its sources agree on
        # lost: see `records.RecordInfo`; set when it is assembled
        self.eos_id, self.lost = separator_of(file, sources), tuple[Loss, ...]()
        self._readers = [reader for source in self.of_text for reader in source.readers]

    def matchers(self) -> dict[OverlapRules, DocumentMatcher]:
        """Return what finds the overlap with evals that its filters leave out."""
        from tokfmt.source.evals import matchers_of  # The Loader compares nothing.

        used = {name for entry in self.file.sources for name in entry.filter}
        rules = [rules for name, rules in self.file.filters.items() if name in used]
        try:
            return matchers_of(rules, self.file.where, self.tokenizer)
        except TokfmtError as error:
            reword(error, in_keys)
            raise

    @property
    def of_text(self) -> list[TextSource]:
        """The sources that hold text."""
        return [source for source in self.sources if isinstance(source, TextSource)]

    @property
    def of_ids(self) -> list[TokenSource]:
        """The sources that hold token IDs."""
        return [source for source in self.sources if isinstance(source, TokenSource)]

    @property
    def info(self) -> RecordInfo:  # type: ignore[override]
        size = sum(reader.info.size for reader in self._readers)
        size += sum(source.info.tokens for source in self.of_ids)
        used = {name for entry in self.file.sources for name in entry.filter}
        masked = any(reader.info.loss_masks for reader in self._readers) or any(one.masked for one in self.of_ids)
        unused = [f"no source has the filter {name}" for name in self.file.filters if name not in used]
        chats = [reader.info for reader in self._readers if reader.info.chats]
        return RecordInfo(
            "text" if self._readers else "ids",
            size,
            None,
            False,
            lost=self.lost,
            made_by=self.made_by,
            notes=(*unused, *(note for reader in self._readers for note in reader.info.notes)),
            eos_id=self.eos_id,
            loss_masks="loss masks of its sources" if masked else "",
            chats=next((reader.info.chats for reader in self._readers if reader.info.chats), ""),
            pairs=next((info.pairs for info in chats if info.is_templated), chats[0].pairs if chats else ""),
        )

    def unprepared(self) -> OptionError:
        """Return the error of a command that needs the sequences or samples of the recipe."""
        reason = "text" if self._readers else "a filter" if self.file.dedup == "none" else 'dedup = "exact"'
        return OptionError(
            f"{printable(self.file.where)}: is a recipe with {reason}, whose samples exist once it is stored. "
            f"tokfmt convert {printable(self.file.where)} DST stores it, tokfmt recipe shows its sources"
        )

    def count(self) -> NoReturn:
        raise self.unprepared()

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> NoReturn:  # noqa: ARG002
        raise self.unprepared()

    def texts(self, block: Block) -> NoReturn:  # noqa: ARG002
        raise self.unprepared()

    def ids(self, block: Block) -> NoReturn:  # noqa: ARG002
        raise self.unprepared()

    def record(self, index: int) -> NoReturn:  # noqa: ARG002
        raise self.unprepared()

    def preview(self) -> Previewed:
        """Run the filters over some texts of each source, from places spread over it."""
        notes = list(self.info.notes)
        matchers = self.matchers()
        texts = [_look(source, matchers, notes) for source in self.of_text]
        quotas = {entry.name: entry.tokens for entry in self.file.sources}
        ids = [HeldIds(one.name, one.info.sequences, one.info.tokens, quotas[one.name]) for one in self.of_ids]
        return Previewed(str(self.file.where), texts, ids, notes)

    def sample_records(self) -> tuple[list[str], SkippedRecords]:
        from tokfmt.source.ingest import sample_records

        texts, skipped = list[str](), SkippedRecords()
        for part in (part for source in self.of_text for part in source.parts):
            texts_of_part, more = sample_records(part)
            texts, skipped = [*texts, *texts_of_part], skipped + more
        return texts, skipped

    def close(self) -> None:
        for source in self.of_text:
            for reader in source.readers:
                reader.close()
