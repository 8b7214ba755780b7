"""The request of a conversion, the notes on it while it runs, and its result."""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypedDict

from tokfmt.base.options import fit
from tokfmt.commands.convert.arrangement import AS_IT_IS, Arrangement
from tokfmt.core.format import REGION, Format
from tokfmt.errors import OptionError
from tokfmt.files.journal import Task
from tokfmt.files.place import Place
from tokfmt.model.separator import ToEos
from tokfmt.run.progress import Progress
from tokfmt.source.partial import PartialSource
from tokfmt.source.request import EosChoice, SourceRequest, option_names
from tokfmt.wording import printable


@dataclass(frozen=True, slots=True)
class Request:
    """A conversion as the user asks for it. `convert` explains the fields that are not listed here."""

    source: SourceRequest  # the paths of the sources, and the options that say how to read them
    destination: Place
    to: str | None = None  # None: from the destination's name
    to_options: Mapping[str, object] = field(default_factory=dict)
    to_eos: ToEos = None  # None: that of the sources
    to_bos: EosChoice = None  # None: as the sources have it, if an index marks boundaries
    tokenizer: str | None = None
    from_tokenizer: str | None = None  # decodes token IDs, which `tokenizer` encodes again
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
    scale: int | None = None  # bytes of sources that a dry run estimates for
    manifest: bool = True
    region: int = REGION  # tokens that one worker writes at a time
    resume: bool = False
    task: Task | None = None
    part: Task | None = None  # the records of this task alone are converted, to a destination of their own; see `parts`
    finish: int = 0  # number of tasks whose work this run publishes; 0 if it does not publish tasks
    rejects: Place | None = None
    ledger: bool = False
    spool: Path | None = None
    # copies of pipes in scratch, with the name that the user gave for each
    piped: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_tasks(self) -> bool:
        """True if tasks share the work: this run is one of them, or publishes what they wrote."""
        return self.task is not None or self.finish > 0

    @property
    def keeps_work(self) -> bool:
        """True if the finished work of an interrupted run is kept."""
        return self.resume or self.task is not None or self.finish > 0

    @property
    def is_spread(self) -> bool:
        """Whether a cluster may run it as tasks that share only the store of the destination.

        Each task writes its part without the others. No task reads the destination back or replaces a dataset.
        """
        alone = self.executor.startswith("dask:") and not self.destination.is_local
        one_run = self.verify or self.overwrite or self.ledger or self.rejects or not self.arrangement.plain
        return alone and not (self.in_tasks or one_run)

    def given_to_writer(self, format_: Format) -> dict[str, object]:
        """Return the writer's options that the user gave, --seq-len and --split among them."""
        names, options = option_names(format_.write_options), dict(self.to_options)
        if self.seq_len is not None:
            if "seq_len" not in names:
                problem = f"--seq-len: {format_.name} has no samples"
                if format_.stores_rows:
                    recipe = f"tokfmt recipe SRC --seq-len {self.seq_len} -o mix.toml"
                    problem = (
                        f"--seq-len: rows of {format_.name} are the samples of a recipe. `{recipe}`, then convert it"
                    )
                raise OptionError(problem, name="seq-len")
            options["seq_len"] = self.seq_len
        if self.source.split and not self.arrangement.shares and "split" in names:
            options.setdefault("split", self.source.split)
        return options


class ConvertedSource(TypedDict):
    """A source."""

    path: str
    format: str


ConvertedSeparator = TypedDict(
    "ConvertedSeparator", {"eos_id": int | None, "from": str | None, "seen": str | None, "inferred": bool}
)


class Became(TypedDict):
    """What became of separators or leads, in sequences.

    Attributes:
        kept: Written as it was read.
        replaced: Another ID was written in its place.
        added: The sequence had none, and got one.
        dropped: The sequence had one, and none was written.
        bare: The sequence had none, and got none.
    """

    kept: int
    replaced: int
    added: int
    dropped: int
    bare: int


