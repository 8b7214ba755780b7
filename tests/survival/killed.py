"""Run conversions in children that kill themselves at their k-th file operation; answers JSON of what was seen.

One process imports everything and forks a child for each conversion, so a sweep over hundreds of moments takes seconds.
"""

import gc
import json
import os
import shutil
import signal
import sys
import traceback
from pathlib import Path

from warm import import_all, load_engines

from tokfmt import registry
from tokfmt.commands.convert.arrangement import arrangement_of
from tokfmt.commands.convert.convert import convert_files
from tokfmt.commands.convert.request import Request
from tokfmt.errors import TokfmtError
from tokfmt.files import journal
from tokfmt.files.journal import Task, read_journal
from tokfmt.files.place import LocalPlace
from tokfmt.run import plan, shuffle
from tokfmt.run.progress import Progress
from tokfmt.source.request import SourceRequest
from tokfmt.testing import tree

COUNTED = (
    "pwrite", "fsync", "replace", "rename", "unlink", "truncate", "ftruncate", "mkdir", "rmdir", "copy_file_range",
)  # fmt: skip


EVERY = bool(os.environ.get("FUZZ"))
"""`make fuzz`: a kill at every operation."""
TASKS = []
"""The names of the task functions that were run, one for each task, but for those that look at everything first."""


def counting_tasks():
    run_tasks = plan.run_tasks

    def counted(function, shared, items, *where):
        items = list(items)
        if function.__name__ != "_scan":
            TASKS.extend([function.__name__] * len(items))
        return run_tasks(function, shared, items, *where)

    plan.run_tasks = counted


