"""Axes over files: tokens of every width and order, their bytes, changes of files, and what is read and held."""

import itertools
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from model.axes import ArrayAxis, Listed, Pieces, RawAxis
from reads import asked_of
from stores import Counting

from tokfmt.errors import CorruptError, FormatError, TruncatedError
from tokfmt.files.file import Ends
from tokfmt.files.place import register_store
from tokfmt.model import Boundaries, Bounds, Dataset, Ended, Gap, Joined, Laid, decide
from tokfmt.plugin import open_file, place_of

IDS = [0, 1, 7, 100, 3, 7, 127, 5, 7]
THREE = {"little": np.dtype([("low", "<u2"), ("high", "u1")]), "big": np.dtype([("high", "u1"), ("low", ">u2")])}
DTYPES = [
    "u1",
    "i1",
    "<u2",
    ">u2",
    "<i2",
    "<u4",
    ">u4",
    "<i4",
    ">i4",
    "<u8",
    "<i8",
    ">i8",
    THREE["little"],
    THREE["big"],
]
HEAD = b"head of 13 by"


def stored(ids, dtype):
    if isinstance(dtype, str):
        return np.array(ids, dtype).tobytes()
    return b"".join(token.to_bytes(3, next(order for order, one in THREE.items() if one == dtype)) for token in ids)


