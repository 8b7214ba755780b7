"""Commands on datasets in a bucket: what they print and write is what they print and write of local files."""

import gzip
import json
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from amount import FUZZ_ONLY, first, only
from click.testing import CliRunner
from paths import FIXTURES, ROOT
from remote.conftest import forget, within
from stores import close_stores

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import CorruptError, OptionError, SourceChangedError, TruncatedError, UnreachableError

PACK = "modalities/D_2byte_gpt2.pbin"
DATASETS = [
    PACK, "megatron/gpt2_text_document", "stage1/blocks", "nanogpt/openwebtext", "olmo/part-0-00000.npy", "parquet/int32.parquet",
    "parquet/save_to_disk", "litdata/numpy_uint16", "mds/ndarray_uint32_zstd", "datatrove/00000_unshuffled.ds", "levanter/cache_uint32", "llmc/edu_fineweb_train_000001.bin",
    "flat-tokens/chunk_aligned.zarr",
]  # fmt: skip


@pytest.fixture(autouse=True)
def fresh(server):
    """Nothing is kept of another server."""
    close_stores()
    yield
    close_stores()


@pytest.fixture(params=DATASETS)
def dataset(request, bucket):
    """A dataset in the bucket and the same one in the fixtures: its name below either."""
    name = request.param
    shutil.copytree(FIXTURES / name.partition("/")[0], bucket / name.partition("/")[0])
    return name


def test_every_sequence(dataset):
    stored, local = tokfmt.open(f"s3://bkt/{dataset}"), tokfmt.open(FIXTURES / dataset)
    assert len(stored) == len(local)
    for number in range(len(local)):
        assert np.array_equal(stored[number], local[number])


def test_a_conversion_has_the_same_bytes(dataset, tmp_path):
    for source, name in ((f"s3://bkt/{dataset}", "stored"), (FIXTURES / dataset, "local")):
        tokfmt.convert(source, tmp_path / f"{name}.jsonl", manifest=False, verify=True, allow_loss=["splits"])
    assert (tmp_path / "stored.jsonl").read_bytes() == (tmp_path / "local.jsonl").read_bytes()


def test_opening_lists_few_directories(dataset, server):
    """The directory of a dataset is listed twice: one key tells that it exists."""
    tokfmt.open(f"s3://bkt/{dataset}")
    lists = [one.key for one in server.seen if one.method == "LIST"]
    assert len(lists) <= len(set(lists)) + 1 < 11, lists
    assert len(server.seen) <= 24, [(one.method, one.key) for one in server.seen]


@pytest.fixture(scope="module")
def hundred_thousand(tmp_path_factory):
    """A directory with the same 100,000 documents in several formats, and one of them."""
    home = tmp_path_factory.mktemp("many")
    ids = np.random.default_rng(0).integers(0, 50000, (100_000, 12), np.int32)
    ids[:, -1] = 50256
    ids.tofile(home / "block.bin")
    for name, how in SHOWN.items():
        tokfmt.convert(home / "block.bin", home / name, format="stage1", eos=50256, to_format=how)
    return home


SHOWN = {
    "many.pbin": "modalities",
    "many_text_document.bin": "megatron",
    "many.ds": "datatrove",
    "many.parquet": "parquet",
    "many.zarr": "flat-tokens",
}
SHOW = ["--ids", "--json", "--quiet"]


def shown(name, number):
    done = CliRunner().invoke(cli, ["show", str(name), str(number), *SHOW])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["shown"]


@pytest.mark.parametrize("name", ["many.pbin", "many_text_document.bin", "many_text_document"])
def test_show_takes_ten_requests_in_five_rounds(server, bucket, hundred_thousand, name):
    for path in hundred_thousand.glob(f"{name.partition('.')[0]}.*"):
        if path.is_file():
            shutil.copy(path, bucket)
    server.delay = 0.05
    wanted = shown(hundred_thousand / name, 54321)
    del server.seen[:]
    assert shown(f"s3://bkt/{name}", 54321) == wanted
    asked = [(one.method, one.key, one.start) for one in server.seen]
    assert len(asked) <= 10 and server.rounds <= 5, (server.rounds, asked)


