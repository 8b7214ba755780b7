"""What a conversion does with the separator of each sequence is counted. Separators are counted here by hand."""

import itertools
import json
import struct
from typing import Any

import by_hand
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from amount import pairs
from click.testing import CliRunner
from finishing import finish

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import LossyConversionError

EOS = 7
NAMES = ("kept", "replaced", "added", "dropped", "bare")
DESTINATIONS = {
    "megatron": "out_document.bin",
    "modalities": "out.pbin",
    "olmo": "part-00000.npy",
    "nanogpt": "train.bin",
    "flat-tokens": "out.zarr",
    "jsonl": "out.jsonl",
}


STORING = ("megatron", "modalities", "olmo", "nanogpt")
BY_INDEX = ("megatron", "modalities")
"""Formats whose index marks an empty sequence that has no separator."""


def megatron(home, documents):
    return by_hand.megatron(home / "in_document.bin", documents)


def rows(home, documents):
    path = home / "in.parquet"
    pq.write_table(pa.table({"input_ids": pa.array(documents, pa.list_(pa.uint16()))}), path)
    return path


def nanogpt(home, documents):
    path = home / "val.bin"
    np.concatenate([np.array(one, "<u2") for one in documents]).tofile(path)
    return path


def stored(path, name):
    """The tokens of a file; zarr and JSON Lines, which store no separator, are read as tokfmt does."""
    if name == "modalities":
        data = path.read_bytes()
        size, width = struct.unpack_from("<QI", data)
        return np.frombuffer(data[12 : 12 + size], f"<u{width}")
    if name in ("flat-tokens", "jsonl"):
        with tokfmt.open(path, eos="none") as dataset:
            return np.concatenate([*dataset, []])
    return np.fromfile(path, "<u2")


def convert(source, home, name, *, verify=True, **options):
    destination = home / "to" / DESTINATIONS[name]
    destination.parent.mkdir(exist_ok=True)
    done = tokfmt.convert(source, destination, to_format=name, eos=EOS, verify=verify, **options)
    manifest = json.loads(destination.with_name(f"{destination.name}.tokfmt.json").read_bytes())
    assert manifest["separators"] == done.separators
    assert manifest["eos_stored"] == ("after" if name in STORING else "none" if done.separators["dropped"] else None)
    assert sum(done.separators.values()) == done.sequences
    return tuple(done.separators.values()), stored(destination, name).tolist().count(EOS)


# 9 is content, 7 the separator.

CLOSED = [[9, 7], [9, 9, 7], [7], [9, 7]]
OPEN = [[9], [9, 9], [], [9]]
UNFINISHED = [[9, 7], [7], [9, 9, 7], [9]]
TWICE = [[9, 7], [9, 7, 7], [9, 7]]
MIXED = [[9, 7, 7], [9, 7], [7], [9]]


@pytest.mark.parametrize("name", DESTINATIONS)
@pytest.mark.parametrize(
    ("write", "documents", "with_separators", "without"),
    [
        pytest.param(megatron, CLOSED, (4, 0, 0, 0, 0), (0, 0, 0, 4, 0), id="closed by an index"),
        pytest.param(megatron, UNFINISHED, (3, 0, 1, 0, 0), (0, 0, 0, 3, 1), id="some by an index"),
        pytest.param(nanogpt, CLOSED, (4, 0, 0, 0, 0), (0, 0, 0, 4, 0), id="a stream"),
        pytest.param(nanogpt, UNFINISHED, (3, 0, 1, 0, 0), (0, 0, 0, 3, 1), id="unfinished"),
        pytest.param(rows, OPEN, (0, 0, 4, 0, 0), (0, 0, 0, 0, 4), id="none in the source"),
    ],
)
def test_each_separator_is_counted(write, documents, with_separators, without, name, tmp_path):
    counts, found = convert(write(tmp_path, documents), tmp_path, name)
    is_stored = name in STORING
    bare = documents.count([]) if name in BY_INDEX else 0
    wanted = [
        counted - bare * (which == "added") + bare * (which == "bare") for which, counted in zip(NAMES, with_separators)
    ]
    assert counts == (tuple(wanted) if is_stored else without)
    assert found == sum(counts[:3]) == (len(documents) - bare) * is_stored


