"""Documents with loss masks pack and mix like plain ones, against naive lists that share no code with tokfmt.

A document is a list of pairs (token, mark): the mark is 1 if the token counts as a target. OLMo-core concatenates masks
with their tokens, and shifts masked labels by one. TRL packs the column of masks as it packs the IDs: "wrapped" joins
the rows and cuts them, "bfd" is best fit decreasing, and the first label of each document is -100.
"""

import gzip
import itertools
import json
from collections import Counter

import numpy as np
import pytest
from amount import FUZZ_ONLY, examples, first
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paths import TOKENIZER

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import FormatError, LoaderWarning, LossyConversionError

EOS = 0
FIELDS = ["input_ids", "labels", "loss_mask"]


def written(path, documents, kind):
    """Write documents of pairs, each with its separator at the end, as `kind`; return the source."""
    pairs = [pair for one in documents for pair in one]
    tokens, marks = np.array([pairs], "<u2").reshape(-1, 2).T
    ends = np.cumsum([len(one) for one in documents], dtype="<u8")
    if kind == "ds":
        path = path.with_suffix(".ds")
        path.write_bytes(tokens.tobytes())
        path.with_name(f"{path.name}.index").write_bytes(ends.tobytes())
        path.with_name(f"{path.name}.metadata").write_text(f"x|2\n{len(tokens)}\n{len(tokens)} T")
        path.with_name(f"{path.name}.loss").write_bytes(marks.astype("u1").tobytes())
    elif kind == "olmo":
        path = path.with_suffix(".npy")
        path.write_bytes(tokens.tobytes())
        path.with_name(f"labels_mask_{path.name}").write_bytes(marks.astype("u1").tobytes())
        rows = [f"{a},{b}\n" for a, b in itertools.pairwise([0, *ends.tolist()])]
        path.with_suffix(".csv.gz").write_bytes(gzip.compress("".join(rows).encode()))
    elif kind == "hdf5":
        pytest.importorskip("h5py")
        tokfmt.convert(written(path, documents, "ds"), path.with_suffix(".h5"), to_options={"seq_len": 24}, eos=EOS)
        path = path.with_suffix(".h5")
    elif kind in ("plain", "labels", "completion_mask"):
        path = path.with_suffix(".jsonl")
        rows = [{"input_ids": [token for token, _ in one[:-1]]} for one in documents]
        for row, one in zip(rows, documents, strict=True) if kind != "plain" else ():
            told = [token if mark else -100 for token, mark in one[:-1]]
            row[kind] = told if kind == "labels" else [mark for _, mark in one[:-1]]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        path = path.with_suffix(".parquet")
        ids = [[token for token, _ in one[:-1]] for one in documents]
        labels = [[token if mark else -100 for token, mark in one[:-1]] for one in documents]
        kinds = pa.list_(pa.int32())
        pq.write_table(pa.table({"input_ids": pa.array(ids, kinds), "labels": pa.array(labels, kinds)}), path)
    return path


def made(seed, count, most=40, *, separators=True):
    """Documents of pairs: the tokens of each are different from all others, and the separator is at the end. Without
    `separators`, data states no mask of it, so that one that is added does not count.
    """
    rng, number, found = np.random.default_rng(seed), 1 + 9_000 * seed, []
    for _ in range(count):
        length = int(rng.integers(1, most))
        marks = rng.integers(0, 2, length).tolist()
        end = int(rng.integers(0, 2)) if separators else 0
        found.append([*zip(range(number, number + length), marks, strict=True), (EOS, end)])
        number += length
    return found


def wrapped(documents, width, labels):
    """Join all pairs, cut them, and move labels by one, also from one sample to the next."""
    pairs = [pair for one in documents for pair in one]
    found = []
    for at in range(0, len(pairs) - (labels == "next"), width):
        row = pairs[at : at + width]
        told = pairs[at + 1 : at + width + 1] if labels == "next" else row
        found.append(padded([t for t, _ in row], [t if mark else -100 for t, mark in told], width))
    return found


def cut(documents, width, labels):
    """Parts of up to `width` tokens, each with its labels; the last label of a part is its next token."""
    found = []
    for one in documents:
        for at in range(0, len(one), width):
            row, told = one[at : at + width], one[at + 1 : at + width + 1]
            if labels == "same":
                told = [(token, mark and k > 0) for k, (token, mark) in enumerate(row)]
            if told and (len(row) > 1 or labels == "next"):
                found.append(([t for t, _ in row], [t if mark else -100 for t, mark in told]))
    return found


def padded(ids, labels, width):
    labels = labels + [-100] * (len(ids) - len(labels))
    rest = width - len(ids)
    return ids + [EOS] * rest, labels + [-100] * rest


