"""Documents of several sequences (`--split-sentences`): counted, and lost only if that is accepted."""

import json
import struct

import numpy as np
import pytest
from click.testing import CliRunner

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import LossyConversionError, TokfmtError

EOS, LOSS = 999, "inner-boundaries"


@pytest.fixture
def sentences(tmp_path):
    """A dataset of 12 documents of 1 to 4 sentences; EOS ends a document."""
    random, held, marks = np.random.default_rng(5), list[np.ndarray](), [0]
    for document in range(12):
        own = [random.integers(1, 900, random.integers(2, 9)) for _ in range(1 + document % 4)]
        held += own[:-1] + [np.append(one, EOS) for one in own[-1:]]
        marks.append(len(held))
    lengths = np.array([len(one) for one in held], "<i4")
    columns = lengths, (2 * (np.cumsum(lengths) - lengths)).astype("<i8"), np.array(marks, "<i8")
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, len(held), len(marks))
    path = tmp_path / "x_text_sentence.bin"
    np.concatenate(held).astype("<u2").tofile(path)
    path.with_suffix(".idx").write_bytes(head + b"".join(one.tobytes() for one in columns))
    first = next(k for k in range(12) if marks[k + 1] - marks[k] > 1)
    return path, len(held), 34 + 12 * len(held) + 8 * first


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_info_counts_sequences_and_documents(sentences):
    path, count, _ = sentences
    facts = json.loads(run("info", path, "--json").stdout)
    assert (facts["sequences"], facts["extras"]["index_sequences"]) == (12, count)
    assert f"index sequences {count}" in run("info", path).stdout
    facts = json.loads(run("info", path, "--json", "--from-opt", "unit=sequences").stdout)
    assert (facts["sequences"], "index_sequences" in facts["extras"]) == (count, False)


@pytest.mark.parametrize("target", ["y_text_sentence.bin", "y.pbin", "y.jsonl", "y.parquet", "y.ds"])
def test_a_conversion_refuses_to_lose_where_sentences_begin(sentences, target, tmp_path):
    path, count, at = sentences
    how = {"eos": "none", "to_eos": "none"}
    with pytest.raises(LossyConversionError, match=LOSS):
        tokfmt.convert(path, tmp_path / target, **how)
    assert not (tmp_path / target).exists()
    done = tokfmt.convert(path, tmp_path / target, allow_loss=LOSS, verify=True, **how)
    told = done.losses[LOSS]
    assert all(word in told for word in (f"{count} sequences", "12 documents", "x_text_sentence.idx", f"byte {at}"))
    assert json.loads((tmp_path / f"{target}.tokfmt.json").read_text())["losses"][LOSS] == told
    tokfmt.convert(path, tmp_path / f"of-sequences-{target}", options={"unit": "sequences"}, **how)


def test_the_name_of_sentences_is_one_of_megatron(sentences, tmp_path):
    done = tokfmt.convert(sentences[0], tmp_path / "y_text_sentence.bin", allow_loss=LOSS)
    assert done.format == "megatron"
    assert sorted(one.name for one in tmp_path.glob("y*.???")) == ["y_text_sentence.bin", "y_text_sentence.idx"]


def test_diff_says_what_it_does_not_compare(sentences, tmp_path):
    path, count, _ = sentences
    tokfmt.convert(path, tmp_path / "y_text_sentence.bin", allow_loss=LOSS)
    report = tokfmt.diff(path, tmp_path / "y_text_sentence.bin")
    assert any("not compared" in note and f"{count} sequences" in note for note in report.a.notes)
    assert not any("not compared" in note for note in report.b.notes)
    report = tokfmt.diff(path, tmp_path / "y_text_sentence.bin", options={"unit": "sequences"})
    assert not report.identical


def test_a_recipe_refuses_too(sentences, tmp_path):
    (tmp_path / "mix.toml").write_text('tokfmt = 1\n[[source]]\npath = "x_text_sentence.bin"\n')
    with pytest.raises(TokfmtError, match=LOSS):
        tokfmt.convert(tmp_path / "mix.toml", tmp_path / "y.pbin")
    assert tokfmt.convert(tmp_path / "mix.toml", tmp_path / "y.pbin", allow_loss=LOSS).sequences == 12


def test_documents_of_one_sequence_lose_nothing(sentences, tmp_path):
    tokfmt.convert(sentences[0], tmp_path / "y_text_document.bin", allow_loss=LOSS)
    assert tokfmt.convert(tmp_path / "y_text_document.bin", tmp_path / "z.pbin").losses == {}
    assert "index_sequences" not in tokfmt.info(tmp_path / "y_text_document.bin").extras
