"""Damaged and hostile files of raw tokens, made here: headers, pairs with an index, files without either."""

import os
import struct
from collections import Counter

import numpy as np
import pytest
from bad_copies import BadCopies

bad = BadCopies()


def poked(path, at, content):
    raw = bytearray(path.read_bytes())
    raw[at : at + len(content)] = content
    path.write_bytes(raw)


def i4(value):
    return struct.pack("<i", value)


def piped(path):
    path.unlink()
    os.mkfifo(path)


LLMC = "edu_fineweb_train_000001.bin"


@bad("llmc", LLMC, r"is an empty file")
def llmc_of_nothing(path):
    path.write_bytes(b"")


@bad("llmc", LLMC, r"ends too early at byte 1,023: expected 1 more bytes")
def llmc_cut_in_its_header(path):
    path.write_bytes(path.read_bytes()[:1023])


@bad("llmc", LLMC, r"bytes of tokens: expected 25,536, found 0. --allow-loss tail reads the tokens that are there")
def llmc_cut_behind_its_header(path):
    path.write_bytes(path.read_bytes()[:1024])


@bad("llmc", LLMC, r"bytes of tokens: expected 25,536, found 25,535")
def llmc_cut_inside_a_token(path):
    path.write_bytes(path.read_bytes()[:-1])


@bad("llmc", LLMC, r"bytes of tokens: expected 4,294,967,294, found 25,536")
def llmc_of_absurdly_many_tokens(path):
    poked(path, 8, i4(2**31 - 1))


@bad("llmc", LLMC, r"tokens in the header at byte 8: expected 0 or more, found -1")
def llmc_of_fewer_than_no_tokens(path):
    poked(path, 8, i4(-1))


@bad("llmc", LLMC, r"is not a token file of llm.c at byte 0: .*found 20240520, version 9")
def llmc_of_another_version(path):
    poked(path, 4, i4(9))


@bad("llmc", LLMC, r"found a model, version 1")
def llmc_that_is_a_model(path):
    poked(path, 0, i4(20240326))


@bad("llmc", LLMC, r"found 20240520 with its bytes reversed: written by a big-endian machine")
def llmc_of_the_other_byte_order(path):
    raw = path.read_bytes()
    path.write_bytes(np.frombuffer(raw[:1024], "<i4").astype(">i4").tobytes() + raw[1024:])


@bad("llmc", LLMC, r"bytes per token in the header at byte 12: expected 2 or 4, found 3")
def automodel_of_three_bytes_a_token(path):
    poked(path, 0, i4(278895051))
    poked(path, 12, i4(3))


@bad("llmc", LLMC, r"bytes per token in the header at byte 12: expected 2 or 4, found 0")
def automodel_of_no_bytes_a_token(path):
    poked(path, 0, i4(278895051))


@bad("llmc", LLMC, r"is not a regular file: found FIFO")
def llmc_that_is_a_pipe(path):
    piped(path)


NPY = "build_nanogpt"


def numpy_shard(path):
    return min(path.glob("*_train_*.npy"))


@bad(
    "llmc",
    NPY,
    r"is not a one-dimensional array of token IDs: expected a complete array, such as uint16\[n\], found \{'descr': '.O'",
)
def an_array_of_objects(path):
    """A pickle, which numpy would load."""
    np.save(numpy_shard(path), np.array([{}, {}], object), allow_pickle=True)


@bad("llmc", NPY, r"is not a one-dimensional array of token IDs: .*found \{'descr': '<u2', .*'shape': \(4, 4\)")
def an_array_of_two_dimensions(path):
    np.save(numpy_shard(path), np.zeros((4, 4), "<u2"))


@bad("llmc", NPY, r"is not a one-dimensional array of token IDs: .*found \{'descr': '<i2'")
def an_array_of_signed_ids_of_two_bytes(path):
    np.save(numpy_shard(path), np.zeros(4, "<i2"))


@bad("llmc", NPY, r"is not a one-dimensional array of token IDs: .*found \{'descr': '<u8'")
def an_array_of_unsigned_ids_of_eight_bytes(path):
    np.save(numpy_shard(path), np.zeros(4, "<u8"))


@bad("llmc", NPY, r"is not a one-dimensional array of token IDs: .*'fortran_order': True")
def an_array_in_the_order_of_fortran(path):
    raw = numpy_shard(path).read_bytes()
    said = raw[10:128].replace(b"False", b"True").rstrip().ljust(117) + b"\n"
    numpy_shard(path).write_bytes(raw[:10] + said + raw[128:])


@bad("llmc", NPY, r"is not a one-dimensional array of token IDs: .*found uint16\[4096\] in 8,319 bytes")
def an_array_cut(path):
    file = numpy_shard(path)
    file.write_bytes(file.read_bytes()[:-1])


@bad("llmc", NPY, r"is not a one-dimensional array of token IDs: .*found \{'descr'")
def an_array_whose_header_does_not_end(path):
    """What numpy itself fails at with an error of Python's tokenizer."""
    file = numpy_shard(path)
    file.write_bytes(file.read_bytes().replace(b"}", b" ", 1))


@bad("llmc", NPY, r"is not a one-dimensional array of token IDs: .*found uint16\[999999999999999999\]")
def an_array_of_absurdly_many(path):
    raw = numpy_shard(path).read_bytes()
    said = raw[10:128].replace(b"(4096,)", b"(999999999999999999,)").rstrip().ljust(117) + b"\n"
    numpy_shard(path).write_bytes(raw[:10] + said + raw[128:])


@bad("llmc", NPY, r"is not a one-dimensional array of token IDs: .*found no header of NumPy")
def an_array_of_nothing(path):
    numpy_shard(path).write_bytes(b"")


TRAIN = "openwebtext/train.bin"


