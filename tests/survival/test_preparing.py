"""Recipes of text while they are prepared: failed at their operations, on full disks, over sources that change."""

import json
import shutil
import signal

import pytest
from made_corpora import make
from paths import TOKENIZER
from survival.stage import EVERY, Place, check, check_again, small_disk
from survival.test_every_operation import sweep

from tokfmt.formats.jsonl.index import index_path, write_index

pytestmark = pytest.mark.slow

RECIPE = """tokfmt = 1
tokenizer = "tokenizer"
dedup = "exact"
shuffle = "documents"
[[source]]
path = "web.jsonl"
filter = "garbage"
tokens = 900
[[source]]
path = "books.jsonl.gz"
filter = "garbage"
tokens = 1_500
[[source]]
path = "news.jsonl"
"""
SERIAL = ["--executor", "serial", "--no-manifest"]
KEPT = [".out.pbin.tokfmt-resume"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A recipe of a source drawn by its index, a compressed one, one that is read whole; and its tokenizer."""
    home = tmp_path_factory.mktemp("made") / "corpus"
    home.mkdir()
    make(home)
    for path in home.iterdir():
        if path.name not in RECIPE:
            path.unlink()
    write_index(home / "web.jsonl", index_path(home / "web.jsonl"))
    shutil.copytree(TOKENIZER, home / "tokenizer")
    (home / "mix.toml").write_text(RECIPE)
    return home


def place_for(tmp_path, corpus, *words):
    return Place(tmp_path / "home", ["corpus/mix.toml", "out.pbin", *SERIAL, *words], corpus)


def test_each_operation(tmp_path, stage, corpus):
    """A signal, or an error of the file system, at any of them."""
    sweep(place_for(tmp_path, corpus), stage, stride=1 if EVERY else 19)


def test_files_may_not_grow(tmp_path, stage, corpus):
    """EFBIG: in scratch first, then in what is written."""
    place = place_for(tmp_path, corpus)
    place.learn(stage)
    codes = []
    for limit in (2_100, 6_000, 9_000, 1 << 20):
        place.reset()
        ended = stage.run(place.home, *place.words, limit=limit)
        state = check(place, ended)
        codes.append(ended.code)
        if ended.code:
            assert (ended.code, state, place.hidden()) == (4, "absent", [])
            assert "the file would be larger than allowed here" in ended.error()
            assert ".entries" not in ended.error(), "of a shard the tokens are larger"
    assert codes[0] == 4
    assert codes[-1] == 0


def test_a_full_disk_and_then_more_room(tmp_path, stage, corpus):
    """What was done is kept with --resume, and nothing without."""
    place = place_for(tmp_path, corpus)
    place.learn(stage)
    needed = sum(path.stat().st_size for path in corpus.rglob("*") if path.is_file())
    place.home = tmp_path / "disk"
    place.home.mkdir()
    with small_disk(place.home, needed + 400 * 4096) as why:
        if why:
            pytest.skip(f"a small disk needs the right to mount: {why}")
        shutil.copytree(corpus, place.home / "corpus")
        (place.home / "ballast").write_bytes(bytes(385 * 4096))
        for words, left in (([], []), (["--resume"], KEPT)):
            ended = stage.run(place.home, *place.words, *words)
            assert (check(place, ended), ended.code) == ("absent", 4), ended.stderr
            assert "no space left on the disk" in ended.error()
            assert place.hidden() in (left, []), "nothing was done that is worth keeping"
        (place.home / "ballast").unlink()
        place.words += ["--resume"]
        assert stage.run(place.home, *place.words).code == 0
        assert place.state() == "new"
        assert place.hidden() == []


def interrupted(place, stage):
    """Killed when the first source is tokenised and journaled, or the second."""
    operations = place.learn(stage).operations
    at = next(k for k, name in enumerate(operations) if "done-source-0-2-0" in name)
    place.reset()
    assert stage.run(place.home, *place.words, at=at, signal=int(signal.SIGKILL)).code == -signal.SIGKILL
    assert place.hidden() == KEPT


def swapped(path):
    """A tokenizer two of whose tokens have each other's ids."""
    content = json.loads(path.read_text("utf-8"))
    vocab = content["model"]["vocab"]
    first, second = list(vocab)[300:302]
    vocab[first], vocab[second] = vocab[second], vocab[first]
    return json.dumps(content).encode()


CHANGES = {
    "source gone": ("news.jsonl", lambda path: None, 3, "corpus/news.jsonl: no such file"),
    "source changed": (
        "news.jsonl", lambda path: path.read_bytes() + b'{"text": "more"}\n', 4, "news.jsonl has changed since",
    ),
    "another tokenizer": ("tokenizer/tokenizer.json", swapped, 4, "the tokenizer was corpus/tokenizer ("),
    "another recipe": (
        "mix.toml", lambda path: path.read_bytes().replace(b"900", b"800"), 4, "mix.toml has changed since",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_before_it_goes_on(tmp_path, stage, corpus, change):
    """Each is refused by name; as it was before, what was done is still of use."""
    name, changed, code, message = CHANGES[change]
    place = place_for(tmp_path, corpus, "--resume")
    interrupted(place, stage)
    path, aside = place.home / "corpus" / name, place.home.parent / "aside"
    new = changed(path)
    path.rename(aside)
    if new is not None:
        path.write_bytes(new)
    ended = stage.run(place.home, *place.words)
    assert (check(place, ended), ended.code) == ("absent", code), ended.stderr
    assert message in ended.error()
    assert "vocab_size" not in ended.error()
    assert place.hidden() == KEPT
    aside.rename(path)
    done = stage.run(place.home, *place.words)
    assert done.code == 0, done.stderr
    assert "continuing what is in" in done.stderr
    assert place.state() == "new"


@pytest.mark.parametrize("how", ["shrinks", "grows", "goes"])
def test_a_source_that_changes_while_it_is_read(tmp_path, stage, corpus, how):
    place = place_for(tmp_path, corpus)
    operations = place.learn(stage).operations
    reads = [k for k, name in enumerate(operations) if name.endswith("news.jsonl")]
    begun = next(k for k, name in enumerate(operations) if "scratch" in name)
    original = tmp_path / "original"
    shutil.copy(place.home / "corpus/news.jsonl", original)
    file = place.home / "corpus/news.jsonl"
    writes = next(k for k, name in enumerate(operations) if name.startswith("pwrite") and "build" in name)
    for at in [*[k for k in reads if k > begun][:: 1 if EVERY else 2], writes]:
        place.reset()
        size = {"shrinks": original.stat().st_size // 2, "grows": None, "goes": -1}[how]
        ended = stage.run(place.home, *place.words, at=at, change=[str(file), size])
        shutil.copy(original, file)
        assert check(place, ended) == "absent", operations[at]
        assert ended.code == 3, (operations[at], ended.stderr)
        assert "news.jsonl" in ended.error()
        assert place.hidden() == []
    check_again(place, stage, "absent")


def test_text_that_is_no_utf_8(tmp_path, stage, corpus):
    """Where it stands; with the words that leave it out the run goes on where it was."""
    place = place_for(tmp_path, corpus, "--resume")
    file = place.home / "corpus/news.jsonl"
    file.write_bytes(file.read_bytes() + b'{"text": "caf\xe9 au lait"}\n')
    place.words += ["--drop", "invalid-lines"]
    place.learn(stage)
    ended = stage.run(place.home, *place.words[:-2])
    assert (check(place, ended), ended.code) == ("absent", 3)
    assert "news.jsonl: line 46 is not UTF-8 at byte" in ended.error()
    assert "--drop invalid-lines leaves such lines out" in ended.error()
    assert place.hidden() == KEPT
    done = stage.run(place.home, *place.words)
    assert (done.code, place.state(), place.hidden()) == (0, "new", []), done.stderr
    assert "what is tokenized stays" in done.stderr
