"""Machines of another size: what Linux says of control groups, processors and memory."""

import os

from tokfmt.base import resources

GB = 1 << 30


class Machine:
    """A machine of 128 processors and 512 GB, whose control groups are files below a directory.

    Attributes:
        groups: The directory that stands for /sys/fs/cgroup.
        own: The file that stands for /proc/self/cgroup.
    """

    def __init__(self, home, monkeypatch):
        self.own, self.groups = home / "own", home / "groups"
        monkeypatch.setattr(resources, "_OWN", self.own)
        monkeypatch.setattr(resources, "_GROUPS", self.groups)
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(128)))
        sizes = {"SC_PHYS_PAGES": 512 * GB >> 12, "SC_PAGE_SIZE": 1 << 12}
        monkeypatch.setattr(os, "sysconf", sizes.__getitem__)

    def write(self, settings):
        """Write settings of groups, by their paths."""
        for path, text in settings.items():
            (self.groups / path).parent.mkdir(parents=True, exist_ok=True)
            (self.groups / path).write_text(text)
