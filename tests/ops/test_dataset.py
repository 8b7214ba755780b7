"""Datasets in Python: selected, joined, shuffled, saved, as tables of Arrow, in notebooks. Oracles are numpy's."""

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import registered
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import CORPUS, FIXTURES, TOKENIZER
from reads import asked_of

import tokfmt
from tokfmt import Dataset
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.errors import (
    ConversionError,
    CorruptError,
    DestinationExistsError,
    MissingDependencyError,
    OptionError,
    TokfmtError,
    TruncatedError,
)
from tokfmt.testing import datasets, sequences, write

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
quick = settings(max_examples=examples(80), deadline=None)


def held(ragged):
    return Dataset(MemoryReader(ragged), "memory")


@quick
@given(st.data(), datasets(max_sequences=20, max_length=9))
def test_select_is_numpys_indexing(data, ragged):
    lists = np.empty(len(ragged), object)
    lists[:] = ragged.tolist()
    bounds = st.none() | st.integers(-25, 25)
    part = slice(data.draw(bounds), data.draw(bounds), data.draw(st.none() | st.sampled_from([1, 2, 3, -1, -2])))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(lists), max_size=len(lists))), np.bool_)
    chosen = [part, mask]
    if len(lists):
        chosen.append(np.array(data.draw(st.lists(st.integers(-len(lists), len(lists) - 1), max_size=30)), np.int64))
    for which in chosen:
        view = held(ragged).select(which)
        expected = lists[which].tolist()
        assert sequences(view) == expected
        assert view.info.tokens == sum(map(len, expected))
        assert [s.tolist() for s in pickle.loads(pickle.dumps(view))] == expected


FLAT = {
    "stage1": "stage1_block_0000.bin", "modalities": "x.pbin", "megatron": "x_document.bin", "nanogpt": "train.bin",
    "llmc": "llmc.bin", "olmo": "x.npy", "datatrove": "x.ds", "litdata": "litdata",
}  # fmt: skip
STREAMS = ("stage1", "nanogpt", "llmc")
DOCUMENTS = [list(range(k, k + 40)) for k in range(1, 30)]


def flat(home, name):
    """A dataset of DOCUMENTS, stored in a flat format."""
    write(registered.get(name), home / FLAT[name], Ragged.of(DOCUMENTS), eos_id=50256)
    return tokfmt.open(home / FLAT[name], format=name, eos=50256)


@pytest.mark.parametrize("name", FLAT)
def test_one_sequence_of_a_flat_format_is_read_at_once(tmp_path, name):
    dataset = flat(tmp_path, name)
    assert dataset[3].tolist() == DOCUMENTS[3]
    with asked_of(tmp_path) as asked:
        dataset[7]
    assert len(asked.reads) <= 1
    assert [one.tolist() for one in map(dataset.__getitem__, range(len(dataset)))] == DOCUMENTS
    assert dataset[-1].tolist() == DOCUMENTS[-1]
    assert dataset[3].flags.writeable, "torch.from_numpy warns of what may not be written to"


@pytest.mark.parametrize("name", FLAT)
def test_used_dataset_pickles_closes_and_raises_index_errors(tmp_path, name):
    dataset = flat(tmp_path, name)
    assert dataset[0].tolist() == DOCUMENTS[0]
    there = pickle.loads(pickle.dumps(dataset))
    assert (there[1].tolist(), there[28].tolist()) == (DOCUMENTS[1], DOCUMENTS[28])
    for wrong in (29, -30):
        with pytest.raises(IndexError, match=f"there is no sequence {wrong} "):
            dataset[wrong]
    dataset.reader.close()  # which a reader opens again
    assert dataset[2].tolist() == DOCUMENTS[2]
    dataset.close()
    with pytest.raises(ValueError, match="this dataset is closed"):
        dataset[0]


