"""Bad Parquet and Arrow: cut, damaged, bombs, names that leave the folder. Each has its message, a code, and little memory."""

import contextlib
import json
import os
import pickle
import re

import numpy as np
import pytest
import registered
from amount import first
from paths import FIXTURES

import tokfmt
from tokfmt.errors import FormatError, TokfmtError, UnsafeError, UnsupportedError
from tokfmt.testing import little_memory, traced

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

IDS = [[1, 2, 3], [4], [], [5, 6]]
END = b"\xff\xff\xff\xff\0\0\0\0"
MEMORY = 300 << 20


def table(rows=IDS, name="input_ids", kind=None):
    return pa.table({name: pa.array(rows, kind or pa.list_(pa.int32()))})


def parquet(path, data=None, **how):
    pq.write_table(table() if data is None else data, path, **how)
    return path


def stream(path, data=None, batch=2, **how):
    data = table() if data is None else data
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, data.schema, options=pa.ipc.IpcWriteOptions(**how)) as out,
    ):
        out.write_table(data, max_chunksize=batch)
    return path


def varint(value):
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def spans_of(footer):
    """First byte and end of each value of a struct of Thrift's compact protocol, by the numbers of its fields and items."""
    spans = {}

    def number(at):
        value = shift = 0
        while True:
            value |= (footer[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if footer[at - 1] < 128:
                return value, at

    def struct(at, path):
        field = 0
        while head := footer[at]:
            field, at = (field + (head >> 4), at + 1) if head >> 4 else (number(at + 1)[0] >> 1, number(at + 1)[1])
            at = value(at, head & 15, (*path, field))
        return at + 1

    def value(begin, kind, path):
        if kind in (1, 2):
            end = begin
        elif kind in (4, 5, 6):
            end = number(begin)[1]
        elif kind == 8:
            length, end = number(begin)
            end += length
        elif kind == 9:
            count, end = (footer[begin] >> 4, begin + 1) if footer[begin] >> 4 < 15 else number(begin + 1)
            for k in range(count):
                end = end + 1 if footer[begin] & 15 in (1, 2) else value(end, footer[begin] & 15, (*path, k))
        elif kind == 12:
            end = struct(begin, path)
        else:
            end = begin + {3: 1, 7: 8}[kind]
        spans[path] = begin, end
        return end

    struct(0, ())
    return spans


def named(path):
    return "parquet" if path.suffix == ".parquet" or list(path.glob("*.parquet")) else "arrow"


@pytest.fixture(autouse=True)
def tracing():
    """Reads are measured one by one, in one use of `tracemalloc` per test, which begins when a file is made."""
    with TRACING:
        yield


TRACING = contextlib.ExitStack()


def everything(path, **options):
    """All that can be read, and what it took of the memory that Arrow and numpy count."""
    TRACING.enter_context(traced())
    before = pa.total_allocated_bytes()
    with little_memory(MEMORY, "reading"):
        reader = registered.opened(path, format=named(path), options=options)
        if hasattr(reader, "texts"):
            for block in reader.blocks(1 << 20):
                for batch in reader.texts(block):
                    del batch
        else:
            reader.offsets(0, reader.info.sequences)
            for start in range(0, reader.info.tokens, 1 << 20):
                reader.tokens(start, min(start + (1 << 20), reader.info.tokens))
    assert pa.total_allocated_bytes() - before < MEMORY


def refused(path, words, kind=FormatError, code=None, **options):
    """Reading is refused in one line; the check finds it, and nothing else gives up."""
    with pytest.raises(kind, match=words) as caught:
        everything(path, **options)
    assert "\n" not in str(caught.value)
    format_ = registered.get(named(path))
    found = [finding.code for finding in format_.audit(path, format_.read_options(**options), _deep())]
    assert found, "the check finds nothing"
    assert code is None or code in found
    for section in format_.sections(path, format_.read_options(**options)):
        section.fields(0, section.count)


def _deep():
    from tokfmt.core.findings import Audit

    return Audit(deep=True)


# Parquet


def test_parquet_cut_anywhere(tmp_path):
    content = parquet(tmp_path / "x.parquet").read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    borders = {4, 5, 12, len(content) - 8 - size, len(content) - 8, len(content) - 4, len(content) - 1}
    for at in sorted(borders | set(range(13, len(content), 37))):
        path = tmp_path / "cut.parquet"
        path.write_bytes(content[:at])
        refused(path, "does not end as Parquet does|length of the footer", code="TF661")


@pytest.mark.parametrize(
    ("damage", "words", "kind"),
    [
        (lambda c: c[:-8] + (2**31 - 1).to_bytes(4, "little") + b"PAR1", "length of the footer", FormatError),
        (lambda c: c[:-8] + bytes(4) + b"PAR1", "footer cannot be read", FormatError),
        (lambda c: c[:4] + b"\x15\x00\x15" + varint(2 * (2**31 - 1)) + c[12:], "states impossible sizes|too large|is cut", FormatError),
        (lambda c: c[:-200] + os.urandom(1) * 190 + c[-10:], "cannot be read", FormatError),
        (lambda c: c[:-4] + b"PARE", "encrypted", UnsupportedError),
        (lambda c: b"PAR1" + b"\x19\xfc" + varint(2**31) + b"\x19\xfc\x15".ljust(40, b"\x1c") + (46).to_bytes(4, "little") + b"PAR1",
         "footer cannot be read", FormatError),
        (lambda c: b"PAR1" + b"\x1c" * 100_000 + (100_000).to_bytes(4, "little") + b"PAR1", "footer cannot be read", FormatError),
    ],
)  # fmt: skip
def test_parquet_damaged(tmp_path, damage, words, kind):
    path = parquet(tmp_path / "x.parquet")
    path.write_bytes(damage(path.read_bytes()))
    refused(path, words, kind)


def test_a_page_that_claims_to_be_large(tmp_path):
    """In the header of the first page the decompressed size is the second field."""
    path = parquet(tmp_path / "x.parquet", table([[7] * 5000]), compression="zstd", use_dictionary=False)
    content = path.read_bytes()
    assert content[4:7] == b"\x15\x00\x15"
    end = next(at for at in range(7, 20) if content[at] < 128) + 1
    path.write_bytes(content[:7] + varint(2 * ((1 << 28) + 1)) + content[end:])
    refused(path, "a page is too large", UnsafeError, code="TF667")


@pytest.mark.parametrize("rows", first(1, [[1, 40_000_000, 1], [40_000_000]]))
def test_values_that_few_bytes_hold(tmp_path, rows):
    """40 million ids in a few thousand bytes: one row alone would take 300 MB and more."""
    ids = pa.array(np.zeros(sum(rows), np.int64))
    lists = pa.LargeListArray.from_arrays(pa.array(np.cumsum([0, *rows])), ids)
    path = parquet(tmp_path / "x.parquet", pa.table({"input_ids": lists}), compression="zstd")
    assert path.stat().st_size < 20_000
    refused(path, "(values|IDs) in a column of .* bytes", UnsafeError, "TF667")


def test_rows_that_are_not_there(tmp_path):
    path = parquet(tmp_path / "x.parquet", table([[1]] * 40))
    content = path.read_bytes()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
    for count in (41, 2**20):  # rows of the file, and of its row group
        damaged = footer.replace(varint(80), varint(2 * count))
        assert damaged != footer
        path.write_bytes(content[: -8 - len(footer)] + damaged + len(damaged).to_bytes(4, "little") + b"PAR1")
        refused(path, "rows|cannot be read|values")


def test_rows_without_end(tmp_path):
    """Empty rows take next to nothing, and the length of each is kept in 8 bytes."""
    empty = pa.LargeListArray.from_arrays(np.zeros((1 << 24) + 2, np.int64), pa.array([], pa.int32()))
    data = pa.table({"input_ids": empty})
    path = parquet(tmp_path / "x.parquet", data, compression="zstd", row_group_size=1 << 23)
    assert path.stat().st_size < 100_000
    refused(path, "rows in .* bytes: expected at most 16,777,216, found 16,777,217", UnsafeError, "TF667")
    path = stream(tmp_path / "x.arrow", data, batch=1 << 20, compression="zstd")
    refused(path, "rows in .* bytes", UnsafeError, "TF687")


def test_a_deep_schema(tmp_path):
    kind = pa.int32()
    for _ in range(120):
        kind = pa.struct({"a": kind})
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"deep": pa.nulls(1, kind)}), path)
    refused(path, "cannot be read", code="TF661")


