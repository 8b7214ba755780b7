"""What a conversion is asked to do, and what it answers."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tokfmt.core.errors import OptionError
from tokfmt.core.format import REGION, Format
from tokfmt.core.messages import Option
from tokfmt.ops.convert.arrangement import AS_IT_IS, Arrangement
from tokfmt.ops.source.request import SourceRequest, option_names
from tokfmt.run.plan import Task

if TYPE_CHECKING:
    pass


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
    task: Task | None = None
    finish: int = 0
    rejects: Path | None = None
    ledger: bool = False
    piped: Mapping[str, str] = field(default_factory=dict)

    @property
    def kept(self) -> str:
        """Name of the staging directory that outlives an interruption; empty: none does."""
        return "tasks" if self.task or self.finish else "resume" if self.resume else ""

    def given_to_writer(self, format_: Format) -> dict[str, object]:
        """The writer's options, as far as they were given.

        Raises:
            OptionError: A length of samples, and the format has none.
        """
        known, given = option_names(format_.write_options), dict(self.to_options)
        if self.seq_len is not None:
            if "seq_len" not in known:
                raise OptionError(f"{Option('seq-len')}: {format_.name} has no samples", name="seq-len")
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
        dropped: What was given up, by its --allow-loss name.
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
        labels: Of these samples: "recipe" if the recipe makes labels and masks, "stored" if its sources have their own.
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
    labels: str | None = None
    replaces: dict[str, str] = field(default_factory=dict)
    prepared: list[Mapping[str, Any]] = field(default_factory=list)
    padded: int = 0
    partial: list[Mapping[str, Any]] = field(default_factory=list)


def task_of(task: tuple[int, int]) -> Task:
    """The value of --task.

    Raises:
        OptionError: There is no such share.
    """
    try:
        index, count = map(operator.index, task)
    except (TypeError, ValueError) as error:
        raise OptionError(f"task is {task!r}: is a pair of whole numbers, (index, count)") from error
    if not 0 <= index < count:
        raise OptionError(
            f"{Option('task', f'{index}/{count}')}: tasks of {count} are 0/{count} to {count - 1}/{count}"
        )
    return Task(index, count)
