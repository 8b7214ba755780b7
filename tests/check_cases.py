"""A dataset for each code that no file of fixtures/ has: a function that makes it, and how to check it.

Files are written with struct, numpy, pickle, h5py and json; what is good about them is written by tokfmt.
"""

import dataclasses
import gzip
import json
import pickle
import shutil
import struct

import h5py
import numpy as np
from made_tokenizers import llama3_like
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt import convert
from tokfmt.base.options import given_options
from tokfmt.commands.check import CheckRequest, check
from tokfmt.commands.check.codes import all_codes
from tokfmt.core.ragged import Ragged
from tokfmt.formats.arrayrecord import FORMAT as ARRAYRECORD
from tokfmt.formats.flat_tokens import FORMAT as FLAT
from tokfmt.formats.hdf5 import FORMAT as HDF5
from tokfmt.source.request import SourceRequest
from tokfmt.testing import write

EOS = 4095
GPT2 = 50256
RNG = np.random.default_rng(4)


def asked(path, **given):
    """What `check` is asked of one dataset."""
    reading = {field.name for field in dataclasses.fields(SourceRequest)}
    how = {name: value for name, value in given.items() if name in reading}
    how["options"] = given_options(how.get("options", ()))
    return CheckRequest(SourceRequest((path,), **how), **{k: v for k, v in given.items() if k not in reading})


def look(path, **demands):
    """What `check` makes of one dataset; what holds for every finding is seen on the way."""
    (verdict,) = check(asked(path, **demands))
    for finding in verdict.findings:
        assert finding.severity in ("error", "warning", "info")
        assert "\n" not in finding.message
        assert not finding.message.endswith(".")
        assert not finding.remedy.endswith(".")
        assert finding.remedy or finding.code not in all_codes()
    assert verdict.counts.keys() <= all_codes().keys()
    return verdict


def pack(path, documents, eos=None, lengths=None):
    """A pack of layout D with 2-byte tokens; `lengths` (in bytes) contradict the data if given."""
    data = b"".join(struct.pack(f"<{len(d)}H", *d) for d in documents)
    lengths = lengths or [2 * len(d) for d in documents]
    starts = np.cumsum([0, *lengths]).tolist()
    index = pickle.dumps(list(zip(starts, lengths, strict=False)), protocol=4)
    path.write_bytes(struct.pack("<QI", len(data), 2) + data + index)
    return path


def documents(count, shortest=10, longest=60, eos=EOS):
    ids = [RNG.integers(1, 4000, RNG.integers(shortest, longest)) for _ in range(count)]
    return [[*np.where(one == eos, eos + 1, one).tolist(), eos] for one in ids]


def some_end_otherwise(tmp):
    docs = documents(20)
    docs[7][-1] = 5
    return pack(tmp / "x.pbin", docs), {}


def no_common_end(tmp):
    return pack(tmp / "x.pbin", [d[:-1] for d in documents(20)]), {}


def a_document_of_nothing(tmp):
    docs = documents(3)
    return pack(tmp / "x.pbin", [docs[0], [], docs[1], docs[2]]), {}


def cut_at_512(tmp):
    return pack(tmp / "x.pbin", [*documents(80, 20, 300), *documents(12, 511, 512)]), {}


def padded_documents(tmp):
    docs = [d[:-1] + [EOS] * (64 - len(d) + 1) for d in documents(30)]
    return pack(tmp / "x.pbin", docs), {"deep": True}


def stage1(tmp, *blocks):
    home = tmp / "blocks"
    home.mkdir()
    for number, ids in enumerate(blocks):
        np.asarray(ids).astype(ids.dtype if ids.dtype.str.startswith(">") else "<i4").tofile(
            home / f"stage1_block_{number:04d}.bin"
        )
    return home


def ids(samples=8, top=50000, every=100):
    found = RNG.integers(1, top, samples * 8192).astype("<i4")
    if every:
        found[::every] = GPT2
    return found


def unreadable_block(tmp):
    home = stage1(tmp, ids(1))
    (home / "stage1_block_0001.bin").mkdir()
    return home, {}


def short_block(tmp):
    return stage1(tmp, ids(8), ids(4), ids(8)), {}


def block_of_zeros(tmp):
    return stage1(tmp, ids(), np.zeros(8 * 8192, "<i4")), {}