def corpus(home, documents):
    """An HDF5 file of one stream."""
    with h5py.File(home / "in.h5", "w") as file:
        file["data"] = np.concatenate(documents).astype("<i4")
    return home / "in.h5"


def begun(home, documents):
    """A file of llm.c, in which the separator is in front: of these documents, that of the one before."""
    head = np.zeros(256, "<i4")
    head[:3] = 20240520, 1, sum(map(len, documents))
    (home / "in_val_000000.bin").write_bytes(head.tobytes() + np.concatenate(documents).astype("<u2").tobytes())
    return home / "in_val_000000.bin"


@pytest.mark.parametrize(
    ("write", "documents", "counts"),
    [
        (corpus, [[9, 7], [9, 9, 7]], (2, 0, 0, 0, 0)),
        (corpus, [[9, 7], [9, 9]], (1, 0, 1, 0, 0)),
        (begun, [[7, 9], [7, 9, 9], [7]], (3, 0, 0, 0, 0)),
        (begun, [[9], [7, 9, 9], [7, 9]], (2, 0, 1, 0, 0)),
    ],
)
def test_what_a_reader_inserts_was_not_in_the_source(write, documents, counts, tmp_path):
    """An unfinished document of HDF5 gets a separator from the reader; the rest of one has none in front."""
    assert convert(write(tmp_path, documents), tmp_path, "megatron")[0] == counts


@pytest.mark.parametrize("name", ["megatron", "modalities", "flat-tokens", "jsonl"])
@pytest.mark.parametrize(("documents", "counts"), [(TWICE, (3, 0, 0)), (MIXED, (3, 0, 1))])
def test_one_separator_is_trimmed_and_a_second_one_is_content(documents, counts, name, tmp_path):
    """Each sequence by its own token: none gets a second separator, and none loses two."""
    found, written = convert(megatron(tmp_path, documents), tmp_path, name)
    is_stored = name in STORING
    assert found == ((*counts, 0, 0) if is_stored else (0, 0, 0, counts[0], counts[2]))
    assert written == is_stored * len(documents) + 1


def test_statistics_count_the_separators_of_the_files(tmp_path):
    found = tokfmt.stats(megatron(tmp_path, MIXED), eos=EOS).datasets[0]
    assert (found.sequences, found.tokens) == (4, 4)
    assert (found.separators.count, found.separators.share) == (4, 4 / 7)


@pytest.mark.parametrize("name", ["olmo", "nanogpt"])
def test_a_separator_that_is_content_does_not_go_where_it_would_divide(name, tmp_path):
    for number, documents in enumerate((TWICE, MIXED)):
        home = tmp_path / str(number)
        home.mkdir()
        with pytest.raises(
            LossyConversionError, match=f"1 separator .*{EOS}.* inside sequences .*sequence {1 - number}"
        ):
            convert(megatron(home, documents), home, name)


@pytest.mark.parametrize("documents", [TWICE, MIXED], ids=["all", "some"])
@pytest.mark.parametrize("through", [("out.zarr", {}), ("other_document.bin", {"to_eos": "none"}), ("out.jsonl", {})])
def test_what_was_trimmed_is_not_trimmed_again(documents, through, tmp_path):
    """A destination without separators states in its manifest that an ID at the end is content."""
    name, options = through
    tokfmt.convert(megatron(tmp_path, documents), tmp_path / name, eos=EOS, verify=True, **options)
    contents = [document[: -1 if document[-1] == EOS else None] for document in documents]
    for number, eos in enumerate((None, EOS)):
        tokfmt.convert(tmp_path / name, tmp_path / "again_document.bin", eos=eos, verify=True, overwrite=number > 0)
        found = [x for one in contents if one for x in (*one, EOS)]  # The empty one has none in between.
        assert stored(tmp_path / "again_document.bin", "").tolist() == found