def test_checksums_of_pages_are_compared(tmp_path):
    path = parquet(
        tmp_path / "x.parquet", table([[7] * 500]), write_page_checksum=True, use_dictionary=False, compression="none"
    )
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    refused(path, "cannot be read.*[Cc][Rr][Cc]", code="TF661")


def test_names_of_columns_are_made_printable(tmp_path):
    path = parquet(tmp_path / "x.parquet", pa.table({"a\x1b[2J\n\u202e": [1.5]}))
    refused(path, r"no column of IDs .* a\\x1b\[2J\\n\\u202e: double", UnsupportedError, "TF662")


def test_two_columns_of_one_name(tmp_path):
    data = pa.Table.from_arrays(
        [pa.array(IDS, pa.list_(pa.int32())), pa.array(IDS, pa.list_(pa.int32()))], names=["input_ids"] * 2
    )
    for path in (parquet(tmp_path / "x.parquet", data), stream(tmp_path / "x.arrow", data)):
        refused(path, "no column of IDs", UnsupportedError)


def test_a_shard_that_is_missing(tmp_path):
    for k in (0, 2):
        parquet(tmp_path / f"train-{k:05d}-of-00003.parquet")
    with pytest.raises(FormatError, match="lacks train-00001-of-00003.parquet of 3 files"):
        everything(tmp_path)


