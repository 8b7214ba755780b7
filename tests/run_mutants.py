"""Runs for the fuzzer: each golden set with its facts, random facts, and what must agree in what is read."""

import json
import re
import shutil

SETS = {
    "megatron_core": {"cache": "cache_blend", "root": ".", "batch_size": 8},
    "megatron_lm_23.06": {"framework": "megatron-lm", "cache": "cache", "root": ".", "batch_size": 8},
    "gpt_neox": {
        "framework": "gpt-neox", "root": ".", "batch_size": 8, "train_data_weights": [0.35, 0.4, 0.25],
        "train_data_paths": ["data/harbour", "data/meadow", "data/lantern"],
    },
    "nanotron_nanoset": {
        "framework": "nanoset", "root": ".", "dataset_folders": ["data/harbour", "data/meadow"], "seed": 1,
        "sequence_length": 32, "batch_size": 8,
    },
    "mosaic_streaming": {
        "framework": "mosaic-streaming", "root": ".", "streams": ["mds/harbour", "mds/meadow"], "shuffle": True,
        "batch_size": 8,
    },
    "litdata": {
        "framework": "litdata", "root": ".", "input_dir": "data/harbour", "shuffle": True, "num_workers": 2,
        "batch_size": 8,
    },
    "olmo1": {
        "framework": "olmo", "root": ".", "paths": ["data/harbour.npy", "data/meadow.npy", "data/lantern.npy"],
        "dtype": "uint16", "sequence_length": 64, "batch_size": 8, "drop_last": True, "seed": 6198,
    },
    "olmo_core": {
        "framework": "olmo-core", "root": ".", "cache": "work_fsl", "dtype": "uint16", "sequence_length": 64,
        "paths": ["data/harbour.npy", "data/meadow.npy", "data/lantern.npy"], "batch_size": 8,
    },
}  # fmt: skip
_NUMBERS = [0, 1, 2, 3, 7, 8, 64, 1000, 2**16, 2**20, 2**31 - 1, 2**31, 2**40, 2**63, -1, 0.5, 1e300, float("nan")]
_WORDS = ["", ".", "..", "data", "/etc", "s3://x/y", "train", "py1s", "cyclic", "bfd", "1,2", "0:8,64:16", "\ud800"[:0]]
_SUFFIXES = {".npy", ".txt", ".dsc", ".gz", ".toml", ".json", ".idx", ".index"}


def homes(fixtures, home):
    """Copies of the sets, each with its facts in `run.toml`; [path of that file]."""
    found = []
    for name, facts in SETS.items():
        if (fixtures / "runs" / name).exists():
            shutil.copytree(fixtures / "runs" / name, home / name)
            found.append(home / name / "run.toml")
            found[-1].write_text(_toml(facts))
    return found


def files_of(path):
    """The order files, indexes and facts of a set."""
    return sorted(
        one
        for one in path.parent.rglob("*")
        if one.suffix in _SUFFIXES and not one.name.startswith(("expected", "docs"))
    )


def random_facts(path, rng):
    """The text of the facts of a set, some of which are others, left out or added."""
    from tokfmt.base.options import hints_of
    from tokfmt.runs.facts import ReadOptions

    facts, hints = dict(SETS[path.parent.name]), hints_of(ReadOptions)
    for _ in range(rng.randint(1, 4)):
        key = rng.choice([*facts, *hints])
        kind, one = rng.randrange(12), facts.get(key)
        if kind == 0:
            facts.pop(key, None)
        elif kind == 1:
            facts[key] = rng.choice(_NUMBERS)
        elif kind == 2:
            facts[key] = rng.choice(_WORDS)
        elif kind == 3:
            facts[key] = rng.choice([True, False, [], [rng.choice(_NUMBERS) for _ in range(rng.randrange(4))]])
        elif kind == 4 and isinstance(one, int):
            facts[key] = one * rng.choice([2, 3, 1000]) + rng.randrange(3)
        else:
            facts[key] = _fitting(str(hints[key]), rng)
    return _toml(facts)


def _fitting(hint, rng):
    """A value of the type of a key."""
    words = re.findall(r"'([^']+)'", hint)
    if words:
        return rng.choice(words)
    if "tuple" in hint:
        return [str(rng.choice([0, 0.3, 1, 2, 5, 40, 10**6, 10**9])) for _ in range(rng.randint(1, 3))]
    if "bool" in hint:
        return rng.random() < 0.5
    return (
        rng.choice([*range(9), 16, 33, 100, 280, 500, 4096, 2**16, 2**22, 2**26, 2**30])
        if "int" in hint
        else rng.choice(_WORDS)
    )


def _toml(facts):
    text = "tokfmt = 1\n[run]\n"
    for key, value in facts.items():
        text += f"{key} = {json.dumps(value).replace('NaN', 'nan')}\n"
    return text


def read_run(reader, rng):
    """Read some samples, a step, and where a sequence was read; raise AssertionError if they contradict each other."""
    order, length = reader.order, reader.seq_len
    assert reader.info.tokens == reader.info.sequences * length
    count = reader.info.sequences
    chosen = sorted({0, count - 1, *(rng.randrange(count) for _ in range(3))}) if count else []
    for row in chosen:
        ids = reader.tokens(row * length, (row + 1) * length)
        padded = reader.is_padding(row * length, (row + 1) * length)
        parts = reader.parts(row + order.first)
        real = min(length, sum(part.stop - part.start for part in parts))
        assert len(ids) == length and int((~padded).sum()) == real
        at = 0
        for part in parts:
            assert 0 <= part.start < part.stop
            stored = reader.datasets[part.source].axis.tokens(part.at, part.at + part.stop - part.start)
            assert ids[at : at + len(stored)].tolist() == stored.tolist()[: length - at]
            at += len(stored)
    if count and order.batches.is_known:
        step = order.batches.step_of(order.first + rng.choice(chosen))
        taken = [sample for sample, _ in reader.taken(step, None)]
        assert len(set(taken)) == len(taken)
    source = rng.randrange(len(order.sources))
    if reader.datasets[source].spans.count and count <= 1 << 16:  # each pass is built again
        sequence = rng.randrange(reader.datasets[source].spans.count)
        reads = reader.seen(source, sequence)
        assert all(one.sample < two.sample for one, two in zip(reads, reads[1:], strict=False))
        for one in reads[:3]:
            assert (source, sequence) in [(part.source, part.sequence) for part in reader.parts(one.sample)]
    return "data"
