"""Put `n_examples` right in a copy of sample files."""

from __future__ import annotations

import os
from pathlib import Path

from tokfmt.formats.hdf5 import order
from tokfmt.formats.hdf5.container import library_errors, open_stored


def set_examples(copy: Path) -> None:
    """Set `n_examples` of each file to the number of its samples.

    Raises:
        FormatError: A file is not one that can be trusted and read.
    """
    for file in order.files_of([copy]):
        stored = open_stored(file)
        count = len(stored.table)
        stored.table.close()
        if stored.rank != 3 or stored.n_examples == count:
            continue
        import h5py  # its plug-ins are off since `open_stored`

        with library_errors(file), h5py.File(os.fspath(file), "r+", locking=False) as handle:
            handle.attrs.pop("n_examples", None)
            handle.attrs["n_examples"] = count
