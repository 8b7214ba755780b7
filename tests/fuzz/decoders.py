"""Decoders against those of others on damaged chunks and lines: `python tests/fuzz/decoders.py WHAT FIRST COUNT`.

WHAT is blosc (against numcodecs), deflate (the filters of HDF5 chunks, against zlib and numpy), hdf5 (chunks in files, against h5py)
or jsonl (lines, against json). What is damaged is refused with one line, or is what the other one reads: never a crash, memory
beyond a small multiple of a chunk (RLIMIT_AS), or a byte that nobody wrote. Prints a line of JSON a finding, and at the end how
often each outcome was seen; the number of each mutant goes to the file `at` before, as in mutants.py.
"""

import contextlib
import json
import os
import random
import signal
import struct
import sys
import tempfile
import traceback
import warnings
import zlib
from pathlib import Path

import h5py
import mutants
import numcodecs
import numpy as np
from mutants import FIXTURES, INTERESTING, SECONDS, TooSlow, damaged

from tokfmt.errors import FormatError
from tokfmt.formats import codecs
from tokfmt.formats.codecs import Stored
from tokfmt.formats.hdf5.stored import open_hdf5
from tokfmt.formats.hdf5_arrays.places import DEFLATE, FLETCHER32, SHUFFLE
from tokfmt.formats.hdf5_arrays.places import FILTERS as NAMES
from tokfmt.formats.jsonl.lines import lines_of
from tokfmt.formats.jsonl.parse import DEEPEST, LARGEST_ID, IdTooLarge, OtherFields, Parser, Validator

MEMORY = 64 << 20
CHUNK = 1 << 14  # items


class DiffersError(Exception):
    """Not what the other decoder says."""


def same(found, expected, what):
    if found is None or bytes(found) != bytes(expected):
        raise DiffersError(what)


def refusal(error):
    assert "\n" not in str(error), repr(str(error))
    return type(error).__name__


def pokes(content, rng, most):
    """A few bytes changed, and no size: mostly of the first ones, where headers are; or damage of any other kind."""
    if rng.random() < 0.2:
        return damaged(content, rng)
    content = bytearray(content)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(min(len(content), rng.choice([16, 64, most, len(content)])))
        content[at] = rng.choice([content[at] ^ (1 << rng.randrange(8)), rng.randrange(256), rng.choice(INTERESTING)])
    return bytes(content)


# blosc


def blosc_seeds():
    """(chunk, its decoded size, item size) of every codec, shuffle and block size, and of what does not compress."""
    rng, found = np.random.default_rng(1), []
    contents = [np.cumsum(rng.integers(0, 9, CHUNK)).astype("<u4"), rng.integers(0, 2**32, CHUNK).astype("<u4")]
    contents += [np.zeros(CHUNK, "<u4"), np.arange(CHUNK, dtype="<i8") * 600]
    for items in contents:
        for name in ("lz4", "lz4hc", "blosclz", "zlib", "zstd"):
            for shuffle in (0, 1, 2):
                for blocksize in (0, 1 << 12, 1 << 14):
                    codec = numcodecs.Blosc(name, 5, shuffle, blocksize)
                    found.append((bytes(codec.encode(items)), items.nbytes, items.itemsize))
    return found


def blosc_mutant(rng, seeds, home):
    raw, nbytes, itemsize = rng.choice(seeds)
    data = pokes(raw, rng, 16 + 4 * 32)
    if len(data) >= 16 and rng.random() < 0.5:  # what the header is checked for is right, whatever else is not
        data = data[:4] + struct.pack("<I", nbytes) + data[8:12] + struct.pack("<I", len(data)) + data[16:]
    blob, results = Stored(Path("c"), data, 0, len(data)), []
    for filler in (0, 0xFF):
        out = np.full(nbytes, filler, np.uint8)
        try:
            codecs.decode_blosc(blob, itemsize, out)
        except FormatError as error:
            results.append(refusal(error))
        else:
            results.append(out.tobytes())
    same(*[r.encode() if isinstance(r, str) else r for r in results], "bytes that nobody wrote")  # type: ignore[call-arg]
    whole = results[0]
    if not isinstance(whole, str):
        same(whole, numcodecs.blosc.decompress(data), "numcodecs")
    items = nbytes // itemsize
    start = rng.randrange(items)
    stop = min(items, start + rng.choice([1, 9, 100, items]))
    parts = [blosc_part(blob, nbytes, itemsize, start, stop, filler) for filler in (0, 0xFF)]
    if isinstance(parts[0], str):
        assert parts[0] == parts[1]
        return parts[0] if isinstance(whole, str) else "data"
    if parts[0] is not None:
        same(*parts, "a part with bytes that nobody wrote")  # type: ignore[call-arg]
        if not isinstance(whole, str):
            same(parts[0], whole[start * itemsize : stop * itemsize], "a part of it")
    return whole if isinstance(whole, str) else "data"


