"""Recipes of text while they are prepared: failed at their operations, on full disks, over sources that change."""

import gzip
import json
import shutil
import signal

import pytest
from amount import FUZZ_ONLY, every, first, only
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
TEXTS = """tokfmt = 1
tokenizer = "tokenizer"
dedup = "exact"
shuffle = "documents"
[[source]]
path = "letters"
filter = "garbage"
tokens = 1_500
[[source]]
path = "news.txt"
options = { separator = "---" }
"""
SERIAL = ["--executor", "serial", "--no-manifest"]
KEPT = [".out.pbin.tokfmt-work"]


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


@pytest.fixture(scope="module")
def texts(tmp_path_factory, corpus):
    """The same of text files: a directory of a file a document, some compressed; one that is split at lines."""
    home = tmp_path_factory.mktemp("made") / "corpus"
    (home / "letters").mkdir(parents=True)
    found = {
        name: [json.loads(line)["text"] for line in (corpus / f"{name}.jsonl").read_bytes().splitlines()]
        for name in ("web", "news")
    }
    for k, text in enumerate(found["web"][:60]):
        content, suffix = (gzip.compress(text.encode(), mtime=0), ".gz") if k % 9 == 4 else (text.encode(), "")
        (home / "letters" / f"{k}.txt{suffix}").write_bytes(content)
    (home / "news.txt").write_text("\n---\n".join(found["news"]) + "\n---\n")
    shutil.copytree(TOKENIZER, home / "tokenizer")
    (home / "mix.toml").write_text(TEXTS)
    return home


@pytest.fixture(params=first(1, ["corpus", "texts"]))
def either(request):
    """Both, one after the other."""
    return request.getfixturevalue(request.param)


def place_for(tmp_path, corpus, *words):
    return Place(tmp_path / "home", ["corpus/mix.toml", "out.pbin", *SERIAL, *words], corpus)


@FUZZ_ONLY
def test_each_operation(tmp_path, stage, either):
    """A signal, or an error of the file system, at any of them."""
    seldom = 97 if (either / "letters").exists() else 37  # many files are many operations
    sweep(place_for(tmp_path, either), stage, stride=1 if EVERY else seldom)


@FUZZ_ONLY
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


def test_a_full_disk_and_then_more_room(tmp_path, stage, either):
    """What was done is kept with --resume, and nothing without."""
    place = place_for(tmp_path, either)
    place.learn(stage)
    needed = sum(-(-path.stat().st_size // 4096) * 4096 for path in either.rglob("*") if path.is_file())
    place.home = tmp_path / "disk"
    place.home.mkdir()
    with small_disk(place.home, needed + 400 * 4096) as why:
        if why:
            pytest.skip(f"a small disk needs the right to mount: {why}")
        shutil.copytree(either, place.home / "corpus")
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


@pytest.mark.parametrize("change", only(["source changed", "another tokenizer"], CHANGES))
def test_changed_source_or_option_is_refused_on_resume(tmp_path, stage, corpus, change):
    """The error names each change; after it is undone, the kept work is used."""
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
    assert "continuing the work in" in done.stderr
    assert place.state() == "new"


@pytest.mark.parametrize("how", only(["shrinks"], ["shrinks", "grows", "goes"]))
def test_a_source_that_changes_while_it_is_read(tmp_path, stage, either, how):
    place = place_for(tmp_path, either)
    operations = place.learn(stage).operations
    (file,) = (place.home / "corpus").glob("news.*")
    reads = [k for k, name in enumerate(operations) if name.endswith(file.name)]
    begun = next(k for k, name in enumerate(operations) if "scratch" in name)
    original = tmp_path / "original"
    shutil.copy(file, original)
    writes = next(k for k, name in enumerate(operations) if name.startswith("pwrite") and "build" in name)
    for at in [*[k for k in reads if k > begun][:: 1 if EVERY else 2], writes]:
        place.reset()
        size = {"shrinks": original.stat().st_size // 2, "grows": None, "goes": -1}[how]
        ended = stage.run(place.home, *place.words, at=at, change=[str(file), size])
        shutil.copy(original, file)
        assert check(place, ended) == "absent", operations[at]
        assert ended.code == 3, (operations[at], ended.stderr)
        assert file.name in ended.error()
        assert place.hidden() == []
    check_again(place, stage, "absent")


def test_text_that_is_no_utf_8(tmp_path, stage, corpus):
    """Where it stands; with the words that leave it out the run goes on where it was."""
    place = place_for(tmp_path, corpus, "--resume")
    file = place.home / "corpus/news.jsonl"
    file.write_bytes(file.read_bytes() + b'{"text": "caf\xe9 au lait"}\n')
    place.words += ["--allow-loss", "invalid-lines"]
    place.learn(stage)
    ended = stage.run(place.home, *place.words[:-2])
    assert (check(place, ended), ended.code) == ("absent", 3)
    assert "news.jsonl: line 46 is not UTF-8 at byte" in ended.error()
    assert "--allow-loss invalid-lines leaves such lines out" in ended.error()
    assert place.hidden() == KEPT
    done = stage.run(place.home, *place.words)
    assert (done.code, place.state(), place.hidden()) == (0, "new", []), done.stderr
    assert "the tokenized text is kept" in done.stderr


@pytest.mark.parametrize("name", first(1, ["letters/7.txt", "news.txt"]))
def test_a_text_file_that_is_no_utf_8(tmp_path, stage, texts, name):
    """Which of all, and at which byte; once it is mended, the same command does it: this is seen before any work."""
    place = place_for(tmp_path, texts, "--resume")
    place.learn(stage)
    place.reset()
    file = place.home / "corpus" / name
    good = file.read_bytes()
    file.write_bytes(good + b"caf\xe9")
    ended = stage.run(place.home, *place.words)
    assert (check(place, ended), ended.code) == ("absent", 3)
    assert f"{name}: is not UTF-8 at byte {len(good) + 3:,}" in ended.error()
    file.write_bytes(good)
    done = stage.run(place.home, *place.words)
    assert (done.code, place.state(), place.hidden()) == (0, "new", []), done.stderr


@pytest.mark.parametrize(
    ("name", "new", "code", "message"),
    [
        ("letters/7.txt", None, 4, "corpus/letters/7.txt is gone"),
        every(("letters/7.txt", b"x" * 50, 4, "letters/7.txt has changed since")),
        ("letters/more.txt", b"one more", 4, "corpus/letters/more.txt is new"),
        every(("news.txt", None, 3, "corpus/news.txt: no such file")),
    ],
)
def test_changed_text_files_are_refused_on_resume(tmp_path, stage, texts, name, new, code, message):
    """The error names a file that was removed, changed or added; after it is undone, the kept work is used."""
    place = place_for(tmp_path, texts, "--resume")
    operations = place.learn(stage).operations
    at = next(k for k, told in enumerate(operations) if "done-source-0-1-0" in told)
    place.reset()
    assert stage.run(place.home, *place.words, at=at, signal=int(signal.SIGKILL)).code == -signal.SIGKILL
    path, aside = place.home / "corpus" / name, place.home.parent / "aside"
    if path.exists():
        path.rename(aside)
    if new is not None:
        path.write_bytes(new)
    ended = stage.run(place.home, *place.words)
    assert (check(place, ended), ended.code) == ("absent", code), ended.stderr
    assert message in ended.error()
    assert place.hidden() == KEPT
    path.unlink(missing_ok=True)
    if aside.exists():
        aside.rename(path)
    done = stage.run(place.home, *place.words)
    assert done.code == 0, done.stderr
    assert "continuing the work in" in done.stderr
    assert place.state() == "new"
