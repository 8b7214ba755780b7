"""The separator that a destination gets: `--to-eos ID | none | as-stored`, by default that of the sources."""

import json

import by_hand
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import ConversionError, OptionError, SeparatorUnknownError

EOS, OTHER = 7, 8
CONTENTS = [[9], [9, 9], [9, 5]]
INDEXED = {"megatron": "out_document.bin", "modalities": "out.pbin", "datatrove": "out.ds", "mds": "m", "litdata": "l"}
STREAMS = {"nanogpt": "train.bin", "llmc": "out_train_1.bin", "olmo": "part-0.npy", "stage1": "s.bin", "hdf5": "o.h5"}


def pack(path, contents=CONTENTS, ends=(EOS,)):
    return by_hand.pack(path, [[*one, *ends] for one in contents])


def rows(path, contents=CONTENTS):
    pq.write_table(pa.table({"input_ids": pa.array(contents, pa.list_(pa.uint16()))}), path)
    return path


def stored(path):
    """The tokens of the files of megatron, and the manifest."""
    return np.fromfile(path, "<u2").tolist(), json.loads(path.with_name(f"{path.name}.tokfmt.json").read_bytes())


def joined(contents, *ends):
    return [token for one in contents for token in (*one, *ends)]


@pytest.mark.parametrize(
    ("to_eos", "ends", "counts", "facts"),
    [
        (None, [EOS], {"kept": 3}, (EOS, "--eos", "after")),
        (EOS, [EOS], {"kept": 3}, (EOS, "--to-eos", "after")),
        (OTHER, [OTHER], {"replaced": 3}, (OTHER, "--to-eos", "after")),
        ("none", [], {"dropped": 3}, (EOS, "--eos", "none")),
        ("as-stored", [EOS], {"kept": 3}, (EOS, "--eos", "after")),
    ],
)
def test_separators_of_the_source_are_kept_replaced_or_dropped(to_eos, ends, counts, facts, tmp_path):
    out = tmp_path / "out_document.bin"
    done = tokfmt.convert(pack(tmp_path / "x.pbin"), out, eos=EOS, to_eos=to_eos, verify=True)
    tokens, manifest = stored(out)
    assert tokens == joined(CONTENTS, *ends)
    assert (manifest["eos_id"], manifest["eos_from"], manifest["eos_stored"]) == facts
    assert {name: count for name, count in done.separators.items() if count} == counts
    with tokfmt.open(out) as dataset:
        assert [one.tolist() for one in dataset] == CONTENTS


@pytest.mark.parametrize(
    ("to_eos", "ends", "counts"),
    [(OTHER, [OTHER], {"added": 3}), ("none", [], {"bare": 3}), ("as-stored", [], {"bare": 3})],
)
def test_a_source_without_separators(to_eos, ends, counts, tmp_path):
    out = tmp_path / "out_document.bin"
    done = tokfmt.convert(rows(tmp_path / "x.parquet"), out, to_eos=to_eos, verify=True)
    assert stored(out)[0] == joined(CONTENTS, *ends)
    assert {name: count for name, count in done.separators.items() if count} == counts


@pytest.mark.parametrize("name", INDEXED)
def test_formats_with_an_index_store_none_if_wanted(name, tmp_path):
    out = tmp_path / INDEXED[name]
    tokfmt.convert(rows(tmp_path / "x.parquet"), out, to_format=name, eos=EOS, to_eos="none", verify=True)
    with tokfmt.open(out, eos="none") as dataset:
        assert [one.tolist() for one in dataset] == CONTENTS


@pytest.mark.parametrize("word", ["none", "as-stored"])
@pytest.mark.parametrize("name", STREAMS)
def test_formats_of_which_only_separators_mark_the_ends_need_one(name, word, tmp_path):
    source, out = rows(tmp_path / "x.parquet"), tmp_path / "to" / STREAMS[name]
    out.parent.mkdir()
    words = {
        "none": f"^--to-eos none: in {name}, only separators .*",
        "as-stored": f"{name} stores a separator .*--eos ID.*",
    }
    with pytest.raises((OptionError, SeparatorUnknownError), match=rf"{words[word]} --to-eos ID writes one"):
        tokfmt.convert(source, out, to_format=name, to_eos=word)
    assert not list(out.parent.iterdir())


