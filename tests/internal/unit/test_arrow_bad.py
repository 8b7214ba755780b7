"""Bad Parquet and Arrow: cut, damaged, bombs, names that leave the folder. Each has its message, a code, and little memory."""

import re
import tracemalloc

import numpy as np
import pytest

from tokfmt import registry
from tokfmt.core.errors import FormatError, TokfmtError, UnsafeError
from tokfmt.formats.arrow.container import ParquetContainer
from tokfmt.ops.source.open import open_source

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

IDS = [[1, 2, 3], [4], [], [5, 6]]
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


def named(path):
    return "parquet" if path.suffix == ".parquet" or list(path.glob("*.parquet")) else "arrow"


def everything(path, **options):
    """All that can be read, and what it took of the memory that Arrow and numpy count."""
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    try:
        reader = open_source([path], format=named(path), options=options).reader
        if hasattr(reader, "texts"):
            for block in reader.blocks(1 << 20):
                for batch in reader.texts(block):
                    assert tracemalloc.get_traced_memory()[1] < MEMORY
                    del batch
        else:
            reader.offsets(0, reader.info.sequences)
            for start in range(0, reader.info.tokens, 1 << 20):
                reader.tokens(start, min(start + (1 << 20), reader.info.tokens))
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MEMORY
        assert pa.total_allocated_bytes() - before < MEMORY


def refused(path, words, kind=FormatError, code=None, **options):
    """Reading is refused in one line; the check finds it, and nothing else gives up."""
    with pytest.raises(kind, match=words) as caught:
        everything(path, **options)
    assert "\n" not in str(caught.value)
    format_ = registry.get(named(path))
    found = [finding.code for finding in format_.audit(path, format_.read_options(**options), _deep())]
    assert found, "the check finds nothing"
    assert code is None or code in found
    for section in format_.sections(path, format_.read_options(**options)):
        section.fields(0, section.count)


def _deep():
    from tokfmt.core.findings import Audit

    return Audit(deep=True)


def test_a_text_that_stands_for_many_rows(tmp_path):
    """A dictionary of one text of 1 MB, and 200,000 rows that are it: 200 GB, of which a little is held at once."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200_000, np.int8)), pa.array(["x" * 1_000_000]))
    for data, how in (
        (pa.table({"text": text}), {}),
        (pa.table({"text": text}).slice(0, 2000), {"store_schema": False}),
    ):
        path = parquet(tmp_path / "x.parquet", data, **how)
        assert path.stat().st_size < 200_000
        reader = open_source([path]).reader
        seen = 0
        for batch in reader.texts(reader.blocks(1)[0]):
            seen += len(batch.texts)
            assert pa.total_allocated_bytes() < 2 * MEMORY
            assert batch.texts[-1] == "x" * 1_000_000
            if seen > 1000:
                break


def test_texts_that_stand_for_many_rows_are_given_a_few_at_a_time(tmp_path):
    """Of a dictionary of 1 MB, or of one text that short ones surround."""
    texts = ["x" * 1_000_000, *(str(k) for k in range(50))]
    data = pa.table({"text": pa.DictionaryArray.from_arrays(pa.array(np.zeros(400, np.int8)), pa.array(texts))})
    for path in (parquet(tmp_path / "x.parquet", data), stream(tmp_path / "x.arrow", data, batch=400)):
        reader = open_source([path]).reader
        batches = [batch.texts for batch in reader.texts(reader.blocks(1)[0])]
        assert sum(map(len, batches)) == 400
        assert max(sum(map(len, batch)) for batch in batches) < 6_000_000


@pytest.mark.parametrize("compression", ["snappy", "gzip", "brotli", "zstd", "lz4", "none"])
def test_the_longest_text_of_a_dictionary(tmp_path, compression):
    data = pa.table({"text": ["abc", "defg", ""] * 100})
    container = ParquetContainer(parquet(tmp_path / "x.parquet", data, compression=compression))
    (chunk,) = container.chunks(container.groups[0], ["text"])
    _, at, size, stored = next(container.pages(chunk))
    assert container._longest_word(container.file, chunk, at, size, stored) == 4
    assert container._longest_word(container.file, chunk, at, 1 << 23, stored) == 1 << 23


@pytest.mark.parametrize("dictionary", [False, True])
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
    assert registry.detect(path).name == "parquet"
    with pytest.raises(TokfmtError, match=r"needs the package pyarrow: pip install 'tokfmt\[arrow\]'"):
        open_source([path])


def test_bytes_behind_the_end_of_a_stream(tmp_path):
    """Two streams in one file, as `cat` joins them: only the first is read, which is said."""
    path = stream(tmp_path / "x.arrow")
    content, format_ = path.read_bytes(), registry.get("arrow")
    assert not open_source([path]).reader.info.notes
    assert not list(format_.check(path, format_.read_options()))
    for more in (content, b"\0"):
        path.write_bytes(content + more)
        reader = open_source([path]).reader
        said = f"x.arrow: continues after its end marker at byte {len(content):,}: found {len(more):,} bytes? that no reader reads"
        assert reader.info.tokens == 6
        assert re.match(said, reader.info.notes[0])
        (finding,) = format_.check(path, format_.read_options())
        assert (finding.code, finding.offset) == ("TF681", len(content))
    text = stream(tmp_path / "t.arrow", pa.table({"text": ["a"]}))
    text.write_bytes(text.read_bytes() + b"more")
    assert "after its end marker" in open_source([text]).reader.info.notes[0]
    assert [finding.code for finding in format_.check(text, format_.read_options())] == ["TF681"]


@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_streams_before_1_0(tmp_path, new):
    """Messages without FFFFFFFF in front: recognised, and refused by name."""
    path = tmp_path / "x.arrow"
    options = pa.ipc.IpcWriteOptions(use_legacy_format=True)
    with pa.OSFile(str(path), "wb") as sink, new(sink, table().schema, options=options) as out:
        out.write_table(table())
    assert registry.detect(path).name == "arrow"
    refused(path, "Arrow of a version before 1.0.* Write it again", code="TF681")