def blosc_part(blob, nbytes, itemsize, start, stop, filler):
    """Some items, decoded without the rest; name of the error, or None: only all of it can be decoded."""
    codecs.stored_buffer(blob.size)[:] = filler
    codecs._buffers.planes[:] = filler
    try:
        part = codecs.decode_blosc_part(
            blob, codecs.blosc_frame(blob, nbytes, itemsize), start * itemsize, stop * itemsize
        )
    except FormatError as error:
        return refusal(error)
    return None if part is None else part.tobytes()


# the filters of HDF5


def stored_by(content, filters, itemsize):
    """Bytes as HDF5's filters leave them; its Fletcher checksum by the definition."""
    for number in filters:
        if number == SHUFFLE:
            content = np.frombuffer(content, np.uint8).reshape(-1, itemsize).T.tobytes()
        elif number == DEFLATE:
            content = zlib.compress(content, 4)
        else:
            content += fletcher(content)
    return content


def fletcher(content):
    first = second = 0
    for (word,) in struct.iter_unpack(">H", content + bytes(len(content) % 2)):
        first = (first + word) % 65535
        second = (second + first) % 65535
    return struct.pack("<I", second << 16 | first)


def unstored(stored, filters, nominal, itemsize):
    """The chunk, or None when it is damaged."""
    for number in reversed(filters):
        if number == SHUFFLE:
            if len(stored) % itemsize:
                return None
            stored = np.frombuffer(stored, np.uint8).reshape(itemsize, -1).T.tobytes()
        elif number == DEFLATE:
            stream = zlib.decompressobj()
            try:
                stored = stream.decompress(stored, 2 * nominal)
            except zlib.error:
                return None
            if not stream.eof:
                return None
        else:
            if len(stored) < 4 or fletcher(stored[:-4]) != stored[-4:]:
                return None
            stored = stored[:-4]
    return stored if len(stored) == nominal else None


FILTERS = [(DEFLATE,), (SHUFFLE, DEFLATE), (DEFLATE, FLETCHER32), (SHUFFLE, DEFLATE, FLETCHER32), (FLETCHER32,)]
ITEMS = 96


def deflate_seeds():
    rng = np.random.default_rng(2)
    contents = [rng.integers(0, top, ITEMS).astype("<i4").tobytes() for top in (2**31 - 1, 50_000, 2)]
    found = [(stored_by(c, filters, 4), filters, c) for c in contents for filters in FILTERS]
    bombs = [(zlib.compress(bytes(1 << 28), 9), (DEFLATE,)), (zlib.compress(bytes(4 * ITEMS + 4)), (SHUFFLE, DEFLATE))]
    return found + [(stored, filters, b"") for stored, filters in bombs]


def deflate_mutant(rng, seeds, home):
    stored, filters, content = rng.choice(seeds)
    stored, mask = pokes(stored, rng, 64), rng.choice([0, 0, 0, 1, 2, 4, 7])
    applied = [number for k, number in enumerate(filters) if not mask >> k & 1]
    expected = unstored(stored, applied, 4 * ITEMS, 4)
    try:
        names = [NAMES[number] for number in reversed(applied)]
        found = codecs.decode(Stored(Path("x.h5"), stored, 0, len(stored)), names, 4 * ITEMS, 4)
    except FormatError as error:
        if expected is not None:
            raise DiffersError(f"zlib decodes it: {error}") from error
        return refusal(error)
    if expected is None and found.tobytes() == content:
        return (
            "data"  # libdeflate takes the codes 286 and 287 for 285, which zlib refuses; what they stand for is right
        )
    same(found.tobytes(), expected if expected is not None else b"", "zlib")
    return "data"


