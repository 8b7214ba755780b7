"""A conversion that is killed, interrupted or failed at each of its file operations."""

import errno
import signal
import traceback

import pytest
from amount import FUZZ_ONLY, first, only
from survival.stage import DIRECTORY, EVERY, NAMES, TARGETS, TEXT, Place, check, check_again

import tokfmt

pytestmark = pytest.mark.slow

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FAULTS = [{"signal": int(number)} for number in SIGNALS]
FAULTS += [{"errno": code} for code in (errno.EIO, errno.ENOSPC, errno.EACCES)]


def moments(operations, faults, phase, stride):
    """(k, fault): each operation with one of the faults, in turn, so that all targets together have all; or with each."""
    for k in range(0, operations, 1 if EVERY else stride):
        for i, fault in enumerate(faults):
            if EVERY or i == (k + phase) % len(faults):
                yield k, fault


def holds(place, stage, at, fault, operations):
    """Break one run, see that the laws hold; after a kill, and now and then after others, that the next run works."""
    place.reset()
    ended = stage.run(place.home, *place.words, at=at, **fault)
    state = check(place, ended)
    # what this run broke at: journals are kept by the clock, so that a later run may have some operations more or fewer
    hit = (ended.operations or operations)[at] if at < len(ended.operations or operations) else "nothing"
    cleaning = "errno" in fault and hit.startswith(("os.remove", "os.rmdir", "os.scandir", "os.listdir", "open"))
    resumes = "--resume" in place.words
    if ended.code == -signal.SIGKILL:
        assert fault == {"signal": signal.SIGKILL}
    else:
        kept = ended.code and resumes and "kept in .out.pbin.tokfmt-work" in ended.stderr
        left = [] if not kept else [".out.pbin.tokfmt-work"]
        assert place.hidden() == left or cleaning, "it cleaned up, and left something"
        assert "signal" not in fault or ended.code in (0, 128 + fault["signal"])
        assert "errno" not in fault or ended.code in (0, 3, 4), ended.stderr
    if ended.code == -signal.SIGKILL or place.hidden() or at % 8 == 0:
        check_again(place, stage, state)


def sweep(place, stage, faults=FAULTS, phase=0, stride=1):
    """Every operation of a conversion; failures name the operation and the fault."""
    operations = place.learn(stage).operations
    assert len(operations) > 30
    failures = []
    for at, fault in moments(len(operations), faults, phase, stride):
        try:
            holds(place, stage, at, fault, operations)
        except AssertionError as wrong:
            failures.append(
                f"{fault} at {at} ({operations[at]}): {(str(wrong) or traceback.format_exc()).splitlines()[0]}"
            )
    assert not failures, "\n".join(failures)


STRIDE = {"flat-tokens": 3, "hdf5": 2, "megatron": 2}
"""Many of their operations are alike: files of chunks, and both files of a pair."""


@pytest.mark.parametrize("target", only(("modalities",), TARGETS))
def test_fresh(tmp_path, stage, pack, target):
    place = Place(tmp_path / "home", [pack.name, *TARGETS[target], "--executor", "serial"], pack, NAMES.get(target))
    sweep(place, stage, phase=list(TARGETS).index(target), stride=STRIDE.get(target, 1) if EVERY else 2)


def overwriting(tmp_path, stage, pack, other_pack, target):
    """A place where another dataset is at the destination, and its manifest."""
    words = [*TARGETS[target], "--executor", "serial", "--overwrite"]
    before = Place(tmp_path / "before", [other_pack.name, *words], other_pack)
    before.learn(stage)
    place = Place(tmp_path / "home", [pack.name, *words], pack)
    place.old = before.new
    place.reset()
    return place


@pytest.mark.parametrize("target", ["modalities", "stage1"])
def test_old_destination(tmp_path, stage, pack, other_pack, target):
    """A file and a directory with --overwrite: the old one is whole until the new one is."""
    place = overwriting(tmp_path, stage, pack, other_pack, target)
    sweep(place, stage, phase=list(TARGETS).index(target), stride=5)