@pytest.mark.parametrize("count", [30, 300_000], ids=["read at once", "long"])
def test_a_source_and_its_copy_have_the_same_sequences(count, tmp_path):
    documents = np.full((count, 4), 9, "<u2")
    documents[:, 3] = EOS
    documents[count // 2 :: 7, 3] = 8
    source = megatron(tmp_path, documents.tolist())
    done = tokfmt.convert(source, tmp_path / "out.pbin", eos=EOS, verify=True)
    closed = int((documents[:, 3] == EOS).sum())
    assert (done.separators["kept"], done.separators["added"]) == (closed, count - closed)
    assert done.tokens == documents.size - closed
    with tokfmt.open(source, eos=EOS) as before, tokfmt.open(tmp_path / "out.pbin") as after:
        assert f"{closed:,} of {count:,} sequences end with the separator {EOS}" in before.info.notes[0]
        for number in (0, count // 2, count - 1):
            assert before[number].tolist() == after[number].tolist()
    assert tokfmt.diff(source, tmp_path / "out.pbin", eos=EOS).identical
    (shown,) = tokfmt.show(source, 0, eos=EOS).shown  # which looks at few ends
    assert shown.ids == [9, 9, 9] + [EOS] * (count > 30)


def nearly_closed(home, odd=12_444):
    """Of 20,000 documents, one ends otherwise, where the look at 4,096 does not see it."""
    documents = np.full((20_000, 3), 9, "<u2")
    documents[:, 2] = EOS
    documents[odd, 2] = 8
    return megatron(home, documents.tolist())


@pytest.mark.parametrize("name", ["modalities", "flat-tokens", "nanogpt"])
def test_an_exception_that_is_met_late(name, tmp_path):
    counts, found = convert(nearly_closed(tmp_path), tmp_path, name)
    is_stored = name in STORING
    assert counts == ((19_999, 0, 1, 0, 0) if is_stored else (0, 0, 0, 19_999, 1))
    assert found == 20_000 * is_stored
    assert len(list((tmp_path / "to").iterdir())) == 2


def test_a_conversion_that_begins_again_says_so_and_repeats_no_note(tmp_path):
    words = ["convert", nearly_closed(tmp_path), tmp_path / "train.bin", "--eos", EOS, "--jobs", 2]
    notes = [line for line in CliRunner().invoke(cli, list(map(str, words))).stderr.splitlines() if "note: " in line]
    assert sum("sequence 12,444 does not end with" in note for note in notes) == 1
    assert sum("19,999 of 20,000" in note for note in notes) == 1
    assert len(notes) == len(set(notes))


@pytest.mark.parametrize("name", STORING)
def test_rows_of_which_only_some_end_with_the_separator(name, tmp_path):
    """Each is trimmed by its own token, so that none gets a second separator."""
    bare = name in BY_INDEX
    assert convert(rows(tmp_path, [[9, 7], [9], [], [7]]), tmp_path, name) == ((2, 0, 2 - bare, 0, bare), 4 - bare)
    sources = [nanogpt(tmp_path, UNFINISHED), rows(tmp_path, [[9, 7], [9]])]
    assert convert(sources, tmp_path, name, overwrite=True) == ((4, 0, 2, 0, 0), 6)


def lines(home, documents):
    path = home / "in.jsonl"
    path.write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in documents))
    return path


def zarr(home, documents):
    tokfmt.convert(lines(home, documents), home / "in.zarr", eos="none", manifest=False, overwrite=True)
    return home / "in.zarr"


ROWS = [lines, rows, zarr]


@pytest.mark.parametrize(("write", "documents"), pairs(ROWS, [CLOSED, UNFINISHED, TWICE, MIXED, OPEN]))
def test_every_command_reads_rows_without_the_separator_that_eos_names(write, documents, tmp_path):
    """As it reads an index, whose sequences end with it."""
    path, index = write(tmp_path, documents), megatron(tmp_path, documents)
    contents = [one[:-1] if one[-1:] == [EOS] else one for one in documents]
    closed = sum(one[-1:] == [EOS] for one in documents)
    with tokfmt.open(path, eos=EOS) as dataset:
        assert [one.tolist() for one in dataset] == [dataset[k].tolist() for k in range(len(dataset))] == contents
        assert dataset.tokens(0, dataset.info.tokens).tolist() == sum(contents, [])
    assert [one.ids for one in tokfmt.show(path, f"0:{len(documents)}", eos=EOS).shown] == contents
    assert tokfmt.diff(path, index, eos=EOS).identical
    report = tokfmt.stats(path, eos=EOS).datasets[0]
    assert (report.sequences, report.tokens) == (len(contents), sum(map(len, contents)))
    assert tokfmt.check(path, eos=EOS, deep=True)[0].tokens == report.tokens
    for name in ("modalities", "flat-tokens"):
        counts, _ = convert(path, tmp_path, name, overwrite=True)
        assert counts[0] + counts[3] == closed


