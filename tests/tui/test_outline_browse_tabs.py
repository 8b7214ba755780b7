"""The outline of the parts of a file."""

import struct

from browsing import browse, line, tab_of
from paths import FIXTURES, TOKENIZER

from tokfmt.browser.data.outline import Outline, Row, first_open
from tokfmt.core.annotation import Listed, Part
from tokfmt.files.fields import Field

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def test_an_index_entry_leads_to_its_sequence():
    content = PACK.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]

    async def steps(app, press):
        await press("3")
        parts = app.tab.parts
        number = next(i for i, part in enumerate(parts.outline.sections) if part.title == "index")
        parts.choose(parts.outline.line(Row(number, 11)))
        await press()
        assert parts.field.name == "entry 11"
        assert parts.field.offset >= 12 + length  # the entry lies behind the tokens, and is marked there
        assert app.tab.hex.marked == range(parts.field.offset, parts.field.offset + parts.field.length)
        await press("enter")
        assert app.entry.name == "sequences"
        assert app.tab.where == (11, 0)
        await press("x")  # the part of the byte is closed
        assert (app.tab.parts.section.title, app.tab.parts.field) == ("tokens", None)

    browse([PACK], steps)


def test_outline():
    parts = [
        Part(str(n), PACK, lambda n=n: Listed([Field(f"{n}.{i}", None, 0, "") for i in range(n)])) for n in range(70)
    ]
    assert first_open(parts, small=False) == {0: 0}
    assert sum(first_open(parts, small=True).values()) < 400
    outline = Outline(parts)
    outline.open(3, 3)
    outline.open(69, 69)
    rows = [outline.row(i) for i in range(outline.count)]
    assert len(rows) == 70 + 3 + 69
    assert rows[3:8] == [Row(3), Row(3, 0), Row(3, 1), Row(3, 2), Row(4)]
    assert [outline.line(row) for row in rows] == list(range(len(rows)))
    assert outline.peek(Row(69, 68)) is None
    outline.load([Row(69, 68)])
    assert outline.peek(Row(69, 68)).name == "69.68"
    outline.close(3)
    assert outline.line(Row(3, 2)) == 3


def test_a_pack_without_its_index_has_no_documents_and_its_error_has_room(tmp_path):
    cut = tmp_path / "cut.pbin"
    cut.write_bytes(PACK.read_bytes()[:2000])

    async def steps(app, press):
        assert line(tab_of(app).strip, 0).endswith("994 · 0 padding")  # the separator is unknown, and so are documents
        await press("3")
        assert app.tab.parts.finding.offset == 2000

    browse([cut], steps, size=(120, 36))


def test_another_tokenizer_leaves_the_findings_of_a_damaged_pack_as_they_are():
    async def steps(app, press):
        await press("3")
        found = [one.message for those in app.tab.parts.outline.findings.values() for one in those]
        app.use_tokenizer(str(TOKENIZER))
        await press()
        assert [one.message for those in app.tab.parts.outline.findings.values() for one in those] == found
        assert len(found) == 1
        assert not app.query_one("#loading").display
        assert app.tab.parts.finding.message == found[0]
        assert app.tab.hex.file_size

    browse([FIXTURES / "bad" / "modalities" / "cut_in_the_data.pbin"], steps)
