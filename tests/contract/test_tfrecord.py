"""tfrecord under the laws of every format; the oracle reads frames with struct, and Examples by a walk of its own."""

import gzip
import struct
import zlib

import numpy as np
import pyarrow.parquet
import pytest
from examples_of_tensorflow import example, field, framed, sealed, varint

import tokfmt
from tokfmt.errors import LossyConversionError, TokfmtError
from tokfmt.formats.tfrecord import FORMAT
from tokfmt.testing import FormatContract


def frames(raw):
    """The data of each record, after a comparison of both checksums."""
    at = 0
    while at < len(raw):
        (length,) = struct.unpack_from("<Q", raw, at)
        data = raw[at + 12 : at + 12 + length]
        assert raw[at + 8 : at + 12] == sealed(raw[at : at + 8])
        assert raw[at + 12 + length : at + 16 + length] == sealed(data)
        yield data
        at += 16 + length


def taken(data, number):
    """The content of a message whose only field has this number."""
    size = shift = 0
    at, one = 1, data[0]
    assert one == number * 8 + 2
    while True:
        size, shift, at = size + data[at] % 128 * 2**shift, shift + 7, at + 1
        if data[at - 1] < 128:
            assert len(data) == at + size
            return data[at:]


def numbers(data):
    value = shift = 0
    for byte in data:
        value, shift = value + byte % 128 * 2**shift, shift + 7
        if byte < 128:
            yield value
            value = shift = 0


def ids_of(data, name):
    entry = taken(taken(data, 1), 1)
    assert entry.startswith(field(1, name.encode()))
    listed = taken(taken(entry[len(field(1, name.encode())) :], 2), 3)
    return list(numbers(taken(listed, 1))) if listed else []


class TestFile(FormatContract):
    format = FORMAT
    filename = "x.tfrecord"
    max_id = 2**32 - 1
    checksummed = False  # a cut between two records cannot be seen
    write_variants = ({}, {"field": "inputs"})
    sparse_tokens, peak_bytes = 1 << 22, 20 << 20

    def oracle(self, path, options):
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if options.get("compression") == "gzip" else raw
        name = options.get("field", "input_ids")
        if dtype := options.get("bare"):
            return [np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).tolist() for data in frames(raw)]
        return [ids_of(data, name) for data in frames(raw)]

    def read_options(self, options):
        return {"bare": options["bare"]} if "bare" in options else {}


class TestFolder(TestFile):
    filename = "records"
    sharded = {"shard_size": 1}
    write_variants = ({"shard_size": 7}, {"compression": "gzip"}, {"bare": "int64"})
    long_options = {"shard_size": 1 << 16}
    flipped = 24

    def oracle(self, path, options):
        return [one for file in sorted(path.iterdir()) for one in super(TestFolder, self).oracle(file, options)]


def read(path, **how):
    with tokfmt.open(path, eos="none", **how) as dataset:
        return dataset[:].tolist()


@pytest.mark.parametrize(
    "packed", [gzip.compress, zlib.compress, lambda raw: gzip.compress(raw[:50]) + gzip.compress(raw[50:])]
)
def test_compressed_files(tmp_path, packed):
    """Their names need not say so, and a gzip file may have several members."""
    rows = [[k, 300 * k, 70_000 * k] for k in range(50)]
    (tmp_path / "x.tfrecord").write_bytes(packed(framed(*(example(tokens=row) for row in rows))))
    assert read(tmp_path / "x.tfrecord") == rows


