"""What rows of samples are: a recipe that is stored and read again is the recipe, or it is refused."""

import json
import shutil

import pytest
from amount import NIGHTLY, first
from hypothesis import given, settings
from hypothesis import strategies as st

import tokfmt
from tokfmt.errors import ConversionError, CorruptError, LossyConversionError, TokfmtError

EOS = 99
PLACES = (
    ("modalities", "out.pbin", None), ("hdf5", "out.h5", None), ("hdf5", "out", 3), ("stage1", "out", None),
    ("stage1", "out", 2), ("flat-tokens", "out.zarr", None), ("megatron", "out.bin", None),
    ("nanogpt", "out.bin", None), ("olmo", "out", None), ("llmc", "out.bin", None), ("litdata", "out", None),
    ("mds", "out", None), ("datatrove", "out", None), ("parquet", "out.parquet", None), ("arrow", "out", None),
)  # fmt: skip
"""Formats, the name of what is written, and how many samples a file of it holds, where that is given."""
RAW = ("nanogpt", "olmo")
"""Arrays of ids, of which only the manifest says how wide they are; they store no samples, but documents alone."""


@st.composite
def recipes(draw):
    """The words of a recipe of one to three weighted sources, and the documents of each."""
    pack = draw(st.sampled_from(["stream", "document", "bestfit"]))
    labels = draw(st.sampled_from(["next", "starts", *(["disjoint"] if pack == "stream" else [])]))
    words = {"tokfmt": 1, "pack": pack, "seq_len": draw(st.integers(1, 9)), "labels": labels}
    if labels != "starts":
        words["to_eos"] = EOS
    shuffle = draw(st.sampled_from(["documents", "samples", None]))
    if draw(st.booleans()):
        words["epochs"] = 2
    if shuffle:
        words |= {"shuffle": shuffle, "seed": draw(st.integers(0, 9))}
    document = st.lists(st.integers(1, 60), min_size=1, max_size=15)
    sources = draw(st.lists(st.lists(document, min_size=1, max_size=20), min_size=1, max_size=3))
    return words, sources, draw(st.booleans())


