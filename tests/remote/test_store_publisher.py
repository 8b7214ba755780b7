"""A destination in a store keeps the laws of publishing."""

import json
import shutil

import pytest
import stores
from paths import FIXTURES
from publishing import DATA, INDEX, OLD, PAIR, PublisherContract, journal_of
from steps import Steps

import tokfmt
from tokfmt.errors import ConversionError, OutageError
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
        built = [publisher.path.with_name(name) for name in (DATA, INDEX)]
        publisher.files = {
            publisher.name_of(key): one.measured for key, one in publisher.uploaded.items() if key in OLD
        }
        publisher.files |= {path.name: PAIR.measured(path) for path in built if path.exists()}
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


class TestStoreEarly(TestStore):
    """The data are uploaded, and removed from the spool, as soon as they are complete, if no old dataset is there."""

    meanwhile = ConversionError

    def is_early(self, publisher):
        return publisher.continues or not publisher.url.is_there()

    def build(self, publisher):
        early = self.is_early(publisher)
        if early:
            publisher.recall()
        super().build(publisher)
        if early:
            data = publisher.path.with_name(DATA)
            publisher.take([data])
            publisher.drop([data])

    def publish(self, publisher):
        if self.is_early(publisher):
            publisher.recall()
        super().publish(publisher)


def test_a_run_that_lacks_its_manifest_only_is_continued(tmp_path, monkeypatch):
    """Its ledger is in the store already, and is no part of the dataset, whose files are not in the spool any more."""
    monkeypatch.setenv("TOKFMT_SPOOL", str(tmp_path))
    held, failing = {}, {"put m.tokfmt.json"}

    def step(name):
        if name in failing:
            raise OSError(5, "an outage")

    store = stores.Writable(held, step)
    stores.register_store("mem", lambda url: store)
    stores.close_stores()
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'tokfmt = 1\n[[source]]\npath = "{FIXTURES / "modalities" / "D_2byte_gpt2.pbin"}"\n')
    how = {"to_format": "mds", "to_options": {"shard_size": 600}, "resume": True, "ledger": True}
    with pytest.raises(OutageError) as stopped:
        tokfmt.convert(recipe, "mem://bkt/m", **how)
    assert any("is absent; 6 objects are uploaded" in note for note in stopped.value.__notes__)
    failing.clear()
    tokfmt.convert(recipe, "mem://bkt/m", **how)
    output = json.loads(held["m.tokfmt.json"])["output"]
    assert [one["key"] for one in output["objects"]] == sorted(key for key in held if key.startswith("m/"))
    assert output["files"] == 4 and "m.ledger" in held
