"""Several datasets at a glance: a line of facts for each, and those that differ from the others."""

import json
from collections import Counter

import commands
import numpy as np
import pytest
from paths import FIXTURES
from schemas import validate

import tokfmt
from tokfmt.errors import UnknownFormatError

BOS, EOS = 9000, 9001


def corpus(seed, *, bos=True, documents=60):
    random = np.random.default_rng(seed)
    return [[BOS] * bos + random.integers(1, 8000, random.integers(1, 40)).tolist() for _ in range(documents)]


def write(path, documents, **how):
    source = path.with_name(f"{path.name}.source.jsonl")
    source.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in documents))
    tokfmt.convert(source, path, to_eos=EOS, overwrite=True, **how)
    source.unlink()


@pytest.fixture(scope="module")
def forty(tmp_path_factory):
    """Forty datasets: one without BOS, one wider than the others, and each below a directory."""
    home = tmp_path_factory.mktemp("forty")
    for k in range(40):
        (home / f"part-{k % 4}").mkdir(exist_ok=True)
        name = home / f"part-{k % 4}" / f"d{k}.pbin"
        write(name, corpus(k, bos=k != 17), to_options={"width": 4} if k == 23 else ())
    (home / "notes.csv").write_text("a,b\n")
    return home


def test_the_one_without_bos_stands_out(forty):
    found = tokfmt.fleet(forty, recursive=True)
    assert (len(found.datasets), found.other_files, found.errors) == (40, 1, ())
    differ = {one.fact: (one.usual, one.datasets, [other.path for other in one.others]) for one in found.differences}
    assert differ["first"] == (BOS, 39, [str(forty / "part-1" / "d17.pbin")])
    assert [path.rpartition("/")[2] for path in differ["dtype"][2]] == ["d23.pbin"]
    assert set(differ) == {"first", "dtype"}


@pytest.mark.parametrize("how", [{}, {"sample": 1000}, {"deep": True}], ids=["ends", "sample", "deep"])
def test_facts_are_those_of_the_sequences(forty, how):
    for one in tokfmt.fleet(forty / "part-1", recursive=True, **how).datasets:
        documents = corpus(int(one.path.rpartition("/d")[2].removesuffix(".pbin")), bos="d17" not in one.path)
        looked = documents if how else documents[:16] + documents[-16:]
        for end, ids in ((one.first, [ids[0] for ids in looked]), (one.last, [ids[-1] for ids in looked])):
            most = Counter(ids).most_common(1)[0][1]
            assert (end.share, end.looked) == (most / len(ids), len(ids))
            assert Counter(ids)[end.id] == most
        assert (one.sequences, one.tokens, one.eos_id) == (60, sum(map(len, documents)), EOS)
        assert one.written.endswith("Z")


def test_a_lead_is_the_first_id_of_its_sequences(tmp_path):
    """`--to-bos` writes what is no content; it begins the sequences all the same."""
    for name, lead in {"a": BOS, "b": BOS, "c": None}.items():
        write(tmp_path / f"{name}.pbin", corpus(3, bos=False), to_bos=lead)
    for how in ({}, {"deep": True}):
        found = tokfmt.fleet(tmp_path, recursive=True, **how)
        assert [one.first.id == BOS for one in found.datasets] == [True, True, False]
        assert {one.tokens for one in found.datasets} == {sum(map(len, corpus(3, bos=False)))}
        assert [(one.fact, [other.path[-6:] for other in one.others]) for one in found.differences] == [
            ("first", ["c.pbin"])
        ]


def test_a_lead_that_is_the_separator_too_is_a_first_id(tmp_path):
    """As of GPT-2: 50256 begins and ends documents."""
    for name, lead in {"a": EOS, "b": EOS, "c": None}.items():
        write(tmp_path / f"{name}.pbin", corpus(3, bos=False), to_bos=lead)
    found = tokfmt.fleet(tmp_path, recursive=True)
    assert [one.first.id == EOS for one in found.datasets] == [True, True, False]
    assert [(one.fact, [other.path[-6:] for other in one.others]) for one in found.differences] == [
        ("first", ["c.pbin"])
    ]


