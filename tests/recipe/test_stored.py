"""Recipes stored: to formats of samples and of documents, the same bytes whatever -j, and proved by diff."""

import json

import numpy as np
import pytest
from amount import FUZZ_ONLY, first
from moments import At
from paths import ROOT

import tokfmt
from tokfmt.errors import FormatError, LossyConversionError, OptionError

PACK = ROOT / "fixtures/modalities/E_D_2byte_gpt2.pbin"


@pytest.fixture
def mix(tmp_path):
    rng = np.random.default_rng(5)
    for name, count in (("web", 300), ("code", 90)):
        lines = [json.dumps({"input_ids": rng.integers(1, 500, rng.integers(1, 60)).tolist()}) for _ in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    tokfmt.convert(tmp_path / "web.jsonl", tmp_path / "web.pbin", eos=0)
    tokfmt.convert(tmp_path / "code.jsonl", tmp_path / "code.zarr", eos=0)

    def written(words="", code="weight = 0.3", web="weight = 0.7"):
        path = tmp_path / "mix.toml"
        path.write_text(
            f'tokfmt = 1\nseq_len = 32\nshuffle = "samples"\n{words}\n[[source]]\npath = "web.pbin"\n{web}\n'
            f'[[source]]\npath = "code.zarr"\n{code}\n'
        )
        return path

    return written


def content(path):
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return {p.relative_to(path.parent): p.read_bytes() for p in files}


@pytest.mark.parametrize("pack", first(2, ["stream", "bestfit", "document"]))
@pytest.mark.parametrize(
    ("name", "words"),
    first(
        2, [("x.pbin", {}), ("x.h5", {}), ("x.zarr", {}), ("x", {"to_format": "stage1"}), ("x", {"to_format": "hdf5"})]
    ),
)
def test_stored_is_what_was_asked_for(mix, tmp_path, name, words, pack):
    path = mix(f'pack = "{pack}"')
    found = []
    for jobs, executor in ((1, "serial"), (3, "threads")):
        destination = tmp_path / f"j{jobs}" / name
        destination.parent.mkdir()
        done = tokfmt.convert(path, destination, jobs=jobs, executor=executor, verify=True, **words)
        assert done.sequences == len(tokfmt.open(path))
        found.append(content(destination))
        report = tokfmt.diff(path, destination)
        assert report.identical, report
    assert found[0] == found[1]


def test_rows_of_hdf5_have_mask_and_labels(mix, tmp_path):
    import h5py

    path = mix('pack = "bestfit"')
    tokfmt.convert(path, tmp_path / "x.h5")
    view = tokfmt.open(path)
    wanted = view.samples(range(len(view)), ["input_ids", "loss_mask", "labels"])
    with h5py.File(tmp_path / "x.h5") as file:
        rows = file["data"][:]
    for k, field in enumerate(["input_ids", "loss_mask", "labels"]):
        assert (rows[:, k] == wanted[field]).all()
    stored = tokfmt.recipe([tmp_path / "x.h5"], seq_len=32, pack="stored")
    again = stored.samples(range(len(stored)), ["input_ids", "loss_mask", "labels"])
    assert all((again[field] == wanted[field]).all() for field in wanted)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_packed_rows_of_documents(mix, tmp_path, name):
    """What a recipe of documents gives is packed; samples are packed already, to the length that they have."""
    pytest.importorskip("pyarrow")
    how = {"to_options": {"pack_size": 80}}
    for dry_run in (True, False):
        with pytest.raises(
            OptionError, match="samples of this recipe predict up to 32 tokens. Use --to-opt pack_size=32"
        ):
            tokfmt.convert(mix('pack = "bestfit"'), tmp_path / name, dry_run=dry_run, **how)
    (tmp_path / "docs.toml").write_text(
        'tokfmt = 1\nshuffle = "documents"\nto_eos = 0\n[[source]]\npath = "web.pbin"\n'
    )
    tokfmt.convert(tmp_path / "docs.toml", tmp_path / name, verify=True, **how)
    wanted = [one.tolist() for one in tokfmt.open(tmp_path / "docs.toml")]
    assert [one.tolist() for one in tokfmt.open(tmp_path / name, eos="none")] == wanted
    tokfmt.convert(
        tmp_path / name, tmp_path / "back.pbin", eos=0, options={"view": "documents"}, allow_loss="loss-mask"
    )
    assert [one.tolist() for one in tokfmt.open(tmp_path / "back.pbin")] == wanted


def bridge(row):
    """What Megatron-Bridge trains on: of each sequence all but the last token, the next ones, which of them count."""
    ids, mask, bounds = row["input_ids"], row["loss_mask"], [*row["seq_start_id"], len(row["input_ids"])]
    return [(ids[a : b - 1], ids[a + 1 : b], mask[a : b - 1]) for a, b in zip(bounds, bounds[1:], strict=False)]


def predicted(sample):
    """The same of a sample of a recipe: the pieces without what has no label at their end."""
    found = []
    for document in range(sample["document_ids"].max() + 1):
        piece = {name: values[sample["document_ids"] == document] for name, values in sample.items()}
        assert (piece["position_ids"] == np.arange(len(piece["position_ids"]))).all()
        some = slice(0, len(piece["labels"]) - int(piece["labels"][-1] == -100))
        found.append((piece["input_ids"][some], piece["labels"][some], piece["loss_mask"][some]))
    return found


def assert_same_rows(rows, view):
    """Rows of Parquet predict what samples do; a label that does not count is whatever follows."""
    samples = view.samples(range(len(view)), ["input_ids", "labels", "loss_mask", "position_ids", "document_ids"])
    assert len(rows) == len(view)
    for k, row in enumerate(rows):
        wanted = predicted({name: values[k] for name, values in samples.items()})
        for (ids, labels, mask), (inputs, targets, counts) in zip(bridge(row), wanted, strict=True):
            assert ids == inputs.tolist() and mask == counts.tolist()
            assert np.where(counts, labels, -100).tolist() == targets.tolist()


@pytest.mark.parametrize("name", first(1, ["x.parquet", "x.arrow", "folder"]))
@pytest.mark.parametrize(
    "words",
    first(3, ['pack = "bestfit"', 'labels = "starts"\nto_bos = 7', 'pack = "document"\nlong = "truncate"', 'pack = "stream"',
     'pack = "bestfit"\nlabels = "starts"', 'labels = "disjoint"', 'shuffle = "documents"']),
)  # fmt: skip
def test_packed_rows_of_samples_predict_the_same(mix, tmp_path, words, name):
    """Boundaries and masks are kept, padding is not there; back as rows they are what a recipe stores again."""
    pq = pytest.importorskip("pyarrow.parquet")
    path = mix(words)
    if "shuffle" in words:
        path.write_text(path.read_text().replace('shuffle = "samples"\n', ""))
    how = {"to_options": {"pack_size": 32}, "to_format": "arrow" if name.endswith("arrow") else "parquet"}
    done = tokfmt.convert(path, tmp_path / name, verify=True, jobs=2, **how)
    view = tokfmt.open(path)
    assert (done.sequences, done.losses, done.recipe) == (len(view), {}, view.fingerprint)
    assert not [note for note in done.notes if "not stored" in note]
    report = tokfmt.diff(path, tmp_path / name)
    assert report.identical, report
    rows = {"options": {"view": "samples"}}
    tokfmt.convert(tmp_path / name, tmp_path / "again.parquet", verify=True, **rows)
    assert_same_rows(pq.read_table(tmp_path / "again.parquet").to_pylist(), view)
    tokfmt.convert(path, tmp_path / "serial.parquet", executor="serial", to_options={"pack_size": 32})
    assert (tmp_path / "serial.parquet").read_bytes() == (tmp_path / "again.parquet").read_bytes()


def test_packed_rows_of_stored_samples_keep_their_masks(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    masked_rows(tmp_path / "a.h5", 1)
    (tmp_path / "x.toml").write_text('tokfmt = 1\nseq_len = 4\npack = "stored"\n[[source]]\neos = 99\npath = "a.h5"\n')
    tokfmt.convert(tmp_path / "x.toml", tmp_path / "x.parquet", verify=True, to_options={"pack_size": 4})
    found = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [row["loss_mask"] for row in found] == [[0, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0]]
    assert_same_rows(found, tokfmt.open(tmp_path / "x.toml"))


def test_diff_of_packed_rows_sees_their_masks(mix, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = mix('pack = "bestfit"')
    tokfmt.convert(path, tmp_path / "x.parquet", to_options={"pack_size": 32})
    table = pq.read_table(tmp_path / "x.parquet")
    rows = table.to_pylist()
    rows[3]["loss_mask"][0] ^= 1
    pq.write_table(pa.Table.from_pylist(rows, table.schema), tmp_path / "y.parquet")
    report = tokfmt.diff(path, tmp_path / "y.parquet")
    assert not report.identical and (report.first.what, report.first.a.sequence) == ("loss mask", 3)


def test_packed_rows_refuse_labels_that_are_not_moved(mix, tmp_path):
    pytest.importorskip("pyarrow")
    for dry_run in (True, False):
        with pytest.raises(OptionError, match='labels of these samples are not moved by one. Write labels = "next"'):
            tokfmt.convert(
                mix('labels = "same"'), tmp_path / "x.parquet", to_options={"pack_size": 32}, dry_run=dry_run
            )
        with pytest.raises(OptionError, match="select: samples"):
            tokfmt.convert(mix(), tmp_path / "x.parquet", to_options={"pack_size": 32}, select=":5", dry_run=dry_run)


def test_note_on_labels_and_masks_that_are_not_stored(mix, tmp_path):
    for name in ("x.pbin", "x.parquet"):
        done = tokfmt.convert(mix('pack = "bestfit"'), tmp_path / name)
        (said,) = [
            note for note in done.notes if "its loss mask and the borders of its documents are not stored" in note
        ]
        assert ("pack_size" in said and said.endswith("stores both, without padding")) == (name == "x.parquet")
    assert not [note for note in tokfmt.convert(mix(), tmp_path / "x.h5").notes if "not stored" in note]


def masked_rows(path, start):
    """Three rows of 4 with masks, as h5py writes them, from id `start` on; the loss mask."""
    import h5py

    ids, mask = np.arange(start, start + 12).reshape(3, 4), np.array([[0, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0]])
    with h5py.File(path, "w") as file:
        file.attrs["n_examples"] = 3
        file["data"] = np.stack([ids, mask, ids + 1], axis=1).astype("<i4")
    return mask


@pytest.mark.parametrize(
    ("source", "rows"),
    [('path = "a.h5"', [0, 1, 2]), ('path = "a.h5"\nselect = "1:"', [1, 2]),
     ('path = "a.h5"\n[[source]]\npath = "b.h5"', [0, 1, 2, 3, 4, 5])],
)  # fmt: skip
def test_rows_as_they_are_stored_keep_their_masks(tmp_path, source, rows):
    """However they are selected and joined; in rows of HDF5 again, as masks of documents, refused by all others."""
    import h5py

    mask = np.concatenate([masked_rows(tmp_path / "a.h5", 1), masked_rows(tmp_path / "b.h5", 13)])[rows]
    ids = np.arange(1, 25).reshape(6, 4)[rows]
    path = tmp_path / "x.toml"
    path.write_text(f'tokfmt = 1\nseq_len = 4\npack = "stored"\n[[source]]\neos = 99\n{source}\n')
    view = tokfmt.open(path)
    got = view.samples(range(len(view)), ["input_ids", "loss_mask", "labels"])
    assert (got["loss_mask"] == mask).all()
    assert (got["labels"] == np.where(mask, ids + 1, -100)).all()
    tokfmt.convert(path, tmp_path / "y.h5", verify=True)
    with h5py.File(tmp_path / "y.h5") as file:
        assert (file["data"][:] == np.stack([ids, mask, np.where(mask, ids + 1, -100)], axis=1)).all()
    for name in ("y.pbin", "y.jsonl"):
        with pytest.raises(LossyConversionError, match="loss masks and labels of its samples.*loss-mask"):
            tokfmt.convert(path, tmp_path / name)
    tokfmt.convert(path, tmp_path / "y.ds", eos=99, verify=True)
    nothing = np.zeros(len(ids), int)[:, None]  # the first token, and the separator that is added
    expected = np.concatenate([nothing, mask[:, :-1], nothing], axis=1)
    assert np.fromfile(tmp_path / "y.ds.loss", "u1").reshape(-1, 5).tolist() == expected.tolist()
    tokfmt.convert(path, tmp_path / "y.parquet", verify=True)
    labels = [
        one.tolist()
        for one in pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "y.parquet")["labels"].to_numpy()
    ]
    assert labels == np.where(expected[:, :-1], ids, -100).tolist()


def test_what_was_stored_is_read_without_a_contradiction(mix, tmp_path):
    tokfmt.convert(mix(), tmp_path / "x.h5")
    assert json.loads((tmp_path / "x.h5.tokfmt.json").read_text())["recipe"] == tokfmt.open(mix()).fingerprint
    assert tokfmt.stats(tmp_path / "x.h5").datasets[0].sequences > 0


def test_labels_that_are_not_moved_are_refused_by_formats_that_shift(mix, tmp_path):
    path = mix('labels = "same"')
    with pytest.raises(OptionError, match="hdf5 stores labels"):
        tokfmt.convert(path, tmp_path / "x.h5")
    assert tokfmt.convert(path, tmp_path / "blocks", to_format="stage1").sequences == len(tokfmt.open(path))


def test_a_selection_of_samples_is_refused_where_rows_are_stored(mix, tmp_path):
    with pytest.raises(OptionError, match="select"):
        tokfmt.convert(mix(), tmp_path / "x.h5", select=":5")
    assert tokfmt.convert(mix(), tmp_path / "x.pbin", select=":5").sequences == 5


def test_padding_equal_to_eos_does_not_mask_real_eos(mix):
    """Padding has label -100; a separator that is a target keeps its label, though it is the id that pads."""
    view = tokfmt.open(mix('pack = "document"'))
    got = view.samples(range(len(view)), ["labels", "loss_mask", "document_ids"])
    real = got["document_ids"] >= 0
    assert (got["labels"][~real] == -100).all()
    assert (got["labels"] == 0).any(axis=1).sum() > 250


def test_labels_are_shifted_once(mix):
    view = tokfmt.open(mix())
    got = view.samples(range(len(view)))
    both = got["labels"][:, :-1] != -100
    assert (got["labels"][:, :-1][both] == got["input_ids"][:, 1:][both]).all()


def test_nested_recipes(mix, tmp_path):
    """Documents in a mix, and samples in order: a curriculum."""
    mix()
    (tmp_path / "docs.toml").write_text('tokfmt = 1\nshuffle = "documents"\n[[source]]\npath = "web.pbin"\n')
    view = tokfmt.recipe([tmp_path / "docs.toml"], seq_len=16, labels="same", to_eos=0)
    plain = tokfmt.recipe([tmp_path / "web.pbin"], seq_len=16, labels="same", to_eos=0)
    assert len(view) == len(plain)
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(
            f'tokfmt = 1\nseq_len = 16\nto_eos = 0\nseed = {ord(name)}\nshuffle = "samples"\n[[source]]\n'
            f'path = "{"web.pbin" if name == "a" else "code.zarr"}"\n'
        )
    (tmp_path / "all.toml").write_text(
        'tokfmt = 1\nseq_len = 16\npack = "stored"\n[[source]]\npath = "a.toml"\n[[source]]\npath = "b.toml"\n'
    )
    a, b, both = (tokfmt.open(tmp_path / f"{name}.toml") for name in ("a", "b", "all"))
    assert len(both) == len(a) + len(b)
    fields = ["input_ids", "labels", "loss_mask", "position_ids", "document_ids", "cu_seqlens"]
    got = both.samples(range(len(both)), fields)
    for name in fields:
        wanted = np.concatenate([one.samples(range(len(one)), [name])[name] for one in (a, b)])
        assert (got[name] == wanted).all(), name
    assert both.spans(len(a)) == [(1, 0, 0, 16)]
    assert both.fingerprint != a.fingerprint


def test_a_recipe_in_a_circle_is_refused(tmp_path):
    (tmp_path / "a.toml").write_text('tokfmt = 1\n[[source]]\npath = "b.toml"\n')
    (tmp_path / "b.toml").write_text('tokfmt = 1\n[[source]]\npath = "a.toml"\n')
    with pytest.raises(tokfmt.TokfmtError, match="includes itself"):
        tokfmt.open(tmp_path / "a.toml")


def chained(home, count, sources=1):
    """So many recipes, each a source of the next, or so many of its sources; the last of them."""
    for k in range(count):
        inner = f'"{PACK}"\neos = 50256' if not k else f'"{k - 1}.toml"'
        entries = "".join(f'[[source]]\nname = "s{n}"\npath = {inner}\n' for n in range(sources if k else 1))
        (home / f"{k}.toml").write_text(f"tokfmt = 1\n{entries}")
    return home / f"{count - 1}.toml"


def test_recipes_are_nested_so_deep_and_no_deeper(tmp_path):
    with tokfmt.open(chained(tmp_path, 32)) as deepest, tokfmt.open(PACK, eos=50256) as pack:
        assert deepest.info.tokens == pack.info.tokens
    too_deep = chained(tmp_path, 1500)
    for refused in (
        lambda: tokfmt.open(too_deep),
        lambda: tokfmt.convert(too_deep, tmp_path / "a.zarr"),
        lambda: tokfmt.recipe([str(tmp_path / "31.toml")]),
    ):
        with pytest.raises(FormatError, match="is made of more than 32 recipes, each a source of the one before") as at:
            refused()
        assert not getattr(at.value, "__notes__", ())


def test_every_format_of_fixtures_gives_the_stream_of_its_documents(tmp_path):
    """Mixed formats in one recipe: the same tokens as their datasets, one after the other."""
    names = ["fixtures/modalities/D_2byte_gpt2.pbin", "fixtures/hdf5/packed_overlap", "fixtures/stage1"]
    paths = [ROOT / name for name in names if (ROOT / name).exists()][:2]
    view = tokfmt.recipe([{"path": path, "eos": 50256} for path in paths], seq_len=64, labels="same")
    got = np.concatenate([view[k]["input_ids"] for k in range(len(view))])
    wanted = []
    for path in paths:
        for sequence in tokfmt.open(path, eos=50256):
            wanted += [*sequence.tolist(), 50256] if len(sequence) else []
    assert got[: len(wanted)].tolist() == wanted
    assert (got[len(wanted) :] == 50256).all()


def test_a_source_of_a_recipe_is_no_destination(mix, tmp_path):
    for name in ("web.pbin", "mix.toml"):
        before = (tmp_path / name).read_bytes() if (tmp_path / name).exists() else None
        with pytest.raises(tokfmt.TokfmtError, match="is one of the sources|source"):
            tokfmt.convert(mix(), tmp_path / name, to_format="modalities", overwrite=True)
        assert before is None or (tmp_path / name).read_bytes() == before


@pytest.fixture
def stored_in(mix, tmp_path):
    """The recipe, stored in a format; as source of another."""

    def stored(name, **words):
        tokfmt.convert(mix('pack = "bestfit"'), tmp_path / name, **words)
        return [{"path": tmp_path / name, "name": "mix"}]

    return stored


def test_stored_samples_without_labels_are_reported(stored_in):
    """Trained on as if they were moved by one, labels that are the IDs themselves would teach a model to copy."""
    blocks = tokfmt.recipe(stored_in("blocks", to_format="stage1"), seq_len=32, pack="stored")
    assert np.array_equal(blocks.sample(0)["labels"], blocks.sample(0)["input_ids"])
    (note,) = [note for note in blocks.notes if "neither labels nor masks" in note]
    assert note.startswith("mix: stores neither labels nor masks: the labels of a sample are its own IDs, not moved")
    rows = tokfmt.recipe(stored_in("x.h5"), seq_len=32, pack="stored")
    assert not any("labels" in note for note in rows.notes)


def test_a_separator_after_each_stored_sample_is_reported(stored_in):
    view = tokfmt.recipe(stored_in("x.pbin"), seq_len=32)
    (note,) = [note for note in view.notes if "stored samples" in note]
    assert "and separator 0 is put after each" in note
    other = tokfmt.recipe(stored_in("y.pbin"), seq_len=31)
    assert not any("stored samples" in note for note in other.notes)


AS_ROWS = [
    ("x.pbin", {}), ("x.zarr", {}), ("x.jsonl", {}), ("x.parquet", {}), ("x.arrow", {}), ("x.ds", {}),
    ("x_document.bin", {}), ("blocks", {"to_format": "stage1"}), ("lit", {"to_format": "litdata"}),
    ("mds", {"to_format": "mds"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "words"), first(4, AS_ROWS))
def test_stored_samples_of_every_format_are_samples_again(mix, stored_in, name, words):
    """Each as it is stored, without a separator after it; labels are its IDs, or with next those of the place behind."""
    if name.endswith(("parquet", "arrow")):
        pytest.importorskip("pyarrow")
    sources = stored_in(name, **words)
    wanted = tokfmt.open(mix('pack = "bestfit"'))
    ids = wanted.samples(range(len(wanted)))["input_ids"]
    for labels in (None, "next"):
        again = tokfmt.recipe(sources, seq_len=32, pack="stored", labels=labels)
        got = again.samples(range(len(again)))
        assert np.array_equal(got["input_ids"], ids)
        moved = np.pad(ids[:, 1:], ((0, 0), (0, 1)), constant_values=-100)
        assert np.array_equal(got["labels"], ids if labels is None else moved)
        assert [span[1:] for span in again.spans(3)] == [(3, 0, 32)]
    mixed = tokfmt.recipe(sources, seq_len=32, pack="stored", labels="next", shuffle="samples", epochs=2)
    counted = sorted(map(tuple, mixed.samples(range(len(mixed)))["input_ids"].tolist()))
    assert counted == sorted(map(tuple, ids.tolist() * 2))


def test_stored_samples_of_different_lengths_are_refused(mix, stored_in, tmp_path):
    pytest.importorskip("pyarrow")
    mix()
    with pytest.raises(FormatError, match=r"not samples of one length: sequence \d+ has another: expected 32, found"):
        tokfmt.recipe([tmp_path / "web.pbin"], seq_len=32, pack="stored")
    with pytest.raises(FormatError, match="labels of their own. Leave labels out"):
        tokfmt.recipe(stored_in("x.h5"), seq_len=32, pack="stored", labels="next")
    packed = stored_in("x.parquet", to_options={"pack_size": 32})
    with pytest.raises(FormatError, match="a token that is only a label"):
        tokfmt.recipe(packed, seq_len=32, pack="stored")


def test_borders_inside_of_rows_are_not_lost_in_a_recipe(stored_in):
    """Joined, a token that only ends a document would be trained on twice."""
    pytest.importorskip("pyarrow")
    (packed,) = stored_in("x.parquet", to_options={"pack_size": 32})
    packed["options"] = {"view": "samples"}
    for words in ({"seq_len": 33, "pack": "document"}, {"seq_len": 32}, {}):
        with pytest.raises(FormatError, match="a recipe has no place for their borders"):
            tokfmt.recipe([packed], **words)
    assert len(tokfmt.recipe([packed], to_eos="none", seq_len=33, allow_loss="inner-boundaries"))


def test_blocks_without_a_manifest_are_refused_with_the_length_that_reads_them(stored_in):
    ((source),) = stored_in("blocks", to_format="stage1")
    source["path"].with_name("blocks.tokfmt.json").unlink()
    with pytest.raises(FormatError, match="options = { seq_len = N } gives the length"):
        tokfmt.recipe([source], seq_len=32, pack="stored")
    source["options"] = {"seq_len": 32}
    assert len(tokfmt.recipe([source], seq_len=32, pack="stored"))


@pytest.mark.parametrize("name", ["y.pbin", "y.jsonl", "y.zarr"])
def test_labels_that_a_recipe_made_are_no_loss(mix, tmp_path, name):
    """Stored first or not, the sequences are the same, and a note says what they lack."""
    path = mix('pack = "bestfit"')
    tokfmt.convert(path, tmp_path / "x.h5")
    done = tokfmt.convert(tmp_path / "x.h5", tmp_path / name, verify=True)
    assert not done.losses and any("not stored" in note for note in done.notes)
    assert tokfmt.diff(path, tmp_path / name).identical
    (tmp_path / "x.h5.tokfmt.json").unlink()
    with pytest.raises(LossyConversionError, match="loss masks and labels of its samples"):
        tokfmt.convert(tmp_path / "x.h5", tmp_path / name, options={"view": "samples"}, overwrite=True)


def test_verification_passes_over_last_labels_that_are_dropped(mix, tmp_path):
    pytest.importorskip("pyarrow")
    tokfmt.convert(mix('pack = "bestfit"'), tmp_path / "x.h5")
    with pytest.raises(LossyConversionError, match="last-labels"):
        tokfmt.convert(tmp_path / "x.h5", tmp_path / "y.parquet")
    done = tokfmt.convert(tmp_path / "x.h5", tmp_path / "y.parquet", allow_loss="last-labels", verify=True)
    assert list(done.losses) == ["last-labels"]


def test_labels_of_stored_rows_stay_a_loss_however_often_they_are_stored(tmp_path):
    masked_rows(tmp_path / "a.h5", 1)
    (tmp_path / "x.toml").write_text('tokfmt = 1\nseq_len = 4\npack = "stored"\n[[source]]\neos = 99\npath = "a.h5"\n')
    tokfmt.convert(tmp_path / "x.toml", tmp_path / "y.h5")
    with pytest.raises(LossyConversionError, match="loss-mask"):
        tokfmt.convert(tmp_path / "y.h5", tmp_path / "y.pbin")


def test_stored_samples_have_stored_labels(stored_in, tmp_path):
    from click.testing import CliRunner

    from tokfmt.cli.main import cli

    stored_in("x.h5")
    (tmp_path / "s.toml").write_text('tokfmt = 1\nseq_len = 32\npack = "stored"\n[[source]]\npath = "x.h5"\n')
    said = CliRunner().invoke(cli, ["recipe", str(tmp_path / "s.toml"), "--explain"])
    assert "pack stored, labels stored," in said.output


@pytest.mark.parametrize("width", [2, 8])
def test_shuffled_documents_of_lines_and_of_files_of_another_width(width, tmp_path):
    """Lines are read as IDs of four bytes, and the documents of both have the width of the wider."""
    rng, wanted = np.random.default_rng(3), []
    for name in ("lines", "ids"):
        documents = [rng.integers(1, 500, rng.integers(1, 9)).tolist() for _ in range(40)]
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"input_ids": {one}}}\n' for one in documents))
        wanted += documents
    tokfmt.convert(tmp_path / "ids.jsonl", tmp_path / "ids.npy", to_format="olmo", eos=0, to_options={"width": width})
    recipe = tmp_path / "mix.toml"
    sources = '[[source]]\npath = "lines.jsonl"\neos = "none"\n[[source]]\npath = "ids.npy"\n'
    recipe.write_text(f'tokfmt = 1\nto_eos = 0\nshuffle = "documents"\n{sources}')
    with tokfmt.open(recipe) as mixed:
        assert mixed.info.dtype.itemsize == max(width, 4)
        assert sorted(one.tolist() for one in mixed) == sorted(wanted)


@FUZZ_ONLY
def test_recipes_that_name_others_twice_are_counted(tmp_path):
    """Thirty levels of two sources each would be a thousand million recipes."""
    for k in range(30):
        inner = f'"{PACK}"\neos = 50256' if not k else f'"{k - 1}.toml"'
        entries = "".join(f'[[source]]\nname = "s{n}"\npath = {inner}\n' for n in range(2 if k else 1))
        (tmp_path / f"{k}.toml").write_text(f"tokfmt = 1\n{entries}")
    with tokfmt.open(tmp_path / "5.toml") as dataset, tokfmt.open(PACK, eos=50256) as pack:
        assert dataset.info.tokens == 32 * pack.info.tokens
    with pytest.raises(FormatError, match="is made of more than 1,?024 recipes. Name the sources"):
        tokfmt.open(tmp_path / "29.toml")


def test_a_source_that_changes_meanwhile_is_noticed(mix, tmp_path):
    def changing():
        with (tmp_path / "web.pbin").open("ab") as file:
            file.write(b"x")

    with pytest.raises(tokfmt.TokfmtError, match="changed while|contradicts"):
        tokfmt.convert(mix(), tmp_path / "x.pbin", progress=At("writing", changing))
    assert not (tmp_path / "x.pbin").exists()
