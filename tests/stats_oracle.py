"""What statistics must be, computed from lists with collections and numpy."""

from collections import Counter

import numpy as np
from schemas import validate

PERCENTILES = (1, 5, 25, 50, 75, 95, 99)


def commonest(counts, most=10):
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]


def rarest(counts, most=10):
    return sorted(counts.items(), key=lambda item: (item[1], item[0]))[:most]


def lengths_of(lengths):
    if not lengths:
        return dict.fromkeys(["min", "mean", *(f"p{p}" for p in PERCENTILES), "max"])
    ordered = sorted(lengths)
    found = {"min": ordered[0], "mean": sum(ordered) / len(ordered), "max": ordered[-1]}
    return found | {f"p{p}": ordered[max(0, -(-p * len(ordered) // 100) - 1)] for p in PERCENTILES}


def ends(tokens):
    counts = Counter(tokens)
    top = commonest(counts)
    return {
        "commonest": top[0][0] if top else None,
        "share": top[0][1] / len(tokens) if top else 0.0,
        "distinct": len(counts),
        "top": [(token, count) for token, count in top],
    }


def duplicates(documents):
    filled = [tuple(doc) for doc in documents if doc]
    counts = Counter(filled)
    groups = {doc: count for doc, count in counts.items() if count > 1}
    surplus = sum(count - 1 for count in groups.values())
    tokens = sum((count - 1) * len(doc) for doc, count in groups.items())
    total = sum(map(len, filled))
    first = {}
    for number, doc in enumerate(map(tuple, documents)):
        first.setdefault(doc, number)
    return {
        "sequences": surplus,
        "share": surplus / len(filled) if filled else 0.0,
        "tokens": tokens,
        "token_share": tokens / total if total else 0.0,
        "groups": len(groups),
        "largest": [
            (count, len(doc), first[doc], list(doc[:32]))
            for doc, count in sorted(groups.items(), key=lambda g: (-g[1], -len(g[0]), first[g[0]]))[:10]
        ],
    }


def check(found, documents, *, eos=None, stored=None):
    """Compare a document of `stats --json` with what lists say.

    documents: sequences without separators; eos: the separator; stored: how many are stored, None if not to be looked
    at. The largest id is that of the sequences, so that it is the same in every format.
    """
    validate(found)
    tokens = [token for doc in documents for token in doc]
    counts = Counter(tokens)
    assert (found["sequences"], found["tokens"]) == (len(documents), len(tokens))
    wanted = lengths_of([len(doc) for doc in documents])
    lengths = found["lengths"]
    assert {key: lengths[key] for key in wanted} == wanted
    histogram = lengths["histogram"]
    if documents:
        assert histogram["counts"] == np.histogram([len(doc) for doc in documents], histogram["edges"])[0].tolist()
        assert sum(histogram["counts"]) == len(documents)
    assert found["empty"]["count"] == sum(not doc for doc in documents)
    ids = found["ids"]
    assert (ids["distinct"], ids["estimated"]) == (len(counts), False)
    assert ids["once"] == sum(count == 1 for count in counts.values())
    assert [(one["id"], one["count"]) for one in ids["most_frequent"]] == commonest(counts)
    assert [(one["id"], one["count"]) for one in ids["least_frequent"]] == rarest(counts)
    for one in ids["most_frequent"]:
        assert one["share"] == one["count"] / len(tokens)
    falling = sorted(counts.values(), reverse=True)
    frequencies = ids["frequencies"]
    assert [falling[rank - 1] for rank in frequencies["rank"]] == frequencies["count"]
    assert not falling or (frequencies["rank"][0], frequencies["rank"][-1]) == (1, len(falling))
    for key, tokens_there in (
        ("first_tokens", [d[0] for d in documents if d]),
        ("last_tokens", [d[-1] for d in documents if d]),
    ):
        wanted = ends(tokens_there)
        assert [(one["id"], one["count"]) for one in found[key]["top"]] == wanted.pop("top")
        assert {name: found[key][name] for name in wanted} == wanted
    wanted = duplicates(documents)
    assert [
        (one["count"], one["length"], one["sequence"], one["ids"]) for one in found["duplicates"]["largest"]
    ] == wanted.pop("largest")
    assert {name: found["duplicates"][name] for name in wanted} == wanted
    if stored is not None:
        assert found["separators"]["count"] == stored
    assert found["eos_id"] == eos
    assert found["max_id"] == max(tokens, default=None)
