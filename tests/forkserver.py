"""Processes of Python that have imported tokfmt already: forked by a server, as `subprocess.Popen` starts others.

Most of the time of a short command goes into the interpreter and imports. The server, one for each process of pytest,
has imported everything and started no thread; for each command it forks a process that gets its own arguments,
directory, environment and descriptors, runs `-m MODULE`, `-c CODE` or a script as Python does, and ends as Python
ends. Signals, sessions, pipes and terminals are those of any process. Tests of what comes before that (what is
imported, from where, in how much memory; a signal while it is imported) start a real interpreter.
"""

import atexit
import codecs
import contextlib
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from types import ModuleType

EARLY = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "OPENBLAS_", "OMP_", "HDF5_", "TEXTUAL_", "ZARR_", "HF_")
"""Beginnings of the names of variables that are read before a command runs, by Python, libc or an import."""
GIVEN = ("PYTHONPATH", "PYTHONIOENCODING")
"""Those of them that `become` follows."""


class Popen(subprocess.Popen):
    """`subprocess.Popen` of `[sys.executable, ...]`, forked from the server.

    What the server's processes cannot be given is started as ever: an environment that differs in `EARLY`, options of
    the interpreter, another program. `also` names modules that its server has imported besides.
    """

    def __init__(self, args, also=(), **how):
        self._connection, self._also = None, also
        super().__init__(args, **how)

    def _execute_child(self, args, executable, preexec_fn, *more):
        (
            _close_fds, pass_fds, cwd, env, _info, _flags, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
            _restore, _gid, _gids, _uid, _umask, start_new_session, _group,
        ) = more  # fmt: skip
        words = [] if isinstance(args, (str, bytes)) else [os.fspath(word) for word in args]
        env = dict(os.environ if env is None else env)
        ours = words[:1] == [sys.executable] and (words[1] in ("-m", "-c") or not words[1].startswith("-"))
        if preexec_fn or pass_fds or shell or executable or not ours or _early(env) != _early(os.environ):
            super()._execute_child(args, executable, preexec_fn, *more)
            return
        job = {
            "words": words[1:],
            "cwd": os.path.abspath(cwd or "."),
            "env": env,
            "session": start_new_session,
        }
        theirs = [fd if fd != -1 else number for number, fd in enumerate((p2cread, c2pwrite, errwrite))]
        try:
            self._connection, other = socket.socketpair()
            with other:
                socket.send_fds(server(self._also), [b"."], [other.fileno(), *theirs])
            self._connection.sendall(json.dumps(job).encode())
            self._connection.shutdown(socket.SHUT_WR)
            self.pid = self._told()
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]
        self._child_created = True

    def _told(self):
        """The next number that the server says: the process, then its status."""
        said = self._connection.recv(8)
        assert len(said) == 8, "the server of processes has ended"
        return int(said)

    def _wait(self, timeout):
        if self._connection is None:
            return super()._wait(timeout)
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            with self._connection:
                self._handle_exitstatus(self._told())  # type: ignore[attr-defined]
        return self.returncode

    def _internal_poll(self, *args, **more):
        if self._connection is None:
            return super()._internal_poll(*args, **more)
        try:
            return self._wait(0)
        except subprocess.TimeoutExpired:
            return None


def run(
    args,
    *,
    input=None,  # noqa: A002 - as there
    timeout=120,
    check=False,
    capture_output=False,
    **how,
):
    """`subprocess.run` with `Popen`."""
    if capture_output:
        how |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        how["stdin"] = subprocess.PIPE
    with Popen(args, **how) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _early(environment):
    """What is read before a command runs."""
    return {key: value for key, value in environment.items() if key.startswith(EARLY) and key not in GIVEN}


servers = []
"""Processes of the servers that this process has started."""


@cache
def server(also=()):
    """The socket of this process's server that has imported these as well; it is started the first time."""
    ours, theirs = socket.socketpair()
    with theirs:
        words = [sys.executable, __file__, str(theirs.fileno()), *also]
        environment = {key: value for key, value in os.environ.items() if key not in GIVEN}
        process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment)
    servers.append(process)

    def end():
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def serve(control):
    """Fork a process for each request; returns in that process, with what it is to run.

    A request is a byte with the descriptors of a connection and of stdin, stdout and stderr; the connection brings the
    job as JSON, and takes two numbers of 8 digits: the process, which says it itself, and its status in the end.
    """
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connections = {}
    while True:
        ready = select.select([control, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            for pid in list(connections):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    with connections.pop(pid) as connection:
                        _say(connection, status)
        if control in ready:
            byte, fds, _, _ = socket.recv_fds(control, 1, 4)
            if not byte:
                sys.exit()
            connection = socket.socket(fileno=fds[0])
            job = json.loads(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                if job["session"]:
                    os.setsid()
                _say(connection, os.getpid())
                for number, fd in enumerate(fds[1:]):
                    os.dup2(fd, number)
                for open_one in (control, connection, *connections.values()):
                    open_one.close()
                for fd in (woken, wake, *fds[1:]):
                    os.close(fd)
                return job
            for fd in fds[1:]:
                os.close(fd)
            connections[pid] = connection


def _say(connection, number):
    with contextlib.suppress(OSError):  # nobody waits for it any more
        connection.sendall(b"%8d" % number)


def become(job):
    """Make of this process what Python is before it runs a program."""
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    encoding, _, errors = job["env"].get("PYTHONIOENCODING", "").partition(":")
    for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        was = getattr(sys, name)
        plain = was.write_through  # PYTHONUNBUFFERED
        file = open(fd, f"{mode}b", buffering=0 if plain and fd else -1, closefd=False)  # noqa: SIM115 - for all its life
        stream = io.TextIOWrapper(
            file,
            codecs.lookup(encoding).name if encoding else was.encoding,
            was.errors if fd == 2 else errors or ("strict" if encoding else was.errors),
            newline="\n" if fd else None,
            line_buffering=not plain and (fd == 2 or os.isatty(fd)),
            write_through=plain,
        )
        stream.mode = mode
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.path[1:1] = filter(None, job["env"].get("PYTHONPATH", "").split(os.pathsep))


def execute(words):
    """Run a program as `python WORDS` does, in a `__main__` of its own."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    how, rest = words[0], words[1:]
    if how == "-m":
        sys.path[0], sys.argv = os.getcwd(), ["-m", *rest[1:]]
        runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]
    elif how == "-c":
        sys.path[0], sys.argv = "", ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.path[0], sys.argv = os.path.dirname(os.path.abspath(how)), words
        main.__file__ = how
        exec(compile(Path(how).read_bytes(), how, "exec"), main.__dict__)


def end(status, kept):
    """End the process as Python does, but for taking down what it shares with the server: pages are copied for that."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        for name in sys.modules.keys() - kept:
            del sys.modules[name]
        gc.collect()  # what the program has left says good-bye
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # Python says what it says
    os._exit(status)


if __name__ == "__main__":
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from warm import import_all, load_engines

    import_all("pyarrow.compute", "pyarrow.parquet", *sys.argv[2:])
    load_engines()
    assert threading.active_count() == 1
    KEPT = set(sys.modules) - {"__main__"}
    gc.collect()
    gc.freeze()  # processes share the pages
    JOB = serve(socket.socket(fileno=int(sys.argv[1])))
    become(JOB)
    STATUS = 0
    try:
        execute(JOB["words"])
    except SystemExit as leave:
        STATUS = leave.code or 0
        if not isinstance(STATUS, int):
            raise
    end(STATUS & 255, KEPT)
    sys.exit(STATUS)
