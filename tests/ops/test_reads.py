"""What opening a dataset reads: counted in reads, bytes, statuses and listings, never in time."""

import json
import pickle
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from amount import EVERY, FUZZ_ONLY
from reads import asked_of
from shards_by_hand import litdata_of

import tokfmt
from tokfmt import info, show
from tokfmt.errors import CorruptError, TruncatedError
from tokfmt.files.file import File

EOS = 50256
DOCUMENTS, LENGTH = 100_000, 33


# ranges of one file


@pytest.fixture
def numbered(tmp_path):
    path = tmp_path / "x.bin"
    np.arange(1 << 16, dtype="<u4").tofile(path)
    return path


@pytest.mark.parametrize(
    ("ranges", "reads"),
    [
        ([], 0),
        ([(0, 4)], 1),
        ([(0, 4), (100, 104), (8, 12)], 1),
        ([(200_000, 200_004), (0, 4), (200_008, 200_012)], 2),
        ([(0, 4), (0, 4), (2, 3)], 1),
        ([(0, 4), (40_000, 40_004), (80_000, 80_004)], 3),
        ([(0, 100_000), (50_000, 50_004), (5, 5)], 1),
    ],
)
def test_ranges_come_in_the_order_given_and_those_close_together_take_one_read(numbered, ranges, reads):
    content = numbered.read_bytes()
    with asked_of(numbered.parent) as asked:
        assert [bytes(held) for held in File(numbered).read_ranges(ranges)] == [content[a:b] for a, b in ranges]
    assert len(asked.reads) == reads


def test_a_range_beyond_the_end_is_an_error(numbered):
    with pytest.raises(TruncatedError):
        list(File(numbered).read_ranges([(0, 4), (1 << 18, (1 << 18) + 1)]))


def test_intervals_of_a_dataset_of_several_files(tmp_path):
    tokens = np.arange(1000, dtype="<u2")
    for number in range(4):
        megatron_pair(tmp_path / f"{number}_document", tokens[250 * number :][:250].reshape(50, 5))
    reader: Any = tokfmt.open(tmp_path, format="megatron", eos="none").reader
    wanted = [(0, 3), (3, 9), (248, 252), (10, 10), (999, 1000), (240, 760)]
    found = list(reader.intervals(wanted))
    assert [ids.tolist() for ids in found] == [tokens[a:b].tolist() for a, b in wanted]
    with pytest.raises(IndexError):
        list(reader.intervals([(0, 1001)]))


# looks at the ends of sequences


def megatron_pair(prefix, documents):
    """A pair of documents of one length; returns the path of its tokens."""
    count, length = documents.shape
    width, code = documents.dtype.itemsize, {2: 8, 4: 4}[documents.dtype.itemsize]
    path = prefix.with_name(f"{prefix.name}.bin")
    documents.tofile(path)
    with path.with_suffix(".idx").open("wb") as index:
        index.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, count, count + 1))
        np.full(count, length, "<i4").tofile(index)
        (np.arange(count) * length * width).astype("<i8").tofile(index)
        np.arange(count + 1).astype("<i8").tofile(index)
    return path


def documents_of(count, length, seed=0):
    found = np.random.default_rng(seed).integers(0, 50_000, (count, length)).astype("<u2")
    found[:, -1] = EOS
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("read")
    source = megatron_pair(home / "x_text_document", documents_of(DOCUMENTS, LENGTH))
    tokfmt.convert(source, home / "x.pbin")
    tokfmt.convert(source, home / "x.ds")
    tokfmt.convert(source, home / "litdata", to_format="litdata")
    return home


@pytest.mark.parametrize("manifest", [True, False], ids=["manifest", "bare"])
@pytest.mark.parametrize(("name", "most"), [("x_text_document.bin", 12), ("x.pbin", 13), ("x.ds", 12), ("litdata", 16)])
def test_reads_before_the_tokens_of_one_document(home, tmp_path, name, most, manifest):
    copied = tmp_path / name
    for path in home.glob(f"{name.removesuffix('.bin')}*"):
        if manifest or not path.name.endswith(".tokfmt.json"):
            (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / path.name)
    with asked_of(tmp_path) as asked:
        preview = show(copied, 12345)
        before = len(asked.reads) + sum(path.endswith(".tokfmt.json") for path in asked.opened)  # read as streams
        (shown,) = preview.shown
        ids = shown.ids
    assert ids == documents_of(DOCUMENTS, LENGTH)[12345, :-1].tolist()
    assert preview.eos_id == EOS
    assert before <= most, asked.reads