@bad("nanogpt", TRAIN, r"ends inside one at byte 13,284: .*found 13,285")
def a_token_cut(path):
    path.write_bytes(path.read_bytes()[:-1])


@bad("nanogpt", TRAIN, r"ends inside one at byte 0: .*found 1")
def one_byte(path):
    path.write_bytes(b"a")


@bad("nanogpt", TRAIN, r"whole uint32 tokens, but the file ends inside one at byte 4,000", width=4)
def half_a_token_of_four_bytes(path):
    path.write_bytes(path.read_bytes()[: 4 * 1000 + 2])


@bad(
    "nanogpt",
    TRAIN,
    r"seems to hold big-endian IDs: expected little-endian IDs, found .*'>u2'.*width.*2.* reads",
)
def ids_of_two_bytes_in_the_other_order(path):
    path.write_bytes(np.fromfile(path, "<u2").byteswap().tobytes())


@bad("nanogpt", "u4_fork/train.bin", r"seems to hold big-endian IDs.*'>u4'.*width.*4.* reads")
def ids_of_four_bytes_in_the_other_order(path):
    path.write_bytes(np.fromfile(path, "<u4").byteswap().tobytes())


@bad("nanogpt", TRAIN, r"ends with 2,000 zeros")
def zeros_behind_the_last_token(path):
    path.write_bytes(path.read_bytes() + bytes(4000))


@bad("nanogpt", TRAIN, r"ends with 25,000 zeros or more.* at byte 0\.")
def nothing_but_zeros(path):
    path.write_bytes(bytes(100_000))


@bad("nanogpt", TRAIN, r"ends with 32,768 zeros or more")
def a_tebibyte_that_takes_no_place(path):
    os.truncate(path, 1 << 40)


@bad("nanogpt", TRAIN, r"is not a regular file: found FIFO")
def raw_tokens_that_are_a_pipe(path):
    piped(path)


@bad("nanogpt", TRAIN, r"holds no train.bin or val.bin")
def a_folder_by_the_name_of_a_file(path):
    path.unlink()
    path.mkdir()


@bad("nanogpt", TRAIN, r"no such file")
def a_link_to_nothing(path):
    path.unlink()
    path.symlink_to("elsewhere.bin")


PAIR = "gpt2_text_document.bin"


def index(path):
    return path.with_suffix(".idx")


@bad("megatron", PAIR, r"idx: the file ends too early at byte 0: expected 34 more bytes")
def an_index_of_nothing(path):
    index(path).write_bytes(b"")


@bad("megatron", PAIR, r"idx: the file ends too early at byte 33: expected 1 more bytes")
def an_index_cut_in_its_header(path):
    index(path).write_bytes(index(path).read_bytes()[:33])


@bad("megatron", PAIR, r"the size of the index at byte 18: expected 642, found 34")
def an_index_cut_behind_its_header(path):
    index(path).write_bytes(index(path).read_bytes()[:34])


@bad("megatron", PAIR, r"the size of the index at byte 18: expected 642, found 643")
def an_index_that_is_too_long(path):
    index(path).write_bytes(index(path).read_bytes() + b"x")


@bad("megatron", PAIR, r"the size of the index at byte 18: expected 55,340,232,221,128,655,130, found 642")
def absurdly_many_sequences(path):
    poked(index(path), 18, struct.pack("<q", 2**62))


@bad("megatron", PAIR, r"the size of the index at byte 18: expected \d\d\d,.*, found 642")
def fewer_sequences_than_none(path):
    poked(index(path), 18, struct.pack("<q", -1))


@bad("megatron", PAIR, r"the size of the index at byte 18: expected 36,893,488,147,419,103,626, found 642")
def absurdly_many_documents(path):
    poked(index(path), 26, struct.pack("<q", 2**62))


@bad("megatron", PAIR, r"idx: lists more sequences than its tokens allow: .*found 50,000,000")
def sequences_without_tokens(path):
    index, many = path.with_suffix(".idx"), 50_000_000
    head = bytearray(index.read_bytes()[:34])
    head[18:34] = np.array([many, 1], "<u8").tobytes()
    index.write_bytes(head)
    os.truncate(index, 34 + 12 * many + 8)


@bad("megatron", PAIR, r"is not an index of tokens: .*found MMIDIDX, version 1, dtype 99")
def a_dtype_that_is_none(path):
    poked(index(path), 17, b"\x63")


@bad("megatron", PAIR, r"is an index of Fast-LLM, which tokfmt does not read.*--from array --from-opt bare=DTYPE")
def another_version_of_the_index(path):
    poked(index(path), 9, struct.pack("<q", 2))


@bad("megatron", PAIR, r"idx: length 0 at byte 34: expected 0 or more, found -5")
def a_sequence_of_negative_length(path):
    poked(index(path), 34, i4(-5))


@bad("megatron", PAIR, r"bytes of tokens: expected 4,294,992,762, found 25,536. Copy or write it again$")
def a_sequence_longer_than_the_file(path):
    poked(index(path), 34, i4(2**31 - 1))


@bad("megatron", PAIR, r"idx: no such file")
def a_pair_without_its_index(path):
    index(path).unlink()


@bad("megatron", PAIR, r"bin: no such file")
def a_pair_without_its_tokens(path):
    path.unlink()


@bad("megatron", PAIR, r"is not a regular file: found FIFO")
def an_index_that_is_a_pipe(path):
    piped(index(path))


@pytest.mark.parametrize("name", bad.cases)
def test_it_is_refused(name, tmp_path):
    bad.refuse(name, tmp_path)


def test_there_are_ten_of_each():
    counts = Counter(home for home, *_ in bad.cases.values())
    assert min(counts[home] for home in ("llmc", "nanogpt", "megatron")) >= 10, counts