def bins_of(parts, width):
    """Best fit decreasing: each part goes to the bin with the least room that is enough. Bins by their first part."""
    bins = []
    for k in sorted(range(len(parts)), key=lambda k: -len(parts[k][0])):
        room = {b: width - sum(len(parts[j][0]) for j in bin_) for b, bin_ in enumerate(bins)}
        fits = [b for b in room if room[b] >= len(parts[k][0])]
        if fits:
            bins[min(fits, key=lambda b: (room[b], b))].append(k)
        else:
            bins.append([k])
    return [[parts[k] for k in bin_] for bin_ in sorted(map(sorted, bins))]


def bfd(documents, width, labels):
    found = []
    for parts in bins_of(cut(documents, width, labels), width):
        ids, told = [], []
        for row, labels_of_row in parts:
            ids += row
            told += labels_of_row + [-100] * (len(row) - len(labels_of_row))
        found.append(padded(ids, told, width))
    return found


def pieces(documents, pack, width, labels):
    """The parts of each sample as IDs and their own labels: the ID, or -100 if the model is not to predict it."""
    if pack != "stream":
        parts = cut(documents, width, "same")
        return bins_of(parts, width) if pack == "bestfit" else [[part] for part in parts]
    begun = [(*pair, k == 0) for one in documents for k, pair in enumerate(one)]
    found = []
    for at in range(0, len(begun) - (labels == "next"), width):
        row = []
        for k, (token, mark, begins) in enumerate(begun[at : at + width]):
            row += [([], [])] if begins or not k else []
            row[-1][0].append(token)
            row[-1][1].append(token if mark and (k or labels == "same") else -100)
        found.append(row)
    return found


def columns_of(rows, width):
    """What models of Hugging Face read, of samples in pieces; positions and attention only if some row needs them."""
    found = {"input_ids": [], "labels": [], "position_ids": [], "attention_mask": []}
    for row in rows:
        ids, labels = ([one for part in row for one in part[k]] for k in (0, 1))
        ids, labels = padded(ids, labels, width)
        rest = width - sum(len(part[0]) for part in row)
        found["input_ids"].append(ids)
        found["labels"].append(labels)
        found["position_ids"].append([k for part in row for k in range(len(part[0]))] + [*range(rest)])
        found["attention_mask"].append([1] * (width - rest) + [0] * rest)
    if all(len(row) == 1 for row in rows):
        del found["position_ids"]
    if all(map(all, found["attention_mask"])):
        del found["attention_mask"]
    return found


def packed(documents, pack, width, labels):
    if pack == "stream":
        return wrapped(documents, width, labels)
    if pack == "bestfit":
        return bfd(documents, width, labels)
    return [padded(ids, told, width) for ids, told in cut(documents, width, labels)]


