"""A process that has imported tokfmt once and forks a conversion for each line it is given, broken as the line says.

A job is {"words": [...], "home": directory, "fault": {...}}. The child is a process of its own, in a session of its own, that
runs the command line in `home`. Its file operations are counted: the audit events of what opens, makes, lists, renames,
links or removes something below `home`, and the calls of `os` that read, write and sync by descriptor, which Python does not audit.

Faults ("at" is the number of an operation, from 0; left out: every operation that "on" allows):
    {"signal": n, "at": k}       the process gets the signal just before operation k
    {"errno": e, "at": k}        operation k fails with the error
    {"errno": e, "on": [names], "below": path}   each of these operations on this file fails
    {"pause": directory, "at": k}    waits before operation k: makes `paused` in the directory, until `go` is there
    {"change": words, "at": k}   `os.truncate(path, size)` or appending "x", before operation k, in the middle of reading
    {"limit": bytes}             RLIMIT_FSIZE
    {"portable": true}           a file system without renameat2
    {"kill_worker": k}           the k-th worker process is killed as soon as it runs
    {"user": uid, "environ": {}} another user runs it, with these environment variables besides

Requests, one JSON a line: {"start": job} answers {"pid": n}; {"wait": pid} answers what became of it.
"""

import atexit
import gc
import json
import os
import resource
import select
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from warm import import_all, load_engines

EVENTS = {
    "open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.truncate", "os.listdir", "os.scandir",
    "fcntl.flock", "ctypes.dlsym",
}  # fmt: skip
CALLS = ("pread", "preadv", "pwrite", "write", "fsync", "copy_file_range")
REGION = 1024
TIMEOUT = 60


class Operations:
    """Counts file operations and calls `fault(number, name, path)` before each."""

    def __init__(self, home, fault):
        self.home, self.fault, self.lock = home, fault, threading.Lock()
        self.names, self.mine = [], os.getpid()
        for name in CALLS:
            setattr(os, name, self.wrapped(name, getattr(os, name)))
        sys.addaudithook(self.audit)

    def wrapped(self, name, call):
        def calls(fd, *args, **more):
            self.count(name, fd)
            return call(fd, *args, **more)

        return calls

    def audit(self, event, args):
        if event == "ctypes.dlsym" and args[1] == "renameat2":
            self.count("renameat2", self.home)
        elif event in EVENTS and event != "ctypes.dlsym":
            self.count(event, args[0])

    def count(self, name, where):
        if isinstance(where, int):
            try:
                where = os.readlink(f"/proc/self/fd/{where}")
            except OSError:
                return
        if where is None or os.getpid() != self.mine:
            return
        path = os.path.abspath(os.fsdecode(where))
        if not path.startswith(self.home):
            return
        with self.lock:
            number = len(self.names)
            self.names.append(f"{name} {os.path.relpath(path, self.home)}")
        self.fault(number, name, path)


def make_fault(fault):
    def happens(number, name, path):
        if "at" in fault and number != fault["at"]:
            return
        if "on" in fault and (name not in fault["on"] or not path.endswith(fault["below"])):
            return
        if "signal" in fault:
            os.kill(os.getpid(), fault["signal"])
        if "errno" in fault:
            raise OSError(fault["errno"], os.strerror(fault["errno"]), os.path.relpath(path))  # as it was named
        if "pause" in fault:
            pause(Path(fault["pause"]))
        if "change" in fault:
            change(*fault["change"])

    return happens


def pause(where):
    (where / "paused").touch()
    until = time.monotonic() + TIMEOUT
    while not (where / "go").exists() and time.monotonic() < until:
        time.sleep(0.005)


def change(path, size):
    if size == -1:
        os.unlink(path)
        return
    if size is not None:
        os.truncate(path, size)
        return
    with open(path, "ab") as file:
        file.write(b"x")


def convert_small_regions():
    """Small inputs have several regions, as large ones do."""
    from tokfmt.commands.convert import write

    plan = write.plan
    write.plan = lambda source, writer, size: plan(source, writer, REGION)


def kill_a_worker(number):
    from concurrent.futures import process

    spawn = process.ProcessPoolExecutor._spawn_process  # type: ignore[attr-defined]

    def spawned(self):
        spawn(self)
        if len(self._processes) == number:
            os.kill(list(self._processes)[-1], signal.SIGKILL)

    process.ProcessPoolExecutor._spawn_process = spawned  # type: ignore[attr-defined]


def child(job):
    os.setsid()
    home, fault = os.path.realpath(job["home"]), job.get("fault", {})
    os.chdir(home)
    for name, fd in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(f"{job['log']}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), fd)
    sys.argv = ["tokfmt", *job["words"]]
    if "limit" in fault:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault["limit"],) * 2)
    if "portable" in fault:
        from tokfmt.files import durable, publisher

        publisher.rename = durable.rename_portably
    if "kill_worker" in fault:
        kill_a_worker(fault["kill_worker"])
    from tokfmt.cli.main import run

    if "user" in fault:
        become(fault["user"], fault["environ"])
    operations = Operations(home, make_fault(fault))
    try:
        run()
    except SystemExit as leave:
        code = leave.code
    operations.fault = lambda *_: None
    if not fault.keys() & {"limit", "user"}:
        Path(f"{job['log']}.operations").write_text("\n".join(operations.names))
    # as the interpreter ends, but for the teardown of its modules, which takes longer than all the rest
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def become(user, environ):
    """Another user, who may not be able to read what is installed: all is imported by then."""
    os.environ.update(environ)
    tempfile.tempdir = None
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


def wait(pid, log):
    """How the process ended: code (negative: the signal), what it printed, and who of its session was left behind."""
    fd = os.pidfd_open(pid)
    hung = not select.select([fd], [], [], TIMEOUT)[0]
    os.close(fd)
    if hung:
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    said = {name: Path(f"{log}.{name}").read_text() for name in ("stdout", "stderr")}
    done = Path(f"{log}.operations")
    names = done.read_text().splitlines() if done.exists() else []
    return {"code": os.waitstatus_to_exitcode(status), "hung": hung, "left": left(pid), "operations": names, **said}


def left(session, patience=5):
    """Processes of the session that are still there after some seconds."""
    until = time.monotonic() + patience
    while (found := of_session(session)) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def of_session(session):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(name)) != session:
                continue
            state = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX":
                found.append(Path("/proc", name, "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def serve():
    from tokfmt import registry

    import_all("zarr", without=["tokfmt.browser"])
    load_engines()
    for name in registry.names():
        registry.get(name)
    convert_small_regions()
    gc.collect()
    gc.freeze()  # children share the pages
    logs = {}
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        if "start" in request:
            pid = os.fork()
            if not pid:
                child(request["start"])
            logs[pid] = request["start"]["log"]
            answer = {"pid": pid}
        else:
            answer = wait(request["wait"], logs.pop(request["wait"]))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