@pytest.mark.parametrize("target", only(["stage1"], ["modalities", "stage1"]))
def test_old_destination_without_renameat2(tmp_path, stage, pack, other_pack, target):
    """A file system that cannot swap: a file is replaced in one step all the same, a directory comes back."""
    place = overwriting(tmp_path, stage, pack, other_pack, target)
    operations = stage.run(place.home, *place.words, portable=True).operations
    place.new = place.held()
    assert not any(name.startswith("renameat2") for name in operations)
    faults = {"signal": signal.SIGKILL}, {"signal": signal.SIGTERM}, {"errno": errno.EIO}
    for at in (k for k, name in enumerate(operations) if name.startswith(("os.rename", "fsync", "os.remove"))):
        for fault in faults if EVERY else [faults[at % 3]]:
            place.reset()
            ended = stage.run(place.home, *place.words, at=at, portable=True, **fault)
            if ended.code != -signal.SIGKILL:
                check(place, ended)
            done = stage.run(place.home, *place.words[:-1], portable=True)
            assert done.code == 4, "the old destination did not come back"
            assert place.state() in ("old", "new")


@FUZZ_ONLY
def test_text(tmp_path, stage, text):
    place = Place(tmp_path / "home", [text.name, "out.pbin", *TEXT, "--executor", "serial"], text)
    sweep(place, stage, stride=6)  # a tokenizer is slow to load


SPLIT = ["--split", "train=0.6,validation=0.4"]
KINDS = {
    "shuffle": (["in.pbin", "out.pbin", "--shuffle", "1"], None),
    "split": (["in.pbin", "out.pbin", *SPLIT], ["out.train.pbin", "out.validation.pbin"]),
    "split and shuffle": (["in.pbin", *TARGETS["flat-tokens"], *SPLIT, "--shuffle", "2"], None),
    "resume": (["in.pbin", "out.pbin", "--shuffle", "1", "--resume"], None),
    "hdf5 directory": (["in.pbin", "out", "--to", "hdf5", "--seq-len", "128", "--to-opt", "shard_size=1152"], None),
}


@FUZZ_ONLY
@pytest.mark.parametrize("kind", only(["resume", "hdf5 directory"], KINDS))
def test_kinds(tmp_path, stage, pack, kind):
    """Splits that are several destinations come all or not at all, but for SIGKILL: then each is old or new."""
    words, names = KINDS[kind]
    place = Place(tmp_path / "home", [*words, "--executor", "serial"], pack, names)
    sweep(place, stage, phase=list(KINDS).index(kind), stride=17 if len(words) > 8 else 9)


@pytest.mark.parametrize("kind", only(["split"], ["split", "hdf5 directory"]))
def test_kinds_with_an_old_destination(tmp_path, stage, pack, other_pack, kind):
    words, names = KINDS[kind]
    words = [*words, "--executor", "serial", "--overwrite"]
    before = Place(tmp_path / "before", [other_pack.name, *words[1:]], other_pack, names)
    before.learn(stage)
    place = Place(tmp_path / "home", words, pack, names)
    place.old = before.new
    place.reset()
    sweep(place, stage, phase=3, stride=9)


DESTINATIONS = {
    "files": KINDS["split"],
    "directories": (["in.pbin", "out", "--to", "stage1", "--seq-len", "256", *SPLIT], ["out.train", "out.validation"]),
}


def killed(place, stage, at):
    """Kill a run that writes splits, see what `check` reports of each, and finish it; returns the state it left."""
    place.reset()
    state = check(place, stage.run(place.home, *place.words, at=at, signal=signal.SIGKILL))
    held = place.held()
    for name in (name for name in place.names if (place.home / name).exists()):
        (report,) = tokfmt.check(place.home / name)
        found = [one for one in report.findings if one.code == "TF910"]
        assert [one.severity for one in found] == (["error"] if f"{name}.tokfmt.json" not in held else []), (at, name)
    check_again(place, stage, state)
    return state