def zero_tail(tmp):
    block = ids()
    block[-5000:] = 0
    return stage1(tmp, block), {"deep": True}


def big_endian_block(tmp):
    return stage1(tmp, ids().astype(">i4")), {}


def sixteen_bits(tmp):
    return stage1(tmp, RNG.integers(300, 50000, 16 * 8192).astype("<u2").view("<i4")), {}


def eight_bytes(tmp):
    return stage1(tmp, RNG.integers(300, 50000, 8 * 8192).astype("<i8").view("<i4")), {}


def beyond_gpt2(tmp):
    block = ids()
    block[40_000] = 60_000
    return stage1(tmp, block), {"deep": True}


def no_separator_in_blocks(tmp):
    return stage1(tmp, ids(every=0)), {}


def mostly_separators(tmp):
    return stage1(tmp, ids(every=3)), {}


def same_blocks(tmp):
    block = ids()
    return stage1(tmp, block, ids(), block), {}


def padding_inside(tmp):
    block = ids()
    block[3 * 8192 - 200 : 3 * 8192] = GPT2
    return stage1(tmp, block), {"deep": True}


def samples(count=40, width=16):
    stream = RNG.integers(10, 900, count * width + 1).astype("<i4")
    each = np.lib.stride_tricks.sliding_window_view(stream, width + 1)[::width]
    return np.stack([each[:, :-1], np.ones((count, width), "<i4"), each[:, 1:]], 1)


def hdf5(path, rows):
    with h5py.File(path, "w") as file:
        file.attrs["n_examples"] = len(rows)
        file.create_dataset("data", data=rows, chunks=(1, *rows.shape[1:]), compression="gzip")
    return path


def no_file(tmp):
    (tmp / "x").mkdir()
    return tmp / "x", {"format": "hdf5"}


def other_suffix(tmp):
    return hdf5(tmp / "x.hdf5", samples()), {}


def one_file_for_all(tmp):
    (tmp / "x").mkdir()
    hdf5(tmp / "x/a.h5", samples(1000, 4))
    return tmp / "x", {}


def params(tmp, text, rows=None):
    (tmp / "x").mkdir()
    hdf5(tmp / "x/a.h5", samples() if rows is None else rows)
    (tmp / "x/data_params.json").write_text(text)
    return tmp / "x", {}


def broken_params(tmp):
    return params(tmp, "{")


def beyond_vocabulary(tmp):
    return params(tmp, json.dumps({"processing": {"vocab_size": 500}}))


def mask_of_two(tmp):
    rows = samples()
    rows[3, 1, 4] = 2
    return hdf5(tmp / "x.h5", rows), {}


def counted_padding(tmp):
    rows = samples()
    rows[3, :, 8:] = 5
    rows[3, 1, 8:] = [0] * 7 + [1]
    return hdf5(tmp / "x.h5", rows), {}


def masks_of_both_kinds(tmp):
    rows = samples()
    rows[3:8, :, 8:] = 5
    rows[3:6, 1, 8:] = 0
    rows[6:8, 1] = 0
    rows[6:8, 1, 8:] = 1
    return hdf5(tmp / "x.h5", rows), {"deep": True}


def a_file_lost(tmp):
    write(HDF5, tmp / "h5", Ragged.of([[1, 2, 3, 4]] * 40), eos_id=0, options={"seq_len": 8, "shard_size": 40})
    (tmp / "h5/data-00001.h5").unlink()
    return tmp / "h5", {}


def flat(tmp, sequences, **options):
    return write(FLAT, tmp / "x.zarr", Ragged.of(sequences), options=options)


def stale_metadata(tmp):
    path = flat(tmp, [[1, 2], [3]])
    meta = {f"train/{name}/.zarray": {"shape": [99]} for name in ("encoded_tokens", "seq_starts")}
    (path / ".zmetadata").write_text(json.dumps({"metadata": meta, "zarr_consolidated_format": 1}))
    return path, {}


def no_group_file(tmp):
    path = flat(tmp, [[1, 2], [3]])
    (path / "train/.zgroup").unlink()
    return path, {}


def wrapped_ids(tmp):
    path = flat(tmp, [RNG.integers(0, 32768, 8000)])
    (path / "train/.zattrs").write_text('{"max_token_id": 50256}')
    return path, {}


