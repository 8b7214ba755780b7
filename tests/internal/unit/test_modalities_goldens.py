"""Every pack of every layout that Modalities' own code has written: documents, layout, separator, detection."""

import json

import pytest
from paths import FIXTURES, GOLDEN

from tokfmt.core.format import Confidence, look
from tokfmt.formats.modalities import FORMAT

HERE = FIXTURES / "modalities"
EXPECTED = json.loads((HERE / "expected.json").read_text())
PACKS = EXPECTED["pbin"]
P0 = "wild_branch_only_P0_noheader.pbin"
BY_NAME_ALONE = {
    P0,
    "wild_branch_only_P2_header4_len_plus3.pbin",
    "wild_branch_only_A_broken_offsets_6bcc334f.pbin",
    "wild_branch_only_A_len_plus1_b8211997.pbin",
}


@pytest.mark.parametrize("name", PACKS)
def test_detected(name, tmp_path):
    claim = FORMAT.sniff(look(HERE / name))
    assert claim is (Confidence.NAME if name in BY_NAME_ALONE else Confidence.CERTAIN)
    renamed = tmp_path / "data.bin"
    renamed.write_bytes((HERE / name).read_bytes())
    assert FORMAT.sniff(look(renamed)) is (None if name in BY_NAME_ALONE else Confidence.CERTAIN)


SAMPLES = GOLDEN / "modalities"


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="fixtures of other formats, not part of the repository")
def test_nothing_else_is_claimed():
    others = [path for name in ("hdf5", "flat-tokens", "gpt2") for path in (GOLDEN / name).rglob("*")]
    others += [path for path in SAMPLES.rglob("*") if path.suffix != ".pbin"]
    claimed = [path for path in others if FORMAT.sniff(look(path)) is not None]
    assert len(others) > 150
    assert claimed == []


def test_no_fixture_of_another_format_is_claimed():
    others = [path for path in FIXTURES.rglob("*") if "modalities" not in path.parts]
    assert [p for p in others if (p.is_file() or p.is_dir()) and p.suffix != ".pbin" and FORMAT.sniff(look(p))] == []