COSTS = re.findall(
    r"^\| `(many[\w.]+)`.*? \| (\d+) \| ([\d.]+) MB \|$", (ROOT / "docs/remote.md").read_text(), re.MULTILINE
)


@pytest.mark.parametrize(("name", "requests", "megabytes"), COSTS, ids=[row[0] for row in COSTS])
def test_what_show_costs(server, bucket, hundred_thousand, name, requests, megabytes):
    """The table of docs/remote.md: it takes no more, and nearly as much. How well a compressor does depends on the CPU."""
    shutil.copytree(hundred_thousand, bucket, dirs_exist_ok=True)
    done = CliRunner().invoke(cli, ["show", f"s3://bkt/{name}", "54321", *SHOW])
    read, asked = json.loads(done.stdout)["transfer"]["read"], [(one.method, one.key, one.start) for one in server.seen]
    assert int(requests) - 2 <= len(asked) <= int(requests), asked
    assert (
        0.5 * float(megabytes) - 0.1
        <= read / 1e6
        <= float(megabytes) * (1.5 if SHOWN[name] in ("parquet", "flat-tokens") else 1) + 0.05
    ), read


def test_every_format_of_the_table_is_measured():
    assert [row[0] for row in COSTS] == [*SHOWN]


@FUZZ_ONLY
def test_a_directory_of_many_objects_is_listed_once(server, bucket):
    """Neither statuses of its objects nor looks at what is beside each of them are asked."""
    (bucket / "d").mkdir()
    for number in range(2500):
        (bucket / f"d/part-{number:05d}.npy").write_bytes(b"\1\0\0\0")
    dataset = tokfmt.open("s3://bkt/d", format="olmo", eos=0, options={"width": 2})
    assert len(dataset) == 2500
    methods = [one.method for one in server.seen]
    assert methods.count("LIST") <= 5 and methods.count("HEAD") == 0, methods


@pytest.mark.parametrize(
    "words",
    first(
        2,
        [["info", "{}"], ["convert", "{}", "out.zarr", "--dry-run"], ["show", "{}"], ["check", "{}"], ["stats", "{}"]],
    ),
    ids=lambda words: words[0],
)
def test_a_pattern_takes_as_many_lists_as_a_few_of_its_files(server, bucket, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    lists = []
    for count in (12, 40):
        (bucket / f"d{count}").mkdir()
        for number in range(count):
            header = np.zeros(256, "<i4")
            header[:3] = 20240520, 1, 5
            content = header.tobytes() + np.array([50256, 7, number, 8, 9], "<u2").tobytes()
            (bucket / f"d{count}/train_{number:06d}.bin").write_bytes(content)
        del server.seen[:]
        done = CliRunner().invoke(cli, [word.replace("{}", f"s3://bkt/d{count}/*.bin") for word in words])
        assert done.exit_code == 0, done.output
        lists.append([one.method for one in server.seen].count("LIST"))
    assert lists[0] == lists[1] <= 30, lists


def test_a_dry_run_says_what_is_read(server, bucket, tmp_path):
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    size = (FIXTURES / PACK).stat().st_size
    words = ["convert", f"s3://bkt/{PACK}", str(tmp_path / "a.zarr"), "--dry-run"]
    done = CliRunner().invoke(cli, words)
    assert re.search(r"^reads +1 object, [\d.]+ kB, about 1 request \(\d+ lists?\)$", done.output, re.MULTILINE), (
        done.output
    )
    plan = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)["plan"]["download"]
    assert (plan["objects"], plan["passes"], plan["bytes"], plan["requests"]) == (1, 1, size, 1)
    twice = ["convert", f"s3://bkt/{PACK}", str(tmp_path / "a"), "--to", "olmo", "--dry-run"]
    assert re.search(
        r"^reads +1 object, [\d.]+ kB in 2 passes, about", CliRunner().invoke(cli, twice).output, re.MULTILINE
    )
    plan = json.loads(CliRunner().invoke(cli, [*twice, "--json"]).stdout)["plan"]["download"]
    assert (plan["objects"], plan["passes"], plan["bytes"], plan["requests"]) == (1, 2, 2 * size, 2)
    local = ["convert", str(FIXTURES / PACK), *words[2:], "--json"]
    assert "download" not in json.loads(CliRunner().invoke(cli, local).stdout)["plan"]