def test_the_feature_of_ids_is_inferred_from_names_and_lists(tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(framed(example(label=[3], words=[1, 2], url=b"x", weights=(2, field(1, bytes(8))))))
    with tokfmt.open(path, eos="none") as dataset:
        assert dataset[:].tolist() == [[1, 2]]
        assert "words is read; other features are not: label, url, weights" in dataset.info.notes
    assert read(path, options={"field": "label"}) == [[3]]
    path.write_bytes(framed(example(label=[3], image=b"\xff\xd8")))
    with pytest.raises(
        TokfmtError, match=r"no feature that is known to be .*found label \(integers\), image \(bytes\)"
    ):
        tokfmt.open(path)
    path.write_bytes(framed(example(inputs=[1, 4], targets=[2, 3])))
    assert read(path, options={"field": "inputs"}) == [[1, 4]]
    assert read(path, options={"field": "targets"}) == [[2, 3]]
    path.write_bytes(framed(example(inputs=[], targets=[2, 3]), example(inputs=[], targets=[4])))
    assert read(path) == [[2, 3], [4]]
    path.write_bytes(framed(example(inputs=[0], targets=[2, 3])))  # as Tensor2Tensor writes a language model
    assert read(path) == [[2, 3]]
    path.write_bytes(framed(*[example(inputs=[], targets=[2, 3])] * 20, example(inputs=[5, 6], targets=[2, 3])))
    with pytest.raises(TokfmtError, match="record 20 has inputs, which the first records have not.*field=targets"):
        read(path)
    assert read(path, options={"field": "targets"}) == [[2, 3]] * 21


def test_labels_and_masks_are_loss_masks(tmp_path):
    path, rows = tmp_path / "x.tfrecord", [[0, 8, 9], [], [2**31 - 1]]
    masks = [[-100, -100, 9], [], [-100]], [[0, 0, 1], [], [0]]
    records = zip(rows, *masks, strict=True)
    path.write_bytes(framed(*(example(ids=ids, labels=own, completion_mask=mask) for ids, own, mask in records)))
    assert read(path) == rows
    with pytest.raises(LossyConversionError, match=r"labels, completion_mask.*--allow-loss loss-mask"):
        tokfmt.convert(path, tmp_path / "y.tfrecord")
    tokfmt.convert(path, tmp_path / "y.parquet", eos="none", to_eos="none", verify=True)
    table = pyarrow.parquet.read_table(tmp_path / "y.parquet")
    assert table["input_ids"].to_pylist() == rows
    assert table["labels"].to_pylist() == [[-100, -100, 9], [], [-100]]
    for wrong, words in (
        ([9], "record 0 has labels that are other IDs than its tokens: expected 8 or -100, found 9"),
        ([8, 8], "record 0 has labels of another length: expected 1, found 2"),
    ):
        path.write_bytes(framed(example(ids=[8], labels=wrong)))
        with pytest.raises(TokfmtError, match=words):
            read(path)
        assert read(path, allow_loss=["loss-mask"]) == [[8]]


def test_columns_that_only_later_records_have_are_not_passed_over(tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(framed(*[example(ids=[1, 2])] * 20, example(ids=[1, 2], labels=[-100, 2])))
    with pytest.raises(TokfmtError, match="record 20 has labels, which the first records have not.*field=ids"):
        read(path)
    assert read(path, options={"field": "ids"}) == [[1, 2]] * 21


def test_targets_are_completions_or_labels_and_never_dropped(tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(framed(*[example(inputs=[1, 2, 3], targets=[2, 3, 0])] * 2))
    assert read(path) == [[1, 2, 3]] * 2
    path.write_bytes(framed(*[example(inputs=[1, 2, 3], targets=[2, 3, 4])] * 2))
    assert read(path) == [[1, 2, 3, 4]] * 2
    path.write_bytes(framed(example(inputs=[1, 2, 3], targets=[2, 3, 0]), example(inputs=[1, 2], targets=[3, 4])))
    assert read(path) == [[1, 2, 3, 2, 3, 0], [1, 2, 3, 4]]
    with pytest.raises(LossyConversionError, match="targets"):
        tokfmt.convert(path, tmp_path / "y.tfrecord", eos="none")
    tokfmt.convert(path, tmp_path / "y.parquet", eos="none", verify=True)
    labels = pyarrow.parquet.read_table(tmp_path / "y.parquet")["labels"].to_pylist()
    assert labels == [[-100] * 3 + [2, 3, 0], [-100, -100, 3, 4]]
    done = tokfmt.convert(path, tmp_path / "y.tfrecord", eos="none", allow_loss="loss-mask")
    assert read(tmp_path / "y.tfrecord") == [[1, 2, 3, 2, 3, 0], [1, 2, 3, 4]]
    assert done.tokens == 10
    for inputs, targets in (([1, 2, 3], [2, 3, 4]), ([1, 2, 3], [2, 9, 0]), ([1, 2, 3], [2, 3])):
        segments = {"inputs_segmentation": [1] * 3}
        path.write_bytes(framed(example(inputs=inputs, targets=targets, **segments)))
        with pytest.raises(TokfmtError, match=r"record 0 has .*targets.*field=inputs or field=targets reads"):
            read(path)
        assert read(path, options={"field": "inputs"}) == [inputs]


def test_targets_alone_are_divided_by_their_own_segments(tmp_path):
    path, other = tmp_path / "x.tfrecord", {"inputs_segmentation": [1, 1], "inputs": [7, 7]}
    path.write_bytes(framed(example(targets=[1, 2, 3, 0], targets_segmentation=[1, 1, 2, 0], **other)))
    assert read(path, options={"field": "targets"}) == [[1, 2], [3]]


def test_sequences_of_packed_records_are_counted_found_and_kept_before_a_cut(tmp_path):
    path, ids = tmp_path / "x.tfrecord", list(range(1, 9))
    records = [example(inputs=ids, inputs_segmentation=[1, 1, 1, 2, 2, k % 3, 0, 0]) for k in range(2_000)]
    path.write_bytes(framed(*records))
    rows = [ids[:3], ids[3:5], ids[5:6], ids[:3], ids[3:6]]
    wanted = [row for k in range(2_000) for row in ((rows[:2], rows[:3], rows[3:])[k % 3])]
    with tokfmt.open(path, eos="none") as dataset:
        assert len(dataset) == len(wanted)
        for first in (0, 1, 1_111, len(wanted) - 2):
            assert dataset[first : first + 2].tolist() == wanted[first : first + 2]
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    done = tokfmt.convert(path, tmp_path / "y.jsonl", eos="none", allow_partial=True)
    assert done.sequences == sum(
        len((rows[:2], rows[:3], rows[3:])[k % 3]) for k in range(len(raw) // 2 * 2_000 // len(raw))
    )
    assert read(tmp_path / "y.jsonl") == wanted[: done.sequences]


def test_text_is_tokenized(tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(framed(example(text="für".encode()), example(text=b""), example(text=b"two")))
    tokfmt.convert(path, tmp_path / "x.jsonl")
    assert (tmp_path / "x.jsonl").read_text().splitlines() == [
        '{"text": "für"}', '{"text": ""}', '{"text": "two"}',
    ]  # fmt: skip


BARE = np.array([258, 515], "<u2").tobytes()


@pytest.mark.parametrize(
    ("record", "options", "words"),
    [
        (example(tokens=BARE), {}, "found tokens .bytes.*bare=DTYPE"),
        (example(tokens=BARE), {"bare": "uint16"}, "holds tf.train.Example, not bare integers.*field=NAME"),
        (example(tokens=[1]), {"bare": "uint16", "field": "tokens"}, "expected bytes, as bare is given, found integers"),
        (example(tokens=[1]), {"field": "ids"}, "has no feature ids: found tokens .integers"),
        (example(tokens=[1, -100]), {}, "item 1: .*found -100"),
        (example(tokens=(3, field(1, b"\xff"))), {}, "does not end"),
        (example(tokens=(3, field(1, b"\xff" * 11 + b"\1"))), {}, "more than 64 bits"),
        (example(tokens=(3, field(1, bytes(9))[:-1])), {}, "longer than its message"),
        (example(tokens=(1, field(1, b"a") * 2)), {"field": "tokens", "bare": "uint8"}, "holds 2 values"),
        (field(2, b"") , {}, "is a SequenceExample"),
        (BARE, {}, "is not a tf.train.Example.*found 02 01 03 02.*bare=int32"),
        (BARE, {"bare": "int64"}, "bytes of record 0: expected a multiple of 8, as of int64, found 4"),
        (b"\x80\4N.", {}, "begins like a pickle"),
    ],
)  # fmt: skip
def test_what_is_not_ids(tmp_path, record, options, words):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(framed(record))
    with pytest.raises(TokfmtError, match=words):
        read(path, format="tfrecord", options=options)


def test_protobuf_of_other_writers(tmp_path):
    """Unpacked lists, mixed ones, names twice, unknown fields, and 10 bytes for a small number."""
    unpacked = b"".join(b"\x08" + varint(n) for n in (1, 300, 2**32 - 1))
    records = [
        example(tokens=(3, unpacked)),
        example(tokens=(3, unpacked + field(1, varint(5)) + b"\x08\x06")),
        example(tokens=[9]) + field(1, field(1, field(1, b"tokens") + field(2, field(3, field(1, b"\7"))))),
        field(1, b"\x7d" + bytes(4) + field(1, field(1, b"tokens") + field(2, field(3, field(1, b"\x87" + b"\x80" * 8 + b"\0"))))),
        field(1, field(1, field(1, b"tokens"))),
    ]  # fmt: skip
    path = tmp_path / "x.tfrecord"
    path.write_bytes(framed(*records))
    assert read(path) == [[1, 300, 2**32 - 1], [1, 300, 2**32 - 1, 5, 6], [7], [7], []]


def test_shards_of_a_folder(tmp_path):
    for name, first, count in (("a", 1, 2), ("b", 5, 1)):
        for number in range(count):
            path = tmp_path / f"{name}.tfrecord-{number:05d}-of-{count:05d}"
            path.write_bytes(framed(example(text=[first + number])))
    with pytest.raises(TokfmtError, match="holds files of several datasets: found a, b.*prefix=NAME"):
        tokfmt.open(tmp_path)
    assert read(tmp_path, options={"prefix": "a"}) == [[1], [2]]
    (tmp_path / "a.tfrecord-00000-of-00002").unlink()
    with pytest.raises(TokfmtError, match="lacks files.*expected 2 files, found 1"):
        tokfmt.open(tmp_path, options={"prefix": "a"})
    assert read(tmp_path / "a.tfrecord-00001-of-00002") == [[2]]


def test_the_number_of_records_in_a_name(tmp_path):
    path = tmp_path / "data_0_3.tfrecords"
    path.write_bytes(framed(example(text=[1]), b""))
    findings = {one.code: one.message for one in tokfmt.check(path, deep=True)[0].findings}
    assert findings["TF884"] == "records, by its name: expected 3, found 2"
    assert "holds 1 record of 0 bytes" in findings["TF883"]


def test_lengths_that_would_fill_memory(tmp_path):
    length = struct.pack("<Q", 1 << 27)
    (tmp_path / "x.tfrecord").write_bytes(gzip.compress(length + sealed(length) + bytes(1 << 20)))
    with pytest.raises(TokfmtError, match="length of record 0 of the decompressed content.*found 134,217,728"):
        tokfmt.open(tmp_path / "x.tfrecord")


def test_rows_of_a_recipe(tmp_path):
    (tmp_path / "x.jsonl").write_text("".join(f'{{"input_ids": [{k}, {k + 1}, {k + 2}]}}\n' for k in range(1, 30)))
    (tmp_path / "x.toml").write_text(
        'tokfmt = 1\nseq_len = 8\nto_eos = 0\nlabels = "same"\n[[source]]\npath = "x.jsonl"\n'
    )
    with tokfmt.open(tmp_path / "x.toml") as mixed:
        expected = [one["input_ids"].tolist() for one in mixed]
    tokfmt.convert(tmp_path / "x.toml", tmp_path / "rows.tfrecord")
    assert read(tmp_path / "rows.tfrecord") == expected


@pytest.mark.parametrize(("name", "suffix"), [("tfrecord", ".tfrecord"), ("arrayrecord", ".array_record")])
def test_names_state_how_many_files_there_are(tmp_path, name, suffix):
    """Upstream's readers and tokfmt then miss one that was lost."""
    (tmp_path / "x.jsonl").write_text('{"input_ids": [1, 2, 3]}\n' * 5)
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "out", to_format=name, to_options={"shard_size": 6}, eos="none")
    names = [f"data-{number:05d}-of-00003{suffix}" for number in range(3)]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    (tmp_path / "out" / names[1]).unlink()
    with pytest.raises(TokfmtError, match=f"{names[1]}"):
        tokfmt.open(tmp_path / "out", eos="none", ignore_manifest=True)
