"""A Ray cluster of two nodes with a core each, on this machine, for all processes of pytest.

The first test that wants it starts this file as a program, which ends the cluster when none of those that
wanted it lives any more. `ray_fixtures.py` has the fixtures.

Its workers, and drivers that want to, are forks of a process that has loaded Krill (`ray_worker.py`) and what
Ray imports. Ray itself they load: its core reads the environment of its process at that moment.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

import preloaded_server
import ray_worker

NODE_MEMORY = 2 * 10**9
_NODE = {
    "num_cpus": 1,
    "object_store_memory": 80 * 2**20,
    "memory": NODE_MEMORY,
    "include_log_monitor": False,
    "worker_path": ray_worker.__file__,
}
# A driver joins the node that has its own address: with others for these two, that is always the head.
_SECOND, _THIRD = "127.0.0.2", "127.0.0.3"
_START_SECONDS = 120.0
_TASK_TITLE = "ray::krill"
_PR_SET_PDEATHSIG = 1
# What takes most of the time in which Ray is imported.
_RAY_IMPORTS = (
    "asyncio",
    "colorama",
    "filelock",
    "google.protobuf.internal.builder",
    "google.protobuf.json_format",
    "jsonschema",
    "msgpack",
    "packaging.version",
    "pdb",
    "requests",
    "tqdm",
    "uvloop",
    "wcwidth",
    "yaml",
)


@dataclass(frozen=True)
class RayCluster:
    """Where it is, the processes that keep its nodes, and the folder where its server is."""

    address: str
    raylets: tuple[int, ...] = ()
    folder: Path = Path()

    def working(self, folder: Path) -> list[psutil.Process]:
        """Worker processes that run a task now, of the command that was started in `folder`."""
        return [process for raylet in self.raylets for process in self.working_on(raylet, folder)]

    def working_on(self, raylet: int, folder: Path) -> list[psutil.Process]:
        """The same of one node. Other tests may have workers there: each enters the folder of its command."""
        signs = (self.folder / "workers").glob(f"{raylet}-*")
        workers = [*_children(raylet), *(int(sign.name.partition("-")[2]) for sign in signs)]
        found = []
        for worker in workers:
            with suppress(psutil.Error, IndexError):
                process = psutil.Process(worker)
                if process.cmdline()[0].startswith(_TASK_TITLE) and process.cwd() == str(folder.resolve()):
                    found.append(process)
        return found

    @cached_property
    def server(self) -> socket.socket | None:
        """For `preloaded.launch`: drivers with all that workers have loaded. None if there is no cluster."""
        if not self.raylets:
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        connection.connect(str(self.folder / "server"))
        return connection

    @contextmanager
    def fresh_workers(self) -> Iterator[None]:
        """Workers that are started meanwhile are no forks, for whatever is about their memory."""
        wish = self.folder / f"fresh-{os.getpid()}"
        wish.touch()
        try:
            yield
        finally:
            wish.unlink()

    @contextmanager
    def nodes_stay(self, *, but_mine: bool = False) -> Iterator[None]:
        """No node comes or goes meanwhile; with `but_mine`, nobody is there who relies on that."""
        with (self.folder / "nodes").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX if but_mine else fcntl.LOCK_SH)
            yield


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
    address, place, *raylets = (folder / "address").read_text().split()
    return RayCluster(address, tuple(map(int, raylets)), Path(place))


@contextmanager
def added_node(cluster: RayCluster) -> Iterator[tuple[int, Callable[[], None]]]:
    """One more node: the process that keeps it, and how it is lost."""
    from pytest import MonkeyPatch
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    with cluster.nodes_stay(but_mine=True), _short_folder() as folder, MonkeyPatch.context() as environment:
        environment.setenv(ray_worker.FOLDER, str(cluster.folder))
        parameters = RayParams(
            gcs_address=cluster.address, node_ip_address=_THIRD, temp_dir=str(folder), **_NODE
        )
        node = Node(parameters, head=False, shutdown_at_exit=False, spawn_reaper=True)

        def lose() -> None:
            node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)

        yield node.all_processes["raylet"][0].process.pid, lose
        lose()
        _wait_until_missed(cluster)


def _wait_until_missed(cluster: RayCluster) -> None:
    """Until the cluster knows that it has no more nodes than in the beginning."""
    from ray._raylet import GcsClient
    from ray.core.generated.gcs_pb2 import GcsNodeInfo

    client = GcsClient(address=cluster.address)
    deadline = time.monotonic() + _START_SECONDS
    while True:
        nodes = client.get_all_node_info().values()
        if sum(node.state == GcsNodeInfo.GcsNodeState.ALIVE for node in nodes) == len(cluster.raylets):
            return
        assert time.monotonic() < deadline
        time.sleep(0.1)


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


def main(folder: Path) -> dict[str, Any] | None:
    """Keep a cluster for those who have left a file in `folder`. Returns in forks too, with their request."""
    here = [name for name in _RAY_IMPORTS if find_spec(name.partition(".")[0])]
    preloaded_server.load_rooms([*preloaded_server.LOADED, "krill.pipeline.worker", *here])
    gc.freeze()
    temporary = Path(tempfile.mkdtemp(prefix="krill-ray-", dir="/tmp"))
    (temporary / "workers").mkdir()
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    channel.bind(str(temporary / "server"))
    if os.fork() == 0:
        # It ends with its parent, however that ends.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        return preloaded_server.serve(channel)
    try:
        _keep(folder, temporary)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return None


def _keep(folder: Path, temporary: Path) -> None:
    from ray.cluster_utils import Cluster

    # Not the folder of whatever else this machine runs, which a machine without Ray has not either.
    os.environ["RAY_TMPDIR"] = str(temporary)
    os.environ[ray_worker.FOLDER] = str(temporary)
    head = {**_NODE, "include_dashboard": False, "no_monitor": True, "temp_dir": str(temporary / "ray")}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(node_ip_address=_SECOND, **_NODE)
        nodes = [cluster.head_node, *cluster.worker_nodes]
        raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
        (folder / "address.part").write_text(" ".join([cluster.address, str(temporary), *map(str, raylets)]))
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
    requested = main(Path(sys.argv[1]))
    if requested is not None:
        preloaded_server.become(requested)
