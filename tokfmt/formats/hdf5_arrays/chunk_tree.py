"""Look up chunks of a dataset in its B-tree: all of them, or a few if few of very many rows are read.

The HDF5 library ends the process (SIGSEGV) if a node of the B-tree is its own child. It returns only the whole map, and
asks a store for one node after the other: of a file of 18.8 MB, one sample takes 92 requests and 6.1 MB, and 6 requests
and 0.2 MB with this module. A map of all chunks takes 20 % longer here. This module reads B-trees of version 1; the
library looks up chunks of datasets with any other index, whose nodes have checksums. All numbers are little-endian.

    object header of version 1             of version 2                           message
    0   1  version, 1                      0   4  OHDR                            type     u2   u1
    2   2  number of messages              4   1  version, 2                      size     u2   u2
    8   4  bytes of messages               5   1  flags                           flags    u1   u1
    16  .. messages                        6   16 times, if flags & 32            reserved 3    2 if flags & 4
                                           ..  4  counts, if flags & 16           content
                                           ..  n  bytes of messages, 2^(flags & 3) of them
                                           ..  .. messages

    message 16: continuation               message 8: layout, version 3           node of the B-tree
    0   8  byte offset of more messages    0   1  version                         0   4  TREE
    8   8  their bytes                     1   1  class, 2: chunked               4   1  type, 1: chunks
           (of version 2: between          2   1  rank + 1                        5   1  level, 0: leaf
           OCHK and a checksum)            3   8  root of the B-tree              6   2  n children
                                           11  4  each length of a chunk          24  .. n keys and children, a key more

    key of the B-tree: u4 stored bytes, u4 filter mask, u8[rank + 1] first element
    child of the B-tree: u8 byte offset of a node or a chunk

    message 17: names of a group           node of its tree: as above, of type 0, keys of u8
    0   8  root of their B-tree            leaf: SNOD, u2 at 6 its entries, from 8 on 40 bytes each: u8 at 8 is the
                                           object header, u4 at 16 is 1 for a group

Source: the HDF5 file format specification, version 3.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.reader import windows
from tokfmt.errors import CorruptError
from tokfmt.files.file import File, Held
from tokfmt.files.place import Place
from tokfmt.formats.chunks import ChunkLayout
from tokfmt.formats.hdf5_arrays.places import Found, note, nothing
from tokfmt.wording import printable

_LAYOUT, _CONTINUED, _NAMES = 8, 16, 17  # types of messages
_GROUP = 1  # in a list of names: the object is a group with a tree of its own
_BLOCKS, _LARGEST = 16, 1 << 16  # maximum number of message blocks of a header, and bytes of one
_DEEPEST = 32  # maximum levels of a tree; a tree of 2^48 chunks has 8
_NOWHERE = 1 << 62  # beyond all chunks
_TOGETHER = 1 << 12  # nodes that are read at once: 11 MB
_CHILDREN = 65  # keys of a node that are read at once: writers use nodes of 64 children


@dataclass(frozen=True, slots=True)
class ChunkTree:
    """The B-tree that indexes the chunks of a dataset. Picklable."""

    file: File  # file that holds the tree
    root: int  # byte offset of its root
    rank: int  # number of dimensions of the dataset
    layout: ChunkLayout  # the dataset, [rows, fields, width]
    name: str = "data"  # of the dataset, for messages

    def lookup(self, intervals: Sequence[tuple[int, int]]) -> list[Found]:
        """Return the places of several intervals of chunks, ascending and disjoint.

        The nodes of a level are read together.
        """
        if not intervals:
            return []
        begins, ends = np.array(intervals, np.int64).T
        bounds = np.append(0, np.cumsum(ends - begins))
        found = nothing(int(bounds[-1]))
        nodes = [self.root] if self.root < _NOWHERE else []  # a dataset without chunks has no root
        above, left = _DEEPEST, _DEEPEST * len(intervals) + int(bounds[-1])
        while nodes:
            left -= len(nodes)
            below, deepest = list[int](), 0
            for at, (level, numbers, keys) in zip(nodes, self._nodes(nodes), strict=True):
                if level >= above:
                    raise self._damaged(at)
                deepest = max(deepest, level)
                interval = np.searchsorted(ends, numbers[:-1], side="right")  # the first that ends after its chunk
                begin = np.append(begins, _NOWHERE)[interval]
                if level:
                    below += keys["child"][:-1][begin < numbers[1:]].tolist()
                    if len(below) > left:
                        raise self._damaged(at)
                    continue
                for k in np.flatnonzero(begin <= numbers[:-1]).tolist():
                    slot = int(bounds[interval[k]] + numbers[k] - begin[k])
                    note(found, slot, int(keys["child"][k]), int(keys["size"][k]), int(keys["mask"][k]))
            nodes, above = below, deepest
        places, sizes, masks = found
        return [(places[a:b], sizes[a:b], masks[a:b]) for a, b in itertools.pairwise(bounds.tolist())]

    def _nodes(self, offsets: Sequence[int]) -> Iterator[tuple[int, NDArray[np.int64], Any]]:
        """Yield the level of each node, the chunk numbers at which its children begin, their end, and all keys."""
        entry = np.dtype([("size", "<u4"), ("mask", "<u4"), ("first", "<u8", (self.rank + 1,)), ("child", "<u8")])
        axes = [0, 2] if self.rank == 2 else list(range(self.rank))  # rows of one field, or all
        shape, grid = np.array(self.layout.chunk)[axes], np.array(self.layout.grid)[axes]
        steps = np.append(np.cumprod(grid[::-1])[::-1][1:], 1)
        for at in offsets:
            if at + 24 > self.file.size:
                raise self._damaged(at)
        usual = 24 + _CHILDREN * entry.itemsize
        ranges = [(at, min(at + usual, self.file.size)) for at in offsets]
        cuts = windows(0, len(ranges), _TOGETHER)
        nodes = itertools.chain.from_iterable(self.file.read_ranges(ranges[a:b]) for a, b in cuts)
        for at, node in zip(offsets, nodes, strict=True):
            count = int.from_bytes(node[6:8], "little")
            length = (count + 1) * entry.itemsize - 8
            if bytes(node[:5]) != b"TREE\1" or not count or at + 24 + length > self.file.size:
                raise self._damaged(at)
            content = node[24 : 24 + length] if 24 + length <= len(node) else self.file.read(at + 24, length)
            keys = np.frombuffer(bytes(content) + bytes(8), entry)
            cells = np.minimum(keys["first"][:, : self.rank], 1 << 62).astype(np.int64) // shape
            numbers = np.minimum(cells, grid) @ steps  # the last key is beyond the grid
            if (np.diff(numbers) < 0).any():
                raise self._damaged(at)
            yield node[5], numbers, keys

    def _damaged(self, at: int) -> CorruptError:
        what, remedy = f"the index of the chunks of '{printable(self.name)}' is damaged", "Copy the file again"
        return CorruptError(self.file.path, what, offset=at, remedy=remedy)


def root_of(file: File, header: int) -> int | None:
    """Return the byte offset of the root of a dataset's B-tree; None if its chunks have another index. `header` is the
    byte offset of the object header of the dataset.
    """
    for kind, content in _messages(file, header):
        if kind == _LAYOUT:
            known = len(content) >= 11 and content[:2] == b"\3\2"
            return int.from_bytes(content[3:11], "little") if known else None
    return None


def check_groups(path: Place, file: File | Held, header: int, depth: int) -> None:
    """Check that no tree of the names of a group leads back to itself, which ends the process of the HDF5 library.

    Only that is checked: the library reports everything else. Groups of files of superblock 2 and later that have no
    such tree have checksums.

    Args:
        path: The file, for messages.
        file: The file, or what is held of it.
        header: Byte offset of the object header of the group.
        depth: Number of levels of groups to look at.
    """
    roots = [int.from_bytes(content[:8], "little") for kind, content in _messages(file, header) if kind == _NAMES]
    nodes, below = [(at, _DEEPEST + 1) for at in roots], list[int]()
    for at, above in nodes:
        head = file.read(at, min(24, file.size - at)) if at < file.size else b""
        if head[:5] != b"TREE\0" or len(nodes) > _LARGEST:
            continue
        level, count = head[5], int.from_bytes(head[6:8], "little")
        if level >= above:
            what, remedy = "a node of the index of its names is its own descendant", "Copy the file again"
            raise CorruptError(path, what, offset=at, remedy=remedy)
        listed = np.frombuffer(file.read(at + 32, max(0, min(16 * count, (file.size - at - 32) // 16 * 16))), "<u8")[
            ::2
        ]
        if level:
            nodes += [(child, level) for child in listed.tolist()]
        else:
            below += listed.tolist()
    for at in below if depth else ():
        leaf = file.read(at, min(8 + 40 * 64, file.size - at)) if at < file.size else b""
        entries = leaf[8 : 8 + 40 * int.from_bytes(leaf[6:8], "little")]
        for entry in range(0, len(entries) - 39, 40):
            if entries[entry + 16] == _GROUP:
                check_groups(path, file, int.from_bytes(entries[entry + 8 : entry + 16], "little"), depth - 1)


def _messages(file: File | Held, header: int) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of each message of an object header; none if the header has another version."""
    head = file.read(header, max(0, min(64, file.size - header)))
    if head.startswith(b"OHDR\2") and len(head) == 64:
        flags, new = head[5], True
        at = 6 + 16 * (flags >> 5 & 1) + 4 * (flags >> 4 & 1)
        width = 1 << (flags & 3)
        begin, length = header + at + width, int.from_bytes(head[at : at + width], "little")
    elif head.startswith(b"\1\0") and len(head) == 64:
        flags, new, begin, length = 0, False, header + 16, int.from_bytes(head[8:12], "little")
    else:
        return
    lead, blocks = 4 + 2 * (flags >> 2 & 1) if new else 8, [(begin, length)]
    for begin, length in blocks:
        if length > _LARGEST or begin + length > file.size or len(blocks) > _BLOCKS:
            return
        block, at = file.read(begin, length), 0
        while at + lead <= length:
            kind = block[at] if new else int.from_bytes(block[at : at + 2], "little")
            size = int.from_bytes(block[at + 1 : at + 3] if new else block[at + 2 : at + 4], "little")
            content = block[at + lead : at + lead + size]
            if kind == _CONTINUED and len(content) >= 16:
                more, most = (int.from_bytes(content[k : k + 8], "little") for k in (0, 8))
                blocks.append((more + 4, most - 8) if new else (more, most))
            yield kind, content
            at += lead + size