def test_a_kill_between_two_splits(tmp_path, stage, pack):
    words, names = KINDS["split"]
    place = Place(tmp_path / "home", [*words, "--executor", "serial"], pack, names)
    operations = place.learn(stage).operations
    _, second = (k for k, name in enumerate(operations) if name.startswith("renameat2"))
    assert killed(place, stage, second) == "partly"


@FUZZ_ONLY
@pytest.mark.parametrize(
    ("kind", "word"),
    only(
        [("files", ""), ("files", "--resume"), ("directories", "--overwrite")],
        [(kind, word) for kind in DESTINATIONS for word in ("", "--overwrite", "--resume")],
    ),
)
def test_a_kill_between_the_renames_of_splits(tmp_path, stage, pack, other_pack, kind, word):
    """Each split is old or new, `check` reports the set, and a run with --overwrite or --resume finishes it."""
    words, names = DESTINATIONS[kind]
    words = [*words, "--executor", "serial", *([word] if word else [])]
    place = Place(tmp_path / "home", words, pack, names)
    if word == "--overwrite":
        before = Place(tmp_path / "before", [other_pack.name, *words[1:]], other_pack, names)
        before.learn(stage)
        place.old = before.new
        place.reset()
    operations = place.learn(stage).operations
    first, last = (k for k, name in enumerate(operations) if name.startswith("renameat2"))
    assert not any(name.startswith("fsync") for name in operations[first:last])
    states = []
    for at in range(first - 6, len(operations)):  # journals are kept by the clock: a run may have fewer operations
        if at > last + 6 and at % 4 and not EVERY:
            continue
        states.append(killed(place, stage, at))
    assert states[0] == ("old" if word == "--overwrite" else "absent")
    assert "new" in states
    assert "partly" in states or word == "--resume"


@pytest.mark.parametrize("existing", [False, True])
def test_a_split_that_cannot_appear_takes_back_the_others(tmp_path, stage, pack, other_pack, existing):
    words, names = KINDS["split"]
    words = [*words, "--executor", "serial", "--overwrite"]
    place = Place(tmp_path / "home", words, pack, names)
    if existing:
        before = Place(tmp_path / "before", [other_pack.name, *words[1:]], other_pack, names)
        before.learn(stage)
        place.old = before.new
        place.reset()
    operations = place.learn(stage).operations
    second = [k for k, name in enumerate(operations) if name.startswith("renameat2")][1]
    for fault in ({"errno": errno.ENOSPC}, {"signal": signal.SIGTERM}):
        ended = stage.run(place.home, *words, at=second, **fault)
        assert check(place, ended) == ("old" if existing else "absent")
        assert place.held() == (place.old or {})
        assert place.hidden() == []


@pytest.mark.parametrize("name", first(1, ["out.pbin", "out.h5"]))
def test_merge(tmp_path, stage, pack, other_pack, name):
    sources = tmp_path / "sources"
    sources.mkdir()
    for number, source in enumerate((pack, other_pack, pack)):
        (sources / f"part-{number}.pbin").write_bytes(source.read_bytes())
    words = ["sources/part-*.pbin", name, "--executor", "serial", *(["--seq-len", "128"] if name == "out.h5" else [])]
    sweep(Place(tmp_path / "home", words, sources), stage, phase=2, stride=11)


@FUZZ_ONLY
def test_lines(tmp_path, stage, text):
    """Records copied as they stand, read back, and no manifest."""
    words = [text.name, "out.jsonl", "--executor", "serial", "--verify", "--no-manifest"]
    sweep(Place(tmp_path / "home", words, text), stage, phase=1)


