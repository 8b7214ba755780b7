"""The destination of a conversion: its path, format and options, and what goes to which part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tokfmt import registry
from tokfmt.core.errors import OptionError
from tokfmt.core.format import Format, Target, TokenWriter, WriterTraits, destination_of
from tokfmt.core.messages import Option
from tokfmt.core.options import parse_options
from tokfmt.core.protocols import Rowed, Sampled
from tokfmt.core.records import RecordReader
from tokfmt.ops.convert.arrangement import Portion, portions
from tokfmt.ops.convert.request import Request

if TYPE_CHECKING:
    from tokfmt.ops.source.draft import Draft
    from tokfmt.ops.source.opened import Source
    from tokfmt.recipes.samples import PackedRows, Samples


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a conversion writes, and in which form.

    Attributes:
        path: As its format names it.
        format: Of all its portions.
        given: The writer's options that were given.
        portions: What is written where: one, or one for each split.
        rows: A recipe whose samples are stored as they are; None where sequences are stored.
        packed: The same samples without padding, for formats that pack them.
    """

    path: Path
    format: Format
    given: Mapping[str, object]
    portions: tuple[Portion, ...]
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
        path = destination_of(format_, request.destination, options)
        return Destination(path, format_, given, tuple(portions(request.arrangement, path, format_, given)))

    @property
    def options(self) -> Any:
        """The format's `write_options`; portions differ in their split only."""
        return self.portions[0].options

    @property
    def paths(self) -> list[Path]:
        """Each path that is written, once."""
        return list(dict.fromkeys(portion.destination for portion in self.portions))

    @property
    def traits(self) -> WriterTraits:
        """What the writer stores."""
        if self.rows is None or not isinstance(self.format, Rowed):
            return self.format.writer_traits(self.options)
        return self.format.row_traits(self.options)

    def writer(self, path: Path, portion: Portion, target: Target) -> TokenWriter:
        """Make the writer of a portion, of rows as they are or of sequences, which builds it at `path`."""
        if self.rows is None or not isinstance(self.format, Rowed):
            return self.format.writer(path, portion.options, target)
        return self.format.row_writer(path, portion.options, target, self.rows.shifted)

    def with_rows_of(self, reader: object, request: Request) -> Destination:
        """Store the samples of a recipe as they are, if the format has rows of their length, or of any.

        Raises:
            OptionError: Only some of them would be stored, or in another order, or packed again.
        """
        packs = self._packs
        if not (isinstance(self.format, Rowed) or packs) or not isinstance(reader, Sampled):
            return self
        from tokfmt.recipes.samples import PackedRows, Samples  # only recipes need what it imports

        laid = self._laid(request, reader.seq_len) if isinstance(reader, Samples) else None
        if laid is None or not isinstance(reader, Samples):
            return self
        return replace(laid, rows=reader, packed=PackedRows(reader, packs) if packs else None)

    def with_rows_foreseen(self, source: Source, request: Request) -> Destination:
        """Prepare for the samples of a recipe of text, which do not exist yet.

        Raises:
            OptionError: As of `with_rows_of`.
        """
        if source.format.name != "recipe" or not isinstance(source.reader, RecordReader):
            return self
        seq_len = cast("Draft", source.reader).file.seq_len
        if seq_len is None or not (isinstance(self.format, Rowed) or self._packs):
            return self
        return self._laid(request, seq_len) or self

    @property
    def _packs(self) -> int | None:
        return getattr(self.options, "pack_size", None)

    def _laid(self, request: Request, seq_len: int) -> Destination | None:
        """Return the destination with options for samples of that length, None if another length was given."""
        given = dict(self.given)
        if not self._packs and str(given.setdefault("seq_len", seq_len)) != str(seq_len):
            return None
        if request.select is not None or not request.arrangement.plain:
            what = (
                f"{Option('select')}"
                if request.select is not None
                else f"{Option('shuffle')}"
                if request.arrangement.shuffle
                else f"{Option('split')}"
            )
            raise OptionError(
                f"{what}: samples of a recipe are stored in its order: say tokens or shuffle in the recipe"
            )
        laid = portions(request.arrangement, self.path, self.format, given)
        return replace(self, given=given, portions=tuple(laid))
