"""Records of tf.train.Example, byte by byte."""


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