@pytest.mark.parametrize("write", ROWS)
def test_check_reports_separators_of_rows(write, tmp_path):
    documents = [[9, EOS]] * 20 + [[9]] + [[9, EOS, 9, EOS]]
    found = {
        code: tokfmt.check(write(tmp_path, documents), deep=True, eos=eos)[0].counts
        for code, eos in ((1, EOS), (2, None))
    }
    assert found[1] == found[2] == {"TF944": 1, "TF946": 1}
    doubled = tokfmt.check(write(tmp_path, [[9, EOS, EOS]] * 20), deep=True, eos=EOS)[0]
    assert doubled.counts == {"TF945": 1}


def test_masks_of_lines_are_trimmed_with_their_ids(tmp_path):
    path = tmp_path / "in.jsonl"
    masks = [[1, 0, 1], [0, 1, 0], [1, 1, 1]]
    records = [{"input_ids": [9, 8, EOS], "completion_mask": mask} for mask in masks]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    tokfmt.convert(path, tmp_path / "o.parquet", eos=EOS)
    with tokfmt.open(path, eos=EOS) as dataset:
        assert [one.tolist() for one in dataset] == [[9, 8]] * 3
    assert tokfmt.diff(path, tmp_path / "o.parquet", eos=EOS).identical


@pytest.mark.parametrize("how", [{"select": "1:4"}, {"shuffle": 3, "select": "1:4"}, {"select": "1:4", "jobs": 2}])
def test_counts_are_those_of_the_selected_sequences(how, tmp_path):
    assert convert(nanogpt(tmp_path, UNFINISHED), tmp_path, "olmo", **how) == ((2, 0, 1, 0, 0), 3)


@pytest.mark.parametrize(
    ("select", "name", "counts", "found"),
    [
        ("len>=1", "olmo", (2, 0, 1, 0, 0), 3),
        ("len<=1", "olmo", (2, 0, 1, 0, 0), 3),
        ("len<=1", "megatron", (2, 0, 1, 0, 0), 3),
        ("len<=1", "jsonl", (0, 0, 0, 2, 1), 0),
    ],
)
@pytest.mark.parametrize("how", [{}, {"shuffle": 3}, {"jobs": 2}])
def test_counts_are_those_of_the_sequences_that_a_query_finds(select, name, counts, found, how, tmp_path):
    source = megatron(tmp_path, UNFINISHED)
    assert convert(source, tmp_path, name, select=select, **how) == (counts, found)


def test_counts_of_a_query_over_several_sources_and_of_each_split(tmp_path):
    sources = [megatron(tmp_path, [[9, 7]] * 30 + [[9]]), rows(tmp_path, [[9, 9], [9], [9, 9]])]
    counts, _ = convert(sources, tmp_path, "nanogpt", select="len<2")
    assert counts == (30, 0, 2, 0, 0)
    done = tokfmt.convert(sources, tmp_path / "o.pbin", eos=EOS, select="len<2", split="a=0.5,b=0.5", seed=1)
    assert [*done.separators.values()] == [30, 0, 2, 0, 0]
    parts = [done.splits[name] for name in "ab"]
    assert [sum(part["separators"].values()) for part in parts] == [part["sequences"] for part in parts]


def test_counts_without_documents_that_overlap_are_those_of_an_interval(tmp_path):
    (tmp_path / "eval.jsonl").write_text('{"input_ids": [31, 32, 33, 34]}\n')
    source = megatron(tmp_path, [[9, 7], [30, 31, 32, 33, 34, 7], [9]])
    rules = {"with": [tmp_path / "eval.jsonl"], "ngram": 4, "by": "tokens"}
    assert convert(source, tmp_path, "olmo", without=rules)[0] == (1, 0, 1, 0, 0)


def test_several_sources(tmp_path):
    sources = [nanogpt(tmp_path, UNFINISHED), megatron(tmp_path, CLOSED), rows(tmp_path, OPEN)]
    assert convert(sources, tmp_path, "megatron") == ((7, 0, 4, 0, 1), 11)


