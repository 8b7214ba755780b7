"""Indexes of Megatron-LM that are not in the order of their tokens, and dtype codes that are not those of the tokens.

Upstream reads each sequence at its pointer, with its length. The oracle does so with numpy.
"""

import json
import struct

import numpy as np
import pytest
from amount import FUZZ_ONLY, examples
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from peak import peak_of

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import FormatError

CODES = {"uint8": 1, "uint16": 8, "int32": 4, "int64": 5}
EOS = 999


def write(prefix, tokens, lengths, pointers, *, code, marks=None):
    """Write PREFIX.bin and PREFIX.idx, and return the latter; `tokens` have the dtype of .bin, whatever `code` says."""
    lengths, pointers = np.asarray(lengths, "<i4"), np.asarray(pointers, "<i8")
    marks = np.arange(len(lengths) + 1) if marks is None else marks
    tokens.tofile(f"{prefix}.bin")
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, CODES[code], len(lengths), len(marks))
    columns = lengths, pointers, np.asarray(marks, "<i8")
    with open(f"{prefix}.idx", "wb") as file:
        file.write(head + b"".join(column.tobytes() for column in columns))
    return f"{prefix}.idx"


def corpus(count=40, dtype="uint16", seed=5):
    """Return the tokens of documents that each end with EOS, the lengths, and the pointers in order."""
    random = np.random.default_rng(seed)
    held = [np.append(random.integers(1, 900, random.integers(3, 50)), EOS) for _ in range(count)]
    lengths = np.array([len(one) for one in held])
    return np.concatenate(held).astype(dtype), lengths, (np.cumsum(lengths) - lengths) * np.dtype(dtype).itemsize


def at_pointers(tokens, lengths, pointers):
    raw = tokens.tobytes()
    return [np.frombuffer(raw, tokens.dtype, length, at).tolist() for length, at in zip(lengths, pointers, strict=True)]


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


def read(path, **options):
    with tokfmt.open(path, eos="none", **options) as dataset:
        return [one.tolist() for one in dataset]


