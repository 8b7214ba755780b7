"""What the tokens of a block tell: zeros, wrong byte order or width, negative ids, separators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.audit import Audit
from tokfmt.core.axis import WINDOW, windows
from tokfmt.core.files import File
from tokfmt.core.format import Finding
from tokfmt.formats.stage1.blocks import GPT2_EOS

LOOK = 1 << 14
"""Tokens looked at in each of three places of a block, when not all are."""

_SHARE = 0.9
_TAIL = 1 << 10  # zeros at the end that are no documents any more
_PADDING = 64  # separators in a row that are padding, not empty documents
_ABSURD = 0.25
_ENOUGH = 1 << 15  # tokens: padding of one sample is less than a quarter of them

Ids = NDArray[np.uint32]


@dataclass(slots=True)
class Content:
    """What was found in one block; positions count in the block, -1 when there is none.

    Attributes:
        path, tokens: The block, and how many tokens it holds.
        looked: How many were looked at.
        zeros: How many are 0.
        tail: How many zeros it ends with, as far as was looked.
        above_16, above_24: How many ids are 2^16 and 2^24 or more.
        swapped: The largest id if the bytes are swapped.
        negative, first_negative: How many, and where the first.
        separators: How many.
        beyond, first_beyond: Ids above GPT-2's vocabulary that are no other sign; and where the first is.
        run_at, run: The longest run of separators that reaches no end of the block, of at least 64.
        constant: All tokens looked at are the same.
        digest: Of what was looked at.
    """

    path: Path
    tokens: int
    looked: int = 0
    zeros: int = 0
    tail: int = 0
    above_16: int = 0
    above_24: int = 0
    swapped: int = 0
    negative: int = 0
    first_negative: int = -1
    separators: int = 0
    beyond: int = 0
    first_beyond: int = -1
    run_at: int = -1
    run: int = 0
    constant: bool = True
    digest: str = ""

    def add(self, start: int, ids: Ids, look: Look) -> None:
        """Take up the look at a window; they come in order."""
        self.looked += len(ids)
        self.zeros += look.zeros
        self.tail = self.tail + len(ids) if look.tail == len(ids) else look.tail
        self.above_16 += look.above_16
        self.above_24 += look.above_24
        self.swapped = max(self.swapped, look.swapped)
        if look.negative and not self.negative:
            self.first_negative = start + look.first_negative
        self.negative += look.negative
        self.separators += look.separators
        if look.beyond and not self.beyond:
            self.first_beyond = start + look.first_beyond
        self.beyond += look.beyond
        if look.run > self.run:
            self.run_at, self.run = start + look.run_at, look.run
        self.constant = self.constant and look.constant


@dataclass(frozen=True, slots=True)
class Look:
    """What one window holds; as in Content."""

    zeros: int
    tail: int
    above_16: int
    above_24: int
    swapped: int
    negative: int
    first_negative: int
    separators: int
    beyond: int
    first_beyond: int
    run_at: int
    run: int
    constant: bool


def look_at(file: File, seq_len: int, eos_id: int, how: Audit) -> Content:
    """Look at a block, all of it or in three places. Holds a window for each task under way."""
    import xxhash

    total = file.size // 4
    found, digest = Content(file.path, total), xxhash.xxh3_128()
    if how.deep:
        cuts = list(windows(0, total, max(1, WINDOW // seq_len) * seq_len))  # runs of padding end with a sample
    else:
        cuts = [(at, min(at + LOOK, total)) for at in sorted({0, max(0, total // 2 - LOOK // 2), max(0, total - LOOK)})]

    def look(cut: tuple[int, int]) -> tuple[int, Ids, Look]:
        ids = file.array(cut[0] * 4, cut[1] - cut[0], np.dtype("<u4")).astype(np.uint32, copy=False)
        return cut[0], ids, _look(ids, eos_id)

    for start, ids, seen in how.spread(look, cuts if total else []):
        digest.update(ids.data)
        found.add(start, ids, seen)
        how.advance(len(ids))
    found.digest = digest.hexdigest()
    return found


def _look(ids: Ids, eos_id: int) -> Look:
    zero, negative, beyond = ids == 0, ids >= 1 << 31, (ids > GPT2_EOS) & (ids < 1 << 31)
    marks = ids == eos_id
    run_at, run = _longest_run(marks)
    zeros = int(np.count_nonzero(zero))
    tail = len(ids) if zeros == len(ids) else int(np.argmin(zero[::-1]))
    above_24 = int(np.count_nonzero(ids >= 1 << 24))
    return Look(
        zeros=zeros,
        tail=tail,
        above_16=int(np.count_nonzero(ids >= 1 << 16)),
        above_24=above_24,
        swapped=int(ids.byteswap().max()) if 2 * above_24 > len(ids) else 0,
        negative=int(np.count_nonzero(negative)),
        first_negative=int(np.argmax(negative)),
        separators=int(np.count_nonzero(marks)),
        beyond=int(np.count_nonzero(beyond)),
        first_beyond=int(np.argmax(beyond)),
        run_at=run_at,
        run=run,
        constant=bool((ids == ids[0]).all()),
    )


def _longest_run(marks: NDArray[np.bool_]) -> tuple[int, int]:
    """Where the longest run of marks of at least 64 that ends before the window does begins, and how long it is."""
    if marks.sum() < _PADDING:
        return -1, 0
    edges = np.flatnonzero(np.diff(marks, prepend=False, append=False))
    starts, stops = edges[::2], edges[1::2]
    inner = stops < len(marks)
    lengths = (stops - starts)[inner]
    if not len(lengths) or int(lengths.max()) < _PADDING:
        return -1, 0
    at = int(np.argmax(lengths))
    return int(starts[inner][at]), int(lengths[at])


def content_findings(content: Content, *, last: bool) -> Iterator[Finding]:
    """What is wrong with one block, as far as it was looked at."""
    name, total = str(content.path), content.tokens
    if not total:
        return
    if content.zeros == content.looked:
        where = "" if content.looked == total else " where it was looked at"
        yield Finding("TF209", "error", name, f"holds only zeros{where}: a sparse or failed copy",
                      "Copy it again", 0)  # fmt: skip
        return
    if content.tail >= min(_TAIL, -(-total // 4)):
        yield Finding("TF210", "error", name, f"ends in {_at_least(content)}{content.tail:,} zeros: the copy was not "
                      "finished", "Copy it again", (total - content.tail) * 4)  # fmt: skip
    if content.above_24 > _SHARE * content.looked and content.swapped < 1 << 24:
        yield Finding("TF211", "error", name, "is big-endian: most ids are 2^24 or more as they stand",
                      "Swap the bytes: numpy.fromfile(f, '>i4').astype('<i4')", 0)  # fmt: skip
        return
    if content.above_16 > _SHARE * content.looked:
        yield Finding("TF212", "error", name, "looks like uint16 ids read as int32: most are of the form a*65536+b",
                      "Convert it from the format it is in", 0)  # fmt: skip
        return
    if content.negative:
        yield Finding("TF213", "error", name, f"holds {content.negative:,} negative ids (first: token "
                      f"{content.first_negative:,})", "Copy it again, or write it again from ids below 2^31",
                      content.first_negative * 4)  # fmt: skip
    end = content.run_at + content.run
    if content.run and not (last and end == total):
        yield Finding(
            "TF218",
            "warning",
            name,
            f"holds {content.run:,} separators in a row before token {end:,}, which "
            "only the end of the last sample should",
            "Samples were padded one by one, or documents are empty",
            content.run_at * 4,
        )


def _at_least(content: Content) -> str:
    return "at least " if content.tail == LOOK < content.tokens else ""


def stream_findings(path: Path, found: Sequence[Content], eos_id: int) -> Iterator[Finding]:
    """What only all blocks together tell: separators, and ids beyond the vocabulary that goes with them."""
    sound = [c for c in found if c.zeros < c.looked and c.above_16 <= _SHARE * c.looked]
    looked, separators = sum(c.looked for c in sound), sum(c.separators for c in sound)
    if looked < _ENOUGH:
        return
    where = "" if looked == sum(c.tokens for c in sound) else " where it was looked for"
    if not separators:
        yield Finding("TF215", "warning", str(path), f"the separator {eos_id:,} is nowhere{where}",
                      "If another id ends documents, name it with --eos ID")  # fmt: skip
    elif separators > _ABSURD * looked:
        yield Finding("TF216", "warning", str(path), f"{separators / looked:.0%} of the tokens are the separator "
                      f"{eos_id:,}", "Most of it is padding, or empty documents")  # fmt: skip
    beyond = next((c for c in sound if c.beyond), None)
    if beyond is not None and separators and eos_id == GPT2_EOS:
        count = sum(c.beyond for c in sound)
        yield Finding(
            "TF214",
            "warning",
            str(beyond.path),
            f"{count:,} ids are beyond GPT-2's vocabulary, which ends with "
            f"its separator {eos_id:,} (first: token {beyond.first_beyond:,})",
            "Name the tokenizer with --tokenizer to compare with its vocabulary",
            beyond.first_beyond * 4,
        )
