"""llm.c's `.bin`, also written by modded-nanogpt and NeMo Automodel: a header of 1,024 bytes, then tokens.

    bytes        content
    0 .. 3       i32 little-endian: 20240520 (GPT-2), 20240801 (Llama 3), 278895051 (Automodel)
    4 .. 7       i32 version: 1, 7, 1
    8 .. 11      i32 number of tokens, below 2^31
    12 .. 15     i32 bytes per token, Automodel only: 2 or 4; else 0, and tokens have 2 (GPT-2) or 4 bytes (Llama 3)
    .. 1023      zeros
    1024 ..      token IDs, u16 or u32 little-endian

- A separator comes BEFORE every document: 50256, Llama 3's 128000, or the tokenizer's BOS. Two in a row begin an empty
  document.
- Shards NAME_{train|val}_NNNNNN.bin are one stream in order of the number, cut anywhere: the first tokens of a shard
  continue the last document of the shard before. Shard 0 is `val`, whose name sorts after `train`.
- Automodel writes a folder with dataset.bin, whose number of tokens is stored last: 0 if its writer was stopped.
- build-nanogpt writes the same shards as one-dimensional numpy arrays (.npy, u16).
- Not read: evaluation files (20240522), models and states (20240326 .. 20240328), Automodel's wrong X.bos.idx.
Source: karpathy/llm.c f1e2ace, KellerJordan/modded-nanogpt f411b3d3, NVIDIA-NeMo/Automodel 36044ad3, run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tokfmt.base.options import option
from tokfmt.core.annotation import NUMPY_IDS
from tokfmt.core.findings import Problem, fatal
from tokfmt.core.format import Confidence, Hints, Probe, WriterTraits
from tokfmt.core.reader import Separators
from tokfmt.errors import CorruptError, FormatError, UnsupportedError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.formats.flat import (
    Cut,
    Extent,
    FileLayout,
    FlatFormat,
    FlatOptions,
    FlatWriter,
    Struct,
    numpy_extent,
    stated_tokens,
)

HEADER = Struct(magic="<i4", version="<i4", tokens="<i4", width="<i4", unused="V1008")
VARIANTS = {"gpt2": (20240520, 1, 2, 50256), "llama3": (20240801, 7, 4, 128000), "automodel": (278895051, 1, 0, None)}
VARIANTS |= {"numpy": (0, 0, 2, 50256)}  # shards of build-nanogpt, which are only read
_MAGICS = {magic: name for name, (magic, *_) in VARIANTS.items() if magic}
_OTHERS = {20240522: "an evaluation file", 20240326: "a model", 20240327: "a training state", 20240328: "a tokenizer"}
_SHARD = r".+_(?:train|val)_(\d+)\.(?:bin|npy)"
_MEMBER = r"(?:.+_(?:train|val)_(?=\d)|(?=dataset\.bin))(\d+|dataset)\.(?:bin|npy)"  # dataset.bin: Automodel's folder
_MOST = 2**31 - 1  # tokens per file: their number is an int32


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading shards."""

    width: Literal[1, 2, 4, 8] | None = option(None, "bytes per token, if the header states a wrong one")


@dataclass(frozen=True, slots=True)
class WriteOptions(FlatOptions):
    """Options for writing shards."""

    variant: Literal["gpt2", "llama3", "automodel"] | None = option(
        None, "variant of the header; auto: gpt2 if IDs and separator allow it"
    )
    shard_size: int = option(100_000_000, "tokens per file of a folder", minimum=1, maximum=(1 << 31) - 1)
    split: Literal["train", "val"] = option(
        "train", "split of a folder to write: train in the shards from 1 on, or val in shard 0"
    )


class Writer(FlatWriter):
    """A writer of X.bin, or of NAME_train_NNNNNN.bin and NAME_val_000000.bin in a folder NAME."""

    separators, begin, needs_max_id = Separators.BEFORE, HEADER.size, True
    names = "{stem}_{options.split}_{number:06d}.bin"

    @classmethod
    def traits(cls, options: WriteOptions) -> WriterTraits:
        """See `Format.writer_traits`. The headers of two variants imply the separator."""
        return replace(super().traits(options), eos_id=VARIANTS[options.variant][3] if options.variant else None)

    def _variant(self, top: int) -> str:
        gpt2 = self.target.eos_id == VARIANTS["gpt2"][3] and top < 1 << 16
        return self.options.variant or ("gpt2" if gpt2 else "automodel")

    def dtype(self, top: int) -> np.dtype[Any]:
        return np.dtype(f"<u{VARIANTS[self._variant(top)][2] or (2 if top < 1 << 16 else 4)}")

    def file_tokens(self) -> int:
        return int(self.options.shard_size) if self.folder and self.options.split == "train" else _MOST

    def file(self, number: int) -> Path:
        return super().file(number + (self.options.split == "train"))

    def header(self, cut: Cut, dtype: np.dtype[Any]) -> bytes:
        variant = self._variant((1 << 8 * dtype.itemsize) - 1)
        magic, version, width, _ = VARIANTS[variant]
        return HEADER.write(magic=magic, version=version, tokens=cut.tokens, width=0 if width else dtype.itemsize)


