"""Damaged and hostile datasets of raw tokens, made here: each is refused in one sentence, in little memory."""

import gzip
import json
import os
import shutil

import google_crc32c
import numpy as np
import pytest
from bad_copies import BadCopies

bad = BadCopies()


def rows(path, text):
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(text.encode() if isinstance(text, str) else text))


@bad("olmo", "core-00000.npy", r"core-00000.csv.gz: row 1: expected from 0 on, up to 12,768, found -5 to 12,768")
def begins_before_the_file(path):
    rows(path, "-5,12768\n")


@bad("olmo", "core-00000.npy", r"row 2: expected from 9 on.*found 5 to 12,768")
def rows_overlap(path):
    rows(path, "0,9\n5,12768\n")


@bad("olmo", "core-00000.npy", r"row 1: .*found 9 to 3")
def ends_before_it_begins(path):
    rows(path, "9,3\n")


@bad("olmo", "core-00000.npy", r"expected 9,223,372,036,854,775,807 or more, as core-00000.csv.gz states, found 12,768")
def an_absurd_end(path):
    rows(path, f"0,{2**63 - 1}\n")


@bad("olmo", "core-00000.npy", r"is not a table of start,end: expected two numbers, found line 1")
def an_end_beyond_any_integer(path):
    rows(path, f"0,{2**64}\n")


@bad("olmo", "core-00000.npy", r"is not a table of start,end: expected two numbers, found line 1")
def words_for_numbers(path):
    rows(path, "start,end\n0,12768\n")


@bad("olmo", "core-00000.npy", r"is not a table of start,end: expected two numbers, found line 2")
def a_row_of_one_number(path):
    rows(path, "0,5\n5\n")


@bad("olmo", "core-00000.npy", r"is not a table of start,end")
def zeros_for_rows(path):
    rows(path, bytes(100))


@bad("olmo", "core-00000.npy", r"is not a table of start,end")
def a_line_that_inflates_without_end(path):
    rows(path, b'"' + b"a" * (1 << 26))


@bad("olmo", "core-00000.npy", r"has more rows than the token file has bytes")
def rows_that_inflate_without_end(path):
    rows(path, b"0,0\n" * (1 << 20))


@bad("olmo", "core-00000.npy", r"is damaged: gzip cannot decode it")
def rows_cut(path):
    whole = path.with_suffix(".csv.gz")
    whole.write_bytes(whole.read_bytes()[:-20])


@bad("olmo", "core-00000.npy", r"core-00000.csv.gz: is too large for the rows of its tokens: expected at most 27,19")
def rows_of_a_gigabyte_of_zeros(path):
    os.truncate(path.with_suffix(".csv.gz"), 1 << 30)


@bad("olmo", "core-00000.npy", r"core-00000.npy: tokens after the last row")
def rows_behind_padding(path):
    """What stands behind zeros is read by no gzip: the rows are too few, which is an error."""
    whole = path.with_suffix(".csv.gz")
    lines = gzip.decompress(whole.read_bytes()).splitlines(keepends=True)
    first, rest = gzip.compress(b"".join(lines[:9])), gzip.compress(b"".join(lines[9:]))
    whole.write_bytes(first + bytes(1 << 18) + rest)


@bad("olmo", "core-00000.npy", r"core-00000.csv.gz: is empty: its writer was killed")
def rows_never_written(path):
    path.with_suffix(".csv.gz").write_bytes(b"")


@bad("olmo", "core-00000.npy", r"bytes per token: expected 2, from the rows, found 1, as given", width=1)
def a_width_that_is_too_small(path):
    pass


@bad("olmo", "core-00000.npy", r"bytes per token: expected 2, from the rows, found 4, as given", width=4)
def a_width_that_is_too_large(path):
    pass


@bad("olmo", "core-00000.npy", r"expected 12,768 or more, as core-00000.csv.gz states, found 12,767")
def tokens_cut(path):
    path.write_bytes(path.read_bytes()[:-2])


@bad("olmo", "nometa-00000.npy", r"ends inside one at byte 25,534", width=2)
def tokens_cut_inside_one(path):
    path.write_bytes(path.read_bytes()[:-1])


