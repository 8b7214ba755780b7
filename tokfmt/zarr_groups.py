"""Groups and arrays of zarr as sources and destinations: `tokfmt.open(group)` and `tokfmt.convert(path, group)`.

    in a local store or a zip   the group or array is opened by its path, with every check of flat-tokens or of array
    a group in any other store  zarr reads the chunks (memory, fsspec, obstore); boundaries and IDs are checked here
    an array in such a store    one stream, which `eos` divides into sequences; rows, if it has two dimensions

A group as the destination of a conversion gets the arrays of a flat-tokens store. The conversion goes through a
temporary directory, so the group is changed only after everything was read and written.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import given_options
from tokfmt.commands.convert.convert import convert
from tokfmt.commands.convert.request import Conversion, Request
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import INT32_MAX, U32, Info, Layout, Separators, TokenReader, check_interval, windows
from tokfmt.dataset import Dataset
from tokfmt.errors import CorruptError, DestinationExistsError, OptionError
from tokfmt.files.place import LocalPlace
from tokfmt.model.readers import ContentReader, from_reader
from tokfmt.model.separator import led
from tokfmt.run.progress import Progress
from tokfmt.source.request import EosChoice, Options

TOKENS, STARTS, BOUND = "encoded_tokens", "seq_starts", "max_token_id"
_FORMAT = "flat-tokens"
_COPY = "Write the group again"


def is_zarr(value: object) -> bool:
    """Return whether a value is a group, an array or a store of zarr. Such a value exists only if zarr was imported."""
    if "zarr" not in sys.modules:
        return False
    import zarr
    from zarr.abc.store import Store

    return isinstance(value, (zarr.Group, zarr.Array, Store))


def _node(value: Any) -> Any:
    """Return the group or the array of a value of zarr."""
    import zarr
    from zarr.abc.store import Store

    return zarr.open(value, mode="r") if isinstance(value, Store) else value


def local_path(value: Any) -> Path | None:
    """Return the path of a group or an array in a local store or of a whole zip; None for any other value of zarr."""
    from zarr.storage import LocalStore, ZipStore

    node = _node(value)
    if node.name.rpartition("/")[2] == TOKENS:  # `open_zarr` says what to open instead.
        return None
    store, inside = node.store_path.store, node.store_path.path
    if isinstance(store, LocalStore):
        return Path(store.root) / str(inside)
    return Path(store.path) if isinstance(store, ZipStore) and not inside else None


def open_zarr(value: Any, *, eos: EosChoice = None, bos: EosChoice = None, options: Options = ()) -> Dataset:
    """Open a group or an array that is not in a local store.

    Args:
        value: The group, the array or the store.
        eos: Token ID of the separator of an array, or "none".
        bos: Token ID of the lead of its sequences, or "none".
        options: Read options of flat-tokens: `split` chooses a group.

    Raises:
        OptionError: If the value is neither a flat-tokens group nor an array of integers of one or two dimensions.
        CorruptError: If the arrays of a group contradict each other.
    """
    import zarr

    node, given = _node(value), dict(given_options(options))
    if isinstance(node, zarr.Array):
        return _of_array(node, eos, bos)
    group = _chosen(node, given.pop("split", None))
    if given:
        name = next(iter(given))
        raise OptionError(f"{_name(node)}: the option {name} applies to stores on disk only. Leave it out", name=name)
    return Dataset(FlatTokensArrays(group), _FORMAT)


def _of_array(array: Any, eos: EosChoice, bos: EosChoice) -> Dataset:
    if array.name.rpartition("/")[2] == TOKENS:
        raise OptionError(f"{_name(array)}: holds IDs with start bits. Open the group that holds the array")
    if array.ndim not in (1, 2) or array.dtype.kind not in "iu":
        found = f"{array.ndim} dimensions of {array.dtype}"
        expected = "expected integers in 1 or 2 dimensions"
        raise OptionError(f"{_name(array)}: is not an array of token IDs ({expected}, found {found})")
    stream = PlainArray(array)
    if array.ndim == 2:
        return Dataset(stream, "zarr")
    if isinstance(eos, int):
        dataset = from_reader(stream, eos)
        return Dataset(ContentReader(led(dataset, bos) if isinstance(bos, int) else dataset), "zarr")
    note = f"read as one sequence of {stream.info.tokens:,} tokens; --eos ID splits it"
    return Dataset(stream, "zarr", notes=() if eos == "none" else (note,))


def _chosen(group: Any, split: object) -> Any:
    """Return the group of a split: the given one, the only one, or "train"."""
    if {TOKENS, STARTS} <= set(group.array_keys()):
        return group
    splits = [name for name, inner in group.groups() if {TOKENS, STARTS} <= set(inner.array_keys())]
    wanted = split or (splits[0] if len(splits) == 1 else "train")
    if wanted not in splits:
        found = ", ".join(splits) or "no group that has both"
        raise OptionError(f"{_name(group)}: has no {TOKENS} and {STARTS} (expected split {wanted}, found {found})")
    return group[wanted]


def _name(node: Any) -> str:
    return str(node.store_path)


class PlainArray(TokenReader):
    """Read an array of integers: of one dimension as one stream of token IDs, of two as rows."""

    def __init__(self, array: Any) -> None:
        self._array, (rows, *width) = array, (int(n) for n in array.shape)
        self._width = width[0] if width else 1
        total = rows * self._width
        self.info = Info(
            layout=Layout.SAMPLES if width else Layout.STREAM,
            dtype=np.dtype(f"u{array.dtype.itemsize}"),
            sequences=rows if width else int(total > 0),
            tokens=total,
            sample_length=self._width if width else None,
            separators=Separators.NONE if width else Separators.BETWEEN,
        )

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        first = start // max(1, self._width)
        rows = np.asarray(self._array[first : -(-stop // max(1, self._width))]).reshape(-1)
        ids = rows[start - first * self._width : stop - first * self._width]
        if len(ids) and int(ids.min()) < 0:
            found = int(ids[ids < 0][0])
            raise CorruptError(_name(self._array), "has a negative ID", expected="0 or more", found=found)
        return ids.astype(self.info.dtype)

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        length = self.info.sample_length or self.info.tokens
        return np.arange(first, last + 1, dtype=np.int64) * length

    def close(self) -> None:
        """Do nothing: the store is the caller's."""


