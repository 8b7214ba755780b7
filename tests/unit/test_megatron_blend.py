"""Blend lists of Megatron-LM: what their words mean, as upstream reads them, and thousands of prefixes as one dataset."""

import json
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import registered
from amount import FUZZ_ONLY
from paths import FIXTURES

import tokfmt
from tokfmt.core.ragged import Ragged
from tokfmt.errors import FormatError, TokfmtError, UnknownFormatError
from tokfmt.formats.megatron import FORMAT, read_blend
from tokfmt.testing import write

HOME = FIXTURES / "megatron" / "blend"
CASE = next(
    case
    for case in json.loads((FIXTURES / "megatron" / "expected.json").read_text())["cases"]
    if case["name"] == "blend_100"
)


def test_a_list_is_the_documents_of_its_prefixes_in_order():
    with tokfmt.open(HOME / "data_args.txt", eos="none") as dataset:
        assert dataset.format == "megatron"
        assert [len(document) for document in dataset] == CASE["doc_lengths"]
        assert any("weights are not applied" in note for note in dataset.info.notes)
    assert [(one.prefix, one.weight) for one in read_blend(HOME / "data_args.txt")] == [
        (member["prefix"], member["weight"]) for member in CASE["members"]
    ]
    named = [file.name for file in FORMAT.files(HOME / "data_args.txt")]
    ends = [f"{member['prefix']}.{end}" for member in CASE["members"] for end in ("bin", "idx")]
    assert named == ["data_args.txt", *ends]


@pytest.mark.parametrize(("name", "count"), [("unweighted_even.txt", 8), ("unweighted_odd.txt", 7)])
def test_lists_without_weights(name, count):
    members = CASE["members"][:count]
    with tokfmt.open(HOME / name, eos="none") as dataset:
        assert [len(document) for document in dataset] == [n for member in members for n in member["doc_lengths"]]
        assert dataset.info.notes == tuple(n for n in dataset.info.notes if "weights" not in n)


@pytest.mark.parametrize(("split", "count"), [("train", 80), ("valid", 7)])
def test_splits(split, count):
    listed = json.loads((HOME / "per_split.json").read_text())[split]
    words = listed.split() if isinstance(listed, str) else listed
    prefixes = [word for word in words if "_text_document" in word]
    assert [one.prefix for one in read_blend(HOME / "per_split.json", split)] == prefixes
    assert len(prefixes) == count
    with tokfmt.open(HOME / "per_split.json", format="megatron", eos="none", options={"split": split}) as dataset:
        documents = {member["prefix"]: member["n_docs"] for member in CASE["members"]}
        assert len(dataset) == sum(documents[prefix] for prefix in prefixes)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("1 a b c", "do not alternate"),  # upstream: four prefixes
        ("1 2 3 4", "do not alternate"),  # upstream: weights 1 and 3 of the prefixes 2 and 4
        ("a 1 b 2", "do not alternate"),
        ("nan a 2 b", "a weight: expected a finite number, 0 or more, found nan"),
        ("1 a -1 b", "found -1"),
        ("1 a inf b", "found inf"),
        ('{"train": ["a"]}', "is not a list of splits: expected train, valid, test"),
        ('{"train": {"a": 1}, "valid": null, "test": null}', "the words of train"),
        ("a", "lists the prefix a, which has no index: expected a.idx, in the directory of the list or"),
        ("0.5 web/a 0.5 b", "lists the prefix web/a, which has no index"),
        ("a /", "a prefix: expected the name of files without their suffix, found /"),
    ],
)
def test_ambiguous_blend_list_is_refused(tmp_path, words, says):
    path = tmp_path / "list.txt"
    path.write_text(words)
    with pytest.raises(FormatError, match=says):
        tokfmt.open(path, format="megatron")
    findings = list(FORMAT.audit(path, FORMAT.read_options()))
    assert [finding.code for finding in findings] == ["TF601"]
    assert says in findings[0].message


LISTS = {
    "0.5 a_text_document 0.5 b_text_document": "lists the prefix a_text_document, which has no index",
    "here/a_text_sentence": "lists the prefix here/a_text_sentence, which has no index",
    '{"train": ["1", "a_text_document"], "valid": null, "test": null}\n': "lists the prefix a_text_document, which has",
}


@pytest.mark.parametrize("words", LISTS)
@pytest.mark.parametrize("name", ["list", "list.txt", "list.json"])
def test_a_list_of_which_no_prefix_is_there_is_named(tmp_path, words, name):
    path = tmp_path / name
    path.write_text(words)
    with pytest.raises(TokfmtError, match=LISTS[words]):
        tokfmt.open(path)


@pytest.mark.parametrize("idx", [None, b"", b"MMIDIDX"])
@pytest.mark.parametrize("named", ["a_text_document", "a_text_document.bin"])
def test_a_pair_without_its_index_says_so_by_any_name(tmp_path, idx, named):
    """A writer that was killed has written the tokens alone."""
    (tmp_path / "a_text_document.bin").write_bytes(bytes(range(1, 250)) * 2)
    if idx is not None:
        (tmp_path / "a_text_document.idx").write_bytes(idx)
    says = "no such file" if idx is None else f"ends too early at byte {len(idx)}: expected {34 - len(idx)} more bytes"
    with pytest.raises(FormatError, match=rf"a_text_document\.idx: .*{says}\. Without it .*write the dataset again"):
        tokfmt.open(tmp_path / named)
    (finding,) = FORMAT.audit(tmp_path / named, FORMAT.read_options())
    assert finding.code == "TF601"


