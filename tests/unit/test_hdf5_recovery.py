"""hdf5: streams put together again from samples of any stride, width and padding; data made here with numpy and h5py."""

import json
import threading

import h5py
import numpy as np
import pytest

import tokfmt
from tokfmt.core.ragged import Ragged
from tokfmt.errors import CorruptError, FormatError, OptionError, UnsupportedError
from tokfmt.formats.hdf5 import FORMAT
from tokfmt.formats.hdf5.options import ReadOptions
from tokfmt.plugin import Hints
from tokfmt.testing import read as read_format
from tokfmt.testing import sequences, write

EOS = 7


def text(rng, documents, *, longest=60):
    """Ids like prose: few repeats."""
    return [rng.integers(10, 900, rng.integers(1, longest)).tolist() for _ in range(documents)]


def code(rng, documents):
    """Ids like source code: runs of one id make a third of all neighbors equal."""
    found = []
    for _ in range(documents):
        runs = [[int(rng.integers(10, 40))] * int(rng.geometric(0.6)) for _ in range(rng.integers(5, 40))]
        found.append([token for run in runs for token in run])
    return found


def stream_of(documents):
    return [token for document in documents for token in [*document, EOS]]


def windows(stream, width, stride):
    """Windows T of width + 1 tokens; the last may be shorter."""
    step = width + (stride == "disjoint")
    return [stream[a : a + width + 1] for a in range(0, len(stream) - 1, step)]


def samples(tokens_of, width, *, pad=EOS, inverted=False):
    """[n, 3, width] of windows."""
    rows = np.full((len(tokens_of), 3, width), pad, np.int32)
    rows[:, 1] = int(inverted)
    for row, tokens in zip(rows, tokens_of, strict=True):
        valid = len(tokens) - 1
        row[0, :valid], row[1, :valid], row[2, :valid] = tokens[:-1], int(not inverted), tokens[1:]
    return rows


def save(path, rows, *, count=None, attrs=(), **how):
    how = {"chunks": (1, *rows.shape[1:]), "compression": "gzip"} | how if rows.ndim == 3 and len(rows) else how
    with h5py.File(path, "w") as file:
        if rows.ndim == 3:
            file.attrs["n_examples"] = len(rows) if count is None else count
        data = file.create_dataset("data", data=rows, **how)
        for name, value in attrs:
            data.attrs[name] = value
    return path


def opened(path, eos=EOS, **how):
    return tokfmt.open(path, format="hdf5", eos=eos, **how)


def read(path, eos=EOS, **how):
    return sequences(opened(path, eos, **how).reader)


@pytest.mark.parametrize("make", [text, code])
@pytest.mark.parametrize("stride", ["overlap", "disjoint"])
@pytest.mark.parametrize("width", [2, 5, 16, 100])
def test_packed(tmp_path, make, stride, width):
    """Windows side by side of random ids show nothing: they are joined by who knows that they continue each other."""
    documents = make(np.random.default_rng(width), 60)
    tokens_of = windows(stream_of(documents), width, stride)
    path = save(tmp_path / "a.h5", samples(tokens_of, width))
    assert read(path, options={"stride": stride}) == documents
    source = opened(path)
    if source.reader.info.extras["stride"] == "rows":
        assert stride == "disjoint"
        assert sequences(source.reader) == tokens_of
        assert any(
            "nothing shows that samples continue each other" in note for note in (*source.notes, *source.inferred)
        )
        assert any("stride" in note and "disjoint" in note for note in (*source.notes, *source.inferred))
    else:
        assert source.reader.info.extras["stride"] == stride
        assert sequences(source.reader) == documents


def test_code_like_links_are_chance(tmp_path):
    """On runs of equal ids far more than 5 % of disjoint neighbors link up; that is still not overlap."""
    stream = stream_of(code(np.random.default_rng(3), 200))
    rows = samples(windows(stream, 16, "disjoint")[:-1], 16)
    linked = np.mean(rows[:-1, 2, -1] == rows[1:, 0, 0])
    assert linked > 0.2
    assert opened(save(tmp_path / "a.h5", rows)).reader.info.extras["stride"] != "overlap"