@bad("olmo", "nometa-00000.npy", r"raw tokens without a .csv.gz, which states their width.*2, probably")
def no_rows(path):
    pass


@bad("olmo", "dolma2", r"part-0-00001.csv.gz: is missing")
def rows_of_one_file_lost(path):
    (path / "part-0-00001.csv.gz").unlink()


@bad("olmo", "sft", r"label masks and token files differ in number: expected 3, found 2")
def a_mask_lost(path):
    (path / "labels_mask_part_0001.npy").unlink()


@bad("olmo", "sft", r"labels_mask_part_0002.npy: bytes of the mask of each token: expected 227, found 226")
def a_mask_cut(path):
    mask = path / "labels_mask_part_0002.npy"
    mask.write_bytes(mask.read_bytes()[:-1])


@bad("olmo", "sft", r"token_ids_part_0001.csv.gz: is missing")
def a_pipe_for_rows(path):
    (path / "token_ids_part_0001.csv.gz").unlink()
    os.mkfifo(path / "token_ids_part_0001.csv.gz")


@bad("olmo", "sft", r"is a run of open-instruct that was stopped")
def a_run_that_was_stopped(path):
    for file in path.iterdir():
        file.unlink()
    (path / "_tokens.partial.bin").write_bytes(bytes(99))


DS = "00000_unshuffled.ds"


def index(path, *ends):
    path.with_name(f"{path.name}.index").write_bytes(np.array(ends, "<u8").tobytes())


@bad("datatrove", DS, r"ds.index: lists more sequences than its tokens allow: .*found 67,108,864")
def an_index_of_half_a_gigabyte_of_zeros(path):
    os.truncate(f"{path}.index", 1 << 29)


@bad("datatrove", DS, r"decreases at entry 0")
def an_end_beyond_any_file(path):
    index(path, 2**63, 2**64 - 1)


@bad("datatrove", DS, r"bytes of tokens: expected 2,305,843,009,213,693,952, found 25,536")
def an_end_far_beyond_the_tokens(path):
    index(path, 2**60)


@bad("datatrove", DS, r"decreases at entry 2 at byte 16")
def ends_that_decrease(path):
    index(path, 5, 9, 8, 12768)


@bad("datatrove", DS, r"ends inside an entry at byte 232")
def an_index_cut_inside_an_entry(path):
    file = path.with_name(f"{path.name}.index")
    file.write_bytes(file.read_bytes()[:-1])


@bad("datatrove", DS, r"bytes of tokens: expected 21,438, found 25,536. --allow-loss tail")
def an_index_cut_between_entries(path):
    file = path.with_name(f"{path.name}.index")
    file.write_bytes(file.read_bytes()[:-8])


@bad("datatrove", DS, r"bytes of tokens: expected 0, found 25,536")
def an_index_of_nothing(path):
    index(path)


@bad("datatrove", DS, r"bytes of tokens: expected 25,536, found 25,535. Copy or write it again")
def a_ds_cut_inside_a_token(path):
    path.write_bytes(path.read_bytes()[:-1])


@bad("datatrove", DS, r"is an empty file|bytes of tokens: expected 25,536, found 0")
def a_ds_of_nothing(path):
    path.write_bytes(b"")


@bad("datatrove", DS, r"has neither .index nor .metadata to state its width")
def a_job_that_was_killed(path):
    for suffix in (".index", ".metadata"):
        path.with_name(path.name + suffix).unlink()


@bad("datatrove", "00002_noeos_loss.ds", r"bytes of the mask of each token: expected 12,738, found 12,737")
def a_loss_cut(path):
    file = path.with_name(f"{path.name}.loss")
    file.write_bytes(file.read_bytes()[:-1])


@bad("datatrove", "00002_noeos_loss.ds", r"is not a mask value at byte 7: expected 0 or 1, found 255")
def a_loss_of_other_bytes(path):
    file = path.with_name(f"{path.name}.loss")
    content = bytearray(file.read_bytes())
    content[7] = 255
    file.write_bytes(content)


