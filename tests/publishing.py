"""The laws of a publisher, which hold whichever step fails: complete, or not written; no one is overwritten silently."""

import contextlib
import json
from pathlib import Path

import pytest
from steps import KINDS, Steps

from tokfmt import registry
from tokfmt.commands.guards import StoredFormat
from tokfmt.errors import ConversionError, DestinationExistsError
from tokfmt.files.journal import Journal

KILLED = {"kill": 1}
PAIR = StoredFormat(registry.get("megatron"))


def name_of(fault):
    return "-".join(map(str, *fault.items()))


def dataset(word):
    """A dataset of data, an index without which no reader opens it, and a manifest."""
    manifest = json.dumps({"schema": "tokfmt.manifest/1", "format": "megatron", "word": word}).encode()
    return {"out.bin": f"{word} data".encode(), "out.idx": f"{word} index".encode(), "out.bin.tokfmt.json": manifest}


NEW, OLD = dataset("new"), dataset("old")
DATA, INDEX, MANIFEST = NEW


class PublisherContract:
    """Laws of every backend.

    Attributes:
        takes_over: A run goes on after one that was killed. Otherwise it has to say that it overwrites.
        replaces_in_one_step: The old dataset is readable until the new one is.
        meanwhile: The error if another program writes the destination in the meantime.
    """

    home: Path
    steps: Steps
    takes_over = replaces_in_one_step = True
    meanwhile: type[ConversionError] = DestinationExistsError

    def publisher(self, *, overwrite=False, keep=False):
        """Return a publisher of the data, with the index as a companion."""
        raise NotImplementedError

    def seen(self):
        """Return the files that a reader finds, by name."""
        raise NotImplementedError

    def put(self, content):
        """Write files without a publisher."""
        raise NotImplementedError

    def left(self):
        """Return the names of what is there that is no part of a dataset."""
        raise NotImplementedError

    def clear(self):
        """Remove everything."""
        raise NotImplementedError

    def build(self, publisher):
        """Write the files of the new dataset where a publisher builds them."""
        for name in (DATA, INDEX):
            publisher.path.with_name(name).write_bytes(NEW[name])

    def publish(self, publisher):
        """Publish what was built, with its manifest."""
        publisher.publish({MANIFEST: NEW[MANIFEST]})

    def run(self, *, overwrite=False):
        with self.publisher(overwrite=overwrite) as one:
            self.build(one)
            self.publish(one)

    def run_kept(self):
        """Build what is not built yet, and publish."""
        with self.publisher(keep=True) as one:
            request = one.home / "conversion.json"
            one.keep = request.exists()
            if not request.exists():
                request.write_text("{}")
                one.keep = True
            with self.journal(one):
                if not one.published and not (one.home / "built").exists():
                    self.build(one)
                    (one.home / "built").touch()
                self.publish(one)
            one.keep = False

    def journal(self, publisher):
        """Open the journal of a publisher that has one."""
        return contextlib.nullcontext()

    def is_of_one(self, before):
        """Whether nothing that a reader opens is of two datasets, and a manifest is of what it is beside."""
        found = self.seen()
        if {DATA, INDEX} <= found.keys():
            return any(found.items() <= state.items() for state in (before, NEW))
        return MANIFEST not in found or any(found.items() <= state.items() for state in (before, NEW))

    @pytest.mark.parametrize("before", [{}, OLD], ids=["fresh", "old"])
    @pytest.mark.parametrize("fault", KINDS, ids=name_of)
    def test_complete_or_not_written(self, before, fault):
        """After a fault at any step, what is there is old, absent or new; the next run works, and leaves nothing."""
        self.put(before)
        with self.steps.fail() as raised:
            self.run(overwrite=bool(before))
        assert not raised, raised
        assert self.seen() == NEW
        steps = list(self.steps.names)
        assert len(steps) > 15
        for at in range(len(steps)):
            self.clear()
            self.put(before)
            with self.steps.fail(at, fault) as raised:
                self.run(overwrite=bool(before))
            found = self.seen()
            what = f"{fault} at {at} of {len(steps)}: {steps[at]}; {raised}, {found}, {self.left()}"
            assert self.is_of_one(before), what
            if fault != KILLED and (self.replaces_in_one_step or not before):
                cleaned = "errno" not in fault or not self.left()
                assert found in (before, NEW) or not (cleaned or INDEX in found), what
                complete = any("is complete" in note for one in raised for note in getattr(one, "__notes__", ()))
                assert not raised or complete == (found == NEW), what
                assert not self.left() or "errno" in fault, what
            again = not found and (self.takes_over or not self.left())
            self.run(overwrite=not again)
            assert self.seen() == NEW and not self.left(), what

    @pytest.mark.parametrize("fault", KINDS, ids=name_of)
    def test_a_run_that_is_kept_goes_on(self, fault):
        """What it has built is published by the next run, wherever it stopped."""
        with self.steps.fail() as raised:
            self.run_kept()
        assert not raised, raised
        steps = list(self.steps.names)
        for at in range(len(steps)):
            self.clear()
            with self.steps.fail(at, fault):
                self.run_kept()
            what = f"{fault} at {at} of {len(steps)}: {steps[at]}"
            assert self.is_of_one({}), what
            if self.seen() == NEW:  # Only the cleaning was cut short.
                self.run(overwrite=True)
            else:
                self.run_kept()
            assert self.seen() == NEW and not self.left(), what

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_one_writer_at_a_time(self, overwrite):
        """The other one is refused before it has built anything, and takes nothing along."""
        with self.publisher(overwrite=overwrite) as first:
            self.build(first)
            with pytest.raises(ConversionError, match="another tokfmt is writing it"):
                self.run(overwrite=overwrite)
            self.publish(first)
        assert self.seen() == NEW and not self.left()

    def test_what_exists_stays_without_overwrite(self):
        self.put(OLD)
        with pytest.raises(DestinationExistsError, match="--overwrite"):
            self.run()
        assert self.seen() == OLD and not self.left()

    def test_what_appears_meanwhile_stays(self):
        """Written by another program."""
        for name in (DATA, INDEX):
            self.clear()
            with pytest.raises(self.meanwhile), self.publisher() as one:
                self.build(one)
                self.put({name: b"mine"})
                self.publish(one)
            assert self.seen() == {name: b"mine"} and not self.left()

    def test_a_run_that_fails_leaves_nothing(self):
        with pytest.raises(ZeroDivisionError), self.publisher() as one:
            self.build(one)
            1 / 0  # noqa: B018
        assert self.seen() == {} and not self.left()


@contextlib.contextmanager
def journal_of(publisher):
    """Let a publisher record what it uploads."""
    with Journal(publisher.home) as journal:
        publisher.journal = journal
        yield
