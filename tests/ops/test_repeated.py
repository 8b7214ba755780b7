"""A finished run with --resume, repeated: complete is complete; everything else is another request."""

import os
import shutil

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.errors import DestinationExistsError


@pytest.mark.parametrize("name", ["out.pbin", "out.zarr", "out.jsonl"])
@pytest.mark.parametrize("how", [{}, {"split": "train=0.9,val=0.1"}, {"shuffle": 3}])
def test_a_finished_run_is_complete_when_it_is_repeated(tmp_path, name, how):
    """As a job that is queued again does it; another request, or a source that has changed, is refused."""
    source, destination = tmp_path / "in.pbin", tmp_path / name
    shutil.copy(FIXTURES / "modalities" / "D_2byte_gpt2.pbin", source)
    done = tokfmt.convert(source, destination, eos=50256, resume=True, **how)
    held = {path: path.stat().st_ino for path in tmp_path.iterdir()}
    again = tokfmt.convert(source, destination, eos=50256, resume=True, **how)
    assert held == {path: path.stat().st_ino for path in tmp_path.iterdir()}
    assert any(note.startswith("complete already") for note in again.notes)
    assert not any("nothing" in note.split(":")[0] for note in again.notes)
    assert again.separator == {**done.separator, "seen": None}  # The source was not looked at.
    for key in ("sequences", "tokens", "max_id", "separators", "splits", "format", "sources", "losses"):
        assert getattr(again, key) == getattr(done, key), key
    for other in ({"select": "0:5"}, {"shuffle": 9}, {"resume": False}, {"verify": True}, {"sources": [source] * 2}):
        words = {"sources": source, "destination": destination, "eos": 50256, "resume": True, **how, **other}
        with pytest.raises(DestinationExistsError):
            tokfmt.convert(**words)
    os.utime(source)
    with pytest.raises(DestinationExistsError):
        tokfmt.convert(source, destination, eos=50256, resume=True, **how)


def test_a_destination_that_is_not_whole_any_more_is_not_complete(tmp_path):
    source, destination = FIXTURES / "modalities" / "D_2byte_gpt2.pbin", tmp_path / "out.zarr"
    tokfmt.convert(source, destination, eos=50256, resume=True)
    (destination / "train" / "encoded_tokens" / "0").write_bytes(b"")
    with pytest.raises(DestinationExistsError):
        tokfmt.convert(source, destination, eos=50256, resume=True)