def test_a_document_says_what_stores_were_asked(server, bucket, tmp_path):
    """The counts are the server's, those of worker processes too; of local files there are none."""
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    for words in (
        ["stats"], ["show", "0", "--ids"], ["check"], ["convert", tmp_path / "a.zarr", "--executor", "processes", "--jobs", "2"]
    ):  # fmt: skip
        forget()
        del server.seen[:]
        words = [words[0], f"s3://bkt/{PACK}", *map(str, words[1:]), "--json", "--verbose"]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code in (0, 1), done.output
        found = json.loads(done.stdout)["transfer"]
        counts = {
            "get": sum(one.method == "GET" for one in server.seen),
            "list": sum(one.method == "LIST" for one in server.seen),
        }
        assert counts["get"] and found["requests"] == {"get": 0, "head": 0, "list": 0, "put": 0, "delete": 0} | counts
        assert found["read"] >= (FIXTURES / PACK).stat().st_size and found["written"] == 0 < found["slowest"]
        assert f"stores: requests {counts['get']:,} get" in done.stderr
    forget()
    done = CliRunner().invoke(cli, ["stats", str(FIXTURES / PACK), "--json", "--verbose"])
    assert "transfer" not in json.loads(done.stdout) and "stores" not in done.stderr


def test_patterns_are_lists(server, bucket):
    shutil.copytree(FIXTURES / "olmo", bucket / "olmo")
    stored, local = tokfmt.open("s3://bkt/olmo/part-2-*.npy"), tokfmt.open(FIXTURES / "olmo/part-2-*.npy")
    assert [list(one) for one in stored] == [list(one) for one in local]


def test_pages_of_the_web(server, bucket):
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    local = tokfmt.open(FIXTURES / PACK)
    for address in (f"{server.endpoint}/bkt/{PACK}", f"{server.endpoint}/bkt/{PACK}?X-Amz-Signature=planted"):
        assert [list(one) for one in tokfmt.open(address)] == [list(one) for one in local]


def test_no_secret_is_in_a_manifest(server, bucket, tmp_path):
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    tokfmt.convert(f"{server.endpoint}/bkt/{PACK}?X-Amz-Signature=planted", tmp_path / "out.pbin", eos=50256)
    for path in tmp_path.glob("out*"):
        assert b"planted" not in path.read_bytes()


def test_a_dataset_is_pickled_by_its_address(bucket):
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    dataset = tokfmt.open(f"s3://bkt/{PACK}")
    again = pickle.loads(pickle.dumps(dataset))
    assert [list(one) for one in again] == [list(one) for one in dataset]


def test_a_server_that_fails_for_good_leaves_no_output(server, bucket, tmp_path):
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    server.forever[f"bkt/{PACK}"] = "503"
    with pytest.raises(UnreachableError, match="503 SlowDown after"):
        tokfmt.convert(f"s3://bkt/{PACK}", tmp_path / "out.pbin")
    assert not list(tmp_path.glob("*out*"))


def test_bytes_that_a_store_changed_are_not_copied(server, bucket, tmp_path):
    tokfmt.convert(FIXTURES / PACK, tmp_path / "x.bin", to_format="megatron")
    for name in ("x.bin", "x.idx", "x.bin.tokfmt.json"):
        shutil.copy(tmp_path / name, bucket / name)
    content = bytearray((bucket / "x.bin").read_bytes())
    content[100] ^= 1
    (bucket / "x.bin").write_bytes(content)
    with pytest.raises(CorruptError, match="contradicts its manifest x.bin.tokfmt.json in the checksum"):
        tokfmt.convert("s3://bkt/x.bin", tmp_path / "out.pbin")
    assert not list(tmp_path.glob("out*"))
    assert len(server.bodies("bkt/x.bin.tokfmt.json")) == 1
    assert tokfmt.convert("s3://bkt/x.bin", tmp_path / "out.pbin", ignore_manifest=True).sequences == 42