def test_files_of_one_folder_may_differ(tmp_path):
    """datasets itself refuses that: other widths and kinds of lists, other columns, no rows at all."""
    kinds = [pa.list_(pa.int16()), pa.large_list(pa.uint32()), pa.list_(pa.int64()), pa.list_(pa.uint8())]
    rows = [IDS, [[70_000]], [], [[200]]]
    for k, (kind, values) in enumerate(zip(kinds, rows, strict=True)):
        data = table(values, kind=kind)
        parquet(tmp_path / f"{k}.parquet", data.add_column(0, "id", pa.array(range(len(values)))) if k else data)
    reader = tokfmt.open(tmp_path).reader
    assert reader.tokens(0, reader.info.tokens).tolist() == [1, 2, 3, 4, 5, 6, 70_000, 200]
    assert reader.offsets(0, 6).tolist() == [0, 3, 4, 4, 6, 7, 8]
    parquet(tmp_path / "9.parquet", pa.table({"input_ids": ["text"]}))
    refused_folder = pytest.raises(
        FormatError, match='9.parquet: has no column "input_ids" of IDs, as 0.parquet has: found string'
    )
    with refused_folder:
        everything(tmp_path)


# Arrow


def test_a_stream_cut_anywhere(tmp_path):
    content = stream(tmp_path / "x.arrow").read_bytes()
    assert content.endswith(END)
    path = tmp_path / "cut.arrow"
    for at in [8, 40, *range(48, len(content), 8), len(content) - 1]:
        path.write_bytes(content[:at])
        refused(path, "no end marker|does not begin with a schema|cannot be read", code="TF681")
    path.write_bytes(content[:-8])
    reader = tokfmt.open(path, allow_loss=["tail"]).reader
    assert reader.tokens(0, 6).tolist() == [1, 2, 3, 4, 5, 6]


def test_a_file_cut_anywhere(tmp_path):
    path = tmp_path / "x.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table().schema) as out:
        out.write_table(table(), max_chunksize=2)
    content = path.read_bytes()
    everything(path)
    for at in [10, *range(16, len(content), 24), len(content) - 1]:
        path.write_bytes(content[:at])
        refused(path, "end marker|schema|cannot be read|no message", code="TF681")


def arrow_file(path, batch=1):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table().schema) as out:
        out.write_table(table(), max_chunksize=batch)
    return path


def test_a_file_is_read_by_its_footer(tmp_path):
    """Polars 2 writes the first schema without a frame, and others no end marker: both are in the footer alone."""
    content = arrow_file(tmp_path / "x.arrow").read_bytes()
    schema, batch = (content.index(b"\xff" * 4, at) for at in (0, 9))
    for name, changed in {
        "frame": content[:schema] + content[schema + 8 : batch] + bytes(8) + content[batch:],
        "marker": content.replace(END, bytes(8)),
    }.items():
        path = tmp_path / f"{name}.arrow"
        path.write_bytes(changed)
        assert pa.ipc.open_file(path).read_all()["input_ids"].to_pylist() == IDS
        with tokfmt.open(path) as dataset:
            assert [one.tolist() for one in dataset] == IDS
        assert tokfmt.check(path, deep=True)[0].findings == []


