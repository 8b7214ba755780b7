"""How full samples are: a histogram whose lines list their samples, and the table of the sources of a recipe."""

from typing import Any

import numpy as np
from browsing import browse, tab_of
from hypothesis import given
from hypothesis import strategies as st
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.browser.data.packing import FillLines, Fills

SOURCE = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def bounds(query):
    low, _, high = query.partition("<=padding<=")
    return int(low), int(high)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n), min_size=1))))
def test_a_line_lists_the_samples_that_it_counts(drawn):
    length, filled = drawn
    histogram = FillLines(Fills(np.array(filled), length), 10)
    assert sum(histogram.counts) == len(filled)
    for first in range(11):
        for last in range(first, 11):
            low, high = bounds(histogram.query([first, last]))
            listed = sum(low <= length - one <= high for one in filled)
            assert listed == sum(histogram.counts[first : last + 1])


def test_a_recipe_opens_with_its_packing(tmp_path):
    """The names, colors and shares of its sources, and the samples as strips in these colors, as is the text."""
    sources = "".join(f'[[source]]\nname = "{name}"\npath = "{SOURCE}"\n' for name in ("a", "b"))
    (tmp_path / "mix.toml").write_text(f'tokfmt = 1\nseq_len = 64\nshuffle = "documents"\n{sources}')
    view: Any = tokfmt.open(tmp_path / "mix.toml")
    names = [source.name for source in view.sources]
    row = next(k for k in range(len(view)) if len({span.source for span in view.spans(k)}) > 1)

    async def steps(app, press):
        head = app.query_one("#packing")
        lines = str(head.render()).splitlines()
        assert [words.split()[1] for words in lines[2 : 2 + len(names)]] == names
        tab = tab_of(app)
        colors = {
            str(segment.style.color)
            for segment in tab.list.render_line(row + 1)
            if segment.text[:1] in "█▓▒░" and segment.text
        }
        assert len(colors) == len({span.source for span in view.spans(row)})
        await press("g", *str(row), "enter")
        grounds = {}
        for y in range(tab.reader.size.height):
            for segment in tab.reader.render_line(y):
                if segment.text.strip() and segment.style.bgcolor is not None:
                    grounds.setdefault(str(segment.style.bgcolor), set()).add(segment.text)
        assert len(grounds) >= 4  # two sources, each in two shades
        await press("2")
        table = app.query_one("#lengths")
        assert "samples by fill" in table.border_title
        await press("enter")
        shown = app.query_one("#packing")
        assert shown.display and tab.filtered is not None and "padding" in tab.filtered.words

    browse([tmp_path / "mix.toml"], steps, size=(140, 40), tokenizer=str(TOKENIZER))


def test_every_column_of_the_packing_has_a_heading():
    async def steps(app, press):
        heads, *rows = app.query_one("#packing").packing.table(200)
        assert all(heads)
        assert all(len(row) == len(heads) for row in rows)

    browse([FIXTURES / "recipe" / "mix.toml"], steps)