ORDERS = {
    "permutation": lambda n, random: random.permutation(n),
    "reversed": lambda n, random: np.arange(n)[::-1],
    "ascending subset": lambda n, random: np.sort(random.choice(np.arange(1, n), n // 3, replace=False)),
    "subset in any order": lambda n, random: random.choice(n, n // 3, replace=False),
    "repeats": lambda n, random: np.concatenate([random.permutation(n), np.arange(n // 2)]),
    "one again and again": lambda n, random: np.full(n, n // 2),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", ["uint16", "int32"])
def test_sequences_are_read_at_their_pointers(order, dtype, tmp_path):
    """By every command: none says that they are read by length, or that the index belongs to other tokens."""
    tokens, lengths, pointers = corpus(dtype=dtype)
    chosen = ORDERS[order](len(lengths), np.random.default_rng(1))
    wanted = at_pointers(tokens, lengths[chosen], pointers[chosen])
    path = write(tmp_path / "x_document", tokens, lengths[chosen], pointers[chosen], code=dtype)
    assert read(path) == wanted
    with tokfmt.open(path) as dataset:
        assert len(dataset) == len(wanted)
        assert dataset[len(wanted) - 1].tolist() == wanted[-1][:-1]
    for deep in (False, True):
        (verdict,) = tokfmt.check(path, deep=deep)
        assert [(one.code, one.severity) for one in verdict.findings] == [("TF610", "info")]
    result = tokfmt.convert(path, tmp_path / "x.jsonl", verify=True)
    lines = (tmp_path / "x.jsonl").read_text().splitlines()
    assert [json.loads(line)["input_ids"] for line in lines] == [one[:-1] for one in wanted]
    notes = [note for note in result.notes if ".idx" in note]
    assert len(notes) == 1
    assert "at their pointers" in notes[0]
    assert tokfmt.convert(path, tmp_path / "y_document.bin").tokens == result.tokens
    assert tokfmt.diff(path, tmp_path / "y_document.bin").identical
    (table,) = tokfmt.stats(path).datasets
    assert (table.sequences, table.tokens) == (len(wanted), sum(map(len, wanted)) - len(wanted))


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.data())
def test_any_view_with_empty_and_joined_sequences(tmp_path_factory, lengths, data):
    """Documents of several sequences too; a view of whole spans, whatever is repeated or left out."""
    home, lengths = tmp_path_factory.mktemp("views"), np.array(lengths)
    starts, count = np.cumsum(lengths) - lengths, len(lengths)
    tokens = np.arange(1, lengths.sum() + 1, dtype="<u2")
    chosen = np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=16)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(chosen)), max_size=4)))
    marks = [0, *cuts, len(chosen)]
    own, at = lengths[chosen], 2 * starts[chosen]
    running = 2 * (np.cumsum(own) - own)
    if np.array_equal(running, at) or own.sum() * 2.0 in lengths.sum() / [0.25, 1, 2, 4]:
        return  # In order, or a part of the tokens that another width gives, which other tests are about.
    held = at_pointers(tokens, own, at)
    path = write(home / "x_document", tokens, own, at, code="uint16", marks=marks)
    joined = [[token for one in held[a:b] for token in one] for a, b in zip(marks, marks[1:], strict=False)]
    assert read(path) == joined
    assert read(path, options={"unit": "sequences"}) == held


def test_byte_offsets_follow_the_pointers(tmp_path):
    tokens, lengths, pointers = corpus()
    chosen = np.random.default_rng(3).permutation(len(lengths))[:25]
    path = write(tmp_path / "x_document", tokens, lengths[chosen], pointers[chosen], code="uint16")
    with tokfmt.open(path, eos="none") as dataset:
        reader, bounds = dataset.reader, np.cumsum(np.append(0, lengths[chosen]))
        for number in (0, 7, 24):
            for more in (0, int(lengths[chosen][number]) - 1):
                place = reader.locate(int(bounds[number]) + more)
                assert (place.path.name, place.width) == ("x_document.bin", 2)
                assert place.offset == pointers[chosen][number] + 2 * more
                assert reader.find(place.path, place.offset) == bounds[number] + more
        left_out = np.setdiff1d(np.arange(len(lengths)), chosen)[0]
        assert reader.find(place.path, int(pointers[left_out])) is None


def test_raw_rows_of_tokens_are_at_their_pointers(tmp_path):
    tokens, lengths, pointers = np.arange(1, 33, dtype="<u2"), [8, 4, 12, 8], np.array([48, 16, 24, 0])
    path = write(tmp_path / "x_document", tokens, lengths, pointers, code="uint16")
    shown = json.loads(run("show", path, "--raw", "--json", "--limit", "0").stdout)
    (section,) = [one for one in shown["sections"] if one["title"] == "tokens of x_document.bin"]
    assert [(one["offset"], one["length"]) for one in section["fields"]] == [(48, 16), (16, 16), (32, 16), (0, 16)]
    assert section["fields"][0]["value"] == "25 26 27 28 29 30 31 32"


@pytest.mark.parametrize("change", ["negative", "beyond", "overlapping", "odd", "overflow", "inclusive"])
def test_impossible_pointers_are_read_by_length(change, tmp_path):
    tokens, lengths, pointers = corpus()
    wanted, wrong = at_pointers(tokens, lengths, pointers), pointers.copy()
    if change == "inclusive":
        wrong = np.cumsum(lengths) * 2
    elif change == "overflow":
        wrong[20:] -= 1 << 32
    else:
        wrong[7] = {"negative": -2, "beyond": tokens.nbytes, "overlapping": wrong[7] + 2, "odd": wrong[7] + 1}[change]
    path = write(tmp_path / "x_document", tokens, lengths, wrong, code="uint16")
    assert read(path) == wanted
    (verdict,) = tokfmt.check(path)
    assert [one.code for one in verdict.findings] == ["TF603"]
    assert "read by length" in verdict.findings[0].remedy


def test_impossible_pointers_of_tokens_of_another_size_save_nothing(tmp_path):
    """Neither pointers nor lengths show where a sequence is."""
    tokens, lengths, pointers = corpus()
    chosen = np.random.default_rng(1).permutation(len(lengths))[:30]
    wrong = pointers[chosen].copy()
    wrong[3] += 2
    path = write(tmp_path / "x_document", tokens, lengths[chosen], wrong, code="uint16")
    (verdict,) = tokfmt.check(path)
    assert [one.code for one in verdict.findings] == ["TF604", "TF603"]
    assert not any("by length" in one.remedy for one in verdict.findings)
    for given_up in ({"allow_partial": True}, {"allow_loss": "tail"}):
        with pytest.raises(FormatError):
            tokfmt.convert(path, tmp_path / "x.jsonl", eos="none", **given_up)
    assert not (tmp_path / "x.jsonl").exists()


def test_a_cut_file_behind_a_view_saves_nothing_by_length(tmp_path):
    tokens, lengths, pointers = corpus()
    chosen = np.random.default_rng(1).permutation(len(lengths))
    path = write(tmp_path / "x_document", tokens[:-300], lengths[chosen], pointers[chosen], code="uint16")
    with pytest.raises(FormatError):
        tokfmt.convert(path, tmp_path / "x.jsonl", eos="none", allow_partial=True)


@FUZZ_ONLY
def test_show_of_a_long_index_looks_at_its_pointers(tmp_path):
    """`show` reads only some entries of an index above 64 MiB, but sees that they are in another order."""
    count = 3_500_000
    lengths, chosen = np.full(count, 2), np.arange(count)
    chosen[1:-1] = chosen[1:-1][::-1]
    tokens, path = np.arange(2 * count) % 60000, tmp_path / "x_document"
    index = write(path, tokens.astype("<u2"), lengths, 4 * chosen, code="uint16")
    (shown,) = tokfmt.show(index, "17", eos="none").shown
    assert list(shown.ids) == tokens[2 * chosen[17] :][:2].tolist()


@FUZZ_ONLY
def test_a_view_takes_little_more_memory_than_an_index_in_order(tmp_path):
    """Pointers are read when they are needed, and sorted a part at a time."""
    count = 6_000_000
    random, lengths = np.random.default_rng(0), np.full(count, 2)
    tokens, peaks = np.arange(2 * count, dtype="<u4").astype("<u2"), []
    for chosen in (np.arange(count), random.permutation(count)):
        path = write(tmp_path / "x_document", tokens, lengths, 4 * chosen, code="uint16")
        peak, _ = peak_of(["check", path, "--eos", "none"], tmp_path)
        peaks.append(peak)
    assert peaks[1] < peaks[0] + (160 << 20)  # Pointers, or spans, of all sequences have 48 MB to 192 MB more.


# dtype codes

WRONG = {
    "the whole index is for int32": ("uint16", "int32", 4),
    "the whole index is for uint16": ("int32", "uint16", 2),
    "only the code is wrong": ("int32", "uint16", 4),
    "only the code is wrong, and is int32": ("uint16", "int32", 2),
    "uint8 for uint16": ("uint16", "uint8", 2),
    "int64 for int32": ("int32", "int64", 8),
}


@pytest.fixture(params=WRONG)
def wrong(request, tmp_path):
    """The index of tokens that have another dtype than its code, their dtype, the code, and the documents."""
    dtype, code, width = WRONG[request.param]
    tokens, lengths, pointers = corpus(dtype=dtype)
    documents = at_pointers(tokens, lengths, pointers)
    starts = pointers // np.dtype(dtype).itemsize * width
    return write(tmp_path / "x_document", tokens, lengths, starts, code=code), dtype, code, documents


def test_a_wrong_dtype_code_is_named_and_read_by_the_option(wrong, tmp_path):
    path, dtype, _, documents = wrong
    (verdict,) = tokfmt.check(path)
    assert [one.code for one in verdict.findings] == ["TF609"]
    assert f"--from-opt dtype={dtype} reads" in verdict.findings[0].remedy
    assert read(path, options={"dtype": dtype}) == documents
    result = tokfmt.convert(path, tmp_path / "y.jsonl", eos="none", options={"dtype": dtype}, verify=True)
    assert any(f"read as {dtype}, as given" in note for note in result.notes)
    lines = (tmp_path / "y.jsonl").read_text().splitlines()
    assert [json.loads(line)["input_ids"] for line in lines] == documents
    (verdict,) = tokfmt.check(path, options={"dtype": dtype})
    assert [(one.code, one.offset) for one in verdict.findings] == [("TF609", 17)]


@pytest.mark.parametrize("given", [{}, {"allow_partial": True}, {"allow_loss": "tail"}])
def test_nothing_is_saved_with_a_wrong_dtype_code(wrong, tmp_path, given):
    path, dtype, _, _ = wrong
    with pytest.raises(FormatError) as caught:
        tokfmt.convert(path, tmp_path / "y.jsonl", eos="none", **given)
    assert f"--from-opt dtype={dtype}" in str(caught.value)
    assert not (tmp_path / "y.jsonl").exists()


def test_a_wrong_dtype_code_is_not_repaired(wrong, tmp_path):
    done = run("check", wrong[0], "--fix", tmp_path / "fixed_document.bin")
    assert done.exit_code != 0
    assert not (tmp_path / "fixed_document.bin").exists()


def test_half_of_the_tokens_as_a_view_are_no_wrong_dtype(tmp_path):
    """The lengths give half the size, and as wider tokens the sequences would overlap."""
    tokens = np.arange(1, 321, dtype="<u2")
    chosen = np.sort(np.random.default_rng(4).permutation(40)[:20])
    path = write(tmp_path / "x_document", tokens, np.full(20, 8), 16 * chosen, code="uint16")
    assert read(path) == [tokens[8 * k : 8 * k + 8].tolist() for k in chosen]


def test_every_second_sequence_may_be_a_view_or_a_wrong_dtype(tmp_path):
    """Pointers and size fit both, so only the user can tell."""
    tokens = np.arange(1, 321, dtype="<u2")
    path = write(tmp_path / "x_document", tokens, np.full(20, 8), 32 * np.arange(20), code="uint16")
    with pytest.raises(FormatError, match="dtype"):
        read(path)
    assert read(path, options={"dtype": "uint16"}) == [tokens[16 * k : 16 * k + 8].tolist() for k in range(20)]


def test_a_cut_to_half_is_saved_only_with_the_dtype(tmp_path):
    tokens, lengths, pointers = corpus(dtype="int32")
    tokens = np.append(tokens[: len(tokens) // 2 * 2], []).astype("<i4") if len(tokens) % 2 else tokens
    lengths[-1] -= lengths.sum() - len(tokens)
    path = write(tmp_path / "x_document", tokens[: len(tokens) // 2], lengths, pointers, code="int32")
    with pytest.raises(FormatError, match="TF609|dtype"):
        tokfmt.convert(path, tmp_path / "y.jsonl", eos="none", allow_partial=True)
    tokfmt.convert(path, tmp_path / "y.jsonl", eos="none", allow_partial=True, options={"dtype": "int32"})
    whole = at_pointers(tokens, lengths, pointers)
    saved = [json.loads(line)["input_ids"] for line in (tmp_path / "y.jsonl").read_text().splitlines()]
    assert 0 < len(saved) < len(whole)
    assert saved == whole[: len(saved)]
