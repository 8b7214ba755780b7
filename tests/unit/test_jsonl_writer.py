"""Writing JSON lines: ids as text, texts through a decoder, long sequences, parts."""

import json
import tracemalloc

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.core.format import Target
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import Info, Layout, TokenReader
from tokfmt.errors import ConversionError, OptionError, TokenRangeError
from tokfmt.formats.jsonl import FORMAT
from tokfmt.formats.jsonl.options import WriteOptions
from tokfmt.formats.jsonl.writer import ids_lines, listed
from tokfmt.testing import write

EDGES = [
    0,
    1,
    9,
    10,
    99,
    100,
    99_999,
    100_000,
    65_535,
    65_536,
    999_999,
    10**6,
    10**6 + 1,
    10**7,
    4_294_000_000,
    2**32 - 1,
]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 300), st.sampled_from(EDGES)), max_size=9),
        max_size=9,
    )
)
def test_ids_are_written_as_json_dumps_does(sequences):
    data = Ragged.of(sequences)
    lines = ids_lines(data.tokens, data.offsets, b'{"input_ids": ', b"}\n")
    assert lines.decode() == "".join(json.dumps({"input_ids": s}) + "\n" for s in sequences)
    assert listed(data.tokens) == str(data.tokens.tolist())[1:-1].encode()


@pytest.mark.parametrize("edge", EDGES)
def test_every_width(edge):
    assert listed(np.array([edge, 5, edge], np.uint64)) == f"{edge}, 5, {edge}".encode()


def test_rendering_in_many_steps():
    rng = np.random.default_rng(3)
    sequences = [rng.integers(0, 10 ** rng.integers(1, 10), rng.integers(0, 9_000)).tolist() for _ in range(40)]
    data = Ragged.of(sequences)
    assert len(data.tokens) > 2 << 16
    lines = ids_lines(data.tokens, data.offsets, b"", b"\n")
    assert lines.decode() == "".join(f"{s}\n" for s in sequences)


def written(path, source, size=1 << 24):
    write(FORMAT, path, source, size=size)
    return path.read_bytes()


def test_no_sequences_give_an_empty_file(tmp_path):
    assert written(tmp_path / "x.jsonl", Ragged.of([])) == b""


def test_regions_are_joined(tmp_path):
    sequences = [[1, 2], [], [70_000], [5] * 40]
    content = written(tmp_path / "x.jsonl", Ragged.of(sequences), size=3)
    assert content.decode().splitlines() == [json.dumps({"input_ids": s}) for s in sequences]


def test_an_id_too_large_is_named_with_its_position(tmp_path):
    data = Ragged.of([[1], [2, 2**32]], np.dtype(np.uint64))
    with pytest.raises(
        TokenRangeError, match=r"jsonl: token ID 4,294,967,296 at position 2 is outside 0\.\.4,294,967,295"
    ):
        written(tmp_path / "x.jsonl", data)


class Long(TokenReader):
    """One sequence of many tokens, between two short ones, made as they are asked for."""

    count = 6 << 20

    info = Info(Layout.DOCUMENTS, np.dtype(np.uint32), 3, count)

    def offsets(self, first, last):
        return np.array([0, 2, self.count - 1, self.count])[first : last + 1]

    def tokens(self, start, stop):
        assert stop - start <= 1 << 20
        return (np.arange(start, stop) % 50_257).astype(np.uint32)

    def close(self):
        pass


def test_a_long_sequence_is_written_in_windows(tmp_path):
    written(tmp_path / "warm.jsonl", Ragged.of([[10**6, 5]]))
    tracemalloc.start()
    content = written(tmp_path / "x.jsonl", Long(), size=1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    found = [json.loads(line)["input_ids"] for line in content.splitlines()]
    assert [len(s) for s in found] == [2, Long.count - 3, 1]
    assert np.array_equal(np.concatenate(found), np.arange(Long.count) % 50_257)
    assert peak < len(content) + (48 << 20)


class Chars:
    """A decoder of one character per ID."""

    def decode(self, tokens):
        return "".join(map(chr, tokens))


def decoded(path, texts, size=1 << 24, decoder=None, **options):
    """Write texts through a decoder, region by region."""
    source, parsed = MemoryReader(Ragged.of([list(map(ord, text)) for text in texts])), WriteOptions(**options)
    FORMAT.writer_traits(parsed)
    writer = FORMAT.writer(path, parsed, Target(decoder=decoder or Chars()))
    regions = writer.regions(source, size)
    writer.create(source)
    writer.commit(source, [writer.write(region, source) for region in regions])
    return path.read_bytes()


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=8), st.sampled_from([1, 5, 100])
)
def test_text(tmp_path_factory, texts, size):
    content = decoded(tmp_path_factory.mktemp("x") / "x.jsonl", texts, size)
    assert [json.loads(line) for line in content.decode("utf-8").split("\n")[:-1]] == [{"text": text} for text in texts]


def test_text_looks_like_this(tmp_path):
    content = decoded(tmp_path / "x.jsonl", ['Zürich "\n\u2028'])
    assert content.decode() == '{"text": "Zürich \\"\\n\u2028"}\n'
    content = decoded(tmp_path / "y.jsonl", ["a"], text_field=".meta.the text")
    assert content == b'{"meta": {"the text": "a"}}\n'
    with pytest.raises(OptionError, match="is not a field"):
        decoded(tmp_path / "z.jsonl", ["a"], ids_field="a..b")


def test_a_lone_surrogate_is_no_text(tmp_path):
    with pytest.raises(ConversionError, match=r"x\.jsonl: the tokenizer decodes sequence 1 to a lone surrogate"):
        decoded(tmp_path / "x.jsonl", ["a", "\ud800"])


def test_errors_of_the_decoder_come_through(tmp_path):
    class Fails:
        def decode(self, tokens):
            raise TokenRangeError("gpt2", 50_257, 50_256, 3)

    with pytest.raises(TokenRangeError, match="gpt2: token ID 50,257"):
        decoded(tmp_path / "x.jsonl", ["a"], decoder=Fails())
