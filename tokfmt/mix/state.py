"""The state of a run over a recipe, and the comparison of a state with the recipe and the data that it is loaded with.

    samples       the number of samples that the run has used
    fingerprint   that of the recipe: a hash of all facts on which the order of samples depends
    facts         these facts, so that an error names the one that differs
    checksums     the checksum that the manifests of each source state; null without one
    content       some samples of the recipe by number, each with a hash

The fingerprint holds sizes and counts, and no content. A manifest may be missing where a run continues, so checksums
are compared only if both sides have them. The content of some samples is compared each time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tokfmt.errors import OptionError, SourceChangedError
from tokfmt.mix.fields import arrays
from tokfmt.mix.samples import DEFAULT_FIELDS, Samples
from tokfmt.wording import printable

_COMPARED_TOKENS = 1 << 16  # tokens of the samples that are compared
_FEWEST, _MOST = 2, 16  # samples that are compared
_LONG = 60  # characters of a fact, above which a state has a hash of it
_NAMED = 3  # facts that an error lists
_REMEDY = "Load it with the recipe and the data that it was saved with"


def state_of(view: Samples, samples: int) -> dict[str, Any]:
    """Return the state of a run, JSON that is the same on each rank; the first call reads some samples."""
    return {
        "samples": samples,
        "fingerprint": view.fingerprint,
        "facts": _facts(view),
        "checksums": [list(source.checksums) for source in view.sources],
        "content": content_of(view),
    }


def content_of(view: Samples) -> list[list[Any]]:
    """Return the numbers of some samples at even distances over the recipe, each with a hash of its content."""
    if view.content is None:
        count = min(max(_COMPARED_TOKENS // view.seq_len, _FEWEST), _MOST, view.count)
        view.content = [[number, _hash(view, number)] for number in (k * view.count // count for k in range(count))]
    return view.content


def _hash(view: Samples, number: int) -> str:
    fields = arrays(view.grid([number]), DEFAULT_FIELDS, np.int64)
    return hashlib.sha256(b"".join(array.astype("<i8").tobytes() for array in fields.values())).hexdigest()[:16]


def _facts(view: Samples) -> dict[str, Any]:
    """Return the facts of the fingerprint by name, in one level. Long ones are hashes."""
    facts_by_name = {key: value for key, value in view.facts.items() if key != "sources"}
    for number, facts in enumerate(view.facts["sources"], 1):
        facts_by_name |= {f"{key} of source {number}": _brief(value) for key, value in facts.items()}
    return facts_by_name


def _brief(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True, default=str)
    return json.loads(text) if len(text) <= _LONG else hashlib.sha256(text.encode()).hexdigest()[:16]


def samples_in(state: Mapping[str, Any], view: Samples) -> int:
    """Return the number of samples that a run has used, if its state belongs to a recipe and its data."""
    samples, fingerprint = state.get("samples"), state.get("fingerprint")
    if not isinstance(samples, int) or isinstance(samples, bool) or samples < 0 or not isinstance(fingerprint, str):
        raise OptionError(f"a loader's state is {{'samples': N, 'fingerprint': '...', ...}}, not {dict(state)!r:.200}")
    if fingerprint != view.fingerprint:
        raise _of_another_recipe(state, view)
    for k, (source, stated) in enumerate(zip(view.sources, state.get("checksums") or (), strict=False), 1):
        for ours, theirs in zip(source.checksums, stated, strict=False):
            if ours and theirs and ours != theirs:
                problem = (
                    f'is the recipe of the state, but source {k} ("{printable(source.name)}") has another checksum'
                )
                raise SourceChangedError(view.file.where, problem, expected=theirs, found=ours, remedy=_REMEDY)
    if samples > view.count:
        raise OptionError(
            f"the state is at sample {samples:,}, and the recipe ends after {view.count:,}. Give it a budget "
            "(tokens, epochs) at least as large as the one that the state was saved with"
        )
    for number, stated in state.get("content") or ():
        if number < view.count and (found := _hash(view, number)) != stated:
            paths = {str(path) for span in view.spans(number) for path in view.sources[span.source].paths}
            listed = ", ".join(map(printable, sorted(paths)[:_NAMED]))
            problem = f"is the recipe of the state, but the data changed: content of sample {number:,}, from {listed}"
            raise SourceChangedError(view.file.where, problem, expected=stated, found=found, remedy=_REMEDY)
    return samples


def _of_another_recipe(state: Mapping[str, Any], view: Samples) -> SourceChangedError:
    """Return the error of a state with another fingerprint. It lists the facts that differ, and values of the first."""
    problem = "is not the recipe of the state, or its data changed"
    ours, theirs = _facts(view), state.get("facts")
    theirs = theirs if isinstance(theirs, Mapping) else {}
    missing = "nothing"
    differing = [key for key in dict.fromkeys((*theirs, *ours)) if theirs.get(key, missing) != ours.get(key, missing)]
    if not theirs or not differing:
        expected, found = str(state["fingerprint"]), view.fingerprint
        return SourceChangedError(view.file.where, problem, expected=expected, found=found, remedy=_REMEDY)
    first, *others = differing
    more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
    also = f"{', '.join(others[:_NAMED])}{more} {'differ' if len(others) > 1 else 'differs'}, and " if others else ""
    return SourceChangedError(
        view.file.where,
        f"{problem}: {also}{first}",
        expected=json.dumps(theirs.get(first, missing)),
        found=json.dumps(ours.get(first, missing)),
        remedy=_REMEDY,
    )
