"""Files, options, publication, errors, transport: the core's promises one by one."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import pytest
import registered

import tokfmt
from tokfmt.base.options import described, parse_count, parse_options
from tokfmt.errors import OptionError
from tokfmt.plugin import option

# options


@dataclass(frozen=True)
class Some:
    size: int = option(1, "how many")
    layout: Literal["A", "D"] = option("D", "which")
    width: int | None = option(None, "bytes")
    fast: bool = option(False, "quickly")


def test_options_parse_against_their_types():
    assert parse_options(Some, ["size=4Ki", "layout=A", "width=2", "fast=yes"], "it") == Some(4096, "A", 2, True)
    assert parse_options(Some, {"size": 5, "width": None, "fast": True}, "it") == Some(5, fast=True)
    for name, value in {"size": [1], "layout": 3, "width": 1.5, "fast": 2}.items():  # nothing gets by as it is
        with pytest.raises(OptionError):
            parse_options(Some, {name: value}, "it")
    assert parse_options(Some, ["width=auto"], "it").width is None
    assert [o.type for o in described(Some)] == ["int", "A|D", "int", "bool"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sise=4"], "it has no option 'sise' (expected size, layout, width, fast). Did you mean size?"),
        (["layout=Z"], "it option layout: expected A or D, found 'Z'"),
        (
            ["size=many"],
            "it option size: 'many' is not a whole number (expected a number such as 4096, 1_000_000, 1e6, 10M or 4Ki)",
        ),
        (["size"], "'size' is not of the form key=value"),
    ],
)
def test_options_that_do_not_exist(words, says):
    with pytest.raises(OptionError) as caught:
        parse_options(Some, words, "it")
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1_000_000", 10**6),
        ("1e6", 10**6),
        ("10M", 10**7),
        ("4Ki", 4096),
        ("1,024", 1024),
        ("-3", -3),
        ("1.5k", 1500),
        ("2B", 2 * 10**9),
        ("1.5b", 15 * 10**8),
    ],
)
def test_counts(text, value):
    assert parse_count(text) == value


@pytest.mark.parametrize("text", ["0,1", "1,2", "3,17", "1,0000", "0,100", "1,024,5", "1,,024", ","])
def test_a_list_is_no_count(text):
    """`show PATH 0,1` is asked for two sequences: it never answers with sequence 1."""
    with pytest.raises(OptionError, match="is not a whole number"):
        parse_count(text)


@pytest.mark.parametrize("text", ["1MB", "2kB", "8GiB", "4KiB", "BB"])
def test_bytes_are_no_count_of_anything_else(text):
    with pytest.raises(OptionError, match="is not a whole number"):
        parse_count(text)
    if text != "BB":
        assert parse_count(text, of_bytes=True) == parse_count(text.removesuffix("B"))


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e21", "9" * 5000, "1e20T", "-" + "9" * 22])
def test_numbers_beyond_any_file_are_refused_in_a_line(text):
    with pytest.raises(OptionError, match="is too large") as caught:
        parse_count(text)
    assert len(str(caught.value)) < 120


def test_formats_that_write_several_files_have_the_same_option_for_their_size():
    """Other options that count what a file holds have no other name."""
    written = {one.name: {o.name: o for o in described(one.write_options)} for one in tokfmt.list_formats()}
    several = {name for name, options in written.items() if "shard_size" in options}
    assert several == {
        "array",
        "webdataset",
        "tfrecord",
        "arrayrecord",
        "stage1",
        "hdf5",
        "arrow",
        "parquet",
        "llmc",
        "litdata",
        "mds",
        "megatron",
        "olmo",
    }
    for name in several:
        assert written[name]["shard_size"].type == "int"
        assert "tokens per " in written[name]["shard_size"].help
    assert not [name for options in written.values() for name in options if name.endswith(("_tokens", "_per_file"))]


@pytest.mark.parametrize("format_", registered.list_formats(), ids=lambda format_: format_.name)
def test_numbers_have_bounds(format_):
    """No format takes 0, a negative number, or one beyond its most; and each says what it takes."""
    words = r"expected a whole number (of at least|from) [\d,]+( to [\d,]+)?, found -?[\d,]+$"
    for kind in (format_.read_options, format_.write_options):
        for field in dataclasses.fields(kind):
            literal = "Literal" in str(field.type)
            if not isinstance(field.default, int) or isinstance(field.default, bool) or literal:
                continue
            assert field.metadata["minimum"] is not None, f"{format_.name} {field.name}"
            most = field.metadata["maximum"]
            for value in (0, -8, *([] if most is None else [most + 1])):
                with pytest.raises(OptionError, match=f"{field.name}: {words}"):
                    parse_options(kind, {field.name: value}, format_.name)
                with pytest.raises(OptionError, match="expected a whole number"):
                    parse_options(kind, [f"{field.name}={value}"], format_.name)
