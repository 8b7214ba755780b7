"""Writing JSON lines: ids as text, texts through a decoder, long sequences, parts."""

import json
import tracemalloc

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.core.errors import ConversionError, OptionError, TokenRangeError
from tokfmt.core.format import Target
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import Info, Layout
from tokfmt.formats.jsonl import FORMAT
from tokfmt.formats.jsonl import writer as jsonl_writer
from tokfmt.formats.jsonl.options import WriteOptions
from tokfmt.formats.jsonl.writer import ids_lines
from tokfmt.plugin import TokenReader
from tokfmt.run.execute import SerialExecutor
from tokfmt.run.plan import Workers, plan, run


def write(path, source, size=1 << 24, decoder=None, **options):
    source = MemoryReader(source) if isinstance(source, Ragged) else source
    traits = FORMAT.writer_traits(WriteOptions(**options))
    writer = FORMAT.writer(path, WriteOptions(**options), Target(decoder=decoder))
    assert not (
        traits.needs_eos
        or traits.separators.separated
        or writer.wants_max_id(source)
        or traits.lost(source, frozenset())
    )
    receipts = list(run(plan(source, writer, size), Workers(SerialExecutor(), 1, path.parent)))
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    return path.read_bytes(), receipts


def test_rendering_in_many_steps(monkeypatch):
    monkeypatch.setattr(jsonl_writer, "_AT_ONCE", 7)
    rng = np.random.default_rng(3)
    sequences = [rng.integers(0, 10 ** rng.integers(1, 10), rng.integers(0, 30)).tolist() for _ in range(40)]
    data = Ragged.of(sequences)
    lines = ids_lines(data.tokens, data.offsets, b"", b"\n")
    assert lines.decode() == "".join(f"{s}\n" for s in sequences)


def test_no_sequences_give_an_empty_file(tmp_path):
    assert write(tmp_path / "x.jsonl", Ragged.of([])) == (b"", [])


def test_receipts(tmp_path):
    content, receipts = write(tmp_path / "x.jsonl", Ragged.of([[1, 2], [], [70_000], [5] * 40]), size=3)
    assert content.decode().splitlines() == [json.dumps({"input_ids": s}) for s in ([1, 2], [], [70_000], [5] * 40)]
    assert {receipt.region: receipt.max_id for receipt in receipts} == {0: 70_000, 1: 5}
    assert sum(receipt.written for receipt in receipts) == len(content)


def test_an_id_too_large_is_named_with_its_position(tmp_path):
    data = Ragged.of([[1], [2, 2**32]], np.dtype(np.uint64))
    with pytest.raises(
        TokenRangeError, match=r"jsonl: token ID 4,294,967,296 at position 2 is outside 0\.\.4,294,967,295"
    ):
        write(tmp_path / "x.jsonl", data)


class Long(TokenReader):
    """One sequence of many tokens, between two short ones, made as they are asked for."""

    tokens_in_all = 6 << 20

    info = Info(Layout.DOCUMENTS, np.dtype(np.uint32), 3, tokens_in_all)

    def offsets(self, first, last):
        return np.array([0, 2, self.tokens_in_all - 1, self.tokens_in_all])[first : last + 1]

    def tokens(self, start, stop):
        assert stop - start <= 1 << 20
        return (np.arange(start, stop) % 50_257).astype(np.uint32)

    def close(self):
        pass


def test_a_long_sequence_is_written_in_windows(tmp_path):
    write(tmp_path / "warm.jsonl", Ragged.of([[10**6, 5]]))
    (tmp_path / "warm.jsonl").unlink()
    tracemalloc.start()
    content, _ = write(tmp_path / "x.jsonl", Long(), size=1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    found = [json.loads(line)["input_ids"] for line in content.splitlines()]
    total = Long.tokens_in_all
    assert [len(s) for s in found] == [2, total - 3, 1]
    assert np.array_equal(np.concatenate(found), np.arange(total) % 50_257)
    assert peak < len(content) + (48 << 20)


class Chars:
    """One character an id."""

    def decode(self, tokens):
        return "".join(map(chr, tokens))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=8), st.sampled_from([1, 5, 100])
)
def test_text(tmp_path_factory, texts, size):
    home = tmp_path_factory.mktemp("x")
    content, _ = write(home / "x.jsonl", Ragged.of([list(map(ord, text)) for text in texts]), size, Chars())
    assert content.count(b"\n") == len(texts)
    assert [json.loads(line) for line in content.decode("utf-8").split("\n")[:-1]] == [{"text": text} for text in texts]


def test_text_looks_like_this(tmp_path):
    content, _ = write(tmp_path / "x.jsonl", Ragged.of([list(map(ord, 'Zürich "\n\u2028'))]), decoder=Chars())
    assert content.decode() == '{"text": "Zürich \\"\\n\u2028"}\n'
    (tmp_path / "x.jsonl").unlink()
    content, _ = write(tmp_path / "x.jsonl", Ragged.of([[97]]), decoder=Chars(), text_field=".meta.the text")
    assert content == b'{"meta": {"the text": "a"}}\n'
    with pytest.raises(OptionError, match="is not a field"):
        write(tmp_path / "y.jsonl", Ragged.of([[97]]), ids_field="a..b")


def test_a_lone_surrogate_is_no_text(tmp_path):
    with pytest.raises(ConversionError, match=r"x\.jsonl: the tokenizer decodes sequence 1 to a lone surrogate"):
        write(tmp_path / "x.jsonl", Ragged.of([[97], [0xD800]]), decoder=Chars())


def test_errors_of_the_decoder_come_through(tmp_path):
    class Fails:
        def decode(self, tokens):
            raise TokenRangeError("gpt2", 50_257, 50_256, 3)

    with pytest.raises(TokenRangeError, match="gpt2: token ID 50,257"):
        write(tmp_path / "x.jsonl", Ragged.of([[1]]), decoder=Fails())
