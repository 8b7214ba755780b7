"""Rows of any IDs and columns: such as trainers write, and such as contradict themselves."""

from hypothesis import strategies as st

PER_TOKEN = {
    "labels": st.sampled_from([-100, 1]), "completion_mask": st.sampled_from([0, 1, 1]), "loss_mask": st.integers(0, 1),
    "attention_mask": st.sampled_from([0, 1, 1, 1, 2]), "inputs_segmentation": st.integers(0, 2),
    "position_ids": st.sampled_from([0, 1, 2, 3, 9]),
}  # fmt: skip
PER_DOCUMENT = ("seq_lengths", "seq_start_id")
SECOND = ("completion", "targets", "targets_segmentation")


@st.composite
def documents(draw):
    """A row as trainers write it: documents, some of them padded, with all columns that state it."""
    ids, columns = [], {name: [] for name in (*PER_TOKEN, *PER_DOCUMENT)}
    trailing = draw(st.integers(0, 2))
    for number in range(1, draw(st.integers(1, 3)) + 1):
        length, padding, skip = draw(st.integers(1, 4)), draw(st.integers(0, 2)), draw(st.sampled_from([0, 0, 5]))
        columns["seq_start_id"].append(len(ids))
        columns["seq_lengths"].append(length + padding)
        for k in range(length + padding):
            counts = k < length and draw(st.booleans())
            ids.append(draw(st.integers(1, 3)) if k < length else 0)
            columns["labels"].append(ids[-1] if counts else -100)
            columns["completion_mask"].append(int(counts))
            columns["loss_mask"].append(draw(st.integers(0, 1)))
            columns["attention_mask"].append(int(k < length))
            columns["inputs_segmentation"].append(number * (k < length))
            columns["position_ids"].append(k + skip * (k > 1))
    ids += [0] * trailing
    for name in PER_TOKEN:
        columns[name] += [-100 if name == "labels" else 0] * trailing
    segments = columns["inputs_segmentation"]
    labels = draw(st.sampled_from([ids, [*ids[1:], draw(st.sampled_from([0, 3]))]]))
    columns["targets"] = (
        [draw(st.sampled_from([one, one, one, 0, -100])) for one in labels] if draw(st.booleans()) else labels
    )
    columns["targets_segmentation"] = [*segments[1:], 0]
    columns["completion"] = draw(st.lists(st.integers(0, 2), max_size=3))
    return ids, columns


@st.composite
def noise(draw):
    """A row whose columns have any values."""
    size = draw(st.integers(0, 7))
    ids = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    longer = draw(st.sampled_from([0] * 12 + [1]))
    columns = {
        name: draw(st.lists(values, min_size=size + longer, max_size=size + longer))
        for name, values in PER_TOKEN.items()
    }
    columns["labels"] = [label if label < 0 else one for label, one in zip(columns["labels"], [*ids, 1], strict=False)]
    for name in (*PER_DOCUMENT, "completion"):
        columns[name] = draw(st.lists(st.integers(-1 if name == "completion" else 0, 4), max_size=3))
    for name in ("targets", "targets_segmentation"):
        columns[name] = draw(st.lists(st.integers(0, 2), min_size=size + longer, max_size=size + longer))
    return ids, columns
