"""Recognize files that no format reads, by their magic numbers, and say what to do with them.

The rows of the tables are in order of precedence. When tokfmt learns to read one of these kinds, its row is removed. A
format's `sniff` claims only what the format reads.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tokfmt.core.format import ZSTANDARD, Probe
from tokfmt.core.ragged import Tokens
from tokfmt.core.raw_ids import kind_of, places
from tokfmt.files.file import MANIFEST, PAGE, PAGE_HEAD, open_file
from tokfmt.unsupported_config import is_modalities, modalities_step
from tokfmt.wording import printable

_GPT2_EOS = 50256
_LINES = 'write one JSON line per document, {"text": "..."} or {"input_ids": [...]}, and convert that'
_NEXT = f"To go on, {_LINES}"
_STREAM = "--from stage1 --eos ID reads it, split at the token ID that ends documents"
_BARE = "--from nanogpt --eos ID reads it, split at the token ID that ends documents"
_GPT2_BARE = "--from nanogpt reads it, split at GPT-2's separator; --eos ID names another one"
_PAIR = "tokfmt check --from megatron PATH reports how"
_INDEX = "Copy index.json into its folder, and name the folder"
_ARRAY = "numpy.save('x.npy', {}) writes a tensor of token IDs as an array, which tokfmt reads"
_OTHER = "Name the file that holds the token IDs"
_MAGIC = re.compile(rb"[A-Za-z0-9]{4,8}(?![A-Za-z0-9])")
"""A magic number of four letters or digits. One in some hundred streams of 2-byte IDs begins so by chance."""
_COLUMNS = "pyarrow.parquet.write_table writes them as Parquet, which tokfmt reads"
_MIND = "mindspore.dataset.MindDataset(PATH).create_dict_iterator(output_numpy=True) reads its rows; " + _LINES
_PANDAS = "pandas.{}(PATH).to_json('x.jsonl', orient='records', lines=True) writes JSON lines, which tokfmt reads"


class Sign(NamedTuple):
    """A kind of file that no format claims.

    Attributes:
        name: What it is, in words that follow `verb`.
        step: What to do, a sentence without its full stop.
        certain: True if its magic number overrules a format that claims the file by name only.
        readable: True if the step reads it, because only its content does not state which format it is of.
        verb: "is"; "looks like" if no magic number but the numbers in it show what it is.
    """

    name: str
    step: str
    certain: bool = True
    readable: bool = False
    verb: str = "is"


def foreign(probe: Probe) -> Sign | None:
    """Return the kind of a path that no format reads; None if it is unknown."""
    if sign := _manifest(probe):
        return sign
    if probe.is_directory:
        for sign, *wanted in _DIRECTORIES:
            if all(any(re.fullmatch(one, name) for name in probe.entries) for one in wanted):
                return sign
        return None
    for sign, test in _FILES:
        if probe.head.startswith(test) if isinstance(test, tuple) else test(probe):
            return sign
    return _headed(probe) or _compressed(probe) or _text(probe) or _raw(probe, places(probe))


def overruling(probe: Probe) -> Sign | None:
    """Return the kind of a file that a format without a magic number claims, if its head shows another kind."""
    for sign, test in _FILES:
        if sign.certain and isinstance(test, tuple) and probe.head.startswith(test):
            return sign
    return _headed(probe) or _CERTAIN.get(kind_of([probe.head], _GPT2_EOS))


def _manifest(probe: Probe) -> Sign | None:
    """Recognize a manifest, and a directory that holds only manifests."""
    described = [name.removesuffix(MANIFEST) for name in probe.entries or (probe.path.name,) if name.endswith(MANIFEST)]
    if not described or len(described) < len(probe.entries):
        return None
    name = printable(described[0])
    if probe.is_directory:
        return Sign("a directory of manifests without their datasets", f"Copy {name} into it again")
    is_there = probe.path.with_name(described[0]).exists()
    step = f"Name the dataset, {name}" if is_there else f"Its dataset, {name}, is not there: copy it again"
    return Sign("the manifest of a dataset", step)


def _zip_holds(probe: Probe, name: bytes) -> bool:
    return probe.head.startswith(b"PK\3\4") and (name in probe.head or name in probe.tail)


def _safetensors(probe: Probe) -> bool:
    length = int.from_bytes(probe.head[:8], "little")
    return probe.head[8:9] == b"{" and 2 <= length <= probe.size - 8 and probe.read(8 + length - 1, 1) in (b"}", b" ")


def _shard(probe: Probe) -> bool:
    """Recognize a chunk of LitData or a shard of MDS, by its first u32 fields.

    The number of items is first, then the byte offset at which each item begins, and last the size of the file. The
    first item begins after these fields, or after JSON that follows them.
    """
    count = int.from_bytes(probe.head[:4], "little")
    begin, end = (int.from_bytes(probe.read(at, 4), "little") for at in (4, 4 * (count + 1)))
    right = begin == 4 * (count + 2) or probe.read(4 * (count + 2), 1) == b"{"
    return end == probe.size and 4 * (count + 2) <= begin <= end and right


def _headed(probe: Probe) -> Sign | None:
    """Recognize a header of llm.c, of 256 int32 of which 3 are used, with a magic number that tokfmt does not know."""
    head = np.frombuffer(probe.head[: len(probe.head) // 1024 * 1024], "<i4")[:256]
    if not len(head) or head[4:].any() or head[0] <= 0 or head[2] <= 0:
        return None
    width, rest = divmod(probe.size - 1024, int(head[2]))
    if rest or width not in (2, 4):
        return None
    step = f"--from array --from-opt bare=uint{8 * width} --from-opt header=1024 --from-opt side=before --eos ID reads "
    step += "its tokens, split in front of the token ID that begins documents"
    return Sign(f"a file with a header like that of llm.c, whose magic number is {head[0]}", step, readable=True)


def _part(probe: Probe) -> bool:
    """Recognize PREFIX-00000-of-00002.bin beside an index PREFIX.idx of Megatron-LM."""
    match = re.fullmatch(r"(.+)-\d+-of-\d+\.bin", probe.path.name)
    if match is None or not (index := probe.path.with_name(f"{match[1]}.idx")).is_file():
        return False
    file = open_file(index)
    try:
        return file.read(0, min(file.size, 8)).startswith((b"MMIDIDX", b"TNTIDX"))
    finally:
        file.close()


def _pickle(probe: Probe) -> bool:
    return probe.head[:1] == b"\x80" and probe.head[1:2] in (b"\2", b"\3", b"\4", b"\5") and probe.tail[-1:] == b"."


def _tfrecord(probe: Probe) -> bool:
    """Recognize the first 12 bytes of a record: its length in 8 bytes, and their masked CRC-32C."""
    try:
        import google_crc32c
    except ImportError:  # tokfmt can be installed with numpy as its only dependency.
        return False
    crc = google_crc32c.value(probe.head[:8])
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return len(probe.head) >= 12 and masked == int.from_bytes(probe.head[8:12], "little")


_FILES: list[tuple[Sign, tuple[bytes, ...] | Callable[[Probe], bool]]] = [
    (Sign(PAGE, "Download it again; if it is a document, --from text reads it", certain=False),
     lambda probe: PAGE_HEAD.match(probe.head) is not None),
    (Sign("an encrypted Parquet file", "Write it without encryption"), (b"PARE",)),
    (Sign("an index of Megatron-LM, which belongs to a .bin", "Name it as the .bin, with .idx at the end"),
     (b"MMIDIDX\0", b"TNTIDX\0")),
    (Sign("a PyTorch file (.pt)", _ARRAY.format("torch.load(PATH, weights_only=True).numpy()")),
     lambda probe: _zip_holds(probe, b"data.pkl")),
    (Sign("a zip archive", "Unzip it, and name what is in it"), (b"PK\3\4", b"PK\5\6")),
    (Sign("the index of a text file", "Name the .jsonl that it belongs to"),
     lambda probe: probe.path.suffix == ".idx" and _pickle(probe)),
    (Sign("a pickle, perhaps of PyTorch (code, if it is loaded)", _NEXT, certain=False), _pickle),
    (Sign("a MindRecord file of MindSpore", _MIND),
     lambda probe: _safetensors(probe) and b'"shard_addresses"' in probe.head),
    (Sign("safetensors", _ARRAY.format("safetensors.numpy.load_file(PATH)['NAME']")), _safetensors),
    (Sign("a tar archive", "Unpack it, and name what is in it"), lambda probe: probe.head[257:].startswith(b"ustar")),
    (Sign("bzip2 data", "Decompress it with bunzip2"), (b"BZh",)),
    (Sign("xz data", "Decompress it with unxz"), (b"\xfd7zXZ\0",)),
    (Sign("a catalog of Levanter caches", "Name the directory of one cache that it lists"),
     lambda probe: all(word in probe.head for word in (b'"splits"', b'"cache_dir"', b'"ledger"'))),
    (Sign("a list of the numbers of sequences and documents of Megatron-LM prefixes",
          "Name the blend list, or one of these prefixes"),
     lambda probe: re.match(rb'\s*\{\s*"[^"]*_(document|sentence)":\s*\[\s*\d+,\s*\d+\s*\]', probe.head) is not None),
    (Sign("a part of a run of open-instruct that was stopped", "Finish the run, and name its folder"),
     lambda probe: re.fullmatch(r"_(tokens|labels|boundaries)\.partial\.bin", probe.path.name) is not None),
    (Sign("a chunk of LitData or a shard of MDS without the index.json that describes it", _INDEX), _shard),
    (Sign("a part of a .bin of Megatron-LM, whose .idx is beside it",
          "cat PREFIX-*.bin > PREFIX.bin joins the parts, and PREFIX.bin is the dataset"), _part),
    (Sign("an SQLite database", _NEXT), (b"SQLite format 3\0",)),
    (Sign("a dataset of Fast-LLM", _NEXT), (b"fast_llm_prepared_dataset",)),
    (Sign("a Vortex file", "vortex.open(PATH).to_arrow() gives its columns; " + _COLUMNS), (b"VTXF",)),
    (Sign("a TFRecord file whose records are not tf.train.Example",
          "--from tfrecord --from-opt bare=int32 reads records of bare integers", readable=True), _tfrecord),
    (Sign("an Avro file", _NEXT), (b"Obj\1",)),
    (Sign("an ORC file", "pyarrow.orc.read_table(PATH) reads it; " + _COLUMNS), (b"ORC",)),
    (Sign("a Feather file of version 1", "pyarrow.feather.read_table(PATH) reads it; " + _COLUMNS), (b"FEA1",)),
    (Sign("a model (GGUF)", _OTHER), (b"GGUF",)),
    *((Sign(f"{what}, not token IDs", _OTHER), (mark,)) for mark, what in (
        (b"\x89PNG\r\n", "an image (PNG)"), (b"\xff\xd8\xff", "an image (JPEG)"), (b"GIF8", "an image (GIF)"),
        (b"\x7fELF", "a program (ELF)"), (b"%PDF-", "a document (PDF)"), (b"fLaC", "sound (FLAC)"),
    )),
    (Sign("a DuckDB database", "COPY t TO 'x.parquet' (FORMAT parquet) writes a table as Parquet, which tokfmt reads"),
     lambda probe: probe.head[8:].startswith(b"DUCK")),
    (Sign("a 7-Zip archive", "Unpack it, and name what is in it"), (b"7z\xbc\xaf\x27\x1c",)),
    (Sign("lz4 data", "Decompress it with unlz4"), (b"\x04\x22\x4d\x18",)),
]  # fmt: skip
"""Kinds of files in order of precedence, each with its magic numbers, or with a test if these do not tell it."""

_SHARD_NAMES = r"chunk-\d+-\d+(\.[\w:]+)?\.bin|shard\.\d+\.mds(\.\w+)?"
_DIRECTORIES: list[tuple[Sign, *tuple[str, ...]]] = [
    (Sign("a cache of Hugging Face (dataset_info.json without state.json)", "Name the Arrow or Parquet files in it"),
     r"dataset_info\.json"),
    (Sign("a folder of chunks of LitData or shards of MDS whose index.json lists none", "Copy index.json again"),
     _SHARD_NAMES, r"index\.json"),
    (Sign("a folder of chunks of LitData or shards of MDS without index.json", "Copy index.json into it"),
     _SHARD_NAMES),
    (Sign("a directory of tar archives whose samples are not token IDs", _NEXT), r".*\.tar(\.gz)?"),
    (Sign("a tokbin source (bare shards of one stream, and offsets)",
          "cat train-*.bin > train.bin, then " + _BARE), r"meta\.json", r"train-offsets\.npy"),
    (Sign("a directory of HDF5 files, and none is named *.h5",
          "Name one of them, or rename them all: trainers look for *.h5"),
     r".*\.(hdf5|hdf|H5)"),
    (Sign("a zarr array whose metadata do not state integers", _OTHER), r"\.zarray|zarr\.json"),
    (Sign("a Lance dataset", "lance.dataset(PATH).to_table() reads it; " + _COLUMNS), "_versions", "data"),
    (Sign("an LMDB database", _NEXT), r"data\.mdb"),
    (Sign("a dataset of Fast-LLM", _NEXT), r".*\.fast_llm_dataset"),
    (Sign("a directory of MindRecord files of MindSpore", _MIND), r".*\.mindrecord\d*"),
    (Sign("a directory of .bin files",
          "Name the files, of which convert joins several; stage1 reads a directory of stage1_block_NNNN.bin",
          readable=True), r".*\.bin"),
]  # fmt: skip
"""Kinds of directories in order of precedence, each with patterns of names that are all in it."""


def _compressed(probe: Probe) -> Sign | None:
    """Recognize gzip and zstandard data that does not hold JSON lines."""
    if not probe.head.startswith(b"\x1f\x8b"):
        if ZSTANDARD.match(probe.head) is None:
            return None
        what, step = "zstandard data in which no JSON lines were found", "Decompress it with unzstd --long=31"
        return Sign(what, step, certain=False)
    try:
        inside = zlib.decompressobj(31).decompress(probe.head, 1 << 16)
    except zlib.error:
        return None
    kind = "a tar archive" if inside[257:262] == b"ustar" else "something other than JSON lines"
    return Sign(f"gzip data of {kind}", "Unpack it, and name what is in it", certain="tar" in kind)


_TEXTS = [
    (r"\[\[?[\w.\"' -]+\]\]?[ \t]*(#.*)?\r?\n",
     Sign("a TOML or INI file", "A recipe of tokfmt begins with tokfmt = 1", certain=False)),
    (r"(\d+[ ,\t]+){8}[\d ,\t\r\n]*\Z",
     Sign("a list of numbers as text",
          """jq -cR '{input_ids: [scan("[0-9]+") | tonumber]}' PATH > x.jsonl makes a document of each line""",
          certain=False)),
    (r"\[",
     Sign("one JSON array, not JSON lines", "jq -c '.[]' PATH > x.jsonl writes its items as lines", certain=False)),
    (r"\{", Sign("JSON over several lines, not JSON lines", "jq -c . PATH > x.jsonl writes one line", certain=False)),
]  # fmt: skip
"""Kinds of text in order of precedence, each with a pattern of its beginning."""


def _text(probe: Probe) -> Sign | None:
    """Recognize text that is not JSON lines."""
    try:
        text = probe.head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(probe.head) - 3 or len(probe.head) == probe.size:
            return None
        text = probe.head[: error.start].decode("utf-8")
    begin = text.lstrip("\ufeff \t\r\n")
    if not begin or any(ord(c) < 32 and c not in "\t\r\n\f\v\x1b" for c in begin):
        return None
    for pattern, sign in _TEXTS:
        if re.match(pattern, begin):
            return sign
    if is_modalities(text):
        return Sign("a configuration of Modalities' pack_encoded_data", modalities_step(text), certain=False)
    lines = begin.splitlines()[:8][: None if len(text) < len(probe.head) else 8]
    for separator, method in ((",", "read_csv"), ("\t", "read_table")):
        counts = {line.count(separator) for line in lines}
        if len(lines) > 1 and len(counts) == 1 and counts != {0}:
            return Sign("a table (CSV)" if separator == "," else "a table (TSV)", _PANDAS.format(method), certain=False)
    step = "--from text reads it as one document, or split by --from-opt separator=LINE; "
    step += "jq -cR '{text: .}' PATH > x.jsonl makes a document of each line"
    return Sign("plain text", step, certain=False, readable=True)


_RAW = {
    "int32": Sign(
        "a stream of int32 token IDs without the separator 50256: stage1 of another tokenizer, or bare uint32",
        "--from stage1 --eos ID reads the former, --from nanogpt --from-opt width=4 --eos ID the latter",
        readable=True,
    ),
    "uint16": Sign("a bare stream of uint16 token IDs, like nanoGPT's train.bin", _BARE, readable=True),
    "int64": Sign(
        "a bare stream of int64 token IDs",
        "numpy.fromfile(PATH, '<i8').astype('<i4').tofile('x.bin') makes them int32; " + _STREAM,
    ),
    "big-endian uint16": Sign(
        "a bare stream of big-endian uint16 token IDs",
        "numpy.fromfile(PATH, '>u2').astype('<i4').tofile('x.bin') swaps their bytes; " + _STREAM,
    ),
    "big-endian int32": Sign(
        "a bare stream of big-endian int32 token IDs",
        "--from modalities --from-opt layout=P0 --eos ID reads it, split at that token ID",
        readable=True,
    ),
    "big-endian int64": Sign(
        "a bare stream of big-endian int64 token IDs",
        "numpy.fromfile(PATH, '>i8').astype('<i4').tofile('x.bin') swaps their bytes; " + _STREAM,
    ),
    "int32 tokens": Sign(
        "a bare stream of int32 token IDs whose size is not that of whole samples of 8,192",
        "--from stage1 reads it as one block",
        readable=True,
    ),
    "floats": Sign("floating-point numbers, not token IDs", _OTHER, verb="looks like"),
    "zeros": Sign("nothing but zeros: a sparse or failed copy", "Copy it again"),
    "constant": Sign("one number repeated, not token IDs", "Copy or write it again"),
    "arange": Sign("numbers that count up, not token IDs", _OTHER),
    "labels": Sign("a few distinct numbers (labels, flags or bytes), not token IDs", _OTHER),
    "random": Sign(
        "numbers without frequent ones, like random numbers, not token IDs of a text",
        _OTHER,
    ),
}
"""Kinds of files without a magic number, by what `raw_ids.kind_of` concludes from the numbers in them."""
_CERTAIN = {kind: _RAW[kind] for kind in ("zeros", "floats")}


def _raw(probe: Probe, pieces: Sequence[bytes]) -> Sign | None:
    kind = kind_of(pieces, _GPT2_EOS)
    index = probe.path.with_suffix(".idx")
    paired = probe.path.suffix == ".bin" and index.exists() and index != probe.path
    beside = f". If the .idx beside it is an index of Megatron-LM, it is damaged: {_PAIR}" if paired else ""
    if sign := _RAW.get(kind):
        if kind == "uint16":
            step = _GPT2_BARE if _separators(pieces) else sign.step
            sign = sign._replace(name=f"{sign.name} ({_as_uint16(pieces)})", step=step)
        certain = kind in _CERTAIN
        verb = "is" if kind == "zeros" else "looks like"
        if not certain and (magic := _MAGIC.match(probe.head)):
            name = f"a file of another format, whose magic number is {magic[0].decode()}"
            return Sign(name, f"If it is {_RAW[kind].name} all the same, {sign.step}", certain=False, verb=verb)
        return sign._replace(step=sign.step + beside, certain=certain, verb=verb)
    if probe.path.suffix != ".bin" or probe.size % 2 or not probe.size:
        return None
    high = np.frombuffer(b"".join(piece[: len(piece) // 4 * 4] for piece in pieces), "<u2")[1::2]
    if probe.size % 4 == 0 and len(high) and float(np.mean(high < 4)) > 0.95:
        step = f"If it holds uint32 token IDs, like train.bin of nanoGPT's forks (most are below {4 << 16:,}), {_BARE}"
    else:
        step = f"If it holds uint16 token IDs, like nanoGPT's train.bin ({_as_uint16(pieces)}), {_BARE}"
    return Sign("a .bin without a known header", step + beside, certain=False, readable=True)


def _as_uint16(pieces: Sequence[bytes]) -> str:
    """Return a sentence on the largest number and on how often the GPT-2 separator occurs, if the file is uint16."""
    ids, ends = _uint16(pieces), _separators(pieces)
    often = f"one in {round(len(ids) / ends):,} is" if ends else "none is"
    return f"the largest of {len(ids):,} looked at is {int(ids.max()):,}, and {often} {_GPT2_EOS}, GPT-2's separator"


def _separators(pieces: Sequence[bytes]) -> int:
    """Return how often the GPT-2 separator occurs, if the file is uint16."""
    return int(np.count_nonzero(_uint16(pieces) == _GPT2_EOS))


def _uint16(pieces: Sequence[bytes]) -> Tokens:
    return np.frombuffer(b"".join(piece[: len(piece) // 2 * 2] for piece in pieces), "<u2")
