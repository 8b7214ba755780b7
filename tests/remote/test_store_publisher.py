"""A destination in a store keeps the laws of publishing."""

import json
import shutil

import pytest
import stores
from paths import CORPUS, FIXTURES, TOKENIZER
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


@pytest.fixture
def without_manifest(tmp_path, monkeypatch):
    """What is in a store to which manifests cannot be written, and the failing steps."""
    monkeypatch.setenv("TOKFMT_SPOOL", str(tmp_path))
    held, failing = {}, {"put m.tokfmt.json"}

    def step(name):
        if name in failing:
            raise OSError(5, "an outage")

    store = stores.Writable(held, step)
    stores.register_store("mem", lambda url: store)
    stores.close_stores()
    return held, failing


def test_a_run_that_lacks_its_manifest_only_is_continued(tmp_path, without_manifest):
    """Its ledger is in the store already, and is no part of the dataset, whose files are not in the spool any more."""
    held, failing = without_manifest
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


def test_a_run_that_lacks_its_manifest_only_is_asked_for_otherwise(without_manifest):
    """Its objects are deleted first: no reader finds entries of one request with data of another."""
    held, failing = without_manifest
    how = {"to_format": "mds", "to_options": {"shard_size": 600}, "tokenizer": str(TOKENIZER), "executor": "serial"}
    how["allow_loss"] = ["empty-sequences"]
    tokfmt.convert(CORPUS, "mem://bkt/other", shuffle=3, **how)
    with pytest.raises(OutageError):
        tokfmt.convert(CORPUS, "mem://bkt/m", resume=True, **how)
    failing.clear()
    tokfmt.convert(CORPUS, "mem://bkt/m", resume=True, shuffle=3, **how)
    found, wanted = (
        {key.partition("/")[2]: content for key, content in held.items() if key.startswith(f"{name}/")}
        for name in ("m", "other")
    )
    assert found == wanted


def test_a_run_that_replaces_a_dataset_is_continued_while_that_is_readable(tmp_path, monkeypatch):
    """No object of it is overwritten before its manifest and its entries are gone."""
    monkeypatch.setenv("TOKFMT_SPOOL", str(tmp_path))
    steps, failing = [], {"delete m.tokfmt.json"}

    def step(name):
        steps.append(name)
        if not failing.isdisjoint(steps):  # From then on, so that the claim stays, as after a kill.
            raise OSError(5, "an outage")

    store = stores.Writable({}, step)
    stores.register_store("mem", lambda url: store)
    stores.close_stores()
    how = {"to_format": "mds", "to_options": {"shard_size": 600}, "eos": 50256, "executor": "serial"}
    pack = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
    tokfmt.convert(pack, "mem://bkt/m", **how)
    steps.clear()
    with pytest.raises(OutageError):
        tokfmt.convert(pack, "mem://bkt/m", shuffle=1, overwrite=True, resume=True, **how)
    failing.clear()
    steps.clear()
    tokfmt.convert(pack, "mem://bkt/m", shuffle=1, overwrite=True, resume=True, **how)
    gone = max(steps.index("delete m.tokfmt.json"), steps.index("delete m/index.json"))
    assert gone < next(number for number, name in enumerate(steps) if name.startswith("put m/shard"))