def stored_columns(path):
    """All columns of a file or folder, by pyarrow alone."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    files = sorted(path.glob("*.arrow")) or sorted(path.glob("*.parquet")) or [path]
    tables = [
        pq.read_table(file) if file.suffix == ".parquet" else pa.ipc.open_stream(pa.memory_map(str(file))).read_all()
        for file in files
    ]
    return pa.concat_tables(tables).to_pydict()


def samples(view):
    found = view.samples(range(len(view)), FIELDS)
    assert ((found["labels"] != -100) == found["loss_mask"]).all()
    return list(zip(found["input_ids"].tolist(), found["labels"].tolist(), strict=True))


KINDS = ["parquet", "olmo", "ds", "hdf5", "labels", "completion_mask"]


@pytest.fixture
def mix(tmp_path):
    """A function that writes a masked source and a plain one, and returns their paths and their documents."""

    def write(kind, count=30):
        masked = made(1, count, separators=kind in ("olmo", "ds", "hdf5"))
        plain = [[(token, 1) for token, _ in one] for one in made(2, count)]
        paths = [written(tmp_path / "masked", masked, kind), written(tmp_path / "plain", plain, "plain")]
        return paths, masked + plain

    return write


@pytest.mark.parametrize("labels", ["next", "same"])
@pytest.mark.parametrize("pack", ["stream", "document", "bestfit"])
@pytest.mark.parametrize("kind", KINDS)
def test_masks_are_packed_with_their_tokens(kind, pack, labels, mix):
    paths, documents = mix(kind)
    view = tokfmt.recipe(paths, seq_len=16, pack=pack, labels=labels, to_eos=EOS)
    assert samples(view) == packed(documents, pack, 16, labels)
    assert view.info.loss_masks
    added = [note for note in view.notes if "30 separators" in note and note.startswith("masked:")]
    assert len(added) == (kind not in ("olmo", "ds", "hdf5"))


def some_cut(path, kind):
    """Rows of which every third lacks the separator, as if it were cut; and the documents: what is added is masked."""
    documents = [[*one[:-1], (EOS, 0)] if k % 3 == 0 else one for k, one in enumerate(made(3, 30))]
    rows = [one[:-1] if k % 3 == 0 else one for k, one in enumerate(documents)]
    columns = {
        "input_ids": [[token for token, _ in row] for row in rows],
        "labels": [[token if mark else -100 for token, mark in row] for row in rows],
    }
    if kind == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table(columns), path / "cut.parquet")
        return path / "cut.parquet", documents
    lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    (path / "cut.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path / "cut.jsonl", documents


@pytest.mark.parametrize("pack", ["stream", "document", "bestfit"])
@pytest.mark.parametrize("kind", ["parquet", "labels"])
def test_a_separator_that_cut_documents_lack_is_added_and_does_not_count(kind, pack, tmp_path):
    path, documents = some_cut(tmp_path, kind)
    source = {"path": path, "eos": EOS}
    assert samples(tokfmt.recipe([source], seq_len=16, pack=pack, to_eos=EOS)) == packed(documents, pack, 16, "next")
    chosen = tokfmt.recipe([{**source, "select": "4:20"}], seq_len=16, pack=pack, labels="same", to_eos=EOS)
    assert samples(chosen) == packed(documents[4:20], pack, 16, "same")
    passes = tokfmt.recipe([{**source, "epochs": 2}], seq_len=16, pack="document", to_eos=EOS)
    assert samples(passes) == packed(documents, "document", 16, "next") * 2


@pytest.mark.parametrize("kind", ["parquet", "labels"])
def test_documents_of_a_recipe_that_are_cut_have_separators_that_do_not_count(kind, tmp_path):
    path, documents = some_cut(tmp_path, kind)
    source = f'tokfmt = 1\nto_eos = {EOS}\n[[source]]\npath = "{path.name}"\neos = {EOS}\n'
    (tmp_path / "mix.toml").write_text(source)
    (tmp_path / "outer.toml").write_text(f'tokfmt = 1\nto_eos = {EOS}\n[[source]]\npath = "mix.toml"\n')
    for recipe, words in (("mix.toml", {}), ("mix.toml", {"shuffle": 3}), ("outer.toml", {})):
        out = tmp_path / f"{recipe}{len(words)}.ds"
        tokfmt.convert(tmp_path / recipe, out, verify=True, **words)
        ids, marks = np.fromfile(out, "<u2"), np.fromfile(f"{out}.loss", "u1")
        found = list(zip(ids.tolist(), marks.tolist(), strict=True))
        parts = np.split(np.array(found), np.flatnonzero(ids == EOS)[:-1] + 1)
        assert sorted(list(map(tuple, part.tolist())) for part in parts) == sorted(documents)
    assert samples(tokfmt.recipe([tmp_path / "outer.toml"], seq_len=16, to_eos=EOS)) == wrapped(documents, 16, "next")


documents_of_pairs = st.lists(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 1)), max_size=9), min_size=1, max_size=8
)


@settings(max_examples=examples(90), deadline=None, suppress_health_check=list(HealthCheck))
@given(documents_of_pairs, st.data())
def test_random_masks_are_packed_with_their_tokens(tmp_path_factory, drawn, data):
    """Any documents and marks, also empty ones and those without a token that counts."""
    ends = data.draw(st.lists(st.integers(0, 1), min_size=len(drawn), max_size=len(drawn)))
    kind, pack = (
        data.draw(st.sampled_from(["olmo", "ds"])),
        data.draw(st.sampled_from(["stream", "document", "bestfit"])),
    )
    width, labels = data.draw(st.integers(2, 9)), data.draw(st.sampled_from(["next", "same"]))
    documents = [[*one, (EOS, end)] for one, end in zip(drawn, ends, strict=True)]
    source = written(tmp_path_factory.mktemp("random") / "a", documents, kind)
    wanted = packed([one for one in documents if len(one) > 1], pack, width, labels)
    if not wanted:
        return
    assert samples(tokfmt.recipe([{"path": source, "eos": EOS}], seq_len=width, pack=pack, labels=labels)) == wanted


ROW_FORMATS = {
    "x.parquet": {}, "x.arrow": {}, "parts": {"to_format": "parquet", "to_options": {"shard_size": 16}},
    "saved": {"to_format": "arrow", "to_options": {"shard_size": 16}},
}  # fmt: skip


@settings(max_examples=examples(90), deadline=None, suppress_health_check=list(HealthCheck))
@given(documents_of_pairs, st.data())
def test_samples_are_stored_as_trainers_read_them_and_read_back_as_they_were(tmp_path_factory, drawn, data):
    """Each document with its border and marks, of any recipe, through two formats of rows."""
    home = tmp_path_factory.mktemp("rows")
    ends = data.draw(st.lists(st.integers(0, 1), min_size=len(drawn), max_size=len(drawn)))
    documents = [[*one, (EOS, end)] for one, end in zip(drawn, ends, strict=True)]
    pack, labels = (
        data.draw(st.sampled_from(["stream", "document", "bestfit"])),
        data.draw(st.sampled_from(["next", "same"])),
    )
    width = data.draw(st.integers(2 if labels == "same" or pack == "stream" else 10, 12))
    written(home / "a", documents, "ds")
    rows = pieces([one for one in documents if len(one) > 1], pack, width, labels)
    if not rows:
        return
    words = f'seq_len = {width}\npack = "{pack}"\nlabels = "{labels}"\n[[source]]\npath = "a.ds"\neos = {EOS}\n'
    (home / "mix.toml").write_text(f"tokfmt = 1\n{words}")
    wanted = columns_of(rows, width)
    one, other = data.draw(st.permutations(sorted(ROW_FORMATS)))[:2]
    tokfmt.convert(
        home / "mix.toml", home / f"1{one}", allow_loss="last-labels", verify=True, jobs=1, **ROW_FORMATS[one]
    )
    assert stored_columns(home / f"1{one}") == wanted
    how = {"options": {"view": "samples"}, "verify": True, "jobs": 1}
    tokfmt.convert(home / f"1{one}", home / f"2{other}", **how, **ROW_FORMATS[other])
    assert stored_columns(home / f"2{other}") == wanted
    for path in (home / f"1{one}", home / f"2{other}"):
        with tokfmt.open(path) as found:
            parts = [part for row in rows for part in row]
            assert [ids.tolist() for ids in found] == [ids for ids, _ in parts]
            marks = found.reader.marks(0, found.info.tokens) & 1
            assert marks.tolist() == [int(label != -100) for _, told in parts for label in told]
        (report,) = tokfmt.check(path, deep=True)
        assert not [finding for finding in report.findings if finding.severity == "error"]
        assert tokfmt.diff(home / "mix.toml", path).identical


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 5), st.integers(1, 25), st.data())
def test_every_token_is_a_target_once_with_its_mark(tmp_path_factory, seed, count, data):
    """Shuffled or not: the labels of all samples are the marked tokens, each once, behind the token before it."""
    shuffle, pack = (
        data.draw(st.sampled_from(["none", "samples", "documents"])),
        data.draw(st.sampled_from(["stream", "document", "bestfit"])),
    )
    documents = made(seed, count, 12)
    source = written(tmp_path_factory.mktemp("once") / "a", documents, "ds")
    width = data.draw(st.integers(2, 20))
    view = tokfmt.recipe([source], seq_len=width, pack=pack, to_eos=EOS, shuffle=shuffle, seed=seed)
    marks = {token: mark for one in documents for token, mark in one if token != EOS}
    follows = {a: (b, mark) for one in documents for (a, _), (b, mark) in itertools.pairwise(one)}
    found = samples(view)
    told = Counter(label for _, labels in found for label in labels if label not in (-100, EOS))
    inner = {b for _, (b, _) in follows.items()}
    if pack == "stream":  # the first token of the stream is no target
        every = {token for token, mark in marks.items() if mark}
        assert set(told) <= every
        assert len(every - set(told)) <= 1
    else:
        assert set(told) == {token for token, mark in marks.items() if mark and token in inner}
    assert set(told.values()) <= {1}
    for ids, labels in found:
        for token, label in zip(ids, labels, strict=True):
            if token != EOS:
                after, mark = follows[token]
                assert label == (after if mark else -100)


@pytest.mark.parametrize(
    ("field", "values", "found"),
    [
        ("labels", [1, 2], "2"),
        ("labels", [-100, 2, 4], "4"),
        ("labels", [-100, 2, 3.0], "3.0"),
        ("completion_mask", [0, 1, 2], "2"),
    ],
)
def test_records_whose_masks_do_not_fit_are_refused_with_their_line(field, values, found, tmp_path):
    rows = [{"input_ids": [1, 2, 3], field: [0, 1, 1] if field != "labels" else [-100, 2, 3]}] * 2
    rows.append({"input_ids": [1, 2, 3], field: values})
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for attempt in (
        lambda: tokfmt.recipe([tmp_path / "a.jsonl"], seq_len=4, to_eos=EOS),
        lambda: tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "a.ds", eos=EOS),
    ):
        with pytest.raises(FormatError, match=f"line 3.*{field}.*found {found}.*loss-mask"):
            attempt()
    assert len(tokfmt.recipe([tmp_path / "a.jsonl"], seq_len=4, to_eos=EOS, allow_loss="loss-mask")) == 3


def test_lines_with_labels_are_converted(tmp_path):
    documents = made(4, 20, separators=False)
    source = written(tmp_path / "a", documents, "labels")
    tokfmt.convert(source, tmp_path / "a.ds", eos=EOS, verify=True)
    flat = [pair for one in documents for pair in one]
    assert np.fromfile(tmp_path / "a.ds", "<u2").tolist() == [token for token, _ in flat]
    assert np.fromfile(tmp_path / "a.ds.loss", "u1").tolist() == [mark for _, mark in flat]
    with pytest.raises(LossyConversionError, match="loss masks of its records.*loss-mask"):
        tokfmt.convert(source, tmp_path / "a.pbin", eos=EOS)
    tokfmt.convert(source, tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_bytes() == source.read_bytes()


def test_a_stored_recipe_leaves_out_no_line_and_no_field_silently(tmp_path):
    (tmp_path / "mix.toml").write_text(f'tokfmt = 1\nseq_len = 4\nto_eos = {EOS}\n[[source]]\npath = "a.jsonl"\n')
    for line, name in (("not json", "invalid-lines"), ('{"input_ids": [1], "url": "x"}', "fields")):
        (tmp_path / "a.jsonl").write_text(f'{{"input_ids": [1, 2, 3]}}\n{line}\n{{"input_ids": [4]}}\n')
        with pytest.raises((FormatError, LossyConversionError), match=name):
            tokfmt.convert(tmp_path / "mix.toml", tmp_path / "a.h5")
        done = tokfmt.convert(tmp_path / "mix.toml", tmp_path / f"{name}.h5", allow_loss=name)
        assert list(done.losses) == [name]


def test_quotas_selections_and_passes_keep_masks(mix, tmp_path):
    paths, documents = mix("ds", 60)
    masked = documents[:60]
    spans = {one[0][0]: one for one in masked}
    chosen = tokfmt.recipe([{"path": paths[0], "select": "20:30"}], seq_len=16, to_eos=EOS)
    assert samples(chosen) == wrapped(masked[20:30], 16, "next")
    passes = tokfmt.recipe([{"path": paths[0], "epochs": 2}], seq_len=16, pack="document", to_eos=EOS)
    assert samples(passes) == packed(masked, "document", 16, "next") * 2
    quota = tokfmt.recipe([{"path": paths[0], "tokens": 400}], seq_len=16, pack="document", to_eos=EOS)
    begun = [ids[0] for ids, _ in samples(quota) if ids[0] in spans]
    assert 5 < len(begun) < 60
    assert samples(quota) == packed([spans[token] for token in begun], "document", 16, "next")
    weighted = tokfmt.recipe(
        [{"path": paths[0], "weight": 1}, {"path": paths[1], "weight": 1, "epochs": 3}],
        seq_len=16,
        to_eos=EOS,
        epochs=3,
    )
    every = packed(masked, "stream", 16, "next") + packed(documents[60:], "stream", 16, "next")
    assert all(sample in every for sample in samples(weighted))


@pytest.mark.parametrize("shuffle", ["none", "documents"])
def test_recipes_of_documents_keep_masks(shuffle, mix, tmp_path):
    """Stored, as source of another recipe, and shuffled by the conversion."""
    paths, documents = mix("olmo")
    lines = "".join(f'[[source]]\npath = "{path.name}"\n' for path in paths)
    (tmp_path / "mix.toml").write_text(f'tokfmt = 1\nto_eos = {EOS}\nshuffle = "{shuffle}"\n{lines}')
    for name, words in (("a.ds", {}), ("b.ds", {"shuffle": 3})):
        tokfmt.convert(tmp_path / "mix.toml", tmp_path / name, verify=True, **words)
        ids, marks = np.fromfile(tmp_path / name, "<u2"), np.fromfile(tmp_path / f"{name}.loss", "u1")
        cuts = np.flatnonzero(ids == EOS)[:-1] + 1
        found = [list(map(tuple, part.tolist())) for part in np.split(np.stack([ids, marks], 1), cuts)]
        assert sorted(found) == sorted(documents)
        assert (found == documents) == (shuffle == "none" and not words)
    outer = tokfmt.recipe([tmp_path / "mix.toml"], seq_len=16, to_eos=EOS)
    if shuffle == "none":
        assert samples(outer) == wrapped(documents, 16, "next")
    with pytest.raises(LossyConversionError, match="loss masks.*loss-mask"):
        tokfmt.convert(tmp_path / "mix.toml", tmp_path / "c.pbin")


@pytest.mark.parametrize("dedup", ["none", "exact"])
def test_text_and_masked_documents_are_prepared_together(dedup, tmp_path):
    documents = made(1, 9)
    written(tmp_path / "masked", documents, "ds")
    (tmp_path / "text.jsonl").write_text('{"text": "Mens sana"}\n{"text": "in corpore sano"}\n')
    words = f'tokenizer = {json.dumps(str(TOKENIZER))}\nto_eos = {EOS}\ndedup = "{dedup}"\n'
    sources = f'[[source]]\npath = "text.jsonl"\n[[source]]\npath = "masked.ds"\neos = {EOS}\n'
    (tmp_path / "mix.toml").write_text(f"tokfmt = 1\n{words}{sources}")
    tokfmt.convert(tmp_path / "mix.toml", tmp_path / "out.ds", allow_loss="tokenizers", verify=True)
    ids, marks = np.fromfile(tmp_path / "out.ds", "<u2"), np.fromfile(tmp_path / "out.ds.loss", "u1")
    pairs = [pair for one in documents for pair in one]
    assert list(zip(ids.tolist(), marks.tolist(), strict=True))[-len(pairs) :] == pairs
    assert len(ids) > len(pairs)
    assert marks[: -len(pairs)].all()


@pytest.fixture
def stored(mix, tmp_path):
    """A function that writes a recipe of masked documents."""

    def write(pack="bestfit", labels="next", kind="ds"):
        paths, _ = mix(kind)
        lines = "".join(f'[[source]]\npath = "{path.name}"\n' for path in paths)
        words = f'seq_len = 16\npack = "{pack}"\nlabels = "{labels}"\nto_eos = {EOS}\n'
        (tmp_path / "mix.toml").write_text(f"tokfmt = 1\n{words}{lines}")
        return tmp_path / "mix.toml"

    return write


@pytest.mark.parametrize("pack", first(1, ["bestfit", "stream", "document"]))
def test_samples_are_stored_with_their_masks(pack, stored, tmp_path):
    h5py, pq = pytest.importorskip("h5py"), pytest.importorskip("pyarrow.parquet")
    recipe = stored(pack)
    wanted = samples(tokfmt.open(recipe))
    tokfmt.convert(recipe, tmp_path / "x.h5", verify=True)
    with h5py.File(tmp_path / "x.h5") as file:
        ids, mask, labels = np.moveaxis(file["data"][:], 1, 0)
    assert list(zip(ids.tolist(), labels.tolist(), strict=True)) == wanted
    assert mask.tolist() == [[int(label != -100) for label in told] for _, told in wanted]
    again = tokfmt.recipe([tmp_path / "x.h5"], seq_len=16, pack="stored")
    assert samples(again) == wanted
    tokfmt.convert(recipe, tmp_path / "p.parquet", to_options={"pack_size": 16}, verify=True)
    rows = pq.read_table(tmp_path / "p.parquet").to_pylist()
    assert sum(map(sum, (row["loss_mask"] for row in rows))) == mask.sum()


def test_labels_that_are_not_moved_are_stored_beside_their_tokens(stored, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    recipe = stored(labels="same")
    wanted = samples(tokfmt.open(recipe))
    tokfmt.convert(recipe, tmp_path / "x.parquet", verify=True)
    rows = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [(row["input_ids"], row["labels"]) for row in rows] == wanted
    assert tokfmt.diff(recipe, tmp_path / "x.parquet", samples=True).identical
    said = [
        CliRunner().invoke(cli, ["show", str(path), ":", "--samples", "--json"])
        for path in (recipe, tmp_path / "x.parquet")
    ]
    shown, of_file = (json.loads(one.stdout)["shown"] for one in said)
    assert shown == of_file
    assert [(row["input_ids"], row["labels"]) for row in shown] == wanted
    assert [row["padding"] for row in shown] == [row["attention_mask"].count(0) for row in rows]
    tokfmt.convert(recipe, tmp_path / "y.ds", verify=True)
    mask = np.fromfile(tmp_path / "y.ds.loss", "u1").reshape(-1, 17)[:, :16]
    assert mask.tolist() == [[int(label != -100) for label in told] for _, told in wanted]


@pytest.mark.parametrize("name", first(2, ["x.pbin", "x.jsonl", "x.zarr", "x_document.bin"]))
def test_destinations_without_masks_name_the_loss(name, stored, tmp_path):
    recipe = stored()
    with pytest.raises(LossyConversionError, match="loss masks of its sources.*loss-mask"):
        tokfmt.convert(recipe, tmp_path / name)
    done = tokfmt.convert(recipe, tmp_path / name, allow_loss="loss-mask", verify=True)
    assert "loss-mask" in done.losses


def test_masks_are_left_out_if_their_loss_is_accepted(mix):
    paths, documents = mix("ds")
    view = tokfmt.recipe(paths, seq_len=16, pack="bestfit", to_eos=EOS, allow_loss="loss-mask")
    plain = [[(token, 1) for token, _ in one] for one in documents]
    assert samples(view) == packed(plain, "bestfit", 16, "next")
    assert not view.info.loss_masks
    assert [loss.name for loss in view.info.lost] == ["loss-mask"]
    assert view.fingerprint != tokfmt.recipe(paths, seq_len=16, pack="bestfit", to_eos=EOS).fingerprint


def test_rows_that_are_stored_with_masks_are_samples_again(stored, tmp_path):
    """Masks beside rows, as OLMo-core reads them, are labels: those of the tokens, or of the tokens after them."""
    pytest.importorskip("pyarrow")
    wanted = samples(tokfmt.open(stored(labels="same")))
    ids = [[*zip(row, [int(label != -100) for label in told], strict=True), (EOS, 1)] for row, told in wanted]
    written(tmp_path / "rows", ids, "olmo")
    source = {"path": tmp_path / "rows.npy"}
    same = tokfmt.recipe([{**source, "eos": "none"}], seq_len=17, pack="stored")
    assert samples(same) == [([*row, EOS], [*told, EOS]) for row, told in wanted]
    moved = tokfmt.recipe([{**source, "eos": "none"}], seq_len=17, pack="stored", labels="next")
    assert samples(moved) == [([*row, EOS], [*told[1:], EOS, -100]) for row, told in wanted]
    assert any("no labels" in note for note in same.notes)
    assert not any("labels" in note or "mask" in note for note in moved.notes)


def test_stats_and_show_have_the_masks(stored):
    recipe = stored("stream")
    masked = sum(label == -100 for _, labels in samples(tokfmt.open(recipe)) for label in labels)
    said = CliRunner().invoke(cli, ["stats", str(recipe), "--json"])
    assert json.loads(said.stdout)["masked"]["count"] == masked
    said = CliRunner().invoke(cli, ["show", str(recipe), "0:1", "--samples", "--json"])
    (row,) = json.loads(said.stdout)["shown"]
    assert (row["input_ids"], row["labels"]) == samples(tokfmt.open(recipe))[0]


def test_masks_of_a_source_that_is_read_from_the_cache(tmp_path, monkeypatch):
    """So many sequences that the second opening opens no file of the source."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    documents = [[(1 + k % 50_000, k % 3 and 1), (EOS, k % 2)] for k in range(1 << 16)]
    source = written(tmp_path / "a", documents, "ds")
    for _ in range(2):
        view = tokfmt.recipe([source], seq_len=8, to_eos=EOS)
        found = view.samples(range(200), FIELDS)
        wanted = wrapped(documents[:1000], 8, "next")[:200]
        assert list(zip(found["input_ids"].tolist(), found["labels"].tolist(), strict=True)) == wanted


