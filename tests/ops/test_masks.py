"""What stands beside tokens, loss masks and inner boundaries, through views and conversions."""

import itertools
import json

import numpy as np
import pytest
from amount import FUZZ_ONLY, examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model.separated import with_separators

import tokfmt
from tokfmt.errors import ConversionError, FormatError, LossyConversionError, OptionError

EOS = 9


def datatrove(path, documents, masks):
    """Written by hand: documents with the separator after each, and a mask of both."""
    tokens = np.array([token for one in documents for token in (*one, EOS)], "<u2")
    path.write_bytes(tokens.tobytes())
    ends = np.cumsum([len(one) + 1 for one in documents], dtype="<u8") if documents else np.zeros(0, "<u8")
    path.with_name(path.name + ".index").write_bytes(ends.tobytes())
    path.with_name(path.name + ".metadata").write_text(f"x|2\n{len(tokens)}\n{len(tokens)} T")
    path.with_name(path.name + ".loss").write_bytes(np.concatenate([[], *masks]).astype("u1").tobytes())
    return path


def ids_and_masks(path, mask):
    """Documents with their masks as the files at `path` hold them, separators included."""
    ids = np.fromfile(path, "<u2")
    cuts = np.flatnonzero(ids == EOS)[:-1] + 1
    pairs = zip(np.split(ids, cuts), np.split(np.fromfile(mask, "u1"), cuts), strict=True)
    return [(one.tolist(), flags.tolist()) for one, flags in pairs]


@st.composite
def masked(draw):
    """Documents, and masks one longer than each: that of the separator counts where a document is empty."""
    documents = draw(st.lists(st.lists(st.integers(0, 8), max_size=6), min_size=1, max_size=8))
    masks = [draw(st.lists(st.integers(0, 1), min_size=len(one) + 1, max_size=len(one) + 1)) for one in documents]
    return documents, [mask if one else [1] for one, mask in zip(documents, masks, strict=True)]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(masked(), st.integers(0, 3))
def test_masks_go_with_their_tokens(tmp_path_factory, given_, seed):
    """There and back to the byte; shuffled, selected and joined with what has no mask."""
    documents, masks = given_
    home = tmp_path_factory.mktemp("masks")
    source = datatrove(home / "a.ds", documents, masks)
    there = home / "out.npy"
    tokfmt.convert(source, there, to_format="olmo", eos=EOS, verify=True)
    assert there.with_name("labels_mask_out.npy").read_bytes() == (home / "a.ds.loss").read_bytes()
    tokfmt.convert(there, home / "b.ds", eos=EOS, verify=True)
    for suffix in ("", ".index", ".loss"):
        assert (home / f"b.ds{suffix}").read_bytes() == (home / f"a.ds{suffix}").read_bytes()
    every = [([*one, EOS], mask) for one, mask in zip(documents, masks, strict=True)]
    tokfmt.convert(source, home / "c.ds", eos=EOS, shuffle=seed, verify=True)
    mixed = ids_and_masks(home / "c.ds", home / "c.ds.loss")
    assert sorted(mixed) == sorted(every)
    tokfmt.convert(source, home / "d.ds", eos=EOS, select=f"1:{len(documents)}", verify=True)
    if documents[1:]:
        assert ids_and_masks(home / "d.ds", home / "d.ds.loss") == every[1:]
    plain = home / "plain.pbin"
    tokfmt.convert(source, plain, eos=EOS, allow_loss=["loss-mask"])
    tokfmt.convert([plain, source], home / "e.ds", eos=EOS, verify=True)
    ones = [(one, [1] * len(one)) for one, _ in every]
    assert ids_and_masks(home / "e.ds", home / "e.ds.loss") == ones + every


def test_shares_and_views_carry_masks(tmp_path):
    documents, masks = [[k] * (k % 3) + [1] for k in range(8)], [[k % 2] * (k % 3 + 2) for k in range(8)]
    source = datatrove(tmp_path / "a.ds", documents, masks)
    every = [([*one, EOS], mask) for one, mask in zip(documents, masks, strict=True)]
    tokfmt.convert(source, tmp_path / "s.ds", eos=EOS, split="a=0.5,b=0.5", verify=True)
    dealt = [ids_and_masks(tmp_path / f"s.{part}.ds", tmp_path / f"s.{part}.ds.loss") for part in "ab"]
    assert sorted(dealt[0] + dealt[1]) == sorted(every)
    opened = tokfmt.open(source, eos=EOS)
    opened.select([5, 2]).save(tmp_path / "p.ds", to_eos=EOS)
    assert ids_and_masks(tmp_path / "p.ds", tmp_path / "p.ds.loss") == [every[5], every[2]]
    opened.shuffle(4).save(tmp_path / "q.ds", to_eos=EOS)
    assert sorted(ids_and_masks(tmp_path / "q.ds", tmp_path / "q.ds.loss")) == sorted(every)
    opened.close()


