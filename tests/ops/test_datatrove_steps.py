"""tokfmt's steps in real datatrove pipelines: what goes in comes out, in order, whatever tasks do."""

import gzip
import json
import random
import re
import subprocess
import sys

import pytest
from amount import FUZZ_ONLY
from paths import CORPUS, FIXTURES, ROOT, TOKENIZER

import tokfmt
from tokfmt.errors import ConversionError, OptionError, TokenizerMismatchError

pytest.importorskip("datatrove", reason="datatrove is not installed: pip install datatrove")
pytestmark = pytest.mark.filterwarnings("default")  # datatrove's

from datatrove.data import Document  # noqa: E402
from datatrove.executor import LocalPipelineExecutor  # noqa: E402
from datatrove.pipeline.filters import LambdaFilter, RegexFilter  # noqa: E402

from tokfmt.integrations.datatrove import TokfmtReader, TokfmtWriter, finish  # noqa: E402
from tokfmt.sample import write_sample  # noqa: E402

TASKS = 5


def texts_of(path):
    return [json.loads(line)["text"] for line in path.read_text().splitlines()]


def lines_of(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def read(reader, tasks=TASKS):
    return [list(reader.run(None, rank, tasks)) for rank in range(tasks)]


def run(steps, logs, tasks=TASKS):
    LocalPipelineExecutor(steps, tasks=tasks, workers=1, logging_dir=str(logs)).run()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """About 4 MiB of lines, no text twice."""
    path, texts = tmp_path_factory.mktemp("corpus") / "corpus.jsonl", [text for text in texts_of(CORPUS) if text]
    size, number = 0, 0
    with open(path, "w") as file:
        while size < 4 << 20:
            line = {"text": f"{number} {texts[number % len(texts)]}", "id": f"doc-{number}", "lang": "en"}
            size, number = size + file.write(json.dumps(line) + "\n"), number + 1
    return path


def test_lines_in_parts_with_their_fields(corpus):
    parts = read(TokfmtReader(corpus))
    documents = [document for part in parts for document in part]
    assert [document.text for document in documents] == texts_of(corpus)
    assert sum(map(bool, parts)) > 2
    assert documents[7].id == "doc-7" and documents[7].metadata == {"lang": "en", "file_path": str(corpus)}


def test_ids_of_documents_do_not_depend_on_tasks(corpus, tmp_path):
    bare = lines_of(tmp_path / "bare.jsonl", texts_of(corpus))
    many, one = ([d.id for part in read(TokfmtReader(bare), tasks) for d in part] for tasks in (TASKS, 1))
    assert many == one and len(set(many)) == len(many) == len(texts_of(corpus))


@pytest.mark.parametrize("kind", ["jsonl.gz", "parquet", "arrow"])
def test_other_texts(corpus, tmp_path, kind):
    texts, path = texts_of(corpus), tmp_path / f"x.{kind}"
    if kind == "jsonl.gz":
        path.write_bytes(gzip.compress("".join(json.dumps({"text": text}) + "\n" for text in texts).encode()))
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        table = pa.table({"text": texts, "id": [f"doc-{k}" for k in range(len(texts))], "n": range(len(texts))})
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=50, compression="none", use_dictionary=False)
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table, 50)
    parts = read(TokfmtReader(path))
    assert [document.text for part in parts for document in part] == texts
    ids = [document.id for part in parts for document in part]
    assert len(set(ids)) == len(ids)
    assert (sum(map(bool, parts)) > 1) == (kind != "jsonl.gz")
    if kind != "jsonl.gz":
        documents = [document for part in parts for document in part]
        assert [(d.id, d.metadata["n"]) for d in documents] == [(f"doc-{k}", k) for k in range(len(texts))]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_nested_columns_leave_their_neighbors(tmp_path, kind):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"body": [{"text": "a", "n": 1}, None, {"text": "c", "n": 3}], "z": [7, 8, 9]})
    if kind == "parquet":
        pq.write_table(table, tmp_path / "x.parquet")
    else:
        with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    reader = TokfmtReader(tmp_path / f"x.{kind}", text_field="body.text", allow_loss="null-rows")
    found = [(d.text, d.metadata["body"], d.metadata["z"]) for d in reader.run()]
    assert found == [("a", {"n": 1}, 7), ("c", {"n": 3}, 9)]


def test_nested_text_leaves_its_neighbors(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"body": {"text": "hello", "n": 1}, "id": 7}\n')
    (document,) = TokfmtReader(tmp_path / "x.jsonl", text_field="body.text").run()
    assert (document.text, document.id, document.metadata["body"]) == ("hello", "7", {"n": 1})


