"""Every golden with documents in its expected.json converts to exactly those documents, or is refused by name."""

import json

import pytest
from paths import FIXTURES, expected, golden, pieces

import tokfmt
from tokfmt.errors import LossyConversionError, SeparatorUnknownError, UnsupportedError


def converted(source, home, **options):
    tokfmt.convert(source, home / "out.jsonl", executor="serial", **options)
    return [json.loads(line)["input_ids"] for line in (home / "out.jsonl").read_bytes().splitlines()]


def without(eos, documents):
    """What commands see: documents without the separator that ends each."""
    return [doc[:-1] if doc[-1:] == [eos] else doc for doc in documents]


PACKS = expected("modalities")["pbin"]


@pytest.mark.parametrize("name", PACKS)
def test_modalities(name, tmp_path):
    case, sets = PACKS[name], expected("modalities")["doc_sets"]
    source = FIXTURES / "modalities" / name
    if name.startswith("wild_repo_"):
        source = golden("modalities", name)
    how = {"format": "modalities", "options": {"layout": "P0"}, "eos": 50256} if "P0" in name else {}
    documents = sets[case["documents"]]
    if how:  # no index: documents are what lies between separators, and one of them holds a literal one
        assert converted(source, tmp_path, **how) == pieces([t for doc in documents for t in doc], 50256)
        return
    # some hold the separator as text, so that the data alone does not show it
    assert converted(source, tmp_path, eos=case["eod_id"]) == without(case["eod_id"], documents)
    (tmp_path / "out.jsonl").unlink()
    assert converted(source, tmp_path, eos="none") == documents


STORES = {k: v for k, v in expected("flat-tokens").items() if not k.startswith("_")}


@pytest.mark.parametrize("name", STORES)
def test_flat_tokens(name, tmp_path):
    case, source = STORES[name], FIXTURES / "flat-tokens" / name
    if case["kind"] == "array":
        assert converted(source, tmp_path) == case["sequences"]
        return
    for split, sequences in case["splits"].items():
        assert converted(source, tmp_path, split=split) == sequences
        (tmp_path / "out.jsonl").unlink()
    if len(case["splits"]) > 1:
        with pytest.raises(LossyConversionError, match=r"validation.*--allow-loss splits"):
            converted(source, tmp_path)
        assert converted(source, tmp_path, allow_loss=["splits"]) == case["splits"]["train"]


@pytest.mark.parametrize("name", expected("stage1"))
def test_stage1(name, tmp_path):
    assert converted(FIXTURES / "stage1" / name, tmp_path) == expected("stage1")[name]


HDF5 = expected("hdf5")["fixtures"]


@pytest.mark.parametrize("name", HDF5)
def test_hdf5(name, tmp_path):
    case, source = HDF5[name], FIXTURES / "hdf5" / name
    eos = case["eos"]
    if case.get("multiset_equals"):
        with pytest.raises(UnsupportedError, match="--from-opt view=samples"):
            converted(source, tmp_path, eos=eos)
        rows = converted(source, tmp_path, eos=eos, options={"view": "samples"}, allow_loss=["loss-mask"])
        assert {len(row) for row in rows} == {expected("hdf5")["msl"]}
        return
    if name == "summarization":
        with pytest.raises(LossyConversionError, match=r"loss mask.*--allow-loss loss-mask"):
            converted(source, tmp_path, eos=eos)
    found = converted(source, tmp_path, eos=eos, allow_loss=["loss-mask"])
    kept = case.get("recovered_documents") or case.get("recovered_segments")
    if kept:
        assert found == without(eos, kept)
    else:
        assert found == [piece for stream in case["streams"] for piece in pieces(stream["tokens"], eos)]


def test_hdf5_without_a_separator_requires_eos(tmp_path):
    with pytest.raises(SeparatorUnknownError, match="--eos ID"):
        converted(FIXTURES / "hdf5" / "packed_overlap", tmp_path)


def test_array_of_several_streams(tmp_path):
    """Model-Optimizer begins a stream at the first row of each worker; other rows repeat a token."""
    case = next(one for one in expected("array")["cases"] if one["name"] == "model_optimizer")
    source, stream = FIXTURES / "array" / case["entry"], [token for one in case["streams"] for token in one]
    assert converted(source, tmp_path, eos=case["eos"], options={"view": "documents"}) == pieces(stream, case["eos"])


REFUSED = {"faulty", "latin1", "non_dict", "surrogate"}


@pytest.mark.parametrize("path", sorted((FIXTURES / "jsonl").glob("*.jsonl")), ids=lambda p: p.stem)
def test_jsonl_text_stays_text(path, tmp_path):
    """Lines are copied as they stand; an invalid one is an error with its line number; blank ones go."""
    out = tmp_path / "out.jsonl"
    options = {"options": {"index": "none"}, "executor": "serial"}
    if path.stem in REFUSED:
        with pytest.raises(tokfmt.TokfmtError, match=r"line \d+"):
            tokfmt.convert(path, out, **options)
        return
    tokfmt.convert(path, out, verify=True, **options)
    content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    assert out.read_bytes() == b"".join(line.rstrip(b"\r") + b"\n" for line in content.split(b"\n") if line.strip())
