"""`--allow-partial`: what is whole of a damaged dataset is saved, and nothing else; what is lost is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tokfmt
from tokfmt.core.errors import FormatError

EOS = 7
LISTS = [[100 + i] * (i % 5 + 1) + [i] for i in range(20, 60)]
TOKENS = sum(map(len, LISTS))


def made(path: Path, lists: list[list[int]] | None = None, **how: object) -> Path:
    """A dataset of some format without a manifest, which would tell how much there was."""
    source = path.parent / f"{path.name}.source.jsonl"
    source.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in (LISTS if lists is None else lists)))
    tokfmt.convert(source, path, eos=EOS, manifest=False, **how)
    source.unlink()
    return path


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def saved(path: Path, out: Path, **how: object) -> list[list[int]]:
    """What a conversion saves, read back."""
    tokfmt.convert(path, out, allow_partial=True, verify=True, **{"eos": EOS, **how})
    with tokfmt.open(out) as dataset:
        return [one.tolist() for one in dataset]


def test_cut_tokens_with_the_index_whole(tmp_path):
    """Every sequence before the cut is saved, no other; counts are in the result, the manifest and the notes."""
    path = made(tmp_path / "x_document.bin")
    width, whole = 2, sum(len(ids) + 1 for ids in LISTS[:11])
    for spare in (0, 1, 2, 2 * (len(LISTS[11]) + 1) - 1):
        data = path.read_bytes()
        cut(path, whole * width + spare)
        with pytest.raises(FormatError, match="--allow-partial saves the sequences that are whole|allow_partial=True"):
            tokfmt.convert(path, tmp_path / "refused.pbin", eos=EOS)
        out = tmp_path / f"o{spare}.pbin"
        assert saved(path, out) == LISTS[:11]
        (told,) = json.loads((tmp_path / f"{out.name}.tokfmt.json").read_text())["partial"]
        kept = sum(map(len, LISTS[:11]))
        assert (told["sequences"], told["tokens"]) == (11, kept)
        assert (told["lost_sequences"], told["lost_tokens"]) == (len(LISTS) - 11, TOKENS - kept)
        assert [finding for verdict in tokfmt.check(out, deep=True) for finding in verdict.findings] == []
        with tokfmt.open(out) as dataset:
            assert any("partial, by its manifest" in note for note in dataset.notes)
        path.write_bytes(data)


def test_options_of_convert_go_with_it(tmp_path):
    """A selection counts among what is saved; splits and an order share it out; several sources are told by each."""
    path, other = made(tmp_path / "x_document.bin"), made(tmp_path / "y_document.bin")
    for one in (path, other):
        cut(one, one.stat().st_size // 2)
    whole = saved(path, tmp_path / "all.pbin")
    assert whole == LISTS[: len(whole)]
    assert saved(path, tmp_path / "some.pbin", select="2:5") == whole[2:5]
    assert sorted(saved(path, tmp_path / "mixed.pbin", shuffle=3)) == sorted(whole)
    assert saved(path, tmp_path / "jobs.pbin", jobs=2) == whole
    done = tokfmt.convert([path, other], tmp_path / "both.pbin", eos=EOS, allow_partial=True)
    assert [one["path"] for one in done.partial] == [str(path), str(other)]
    assert done.sequences == 2 * len(whole)
    done = tokfmt.convert(path, tmp_path / "s.pbin", eos=EOS, allow_partial=True, split="a=0.5,b=0.5")
    assert sum(part["sequences"] for part in done.splits.values()) == len(whole)
    for shard in range(2):
        tokfmt.convert(path, tmp_path / "sharded.pbin", eos=EOS, allow_partial=True, shard=(shard, 2))
    from tokfmt.ops.convert.convert import finish

    assert finish(tmp_path / "sharded.pbin").sequences == len(whole)


def test_open_reads_what_is_whole(tmp_path):
    """`tokfmt.open` with `allow_partial` gives the same sequences, and a note."""
    path = made(tmp_path / "x_document.bin")
    cut(path, path.stat().st_size - 1)
    with pytest.raises(FormatError):
        tokfmt.open(path, eos=EOS)
    with tokfmt.open(path, eos=EOS, allow_partial=True) as dataset:
        assert [one.tolist() for one in dataset] == LISTS[:-1]
        assert any(note.startswith("partial: 39 of 40 sequences are whole") for note in dataset.notes)


def test_nothing_certain_is_refused(tmp_path):
    """A file of which no sequence is whole is refused, and nothing is written."""
    path = made(tmp_path / "x_document.bin", [[1, 2, 3, 4]])
    cut(path, 4)
    with pytest.raises(FormatError, match="no sequence of it is certain to be whole"):
        tokfmt.convert(path, tmp_path / "o.pbin", eos=EOS, allow_partial=True)
    assert not (tmp_path / "o.pbin").exists()


def test_a_manifest_tells_of_a_cut_that_nothing_else_shows(tmp_path):
    """Raw ids cut between two tokens: the last sequence, which no separator closes, is left out; the rest is saved."""
    path = tmp_path / "train.bin"
    made(tmp_path / "train.bin.jsonl")
    tokfmt.convert(tmp_path / "train.bin.jsonl", path, eos=EOS)
    cut(path, 2 * sum(len(ids) + 1 for ids in LISTS[:9]) + 4)
    with pytest.raises(FormatError, match="manifest"):
        tokfmt.convert(path, tmp_path / "refused.pbin")
    done = tokfmt.convert(path, tmp_path / "o.pbin", allow_partial=True)
    assert (done.sequences, done.partial[0]["lost_sequences"]) == (9, len(LISTS) - 9)


def test_a_whole_source_is_read_as_ever(tmp_path):
    """The option changes nothing of a dataset without damage."""
    path = made(tmp_path / "x_document.bin")
    done = tokfmt.convert(path, tmp_path / "o.pbin", eos=EOS, allow_partial=True)
    assert (done.sequences, done.partial) == (len(LISTS), [])
    assert "partial" not in json.loads((tmp_path / "o.pbin.tokfmt.json").read_text())