@pytest.mark.parametrize("name", ["x.pbin", "x.ids.jsonl"])
def test_ids_decoded(tmp_path, name):
    if name == "x.pbin":
        tokfmt.convert(CORPUS, tmp_path / name, tokenizer=str(TOKENIZER))
    else:
        sequences = tokfmt.open(CORPUS, tokenizer=str(TOKENIZER))
        (tmp_path / name).write_text("".join(json.dumps({"input_ids": ids.tolist()}) + "\n" for ids in sequences))
    documents = [d for part in read(TokfmtReader(tmp_path / name, tokenizer=str(TOKENIZER))) for d in part]
    assert [d.text for d in documents] == [text for text in texts_of(CORPUS) if text]
    with pytest.raises(OptionError, match="tokenizer="):
        list(TokfmtReader(tmp_path / name).run())


def test_a_recipe_of_text_undrawn_with_its_sources():
    documents = [d for part in read(TokfmtReader(FIXTURES / "recipe" / "prepare.toml"), 2) for d in part]
    files = {"corpus": CORPUS, "more": FIXTURES / "text" / "with_fields.jsonl"}
    wanted = [(name, text) for name, path in files.items() for text in texts_of(path) if text]
    assert [(d.metadata["recipe_source"], d.text) for d in documents] == wanted


def test_a_recipe_of_ids_and_of_text_selected(tmp_path):
    wanted = [text for text in texts_of(CORPUS) if text]
    tokfmt.convert(lines_of(tmp_path / "a.jsonl", wanted), tmp_path / "a.pbin", tokenizer=str(TOKENIZER))
    (tmp_path / "mix.toml").write_text(
        f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n'
        '[[source]]\nname = "ids"\npath = "a.pbin"\n[[source]]\nname = "text"\npath = "a.jsonl"\nselect = "3:9"\n'
    )
    documents = [d for part in read(TokfmtReader(tmp_path / "mix.toml"), 3) for d in part]
    found = {name: [d.text for d in documents if d.metadata["recipe_source"] == name] for name in ("ids", "text")}
    assert found == {"ids": wanted, "text": wanted[3:9]}


@pytest.mark.parametrize("kind", ["txt", "txt.gz", "jsonl", "jsonl.gz", "parquet"])
def test_each_document_names_its_file(tmp_path, kind):
    """Of several under one pattern, too, and however many lie in one block."""
    for name in "abc":
        texts, path = [f"{name} of {k}" for k in range(1 if "txt" in kind else 3)], tmp_path / f"{name}.{kind}"
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts) if "jsonl" in kind else texts[0]
        if kind == "parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table({"text": texts}), path)
        else:
            path.write_bytes(gzip.compress(lines.encode()) if kind.endswith("gz") else lines.encode())
    documents = [document for part in read(TokfmtReader(tmp_path / f"*.{kind}")) for document in part]
    assert len(documents) == (3 if "txt" in kind else 9)
    assert [document.metadata["file_path"] for document in documents] == [
        str(tmp_path / f"{document.text[0]}.{kind}") for document in documents
    ]
    assert len({document.id for document in documents}) == len(documents)


def test_skip_and_limit(corpus):
    assert [d.id for d in TokfmtReader(corpus, skip=3, limit=2).run()] == ["doc-3", "doc-4"]


def keep(document):
    return len(document.text) % 3 > 0


@pytest.mark.parametrize("name", ["x.pbin", "x.bin"])
def test_the_dataset_is_that_of_the_texts(corpus, tmp_path, name):
    how = {"tokenizer": str(TOKENIZER), "to_format": "modalities" if name == "x.pbin" else "nanogpt"}
    lines_of(tmp_path / "kept.jsonl", [text for text in texts_of(corpus) if len(text) % 3])
    run([TokfmtReader(corpus), LambdaFilter(keep), TokfmtWriter(tmp_path / name)], tmp_path / "logs")
    assert not (tmp_path / name).exists()
    done = finish(tmp_path / name, **how)
    tokfmt.convert(tmp_path / "kept.jsonl", tmp_path / f"wanted-{name}", **how)
    assert (tmp_path / name).read_bytes() == (tmp_path / f"wanted-{name}").read_bytes()
    assert done.sequences == sum(1 for text in texts_of(corpus) if len(text) % 3)
    assert not (tmp_path / f"{name}.parts").exists()