@pytest.mark.parametrize("name", FLAT)
def test_file_changed_after_opening_raises(tmp_path, name):
    """Each document of a stream still needs its separator at the recorded position."""
    dataset = flat(tmp_path, name)
    place = dataset.reader.source.locate(0)
    with open(place.path, "r+b") as file:
        file.seek(place.offset)
        file.write((7).to_bytes(place.width, "little") * 20 * 41)
        file.flush()
        with pytest.raises(TokfmtError, match="changed" if name in STREAMS else "does not end with the separator"):
            dataset[4]
        file.truncate(place.offset + 300)
    with pytest.raises(TruncatedError, match="the file ends too early"):
        dataset[27]


def test_every_separator_that_is_taken_away_is_looked_at(tmp_path):
    """Those at the end of a window as well, of which another one begins with the next sequence."""
    lists = [[7, 8], [], [9], [], [], [1, 2, 3]]
    stored = Ragged.of([[*one, 50256] for one in lists])
    write(registered.get("megatron"), tmp_path / "x_document.bin", stored, eos_id="none")
    dataset = tokfmt.open(tmp_path / "x_document.bin", eos=50256)
    ends = np.cumsum([len(one) + 1 for one in lists]) - 1
    for number, end in enumerate(ends.tolist()):
        with open(tmp_path / "x_document.bin", "r+b") as file:
            file.seek(2 * end)
            file.write(b"\5\0")
            file.flush()
            with pytest.raises(CorruptError, match=f"sequence {number} does not end with the separator 50256"):
                list(dataset.batches(1))
            with pytest.raises(CorruptError, match=f"sequence {number} does not end with the separator 50256"):
                dataset[number]
            file.seek(2 * end)
            file.write((50256).to_bytes(2, "little"))
        assert dataset[:].tolist() == lists


def test_a_negative_id_that_came_after_a_block_was_scanned_is_refused(tmp_path):
    dataset = flat(tmp_path, "stage1")
    assert dataset[1].tolist() == DOCUMENTS[1]
    with open(tmp_path / FLAT["stage1"], "r+b") as file:
        file.seek(50 * 4)  # of the second document, ids 41 to 80
        file.write(b"\x01\x00\x00\x80")
    with pytest.raises(CorruptError, match="has a negative ID at byte 200: .*The file is damaged"):
        dataset[1]


@pytest.mark.parametrize("begins", [0, 1])
def test_sequence_across_files_equals_the_slice(tmp_path, begins):
    """Some sequences are in two files, and some have runs of separators between them."""
    stream = np.random.default_rng(begins).integers(begins, 5, 400).astype("<i4")
    for number, part in enumerate(np.split(stream, [120, 240, 360])):
        part.tofile(tmp_path / f"stage1_block_{number:04d}.bin")
    dataset = tokfmt.open(tmp_path, format="stage1", eos=1, options={"gaps": "accept"})
    assert [dataset[i].tolist() for i in range(len(dataset))] == dataset[:].tolist()


@pytest.mark.parametrize("which", [[0, 99], np.array([-9]), np.zeros(7, np.bool_), np.zeros((5, 1), np.bool_)])
def test_select_of_missing_sequences_raises(which):
    with pytest.raises(IndexError):
        held(Ragged.of([[1], [2], [3], [4], [5]])).select(which)


@pytest.mark.parametrize("which", [[True, False], "3:5", 3, [1.5], None, np.array([1.5])])
def test_select_refuses_other_types(which):
    with pytest.raises(TypeError, match="an index is a number"):
        held(Ragged.of([[1], [2]])).select(which)


@quick
@given(st.lists(datasets(max_sequences=8, max_length=5), min_size=2, max_size=5))
def test_sums_are_concatenations(parts):
    total = held(parts[0])
    for part in parts[1:]:
        total = total + held(part)
    assert sequences(total) == [s for part in parts for s in part.tolist()]
    assert len(total.reader.sources) == len(parts)  # sums of sums are one list, not a chain
    with pytest.raises(TypeError):
        total + [[1, 2]]


@quick
@given(datasets(max_sequences=30, max_length=5), st.integers(0, (1 << 64) - 1))
def test_a_shuffle_is_a_permutation_by_keys(ragged, seed):
    keys = np.random.Philox(key=1 << 64 | seed).random_raw(len(ragged))
    lists = ragged.tolist()
    assert sequences(held(ragged).shuffle(seed)) == [lists[k] for k in sorted(range(len(lists)), key=lambda k: keys[k])]