@pytest.mark.parametrize("kind", [arrow_file, lambda path: stream(path, batch=1)], ids=["file", "stream"])
def test_a_damaged_batch_has_its_byte_and_what_is_before_it_is_saved(kind, tmp_path):
    """Each lowest bit of the third batch: in its frame, its metadata, and its body."""
    content = kind(tmp_path / "x.arrow").read_bytes()
    begins = [at for at in range(8, len(content)) if content[at : at + 4] == b"\xff" * 4 and content[at + 4]]
    third, fourth = [at for at in begins if at > 8][2:4]
    path, found = tmp_path / "bad.arrow", 0
    for at in range(third, fourth):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        try:
            read = [one.tolist() for one in tokfmt.open(path)]
        except UnsafeError:  # a claim of many rows is not damage
            continue
        except FormatError as error:
            found += 1
            assert re.search(r"at byte [\d,]+", str(error)), at
            assert [f.severity for f in tokfmt.check(path, deep=True)[0].findings][:1] == ["error"], at
            with tokfmt.open(path, allow_partial=True) as dataset:
                assert [one.tolist() for one in dataset][:2] == IDS[:2], at
        else:
            assert read[:2] == IDS[:2], at
    assert found > 20


def body(content):
    """Where the body of the last record batch begins."""
    at = 0
    while (length := int.from_bytes(content[at + 4 : at + 8], "little")) and content[at : at + 4] == b"\xff" * 4:
        metadata = content[at + 8 : at + 8 + length]
        message = pa.ipc.read_message(content[at:])
        last, size = at + 8 + length, len(message.body) if message.body else 0
        at += 8 + len(metadata) + size
    return last


