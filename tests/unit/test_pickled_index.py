"""The index codec against pickle itself: equal on every valid stream, refused or equal on every other."""

import io
import itertools
import pickle
import pickletools
import random
import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest
from amount import MUTATIONS, examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reads import asked_of

from tokfmt.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.files.file import File
from tokfmt.formats.pickled_index import EntryTable, entry_position, read_entries, write_entries

SAFE = {
    "PROTO", "FRAME", "EMPTY_LIST", "MARK", "APPEND", "APPENDS", "BININT1", "BININT2", "BININT", "LONG1", "TUPLE2",
    "MEMOIZE", "BINPUT", "LONG_BINPUT", "STOP",
}  # fmt: skip
PYTHON: Any = getattr(pickle, "_dumps")  # noqa: B009 - what pickle writes without its C module
QUICK = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))


def encode(entries, batch=777):
    table = np.array(entries, np.int64).reshape(-1, 2)
    parts = [(table[i : i + batch, 0], table[i : i + batch, 1]) for i in range(0, len(table), batch)]
    return b"".join(write_entries(len(table), parts))


class Held:
    """Stands in for a File: bytes in memory, which thousands of streams are quicker in."""

    path = "x.idx"

    def __init__(self, content):
        self.content, self.size = content, len(content)

    def read(self, offset, length):
        assert offset >= 0
        assert offset + length <= self.size
        return self.content[offset : offset + length]


def decode(stream, before=b"", signed=True, most=None):
    start, stop = len(before), len(before) + len(stream)
    found = []
    entries = read_entries(
        Held(before + stream + b"after"), start, stop, len(stream) if most is None else most, signed=signed
    )
    for offsets, lengths in entries:
        assert offsets.dtype == lengths.dtype == np.int64
        assert len(offsets) == len(lengths) > 0
        found += zip(offsets.tolist(), lengths.tolist(), strict=True)
    return found


def apart(entries):
    """The same entries as objects of their own, as a packer has them: no references in the pickle."""
    return [(a + 0, b + 0) for a, b in entries]


def pack(count, width=2, spread=2000, seed=0, start=0):
    rng = random.Random(seed)
    entries, at = [], start
    for _ in range(count):
        length = width * rng.randint(1, spread)
        entries.append((at, length))
        at += length
    return entries


def test_every_border_of_a_frame():
    """Entries are dropped and widened one by one, so that the 64 KiB border falls on every place in an entry."""
    for count in range(5440, 5480):
        entries = pack(count, spread=200, start=70_000)
        stream = pickle.dumps(entries, 4)
        assert encode(entries) == stream
        assert decode(stream) == entries
    for lead in range(1, 40):
        entries = pack(lead, spread=60) + pack(12_000, spread=40_000, start=66_000, seed=lead)
        stream = pickle.dumps(entries, 4)
        assert encode(entries, batch=lead * 31) == stream
        assert decode(stream) == entries


def test_short_last_frames():
    """The last frame may hold no more than one integer and STOP."""
    seen = set()
    for count in range(10_912, 10_922):
        for wide in range(6):
            entries = [(300, 300) if i < wide else (1, 2) for i in range(count)]
            stream = pickle.dumps(apart(entries), 4)
            assert encode(entries) == stream
            assert decode(stream) == entries
            last = stream.rindex(b"\x95")
            seen.add(len(stream) - last - 9)
    assert min(seen) == 6, seen
    assert max(seen) > 65_536


@pytest.mark.parametrize(
    "value",
    [0, 1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**39 - 1, 2**39, 2**47 - 1, 2**47, 2**55, 2**63 - 1],
)
def test_integers(value):
    entries = apart([(value, 3), (5, value), (value, value)] * 700)
    stream = pickle.dumps(entries, 4)
    assert encode(entries) == stream
    assert decode(stream, signed=False) == entries


@pytest.mark.parametrize("value", [-1, -12, -255, -65536, -(2**31), -(2**31) - 1, -(2**39), -(2**39) - 1, -(2**63)])
def test_negative_offsets(value):
    entries = pack(500) + [(value, 7)] + pack(500)
    stream = pickle.dumps(entries, 4)
    assert encode(entries) == stream
    assert decode(stream) == entries
    with pytest.raises(CorruptError, match="index entry 500 holds a number that is not an offset or length"):
        decode(stream, signed=False)
    with pytest.raises(CorruptError, match="index entry 500 "):
        decode(pickle.dumps([(b, a) for a, b in entries], 4))


