"""Records of tf.train.Example, byte by byte."""

import struct

import google_crc32c


def varint(value):
    value %= 2**64
    out = []
    while value > 127:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def field(number, data):
    return varint(number * 8 + 2) + varint(len(data)) + data


def example(**features):
    """An Example with features of integers (a list), of bytes, or of what is given as (number of the kind, message)."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, list):
            value = 3, field(1, b"".join(map(varint, value)))
        elif isinstance(value, bytes):
            value = 1, field(1, value)
        entries += field(1, field(1, name.encode()) + field(2, field(*value)))
    return field(1, entries)


def sealed(data):
    """The masked CRC-32C of bytes."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32)


def framed(*records):
    """A TFRecord file of records."""
    out = b""
    for data in records:
        length = struct.pack("<Q", len(data))
        out += length + sealed(length) + data + sealed(data)
    return out