def test_blocks_of_a_stream_need_one_and_rows_do_not(tmp_path):
    source = rows(tmp_path / "x.parquet")
    with pytest.raises(OptionError, match="--to-eos none"):
        tokfmt.convert(source, tmp_path / "b.parquet", to_options={"seq_len": 4}, to_eos="none")
    tokfmt.convert(source, tmp_path / "b.parquet", to_eos="none", verify=True)
    tokfmt.convert(source, tmp_path / "c.parquet", to_options={"seq_len": 4}, to_eos=EOS, verify=True)
    assert pq.read_table(tmp_path / "c.parquet")["input_ids"].to_pylist() == [[9, EOS, 9, 9], [EOS, 9, 5, EOS]]


def test_the_source_may_have_another_one(tmp_path):
    """`eos` states what the source has, and `to_eos` what is written. With `eos="none"`, nothing is trimmed."""
    source = pack(tmp_path / "x.pbin")
    for number, (eos, contents) in enumerate(((EOS, CONTENTS), ("none", [[*one, EOS] for one in CONTENTS]))):
        for to_eos in (EOS, OTHER):
            out = tmp_path / f"{number}{to_eos}_document.bin"
            tokfmt.convert(source, out, eos=eos, to_eos=to_eos, verify=True)
            assert stored(out)[0] == joined(contents, to_eos)


def test_sources_with_different_separators(tmp_path):
    sources = [pack(tmp_path / "a.pbin"), pack(tmp_path / "b.pbin", ends=[OTHER])]
    for path, eos in zip(sources, (EOS, OTHER)):
        tokfmt.convert(path, path.with_suffix(".again.pbin"), eos=eos)
    sources, out = [path.with_suffix(".again.pbin") for path in sources], tmp_path / "out_document.bin"
    with pytest.raises(ConversionError, match=r"different separators \(7 in .*, 8 in .*--to-eos ID replaces all"):
        tokfmt.convert(sources, out)
    with pytest.raises(OptionError, match="--to-eos as-stored"):
        tokfmt.convert([*sources[:1], rows(tmp_path / "x.parquet")], out, to_eos="as-stored")
    done = tokfmt.convert(sources, out, to_eos=OTHER, verify=True)
    assert stored(out)[0] == joined([*CONTENTS, *CONTENTS], OTHER)
    assert (done.separators["kept"], done.separators["replaced"]) == (3, 3)
    tokfmt.convert(sources, out, to_eos="none", verify=True, overwrite=True)
    assert stored(out)[0] == joined([*CONTENTS, *CONTENTS])


@pytest.mark.parametrize("how", [{}, {"shuffle": 1}, {"split": "a=0.5,b=0.5"}], ids=str)
def test_as_stored_adds_none_where_an_index_marks_the_ends(how, tmp_path):
    documents = [[9, EOS], [9, 5], [], [EOS], [5, 9, EOS]] * 6
    source = rows(tmp_path / "x.parquet", documents)
    tokfmt.convert(source, tmp_path / "in_document.bin", eos="none")
    out = tmp_path / "o_document.bin"
    done = tokfmt.convert(tmp_path / "in_document.bin", out, eos=EOS, to_eos="as-stored", verify=True, **how)
    paths = [tmp_path / f"o_document{part}.bin" for part in ((".a", ".b") if "split" in how else ("",))]
    tokens = [token for path in paths for token in stored(path)[0]]
    assert sorted(tokens) == sorted(joined(documents)) if how else tokens == joined(documents)
    assert {name: count for name, count in done.separators.items() if count} == {"kept": 18, "bare": 12}
    assert stored(paths[0])[1]["eos_stored"] == "after"


def test_as_stored_leaves_the_end_of_a_stream_open(tmp_path):
    """Where only separators mark the ends, the last document alone may lack one."""
    tokens = [9, EOS, 9, 9, EOS, 9, 5]
    np.array(tokens, "<u2").tofile(tmp_path / "val.bin")
    tokfmt.convert(tmp_path / "val.bin", tmp_path / "train.bin", eos=EOS, to_eos="as-stored", verify=True)
    assert np.fromfile(tmp_path / "train.bin", "<u2").tolist() == tokens
    sources = [tmp_path / "val.bin", pack(tmp_path / "x.pbin")]
    with pytest.raises(
        OptionError, match=r"as-stored: 1 sequence without a separator \(first: sequence 2\).*--to-eos ID"
    ):
        tokfmt.convert(
            sources, tmp_path / "train.bin", to_format="nanogpt", eos=EOS, to_eos="as-stored", overwrite=True
        )