def test_tuple_bytes_inside_integers():
    """86 94 ends every entry, and here it stands in every integer as well."""
    for offset in (0x9486, 0x948694, 0x86948694, 0x94869486, 0x9486948694, 0x65_94_86, 0x28_65_94_86):
        for length in (0x9486, 0x86, 0x94, 0x948600, 0x94860000 >> 1):
            entries = apart([(offset, length), (length, offset), (offset + 1, length + 1)] * 500)
            stream = pickle.dumps(entries, 4)
            assert decode(stream) == entries
            assert encode(entries) == stream


ENTRIES = st.one_of(
    st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)), max_size=40),
    st.builds(
        lambda pairs, times: pairs * times,
        st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**17)), min_size=1, max_size=9),
        st.sampled_from([1, 120, 1001, 9000]),
    ),
)


@QUICK
@given(entries=ENTRIES, cuts=st.lists(st.integers(1, 400), min_size=1, max_size=40))
def test_frames_anywhere(entries, cuts):
    """Frames begin at any opcode border."""
    body = pickletools.optimize(pickle.dumps(apart(entries[:3000]), 3))
    borders = [at for _, _, at in pickletools.genops(body)][1:] + [len(body)]
    stream, k, i = b"\x80\x04", 0, 0
    while borders[k] < len(body):
        m = min(len(borders) - 1, k + cuts[i % len(cuts)])
        piece = body[borders[k] : borders[m]]
        stream += (b"\x95" + struct.pack("<Q", len(piece)) if i % 3 else b"") + piece
        k, i = m, i + 1
    assert decode(stream) == entries[:3000] == pickle.loads(stream)


# what is refused