def test_samples_with_masks_are_not_cut(tmp_path):
    """They can hold padding."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        ids = np.arange(1, 13).reshape(3, 4)
        file["data"] = np.stack([ids, np.tile([0, 1, 1, 0], (3, 1)), ids + 1], axis=1).astype("<i4")
    source = {"path": tmp_path / "x.h5", "options": {"view": "samples"}}
    with pytest.raises(FormatError, match='pack = "stored".*loss-mask'):
        tokfmt.recipe([{**source, "eos": EOS}], seq_len=4)
    assert len(tokfmt.recipe([{**source, "eos": EOS}], seq_len=4, pack="stored")) == 3


def test_packed_rows_with_masks_are_packed_again(tmp_path):
    """Both remedies of rows that `stored` refuses lead to samples."""
    pytest.importorskip("pyarrow")
    documents = made(3, 20, separators=False)
    source = written(tmp_path / "a", documents, "parquet")
    tokfmt.convert(source, tmp_path / "p.parquet", eos="none", to_options={"pack_size": 64})
    with pytest.raises(FormatError, match='pack = "bestfit" packs its documents again'):
        tokfmt.recipe([tmp_path / "p.parquet"], seq_len=64, pack="stored")
    with tokfmt.open(tmp_path / "p.parquet") as rows:
        marks = rows.reader.marks(0, rows.info.tokens).tolist()
        flat = [token for one in rows for token in one.tolist()]
    again = tokfmt.recipe([tmp_path / "p.parquet"], seq_len=16, pack="bestfit", to_eos=EOS)
    of = dict(zip(flat, marks, strict=True))
    pairs = [[(token, of[token]) for token, _ in one[:-1]] + [(EOS, 0)] for one in documents]
    assert samples(again) == packed(pairs, "bestfit", 16, "next")


@pytest.mark.slow
def test_a_loader_hands_out_masked_labels(stored):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: tests/system.sh brings it where it can")
    from tokfmt.torch import Loader

    recipe = stored()
    wanted = samples(tokfmt.open(recipe))
    batches = list(Loader(recipe, 4))
    ids, labels = (torch.cat([batch[name] for batch in batches]).tolist() for name in ("input_ids", "labels"))
    assert list(zip(ids, labels, strict=True)) == wanted[: len(ids)]


@FUZZ_ONLY
def test_masks_of_sources_that_take_long_to_decode_are_copied_with_their_tokens(tmp_path, monkeypatch):
    """More than 4 Mi tokens in Parquet, in shuffled samples."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rng = np.random.default_rng(0)
    ids = rng.integers(1, 50_000, 5 << 20, dtype=np.int32)
    labels = np.where(rng.integers(0, 2, len(ids)), ids, -100).astype(np.int32)
    offsets = pa.array(np.arange(0, len(ids) + 1, 1 << 10, dtype=np.int32))
    columns = {
        name: pa.ListArray.from_arrays(offsets, pa.array(some))
        for name, some in (("input_ids", ids), ("labels", labels))
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    words = {"seq_len": 256, "to_eos": "none", "labels": "same", "shuffle": "samples"}

    def copies():
        return sorted(path.suffix for path in (tmp_path / "tokfmt" / "recipes").glob("*-tokens.*"))

    def check(view):
        places = [span.sequence * 1024 + span.start for (span,) in map(view.spans, range(200))]
        at = np.array(places)[:, None] + np.arange(256)
        found = view.samples(range(200), ["input_ids", "labels"])
        assert (found["input_ids"] == ids[at]).all()
        assert (found["labels"] == labels[at]).all()

    view = tokfmt.recipe([tmp_path / "a.parquet"], **words)

    def until_copied():
        while not copies():
            view.samples(range(3))

    with pytest.warns(LoaderWarning, match="copying"):
        until_copied()
    assert copies() == [".u16", ".u8"]
    check(view)
    check(tokfmt.recipe([tmp_path / "a.parquet"], **words))


def test_documents_with_equal_ids_are_equal_whatever_their_masks(tmp_path):
    """The first is kept, with its mask."""
    documents = [[(5, 1), (6, 0), (EOS, 1)], [(7, 1), (EOS, 1)], [(5, 0), (6, 1), (EOS, 1)]]
    written(tmp_path / "a", documents, "ds")
    recipe = f'tokfmt = 1\ndedup = "exact"\n[[source]]\npath = "a.ds"\neos = {EOS}\n'
    (tmp_path / "mix.toml").write_text(recipe)
    done = tokfmt.convert(tmp_path / "mix.toml", tmp_path / "out.ds", verify=True)
    assert np.fromfile(tmp_path / "out.ds", "<u2").tolist() == [5, 6, EOS, 7, EOS]
    assert np.fromfile(tmp_path / "out.ds.loss", "u1").tolist() == [1, 0, 1, 1, 1]
    assert done.prepared[0]["duplicates"] == {"a": 1}


@pytest.mark.parametrize("more", [{}, {"plain": True}], ids=["alone", "mixed"])
@pytest.mark.parametrize("shuffle", ["none", "documents"])
def test_a_masked_separator_of_an_empty_document_is_not_lost_silently(tmp_path, shuffle, more):
    """It has no token that could carry its mask; a conversion of the source itself refuses it, too."""
    source = written(tmp_path / "a", [[(1, 1), (2, 0), (EOS, 1)], [(EOS, 0)], [(3, 1), (EOS, 0)]], "ds")
    entries = f'[[source]]\npath = "a.ds"\neos = {EOS}\n'
    if more:
        written(tmp_path / "b", [[(4, 1), (EOS, 1)]], "plain")
        entries += '[[source]]\npath = "b.jsonl"\n'
    (tmp_path / "mix.toml").write_text(f'tokfmt = 1\nshuffle = "{shuffle}"\n{entries}')
    for asked in (source, tmp_path / "mix.toml"):
        eos = {} if asked.suffix == ".toml" else {"eos": EOS}
        with pytest.raises(LossyConversionError, match="separators of 1 empty sequence that do not count in the loss"):
            tokfmt.convert(asked, tmp_path / "out.ds", **eos)
