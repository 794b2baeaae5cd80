"""A Ray cluster of two nodes with a core each, on this machine, for all processes of pytest.

The first test that wants it starts this file as a program, which ends the cluster when none of those that
wanted it lives any more. `ray_fixtures.py` has the fixtures.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

NODE_MEMORY = 2 * 10**9
_NODE = {
    "num_cpus": 1,
    "object_store_memory": 80 * 2**20,
    "memory": NODE_MEMORY,
    "include_log_monitor": False,
}
# A driver joins the node that has its own address: with others for these two, that is always the head.
_SECOND, _THIRD = "127.0.0.2", "127.0.0.3"
_START_SECONDS = 120.0
_TASK_TITLE = "ray::krill"


@dataclass(frozen=True)
class RayCluster:
    """Where it is, and the processes that keep its nodes."""

    address: str
    raylets: tuple[int, ...]

    def working(self, folder: Path) -> list[psutil.Process]:
        """Worker processes that run a task now, of the command that was started in `folder`."""
        return [process for raylet in self.raylets for process in working_on(raylet, folder)]


def working_on(raylet: int, folder: Path) -> list[psutil.Process]:
    """The same of one node. Other tests may have workers there: each enters the folder of its command."""
    found = []
    for child in _children(raylet):
        with suppress(psutil.Error, IndexError):
            process = psutil.Process(child)
            if process.cmdline()[0].startswith(_TASK_TITLE) and process.cwd() == str(folder.resolve()):
                found.append(process)
    return found


def _children(pid: int) -> list[int]:
    """What each of its threads has started: psutil would look at every process of the machine."""
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, thread.read_text().split())
    return found


def join_cluster(folder: Path) -> RayCluster:
    """The cluster that is kept for those who have left a file in `folder`; the first to come starts it."""
    folder.mkdir(exist_ok=True)
    (folder / f"user-{os.getpid()}").touch()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "address").exists():
            _start(folder)
    address, *raylets = (folder / "address").read_text().split()
    return RayCluster(address, tuple(map(int, raylets)))


@contextmanager
def added_node(cluster: RayCluster) -> Iterator[tuple[int, Callable[[], None]]]:
    """One more node: the process that keeps it, and how it is lost."""
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    with _short_folder() as folder:
        parameters = RayParams(
            gcs_address=cluster.address, node_ip_address=_THIRD, temp_dir=str(folder), **_NODE
        )
        node = Node(parameters, head=False, shutdown_at_exit=False, spawn_reaper=True)

        def lose() -> None:
            node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)

        yield node.all_processes["raylet"][0].process.pid, lose
        lose()


def _start(folder: Path) -> None:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_SECONDS
    while not (folder / "address").exists():
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)


def main(folder: Path) -> None:
    """Keep a cluster for those who have left a file in `folder`."""
    from ray.cluster_utils import Cluster

    with _short_folder() as temporary:
        # Not the folder of whatever else this machine runs, which a machine without Ray has not either.
        os.environ["RAY_TMPDIR"] = str(temporary)
        head = {**_NODE, "include_dashboard": False, "no_monitor": True, "temp_dir": str(temporary / "ray")}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            cluster.add_node(node_ip_address=_SECOND, **_NODE)
            nodes = [cluster.head_node, *cluster.worker_nodes]
            raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
            (folder / "address.part").write_text(" ".join([cluster.address, *map(str, raylets)]))
            (folder / "address.part").rename(folder / "address")
            while _users_live(folder):
                time.sleep(0.5)
        finally:
            cluster.shutdown()


def _users_live(folder: Path) -> bool:
    """Whether one of them still runs."""
    pids = [int(path.name.removeprefix("user-")) for path in folder.glob("user-*")]
    return any(psutil.pid_exists(pid) for pid in pids)


@contextmanager
def _short_folder() -> Iterator[Path]:
    """Ray puts sockets into its folder, whose names may have 107 characters at most."""
    folder = Path(tempfile.mkdtemp(prefix="krill-ray-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