class ConvertedLead(TypedDict):
    """The ID in front of sequences, such as a BOS.

    Attributes:
        bos_id: The lead of the destination, or that of the sources if it was left out; None without one.
        stored: "before" if sequences of the destination begin with it, else "none"; None without a lead.
    """

    bos_id: int | None
    stored: Literal["before", "none"] | None


class Estimate(TypedDict):
    """What a conversion takes.

    Attributes:
        tokens: The number of tokens in the destination, without separators.
        is_exact: True if the counts are not estimated.
        scratch_bytes: The bytes that a run writes to scratch, and to parts beside the destination, and removes.
        cpu_seconds: The CPU time of all workers together.
        measured_seconds: The CPU time of the trial that it is scaled from, without start-up.
        read_bytes: The bytes of text, or of IDs in memory, that the trial read; of compressed text, as it is stored.
        places: The number of places that the trial read.
        memory_bytes: The largest memory of this process so far, with the trial by one worker.
        scaled_to: The bytes of the sources that the other values are scaled to; None for the sources as they are.
    """

    sequences: int
    tokens: int
    is_exact: bool
    size_bytes: int
    scratch_bytes: int
    cpu_seconds: float
    measured_seconds: float
    read_bytes: int
    places: int
    memory_bytes: int
    scaled_to: int | None


class Plan(TypedDict, total=False):
    """The division of the work.

    Attributes:
        jobs: The number of workers.
        minimum_bytes: The minimum size of the destination, of a dry run.
        free_bytes: The free space, of a dry run.
        estimate: What a run takes, by a trial of some places; of a dry run.
        download: What a run reads from stores; of a dry run.
        spool: The directory of the files that are uploaded; of a dry run.
        upload: What a run uploads at least; of a dry run.
    """

    tasks: int
    executor: str
    jobs: int
    minimum_bytes: int | None
    free_bytes: int | None
    estimate: Estimate
    download: dict[str, int]
    spool: str
    upload: dict[str, int | None]


class SplitCounts(TypedDict):
    """A split."""

    destination: str
    sequences: int | None
    tokens: int | None
    max_id: int | None
    separators: Became | None
    leads: Became | None


class Rejected(TypedDict):
    """What a rule of a filter left out."""

    documents: int
    characters: int | None