def written(home, words, sources, weighted):
    lines = [f"{name} = {json.dumps(value)}" for name, value in words.items()]
    for k, documents in enumerate(sources):
        (home / f"s{k}.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in documents))
        lines += ["[[source]]", f'path = "s{k}.jsonl"', *([f"weight = 0.{k + 2}"] if weighted else [])]
    (home / "mix.toml").write_text("\n".join(lines) + "\n")
    return home / "mix.toml"


def read_back(path, out, name, how):
    """The lines of a stored recipe: as it is read by itself, masks of its samples left out if need be."""
    for allow_loss in ((), ("loss-mask",)):
        try:
            tokfmt.convert(path, out, format=name, allow_loss=allow_loss, overwrite=True, jobs=1, **how)
        except ConversionError as error:
            assert "loss-mask" in str(error)
            continue
        return out.read_bytes()
    return None


@settings(max_examples=200 if NIGHTLY else 12, deadline=None)
@given(recipes(), st.booleans())
@pytest.mark.parametrize(("name", "file", "samples"), first(3, PLACES))
def test_a_stored_recipe_is_the_recipe_or_refused(name, file, samples, tmp_path_factory, mix, manifest):
    """With its manifest and without one; blocks have no place that says what samples are, the manifest alone does."""
    home = tmp_path_factory.mktemp("law")
    path = written(home, *mix)
    try:
        tokfmt.convert(path, home / "direct.jsonl", jobs=1)
    except TokfmtError as error:
        assert "give no sample" in str(error)
        return
    ends = {"to_eos": EOS} if mix[0]["labels"] == "starts" and name not in ("hdf5", "stage1") else {}
    stored, options = home / file, {} if samples is None else {"shard_size": samples * mix[0]["seq_len"]}
    try:
        tokfmt.convert(path, stored, to_format=name, to_options=options, verify=True, jobs=1, **ends)
    except LossyConversionError as error:
        assert "(99) inside sequences" in str(error)
        return
    how = {}
    if not manifest and name not in RAW:
        (home / f"{stored.name}.tokfmt.json").unlink()
        # A separator at the end of a row is content of the sample.
        how = {"eos": "none" if name in ("flat-tokens", "parquet", "arrow") else EOS}
        if name == "stage1":
            how["options"] = {"view": "samples", "seq_len": mix[0]["seq_len"]}
    wanted = (home / "direct.jsonl").read_bytes()
    assert read_back(stored, home / "back.jsonl", name, how) == wanted
    shutil.rmtree(home)


@pytest.mark.parametrize("key", ["sequences", "tokens"])
@pytest.mark.parametrize(("name", "file"), [("hdf5", "x.h5"), ("stage1", "x"), ("modalities", "x.pbin")])
def test_check_compares_the_counts_of_samples_with_the_manifest(tmp_path, name, file, key):
    """As every command that reads does; tokens of formats with separators are counted by a deep check."""
    documents = [list(range(1, 2 + k % 50)) for k in range(40)]
    path = written(
        tmp_path, {"tokfmt": 1, "seq_len": 8, "to_eos": EOS, "shuffle": "samples"}, [documents], weighted=False
    )
    stored, beside = tmp_path / file, tmp_path / f"{file}.tokfmt.json"
    tokfmt.convert(path, stored, to_format=name)
    for deep in (False, True):
        assert not tokfmt.check(stored, deep=deep)[0].errors
    told = json.loads(beside.read_text())
    beside.write_text(json.dumps({**told, key: told[key] + 1}))
    for deep in (False, True):
        found = tokfmt.check(stored, deep=deep)[0].counts
        assert ("TF913" in found or "TF901" in found) == (deep or name != "modalities" or key == "sequences")
    with pytest.raises(CorruptError, match=f"contradicts its manifest x.*in {key}"):
        tokfmt.open(stored)


def test_the_manifest_says_what_samples_are_where_the_file_does_not(tmp_path):
    """Files without the attribute, and rows that seem to overlap: the manifest decides, an option overrides it."""
    h5py = pytest.importorskip("h5py")
    path = written(tmp_path, {"tokfmt": 1, "seq_len": 8, "to_eos": EOS}, [[list(range(1, 90))] * 3], weighted=False)
    tokfmt.convert(path, tmp_path / "x.h5", manifest=False)
    wanted = [one.tolist() for one in tokfmt.open(tmp_path / "x.h5")]
    assert {len(one) for one in wanted} == {8}
    tokfmt.convert(path, tmp_path / "x.h5", overwrite=True)
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        for name in list(file["data"].attrs):
            del file["data"].attrs[name]
    manifest = json.loads((tmp_path / "x.h5.tokfmt.json").read_text())
    manifest["output"]["bytes"] = (tmp_path / "x.h5").stat().st_size
    (tmp_path / "x.h5.tokfmt.json").write_text(json.dumps(manifest))
    with tokfmt.open(tmp_path / "x.h5") as dataset:
        assert [one.tolist() for one in dataset] == wanted
        assert any("each sample is a sequence, by the manifest of x.h5" in note for note in dataset.notes)
    with tokfmt.open(tmp_path / "x.h5", options={"stride": "overlap"}, eos=EOS) as dataset:
        assert [one.tolist() for one in dataset] == [list(range(1, 90))] * 3


def test_blocks_of_a_recipe_say_where_it_stands_what_they_are(tmp_path):
    path = written(tmp_path, {"tokfmt": 1, "seq_len": 8, "to_eos": EOS}, [[[1, 2, 3]] * 9], weighted=False)
    done = tokfmt.convert(path, tmp_path / "x", to_format="stage1")
    assert any("only the manifest states that each sample is a sequence" in note for note in done.notes)
    documents = tokfmt.open(tmp_path / "x", options={"view": "documents"})
    assert [one.tolist() for one in documents] == [[1, 2, 3]] * 9