class Llmc(FlatFormat):
    """The format of llm.c's token files."""

    name = "llmc"
    title = "llm.c, modded-nanogpt and Automodel: a header and tokens"
    extensions = ("*_train_*.bin", "*_val_*.bin")
    joins_files = numbers_files = True
    stores = "sequences in order, empty ones too; IDs up to 65,535, or 2^32-1 for llama3 and automodel"
    cannot_store = "sequences that contain the separator"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer
    pattern, unreadable = _MEMBER, "TF621"
    member = "NAME_train_NNNNNN.bin, NAME_val_NNNNNN.bin or dataset.bin"

    def recognize(self, probe: Probe) -> Confidence | None:
        if re.fullmatch(_SHARD, probe.path.name) and NUMPY_IDS.search(probe.head[:256]):
            return Confidence.CERTAIN  # The name says more than an array of any other name has: `array`.
        magics = {int.from_bytes(probe.head[:4], order) for order in ("little", "big")}
        # Other files of llm.c are recognized as well, so that opening them reports what they are.
        used = 16 if magics & _MAGICS.keys() else 256 if magics & _OTHERS.keys() else 0
        if not used or any(probe.head[used : HEADER.size]):
            return None
        paired = probe.path.with_suffix(".idx").exists()  # Tokens of Megatron may begin like this by chance.
        return Confidence.STRUCTURE if paired else Confidence.CERTAIN

    def examine(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> FileLayout:
        files = self.all_files(paths)
        file_layout = super().examine(files, options, hints)
        if "variant" not in file_layout.extras:
            raise FormatError(paths[0], "holds shards of more than one variant", remedy="Name the shards of one")
        first, notes = file_layout.extents[0], list(file_layout.notes)
        if first.tokens and first.file.array(first.begin, 1, first.dtype)[0] != file_layout.eos_id:
            expected = f"{file_layout.eos_id}, which begins documents"
            notes.append(f"{files[0].name} does not begin with {expected}: its first tokens may continue another shard")
        numbered = [(int(found[1]), file.name) for file in files if (found := re.fullmatch(_SHARD, file.name))]
        for (number, name), (following, other) in itertools.pairwise(numbered):
            if following != number + 1:
                notes.append(f"{other} is read after {name}: a document at their border may have tokens of both")
        return replace(file_layout, notes=tuple(notes))

    @staticmethod
    def _is_headed(file: File) -> bool:
        """Return whether a file begins with a header of llm.c, whatever its name."""
        return file.size >= HEADER.size and HEADER.read(file)["magic"] in _MAGICS

    def examine_file(self, file: File, options: ReadOptions, hints: Hints) -> FileLayout:  # noqa: ARG002
        numpy = file.path.suffix == ".npy" and not self._is_headed(file)
        extent, kind, problems = (numpy_extent(file), "numpy", []) if numpy else _headed(file, options)
        eos_id = VARIANTS[kind][3]
        if eos_id is None and extent.tokens:
            eos_id = int(file.array(extent.begin, 1, extent.dtype)[0])
        return FileLayout(
            extents=[extent],
            separators=Separators.BEFORE,
            eos_id=eos_id,
            eos_from="the first token" if kind == "automodel" else f"{kind} convention",
            problems=problems,
            sections=[] if numpy else [HEADER.part(f"header of {file.path.name}", file)],
            extras={"variant": kind},
        )


def _headed(file: File, options: ReadOptions) -> tuple[Extent, str, list[Problem]]:
    """Return the tokens after a header, its variant and its problems."""
    head = HEADER.read(file)
    kind = _MAGICS.get(head["magic"], "")
    if not kind or head["version"] != VARIANTS[kind][1]:
        found = f"{_OTHERS.get(head['magic'], head['magic'])}, version {head['version']}"
        if (swapped := int.from_bytes(file.read(0, 4), "big")) in _MAGICS:
            found = f"{swapped} with its bytes reversed: written by a big-endian machine"
        known = f"a magic number of {', '.join(map(str, _MAGICS))} and its version"
        raise UnsupportedError(file.path, "is not a token file of llm.c", offset=0, expected=known, found=found)
    width = options.width or VARIANTS[kind][2] or head["width"]
    if width not in (2, 4, options.width):
        raise CorruptError(file.path, "bytes per token in the header", offset=12, expected="2 or 4", found=width)
    if head["tokens"] < 0:
        what, found = "the number of tokens in the header", head["tokens"]
        raise CorruptError(file.path, what, offset=8, expected="0 or more", found=found)
    dtype = np.dtype(f"<u{width}")
    if not head["tokens"] and (there := (file.size - HEADER.size) // dtype.itemsize):
        what = "the header has no number of tokens: its writer was stopped"
        remedy = "--allow-partial saves the complete documents"
        error = CorruptError(file.path, what, offset=8, expected=there, found=0, remedy=remedy)
        return Extent(file, HEADER.size, there, dtype), kind, [fatal("TF622", error, is_truncated=True)]
    extent, problems = stated_tokens(
        file, dtype, head["tokens"], "TF622", begin=HEADER.size, short=True, options=options
    )
    return extent, kind, problems


FORMAT = Llmc()