class FlatTokensArrays(TokenReader):
    """Read a flat-tokens group through zarr. Start bits are compared with `seq_starts`, IDs with `max_token_id`."""

    def __init__(self, group: Any) -> None:
        self._array, self._where = group[TOKENS], _name(group)
        total, found = int(self._array.shape[0]), np.asarray(group[STARTS][:])
        self._offsets: NDArray[np.int64] = found.astype(np.int64)
        wrong = len(found) == 0 or self._offsets[0] != 0 or (np.diff(self._offsets) < 0).any()
        if wrong or self._offsets[-1] != total:
            what = f"{STARTS} does not rise from 0 to the number of tokens"
            raise CorruptError(self._where, what, expected=total, found=len(found) and int(found[-1]), remedy=_COPY)
        bound = group.attrs.get(BOUND)
        if not isinstance(bound, int) or not 0 <= bound <= INT32_MAX:
            what = f"has no usable {BOUND}"
            raise CorruptError(self._where, what, expected="a whole number from 0 to 2^31-1", remedy=_COPY)
        self._bound = bound
        self.info = Info(
            layout=Layout.DOCUMENTS,
            dtype=U32,
            sequences=len(found) - 1,
            tokens=total,
            extras={"zarr_format": group.metadata.zarr_format, BOUND: bound},
        )

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        items = np.array(self._array[start:stop], np.uint32)
        first, last = np.searchsorted(self._offsets, (start, stop))
        items[self._offsets[first:last] - start] ^= 1
        if (wrong := np.flatnonzero(items & 1)).size:
            what = f"contradicts {STARTS} at token {start + int(wrong[0]):,}"
            raise CorruptError(self._where, what, remedy=_COPY)
        items >>= 1
        if len(items) and int(items.max()) > self._bound:
            what = f"holds an ID above {BOUND} at token {start + int(np.argmax(items > self._bound)):,}"
            raise CorruptError(self._where, what, expected=f"at most {self._bound:,}", remedy=_COPY)
        return items

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        return self._offsets[first : last + 1]

    def close(self) -> None:
        """Do nothing: the store is the caller's."""


