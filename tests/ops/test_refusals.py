"""What is refused, when, and that the words a refusal asks for work as given."""

import json

import pytest
from paths import TOKENIZER

import tokfmt
from tokfmt.errors import CorruptError, LossyConversionError, SeparatorUnknownError, TokenRangeError

TEXTS = [{"text": f"document number {i}", "id": i} for i in range(40)]


@pytest.fixture
def bare(tmp_path):
    """A tokenizer.json alone: nothing says which token ends a text, but only one may."""
    (tmp_path / "bare").mkdir()
    content = json.loads((TOKENIZER / "tokenizer.json").read_text())
    (tmp_path / "bare" / "tokenizer.json").write_text(json.dumps(content))
    return str(tmp_path / "bare" / "tokenizer.json")


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text("".join(json.dumps(text) + "\n" for text in TEXTS))
    return path


@pytest.fixture
def damaged(tmp_path):
    lines = [json.dumps(text) for text in TEXTS]
    lines[3], lines[7], lines[9] = '{"text": 5}', "nope", '{"text": ""}'
    path = tmp_path / "damaged.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_ways_out_of_a_missing_separator_work(corpus, bare, tmp_path):
    assert tokfmt.convert(corpus, tmp_path / "a.pbin", tokenizer=bare, eos=4095).sequences == 40
    assert tokfmt.convert(corpus, tmp_path / "b.pbin", tokenizer=bare, to_eos="none").sequences == 40


@pytest.mark.parametrize(("jobs", "executor"), [(1, "serial"), (4, "threads")])
def test_losses_found_while_reading_are_reported_together(damaged, tmp_path, jobs, executor):
    how = {"to_format": "stage1", "tokenizer": str(TOKENIZER), "eos": 1, "jobs": jobs, "executor": executor}
    with pytest.raises(CorruptError, match="line 4 has a field") as caught:
        tokfmt.convert(damaged, tmp_path / "o", **how)
    notes = " ".join(caught.value.__notes__)
    assert "2 invalid lines (damaged.jsonl: line 4 has a field" in notes
    assert "line 8 is not valid JSON" in notes
    assert "1 empty sequence (first: sequence 7)" in notes
    assert "empty-sequences" in notes
    done = tokfmt.convert(damaged, tmp_path / "o", allow_loss=["invalid-lines", "empty-sequences"], **how)
    assert done.sequences == 37
    assert done.losses.keys() == {"invalid-lines", "empty-sequences"}
    assert 'fields beside "text" of 37 records ("id" in 37; first: line 1)' in done.notes[-1]


def test_dry_run_refuses_known_losses(tmp_path):
    ids = tmp_path / "ids.jsonl"
    ids.write_text('{"input_ids": [1, 2], "id": 1}\n{"input_ids": [3]}\n')
    for dry_run in (True, False):
        with pytest.raises(LossyConversionError, match="o.pbin: cannot store fields") as caught:
            tokfmt.convert(ids, tmp_path / "o.pbin", eos=0, dry_run=dry_run)
        assert caught.value.losses == ["fields"]
    assert tokfmt.convert(ids, tmp_path / "o.pbin", eos=0, allow_loss="fields").losses.keys() == {"fields"}


@pytest.mark.parametrize(
    ("format_", "option", "largest"),
    [
        ("datatrove", "width=2", 65_535), ("mds", "dtype=uint16", 65_535), ("mds", "dtype=int32", 2**31 - 1),
        ("megatron", "dtype=uint16", 65_535), ("olmo", "width=1", 255), ("litdata", "codes=tensor", 2**31 - 1),
        ("modalities", "width=2", 65_535), ("nanogpt", "width=2", 65_535),
    ],
    ids=lambda word: str(word),
)  # fmt: skip
def test_id_beyond_the_given_width_has_a_wider_option_as_remedy(format_, option, largest, tmp_path):
    source, name = tmp_path / "x.jsonl", option.partition("=")[0]
    demands = {"eos": 0, "to_format": format_, "to_options": [option], "jobs": 1}
    for top, fits in ((largest, True), (largest + 1, False)):
        source.write_text(f'{{"input_ids": [5, {top}]}}\n')
        if fits:
            assert tokfmt.convert(source, tmp_path / "fits", **demands).max_id == largest
        else:
            with pytest.raises(TokenRangeError, match=rf"outside 0\.\.{largest:,}\..*--to-opt {name}=.* has room"):
                tokfmt.convert(source, tmp_path / "beyond", **demands)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_missing_separator_is_refused_before_a_text_is_read(damaged, bare, tmp_path, dry_run):
    """The texts are damaged, which would be said by what reads them."""
    with pytest.raises(SeparatorUnknownError) as caught:
        tokfmt.convert(damaged, tmp_path / "o.pbin", tokenizer=bare, dry_run=dry_run)
    for words in ("states no EOS", "= 4095: --to-eos 4095", "--to-eos none"):
        assert words in str(caught.value)
    assert "give tokenizer" not in str(caught.value)
    assert not list(tmp_path.glob(".o.pbin*"))
