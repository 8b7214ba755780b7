"""Arrays that another file describes: those of Model-Optimizer, tatm and PaddleNLP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tokfmt.core.annotation import Part, bounded_entries, shown
from tokfmt.core.findings import fatal
from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.core.reader import Inner, Separators
from tokfmt.errors import CorruptError, UnsupportedError
from tokfmt.files.fields import Field
from tokfmt.files.file import File, open_file
from tokfmt.files.place import Place
from tokfmt.formats.array.named import arrays_of_zip, member_of
from tokfmt.formats.array.options import ReadOptions
from tokfmt.formats.array.shapes import shaped
from tokfmt.formats.flat import Extent, FileLayout, joined, stated_tokens
from tokfmt.formats.folders import whole_number
from tokfmt.formats.zarr_arrays.store import Zipped

FEW_ZEROS = 8  # that many at the end of a file fill it
TEXT = 1 << 20  # bytes of a description, at most


def model_optimizer_layout(file: File, stated: Mapping[str, Any], options: ReadOptions) -> FileLayout:
    """Return the layout of rows that a .json of Model-Optimizer describes."""
    beside = file.path.with_name(f"{file.path.name}.json")
    for key, expected in (("status", "complete"), ("version", 1), ("dtype", "uint32")):
        if stated.get(key) != expected:
            found = shown(stated.get(key))
            raise UnsupportedError(beside, key, expected=expected, found=found, remedy="Build it to its end")
    count, length = (whole_number(beside, key, stated.get(key)) for key in ("num_samples", "seq_length"))
    workers, dtype = max(1, min(count, int(stated.get("workers") or 1))), np.dtype("<u4")
    extent, wrong = stated_tokens(file, dtype, count * (length + 1), "TF794")
    tokenizer = stated.get("tokenizer_path")
    parts, row = list[FileLayout](), length + 1
    firsts = [count * worker // workers for worker in range(workers + 1)] if options.view == "documents" else [0, count]
    for first, last in zip(firsts, firsts[1:], strict=False):
        part = Extent(file, 4 * first * row, max(0, min(extent.tokens, last * row) - first * row), dtype)
        parts.append(shaped(part, row, options, 1))
    layout, streams = joined(parts), sum(part.extents[0].tokens > 0 for part in parts)
    border = f"{streams} streams are read one after the other: a document at their border may have tokens of both"
    return replace(
        layout,
        notes=(*layout.notes, border) if streams > 1 else layout.notes,
        problems=[problem._replace(accepted_by="") for problem in wrong],
        sections=[
            Part(
                "description",
                beside,
                lambda: [Field(shown(key), None, 0, shown(value)) for key, value in stated.items()],
            )
        ],
        tokenizers=(shown(tokenizer),) if tokenizer else (),
    )


def paddle_layout(layout: FileLayout, index: File, options: ReadOptions) -> FileLayout:
    """Return the layout of tokens whose documents an index of PaddleNLP states; without `lens` in it, the given one."""
    store = Zipped(index.path)
    if "lens" not in (arrays := arrays_of_zip(store)):
        return layout
    tokens, problems = layout.extents[0].tokens, [*layout.problems]

    def values(name: str) -> Offsets:
        extent, shape, wrong = member_of(index, store, name)
        if len(shape) != 1:
            raise CorruptError(index.path, f"dimensions of {name}", expected=1, found=len(shape))
        bounded_entries(index.path, extent.tokens, layout.extents[0].file)
        problems.extend(wrong)
        return extent.file.array(extent.begin, extent.tokens, extent.dtype).astype(np.int64)

    lengths = values("lens")
    ends = offsets_of(np.maximum(lengths, 0))
    docs = values("docs") if "docs" in arrays else np.arange(len(ends))
    wrong, expected, found = "", 0, 0
    if len(lengths) and int(lengths.min()) < 0:
        wrong, expected, found = "has a negative length in lens", 0, int(lengths.min())
    elif int(ends[-1]) != tokens:
        wrong, expected, found = "tokens of all sentences in lens", tokens, int(ends[-1])
    elif "sents" in arrays and not np.array_equal(sents := values("sents"), ends):
        wrong, expected, found = "tokens up to the last end in sents", tokens, int(sents[-1]) if len(sents) else 0
    elif not len(docs) or docs[0] or int(docs[-1]) != len(lengths) or (np.diff(docs) < 0).any():
        wrong, expected, found = "sentences up to the last end in docs", len(lengths), int(docs[-1]) if len(docs) else 0
    if wrong:
        problems.append(fatal("TF793", CorruptError(index.path, wrong, expected=expected, found=found)))
    docs = np.arange(len(ends)) if options.unit == "sequences" else docs
    several = not wrong and len(lengths) > len(docs) - 1
    return replace(
        layout,
        starts=offsets_of([tokens]) if wrong else ends[docs],
        separators=Separators.TRAILING,
        problems=problems,
        inner=(Inner(index.path, store.origin("docs.npy").start, len(lengths), len(docs) - 1),) if several else (),
        extras={**layout.extras, "boundaries": index.path.name},
    )


def stated_dtype(path: Place, name: object) -> np.dtype[Any]:
    """Return the dtype that a description names."""
    if not isinstance(name, str) or not re.fullmatch(r"u?int(8|16|32|64)", name):
        remedy = "--from-opt bare=DTYPE on its files reads them"
        raise CorruptError(path, "dtype", expected="an integer dtype", found=shown(name), remedy=remedy)
    return np.dtype(name).newbyteorder("<")


def tatm_facts(path: Place) -> Mapping[str, str]:
    """Return what the plain lines of tokenized_info in a metadata.yaml state, and the pattern of the files."""
    file = open_file(path)
    text = file.read(0, min(file.size, TEXT)).decode("utf-8", "replace")
    block = re.search(r"^tokenized_info:[ \t]*\n((?:[ \t-].*\n?)*)", text, re.MULTILINE)
    lines = re.findall(r"^  (\w+):[ \t]*(['\"]?)(.*?)\2[ \t]*$", block[1] if block else "", re.MULTILINE)
    stated = {key: value for key, _, value in lines}
    prefix, ending = stated.get("file_prefix", "").rpartition("/")[2], stated.get("file_extension", "bin")
    return {**stated, "pattern": rf"{re.escape(prefix)}_(\d+)\.{re.escape(ending)}"}


def zeros_at_end(extent: Extent) -> int:
    """Return the number of zeros at the end of a file."""
    end, width, piece = extent.tokens, extent.dtype.itemsize, 1 << 20
    while end:
        begin = max(0, end - piece)
        ids = np.flatnonzero(extent.file.array(extent.begin + begin * width, end - begin, extent.dtype))
        if len(ids):
            return extent.tokens - begin - int(ids[-1]) - 1
        end = begin
    return extent.tokens
