"""Separators in a row: each after another one is an empty sequence, except those that a format declares as padding."""

import h5py
import numpy as np
import pytest

import tokfmt
from tokfmt.errors import LossyConversionError

EOS = 7
STREAM = [5, 6, EOS, EOS, 8, EOS, EOS, EOS, 9, EOS]


def documents(stream):
    found = [[]]
    for token in stream:
        found.append([]) if token == EOS else found[-1].append(token)
    return found[: len(found) - (not found[-1])]


def windows(stream, width, pad):
    """Samples [n, 3, width] of Cerebras: they overlap by a token, and the rest of the last one is masked."""
    starts = range(0, len(stream) - 1, width)
    samples = np.full((len(starts), 3, width), pad, "<i4")
    samples[:, 1] = 0
    for sample, start in zip(samples, starts, strict=True):
        window = stream[start : start + width + 1]
        sample[0, : len(window) - 1], sample[2, : len(window) - 1] = window[:-1], window[1:]
        sample[1, : len(window) - 1] = 1
    return samples


def write_h5(path, data):
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=data)
        file.attrs["n_examples"] = len(data)
    return path


def corpus(tmp_path):
    return write_h5(tmp_path / "x.h5", np.array(STREAM, "<u2")), {}, STREAM


def samples(tmp_path):
    stream = STREAM + [3, EOS, 4, 4, EOS, EOS, 2, EOS] * 9
    return write_h5(tmp_path / "x.h5", windows(stream, 8, EOS)), {"stride": "overlap"}, stream


def block(tmp_path):
    stream = [*STREAM, 3, EOS]
    path = tmp_path / "stage1_block_0000.bin"
    np.array(stream + [EOS] * 4, "<i4").tofile(path)
    return path, {"seq_len": "8"}, stream


@pytest.mark.parametrize("made", [corpus, samples, block])
def test_an_empty_document_is_read_and_written_again(made, tmp_path):
    path, options, stream = made(tmp_path)
    with tokfmt.open(path, eos=EOS, options=options) as dataset:
        assert dataset[:].tolist() == documents(stream)
    done = tokfmt.convert(path, tmp_path / "train.bin", to_format="nanogpt", eos=EOS, options=options, verify=True)
    assert np.fromfile(tmp_path / "train.bin", "<u2").tolist() == stream
    empty = documents(stream).count([])
    assert any(f"{empty:,} of" in note and "empty" in note for note in done.notes)


@pytest.mark.parametrize("made", [corpus, samples, block])
def test_every_command_counts_the_same(made, tmp_path):
    path, options, stream = made(tmp_path)
    wanted = documents(stream)
    tokens = len(stream) - stream.count(EOS)
    (found,) = tokfmt.stats(path, eos=EOS, options=options).datasets
    told = tokfmt.info(path, eos=EOS, options=options)
    (verdict,) = tokfmt.check(path, eos=EOS, options=options, deep=True)
    assert (found.sequences, found.tokens, found.empty.count) == (len(wanted), tokens, wanted.count([]))
    assert (told.sequences, told.tokens, told.stored_tokens) == (len(wanted), tokens, len(stream))
    assert (verdict.sequences, verdict.tokens) == (len(wanted), tokens)
    if made is not corpus:
        slots = 4 + len(stream) if made is block else -(-(len(stream) - 1) // 8) * 8
        padding = 4 if made is block else slots - len(stream) + 1
        assert (found.padding.count, told.padding) == (padding, padding)
        assert told.samples * told.sample_length == slots


def test_documents_of_two_files_are_not_joined_and_get_no_separator_twice(tmp_path):
    """A separator is inserted after a file only if it ends without one."""
    (tmp_path / "in").mkdir()
    for number, tokens in enumerate(([1, 2, EOS], [3], [4, EOS, EOS], [5, 6])):
        write_h5(tmp_path / "in" / f"data-{number}.h5", np.array(tokens, "<u2"))
    with tokfmt.open(tmp_path / "in", eos=EOS) as dataset:
        assert dataset[:].tolist() == [[1, 2], [3], [4], [], [5, 6]]
    (found,) = tokfmt.stats(tmp_path / "in", eos=EOS).datasets
    assert (found.separators.count, found.sequences) == (3, 5)


@pytest.mark.parametrize("run", [1, 2, 8, 9, 12])
def test_only_the_run_in_the_last_sample_of_a_block_is_padding(run, tmp_path):
    """The first separator of it ends the last document."""
    stream = [1] * (24 - run) + [EOS] * run
    np.array(stream, "<i4").tofile(tmp_path / "stage1_block_0000.bin")
    inside = max(0, run - 8)  # separators in the sample before
    with tokfmt.open(tmp_path / "stage1_block_0000.bin", eos=EOS, options={"seq_len": "8"}) as dataset:
        assert dataset[:].tolist() == [[1] * (24 - run)] + [[]] * max(0, inside - 1)
    (found,) = tokfmt.stats(tmp_path, eos=EOS, options={"seq_len": "8"}).datasets
    assert found.padding.count == run - max(1, inside)


def one_document_per_sample(lengths, width):
    """Samples of one document each, padded with 0, or cut after `width` + 1 tokens; and the documents that they hold."""
    generator = np.random.default_rng(5)
    whole = [[*generator.integers(100, 3000, length).tolist(), EOS] for length in lengths]
    samples = np.zeros((len(whole), 3, width), "<i4")
    for sample, document in zip(samples, whole, strict=True):
        kept = document[: width + 1]
        sample[0, : len(kept) - 1], sample[2, : len(kept) - 1], sample[1, : len(kept) - 1] = kept[:-1], kept[1:], 1
    return samples, [document[: width + 1] for document in whole]


def test_samples_of_one_document_each_end_with_one_separator(tmp_path):
    """Nothing shows that samples continue each other, and every padded one ends with the same ID."""
    lengths = [3, 15, 30, 16, 9, 40, 41, 2, 15, 33, 37, 31, 12, 5, 50, 8]
    samples, wanted = one_document_per_sample(lengths, 16)
    path = write_h5(tmp_path / "x.h5", samples)
    with tokfmt.open(path) as dataset:
        assert dataset[:].tolist() == [one[: len(one) - (one[-1] == EOS)] for one in wanted]
    done = tokfmt.convert(path, tmp_path / "out.pbin", verify=True)
    closed = sum(one[-1] == EOS for one in wanted)
    assert (done.separators["kept"], done.separators["added"]) == (closed, len(wanted) - closed)
    assert any("stride=" in note for note in done.notes)
    with tokfmt.open(path, eos="none") as dataset:
        assert dataset[:].tolist() == wanted


def test_a_corpus_of_hdf5_stores_empty_documents(tmp_path):
    """Also at both ends, as it has no padding; samples refuse them."""
    found = [[], [5, 6], [], [], [8], []]
    tokens = np.array([token for one in found for token in (*one, EOS)], "<u2")
    source, again = write_h5(tmp_path / "x.h5", tokens), tmp_path / "again.h5"
    tokfmt.convert(source, again, eos=EOS, to_options={"layout": "corpus"}, verify=True)
    with h5py.File(again) as file:
        assert file["data"][:].tolist() == tokens.tolist()
    with tokfmt.open(again) as dataset:
        assert dataset[:].tolist() == found
    with pytest.raises(LossyConversionError, match="4 empty sequences"):
        tokfmt.convert(source, tmp_path / "samples.h5", eos=EOS, seq_len=4)