@pytest.mark.parametrize(
    ("name", "index", "begin"),
    [("x_text_document.bin", ".idx", 0), ("x.ds", ".ds.index", 0), ("x.pbin", ".pbin", 12 + 2 * DOCUMENTS * LENGTH)],
)
def test_a_check_reads_an_index_once(home, tmp_path, name, index, begin):
    """The findings on headers and indexes, and the dataset that is opened for all other findings, are of one look."""
    for path in home.glob(f"{name.removesuffix('.bin')}*"):
        if not path.name.endswith(".tokfmt.json"):
            shutil.copy(path, tmp_path / path.name)
    with asked_of(tmp_path) as asked:
        (verdict,) = tokfmt.check(tmp_path / name)
    (size,) = [path.stat().st_size - begin for path in tmp_path.iterdir() if path.name.endswith(index)]
    assert not verdict.errors
    read = sum(length for file, offset, length in asked.reads if file.endswith(index) and offset >= begin)
    assert size <= read < 1.2 * size
    assert asked.opened.count(str(tmp_path / name)) <= 3


def test_printed_sequences_are_examined(tmp_path):
    """A part without separators between two places is kept as stored, as after a scan of everything."""
    documents = documents_of(DOCUMENTS, LENGTH)
    documents[40_000:60_000, -1] = 7
    path = megatron_pair(tmp_path / "x_document", documents)
    for number in (40_000, 50_000, 59_999):
        (shown,) = show(path, number).shown
        assert shown.ids == documents[number].tolist()
    assert show(path, 10).eos_seen.startswith("each of 4,096 sequences that were looked at, of ")
    assert show(path, "0:50_001").eos_id is None
    assert tokfmt.open(path).info.eos_id is None


def test_a_look_at_few_places_names_how_many_sequences_it_saw(home, tmp_path):
    path = megatron_pair(tmp_path / "x_document", documents_of(DOCUMENTS, LENGTH))
    assert "4,096 sequences that were looked at, of " in show(path, 5).eos_seen
    little = megatron_pair(tmp_path / "y_document", documents_of(1_000, LENGTH))
    assert show(little, 5).eos_seen.endswith(" ends with it, and none has it inside")
    assert show(path, "-1:").eos_from == show(path, 5).eos_from


def test_a_few_long_documents_are_looked_at(tmp_path):
    """Of documents that are longer than a window, the ends of those before are read by themselves."""
    path = megatron_pair(tmp_path / "x_document", documents_of(24, 200_000))
    with asked_of(tmp_path) as asked:
        assert show(path, 5).eos_id == EOS
    assert asked.bytes_of(".bin") < 1 << 20
    odd = documents_of(24, 200_000)
    odd[-3, -1] = 5
    assert show(megatron_pair(tmp_path / "y_document", odd), 5).eos_id is None


