"""What the scripts on runs share; each is run by the Python of one upstream, in which tokfmt is not installed.

    python SCRIPT.py HOME                  makes data, and asks a process for each rank of each configuration
    python SCRIPT.py HOME NUMBER RANK      one of these: the batches of each epoch that the loader of upstream gives to a rank

HOME/runs.json has, for each configuration, the facts as tokfmt is told them (all but "upstream"), and the batches of each rank: lists of samples,
which are lists of IDs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path


def documents(count, length, first=0):
    """Documents of one length, none of whose IDs is in another."""
    return [list(range(first + k * length, first + (k + 1) * length)) for k in range(count)]


def batches_of(number, one, home):
    """The batches of each rank, which a process of its own reads, as in training."""
    world = one["world_size"]
    shared = {"WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500 + number}
    processes = []
    for rank in range(world):
        ranks = {"RANK": rank, "LOCAL_RANK": rank, "GLOBAL_RANK": rank}
        environment = {**os.environ, **{name: str(value) for name, value in {**shared, **ranks}.items()}}
        command = [sys.executable, sys.argv[0], str(home), str(number), str(rank)]
        processes.append(subprocess.Popen(command, env=environment))
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"a rank failed: {one}")
    ranks = [json.loads((home / f"{number}.{rank}.json").read_text()) for rank in range(world)]
    longest = [max(map(len, epochs)) for epochs in zip(*ranks)]  # a rank may have fewer, and waits for the others
    return [
        [batch for epoch, most in zip(rank, longest) for batch in (*epoch, *[[]] * (most - len(epoch)))]
        for rank in ranks
    ]


def main(configurations, make, read):
    """`make(home)` writes data; `read(home, configuration)` returns the batches of each epoch of this rank."""
    home = Path(sys.argv[1])
    if len(sys.argv) > 2:
        number, rank = map(int, sys.argv[2:])
        (home / f"{number}.{rank}.json").write_text(json.dumps(read(home, configurations[number])))
        return
    (home / "said.json").write_text("{}")  # upstream could be imported
    make(home)
    runs = []
    for number, one in enumerate(configurations):
        told = {key: value for key, value in one.items() if key != "upstream"}
        runs.append([told, batches_of(number, one, home)])
    (home / "runs.json").write_text(json.dumps(runs))
