"""Files that no format reads: what shows their kind, what they are, and what to do with them.

The rows are in order of precedence. When tokfmt learns to read one of these kinds, its row is removed. A format's
`sniff` claims only what the format reads.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tokfmt.core.format import ZSTANDARD, Probe
from tokfmt.core.raw_ids import kind_of, places
from tokfmt.files.file import MANIFEST, PAGE, PAGE_HEAD
from tokfmt.wording import printable

_GPT2_EOS = 50256
_LINES = 'To go on, write one JSON line per document, {"text": "..."} or {"input_ids": [...]}, and convert that'
_ARRAY = "numpy.save('x.npy', {}) writes a tensor of token IDs as an array, which tokfmt reads"
_OTHER = "Name the file that holds the token IDs"
_COLUMNS = "{} reads it; pyarrow.parquet.write_table writes its columns as Parquet, which tokfmt reads"
_MIND = "mindspore.dataset.MindDataset(PATH).create_dict_iterator(output_numpy=True) reads its rows. " + _LINES
_PANDAS = "pandas.{}(PATH).to_json('x.jsonl', orient='records', lines=True) writes JSON lines, which tokfmt reads"
_UNPACK = "Unpack it, and name what is in it"
_SHARD = r"(chunk-\d+-\d+(\.[\w:]+)?\.bin|shard\.\d+\.mds(\.\w+)?)"


class Sign(NamedTuple):
    """A kind of path that no format claims."""

    name: str  # in words that follow `verb`
    step: str  # what to do, a sentence without its full stop
    certain: bool = True  # overrules a format that claims the file by name only
    verb: str = "is"  # "looks like" if the numbers in a file show what it is

    @property
    def readable(self) -> bool:
        """True if the step reads it, because only its content does not state which format it is of."""
        return self.step.startswith(("--from", "If it"))


Row = tuple[bytes | str | Callable[[Probe], bool], str, str]
"""A pattern of the beginning of a file, or of its name, or a test; what the file is; what to do."""


def _shard(probe: Probe) -> bool:
    """Recognize a chunk of LitData or a shard of MDS: u32 number of items, byte offset of each item, and of the end.

    The first item begins after these fields, or after JSON that follows them.
    """
    count = int.from_bytes(probe.head[:4], "little")
    begin, end = (int.from_bytes(probe.read(at, 4), "little") for at in (4, 4 * (count + 1)))
    right = begin == 4 * (count + 2) or probe.read(4 * (count + 2), 1) == b"{"
    return end == probe.size and 4 * (count + 2) <= begin <= end and right


def _part(probe: Probe) -> bool:
    match = re.fullmatch(r"(.+)-\d+-of-\d+\.bin", probe.path.name)
    return match is not None and probe.path.with_name(f"{match[1]}.idx").is_file()


def _pickle(probe: Probe) -> bool:
    return probe.head.startswith((b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5")) and probe.tail[-1:] == b"."


def _gzipped_tar(probe: Probe) -> bool:
    try:
        return zlib.decompressobj(31).decompress(probe.head, 512)[257:262] == b"ustar"
    except zlib.error:
        return False


def _tfrecord(probe: Probe) -> bool:
    """Recognize the first 12 bytes of a record: its length in 8 bytes, and their masked CRC-32C."""
    try:
        import google_crc32c
    except ImportError:  # tokfmt can be installed with numpy as its only dependency.
        return False
    crc = google_crc32c.value(probe.head[:8])
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return len(probe.head) >= 12 and masked == int.from_bytes(probe.head[8:12], "little")


_FILES: list[Row] = [
    (rb"PARE", "an encrypted Parquet file", "Write it without encryption"),
    (rb"(MMIDIDX|TNTIDX)\0", "an index of Megatron-LM, which belongs to a .bin", "Name it as the .bin, with .idx"),
    (rb"PK\x03\x04.*data\.pkl", "a PyTorch file (.pt)", _ARRAY.format("torch.load(PATH, weights_only=True).numpy()")),
    (rb"PK(\x03\x04|\x05\x06)", "a zip archive", "Unzip it, and name what is in it"),
    (lambda probe: probe.path.suffix == ".idx" and _pickle(probe), "the index of a text file", "Name its .jsonl"),
    (rb'.{4}\0{4}\{.*"shard_addresses"', "a MindRecord file of MindSpore", _MIND),
    (rb'.{4}\0{4}\{\s*"[^\0]', "safetensors", _ARRAY.format("safetensors.numpy.load_file(PATH)['NAME']")),
    (rb".{257}ustar", "a tar archive", _UNPACK),
    (_gzipped_tar, "gzip data of a tar archive", _UNPACK),
    (rb"BZh", "bzip2 data", "Decompress it with bunzip2"),
    (rb"\xfd7zXZ\0", "xz data", "Decompress it with unxz"),
    (rb'(?=.*"splits")(?=.*"cache_dir")(?=.*"ledger")', "a catalog of Levanter caches", "Name a cache that it lists"),
    (rb'\s*\{\s*"[^"]*_(document|sentence)":\s*\[\s*\d+,\s*\d+\s*\]',
     "a list of the numbers of sequences of Megatron-LM prefixes", "Name the blend list, or one of these prefixes"),
    (r"_(tokens|labels|boundaries)\.partial\.bin", "a part of a run of open-instruct that was stopped",
     "Finish the run, and name its folder"),
    (_shard, "a chunk of LitData or a shard of MDS without the index.json that describes it",
     "Copy index.json into its folder, and name the folder"),
    (_part, "a part of a .bin of Megatron-LM, whose .idx is beside it",
     "cat PREFIX-*.bin > PREFIX.bin joins the parts, and PREFIX.bin is the dataset"),
    (rb"SQLite format 3\0", "an SQLite database", _LINES),
    (rb"fast_llm_prepared_dataset", "a dataset of Fast-LLM", _LINES),
    (rb"VTXF", "a Vortex file", _COLUMNS.format("vortex.open(PATH).to_arrow()")),
    (_tfrecord, "a TFRecord file whose records are not tf.train.Example",
     "--from tfrecord --from-opt bare=int32 reads records of bare integers"),
    (rb"Obj\x01", "an Avro file", _LINES),
    (rb"ORC", "an ORC file", _COLUMNS.format("pyarrow.orc.read_table(PATH)")),
    (rb"FEA1", "a Feather file of version 1", _COLUMNS.format("pyarrow.feather.read_table(PATH)")),
    (rb"GGUF", "a model (GGUF)", _OTHER),
    (rb"\x89PNG\r\n|\xff\xd8\xff|GIF8", "an image (PNG, JPEG or GIF), not token IDs", _OTHER),
    (rb"\x7fELF", "a program (ELF), not token IDs", _OTHER),
    (rb"%PDF-", "a document (PDF), not token IDs", _OTHER),
    (rb"fLaC", "sound (FLAC), not token IDs", _OTHER),
    (rb".{8}DUCK", "a DuckDB database", "COPY t TO 'x.parquet' (FORMAT parquet) writes Parquet, which tokfmt reads"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (rb"\x04\x22\x4d\x18", "lz4 data", "Decompress it with unlz4"),
]  # fmt: skip

_UNCERTAIN: list[Row] = [
    (
        lambda probe: PAGE_HEAD.match(probe.head) is not None,
        PAGE,
        "Download it again; if it is a document, --from text reads it",
    ),
    (_pickle, "a pickle, perhaps of PyTorch (code, if it is loaded)", _LINES),
    (rb"\x1f\x8b", "gzip data of something other than JSON lines", _UNPACK),
    (ZSTANDARD.pattern, "zstandard data in which no JSON lines were found", "Decompress it with unzstd --long=31"),
]
"""Kinds of files that overrule no format that claims the file by its name."""

_TEXTS: list[Row] = [
    (rb"\[\[?[\w.\"' -]+\]\]?[ \t]*(#.*)?\r?\n", "a TOML or INI file", "A recipe of tokfmt begins with tokfmt = 1"),
    (rb"(\d+[ ,\t]+){8}[\d ,\t\r\n]*\Z", "a list of numbers as text",
     """jq -cR '{input_ids: [scan("[0-9]+") | tonumber]}' PATH > x.jsonl makes a document of each line"""),
    (rb"\[", "one JSON array, not JSON lines", "jq -c '.[]' PATH > x.jsonl writes its items as lines"),
    (rb"\{", "JSON over several lines, not JSON lines", "jq -c . PATH > x.jsonl writes one line"),
    (rb"(?=.*\n +src_path:)(?=.*\n +jq_pattern:)(?=.*\n +eod_token:)",
     "a configuration of Modalities' pack_encoded_data",
     "tokfmt convert SRC DST.pbin --tokenizer NAME --text-field PATH --eos ID converts what it names"),
    (lambda probe: _is_table(probe, b","), "a table (CSV)", _PANDAS.format("read_csv")),
    (lambda probe: _is_table(probe, b"\t"), "a table (TSV)", _PANDAS.format("read_table")),
    (rb"", "plain text",
     "--from text reads it as one document; jq -cR '{text: .}' PATH > x.jsonl makes one of each line"),
]  # fmt: skip
"""Kinds of text that is not JSON lines."""

_DIRECTORIES = [
    (r"dataset_info\.json", "a cache of Hugging Face (dataset_info.json without state.json)",
     "Name the Arrow or Parquet files in it"),
    (rf"{_SHARD} index\.json", "a folder of chunks of LitData or shards of MDS whose index.json lists none",
     "Copy index.json again"),
    (_SHARD, "a folder of chunks of LitData or shards of MDS without index.json", "Copy index.json into it"),
    (r".*\.tar(\.gz)?", "a directory of tar archives whose samples are not token IDs", _LINES),
    (r"meta\.json train-offsets\.npy", "a tokbin source (bare shards of one stream, and offsets)",
     "cat train-*.bin > train.bin joins the shards, and --from nanogpt --eos ID reads them"),
    (r".*\.(hdf5|hdf|H5)", "a directory of HDF5 files, and none is named *.h5",
     "Name one of them, or rename them all: trainers look for *.h5"),
    (r"(\.zarray|zarr\.json)", "a zarr array whose metadata do not state integers", _OTHER),
    (r"_versions data", "a Lance dataset", _COLUMNS.format("lance.dataset(PATH).to_table()")),
    (r"data\.mdb", "an LMDB database", _LINES),
    (r".*\.fast_llm_dataset", "a dataset of Fast-LLM", _LINES),
    (r".*\.mindrecord\d*", "a directory of MindRecord files of MindSpore", _MIND),
    (r".*\.bin", "a directory of .bin files",
     "--from stage1 reads stage1_block_NNNN.bin. If they are others, name one, and the error states how to read it"),
]  # fmt: skip
"""Kinds of directories: patterns, between spaces, of names that are all in them; what they are; what to do."""

_NUMBERS = {
    "floats": Sign("floating-point numbers, not token IDs", _OTHER, verb="looks like"),
    "zeros": Sign("nothing but zeros: a sparse or failed copy", "Copy it again"),
    "constant": Sign("one number repeated, not token IDs", "Copy or write it again", False, "looks like"),
    "arange": Sign("numbers that count up, not token IDs", _OTHER, False, "looks like"),
    "labels": Sign("a few distinct numbers (labels, flags or bytes), not token IDs", _OTHER, False, "looks like"),
    "random": Sign("numbers without frequent ones, like random numbers, not token IDs", _OTHER, False, "looks like"),
}
"""Numbers that are not token IDs, by what `raw_ids.kind_of` concludes."""


def foreign(probe: Probe) -> Sign | None:
    """Return the kind of a path that no format reads; None if it is unknown."""
    if sign := _manifest(probe):
        return sign
    if probe.is_directory:
        for names, name, step in _DIRECTORIES:
            if all(any(re.fullmatch(one, entry) for entry in probe.entries) for one in names.split()):
                return Sign(name, step)
        return None
    return _shown(probe, _FILES) or _headed(probe) or _shown(probe, _UNCERTAIN) or _text(probe) or _raw(probe)


def overruling(probe: Probe) -> Sign | None:
    """Return the kind of a file that a format without a magic number claims, if its head shows another kind."""
    found = _shown(probe, [row for row in _FILES if isinstance(row[0], bytes)]) or _headed(probe)
    numbers = _NUMBERS.get(kind_of([probe.head], _GPT2_EOS))
    return found or (numbers if numbers is not None and numbers.certain else None)


def _shown(probe: Probe, rows: Sequence[Row]) -> Sign | None:
    for shown, name, step in rows:
        if isinstance(shown, bytes):
            fits = re.match(shown, probe.head, re.DOTALL) is not None
        else:
            fits = re.fullmatch(shown, probe.path.name) is not None if isinstance(shown, str) else shown(probe)
        if fits:
            return Sign(name, step, certain=rows is not _UNCERTAIN and rows is not _TEXTS)
    return None


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
    return Sign(f"a file with a header like that of llm.c, whose magic number is {head[0]}", step)


def _text(probe: Probe) -> Sign | None:
    """Recognize text that is not JSON lines."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(probe.head, final=len(probe.head) == probe.size)
    except UnicodeDecodeError:
        return None
    begin = probe.head.removeprefix(codecs.BOM_UTF8).lstrip()
    is_text = begin and not re.search(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]", begin)
    return _shown(probe._replace(head=begin), _TEXTS) if is_text else None