@bad("datatrove", "00004_noindex.ds", r"bytes of tokens: expected 25,536, found 25,534. Copy or write it again")
def a_ds_cut_between_tokens_without_an_index(path):
    path.write_bytes(path.read_bytes()[:-2])


@bad("datatrove", "00002_noeos_loss.ds", r"00002_noeos_loss.ds.loss: no such file")
def a_loss_behind_a_link_that_leads_nowhere(path):
    mask = path.with_name(f"{path.name}.loss")
    mask.unlink()
    mask.symlink_to(path.parent / "elsewhere")


@bad("datatrove", DS, r"00000_unshuffled.ds.index: no such file")
def an_index_behind_a_link_that_leads_nowhere(path):
    ends = path.with_name(f"{path.name}.index")
    ends.unlink()
    ends.symlink_to(path.parent / "elsewhere")


@bad("datatrove", "merged", r"000_merged.ds.index: is missing")
def an_index_lost(path):
    (path / "000_merged.ds.index").unlink()


@bad("datatrove", "shuffled", r"00000_00000_shuffled.ds: no such file")
def no_tokens(path):
    for file in path.glob("*.ds"):
        file.unlink()


def lit(path, change):
    index = json.loads((path / "index.json").read_text())
    change(index)
    (path / "index.json").write_text(json.dumps(index))


def chunk(path, number=0, **facts):
    lit(path, lambda index: index["chunks"][number].update(facts))


LIT, ZSTD = "numpy_uint16", "numpy_uint32_zstd"


@bad("litdata", LIT, r"the index lists a file outside of the folder: found ../chunk-0-0.bin. Do not read it")
def a_chunk_above_the_folder(path):
    shutil.copy(path / "chunk-0-0.bin", path.parent)
    chunk(path, filename="../chunk-0-0.bin")


@bad("litdata", LIT, r"lists a file outside of the folder: found /etc/hostname")
def a_chunk_anywhere(path):
    chunk(path, filename="/etc/hostname")


@bad("litdata", LIT, r"lists a file outside of the folder: found s3://bucket/x.bin")
def a_chunk_elsewhere(path):
    chunk(path, filename="s3://bucket/x.bin")


@bad("litdata", LIT, r"chunk-0-0.bin: is a symbolic link that leaves the folder")
def a_chunk_that_is_a_link(path):
    (path / "chunk-0-0.bin").rename(path.parent / "elsewhere.bin")
    (path / "chunk-0-0.bin").symlink_to(path.parent / "elsewhere.bin")


@bad("litdata", LIT, r"lists a name that no file can have: found .ud800x{59}(?!x)")
def a_chunk_with_half_a_letter(path):
    chunk(path, filename="\ud800" + "x" * 80)


@bad("litdata", LIT, r"lists a name that no file can have: found aaaa")
def a_chunk_with_a_very_long_name(path):
    chunk(path, filename="a" * 300)


@bad("litdata", LIT, r"lists a name that no file can have: found a/a/a")
def a_chunk_very_far_down(path):
    chunk(path, filename="a/" * 3000 + "b")


@bad("litdata", LIT, r"an entry of the index is not a name: expected a name, found None")
def a_chunk_without_a_name(path):
    chunk(path, filename=None)


@bad("litdata", LIT, r"chunk_size: expected a whole number, found -1")
def a_negative_number_of_items(path):
    chunk(path, chunk_size=-1)


@bad("litdata", LIT, r"is too short for its items: expected 1,152,921,504,606,846,976 offsets, found 9,298 bytes")
def an_absurd_number_of_items(path):
    chunk(path, chunk_size=2**60)


@bad("litdata", LIT, r"chunk_bytes: expected a whole number, found 9223372036854775808")
def a_size_beyond_any_integer(path):
    chunk(path, chunk_bytes=2**63)


@bad("litdata", LIT, r"chunk-0-0.bin: bytes of the chunk: expected 9,298, found 9,297")
def a_chunk_cut(path):
    (path / "chunk-0-0.bin").write_bytes((path / "chunk-0-0.bin").read_bytes()[:-1])