@FUZZ_ONLY
@pytest.mark.parametrize("name", ["x.pbin", "x.jsonl"])
def test_tasks_that_tokenise_make_the_same_dataset(corpus, tmp_path, name):
    """Each its own documents; `finish` needs no tokenizer, knows the separator, and takes no other's ids for theirs."""
    lines_of(tmp_path / "kept.jsonl", [text for text in texts_of(corpus) if len(text) % 3])
    for again in range(2):  # tasks may run again
        writer = TokfmtWriter(tmp_path / name, tokenizer=str(TOKENIZER))
        run([TokfmtReader(corpus), LambdaFilter(keep), writer], tmp_path / f"logs{again}", tasks=9)
    parts = sorted((tmp_path / f"{name}.parts").glob("*-of-*.jsonl"))
    assert len(parts) == 9
    assert not all(part.stat().st_size for part in parts), "a task without documents is one, too"
    assert all(set(json.loads(line)) == {"input_ids"} for part in parts for line in part.read_text().splitlines())
    content = json.loads((TOKENIZER / "tokenizer.json").read_text())
    content["added_tokens"][0]["content"] = "<other>"
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(TokenizerMismatchError):
        finish(tmp_path / name, tokenizer=str(tmp_path / "tokenizer.json"))
    done = finish(tmp_path / name)
    wanted = tokfmt.convert(tmp_path / "kept.jsonl", tmp_path / f"wanted-{name}", tokenizer=str(TOKENIZER))
    assert (tmp_path / name).read_bytes() == (tmp_path / f"wanted-{name}").read_bytes()
    assert done.tokenizer["digest"] == wanted.tokenizer["digest"]
    assert not (tmp_path / f"{name}.parts").exists()


def test_any_order_and_any_repetition_of_tasks_gives_the_same(tmp_path):
    def part(rank, name, words):
        documents = [Document(f"{word} of {rank}", str(k), metadata={"k": k}) for k, word in enumerate(words)]
        list(TokfmtWriter(tmp_path / name).run(iter(documents), rank, 3))

    for rank in (0, 1, 2):
        part(rank, "a.jsonl", ["one", "two"] if rank != 1 else [])
    part(2, "b.jsonl", ["old"])
    stopped = TokfmtWriter(tmp_path / "b.jsonl").run((Document(str(k), str(k)) for k in range(9)), 0, 3)
    next(stopped)
    stopped.close()
    with pytest.raises(ConversionError, match=r"2 of 3 tasks are missing \(0, 1\)"):
        finish(tmp_path / "b.jsonl")
    for rank in (2, 1, 0):
        part(rank, "b.jsonl", ["one", "two"] if rank != 1 else [])
    for name in ("a.jsonl", "b.jsonl"):
        finish(tmp_path / name)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert texts_of(tmp_path / "a.jsonl") == ["one of 0", "two of 0", "one of 2", "two of 2"]


@FUZZ_ONLY
def test_a_killed_task_runs_again(tmp_path):
    code = (
        "import os, sys\n"
        "from datatrove.data import Document\n"
        "from tokfmt.integrations.datatrove import TokfmtWriter\n"
        "for document in TokfmtWriter(sys.argv[1]).run(Document('x' * 999, str(k)) for k in range(999)):\n"
        "    document.id == '500' and os.kill(os.getpid(), 9)\n"
    )
    destination = tmp_path / "x.jsonl"
    assert subprocess.run([sys.executable, "-c", code, str(destination)]).returncode == -9
    with pytest.raises(ConversionError, match="holds no parts"):
        finish(destination)
    list(TokfmtWriter(destination).run([Document("again", "1")]))
    finish(destination)
    assert texts_of(destination) == ["again"]
    assert {path.name for path in tmp_path.iterdir()} == {"x.jsonl", "x.jsonl.tokfmt.json"}


def test_failed_finish_keeps_the_parts(tmp_path):
    destination = tmp_path / "x.pbin"
    with pytest.raises(ConversionError, match="holds no parts"):
        finish(destination)
    list(TokfmtWriter(destination).run([Document("a", "1")], 0, 1))
    with pytest.raises(OptionError, match="tokenizer"):
        finish(destination)
    list(TokfmtWriter(destination).run([Document("a", "1")], 0, 2))
    with pytest.raises(ConversionError, match="runs of 1 and 2 tasks"):
        finish(destination, tokenizer=str(TOKENIZER))
    (tmp_path / "x.pbin.parts" / "00000-of-00002.jsonl").unlink()
    assert finish(destination, tokenizer=str(TOKENIZER)).sequences == 1


def test_documents_that_are_no_json(tmp_path):
    for bad in (Document("a", "1", metadata={"x": object()}), Document("\ud800", "1")):
        with pytest.raises(ConversionError, match="document 1: cannot be written as JSON"):
            list(TokfmtWriter(tmp_path / "x").run([bad], 0, 1))
    assert not list((tmp_path / "x.parts").iterdir())


