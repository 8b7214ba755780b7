"""Runs of OLMo-core: samples, steps and ranks as OLMo-core recorded them, by the order files and without them."""

import json
import shutil

import commands
import numpy as np
import pytest
from run_goldens import RUNS, assert_reads, findings, read_by_ranks, recorded

import tokfmt

HOME = RUNS / "olmo_core"
PATHS = ["data/harbour.npy", "data/meadow.npy", "data/lantern.npy"]
RATIOS = (0.5, 0.3, 0.2)
NUMPY = ["fsl", "chunk_short", "packed_truncate", "packed_fragment", "packed_group2", "padded", "mixture"]
COMPOSABLE = ["composable_inter_source", "composable_intra_source", "composable_interleaved_source"]
VSL = ["vsl_natural", "vsl_grow_p2"]
SETS = [*NUMPY, "chunk_long", *COMPOSABLE, *VSL]
WORK = {"chunk_short": "chunk", "chunk_long": "chunk", "mixture": "mix"}


def table(values):
    """The lines of a table of TOML."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items() if value is not None)


def described(folder, name, work=None, sources=None, **more):
    """A TOML file with the facts of a run; `work` is its work_dir, and without one its order is built again."""
    facts = {
        "framework": "olmo-core", "dtype": "uint16", "batch_size": 8, "root": str(HOME), "eos_token_id": 0, "pad_id": 1,
        "cache": str(work or folder),
    }  # fmt: skip
    arguments = recorded("olmo_core", f"expected_{name}.json")["arguments"]
    if name in ("fsl", "mixture", "chunk_short") or "composable" in name:
        facts["sequence_length"] = 64
    if name == "chunk_long":
        facts |= {"sequence_length": 128, "epoch": 1, "sample_in_epoch": 6 * 512 // 128}
    text = ""
    if name == "mixture" or "composable" in name:
        files = [{"paths": [path]} for path in PATHS]
        if name == "mixture":
            facts["requested_tokens"] = arguments["requested_tokens"]
            files = [{**one, "ratio": ratio} for one, ratio in zip(files, RATIOS, strict=True)]
        elif "inter_source" in name:
            text = "[[run.source]]\nseed = 5\n"
            files = [
                {**one, "ratio": ratio, "max_repetition_factor": 2.0} for one, ratio in zip(files, RATIOS, strict=True)
            ]
        head = "[[run.source.source]]\n" if text else "[[run.source]]\n"
        text += "".join(head + table(one) for one in files)
    else:
        facts["paths"] = PATHS
    facts |= more
    path = folder / "run.toml"
    path.write_text("tokfmt = 1\n[run]\n" + table(facts) + (text if sources is None else sources))
    return path


def work_of(name):
    return HOME / f"work_{WORK.get(name, name.replace('composable', 'comp'))}"


def steps_of(name):
    """The recorded steps of a run by stretches of one number of ranks: the number of the first, and the steps."""
    steps = recorded("olmo_core", f"expected_{name}.json")["steps"]
    per = {
        one["epoch"]: 1 + max(two["batch_of_epoch"] for two in steps if two["epoch"] == one["epoch"]) for one in steps
    }
    whole = max(per.values())
    return [
        ((one["epoch"] - 1) * whole + one["batch_of_epoch"], one["ranks"])
        for one in steps
        if one.get("phase") != "short" or name != "chunk_long"
    ]


@pytest.mark.parametrize("name", SETS)
def test_each_rank_reads_its_share_of_every_step(name, tmp_path):
    samples = recorded("olmo_core", f"expected_{name}.json")["samples"]
    for step, ranks in steps_of(name):
        run = described(tmp_path, name, work_of(name), samples=10**5, world_size=len(ranks))
        assert_reads(run, step, ranks, samples)


@pytest.mark.parametrize("name", SETS)
def test_an_order_without_its_files_is_built_again(name, tmp_path):
    """The documents of packed and padded instances, and the buckets of VSL, are always read from files."""
    samples = recorded("olmo_core", f"expected_{name}.json")["samples"]
    work, more = None, {"seed": 1234}
    if name == "chunk_short":
        more["max_target_sequence_length"] = 128
    if "composable" in name:
        more["shuffle_strategy"] = name.removeprefix("composable_")
    if name in ("packed_truncate", "packed_fragment", "packed_group2", "padded", *VSL):
        work = shutil.copytree(work_of(name), tmp_path / "work")
        for pattern in ("global_indices*", "dataset-*/vsl-*/instance_indices*", "dataset-*/vsl-*/*epoch2*"):
            for path in work.glob(pattern):
                path.unlink()
    for step, ranks in steps_of(name)[::5]:
        run = described(tmp_path, name, work, samples=10**5, world_size=len(ranks), **more)
        assert_reads(run, step, ranks, samples)
    assert ("built again" in commands.run("info", run, check=0).stdout) == (name not in VSL)


@pytest.mark.parametrize("name", SETS)
def test_a_sample_has_its_padding(name, tmp_path):
    samples = recorded("olmo_core", f"expected_{name}.json")["samples"]
    ranks = next(ranks for step, ranks in steps_of(name))
    run = described(tmp_path, name, work_of(name), world_size=len(ranks))
    reader = tokfmt.open(run)
    for k, number in enumerate(number for places in zip(*ranks, strict=True) for number in places):
        if name not in VSL:
            truth = samples[str(number)]["tokens"]
            assert reader[k].tolist() == truth


@pytest.mark.parametrize("name", SETS)
def test_whole_orders_have_no_finding(name, tmp_path):
    run = described(tmp_path, name, work_of(name))
    assert findings(run) == set()
    assert "from files" in commands.run("info", run, check=0).stdout


@pytest.mark.parametrize("name", SETS)
def test_a_document_is_found_in_the_samples_that_read_it(name, tmp_path):
    samples, truth, steps = recorded("olmo_core", f"expected_{name}.json")["samples"], {}, steps_of(name)
    for step, ranks in steps:
        for numbers in ranks:
            for number in numbers:
                for source, document, _, length in samples[str(number)]["pieces"]:
                    if length:
                        truth.setdefault((source, document), set()).add((step, number))
    run = described(tmp_path, name, work_of(name), samples=10**3)
    known = {step for step, _ in steps}
    for (source, document), reads in sorted(truth.items())[::37]:
        done = commands.run("show", run, "--seen", f"{source}#{document}", "--json", check=0)
        found = {(one["step"], one["number"]) for one in json.loads(done.stdout)["reads"]}
        assert {one for one in found if one[0] in known} == reads


def copied(folder, name):
    """A copy of the work_dir of a run, which a test damages."""
    return shutil.copytree(work_of(name), folder / "work")


def changed(path, dtype="<u4", *, swap=None, put=None, cut=0):
    """Change a file of integers: swap two entries, put a number at a place, or cut entries off."""
    numbers = np.fromfile(path, dtype)
    if swap:
        numbers[list(swap)] = numbers[list(swap[::-1])]
    if put:
        numbers[put[0]] = put[1]
    numbers[: len(numbers) - cut].tofile(path)


@pytest.mark.parametrize(
    ("name", "pattern", "how", "codes"),
    [
        ("fsl", "global_indices*epoch1*", {"swap": (3, 9)}, {"TF815"}),
        ("fsl", "global_indices*epoch1*", {"put": (3, 0)}, {"TF813"}),
        ("fsl", "global_indices*epoch1*", {"put": (3, 314)}, {"TF812"}),
        ("fsl", "global_indices*epoch1*", {"cut": 1}, {"TF812"}),
        ("composable_intra_source", "global_indices*epoch1*", {"swap": (3, 300)}, {"TF815"}),
        ("composable_interleaved_source", "global_indices*epoch1*", {"swap": (3, 4)}, {"TF815"}),
        ("composable_inter_source", "SamplingInstanceSource/0c*", {"put": (3, 1)}, {"TF815"}),
        ("padded", "dataset-common/instance-*9203*", {"put": (1, 60000)}, {"TF812"}),
        ("padded", "dataset-common/instance-*9203*", {"put": (1, 3)}, {"TF814"}),
        ("padded", "dataset-common/instance-*9203*", {"cut": 1}, {"TF812"}),
        ("packed_truncate", "dataset-common/documents-by*", {"dtype": "<u8", "put": (0, 1)}, {"TF813"}),
        ("packed_truncate", "dataset-common/documents-by*", {"dtype": "<u8", "put": (0, 10**9)}, {"TF812"}),
        ("packed_truncate", "dataset-common/instance-off*", {"dtype": "<u8", "put": (1, 2**40)}, {"TF813"}),
        ("packed_truncate", "dataset-common/document-ind*", {"dtype": "<u8", "put": (1, 2**63 + 5)}, {"TF812"}),
        ("packed_truncate", "dataset-common/document-ind*", {"dtype": "<u8", "put": (1, 2**40)}, {"TF812"}),
        ("vsl_natural", "dataset-*/vsl-*/global*epoch1*", {"swap": (3, 4)}, {"TF815"}),
        ("vsl_natural", "dataset-*/vsl-*/global*epoch1*", {"put": (3, 10**6)}, {"TF812"}),
        ("vsl_natural", "dataset-*/vsl-*/global*epoch1*", {"cut": 1}, {"TF812"}),
        ("vsl_grow_p2", "dataset-*/vsl-*/instance*bucket8_epoch2*", {"swap": (3, 4)}, {"TF815"}),
        ("vsl_grow_p2", "dataset-*/bucket8*", {"put": (3, 0)}, {"TF814", "TF815"}),
        ("vsl_grow_p2", "dataset-*/bucket8*", {"put": (3, 10**6)}, {"TF812"}),
    ],
)  # fmt: skip
def test_a_damaged_order_file_has_a_finding(name, pattern, how, codes, tmp_path):
    work = copied(tmp_path, name)
    for path in work.glob(pattern):
        changed(path, **how)
    run = described(tmp_path, name, work)
    assert findings(run) == codes
    assert commands.run("stats", run).returncode in (0, 3)


def test_sources_in_another_order_have_the_same_name_of_their_order_file(tmp_path):
    """The name states only the sum, so that the order is stale without a word of OLMo-core."""
    swapped = "".join(f"[[run.source]]\npaths = [{json.dumps(path)}]\n" for path in reversed(PATHS))
    run = described(tmp_path, "composable_intra_source", work_of("composable_intra_source"), swapped)
    assert findings(run) == {"TF815"}


def test_tokens_that_were_replaced_by_as_many_make_an_order_stale(tmp_path):
    home = shutil.copytree(HOME, tmp_path / "set")
    tokens = np.fromfile(home / PATHS[1], "<u2")
    np.roll(tokens, 1).tofile(home / PATHS[1])
    for name in ("padded", "packed_truncate", "packed_fragment"):
        assert findings(described(tmp_path, name, work_of(name), root=str(home))) == {"TF814"}


def test_two_orders_in_one_folder_are_asked_for(tmp_path):
    work = copied(tmp_path, "fsl")
    for path in work.glob("global_indices*"):
        shutil.copy(path, path.with_name(path.name.replace("seed1234", "seed77")))
    run = described(tmp_path, "fsl", work)
    done = commands.run("info", run, check=2)
    assert "seed=" in done.stderr and "order=" in done.stderr
    assert read_by_ranks(run, 0, seed=1234) == [[number for pair in zip(*steps_of("fsl")[0][1]) for number in pair]]
    assert findings(run, seed=77) == {"TF815"}


def test_the_path_of_the_run_decides_the_name_of_its_files(tmp_path):
    """Files are found by the paths of the configuration; a table says where these are now."""
    work = copied(tmp_path, "padded")
    done = commands.run("info", described(tmp_path, "padded", work, paths=[f"./{path}" for path in PATHS]), check=3)
    assert "instance-indices" in done.stderr and "root" in done.stderr


def test_a_folder_of_order_files_is_a_run(tmp_path):
    words = ["--from-opt", f"root={HOME}", "--from-opt", f"paths={','.join(PATHS)}", "--from-opt", "dtype=uint16"]
    for name in ("packed_fragment", "vsl_natural"):
        done = commands.run("info", work_of(name), *words, "--from-opt", "batch_size=8", "--json", check=0)
        assert json.loads(done.stdout)["format"] == "run"


@pytest.mark.parametrize("key", ["paths", "dtype", "sequence_length", "batch_size", "seed"])
def test_a_missing_fact_is_named_with_the_file_that_has_it(key, tmp_path):
    facts = {"seed": 1234, key: None}
    done = commands.run("info", described(tmp_path, "fsl", **facts), check=2)
    assert f"--from-opt {key}=" in done.stderr and "config.json" in done.stderr


MIX = "[[run.source]]\nseed = 5\n"
LEAF = "[[run.source.source]]\npaths = ['data/harbour.npy']\n"


@pytest.mark.parametrize(
    ("name", "wrong", "word"),
    [
        ("fsl", {"paths": PATHS[:2]}, "sequence_length"),
        ("fsl", {"sequence_length": 128}, "sequence_length"),
        ("fsl", {"batch_size": 1000}, "batch_size"),
        ("fsl", {"sample_in_epoch": 10**6}, "sample_in_epoch"),
        ("fsl", {"rampup": "1,2,3"}, "batch_size"),
        ("vsl_natural", {"batch_size": 16}, "batch_size"),
        ("vsl_natural", {"consumed": 3}, "consumed"),
        ("vsl_natural", {"world_size": 3}, "world_size"),
        ("composable_intra_source", {"sources": MIX}, "paths"),
        ("composable_intra_source", {"sources": MIX + LEAF}, "ratio"),
        ("composable_intra_source", {"sources": MIX + LEAF + "ratio = 0.5\nmax_repetition_factor = 1\n"}, "ratios"),
        ("composable_intra_source", {"sources": MIX + LEAF + "ratio = 7\n"}, "ratio"),
        ("composable_intra_source", {"sources": "[[run.source]]\npath = 'a'\n"}, "paths"),
        ("composable_intra_source", {"paths": PATHS}, "paths"),
        ("mixture", {"requested_tokens": 10**15}, "requested_tokens"),
        ("mixture", {"sources": f"[[run.source]]\npaths = {PATHS}\nratio = 1.0\n"}, "several paths"),
        ("fsl", {"paths": ["../../etc/passwd"]}, "outside"),
        ("fsl", {"cache": "typo", "seed": 1234}, "cache="),
        ("fsl", {"framework": "olmo"}, "drop_last"),
    ],
)
def test_a_wrong_fact_is_named(name, wrong, word, tmp_path):
    done = commands.run("info", described(tmp_path, name, work_of(name), **wrong))
    assert done.returncode in (2, 3) and word in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("start", [{"consumed": 46 * 8}, {"epoch": 2, "sample_in_epoch": 7 * 8}])
def test_a_stretch_begins_where_its_facts_say(start, tmp_path):
    """By the samples before it, or by the state of the data loader in the checkpoint."""
    run = described(tmp_path, "fsl", work_of("fsl"), world_size=4, samples=10**3, **start)
    for step, ranks in steps_of("fsl")[46:]:
        assert read_by_ranks(run, step) == ranks
    assert commands.run("show", run, "--step", 45).returncode == 2


@pytest.mark.parametrize("start", [{"consumed": 4}, {"epoch": 1, "sample_in_epoch": 12 * 8}])
def test_a_stretch_of_variable_lengths_begins_at_a_batch(start, tmp_path):
    steps = steps_of("vsl_natural")
    before = sum(map(len, steps[0][1])) if "consumed" in start else None
    start = start if before is None else {"consumed": before}
    run = described(tmp_path, "vsl_natural", work_of("vsl_natural"), world_size=2, **start)
    for step, ranks in steps[1 if before else 12 : 35 : 7]:
        assert read_by_ranks(run, step) == ranks
    assert commands.run("show", run, "--step", 0 if before else 11).returncode == 2


def test_order_files_beside_the_tokens_are_not_tokens(tmp_path):
    for path in [HOME / "data" / "harbour.npy", *work_of("fsl").iterdir()]:
        shutil.copy(path, tmp_path)
    done = commands.run("info", tmp_path, "--from-opt", "width=2", "--json", check=0)
    document = json.loads(done.stdout)
    assert document["format"] == "olmo" and document["stored_tokens"] == 12496
    assert any("olmo-core" in note for note in document["notes"])


def test_a_run_is_converted_and_counted_by_source(tmp_path):
    run = described(tmp_path, "composable_inter_source", work_of("composable_inter_source"), world_size=2)
    samples = recorded("olmo_core", "expected_composable_inter_source.json")["samples"]
    numbers = [
        number
        for _, ranks in steps_of("composable_inter_source")[:2]
        for places in zip(*ranks, strict=True)
        for number in places
    ]
    commands.run("convert", run, tmp_path / "out.jsonl", "--select", "0:16", check=0)
    lines = [json.loads(line)["input_ids"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == [samples[str(number)]["tokens"] for number in numbers]
    done = commands.run("stats", run, "--select", "0:16", "--json", check=0)
    drawn = [samples[str(number)]["reads"][0][0] for number in numbers]
    found = {one["name"]: one["samples"] for one in json.loads(done.stdout)["sources"]}
    assert found == {name: drawn.count(name) for name in ("harbour", "meadow", "lantern")}