@bad("litdata", LIT, r"offsets of items at byte 0: expected 21 items from byte 92 to 9,298.*found 22 items")
def other_items_than_the_index_says(path):
    raw = bytearray((path / "chunk-0-0.bin").read_bytes())
    raw[0] += 1
    (path / "chunk-0-0.bin").write_bytes(raw)


@bad("litdata", LIT, r"chunk-0-0.bin: the IDs of item 0 end inside an ID of 2 bytes at byte 92")
def places_that_split_an_id(path):
    raw = bytearray((path / "chunk-0-0.bin").read_bytes())
    raw[8] += 1
    (path / "chunk-0-0.bin").write_bytes(raw)


@bad("litdata", LIT, r"offset of the first item at byte 4: expected 92, found 93")
def a_gap_before_the_first_item(path):
    poked(path / "chunk-0-0.bin", 4, b"\x5d")


@bad("litdata", LIT, r"offsets of items at byte 0: expected 21 items from byte 92 to 9,298.*9,298, not in order")
def items_that_overlap(path):
    poked(path / "chunk-0-0.bin", 9, b"\xff")


@bad(
    "litdata",
    "pytree_mistake",
    r"chunk-0-0.bin: items do not begin with their sizes, as PyTreeLoader writes them at byte 128",
)
def items_of_another_size_than_they_say(path):
    raw = (path / "chunk-0-0.bin").read_bytes()
    poked(path / "chunk-0-0.bin", int.from_bytes(raw[4 + 4 * 20 : 8 + 4 * 20], "little"), b"\xff")


@bad("litdata", ZSTD, r"would decode to far more than its size: expected at most 1,\d{3},\d{3}, found 68,719,476,736")
def a_bomb_that_says_so(path):
    chunk(path, chunk_bytes=2**36)


@bad("litdata", ZSTD, r"decodes to another size: expected 160 bytes, found more")
def a_bomb_that_does_not(path):
    import zstandard

    raw = zstandard.ZstdDecompressor().stream_reader((path / "chunk-0-0.zstd.bin").read_bytes()).read()
    (path / "chunk-0-0.zstd.bin").write_bytes(zstandard.compress(raw + bytes(1 << 28)))


@bad(
    "litdata",
    ZSTD,
    r"chunk-0-1.zstd.bin: (is damaged: zstd cannot decode it|its zstd data end too early)",
)
def zstd_cut(path):
    (path / "chunk-0-1.zstd.bin").write_bytes((path / "chunk-0-1.zstd.bin").read_bytes()[:-100])


@bad("litdata", LIT, r"the chunks are encrypted. Decrypt them with litdata")
def encrypted(path):
    lit(path, lambda index: index["config"].update(encryption={"algorithm": "fernet"}))


@bad("litdata", LIT, r"has a compression that tokfmt cannot read: expected zstd.*found lzma")
def another_compression(path):
    lit(path, lambda index: index["config"].update(compression="lzma"))


@bad("litdata", LIT, r"does not hold token IDs: expected no_header_numpy:K.*found jpeg")
def pictures(path):
    lit(path, lambda index: index["config"].update(data_format=["jpeg"]))


@bad("litdata", LIT, r"index.json: is nested too deeply")
def an_index_nested_without_end(path):
    (path / "index.json").write_text("[" * 100_000)


@bad("litdata", LIT, r"index.json: is not valid JSON at byte 0")
def an_index_of_nothing_at_all(path):
    (path / "index.json").write_bytes(b"")


@bad("litdata", LIT, r"index.json: is not valid JSON")
def an_index_cut(path):
    (path / "index.json").write_bytes((path / "index.json").read_bytes()[:-9])


@bad("litdata", LIT, r"index.json: is not a regular file: found FIFO")
def a_pipe_for_an_index(path):
    (path / "index.json").unlink()
    os.mkfifo(path / "index.json")


MDS, PACKED, TEXTS = "ndarray_int32", "ndarray_uint32_zstd", "ndarray_dynamic_uint16"


def shard(path, **facts):
    lit(path, lambda index: index["shards"][0].update(facts))