def labels_of_another_length(tmp):
    (tmp / "x.jsonl").write_text('{"input_ids": [1, 2], "labels": [1]}\n')
    return tmp / "x.jsonl", {}


def lengths_of_no_version(tmp):
    (tmp / "x.jsonl").write_bytes(b'{"text": "a"}\n{"text": "b"}\n')
    (tmp / "x.idx").write_bytes(pickle.dumps([(0, 13), (14, 7)], protocol=4))
    return tmp / "x.jsonl", {}


def converted(tmp, **how):
    """The corpus as a pack, with its manifest."""
    convert(CORPUS, tmp / "x.pbin", tokenizer=str(TOKENIZER), **how)
    return tmp / "x.pbin"


def told(tmp, change):
    """A converted pack whose manifest was changed."""
    path = converted(tmp)
    place = tmp / "x.pbin.tokfmt.json"
    content = json.loads(place.read_bytes())
    change(content)
    place.write_text(json.dumps(content))
    return path


def no_manifest(tmp):
    path = converted(tmp)
    (tmp / "x.pbin.tokfmt.json").write_text("[]")
    return path, {}


def other_size(tmp):
    return told(tmp, lambda m: m["output"].update(bytes=5)), {}


def other_checksum(tmp):
    path = converted(tmp)
    with open(path, "r+b") as file:
        file.seek(200)
        byte = file.read(1)[0]
        file.seek(200)
        file.write(bytes([byte ^ 1]))
    return path, {"deep": True}


def other_counts(tmp):
    return told(tmp, lambda m: m.update(sequences=5)), {"deep": True}


def other_format(tmp):
    return told(tmp, lambda m: m.update(format="stage1")), {}


def changed_source(tmp):
    beside = pack(tmp / "source.pbin", documents(9))
    return told(tmp, lambda m: m.update(sources=[{"path": str(beside), "bytes": 5, "files": 1}])), {}


def a_ledger_of_another(tmp):
    pack(tmp / "a.pbin", documents(20), EOS)
    (tmp / "mix.toml").write_text(f'tokfmt = 1\nto_eos = {EOS}\n[[source]]\npath = "a.pbin"\n')
    convert(tmp / "mix.toml", tmp / "b.pbin", ledger=True)
    rows = np.load(tmp / "b.pbin.ledger", mmap_mode="r+")
    rows["stop"][7] += 1
    rows.flush()
    return tmp / "b.pbin", {"deep": True}


def a_file_of_two(home):
    (home / "x-00001-of-00002.jsonl").write_text('{"input_ids": [1]}\n')
    return home, {}


def more_than_a_dataset(tmp):
    stage1 = tmp / "blocks"
    shutil.copytree(FIXTURES / "stage1" / "blocks", stage1)
    (stage1 / "thesis.tex").touch()
    return stage1, {}


def own(**more):
    return {"tokenizer": str(TOKENIZER), **more}


def beyond_tokenizer(tmp):
    docs = documents(9)
    docs[4][3] = 5000
    return pack(tmp / "x.pbin", docs), own(deep=True)


def other_end_of_text(tmp):
    return pack(tmp / "x.pbin", documents(9, eos=7)), own()


