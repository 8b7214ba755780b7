"""Arrays that are stored in chunks, as extents of a flat format: HDF5 datasets, zarr arrays, and those of plug-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tokfmt.core.annotation import Extent
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.files.store import Identity

if TYPE_CHECKING:
    from tokfmt.formats.chunks import Chunked  # Most flat datasets need none of its imports.


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


def chunked_tokens(chunks: Chunked, file: File) -> Extent:
    """Return all items of an array in chunks as token IDs.

    Args:
        chunks: The array.
        file: A file of the array, such as that of its metadata: it shows whether the array changed.
    """
    return Extent(Cells(chunks.path, file.identity, chunks), 0, chunks.length, chunks.dtype)
