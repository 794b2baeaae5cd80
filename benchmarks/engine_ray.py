"""The engine `ray` beside the local one, and beside itself: clusters of one node and of two on this machine.

`nodes`: all filters, near-duplicates and a tokenizer of 32,000 tokens, on one node with a core, then on two;
what two threads of one process gain on the same job tells what this machine's second core is worth.
`overhead`: the same job and one without filters and with exact duplicates, by two threads of one process and
by two nodes with a core each; times are those of the whole command and, beside it, of its stages. In both the
cluster runs already, and has done a first small job: its nodes are still starting when they can be joined.
`own` is with one that is started for the run and ended after it. `tasks`: a hundred
thousand tasks that find nothing to do, and the most that the driver held.

    python benchmarks/engine_ray.py [nodes overhead own tasks] [--mb 500]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from measured import Outcome, run_measured
from preprocess import corpus, krill_command, trained
from results import again

WORKER_MEMORY = "400MB"
NODE_MEMORY = 4 * 10**9
TASKS = 100_000
TURNS = 3
HEAVY = {
    "dedup": "minhash",
    "max_document_bytes": "1MB",
    "filters": [
        {"language": {"allow": ["en", "de", "fr", "es", "ja", "zh", "ko", "pt", "ru"], "min_score": 0.0}},
        "gopher_repetition",
        {"gopher_quality": {"min_stop_words": 0}},
        {"c4": {"filter_no_terminal_punct": False, "filter_curly_bracket": False}},
        "fineweb",
    ],
}

_NO_WORK = '''
import json, sys, time
from pathlib import Path
from krill.config import load_config, to_dict
from krill.engines import Resources, Stage, WorkerSpec, open_engine

class Nothing(Stage):
    """Tasks that a worker finds to be done."""

    def __init__(self, number):
        super().__init__("scan", lambda name: None)
        self.number = number

    def tasks(self):
        return range(self.number)

    def missing(self, tasks):
        return tasks

    def bundles(self, tasks, workers):
        return ([] for _ in tasks)

    def describe(self, tasks):
        return "nothing"

folder, address, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
(folder / "input.jsonl").write_text(json.dumps({"text": "a document"}))
config = load_config(
    {
        "datasets": [{"path": str(folder / "input.jsonl")}],
        "tokenizer": {"builtin": "bytes"},
        "engine": {"name": "ray", "address": address},
    }
)
spec = {"settings": to_dict(config), "stages": str(folder / "stages"), "dataset": str(folder / "dataset")}
(folder / "worker.json").write_text(json.dumps(spec))
(folder / "run.json").write_text(json.dumps({"identity": "none", "inputs": [], "against": []}))
run = WorkerSpec("preprocess", str(folder), "none", Resources(400_000_000, 1))
engine = open_engine(config.engine, run, lambda result: None)
begun = time.monotonic()
engine.run(Nothing(number))
print(json.dumps({"done": engine.facts()["tasks"], "seconds": time.monotonic() - begun}))
engine.close()
'''


def main() -> None:
    """The parts that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=" ".join(PARTS))
    parser.add_argument("--mb", type=int, default=500)
    parser.add_argument("--turns", type=int, default=TURNS, help="of which the median is told")
    parser.add_argument("--folder", type=Path, help="where corpora and the tokenizer are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for name in options.parts:
            print(f"\n{name}", flush=True)
            PARTS[name](Job(folder, Path(temporary), options.mb, options.turns))


class Job:
    """What is prepared, and where."""

    def __init__(self, folder: Path, work: Path, megabytes: int, turns: int) -> None:
        self.folder, self.work, self.megabytes, self.turns = folder, work, megabytes, turns

    def seconds(self, what: str, *arguments: str, **preprocess: Any) -> tuple[float, float]:
        """The median of some runs: the command from its start to its end, and its stages."""
        (found,) = self.beside({what: arguments}, **preprocess)
        return found

    def beside(self, ways: dict[str, tuple[str, ...]], **preprocess: Any) -> list[tuple[float, float]]:
        """The same of several ways, in turns: what else the machine does meets all of them."""
        outcomes: dict[str, list[Outcome]] = {what: [] for what in ways}
        for _ in range(self.turns):
            for what, arguments in ways.items():
                outcomes[what].append(self._run(arguments, preprocess))
        return [self._report(what, found) for what, found in outcomes.items()]

    def _report(self, what: str, outcomes: list[Outcome]) -> tuple[float, float]:
        whole = median(outcome.seconds for outcome in outcomes)
        stages = median(sum(stage["seconds"] for stage in outcome.result["stages"]) for outcome in outcomes)
        engine = outcomes[0].result["engine"]
        workers = f", a worker {engine['worker_peak'] / 1e6:.0f} MB" if "worker_peak" in engine else ""
        peak = max(outcome.peak for outcome in outcomes)
        print(
            f"{what:<28} {whole:6.2f} s, stages {stages:6.2f} s {self.megabytes / stages:6.1f} MB/s"
            f"   {peak / 1e6:.0f} MB{workers}",
            flush=True,
        )
        return whole, stages

    def _run(self, arguments: tuple[str, ...], preprocess: dict[str, Any]) -> Outcome:
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            config = {
                "memory": WORKER_MEMORY,
                "datasets": [{"path": str(corpus(self.folder, self.megabytes))}],
                "tokenizer": {"path": str(trained(self.folder))},
                "preprocess": {"prepared_path": f"{folder}/out", **preprocess},
            }
            path = Path(folder) / "config.yaml"
            path.write_text(yaml.safe_dump(config))
            outcome = run_measured([krill_command(), "preprocess", path, *arguments, "--json"])
        assert outcome.code == 0, outcome.err
        return outcome


@contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """The address of a cluster of so many nodes, each with one core."""
    from ray.cluster_utils import Cluster

    # Where it writes its address; a machine that never ran Ray has no such folder yet.
    (Path(os.environ.get("TMPDIR", "/tmp")) / "ray").mkdir(exist_ok=True)
    node = {"num_cpus": 1, "memory": NODE_MEMORY, "object_store_memory": 80 * 2**20}
    started = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            started.add_node(**node)
        _warm_up(started.address, nodes)
        yield started.address
    finally:
        started.shutdown()


def _warm_up(address: str, nodes: int) -> None:
    """Until as many tasks as there are nodes have run, and what starts beside a node has started."""
    program = """
import sys, time, ray
ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False)
task = ray.remote(lambda: time.sleep(2))
ray.get([task.remote() for _ in range(int(sys.argv[2]))])
"""
    outcome = run_measured([sys.executable, "-c", program, address, str(nodes)])
    assert outcome.code == 0, outcome.err


def nodes(job: Job) -> None:
    """One and two, and the same with threads."""
    threads = [job.seconds(f"{count} threads", "--threads", str(count), **HEAVY) for count in (1, 2)]
    took = []
    for count in (1, 2):
        with cluster(count) as address:
            took.append(job.seconds(f"{count} nodes, 1 core each", *_on(address), **HEAVY))
    for what, (one, two) in (("two threads", threads), ("two nodes", took)):
        print(f"{what}: {one[0] / two[0]:.2f}x one, in the stages {one[1] / two[1]:.2f}x")


def overhead(job: Job) -> None:
    """Two cores, here and there."""
    results = again("engine_ray", "ray")
    for what, preprocess in (("all filters and MinHash", HEAVY), ("no filters, exact", {})):
        with cluster(2) as address:
            ways = {"2 threads of one process": ("--threads", "2"), "2 nodes, 1 core each": _on(address)}
            local, ray = job.beside(ways, **preprocess)
        whole, stages = (100 * (there / here - 1) for there, here in zip(ray, local, strict=True))
        results.add(job=what, local=local[0], ray=ray[0], longer=whole, stages=stages)
    results.save()


def own(job: Job) -> None:
    """A cluster of its own, its start and its end included."""
    local, _ = job.seconds("2 threads of one process", "--threads", "2")
    ray, _ = job.seconds("2 workers, cluster started", "--engine", "ray", "--workers", "2", "--threads", "1")
    print(f"with a cluster of its own it takes {ray - local:+.1f} s")


def tasks(job: Job) -> None:
    """So many that whatever the driver keeps of each would show."""
    with cluster(2) as address:
        for number in (TASKS // 10, TASKS):
            with tempfile.TemporaryDirectory(dir=job.work) as folder:
                command = [sys.executable, "-c", _NO_WORK, folder, address, str(number)]
                outcome = run_measured(command)
            assert outcome.code == 0, outcome.err
            found = json.loads(outcome.out)
            assert found["done"] == number
            each = found["seconds"] / number
            print(
                f"{number:,} tasks: {each * 1e3:.2f} ms each, driver {outcome.peak / 1e6:.0f} MB", flush=True
            )


def _on(address: str) -> tuple[str, ...]:
    return ("--engine", "ray", "--address", address, "--threads", "1")


PARTS = {"nodes": nodes, "overhead": overhead, "own": own, "tasks": tasks}

if __name__ == "__main__":
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    main()
