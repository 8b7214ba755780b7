"""The names of tokfmt that a plug-in imports. A plug-in is a format of another package.

    from tokfmt.plugin import Confidence, FileLayout, FlatFormat, FlatWriter

`VERSION` increases with each change of this module that requires a change of plug-ins: a plug-in that was written for
another version may fail. `formats/README.md` explains how to use the names, and `tokfmt.testing.FormatContract` tests
the laws that every format keeps.
"""

from tokfmt.base.options import option
from tokfmt.core.annotation import Columns, Extent, FileLayout, Struct, stated_tokens, whole_tokens
from tokfmt.core.findings import Code, Finding, Problem, fatal, noted
from tokfmt.core.format import Confidence, Hints, Probe
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import Separators
from tokfmt.errors import CorruptError, FormatError, OptionError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.files.file import Stream, names_in, open_file
from tokfmt.files.place import Url, place_of
from tokfmt.files.store import Identity, Kind, Status, Store
from tokfmt.formats.cells import chunked_tokens
from tokfmt.formats.chunks import Chunked, ChunkLayout, ChunkMap
from tokfmt.formats.codecs import Stored
from tokfmt.formats.flat import Cut, FlatFormat, FlatInspection, FlatOptions, FlatWriter
from tokfmt.formats.folders import inside, json_object, whole_number
from tokfmt.formats.record_files import RecordFiles, RecordFilesFormat, RecordFilesWriter

VERSION = 2
"""The version of the contract between tokfmt and formats of other packages."""

__all__ = [
    "VERSION",
    "ChunkLayout",
    "ChunkMap",
    "Chunked",
    "Code",
    "Columns",
    "Confidence",
    "CorruptError",
    "Cut",
    "Extent",
    "FileLayout",
    "Finding",
    "FlatFormat",
    "FlatInspection",
    "FlatOptions",
    "FlatWriter",
    "FormatError",
    "Hints",
    "Identity",
    "Kind",
    "OptionError",
    "Probe",
    "Problem",
    "RecordFiles",
    "RecordFilesFormat",
    "RecordFilesWriter",
    "Separators",
    "Status",
    "Store",
    "Stored",
    "Stream",
    "Struct",
    "TruncatedError",
    "UnsafeError",
    "UnsupportedError",
    "Url",
    "chunked_tokens",
    "fatal",
    "inside",
    "json_object",
    "names_in",
    "noted",
    "offsets_of",
    "open_file",
    "option",
    "place_of",
    "stated_tokens",
    "whole_number",
    "whole_tokens",
]
