"""The rule of rows in plain Python lists, one row at a time; it shares no code with tokfmt."""

import itertools

MASKS = ("completion_mask", "assistant_masks", "loss_mask")
COUNTING = (*MASKS, "completion")
SEGMENTS = ("inputs_segmentation", "inputs_segment_ids")
POSITIONS = ("position_ids", "inputs_position", "inputs_positions")


class ContradictionError(Exception):
    """The columns of a row do not fit its IDs, or contradict each other."""


def spans(begins, size):
    """Return the documents of a row as (start, stop), given where they begin; the first one begins with the row."""
    edges = sorted({0, size, *begins})
    return list(itertools.pairwise(edges))


def begins_by(name, values, content, size):
    """Return where documents begin by one column, as positions of a row."""
    if name == "seq_lengths":
        base = 0 if sum(values) == size or not content else content[0]
        if sum(values) not in {size, content[-1] + 1 - content[0] if content else 0}:
            raise ContradictionError(name)
        if any(value <= 0 for value in values):
            raise ContradictionError(name)
        return [base + sum(values[:k]) for k in range(len(values))]
    if name == "seq_start_id":
        if size and (not values or values[0] or sorted(values) != values or values[-1] >= size):
            raise ContradictionError(name)
        if not size and values:
            raise ContradictionError(name)
        return values
    found = []
    for k, at in enumerate(content):
        before = content[k - 1] if k else None
        if before is None or (values[at] == 0 if name in POSITIONS else values[at] != values[before]):
            found.append(at)
        elif name in POSITIONS and values[at] <= values[before]:
            raise ContradictionError(name)
    return found


def masked_by(ids, targets, segments, excluded, bounds):
    """Return the positions that do not count by targets, which are the IDs, or the next ID for each, in all content."""
    content = {k for k in range(len(ids)) if not excluded[k]}
    off = {k for k in content if targets[k] in {0, -100} or segments[k] == 0}
    same = {k for k in content - off if targets[k] == ids[k]}
    if same and same == content - off:
        return {k for k in content if segments[k] == 0 or targets[k] != ids[k]}
    masked, firsts = set(), set()
    for start, stop in bounds:
        own = sorted(content & {*range(start, stop)})
        firsts |= {*own[:1]}
        for k in own:
            following = ids[k + 1] if k + 1 < len(ids) else None
            if targets[k] != following and k not in off:
                raise ContradictionError("targets")
            if k + 1 in own and (targets[k] != following or segments[k] == 0):
                masked.add(k + 1)
    return masked | firsts if masked else masked