def poked(file, at, content):
    raw = bytearray(file.read_bytes())
    raw[at : at + len(content)] = content
    file.write_bytes(raw)


def unhashed(path):
    lit(path, lambda index: [one["raw_data"].update(hashes={}) for one in index["shards"]])


@bad("mds", MDS, r"outside of the folder: found ../x.mds")
def a_shard_above_the_folder(path):
    shard(path, raw_data={"basename": "../x.mds", "bytes": 15710, "hashes": {}})


@bad("mds", MDS, r"outside of the folder: found a/../../x.mds")
def a_shard_above_by_a_detour(path):
    shard(path, raw_data={"basename": "a/../../x.mds", "bytes": 15710, "hashes": {}})


@bad("mds", MDS, r"17: is a symbolic link that leaves the folder")
def a_folder_that_is_a_link(path):
    (path / "17").symlink_to(path.parent)
    (path / "shard.00000.mds").rename(path.parent / "shard.00000.mds")
    shard(path, raw_data={"basename": "17/shard.00000.mds", "bytes": 15710, "hashes": {}})


@bad("mds", MDS, r"shard.00000.mds: is not a regular file: found FIFO")
def a_pipe_for_a_shard(path):
    (path / "shard.00000.mds").unlink()
    os.mkfifo(path / "shard.00000.mds")


@bad("mds", MDS, r"is too short for its samples: expected 1,152,921,504,606,846,976")
def an_absurd_number_of_samples(path):
    shard(path, samples=2**60)


@bad("mds", MDS, r"offsets of samples at byte 0: expected 17 samples.*found 18 samples")
def other_samples_than_the_index_says(path):
    shard(path, samples=17)


@bad("mds", MDS, r"index.json: is too large for metadata: expected at most 4,194,304 values")
def an_index_of_many_values(path):
    (path / "index.json").write_text('{"version": 2, "shards": [' + "[]," * (1 << 21) + "[]]}")


@bad("mds", MDS, r"offsets of samples at byte 0")
def samples_that_overlap(path):
    unhashed(path)
    poked(path / "shard.00000.mds", 8, b"\xff\xff\0\0")


@bad("mds", MDS, r"a sample has another size than its columns at byte")
def a_column_longer_than_its_sample(path):
    unhashed(path)
    at = int.from_bytes((path / "shard.00000.mds").read_bytes()[4:8], "little")
    poked(path / "shard.00000.mds", at, b"\xff\xff\xff\xff")


@bad(
    "mds",
    MDS,
    r"an array has another length than its shape, of one dimension, at byte|an array has another length than its shape",
)
def an_array_of_two_dimensions(path):
    unhashed(path)
    at = int.from_bytes((path / "shard.00000.mds").read_bytes()[4:8], "little")
    poked(path / "shard.00000.mds", at + 4, b"\x08")


@bad("mds", MDS, r"an array has another length than its shape")
def an_array_of_more_than_there_is(path):
    unhashed(path)
    at = int.from_bytes((path / "shard.00000.mds").read_bytes()[4:8], "little")
    poked(path / "shard.00000.mds", at + 5, b"\xff")


@bad("mds", TEXTS, r"dtypes of a column: expected one, of integers")
def samples_of_several_dtypes(path):
    at = int.from_bytes((path / "shard.00000.mds").read_bytes()[4:8], "little")
    poked(path / "shard.00000.mds", at + 4, b"\x20")


@bad("mds", TEXTS, r"dtypes of a column: expected one, of integers")
def floats(path):
    raw = (path / "shard.00000.mds").read_bytes()
    for k in range(30):
        at = int.from_bytes(raw[4 + 4 * k : 8 + 4 * k], "little")
        poked(path / "shard.00000.mds", at + 4, b"\x66")


@bad("mds", MDS, r"shard.00002.mds: does not fit its xxh64: expected", hashes="check")
def one_bit_of_an_id(path):
    lit(path, lambda index: [one["raw_data"]["hashes"].pop("sha1") for one in index["shards"]])
    poked(path / "shard.00002.mds", 12000, b"\x01")