def patched(path, at, value, width=4):
    content = bytearray(path.read_bytes())
    content[at : at + width] = value.to_bytes(width, "little", signed=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("value", [2**31 - 1, -1, 1 << 20])
def test_offsets_of_lists_that_leave_their_values(tmp_path, value):
    path = stream(tmp_path / "x.arrow", batch=4)
    refused(patched(path, body(path.read_bytes()) + 4, value), "cannot be read", code="TF681")


@pytest.mark.parametrize("length", [2**31 - 8, -8, 7])
def test_a_message_of_absurd_length(tmp_path, length):
    path = stream(tmp_path / "x.arrow")
    refused(patched(path, 4, length), "schema|no message|cannot be read|end marker")


def test_a_batch_that_claims_rows(tmp_path):
    """The rows of a batch are a number of 8 bytes in its metadata."""
    path = stream(tmp_path / "x.arrow", table([[9]] * 77), batch=77)
    content = path.read_bytes()
    begin = content.index(b"\xff\xff\xff\xff", 8)
    at = content.index((77).to_bytes(8, "little"), begin)
    for claimed in (1 << 60, 1 << 40, 78):
        refused(patched(path, at, claimed, 8), "rows in record batch|cannot be read", code=None)


def test_a_buffer_that_claims_bytes(tmp_path):
    """Each compressed buffer begins with the size that it decompresses to."""
    path = stream(tmp_path / "x.arrow", table([[9] * 3000]), batch=4, compression="zstd")
    at = body(path.read_bytes())
    for claimed in (1 << 40, (1 << 62) - 1):
        refused(patched(path, at, claimed, 8), "bytes of the buffer at byte", UnsafeError, "TF687")
    refused(patched(path, at, 1 << 20, 8), "cannot be read", code="TF681")


@pytest.mark.parametrize(("element", "repetition"), [(1, 0), (3, 0), (3, 4)])
def test_a_schema_that_statistics_of_sizes_contradict(tmp_path, element, repetition):
    """Where pyarrow 26 ends the process when it is asked for the column."""
    path = parquet(tmp_path / "x.parquet")
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    begin, _ = spans_of(content[-8 - length : -8])[2, element, 3]
    refused(
        patched(path, len(content) - 8 - length + begin, repetition, 1),
        "size statistics of the column",
        code="TF661",
    )


@pytest.mark.parametrize("number", [0, 3, 5])  # zigzag: BOOLEAN, and two that are no types
def test_a_type_of_a_column_that_the_schema_contradicts(tmp_path, number):
    """Where pyarrow 26 ends the process when it is asked for the statistics."""
    path = parquet(tmp_path / "x.parquet")
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    begin, _ = spans_of(content[-8 - length : -8])[4, 0, 1, 0, 3, 1]
    refused(
        patched(path, len(content) - 8 - length + begin, number, 1), "type of the column|cannot be read", code="TF661"
    )


def test_row_groups_without_all_columns(tmp_path):
    path = parquet(tmp_path / "x.parquet")
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    spans = spans_of(content[-8 - length : -8])
    assert (4, 0, 1, 1) not in spans
    begin, end = spans[4, 0, 1, 0]
    at = len(content) - 8 - length
    less = content[: at + begin - 1] + b"\x0c" + content[at + end : -8]  # a list of no structs
    path.write_bytes(less + (len(less) - at).to_bytes(4, "little") + b"PAR1")
    refused(path, "column chunks of row group 0: expected 1, found 0|cannot be read", code="TF661")


@pytest.mark.parametrize("kind", [pa.uint8(), pa.int32(), pa.int64()], ids=str)
def test_many_ids_in_few_bytes(tmp_path, kind):
    """A list of zeros, as Parquet refuses it too: it would take thousands of times the memory of its file."""
    many = (1 << 24) + 1
    ids = pa.array(np.zeros(many, kind.to_pandas_dtype()))
    rows = pa.table({"input_ids": pa.ListArray.from_arrays([0, many], ids)})
    path = stream(tmp_path / "x.arrow", rows, batch=4, compression="zstd")
    assert path.stat().st_size < 20_000
    refused(path, "bytes of the buffer at byte .* when it is decompressed|values in a column", UnsafeError, "TF687")


def test_a_deep_arrow_schema(tmp_path):
    kind = pa.int32()
    for _ in range(60):
        kind = pa.list_(kind)
    path = stream(tmp_path / "x.arrow", pa.table({"deep": pa.nulls(1, kind)}))
    refused(path, "no column of IDs|cannot be read")


def test_no_extension_type_is_unpickled(tmp_path):
    """What ran code in pyarrow before 14.0.1: a type whose metadata is a pickle."""
    mark = tmp_path / "executed"

    class Mark:
        def __reduce__(self):
            return os.mkdir, (str(mark),)

    about = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": pickle.dumps(Mark())}
    field = pa.field("input_ids", pa.list_(pa.int32()), metadata=about)
    data = pa.table([pa.array(IDS, pa.list_(pa.int32()))], schema=pa.schema([field]))
    for path in (stream(tmp_path / "x.arrow", data), parquet(tmp_path / "x.parquet", data)):
        everything(path)
        assert tokfmt.open(path).reader.info.sequences == 4
    assert not mark.exists()


def saved(home, names, **more):
    home.mkdir()
    state = {"_data_files": [{"filename": name} for name in names], **more}
    (home / "state.json").write_text(json.dumps(state))
    (home / "dataset_info.json").write_text("{}")
    return home


@pytest.mark.parametrize("name", ["../out.arrow", "/etc/passwd", "", "..", "a\0b", 7, None])
def test_names_that_leave_the_folder(tmp_path, name):
    stream(tmp_path / "out.arrow")
    with pytest.raises(TokfmtError, match="names"):
        everything(saved(tmp_path / "saved", [name]))
    (tmp_path / "dict").mkdir()
    (tmp_path / "dict" / "dataset_dict.json").write_text(json.dumps({"splits": [name]}))
    with pytest.raises(TokfmtError, match="names"):
        everything(tmp_path / "dict")
    format_ = registered.get("arrow")
    assert next(f.code for f in format_.audit(tmp_path / "saved", format_.read_options())) in ("TF687", "TF681")


def test_links_that_leave_the_folder(tmp_path):
    stream(tmp_path / "out.arrow")
    home = saved(tmp_path / "saved", ["data.arrow"])
    (home / "data.arrow").symlink_to(tmp_path / "out.arrow")
    with pytest.raises(UnsafeError, match="symbolic link"):
        everything(home)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"_data_files": 7}',
        b'{"_data_files": []}',
        b"[" * 100_000,
        b'{"_data_files": ["a"]}',
        b"\xff\xfe",
    ],
)
def test_state_that_is_none(tmp_path, content):
    home = saved(tmp_path / "saved", [])
    (home / "state.json").write_bytes(content)
    refused(home, "JSON|_data_files|no such file|list|nested|names", code=None)


def test_order_of_state_counts_and_caches_are_left_out(tmp_path):
    home = saved(tmp_path / "saved", ["b.arrow", "a.arrow"])
    stream(home / "a.arrow", table([[1]]))
    stream(home / "b.arrow", table([[2]]))
    stream(home / "cache-0123abcd.arrow", table([[3]]))
    reader = tokfmt.open(home).reader
    assert reader.tokens(0, 2).tolist() == [2, 1]


def test_a_folder_that_lost_its_state(tmp_path):
    home = saved(tmp_path / "saved", ["data-00000-of-00001.arrow"])
    stream(home / "data-00000-of-00001.arrow")
    (home / "state.json").unlink()
    refused(home, r"state\.json: no such file, although dataset_info\.json exists", code="TF681")


