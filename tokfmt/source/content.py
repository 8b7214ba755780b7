"""The content of a manifest: what it states of a dataset; see `source.manifest`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tokfmt.files.file import MANIFEST
from tokfmt.files.place import AnyPlace, LocalPlace, Place
from tokfmt.wording import counted, printable

_SEVERAL, _NAMED = 2, 3  # splits from which each has its own counts; sources that a message names


def dataset_path(place: AnyPlace) -> AnyPlace:
    """Return the path of the dataset that a manifest describes."""
    return place.parent / place.name.rpartition(MANIFEST)[0]


class Manifest(NamedTuple):
    """The content of a manifest.

    Anyone can have written the file, so each property checks the types of the values that it uses.
    """

    content: Mapping[str, Any]  # empty if there is no manifest, or if it cannot be used
    path: Place = LocalPlace()
    broken: str = ""  # why the file cannot be used; "" if it can be used, or does not exist
    # of a directory without a manifest, those of its files; one without content stands for all files that have none
    members: tuple[Manifest, ...] = ()

    @property
    def each(self) -> tuple[Manifest, ...]:
        """The manifests of the files of a directory that has none itself; else this manifest."""
        return self.members or (self,)

    @property
    def ids(self) -> tuple[int | None, int | None]:
        """The separator of the dataset, and the lead that begins its sequences; None for each that is not stated."""
        eos_id = self.content.get("eos_id")
        bos_id = self.content.get("bos_id") if self.content.get("bos_stored") == "before" else None
        return eos_id if isinstance(eos_id, int) else None, bos_id if isinstance(bos_id, int) else None

    @property
    def tokenizer(self) -> Mapping[str, Any] | None:
        """The tokenizer that made the token IDs, with the keys of `TokenizerHandle.describe`; None if not stated.

        The file states `path` relative to its own directory. Here it is joined to that directory.
        """
        stated = self.content.get("tokenizer")
        if not isinstance(stated, dict) or not isinstance(stated.get("digest"), str):
            return None
        place = stated.get("path")
        if not isinstance(place, str) or not place or "\0" in place or not self.path.is_local:
            return {key: value for key, value in stated.items() if key != "path"}
        return {**stated, "path": os.path.normpath((self.path.parent / place).text)}

    @property
    def ledger(self) -> Mapping[str, Any]:
        """The `unit` and `rows` of the ledger of the dataset; empty if there is no ledger."""
        stated = self.content.get("ledger")
        return stated if isinstance(stated, dict) else {}

    @property
    def partial(self) -> str:
        """A sentence on a dataset that was saved from damaged sources; "" for any other dataset."""
        stated = self.content.get("partial")
        parts = [part for part in stated if isinstance(part, dict)] if isinstance(stated, list) else []
        if not parts:
            return ""
        paths = ", ".join(printable(part.get("path")) for part in parts[:_NAMED])
        lost = [part.get("lost_sequences") for part in parts]
        counts = [count for count in lost if isinstance(count, int)]
        lost_sequences = (
            f"at least {counted(sum(counts), 'sequence')}"
            if len(counts) < len(lost)
            else counted(sum(counts), "sequence")
        )
        return f"partial, by its manifest: saved from damaged sources ({paths}); {lost_sequences} lost"

    @property
    def rows(self) -> bool:
        """True if the sequences of the dataset are samples of a recipe, stored as they are; see `core.rows`."""
        return self.content.get("recipe") is not None

    @property
    def made_labels(self) -> bool:
        """True if a recipe made the labels and loss masks of these samples, so that it can make them again."""
        return self.rows and self.content.get("labels") == "recipe"

    @property
    def output(self) -> Mapping[str, Any]:
        """The `bytes`, `files` and `xxh3_128` of the dataset; empty if the manifest does not state them."""
        stated = self.content.get("output")
        return stated if isinstance(stated, dict) else {}

    @property
    def of_files(self) -> Manifest:
        """The manifest without what it does not state of the files of the dataset: it may list thousands of sources."""
        members = tuple(member.of_files for member in self.members)
        return self._replace(content={"output": self.output}, members=members)

    @property
    def objects(self) -> Sequence[Mapping[str, Any]]:
        """The objects of the dataset in a store, each with its `key`; empty if the manifest does not state them."""
        listed = self.output.get("objects")
        return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []

    @property
    def options(self) -> Mapping[str, object]:
        """The options of the writer that the user gave, by name."""
        stated = self.content.get("options")
        words = stated.get("to") if isinstance(stated, dict) else None
        pairs = (
            [word.split("=", 1) for word in words if isinstance(word, str) and "=" in word]
            if isinstance(words, list)
            else []
        )
        return {name.replace("-", "_"): value for name, value in pairs}

    @property
    def split_names(self) -> Sequence[str]:
        """The names of the datasets that the splits of one run are, this one included; empty without splits."""
        split, own = self.content.get("split"), self.content.get("splits")
        shares = split.get("shares") if isinstance(split, dict) else None
        if not isinstance(shares, dict) or not isinstance(own, dict) or len(own) != 1:
            return []
        before, middle, after = dataset_path(self.path).name.rpartition(f".{next(iter(own))}")
        return [f"{before}.{name}{after}" for name in shares] if middle else []

    def counts(self, split: object = None, *, samples: bool = False, divided: bool = False) -> Mapping[str, Any]:
        """Return a mapping with `sequences` and `tokens` of the dataset, or of one split if it has several.

        The mapping is empty if the counts cannot be compared: if sequences were split at separators inside them, or if
        the manifest counts documents and `samples` is true, or the reverse; or if separators are `divided` from what is
        read, which the manifest counts as content.
        """
        if divided and self.content.get("eos_stored") not in {"after", "before"}:
            return {}
        if (self.rows or self.content.get("packed") is True) != samples:
            return {}
        losses, splits = self.content.get("losses"), self.content.get("splits")
        if isinstance(losses, dict) and "embedded-separators" in losses:
            return {}
        if not isinstance(splits, dict) or len(splits) < _SEVERAL:
            return self.content
        of_split = splits.get(split) if isinstance(split, str) else None
        return of_split if isinstance(of_split, dict) else {}
