"""Decode zstandard frames within a bound on memory, and refuse those that cannot be decoded, with the reason.

    4    magic number 28 b5 2f fd
    1    descriptor: bytes of the content size, single segment, checksum, bytes of the dictionary ID
    0-1  window: the bytes of the past that a decoder keeps, 1 KiB to 3.75 TiB
    0-4  ID of the dictionary
    0-8  size of the content

    4    magic number 50 to 5f, 2a 4d 18 of a skippable frame, such as the first one of pzstd
    4    bytes of the frame that follow

Source: RFC 8878, section 3.1.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tokfmt.errors import MissingDependencyError, UnsupportedError
from tokfmt.files.file import File

MOST_WINDOW = 1 << 30
"""The largest window in bytes: what `zstd --long=30` takes. zstd itself reads up to 128 MiB unless it is told more."""

_LARGEST = 1 << 31  # bytes of the largest window that zstd can be told to read
_HEADER = 18  # bytes of a frame header, at most


def library(purpose: str) -> ModuleType:
    """Return the package zstandard."""
    try:
        import zstandard
    except ImportError as error:
        raise MissingDependencyError("zstandard", purpose) from error
    return zstandard


def decompressor(purpose: str) -> Any:
    """Return a decompressor of frames whose window is at most `MOST_WINDOW`. Memory is taken as the content needs it.

    Raises:
        MissingDependencyError: The package zstandard is not installed.
    """
    return library(purpose).ZstdDecompressor(max_window_size=MOST_WINDOW)


def refuse_frame(file: File, offset: int) -> None:
    """Refuse the frame at a byte offset if its header states that it needs a dictionary, or more memory than
    `MOST_WINDOW`. A damaged or cut header is left to the decoder.
    """
    zstandard = library(f"reading {file.path.name}")
    try:
        frame = zstandard.get_frame_parameters(file.read(offset, min(_HEADER, file.size - offset)))
    except zstandard.ZstdError:
        return
    if frame.dict_id:
        what = f"was compressed with the dictionary {frame.dict_id}, which is not in the file"
        raise UnsupportedError(file.path, what, remedy="zstd -d -D DICTIONARY decompresses it")
    if MOST_WINDOW < frame.window_size <= _LARGEST:
        bits = (frame.window_size - 1).bit_length()
        size = f"{2 ** (bits - 30)} GiB of memory to read (expected at most {MOST_WINDOW >> 30} GiB)"
        what = f"was compressed with --long={bits}, which takes {size}"
        raise UnsupportedError(file.path, what, remedy=f"zstd -d --long={bits} decompresses it")
