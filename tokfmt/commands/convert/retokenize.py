"""Encode token IDs again (`--from-tokenizer`): sources as the texts that their tokenizer made, and what changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tokfmt.base.threads import in_threads
from tokfmt.commands.convert.request import Request
from tokfmt.core.loss_mask import is_masked
from tokfmt.core.reader import TokenReader, windows
from tokfmt.core.records import RecordReader
from tokfmt.errors import ConversionError, Loss, OptionError
from tokfmt.run.progress import Progress
from tokfmt.source.ingest import as_stored, ingested
from tokfmt.source.stored import Separator, Source
from tokfmt.text.decoded import DecodedRecords
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

_MANY = 1 << 10  # sequences that are compared at once


def as_texts(
    request: Request, sources: Sequence[Source], before: TokenizerHandle, after: TokenizerHandle | None
) -> list[Source]:
    """Return sources of token IDs as sources of the texts that `--from-tokenizer` decodes them to."""
    if after is None:
        raise OptionError("--from-tokenizer decodes token IDs, to encode them again. Give --tokenizer NEW too")
    separator = Separator(None) if after.eos_id is None else Separator(after.eos_id, "tokenizer")
    return [_as_text(request, source, before, separator) for source in sources]


def _as_text(request: Request, source: Source, before: TokenizerHandle, separator: Separator) -> Source:
    path, reader, allowed = source.paths[0], source.reader, request.source.allow_loss
    if reader.info.is_text:
        raise OptionError(f"{printable(path)}: holds text, which no tokenizer made. Leave --from-tokenizer out")
    if source.format.is_computed:
        raise OptionError(f"{printable(path)}: is a recipe. Encode its sources again, each with --from-tokenizer")
    if isinstance(reader, RecordReader):
        reader = ingested(as_stored(reader) if source.separator.eos_id is None else reader, None, request.jobs)
    if is_masked(reader) and "loss-mask" not in allowed:
        raise ConversionError(
            f"{printable(path)}: has a loss mask, which texts do not have. To encode them without it, add --allow-loss "
            "loss-mask"
        )
    lenient = "invalid-utf8" in allowed
    strict = before.decoder() if lenient else None
    lost = [Loss("loss-mask", source.reader.info.loss_masks)] if source.reader.info.loss_masks else []
    records = DecodedRecords(reader, path, before.decoder(lenient=lenient), strict, (*source.reader.info.lost, *lost))
    nothing = (None,) * len(source.tokenizers)
    return source._replace(reader=records, separator=separator, dataset=None, tokenizers=nothing, bos_id=None)


def notes_on_changes(
    source: Source, axis: TokenReader, after: TokenizerHandle | None, begin: int, jobs: int, progress: Progress
) -> list[str]:
    """Return a note on the sequences of a source whose new IDs, an axis from sequence `begin` on, do not decode to the
    text of the old ones; [] for a source that is not encoded again.
    """
    records = source.reader
    if not isinstance(records, DecodedRecords) or after is None:
        return []
    path, count, decoder = source.paths[0], axis.info.sequences, after.decoder(lenient=True)
    progress.phase("comparing", count, "sequences")

    def changed(interval: tuple[int, int]) -> tuple[list[int], int]:
        first, last = interval
        bounds, replaced, others = axis.offsets(first, last).tolist(), 0, list[int]()
        for k, one in enumerate(records.decoded(begin + first, begin + last)):
            replaced += not one.is_whole
            if decoder.decode(axis.tokens(bounds[k], bounds[k + 1])) != one.text:
                others.append(begin + first + k)
        progress.advance(last - first)
        return others, replaced

    numbers, replaced = list[int](), 0
    for others, more in in_threads(changed, windows(0, count, _MANY), jobs):
        numbers, replaced = [*numbers, *others], replaced + more
    said = f"{printable(path)}: {counted(count, 'sequence')} encoded again, "
    if numbers:
        said += f"{len(numbers):,} with another text than before (first: sequence {numbers[0]:,})"
    else:
        said += "each with the same text as before"
    return [f"{said}; U+FFFD stands in {replaced:,} for bytes or IDs that are not text" if replaced else said]
