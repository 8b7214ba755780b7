"""One line to a record: the fast path never sees a line otherwise than Python's json does."""

import json

import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.formats.jsonl.lines import lines_of
from tokfmt.formats.jsonl.parse import DEEPEST, Fault, IdTooLarge, OtherFields, Parser, Validator, depth_of, skippable

quick = settings(max_examples=examples(300), deadline=None)
KEYS = st.sampled_from(["text", "input_ids", "id", "te\\u0078t", "meta", "", "\\ud800", "é"])
SCALARS = st.sampled_from(
    ["1", "-0", "01", "1.", "1e5", "1E400", "-", "NaN", "-Infinity", "nul", "null", "true", '""', '"a"', '"\\ud83d"', '"\\ud83d\\ude42"',
     '"\\x"', '"é"', '"a\tb"', '"{"', '"}"', "[", "{}", "[]", "[1,]", "4294967296", "-1", "9" * 40, "[1, 2]", "[0,4294967295]", '"\\u2028"', "[1.0]"]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda v: f"[{','.join(v)}]"),
        st.lists(st.tuples(KEYS, inner), max_size=3).map(lambda v: "{" + ", ".join(f'"{k}": {x}' for k, x in v) + "}"),
    ),
    max_leaves=6,
)
SPACE = st.sampled_from(["", "", "", " ", "\t", "\r"])
LINE = st.one_of(
    st.builds(lambda a, v, b: (a + v + b).encode(), SPACE, VALUES, SPACE),
    st.builds(lambda v, w: f'{{"text": {v}, "x": {w}}}'.encode(), SCALARS, VALUES),
    st.builds(lambda v: f'{{"text": {v}}}'.encode(), SCALARS),
    st.builds(lambda v: f'{{"text": "{v}"}}'.encode(), st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"\\\n\r'), max_size=9)),
    st.builds(lambda v: f'{{"input_ids": {v}}}'.encode(), VALUES),
    st.builds(lambda v: f'{{"input_ids": {v}}}'.encode(), st.lists(st.integers(0, 2**32 - 1))),
    st.sampled_from([b"", b" ", b"{", b"}", b'{"text":', b'"a"}', b'{"text": "\xff"}', b'{"text": "a", "x": "\xed\xa0\x80"}', b'{"\xff": 1, "text": "a"}',
                     b'{"text": "a"}{"text": "b"}', b'{"text": "a"} {"text":', b'"b"}', b'{"text": "a"}}', b'\xef\xbb\xbf{"text": "a"}']),
)  # fmt: skip


def oracle(line, kind, field, others):
    """What json says of a line: a value, or the name of what is wrong."""
    try:
        record = json.loads(line.decode("utf-8"))
    except ValueError:
        return "fault"
    if not isinstance(record, dict) or field not in record:
        return "fault"
    value = record[field]
    if kind == "text":
        if not isinstance(value, str) or any(0xD800 <= ord(c) < 0xE000 for c in value):
            return "fault"
    else:
        if not isinstance(value, list):
            return "fault"
        for token in value:
            if type(token) is not int or token < 0:
                return "fault"
            if token >= 2**32:
                return "large"
    return value if others or len(record) == 1 else "others"


def seen(value):
    names = {Fault: "fault", OtherFields: "others", IdTooLarge: "large"}
    return names.get(type(value), value)


PARSERS = [
    (kind, field, others) for kind, field in (("text", "text"), ("ids", "input_ids")) for others in (False, True)
]


@quick
@given(st.lists(LINE, min_size=1, max_size=5))
def test_a_chunk_of_lines(lines):
    data = b"\n".join(lines) + b"\n"
    for kind, field, others in PARSERS:
        parser = Parser(kind, (field,), others)
        found = lines_of(None, data, 99)
        assert len(found) == data.count(b"\n")
        expected = [oracle(line.removesuffix(b"\r"), kind, field, others) for line in data.split(b"\n")[:-1]]
        parsed = parser(found)
        problems = dict(parsed.problems)
        assert len(problems) == len(parsed.problems)
        kept = range(len(found)) if parsed.kept is None else parsed.kept
        result = {index: seen(problem) for index, problem in problems.items()}
        result |= dict(zip(kept, parsed.values, strict=True))
        assert [result[index] for index in range(len(found))] == expected


@quick
@given(st.lists(LINE, min_size=1, max_size=5))
def test_validation_is_that_of_json(lines):
    data = b"\n".join(lines) + b"\n"
    refused = [index for index, _ in Validator().faults(lines_of(None, data, 99))]
    for index, line in enumerate(data.split(b"\n")[:-1]):
        try:
            json.loads(line.decode("utf-8").removeprefix("\ufeff"))
        except ValueError:
            assert index in refused
        else:
            assert index not in refused


@pytest.mark.parametrize("digits", [4299, 4300, 4301, 9000])
@pytest.mark.parametrize("form", ['{"a": %s}', "%s", '{"a": -%s}', '{"a": "%s"}', '{"a": %s.5}', '{"a": NaN, "b": %s}'])
def test_numbers_of_many_digits_are_refused_where_json_refuses_them(digits, form):
    line = (form % ("12345678901" * 900)[:digits]).encode()
    try:
        json.loads(line)
        refused = []
    except ValueError:
        refused = [0]
    assert [index for index, _ in Validator().faults(lines_of(None, line + b"\n", 0))] == refused


@pytest.mark.parametrize("levels", [1, 511, 512, 513, 900])
def test_nesting_ends_at_512(levels):
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        value = opening * (levels - 1) + "1" + closing * (levels - 1)
        line = f'{{"text": "{{[[", "b": {value}}}'.encode()
        problem = Parser("text", ("text",), True).one(line)
        assert (problem == "{[[") == (levels <= 512)
        assert bool(Validator().fault(line)) == (levels > 512)
        whole = lines_of(None, line + b"\n", 0)
        assert bool(Parser("text", ("text",), True)(whole).problems) == (levels > 512)
        assert bool(Validator().faults(whole)) == (levels > 512)


def test_brackets_in_strings_do_not_nest():
    assert depth_of(b'"' + b"[" * 3000 + b'"') == 0
    assert depth_of(b'["\\"' + b"[" * 3000 + b'", ' + b"[]," * 600 + b"1]") == 2
    assert depth_of(b"[" * 700 + b'"' + b'\\"' * 200_000) == 700  # a string that does not end: linear all the same
    assert depth_of(b'["' + b"\\" * 5 + b'"' + b"[" * 3000 + b'"]') == 0 + 1
    assert depth_of(b'"' + b"\\" * 4 + b'"' + b"[" * 600) == 600


@pytest.mark.parametrize(
    ("line", "at", "found"),
    [
        (b'{"text": "a" "b"}', 13, 'the character "'),
        ('{"tëxt": "ä" x}'.encode(), 15, "the character x"),
        (b'{"text": ', 9, "the end of the line"),
        ("{'ü': 1}".encode(), 1, "the character '"),
    ],
)
def test_positions_are_bytes(line, at, found):
    problem = Parser("text", ("text",), False).one(line)
    assert (problem.at, problem.found) == (at, found)


def test_nested_field_and_its_neighbors():
    parser = Parser("text", ("meta", "text"), False)
    assert parser.one(b'{"meta": {"text": "a"}}') == "a"
    assert parser.one(b'{"id": 1, "meta": {"text": "a", "lang": "en"}}') == OtherFields(
        "meta.text", ("id", "meta.lang")
    )
    assert Parser("text", ("meta", "text"), True).one(b'{"id": 1, "meta": {"text": "a", "lang": "en"}}') == "a"
    assert parser.one(b'{"meta": {"text": 1}, "meta": {"text": "b"}}') == "b"


@settings(max_examples=examples(400), deadline=None)
@given(
    ends=st.lists(st.sampled_from([b"\xc3", b"\xc3\xa9", b"\xa9", b"\xe2\x82\xac", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x99\x82"]), max_size=5),
    gaps=st.lists(st.integers(0, 40), min_size=6, max_size=6),
)  # fmt: skip
def test_what_is_not_ascii_is_strict_utf8_wherever_it_stands(ends, gaps):
    """Only words with other characters are decoded: a character is never completed from farther on."""
    inside = b"".join(b"a" * gap + end for gap, end in zip(gaps, [*ends, *[b""] * 6], strict=False))
    data = b'{"a": "' + inside + b'"}\n{}\n'
    try:
        data.decode()
        right = True
    except UnicodeDecodeError:
        right = False
    assert skippable(lines_of(None, data, 99)) is right


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.sampled_from([0, 1, 3, 510, 511, 512, 600]), st.booleans()), max_size=8)
)
def test_brackets_of_many_lines(shapes):
    """Counted by blocks of 128 bytes, and looked at one by one in lines that may have too many."""
    lines = []
    for spaces, levels, nested in shapes:
        inner = b"[" * levels + b"]" * levels if nested else b"[" + b"[]," * levels + b"[]]"
        lines.append(b'{"' + b" " * spaces + b'":' + inner + b"}")
    data = b"\n".join([*lines, b"{}"])
    assert skippable(lines_of(None, data, 99)) is all(not nested or levels < DEEPEST for _, levels, nested in shapes)


@pytest.mark.parametrize(
    ("line", "field", "ids_field"),
    [
        (b'{"id": 7, "tokens": [1, 2]}', "text", "tokens"),
        (b'{"tokens": [1, 2]}', "tokens", "tokens"),
        (b'{"a": {"n": [], "to.kens": [1]}}', "a.text", "a.to\\.kens"),
        (b'{"tokens": [1, true]}', "text", None),
        (b'{"tokens": []}', "text", None),
        (b'{"tokens": "abc"}', "text", None),
    ],
)
def test_ids_that_stand_where_text_is_looked_for(line, field, ids_field):
    """The error says which option reads them."""
    problem = Parser("text", tuple(field.split(".")), others=False).one(line)
    expected = f"--from-opt ids_field={ids_field} reads its IDs" if ids_field else "--text-field NAME reads another one"
    assert problem.remedy.startswith(expected)


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.sampled_from(["[", "]", "{", "}", '"', '"[\\\\"', '"\\""', '"{{{"', " " * 99]), max_size=60),
    st.integers(0, 99),
)
def test_depth_is_counted_in_pieces_of_a_mebibyte(parts, before):
    """As a scan for one character after the other counts it, wherever the pieces begin."""
    text = "".join(parts) * 40 + '"" [' * (DEEPEST + 1)
    depth, deepest, inside, escaped = 0, 0, False, False
    for letter in text:
        if escaped or letter == "\\":
            escaped = not escaped
        elif letter == '"':
            inside = not inside
        elif not inside and letter in "[]{}":
            depth += 1 if letter in "[{" else -1
            deepest = max(deepest, depth)
    found = depth_of(b" " * ((1 << 20) - before) + text.encode())
    assert min(found, DEEPEST + 1) == min(deepest, DEEPEST + 1)


def test_what_is_nested_too_deep_is_not_scanned_to_its_end():
    """A line of 32 MB of brackets: no more than the first piece of it is looked at."""
    line = b'{"text": ' + b"[" * (1 << 25)
    assert DEEPEST < depth_of(line) <= 1 << 20
    assert isinstance(Parser("text", ("text",), True).one(line), Fault)


def test_fields_of_a_record_of_very_many():
    """As many are named as of all records together."""
    line = json.dumps({f"key{number}.x": 0 for number in range(20_000)} | {"text": "a"}).encode()
    names = Parser("text", ("text",), True).names(line)
    assert len(names) == 1_000
    assert names[0] == "key0\\.x"