@pytest.mark.parametrize(
    ("lost", "remedy"), [(".idx", "Without it .bin has no documents: copy it"), (".bin", "copy the .bin beside it")]
)
def test_the_pair_of_a_second_key_in_a_folder_is_no_other_file(tmp_path, lost, remedy):
    """Megatron-LM's --json-keys text label writes a pair for each key."""
    (tmp_path / "a.jsonl").write_text('{"input_ids": [1, 2]}\n')
    (tmp_path / "in").mkdir()
    for key in ("label", "text"):
        path = tmp_path / f"in/a_{key}_document.bin"
        tokfmt.convert(tmp_path / "a.jsonl", path, to_format="megatron", eos=9, manifest=False)
    with tokfmt.open(tmp_path / "in") as dataset:
        assert len(dataset) == 2
    (tmp_path / f"in/a_label_document{lost}").unlink()
    (tmp_path / "in/weights.bin").write_bytes(b"1234")
    with pytest.raises(FormatError, match=rf"a_label_document{lost}: no such file\. .*{remedy}"):
        tokfmt.open(tmp_path / "in", allow_loss="other-files")
    with tokfmt.open(tmp_path / "in", allow_loss="other-files", allow_partial=True, eos=9) as dataset:
        assert [one.tolist() for one in dataset] == [[1, 2]]


@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_recipe_of_a_prefix_is_no_list(tmp_path, quote):
    """Its first words name one, too: it could be megatron or recipe."""
    (tmp_path / "a.jsonl").write_text('{"input_ids": [1, 2]}\n')
    tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "web_text.bin", to_format="megatron", eos=9)
    (tmp_path / "mix.toml").write_text(f"tokfmt = 1\n[[source]]\npath = {quote}web_text{quote}\n")
    with tokfmt.open(tmp_path / "mix.toml") as dataset:
        assert (dataset.format, dataset[0].tolist()) == ("recipe", [1, 2])


def test_a_list_is_never_overwritten_as_if_it_were_a_prefix(tmp_path):
    path = tmp_path / "corpus"
    path.write_text("mine")
    with pytest.raises(TokfmtError, match=r"Name PREFIX\.bin"):
        tokfmt.convert(HOME / "data_args.txt", path, to_format="megatron", eos=7, overwrite=True)
    assert path.read_text() == "mine"
    assert [entry.name for entry in tmp_path.iterdir()] == ["corpus"]


@FUZZ_ONLY
@pytest.mark.slow
def test_thousands_of_prefixes(tmp_path):
    """Merging them holds offsets of 8 bytes a document and little for each prefix; the bytes are those of the parts."""
    count, length = 1000, 300
    rng = np.random.default_rng(3)
    one = Ragged(rng.integers(0, 5000, 64 * length).astype(np.uint16), np.arange(65) * length)
    made = write(FORMAT, tmp_path / "a_document.bin", one, eos_id="none")
    for number in range(count):
        for end in (".bin", ".idx"):
            (tmp_path / f"p{number}{end}").hardlink_to(made.with_suffix(end))
    (tmp_path / "list").write_text(" ".join(f"p{number}" for number in range(count)))
    tracemalloc.start()
    tokfmt.convert(tmp_path / "list", tmp_path / "all_document.bin", eos="none", to_eos="none",
                   executor="serial")  # fmt: skip
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    documents = 64 * count
    assert (tmp_path / "all_document.bin").stat().st_size == count * made.stat().st_size
    assert peak < 4 * 8 * documents + count * 6000 + (16 << 20), f"{peak:,}"
    with tokfmt.open(tmp_path / "all_document", eos="none") as dataset:
        assert len(dataset) == documents
        assert dataset[documents - 1].tolist() == one[63].tolist()


@pytest.mark.parametrize("name", ["a.idx", "z.idx"])
def test_an_index_of_text_beside_a_pair_is_somebody_elses(name, tmp_path):
    ids = [[1, 2, 3], [4]]
    write(FORMAT, tmp_path / "x_text_document.bin", Ragged.of(ids), eos_id=0)
    (tmp_path / name).write_bytes(pickle.dumps([(0, 3), (4, 2)]))
    with tokfmt.open(tmp_path, eos=0) as dataset:
        assert [one.tolist() for one in dataset] == ids


@pytest.mark.parametrize("words", ["this_document is a text", "1 apple 2 pears", "see a_document and b_document"])
def test_prose_about_documents_is_no_list(tmp_path, words):
    (tmp_path / "x.txt").write_text(words)
    assert registered.detect(tmp_path / "x.txt").name == "text"


@pytest.mark.parametrize("indent", [None, 1])
def test_a_file_of_sequences_is_named(tmp_path, indent):
    path = tmp_path / "sequences.json"
    path.write_text(json.dumps(json.loads((HOME / "sequences.json").read_text()), indent=indent))
    with pytest.raises(UnknownFormatError, match=r"is a list of the numbers of sequences .*Name the blend list"):
        tokfmt.open(path)
    path.write_text('{"input_ids": [2, 3]}')
    assert registered.detect(path).name == "jsonl"


def test_prose_with_a_slash_is_no_list(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("A . file and / or a ./ folder")
    assert registered.detect(Path("notes.txt")).name == "text"
