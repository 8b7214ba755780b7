"""`--allow-partial`: what is whole of a damaged dataset is saved, and nothing else; what is lost is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tokfmt
from tokfmt.core.errors import ConversionError, FormatError
from tokfmt.ops.check import CheckRequest, check
from tokfmt.ops.check.fix import fix
from tokfmt.ops.source.request import SourceRequest

EOS = 7
LISTS = [[100 + i] * (i % 5 + 1) + [i] for i in range(20, 60)]


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


def test_options_of_convert_go_with_it(tmp_path):
    """A selection counts among what is saved; splits and an order share it out; several sources are reported one by one."""
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
        tokfmt.convert(path, tmp_path / "sharded.pbin", eos=EOS, allow_partial=True, task=(shard, 2))
    from tokfmt.ops.convert.convert import finish

    assert finish(tmp_path / "sharded.pbin").sequences == len(whole)


def test_check_fix_saves_complete_sequences(tmp_path):
    """If no repair is certain, the copy has the complete sequences; without any, the repair is refused."""
    path = made(tmp_path / "x_document.bin")
    cut(path, 2 * sum(len(ids) + 1 for ids in LISTS[:11]) + 1)
    request = CheckRequest(SourceRequest((path,), eos=EOS), deep=True)
    (verdict,) = check(request)
    done = fix(verdict, tmp_path / "mended_document.bin", request)
    assert done.done == {}
    assert done.partial.startswith("partial: 11 of 40 sequences are complete and saved")
    assert done.report is not None
    assert done.report.errors == 0
    with tokfmt.open(done.destination, eos=EOS) as dataset:
        assert [one.tolist() for one in dataset] == LISTS[:11]
    assert json.loads((tmp_path / "mended_document.bin.tokfmt.json").read_text())["partial"][0]["sequences"] == 11
    cut(path, 1)
    (verdict,) = check(request)
    with pytest.raises(ConversionError, match="no sequence of it is certain to be complete"):
        fix(verdict, tmp_path / "none_document.bin", request)


STORES: list[tuple[str, dict[str, object], str, int]] = [
    ("x_document.bin", {}, "x_document.bin", 2),
    ("x.ds", {}, "x.ds", 2),
    ("part-0-00000.npy", {}, "part-0-00000.npy", 2),
    ("litdata", {"shard_size": 1000}, "chunk-0-0.bin", 2),
    ("mds", {"shard_size": 1000}, "shard.00000.mds", 2),
]


@pytest.mark.parametrize(("name", "options", "tokens", "width"), STORES, ids=[row[0] for row in STORES])
def test_with_its_index_whole_all_before_the_cut_is_saved(name, options, tokens, width, tmp_path):
    """Where the index lies elsewhere, every sequence before the cut is saved, wherever that is."""
    path = made(tmp_path / name, to_format=name if name in ("litdata", "mds") else None, to_options=options)
    with tokfmt.open(path, eos=EOS) as whole:
        places = [whole.reader.locate(int(end) - 1) for end in whole.reader.offsets(0, len(whole))[1:]]
    target = path / tokens if path.is_dir() else path
    data, tried = target.read_bytes(), 0
    for size in range(len(data) // 3, len(data), 37):
        target.write_bytes(data[:size])
        # a separator follows each
        before = sum(place is not None and place.offset + 2 * width <= size for place in places)
        with tokfmt.open(path, eos=EOS, allow_partial=True) as dataset:
            assert [one.tolist() for one in dataset] == LISTS[:before]
        tried += before > 0
    assert tried > 2


def test_an_arrow_file_cut_in_its_footer_is_whole_and_its_damage_is_said(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path, table = tmp_path / "x.arrow", pa.table({"input_ids": LISTS})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    cut(path, path.stat().st_size - 8)
    with pytest.raises(FormatError, match="footer cannot be read.*--allow-loss tail reads.*--allow-partial"):
        tokfmt.convert(path, tmp_path / "refused.jsonl")
    assert saved(path, tmp_path / "a.jsonl", eos=None) == LISTS
    (told,) = json.loads((tmp_path / "a.jsonl.tokfmt.json").read_text())["partial"]
    assert (told["sequences"], told["lost_sequences"], told["lost_tokens"]) == (len(LISTS), 0, 0)
    request = CheckRequest(SourceRequest((path,)))
    (verdict,) = check(request)
    fix(verdict, tmp_path / "fixed.arrow", request)
    with tokfmt.open(tmp_path / "fixed.arrow") as dataset:
        assert [one.tolist() for one in dataset] == LISTS