def test_seeds_are_checked():
    for wrong in ("1", 1.5, True, None):
        with pytest.raises(
            OptionError, match="seed: expected a whole number from 0 to 18,446,744,073,709,551,615, found"
        ):
            held(Ragged.of([[1]])).shuffle(wrong)
    with pytest.raises(OptionError, match=r"seed: .* found -1$"):
        held(Ragged.of([[1]])).shuffle(-1)


def test_save_writes_the_bytes_of_convert(tmp_path):
    dataset = tokfmt.open(PACK)
    cases = {
        "whole": (dataset, {}),
        "part": (dataset.select(slice(5, 30)), {"select": "5:30"}),
        "shuffled": (dataset.shuffle(7), {"shuffle": 7}),
    }
    for name, (view, options) in cases.items():
        for suffix in ("pbin", "zarr", "jsonl"):
            saved, converted = tmp_path / f"{name}-s.{suffix}", tmp_path / f"{name}-c.{suffix}"
            done = view.save(saved, verify=True)
            tokfmt.convert(PACK, converted, **options)
            assert done.verified
            assert sorted(map(written, files_below(saved))) == sorted(map(written, files_below(converted)))
            manifests = [json.loads(p.with_name(f"{p.name}.tokfmt.json").read_bytes()) for p in (saved, converted)]
            for manifest in manifests:
                manifest.pop("select")
            assert manifests[0] == manifests[1]


def files_below(path):
    return [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]


def written(path):
    return path.name.replace("-s.", "-c."), path.read_bytes()


def test_a_shuffle_within_a_selection_is_saved_as_it_reads(tmp_path):
    dataset = tokfmt.open(PACK)
    views = {
        "a": dataset.shuffle(3).select(slice(0, 20)),
        "b": dataset.select([4, 4, 1]).shuffle(3),
        "c": (dataset.select(slice(3)) + dataset.select([9])).shuffle(1).select(slice(None, None, -1)),
    }
    for name, view in views.items():
        done = view.save(tmp_path / f"{name}.pbin")
        assert done.sequences == len(view)
        assert [s.tolist() for s in tokfmt.open(tmp_path / f"{name}.pbin")] == [s.tolist() for s in view]


def test_datasets_of_several_formats_are_saved_as_one(tmp_path):
    tokfmt.convert(PACK, tmp_path / "b.zarr", select=slice(0, 9))
    mixed = tokfmt.open(PACK).select(slice(2)) + tokfmt.open(tmp_path / "b.zarr")
    assert mixed.format == "modalities + flat-tokens"
    done = mixed.save(tmp_path / "mixed.pbin", verify=True)
    lists = tokfmt.open(PACK)[:].tolist()
    assert tokfmt.open(tmp_path / "mixed.pbin")[:].tolist() == lists[:2] + lists[:9]
    assert [source["format"] for source in done.sources] == ["modalities", "flat-tokens"]
    manifest = json.loads((tmp_path / "mixed.pbin.tokfmt.json").read_bytes())
    assert [source["path"] for source in manifest["sources"]] == [str(PACK), str(tmp_path / "b.zarr")]
    assert all(source["xxh3_128"] for source in manifest["sources"])


def test_saving_is_whole_or_not_at_all(tmp_path):
    dataset = tokfmt.open(PACK)
    dataset.save(tmp_path / "a.pbin")
    before = (tmp_path / "a.pbin").read_bytes()
    with pytest.raises(DestinationExistsError, match="--overwrite replaces it"):
        dataset.save(tmp_path / "a.pbin")
    with pytest.raises(ConversionError):
        tokfmt.open(tmp_path / "a.pbin").select(slice(2)).save(tmp_path / "a.pbin", overwrite=True)  # its own source
    assert (tmp_path / "a.pbin").read_bytes() == before
    other = held(Ragged.of([[1]]))
    with pytest.raises(OptionError, match="not opened from files"):
        other.save(tmp_path / "x.pbin")
    embedded = tokfmt.open(PACK, eos="none")
    with pytest.raises(tokfmt.TokfmtError, match="--allow-loss embedded-separators"):
        embedded.save(tmp_path / "y.bin", to_format="stage1", to_eos=int(embedded[0][-1]))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.pbin", "a.pbin.tokfmt.json"]