class PreparedSource(TypedDict):
    """What one source of a recipe gives.

    Attributes:
        documents: The number of documents that were read.
        characters: The number of characters; None for token IDs.
        rejected: What each rule of a filter left out.
        duplicates: The number of documents that equal one of each source.
        kept: The number of documents that are kept.
        quota: The tokens that the recipe takes; None for all.
        tokens: The number of tokens in the result.
        passes: The mean number of times that a document is in the result.
    """

    source: str
    documents: int
    characters: int | None
    rejected: dict[str, Rejected]
    duplicates: dict[str, int]
    kept: int
    quota: int | None
    tokens: int
    passes: float


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion, or of a dry run.

    Attributes:
        destination: The path as given.
        format: Name of the destination's format.
        sources: Path and format of each source.
        sequences: Number of sequences in the destination; None before text is tokenized.
        tokens: Number of tokens in the destination, without separators; None before text is tokenized.
        max_id: Largest token ID written, a stored separator included; None if it is not known.
        separator: The ID (`eos_id`), its origin (`from`), how many of the sequences that were looked at end with it, in
            words (`seen`), and whether it was inferred (`inferred`).
        separators: Number of sequences whose separator was kept (`kept`), replaced by another ID (`replaced`), added
            (`added`) or dropped (`dropped`), or which had and got none (`bare`). The sum is the number of sequences.
            None before they are written, and if the destination holds lines, or samples of a recipe as they are.
        lead: The ID of the lead (`bos_id`) that the destination has, or that the sources have if it was left out; and
            where it is stored (`stored`): "before" sequences, or "none". Both are None without a lead.
        leads: The numbers of `separators` for leads; None without one.
        losses: The losses that were accepted, in words, by their --allow-loss name.
        notes: The notes that were reported.
        plan: Number of tasks, executor, workers, and the space that the destination needs.
        verified: The destination was read back and compared.
        compared: Numbers of what was compared: "sequences" and "tokens", "texts", or "records".
        tokenizer: The tokenizer that made or decoded the token IDs; None if it is not known.
        sample_length: Tokens per sample, for formats that store samples.
        dry_run: Nothing was written.
        shuffle: Seed of the shuffled order; None if the order is that of the source.
        splits: Destination and counts of each split, by name.
        recipe: Fingerprint of the recipe whose samples are stored as they are; None if sequences are stored.
        labels: "recipe" if a recipe made the labels and loss masks of these samples, "stored" if its sources have them.
        replaces: What a run would replace (`dry_run`), in words, by path.
        prepared: What each source of a recipe gives, and what filters left out.
        padded: Positions that hold padding in the samples of recipes and runs. They are counted in `tokens`.
        partial: What was saved and lost of each damaged source.
    """

    destination: str
    format: str
    sources: list[ConvertedSource]
    sequences: int | None
    tokens: int | None
    max_id: int | None
    separator: ConvertedSeparator
    losses: dict[str, str]
    notes: list[str]
    plan: Plan
    lead: ConvertedLead
    separators: Became | None = None
    leads: Became | None = None
    verified: bool = False
    compared: dict[str, int] = field(default_factory=dict)
    tokenizer: dict[str, object] | None = None
    sample_length: int | None = None
    dry_run: bool = False
    shuffle: int | None = None
    splits: dict[str, SplitCounts] = field(default_factory=dict)
    recipe: str | None = None
    labels: str | None = None
    replaces: dict[str, str] = field(default_factory=dict)
    prepared: list[PreparedSource] = field(default_factory=list)
    padded: int = 0
    partial: list[PartialSource] = field(default_factory=list)


def to_eos_of(to_eos: object) -> ToEos:
    """Return the separator to write, an int also for a number of numpy."""
    checked: ToEos = fit("to_eos", to_eos, ToEos, {"minimum": 0, "maximum": sys.maxsize})
    return checked


def to_bos_of(to_bos: object) -> EosChoice:
    """Return the lead to write, an int also for a number of numpy."""
    checked: EosChoice = fit("to_bos", to_bos, EosChoice, {"minimum": 0, "maximum": sys.maxsize})
    return checked


def task_of(task: tuple[int, int]) -> Task:
    """Return the task that a pair (index, count) names."""
    try:
        index, count = map(operator.index, task)
    except (TypeError, ValueError) as error:
        raise OptionError(f"task is {task!r}: is a pair of whole numbers, (index, count)") from error
    if not 0 <= index < count:
        raise OptionError(f"--task {index}/{count}: tasks of {count} are 0/{count} to {count - 1}/{count}")
    return Task(index, count)


class Notes(Progress):
    """The progress of one conversion, which keeps the notes of its result."""

    def __init__(self, progress: Progress, piped: Mapping[str, str]) -> None:
        """Report to `progress`; `piped` maps copies in scratch to the names that the user gave."""
        self.kept = list[str]()  # of the result, in order
        self._progress, self._piped, self._before = progress, piped, frozenset[str]()

    def phase(self, name: str, total: int, unit: str) -> None:
        self._progress.phase(name, total, unit)

    def advance(self, amount: int) -> None:
        self._progress.advance(amount)

    def note(self, text: str) -> None:
        """Report a note that depends on interruptions of the run, without keeping it for the result."""
        self._progress.note(self._readable(text))

    def add(self, text: str) -> None:
        """Report a note, and keep it for the result."""
        self.kept.append(self._readable(text))
        if self.kept[-1] not in self._before:
            self.note(text)

    def fresh(self) -> Notes:
        """Return the same without the notes so far."""
        return Notes(self._progress, self._piped)

    def begin_again(self, why: str) -> None:
        """Report why the run begins again, and keep no note so far. No note is reported twice."""
        self.note(why)
        self._before |= {*self.kept}
        self.kept.clear()

    def _readable(self, text: str) -> str:
        return self.named(printable(text))

    def named(self, text: str) -> str:
        """Replace the paths of copies in scratch by the names that the user gave."""
        for copy, name in self._piped.items():
            text = text.replace(copy, name)
        return text
