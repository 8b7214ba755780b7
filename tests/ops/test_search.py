"""Searches of sequences against plain Python."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from amount import examples, first
from hypothesis import given, settings
from hypothesis import strategies as st
from made_tokenizers import byte_level
from model.separated import split_at, without_trailing
from opened import open_source

from tokfmt.commands.search.query import (
    LARGEST,
    AnyQuery,
    DensityQuery,
    EndQuery,
    Hit,
    LengthQuery,
    NotQuery,
    NumberQuery,
    SameQuery,
    Search,
    TextQuery,
    TokenQuery,
    is_query,
    parse_query,
)
from tokfmt.commands.search.search import Spelling, find, find_records
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import Layout
from tokfmt.errors import OptionError

EOS = 9
quick = settings(max_examples=examples(80), deadline=None)
lists = st.lists(st.lists(st.integers(0, 3), max_size=14), max_size=8)

WORDS = [b"a", b"b", b"ab", b"", b"\xc3", b"\xa4", "ä€".encode(), b"\n", b"\xff", "𝄞".encode()[:3], "𝄞".encode()[3:]]
DECODER = byte_level(WORDS)


def views(sequences):
    """The same sequences in two widths, and by what takes separators away or splits at them."""
    plain = MemoryReader(Ragged.of(sequences, np.dtype(np.uint16)))
    yield plain
    yield MemoryReader(Ragged.of(sequences, np.dtype(np.uint32)))
    with_eos = [[*one, EOS] for one in sequences]
    yield without_trailing(MemoryReader(Ragged.of(with_eos, np.dtype(np.uint8))), EOS, "x")
    stream = [token for one in with_eos for token in one]
    yield split_at(MemoryReader(Ragged.of([stream] if stream else [])), EOS)


def bounds(sequences):
    at = 0
    for i, s in enumerate(sequences):
        yield i, at, s
        at += len(s)


def expected(hits, first, last, *, each, backwards):
    hits = [h for h in hits if first <= h.sequence < last]
    hits = hits[::-1] if backwards else hits
    return [h for i, h in enumerate(hits) if not each or i == 0 or hits[i - 1].sequence != h.sequence]


@quick
@given(lists, st.lists(st.integers(0, 3), min_size=1, max_size=3), st.booleans(), st.booleans(), st.data())
def test_runs_of_ids(sequences, ids, each, backwards, data):
    n, k = len(sequences), len(ids)
    first, last = sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n))))
    all_hits = [
        Hit(i, at + j, at + j + k) for i, at, s in bounds(sequences) for j in range(len(s)) if s[j : j + k] == ids
    ]
    wanted = expected(all_hits, first, last, each=each, backwards=backwards)
    for view in views(sequences):
        looked = []
        query = TokenQuery(tuple(ids))
        hits = find(view, query, Search(each=each, backwards=backwards, progress=looked.append), first=first, last=last)
        assert list(hits) == wanted
        offsets = view.offsets(first, last)
        assert sum(looked) >= offsets[-1] - offsets[0]


@quick
@given(lists, st.integers(0, 6), st.none() | st.integers(0, 9), st.booleans())
def test_lengths(sequences, low, high, backwards):
    hits = [
        Hit(i, at, at + len(s)) for i, at, s in bounds(sequences) if len(s) >= low and (high is None or len(s) <= high)
    ]
    wanted = expected(hits, 0, len(sequences), each=False, backwards=backwards)
    for view in views(sequences):
        assert list(find(view, LengthQuery(low, high), Search(backwards=backwards))) == wanted


@quick
@given(lists, st.lists(st.integers(0, 5), min_size=1, max_size=3), st.booleans(), st.booleans(), st.data())
def test_any_of_several_ids(sequences, ids, each, backwards, data):
    n = len(sequences)
    first, last = sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n))))
    low = min(ids)
    for words, wanted_ids in ((f"any:{','.join(map(str, ids))}", set(ids)), (f"id>={low}", set(range(low, 99)))):
        all_hits = [
            Hit(i, at + j, at + j + 1) for i, at, s in bounds(sequences) for j in range(len(s)) if s[j] in wanted_ids
        ]
        wanted = expected(all_hits, first, last, each=each, backwards=backwards)
        for view in views(sequences):
            hits = find(view, parse_query(words), Search(each=each, backwards=backwards), first=first, last=last)
            assert list(hits) == wanted


@quick
@given(lists.filter(len), st.booleans(), st.data())
def test_equal_sequences_and_sequences_by_number(sequences, backwards, data):
    n = len(sequences)
    first, last = sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n))))
    numbers = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3))
    contents = [sequences[number] for number in numbers]
    words = ",".join(map(str, numbers))
    for query, holds in (
        (f"same:{words}", lambda i, s: s in contents),
        (f"seq:{words}", lambda i, s: i in numbers),
        (f"seq:{min(numbers)}:{n + 9}", lambda i, s: i >= min(numbers)),
        (f"not same:{words}", lambda i, s: s not in contents),
        (f"not seq:{words}", lambda i, s: i not in numbers),
        (f"not token:{min(numbers)}", lambda i, s: min(numbers) not in s),
    ):
        all_hits = [Hit(i, at, at + len(s)) for i, at, s in bounds(sequences) if holds(i, s)]
        wanted = expected(all_hits, first, last, each=True, backwards=backwards)
        for view in views(sequences):
            hits = find(view, parse_query(query), Search(backwards=backwards), first=first, last=last)
            assert list(hits) == wanted, query


@quick
@given(lists, st.integers(0, 3), st.booleans(), st.booleans())
def test_first_and_last_tokens(sequences, token, is_last, backwards):
    k = -1 if is_last else 0
    all_hits = [
        Hit(i, at + k % len(s), at + k % len(s) + 1) for i, at, s in bounds(sequences) if s and s[k] in (token, 1)
    ]
    wanted = expected(all_hits, 0, len(sequences), each=False, backwards=backwards)
    query = parse_query(f"{'last' if is_last else 'first'}:{token},1,{2**40}")
    for view in views(sequences):
        assert list(find(view, query, Search(backwards=backwards))) == wanted


class Samples(MemoryReader):
    """Samples of six IDs, whose reader declares which are padding."""

    def __init__(self, ids, filled):
        super().__init__(Ragged.of(ids, np.dtype(np.uint16)))
        self.info = replace(self.info, layout=Layout.SAMPLES, sample_length=6)
        self.padding = (np.arange(6) >= np.array(filled)[:, None]).reshape(-1)

    def is_padding(self, start, stop):
        return self.padding[start:stop]


class LabeledSamples(Samples):
    """Such samples with a loss mask and labels."""

    has_labels = True

    def __init__(self, ids, filled, masks, labels):
        super().__init__(ids, filled)
        self.stored = np.array(masks, np.uint8).reshape(-1), np.array(labels, np.int64).reshape(-1)

    def masks(self, start, stop):
        return self.stored[0][start:stop]

    def labels(self, start, stop):
        return self.stored[1][start:stop]


@quick
@given(st.data(), st.booleans(), st.sampled_from([0, 1, 2, 5]), st.booleans())
def test_padding_and_masked_positions(data, labeled, least, backwards):
    """Padding is what the reader declares, whatever IDs and masks are; a label of -100 is masked like a mask of 0."""

    def grid(values):
        return data.draw(st.lists(st.lists(st.sampled_from(values), min_size=6, max_size=6), min_size=1, max_size=5))

    ids, masks, labels = grid([0, 1, 7]), grid([0, 1]), grid([0, 1, -100])
    count = min(map(len, (ids, masks, labels)))
    filled = data.draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
    unused = {"padding": [6 - one for one in filled], "masked": [0] * count}
    reader = Samples(ids[:count], filled)
    if labeled:
        reader = LabeledSamples(ids[:count], filled, masks[:count], labels[:count])
        pairs = [zip(*rows, strict=True) for rows in zip(masks[:count], labels[:count], strict=True)]
        unused["masked"] = [sum(not mask or label == -100 for mask, label in row) for row in pairs]
    for kind, counts in unused.items():
        wanted = [Hit(k, 6 * k, 6 * k + 6) for k in range(count) if counts[k] >= least]
        hits = find(reader, parse_query(f"{kind}>={least}"), Search(backwards=backwards))
        assert list(hits) == (wanted[::-1] if backwards else wanted)


def test_only_sequences_of_one_length_are_compared():
    reader = Counted(Ragged.of([[1] * 7, [2] * 9, [1] * 7, [3] * 8, [1] * 6 + [2]]))
    assert [hit.sequence for hit in find(reader, parse_query("same:0"))] == [0, 2]
    assert reader.read <= 3 * 2 * 9  # the first, and each that is as long
    with pytest.raises(OptionError, match="there are 5 sequences"):
        find(reader, parse_query("same:5"))


PATTERNS = [
    "a",
    "ab",
    "aab?",
    "(?i)AB+",
    "ä",
    ".",
    "(?s).",
    "^a",
    "b$",
    r"\bab?",
    "(?<=a)b",
    "€|\n",
    "a*",
    "[^a]{2}",
    "𝄞",
]
texts = st.lists(st.lists(st.integers(0, len(WORDS) - 1), max_size=30), max_size=6)


def naive(sequences, pattern):
    """Hits by decoding each sequence whole."""
    for i, at, s in bounds(sequences):
        data = b"".join(WORDS[t] for t in s)
        ends = np.cumsum([len(WORDS[t]) for t in s])
        text = data.decode("utf-8", "surrogateescape")
        for match in re.finditer(pattern, text):
            a, b = (len(text[:x].encode("utf-8", "surrogateescape")) for x in match.span())
            low = int(np.searchsorted(ends, a, side="right"))
            high = low if a == b else int(np.searchsorted(ends, b - 1, side="right")) + 1
            yield Hit(i, at + low, at + high)


def searched(pattern):
    """The search for a pattern; for its characters if it has no other sign."""
    return f"{'text' if re.escape(pattern) == pattern else 'regex'}:{pattern}"


@settings(max_examples=examples(300), deadline=None)
@given(texts, st.sampled_from(PATTERNS), st.booleans(), st.booleans())
def test_text(sequences, pattern, each, backwards):
    reader = MemoryReader(Ragged.of(sequences, np.dtype(np.uint8)))
    query = parse_query(searched(pattern))
    found = list(find(reader, query, Search(each=each, backwards=backwards), decoder=DECODER))
    wanted = expected(list(naive(sequences, pattern)), 0, len(sequences), each=each, backwards=backwards)
    if backwards and pattern in (
        "aab?",
        "a*",
        "[^a]{2}",
    ):  # matches that overlap at a border of pieces may both be told
        assert {hit.sequence for hit in found} == {hit.sequence for hit in wanted}
        assert [hit.start for hit in found] == sorted((hit.start for hit in found), reverse=True)
    else:
        assert found == wanted


def test_text_over_the_borders_of_pieces():
    """`aa` in a long row of a: no occurrence is told twice, none is lost."""
    reader = MemoryReader(Ragged.of([[0] * 31]))
    assert [h.start for h in find(reader, parse_query("text:aa"), decoder=DECODER)] == list(range(0, 30, 2))
    assert [h.start for h in find(reader, parse_query("regex:a{3}"), decoder=DECODER)] == list(range(0, 30, 3))


def test_text_among_wide_ids():
    for dtype, odd in ((np.uint32, 2**32 - 1), (np.uint64, 2**63)):
        reader = MemoryReader(Ragged.of([[0, odd, 1], [odd, 0, 1]], np.dtype(dtype)))
        assert list(find(reader, parse_query("text:ab"), decoder=DECODER)) == [Hit(1, 4, 6)]
        assert list(find(reader, parse_query(f"text:{odd}"), Search(each=True), decoder=DECODER)) == [
            Hit(0, 1, 2),
            Hit(1, 3, 4),
        ]
        assert list(find(reader, parse_query(f"token:{odd}"), Search(each=True))) == [Hit(0, 1, 2), Hit(1, 3, 4)]


def test_spelled_ids_are_bounded():
    """Random IDs may be any number of different ones, whose bytes are kept for at most a million."""
    spelled = Spelling(DECODER)
    spelled.update(dict.fromkeys(range(2, 2 + (1 << 20)), b""))
    assert (spelled[0], len(spelled)) == (b"a", (1 << 20) + 1)
    assert (spelled[1], len(spelled)) == (b"b", 1)


class Counted(MemoryReader):
    """Counts the tokens that are read."""

    read = 0

    def tokens(self, start, stop):
        self.read += stop - start
        return super().tokens(start, stop)


def test_reads_no_more_than_it_must():
    reader = Counted(Ragged.of([[1] * 1000, [2]]))
    assert list(find(reader, parse_query("len==1"))) == [Hit(1, 1000, 1001)]
    assert reader.read == 0
    assert list(find(reader, parse_query("token:1"), Search(each=True))) == [Hit(0, 0, 1)]
    assert reader.read <= 1001
    assert next(find(reader, parse_query("text:b"), decoder=DECODER)) == Hit(0, 0, 1)
    assert reader.read <= 2002
    assert list(find(reader, parse_query("token:70000"))) == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("token:50256", TokenQuery((50256,))),
        ("token: 1, 2,3", TokenQuery((1, 2, 3))),
        ("token:50_256", TokenQuery((50256,))),
        ("len>4096", LengthQuery(4097, None)),
        ("len >= 4Ki", LengthQuery(4096, None)),
        ("len<=10", LengthQuery(0, 10)),
        ("len==0", LengthQuery(0, 0)),
        ("len=7", LengthQuery(7, 7)),
        ("10<len<20", LengthQuery(11, 19)),
        ("length > 200", LengthQuery(201, None)),
        ("10<=Length<20", LengthQuery(10, 19)),
        ("20>=len>10", LengthQuery(11, 20)),
        ("1e3<=len", LengthQuery(1000, None)),
        ("b/t>=1.5", DensityQuery(1.5, None)),
        ("0.5<=B/T<=2", DensityQuery(0.5, 2.0)),
        ("any:7, 5 6 9", AnyQuery(((5, 7), (9, 9)))),
        ("any:2:5,9,5:7,20:", AnyQuery(((2, 6), (9, 9), (20, LARGEST)))),
        ("id>=50257", AnyQuery(((50257, LARGEST),))),
        ("3<id<=5", AnyQuery(((4, 5),))),
        ("id==5", AnyQuery(((5, 5),))),
        ("first:5,7", EndQuery((5, 7), is_last=False)),
        ("last:5", EndQuery((5,), is_last=True)),
        ("same:9,3,9", SameQuery((3, 9))),
        ("seq:3, 17,20:30,4", NumberQuery(((3, 5), (17, 18), (20, 30)))),
        ("not len>7", NotQuery(LengthQuery(8, None))),
        (" NOT  not token:5", TokenQuery((5,))),
        ("not 5", NumberQuery(((0, 5), (6, LARGEST)))),
        ("not 0,7", NumberQuery(((1, 7), (8, LARGEST)))),
        ("not 0:10", NumberQuery(((10, LARGEST),))),
    ],
)
def test_queries(text, query):
    assert parse_query(text) == query
    assert is_query(text)


def test_by_bytes_of_text_per_token():
    """Bytes, not characters; a row without tokens has no share, and only `not` finds it."""
    decoder = byte_level([b"x", b"long", "\u00e4".encode()])
    reader = MemoryReader(Ragged.of([[0], [0, 1], [], [2], [1, 1, 2, 0]]))  # 1, 2.5, none, 2, 2.75
    for words, rows in (
        ("b/t<2", [0]),
        ("b/t<=2", [0, 3]),
        ("b/t>2.5", [4]),
        ("2<=b/t<2.75", [1, 3]),
        ("b/t==2.75", [4]),
        ("not b/t>1", [0, 2]),
    ):
        for backwards in (False, True):
            found = find(reader, parse_query(words), Search(backwards=backwards), decoder=decoder)
            assert sorted(hit.sequence for hit in found) == rows
    with pytest.raises(OptionError, match="--tokenizer"):
        list(find(reader, parse_query("b/t<2")))


def test_text_queries():
    query = parse_query("text:'foo bar'")
    assert isinstance(query, TextQuery)
    assert (query.pattern.pattern, query.literal) == ("foo bar", "foo bar")
    assert parse_query("regex:(?i)x").literal is None
    assert parse_query('text:"a:b"').literal == "a:b"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tokn:5", "Did you mean token?"),
        ("txt:foo", "Did you mean text?"),
        ("lenght>5", "Did you mean len?"),
        ("len>1e9999", "is too large"),
        ("token:1e400", "expected IDs"),
        ("lenn", "Did you mean len?"),
        ("token:", "expected IDs"),
        ("token:x", "expected IDs"),
        ("token:-1", "not negative"),
        ("text:", "needs something"),
        ("regex:(", "not a regular expression"),
        ("len<0", "no sequence"),
        ("b/t<2k", "is not a number"),
        ("3<b/t<2", "no sequence"),
        ("5<len<5", "no sequence"),
        ("id<0", "no such ID"),
        ("any:x", "expected IDs"),
        ("any:5:5", "holds no number"),
        ("any::5", "expected IDs"),
        ("same:", "expected numbers"),
        ("same:-1", "not negative"),
        ("seq:x", "expected numbers"),
        ("seq:5:5", "holds no number"),
        ("seq:-3", "holds no number"),
        ("sequence:3", "Did you mean seq?"),
        ("ids:3", "Did you mean any?"),
        ("foo", "is not a query"),
        ("not", "expected numbers"),
        ("not foo", "is not a query"),
        ("not -3:", "expected numbers"),
    ],
)
def test_invalid_queries_are_refused(text, said):
    assert is_query(text)
    with pytest.raises(OptionError, match=re.escape(said)):
        parse_query(text)


@pytest.mark.parametrize("text", ["5", "0:10", "-3:", ":", ":1e6", "1_000:2K", "-1"])
def test_sequence_numbers_are_no_query(text):
    assert not is_query(text)


def test_text_needs_a_decoder():
    with pytest.raises(OptionError, match="--tokenizer"):
        list(find(MemoryReader(Ragged.of([[1]])), parse_query("text:a")))


@pytest.mark.parametrize(
    "query",
    first(
        4,
        [
            "token:1,2",
            "regex:(?i)AB",
            "same:0",
            "last:2",
            "token:1",
            "any:1",
            "text:a",
            "text:ab",
            "len>1Mi",
            "first:1",
        ],
    ),
)
def test_sequences_longer_than_a_window(query):
    """Three sequences of more than a million tokens: hits at their ends, and at every border that reading has."""
    size = (1 << 20) + 7
    rows = np.full((3, size), 3, np.uint8)
    for row in rows:
        row[[0, size - 2, *range((1 << 16) - 1, size - 2, 1 << 16)]] = 1
        row[[size - 1, *range(1 << 16, size - 2, 1 << 16)]] = 2
    rows[2, 5] = 0
    reader = MemoryReader(Ragged(rows.reshape(-1), np.arange(4) * size))
    pairs = [*range((1 << 16) - 1, size - 2, 1 << 16), size - 2]
    starts = {"token:1": [0, *pairs], "token:1,2": pairs, "any:1": [0, *pairs], "text:a": [0, *pairs]}
    starts |= {
        "text:ab": pairs,
        "regex:(?i)AB": pairs,
        "len>1Mi": [0],
        "same:0": [0],
        "first:1": [0],
        "last:2": [size - 1],
    }
    wanted = [k * size + start for k in range(2 if query == "same:0" else 3) for start in starts[query]]
    decoder = byte_level([b"z", b"a", b"b", b"c"]) if query.startswith(("text", "regex")) else None
    for backwards in (False, True):
        found = [hit.start for hit in find(reader, parse_query(query), Search(backwards=backwards), decoder=decoder)]
        assert found == (wanted[::-1] if backwards else wanted)


@pytest.mark.parametrize("pattern", ["ab", "(?i)B[bc]*", "(?<=a)b", "b$"])
def test_text_of_a_long_sequence(pattern):
    """Matches in a piece, over the border of two and soon after it: none is lost, and none is found twice."""
    words, rng = [b"z", b"a", b"b", b"c"], np.random.default_rng(5)
    piece, size = 1 << 16, (1 << 17) + 9000
    borders = (
        piece,
        2 * piece,
        size - piece,
        size - 2 * piece,
    )  # pieces are cut from the start, or backwards from the end
    ids = np.zeros(size, np.uint8)
    for at in (0, 40_000, size - 40, *(border + away for border in borders for away in (-70, -20, 60, 4000))):
        ids[at : at + 40] = rng.integers(0, 4, 40)
    for at in (*borders, size - 1):
        ids[at - 1 : at + 1] = 1, 2
    text = b"".join(words[token] for token in ids.tolist()).decode()
    starts = [match.start() for match in re.finditer(pattern, text)]
    reader, query, decoder = MemoryReader(Ragged.of([ids])), parse_query(searched(pattern)), byte_level(words)
    for backwards in (False, True):
        found = [hit.start for hit in find(reader, query, Search(backwards=backwards), decoder=decoder)]
        assert found == (starts[::-1] if backwards else starts)


@pytest.mark.parametrize("query", ["token:1", "text:b"])
def test_stops_between_windows(query):
    ids = np.zeros(1 << 22, np.uint8)
    ids[:: 1 << 16] = 1
    reader, asked = MemoryReader(Ragged(ids, np.arange(5) << 20)), []
    decoder = DECODER if query.startswith(("text", "regex")) else None
    hits = find(reader, parse_query(query), Search(stopped=lambda: len(asked.append(1) or asked) > 2), decoder=decoder)
    assert 0 < len(list(hits)) < 64


def test_ids_beyond_the_width_and_the_separator():
    narrow = MemoryReader(Ragged.of([[1, 2]], np.dtype(np.uint8)))
    assert list(find(narrow, parse_query("token:258"))) == []
    stream = split_at(MemoryReader(Ragged.of([[1, EOS, 2]])), EOS)
    assert list(find(stream, parse_query(f"token:{EOS}"))) == []
    embedded = without_trailing(MemoryReader(Ragged.of([[1, EOS, 2, EOS]])), EOS, "x")
    assert list(find(embedded, parse_query(f"token:{EOS}"))) == [Hit(0, 1, 2)]
    assert list(find(embedded, parse_query(f"token:2,{EOS}"))) == []


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.text("ab ä", max_size=9), max_size=8), st.booleans(), st.booleans(), st.data())
def test_records_of_text(tmp_path_factory, lines, each, backwards, data):
    path = tmp_path_factory.mktemp("records") / "x.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in lines or ["a"]))
    lines = lines or ["a"]
    reader = open_source([path]).reader
    first, last = sorted((data.draw(st.integers(0, len(lines))), data.draw(st.integers(0, len(lines)))))
    whole = {
        "len>3": lambda i, t: len(t) > 3,
        "same:0": lambda i, t: t == lines[0],
        "seq:0,2:4": lambda i, t: i in (0, 2, 3),
        "not regex:a.": lambda i, t: re.search("a.", t) is None,
        "not len>3": lambda i, t: len(t) <= 3,
        "not 0,2:4": lambda i, t: i not in (0, 2, 3),
    }
    for query in ("text:ä", "regex:a.", *whole):
        if query in whole:
            hits = [Hit(i, 0, len(t)) for i, t in enumerate(lines) if whole[query](i, t)]
        else:
            hits = [Hit(i, *m.span()) for i, t in enumerate(lines) for m in re.finditer(query.partition(":")[2], t)]
        search = Search(each=each, backwards=backwards)
        found = list(find_records(reader, parse_query(query), search, first=first, last=last))
        assert found == expected(hits, first, last, each=each, backwards=backwards)
    for words, why in (("token:1", "--tokenizer"), ("not any:1", "--tokenizer"), (f"same:{len(lines)}", "there are")):
        with pytest.raises(OptionError, match=why):
            list(find_records(reader, parse_query(words), Search()))
    reader.close()