def test_text_is_selected_and_saved_as_tokens(tmp_path):
    dataset = tokfmt.open(CORPUS, tokenizer=str(TOKENIZER))
    view = dataset.select([5, 3])
    assert [s.tolist() for s in view] == [dataset[5].tolist(), dataset[3].tolist()]
    view.save(tmp_path / "t.zarr")
    assert [s.tolist() for s in tokfmt.open(tmp_path / "t.zarr")] == [dataset[5].tolist(), dataset[3].tolist()]
    manifest = json.loads((tmp_path / "t.zarr.tokfmt.json").read_bytes())
    assert manifest["tokenizer"]["digest"]


@pytest.mark.parametrize("opened", [lambda: tokfmt.open(PACK), lambda: tokfmt.open(CORPUS, tokenizer=str(TOKENIZER))])
def test_as_a_table_of_arrow(opened):
    pa = pytest.importorskip("pyarrow")
    dataset = opened()
    table = pa.table(dataset)
    assert table.schema.names == ["sequence", "length", "tokens"]
    assert table["sequence"].to_pylist() == list(range(len(dataset)))
    expected = [s.tolist() for s in dataset]
    assert table["tokens"].to_pylist() == expected
    assert table["length"].to_pylist() == list(map(len, expected))
    assert table.schema.field("tokens").type.value_type == pa.from_numpy_dtype(dataset[0].dtype)


def test_batches_of_arrow_are_bounded_and_read_when_they_are_asked_for():
    pa = pytest.importorskip("pyarrow")

    class Counting(MemoryReader):
        read = 0

        def tokens(self, start, stop):
            Counting.read += stop - start
            return super().tokens(start, stop)

    count = 5000
    ragged = Ragged(np.zeros(count * 1000, np.uint16), np.arange(0, count * 1000 + 1, 1000))
    reader = pa.RecordBatchReader.from_stream(Dataset(Counting(ragged), "memory"))
    assert Counting.read == 0
    sizes = [len(batch) for batch in reader]
    assert sum(sizes) == count
    assert max(sizes) * 1000 <= 1 << 20


def test_polars_and_duckdb_read_it():
    polars = pytest.importorskip("polars")
    dataset = tokfmt.open(PACK).select(slice(3))
    frame = polars.DataFrame(dataset)
    assert frame["tokens"].to_list() == [s.tolist() for s in dataset]
    duckdb = pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    stream = pa.RecordBatchReader.from_stream(dataset)  # noqa: F841 - duckdb finds it by its name
    longest = duckdb.sql("select sequence, length, tokens[1] from stream order by length desc limit 1").fetchall()
    best = max(range(3), key=lambda k: len(dataset[k]))
    assert longest == [(best, len(dataset[best]), int(dataset[best][0]))]