@pytest.mark.parametrize("kind", ["parquet", "arrow", "ds", "npy"])
@pytest.mark.parametrize("first", [True, False], ids=["first", "other"])
def test_a_masked_first_token_is_not_plain(first, kind, tmp_path):
    """Joined, the first token of a document is the target of the one before it, so that its mask counts."""
    documents, masks = [[1], [2, 3]], [[0, 1], [1, 1, 1]] if first else [[1, 1], [1, 0, 1]]
    source = datatrove(tmp_path / "a.ds", documents, masks)
    if kind != "ds":
        pytest.importorskip("pyarrow")
        tokfmt.convert(source, tmp_path / f"b.{kind}", eos=EOS, to_format="olmo" if kind == "npy" else None)
        source = tmp_path / f"b.{kind}"
    with pytest.raises(LossyConversionError, match="(loss|label) masks.*loss-mask"):
        tokfmt.convert(source, tmp_path / "x.pbin", eos=EOS)
    stream = tokfmt.recipe([{"path": source, "eos": EOS}], seq_len=5, pack="stream", labels="same")
    assert stream[0]["labels"].tolist() == ([-100, EOS, 2, 3, EOS] if first else [1, EOS, 2, -100, EOS])
    if kind in ("parquet", "arrow"):
        with tokfmt.open(source) as dataset:
            assert dataset.info.nonstandard_masks == 1
            assert dataset.info.first_nonstandard == int(not first)
    assert len(tokfmt.recipe([{"path": source, "eos": EOS}], seq_len=2, pack="stream", allow_loss="loss-mask"))


def test_padding_of_stored_samples_is_no_separator(tmp_path):
    """Its ID is the separator; rows as they are stored have as many separators as their documents."""
    pytest.importorskip("pyarrow")
    (tmp_path / "c.jsonl").write_text(
        "".join(f'{{"input_ids": {[k] * k}, "labels": {[k] * (k - 1) + [-100]}}}\n' for k in range(1, 6))
    )
    (tmp_path / "mix.toml").write_text(
        f'tokfmt = 1\nto_eos = {EOS}\nseq_len = 8\npack = "bestfit"\nlabels = "same"\n[[source]]\npath = "c.jsonl"\n'
    )
    tokfmt.convert(tmp_path / "mix.toml", tmp_path / "p.parquet", to_eos=EOS)
    documents = tokfmt.stats(tmp_path / "p.parquet").datasets[0]
    samples = tokfmt.stats(tmp_path / "p.parquet", options={"view": "samples"}).datasets[0]
    assert samples.padding.count == documents.padding.count > 0
    assert samples.separators.count == documents.separators.count == 5