@pytest.mark.parametrize("tokenizer", [None, str(TOKENIZER)])
def test_minhash_and_a_filter_between(tmp_path, tokenizer):
    """Near duplicates over two files and two formats are left out; what stays is tokenised by `finish`, or by tasks."""
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter
    from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature
    from datatrove.utils.hashing import HashConfig
    from datatrove.utils.word_tokenizers import WordTokenizer

    class Spaces(WordTokenizer):  # English needs spaCy
        def word_tokenize(self, text):
            return text.split()

        def sent_tokenize(self, text):
            return [text]

        def span_tokenize(self, text):
            return [(0, len(text))]

    words, home = random.Random(5), tmp_path
    distinct = [" ".join("".join(words.choices("abcdefgh", k=5)) for _ in range(80)) for _ in range(40)]
    bad = [f"{text} https://example.org" for text in distinct[20:25]]
    lines_of(home / "near.jsonl", [*distinct, *bad])
    (home / "more").mkdir()
    for k, text in enumerate(distinct[:15]):
        (home / "more" / f"{k}.txt").write_text(f"{text} again")
    hashes = HashConfig(hash_fc="sha1")  # xxhash 4 takes no strings
    config = MinhashConfig(num_buckets=14, hashes_per_bucket=8, hash_config=hashes)
    begin = [TokfmtReader([home / "near.jsonl", home / "more"]), RegexFilter("https?://")]
    run([*begin, MinhashDedupSignature(str(home / "sig"), config=config, language=Spaces())], home / "l1", 2)
    run([MinhashDedupBuckets(str(home / "sig"), str(home / "buckets"), config=config)], home / "l2", 14)
    run([MinhashDedupCluster(str(home / "buckets"), str(home / "remove"), config=config)], home / "l3", 1)
    writer = TokfmtWriter(home / "out.pbin", tokenizer=tokenizer)
    run([*begin, MinhashDedupFilter(str(home / "remove")), writer], home / "l4", 2)
    done = finish(home / "out.pbin", **({} if tokenizer else {"tokenizer": str(TOKENIZER)}))
    tokfmt.convert(home / "out.pbin", home / "back.jsonl", tokenizer=str(TOKENIZER))
    kept = texts_of(home / "back.jsonl")
    assert sorted(text.removesuffix(" again") for text in kept) == sorted(distinct)
    assert done.sequences == len(distinct)
    named = {"path": str(home / "near.jsonl"), "format": None}
    assert named in done.sources
    said = json.loads((home / "out.pbin.tokfmt.json").read_text())
    assert [{"path": one["path"], "format": one["format"]} for one in said["sources"]] == done.sources
    assert said["sources"][done.sources.index(named)]["bytes"] == (home / "near.jsonl").stat().st_size
    files = {home / "near.jsonl", *(home / "more").iterdir()}
    assert {one["path"] for one in done.sources} <= {str(file) for file in files}
    assert not tokfmt.check(home / "out.pbin")[0].findings


def test_documents_without_file_path_have_the_parts_as_sources(tmp_path):
    """The manifest lists the files of the tasks."""
    known = Document("one", "1", metadata={"file_path": "s3://bucket/one.jsonl"})
    for name, documents in (("a.jsonl", [known]), ("b.jsonl", [known, Document("two", "2")])):
        list(TokfmtWriter(tmp_path / name).run(iter(documents)))
        finish(tmp_path / name)
    sources = [json.loads((tmp_path / f"{name}.jsonl.tokfmt.json").read_text())["sources"] for name in "ab"]
    assert sources[0] == [
        {"path": "s3://bucket/one.jsonl", "format": None, "bytes": None, "files": 1, "xxh3_128": None}
    ]
    assert [one["path"] for one in sources[1]] == [str(tmp_path / "b.jsonl.parts" / "00000-of-00001.jsonl")]


@FUZZ_ONLY
def test_the_example_of_the_documentation(tmp_path):
    section = (ROOT / "docs" / "prepare.md").read_text().partition("## Use datatrove")[2]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    sample = tmp_path / "sample"
    write_sample(sample)
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kept = [
        text for path in (sample / "corpus.jsonl", sample / "more.jsonl") for text in texts_of(path)
        if text and not re.search("https?://", text)
    ]  # fmt: skip
    opened = tokfmt.open(tmp_path / "corpus.pbin", tokenizer=str(TOKENIZER))
    wanted = tokfmt.open(lines_of(tmp_path / "kept.jsonl", kept), tokenizer=str(TOKENIZER))
    assert [ids.tolist() for ids in opened] == [ids.tolist() for ids in wanted]
    assert 0 < len(kept) < len(texts_of(CORPUS)) + 25


def test_without_datatrove():
    code = (
        "import sys; sys.modules['datatrove'] = None\n"
        "import tokfmt.api, tokfmt.cli.main\n"
        "import tokfmt.integrations.datatrove"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingDependencyError" in done.stderr and "datatrove" in done.stderr.splitlines()[-1]