def _is_table(probe: Probe, separator: bytes) -> bool:
    """Return whether the first lines of a text have the same number of separators."""
    counts = [line.count(separator) for line in probe.head.splitlines()[:8]]
    return len(counts) > 1 and counts[0] > 0 and len(set(counts)) == 1


def _raw(probe: Probe) -> Sign | None:
    """Recognize a file without a magic number by the numbers in it."""
    pieces = places(probe)
    kind = kind_of(pieces, _GPT2_EOS).removesuffix(" tokens")
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    if not kind and (probe.path.suffix != ".bin" or probe.size % 2):
        return None
    ids = np.frombuffer(b"".join(piece[: len(piece) // 2 * 2] for piece in pieces), "<u2")
    is_wide = probe.size % 4 == 0 and len(ids) > 1 and float(np.mean(ids[1::2] < 4)) > 0.95
    dtype = kind.split()[-1] if kind else "uint32" if is_wide else "uint16"
    name = f"a bare stream of {kind} token IDs" if kind else "a .bin without a known header"
    if dtype == "uint16":
        ends = int(np.count_nonzero(ids == _GPT2_EOS))
        often = f"one in {round(len(ids) / ends):,}" if ends else "none"
        name += f" (the largest of {len(ids):,} looked at is {int(ids.max(initial=0)):,}, and {often} is {_GPT2_EOS}, "
        name += "GPT-2's separator)"
    order = " --from-opt order=big" if kind.startswith("big") else ""
    step = f"--from array --from-opt bare={dtype}{order} --eos ID reads it, split at the token ID that ends documents"
    # One in some hundred streams of 2-byte IDs begins by chance with four letters or digits.
    if kind and (magic := re.match(rb"[A-Za-z0-9]{4,8}(?![A-Za-z0-9])", probe.head)):
        step = f"If it is {name} all the same, {step}"
        name = f"a file of another format, whose magic number is {magic[0].decode()}"
    step = step if kind else f"If it holds {dtype} token IDs, {step}"
    index = probe.path.with_suffix(".idx")
    if probe.path.suffix == ".bin" and index.exists():
        step += ". If the .idx beside it is an index of Megatron-LM, it is damaged: check --from megatron PATH says how"
    return Sign(name, step, certain=False, verb="looks like" if kind else "is")