HEAD = b"\x80\x04\x5d\x94\x28"
ONE = b"K\x01K\x02\x86\x94"
REFUSED = {
    "nothing": (b"", CorruptError, "is not a pickled index"),
    "one byte": (b"\x80", CorruptError, "is not a pickled index"),
    "protocol 0": (pickle.dumps([(1, 2)], 0), CorruptError, "is not a pickled index"),
    "protocol 1": (b"\x80\x01]q\0.", UnsupportedError, "pickle protocol of the index at byte \\d+: expected 2 to 5"),
    "protocol 6": (b"\x80\x06]\x94.", UnsupportedError, "expected 2 to 5, found 6"),
    "two headers": (b"\x80\x04\x80\x04]\x94.", CorruptError, r"a second protocol header \(PROTO\)"),
    "no list": (b"\x80\x04K\x01.", CorruptError, "expected a list"),
    "dict": (pickle.dumps({1: 2}, 4), CorruptError, r"found a dict \(EMPTY_DICT\)"),
    "tuple": (pickle.dumps(((1, 2),), 4), CorruptError, "found an integer"),
    "set": (pickle.dumps({1}, 4), CorruptError, "found a set"),
    "list of ints": (pickle.dumps([1, 2], 4), CorruptError, "expected an integer, the length of the entry|TUPLE2"),
    "list of one int": (pickle.dumps([1], 4), CorruptError, "the length of the entry, found the end of a single"),
    "tuples of one": (pickle.dumps([(1,), (2,)], 4), CorruptError, r"found a tuple of one \(TUPLE1\)"),
    "tuples of three": (pickle.dumps([(1, 2, 3)], 4), CorruptError, r"\(TUPLE2\), found an integer"),
    "tuples of none": (pickle.dumps([(), ()], 4), CorruptError, "found an empty tuple"),
    "lists": (pickle.dumps([[1, 2], [3, 4]], 4), CorruptError, r"found a list \(EMPTY_LIST\)"),
    "nested lists": (b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".", CorruptError, r"found a list"),
    "nested marks": (b"\x80\x04]" + b"(" * 100_000 + b".", CorruptError, "found MARK"),
    "floats": (pickle.dumps([(1.0, 2.0)], 4), CorruptError, r"found a decimal number \(BINFLOAT\)"),
    "texts": (pickle.dumps([("a", "b")], 4), CorruptError, r"found a text \(SHORT_BINUNICODE\)"),
    "bytes": (pickle.dumps([(b"a", 1)], 4), CorruptError, r"found bytes \(SHORT_BINBYTES\)"),
    "bytearray": (pickle.dumps([(bytearray(9), 1)], 5), CorruptError, r"found bytes \(BYTEARRAY8\)"),
    "True": (pickle.dumps([(True, 1)], 4), CorruptError, r"found True \(NEWTRUE\)"),
    "False": (pickle.dumps([(1, False)], 4), CorruptError, r"found False \(NEWFALSE\)"),
    "None": (pickle.dumps([(None, 1)], 4), CorruptError, r"found None \(NONE\)"),
    "None in the list": (pickle.dumps([(1, 2), None], 4), CorruptError, r"index entry 1 at byte \d+: .* found None"),
    "a pair twice": (pickle.dumps([(300, 4)] * 2, 4)[:19] + b"h\x01e.", CorruptError, "reference|frame"),
    "BINGET": (HEAD + ONE + b"h\x01e.", CorruptError, r"found a reference to an earlier object \(BINGET\)"),
    "LONG_BINGET": (HEAD + ONE + b"j\1\0\0\0e.", CorruptError, r"found .* \(LONG_BINGET\)"),
    "GLOBAL": (b"\x80\x04]\x94(cos\nsystem\ne.", UnsafeError, "the pickle opcode GLOBAL, which imports a name, at byte"),
    "STACK_GLOBAL": (HEAD + b"\x93e.", UnsafeError, "STACK_GLOBAL, which imports a name"),
    "os.system": (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.", CorruptError, "found a text"),
    "print": (pickle.dumps([(print, 1)], 2), UnsafeError, "GLOBAL, which imports a name"),
    "REDUCE": (HEAD + b"R.", UnsafeError, "REDUCE, which calls a function"),
    "REDUCE first": (b"\x80\x04R.", UnsafeError, "REDUCE, which calls a function"),
    "INST": (HEAD + b"ios\nsystem\n.", UnsafeError, "INST"),
    "OBJ": (HEAD + b"o.", UnsafeError, "OBJ, which creates an object"),
    "BUILD": (HEAD + ONE + b"b.", UnsafeError, "BUILD, which changes an object"),
    "NEWOBJ": (HEAD + b"\x81.", UnsafeError, "NEWOBJ, which"),
    "NEWOBJ_EX": (HEAD + b"\x92.", UnsafeError, "NEWOBJ_EX"),
    "EXT1": (HEAD + b"\x82\x01.", UnsafeError, "EXT1"),
    "EXT4": (HEAD + b"\x84\1\0\0\0.", UnsafeError, "EXT4"),
    "PERSID": (HEAD + b"Pabc\n.", UnsafeError, "PERSID"),
    "BINPERSID": (HEAD + b"Q.", UnsafeError, "BINPERSID"),
    "NEXT_BUFFER": (HEAD + b"\x97.", UnsafeError, "NEXT_BUFFER, which asks the program for memory"),
    "LONG4": (HEAD + b"\x8b\xff\xff\xff\x7f" + ONE + b"e.", UnsafeError, "LONG4, which holds an integer of up to 2 GiB"),
    "giant memo": (HEAD + b"K\1K\2\x86r\xff\xff\xff\x7fe.", UnsafeError, "a memo index of at most 1, found 2,147,483,647"),
    "giant memo of the list": (b"\x80\x02]r\xff\xff\xff\xff.", UnsafeError, "makes unpicklers allocate unused memory"),
    "2^63": (pickle.dumps([(2**63, 1)], 4), CorruptError, "expected 0 to 2.63-1, found one of 64 bits"),
    "2^2000": (pickle.dumps([(1, 2**2000)], 4), CorruptError, "found one of 2,001 bits"),
    "LONG": (HEAD + b"L12345L\nK\2\x86e.", CorruptError, r"found an integer as text \(LONG\)"),
    "INT": (HEAD + b"I01\nK\2\x86e.", CorruptError, r"found an integer as text \(INT\)"),
    "no opcode": (HEAD + b"\xee.", CorruptError, "found the byte ee, which is not a pickle opcode"),
    "batch not ended": (HEAD + ONE + b".", CorruptError, r"found the end of the pickle \(STOP\)"),
    "end of no batch": (b"\x80\x04]\x94e.", CorruptError, r"found the end of a batch \(APPENDS\)"),
    "single without APPEND": (b"\x80\x04]\x94" + ONE + b".", CorruptError, "expected APPEND after a single entry"),
    "trailing": (pickle.dumps([(1, 2)], 4) + b"\0", CorruptError, "the pickled index ends before the file does at byte .* found 1 more bytes"),
    "two pickles": (pickle.dumps([(1, 2)], 4) * 2, CorruptError, "nothing after its STOP, found 21 more bytes"),
    "frame too long": (b"\x80\x04\x95" + struct.pack("<Q", 999) + b"]\x94.", CorruptError, "is longer than the file"),
    "frame of 2^64": (b"\x80\x04\x95" + b"\xff" * 8 + b"]\x94.", CorruptError, "at most 3 bytes, found 18,446"),
    "frame in a frame": (b"\x80\x04\x95" + struct.pack("<Q", 9) + (b"\x95" + struct.pack("<Q", 3)) + b"]\x94.", CorruptError,
                         "begins inside another"),
    "frame too short": (pickle.dumps([(1, 2)], 4).replace(b"\x95\x0a", b"\x95\x05"), CorruptError, "crosses the end of its"),
    "opcode across frames": (b"\x80\x04\x95" + struct.pack("<Q", 5) + b"]\x94(M\x01\x01K\1\x86\x94e.", CorruptError,
                             "crosses the end of its frame"),
    "frame of nothing": (b"\x80\x04\x95" + struct.pack("<Q", 0), TruncatedError, "ends too early"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    stream, kind, words = REFUSED[name]
    offsets = []
    for before in (b"", b"\x80\x04\x95" * 50):
        with pytest.raises(kind, match=words) as caught:
            decode(stream, before=before)
        assert type(caught.value) is kind
        assert "\n" not in str(caught.value)
        offsets.append(caught.value.offset - len(before))
    assert offsets[0] == offsets[1]
    assert 0 <= offsets[0] <= len(stream)


def test_every_truncation_is_refused():
    for entries in ([], [(1, 2)], pack(30), pack(6000)):
        stream = pickle.dumps(entries, 4)
        for stop in [*range(min(len(stream), 60)), *range(max(0, len(stream) - 60), len(stream)), 65_550, 65_560]:
            if stop < len(stream):
                with pytest.raises(FormatError):
                    decode(stream[:stop])


def test_refused_deep_in_regular_entries():
    """What is wrong in the middle of recognised entries is found, with the byte where it stands."""
    entries = pack(20_000)
    stream = pickle.dumps(entries, 2)
    good = decode(stream)
    assert good == entries
    stream = encode(entries)
    for number in (5, 4999, 5461, 12_345, 19_999):
        at = positions(stream)[number]
        for bad, kind in ((b"c", UnsafeError), (b"G", CorruptError), (b"\x8b", UnsafeError), (b"]", CorruptError)):
            with pytest.raises(kind) as caught:
                decode(stream[:at] + bad + stream[at + 1 :])
            assert caught.value.offset == at


def positions(stream):
    """Where entries begin, by pickletools."""
    found, integers = [], []
    for opcode, _, at in pickletools.genops(stream):
        if opcode.name in {"BININT1", "BININT2", "BININT", "LONG1"}:
            integers.append(at)
        elif opcode.name == "TUPLE2":
            found.append(integers[-2])
    return found


def test_entry_position(tmp_path):
    stream = encode(pack(12_000))
    path = tmp_path / "x.idx"
    path.write_bytes(b"12345" + stream)
    expected = positions(stream)
    for number in (0, 1, 999, 1000, 5460, 5461, 5462, 11_999):
        assert entry_position(File(path), 5, 5 + len(stream), number) == 5 + expected[number]
    with pytest.raises(IndexError):
        entry_position(File(path), 5, 5 + len(stream), 12_000)


def test_at_most():
    for stream in (pickle.dumps(pack(5000), 4), pickle.dumps(pack(5000), 2)):
        assert len(decode(stream, most=5000)) == 5000
        with pytest.raises(
            CorruptError, match="more entries than the file has room for at byte .*: expected at most 4,999"
        ):
            decode(stream, most=4999)


def test_announced_count_must_be_right():
    with pytest.raises(ValueError, match=r"the batches hold 2 entries \(expected 3\)"):
        list(write_entries(3, [(np.array([0, 2]), np.array([2, 2]))]))


# mutations


def mutated(stream, rng):
    stream = bytearray(stream)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(stream)) if stream else 0
        kind = rng.randrange(6)
        if kind == 0 and stream:
            stream[at] = rng.randrange(256)
        elif kind == 1 and stream:
            stream[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            stream[at:at] = bytes([rng.choice(list(b"(aeK.MJ\x86\x94\x95\x8aqr])") + [rng.randrange(256)])])
        elif kind == 3:
            del stream[at : at + rng.choice([1, 1, 2, 6])]
        elif kind == 4:
            there = rng.randrange(len(stream)) if stream else 0
            stream[at:at] = stream[there : there + rng.choice([1, 3, 6, 8, 9])]
        else:
            stream[at : at + 1] = rng.choice(
                [b"K\x05", b"M\x05\x00", b"J\x05\0\0\0", b"\x8a\x01\x05", b"\x8a\x00", b"q\x00"]
            )
    return bytes(stream)


def loaded(stream):
    """What pickle makes of a stream of harmless opcodes; None when it fails, or leaves bytes over."""
    names = [(opcode.name, argument) for opcode, argument, _ in pickletools.genops(stream)]
    assert {name for name, _ in names} <= SAFE
    assert all(argument < 1 << 20 for name, argument in names if name == "LONG_BINPUT")
    source = io.BytesIO(stream)
    value = pickle.load(source)
    assert source.read() == b""
    return value


def test_mutated_streams():
    """Damaged streams, 10,000 of them in `make test`: refused with one sentence, or read exactly as pickle reads them."""
    rng = random.Random(20)
    bases = [
        pickle.dumps(pack(n, spread=400, start=o), p) for n in (0, 1, 2, 9) for o in (0, 66_000, 2**40) for p in (2, 4)
    ]
    bases.append(pickle.dumps(pack(120, start=60_000), 4))
    accepted = 0
    for i in range(MUTATIONS):
        stream = mutated(rng.choice(bases if i % 8 else bases[-1:]), rng)
        try:
            found = decode(stream)
        except FormatError as error:
            assert "\n" not in str(error)
            continue
        assert found == loaded(stream), stream
        accepted += 1
    assert 0.05 < accepted / MUTATIONS < 0.5


def test_mutated_long_streams():
    """The same where most entries are recognised by numpy and frames lie between them."""
    rng = random.Random(21)
    base, accepted = pickle.dumps(pack(7000, spread=30_000), 4), 0
    for _ in range(150):
        stream = mutated(base, rng)
        try:
            found = decode(stream)
        except FormatError:
            continue
        assert found == loaded(stream)
        accepted += 1
    assert accepted > 10


# cost


def test_memory_does_not_grow(tmp_path):
    rng = np.random.default_rng(1)
    peaks = {}
    for count in (100_000, 400_000):
        lengths = rng.integers(2, 4000, count)
        offsets = np.cumsum(lengths) - lengths
        path = tmp_path / f"{count}.idx"
        tracemalloc.start()
        with path.open("wb") as out:
            parts = ((offsets[i : i + 4096], lengths[i : i + 4096]) for i in range(0, count, 4096))
            for piece in write_entries(count, parts):
                out.write(piece)
        writing = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        file = File(path)
        total = sum(len(part[0]) for part in read_entries(file, 0, file.size, count))
        peaks[count] = (writing, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert total == count
    for small, large in zip(peaks[100_000], peaks[400_000], strict=True):
        assert large < 12 << 20
        assert large < 1.3 * small + (1 << 20)


def test_damaged_headers_allocate_nothing():
    for stream in (
        REFUSED["giant memo"][0],
        REFUSED["LONG4"][0],
        REFUSED["frame of 2^64"][0],
        REFUSED["nested lists"][0],
    ):
        tracemalloc.start()
        with pytest.raises(FormatError):
            decode(stream)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4 << 20


# sizes at which CPython changes what it writes: batches of 1,000, frames of 64 KiB, wider integers


@pytest.mark.parametrize("count", [0, 1, 2, 3, 999, 1000, 1001, 1002, 1999, 2000, 2001, 3000, 3001])
def test_batches(count):
    entries = pack(count)
    stream = pickle.dumps(entries, 4)
    assert encode(entries) == stream
    for protocol in (2, 3, 4, 5):
        assert decode(pickle.dumps(entries, protocol)) == entries
        assert decode(PYTHON(entries, protocol), before=b"abc") == entries


@QUICK
@given(entries=ENTRIES, protocol=st.integers(2, 5), how=st.sampled_from(["c", "python", "optimized"]))
def test_valid_streams(entries, protocol, how):
    entries = apart(entries[:12_000])
    stream = {"c": pickle.dumps, "python": PYTHON, "optimized": pickle.dumps}[how](entries, protocol)
    if how == "optimized":
        stream = pickletools.optimize(stream)
    assert decode(stream) == entries == pickle.loads(stream)
    assert encode(entries) == pickle.dumps(entries, 4)


def test_more_entries_than_one_step_of_the_encoder():
    """However many entries are passed at once, on both sides of every step."""
    entries = pack(40_000, spread=30_000)
    stream = pickle.dumps(entries, 4)
    for batch in (1_000, 16_383, 16_384, 16_385, 40_000):
        assert encode(entries, batch=batch) == stream


# stretches of an index


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("entries")


def table_of(home, raw, lead=b"lead"):
    path = home / "index"
    path.write_bytes(lead + raw)
    return EntryTable(File(path), len(lead), len(lead) + len(raw))


numbers = st.one_of(st.integers(0, 300), st.integers(0, 2**33), st.integers(0, 2**55))


def test_lengths_that_sum_to_more_than_an_integer_of_64_bits(home):
    """An index may be damaged in any way, and show and browse still display it."""
    lengths = [1 << 54] * 5000
    found = table_of(home, pickle.dumps([(0, n) for n in lengths], 4))
    assert found.total == sum(lengths)
    assert found.read(0, 5000).before.tolist() == [min(k << 54, 1 << 62) for k in range(5000)]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.data(),
    st.lists(st.tuples(numbers, numbers), max_size=40),
    st.sampled_from([1, 103, 410]),  # a mark lies every 4,096 entries
    st.sampled_from([2, 3, 4, 5]),
)
def test_any_stretch(home, data, entries, times, protocol):
    entries = apart(entries * times)
    found, sums = table_of(home, pickle.dumps(entries, protocol)), [0, *itertools.accumulate(n for _, n in entries)]
    for _ in range(4):
        a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(entries) + 3)] * 2)))
        some = found.read(a, b)
        assert list(zip(some.offsets.tolist(), some.lengths.tolist(), strict=True)) == entries[a:b]
        assert some.before.tolist() == [min(n, 1 << 62) for n in sums[a : min(b, len(entries))]]
    assert (found.count, found.error) == (len(entries), None)
    assert found.total == sums[-1]


