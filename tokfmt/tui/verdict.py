"""Words about a comparison: how far it is, what it has found, what is the matter with one pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tokfmt.core.errors import printable
from tokfmt.tui.comparison import Comparison, First
from tokfmt.tui.facts import TokenFacts
from tokfmt.tui.marks import Marks
from tokfmt.tui.pairing import CHANGED, ONLY_A, ONLY_B, Pair
from tokfmt.tui.viewport import Damage

Part = tuple[str, str]
"""Words and what they are: "plain", "good", "bad", "busy", "dim"."""


def verdict(comparison: Comparison | None, unit: str, waiting: str = "") -> list[Part]:
    """The line above both sides."""
    if comparison is None:
        return [(f"◌ {waiting or 'opening'}", "busy")]
    if comparison.state == "failed":
        return [(f"✗ {printable(comparison.failure)}", "bad")]
    differing, first = comparison.pairing.differing, comparison.first
    parts = [_how_far(comparison)] if comparison.state != "done" else []
    if any(differing.values()):
        parts.append((counts(differing), "bad"))
        if first is not None:
            parts.append((f"first: {first_words(first, unit, comparison.ports[0].unit)}", "plain"))
        parts.append((f"{comparison.alike:,} alike", "dim"))
    elif comparison.state == "done":
        parts.append((f"✓ identical: {comparison.alike:,} {unit}{'' if comparison.alike == 1 else 's'}", "good"))
    else:
        parts.append(("identical so far", "good"))
    return parts


def _how_far(comparison: Comparison) -> Part:
    share = comparison.job.share
    far = "" if share is None or comparison.job.name != "comparing" else f" {share:.0%}"
    if comparison.state == "walking":
        return f"◌ {comparison.job.name or 'opening'}{far} · esc stops", "busy"
    if comparison.state == "full":
        return f"looked no further than here ({far.strip() or 'part'} compared): too many differences", "busy"
    return f"stopped at{far or ' the beginning'}, n begins again", "busy"


def counts(differing: Mapping[int, int]) -> str:
    """`3 changed, 1 only in A`."""
    words = {CHANGED: "changed", ONLY_A: "only in A", ONLY_B: "only in B"}
    return "≠ " + ", ".join(f"{differing[kind]:,} {words[kind]}" for kind in words if differing[kind])


def first_words(first: First, unit: str, part: str) -> str:
    """`document 17, token 204: 5 ≠ 6`, `document 17 only in A`."""
    a, b = first.pair.a, first.pair.b
    if a is None or b is None:
        return f"{unit} {b if a is None else a:,} only in {'B' if a is None else 'A'}"
    where = f"{unit} {a:,}" if a == b else f"{unit} {a:,} of A, {b:,} of B"
    if first.token is None:
        return where
    x, y = ("end" if value is None else str(value) for value in first.values)
    return f"{where}, {part} {first.token:,}: {x} ≠ {y}"


def titles(pair: Pair, unit: str, lengths: Sequence[int | None], units: str) -> tuple[str, str]:
    """Over either side: `A · document 17 · 1,116 tokens`."""
    out = []
    for name, row, length in zip("AB", (pair.a, pair.b), lengths, strict=True):
        many = "" if length is None or row is None else f" · {length:,} {units}{'' if length == 1 else 's'}"
        out.append(f"{name} · {'none' if row is None else f'{unit} {row:,}'}{many}")
    return out[0], out[1]


def pair_words(pair: Pair, marks: Marks | Damage | None, facts: Sequence[object], unit: str, part: str) -> list[Part]:
    """The line beneath both sides; a row is a `unit`, what it is made of a `part`."""
    if pair.a is None or pair.b is None:
        if pair.a is None and pair.b is None:
            return [("nothing here", "dim")]
        side, row = ("B", pair.b) if pair.a is None else ("A", pair.a)
        return [(f"{unit} {row:,} is only in {side}", "bad")]
    if marks is None:
        return [("◌ comparing this pair", "busy")]
    if isinstance(marks, Damage):
        return [(f"✗ {printable(marks.why)}", "bad")]
    parts: list[Part] = [("alike", "good")]
    if marks.hunks:
        places = len(marks.hunks)
        far = "" if marks.known is None else f" up to {part} {marks.known[0]:,}; not looked further"
        parts = [(f"differs in {places:,} place{'' if places == 1 else 's'}{far}", "bad")]
    return parts + _under(facts, part)


def _under(facts: Sequence[object], part: str) -> list[Part]:
    """Both tokens under the cursors."""
    a, b = ((one if isinstance(one, TokenFacts) else None) for one in facts)
    if a is None and b is None:
        return []
    where = (a or b).unit  # type: ignore[union-attr]
    here = f"{where:,}" if a is None or b is None or a.unit == b.unit else f"{a.unit:,} and {b.unit:,}"
    same = a is not None and b is not None and (a.value, a.mask, a.label) == (b.value, b.mask, b.label)
    sign, kind = ("=", "plain") if same else ("≠", "bad")
    return [(f"{part} {here}", "dim"), (f"{_token(a)} {sign} {_token(b)}", kind)]


def _token(facts: TokenFacts | None) -> str:
    if facts is None:
        return "end"
    words = [str(facts.value)]
    if facts.spelled is not None:
        words.append(f"“{facts.spelled}”")
    if facts.mask is not None:
        words.append(f"mask {facts.mask}")
    if facts.label is not None:
        words.append(f"label {facts.label}")
    return " ".join(words)