def test_a_label_of_another_id_is_not_plain(tmp_path):
    """A label of the first token too; in a sample of its own nothing predicts that one."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"input_ids": [[1], [2, 3]], "labels": [[1], [7, 3]]}), tmp_path / "a.parquet")
    with pytest.raises(FormatError, match="has loss masks or labels that are not plain in 1 sequence.*loss-mask"):
        tokfmt.recipe([tmp_path / "a.parquet"], to_eos=EOS, seq_len=2, pack="stream")
    for view, odd in (("documents", 1), ("samples", 0)):
        with tokfmt.open(tmp_path / "a.parquet", options={"view": view}) as dataset:
            assert dataset.info.nonstandard_masks == odd


@pytest.mark.parametrize(
    ("ids", "labels", "place"),
    [
        ([[1, 2, 3]], [[2, 3, -100]], "token position 0 is 3, and the next token is 2"),  # moved by one already
        ([[1], [5]], [[2], [5]], "token position 0, the first of its row"),
        ([[7, 8], [1, 2, 3]], [[-100, 8], [9, 20, 3]], "token position 2 is 20, and the next token is 2"),
    ],
)
def test_a_label_of_another_id_is_refused_with_its_place(ids, labels, place, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"input_ids": ids, "labels": labels}), tmp_path / "a.parquet")
    with pytest.raises(ConversionError, match=place):
        tokfmt.convert(tmp_path / "a.parquet", tmp_path / "b.parquet")


def test_loss_of_masks_is_refused_before_any_work(tmp_path):
    source = datatrove(tmp_path / "a.ds", [[1, 2], [], [3]], [[0, 1, 1], [0], [1, 1]])
    with pytest.raises(LossyConversionError, match=r"loss masks of 1 file.*loss-mask"):
        tokfmt.convert(source, tmp_path / "x.pbin", eos=EOS)
    with pytest.raises(LossyConversionError, match=r"separators of 1 empty sequence that do not count.*sequence 1"):
        tokfmt.convert(source, tmp_path / "x.npy", to_format="olmo", eos=EOS)
    done = tokfmt.convert(source, tmp_path / "x.npy", to_format="olmo", eos=EOS, allow_loss="loss-mask")
    assert done.losses == {"loss-mask": "loss masks of 1 file"}
    assert sorted(path.name for path in tmp_path.glob("*x.*")) == ["x.csv.gz", "x.npy", "x.npy.tokfmt.json"]


def test_overwriting_removes_old_masks(tmp_path):
    source = datatrove(tmp_path / "a.ds", [[1, 2]], [[0, 1, 1]])
    tokfmt.convert(source, tmp_path / "b.ds", eos=EOS)
    assert (tmp_path / "b.ds.loss").exists()
    tokfmt.convert(source, tmp_path / "b.ds", eos=EOS, allow_loss="loss-mask", overwrite=True)
    assert not (tmp_path / "b.ds.loss").exists()


def test_files_of_a_folder_have_masks_of_their_rank(tmp_path):
    documents, masks = [[1, 2], [3], [4, 5, 6]], [[1, 0, 1], [0, 1], [0, 1, 0, 0]]
    source = datatrove(tmp_path / "a.ds", documents, masks)
    for jobs in (1, 2):
        there = tmp_path / f"parts-{jobs}"
        tokfmt.convert(source, there, to_format="olmo", eos=EOS, to_options={"shard_size": 4}, jobs=jobs, verify=True)
        found = {path.name: path.read_bytes() for path in there.glob("labels_mask_part_*.npy")}
        assert found == {f"labels_mask_part_{k:04d}.npy": bytes(mask) for k, mask in enumerate(masks)}
        tokfmt.convert(there, tmp_path / f"b{jobs}.ds", eos=EOS)
        assert (tmp_path / f"b{jobs}.ds.loss").read_bytes() == (tmp_path / "a.ds.loss").read_bytes()


@FUZZ_ONLY
@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(masked(), st.sampled_from(["x.parquet", "x.arrow"]))
def test_labels_beside_ids(tmp_path_factory, given_, name):
    """A label for each token and each separator, its ID or -100, and all of them back."""
    pytest.importorskip("pyarrow")
    documents, masks = given_
    stored = [[*one, EOS] for one in documents]
    home = tmp_path_factory.mktemp("labels")
    tokfmt.convert(datatrove(home / "a.ds", documents, masks), home / name, eos=EOS, verify=True)
    found = tokfmt.open(home / name, eos="none")
    assert [one.tolist() for one in found] == stored
    marks = found.reader.marks(0, found.info.tokens)
    assert marks.tolist() == [flag for mask in masks for flag in mask]
    found.close()
    tokfmt.convert(home / name, home / "b.ds", eos=EOS, verify=True)
    assert ids_and_masks(home / "b.ds", home / "b.ds.loss") == list(zip(stored, masks, strict=True))


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(masked(), st.integers(5, 12), st.integers(1, 2))
def test_packed_rows(tmp_path_factory, given_, size, jobs):
    """Rows as Megatron-Bridge checks them, filled in order; rows go round whole, as documents they go back."""
    pq = pytest.importorskip("pyarrow.parquet")
    pairs = [([8], [1, 1]), *((one, mask) for one, mask in zip(*given_, strict=True) if one)]
    home = tmp_path_factory.mktemp("packed")
    source, allow_loss = (
        datatrove(home / "a.ds", [one for one, _ in pairs], [mask for _, mask in pairs]),
        "masked-separators",
    )
    tokfmt.convert(
        source,
        home / "p.parquet",
        eos=EOS,
        to_options={"pack_size": size},
        jobs=jobs,
        verify=True,
        allow_loss=allow_loss,
    )
    table = pq.read_table(home / "p.parquet")
    assert [str(kind) for kind in table.schema.types] == [
        f"list<element: {kind}>" for kind in ("int32", "int8", "int32")
    ]
    rest, before = list(pairs), size + 1
    for row in table.to_pylist():
        ids, mask, starts = row["input_ids"], row["loss_mask"], row["seq_start_id"]
        predicted, first = 0, len(rest[0][0]) - 1
        assert len(ids) == len(mask) and starts[0] == 0 and before + first > size
        for a, b in itertools.pairwise([*starts, len(ids)]):
            document, flags = rest.pop(0)
            assert (ids[a:b], mask[a:b]) == (document, [*flags[1:-1], 0])
            predicted += len(document) - 1
        assert predicted <= size
        before = predicted
    assert not rest
    rows = {"options": {"view": "samples"}}
    tokfmt.convert(home / "p.parquet", home / "q.parquet", verify=True, **rows)
    assert (home / "q.parquet").read_bytes() == (home / "p.parquet").read_bytes()
    tokfmt.convert(home / "p.parquet", home / "s.parquet", shuffle=size, verify=True, **rows)
    assert sorted(map(str, pq.read_table(home / "s.parquet").to_pylist())) == sorted(map(str, table.to_pylist()))
    with pytest.raises(LossyConversionError, match="where documents begin inside of rows.*inner-boundaries"):
        tokfmt.convert(home / "p.parquet", home / "x.ds", eos=EOS, **rows)
    tokfmt.convert(home / "p.parquet", home / "b.ds", eos=EOS, verify=True)
    assert ids_and_masks(home / "b.ds", home / "b.ds.loss") == [
        ([*one, EOS], [0, *mask[1:-1], 0])
        for one, mask in pairs  # an added separator does not count
    ]


def test_packed_rows_refuse_what_upstream_cannot_take(tmp_path):
    pytest.importorskip("pyarrow")
    source = datatrove(tmp_path / "a.ds", [[1, 2, 3], [], [4]], [[1, 1, 1, 1], [1], [1, 1]])
    options = {"eos": EOS, "to_options": {"pack_size": 2}}
    with pytest.raises(LossyConversionError, match="1 empty sequence"):
        tokfmt.convert(source, tmp_path / "p.parquet", **options)
    tokfmt.convert(source, tmp_path / "p.parquet", allow_loss="empty-sequences", **options)
    with pytest.raises(
        ConversionError, match=r"1 sequence of more than 2 tokens \(first: sequence 0\).*pack_size=2 holds.*bestfit"
    ):
        tokfmt.convert(
            source, tmp_path / "q.parquet", eos=EOS, allow_loss="empty-sequences", to_options={"pack_size": 1}
        )
    for column in ("tokens", "ids"):  # readers of packed rows know no other name, ours neither
        with pytest.raises(
            OptionError, match=rf"--to-opt column={column}: packed rows have the columns input_ids, loss_mask"
        ):
            options = {"pack_size": 64, "column": column}
            tokfmt.convert(source, tmp_path / "q.parquet", eos=EOS, allow_loss="empty-sequences", to_options=options)
    with pytest.raises(OptionError, match="seq_len and pack_size"):
        tokfmt.convert(source, tmp_path / "q.parquet", eos=EOS, to_options={"pack_size": 8, "seq_len": 8})


def test_samples_with_masks(tmp_path):
    """The mask of a label moves to the token that it is; what no mask can say is refused, and so is losing it."""
    h5py = pytest.importorskip("h5py")
    ids = np.arange(1, 13).reshape(3, 4)
    labels, mask = np.roll(ids.reshape(-1), -1).reshape(3, 4), np.array([[0, 1, 1, 1], [1, 1, 1, 1], [1, 0, 0, 0]])

    def stored(labels):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file.attrs["n_examples"] = 3
            file["data"] = np.stack([ids, mask, labels], axis=1).astype("<i4")
        return tmp_path / "x.h5"

    rows = {"options": {"view": "samples", "mask": "loss"}, "eos": 99, "allow_loss": "last-labels"}
    with pytest.raises(LossyConversionError, match="loss masks and labels of its samples"):
        tokfmt.convert(stored(labels), tmp_path / "x.pbin", **rows)
    tokfmt.convert(stored(labels), tmp_path / "x.ds", verify=True, **rows)
    assert masks_of_rows(tmp_path / "x.ds") == [[0, 0, 1, 1, 0], [0, 1, 1, 1, 0], [0, 1, 0, 0, 0]]
    other = labels.copy()
    other[1, 1] = 77
    for dry_run in (True, False):
        with pytest.raises(
            ConversionError, match="label at token position 5 is 77, and the next token is 7.*loss-mask"
        ):
            tokfmt.convert(stored(other), tmp_path / "y.ds", dry_run=dry_run, **rows)
    other[1, 1] = -100
    tokfmt.convert(stored(other), tmp_path / "y.ds", verify=True, **rows)
    assert masks_of_rows(tmp_path / "y.ds")[1] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_separators_are_stored_with_their_marks_where_no_others_are(name, tmp_path):
    """A model that is trained on the rows learns to end a text, or not, as from the source."""
    documents, masks = [[1, 2], [3], [], [4, 5]], [[1, 0, 1], [1, 0], [1], [0, 1, 0]]
    source = datatrove(tmp_path / "a.ds", documents, masks)
    done = tokfmt.convert(source, tmp_path / name, eos=EOS, verify=True)
    assert (done.tokens, done.separators["kept"], done.separators["dropped"]) == (5, 4, 0)
    assert json.loads((tmp_path / f"{name}.tokfmt.json").read_text())["eos_stored"] == "after"
    with tokfmt.open(tmp_path / name, eos="none") as found:
        assert found[:].tolist() == [[*one, EOS] for one in documents]
        assert found.reader.marks(0, 9).tolist() == [flag for mask in masks for flag in mask]
    (tmp_path / f"{name}.tokfmt.json").unlink()  # The file itself states the separator.
    with tokfmt.open(tmp_path / name) as found:
        assert found[:].tolist() == documents
    tokfmt.convert(tmp_path / name, tmp_path / "b.ds", verify=True)
    pairs = [([*one, EOS], mask) for one, mask in zip(documents, masks, strict=True)]
    assert ids_and_masks(tmp_path / "b.ds", tmp_path / "b.ds.loss") == pairs


@pytest.mark.parametrize("how", [{"shuffle": 3}, {"split": "a=0.5,b=0.5"}, {"shuffle": 3, "split": "a=0.5,b=0.5"}])
def test_separators_stay_with_their_marks_in_another_order(how, tmp_path):
    """Shuffled documents, and those that are dealt to splits, keep the separators that the counts say are kept."""
    documents, masks = [[1, 2], [3], [], [4, 5]], [[1, 0, 1], [1, 0], [1], [0, 1, 0]]
    source = datatrove(tmp_path / "a.ds", documents, masks)
    done = tokfmt.convert(source, tmp_path / "x", to_format="parquet", eos=EOS, verify=True, **how)
    assert (done.separators["kept"], done.separators["dropped"]) == (4, 0)
    rows = []
    for path in list((tmp_path / "x").rglob("*.parquet") if "split" in how else [tmp_path / "x"]):
        with tokfmt.open(path, eos="none") as found:
            ids, marks = found[:].tolist(), found.reader.marks(0, found.info.tokens).tolist()
        flags = iter(marks)
        rows += [(one, [next(flags) for _ in one]) for one in ids]
    assert sorted(rows) == sorted(([*one, EOS], mask) for one, mask in zip(documents, masks, strict=True))


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_separator_that_is_added_to_a_cut_document_does_not_count(name, tmp_path):
    """Where the source stores separators, the document that has none may be cut: a model must not learn to stop there."""
    documents = [[1, 2, EOS], [3, 4], [5, EOS], [6]]
    labels = [[-100, 2, EOS], [3, 4], [5, -100], [6]]
    if name == "a.jsonl":
        rows = [{"input_ids": ids, "labels": own} for ids, own in zip(documents, labels, strict=True)]
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.table({"input_ids": documents, "labels": labels}), tmp_path / name)
    done = tokfmt.convert(tmp_path / name, tmp_path / "x.ds", eos=EOS, verify=True)
    assert np.fromfile(tmp_path / "x.ds", "<u2").tolist() == [1, 2, EOS, 3, 4, EOS, 5, EOS, 6, EOS]
    assert np.fromfile(tmp_path / "x.ds.loss", "u1").tolist() == [0, 1, 1, 1, 1, 0, 1, 0, 1, 0]
    assert done.separators["added"] == 2


def test_a_sequence_without_a_separator_gets_none_beside_masks(tmp_path):
    """An index states the ends of documents; the last one is not finished."""
    source = tmp_path / "a.ds"
    datatrove(source, [[1, 2], [3, 4]], [[0, 1, 1], [1, 1, 1]])
    tokens = np.fromfile(source, "<u2")
    tokens[-1] = 6
    tokens.tofile(source)
    done = tokfmt.convert(source, tmp_path / "x.parquet", eos=EOS, verify=True)
    assert (done.separators["kept"], done.separators["bare"]) == (1, 1)
    with tokfmt.open(tmp_path / "x.parquet") as found:
        assert found[:].tolist() == [[1, 2, EOS], [3, 4, 6]]


def masks_of_rows(path):
    ends = np.fromfile(path.with_name(path.name + ".index"), "<u8").astype(int)
    return [one.tolist() for one in np.split(np.fromfile(path.with_name(path.name + ".loss"), "u1"), ends[:-1])]


@pytest.mark.parametrize(
    ("name", "options"),
    [("x.parquet", {"to_options": {"pack_size": 9}}), ("x.parquet", {"to_eos": "none"}), ("x.ds", {"to_eos": "none"})],
)
def test_masked_separators_that_a_target_does_not_store_are_refused_and_counted(name, options, tmp_path):
    """Whoever stores separators carries their masks; all others say how many are lost, and carry the rest."""
    source = datatrove(tmp_path / "a.ds", [[1, 2], [3], [4, 5]], [[1, 0, 1], [1, 0], [0, 1, 0]])
    how = {"eos": EOS, **options}
    words = r"separators of 2 sequences that do not count in the loss \(first: sequence 1\).*masked-separators"
    for dry_run in (True, False):
        with pytest.raises(LossyConversionError, match=words):
            tokfmt.convert(source, tmp_path / "there" / name, dry_run=dry_run, **how)
    (tmp_path / "there").mkdir()
    done = tokfmt.convert(source, tmp_path / "there" / name, allow_loss="masked-separators", verify=True, **how)
    assert list(done.losses) == ["masked-separators"]
    back = tokfmt.open(tmp_path / "there" / name, eos="none")
    expected = [0, 0, 0, 0, 1] if "to_options" in options else [1, 0, 1, 0, 1]  # what begins a document there is none
    assert (back.reader.marks(0, 5) & 1).tolist() == expected
    back.close()
    tokfmt.convert(source, tmp_path / "whole.ds", eos=EOS)
    assert masks_of_rows(tmp_path / "whole.ds") == [[1, 0, 1], [1, 0], [0, 1, 0]]
    tokfmt.convert(source, tmp_path / "rows.parquet", eos=EOS, to_options={"seq_len": 4}, verify=True)


def test_the_last_labels_of_samples_are_refused_and_counted(tmp_path):
    """They are of tokens in no row; those that do not count are no loss. A row writer stores them as they are."""
    h5py = pytest.importorskip("h5py")
    ids = np.arange(1, 13).reshape(3, 4)
    mask = np.array([[0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]])
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs["n_examples"] = 3
        file["data"] = np.stack([ids, mask, ids + 1], axis=1).astype("<i4")
    rows = {"options": {"view": "samples", "mask": "loss"}, "eos": 99}
    for name in ("x.ds", "x.parquet"):
        for dry_run in (True, False):
            with pytest.raises(
                LossyConversionError, match=r"last label of 2 samples.*\(first: sample 0\).*last-labels"
            ):
                tokfmt.convert(tmp_path / "x.h5", tmp_path / name, dry_run=dry_run, **rows)
    (tmp_path / "x.toml").write_text('tokfmt = 1\nseq_len = 4\npack = "stored"\n[[source]]\neos = 99\npath = "x.h5"\n')
    tokfmt.convert(tmp_path / "x.toml", tmp_path / "y.h5")
    with h5py.File(tmp_path / "y.h5") as file:
        assert (file["data"][:, 1] == mask).all()
        assert (file["data"][:, 2] == np.where(mask, ids + 1, -100)).all()
    with pytest.raises(LossyConversionError, match="last label of 2 samples"):
        tokfmt.convert(tmp_path / "x.toml", tmp_path / "y.ds", eos=99)


def test_labels_that_are_no_next_token_are_refused_before_the_first_byte(tmp_path):
    """Packed sequences (VSL) whose EOS stands in labels only: the label behind a segment is no input."""
    h5py = pytest.importorskip("h5py")
    ids = np.array([[1, 2, 3, 4, 5, 6, 0, 0]])
    labels, mask = np.array([[2, 3, EOS, 5, 6, EOS, 0, 0]]), np.array([[1, 1, 1, 1, 1, 1, 0, 0]])
    span, position = np.array([[2, 1, 0, 2, 1, 0, 0, 0]]), np.array([[0, 1, 2, 0, 1, 2, 0, 0]])
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs["n_examples"] = 1
        file["data"] = np.stack([ids, mask, labels, span, position], axis=1).astype("<i4")
    rows = {"options": {"view": "samples"}, "eos": EOS}
    for name, allow_loss in (("x.parquet", ()), ("x.ds", ["inner-boundaries"])):
        for dry_run in (True, False):
            with pytest.raises(ConversionError, match="label at token position 2 is 9, and the next token is 4"):
                tokfmt.convert(tmp_path / "x.h5", tmp_path / name, dry_run=dry_run, allow_loss=allow_loss, **rows)
    assert [path.name for path in tmp_path.iterdir()] == ["x.h5"]
    tokfmt.convert(tmp_path / "x.h5", tmp_path / "x.jsonl", eos=EOS)
    assert [one.tolist() for one in tokfmt.open(tmp_path / "x.jsonl")] == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
@pytest.mark.parametrize(
    "column", [{"text": ["a", None, "", None]}, {"input_ids": [[1], None, [], None]}], ids=["text", "ids"]
)
def test_null_that_is_read_as_empty_is_counted(name, column, tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table(column)
    if name == "x.parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / name)
    else:
        with pa.ipc.new_stream(tmp_path / name, table.schema) as out:
            out.write_table(table)
    done = tokfmt.convert(tmp_path / name, tmp_path / "out.jsonl", allow_loss="null-rows")
    assert done.sequences == 4
    assert all(word in done.losses["null-rows"] for word in (name, "2 rows of NULL", "byte"))


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(masked(), st.integers(1, 7), st.integers(1, 3), st.integers(1, 2))
def test_masks_of_documents_in_samples_of_hdf5(tmp_path_factory, given_, seq_len, samples, jobs):
    """Position i of the mask speaks of token i + 1 of the stream, and an attribute of the first: back to the byte."""
    h5py = pytest.importorskip("h5py")
    pairs = [([8], [1, 1]), *((one, mask) for one, mask in zip(*given_, strict=True) if one)]
    home = tmp_path_factory.mktemp("hdf5")
    source = datatrove(home / "a.ds", [one for one, _ in pairs], [mask for _, mask in pairs])
    how = {"seq_len": seq_len, "shard_size": samples * seq_len}
    tokfmt.convert(source, home / "rows", to_format="hdf5", eos=EOS, to_options=how, jobs=jobs, verify=True)
    stream = [token for one, _ in pairs for token in (*one, EOS)]
    flags = [flag for _, mask in pairs for flag in mask]
    at = 0
    for path in sorted((home / "rows").iterdir()):
        with h5py.File(path) as file:
            assert file["data"].attrs["first_mask"] == flags[at]
            for inputs, mask, labels in file["data"][:].tolist():
                real = min(seq_len, len(stream) - 1 - at)
                padding = [EOS] * (seq_len - real)
                assert inputs == stream[at : at + real] + padding
                assert labels == stream[at + 1 : at + 1 + real] + padding
                assert mask == flags[at + 1 : at + 1 + real] + [0] * len(padding)
                at += seq_len
    assert at >= len(stream) - 1
    tokfmt.convert(home / "rows", home / "b.ds", jobs=jobs, verify=True)
    for suffix in ("", ".loss"):
        assert (home / f"b.ds{suffix}").read_bytes() == (home / f"a.ds{suffix}").read_bytes()
    reader = tokfmt.open(home / "rows").reader
    whole = reader.marks(0, reader.info.tokens).tolist()
    for a, b in itertools.combinations_with_replacement(range(0, len(whole) + 1, 3), 2):
        assert reader.marks(a, b).tolist() == whole[a:b]
    reader.close()
    with pytest.raises(LossyConversionError, match="loss masks of its samples.*loss-mask"):
        tokfmt.convert(home / "rows", home / "b.jsonl")
    (verdict,) = tokfmt.check(home / "rows", deep=True)
    assert not [one for one in verdict.findings if one.severity == "error"]


def test_documents_of_one_id_do_not_look_like_padding(tmp_path):
    """A sample whose ids are all the same, with a mask of 0, 1, 0: of documents, by the file's own attribute."""
    pytest.importorskip("h5py")
    ids = [[8], [0] * 6, [0] * 6, [0] * 6, [0], [0] * 4, [0] * 6]
    masks = [[1, 1], [0] * 7, [0] * 7, [0] * 7, [0] * 2, [0] * 5, [0, 0, 0, 0, 1, 0, 0]]
    source = datatrove(tmp_path / "a.ds", ids, masks)
    tokfmt.convert(
        source, tmp_path / "x", eos=EOS, to_format="hdf5", to_options={"seq_len": 7, "shard_size": 7}, verify=True
    )
    (verdict,) = tokfmt.check(tmp_path / "x", deep=True)
    assert not [one.code for one in verdict.findings if one.severity == "error"]


