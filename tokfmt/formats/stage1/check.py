"""What can be wrong with stage-1 blocks: findings TF201 ... TF218; `codes` says what they mean.

Sizes and numbering are looked at in every file; content in the first, middle and last 64 KiB of each, or, deep, all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tokfmt.core.audit import Audit
from tokfmt.core.errors import FormatError
from tokfmt.core.files import File, names_in, natural_key
from tokfmt.core.format import Finding
from tokfmt.formats.stage1.blocks import BLOCK_NAME, GPT2_EOS
from tokfmt.formats.stage1.check_content import LOOK, Content, content_findings, look_at, stream_findings
from tokfmt.formats.stage1.options import ReadOptions

_COPY = "Copy it again"


def findings(path: Path, options: ReadOptions, how: Audit) -> Iterator[Finding]:
    """Every violation found in a block or a directory of blocks."""
    try:
        blocks = _blocks(path)
    except FormatError as error:
        yield Finding("TF202", "error", str(path), error.what)
        return
    if not blocks:
        yield Finding("TF201", "error", str(path), "holds no stage1_block_NNNN.bin", "Name the blocks themselves")
    yield from _numbering(blocks)
    files = []
    for block in blocks:
        try:
            files.append(File(block))
        except FormatError as error:
            yield Finding("TF202", "error", str(block), error.what)
    eos_id = GPT2_EOS if how.eos_id is None else how.eos_id
    found: list[Content] = []
    full = max((file.size for file in files), default=0)
    for file in files:
        last = file is files[-1]
        yield from _size(file, options.seq_len, full=full, last=last)
        try:
            content = look_at(file, options.seq_len, eos_id, how)
        except FormatError as error:
            yield Finding("TF202", "error", str(file.path), error.what, error.remedy or "", error.offset)
            continue
        found.append(content)
        yield from content_findings(content, last=last)
        file.close()
    yield from stream_findings(path, found, eos_id)
    yield from _identical(found, how)


def _blocks(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return [path / name for name in sorted(filter(BLOCK_NAME.fullmatch, names_in(path)), key=natural_key)]


def _numbering(blocks: Sequence[Path]) -> Iterator[Finding]:
    matches = [BLOCK_NAME.fullmatch(block.name) for block in blocks]
    numbers = [int(match[1]) if match else 0 for match in matches]
    for before, after, block in zip(numbers, numbers[1:], blocks[1:], strict=False):
        if after == before:
            yield Finding("TF203", "error", str(block), f"a second block has the number {after}", "Keep one of them")
        elif after > before + 1:
            missing = f"block {before + 1} is" if after == before + 2 else f"blocks {before + 1} to {after - 1} are"
            yield Finding("TF204", "error", str(block), f"{missing} missing before it", "Find the missing block")


def _size(file: File, seq_len: int, *, full: int, last: bool) -> Iterator[Finding]:
    name, size = str(file.path), file.size
    if not size:
        yield Finding("TF205", "warning", name, "is empty", "Remove it, or copy it again")
    elif size % 4:
        at = size - size % 4
        yield Finding("TF206", "error", name, "ends inside a token: it was cut", _COPY, at)
    elif size % (4 * seq_len):
        at = size - size % (4 * seq_len)
        yield Finding("TF207", "error", name, f"ends with a partial sample of {size % (4 * seq_len) // 4:,} tokens",
                      "Copy it again, or name its sample length with --from-opt seq_len=N", at)  # fmt: skip
    if not last and size < full:
        yield Finding("TF208", "error", name, f"is not the last block, yet shorter than the others ({size:,} of "
                      f"{full:,} bytes)", _COPY)  # fmt: skip


def _identical(found: Sequence[Content], how: Audit) -> Iterator[Finding]:
    """Blocks with the same content; without a deep look, the same in all places looked at."""
    seen: dict[tuple[int, str], Content] = {}
    for content in found:
        if content.tokens < LOOK or content.constant:
            continue
        key = (content.tokens, content.digest)
        if key in seen:
            same = "is byte for byte" if how.deep else "looks in three places like"
            yield Finding("TF217", "error", str(content.path), f"{same} the block {seen[key].path.name}",
                          "One of them was copied to the wrong name, or its data occurs twice")  # fmt: skip
        seen.setdefault(key, content)
