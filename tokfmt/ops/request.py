"""What is asked of a conversion, and what is said of it afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tokfmt.core.format import REGION
from tokfmt.ops.arrangement import AS_IT_IS, Arrangement
from tokfmt.ops.open import Options
from tokfmt.ops.sources import SourceRequest
from tokfmt.run.journal import Shard


@dataclass(frozen=True, slots=True)
class Request:
    """Everything a user may say about a conversion; see `convert` for the meaning of each."""

    source: SourceRequest
    destination: Path
    to: str | None = None
    to_options: Options = ()
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
        tokenizer: What made or read the ids.
        dry_run: Nothing was written.
        shuffle: Seed of the shuffled order, None if the order is the source's.
        splits: Where each split went, and what it holds, by name.
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
    tokenizer: dict[str, object] | None = None
    dry_run: bool = False
    shuffle: int | None = None
    splits: dict[str, dict[str, object]] = field(default_factory=dict)
    schema: str = field(default="tokfmt.convert/1", init=False)