def test_what_one_of_several_sources_shows_is_said_of_it_alone(tmp_path):
    """Every sequence of the first ends with it; the second has none."""
    paths = []
    for name, rows_ in (
        ("with", [[k, 3, EOS] for k in range(20, 32)]),
        ("without", [[k, k + 9] for k in range(20, 32)]),
    ):
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"input_ids": {row}}}\n' for row in rows_))
        paths.append(tmp_path / f"{name}_text_document.bin")
        how = {"eos": "none", "to_eos": "none", "manifest": False}
        tokfmt.convert(tmp_path / f"{name}.jsonl", paths[-1], to_format="megatron", **how)
    done = tokfmt.convert(paths, tmp_path / "both_text_document.bin", to_format="megatron")
    assert (done.separators["kept"], done.separators["added"]) == (12, 12)
    assert str(done.separator["from"]).startswith("in with_text_document.bin ")


def test_tasks_publish_the_counts_of_all(tmp_path):
    source, destination = nanogpt(tmp_path, UNFINISHED), tmp_path / "out"
    for k in range(2):
        tokfmt.convert(source, destination, to_format="olmo", eos=EOS, task=(k, 2))
    finish(destination)
    manifest = json.loads((tmp_path / "out.tokfmt.json").read_bytes())
    assert [manifest["separators"][name] for name in NAMES] == [3, 0, 1, 0, 0]


def test_each_split_has_its_counts(tmp_path):
    documents = [[9, 7]] * 40 + [[9]]
    done = tokfmt.convert(nanogpt(tmp_path, documents), tmp_path / "o.pbin", eos=EOS, split="a=0.5,b=0.5", seed=1)
    parts: list[Any] = [done.splits[name] for name in "ab"]
    assert [sum(part["separators"].values()) for part in parts] == [part["sequences"] for part in parts]
    assert [*done.separators.values()] == [40, 0, 1, 0, 0]
    for name, part in zip("ab", parts):
        manifest = json.loads((tmp_path / f"o.{name}.pbin.tokfmt.json").read_bytes())
        assert manifest["separators"] == part["separators"]


def test_sequences_of_a_recipe_had_the_separators_of_its_sources(tmp_path):
    """In any order, and repeated; another ID replaces them."""
    nanogpt(tmp_path, UNFINISHED)
    recipe = tmp_path / "mix.toml"
    source = f'[[source]]\nname = "a"\npath = "val.bin"\neos = {EOS}\nepochs = 2\n'
    recipe.write_text(f'tokfmt = 1\nshuffle = "documents"\nseed = 3\n{source}')
    assert convert(recipe, tmp_path, "megatron") == ((6, 0, 2, 0, 0), 8)
    done = tokfmt.convert(recipe, tmp_path / "o.pbin", to_eos=8)
    assert [*done.separators.values()] == [0, 6, 2, 0, 0]


@pytest.mark.parametrize(
    ("documents", "clause"),
    [(CLOSED, "(--eos)"), (UNFINISHED, "(--eos; 3 kept, 1 added)")],
)
def test_the_line_of_the_result_says_what_is_not_kept(documents, clause, tmp_path):
    words = ["convert", nanogpt(tmp_path, documents), tmp_path / "o.pbin", "--eos", EOS]
    assert f"separator {EOS} {clause}, " in CliRunner().invoke(cli, list(map(str, words))).stderr


# Empty sequences: with a separator in the source, and with nothing at all.

EMPTIES = [[9, 7], [], [7], [9, 9], [7], [], [9, 8]]
WRITTEN = [[9, 7], [], [7], [9, 9, 7], [7], [], [9, 8, 7]]


def documents_of(path):
    """The documents of a Megatron pair, with their separators, by its index. An empty one is an entry repeated."""
    raw, data = path.with_suffix(".idx").read_bytes(), np.fromfile(path, "<u2").tolist()
    sequences, documents = struct.unpack_from("<QQ", raw, 18)
    cuts = [0, *itertools.accumulate(np.frombuffer(raw, "<i4", sequences, 34).tolist())]
    entries = np.frombuffer(raw, "<i8", documents, 34 + 12 * sequences).tolist()
    return [data[cuts[a] : cuts[b]] for a, b in itertools.pairwise(entries)]