def test_sniffing_imports_no_pyarrow():
    import subprocess
    import sys

    program = (
        "import sys; from tokfmt import registry; registry.list_formats();"
        f"print(registry.detect({str(FIXTURES / 'parquet' / 'int32.parquet')!r}).name,"
        f" registry.detect({str(FIXTURES / 'parquet' / 'save_to_disk')!r}).name, 'pyarrow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["parquet", "arrow", "False"]


# dictionaries of ids, files that disagree, and what stands where none is looked for


LISTS = pa.DictionaryArray.from_arrays(
    pa.array([0, 1, None, 2, 0, 3], pa.int8()), pa.array([[1, 2, 3], [4], [], None], pa.list_(pa.int32()))
)
ROWS = [[1, 2, 3], [4], None, [], [1, 2, 3], None]


def in_dictionaries():
    flat = pa.array([1, 2, 3, 4, 1, 2, 3], pa.uint16()).dictionary_encode()
    inner = pa.ListArray.from_arrays(pa.array([0, 3, 4, 4, 7], pa.int32()), flat)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array([5, 6, 7, 8], pa.int64()), 2)
    return {
        "lists": (LISTS, [row or [] for row in ROWS]),
        "ids": (inner, [[1, 2, 3], [4], [], [1, 2, 3]]),
        "both": (pa.DictionaryArray.from_arrays(pa.array([3, 1, 2]), inner), [[1, 2, 3], [4], []]),
        "fixed": (pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), fixed), [[7, 8], [5, 6], [7, 8]]),
        "in a struct": (pa.StructArray.from_arrays([inner], ["ids"]), [[1, 2, 3], [4], [], [1, 2, 3]]),
    }


@pytest.mark.parametrize("kind", ["lists", "ids", "both", "fixed", "in a struct"])
@pytest.mark.parametrize("batch", [1, 4, 100])
def test_ids_in_dictionaries(tmp_path, kind, batch):
    array, rows = in_dictionaries()[kind]
    path = stream(tmp_path / "x.arrow", pa.table({"tokens": array}), batch=batch)
    options = {"column": "tokens.ids"} if kind == "in a struct" else {}
    reader = tokfmt.open(path, allow_loss=["null-rows"], options=options).reader
    bounds = reader.offsets(0, reader.info.sequences).tolist()
    assert [reader.tokens(a, b).tolist() for a, b in zip(bounds, bounds[1:], strict=False)] == rows
    assert reader.info.dtype.itemsize == (2 if kind in ("ids", "both", "in a struct") else 4)
    if kind == "lists":
        refused(path, "row (0|1|2) of record batch (0|2) is NULL", code="TF683")
    if kind == "fixed":
        assert reader.info.extras["variant"] == "blocks"


def test_ids_in_dictionaries_that_are_none(tmp_path):
    flat = pa.array([1, None, -7]).dictionary_encode()
    path = stream(tmp_path / "x.arrow", pa.table({"input_ids": pa.ListArray.from_arrays([0, 2, 3], flat)}))
    refused(path, "row 0 .* NULL among its IDs", code="TF684")
    floats = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([[1.5]]))
    path = stream(tmp_path / "x.arrow", pa.table({"input_ids": floats}))
    refused(path, 'column "input_ids" is not a list of IDs', UnsupportedError, code="TF682")


def test_a_list_that_stands_for_many_rows(tmp_path):
    """One list of a million ids, and rows that are it: a few are decoded at once, and what no bytes hold is a bomb."""
    long = pa.array([np.arange(1_000_000, dtype=np.int32)])
    for rows, bomb in ((100, False), (40_000, True)):
        array = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), long)
        path = stream(tmp_path / "x.arrow", pa.table({"input_ids": array}), batch=rows)
        if bomb:
            refused(path, "IDs in record batch 0 of .* bytes", UnsafeError, "TF687")
        else:
            everything(path)
            assert tokfmt.open(path).reader.info.tokens == rows * 1_000_000


def packed(path, masks, starts, ids=((1, 2, 3), (4, 5))):
    kinds = {"input_ids": pa.int32(), "loss_mask": pa.int8(), "seq_start_id": pa.int32()}
    values = (list(map(list, ids)), masks, starts)
    arrays = (pa.array(v, pa.list_(kind)) for v, kind in zip(values, kinds.values(), strict=True))
    return parquet(path, pa.table(dict(zip(kinds, arrays, strict=True))))