@pytest.mark.parametrize("name", ["stage1", "nanogpt", "array"])
@pytest.mark.parametrize("tokens", [1 << 22, (1 << 22) + 8192])
def test_the_first_documents_of_a_long_stream_take_its_beginning(tokens, name, tmp_path):
    """A stream that is not long is scanned to its end. Separators are after documents, or before those of the array."""
    path, documents = tmp_path / "stage1_block_0000.bin", documents_of(1_000, LENGTH)
    ids, options = np.resize(documents, tokens), {"side": "before"} if name == "array" else {}
    if name == "array":
        path = tmp_path / "x.npy"
        np.save(path, np.resize(np.roll(documents, 1, axis=1), tokens))
    else:
        ids.astype("<i4" if name == "stage1" else "<u2").tofile(path)
    with asked_of(tmp_path) as asked:
        found = [one.ids for one in show(path, "0:3", eos=EOS, format=name, options=options).shown]
    assert found == documents[:3, :-1].tolist()
    size = path.stat().st_size
    assert (asked.bytes_of(path.suffix) < size // 2) == (tokens > 1 << 22)
    given = {"eos": EOS, "format": name, "options": options}
    with asked_of(tmp_path) as asked:
        dataset = tokfmt.open(path, **given)
        assert [dataset[i].tolist() for i in range(3)] == documents[:3, :-1].tolist()
        assert [one.tolist() for one in dataset[1:3]] == documents[1:3, :-1].tolist()
        assert next(iter(dataset)).tolist() == documents[0, :-1].tolist()
    assert (asked.bytes_of(path.suffix) < 1 << 20) == (tokens > 1 << 22)
    count, rest = -(-tokens // LENGTH), tokens % LENGTH - (name == "array")
    assert (len(dataset), dataset[-1].tolist()) == (count, documents[(count - 1) % 1_000, :rest].tolist())
    with asked_of(tmp_path) as asked:
        assert tokfmt.convert(path, tmp_path / "out.parquet", select="1:3", **given).sequences == 2
    assert (asked.bytes_of(path.suffix) < size + size // 2) == (tokens > 1 << 22)  # The checksum takes all of it.


def test_a_long_stream_is_one_dataset_however_it_is_asked(tmp_path):
    path = tmp_path / "x.bin"
    np.resize(documents_of(1_000, LENGTH), (1 << 22) + 8192).astype("<u2").tofile(path)

    def opened():
        return tokfmt.open(path, eos=EOS, format="nanogpt")

    whole = opened()
    assert len(whole) > 100_000 and whole.info.tokens == whole.offsets(0, len(whole))[-1]
    assert [note for note in whole.notes if "not finished" in note] and len(whole.origin) == 1
    there = pickle.loads(pickle.dumps(opened()))
    assert there[0].tolist() == opened()[0].tolist() == next(iter(opened())).tolist() == whole[-len(whole)].tolist()
    for number in (-1, 63, 64, 65, 1_000):
        assert opened()[number].tolist() == opened().select([number])[0].tolist() == whole[number].tolist()
        assert len(opened()[number : number + 2]) == len(whole[number : number + 2])
    assert sum(map(len, opened())) == whole.info.tokens
    shared = opened()
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: len(shared), range(8))) == {len(whole)}
    for outside in (len(whole), -len(whole) - 1):
        with pytest.raises(IndexError, match="there is no sequence"):
            opened()[outside]
    with opened() as dataset:
        assert dataset[3].tolist() == whole[3].tolist()
    for ask in (lambda: dataset[3], lambda: len(dataset), lambda: dataset[:2]):
        with pytest.raises(ValueError, match="closed"):
            ask()
    late = opened()
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(tokfmt.TokfmtError, match="changed"):
        len(late)


def test_one_document_of_a_long_pack_takes_the_beginning_of_its_index(tmp_path):
    """A sparse pack whose index of two million documents has 23 MB; `info` states what its header does."""
    path, count, length = tmp_path / "x.pbin", 2_000_000, 6
    index = pickle.dumps([(length * k, length) for k in range(count)], protocol=4)
    with path.open("wb") as pack:
        pack.write(struct.pack("<QI", count * length, 2))
        pack.seek(12 + count * length)
        pack.write(index)
    for call in (lambda: list(show(path, 7, eos="none").shown), lambda: info(path, eos="none")):
        with asked_of(tmp_path) as asked:
            call()
        assert asked.bytes_of(".pbin") < 3 << 20
    found = info(path, eos="none")
    assert (found.sequences, found.tokens, found.stored_tokens) == (None, None, 6_000_000)
    assert show(path, 1_999_999, eos="none").sequences == 2_000_000  # the whole index


def test_a_record_of_lines_is_found_and_read_with_one_read_each(tmp_path):
    documents = documents_of(4_000, 100).tolist()
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in documents))
    with asked_of(tmp_path) as asked:
        dataset = tokfmt.open(tmp_path / "x.jsonl", eos="none")
        assert len(dataset) == 4_000
        before = len(asked.reads)
        for number in (3_999, 7, 2_000, 2_001, 1_234):
            assert dataset[number].tolist() == documents[number]
    assert len(asked.reads) - before <= 2 * 5


# row groups of Parquet


GROUPS, ROWS = 400, 160  # More tokens than a thread keeps decoded.


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    """A file with many small row groups, as `datasets` and tokfmt write them."""
    home = tmp_path_factory.mktemp("parquet")
    ids = np.random.default_rng(0).integers(0, 50_000, GROUPS * ROWS * 100).astype("<u2")
    rows = pa.ListArray.from_arrays(pa.array(np.arange(0, len(ids) + 1, 100, np.int32)), pa.array(ids))
    table = pa.table({"input_ids": rows})
    pq.write_table(table, home / "x.parquet", row_group_size=ROWS, compression="none", use_dictionary=False)
    return home / "x.parquet"


