"""Megatron-LM's indexed datasets: `PREFIX.bin` with the tokens, `PREFIX.idx` with where sequences and documents begin.

    .idx                bytes                          content
    0 .. 8              4D 4D 49 44 49 44 58 00 00     magic, "MMIDIDX"
    9 .. 16             u64 little-endian, as all      version, 1
    17                  u8                             1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7 f32, 8 u16: of .bin
    18 .. 25, 26 .. 33  u64, u64                       S sequences; D, documents + 1
    34 ..               i32[S], i64[S]                 tokens of each sequence; byte at which each begins in .bin
    34 + 12 S ..        i64[D]                         document k is sequences di[k] .. di[k+1]-1
    34 + 12 S + 8 D ..  i8[S] or nothing               mode of each sequence, of multimodal data

- .bin has no header. A document is usually one sequence; an empty one is a repeated document index (Megatron), or a
  sequence of no tokens (datatrove). A separator (eod) may follow each document; nothing says whether, or which id.
- Also read: TNTIDX (fairseq, GPT-NeoX `cached`), see `index`, and lists of prefixes, see `blend`: as one dataset, each
  prefix once, in the order of the list. Not stored: checksum, tokenizer, masks.
Source: NVIDIA/Megatron-LM d98e8a64 and megatron-core 0.16.1, EleutherAI/gpt-neox, huggingface/datatrove, run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tokfmt.core.errors import FormatError
from tokfmt.core.files import File
from tokfmt.core.format import Confidence, Hints, Probe
from tokfmt.core.options import Late, option
from tokfmt.core.protocols import Code
from tokfmt.formats.flat import FlatFormat, Laid
from tokfmt.formats.megatron.blend import SPLITS, likely_prefixes, located, read_blend
from tokfmt.formats.megatron.index import LEGACY, MAGIC, laid_out


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read indexed datasets."""

    unit: Literal["documents", "sequences"] = option("documents", "what a sequence is: a document, or a part of one")
    split: Literal["train", "valid", "test"] = option("train", "of a blend list with splits: which one to read")


class Megatron(FlatFormat):
    """Megatron-LM's indexed datasets."""

    name = "megatron"
    title = "Megatron-LM: .bin and .idx"
    extensions = ("*_document.bin", "*_document.idx")
    carries = "sequences in order, empty ones too; ids up to 2^31-1"
    cannot = "ids above 2^31-1; documents of 2^31 tokens and more"
    read_options = ReadOptions
    write_options = Late("tokfmt.formats.megatron.writer", "WriteOptions")
    Writer = Late("tokfmt.formats.megatron.writer", "Writer")
    suffixes, prefix, counted = (".bin", ".idx"), ".idx", "prefixes"
    pattern, unreadable, drops = r".+\.idx", "TF601", ("modes",)
    meanings = {
        "TF601": Code("no index of Megatron-LM", "The magic number is another, .bin or .idx is missing, or its writer "
                       "was killed before it wrote the index, which comes last. Write the dataset again."),
        "TF602": Code("the index is cut or too long", "Its size is not what its own counts of sequences and "
                       "documents say: a cut copy, or a writer that was killed. Copy or write it again."),
        "TF603": Code("pointers contradict lengths", "Overflow of int32 while merging (Megatron-LM#1672), or an "
                       "inclusive sum (Megatron-DeepSpeed#68). The tokens have the size that the lengths say, so "
                       "documents are read by length."),
        "TF604": Code("tokens and lengths differ in size", "Shorter: cut. Longer: a writer was killed, separators "
                       "were written but not counted (#431), or the dtype code is wrong. Write it again."),
        "TF605": Code("document indices do not end at the sequences", "Merging left them out (Megatron-LM#81), or "
                       "end_document() was never called. --from-opt unit=sequences reads each sequence by itself."),
        "TF606": Code("multimodal", "Each sequence has a mode (text, image), which no other format carries: "
                       "--drop modes reads the tokens alone."),
    }  # fmt: skip

    def recognise(self, probe: Probe) -> Confidence | None:
        path, indexes = probe.path, list[Path]()
        if path.suffix in self.suffixes:
            indexes = self.names(path)[1:]
        else:
            indexes = [self.names(located(path, prefix))[1] for prefix in likely_prefixes(probe.head)]
        return Confidence.CERTAIN if any(map(_is_index, indexes)) else None

    def canonical(self, path: Path) -> Path:
        return path if self._is_list(path) else super().canonical(path)

    def _is_list(self, path: Path) -> bool:
        return path.suffix not in self.suffixes and path.is_file()

    def files(self, path: Path) -> list[Path]:
        if not self._is_list(path):
            return super().files(path)
        prefixes = {located(path, one.prefix): None for split in SPLITS for one in read_blend(path, split)}
        return [path, *(file for prefix in prefixes for file in self.names(prefix) if file.is_file())]

    def examine(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> Laid:
        if not self._is_list(paths[0]):
            return super().examine(paths, options, hints)
        if not (blend := read_blend(paths[0], options.split)):
            raise FormatError(paths[0], "is a blend list that names no prefix", found=f"split {options.split}")
        laid = super().examine([located(paths[0], one.prefix) for one in blend], options, hints)
        weighed = (
            f"weights are not applied: each of {len(blend):,} prefixes is read once; tokfmt recipe mixes by weight"
        )
        return replace(laid, notes=(*laid.notes, weighed)) if blend[0].weight is not None else laid

    def examine_file(self, file: File, options: ReadOptions, hints: Hints) -> Laid:  # noqa: ARG002
        index = File(self.names(file.path)[1])
        try:
            return laid_out(file, index, by_document=options.unit == "documents")
        finally:
            index.close()  # there may be thousands


def _is_index(path: Path) -> bool:
    try:
        index = File(path)
        return index.read(0, min(len(MAGIC), index.size)).startswith((MAGIC, LEGACY))
    except FormatError:
        return False


FORMAT = Megatron()
