"""flat-tokens as written: chunk for chunk what seqax writes, and readable by zarr-python without its index of metadata."""

import pytest

from tokfmt.core.errors import OptionError
from tokfmt.core.format import Target
from tokfmt.core.options import parse_options
from tokfmt.formats.flat_tokens import FORMAT
from tokfmt.formats.flat_tokens.options import WriteOptions


@pytest.mark.parametrize(
    "options",
    [{"chunk": 0}, {"chunk": (1 << 25) + 1}, {"starts_chunk": 0}, {"starts_chunk": (1 << 24) + 1}, {"split": "../x"},
     {"split": "a/b"}, {"split": ".z"}, {"codec": "pickle"}, {"zarr_format": "4"}],
)  # fmt: skip
def test_options_that_cannot_be(tmp_path, options):
    with pytest.raises(OptionError):
        given = parse_options(WriteOptions, {k: str(v) for k, v in options.items()}, "x")
        FORMAT.writer_traits(given)
        FORMAT.writer(tmp_path / "x", given, Target())
