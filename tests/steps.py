"""A layer under a test whose n-th step fails: file operations below a directory, and whatever else reports its steps.

{"errno": e}   the step fails
{"stop": 1}    a signal comes right before it
{"kill": 1}    the process is killed before it: neither this step nor a later one happens, and locks are released
"""

import contextlib
import os
import sys

EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.chmod", "os.listdir", "os.scandir"}
CALLS = ("fsync", "write", "pwrite")
KINDS = ({"errno": 5}, {"errno": 28}, {"stop": 1}, {"kill": 1})


class Stop(BaseException):
    """A signal."""


class Steps:
    """Counts steps, and lets one of them fail. `names` lists them."""

    def __init__(self, home):
        self.home, self.names, self.at, self.fault, self.counts = os.path.realpath(home), [], -1, {}, False
        sys.addaudithook(self._audit)

    def step(self, name):
        """Take one step, unless it is the one that fails."""
        if not self.counts:
            return
        number = len(self.names)
        self.names.append(name)
        if number == self.at or (number > self.at >= 0 and "kill" in self.fault):
            if "errno" in self.fault:
                raise OSError(self.fault["errno"], os.strerror(self.fault["errno"]))
            raise Stop

    def _audit(self, event, args):
        if not self.counts or event not in EVENTS:
            if self.counts and event == "ctypes.dlsym" and args[1] == "renameat2":
                self.step("renameat2")
            return
        where = args[0]
        if isinstance(where, int):
            where = os.readlink(f"/proc/self/fd/{where}")
        if where is not None and os.path.abspath(os.fsdecode(where)).startswith(self.home):
            self.step(f"{event} {os.path.relpath(os.fsdecode(where), self.home)}")

    @contextlib.contextmanager
    def fail(self, at=-1, fault=None):
        """Count the steps in the context; step `at` fails. Errors of the context are swallowed, and yielded in a list."""
        self.names, self.at, self.fault = [], at, fault or {}
        before, raised, real = _held_by_this(self.home), [], {name: getattr(os, name) for name in CALLS}
        for name, call in real.items():
            setattr(os, name, self._counted(name, call))
        self.counts = True
        try:
            yield raised
        except Stop as error:
            raised.append(error)
        except Exception as error:
            raised.append(error)
        finally:
            self.counts = False
            for name, call in real.items():
                setattr(os, name, call)
            for fd in _held_by_this(self.home) - before:  # The process has ended, so its locks are free.
                os.close(fd)

    def _counted(self, name, call):
        def counted(fd, *args, **more):
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(f"/proc/self/fd/{fd}").startswith(self.home):
                    self.step(name)
            return call(fd, *args, **more)

        return counted


def _held_by_this(home):
    """Return the descriptors of this process below a directory."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith(home):
                found.add(int(name))
    return found