def test_without_pyarrow_the_package_is_named():
    script = (
        "import sys; sys.modules['pyarrow'] = None\nimport tokfmt\n"
        f"try: tokfmt.open({str(PACK)!r}).__arrow_c_stream__()\n"
        "except tokfmt.TokfmtError as error: print(type(error).__name__, error)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
    assert (
        said == f"{MissingDependencyError.__name__} a table of Arrow needs the package pyarrow: pip install pyarrow\n"
    )


def test_a_notebook_shows_the_beginning_of_a_long_sequence_and_reads_no_more():
    class Counting(MemoryReader):
        read = 0

        def tokens(self, start, stop):
            Counting.read += stop - start
            return super().tokens(start, stop)

    shown = Dataset(
        Counting(Ragged(np.arange(1_000_000, dtype=np.uint32), np.array([0, 1_000_000]))), "x"
    )._repr_html_()
    assert ">1,000,000</td>" in shown and "10 11 …" in shown
    assert Counting.read == 12


def test_near_sequences_are_read_together_and_far_ones_are_not():
    class Counting(MemoryReader):
        reads = []

        def tokens(self, start, stop):
            self.reads.append((start, stop))
            return super().tokens(start, stop)

    ids = np.arange(600_000, dtype=np.uint32)
    source = Counting(Ragged(ids, np.arange(0, 600_001, 100)))
    dataset = Dataset(source, "memory")
    assert dataset.select([7, 5, 6, 5]).tokens(0, 400).tolist() == [
        *range(700, 800), *range(500, 600), *range(600, 700), *range(500, 600)
    ]  # fmt: skip
    assert source.reads == [(500, 800)]
    source.reads.clear()
    dataset.select([5999, 0]).tokens(0, 200)
    assert source.reads == [(0, 100), (599_900, 600_000)]


def test_a_notebook_shows_names_and_notes_as_text():
    dataset = tokfmt.open(PACK)
    shown = dataset._repr_html_()
    first = " ".join(map(str, dataset[0][:12].tolist()))
    assert first in shown and f"{len(dataset[0]):,}" in shown and "… 37 more" in shown
    assert len(shown) < 3000
    hostile = Dataset(MemoryReader(Ragged.of([[1]])), "<script>alert(1)</script>", notes=("<img src=x>",))
    shown = hostile._repr_html_()
    assert set(re.findall(r"</?([a-z]+)", shown)) <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert "&lt;script&gt;" in shown
    assert "records, tokenized when they are read" in tokfmt.open(CORPUS, tokenizer=str(TOKENIZER))._repr_html_()
    assert "0 sequences" in Dataset(MemoryReader(Ragged.of([])), "memory")._repr_html_()


def test_a_dataset_knows_its_tokenizer_and_its_texts(tmp_path):
    """By its manifest, or because it was opened with one; datasets made of it know it too."""
    path = tmp_path / "x.pbin"
    texts = [json.loads(line)["text"] for line in CORPUS.read_text().splitlines()]
    tokfmt.convert(CORPUS, path, tokenizer=str(TOKENIZER))
    with tokfmt.open(path) as dataset:
        assert (dataset.tokenizer.name, dataset.tokenizer.eos_id) == (str(TOKENIZER), 4095)
        assert [dataset.text(k) for k in (0, 5, -1)] == [texts[k] for k in (0, 5, -1)]
        assert dataset.select([7, 3]).text(1) == texts[3]
    Path(f"{path}.tokfmt.json").unlink()
    with pytest.raises(OptionError, match="is not known. Open it with tokenizer=NAME"):
        tokfmt.open(path, eos=4095).text(0)
    opened = tokfmt.open(path, tokenizer=str(TOKENIZER))
    assert (opened.select([7, 3]) + opened).text(1) == texts[3]
    assert tokfmt.open(CORPUS, tokenizer=str(TOKENIZER)).text(4) == texts[4]


def test_reports_are_tables_in_notebooks(tmp_path):
    path = tmp_path / "x<b>.pbin"
    tokfmt.convert(CORPUS, path, tokenizer=str(TOKENIZER))
    shown: dict[str, Any] = {
        "17,450": tokfmt.stats(path),
        "no findings": tokfmt.check(path)[0],
        ">4095<": tokfmt.info(path),
        "identical": tokfmt.diff(path, path),
        "#3": tokfmt.show(path, "3"),
    }
    for words, report in shown.items():
        found = report._repr_html_()
        assert words in found or (words == "#3" and tokfmt.open(path).text(3)[:40].replace("'", "&#x27;") in found), (
            found
        )
        assert "x&lt;b&gt;.pbin" in found
        assert set(re.findall(r"</?([a-z]+)", found)) <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (0, 4), (2, 1)])
def test_no_token_beyond_a_part_of_a_dataset_is_read(start, stop):
    """A selection, a slice and two datasets joined end where they end, though there is more beneath."""
    whole = held(Ragged.of([[1], [2], [3], [4], [5]]))
    for part in (whole.select([1, 2, 3]), whole.select(slice(1, 4)), whole.select(range(3))):
        for read in (part.tokens, part.offsets):
            with pytest.raises(IndexError):
                read(start, stop)