def test_as_stored_does_not_make_a_separator_of_content(tmp_path):
    """Where nothing says that an ID at an end is a separator, it is none in the destination either."""
    contents = [[9, EOS], [5]]
    tokfmt.convert(pack(tmp_path / "x.pbin", contents), tmp_path / "y.zarr", eos=EOS)
    tokfmt.convert(tmp_path / "y.zarr", tmp_path / "z.pbin", to_eos="as-stored", verify=True)
    with tokfmt.open(tmp_path / "z.pbin") as dataset:
        assert [one.tolist() for one in dataset] == contents


@pytest.mark.parametrize("name", ["modalities", "nanogpt"])
def test_an_unknown_separator_is_only_missed_where_one_is_stored(name, tmp_path):
    source = rows(tmp_path / "x.parquet")
    with pytest.raises(SeparatorUnknownError) as caught:
        tokfmt.convert(source, tmp_path / "out", to_format=name)
    words = str(caught.value)
    assert "--eos ID" in words
    assert "--to-eos ID" in words
    assert ("--to-eos none" in words) is (name == "modalities")
    assert tokfmt.convert(source, tmp_path / "out.zarr").separator["eos_id"] is None


@pytest.mark.parametrize(("variant", "prescribed"), [("llama3", 128000), ("gpt2", 50256)])
def test_a_variant_may_prescribe_it(variant, prescribed, tmp_path):
    source, out, how = rows(tmp_path / "x.parquet"), tmp_path / "out_train_1.bin", {"to_options": {"variant": variant}}
    for words in ({"eos": EOS}, {"to_eos": EOS}):
        with pytest.raises(ConversionError, match=rf"{prescribed}.* 7\. --to-eos {prescribed} writes it"):
            tokfmt.convert(source, out, **how, **words)
    tokfmt.convert(source, out, to_eos=prescribed, verify=True, **how)
    tokens = np.frombuffer(out.read_bytes()[1024:], {"llama3": "<u4", "gpt2": "<u2"}[variant])
    assert tokens.tolist() == [token for one in CONTENTS for token in (prescribed, *one)]
    tokfmt.convert(source, tmp_path / "any_train_1.bin", to_eos=EOS, verify=True)


@pytest.mark.parametrize("wrong", ["foo", "-1", "1.5", "stored"])
def test_what_is_no_id_is_refused(wrong, tmp_path):
    words = ["convert", rows(tmp_path / "x.parquet"), tmp_path / "o.pbin", "--to-eos", wrong]
    done = CliRunner().invoke(cli, list(map(str, words)))
    assert done.exit_code == 2
    assert "--to-eos" in done.stderr
    with pytest.raises(OptionError, match="^to_eos: "):
        tokfmt.convert(tmp_path / "x.parquet", tmp_path / "o.pbin", to_eos=wrong)


def test_a_dataset_is_saved_with_it(tmp_path):
    with tokfmt.open(pack(tmp_path / "x.pbin"), eos=EOS) as dataset:
        dataset.shuffle(1).save(tmp_path / "out_document.bin", to_eos=OTHER)
    assert stored(tmp_path / "out_document.bin")[0].count(OTHER) == len(CONTENTS)


def test_tasks_and_resumed_runs_agree_on_it(tmp_path):
    source, out = pack(tmp_path / "x.pbin"), tmp_path / "out"
    how = {"to_format": "mds", "eos": EOS}
    tokfmt.convert(source, out, task=(0, 2), to_eos=OTHER, **how)
    for to_eos in (None, "none"):
        with pytest.raises(ConversionError, match="the separator was 8"):
            tokfmt.convert(source, out, task=(1, 2), to_eos=to_eos, **how)
    tokfmt.convert(source, out, task=(1, 2), to_eos=OTHER, **how)


def test_samples_of_a_recipe_keep_theirs(tmp_path):
    rows(tmp_path / "x.parquet")
    recipe = tmp_path / "x.toml"
    recipe.write_text(f'tokfmt = 1\nseq_len = 4\nto_eos = {EOS}\n[[source]]\npath = "x.parquet"\n')
    with pytest.raises(OptionError, match="--to-eos.*Set to_eos in the recipe"):
        tokfmt.convert(recipe, tmp_path / "y.h5", to_eos=OTHER)
    tokfmt.convert(recipe, tmp_path / "y.h5", verify=True)
