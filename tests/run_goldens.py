"""Runs that upstream code made: what each step, rank and sample read, by the record beside their order files."""

import json

import commands
from paths import ROOT

RUNS = ROOT / "fixtures" / "runs"


def recorded(of_set, name):
    """The record of a run: its arguments, steps and samples."""
    return json.loads((RUNS / of_set / name).read_text())


def words_of(options):
    """The options of a run as words of the command line."""
    return [word for key, value in options.items() for word in ("--from-opt", f"{key}={value}")]


def shown(run, *words, **options):
    """The document of `tokfmt show RUN WORDS --json`."""
    done = commands.run("show", run, *words, "--json", "--from", "run", *words_of(options), check=0)
    return json.loads(done.stdout)["shown"]


def findings(run, **options):
    """The codes of what a deep check of a run finds."""
    done = commands.run("check", "--deep", run, "--from", "run", "--json", *words_of(options))
    return {finding["code"] for report in json.loads(done.stdout)["datasets"] for finding in report["findings"]}


def read_by_ranks(run, step, **options):
    """For each rank, in the order in which it reads them: the numbers of its samples in the dataset of the framework."""
    ranks = {}
    for sample in shown(run, "--step", step, **options):
        ranks.setdefault(sample["rank"], []).append(sample["number"])
    return [ranks[rank] for rank in sorted(ranks)]


def pieces_of(sample):
    """The pieces of a shown sample: source, sequence, first position, number of tokens."""
    return [(part["source"], part["sequence"], part["start"], part["stop"] - part["start"]) for part in sample["parts"]]


def ids_of(sample):
    """The IDs of a shown sample, with its last label."""
    return [token for part in sample["parts"] for token in part["ids"]]


def assert_reads(run, step, ranks, samples):
    """A step has the recorded samples on each rank, with the recorded pieces and IDs."""
    read = {}
    for one in shown(run, "--step", step):
        truth = samples[str(one["number"])]
        read.setdefault(one["rank"], []).append(one["number"])
        assert pieces_of(one) == [tuple(piece) for piece in truth["pieces"]]
        assert ids_of(one) == truth["tokens"][: sum(length for *_, length in truth["pieces"])]
    assert [read[rank] for rank in sorted(read)] == ranks