def hdf5_seeds():
    return deflate_seeds()[:-2]


def hdf5_mutant(rng, seeds, home):
    """A file of four samples, one of which has a damaged chunk, or a wrong filter mask."""
    path = home / "x.h5"
    filters = rng.choice(FILTERS)
    with h5py.File(path, "w") as file:
        how = {"compression": "gzip" if DEFLATE in filters else None, "shuffle": SHUFFLE in filters}
        shape = (1, 3, ITEMS // 3)
        data = file.create_dataset(
            "data", (4, *shape[1:]), "<i4", chunks=shape, fletcher32=FLETCHER32 in filters, **how
        )
        chunks = [(stored, content) for stored, applied, content in seeds if applied == filters]
        hit, undamaged = rng.randrange(4), b""
        for row in range(4):
            (chunk, content), mask = rng.choice(chunks), 0
            undamaged += content
            if row == hit:
                chunk, mask = pokes(chunk, rng, 64) or b"x", rng.choice([0, 0, 0, 1, 2, 4, 7])
            data.id.write_direct_chunk((row, 0, 0), chunk, filter_mask=mask)
    try:
        table = open_hdf5(path).table
        found = np.array(table.rows(0, 4))
        table.close()
    except FormatError as error:
        return refusal(error)
    try:
        with h5py.File(path) as file:
            expected = file["data"][:].tobytes()
    except OSError:
        expected = undamaged  # as above: zlib refuses a code that stands for the right thing
    same(found.tobytes(), expected, "h5py")
    return "data"


# lines


def jsonl_seeds():
    lines = (FIXTURES / "jsonl" / "corpus.jsonl").read_bytes().splitlines()[:40]
    lines += [b'{"input_ids": [%s]}' % b", ".join(b"%d" % (i * 7919 % 50_000) for i in range(n)) for n in (0, 1, 5, 40)]
    lines += [b'{"text": "a", "text": "b"}', b'{"text": "a", "x": NaN, "y": -Infinity, "z": 1e999}', b'{"text": NaN}']
    lines += [
        b'{"text": "\\ud83d\\ude42"}',
        b'{"text": "\\ud83d"}',
        b'{"text": "a", "x": "\\udc00"}',
        b'"a"',
        b"[1]",
        b" ",
    ]
    lines += [
        b'{"text": "\xf0\x9f\x99\x82"}',
        b'{"text": "\xed\xa0\xbd"}',
        b'{"input_ids": [4294967295, 4294967296, -1]}',
    ]
    for levels in (DEEPEST - 2, DEEPEST - 1, DEEPEST, 5000):
        lines += [b'{"text": "a", "x": %s1%s}' % (b"[" * levels, b"]" * levels), b'{"text": "%s"}' % (b"[" * levels)]
        lines += [b'{"input_ids": [1], "x": %s1%s}' % (b'{"a":' * levels, b"}" * levels)]
    return lines


WORDS = [
    b"NaN", b"Infinity", b"\\ud800", b"\\udfff", b'"text":', b'"input_ids":', b"null", b"1e5", b"01", b"-0", b"4294967296",
    b"9" * 30, b"9" * 4400, b"\xc3\xa9", b"\xed\xa0\x80", b"\xff", b"\xef\xbb\xbf", b"\\u0000", b"\t", b"\x00", b"\x7f", b"\r", b"{", b"}", b"[",
    b"]", b",", b":", b'"', b"\\", b" ", b"[" * 300, b"]" * 300, b'{"a":' * 600,
]  # fmt: skip


def mutated(line, rng):
    for _ in range(rng.choice([0, 1, 1, 1, 2, 4])):
        at, kind = rng.randrange(len(line) + 1), rng.randrange(4)
        if kind == 0:
            line = line[:at] + rng.choice(WORDS) + line[at:]
        elif kind == 1:
            line = line[:at] + line[at + rng.choice([1, 1, 2, 9]) :]
        elif kind == 2:
            there = rng.randrange(len(line) + 1)
            line = line[:at] + line[there : there + rng.choice([1, 6, 40])] + line[at:]
        elif line:
            line = line[: at - 1] + bytes([rng.choice([rng.randrange(256), *INTERESTING])]) + line[at:]
    return line.replace(b"\n", b" ")


def deep(text):
    """Whether lists and objects stand in one another beyond the cap: a scan of its own."""
    depth = most = 0
    inside = skip = False
    for character in text:
        if skip:
            skip = False
        elif inside:
            skip, inside = character == "\\", character != '"'
        elif character == '"':
            inside = True
        else:
            depth += (character in "[{") - (character in "]}")
            most = max(most, depth)
    return most > DEEPEST


def record_of(line, kind, field, others):
    """What json makes of a line: the value, or the name of what is wrong."""
    try:
        text = line.decode("utf-8")
        record = (
            "too deep" if deep(text) else json.loads(text, parse_int=lambda s: int(s) if len(s) < 30 else -(10**30))
        )
    except ValueError:
        return "fault"
    if not isinstance(record, dict) or field not in record:
        return "fault"
    value = record[field]
    if kind == "text":
        wrong = not isinstance(value, str) or any(0xD800 <= ord(c) < 0xE000 for c in value)
    else:
        wrong = not isinstance(value, list)
        for token in () if wrong else value:
            if type(token) is not int or (token < 0 and token != -(10**30)):
                return "fault"
            if token > LARGEST_ID or token < 0:
                return "large"
    return "fault" if wrong else value if others or len(record) == 1 else "others"


def is_json(line):
    try:
        text = line.decode("utf-8").removeprefix("\ufeff")
        return not deep(text) and json.loads(text) is not ...
    except ValueError:
        return False


def jsonl_mutant(rng, seeds, home):
    lines = [mutated(rng.choice(seeds), rng) for _ in range(rng.choice([1, 1, 2, 5]))]
    data, outcome = b"\n".join(lines) + b"\n", "data"
    chunk, lines = lines_of(None, data, 99), [line.removesuffix(b"\r") for line in lines]
    kind, field = rng.choice([("text", "text"), ("ids", "input_ids")])
    others = rng.random() < 0.8
    parsed = Parser(kind, (field,), others)(chunk)
    kept = range(len(lines)) if parsed.kept is None else parsed.kept
    found = dict(zip(kept, parsed.values, strict=True))
    for index, problem in parsed.problems:
        found[index] = {OtherFields: "others", IdTooLarge: "large"}.get(type(problem), "fault")
        outcome = "refused"
    for index, line in enumerate(lines):
        expected = record_of(line, kind, field, others)
        negative = (
            expected == "large" and found[index] == "fault" and b"-" in line
        )  # a negative one of very many digits
        if found[index] != expected and not negative:
            raise DiffersError(f"{line[:200]!r}: {str(found[index])[:80]!r}, json {str(expected)[:80]!r}")
    refused = {index for index, _ in Validator().faults(chunk)}
    for index, line in enumerate(lines):
        if (index in refused) == is_json(line):
            raise DiffersError(f"{line[:200]!r}: valid for {'json' if index in refused else 'us'} alone")
    return outcome


WHAT = {
    "blosc": (blosc_seeds, blosc_mutant),
    "deflate": (deflate_seeds, deflate_mutant),
    "hdf5": (hdf5_seeds, hdf5_mutant),
    "jsonl": (jsonl_seeds, jsonl_mutant),
}


def main(what, first, count):
    warnings.simplefilter("error")
    make, mutant = WHAT[what]
    seeds, outcomes = make(), {}
    mutants.MEMORY = MEMORY
    with tempfile.TemporaryDirectory() as home:
        for number in range(-20, 0):  # what is imported or built at first use is not the mutants'
            with contextlib.suppress(DiffersError):
                mutant(random.Random(number), seeds, Path(home))
        mutants.limited(mutants.MEMORY)
        for number in range(first, first + count):
            Path(os.environ["AT"]).write_text(str(number))
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                outcome = mutant(random.Random(f"{what} {number}"), seeds, Path(home))
                outcomes[outcome] = outcomes.get(outcome, 0) + 1
            except (Exception, TooSlow) as error:
                where = " ".join(traceback.format_exception(error)[-4:])
                print(json.dumps({"mutant": number, "error": repr(error)[:400], "where": where[-1500:]}))
            signal.setitimer(signal.ITIMER_PROF, 0)
    # not ru_maxrss: that counts the process this one was forked from as well
    peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) << 10
    print(json.dumps({"outcomes": outcomes, "peak": peak}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
