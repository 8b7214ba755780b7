"""What is between the contents of a dataset, and how that is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tokfmt.wording import counted, separator_words

Known = Literal["user", "manifest", "file", "tokenizer", "convention", "inferred", ""]
"""The origin of a fact, the strongest first; "" if the fact is not known."""


_NAMED = 5  # separators that a message names


@dataclass(frozen=True)
class Gap:
    """The separator of a source, and what was seen of it. Between contents are separators, leads and padding alone."""

    id: int | None = None  # None if there is none, if it is not known, or if parts have different ones
    side: Literal["after", "before"] = "after"  # of its sequence
    known: Known = ""  # the origin of `id`, or of the statement that there is none
    # an ID, such as a BOS, that is not content at the beginning of a sequence, as the user says
    lead: int | None = None
    looked: int = 0  # sequences whose ends were looked at
    of: int = 0  # sequences
    closed: int = 0  # sequences that were looked at and end with the separator
    lack: int = 0  # of those, not empty and without it at the end
    empty: int = 0  # of those, empty
    even: bool = True  # no sequence is known to be empty, by a look or by the manifest
    alone: bool = False  # only separators mark boundaries; nothing was counted
    stored: bool = True  # in the data; a manifest may state one that is not
    counted: bool = False  # the manifest counts as many tokens as there are if every sequence ends with the separator
    # if the separator is not known: an ID that ends nearly all sequences, and how many
    common: tuple[int, int] | None = None
    # if the separator is not known: the ID that ends all sequences that are not empty, and that none of them has inside
    only: int | None = None
    overrules: int | None = None  # the ID that the manifest or the file states, which fewer sequences end with
    path: str = ""  # the dataset, for messages
    parts: tuple[Gap, ...] = ()  # gaps of the datasets that were joined

    def each(self) -> Iterator[Gap]:
        """Yield the gap of each part; the gap itself without parts."""
        for part in self.parts:
            yield from part.each()
        if not self.parts:
            yield self

    @property
    def ids(self) -> list[int]:
        """The separators of the parts, each once, in order."""
        if not self.parts:
            return [] if self.id is None else [self.id]
        return list(dict.fromkeys(part.id for part in self.each() if part.id is not None))

    @property
    def is_known(self) -> bool:
        """All sequences were looked at, or are known to end with the separator."""
        return all(part.alone or part.counted or part.looked == part.of for part in self.each())

    @property
    def leads(self) -> list[int]:
        """The leads of the parts, each once, in order."""
        return list(dict.fromkeys(part.lead for part in self.each() if part.lead is not None))

    @property
    def unclear(self) -> Gap | None:
        """The first part whose separator is not known, and nearly all of whose sequences end with one ID."""
        return next((part for part in self.each() if part.known == "" and part.common is not None), None)

    @property
    def question(self) -> str:
        """What the user has to decide if nearly all sequences end with one ID, and the separator is not known."""
        id_, count = self.common or (-1, 0)
        what = f"{self.path}: " * bool(self.path) + f"its separator is not known, and {count:,} of "
        what += f"{counted(self.lack, 'sequence')} that were looked at end with {id_}"
        return f"{what}. --eos {id_} reads it as the separator, --eos none as content"

    @property
    def listed(self) -> str:
        """The separators of the parts, each with the first part that has it."""
        found: dict[int, str] = {}
        for part in self.each():
            if part.id is not None:
                found.setdefault(part.id, f" in {part.path}" * bool(part.path))
        words = [f"{id_}{where}" for id_, where in found.items()]
        return ", ".join(words[:_NAMED]) + f" and {len(words) - _NAMED:,} more" * (len(words) > _NAMED)

    @property
    def seen(self) -> str:
        """How many sequences were looked at, and how many have the separator, lack it, and are empty; "" if none were.

        It is the end of every sentence about a separator; see `separator_words`.
        """
        if self.id is None or not self.looked:
            return ""
        scope = counted(self.looked, "sequence")
        scope += "" if self.looked == self.of else f" that were looked at, of {self.of:,},"
        if not self.lack and not self.empty:
            return f"each of {scope} ends with it"
        parts = [f"{self.closed:,} of {scope} {'end' if self.closed != 1 else 'ends'} with it"]
        parts += [f"{self.lack:,} {'do' if self.lack > 1 else 'does'} not"] * bool(self.lack)
        parts += [f"{self.empty:,} {'are' if self.empty > 1 else 'is'} empty"] * bool(self.empty)
        return ", ".join(parts)

    def words(self) -> str:
        """Return a sentence about the separator. It states no more than was looked at."""
        if self.parts and (len(self.ids) > 1 or any(part.alone or not part.stored for part in self.each())):
            return "; ".join(dict.fromkeys(part.words() for part in self.each()))
        if self.id is None:
            if self.known:
                return f"no separator ({self._origin})"
            seen = f": {self.common[1]:,} of {self._scope} end with {self.common[0]}" if self.common else ""
            return f"no separator is known{seen}"
        if not self.stored:
            return f"separator {self.id} ({self._origin}), which is not stored"
        if self.alone:
            verb = "begins" if self.side == "before" else "ends"
            return f"separator {self.id} ({self._origin}) {verb} each sequence"
        overruled = f", and not {self.overrules}" if self.overrules is not None else ""
        return f"separator {separator_words(self.id, self._origin + overruled, self.seen)}"

    @property
    def _origin(self) -> str:
        given = f"--eos {'none' if self.id is None else self.id}"
        return given if self.known == "user" else self.known

    @property
    def _scope(self) -> str:
        if self.looked == self.of:
            return f"all {counted(self.of, 'sequence')}"
        return f"{self.looked:,} sequences that were looked at, of {self.of:,}"


def joined_gap(gaps: Sequence[Gap]) -> Gap:
    """Return the gap of datasets that are joined. Equal separators are one, on whichever side they are."""
    first = next((gap for gap in gaps if gap.id is not None), gaps[0])
    sums = {name: sum(getattr(gap, name) for gap in gaps) for name in ("looked", "of", "closed", "lack", "empty")}
    joined = Gap(**sums, even=all(gap.even for gap in gaps), parts=tuple(gaps))
    leads = list(dict.fromkeys(gap.lead for gap in gaps if gap.lead is not None))
    lead = leads[0] if leads else None
    if len(joined.ids) > 1:
        return replace(joined, lead=lead)
    return replace(joined, id=first.id, known=first.known, side=first.side, lead=lead)