def test_pairs_of_files_in_a_folder_are_datasets_of_their_own(tmp_path):
    """One sequence of a pair that lacks the BOS is seen, and a damaged pair does not hide the others."""
    for number in range(4):
        documents = corpus(number)
        if number == 2:
            documents[3] = documents[3][1:]
        write(tmp_path / f"part{number}_text_document.bin", documents, to_format="megatron")
    found = tokfmt.fleet(tmp_path, recursive=True)
    assert [one.path[-23:] for one in found.datasets] == [
        f"part{number}_text_document.bin"[-23:] for number in range(4)
    ]
    assert [(one.fact, [other.path[-23:] for other in one.others]) for one in found.differences] == [
        ("first", ["part2_text_document.bin"[-23:]])
    ]
    pair = tmp_path / "part1_text_document.bin"
    pair.write_bytes(pair.read_bytes()[:-2])
    assert len(tokfmt.fleet(tmp_path, recursive=True).datasets) == 3
    both = tokfmt.fleet([tmp_path / f"part0_text_document{suffix}" for suffix in (".bin", ".idx", ".bin.tokfmt.json")])
    assert len(both.datasets) == 1
    assert not both.errors


def test_totals_are_sums_of_what_is_stored(forty, tmp_path):
    (tmp_path / "mix.toml").write_text(f'tokfmt = 1\n[[source]]\nname = "a"\npath = "{forty}/part-0/d0.pbin"\n')
    found = tokfmt.fleet([forty / "part-0" / "d0.pbin", forty / "part-1" / "d1.pbin", tmp_path / "mix.toml"])
    total = found.total
    assert (total.datasets, total.sequences, total.uncounted) == (2, 120, 0)
    assert total.tokens == sum(map(len, corpus(0) + corpus(1)))
    assert [one.format for one in found.datasets] == ["modalities", "modalities", "recipe"]


def test_a_stream_has_the_ids_beside_its_separators(tmp_path):
    documents = [[BOS, 5, 7], [BOS, 6, 7], [BOS, 7]]
    np.array([one for ids in documents for one in (*ids, EOS)], "<u2").tofile(tmp_path / "train.bin")
    (found,) = tokfmt.fleet(tmp_path / "train.bin", eos=EOS).datasets
    assert (found.first.id, found.first.share, found.last.id, found.last.share) == (BOS, 1, 7, 1)


def test_records_of_ids_have_them_too(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"input_ids": [3, 4]}\n{"input_ids": []}\n{"input_ids": [3, 5, 4]}\n')
    (found,) = tokfmt.fleet(tmp_path / "a.jsonl").datasets
    assert ((found.first.id, found.first.share), (found.last.id, found.last.share)) == ((3, 1), (4, 1))


def test_what_cannot_be_read_is_named_and_the_rest_is_printed(forty, tmp_path):
    bad = FIXTURES / "bad" / "array" / "size_BAD.bin"
    done = commands.run("info", forty / "part-0" / "d0.pbin", bad, "--json")
    assert done.returncode == 3
    document = json.loads(done.stdout)
    validate(document)
    assert [one["path"] for one in document["errors"]] == [str(bad)]
    assert [one["format"] for one in document["datasets"]] == ["modalities"]


def test_the_command_marks_what_differs(forty):
    done = commands.run("info", forty, "--recursive")
    (row,) = [line for line in done.stdout.splitlines() if line.endswith("part-1/d17.pbin")]
    assert "*" in row
    assert sum("*" in line for line in done.stdout.splitlines()) == 4  # two rows, and a line for each fact


def test_expectations_on_the_ends_and_the_vocabulary(forty):
    good, bad = forty / "part-0" / "d0.pbin", forty / "part-1" / "d17.pbin"
    wanted = [f"first_id={BOS}", "vocabulary_used >= 0.05"]
    report = tokfmt.stats([good, bad], expect=wanted, vocab_size=9002)
    assert [(one.path, one.expected.key) for one in report.unmet] == [(str(bad), "first_id")]
    assert [one.first_id for one in report.datasets] == [BOS, None]
    assert tokfmt.stats(good, expect="vocabulary_used >= 0.99", vocab_size=9002).unmet


def test_files_that_look_like_data_are_named(tmp_path):
    """A raw stream is no dataset until its format is named; files of other kinds are only counted."""
    (tmp_path / "docs.jsonl").write_text('{"text": "a"}\n')
    np.arange(5, 500, dtype="<u2").tofile(tmp_path / "raw.bin")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n3,4\n")
    found = tokfmt.fleet(tmp_path, recursive=True)
    assert found.other_files == 2
    (raw,) = found.unidentified
    assert raw.path == str(tmp_path / "raw.bin")
    assert "--from array" in raw.message
    assert str(tmp_path / "raw.bin") in commands.run("info", tmp_path, "--recursive", check=0).stdout
    (tmp_path / "docs.jsonl").unlink()
    with pytest.raises(UnknownFormatError, match=r"raw\.bin.*--from array"):  # rather than that there is none
        tokfmt.fleet(tmp_path, recursive=True)
