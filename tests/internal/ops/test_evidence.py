"""What stands beside the data is evidence: every command heeds it, and no guess is made without any."""

import json
import os
import shutil

import pytest

import tokfmt
from tokfmt import registry
from tokfmt.core.errors import (
    OptionError,
    SourceChangedError,
)
from tokfmt.ops.source.discover import check_unchanged, find_sources, snapshot
from tokfmt.ops.source.request import SourceRequest, expanded, parse_selection

EOS = 999
DOCUMENTS = [[(7 * k + j) % 900 for j in range(5 + k % 9)] for k in range(1200)]
TARGETS = {
    "jsonl": ("o.jsonl", {}),
    "modalities": ("o.pbin", {}),
    "stage1": ("o", {"shard_size": 8192}),
    "hdf5": ("o", {"seq_len": 64, "shard_size": 5120}),
    "flat-tokens": ("o.zarr", {"chunk": 512}),
}


def source(tmp):
    path = tmp / "source.jsonl"
    path.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in DOCUMENTS))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A dataset of each format, with its manifest."""
    tmp = tmp_path_factory.mktemp("made")
    found = {}
    for name, (path, _) in TARGETS.items():
        (tmp / name).mkdir()
        destination = tmp / name / path
        tokfmt.convert(source(tmp), destination, to_format=name, eos=EOS, to_options=TARGETS[name][1])
        found[name] = destination
    return found


def copied(made, name, tmp):
    """A copy, manifest and all, and all its files."""
    shutil.copytree(made[name].parent, tmp / "copy")
    path = tmp / "copy" / made[name].name
    return path, list(registry.get(name).files(path))


@pytest.mark.parametrize("name", TARGETS)
def test_every_file_of_a_source_is_watched(made, name, tmp_path):
    path, files = copied(made, name, tmp_path)
    found = find_sources(SourceRequest((path,)))
    before = snapshot(found)
    check_unchanged(before, found)
    for file in files:
        old, modified_ns = file.read_bytes(), file.stat().st_mtime_ns
        file.write_bytes(old + b"\n")
        with pytest.raises(SourceChangedError, match="changed while it was being read"):
            check_unchanged(before, found)
        file.write_bytes(old)
        os.utime(file, ns=(modified_ns, modified_ns))
    check_unchanged(before, found)


def test_an_index_that_appears_is_a_change(made, tmp_path):
    path, _ = copied(made, "jsonl", tmp_path)
    found = find_sources(SourceRequest((path,)))
    before = snapshot(found)
    path.with_suffix(".idx").write_bytes(b"x")
    with pytest.raises(SourceChangedError, match=r"o\.idx"):
        check_unchanged(before, found)


def sequences(dataset):
    return [ids.tolist() for ids in dataset]


# directories


LINE = '{"input_ids": [1, 2]}\n'


def test_directories_below(tmp_path):
    for name in ("a.jsonl", "x/part-10.jsonl", "x/part-2.jsonl", "y/z/c.jsonl"):
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).write_text(json.dumps({"input_ids": [len(name), 1]}) + "\n")
    (tmp_path / "home" / "y" / "README").touch()
    found = find_sources(SourceRequest((tmp_path / "home",), recursive=True))
    assert [one.path.name for one in found] == ["home", "x", "z"]
    done = tokfmt.convert(tmp_path / "home", tmp_path / "o.pbin", recursive=True, eos=50)
    assert (done.sequences, len(done.sources)) == (4, 3)
    assert [ids[0] for ids in sequences(tokfmt.open(tmp_path / "o.pbin"))] == [7, 14, 15, 11]


def test_invalid_paths_are_refused(tmp_path, monkeypatch):
    with pytest.raises(OptionError, match="a path is empty"):
        tokfmt.open("")
    for address in ("ftp://h/x.jsonl", "oci://b/x"):
        with pytest.raises(OptionError, match="the scheme [a-z]+ is not read"):
            tokfmt.open(address)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text(LINE)
    (tmp_path / "a.jsonl.tokfmt.json").write_text("{}")
    assert expanded(["a.*"]) == ("a.jsonl",)


def test_selections_are_cut_off_as_slices_are():
    numbers = list(range(42))
    for text in ("0:1000", "-3:", ":1e6", "40:99", "-99:2", "50:60", ":"):
        first, last = parse_selection(text, 42)
        a, _, b = text.partition(":")
        assert numbers[first:last] == numbers[int(float(a)) if a else None : int(float(b)) if b else None]
    for text, why in (("5:2", "ends before it begins"), (" 42", "sequence 42 is not one of the 42 sequences")):
        with pytest.raises(OptionError, match=why):
            parse_selection(text, 42)
