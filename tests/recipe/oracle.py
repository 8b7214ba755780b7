"""What a recipe must give, in plain Python: one token after the other, no arrays, nothing shared with tokfmt.

An item is (id, source, sequence, position); a sample is a list of rows (item or None, label or None).
"""

from typing import NamedTuple


class Item(NamedTuple):
    id: int
    source: int
    sequence: int
    position: int


def items_of(sources, separator):
    """Every position of every sequence that is not empty, as lists of items, a list for each sequence."""
    found = []
    for s, sequences in enumerate(sources):
        for q, ids in enumerate(sequences):
            if ids:
                row = [*ids] + ([separator] if separator is not None else [])
                found.append([Item(token, s, q, p) for p, token in enumerate(row)])
    return found


def stream(sequences, width, labels, tail):
    flat = [item for sequence in sequences for item in sequence]
    samples, at = [], 0
    while at < len(flat):
        if labels == "disjoint":
            window = flat[at : at + width + 1]
            at += width + 1
            rows = [(a, b.id) for a, b in zip(window, window[1:])]
            whole = len(window) == width + 1
        elif labels == "next":
            window = flat[at : at + width]
            following = [item.id for item in flat[at + 1 : at + width + 1]] + [None]
            rows = list(zip(window, following))
            at += width
            whole = len(window) == width and rows[-1][1] is not None
        else:
            window = flat[at : at + width]
            at += width
            rows = [(item, item.id) for item in window]
            whole = len(window) == width
        if any(label is not None for _, label in rows) and (whole or tail == "pad"):
            samples.append(rows)
    return samples


def pieces_of(sequence, width, labels, long):
    """Pieces of one sequence, each a list of rows."""
    found = []
    for at in range(0, len(sequence), width):
        rows = []
        for k in range(at, min(at + width, len(sequence))):
            follows = sequence[k + 1].id if k + 1 < len(sequence) else None
            label = {"next": follows, "same": sequence[k].id if rows else None}.get(labels, sequence[k].id)
            rows.append((sequence[k], label))
        if any(label is not None for _, label in rows):
            found.append(rows)
        if long == "truncate":
            break
    return found


def document(sequences, width, labels, long):
    return [piece for sequence in sequences for piece in pieces_of(sequence, width, labels, long)]


def bestfit(sequences, width, labels):
    """Best fit by its definition: one piece after the other looks at every open sample."""
    pieces = document(sequences, width, labels, "split")
    order = sorted(range(len(pieces)), key=lambda k: (-len(pieces[k]), k))
    bins = []
    for k in order:
        fitting = [b for b in bins if b["room"] >= len(pieces[k])]
        if fitting:
            best = min(fitting, key=lambda b: b["room"])  # the first of equals: bins are in order of opening
        else:
            best = {"room": width, "pieces": []}
            bins.append(best)
        best["room"] -= len(pieces[k])
        best["pieces"].append(k)
    for b in bins:
        b["pieces"].sort()
    bins.sort(key=lambda b: b["pieces"][0])
    return [[row for k in b["pieces"] for row in pieces[k]] for b in bins], [
        [len(pieces[k]) for k in b["pieces"]] for b in bins
    ]


def fields(rows, width, labels, pad, bos, borders):
    """All fields of one sample. `borders`: lengths of pieces where a piece begins with its own; None: by sequence."""
    begins, at = set(), 0
    if borders is not None:
        for length in borders:
            begins.add(at)
            at += length
    for k, (item, _) in enumerate(rows):
        before = rows[k - 1][0] if k else None
        if (
            before is None
            or (before.source, before.sequence) != (item.source, item.sequence)
            or before.position + 1 != item.position
        ):
            begins.add(k)
    if len(rows) < width:
        begins.add(len(rows))
    cu = sorted(begins | {width})
    positions, documents, document, position = [], [], -1, 0
    for k in range(width):
        if k in begins:
            document, position = document + 1, 0
        positions.append(position)
        documents.append(document if k < len(rows) else -1)
        position += 1
    ids = [item.id for item, _ in rows] + [pad] * (width - len(rows))
    if labels == "starts":
        ids = [bos if k in begins else ids[k - 1] for k in range(width)]
        ids[len(rows) :] = [pad] * (width - len(rows))
    told = [-100 if label is None else label for _, label in rows] + [-100] * (width - len(rows))
    mask = [int(k < len(rows) and rows[k][1] is not None) for k in range(width)]
    return {
        "input_ids": ids,
        "labels": told,
        "loss_mask": mask,
        "position_ids": positions,
        "document_ids": documents,
        "cu_seqlens": cu + [width] * (width + 1 - len(cu)),
    }


def spans_of(rows, labels, following):
    """Spans (source, sequence, start, stop) of a sample; `disjoint` moves on by its last label as well."""
    items = [item for item, _ in rows] + ([following] if following is not None else [])
    found = []
    for item in items:
        if found and found[-1][:2] == [item.source, item.sequence] and found[-1][3] == item.position:
            found[-1][3] += 1
        else:
            found.append([item.source, item.sequence, item.position, item.position + 1])
    return [tuple(span) for span in found]