@pytest.mark.parametrize(
    ("how", "passes", "looks"),
    [
        ({"to_format": "flat-tokens"}, 1, 0),
        ({"to_format": "modalities", "eos": EOS}, 1, 110 / GROUPS),  # Up to 64 runs of neighbors, for their last ID.
        pytest.param({"to_format": "olmo", "eos": EOS}, 2, 110 / GROUPS, marks=FUZZ_ONLY),
        pytest.param({"to_format": "hdf5", "eos": EOS, "seq_len": 64}, 3, 110 / GROUPS, marks=FUZZ_ONLY),
    ],
    ids=lambda value: value["to_format"] if isinstance(value, dict) else "",
)
def test_row_groups_are_read_once_in_each_pass(parquet, tmp_path, how, passes, looks):
    with asked_of(parquet.parent) as asked:
        tokfmt.convert(parquet, tmp_path / "x", executor="threads", jobs=2, manifest=False, **how)
    assert asked.bytes_of(".parquet") < (1.1 * passes + looks) * parquet.stat().st_size


def test_statistics_read_row_groups_once(parquet):
    with asked_of(parquet.parent) as asked:
        tokfmt.stats(parquet)
    assert asked.bytes_of(".parquet") < 1.1 * parquet.stat().st_size


THOUSAND = 1_000


@pytest.fixture(scope="module")
def of_thousand(tmp_path_factory):
    """Groups of 1,000 documents that end with a separator: more tokens than a thread keeps decoded."""
    path = tmp_path_factory.mktemp("thousand") / "x.parquet"
    documents = documents_of(32 * THOUSAND, 128)
    rows = pa.ListArray.from_arrays(
        pa.array(np.arange(0, documents.size + 1, 128, np.int32)), pa.array(documents.ravel())
    )
    pq.write_table(
        pa.table({"input_ids": rows}), path, row_group_size=THOUSAND, compression="none", use_dictionary=False
    )
    return path


@pytest.mark.parametrize(("name", "eos"), [("modalities", EOS), ("megatron", EOS), ("flat-tokens", None)])
def test_groups_of_a_thousand_rows_are_read_once_and_few_for_their_ends(of_thousand, tmp_path, name, eos):
    with asked_of(of_thousand.parent) as asked:
        tokfmt.convert(of_thousand, tmp_path / "x", to_format=name, eos=eos, executor="threads", jobs=2, manifest=False)
    assert asked.bytes_of(".parquet") < 1.5 * of_thousand.stat().st_size


def test_groups_of_a_thousand_rows_are_read_once_in_order(of_thousand):
    size = of_thousand.stat().st_size
    with asked_of(of_thousand.parent) as asked:
        tokfmt.stats(of_thousand)
    assert asked.bytes_of(".parquet") < 1.5 * size
    with asked_of(of_thousand.parent) as asked, tokfmt.open(of_thousand) as dataset:
        assert sum(len(dataset[number]) for number in range(len(dataset))) == 32 * THOUSAND * 128
    assert asked.bytes_of(".parquet") < 1.5 * size


@pytest.mark.parametrize("group", [1, 4, 1000])
def test_the_sequence_at_a_position_of_row_groups(tmp_path, group):
    """Of several files, in any order of questions, with empty sequences."""
    lengths, paths = np.array([3, 0, 0, 5, 1, 0, 2, 4, 0]), []
    for name in "ab":
        table = pa.table({"input_ids": [[1] * length for length in lengths]})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=group)
        paths.append(tmp_path / f"{name}.parquet")
    starts = np.concatenate([[0], np.cumsum(np.tile(lengths, 2))])[:-1]
    positions = np.arange(starts[-1] + 3)
    for order in (positions, positions[::-1], np.random.default_rng(group).permutation(positions)):
        reader = tokfmt.open(paths, eos="none").reader
        found = [reader.sequence_at(int(position)) for position in order]
        assert found == [max(0, np.searchsorted(starts, position, side="right") - 1) for position in order]


def test_a_row_group_with_fewer_ids_than_it_states(tmp_path):
    """The number is compared when the last row of the group is decoded, not only when all lengths are asked for."""
    path, stated = tmp_path / "x.parquet", lambda: pq.read_metadata(path).row_group(0).column(0).statistics.null_count
    rows = [[1, 2], [], [3]]
    table = pa.table({"input_ids": rows * 2}, pa.schema([("input_ids", pa.list_(pa.uint32()))]))
    pq.write_table(table, path, row_group_size=3, compression="none", use_dictionary=False)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:footer] + content[footer:].replace(b"\x36\x02", b"\x36\0", 1))  # Field 3 of Statistics.
    assert stated() == 0, "the first group states one ID more than it has"
    with pytest.raises(CorruptError) as caught:
        tokfmt.convert(path, tmp_path / "x.zarr")
    assert (caught.value.expected, caught.value.found) == (4, 3)


