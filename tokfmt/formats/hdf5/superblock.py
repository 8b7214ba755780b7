"""The superblock of an HDF5 file, field by field, read from its bytes alone.

    version 0 and 1                                    version 2 and 3
    0   8  signature                                   0   8  signature
    8   1  version                                     8   1  version
    13  1  bytes of an offset                          9   1  bytes of an offset
    14  1  bytes of a length                           10  1  bytes of a length
    16  2  K of group leaves                           11  1  consistency flags
    18  2  K of group nodes                            12  8  base address
    20  4  consistency flags                           20  8  address of the extension
    24  8  base address (version 1: 28)                28  8  end of the file
    32  8  free space (36)                             36  8  address of the root group
    40  8  end of the file (44)                        44  4  checksum
    48  8  driver information (52)
    56  .. root group: name, address of its header (60)

Source: the HDF5 file format specification, version 3.
"""

from __future__ import annotations

from tokfmt.core.files import File
from tokfmt.core.inside import Field
from tokfmt.core.sections import shown
from tokfmt.formats.hdf5.container import SIGNATURE

_OLD = (("free space", 8), ("end of the file", 16), ("driver information", 24), ("root group", 40))
_NEW = (("extension", 20), ("end of the file", 28), ("root group", 36))
_UNDEFINED = (1 << 64) - 1


def superblock_fields(file: File) -> list[Field]:
    """The fields, as far as the file goes and the version is known."""
    head = file.read(0, min(file.size, 96))
    signed = head.startswith(SIGNATURE)
    lead = shown(head[:8].decode("latin-1")) or "nothing"
    fields = [
        Field("signature", 0, min(8, len(head)), lead, "" if signed else "should be \\x89HDF\\r\\n\\x1a\\n", not signed)
    ]
    if not signed or len(head) < 16:
        return fields if len(head) >= 16 or not signed else [*fields, _cut(len(head))]
    version = head[8]
    known = version in (0, 1, 2, 3)
    fields.append(Field("version", 8, 1, str(version), "" if known else "should be 0, 1, 2 or 3", not known))
    if not known:
        return fields
    sizes = (13, 14) if version < 2 else (9, 10)
    for name, at in zip(("offset size", "length size"), sizes, strict=True):
        fields.append(Field(name, at, 1, str(head[at]), "bytes", head[at] not in (2, 4, 8)))
    if head[sizes[0]] != 8:
        return fields
    shift = 4 if version == 1 else 0
    if version < 2:
        for name, at in (("K of group leaves", 16), ("K of group nodes", 18)):
            fields.append(_number(head, name, at, 2))
        fields.append(_number(head, "consistency flags", 20, 4))
    else:
        fields.append(_number(head, "consistency flags", 11, 1))
    places = [("base address", 24 + shift), *((name, 24 + shift + at) for name, at in _OLD)]
    for name, at in places if version < 2 else (("base address", 12), *_NEW):
        fields.append(_address(file, head, name, at))
    return fields if version < 2 else [*fields, _number(head, "checksum", 44, 4)]


def _number(head: bytes, name: str, at: int, size: int) -> Field:
    value = int.from_bytes(head[at : at + size], "little")
    return Field(name, at, size, f"{value:,}") if at + size <= len(head) else _cut(len(head), name)


def _address(file: File, head: bytes, name: str, at: int) -> Field:
    value = int.from_bytes(head[at : at + 8], "little")
    if at + 8 > len(head):
        return _cut(len(head), name)
    if value == _UNDEFINED:
        return Field(name, at, 8, "undefined", "there is none")
    beyond = value > file.size
    meaning = f"beyond the file's {file.size:,} bytes: it was cut" if beyond else "byte address"
    return Field(name, at, 8, f"{value:,}", meaning, beyond)


def _cut(size: int, name: str = "superblock") -> Field:
    return Field(name, size, 0, "nothing", "the file ends inside the superblock", wrong=True)