@pytest.mark.parametrize(
    "how",
    [{}, {"jobs": 2}, {"shuffle": 3}, {"select": "1:6"}, {"select": "1:6", "shuffle": 1}, {"resume": True}],
    ids=str,
)
def test_an_empty_sequence_gets_no_separator_that_it_did_not_have(how, tmp_path):
    """A destination with an index stores it as it was. The index tells where it is."""
    chosen = slice(*map(int, how["select"].split(":"))) if "select" in how else slice(None)
    counts, _ = convert(megatron(tmp_path, EMPTIES), tmp_path, "megatron", **how)
    found = documents_of(tmp_path / "to" / DESTINATIONS["megatron"])
    wanted = WRITTEN[chosen]
    assert (sorted(found) if "shuffle" in how else found) == (sorted(wanted) if "shuffle" in how else wanted)
    sources = EMPTIES[chosen]
    closed = sum(one[-1:] == [EOS] for one in sources)
    assert counts == (closed, 0, len(sources) - closed - sources.count([]), 0, sources.count([]))


def test_every_split_has_the_empty_sequences_that_were_dealt_to_it(tmp_path):
    source, out = megatron(tmp_path, EMPTIES * 20), tmp_path / "out_document.bin"
    done = tokfmt.convert(source, out, eos=EOS, split="a=0.5,b=0.5", verify=True)
    found = {name: documents_of(tmp_path / f"out_document.{name}.bin") for name in "ab"}
    assert sorted(found["a"] + found["b"]) == sorted(WRITTEN * 20)
    assert found["a"] and found["b"]
    parts: dict[str, Any] = done.splits
    for name, documents in found.items():
        assert parts[name]["separators"]["bare"] == documents.count([])


def test_tasks_write_empty_sequences_as_they_were(tmp_path):
    source, destination = megatron(tmp_path, EMPTIES * 20), tmp_path / "out_document.bin"
    for k in range(2):
        tokfmt.convert(source, destination, eos=EOS, task=(k, 2))
    finish(destination)
    assert documents_of(destination) == WRITTEN * 20


@pytest.mark.parametrize("order", ["", 'shuffle = "documents"\n'], ids=["in order", "shuffled"])
@pytest.mark.parametrize("quota", ["", "tokens = 9\nepochs = 9\n"], ids=["all", "drawn"])
@pytest.mark.parametrize("how", [{}, {"select": "1:7"}, {"shuffle": 2}], ids=str)
def test_a_recipe_writes_the_empty_documents_of_its_sources_as_they_were(order, quota, how, tmp_path):
    megatron(tmp_path, EMPTIES)
    recipe = tmp_path / "mix.toml"
    recipe.write_text(f'tokfmt = 1\n{order}[[source]]\npath = "in_document.bin"\neos = {EOS}\n{quota}')
    out = tmp_path / "out_document.bin"
    done = tokfmt.convert(recipe, out, verify=True, **how)
    found = documents_of(out)
    if not order and not quota and "shuffle" not in how:
        assert found == (WRITTEN[1:7] if how else WRITTEN)
    assert all(one in WRITTEN for one in found)
    assert len(found) == done.sequences > 5
    counts = dict(done.separators)
    assert counts["bare"] == found.count([]) > 0
    assert counts["kept"] == sum(one in ([9, 7], [7]) for one in found) > 0


def test_what_the_manifest_says_of_empty_sequences_is_used(tmp_path):
    """One of 20,000, where no look at 4,096 sequences sees it: counts are right at once, and no command fails."""
    documents = [[9, 7]] * 20_000
    documents[12_444] = []
    out = tmp_path / "to" / DESTINATIONS["megatron"]
    counts, _ = convert(rows(tmp_path, documents), tmp_path, "megatron")
    assert counts == (19_999, 0, 0, 0, 1)
    with tokfmt.open(out) as dataset:
        assert (len(dataset), dataset.info.tokens) == (20_000, 19_999)
        assert [dataset[number].tolist() for number in (12_443, 12_444, 19_999)] == [[9], [], [9]]
    (found,) = tokfmt.stats(out).datasets
    assert (found.sequences, found.tokens, found.lengths.min) == (20_000, 19_999, 0)
    assert not tokfmt.check(out)[0].findings
    assert documents_of(out) == documents