# batches of Arrow and shards of MDS


@pytest.fixture(scope="module", params=["stream", "file", "mds"])
def in_parts(request, tmp_path_factory):
    """40 batches or 8 shards, of 2^22 tokens together, and documents of equal length."""
    home, documents = tmp_path_factory.mktemp("parts"), documents_of(1 << 14, 256)
    table = pa.table({"text": ["x"] * len(documents), "input_ids": documents.astype("i4").tolist()})
    schema = pa.schema([("text", pa.string()), ("input_ids", pa.list_(pa.int32()))])
    new = pa.ipc.new_file if request.param == "file" else pa.ipc.new_stream
    with new(str(home / "x.arrow"), schema) as writer:
        writer.write_table(table.cast(schema), max_chunksize=410)
    if request.param != "mds":
        return home / "x.arrow", documents
    tokfmt.convert(home / "x.arrow", home / "x", to_format="mds", to_options={"shard_size": 1 << 19}, eos=EOS)
    (home / "x.arrow").unlink()
    return home / "x", documents


def test_a_document_takes_its_own_batch_or_its_place_in_a_shard(in_parts):
    """Lengths follow from metadata, and a separator from four runs of neighbors; no hash is compared."""
    path, documents = in_parts
    size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir()))
    for call in (lambda: show(path, 9_000), lambda: info(path)):
        with asked_of(path.parent) as asked:
            found = call()
        assert asked.bytes_of() < size / 4
    assert (found.sequences, found.stored_tokens) == (len(documents), documents.size)
    assert found.eos_id == (None if path.is_file() else EOS)
    (shown,) = show(path, 9_000).shown
    assert shown.ids == documents[9_000, : None if path.is_file() else -1].tolist()


def test_a_changed_shard_is_refused_by_what_reads_it_all(in_parts, tmp_path):
    path, _ = in_parts
    if path.is_file():
        return
    shutil.copytree(path, tmp_path / "x")
    with (tmp_path / "x/shard.00003.mds").open("r+b") as shard:
        shard.seek(-2, 2)
        shard.write(b"\1\1")
    assert any("tokfmt check --deep compares all" in note for note in show(tmp_path / "x", 0).notes)
    with pytest.raises(CorruptError, match="sha1"):
        tokfmt.convert(tmp_path / "x", tmp_path / "x.pbin")
    (report,) = tokfmt.check(tmp_path / "x", deep=True)
    assert report.exit_code


def test_opening_reads_as_little_of_large_shards_as_of_small_ones_and_a_read_compares_hashes(tmp_path):
    np.save(tmp_path / "x.npy", documents_of(1 << 15, 256))
    took = []
    for shards, tokens in ((8, 1 << 20), (2, 1 << 22)):
        path = tmp_path / f"{shards}"
        given = {"to_format": "mds", "to_options": {"shard_size": tokens}, "eos": "none", "manifest": False}
        tokfmt.convert(tmp_path / "x.npy", path, **given)
        with (path / f"shard.{shards - 1:05d}.mds").open("r+b") as last:
            last.seek(-4, 2)
            last.write(b"\1\1")
        for call in (tokfmt.open, info):
            with asked_of(path) as asked:
                call(path)
            took.append(asked.bytes_of(".mds"))
        dataset = tokfmt.open(path, eos=EOS)
        assert dataset[0].tolist() == documents_of(1 << 15, 256)[0, :-1].tolist()
        with pytest.raises(CorruptError, match="sha1"):
            dataset[-1]
    assert max(took) < (1 << 24) // 2
    assert took[2:] == pytest.approx(took[:2], rel=0.1)


@pytest.mark.parametrize("change", ["offsets", "null", "compressed"])
def test_batches_whose_metadata_do_not_show_the_lengths_are_decoded(tmp_path, change):
    rows = [[1, 2, 3], None if change == "null" else [4], [5, 6]] * 3
    array = pa.array(rows, pa.list_(pa.int32()))
    if change == "offsets":  # They begin in the middle of the items, as some writers leave them.
        array = pa.ListArray.from_arrays(pa.array([1, 3, 4], pa.int32()), pa.array([9, 1, 2, 3, 9], pa.int32()))
    options = pa.ipc.IpcWriteOptions(compression="zstd" if change == "compressed" else None)
    with pa.ipc.new_stream(
        str(tmp_path / "x.arrow"), pa.schema([("input_ids", array.type)]), options=options
    ) as writer:
        writer.write_batch(pa.record_batch([array], ["input_ids"]))
    with tokfmt.open(tmp_path / "x.arrow", eos="none", allow_loss=["null-rows"]) as dataset:
        assert [ids.tolist() for ids in dataset] == [row or [] for row in array.to_pylist()]