@pytest.mark.parametrize(
    ("masks", "starts", "words"),
    [
        (
            [[1, 1, 0, 1, 1, 0], [1, 0, 1, 0]],
            [[0, 2], [0]],
            "row 0 .* loss_mask of another length: expected 3, found 6",
        ),
        ([[1, 1, 0], [1]], [[0, 2], [0]], "row 1 .* loss_mask of another length: expected 2, found 1"),
        ([[1, 1, 0], []], [[0, 2], [0]], "row 1 .* loss_mask of another length: expected 2, found 0"),
        ([[1, 1, 0], [1, None]], [[0, 2], [0]], "row 1 .* has a NULL in its loss_mask"),
        ([[1, 1, 0], [1, 0]], [[0, 2], [None]], "row 1 .* has a NULL in its seq_start_id"),
        ([[1, 1, 0], [1, 0]], [[0, 2], []], "row 1 .* has no seq_start_id"),
    ],
)
def test_masks_that_do_not_fit(tmp_path, masks, starts, words):
    refused(packed(tmp_path / "x.parquet", masks, starts), words, code="TF665")


def test_rows_without_a_mask_or_starts_are_one_document_that_counts(tmp_path):
    with tokfmt.open(packed(tmp_path / "x.parquet", [[0, 1, 0], None], [[0, 2], None])) as dataset:
        assert dataset[:].tolist() == [[1, 2], [3], [4, 5]]
        assert dataset.reader.marks(0, 5).tolist() == [0, 0, 0, 1, 1]
        assert any("1 row of 2 have no loss_mask" in note for note in dataset.notes)


def test_labels_that_do_not_fit(tmp_path):
    for labels, words in (
        ([[1, None, 3], [4]], "row 0 .* has a NULL in its labels"),
        ([[1, 2, 3], [4, 5]], "another length: expected 1, found 2"),
    ):
        rows = (pa.array(one, pa.list_(pa.int32())) for one in ([[1, 2, 3], [4]], labels))
        refused(parquet(tmp_path / "x.parquet", pa.table(dict(zip(("input_ids", "labels"), rows, strict=True)))), words)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("other", ["packed", "labels", "tokens", "floats", "text", "texts"])
def test_files_of_one_folder_that_disagree(tmp_path, other, order):
    """The file and the column are named in the same words by reading and by the check, whichever is first."""
    first, second = [tmp_path / "a.parquet", tmp_path / "b.parquet"][::order]
    parquet(first)
    words = {
        "packed": 'has no column "(loss_mask|seq_start_id)" of IDs', "labels": 'has no column "labels" of IDs',
        "tokens": 'has no column "(tokens|input_ids)" of IDs', "floats": 'column "input_ids"',
        "text": "has no column", "texts": "has no column|has several columns of text",
    }[other]  # fmt: skip
    ids = pa.array(IDS, pa.list_(pa.int32()))
    if other == "packed":
        packed(second, [[1, 1, 0], [1, 0]], [[0, 2], [0]])
    else:
        parquet(second, pa.table({
            "labels": {"input_ids": ids, "labels": ids}, "tokens": {"tokens": ids},
            "floats": {"input_ids": [[1.5]]}, "text": {"text": ["a"]}, "texts": {"a": ["a"], "b": ["b"]},
        }[other]))  # fmt: skip
    refused(tmp_path, words)
    with pytest.raises(FormatError, match=words) as caught:
        everything(tmp_path)
    format_ = registered.get("parquet")
    found = [finding.message for finding in format_.audit(tmp_path, format_.read_options())]
    assert found == [caught.value.statement]
    assert caught.value.path.endswith((first.name, second.name))


def test_a_split_that_is_missing(tmp_path):
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    stream(saved(tmp_path / "train", ["data.arrow"]) / "data.arrow")
    words = 'dataset_dict.json: lists the split "test", which is missing'
    for options in ({}, {"split": "train"}, {"split": "test"}):
        refused(tmp_path, words, code="TF681", **options)


# texts, and what stands around streams