def test_an_object_that_changes_after_it_was_opened(bucket, monkeypatch):
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    dataset = tokfmt.open(f"s3://bkt/{PACK}")
    content = bytearray((bucket / PACK).read_bytes())
    content[20] ^= 1
    (bucket / PACK).write_bytes(content)
    forget()
    with pytest.raises(SourceChangedError, match=f"^s3://bkt/{PACK}: changed while it was being read"):
        dataset[0]


@FUZZ_ONLY
def test_a_wait_for_a_store_is_reported_once(server, bucket):
    """After 5 seconds, although every request takes that long; and not with --quiet."""
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    for words, notes in (([], 1), (["--quiet"], 0)):
        server.delay = 0
        tokfmt.open(f"s3://bkt/{PACK}").close()
        forget()
        server.delay = 5.5
        made = [sys.executable, "-m", "tokfmt", "show", f"s3://bkt/{PACK}", "0", "--ids", *words]
        done = subprocess.run(made, cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stderr.count("note: bkt answers slowly: waiting 5 s\n") == notes, done.stderr


def test_options_of_stores_in_python(server, bucket, monkeypatch):
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.delenv("TOKFMT_STORE_OPTIONS", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    options = {"endpoint": server.endpoint, "anonymous": True}
    assert tokfmt.stats(f"s3://bkt/{PACK}", storage_options=options).datasets[0].sequences == 42
    assert len(tokfmt.open(f"s3://bkt/{PACK}")) == 42, "they hold from then on"
    assert not [one for one in server.seen if "authorization" in one.headers]
    with pytest.raises(OptionError, match=r"--store-opt secret_access_key: secrets are not taken") as caught:
        tokfmt.open(f"s3://bkt/{PACK}", storage_options={"secret_access_key": "planted"})
    assert "planted" not in str(caught.value)


def test_options_of_stores_on_the_command_line(server, bucket, monkeypatch):
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    monkeypatch.delenv("AWS_ENDPOINT_URL")

    options = ["--store-opt", f"endpoint={server.endpoint}", "--store-opt", "anonymous=true"]
    done = CliRunner().invoke(cli, ["stats", f"s3://bkt/{PACK}", "--json", *options])
    assert (done.exit_code, json.loads(done.stdout)["path"]) == (0, f"s3://bkt/{PACK}")
    done = CliRunner().invoke(cli, ["stats", f"s3://bkt/{PACK}", "--store-opt", "endpont=x"])
    assert "Did you mean endpoint?" in str(done.exception)


@pytest.mark.parametrize("stalled", only(["stalled body"], ["stalled head", "stalled body"]))
def test_ctrl_c_ends_a_command_while_a_server_stalls(server, bucket, stalled):
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    server.forever[f"bkt/{PACK}"] = stalled
    words = [sys.executable, "-m", "tokfmt", "stats", f"s3://bkt/{PACK}"]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not server.bodies(f"bkt/{PACK}"):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, error = within(3, process.communicate)
    assert process.returncode == 130 and "Traceback" not in error


def test_local_files_import_nothing_of_it():
    program = (
        "import sys, tokfmt; tokfmt.open(sys.argv[1])[0]; "
        "assert not [name for name in sys.modules if name.startswith(('tokfmt.stores', 'obstore'))]"
    )
    subprocess.run([sys.executable, "-c", program, str(FIXTURES / PACK)], check=True, cwd=ROOT)


@pytest.fixture
def forty_shards(tmp_path):
    """Forty files of llm.c with 50,000 tokens each, in a folder."""
    ids = np.random.default_rng(0).integers(0, 50000, (200, 10_000), np.int32)
    ids[:, -1] = 50256
    ids.tofile(tmp_path / "block.bin")
    how = {
        "format": "stage1",
        "eos": 50256,
        "to_format": "llmc",
        "to_options": {"shard_size": 50_000},
        "manifest": False,
    }
    tokfmt.convert(tmp_path / "block.bin", tmp_path / "shards", **how)
    return tmp_path / "shards"


def test_a_scan_reads_the_next_files_ahead(server, bucket, forty_shards, tmp_path):
    """One after the other, the files alone would take more than 120 rounds."""
    shutil.copytree(forty_shards, bucket / "shards")
    server.delay = 0.05
    tokfmt.convert("s3://bkt/shards", tmp_path / "stored.pbin", manifest=False)
    rounds = server.rounds
    tokfmt.convert(forty_shards, tmp_path / "local.pbin", manifest=False)
    assert (tmp_path / "stored.pbin").read_bytes() == (tmp_path / "local.pbin").read_bytes()
    assert rounds <= 70, rounds


def written(home, name):
    """48 files of a format, as local commands write them."""
    for number in range(48):
        ids = np.arange(2000, dtype="<u2") + number
        if name == "parquet":
            table = pa.table({"input_ids": [ids[:1000].astype("i4"), ids[1000:].astype("i4")]})
            pq.write_table(table, home / f"x-{number:02d}.parquet", row_group_size=1)
        elif name == "olmo":
            ids.tofile(home / f"part-0-{number:05d}.npy")
            (home / f"part-0-{number:05d}.csv.gz").write_bytes(gzip.compress(b"0,1000\n1000,2000\n"))
        else:
            head = np.zeros(256, "<i4")
            head[:3] = 20240520, 1, len(ids)
            (home / f"x_train_{number:06d}.bin").write_bytes(head.tobytes() + ids.tobytes())


@pytest.mark.parametrize("name", first(1, ["parquet", "olmo", "llmc"]))
def test_many_files_are_opened_side_by_side(server, bucket, name):
    """Each takes one request (a pair of OLMo two) of 16 at once, also if a pattern names them. In turn: 48 rounds."""
    (bucket / "many").mkdir()
    written(bucket / "many", name)
    server.delay, one = 0.05, {"parquet": "*.parquet", "olmo": "*.npy", "llmc": "*.bin"}[name]
    found = tokfmt.info("s3://bkt/many", eos="none")
    assert found.tokens == tokfmt.info(bucket / "many", eos="none").tokens
    assert len(server.bodies()) <= 48 * (1 + (name == "olmo")) + 4 and server.rounds <= 20, server.rounds
    for command in (tokfmt.stats, tokfmt.info):
        if (command, name) != (tokfmt.info, "olmo"):  # several files that a pattern names are not one dataset
            server.seen.clear()
            server.rounds = server.answered = 0
            command(f"s3://bkt/many/{one}", eos="none")
            assert sum(seen.method == "LIST" for seen in server.seen) <= 20 and server.rounds <= 40, server.rounds


def test_of_many_damaged_files_the_first_is_reported(server, bucket):
    (bucket / "many").mkdir()
    written(bucket / "many", "parquet")
    for number in (40, 23, 31):
        path = bucket / f"many/x-{number}.parquet"
        path.write_bytes(path.read_bytes()[:-20])
    for one in ("s3://bkt/many", "s3://bkt/many/*.parquet"):
        with pytest.raises(TruncatedError, match="x-23"):
            tokfmt.info(one)


@pytest.mark.parametrize("kind", ["stream", "pack"])
def test_a_fleet_takes_few_requests_for_each_dataset(server, bucket, tmp_path, kind):
    """No request for a column: detection, facts and both ends are a few reads; one list names all."""
    content = b"".join(np.array([9000, 5, 6, 9001], "<u2").tobytes() for _ in range(500))
    (tmp_path / "train.bin").write_bytes(content)
    tokfmt.convert(tmp_path / "train.bin", tmp_path / "x.pbin", eos=9001)
    for number in range(60):
        (bucket / f"fleet/d{number:02d}").mkdir(parents=True)
        names = ["train.bin"] if kind == "stream" else ["x.pbin", "x.pbin.tokfmt.json"]
        for name in names:
            (bucket / f"fleet/d{number:02d}" / name).write_bytes((tmp_path / name).read_bytes())
    server.seen.clear()
    found = tokfmt.fleet("s3://bkt/fleet", recursive=True, eos=9001)
    assert {(one.first.id, one.first.share, one.last.id) for one in found.datasets} == {(9000, 1, 6)}
    assert len(found.datasets) == 60
    asked = {(request.method, request.key, request.start, request.stop) for request in server.seen}
    assert len(asked) <= 2 * 60 + 2  # a request that a busy machine answers late is repeated