def wrapped_in_16_bits(tmp):
    """A tokenizer whose end of text is 65,536 + 7, and documents that end with 7."""
    (tmp / "large").mkdir()
    vocab = {"model": {"type": "WordLevel", "vocab": {"a": 0, "<|end|>": 65_543}, "unk_token": "a"}}
    added = {"id": 65_543, "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False}
    added |= {"normalized": False, "special": True}
    (tmp / "large" / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [added], **vocab}))
    (tmp / "large" / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
    return pack(tmp / "x.pbin", documents(9, eos=7)), {"tokenizer": str(tmp / "large")}


def two_runs_in_one_folder(tmp):
    for name in ("gpt2", "Llama"):
        np.arange(9, dtype="<u2").tofile(tmp / f"{name}.ds")
        np.array([4, 9], "<u8").tofile(tmp / f"{name}.ds.index")
        (tmp / f"{name}.ds.metadata").write_text(f"{name}|2\n9\n9 T")
    return tmp, {"format": "datatrove"}


def noise(tmp):
    """Bytes of UTF-8 beyond ASCII, in no order: ids below 256 are bytes in any byte-level vocabulary."""
    vocabulary = json.loads((TOKENIZER / "tokenizer.json").read_bytes())["model"]["vocab"]
    foreign = [token for text, token in vocabulary.items() if len(text) == 1 and ord(text) > 0xA1]
    docs = [[*RNG.choice(foreign, 60).tolist(), EOS] for _ in range(12)]
    return pack(tmp / "x.pbin", docs), own()


def read_as_latin1(tmp):
    texts = [f"Grüße, schöne {n} Mädchen über Köln – naïve façade".encode().decode("latin-1") for n in range(12)]
    (tmp / "t.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), "utf-8")
    convert(tmp / "t.jsonl", tmp / "x.pbin", tokenizer=str(TOKENIZER))
    return tmp / "x.pbin", own()


def foreign_tokenizer(tmp):
    made = tmp / "tokenizer.json"
    made.write_text(llama3_like().to_str())
    return made


def without_merges(tmp):
    """One token a character: the text is right, and no tokenizer of these merges gives such ids."""
    vocabulary = json.loads((TOKENIZER / "tokenizer.json").read_bytes())["model"]["vocab"]
    text = "the same text without a single merge"
    ids = [vocabulary[c] for c in text.replace(" ", "\u0120")]
    return pack(tmp / "x.pbin", [[*ids, EOS]] * 9), own()


def manifest_of_another(tmp):
    convert(CORPUS, tmp / "x.pbin", tokenizer=str(foreign_tokenizer(tmp)), eos=0)
    return tmp / "x.pbin", own()


def compared(**more):
    return own(against=str(CORPUS), **more)


def truncated(tmp):
    return converted(tmp, select="0:20"), compared()


def packed_twice(tmp):
    convert([CORPUS, CORPUS], tmp / "x.pbin", tokenizer=str(TOKENIZER))
    return tmp / "x.pbin", compared()


def one_token_differs(tmp):
    path, _ = other_checksum(tmp)
    return path, compared()


def stored(path):
    """Header, data, and index of a pack."""
    raw = path.read_bytes()
    length, width = struct.unpack_from("<QI", raw)
    return np.frombuffer(raw, f"<u{width}", length // width, 12), pickle.loads(raw[12 + length :])


def shifted_by_a_merge(tmp):
    """What a program wrote that read the second half of a merged pack by its offsets."""
    tokens, index = stored(converted(tmp))
    half = len(index) // 2
    moved = [(a // 2 - (6 if k >= half else 0), n // 2) for k, (a, n) in enumerate(index)]
    return pack(tmp / "y.pbin", [tokens[a : a + n].tolist() for a, n in moved]), compared()


def in_another_order(tmp):
    tokens, index = stored(converted(tmp))
    docs = [tokens[a // 2 : (a + n) // 2].tolist() for a, n in index]
    return pack(tmp / "y.pbin", [*docs[:20], *docs[60:], *docs[20:60]]), compared()


def upstream(name, change, **demands):
    """A dataset that an upstream tool wrote, with one thing changed."""

    def make(tmp):
        path = tmp / name.rpartition("/")[2]
        own = FIXTURES / name
        for file in [own] if own.is_dir() else own.parent.glob(f"{own.stem}.*"):
            (shutil.copytree if file.is_dir() else shutil.copy)(file, tmp / file.name)
        change(path)
        return path, demands

    return make


def index_of_another(name, cut):
    """Tokens of one run, and an index of another that made as many documents and tokens of another text."""

    def make(tmp):
        docs = documents(40)
        for run, lengths in (("mine", docs), ("other", docs[::-1])):
            (tmp / run).mkdir()
            tokfmt.convert(pack(tmp / f"{run}.pbin", lengths), tmp / run / name, eos=EOS, manifest=False)
        path = next(path for path in (tmp / "mine").iterdir() if path.suffix in (".bin", ".npy", ".ds"))
        shutil.copy(tmp / "other" / f"{path.stem}{cut}", tmp / "mine")
        return path, {"deep": True}

    return make


def backwards(path):
    """List the sequences of a pair of Megatron's in the reverse order."""
    index = path.with_suffix(".idx")
    raw = bytearray(index.read_bytes())
    count = int.from_bytes(raw[18:26], "little")
    for at, dtype in ((34, "<i4"), (34 + 4 * count, "<i8")):
        column = np.frombuffer(raw, dtype, count, at)
        raw[at : at + column.nbytes] = column[::-1].tobytes()
    index.write_bytes(raw)


def prefixes_miscounted(tmp):
    """A folder of Megatron's with a sequences file of other counts."""
    upstream(PAIR, lambda path: None)(tmp)
    (tmp / "sequences.json").write_text(json.dumps({PAIR.rpartition("/")[2].removesuffix(".bin"): [9, 9]}))
    return tmp, {"format": "megatron"}


def patched(at, change, suffix=None):
    """Change the bytes of a file from a place on; `change` may be bytes, or make them of those that follow."""

    def apply(path):
        path = (
            path.with_name(path.name + suffix)
            if suffix in (".index", ".loss")
            else path.with_suffix(suffix or path.suffix)
        )
        raw = path.read_bytes()
        new = change(raw[at:]) if callable(change) else change + raw[at + len(change) :]
        path.write_bytes(raw[:at] + new)

    return apply


def rows_of(*rows):
    """The rows of an OLMo file, written anew."""
    return lambda path: path.with_suffix(".csv.gz").write_bytes(
        gzip.compress("".join(f"{a},{b}\n" for a, b in rows).encode())
    )


PAIR, LLMC, NANOGPT = "megatron/gpt2_text_document.bin", "llmc/fineweb_val_000000.bin", "nanogpt/openwebtext/train.bin"

OLMO, DS, MASKED = "olmo/core-00000.npy", "datatrove/00000_unshuffled.ds", "datatrove/00002_noeos_loss.ds"


def json_index(change):
    """The index.json of a folder, with something of it changed."""

    def apply(path):
        index = json.loads((path / "index.json").read_text())
        change(index)
        (path / "index.json").write_text(json.dumps(index))

    return apply


def ledger(**facts):
    """The ledger of a cache, with some of it changed."""
    return lambda path: (path / "shard_ledger.json").write_text(
        json.dumps(json.loads((path / "shard_ledger.json").read_text()) | facts)
    )


CACHE = "levanter/marin_sharded"
LIT, MDS = "litdata/numpy_uint16", "mds/ndarray_int32"


def arrow_of(**columns):
    """An Arrow stream of some columns, of the types that pyarrow infers."""

    def make(tmp):
        import pyarrow as pa

        table = pa.table(columns)
        with pa.OSFile(str(tmp / "x.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as out:
            out.write_table(table)
        return tmp / "x.arrow", {}

    return make


def npz_of(**arrays):
    def make(tmp):
        np.savez(tmp / "x.npz", **arrays)
        return tmp / "x.npz", {}

    return make


COLUMNS, HUGE_PAGE = "parquet/int32.parquet", b"\x82\x80\x80\x80\x02"  # 2^28 + 1 bytes


def a_text_in_latin_1(tmp):
    path = tmp / "x.txt"
    path.write_bytes("ein Stück Text\n".encode("latin-1"))
    return path, {}


def a_record_of_nothing(tmp):
    """A TFRecord file of one record of 0 bytes: its length, and the masked checksums of the length and of nothing."""
    path = tmp / "x.tfrecord"
    path.write_bytes(struct.pack("<QI", 0, 0x07980329) + struct.pack("<I", 0xA282EAD8))
    return path, {"deep": True}


def a_record_that_is_a_pickle(tmp):
    """An ArrayRecord file of a pickle, whose bytes are written as integers."""
    pickled = pickle.dumps(1, protocol=2).ljust(8, b".")
    data = Ragged.of([np.frombuffer(pickled, "<i4").tolist()])
    return write(ARRAYRECORD, tmp / "x.array_record", data, eos_id="none", options={"bare": "int32"}), {}


def a_recipe_with_an_unknown_key(tmp):
    (tmp / "mix.toml").write_text('tokfmt = 1\nseq_lem = 16\n[[source]]\npath = "x.pbin"\n')
    return tmp / "mix.toml", {}


def a_recipe_without_its_source(tmp):
    (tmp / "mix.toml").write_text('tokfmt = 1\n[[source]]\npath = "gone.pbin"\n')
    return tmp / "mix.toml", {}


CASES = {
    "TF571": a_text_in_latin_1,
    "TF883": a_record_of_nothing,
    "TF894": a_record_that_is_a_pickle,
    "TF801": a_recipe_with_an_unknown_key,
    "TF802": a_recipe_without_its_source,
    "TF661": upstream(COLUMNS, patched(1000, lambda rest: b"")),
    "TF662": upstream("parquet/tokens/floats.parquet", lambda path: None),
    "TF663": upstream("parquet/null_row.parquet", lambda path: None),
    "TF664": upstream("parquet/tokens/negative.parquet", lambda path: None),
    "TF665": upstream("parquet/packed/mask_short.idx.parquet", lambda path: None),
    "TF666": upstream("parquet/text/binary.parquet", lambda path: None),
    "TF667": upstream(COLUMNS, patched(7, lambda rest: HUGE_PAGE + rest[3:])),
    "TF681": upstream("parquet/text/stream.arrow", patched(2000, lambda rest: b"")),
    "TF682": arrow_of(input_ids=[[1.5]]), "TF683": upstream("parquet/text/stream.arrow", lambda path: None, deep=True),
    "TF684": arrow_of(input_ids=[[1, -100]]), "TF686": arrow_of(text=[b"\xff"]),
    "TF685": arrow_of(input_ids=[[1, 2]], loss_mask=[[1, 1]], seq_start_id=[[1]]),
    "TF687": upstream("parquet/save_to_disk", lambda path: (path / "state.json").write_text(
        '{"_data_files": [{"filename": "../x.arrow"}]}')),
    "TF797": npz_of(input_ids=[[1, 2]], labels=[[1, 3]]),
    "TF781": upstream(CACHE, ledger(is_finished=False)),
    "TF782": upstream(CACHE, lambda path: shutil.rmtree(path / "part-00001-of-00005")),
    "TF783": upstream(CACHE, ledger(total_num_rows=29)),
    "TF784": upstream("levanter/marin_consolidated", ledger(total_num_rows=29)),
    "TF786": upstream(CACHE, ledger(finished_shards=["../x"], shard_rows={"../x": 30})),
    "TF761": upstream(MDS, json_index(lambda index: index.update(version=3))),
    "TF762": upstream(MDS, lambda path: (path / "shard.00001.mds").unlink()),
    "TF763": upstream(MDS, lambda path: (path / "shard.00001.mds").write_bytes(b"\1")),
    "TF764": upstream(MDS, json_index(lambda index: index["shards"][2]["raw_data"]["hashes"].update(xxh64="0" * 16))),
    "TF765": upstream(MDS, json_index(lambda index: index["shards"][0].update(samples=7))),
    "TF766": upstream(MDS, json_index(lambda index: index["shards"][0]["raw_data"].update(basename="/etc/hostname"))),
    "TF769": upstream("mds/sft", lambda path: patched(341, b"\x09")(path / "shard.00000.mds"), deep=True,
                      options=("hashes=ignore",)),
    "TF748": upstream("litdata/sft", lambda path: patched(70, b"\x09")(path / "chunk-0-0.bin"), deep=True),
    "TF768": upstream(MDS, lambda path: (path / "index.json").unlink()),
    "TF767": upstream("mds/pickle_UNSAFE", lambda path: None),
    "TF741": upstream(LIT, json_index(lambda index: index["config"].update(encryption="fernet"))),
    "TF742": upstream(LIT, lambda path: (path / "chunk-0-1.bin").unlink()),
    "TF743": upstream(LIT, lambda path: (path / "chunk-0-1.bin").write_bytes(b"\1")),
    "TF744": upstream(LIT, json_index(lambda index: index["chunks"][0].update(chunk_size=20))),
    "TF745": upstream(LIT, json_index(lambda index: index["chunks"][0].update(dim=None))),
    "TF749": upstream(LIT, json_index(lambda index: index["chunks"].append(index["chunks"][0]))),
    "TF747": upstream(LIT, json_index(lambda index: index["chunks"][0].update(dim=9))),
    "TF746": upstream(LIT, json_index(lambda index: index["chunks"][0].update(filename="../chunk-0-0.bin"))),
    "TF701": upstream("olmo/real_numpy.npy", lambda path: None, format="olmo"), "TF702": upstream(OLMO, rows_of((0, 20), (10, 12768))),
    "TF703": upstream(OLMO, rows_of((0, 20), (30, 12768))), "TF704": upstream(OLMO, patched(25536, lambda rest: bytes(4000))),
    "TF705": upstream("olmo/mixed-00000.npy", lambda path: None, deep=True),
    "TF706": upstream("olmo/sft", lambda path: (path / "labels_mask_part_0001.npy").write_bytes(b"\2" * 300)),
    "TF721": upstream(DS, lambda path: [path.with_suffix(s).unlink() for s in (".ds.index", ".ds.metadata")], format="datatrove"),
    "TF722": upstream(DS, patched(17, lambda rest: b"", ".index")), "TF723": upstream(DS, patched(99, lambda rest: b"")),
    "TF724": upstream(DS, lambda path: path.with_suffix(".ds.metadata").write_text("gpt2|4")),
    "TF725": upstream(MASKED, patched(99, lambda rest: b"", ".loss")),
    "TF601": upstream(PAIR, patched(0, b"X", ".idx"), format="megatron"), "TF602": upstream(PAIR, patched(500, lambda rest: b"", ".idx")),
    "TF603": upstream(PAIR, patched(34 + 4 * 30, b"\1", ".idx")), "TF604": upstream(PAIR, patched(500, lambda rest: b"")),
    "TF605": upstream(PAIR, patched(34 + 12 * 30, b"\1", ".idx")),
    "TF606": upstream("megatron/multimodal_document.bin", lambda path: None), "TF607": prefixes_miscounted,
    "TF608": index_of_another("x_document.bin", ".idx"), "TF707": index_of_another("part-0.npy", ".csv.gz"),
    "TF609": upstream(PAIR, patched(17, b"\4", ".idx")), "TF610": upstream(PAIR, backwards),
    "TF903": upstream("mds/bytes_int64", lambda path: None, options=("dtype=uint16",)),
    "TF726": index_of_another("x.ds", ".ds.index"),
    "TF621": upstream(LLMC, patched(4, b"\7"), format="llmc"), "TF622": upstream(LLMC, patched(8, b"\7")),
    "TF641": lambda tmp: (tmp, {"format": "nanogpt"}),
    "TF642": upstream(NANOGPT, patched(13000, lambda rest: b"\1")),
    "TF643": upstream(NANOGPT, patched(13000, lambda rest: bytes(4000))),
    "TF644": upstream(NANOGPT, lambda path: path.write_bytes(np.fromfile(path, "<u2").byteswap().tobytes())),
    "TF645": upstream(NANOGPT, patched(13000, lambda rest: b"")),
    "TF116": some_end_otherwise, "TF117": no_common_end, "TF118": a_document_of_nothing, "TF122": cut_at_512,
    "TF123": padded_documents, "TF202": unreadable_block, "TF208": short_block, "TF209": block_of_zeros,
    "TF210": zero_tail, "TF211": big_endian_block, "TF212": sixteen_bits, "TF214": beyond_gpt2,
    "TF215": no_separator_in_blocks, "TF216": mostly_separators, "TF217": same_blocks, "TF218": padding_inside, "TF219": eight_bytes,
    "TF301": no_file, "TF302": other_suffix, "TF327": one_file_for_all, "TF328": broken_params,
    "TF333": beyond_vocabulary, "TF334": mask_of_two, "TF335": counted_padding, "TF343": masks_of_both_kinds, "TF344": a_file_lost,
    "TF411": stale_metadata, "TF413": no_group_file, "TF415": wrapped_ids, "TF515": lengths_of_no_version, "TF520": labels_of_another_length,
    "TF910": no_manifest, "TF911": other_size, "TF912": other_checksum, "TF913": other_counts, "TF914": changed_source,
    "TF915": more_than_a_dataset, "TF916": a_ledger_of_another, "TF918": a_file_of_two,
    "TF921": beyond_tokenizer, "TF922": other_end_of_text, "TF927": wrapped_in_16_bits, "TF928": two_runs_in_one_folder, "TF923": noise, "TF924": read_as_latin1,
    "TF925": without_merges, "TF926": manifest_of_another, "TF931": truncated, "TF932": packed_twice,
    "TF933": one_token_differs, "TF934": shifted_by_a_merge,
    "TF935": in_another_order,
}  # fmt: skip
"""A maker for each code: given a directory, it returns a path and the demands of its check."""


def seeded(make):
    """The same files whichever other cases were made before."""

    def made(tmp):
        RNG.bit_generator.state = np.random.default_rng(4).bit_generator.state
        return make(tmp)

    return made


CASES = {code: seeded(make) for code, make in CASES.items()}
