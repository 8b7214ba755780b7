"""Datasets of several files, however they are named: by prefixes, patterns, lists of a shell, and folders."""

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.errors import FormatError

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
