"""Which groups of a store are flat-tokens arrays, and their attributes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tokfmt.core.axis import INT32_MAX
from tokfmt.core.errors import CorruptError, FormatError, OptionError
from tokfmt.core.files import natural_key
from tokfmt.formats.zarr_arrays.array import Json
from tokfmt.formats.zarr_arrays.store import Store, json_of

TOKENS, STARTS = "encoded_tokens", "seq_starts"
_DEFAULT = "train"


@dataclass(frozen=True, slots=True)
class Group:
    """A flat-tokens array.

    Attributes:
        split: "train", "validation" ...; None for a bare array.
        zarr_format: 2 or 3.
    """

    split: str | None
    zarr_format: int

    def key(self, name: str) -> str:
        """The key of something in the group."""
        return f"{self.split}/{name}" if self.split else name


def groups_of(store: Store) -> list[Group]:
    """Every flat-tokens array of a store: one bare array, or its splits in order of name.

    Raises:
        CorruptError: There is none.
    """
    names = store.names("")
    zarr_format = _zarr_format(store, names)
    if names & {TOKENS, STARTS}:
        return [Group(None, zarr_format)]
    found, example = [], "tokens" in names
    for child in sorted(names, key=natural_key):
        inside = frozenset() if child.startswith(".") else store.names(child)
        example = example or "tokens" in inside
        if inside & {TOKENS, STARTS}:
            found.append(Group(child, zarr_format))
    if found:
        return found
    if example:
        raise CorruptError(
            store.root, "holds an array tokens, the name in the documentation's example", expected=TOKENS,
            remedy=f"If its ids are encoded (2 * id + start bit), rename it to {TOKENS}",
        )  # fmt: skip
    raise CorruptError(store.root, f"holds no {TOKENS}, and no split that does", remedy="Name a store of flat tokens")


def _zarr_format(store: Store, names: frozenset[str]) -> int:
    v2, v3 = bool(names & {".zgroup", ".zattrs"}), "zarr.json" in names
    if v2 and v3:
        raise CorruptError(
            store.root, "holds metadata of zarr 2 and of zarr 3; they may differ",
            remedy="Remove zarr.json, or the files whose names begin with .z, whichever is not meant",
        )  # fmt: skip
    return 3 if v3 else 2


def choose(store: Store, groups: list[Group], split: str | None) -> Group:
    """The group that is meant.

    Raises:
        OptionError: There is no such split, or several and none is the usual one.
    """
    splits = [group.split for group in groups if group.split]
    listed = ", ".join(splits)
    if not splits:
        if split is not None:
            raise OptionError(f"{store.root}: is one array without splits; leave split={split} out", name=split)
        return groups[0]
    if split is None and len(groups) > 1 and _DEFAULT not in splits:
        raise OptionError(f"{store.root}: has several splits ({listed}); name one with split=NAME")
    wanted = split or (_DEFAULT if len(groups) > 1 else splits[0])
    if wanted not in splits:
        raise OptionError(f"{store.root}: has no split {wanted!r} (it has: {listed})", name=wanted)
    return groups[splits.index(wanted)]


def attributes_path(store: Store, group: Group) -> Path:
    """Where a group's attributes stand."""
    return store.root / group.key(".zattrs" if group.zarr_format == 2 else "zarr.json")


def max_token_id(store: Store, group: Group) -> int:
    """The upper bound that the group states for its ids.

    Raises:
        CorruptError: It states none, or something else than a whole number from 0 to 2^31-1.
    """
    where = attributes_path(store, group)
    attributes: object = json_of(store, group.key(where.name))
    if group.zarr_format == 3 and isinstance(attributes, dict):
        attributes = attributes.get("attributes")
    found = attributes.get("max_token_id") if isinstance(attributes, dict) else None
    if type(found) is int and 0 <= found <= INT32_MAX:
        return found
    raise _no_bound(where, found)


def _no_bound(where: Path, found: object) -> FormatError:
    return CorruptError(
        where, "has no usable max_token_id", expected=f"a whole number from 0 to {INT32_MAX:,}",
        found="nothing" if found is None else f"{type(found).__name__} {str(found)[:40]}",
        remedy="Set it to the largest id, or read without it: --from-opt bound=ignore",
    )  # fmt: skip


def group_notes(store: Store, group: Group) -> list[str]:
    """Defects of the group's own metadata that do not change a token."""
    missing = []
    for key in sorted({"", group.split or ""}):
        name = "/".join(filter(None, (key, ".zgroup" if group.zarr_format == 2 else "zarr.json")))
        raw: Json | None = json_of(store, name)
        if raw is None:
            missing.append(f"{store.root.name}: {name} is missing; zarr does not open the group")
        elif raw.get("zarr_format") != group.zarr_format:
            raise CorruptError(
                store.root / name, "has a wrong zarr_format", expected=group.zarr_format,
                found=str(raw.get("zarr_format")),
            )  # fmt: skip
    return missing
