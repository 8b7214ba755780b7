"""Every pack of every layout that Modalities' own code has written: documents, layout, separator, detection."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import registered
from model.separated import without_trailing
from paths import FIXTURES, GOLDEN

import tokfmt
from tokfmt.core.ragged import Ragged
from tokfmt.errors import FormatError
from tokfmt.formats.modalities import FORMAT
from tokfmt.formats.modalities.options import ReadOptions
from tokfmt.plugin import Confidence, Hints
from tokfmt.testing import MemoryReader, sequences, write

HERE = FIXTURES / "modalities"
EXPECTED = json.loads((HERE / "expected.json").read_text())
PACKS = EXPECTED["pbin"]
P0 = "wild_branch_only_P0_noheader.pbin"


def stored(name):
    return EXPECTED["doc_sets"][PACKS[name]["documents"]]


def opened(path, **options):
    return FORMAT.open([path], ReadOptions(**options), Hints())


def facts(reader):
    extras = reader.info.extras
    return extras["layout"], extras["width"], extras["byte_order"][0] + "e", extras["header_bytes"]


def described(entry):
    return entry["layout"], entry["token_bytes"], entry["endian"], entry["header_bytes"]


def test_the_goldens_are_there():
    assert len(PACKS) == 42
    assert set(PACKS) == {path.name for path in HERE.glob("*.pbin")}
    for name, entry in PACKS.items():
        assert hashlib.sha256((HERE / name).read_bytes()).hexdigest() == entry["sha256"]


@pytest.mark.parametrize("name", [name for name in PACKS if name != P0])
def test_stored_axis(name):
    reader = opened(HERE / name)
    assert sequences(reader) == stored(name)
    assert facts(reader) == described(PACKS[name])
    assert reader.info.sequences == PACKS[name]["n_docs"]
    assert reader.info.tokens == PACKS[name]["n_tokens"]
    index_at = PACKS[name].get("index_at", PACKS[name]["header_bytes"] + PACKS[name].get("data_len", 0))
    assert reader.info.extras["index_bytes"] == PACKS[name]["bytes"] - index_at
    assert reader.info.dtype == {1: np.uint8, 2: np.uint16}.get(PACKS[name]["token_bytes"], np.uint32)


@pytest.mark.parametrize("name", [name for name in PACKS if name != P0])
def test_separator_is_removed_and_inferred_where_the_data_shows_it(name, tmp_path):
    eos, documents = PACKS[name]["eod_id"], stored(name)
    assert all(document[-1] == eos for document in documents)
    source = tokfmt.open(HERE / name, eos=eos)
    assert source.format == "modalities"
    assert sequences(source.reader) == [document[:-1] for document in documents]
    shutil.copy(HERE / name, alone := tmp_path / name)  # a manifest stands beside one of them
    shown = len(documents) >= 8 and not any(eos in document[:-1] for document in documents)
    guessed = tokfmt.open(alone)
    assert (guessed.origin[0].separator.eos_id, guessed.origin[0].separator.inferred) == (
        (eos, True) if shown else (None, False)
    )
    assert sequences(guessed.reader) == ([document[:-1] for document in documents] if shown else documents)


def test_stream_without_header():
    with pytest.raises(FormatError, match="layout"):
        tokfmt.open(HERE / P0)
    reader = opened(HERE / P0, layout="P0")
    assert sequences(reader) == [[token for document in stored(P0) for token in document]]
    assert facts(reader) == described(PACKS[P0])
    source = tokfmt.open(HERE / P0, format="modalities", eos=50256, options=["layout=P0"])
    pieces = [[]]
    for token in [token for document in stored(P0) for token in document]:
        if token == 50256:
            pieces.append([])
        else:
            pieces[-1].append(token)
    assert sequences(source.reader) == pieces[: len(pieces) - (not pieces[-1])]


@pytest.mark.parametrize("name", [name for name in PACKS if PACKS[name]["layout"] in {"A", "B", "C", "D"}])
def test_naming_the_right_layout_changes_nothing(name):
    entry = PACKS[name]
    reader = opened(HERE / name, layout=entry["layout"], width=entry["token_bytes"])
    assert sequences(reader) == stored(name)
    for other in {"A", "B", "C", "P1"} - {entry["layout"]} - ({"C"} if entry["layout"] == "D" else set()):
        with pytest.raises(FormatError):
            opened(HERE / name, layout=other)


def test_notes():
    assert opened(HERE / "E_D_2byte_gpt2.pbin").info.notes == (
        "index offsets are shifted from entry 5 on (merged by a tool that shifts later files by "
        "12 bytes); documents were read by length",
    )
    assert opened(HERE / "D_2byte_gpt2.pbin").info.notes == ()
    assert opened(HERE / "C_2byte_gpt2.pbin").info.inferred == ()
    assert opened(HERE / "A_2byte_gpt2.pbin").info.inferred == (
        "2-byte tokens, which this layout does not store; --from-opt width=N overrides",
    )


SAMPLES = GOLDEN / "modalities"


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="sample data of others, not part of the repository")
@pytest.mark.parametrize("name", ["wild_repo_C_lorem_ipsum.pbin", "wild_repo_D_lorem_ipsum.pbin"])
def test_sample_data_of_the_project(name):
    expected = json.loads((SAMPLES / "expected.json").read_text())
    entry = expected["pbin"][name]
    reader = opened(SAMPLES / name)
    assert sequences(reader) == expected["doc_sets"][entry["documents"]]
    assert facts(reader) == described(entry)


# writing what upstream wrote, byte for byte


def rewritten(tmp_path, name, documents, options, size=100):
    dtype, eos = np.dtype({1: np.uint8, 2: np.uint16}.get(PACKS[name]["token_bytes"], np.uint32)), PACKS[name]["eod_id"]
    contents = without_trailing(MemoryReader(Ragged.of(documents, dtype)), eos)
    path = write(FORMAT, tmp_path / name, contents, eos_id=eos, options=options, size=size)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("D_2byte_gpt2_eod_always.pbin", {}),
        ("D_2byte_gpt2_crlf.pbin", {}),
        ("D_join_of_one.pbin", {}),
        ("D_1byte_byte256.pbin", {}),
        ("D_4byte_wide.pbin", {}),
        ("A_4byte_gpt2.pbin", {"layout": "A"}),
        ("A_2byte_gpt2.pbin", {"layout": "A", "width": 2}),
        ("A_1byte_byte256.pbin", {"layout": "A", "width": 1}),
    ],
)
def test_same_bytes_as_upstream(tmp_path, name, options):
    assert rewritten(tmp_path, name, stored(name), options) == PACKS[name]["sha256"]


@pytest.mark.parametrize("name", ["D_2byte_gpt2.pbin", "D_1byte_byte256.pbin", "D_4byte_wide.pbin"])
def test_same_bytes_as_upstream_with_separators_only_where_missing(tmp_path, name):
    """Some documents come with their own separator, some without; each ends up with one."""
    eos = PACKS[name]["eod_id"]
    documents = [
        document if i % 3 == 0 or document[-2:-1] in ([], [eos]) else document[:-1]
        for i, document in enumerate(stored(name))
    ]
    lines = tmp_path / "x.jsonl"
    lines.write_text("".join(json.dumps({"input_ids": document}) + "\n" for document in documents))
    tokfmt.convert(lines, tmp_path / name, eos=eos, verify=True)
    assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == PACKS[name]["sha256"]


BY_NAME_ALONE = {
    P0,
    "wild_branch_only_P2_header4_len_plus3.pbin",
    "wild_branch_only_A_broken_offsets_6bcc334f.pbin",
    "wild_branch_only_A_len_plus1_b8211997.pbin",
}


@pytest.mark.parametrize("name", PACKS)
def test_detected(name, tmp_path):
    claim = registered.sniffed(FORMAT, HERE / name)
    assert claim is (Confidence.NAME if name in BY_NAME_ALONE else Confidence.CERTAIN)
    renamed = tmp_path / "data.bin"
    renamed.write_bytes((HERE / name).read_bytes())
    assert registered.sniffed(FORMAT, renamed) is (None if name in BY_NAME_ALONE else Confidence.CERTAIN)


SAMPLES = GOLDEN / "modalities"


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="fixtures of other formats, not part of the repository")
def test_nothing_else_is_claimed():
    others = [path for name in ("hdf5", "flat-tokens", "gpt2") for path in (GOLDEN / name).rglob("*")]
    others += [path for path in SAMPLES.rglob("*") if path.suffix != ".pbin"]
    claimed = [path for path in others if registered.sniffed(FORMAT, path) is not None]
    assert len(others) > 150
    assert claimed == []


def test_no_fixture_of_another_format_is_claimed():
    others = [path for path in FIXTURES.rglob("*") if "modalities" not in path.parts]
    assert [
        p for p in others if (p.is_file() or p.is_dir()) and p.suffix != ".pbin" and registered.sniffed(FORMAT, p)
    ] == []
