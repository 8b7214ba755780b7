"""The destination of a conversion: its path, format and options, and what goes to which part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokfmt import registry
from tokfmt.core.errors import OptionError
from tokfmt.core.format import Format, Target, TokenWriter, WriterTraits
from tokfmt.core.messages import Option
from tokfmt.core.options import parse_options
from tokfmt.ops.convert.arrangement import SplitTarget, portions
from tokfmt.ops.convert.request import Request

if TYPE_CHECKING:
    from tokfmt.recipes.samples import PackedRows, Samples


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a conversion writes, and in which form.

    Attributes:
        path: As its format names it.
        format: Of all its portions.
        given: The writer's options that were given.
        portions: What is written where: one, or one for each split.
        options: The format's `write_options`; portions differ in their split only.
        traits: What the writer stores.
        rows: A recipe whose samples are stored as they are; None where sequences are stored.
        packed: The same samples without padding, for formats that pack them.
    """

    path: Path
    format: Format
    given: Mapping[str, object]
    portions: tuple[SplitTarget, ...]
    options: Any
    traits: WriterTraits
    rows: Samples | None = None
    packed: PackedRows | None = None

    @staticmethod
    def of(request: Request) -> Destination:
        """Return the destination that a request names.

        Raises:
            OptionError: The format has no such option, or no such name.
        """
        format_ = registry.get(request.to) if request.to else registry.for_destination(request.destination)
        given = request.given_to_writer(format_)
        options: Any = parse_options(format_.write_options, given, format_.name)
        path = format_.destination(request.destination, options)
        found = tuple(portions(request.arrangement, path, format_, given))
        return Destination(path, format_, given, found, found[0].options, format_.writer_traits(found[0].options))

    @property
    def paths(self) -> list[Path]:
        """Each path that is written, once."""
        return list(dict.fromkeys(portion.destination for portion in self.portions))

    def writer(self, path: Path, portion: SplitTarget, target: Target) -> TokenWriter:
        """Make the writer of a portion, of rows as they are or of sequences, which builds it at `path`."""
        if self.rows is None or not self.format.stores_rows:
            return self.format.writer(path, portion.options, target)
        return self.format.row_writer(path, portion.options, target, self.rows.shifted)

    def with_rows_of(self, samples: Samples, request: Request) -> Destination:
        """Store the samples of a recipe as they are, if the format has rows of their length, or of any.

        Raises:
            OptionError: Only some of them would be stored, or in another order, or packed again.
        """
        laid = self.with_rows_of_length(samples.seq_len, request)
        if laid is None:
            return self
        from tokfmt.recipes.samples import PackedRows  # only recipes need what it imports

        packs = laid.traits.pack_size
        traits = laid.format.row_traits(laid.options) if laid.format.stores_rows else laid.traits
        return replace(laid, traits=traits, rows=samples, packed=PackedRows(samples, packs) if packs else None)

    def with_rows_of_length(self, seq_len: int, request: Request) -> Destination | None:
        """Return the destination with options for samples of a length; None if it stores them as sequences.

        Raises:
            OptionError: As of `with_rows_of`.
        """
        packs, given = self.traits.pack_size, dict(self.given)
        if not packs and not self.format.stores_rows:
            return None
        if not packs and str(given.setdefault("seq_len", seq_len)) != str(seq_len):
            return None
        if request.select is not None or not request.arrangement.plain:
            ordered = "shuffle" if request.arrangement.shuffle else "split"
            what = Option("select" if request.select is not None else ordered)
            raise OptionError(
                f"{what}: samples of a recipe are stored in its order: say tokens or shuffle in the recipe"
            )
        laid = tuple(portions(request.arrangement, self.path, self.format, given))
        options = laid[0].options
        return replace(self, given=given, portions=laid, options=options, traits=self.format.writer_traits(options))
