"""Choose what a conversion writes: the format and its options, the splits, the contents, the separator and the lead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tokfmt import registry
from tokfmt.base.options import parse_options
from tokfmt.commands.convert.arrangement import SplitTarget, portions
from tokfmt.commands.convert.inputs import Inputs, name_separator, text_recipe_of
from tokfmt.commands.convert.request import Request
from tokfmt.commands.convert.selection import query_of
from tokfmt.core.format import Format, SampleRows, Target, TokenWriter, WriterTraits
from tokfmt.core.reader import Separators
from tokfmt.core.records import RecordReader
from tokfmt.errors import Loss, OptionError, SeparatorUnknownError
from tokfmt.files.place import Place
from tokfmt.model.batch import Kind, Leads
from tokfmt.model.gap import Gap, joined_gap
from tokfmt.model.separator import SeparatorNeededError, lead_to_write, separator_to_write
from tokfmt.source.request import option_names, parse_selection
from tokfmt.source.stored import GIVEN, NO_SEPARATOR, Separator, Source, hold_chats, records_of, refuse_other_ends
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.mix import PackedRows, Samples
    from tokfmt.text.tokenizer import TokenizerHandle


class Lead(NamedTuple):
    """What a destination stores in front of sequences."""

    id: int | None = None  # None: none is stored
    leads: Leads = "as-read"  # the sequences that get it
    read: tuple[int, ...] = ()  # leads of the sources, each once
    lost: tuple[Loss, ...] = ()  # of these leads, if the destination cannot store them


NO_LEAD = Lead()
"""Neither the sources nor the destination have a lead."""

_UNCHOSEN = Separator(None)


@dataclass(frozen=True, slots=True)
class Destination:
    """What a conversion writes.

    `choose_destination` fills the attributes up to `traits`, `choose_contents` those up to `decodes`, and
    `choose_separators` the rest.
    """

    path: Place  # that the format gives the dataset
    format: Format  # of all portions
    given: Mapping[str, object]  # writer's options that the user gave
    portions: tuple[SplitTarget, ...]  # one portion, or one for each split
    options: Any  # the format's `write_options`; those of portions differ in their split only
    traits: WriterTraits  # the facts that the writer can store
    rows: Samples | None = None  # a recipe whose samples are stored as they are
    packed: PackedRows | None = None  # the same samples without padding, for formats that pack them
    # records are copied to JSON Lines as they are; otherwise the sources become one token axis
    copies_lines: bool = False
    decodes: bool = False  # the tokenizer decodes token IDs: the destination can hold text, and no source does
    separator: Separator = _UNCHOSEN
    lead: Lead = NO_LEAD

    @property
    def holds_text(self) -> bool:
        """Return whether the format can write text."""
        return "text_field" in option_names(self.format.write_options)

    @property
    def paths(self) -> list[Place]:
        """The path of each dataset that is written, without duplicates."""
        return list(dict.fromkeys(portion.destination for portion in self.portions))

    def writer(self, path: Path, portion: SplitTarget, target: Target) -> TokenWriter:
        """Return the writer that builds a portion at `path`, of samples as they are or of sequences."""
        if self.rows is not None and self.format.stores_rows:
            target = target._replace(rows=SampleRows(self.rows.seq_len, self.rows.shifted))
        return self.format.writer(path, portion.options, target)

    def target(self, request: Request, tokenizer: TokenizerHandle | None = None) -> Target:
        """Return the facts that writers need."""
        allow_loss, decoding = request.source.allow_loss, tokenizer if self.decodes else None
        is_lenient = "invalid-utf8" in allow_loss
        return Target(
            self.separator.eos_id,
            self.traits.separators,
            None if decoding is None else decoding.decoder(lenient=is_lenient),
            allow_loss,
            request.keeps_work,
            request.jobs,
            None if decoding is None or not is_lenient else decoding.decoder(lenient=False),
            "as-read" if request.to_eos == "as-stored" else "all",
            self.lead.id,
            self.lead.leads,
        )

    def facts(self, inputs: Inputs) -> dict[str, object]:
        """Return the facts that the output depends on besides the request; see `resume.facts_of`."""
        tokenizer = inputs.tokenizer
        return {
            "to": self.format.name,
            "to-opt": asdict(self.options),
            "the formats of the sources": [source.format.name for source in inputs.sources],
            "the separator": self.separator.eos_id,
            "the place of the separator": self.traits.separators.value,
            "the lead": [self.lead.id, self.lead.leads, self.lead.read],
            "the tokenizer": tokenizer.describe(chats=hold_chats(inputs.sources)) if tokenizer else None,
        }


def choose_destination(request: Request) -> Destination:
    """Return the destination that a request names."""
    format_ = registry.get(request.to) if request.to else registry.for_destination(request.destination)
    options_given = request.given_to_writer(format_)
    options: Any = parse_options(format_.write_options, options_given, format_.name)
    path = format_.destination(request.destination, options)
    splits = tuple(portions(request.arrangement, path, format_, options_given))
    traits = format_.writer_traits(splits[0].options)
    if options_given.get("shard_size") is not None and path.suffix in traits.file_suffixes:
        what = f"--to-opt shard_size={options_given['shard_size']}: {printable(path.name)} is one file. Name a folder"
        raise OptionError(what, name="shard_size")
    return Destination(path, format_, options_given, splits, splits[0].options, traits)


def choose_contents(request: Request, inputs: Inputs, destination: Destination) -> Destination:
    """Return the destination that gets the samples of a recipe, copied lines, decoded texts, or else token IDs."""
    sources, tokenizer = inputs.sources, inputs.tokenizer
    if len(sources) == 1 and sources[0].format.is_computed:
        destination = with_rows(destination, inputs.read[0], request)
    copies = tokenizer is None and destination.format.takes_lines and _are_lines(sources)
    of_text = any(source.reader.info.is_text for source in sources)
    if not of_text and {request.source.eos, request.to_eos, request.to_bos} - {None, "none"}:
        copies = False  # the IDs of a line may change
    writes_text = destination.holds_text
    decodes = tokenizer is not None and writes_text and not of_text
    kind, unused = ("text", "ids_field") if decodes or (copies and of_text) else ("ids", "text_field")
    if writes_text and unused in {name.replace("-", "_") for name in destination.given}:
        what = "text" if kind == "text" else "token IDs"
        raise OptionError(
            f"--to-opt {unused}: {what} is written. --to-opt {kind}_field=NAME names its field", name=unused
        )
    return replace(destination, copies_lines=copies, decodes=decodes)


def with_rows(destination: Destination, source: Source, request: Request) -> Destination:
    """Return the destination with samples stored as they are, if the source and the format have such."""
    if source.reader.has_labels:
        from tokfmt.mix import Samples  # only recipes need what it imports

        return _with_samples(destination, source.reader, request) if isinstance(source.reader, Samples) else destination
    recipe = text_recipe_of(source)
    if recipe is not None and recipe.file.seq_len is not None:
        return _with_samples_of_length(destination, recipe.file.seq_len, request) or destination
    return destination


def _with_samples(destination: Destination, samples: Samples, request: Request) -> Destination:
    """Return the destination that stores the samples of a recipe as they are, if the format stores their length."""
    laid = _with_samples_of_length(destination, samples.seq_len, request)
    if laid is None:
        return destination
    from tokfmt.mix import PackedRows  # only recipes need what it imports

    packs = laid.traits.pack_size
    traits = laid.format.row_traits(laid.options, samples.seq_len) if laid.format.stores_rows else laid.traits
    return replace(laid, traits=traits, rows=samples, packed=PackedRows(samples, packs) if packs else None)


def _with_samples_of_length(destination: Destination, seq_len: int, request: Request) -> Destination | None:
    """Return the destination with options for samples of `seq_len` tokens; None if it stores sequences."""
    packs, options_given, format_ = destination.traits.pack_size, dict(destination.given), destination.format
    if not packs and not format_.stores_rows:
        return None
    if not packs and "seq_len" in option_names(format_.write_options):
        length = options_given.setdefault("seq_len", seq_len)
        if str(length) != str(seq_len):
            return None
    if request.select is not None or not request.arrangement.plain:
        ordered = "shuffle" if request.arrangement.shuffle else "split"
        option = f"--{'select' if request.select is not None else ordered}"
        raise OptionError(f"{option}: samples of a recipe are stored in its order. Set tokens or shuffle in the recipe")
    for name, asked in (("eos", request.to_eos), ("bos", request.to_bos)):
        if asked is not None:
            problem = f"samples of a recipe are stored as it makes them. Set to_{name} in the recipe"
            raise OptionError(f"--to-{name}: {problem}", name=f"to_{name}")
    laid = tuple(portions(request.arrangement, destination.path, format_, options_given))
    traits = format_.writer_traits(laid[0].options)
    return replace(destination, given=options_given, portions=laid, options=laid[0].options, traits=traits)


def _are_lines(sources: Sequence[Source]) -> bool:
    """Return True if all sources are copied to jsonl record by record: JSON lines, and text.

    Records of token IDs that are not JSON lines, such as rows of Parquet, become sequences of tokens instead.
    """
    records = records_of(source for source in sources if not source.format.is_computed)
    return len(records) == len(sources) and all(reader.info.json_lines or reader.info.is_text for reader in records)


def choose_separators(request: Request, inputs: Inputs, destination: Destination) -> Destination:
    """Return the destination with the separator and the lead that it stores beside sequences."""
    if not destination.copies_lines:
        destination = _with_separator(request, inputs, destination)
    if request.to_bos is not None or any(source.bos_id is not None for source in inputs.sources):
        destination = replace(destination, lead=_lead_of(request, inputs, destination))
    return destination


def _with_separator(request: Request, inputs: Inputs, destination: Destination) -> Destination:
    """Return the destination with the separator and its origin, for the manifest."""
    traits, to_eos, sources = destination.traits, request.to_eos, inputs.sources
    gaps = [_gap_of(source) for source in sources]
    joined = gaps[0] if len(gaps) == 1 else joined_gap(gaps)
    kind: Kind = "after" if traits.separators.separated else "index"
    try:
        eos_id = separator_to_write(
            joined, kind, to_eos, traits.eos_id, needs=traits.needs_eos, name=destination.format.name
        )
    except SeparatorNeededError as error:
        if request.select is not None and query_of(request.select) is None:
            _refuse_selection_of_none(request.select, sources)
        if not inputs.holds_something:
            return replace(destination, separator=sources[0].separator)
        why, remedy = _missing_separator(inputs, destination, error)
        raise SeparatorUnknownError(request.destination, why, remedy) from error
    if eos_id is None and (traits.needs_eos or to_eos == "none"):  # An index marks the sequences.
        traits = replace(traits, separators=Separators.NONE, keeps_separators=False)
    if isinstance(to_eos, int):
        return replace(destination, traits=traits, separator=Separator(to_eos, "--to-eos"))
    if joined.parts and len(joined.ids) > 1:
        return replace(destination, traits=traits)
    source = next((source for source in sources if source.separator.eos_id is not None), sources[0])
    separator = source.separator
    if len(sources) > 1 and separator.inferred:
        separator = separator._replace(source=f"in {printable(source.paths[0].name)} {separator.source}")
    return replace(destination, traits=traits, separator=separator)


def _missing_separator(inputs: Inputs, destination: Destination, error: SeparatorNeededError) -> tuple[str, str]:
    """Return why a separator is missing, and the remedy."""
    tokenizer, why, remedy = inputs.tokenizer, error.why, f"{name_separator(inputs.tokenizer)}, or {error.ways}"
    if tokenizer is not None and all(source.reader.info.is_text for source in inputs.sources):  # It makes all IDs.
        why = f"{destination.format.name} stores a separator beside sequences, and the tokenizer "
        why += f"{printable(tokenizer.name)} states no EOS"
        remedy = f"{name_separator(tokenizer, '--to-eos')}, or {error.ways}" if tokenizer.ends else error.ways
    for dataset in inputs.files:
        if dataset.path.is_dir() and len({dataset.format.canonical(file) for file in dataset.files}) > 1:
            remedy += f". If its files have different separators, name them: '{printable(dataset.path)}/*'"
            break
    return why, remedy


def _gap_of(source: Source) -> Gap:
    """Return what is known of the separator of a source, for what a destination writes in its place."""
    separator, reader = source.separator, source.reader
    if separator.source == "tokenizer":
        refuse_other_ends(source)
    gap = replace(source.gap, path=printable(source.paths[0]))
    if separator.source in {GIVEN, NO_SEPARATOR}:
        gap = replace(gap, known="user")
    elif separator.is_none:
        gap = replace(gap, known="manifest")
    if isinstance(reader, RecordReader):  # Texts have none; rows of IDs may have one, if the user says so.
        gap = replace(gap, stored=not reader.info.is_text and separator.source == GIVEN)
    return gap


def _refuse_selection_of_none(selection: str, sources: Sequence[Source]) -> None:
    """Refuse a selection without sequences, which leaves nothing to infer a separator from."""
    readers = [source.reader for source in sources]
    count = sum(reader.count() if isinstance(reader, RecordReader) else reader.info.sequences for reader in readers)
    first, last = parse_selection(selection, count, [path for source in sources for path in source.paths])
    if first == last:
        there = counted(count, "sequence")
        raise OptionError(f"--select {printable(selection)}: nothing is selected: the sources have {there}")


def _lead_of(request: Request, inputs: Inputs, destination: Destination) -> Lead:
    """Return what the destination stores in front of sequences, and the loss of the leads of the sources."""
    traits, name, to_bos = destination.traits, destination.format.name, request.to_bos
    each_once = dict.fromkeys(source.bos_id for source in inputs.sources)
    read = tuple(lead for lead in each_once if lead is not None)
    if isinstance(to_bos, int):
        if destination.copies_lines or destination.decodes:
            problem = "gets records or texts, which have no lead"
            raise OptionError(f"--to-bos {to_bos}: {name} {problem}", name="to_bos")
        if traits.separators.separated and to_bos == destination.separator.eos_id:
            problem = f"--to-bos {to_bos} is the separator, which alone marks boundaries in {name}"
            raise OptionError(f"{problem}. --to-eos ID writes another separator", name="to_bos")
    elif not destination.format.writer_traits(destination.options).needs_eos:
        return Lead(read=read)  # Contents alone are stored.
    kind: Kind = "index" if not traits.separators.alone else "after"
    if traits.separators is Separators.BETWEEN and traits.sample_length is not None:  # Runs of separators are padding.
        kind = "between"
    lead, leads = lead_to_write(read, kind, to_bos, frozenset({"leads"}), name)
    problem = f"the lead {', '.join(map(str, read))} of sequences"
    lost = (Loss("leads", problem),) if read and to_bos is None and kind == "between" else ()
    return Lead(lead, leads, read, lost)