def test_a_text_that_stands_for_many_rows(tmp_path):
    """A dictionary of one text of 1 MB, and 200,000 rows that are it: 200 GB, of which a little is held at once."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200_000, np.int8)), pa.array(["x" * 1_000_000]))
    for data, how in (
        (pa.table({"text": text}), {}),
        (pa.table({"text": text}).slice(0, 2000), {"store_schema": False}),
    ):
        path = parquet(tmp_path / "x.parquet", data, **how)
        assert path.stat().st_size < 200_000
        reader = registered.opened(path)
        seen = 0
        for batch in reader.texts(reader.blocks(1)[0]):
            seen += len(batch.texts)
            assert pa.total_allocated_bytes() < 2 * MEMORY
            assert batch.texts[-1] == "x" * 1_000_000
            if seen > 1000:
                break


@pytest.mark.parametrize("compression", ["snappy", "gzip", "brotli", "zstd", "lz4", "none"])
def test_texts_that_stand_for_many_rows_are_given_a_few_at_a_time(tmp_path, compression):
    """Of a dictionary of 1 MB, or of one text that short ones surround."""
    texts = ["x" * 1_000_000, *(str(k) for k in range(50))]
    data = pa.table({"text": pa.DictionaryArray.from_arrays(pa.array(np.zeros(400, np.int8)), pa.array(texts))})
    for path in (
        parquet(tmp_path / "x.parquet", data, compression=compression),
        stream(tmp_path / "x.arrow", data, batch=400),
    ):
        reader = registered.opened(path)
        batches = [batch.texts for batch in reader.texts(reader.blocks(1)[0])]
        assert sum(map(len, batches)) == 400
        assert max(sum(map(len, batch)) for batch in batches) < 6_000_000


@pytest.mark.parametrize("dictionary", first(1, [True, False]))
def test_a_page_that_decompresses_to_too_much(tmp_path, dictionary):
    data = pa.table({"text": ["a" * 140_000_000]})
    path = parquet(tmp_path / "x.parquet", data, compression="zstd", use_dictionary=dictionary)
    assert path.stat().st_size < 20_000
    refused(path, "bytes of the page at byte 4, when it is decompressed, .* at most 134,217,728", UnsafeError, "TF667")


def test_text_that_is_not_utf8_in_a_column_of_strings(tmp_path):
    """Arrow takes any bytes for a string that it reads."""
    path = parquet(
        tmp_path / "x.parquet",
        pa.table({"text": ["one", "tw\u00f6", "three"]}),
        compression="none",
        use_dictionary=False,
    )
    path.write_bytes(path.read_bytes().replace("tw\u00f6".encode(), b"tw\xff\xff"))
    refused(path, "row 1 of row group 0 is not UTF-8 at byte 2", code="TF666")


def test_offsets_of_texts_that_leave_their_bytes(tmp_path):
    path = stream(tmp_path / "x.arrow", pa.table({"text": ["one", "two", "three"]}), batch=4)
    refused(patched(path, body(path.read_bytes()) + 4, 2**31 - 1), "cannot be read", code="TF681")


def test_a_dictionary_that_stands_for_many_rows(tmp_path):
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int8)), pa.array(["x" * 1_000_000]))
    path = stream(tmp_path / "x.arrow", pa.table({"text": text}), batch=1 << 20)
    everything(path)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *more, **how):
        if name.split(".")[0] == "pyarrow":
            raise ImportError(name)
        return real(name, *more, **how)

    path = parquet(tmp_path / "x.parquet")
    monkeypatch.setattr(builtins, "__import__", without)
    assert registered.detect(path).name == "parquet"
    with pytest.raises(TokfmtError, match=r"needs the package pyarrow: pip install pyarrow"):
        tokfmt.open(path)


def test_bytes_behind_the_end_of_a_stream(tmp_path):
    """Two streams in one file, as `cat` joins them: only the first is read, which is said."""
    path = stream(tmp_path / "x.arrow")
    content, format_ = path.read_bytes(), registered.get("arrow")
    assert not registered.opened(path).info.notes
    assert not list(format_.audit(path, format_.read_options()))
    for more in (content, b"\0"):
        path.write_bytes(content + more)
        reader = registered.opened(path)
        said = f"x.arrow: continues after its end marker at byte {len(content):,}: found {len(more):,} bytes? that no reader reads"
        assert reader.info.tokens == 6
        assert re.match(said, reader.info.notes[0])
        (finding,) = format_.audit(path, format_.read_options())
        assert (finding.code, finding.offset) == ("TF681", len(content))
    text = stream(tmp_path / "t.arrow", pa.table({"text": ["a"]}))
    text.write_bytes(text.read_bytes() + b"more")
    assert "after its end marker" in registered.opened(text).info.notes[0]
    assert [finding.code for finding in format_.audit(text, format_.read_options())] == ["TF681"]


@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_streams_before_1_0(tmp_path, new):
    """Messages without FFFFFFFF in front: recognised, and refused by name."""
    path = tmp_path / "x.arrow"
    options = pa.ipc.IpcWriteOptions(use_legacy_format=True)
    with pa.OSFile(str(path), "wb") as sink, new(sink, table().schema, options=options) as out:
        out.write_table(table())
    assert registered.detect(path).name == "arrow"
    refused(path, "Arrow of a version before 1.0.* Write it again", code="TF681")