def raw(tmp_path, ids, dtype, name="x"):
    path = tmp_path / name
    path.write_bytes(HEAD + stored(ids, dtype))
    return RawAxis(open_file(path), len(HEAD), len(ids), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tokens_of_every_width_and_order(dtype, tmp_path):
    axis = raw(tmp_path, IDS, dtype)
    width = axis.locate(0).width
    assert axis.dtype.kind == "u" and axis.dtype.isnative
    assert axis.dtype.itemsize == (4 if width == 3 else width)
    for again in (axis, pickle.loads(pickle.dumps(axis))):
        assert again.tokens(0, 9).tolist() == IDS
        assert again.tokens(3, 3).tolist() == []
        assert again.at(np.array([8, 0, 3, 3])).tolist() == [7, 0, 100, 100]
        assert again.gather(np.array([6, 0, 2]), np.array([3, 2, 0])).tolist() == [127, 5, 7, 0, 1]
        for separator in (7, 70_000, 1 << 40, None):
            for is_before in (False, True):
                one_by_one(again, separator, is_before)
        again.close()
        assert again.tokens(0, 9).tolist() == IDS
    path = tmp_path / "x"
    content = path.read_bytes()
    for position, token in enumerate(IDS):
        spot = axis.locate(position)
        assert token in {int.from_bytes(content[spot.offset : spot.offset + width], order) for order in THREE}
        assert {axis.find(path, spot.offset + k) for k in range(width)} == {position}
    assert axis.find(path, 0) is None
    assert axis.find(path, len(content)) is None
    assert axis.find(tmp_path / "y", len(HEAD)) is None


def one_by_one(axis, separator, is_before):
    """Sequences of two blocks, read fast or by the general function, which is asked for those without a separator."""
    bounds, asked = [0, 3, 3, 5, 9], []
    ends = Ends(np.array([0, 3]).data, np.array([3, 3, 2, 6], "<u4").data, 1)

    def general(number):
        asked.append(number)
        return axis.tokens(bounds[number], bounds[number + 1])

    read = axis.sequence_reader(ends, separator, general, is_before=is_before)
    for number, (a, b) in enumerate(itertools.pairwise(bounds)):
        found, whole = read(number).tolist(), IDS[a:b]
        edge = whole[:1] if is_before else whole[-1:]
        has = separator is not None and edge == [separator]
        assert found == (whole if number in asked or not has else whole[1:] if is_before else whole[:-1])
        assert number in asked or number > 0
        assert number in asked or separator is None or has


@pytest.mark.parametrize("wrong", [(-1, 2), (0, 10), (5, 4), (10, 10)])
def test_what_leaves_an_axis_is_an_index_error(wrong, tmp_path):
    axis = raw(tmp_path, IDS, "<u2")
    joined, pieces = Joined([axis, ArrayAxis(np.arange(0))]), Pieces(axis, np.array([2, 0]), np.array([7, 2]))
    with pytest.raises(IndexError):
        axis.tokens(*wrong)
    for position in (-1, 9):
        for one in (axis, joined, pieces):
            with pytest.raises(IndexError):
                one.locate(position)


def test_bytes_through_logical_axes(tmp_path):
    """Every slot of a joined axis and of pieces is where its byte is, and back."""
    one, other = raw(tmp_path, IDS, "<u2", "one"), raw(tmp_path, [9, 8], "<i4", "other")
    joined = Joined([one, Joined([]), other])
    pieces = Pieces(joined, np.array([8, 0, 4, 2]), np.array([3, 2, 2, 2]))
    assert joined.tokens(0, 11).tolist() == [*IDS, 9, 8]
    assert pieces.tokens(0, 9).tolist() == [7, 9, 8, 0, 1, 3, 7, 7, 100]
    for axis in (joined, pieces):
        for position, token in enumerate(axis.tokens(0, axis.length).tolist()):
            spot = axis.locate(position)
            assert int.from_bytes(spot.path.read_bytes()[spot.offset : spot.offset + spot.width], "little") == token
            assert axis.find(spot.path, spot.offset + 1) == position
    assert pieces.find(tmp_path / "one", len(HEAD) + 2 * 7) is None  # a slot of no piece
    axis = pickle.loads(pickle.dumps(pieces))
    assert axis.tokens(2, 5).tolist() == [8, 0, 1]


def test_negative_ids_are_found_with_their_byte(tmp_path):
    axis = raw(tmp_path, [1, 2, -3, 4], "<i4")
    bounds = Ends(np.zeros(1, np.int64).data, np.array([1, 4]).data, 62)
    one = axis.sequence_reader(bounds, None, lambda _: axis.tokens(1, 4))
    for read in (lambda: axis.tokens(1, 4), lambda: one(1)):
        with pytest.raises(CorruptError, match="-3") as error:
            read()
        assert error.value.offset == len(HEAD) + 8
    assert axis.tokens(0, 2).tolist() == [1, 2]


@pytest.mark.parametrize("change", ["cut", "longer", "other", "gone"])
def test_a_file_that_changes_is_noticed(change, tmp_path):
    """It raises: the process is not killed, and no other token comes back without a check."""
    axis, path = raw(tmp_path, IDS, "<u2"), tmp_path / "x"
    dataset = Dataset(Joined([axis]), Bounds(ArrayAxis(np.array([0, 5, 9]))))
    assert dataset[1].tolist() == IDS[5:]
    if change == "cut":
        os.truncate(path, len(HEAD) + 6)
        for read in (lambda: dataset[1], lambda: axis.tokens(4, 9), lambda: list(dataset.batches())):
            with pytest.raises(TruncatedError):
                read()
    elif change == "longer":
        with open(path, "ab") as file:
            file.write(b"x")
    elif change == "other":
        path.unlink()
        path.write_bytes(HEAD + bytes(18))
    else:
        path.unlink()
    dataset.close()
    with pytest.raises(FormatError):
        axis.tokens(4, 9)


def indexed(tmp_path, count, length=5, eos=7):
    tokens = np.arange(count * length, dtype="<u2") % 1000 + 300
    tokens[length - 1 :: length] = eos
    tokens.tofile(tmp_path / "tokens")
    (np.arange(count + 1, dtype="<i8") * length).tofile(tmp_path / "index")
    index = RawAxis(open_file(tmp_path / "index"), 0, count + 1, "<i8")
    return Dataset(RawAxis(open_file(tmp_path / "tokens"), 0, len(tokens), "<u2"), Bounds(index)), tokens


def test_what_is_read_when(tmp_path):
    """Opening reads nothing. One sequence takes one read of the index and one of its tokens; so does a batch."""
    with asked_of(tmp_path) as asked:
        dataset, tokens = indexed(tmp_path, 10_000)
        assert asked.reads == []
        dataset = Dataset(dataset.axis, Ended(dataset.spans, 7), Gap(7))
        assert dataset[4000].tolist() == tokens[20_000:20_004].tolist()
        assert asked.reads == [("index", 32_000, 16), ("tokens", 40_000, 10)]
        asked.reads.clear()
        (batch,) = dataset.batches(first=100, last=200)
        assert [one[0] for one in asked.reads] == ["index", "tokens"]
        assert batch.content()[0].tolist() == [t for t in tokens[500:1000].tolist() if t != 7]
        asked.reads.clear()
        decide(dataset)
        assert asked.bytes_of() < 10_000 * 18


def test_one_request_for_each_sequence_in_a_store(tmp_path):
    """Extents first: no token is asked for to find out where a content ends."""
    _, tokens = indexed(tmp_path, 1000)
    store = Counting({name: (tmp_path / name).read_bytes() for name in ("tokens", "index")})
    register_store("axes", lambda _: store)
    tokens_axis = RawAxis(open_file(place_of("axes://b/tokens")), 0, len(tokens), "<u2")
    index = ArrayAxis(np.arange(1001) * 5)
    dataset = Dataset(tokens_axis, Ended(Bounds(index), 7), Gap(7))
    for number in (0, 500, 999):
        store.calls = 0
        assert dataset[number].tolist() == tokens[5 * number : 5 * number + 4].tolist()
        assert store.calls == 1
    store.calls = 0
    assert len(list(dataset.batches())) == 1
    assert store.calls == 1
    store.calls = 0
    far = dataset.take(np.array([900, 3, 500]))
    (batch,) = far.batches()
    assert batch.content()[0].tolist() == [t for k in (900, 3, 500) for t in tokens[5 * k : 5 * k + 4].tolist()]
    assert store.calls == 1


def test_memory_and_pickles_do_not_grow_with_sequences(tmp_path):
    """An index stays in its file: nothing is held per sequence, and paths and numbers go to a worker."""
    dataset, tokens = indexed(tmp_path, 1 << 20)
    dataset = decide(dataset)
    assert len(pickle.dumps(dataset)) < 4000
    tracemalloc.start()
    laid = Laid(dataset, Boundaries(9))
    total = 0
    for batch in dataset.batches(1 << 16):
        total += len(batch.laid_out(Boundaries(9)).tokens)
    for part in laid.walk(0, 3 << 16):
        total += 0 * len(part)
    dataset[12345]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == len(tokens) == laid.length
    assert peak < 24 << 20
    assert len(laid.bases) == (1 << 20) // 4096 + 1


def test_listed_starts_of_a_file(tmp_path):
    """Pointers in bytes and lengths, as Megatron's index has them, each in its own order."""
    tokens = raw(tmp_path, IDS, "<u2", "tokens")
    pointers, lengths = raw(tmp_path, [12, 0, 0, 8], "<i8", "pointers"), raw(tmp_path, [3, 2, 2, 0], "<i4", "lengths")
    dataset = Dataset(tokens, Listed(pointers, lengths, 2))
    assert [dataset[k].tolist() for k in range(4)] == [[127, 5, 7], [0, 1], [0, 1], []]
    assert dataset.spans.at(tokens.find(tmp_path / "tokens", len(HEAD) + 2 * 7)) == 0
    assert dataset.spans.at(tokens.find(tmp_path / "tokens", len(HEAD) + 2 * 3)) is None
