"""Files of records that only reading finds: what is read of them to show a few, and what is saved of damaged ones."""

from tokfmt.plugin import Hints, RecordFiles


def test_text_is_read_in_the_same_way(tmp_path):
    class Lines(RecordFiles):
        def records(self, path):
            return iter(path.read_text().splitlines())

    for number, lines in enumerate((["a", "b"], [], ["c"])):
        (tmp_path / f"{number}.txt").write_text("\n".join(lines))
    reader = Lines("text", sorted(tmp_path.glob("*.txt")), Hints(), field="line")
    assert (reader.info.records, reader.count(), reader.record(2)) == (None, 3, "c")
    blocks = reader.blocks(1, 1, 3)
    assert [text for block in blocks for batch in reader.texts(block) for text in batch.texts] == ["b", "c"]
    assert [len(batch.texts) for block in reader.blocks(1) for batch in reader.texts(block)] == [2, 0, 1]