@FUZZ_ONLY
@pytest.mark.parametrize("target", only([DIRECTORY], ["hdf5", DIRECTORY]))
def test_threads(tmp_path, stage, pack, target):
    place = Place(tmp_path / "home", [pack.name, *TARGETS[target], "--executor", "threads", "--jobs", "4"], pack)
    last = len(place.learn(stage).operations) - 12  # threads do not always do the same
    for at in range(8, last, 1 if EVERY else 11):
        for fault in FAULTS[at % 3 :: 3]:
            place.reset()
            ended = stage.run(place.home, *place.words, at=at, **fault)
            state = check(place, ended)
            assert ended.code == -signal.SIGKILL or not place.hidden()
            if ended.code == -signal.SIGKILL:
                check_again(place, stage, state)


@FUZZ_ONLY
@pytest.mark.parametrize("number", only([signal.SIGKILL, signal.SIGTERM], SIGNALS), ids=lambda n: n.name)
def test_processes(tmp_path, stage, pack, number):
    """Worker processes do not outlive the conversion, however it ends."""
    words = [pack.name, *TARGETS["hdf5"], "--executor", "processes", "--jobs", "2"]
    place = Place(tmp_path / "home", words, pack)
    operations = place.learn(stage).operations
    parts = [k for k, name in enumerate(operations) if "scratch/" in name or "000000" in name]
    ended = stage.run(place.home, *words, at=parts[0], signal=int(number))
    state = check(place, ended)
    assert ended.code == (-number if number == signal.SIGKILL else 128 + number)
    if number == signal.SIGKILL:
        check_again(place, stage, state)


def test_a_worker_process_is_killed(tmp_path, stage, pack):
    words = [pack.name, *TARGETS["hdf5"], "--executor", "processes", "--jobs", "2"]
    place = Place(tmp_path / "home", words, pack)
    place.new = {}
    ended = stage.run(place.home, *words, kill_worker=2)
    assert check(place, ended) == "absent"
    assert ended.code == 4
    assert "a worker process ended abruptly" in ended.error()
    assert place.hidden() == []


def test_a_run_that_fails_before_it_has_a_journal_leaves_no_place(tmp_path, stage, pack):
    words, _ = KINDS["resume"]
    place = Place(tmp_path / "home", [*words, "--executor", "serial"], pack)
    operations = place.learn(stage).operations
    begin = next(k for k, name in enumerate(operations) if name.startswith("open .out.pbin.tokfmt-work"))
    made = next(k for k, name in enumerate(operations) if name.startswith("os.mkdir .out.pbin.tokfmt-work/scratch"))
    for at in range(begin, made + 1):
        for fault in ({"signal": signal.SIGTERM}, {"errno": errno.ENOSPC}):
            place.reset()
            ended = stage.run(place.home, *place.words, at=at, **fault)
            assert place.hidden() == [], (operations[at], fault, ended.code)


@pytest.mark.parametrize("target", only(("flat-tokens",), TARGETS))
def test_published_without_a_manifest_and_then_asked_for_otherwise(tmp_path, stage, text, target):
    """What another request has published is only replaced as a whole, with --overwrite; no file is left beside it."""
    words = [text.name, *TARGETS[target], "--executor", "serial", *TEXT, "--resume"]
    place = Place(tmp_path / "home", words, text, NAMES.get(target))
    other = Place(tmp_path / "other", [*words, "--shuffle", "3"], text, NAMES.get(target))
    other.learn(stage)
    killed = stage.run(place.home, *words, signal=int(signal.SIGKILL), on=["os.rename"], below=".tokfmt.json.draft")
    assert killed.code == -signal.SIGKILL
    published = place.held()
    assert published and not place.manifest.exists()
    refused = stage.run(place.home, *other.words)
    assert refused.code == 4 and "already exists" in refused.error() and "--overwrite" in refused.error()
    assert place.held() == published
    done = stage.run(place.home, *other.words, "--overwrite")
    assert done.code == 0, done.stderr
    names = {path.name for path in place.home.iterdir()}
    assert names == {text.name, *place.names, f"{place.name}.tokfmt.json"}
    held, wanted = (
        {name: data for name, data in files.items() if not name.endswith(".tokfmt.json")}
        for files in (place.held(), other.new)
    )
    assert held == wanted
