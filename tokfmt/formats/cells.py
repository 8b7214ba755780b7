"""Arrays that are stored in chunks, as the files and the reader of a flat format: HDF5 datasets and zarr arrays."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from tokfmt.core.reader import ByteOffset, check_position
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.files.store import Identity
from tokfmt.formats.chunks import Chunked
from tokfmt.formats.flat import FlatReader


class Cells(File):
    """A virtual file of the items of an array, one after the other in native byte order. Picklable."""

    is_plain = False
    chunked: Chunked

    def __init__(self, path: Place, identity: Identity, chunked: Chunked) -> None:
        """Hold an array.

        Args:
            path: The path of the array, for messages.
            identity: That of a file of the array, such as that of its metadata: it shows whether the array changed.
            chunked: The array.
        """
        self.__setstate__({"path": path, "identity": identity, "may_be_page": False, "chunked": chunked})

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "chunked": self.chunked}

    @property
    def size(self) -> int:
        return self.chunked.length * self.chunked.dtype.itemsize

    def read_into(self, offset: int, buffer: memoryview) -> None:
        out, width = buffer.cast("B"), self.chunked.dtype.itemsize
        first = offset // width
        values = self.chunked.read(first, -(-(offset + len(out)) // width)).view(np.uint8)
        out[:] = values[offset - first * width :][: len(out)].data

    def to_stored_offset(self, offset: int) -> int | None:
        """See `File.to_stored_offset`. None: the byte offset of a chunk says little without the path of its file."""

    def from_stored_offset(self, offset: int) -> int | None:
        """See `File.from_stored_offset`."""

    def close(self) -> None:
        super().close()
        self.chunked.close()


class CellsReader(FlatReader):
    """A reader of a flat dataset, some of whose extents are arrays in chunks."""

    def locate(self, position: int) -> ByteOffset:
        check_position(position, self.info.tokens)
        k = bisect_right(self._begins, position) - 1
        file, begin, _, dtype = self.extents[k]
        if not isinstance(file, Cells):
            return super().locate(position)
        return file.chunked.byte_offset(begin // dtype.itemsize + position - self._begins[k])

    def find(self, place: Place, byte: int) -> int | None:
        for base, (file, begin, tokens, dtype) in zip(self._begins, self.extents, strict=False):
            item = file.chunked.position(place, byte) if isinstance(file, Cells) else None
            if item is not None:
                at = item - begin // dtype.itemsize
                return base + at if 0 <= at < tokens else None
        return super().find(place, byte)