@bad("mds", PACKED, r"would decode to far more than its size: expected at most 1,412,676, found 4,294,967,296")
def a_shard_that_decodes_to_far_more(path):
    lit(path, lambda index: index["shards"][0]["raw_data"].update(bytes=2**32))


@bad("mds", PACKED, r"decodes to another size: expected 425 bytes, found more")
def a_shard_with_a_bomb_in_it(path):
    import zstandard

    raw = zstandard.ZstdDecompressor().stream_reader((path / "shard.00000.mds.zstd").read_bytes()).read()
    (path / "shard.00000.mds.zstd").write_bytes(zstandard.compress(raw + bytes(1 << 28)))


@bad("mds", PACKED, r"has a compression that tokfmt cannot read: expected zstd, gz, bz2, snappy, br, found lzma")
def a_shard_of_another_compression(path):
    shard(path, compression="lzma:9")


@bad("mds", PACKED, r"the column of token IDs is not known: found id \(str\).*len \(int\)", column="ids")
def no_such_column(path):
    pass


@bad("mds", PACKED, r"column id does not hold token IDs: expected ndarray or bytes", column="id")
def a_column_of_text(path):
    pass


@bad("mds", "bytes_int64", r"the dtype of column tokens, of bytes, is not stored.*int64, probably")
def bytes_of_any_dtype(path):
    pass


@bad("mds", "bytes_uint16", r"the IDs of sample \d+ end inside an ID of 4 bytes", dtype="uint32")
def bytes_of_another_dtype(path):
    pass


@bad("mds", MDS, r"the columns of a shard: expected as many names as encodings and sizes")
def columns_without_encodings(path):
    shard(path, column_encodings=[])


@bad("mds", MDS, r"a sample is shorter than its columns")
def very_many_columns_of_nothing(path):
    """Which would take as much memory as there are columns, times samples."""
    many = [f"c{k}" for k in range(20_000)]
    kinds, sizes = ["ndarray:int32", *["int"] * 20_000], [None, *[0] * 20_000]
    shard(path, column_names=["tokens", *many], column_encodings=kinds, column_sizes=sizes)


@bad("mds", MDS, r"an array has another length|does not fit its|a sample (has|is)", hashes="check")
def a_hash_that_is_a_function_of_the_module(path):
    lit(
        path,
        lambda index: index["shards"][0]["raw_data"].update(hashes={"xxh32_digest": "0", "shake_128": "0", "new": "0"}),
    )
    poked(path / "shard.00001.mds", 15000, b"\x01\x02")


@bad("mds", MDS, r"an unsupported shard: expected mds, version 2, found csv")
def another_kind_of_shard(path):
    shard(path, format="csv")


@bad("mds", MDS, r"is an unsupported index: expected version 2, shards, found version 1")
def another_version(path):
    lit(path, lambda index: index.update(version=1))


CACHE, SHARDED = "marin_consolidated", "marin_sharded"


def ledger(path, **facts):
    file = path / "shard_ledger.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))


def array(path, which, **facts):
    file = path / "input_ids" / which / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))


@bad("levanter", CACHE, r"the cache was not finished: expected is_finished. Build it to its end")
def a_build_that_was_stopped(path):
    ledger(path, is_finished=False)


@bad("levanter", SHARDED, r"outside of the folder: found ../../x")
def a_shard_elsewhere(path):
    ledger(path, finished_shards=["../../x"], shard_rows={"../../x": 30})


@bad("levanter", SHARDED, r"outside of the folder: found gs://bucket/x")
def a_shard_in_a_bucket(path):
    ledger(path, finished_shards=["gs://bucket/x"], shard_rows={"gs://bucket/x": 30})


@bad("levanter", CACHE, r"data/c/0: is a symbolic link that leaves the store")
def a_chunk_behind_a_link(path):
    (path / "input_ids/data/c/0").rename(path.parent / "c")
    (path / "input_ids/data/c/0").symlink_to(path.parent / "c")


@bad("levanter", SHARDED, r"lists a shard twice")
def a_shard_named_twice(path):
    ledger(path, finished_shards=["part-00001-of-00005"] * 2, total_num_rows=18)


