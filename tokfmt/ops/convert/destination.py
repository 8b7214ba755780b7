"""The destination of a conversion: its path, its format, its options and its portions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokfmt import registry
from tokfmt.core.errors import OptionError
from tokfmt.core.format import Format, Target, TokenWriter, WriterTraits
from tokfmt.core.options import parse_options
from tokfmt.core.place import Place
from tokfmt.core.reader import Separators
from tokfmt.ops.convert.arrangement import SplitTarget, portions
from tokfmt.ops.convert.request import Request

if TYPE_CHECKING:
    from tokfmt.recipes.samples import PackedRows, Samples


@dataclass(frozen=True, slots=True)
class Destination:
    """The path, format and options of a destination.

    Attributes:
        path: The path that the format gives the dataset.
        format: The format of all portions.
        given: The writer's options that the user gave.
        portions: One portion, or one for each split.
        options: The format's `write_options`. Those of the portions differ in their split only.
        traits: The facts that the writer can store.
        rows: A recipe whose samples are stored as they are; None if sequences are stored.
        packed: The same samples without padding, for formats that pack them.
    """

    path: Place
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
            OptionError: A format or an option does not exist.
        """
        format_ = registry.get(request.to) if request.to else registry.for_destination(request.destination)
        given = request.given_to_writer(format_)
        options: Any = parse_options(format_.write_options, given, format_.name)
        path = format_.destination(request.destination, options)
        found = tuple(portions(request.arrangement, path, format_, given))
        return Destination(path, format_, given, found, found[0].options, format_.writer_traits(found[0].options))

    @property
    def paths(self) -> list[Place]:
        """The path of each dataset that is written, without duplicates."""
        return list(dict.fromkeys(portion.destination for portion in self.portions))

    def writer(self, path: Path, portion: SplitTarget, target: Target) -> TokenWriter:
        """Return the writer that builds a portion at `path`, of samples as they are or of sequences."""
        if self.rows is None or not self.format.stores_rows:
            return self.format.writer(path, portion.options, target)
        return self.format.row_writer(path, portion.options, target, self.rows.shifted)

    def without_separators(self) -> Destination:
        """Return the destination that stores no separators, as an index marks the sequences."""
        return replace(self, traits=replace(self.traits, separators=Separators.NONE, keeps_separators=False))

    def with_rows_of(self, samples: Samples, request: Request) -> Destination:
        """Return the destination that stores the samples of a recipe as they are, if the format stores their length.

        Raises:
            OptionError: The request selects, shuffles or splits samples.
        """
        laid = self.with_rows_of_length(samples.seq_len, request)
        if laid is None:
            return self
        from tokfmt.recipes.samples import PackedRows  # only recipes need what it imports

        packs = laid.traits.pack_size
        traits = laid.format.row_traits(laid.options) if laid.format.stores_rows else laid.traits
        return replace(laid, traits=traits, rows=samples, packed=PackedRows(samples, packs) if packs else None)

    def with_rows_of_length(self, seq_len: int, request: Request) -> Destination | None:
        """Return the destination with options for samples of `seq_len` tokens; None if it stores sequences.

        Raises:
            OptionError: The request selects, shuffles or splits samples, or names their separator.
        """
        packs, given = self.traits.pack_size, dict(self.given)
        if not packs and not self.format.stores_rows:
            return None
        if not packs and str(given.setdefault("seq_len", seq_len)) != str(seq_len):
            return None
        if request.select is not None or not request.arrangement.plain:
            ordered = "shuffle" if request.arrangement.shuffle else "split"
            what = f"--{'select' if request.select is not None else ordered}"
            raise OptionError(
                f"{what}: samples of a recipe are stored in its order. Set tokens or shuffle in the recipe"
            )
        for name, asked in (("eos", request.to_eos), ("bos", request.to_bos)):
            if asked is not None:
                what = f"samples of a recipe are stored as it makes them. Set to_{name} in the recipe"
                raise OptionError(f"--to-{name}: {what}", name=f"to_{name}")
        laid = tuple(portions(request.arrangement, self.path, self.format, given))
        options = laid[0].options
        return replace(self, given=given, portions=laid, options=options, traits=self.format.writer_traits(options))
