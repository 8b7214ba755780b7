"""Which files of its source a command opens, and which directories it lists: each one once."""

from collections import Counter
from pathlib import Path

import pytest
from paths import CORPUS, TOKENIZER
from reads import asked_of

import tokfmt


@pytest.fixture
def pair(tmp_path):
    """A Megatron pair and a manifest, made by tokfmt."""
    tokfmt.convert(CORPUS, tmp_path / "in.bin", to_format="megatron", tokenizer=str(TOKENIZER), executor="serial")
    return tmp_path / "in.bin"


def opens(asked, begin):
    """How often each file below a directory is opened whose name begins so."""
    return Counter(path.name for path in map(Path, asked.opened) if path.name.startswith(begin))


def test_a_conversion_opens_every_file_of_its_source_once(pair):
    """To detect, to read and for the checksum."""
    with asked_of(pair.parent) as asked:
        tokfmt.convert(pair, pair.with_name("out.zarr"), executor="serial")
    assert opens(asked, "in.") == {"in.bin": 1, "in.bin.tokfmt.json": 1, "in.idx": 1}


@pytest.mark.parametrize("deep", [False, True])
def test_a_check_opens_every_file_once(pair, deep):
    """To detect, to examine, to read and for the checksum."""
    with asked_of(pair.parent) as asked:
        (report,) = tokfmt.check(pair, deep=deep)
    assert not report.errors
    assert opens(asked, "") == {"in.bin": 1, "in.bin.tokfmt.json": 1, "in.idx": 1}


def test_a_directory_is_listed_once_to_open_it_and_once_to_see_that_it_is_the_same(pair):
    store = pair.with_name("store.zarr")
    tokfmt.convert(pair, store, executor="serial")
    with asked_of(pair.parent) as asked:
        tokfmt.convert(store, pair.with_name("back.bin"), to_format="megatron", executor="serial")
    listed = Counter(path for path in asked.listings if path.startswith(str(store)))
    inside = ["", "/train", "/train/encoded_tokens", "/train/seq_starts"]
    assert listed == {f"{store}{name}": 2 for name in inside}
    assert opens(asked, "store.zarr.tokfmt.json").total() == 1
    metadata = Counter(path for path in asked.opened if path.startswith(str(store)) and Path(path).name.startswith("."))
    assert set(metadata.values()) == {2}, "to read it, and for its checksum"