@bad("levanter", SHARDED, r"elements of input_ids in the finished shards: expected 12,769, found 12,768")
def other_elements_than_the_shards_have(path):
    ledger(path, field_counts={"input_ids": 12769})


@bad("levanter", SHARDED, r"shards of which only elements are counted: expected 0, found 1")
def elements_of_a_shard_that_nothing_names(path):
    counts = json.loads((path / "shard_ledger.json").read_text())["field_counts_by_shard"]
    ledger(path, field_counts_by_shard={**counts, "part-9": {"input_ids": 1}})


@bad("levanter", SHARDED, r"elements of input_ids in the finished shards: expected 12,769, found 12,768")
def other_elements_where_an_empty_shard_is_not_counted(path):
    counts = json.loads((path / "shard_ledger.json").read_text())["field_counts_by_shard"]
    del counts["part-00000-of-00005"]
    ledger(path, field_counts={"input_ids": 12769}, field_counts_by_shard=counts)


@bad("levanter", SHARDED, r"layout: expected finished_shards and shard_rows, found")
def a_ledger_without_names(path):
    ledger(path, finished_shards=None)


@bad("levanter", CACHE, r"shard_ledger.json: the cache was not finished: expected is_finished. Build it to")
def a_build_of_the_older_package(path):
    (path / "shard_ledger.json").unlink()
    (path / "__shards__").mkdir()


@bad("levanter", SHARDED, r"shard_rows of part-00000-of-00005: expected a whole number, found None")
def a_shard_without_rows(path):
    ledger(path, shard_rows={})


@bad("levanter", CACHE, r"rows in offsets\[0\]: expected 1,152,921,504,606,846,976, found 30")
def absurdly_many_rows(path):
    ledger(path, total_num_rows=2**60)


@bad("levanter", CACHE, r"declares far more rows than it stores: found 4,611,686,018,427,387,904 rows")
def rows_that_nobody_stored(path):
    import numcodecs

    offsets = np.zeros(1 << 18, "<i8")
    offsets[0] = 2**62
    chunk = bytes(numcodecs.Blosc("zstd", 1, 1).encode(offsets))
    index = np.full((512, 2), 2**64 - 1, "<u8")
    index[0] = 0, len(chunk)
    body = index.tobytes()
    (path / "input_ids/offsets/c/0").write_bytes(chunk + body + google_crc32c.value(body).to_bytes(4, "little"))
    ledger(path, total_num_rows=2**62)


@bad("levanter", CACHE, r"data/c/0: is missing")
def a_chunk_lost(path):
    (path / "input_ids/data/c/0").unlink()


@bad("levanter", CACHE, r"offsets/c/0: (is too short for its shard index|does not fit its CRC-32C checksum)")
def offsets_cut(path):
    file = path / "input_ids/offsets/c/0"
    file.write_bytes(file.read_bytes()[:-1])


@bad("levanter", CACHE, r"data/c/0: (has a shard index|is too short|does not fit its CRC-32C)")
def data_cut(path):
    file = path / "input_ids/data/c/0"
    file.write_bytes(file.read_bytes()[:-9000])


@bad("levanter", CACHE, r"has a codec that tokfmt does not read.*found pickle")
def a_codec_that_executes(path):
    array(path, "data", codecs=[{"name": "bytes"}, {"name": "pickle"}])


@bad("levanter", CACHE, r"input_ids: does not hold token IDs: expected integers, found float32")
def numbers_with_a_point(path):
    array(path, "data", data_type="float32")


@bad("levanter", CACHE, r"has no array labels of one dimension: found nothing|has no array labels", leaf="labels")
def no_such_leaf(path):
    pass


@bad("levanter", CACHE, r"layout: expected consolidated or sharded, found catalog")
def another_layout(path):
    ledger(path, layout="catalog")


@bad("levanter", CACHE, r"shard_ledger.json: is not valid JSON")
def a_ledger_cut(path):
    (path / "shard_ledger.json").write_text("{")


@pytest.mark.parametrize("name", bad.cases)
def test_it_is_refused(name, tmp_path):
    bad.refuse(name, tmp_path)