def phrases(rng, count):
    """A stream in which ids follow each other as in text: of each id, one of three others comes next."""
    follows = rng.integers(10, 900, (900, 3))
    stream = [10]
    for way in rng.integers(0, 3, count).tolist():
        stream.append(EOS if rng.random() < 0.02 else int(follows[stream[-1], way]))
    return stream


@pytest.mark.parametrize("seed", range(3))
def test_windows_of_text_side_by_side_show_that_they_continue_each_other(tmp_path, seed):
    rng = np.random.default_rng(seed)
    stream = phrases(rng, 9000)
    tokens_of = windows(stream, 32, "disjoint")[:-1]
    rows = samples(tokens_of, 32)
    source = opened(save(tmp_path / "a.h5", rows), "none")
    assert sequences(source.reader) == [[token for window in tokens_of for token in window]]
    assert any(
        "tokens at their borders follow each other as those inside do" in note
        for note in (*source.notes, *source.inferred)
    )
    mixed = save(tmp_path / "b.h5", rng.permutation(rows))
    assert sorted(read(mixed, "none")) == sorted(tokens_of)


@pytest.mark.parametrize("seed", range(3))
def test_blocks_behind_a_bos_in_another_order_are_not_joined(tmp_path, seed):
    rng = np.random.default_rng(seed)
    stream = phrases(rng, 9000)
    blocks = np.asarray(stream[: len(stream) // 16 * 16]).reshape(-1, 16)
    rows = np.stack([np.c_[np.full(len(blocks), 3), blocks[:, :-1]], np.ones_like(blocks), blocks], 1).astype("i4")
    assert read(save(tmp_path / "a.h5", rows), "none") == [blocks.reshape(-1).tolist()]
    mixed = save(tmp_path / "b.h5", rng.permutation(rows))
    assert sorted(read(mixed, "none")) == sorted([3, *block] for block in blocks.tolist())


def test_samples_that_all_begin_and_end_alike_are_not_joined(tmp_path):
    """A convention of begin and end marks that are one id looks like windows that overlap."""
    rng = np.random.default_rng(1)
    tokens_of = [[EOS, *rng.integers(10, 900, 15).tolist(), EOS] for _ in range(40)]
    source = opened(save(tmp_path / "a.h5", samples(tokens_of, 16)))
    assert sequences(source.reader) == tokens_of


def test_few_samples_without_a_link_are_sequences(tmp_path):
    tokens_of = [[1, 2, 3, 4, 5], [8, 9, 11, 12, 13], [21, 22, 23, 24, 25]]
    assert read(save(tmp_path / "a.h5", samples(tokens_of, 4))) == tokens_of


@pytest.mark.parametrize("stride", ["overlap", "disjoint"])
@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("pad", [EOS, 0])
def test_padded_documents(tmp_path, stride, inverted, pad):
    """Each document starts a sample of its own."""
    documents = text(np.random.default_rng(4), 40, longest=90)
    documents = [d for d in documents if len(d) % 17]  # else only the separator is left, which no sample can hold
    rows = samples([w for d in documents for w in windows([*d, EOS], 16, stride)], 16, pad=pad, inverted=inverted)
    source = opened(save(tmp_path / "a.h5", rows), options={"stride": stride})
    assert sequences(source.reader) == documents
    assert source.reader.info.extras["mask"] == ("inverted" if inverted else "loss")
    assert source.reader.info.nonstandard_masks == 0


def test_mask_can_be_told(tmp_path):
    rows = samples([[1, 2, 3], [4, 5, 6, 9], [8, 3]], 8, pad=0, inverted=True)
    path = save(tmp_path / "a.h5", rows)
    assert read(path, options={"mask": "inverted"}) == [[1, 2, 3], [4, 5, 6, 9], [8, 3]]
    assert read(path) == [[1, 2, 3], [4, 5, 6, 9], [8, 3]]


def test_bos(tmp_path):
    rng = np.random.default_rng(5)
    stream = stream_of(text(rng, 60))
    blocks = np.asarray(stream[: len(stream) // 16 * 16]).reshape(-1, 16)
    rows = np.stack([np.c_[np.full(len(blocks), 3), blocks[:, :-1]], np.ones_like(blocks), blocks], 1).astype("i4")
    rows[:, 2][rows[:, 2] == EOS] = -100
    rows[5, 2, -1], blocks[5, -1] = -100, EOS
    path = save(tmp_path / "a.h5", rows)
    want = [[]]
    for token in blocks.reshape(-1).tolist():
        if token == EOS:
            want.append([])
        else:
            want[-1].append(token)
    bos = {"stride": "bos"}
    source = opened(path, options=bos)
    assert sequences(source.reader) == want[: len(want) - (not want[-1])]
    assert source.reader.info.nonstandard_masks == int((rows[:, 2] == -100).any(axis=1).sum())
    with pytest.raises(UnsupportedError, match="sample 5 is -100.*--eos ID"):
        read(path, "none", options=bos)


def test_fine_tuning_masks(tmp_path):
    """Zeros over a prompt are real tokens; tokens after the last counted one are kept and told."""
    rows = samples([[1, 2, 3, 4, EOS], [5, 6, 8, 9, 11, 12, EOS], [1, 4, EOS], [2, 5, EOS]], 8, pad=0)
    rows[:, 1, :2] = 0
    rows[1, 1, 3:] = 0  # a turn after the last one that counts
    rows[2, 1] = 0  # counts nowhere
    source = opened(save(tmp_path / "a.h5", rows))
    assert sequences(source.reader) == [[1, 2, 3, 4], [5, 6, 8, 9, 11, 12], [1, 4], [2, 5]]
    assert source.reader.info.nonstandard_masks == 4
    assert source.reader.info.first_nonstandard == 0
    assert any(
        "1 samples have tokens after the last one that counts" in note for note in (*source.notes, *source.inferred)
    )


def test_few_answers_that_end_in_spaces_do_not_invert_a_mask(tmp_path):
    """0 on the prompt, 1 on the answer, 0 on padding: a cut answer that ends in equal tokens looks inverted."""
    rng = np.random.default_rng(3)
    documents = [[*rng.integers(300, 900, length).tolist(), EOS] for length in rng.integers(8, 14, 60)]
    rows = samples(documents, 16, pad=EOS)
    for row in rows:
        row[1, :4] = 0
    for row in rows[7::20]:
        row[0], row[2] = rng.integers(300, 900, 16), 198
        row[0, -2:], row[2, :-1] = 198, row[0, 1:]
        row[1] = [0] * 4 + [1] * 12
    source = opened(save(tmp_path / "a.h5", rows))
    assert source.reader.info.extras.get("mask", source.reader.info.facts.get("mask")) == "loss"
    kept = [document[:-1] for number, document in enumerate(documents) if number % 20 != 7]
    assert [one for number, one in enumerate(sequences(source.reader)) if number % 20 != 7] == kept
    (verdict,) = tokfmt.check(tmp_path / "a.h5", deep=True)
    assert not verdict.counts.keys() & {"TF335", "TF340", "TF343"}  # the mask and the padding agree


def test_eos_as_input(tmp_path):
    """The last token may be an input as well, with padding for its label."""
    rows = samples([[1, 2, 3, EOS], [5, 6, EOS], [9, 8, 4, 2, EOS]], 8, pad=0)
    rows[0, 0, 3] = rows[1, 0, 2] = rows[2, 0, 4] = EOS
    assert read(save(tmp_path / "a.h5", rows)) == [[1, 2, 3], [5, 6], [9, 8, 4, 2]]
    rows[:, 1] = 0
    assert read(save(tmp_path / "b.h5", rows)) == [[1, 2, 3], [5, 6], [9, 8, 4, 2]]


def test_a_sample_of_padding_only(tmp_path):
    rows = samples([[1, 2, EOS], [0], [3, 4, EOS]], 4, pad=0)
    assert read(save(tmp_path / "a.h5", rows)) == [[1, 2], [3, 4]]


def test_hugging_face_labels(tmp_path):
    rows = samples(windows(stream_of(text(np.random.default_rng(6), 30)), 8, "overlap"), 8)
    rows[:, 2] = rows[:, 0]
    with pytest.raises(UnsupportedError, match="repeat input_ids.*view"):
        opened(save(tmp_path / "a.h5", rows))


def test_shuffled_and_mixed(tmp_path):
    rng = np.random.default_rng(7)
    rows = samples(windows(stream_of(text(rng, 300)), 16, "overlap")[:-1], 16)
    shuffled = save(tmp_path / "s.h5", rng.permutation(rows))
    with pytest.raises(UnsupportedError, match="were shuffled.*allow.loss"):
        opened(shuffled)
    mixed = rows.copy()
    half = len(rows) // 2
    mixed[:half, 0] = rng.integers(10, 900, (half, 16))
    mixed[:half, 2, :-1] = mixed[:half, 0, 1:]
    mixed[:half, 2, -1] = rng.integers(10, 900, half)
    with pytest.raises(UnsupportedError, match="do not show how they continue.*stride"):
        opened(save(tmp_path / "m.h5", mixed))
    assert len(read(tmp_path / "m.h5", options={"stride": "per-document"})) >= len(rows)


def test_too_few_to_tell(tmp_path):
    documents = [[1, 2, 3, 4, 5, 6], [8, 9, 10, 11, 12]]
    path = save(tmp_path / "a.h5", samples(windows(stream_of(documents), 4, "overlap"), 4))
    with pytest.raises(UnsupportedError, match="2 of its samples.*stride"):
        opened(path)
    assert read(path, options={"stride": "overlap"}) == documents
    with pytest.raises(OptionError, match="stride"):
        opened(path, options={"stride": "overlapping"})


def test_one_sample(tmp_path):
    """Nothing to go on in: its documents are split all the same."""
    path = save(tmp_path / "a.h5", samples([[1, 2, EOS, 3, 4, EOS, 5, 6, 8]], 8))
    assert read(path) == [[1, 2], [3, 4], [5, 6, 8]]


def test_a_gap_in_the_stream(tmp_path):
    """A sample is missing: the stream is cut there, and nothing is joined across."""
    stream = list(range(100, 100 + 8 * 40 + 1))
    rows = np.delete(samples(windows(stream, 8, "overlap"), 8), 20, 0)
    source = opened(save(tmp_path / "a.h5", rows))
    assert sequences(source.reader) == [stream[: 8 * 20 + 1], stream[8 * 21 :]]
    assert any("do not continue in the next" in note for note in (*source.notes, *source.inferred))


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["examples_0_0.h5", "examples_1_0.h5", "examples_2_0.h5", "examples_0_1.h5"], [3, 1]),
        (["output_chunk_0_0.h5", "output_chunk_0_2.h5", "output_chunk_0_10.h5", "output_chunk_1_prefix.h5"], [3, 1]),
        (["dataset-partition-9.h5", "dataset-partition-10.h5", "dataset-partition-11.h5"], [3]),
        (["a_1.h5", "a_02.h5", "b_1.h5"], [2, 1]),
    ],
)
def test_streams_of_files(tmp_path, names, groups):
    """Disjoint windows: only the names say where a stream goes on."""
    rng = np.random.default_rng(8)
    want, at = [], 0
    for count in groups:
        stream = rng.integers(10, 900, 9 * 4 * count).tolist()
        stream[-1] = EOS  # A separator that is given has to occur.
        want.append(stream[:-1])
        for k, rows in enumerate(np.split(samples(windows(stream, 8, "disjoint"), 8), count)):
            save(tmp_path / names[at + k], rows)
        at += count
    apart = {"stride": "disjoint"}
    assert read(tmp_path, options=apart) == want
    assert read([tmp_path / name for name in reversed(names)], options=apart)[-1] in want
    given = opened([tmp_path / name for name in reversed(names)], options={"order": "given", **apart})
    assert len(sequences(given.reader)) == len(names)


def test_files_of_two_directories_stay_apart(tmp_path):
    for k, name in enumerate("ba"):
        (tmp_path / name).mkdir()
        save(
            tmp_path / name / "x-0.h5",
            samples(windows(list(range(100 * (k + 1), 100 * (k + 1) + 45)), 8, "disjoint"), 8),
        )
    found = read([tmp_path / "b" / "x-0.h5", tmp_path / "a" / "x-0.h5"], options={"stride": "disjoint"})
    assert found == [list(range(100, 145)), list(range(200, 245))]


@pytest.fixture
def halves(tmp_path):
    """One stream of overlapping samples in two directories; its documents."""
    documents = text(np.random.default_rng(2), 60)
    rows = samples(windows(stream_of(documents), 16, "overlap"), 16)
    cut = next(k for k in range(20, len(rows)) if rows[k, 0, 0] != EOS)
    for home, part, number in (("d1", rows[:cut], 0), ("d2", rows[cut:], 1)):
        (tmp_path / home).mkdir()
        save(tmp_path / home / f"data-0000{number}.h5", part)
    return documents


def converted(tmp_path, *names, **how):
    tokfmt.convert([tmp_path / name for name in names], tmp_path / "x.jsonl", eos=EOS, overwrite=True, **how)
    return [one.tolist() for one in tokfmt.open(tmp_path / "x.jsonl")]


NAMINGS = [["d1/data-00000.h5", "d2/data-00001.h5"], ["d?/*.h5"], ["d1", "d2"], ["d[12]"]]


@pytest.mark.parametrize("names", NAMINGS, ids=str)
def test_a_stream_in_several_directories_is_joined_or_refused(tmp_path, halves, names):
    """Never with a token twice: joined by its files, which go on in number, refused by its directories."""
    (tmp_path / "r.toml").write_text(f"tokfmt = 1\n[[source]]\neos = {EOS}\npath = {json.dumps(names)}\n")
    for asked in (names, ["r.toml"]):
        if names[0].endswith(".h5"):
            assert converted(tmp_path, *asked) == halves
        else:
            with pytest.raises(UnsupportedError, match="begins with the token that"):
                converted(tmp_path, *asked)


def test_a_stream_in_directories_below_is_refused(tmp_path, halves):
    (tmp_path / "out").mkdir()
    for name in ("d1", "d2"):
        (tmp_path / name).rename(tmp_path / "out" / name)
    with pytest.raises(UnsupportedError, match="begins with the token that"):
        converted(tmp_path, "out", recursive=True)


def test_files_of_two_directories_whose_names_start_over(tmp_path, halves):
    (tmp_path / "d2" / "data-00001.h5").rename(tmp_path / "d2" / "data-00000.h5")
    names = ["d1/data-00000.h5", "d2/data-00000.h5"]
    with pytest.raises(UnsupportedError, match="begins with the token that .*order.*given"):
        converted(tmp_path, *names)
    assert converted(tmp_path, *names, options={"order": "given"}) == halves


def test_streams_of_two_directories_that_share_no_token_are_apart(tmp_path):
    documents = text(np.random.default_rng(4), 60)
    for home, part in (("d1", documents[:30]), ("d2", documents[30:])):
        (tmp_path / home).mkdir()
        save(tmp_path / home / "data-00000.h5", samples(windows(stream_of(part), 16, "overlap"), 16))
    for names in (["d1", "d2"], ["d?/*.h5"]):
        assert converted(tmp_path, *names) == documents


def test_directory_without_h5(tmp_path):
    (tmp_path / "a.hdf5").write_bytes(b"")
    (tmp_path / "sub.h5").mkdir()
    with pytest.raises(FormatError, match=r"holds no \*\.h5 file: found a.hdf5"):
        opened(tmp_path)


@pytest.mark.parametrize("rule", ["segment", "pack"])
def test_vsl(tmp_path, rule):
    rng = np.random.default_rng(9)
    rows, want = np.zeros((20, 5, 32), np.int32), []
    for row in rows:
        at = 0
        while at < 27:
            length = int(rng.integers(1, min(12, 32 - at)))
            document = rng.integers(10, 900, length).tolist()
            inputs = document + ([EOS] if rule == "pack" else [])
            span = slice(at, at + len(inputs))
            row[0, span], row[1, span] = inputs, 1
            row[2, span] = [*inputs[1:], EOS]
            row[3, span], row[4, span] = np.arange(len(inputs))[::-1], np.arange(len(inputs))
            if rule == "pack" and at:
                row[2, at - 1] = inputs[0]
            want.append(document)
            at += len(inputs)
    source = opened(save(tmp_path / "a.h5", rows))
    found = sequences(source.reader)
    if rule == "pack":  # the last one of a row has its separator as input, and another one as label
        found = [s[:-1] if s[-1:] == [EOS] else s for s in found]
    assert found == want
    assert source.reader.info.nonstandard_masks == 0
    rows[11, 3, 0] += 1
    with pytest.raises(CorruptError, match="sample 11: position_ids and attention_span"):
        opened(save(tmp_path / "b.h5", rows))


def test_corpora_are_streams_of_their_own(tmp_path):
    save(tmp_path / "00-00.h5", np.asarray([1, 2, EOS, 3], np.uint16))
    save(tmp_path / "00-01.h5", np.asarray([4, EOS, 5, EOS], np.uint32))
    assert read(tmp_path) == [[1, 2], [3], [4], [5]]
    assert read(tmp_path, "none") == [[1, 2, EOS, 3], [4, EOS, 5, EOS]]
    with pytest.raises(UnsupportedError, match="view=samples"):
        opened(tmp_path, options={"view": "samples"})


@pytest.mark.parametrize("content", ["{", "[1]", '{"processing": 3}', '{"processing": {"eos_id": true}}', "\xff" * 9])
def test_params_are_hints_only(tmp_path, content):
    save(tmp_path / "a.h5", samples([[1, 2, EOS]], 4))
    (tmp_path / "data_params.json").write_text(content)
    assert read(tmp_path) == [[1, 2]]


def test_negative_ids(tmp_path):
    rows = samples([[1, 2, EOS], [1, 2, 3, EOS]], 4)
    rows[1, 0, 1] = -5
    with pytest.raises(
        CorruptError, match="sample 1 has a negative input ID at position 1, .*: expected 0 or more, found -5"
    ):
        opened(save(tmp_path / "a.h5", rows))
    rows[1, 0, 1], rows[1, 2, 2] = 2, -5
    with pytest.raises(CorruptError, match="sample 1 has a negative label"):
        read(save(tmp_path / "a.h5", rows))


class TestOwnAttributes:
    """Attributes that tokfmt writes are believed, but not blindly."""

    def test_rows_are_what_the_file_says(self, tmp_path):
        """Though the tokens say that they overlap; an option joins them."""
        facts = [("stride", np.bytes_("rows")), ("first_token", 0), ("stream_tokens", 32)]
        path = save(tmp_path / "a.h5", self.rows(), attrs=facts)
        for options in ({}, {"mask": "loss"}, {"view": "samples"}):
            source = opened(path, None, options=options)
            assert sequences(source.reader) == [list(range(k, k + 8)) for k in range(100, 132, 8)]
        assert read(path, "none", options={"stride": "overlap"}) == [list(range(100, 133))]
        other = save(tmp_path / "b.h5", self.rows())
        with pytest.raises(UnsupportedError, match="b.h5 does not state that its rows are sequences"):
            opened([path, other], None)

    def test_rows_that_are_lost_are_missed(self, tmp_path):
        facts = [("stride", np.bytes_("rows")), ("first_token", 0), ("stream_tokens", 32)]
        (tmp_path / "x").mkdir()
        save(tmp_path / "x" / "data-00000.h5", self.rows()[:3], attrs=facts)
        with pytest.raises(CorruptError, match="tokens 24 to 31 of its 32 are in no file"):
            opened(tmp_path / "x", None)

    def rows(self):
        return samples(windows(list(range(100, 133)), 8, "overlap"), 8)

    def attrs(self, **changed):
        facts = {"stride": np.bytes_("overlap"), "eos_id": EOS, "first_token": 0, "stream_tokens": 33} | changed
        return list(facts.items())

    def test_believed(self, tmp_path):
        source = opened(save(tmp_path / "a.h5", self.rows(), attrs=self.attrs()), None)
        assert sequences(source.reader) == [list(range(100, 133))]
        assert (source.origin[0].separator.eos_id, source.origin[0].separator.source) == (EOS, "file attributes")

    @pytest.mark.parametrize(
        "changed",
        [
            {"stride": np.bytes_("bos")},
            {"stride": 3},
            {"eos_id": -1},
            {"eos_id": 2**31},
            {"eos_id": 1.5},
            {"first_token": -8},
            {"stream_tokens": 25},
            {"stream_tokens": 2**63 - 1},
        ],
    )
    def test_untrue(self, tmp_path, changed):
        with pytest.raises(CorruptError, match="attribute .* is invalid"):
            opened(save(tmp_path / "a.h5", self.rows(), attrs=self.attrs(**changed)))

    def test_samples_that_differ_from_them(self, tmp_path):
        rows = self.rows()
        rows[2, 1, 3] = 0
        path = save(tmp_path / "a.h5", rows, attrs=self.attrs())
        with pytest.raises(CorruptError, match="sample 2 contradicts the file's attributes"):
            read(path)
        assert read(path, "none", options={"stride": "overlap"}) == [list(range(100, 133))]

    def test_a_part_is_told(self, tmp_path):
        path = save(tmp_path / "a.h5", self.rows(), attrs=self.attrs(stream_tokens=50))
        assert any("are only some of those that were written" in note for note in opened(path, "none").notes)
        assert read(path, "none") == [list(range(100, 133))]

    def test_without_separator(self, tmp_path):
        rows = samples(windows([1, 2, EOS, 3, 4, EOS, 5, 6, EOS], 8, "overlap"), 8)
        path = save(tmp_path / "a.h5", rows, attrs=self.attrs(stream_tokens=9))
        assert read(path, None) == [[1, 2], [3, 4], [5, 6]]
        assert read(path, "none") == [[1, 2, EOS, 3, 4, EOS, 5, 6, EOS]]


DOCUMENTS = [[10 + i] * (5 + i % 7) for i in range(40)]


@pytest.mark.parametrize(
    "options",
    [{"seq_len": 8}, {"seq_len": 8, "stride": "disjoint"}, {"seq_len": 8, "layout": "corpus"}],
    ids=str,
)
def test_a_file_lost_from_a_directory_is_an_error_unless_gaps_are_accepted(tmp_path, options):
    """Whichever it is, the last one too; of files that were named it is a note."""
    path = write(FORMAT, tmp_path / "x", Ragged.of(DOCUMENTS), eos_id=EOS, options={"shard_size": 72, **options})
    files = sorted(path.iterdir())
    assert len(files) > 3
    assert sequences(read_format(FORMAT, path)) == DOCUMENTS
    for lost in files:
        content = lost.read_bytes()
        lost.unlink()
        for view in [{}] if "layout" in options else [{}, {"view": "samples"}]:
            with pytest.raises(CorruptError, match="tokens .* are in no file: .* is missing.*gaps"):
                opened(path, options=view)
        assert "TF344" in {f.code for f in FORMAT.audit(path, ReadOptions()) if f.severity == "error"}
        for source in (opened(path, options={"gaps": "accept"}), opened(sorted(path.iterdir()))):
            assert any("are only some of those that were written" in note for note in (*source.notes, *source.inferred))
            kept = sequences(source.reader)
            assert 0 < sum(map(len, kept)) < sum(map(len, DOCUMENTS))
        lost.write_bytes(content)


def test_a_number_left_out_of_names(tmp_path):
    """Upstream's output_chunk_<rank>_<n> does so; the others do not."""
    stream = np.random.default_rng(4).integers(10, 900, 9 * 12).tolist()
    for name in ("examples_{}_0.h5", "data-0000{}.h5", "dataset-partition-{}.h5", "output_chunk_0_{}.h5"):
        home = tmp_path / name.partition("_")[0].partition("{")[0]
        home.mkdir()
        for k, rows in zip((0, 1, 3), np.split(samples(windows(stream, 8, "disjoint"), 8), 3), strict=True):
            save(home / name.format(k), rows)
        if name.startswith("output"):
            assert read(home)
            continue
        with pytest.raises(CorruptError, match="the file with the number 2 is missing between"):
            opened(home)
        assert read(home, options={"gaps": "accept"})


@pytest.mark.parametrize(("jobs", "most"), [(1, 0), (3, 3)])
def test_opening_starts_no_more_threads_than_asked_for(tmp_path, monkeypatch, jobs, most):
    path = save(tmp_path / "a.h5", samples(windows(list(range(10, 400)), 8, "disjoint"), 8))
    started, start = [], threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: started.append(thread) or start(thread))
    FORMAT.open([path], ReadOptions(stride="disjoint"), Hints(jobs=jobs)).close()
    assert len(started) <= most
