"""What is asked of a conversion, and what is said of it afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tokfmt.core.errors import OptionError
from tokfmt.core.format import REGION
from tokfmt.ops.convert.arrangement import AS_IT_IS, Arrangement
from tokfmt.ops.source.request import SourceRequest
from tokfmt.run.journal import Shard

if TYPE_CHECKING:
    from tokfmt.ops.source.opened import Source


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
        prepared: Of a recipe of text, what became of the documents of each source: see `tokfmt.ops.prepare`.
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
    schema: str = field(default="tokfmt.convert/1", init=False)


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


def shard_of(shard: tuple[int, int] | None) -> Shard | None:
    """The value of --shard.

    Raises:
        OptionError: There is no such share.
    """
    if shard is None:
        return None
    index, count = shard
    if not 0 <= index < count:
        raise OptionError(f"--shard {index}/{count}: shards of {count} are 0/{count} to {count - 1}/{count}")
    return Shard(index, count)