class Moments:
    """Counts file operations; at the k-th, half of it is done (a torn write) and the process is killed."""

    def __init__(self, fatal):
        self.count, self.fatal = 0, fatal
        for name in COUNTED:
            setattr(os, name, self.wrapped(name, getattr(os, name)))
        journal.sync_file_system = lambda path: self.step()
        sys.addaudithook(self.hook)

    def wrapped(self, name, function):
        def call(*args, **kwargs):
            if name == "pwrite" and self.count + 1 == self.fatal:
                fd, data, offset = args
                function(fd, bytes(memoryview(data).cast("B"))[: memoryview(data).nbytes // 2], offset)
            self.step()
            return None if name == "fsync" else function(*args, **kwargs)  # what is killed needs no disk

        return call

    def hook(self, event, args):
        if event == "open":
            self.step()

    def step(self):
        self.count += 1
        if self.count == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)


def child(work, fatal=0):
    """Exit status of `work()` in a child; 0, 1, or -9; and how many file operations there were."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            moments = Moments(fatal)
            counting_tasks()
            work()
            os.write(write, f"{moments.count} {len(TASKS)}".encode())
            code = 0
        except TokfmtError as error:
            os.write(write, str(error).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


def request(case, out, **more):
    shuffle.REGION = case.get("spill", shuffle.REGION)
    journal.FLUSH_SHARE = case.get("flush", journal.FLUSH_SHARE)
    source = SourceRequest(
        tuple(case["sources"]), eos=case.get("eos"), allow_loss=frozenset(case.get("allow_loss", ()))
    )
    arrangement = arrangement_of(case.get("shuffle"), case.get("split"), None)
    return Request(
        source, LocalPlace(out), to=case.get("to"), arrangement=arrangement, to_options=case.get("to_options", {}), tokenizer=case.get("tokenizer"), executor="serial",
        region=case["region"], manifest=True, **more,
    )  # fmt: skip


def convert(case, out, **more):
    return lambda: convert_files(request(case, out, **more), Progress())


def held(home):
    """What stands in a directory, manifests apart: bytes by name."""
    return {
        p.name: tree(p) for p in home.iterdir() if not p.name.startswith(".") and not p.name.endswith(".tokfmt.json")
    }


def check(home, expected, status, said):
    """Each destination is absent or whole; when the run ended well, all are whole, and alone."""
    found = held(home)
    wrong = [name for name, content in found.items() if content != expected.get(name)]
    assert not wrong, f"not whole: {wrong}"
    if status == 0:
        assert found.keys() == expected.keys()
        allowed = sorted([*expected, *(f"{name}.tokfmt.json" for name in expected)])
        assert sorted(os.listdir(home)) == allowed, os.listdir(home)
        return
    published = "already exists" in said and found.keys() == expected.keys()  # killed while it left
    assert status == -9 or published, said


def journaled(home):
    """How many tasks the journals in the hidden siblings vouch for."""
    lines = [line for path in home.glob(".*-work/journal-*") for line in read_journal(path)[0]]
    return len({(kind, number) for kind, number, _ in lines})


def sweep(case, home, moments):
    """Kill at each of about `moments` operations, then resume: only the tasks that no journal vouches for are run."""
    name = case["name"]
    reference = Path(home, "reference", name)
    reference.parent.mkdir()
    status, said = child(convert(case, reference))
    assert status == 0, said
    expected = held(reference.parent)
    place = Path(home, "counted", name)
    place.parent.mkdir()
    status, said = child(convert(case, place, resume=True))
    check(place.parent, expected, status, said)
    total, tasks = map(int, said.split())
    seen = {"operations": total, "tasks": tasks, "outputs": len(expected), "killed": 0, "spared": 0}
    step = 1 if EVERY else max(1, total // moments)
    # the last step is halved twice: how many operations come after the last task differs from run to run
    for fatal in sorted({*range(1, total, step), total - step // 2 - 1, total - step // 4 - 1}):
        out = Path(home, f"k{fatal}", name)
        out.parent.mkdir()
        status, said = child(convert(case, out, resume=True), fatal)
        seen["killed"] += status == -9
        check(out.parent, expected, status, said)
        done = journaled(out.parent)
        complete = held(out.parent).keys() == expected.keys()
        if complete and not list(out.parent.glob(".*-work")):
            continue  # killed after all was over
        status, said = child(convert(case, out, resume=True))
        check(out.parent, expected, status, said)
        if status == 0 and not complete:  # else it was killed while it left
            again = int(said.split()[1]) - (tasks - done)  # a task that was being made smaller is made once more
            assert 0 <= again <= case.get("smaller", 0), f"{said}: {done} of {tasks} tasks were done"
            seen["spared"] = max(seen["spared"], done)
        shutil.rmtree(out.parent)
    assert seen["killed"] >= moments - 1, seen
    return seen


def relay(case, home):
    """Every run is killed after part of the operations that one run takes: progress is made all the same."""
    reference = Path(home, "reference", case["name"])
    reference.parent.mkdir()
    status, said = child(convert(case, reference, resume=True))
    assert status == 0, said
    expected = held(reference.parent)
    stretch = int(said.split()[0]) * 2 // 3
    out = Path(home, "relay", case["name"])
    out.parent.mkdir()
    runs = 0
    while True:
        runs += 1
        assert runs < 200, "no progress"
        status, said = child(convert(case, out, resume=True), stretch)
        check(out.parent, expected, status, said)
        if held(out.parent).keys() == expected.keys() and not list(out.parent.glob(".*-work")):
            return {"runs": runs}


def tasks(case, home, order, moments):
    """Tasks in any order, each killed on its way and run again; then --finish, killed and run again."""
    from tokfmt.commands.convert.convert import finish

    reference = Path(home, "reference", case["name"])
    reference.parent.mkdir()
    assert child(convert(case, reference))[0] == 0
    out = Path(home, "tasks", case["name"])
    out.parent.mkdir()
    publish = lambda: finish(out, executor="serial")  # noqa: E731
    said = [child(publish)[1]]
    for index in order:
        work = convert(case, out, task=Task(index, len(order)))
        for fatal in moments:
            child(work, fatal)
        status, text = child(work)
        assert status == 0, text
        if index != order[-1]:
            said.append(child(publish)[1])
    for fatal in moments:
        status, text = child(publish, fatal)
        assert status in (-9, 0), text
        assert not out.exists() or tree(out) == tree(reference)
        if not list(out.parent.glob(".*-work")):
            break
    else:
        status, text = child(publish)
    check(out.parent, held(reference.parent), status, text)
    return {"said": said}


def serve():
    """For each line {"do": name, "case": case, "home": directory, "how": more} say what was seen, or what went wrong."""
    for line in iter(sys.stdin.readline, ""):
        given = json.loads(line)
        try:
            seen = globals()[given["do"]](given["case"], given["home"], **given["how"])
        except BaseException:
            seen = {"failed": traceback.format_exc()[-3000:]}
        print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    import_all("isal.isal_zlib", "deflate", without=["tokfmt.browser"])
    load_engines()
    registry.names()
    gc.collect()
    gc.freeze()  # children share the pages
    serve()