@pytest.mark.parametrize("protocol", [2, 4])
def test_many(home, protocol):
    """Several frames, batches and marks; where entries begin and how long they are, by pickletools."""
    entries = [(i * 40_000, i % 70_000) for i in range(20_000)]
    raw = pickle.dumps(entries, protocol)
    found = table_of(home, raw, b"")
    begins, ends, integers = [], [], []
    for opcode, _, at in pickletools.genops(raw):
        if opcode.name in ("BININT", "BININT1", "BININT2", "LONG1"):
            integers.append(at)
            if len(integers) % 2:
                begins.append(at)
        elif opcode.name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            ends.append(at + {"MEMOIZE": 1, "BINPUT": 2, "LONG_BINPUT": 5}[opcode.name])
    ends = ends[1:]  # the list's own memo
    for a, b in ((0, 5), (4090, 4100), (8192, 8193), (19_990, 20_000), (0, 20_000)):
        some = found.read(a, b)
        assert some.offsets.tolist() == [x for x, _ in entries[a:b]]
        assert some.positions.tolist() == begins[a:b]
        for position, end in list(zip(some.positions.tolist(), ends[a:b], strict=True))[:50]:
            assert found.size(position) == end - position


def test_reads_no_further_than_asked(home):
    entries = [(i, 1) for i in range(300_000)]
    with asked_of(home) as asked:
        assert table_of(home, pickle.dumps(entries)).read(10, 12).offsets.tolist() == [10, 11]
    assert 0 < asked.bytes_of("index") < 2 << 20


def test_up_to_the_damage(home):
    raw = bytearray(pickle.dumps([(i, 1) for i in range(2000)]))
    at = next(at for opcode, value, at in pickletools.genops(bytes(raw)) if value == 1234)
    raw[at] = ord("c")  # GLOBAL
    found = table_of(home, bytes(raw))
    assert found.read(1230, 1300).offsets.tolist() == [1230, 1231, 1232, 1233]
    assert found.count == 1234
    assert isinstance(found.error, FormatError) and found.error.offset == 4 + at
    assert np.array_equal(found.read(0, 3).offsets, [0, 1, 2])
