"""The words of searches in the browser, and the hits that are kept."""

import numpy as np
import pytest
from amount import examples
from browsing import PACK, opened
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import CORPUS

from tokfmt.browser.data.search import (
    Hits,
    LengthQuery,
    SearchResults,
    SearchScope,
    TextQuery,
    TokenQuery,
    amount,
    meaning,
    parse_search,
)
from tokfmt.errors import OptionError

places = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 3)), max_size=20)


def columns(hits):
    table = np.array(hits, np.int64).reshape(-1, 3)
    return Hits(table[:, 0], table[:, 1], table[:, 2])


@settings(max_examples=examples(150), deadline=None)
@given(places, st.integers(0, 6), st.integers(1, 30), st.integers(0, 6), st.integers(0, 6), st.sampled_from([1, -1]))
def test_hits_are_kept_in_order_and_bounded(found, begin, most, row, at, step):
    hits = sorted({(r, s, s + width) for r, s, width in found})
    hits = [hit for i, hit in enumerate(hits) if not i or hits[i - 1][:2] != hit[:2]]
    hits = [hit for i, hit in enumerate(hits) if not i or hits[i - 1][0] != hit[0] or hits[i - 1][2] <= hit[2]]
    ahead, behind = [h for h in hits if h[0] >= begin], [h for h in hits if h[0] < begin]
    results = SearchResults(begin, most, most)
    for hit in ahead:
        results.add(columns([hit]))
    results.add(columns(behind))
    assert results.hits == len(hits)
    assert results.sequences == len({hit[0] for hit in hits})
    known = sorted([*ahead, *behind][:most])
    assert results.held == len(known)
    assert results.capped == (len(known) < len(hits))
    if len({hit[0] for hit in hits}) <= most:
        assert results.rows().tolist() == sorted({hit[0] for hit in hits})
        assert results.has(row) == any(hit[0] == row for hit in hits)
    beyond = [h for h in known if h[:2] > (row, at)] if step > 0 else [h for h in known if h[:2] < (row, at)][::-1]
    around = known if step > 0 else known[::-1]
    following = results.following(row, at, step)
    if not known:
        assert following is None
    else:
        wanted_hit = (beyond or around)[0]
        assert (following.row, following.start, following.stop) == wanted_hit
        assert following.wrapped == (not beyond)
        assert known[following.number] == wanted_hit
    touching = {(h[1], h[2]) for h in known if h[0] == row and h[2] > at and h[1] < at + 2}
    assert {(hit.start, hit.stop) for hit in results.within(row, at, at + 2)} == touching


class Decoder:
    def pieces(self, tokens):
        return [b"x" for _ in tokens]


def test_parsing_of_searches():
    ids, text = (SearchScope(opened(path).port, None, "document") for path in (PACK, CORPUS))
    assert parse_search("464", ids) == parse_search("token:464", ids) == TokenQuery((464,))
    assert parse_search("464, 3290", ids) == TokenQuery((464, 3290))
    assert parse_search("len>50", ids) == LengthQuery(51, None)
    assert parse_search("10<=len<20", text) == LengthQuery(10, 19)
    both = SearchScope(ids.port, Decoder(), ids.singular)
    assert parse_search("2024", both).literal == "2024"
    assert parse_search("token:2024", both) == TokenQuery((2024,))
    assert meaning("2024", both) == "this text; token:2024 searches for the ID"
    assert meaning("464, 3290", both) == "this text; token:464,3290 searches for these IDs"
    assert meaning("2024", ids) == "the token 2024"
    for words in ("464", "any:5", "first:5", "last:5"):
        assert amount(ids, parse_search(words, ids)) == (ids.reader.info.tokens, "tokens")
    assert parse_search("not text:2024", both).negated.literal == "2024"
    assert meaning("not token:2024", ids) == "not the token 2024"
    for words in ("len>5", "not token:464", "same:3", "seq:3", "padding>0", "masked>0"):
        assert amount(ids, parse_search(words, ids)) == (42, "rows")
    for plain in ("the end", "not the end", "464", "a: b", "length"):
        assert isinstance(parse_search(plain, text), TextQuery)
    for words, scope in (
        ("the end", ids),
        ("text:x", ids),
        ("token:5", text),
        ("not token:5", text),
        ("not text:x", ids),
        ("", ids),
        ("regex:(", text),
        ("5<len<3", ids),
    ):
        with pytest.raises(OptionError):
            parse_search(words, scope)
