"""The public Python interface: open, convert, formats."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.errors import DestinationExistsError, OptionError, SeparatorUnknownError

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def documents():
    expected = json.loads((FIXTURES / "modalities" / "expected.json").read_bytes())
    stored = expected["doc_sets"][expected["pbin"]["D_2byte_gpt2.pbin"]["documents"]]
    return [doc[:-1] for doc in stored]


def test_open_takes_one_dataset(tmp_path):
    """A pattern may name files that join, but not several datasets."""
    for name in ("a.pbin", "b.pbin"):
        (tmp_path / name).write_bytes(PACK.read_bytes())
    with pytest.raises(OptionError, match=r"names 2 datasets, .*a\.pbin, .*b\.pbin \.\.\. \(expected one\)"):
        tokfmt.open(tmp_path / "*.pbin")
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text('{"input_ids": [1, 2]}\n')
    with tokfmt.open(tmp_path / "*.jsonl") as dataset:
        assert len(dataset) == 2


def test_open_is_a_sequence_of_arrays():
    lists = documents()
    with tokfmt.open(PACK) as dataset:
        assert len(dataset) == 42
        assert dataset[0].dtype == np.uint16
        assert [dataset[0].tolist(), dataset[-1].tolist()] == [lists[0], lists[-1]]
        assert dataset[5:8].tolist() == lists[5:8]
        assert dataset[40:99].tolist() == lists[40:]
        assert dataset[8:5].tolist() == []
        assert [s.tolist() for s in dataset] == lists
        assert [s.tolist() for batch in dataset.batches(100) for s in batch] == lists
        assert "modalities: 42 sequences" in repr(dataset)
        for wrong in (42, -43):
            with pytest.raises(IndexError):
                dataset[wrong]
        assert dataset[::2].tolist() == lists[::2]
        assert dataset[::-1].tolist() == lists[::-1]
        assert dataset.lengths.tolist() == [len(one) for one in lists]


def test_several_numbers_at_once():
    lists = documents()
    with tokfmt.open(PACK) as dataset:
        wanted = [lists[3], lists[3], lists[-1], lists[0]]
        for numbers in ([3, 3, -1, 0], (3, 3, -1, 0), np.array([3, 3, -1, 0]), np.array([3, 3, 41, 0], np.uint8)):
            assert dataset[numbers].tolist() == wanted
        assert dataset[range(4, 0, -2)].tolist() == [lists[4], lists[2]]
        assert dataset[[]].tolist() == dataset[np.array([])].tolist() == []
        assert dataset[np.int64(2)].tolist() == dataset[np.array(2)].tolist() == lists[2]
        for wrong in ("a", True, np.True_, [True], np.array([True]), [1.5], ["1"], 1.0, None, np.zeros((2, 2), int)):
            with pytest.raises(TypeError, match="an index is a number, a slice"):
                dataset[wrong]
        with pytest.raises(IndexError):
            dataset[[0, 42]]


def test_closed_dataset_raises():
    dataset = tokfmt.open(PACK)
    dataset.close()
    for read in (lambda: dataset[0], lambda: dataset[:2], lambda: list(dataset), lambda: dataset.tokens(0, 1)):
        with pytest.raises(ValueError, match="this dataset is closed"):
            read()
    dataset.close()
    assert len(dataset) == 42


def test_one_word_is_accepted_for_a_list(tmp_path):
    """One word stands for a list of one; numbers select as in Python."""
    text = tmp_path / "t.jsonl"
    text.write_text('{"text": "a", "id": 1}\n{"text": ""}\n{"text": "b"}\n')
    done = tokfmt.convert(
        text, tmp_path / "o.h5", tokenizer=str(TOKENIZER), allow_loss="empty-sequences", to_options="seq_len=128"
    )
    assert done.sequences == 2
    for number, (select, count) in enumerate(
        [
            (slice(0, 3), 3),
            (slice(-3, None), 3),
            (slice(None), 42),
            (range(3, 30), 27),
            (5, 1),
            (np.int64(-1), 1),
            ("4:6", 2),
        ]
    ):
        assert tokfmt.convert(PACK, tmp_path / f"{number}.pbin", select=select).sequences == count
    (note,) = tokfmt.convert(PACK, tmp_path / "none.pbin", select="50:").notes
    assert note == "the dataset is empty: --select 50: takes none of the sequences of the sources"
    for wrong in ("", slice(0, 9, 2), range(9, 0, -1), True, 1.5):
        with pytest.raises(OptionError, match="select"):
            tokfmt.convert(PACK, tmp_path / "x.pbin", select=wrong)


def test_the_verbs_return_data(tmp_path):
    assert tokfmt.stats(PACK).datasets[0].sequences == 42
    (verdict,) = tokfmt.check(FIXTURES / "modalities" / "E_D_2byte_gpt2.pbin")
    assert verdict.counts == {"TF107": 1}
    tokfmt.convert(PACK, tmp_path / "o.zarr", select=slice(0, 40))
    report = tokfmt.diff(PACK, tmp_path / "o.zarr")
    assert (report.identical, report.counts) == (False, {"only_in_a": 2})
    assert [one.index for one in tokfmt.show(PACK, "3:5").shown] == [3, 4]
    with pytest.raises(OptionError, match="the other dataset holds token IDs. Add --tokenizer"):
        tokfmt.diff(PACK, CORPUS)
    with pytest.raises(DestinationExistsError, match="--overwrite replaces it"):
        tokfmt.convert(PACK, tmp_path / "o.zarr")


def test_the_verbs_are_described():
    for name in set(tokfmt.__all__) - {"__version__", "formats"}:
        assert len(getattr(tokfmt, name).__doc__) > 40
    for verb in (tokfmt.stats, tokfmt.check, tokfmt.diff, tokfmt.convert, tokfmt.open, tokfmt.show):
        for parameter in inspect.signature(verb).parameters:
            assert re.search(rf"\b{parameter}\b", verb.__doc__), f"{verb.__name__}({parameter}=) is not described"


def test_open_with_and_without_a_separator():
    assert len(tokfmt.open(PACK, eos="none")[0]) == len(tokfmt.open(PACK)[0]) + 1
    with pytest.raises(SeparatorUnknownError, match="--eos ID, or give --tokenizer"):
        tokfmt.open(FIXTURES / "hdf5" / "packed_overlap")
    samples = tokfmt.open(FIXTURES / "stage1" / "in.bin", options={"view": "samples"})
    assert {len(s) for s in samples} == {8192}


def test_open_text():
    with pytest.raises(OptionError, match="add tokenizer="):
        tokfmt.open(CORPUS)
    dataset = tokfmt.open(CORPUS, tokenizer=str(TOKENIZER))
    assert len(dataset) == len(CORPUS.read_bytes().splitlines())


def test_convert_returns_a_report(tmp_path):
    done = tokfmt.convert(PACK, tmp_path / "o.zarr", to_options={"chunk": 64}, verify=True, jobs=2)
    assert (done.sequences, done.tokens, done.format) == (42, sum(map(len, documents())), "flat-tokens")
    assert tokfmt.open(tmp_path / "o.zarr")[:].tolist() == documents()


def test_formats():
    assert [f.name for f in tokfmt.list_formats()][:5] == ["jsonl", "modalities", "stage1", "hdf5", "flat-tokens"]
    assert repr(tokfmt.list_formats()[1]) == "<tokfmt format modalities: Modalities packs: documents and their index>"


def test_public_names_are_those_listed():
    assert set(dir(tokfmt)) == set(tokfmt.__all__)
    for name in tokfmt.__all__:
        assert getattr(tokfmt, name) is not None
    with pytest.raises(AttributeError):
        tokfmt.opne  # noqa: B018


def test_importing_the_package_imports_nothing_heavy():
    script = (
        "import sys, tokfmt; print([m for m in ('numpy', 'zarr', 'h5py', 'transformers', 'click') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize("dry_run", [True, False])
def test_report_has_the_length_of_samples(tmp_path, dry_run):
    (tmp_path / "ids.jsonl").write_text('{"input_ids": [1, 2, 3]}\n')
    lengths = {
        tokfmt.convert(
            tmp_path / "ids.jsonl", tmp_path / f"o{k}", to_format=name, to_options=options, eos=9, dry_run=dry_run
        ).sample_length
        for k, (name, options) in enumerate((("hdf5", {"seq_len": 64}), ("stage1", {"seq_len": 32})))
    }
    assert lengths == {64, 32}
    plain = tokfmt.convert(tmp_path / "ids.jsonl", tmp_path / "o.pbin", eos=9, dry_run=dry_run)
    assert plain.sample_length is None


@pytest.mark.parametrize("verb", [tokfmt.stats, tokfmt.check, lambda path: tokfmt.diff(path, path)])
def test_dataset_instead_of_a_path_is_a_type_error(verb):
    """A dataset in memory has no files; the error names that, and not a function inside."""
    with tokfmt.open(FIXTURES / "modalities" / "D_2byte_gpt2.pbin") as dataset:
        for wrong, name in ((dataset, "Dataset"), ([dataset], "Dataset"), (3, "int")):
            with pytest.raises(TypeError, match=rf"a path or a list of paths is needed, not {name}"):
                verb(wrong)


def test_a_source_of_a_recipe_takes_a_slice():
    chosen = [tokfmt.recipe([{"path": PACK, "select": some}], seq_len=64) for some in ("2:9", slice(2, 9), range(2, 9))]
    assert len({len(one) for one in chosen}) == 1
    assert all(np.array_equal(one[0]["input_ids"], chosen[0][0]["input_ids"]) for one in chosen)


@pytest.mark.parametrize("wrong", [1.5, "3", True, -1])
@pytest.mark.parametrize("name", ["sample", "seq_len", "vocab_size", "jobs"])
def test_invalid_number_is_refused_with_its_keyword(name, wrong):
    with pytest.raises(OptionError, match=f"^{name}: expected a whole number of at least 1, found {wrong!r}$"):
        tokfmt.stats(PACK, **{name: wrong})


def test_a_limit_may_be_0_and_numbers_may_be_numpys():
    assert not tokfmt.diff(PACK, PACK, limit=0).first
    for three in (3, np.int64(3), 3.0):
        sampled = tokfmt.stats(PACK, sample=three, seed=three).datasets[0].sampled
        assert (sampled.sequences, sampled.seed, type(sampled.seed)) == (3, 3, int)
    with pytest.raises(OptionError, match="^limit: expected a whole number of at least 0, found -1$"):
        tokfmt.diff(PACK, PACK, limit=-1)


def test_sequences_are_shown_by_number_and_by_slice():
    for selection, numbers in (
        (5, [5]),
        (np.int64(-1), [41]),
        (slice(2, 4), [2, 3]),
        (range(3), [0, 1, 2]),
        ([1, 5], [1, 5]),
    ):
        assert [one.index for one in tokfmt.show(PACK, selection).shown] == numbers
    for wrong in (1.5, [1.5]):
        with pytest.raises(OptionError, match="expected"):
            tokfmt.show(PACK, wrong)


@pytest.mark.parametrize("verb", [tokfmt.open, tokfmt.stats, tokfmt.check, lambda paths: tokfmt.diff(PACK, paths)])
def test_no_path(verb):
    """A pattern that matches nothing, say."""
    with pytest.raises(OptionError, match="no path is given"):
        verb([])


@pytest.mark.parametrize("words", [{"eos": 1 << 63}, {"seq_len": 1 << 63}])
def test_numbers_that_are_too_large(words):
    with pytest.raises(OptionError, match=f"^{next(iter(words))}: .*found {1 << 63:,}$"):
        tokfmt.stats(PACK, **words)


def test_a_path_with_a_zero_byte():
    with pytest.raises(tokfmt.TokfmtError, match="is not a valid file name"):
        tokfmt.open("a\0b")


@pytest.mark.parametrize("size", [-1, 0, 1.5, "a"])
def test_batches_hold_at_least_one_token(size):
    with pytest.raises(OptionError, match="^size: expected a whole number of at least 1"):
        tokfmt.open(PACK).batches(size)


def test_shares_are_text(tmp_path):
    with pytest.raises(OptionError, match="--split: expected text"):
        tokfmt.convert(PACK, tmp_path / "o.pbin", split={"train": 0.5, "test": 0.5})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [Path, str], ids=["path", "text"])
def test_a_dataset_is_named_by_a_plain_path_or_a_text(kind, tmp_path):
    """Fixtures and `tmp_path` are places of tokfmt in these tests, and users have none."""
    source, copy = kind(str(FIXTURES / "modalities" / "D_2byte_gpt2.pbin")), kind(str(tmp_path / "copy.zarr"))
    tokfmt.convert(source, copy, eos=50256)
    with tokfmt.open(source, eos=50256) as one, tokfmt.open(copy) as other:
        assert [ids.tolist() for ids in one] == [ids.tolist() for ids in other]
    assert tokfmt.info(copy).sequences == 42
    assert len(tokfmt.stats([source, copy], eos=50256).datasets) == 2
    assert tokfmt.diff(source, copy, eos=50256).identical
    assert tokfmt.check([source, copy])[0].findings == []
    assert len(list(tokfmt.show(source, "0:2").shown)) == 2
