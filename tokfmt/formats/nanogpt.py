"""nanoGPT's `train.bin` and `val.bin`: token IDs and nothing else.

    bytes        content
    0 to end     u16 little-endian token IDs; u32 in forks with larger vocabularies, u8 in byte-level ones

- No header, index, count or checksum; a folder holds one file per split. Neither the width nor the separator is stored.
- OpenWebText: 50256 (GPT-2) follows every document, also the last. Two in a row enclose an empty document. Shakespeare
  has no separator: it is one stream.
- The separator is in front of documents in shards of llama2.c: `side=before`.
- The writer makes the file at full size and then fills it. If it is killed, zeros remain at the end.
- `meta.pkl`, the vocabulary of character-level data, is a pickle; tokfmt never loads it.
Source: karpathy/nanoGPT 3adf61e1, data/*/prepare.py and get_batch in train.py, run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tokfmt.base.options import option
from tokfmt.core.findings import Audit, Finding, fatal
from tokfmt.core.format import Confidence, Hints, Probe
from tokfmt.core.reader import Separators
from tokfmt.core.widths import contradicted_width
from tokfmt.errors import CorruptError, UnsupportedError
from tokfmt.files.file import File
from tokfmt.formats.flat import (
    FileLayout,
    FlatFormat,
    FlatInspection,
    FlatOptions,
    FlatWriter,
    whole_tokens,
    written_tokens,
)

GPT2_EOS = 50256
_LOOKED_AT = 1 << 15  # tokens at the beginning from which width and separator are inferred


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading raw tokens."""

    width: Literal[1, 2, 4, 8] | None = option(None, "bytes per token; auto: 2 unless the data shows 4 or 8")
    side: Literal["after", "before"] = option("after", "the separator is after documents, or before them")


@dataclass(frozen=True, slots=True)
class WriteOptions(FlatOptions):
    """Options for writing raw tokens."""

    width: Literal[2, 4] = option(2, "bytes per token; nanoGPT itself reads only 2")
    split: str = option("train", "name of the file in a folder")


class Writer(FlatWriter):
    """A writer of X.bin, or of train.bin and val.bin in a folder."""

    separators, names = Separators.AFTER, "{options.split}.bin"

    def remedy(self, dtype: np.dtype[Any]) -> str:
        wider = "--to-opt width=4 has room, and nanoGPT's get_batch must then read np.uint32"
        return wider if dtype.itemsize == 2 else ""


class NanoGptInspection(FlatInspection):
    """The inspection of raw tokens."""

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. The last token is compared with the separator, if that occurs in the data."""
        yield from super().look(how)
        ends = self.layout.eos_id if how.eos_id is None else how.eos_id
        for extent in self.layout.extents if self.layout.separators is Separators.AFTER else ():
            head = extent.file.array(0, min(extent.tokens, _LOOKED_AT), extent.dtype)
            end = extent.tokens * extent.dtype.itemsize
            last = extent.file.array(end - extent.dtype.itemsize, 1, extent.dtype) if extent.tokens else head
            if (head == ends).any() and last[0] != ends:
                yield Finding.of("TF645", CorruptError(extent.file.path, f"ends without {ends}", offset=end), "warning")


class NanoGpt(FlatFormat):
    """The format of raw tokens of nanoGPT."""

    name = "nanogpt"
    title = "nanoGPT train.bin and val.bin: raw uint16 tokens"
    extensions = ("train.bin", "val.bin")
    stores = "sequences in order, empty ones too; IDs up to 65,535 (2^32-1 with width=4)"
    cannot_store = "sequences that contain the separator"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer
    pattern, unreadable = r"\w+\.bin", "TF641"
    member, inspection = "train.bin or val.bin", NanoGptInspection

    def sniff(self, probe: Probe) -> Confidence | None:
        if not probe.is_directory:
            return self.recognize(probe)
        found = [self.recognize(inside) for name in ("train.bin", "val.bin") if (inside := probe.entry(name))]
        return max((sure for sure in found if sure), default=None)

    def recognize(self, probe: Probe) -> Confidence | None:
        if probe.path.name not in ("train.bin", "val.bin") or probe.path.with_suffix(".idx").exists():
            return None
        ids = np.frombuffer(probe.head[: len(probe.head) // 2 * 2], "<u2")
        known = bool((ids == GPT2_EOS).any()) or (probe.path.parent / "meta.pkl").exists()
        return Confidence.PLAUSIBLE if known and probe.size % 2 == 0 else Confidence.NAME

    def examine_file(self, file: File, options: ReadOptions, hints: Hints) -> FileLayout:
        pairs = file.array(0, min(file.size // 2, 2 * _LOOKED_AT), "<u2")
        turned, enough = pairs.byteswap(), len(pairs) >= 256
        wide, wide_turned = (enough and float(np.mean(high < 4)) > 0.95 for high in (pairs[1::2], turned[::2]))
        if file.size % 4:  # It may be a cut file of 4-byte tokens, if the lower halves are not small as well.
            wide, wide_turned = wide and float(np.mean(pairs[::2] < 4)) < 1 / 2, False
        width: int = options.width or (4 if wide or wide_turned else 2)
        ids = file.array(0, min(file.size // width, _LOOKED_AT), f"<u{width}")
        contradicted = None if options.width else contradicted_width(ids)
        if contradicted is not None and contradicted[1] > width:  # every second ID is 0
            width = contradicted[1]
        extent, problems = whole_tokens(file, np.dtype(f"<u{width}"), "TF642")
        beyond, beyond_turned = (float(np.mean(ids > GPT2_EOS)) if enough else 0.0 for ids in (pairs, turned))
        gpt2_turned = beyond_turned < 0.01 and beyond > 0.1 and len(np.unique(pairs)) >= 256
        if options.width is None and not wide and (wide_turned or gpt2_turned):
            remedy = f"numpy.fromfile(PATH, '>u{width}').astype('<u{width}').tofile(PATH) swaps their bytes; "
            remedy += f"--from-opt width={width} reads them as they are"
            found = f"IDs such as {', '.join(map(str, extent.file.array(0, 3, extent.dtype)))}"
            what, expected = "seems to hold big-endian IDs", "little-endian IDs"
            error = UnsupportedError(file.path, what, expected=expected, found=found, remedy=remedy)
            problems.append(fatal("TF644", error))
        head = file.array(0, min(extent.tokens, _LOOKED_AT), extent.dtype)
        extent, unwritten = written_tokens(extent, "TF643")
        inferred = f"{width}-byte IDs, which the file does not state; --from-opt width=N overrides"
        gpt2 = not hints.no_eos and bool((head == GPT2_EOS).any())
        eos = next((one for one in (hints.eos_id, hints.tokenizer_eos) if one is not None), GPT2_EOS)
        before, notes = options.side == "before", tuple[str, ...]()
        if not before and not hints.no_eos and extent.tokens > 1 and head[0] == eos:
            last = extent.file.array((extent.tokens - 1) * extent.dtype.itemsize, 1, extent.dtype)
            if last[0] != eos:  # as llama2.c writes it
                note = f"it begins with {eos} and does not end with it: if it is in front of documents, "
                notes = (f"{note}--from-opt side=before reads them",)
        return FileLayout(
            extents=[extent],
            separators=Separators.BEFORE if before else Separators.AFTER,
            eos_id=GPT2_EOS if gpt2 else None,
            eos_from="GPT-2's separator occurs in the data" if gpt2 else "",
            problems=[*problems, *unwritten],
            inferred=() if options.width else (inferred,),
            notes=notes,
            extras={"width": width},
        )


FORMAT = NanoGpt()
