"""Stage-1 packed blocks: raw token streams in whole samples, without a header.

    file      bytes                       content
    block     samples · 8,192 · 4         int32 little-endian token IDs, 0..2^31-1
    ...       62,500 samples at most      = 512,000,000 tokens = 2,048,000,000 bytes; only the last block is shorter

- Files of a directory are `stage1_block_0000.bin`, `stage1_block_0001.bin`, ...; their concatenation is one stream.
- A separator (EOS; 50256, GPT-2's) follows every document. Documents continue across samples, batches (125 samples) and
  blocks. Padding is EOS at the end of the last sample. There is no index, no count and no checksum.
- Samples of a recipe are stored as they are. Only the manifest states that each is a sequence. Without
  it, blocks are read as one stream.
- A run of EOS at the end of the last sample is padding; the first EOS of it ends a document. Any other EOS after an
  EOS is an empty document. Writing refuses empty sequences, because at the end they would look like padding
  (`--allow-loss empty-sequences`).

Source: the public dataset card of a stage-1 packed pretraining dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.annotation import Numbered, Part
from tokfmt.core.findings import Audit, Finding, Problem, fatal
from tokfmt.core.format import Confidence, Hints, Probe, Target, TokenWriter, WriterTraits
from tokfmt.core.inspection import Inspection, Unreadable
from tokfmt.core.ragged import Tokens
from tokfmt.core.raw_ids import LARGEST, kind_of, places
from tokfmt.core.reader import INT32_MAX, ByteOffset, Damage, Layout, PaddingCounts, Separators, TokenReader
from tokfmt.errors import CorruptError, FormatError, TruncatedError
from tokfmt.files.fields import Field, Section
from tokfmt.files.file import File, open_file
from tokfmt.files.place import Place, place_of
from tokfmt.formats.flat import Extent, FileLayout, FlatFormat, FlatInspection, FlatReader, FlatWriter, joined
from tokfmt.formats.stage1.blocks import GPT2_EOS, MEMBER, NAME, TOKEN, numbering, problems_of, short_blocks, suspicions
from tokfmt.formats.stage1.options import SAMPLE, ReadOptions, WriteOptions
from tokfmt.wording import counted, printable

_UPSTREAM = 4 * SAMPLE * 62_500  # bytes of a complete block
_FIRST_IDS = 8  # IDs of a sample that `show --raw` prints


class Stage1Reader(FlatReader):
    """A reader of the stored stream of one or more blocks, or of its samples."""

    seq_len: int
    padding: int

    def tokens(self, start: int, stop: int) -> Tokens:
        try:
            return super().tokens(start, stop)
        except CorruptError as error:  # IDs of another width or byte order may be negative as int32.
            path = place_of(error.place)
            seems = next(suspicions(open_file(path)), "The file is damaged, or does not hold int32 IDs")
            raise CorruptError(
                path, error.what, offset=error.offset, expected=error.expected, found=error.found, remedy=seems
            ) from error

    def padding_counts(self) -> PaddingCounts:
        """Return the padding, and the samples if they are complete; see `TokenReader.padding_counts`."""
        if self.info.layout is Layout.SAMPLES:
            return PaddingCounts(None, self.info.tokens)
        tokens = self.info.tokens + self.padding
        return PaddingCounts(self.padding, tokens, sample_length=None if tokens % self.seq_len else self.seq_len)

    def is_padding(self, start: int, stop: int) -> NDArray[np.bool_]:
        """See `TokenReader.is_padding`. Documents are read without padding."""
        filled = self.info.tokens - (self.padding if self.info.layout is Layout.SAMPLES else 0)
        return np.arange(start, stop) >= filled

    def locate(self, position: int) -> ByteOffset:
        place = super().locate(position)
        sample, column = divmod(place.offset // 4, self.seq_len)
        return place._replace(detail=f"sample {sample:,}, column {column:,}")


class Stage1Inspection(FlatInspection):
    """The inspection of blocks."""

    options: ReadOptions

    def reader(self) -> Stage1Reader:
        layout, view, padding = self.layout, self.options.view, 0
        if not self.hints.no_eos:
            padding = _padding(layout.extents, layout.pad_id, self.options.seq_len)
        if padding and view == "documents":
            *extents, last = layout.extents
            extents.append(last._replace(tokens=last.tokens - padding))
            layout = replace(layout, extents=extents)
        reader = Stage1Reader(layout)
        reader.seq_len, reader.padding = self.options.seq_len, padding
        reader.info = replace(reader.info, length_given=view == "samples")
        return reader

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. Blocks are looked at whatever their problems, each alone and all together."""
        from tokfmt.formats.stage1.check import look

        files = [extent.file for extent in self.layout.extents]
        return look(self.paths[0], files, self.layout.notes, self.options.seq_len, how)

    def sections(self) -> Sequence[Section]:
        """Return a section of the blocks, and one of the samples of each."""
        blocks, seq_len = [file for path in self.paths for file in self.format.members(path)], self.options.seq_len
        named = Numbered(len(blocks), partial(_block, blocks, seq_len))
        samples = [Part(f"samples of {block.name}", block, partial(_samples, block, seq_len)) for block in blocks]
        return [Part("blocks", self.paths[0], lambda: named), *samples]