@pytest.mark.parametrize(
    ("change", "eos_id"),
    [
        (lambda documents: None, EOS),
        (lambda documents: documents.__setitem__((DOCUMENTS - 1, -1), 7), None),  # the last does not end with it
        (lambda documents: documents.__setitem__((0, 3), EOS), None),  # the first has it inside
        (lambda documents: documents.__setitem__((slice(66_000, 68_000), -1), 7), None),  # some in the middle do not
        (lambda documents: documents.__setitem__((slice(None), -1), 50_000), 50_000),
    ],
)
def test_separator_inferred_from_the_ends_of_sequences(tmp_path, change, eos_id):
    documents = documents_of(DOCUMENTS, LENGTH)
    documents[documents == 50_000] = 0
    change(documents)
    path = megatron_pair(tmp_path / "x_document", documents)
    assert tokfmt.open(path).info.eos_id == eos_id


BESIDE = {
    "labels": lambda at, ids: {"labels": np.where(at > 40, ids, -100)},
    "attention_mask": lambda at, ids: {"attention_mask": at < 120},
    "both": lambda at, ids: {"labels": np.where((at > 40) & (at < 120), ids, -100), "attention_mask": at < 120},
    "position_ids": lambda at, ids: {"position_ids": at % 50},
}


@pytest.fixture(scope="module", params=BESIDE)
def with_columns(request, tmp_path_factory):
    """Groups of 1,000 rows with columns beside the IDs, encoded as pyarrow does by default."""
    path, count = tmp_path_factory.mktemp(request.param) / "x.parquet", 24 * THOUSAND * 128
    ids, bounds = np.random.default_rng(0).integers(1, 50_000, count), np.arange(0, count + 1, 128, np.int32)
    columns = {"input_ids": ids, **BESIDE[request.param](np.arange(count) % 128, ids)}
    lists = {
        name: pa.ListArray.from_arrays(pa.array(bounds), pa.array(values.astype(np.int32)))
        for name, values in columns.items()
    }
    pq.write_table(pa.table(lists), path, row_group_size=THOUSAND)
    return path


@pytest.mark.parametrize("name", ["stats", "in order", "parquet", *(["jsonl", "arrow"] if EVERY else [])])
def test_rows_with_columns_are_read_once(with_columns, tmp_path, name):
    """Opening reads the columns that divide rows or leave IDs out, and no labels."""
    with asked_of(with_columns.parent) as asked:
        if name == "stats":
            tokfmt.stats(with_columns)
        elif name == "in order":
            with tokfmt.open(with_columns) as dataset:
                assert sum(1 for number in range(len(dataset)) if len(dataset[number])) == len(dataset)
        else:
            how = {"manifest": False, "allow_loss": ["loss-mask"] if name == "jsonl" else []}
            tokfmt.convert(with_columns, tmp_path / "x", to_format=name, executor="threads", jobs=2, **how)
    assert asked.bytes_of(".parquet") < 1.2 * with_columns.stat().st_size


def test_opening_rows_reads_only_what_divides_them(with_columns):
    with asked_of(with_columns.parent) as asked, tokfmt.open(with_columns) as dataset:
        count = len(dataset)
    assert asked.bytes_of(".parquet") < 0.2 * with_columns.stat().st_size
    assert count == 24 * THOUSAND * (3 if "position_ids" in str(with_columns) else 1)


def test_labels_of_shards_are_not_read_to_open_them(tmp_path):
    """Opening reads the heads of items, which state their lengths."""
    ids = [np.arange(1, 4097)] * 100
    litdata_of(tmp_path, {"input_ids": ids, "labels": [np.where(one > 100, one, -100) for one in ids]})
    with asked_of(tmp_path) as asked, tokfmt.open(tmp_path) as dataset:
        assert len(dataset) == 100
    assert asked.bytes_of(".bin") < 0.6 * (tmp_path / "chunk-0-0.bin").stat().st_size
