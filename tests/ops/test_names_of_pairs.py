"""Datasets of several files, however they are named: by prefixes, patterns, lists of a shell, and folders."""

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.errors import FormatError, SeparatorUnknownError

SOURCE, EOS = FIXTURES / "modalities" / "D_2byte_gpt2.pbin", 50256


@pytest.fixture
def pairs(tmp_path):
    """Three pairs of Megatron with manifests, as tokfmt writes them."""
    for k in range(3):
        made = tmp_path / "in" / f"part_{k}_text_document.bin"
        made.parent.mkdir(exist_ok=True)
        tokfmt.convert(SOURCE, made, eos=EOS, select=f"{9 * k}:{9 * k + 9}")
    return tmp_path


@pytest.mark.parametrize(
    "names",
    [["in"], ["in/*"], ["in/*.bin"], ["in/*.idx"], ["in/part_*_text_document"], ["in/part_*"], None],
    ids=["folder", "all files", "bin", "idx", "prefixes", "beginnings", "as a shell writes *"],
)
def test_pairs_are_merged_once_however_they_are_named(pairs, names):
    paths = sorted((pairs / "in").iterdir()) if names is None else [pairs / name for name in names]
    done = tokfmt.convert(paths, pairs / "merged_text_document", eos=EOS)
    assert (done.sequences, done.format) == (27, "megatron")
    assert tokfmt.diff(SOURCE, pairs / "merged_text_document", eos=EOS).counts == {"only_in_a": 15}
    if names != ["in"]:
        assert tokfmt.stats(paths).total.sequences == 27
        assert len(tokfmt.check(paths)) == len(tokfmt.fleet(paths).datasets) == 3


def test_a_name_that_is_cut_is_completed_in_the_error(pairs):
    with pytest.raises(FormatError, match="Did you mean .*part_0_text_document.bin"):
        tokfmt.open(pairs / "in" / "part_0")


@pytest.mark.parametrize("names", ["in", "in/*", "in/*.bin", "in/*.idx", "in/part_*_text_document", "in/part_*"])
@pytest.mark.parametrize("lost", [".bin", ".idx"])
@pytest.mark.parametrize("manifests", [True, False])
def test_a_pair_without_one_of_its_files_is_an_error_however_it_is_named(pairs, lost, names, manifests):
    for manifest in (pairs / "in").glob("*.tokfmt.json") if not manifests else ():
        manifest.unlink()
    (pairs / "in" / f"part_1_text_document{lost}").unlink()
    with pytest.raises(FormatError, match="in/part_1_text_document") as caught:
        tokfmt.convert(pairs / names, pairs / "merged_text_document", eos=EOS)
    assert caught.value.exit_code == 3
    reports = tokfmt.check(pairs / names)
    assert [bool(report.errors) for report in reports] == ([True] if names == "in" else [False, True, False])
    assert not (pairs / "merged_text_document.bin").exists()


def test_a_pattern_of_pairs_has_no_index_of_another_format(pairs):
    (pairs / "in" / "shard-000.tar").write_bytes(b"")
    (pairs / "in" / "shard-000.idx").write_text("0 512\n")  # as wds2idx writes one
    assert tokfmt.stats(pairs / "in/*.bin").total.sequences == 27


@pytest.mark.parametrize(
    ("names", "times"),
    [
        (["in/part_0_text_document", "in/part_0_text_document.bin"], 2),
        (["in/part_0_text_document.bin"] * 3, 3),
        (["in/part_0*", "in/part_*.bin"], 2),
        (["in", "in/part_0_text_document"], 2),
        (["in/part_0_text_document", "link.bin"], 2),
        (["in/part_0_text_document", "in/part_1_text_document.bin"], 1),
    ],
)
def test_a_file_that_several_sources_name_is_reported(pairs, names, times):
    for suffix in (".bin", ".idx"):
        (pairs / f"link{suffix}").symlink_to(pairs / "in" / f"part_0_text_document{suffix}")
    paths = [pairs / name for name in names]
    done = tokfmt.convert(paths, pairs / "out.pbin", eos=EOS, ignore_manifest=True)
    said = [note for note in done.notes if f"read {times} times" in note]
    assert [("part_0_text_document.bin" in note) for note in said] == ([True] if times > 1 else [])


def test_what_is_not_removed_is_not_kept_without_a_separator(tmp_path):
    """One of several files has no separators; it gets that of the others, and no note contradicts the counts."""
    (tmp_path / "in").mkdir()
    ids = [[[7, 8], [9]], [[7], [8, 9]], [[5], [6]]]
    for k, rows in enumerate(ids):
        lines = "".join(f'{{"input_ids": {[*row, *([EOS] if k != 1 else [])]}}}\n' * 5 for row in rows)
        (tmp_path / "rows.jsonl").write_text(lines)
        tokfmt.convert(tmp_path / "rows.jsonl", tmp_path / "in" / f"p{k}.bin", to_format="megatron", eos="none")
        (tmp_path / "in" / f"p{k}.bin.tokfmt.json").unlink()
    done = tokfmt.convert(tmp_path / "in" / "*", tmp_path / "out.bin", to_format="megatron")
    assert (done.separators["kept"], done.separators["added"]) == (20, 10)
    (note,) = [note for note in done.notes if str(EOS) in note]  # once for both files
    assert "p0.bin" in note
    assert "p2.bin" in note
    assert not any("kept" in note for note in done.notes)
    with pytest.raises(SeparatorUnknownError) as caught:
        tokfmt.convert(tmp_path / "in", tmp_path / "other.bin", to_format="megatron")
    assert "in/*" in caught.value.remedy