class Writer(FlatWriter):
    """A writer of blocks: the stream with a separator after each sequence, cut into samples; the last is padded."""

    separators, dtypes, limit = Separators.BETWEEN, (TOKEN.str,), INT32_MAX
    names = "stage1_block_{number:04d}.bin"

    @classmethod
    def traits(cls, options: WriteOptions) -> WriterTraits:
        return replace(super().traits(options), sample_length=options.seq_len)

    def file_tokens(self) -> int:
        return int(self.options.block_size)

    def padded(self, tokens: int) -> int:
        return -(-tokens // int(self.options.seq_len)) * int(self.options.seq_len)


class RowWriter(Writer):
    """A writer of samples as they are, with their padding and without separators between them."""

    separators = Separators.NONE

    def notes(self, source: TokenReader) -> Iterator[str]:  # noqa: ARG002 - of any source
        """See `TokenWriter.notes`. A block does not state that each of its samples is a sequence."""
        without = f"--from-opt view=samples --from-opt seq_len={self.options.seq_len} reads them without it"
        yield f"only the manifest states that each sample is a sequence, and its length; {without}"


class Stage1(FlatFormat):
    """The format of stage-1 packed blocks."""

    name = "stage1"
    title = "stage-1 blocks: raw int32 samples of 8,192"
    extensions = ("stage1_block_*.bin",)
    joins_files = can_stream = stores_rows = True
    stores = "sequences in order; IDs up to 2^31-1"
    cannot_store = "empty sequences; sequences that contain the separator"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer
    pattern, unreadable = NAME.pattern, "TF202"
    member, counted, inspection = MEMBER, "blocks", Stage1Inspection

    def inspect(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> Inspection:
        for path in paths:
            if path.is_dir() and not self.members(path):
                error = FormatError(path, f"holds no {self.member}", remedy="Name the blocks themselves")
                return Unreadable("TF201", path, error)
        return super().inspect(paths, options, hints)

    def writer(self, path: Path, options: WriteOptions, target: Target) -> TokenWriter:
        return (Writer if target.rows is None else RowWriter)(path, options, target)

    def row_traits(self, options: WriteOptions, seq_len: int) -> WriterTraits:  # noqa: ARG002 - an option of the format
        return RowWriter.traits(options)

    def sniff(self, probe: Probe) -> Confidence | None:
        if probe.is_directory:
            return Confidence.CERTAIN if any(NAME.fullmatch(name) for name in probe.entries) else None
        named = NAME.fullmatch(probe.path.name) is not None
        if not probe.size:
            return Confidence.STRUCTURE if named else None
        if not named and probe.size % (SAMPLE * 4):
            return None
        head = np.frombuffer(probe.head[: len(probe.head) // 4 * 4], "<i4")
        plausible = len(head) > 0 and int(head.min()) >= 0 and int(head.max()) < LARGEST
        if named:
            return Confidence.STRUCTURE if plausible else Confidence.NAME
        if not plausible:
            return None
        return Confidence.PLAUSIBLE if kind_of(places(probe), GPT2_EOS) == "int32 tokens" else None

    def examine(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> FileLayout:
        problems = list[Problem]()
        if hints.allow_partial:
            file_layout = _unbroken(super().examine(paths, options, hints))
        else:
            looks = [self._examined(block, options, hints) for block in self.all_files(paths)]
            file_layout = replace(joined(looks), extras={self.counted: len(looks)})
        blocks = [extent.file.path for extent in file_layout.extents]
        accepted = options.gaps == "accept"
        if len(paths) == 1:
            problems = list(numbering(paths[0], blocks, gaps_accepted=accepted))
            if hints.allow_partial:  # The first tokens of a block may be the rest of a document.
                problems = [problem._replace(is_fatal=True) for problem in problems]
        if len(paths) == 1 or all(NAME.fullmatch(path.name) for path in blocks):
            problems += short_blocks([extent.file for extent in file_layout.extents], gaps_accepted=accepted)
        problems += file_layout.problems
        if options.view == "documents":
            return replace(file_layout, problems=problems)
        if rest := sum(extent.tokens for extent in file_layout.extents) % options.seq_len:
            remedy = "--from-opt seq_len=N gives the length of its samples; "
            remedy += "--allow-loss tail leaves out the rest"
            what = f"the last sample has {rest:,} tokens"
            error = TruncatedError(blocks[-1], what, expected=options.seq_len, remedy=remedy)
            end = file_layout.extents[-1].file.size
            lost = f"the last {counted(rest, 'token')}, to byte {end:,}"
            problems.append(fatal("TF207", error, "tail", is_truncated=True, lost=lost))
        return replace(file_layout, problems=problems, sample_length=options.seq_len, separators=Separators.NONE)

    def _examined(self, block: Place, options: ReadOptions, hints: Hints) -> FileLayout:
        """Return the layout of a block; if it cannot be read, without tokens and with the problem."""
        try:
            return self.examine_file(open_file(block), options, hints)
        except FormatError as error:
            return FileLayout(extents=(), problems=[fatal(self.unreadable, error)])

    def examine_file(self, file: File, options: ReadOptions, hints: Hints) -> FileLayout:
        return FileLayout(
            extents=[Extent(file, 0, file.size // 4, TOKEN)],
            separators=Separators.BETWEEN,
            eos_id=GPT2_EOS if hints.tokenizer_eos is None else hints.tokenizer_eos,
            eos_from="stage1 convention" if hints.tokenizer_eos is None else "tokenizer",
            problems=list(problems_of(file, options.seq_len)),
            notes=tuple(suspicions(file)),
            pad_id=next(i for i in (hints.eos_id, hints.tokenizer_eos, GPT2_EOS) if i is not None),
        )

    def repaired_with(self, path: Place, options: ReadOptions) -> Mapping[str, object]:  # noqa: ARG002
        return {"seq_len": options.seq_len}


def _padding(extents: Sequence[Extent], eos_id: int | None, seq_len: int) -> int:
    """Return the number of separators at the end of the last sample that end no document."""
    last = extents[-1] if extents else None
    if last is None or not last.tokens:
        return 0
    total = sum(extent.tokens for extent in extents)
    length = min(last.tokens, (total - 1) % seq_len + 2)  # the last sample, and the token before it
    other = np.flatnonzero(last.file.array(last.begin + 4 * (last.tokens - length), length, TOKEN) != eos_id)
    run = length - 1 - int(other[-1]) if len(other) else length
    return max(0, run - 1)


def _unbroken(file_layout: FileLayout) -> FileLayout:
    """Return the layout up to the first block that may have been cut: one before the last that is shorter than others.

    The length of a complete block is known if it is that of upstream, or if two blocks before the last have it.
    """
    sizes = [extent.file.size for extent in file_layout.extents]
    full = max(sizes, default=0)
    known = full == _UPSTREAM or sizes[:-1].count(full) > 1
    last = next((k for k, size in enumerate(sizes[:-1]) if size < full or not known), None)
    if last is None:
        return file_layout
    path, behind = file_layout.extents[last].file.path, len(sizes) - last - 1
    what = f"{printable(path)}: this block may be cut, so {counted(behind, 'block')} after it "
    damage = Damage(f"{what}may begin inside a document", unused=sum(sizes[last + 1 :]))
    return replace(file_layout, extents=file_layout.extents[: last + 1], damage=(*file_layout.damage, damage))


def _block(blocks: Sequence[Place], seq_len: int, number: int) -> Field:
    """Return the field of block `number`: its tokens and its problems."""
    path = blocks[number]
    try:
        file = open_file(path)
        order = numbering(path.parent, blocks[max(0, number - 1) : number + 1], gaps_accepted=True)
        problems = [*order, *problems_of(file, seq_len)]
        wrong = [*(problem.error.what for problem in problems), *suspicions(file)]
    except FormatError as error:
        return Field(path.name, None, 0, error.what, wrong=True, path=path)
    samples = f"{counted(-(-file.size // (4 * seq_len)), 'sample')} of {seq_len:,} tokens of int32, little-endian"
    value, meaning = f"{file.size // 4:,} tokens", "; ".join(wrong) or samples
    return Field(path.name, 0, file.size, value, meaning, bool(wrong), path=path)


def _samples(block: Place, seq_len: int) -> Numbered:
    file, size = open_file(block), 4 * seq_len
    return Numbered(-(-file.size // size), partial(_sample, file, size))


def _sample(file: File, size: int, number: int) -> Field:
    """Return the field of sample `number` of a block; a sample has `size` bytes."""
    at = number * size
    length = min(size, file.size - at)
    ids = file.array(at, length // 4, TOKEN)
    negative = np.flatnonzero(ids < 0)
    wrong = [f"{len(negative):,} negative IDs, the first at byte {at + 4 * int(k):,}" for k in negative[:1]]
    wrong += ["a partial sample"] * (length < size) + ["ends inside a token"] * (length % 4 > 0)
    ends = int(np.count_nonzero(ids == GPT2_EOS))
    separators = f"{ends:,} separators ({GPT2_EOS})" if ends else ""
    value = " ".join(map(str, ids[:_FIRST_IDS].tolist())) + (" …" if len(ids) > _FIRST_IDS else "")
    return Field(f"sample {number:,}", at, length, value, "; ".join(wrong) or separators, bool(wrong))


FORMAT = Stage1()
