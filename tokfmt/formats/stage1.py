"""Stage-1 packed blocks: raw token streams in whole samples, no header.

    file      bytes                       content
    block     samples · 8,192 · 4         int32 little-endian token ids, 0..2^31-1
    ...       62,500 samples at most      = 512,000,000 tokens = 2,048,000,000 bytes; only the last block is shorter

- Files of a directory are `stage1_block_0000.bin`, `stage1_block_0001.bin`, ...; their concatenation is one stream.
- A separator (EOS; 50256, GPT-2's) follows every document; documents run on across samples, batches (125 samples) and
  blocks. Padding is EOS at the end of the last sample. Nothing else is stored: no index, no counts, no checksum.
- Runs of EOS are padding or empty documents, which cannot be told apart: reading drops them, writing refuses empty
  sequences (`--drop empty-sequences`).

Source: the public dataset card of a stage-1 packed pretraining dataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tokfmt.core.axis import Info, Layout, Separators, TokenReader, check_interval, frozen, windows
from tokfmt.core.dtypes import INT32_MAX, U32, check_ids, unsigned
from tokfmt.core.errors import ConversionError, CorruptError, FormatError, Loss, TruncatedError
from tokfmt.core.files import File, natural_key
from tokfmt.core.format import Confidence, Finding, Hints, Probe, Receipt, Region, Target
from tokfmt.core.options import option
from tokfmt.core.output import Output, preallocate
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.views.select import empty_sequences
from tokfmt.views.separated import WithSeparators

GPT2_EOS = 50256
SAMPLE = 8192
_BLOCK_NAME = re.compile(r"stage1_block_(\d+)\.bin")
_PLAUSIBLE_ID = (
    1 << 22
)  # no tokenizer in use has more than 4 Mi ids; uint16 or big-endian data read as int32 exceeds it


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read stage-1 blocks."""

    view: Literal["documents", "samples"] = option("documents", "documents between separators, or rows as stored")
    seq_len: int = option(SAMPLE, "tokens in a sample")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write stage-1 blocks."""

    seq_len: int = option(SAMPLE, "tokens in a sample")
    samples: int = option(62_500, "samples in a block (file)")


class Stage1Reader:
    """The stored stream of one or more blocks, or its samples."""

    def __init__(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> None:
        self.files = [File(path) for path in _blocks(paths)]
        notes = []
        tokens = []
        for file in self.files:
            if file.size % 4 and "tail" not in hints.drop:
                raise TruncatedError(
                    file.path,
                    "a block is whole int32 tokens, but the file ends inside one",
                    offset=file.size - file.size % 4,
                    expected="a size that is a multiple of 4",
                    found=file.size,
                    remedy="--drop tail reads up to the last whole token",
                )
            tokens.append(file.size // 4)
            if tokens[-1] % options.seq_len:
                rest = tokens[-1] % options.seq_len
                notes.append(f"{file.path.name} ends with a partial sample of {rest:,} of {options.seq_len:,} tokens")
        self._starts = offsets_of(tokens)
        total = int(self._starts[-1])
        self._samples = options.seq_len if options.view == "samples" else None
        if self._samples and total % self._samples and "tail" not in hints.drop:
            raise TruncatedError(
                self.files[-1].path, f"the last sample has {total % self._samples:,} tokens", expected=self._samples,
                remedy="--drop tail leaves it out",
            )  # fmt: skip
        rows = total // self._samples if self._samples else int(total > 0)
        self._info = Info(
            layout=Layout.SAMPLES if self._samples else Layout.STREAM,
            dtype=U32,
            sequences=rows,
            tokens=rows * self._samples if self._samples else total,
            sample_length=self._samples,
            separators=Separators.NONE if self._samples else Separators.BETWEEN,
            eos_id=GPT2_EOS,
            eos_from="stage1 convention",
            notes=tuple(notes),
            extras=frozen(blocks=len(self.files)),
        )

    @property
    def info(self) -> Info:
        return self._info

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        out = np.empty(stop - start, np.uint32)
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        for k in range(first, int(np.searchsorted(self._starts, stop, side="left"))):
            base = int(self._starts[k])
            a, b = max(start - base, 0), min(stop, int(self._starts[k + 1])) - base
            raw = self.files[k].array(a * 4, b - a, np.dtype("<i4"))
            out[base + a - start : base + b - start] = unsigned(raw, str(self.files[k].path), a)
        return out

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return np.arange(first, last + 1, dtype=np.int64) * (self._samples or self._info.tokens)

    def close(self) -> None:
        for file in self.files:
            file.close()


def _blocks(paths: Sequence[Path]) -> list[Path]:
    """The block files of a directory in numeric order, or the files given, in the order given."""
    if len(paths) != 1 or not paths[0].is_dir():
        return list(paths)
    found = sorted((p for p in paths[0].iterdir() if _BLOCK_NAME.fullmatch(p.name)), key=lambda p: natural_key(p.name))
    if not found:
        raise FormatError(paths[0], "holds no stage1_block_NNNN.bin")
    for finding in _numbering(found):
        raise CorruptError(
            paths[0], finding, remedy="Find the missing block, or name the blocks as sources to read them as they are"
        )
    return found


def _numbering(blocks: Sequence[Path]) -> Iterator[str]:
    """What is wrong with the numbers of blocks sorted in numeric order."""
    numbers = [int(match[1]) for path in blocks if (match := _BLOCK_NAME.fullmatch(path.name))]
    for before, after in zip(numbers, numbers[1:], strict=False):
        if after == before:
            yield f"two blocks have the number {after}"
        elif after != before + 1:
            yield f"block {before + 1} is missing between {before} and {after}"


class Stage1Writer:
    """Writes blocks: the stream with a separator after each sequence, cut into samples, the last one padded."""

    needs_eos = True
    separated = True
    needs_max_id = False

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        self.path, self.options, self.target = path, options, target
        self.single = path.suffix == ".bin"

    def lost(self, source: TokenReader) -> Sequence[Loss]:
        count, first = empty_sequences(source)
        return [Loss("empty-sequences", f"{count:,} empty sequences (first: sequence {first:,})")] if count else []

    def _stored(self, source: TokenReader) -> TokenReader:
        return WithSeparators(source, self.target.eos_id or 0)

    def _block_tokens(self) -> int:
        return self.options.samples * self.options.seq_len

    def _length(self, source: TokenReader) -> int:
        """Tokens to write, padding included: whole samples."""
        return -(-self._stored(source).info.tokens // self.options.seq_len) * self.options.seq_len

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        length, block = self._length(source), self._block_tokens()
        if self.single and length > block:
            raise ConversionError(
                f"{self.path.name}: {length:,} tokens do not fit one block of {block:,}. "
                "Name a directory (with --to stage1) for several blocks"
            )
        samples = max(1, size // self.options.seq_len) * self.options.seq_len
        cuts = [(a, b) for start, stop in windows(0, length, block) for a, b in windows(start, stop, samples)]
        return [Region(index, range(0), range(a, b)) for index, (a, b) in enumerate(cuts)]

    def create(self, source: TokenReader) -> None:
        if not self.single:
            self.path.mkdir()
        length, block = self._length(source), self._block_tokens()
        for start, stop in list(windows(0, length, block)) or [(0, 0)]:
            preallocate(self._file(start), (stop - start) * 4)

    def _file(self, position: int) -> Path:
        number = position // self._block_tokens()
        return self.path if self.single else self.path / f"stage1_block_{number:04d}.bin"

    def write(self, region: Region, source: TokenReader) -> Receipt:
        stored, eos_id = self._stored(source), self.target.eos_id or 0
        end, top = stored.info.tokens, -1
        with Output(self._file(region.tokens.start)) as out:
            for a, b in windows(region.tokens.start, region.tokens.stop):
                window = np.full(b - a, eos_id, np.dtype("<i4"))
                real = stored.tokens(min(a, end), min(b, end))
                top = max(top, check_ids(real, INT32_MAX, a, "stage1"))
                window[: len(real)] = real
                out.write(a % self._block_tokens() * 4, window)
        return Receipt(region.index, top, out.written)

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        """Blocks have no index: nothing to finish."""


class Stage1:
    """Stage-1 packed blocks."""

    name = "stage1"
    title = "Stage-1 packed blocks: raw int32 samples of 8,192 tokens (stage1_block_0000.bin ...)"
    extensions = ("stage1_block_*.bin",)
    joins = True
    carries = "sequences in order; ids up to 2^31-1"
    cannot = "empty sequences; sequences that contain the separator"
    read_options = ReadOptions
    write_options = WriteOptions

    def sniff(self, probe: Probe) -> Confidence | None:
        if probe.is_directory:
            return Confidence.CERTAIN if any(_BLOCK_NAME.fullmatch(name) for name in probe.entries) else None
        named = _BLOCK_NAME.fullmatch(probe.path.name) is not None
        if not probe.size:
            return Confidence.STRUCTURE if named else None
        head = np.frombuffer(probe.head[: len(probe.head) // 4 * 4], "<i4")
        plausible = len(head) > 0 and int(head.min()) >= 0 and int(head.max()) < _PLAUSIBLE_ID
        if named:
            return Confidence.STRUCTURE if plausible else Confidence.NAME
        return Confidence.PLAUSIBLE if plausible and probe.size % (SAMPLE * 4) == 0 else None

    def open(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> Stage1Reader:
        return Stage1Reader(paths, options, hints)

    def writer(self, path: Path, options: WriteOptions, target: Target) -> Stage1Writer:
        return Stage1Writer(path, options, target)

    def check(self, path: Path, options: ReadOptions) -> Iterator[Finding]:
        from tokfmt.formats.stage1_check import findings

        return findings(path, options.seq_len)


FORMAT = Stage1()
