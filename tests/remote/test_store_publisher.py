"""A destination in a store keeps the laws of publishing."""

import shutil

import pytest
import stores
from publishing import DATA, INDEX, OLD, PAIR, PublisherContract, journal_of
from steps import Steps

from tokfmt.files.store_publisher import StorePublisher


class TestStore(PublisherContract):
    takes_over = replaces_in_one_step = False

    @pytest.fixture(autouse=True)
    def _at(self, tmp_path):
        self.home, self.steps, self.held = tmp_path, Steps(tmp_path), {}
        self.store = stores.Writable(self.held, self.steps.step)
        stores.register_store("mem", lambda url: self.store)
        stores.close_stores()
        self.url = stores.Url("mem", "bkt", DATA)

    def publisher(self, *, overwrite=False, keep=False):
        return StorePublisher(
            self.url, PAIR, spool=self.home, overwrite=overwrite, kept="resume" if keep else "",
            companions=[INDEX],
        )  # fmt: skip

    def journal(self, publisher):
        return journal_of(publisher)

    def publish(self, publisher):
        publisher.files = {
            name: PAIR.measured(path) for name in (DATA, INDEX) if (path := publisher.path.with_name(name)).exists()
        }
        super().publish(publisher)

    def seen(self):
        return {name: content for name, content in self.held.items() if name in OLD}

    def put(self, content):
        self.held.update(content)

    def left(self):
        return [name for name in self.held if name not in OLD] + [path.name for path in self.home.iterdir()]

    def clear(self):
        self.held.clear()
        for path in self.home.iterdir():
            shutil.rmtree(path)