def test_documents_of_one_id_do_not_look_like_masks_of_two_writers(tmp_path):
    """Two samples in one file: one whose end looks padded with a mask of 0, and one with a mask of 1."""
    pytest.importorskip("h5py")
    ids = [[8], [0, 1, 8, 0, 0], [8], [1, 8, 8], [1, 8], [0], [1, 1]]
    masks = [[1, 1], [1, 0, 0, 1, 1, 0], [0, 1], [0, 0, 1, 0], [1, 1, 0], [0, 1], [0, 1, 1]]
    source = datatrove(tmp_path / "a.ds", ids, masks)
    tokfmt.convert(source, tmp_path / "x", eos=EOS, to_format="hdf5", to_options={"seq_len": 2, "shard_size": 4})
    (verdict,) = tokfmt.check(tmp_path / "x", deep=True)
    assert not [one.code for one in verdict.findings if one.severity == "error"]


def test_samples_side_by_side_have_no_place_for_masks(tmp_path):
    """The first token of each is no label; and what --allow-loss gives up leaves plain samples, which say so."""
    h5py = pytest.importorskip("h5py")
    source = datatrove(tmp_path / "a.ds", [[1, 2, 3], [4]], [[1, 0, 1, 1], [1, 1]])
    apart = {"seq_len": 2, "stride": "disjoint"}
    with pytest.raises(LossyConversionError, match="loss masks of 1 file.*loss-mask"):
        tokfmt.convert(source, tmp_path / "x.h5", eos=EOS, to_options=apart)
    for name, options in (("x.h5", apart), ("y.h5", {"seq_len": 2})):
        tokfmt.convert(source, tmp_path / name, eos=EOS, to_options=options, allow_loss="loss-mask", verify=True)
        with h5py.File(tmp_path / name) as file:
            assert "first_mask" not in file["data"].attrs
        assert [one.tolist() for one in tokfmt.open(tmp_path / name)] == [[1, 2, 3], [4]]


@pytest.mark.parametrize("indexed", [True, False], ids=["index", "stream"])
def test_windows_of_marks_are_parts_of_the_whole(indexed, tmp_path):
    """Whatever takes separators away or puts them in; bit 2 is the masked separator behind a token."""
    documents, masks = [[1, 2], [], [3], [], [], [4, 5, 6]], [[1, 0, 0], [1], [0, 0], [1], [1], [1, 1, 0, 1]]
    source = datatrove(tmp_path / "a.ds", documents, masks)
    if not indexed:
        (tmp_path / "a.ds.index").unlink()
    reader = tokfmt.open(source, eos=EOS).reader
    separated = with_separators(reader, EOS)
    whole = [[1, 2, 2, 1, 1, 0], [1, 0, 0, 1, 0, 0, 1, 1, 1, 1, 0, 1]]
    for axis, expected in zip((reader, separated), whole, strict=True):
        total = axis.info.tokens
        for a, b in itertools.combinations_with_replacement(range(total + 1), 2):
            assert axis.marks(a, b).tolist() == expected[a:b]
    reader.close()