def paths_of(sources: Any) -> Any:
    """Return sources with the path of each group of zarr in its place.

    Raises:
        OptionError: If a group is not in a local store.
    """
    several = sources if isinstance(sources, (list, tuple)) else [sources]
    return [_path(one) if is_zarr(one) else one for one in several] if any(map(is_zarr, several)) else sources


def _path(value: Any) -> Path:
    found = local_path(value)
    if found is None:
        raise OptionError(f"{value}: is not a group of a local store. Open it with tokfmt.open")
    return found


def _node_to_write(value: Any) -> Any:
    import zarr
    from zarr.abc.store import Store

    node = zarr.open_group(value, mode="a") if isinstance(value, Store) else value
    if not isinstance(node, zarr.Group):
        raise OptionError(f"{_name(node)}: is an array (expected a group). Name the group to write")
    return node


def convert_into(value: Any, request: Request, progress: Progress) -> Conversion:
    """Convert to a temporary directory, then copy the arrays into a group.

    Args:
        value: The group, or a store, in which a group is made.
        request: The conversion. Its destination is not used.
        progress: Receives phases, counts and notes.

    Raises:
        OptionError: If an option does not apply to groups.
        TokfmtError: The conversion failed. The group is as it was before.
    """
    import zarr

    group = _node_to_write(value)
    if request.to not in (None, _FORMAT):
        raise OptionError(
            f"{_name(group)}: a group of zarr stores {_FORMAT} (found {request.to}). Name a path", name="to"
        )
    refused = [name for name in ("resume", "task", "ledger", "rejects") if getattr(request, name)]
    if refused:
        raise OptionError(f"{_name(group)}: a group of zarr does not take --{refused[0]}. Name a path")
    options = {"split": "none", **request.to_options, "zarr_format": group.metadata.zarr_format}
    if request.arrangement.shares:
        options.pop("split")
    with tempfile.TemporaryDirectory(prefix="tokfmt-") as home:
        draft = LocalPlace(home, "draft.zarr")
        done = convert(
            replace(request, destination=draft, to=_FORMAT, to_options=options, manifest=False, overwrite=False),
            progress,
        )
        if not done.dry_run:
            _copy(zarr.open_group(draft, mode="r"), group, overwrite=request.overwrite)
    return replace(done, destination=_name(group))


def _copy(draft: Any, group: Any, *, overwrite: bool) -> None:
    """Copy the arrays of a group to another; if that fails, remove those that were written.

    A store of zarr cannot rename: with `overwrite`, the arrays that were replaced are lost if the copy fails.

    Raises:
        DestinationExistsError: If the group holds such an array, and `overwrite` is False.
    """
    import zarr

    members = dict(draft.members(max_depth=None))
    arrays = sorted(path for path, member in members.items() if isinstance(member, zarr.Array))
    if not overwrite and (there := next((path for path in arrays if path in group), None)):
        raise DestinationExistsError(f"{_name(group)}/{there}")
    written = list[str]()
    try:
        for path in arrays:
            source = members[path]
            written.append(path)
            made = group.create_array(
                path,
                shape=source.shape,
                chunks=source.chunks,
                dtype=source.dtype,
                filters=source.filters or None,
                compressors=source.compressors or None,
                fill_value=source.fill_value,
                overwrite=overwrite,
            )
            for a, b in windows(0, source.shape[0], source.chunks[0]):
                made[a:b] = source[a:b]
        for path in sorted({path.rpartition("/")[0] for path in arrays}):
            inner, target = (draft[path], group[path]) if path else (draft, group)
            target.attrs.update(inner.attrs.asdict())
    except BaseException:
        for path in written:
            if path in group:
                del group[path]
        raise
