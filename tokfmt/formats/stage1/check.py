"""Findings on stage-1 blocks (TF201 to TF219).

A check compares the sizes and the numbers of all files. It reads the first, middle and last 64 KiB of each, or with
`--deep` everything, and looks for zeros, a wrong byte order or width, negative IDs, and separators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Audit, Finding
from tokfmt.core.reader import WINDOW, windows
from tokfmt.errors import FormatError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.formats.stage1.blocks import GPT2_EOS

LOOK = 1 << 14
"""Tokens that are read at each of three positions of a block, unless all are."""

_SHARE = 0.9  # share of the IDs that must show a wrong byte order or width
_TAIL = 1 << 10  # zeros at the end from which on they are reported
_PADDING = 64  # separators in a row that are padding, not empty documents
_ABSURD = 0.25  # share of separators from which on they are reported
_ENOUGH = 1 << 15  # tokens, of which the padding of one sample is less than a quarter

Ids = NDArray[np.uint32]

_COPY = "Copy it again"
_OTHER = "Write it again as int32 IDs, or name its format"

_SUMS = ("looked", "zeros", "above_16", "above_24", "negative", "separators", "beyond")


@dataclass(frozen=True, slots=True)
class Content:
    """The counts of a block, or of a window of one. Positions count in the block; -1 without one."""

    path: Place  # the block
    tokens: int  # the number of its tokens
    looked: int = 0  # the number of tokens that were read
    zeros: int = 0  # the number of zeros
    tail: int = 0  # the number of zeros at the end, as far as it was read
    # above_16, above_24: the number of IDs of 2^16 or more, and of 2^24 or more
    above_16: int = 0
    above_24: int = 0
    swapped: int = 0  # the largest ID if the bytes are swapped
    negative: int = 0  # the number of negative IDs
    first_negative: int = -1  # the position of the first of them
    separators: int = 0  # the number of separators
    beyond: int = 0  # the number of IDs above GPT-2's vocabulary that are below 2^31
    first_beyond: int = -1  # the position of the first of them
    run_at: int = -1  # the position of the longest run of 64 separators or more that ends before its window does
    run: int = 0  # the length of that run
    constant: bool = True  # True if all tokens that were read are the same
    digest: str = ""  # the hash of the tokens that were read

    def followed_by(self, window: Content) -> Content:
        """Return the counts of this part of the block and of the window after it."""
        longest = max((self, window), key=lambda content: content.run)
        return replace(
            self,
            **{name: getattr(self, name) + getattr(window, name) for name in _SUMS},
            tail=self.tail + window.looked if window.tail == window.looked else window.tail,
            swapped=max(self.swapped, window.swapped),
            first_negative=self.first_negative if self.negative else window.first_negative,
            first_beyond=self.first_beyond if self.beyond else window.first_beyond,
            run_at=longest.run_at,
            run=longest.run,
            constant=self.constant and window.constant,
        )


def look(path: Place, files: Sequence[File], notes: Sequence[str], seq_len: int, how: Audit) -> Iterator[Finding]:
    """Yield the findings on the content of blocks, given the notes that `blocks.suspicions` yields for each."""
    eos_id, contents = GPT2_EOS if how.eos_id is None else how.eos_id, list[Content]()
    for file in files:
        try:
            content = look_at(file, seq_len, eos_id, how)
        except FormatError as error:
            yield Finding.of("TF202", error)
            continue
        contents.append(content)
        last, begin = file is files[-1], f"{file.path.name} "
        of_content = list(content_findings(content, seq_len if last and not eos_id else 0, last=last))
        yield from of_content
        if not of_content and (note := next((note for note in notes if note.startswith(begin)), "")):
            yield Finding("TF219", "error", str(file.path), note.removeprefix(begin), _OTHER, 0)
    yield from stream_findings(path, contents, eos_id)
    yield from _identical(contents, how)


def _identical(found: Sequence[Content], how: Audit) -> Iterator[Finding]:
    """Yield a finding for each block with the content of another; without `how.deep`, three parts are compared."""
    seen: dict[tuple[int, str], Content] = {}
    for content in found:
        if content.tokens < LOOK or content.constant:
            continue
        key = (content.tokens, content.digest)
        if key in seen:
            same = "has the same bytes as" if how.deep else "has the same tokens at three positions as"
            yield Finding(
                "TF217",
                "error",
                str(content.path),
                f"{same} the block {seen[key].path.name}",
                "One of them was copied to the wrong name, or its data occurs twice",
            )
        seen.setdefault(key, content)


def look_at(file: File, seq_len: int, eos_id: int, how: Audit) -> Content:
    """Count the tokens of a block, all of them or at three positions. Holds one window per running task in memory."""
    import xxhash

    total = file.size // 4
    found, digest = Content(file.path, total), xxhash.xxh3_128()
    if how.deep:
        cuts = list(windows(0, total, max(1, WINDOW // seq_len) * seq_len))  # Runs of padding end with a sample.
    else:
        cuts = [(at, min(at + LOOK, total)) for at in sorted({0, max(0, total // 2 - LOOK // 2), max(0, total - LOOK)})]

    def look(cut: tuple[int, int]) -> tuple[Ids, Content]:
        ids = file.array(cut[0] * 4, cut[1] - cut[0], np.dtype("<u4")).astype(np.uint32, copy=False)
        return ids, _seen(found, cut[0], ids, eos_id)

    for ids, seen in how.spread(look, cuts if total else []):
        digest.update(ids.data)
        found = found.followed_by(seen)
        how.advance(len(ids))
    return replace(found, digest=digest.hexdigest())


def _seen(block: Content, start: int, ids: Ids, eos_id: int) -> Content:
    """Return the counts of one window of a block."""
    zero, negative, beyond = ids == 0, ids >= 1 << 31, (ids > GPT2_EOS) & (ids < 1 << 31)
    marks = ids == eos_id
    run_at, run = _longest_run(marks)
    zeros, above_24 = int(np.count_nonzero(zero)), int(np.count_nonzero(ids >= 1 << 24))
    return Content(
        block.path,
        block.tokens,
        looked=len(ids),
        zeros=zeros,
        tail=len(ids) if zeros == len(ids) else int(np.argmin(zero[::-1])),
        above_16=int(np.count_nonzero(ids >= 1 << 16)),
        above_24=above_24,
        swapped=int(ids.byteswap().max()) if 2 * above_24 > len(ids) else 0,
        negative=int(np.count_nonzero(negative)),
        first_negative=start + int(np.argmax(negative)),
        separators=int(np.count_nonzero(marks)),
        beyond=int(np.count_nonzero(beyond)),
        first_beyond=start + int(np.argmax(beyond)),
        run_at=start + run_at,
        run=run,
        constant=bool((ids == ids[0]).all()),
    )


def _longest_run(marks: NDArray[np.bool_]) -> tuple[int, int]:
    """Return start and length of the longest run of 64 marks or more that ends inside the window, else (-1, 0)."""
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


def content_findings(content: Content, padding: int, *, last: bool) -> Iterator[Finding]:
    """Yield the findings on one block, as far as it was read; up to `padding` zeros at its end are separators."""
    name, total = str(content.path), content.tokens
    if not total:
        return
    if content.zeros == content.looked:
        where = "" if content.looked == total else " in the parts that were checked"
        yield Finding("TF209", "error", name, f"holds only zeros{where}: a sparse or failed copy", _COPY, 0)
        return
    if content.tail >= min(_TAIL, -(-total // 4)) and content.tail > padding:
        at_least = "at least " * (content.tail == LOOK < total)
        what = f"ends in {at_least}{content.tail:,} zeros: the copy was not finished"
        yield Finding("TF210", "error", name, what, _COPY, (total - content.tail) * 4)
    if content.above_24 > _SHARE * content.looked and content.swapped < 1 << 24:
        yield Finding(
            "TF211",
            "error",
            name,
            "is big-endian: most IDs are 2^24 or more as stored",
            "Swap the bytes: numpy.fromfile(f, '>i4').astype('<i4')",
            0,
        )
        return
    if content.above_16 > _SHARE * content.looked:
        yield Finding(
            "TF212",
            "error",
            name,
            "looks like uint16 IDs read as int32: most are of the form a*65536+b",
            "Convert it from its real format",
            0,
        )
        return
    if content.negative:
        yield Finding(
            "TF213",
            "error",
            name,
            f"holds {content.negative:,} negative IDs (first: token {content.first_negative:,})",
            "Copy it again, or write it again from IDs below 2^31",
            content.first_negative * 4,
        )
    end = content.run_at + content.run
    if content.run and not (last and end == total):
        run = f"{content.run:,} separators in a row before token {end:,}"
        what = f"holds {run}, which only the end of the last sample should have"
        remedy = "Samples were padded one by one, or documents are empty"
        yield Finding("TF218", "warning", name, what, remedy, content.run_at * 4)


def stream_findings(path: Place, found: Sequence[Content], eos_id: int) -> Iterator[Finding]:
    """Yield the findings on all blocks together: on separators, and on IDs beyond GPT-2's vocabulary."""
    sound = [c for c in found if c.zeros < c.looked and c.above_16 <= _SHARE * c.looked]
    looked, separators = sum(c.looked for c in sound), sum(c.separators for c in sound)
    if looked < _ENOUGH:
        return
    where = "" if looked == sum(c.tokens for c in sound) else " in the parts that were checked"
    if not separators:
        yield Finding(
            "TF215",
            "warning",
            str(path),
            f"the separator {eos_id:,} does not occur{where}",
            "If another ID ends documents, give it with --eos ID",
        )
    elif separators > _ABSURD * looked:
        yield Finding(
            "TF216",
            "warning",
            str(path),
            f"{separators / looked:.0%} of the tokens are the separator {eos_id:,}",
            "Most of it is padding, or empty documents",
        )
    beyond = next((c for c in sound if c.beyond), None)
    if beyond is not None and separators and eos_id == GPT2_EOS:
        count = sum(c.beyond for c in sound)
        what = (
            f"{count:,} IDs are beyond GPT-2's vocabulary, which ends with its separator {eos_id:,} "
            f"(first: token {beyond.first_beyond:,})"
        )
        remedy = "Give the tokenizer with --tokenizer to compare with its vocabulary"
        yield Finding("TF214", "warning", str(beyond.path), what, remedy, beyond.first_beyond * 4)