def read(ids, columns, choice=None, eos_id=None, *, is_own=False, pairs=False, samples=False):
    """Return the documents of a row as (ID, whether it counts) lists, and the numbers of what was left out.

    A sample is one list of (ID, whether it counts, whether a document but the first begins, whether it is padding).

    Args:
        ids: The IDs of the row.
        columns: The values by name; None where the row has none.
        choice: The option: "next", "all" or None.
        eos_id: The separator, if it is known.
        is_own: tokfmt wrote the row.
        pairs: `targets` are completions.
        samples: The row is read as it is stored.
    """
    second = "completion" if "completion" in columns else "targets" if pairs and "targets" in columns else None
    if second is not None:
        columns = dict(columns)
        values = columns.pop(second)
        columns["completion"] = None if values is None else [0] * len(ids) + [1] * len(values)
        if any(value < 0 for value in values or []):
            raise ContradictionError(second)
        ids = [*ids, *(values or [])]
    targets = columns.get("targets") if {*columns} == {"targets"} else None
    are_own = bool(targets) and all(a in {b, 0, -100} for a, b in zip(targets, ids, strict=False))
    if ids and len(targets or []) == len(ids) and not are_own and targets[-1] > 0:
        ids, columns = [*ids, targets[-1]], {"targets": [*targets, 0]}
    there = {name: values for name, values in columns.items() if values is not None}
    for name, values in there.items():
        if name not in ("seq_lengths", "seq_start_id") and len(values) != len(ids):
            raise ContradictionError(name)
    size = len(ids)
    excluding = [there[name] for name in ("attention_mask", *SEGMENTS) if name in there]
    if any(value < 0 for values in excluding for value in values):
        raise ContradictionError("negative")
    excluded = [any(values[k] == 0 for values in excluding) for k in range(size)]
    content = [k for k in range(size) if not excluded[k]]
    numbered = max(there.get("attention_mask") or [0]) > 1
    dividing = [name for name in (*SEGMENTS, *POSITIONS, "seq_lengths", "seq_start_id") if name in there]
    dividing = ["attention_mask"] * numbered + dividing
    divisions = [begins_by(name, there[name], content, size) for name in dividing]
    kept_by = [[[k for k in range(a, b) if not excluded[k]] for a, b in spans(each, size)] for each in divisions]
    kept_by = [[document for document in each if document] for each in kept_by]
    if any(each != kept_by[0] for each in kept_by):
        raise ContradictionError(dividing)
    begins = set().union(*divisions)
    if not dividing and eos_id is not None and not is_own and len({ids[k] for k in range(size) if excluded[k]}) == 1:
        begins = {b for a, b in itertools.pairwise(content) if b - a > 1 and ids[a] == eos_id}
        dividing = ["attention_mask"] * bool(begins)
    bounds = spans(sorted(begins), size)

    pairs_of_content = list(itertools.pairwise(content))
    columns_of_positions = [there[name] for name in POSITIONS if name in there]
    steps = [(b - a, one[b] - one[a], one[b]) for one in columns_of_positions for a, b in pairs_of_content]
    jumps = sum(step > distance and position != 0 for distance, step, position in steps)

    ended = set()
    positions = next((there[name] for name in POSITIONS if name in there), None)
    labels = there.get("labels")
    if positions is not None and labels is not None and not is_own:
        run = size
        while run and (
            excluded[run - 1] or (positions[run - 1] == 0 and labels[run - 1] == -100 and ids[run - 1] == ids[-1])
        ):
            run -= 1
        ended = {k for k in range(run, size) if not excluded[k]} if run else set()

    stated = {}
    for name in ("labels", *COUNTING):
        if name in there:
            own = [value != (-100 if name == "labels" else 0) for value in there[name]]
            if name == "loss_mask" and (choice == "next" or "seq_start_id" in columns):
                firsts = {a for a, _ in bounds}
                own = [k not in firsts and own[k - 1] for k in range(size)]
            stated[name] = own
    every = [all(own[k] for own in stated.values()) for k in range(size)]
    has_marks = any(name in columns for name in ("labels", *COUNTING))
    masked = set()
    if "targets" in there:
        segments = there.get("targets_segmentation", [1] * size)
        masked = masked_by(ids, there["targets"], segments, excluded, bounds)

    documents, left = [], {"padding": 0, "ended": len(ended), "fill": 0, "inside": 0, "jumps": jumps}
    for start, stop in bounds:
        rest = [k for k in range(start, stop) if not excluded[k] and k not in ended]
        if dividing and has_marks and rest and ids[rest[-1]] == eos_id and not is_own:
            run = len(rest)
            while run and ids[rest[run - 1]] == ids[rest[-1]]:
                run -= 1
            if every[rest[run]] and not any(every[k] for k in rest[run + 1 :]):
                left["fill"] += len(rest) - run - 1
                rest = rest[: run + 1]
        documents.append(range(rest[0], rest[-1] + 1) if rest else range(0))
    inside = {k for k in set().union(*documents) if excluded[k]}
    kept = set().union(*documents)
    left["inside"], left["masked"] = len(inside), len(masked & kept)
    left["padding"] = sum(excluded) - len(inside)
    for name in MASKS:
        if name in there and any(there[name][k] not in (0, 1) for k in kept):
            raise ContradictionError(name)
    firsts = {document[0] for document in documents if document}
    if choice != "all":
        for one in stated.values():
            if any(one[k] != own[k] for own in stated.values() for k in kept):
                raise ContradictionError("counts")
    read = []
    for document in documents:
        counts = []
        for k in document:
            shifted = [
                name for name in stated if name == "loss_mask" and (choice == "next" or "seq_start_id" in columns)
            ]
            own = {name: flags[k] for name, flags in stated.items()}
            own |= {name: False for name in shifted if k in firsts}
            counts.append(all(own.values()) and k not in inside and k not in masked)
        read.append([(ids[k], count) for k, count in zip(document, counts, strict=True)])
    left["divided"] = len([document for document in read if document]) > 1
    if samples:
        counted = {
            k: count for document, one in zip(documents, read, strict=True) for k, (_, count) in zip(document, one)
        }
        begins = {*sorted(firsts)[1:]} if dividing else set()
        return [(ids[k], counted.get(k, False), k in begins, k not in kept) for k in range(size)], left
    read = [document for document in read if document] if dividing else [sum(read, [])]
    return read, left
