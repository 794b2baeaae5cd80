"""The server of `preloaded.py`: loads what commands import, and becomes each command that it is asked for.

In: requests as JSON on the socket whose descriptor is its argument (behind which `jax` may stand, for what
computes with it), each with four descriptors: where the command reads, prints and complains, and where to
report. Out, in each report: the command's process id, then
how it ended. Nothing here starts a thread, so that its forks are whole.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

MOST_REQUEST = 2**20
LOADED = (
    "krill.cli.app",
    "krill.cli.commands",
    "krill.cli.progress",
    "krill.cli.screen",
    "krill.pipeline",
    "krill.pipeline.output_checks",
    "krill.dataset.export",
    "krill.tokenizer",
    "psutil",
    "pyarrow.parquet",
)
LOADED_WITH_JAX = (
    "krill.training.decoding",
    "krill.training.job",
    "krill.training.language_task",
    "krill.training.qa.evaluate",
    "krill.training.qa.task",
    "krill.training.scoring",
    "krill.training.session",
    "orbax.checkpoint",
)


def serve(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. Returns in the forks, with their request; in the server, None at the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that stay with a command
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # pytest's, which closes the channel
    while True:
        message, (*descriptors,), _, _ = socket.recv_fds(channel, MOST_REQUEST, 4)
        if not message:
            return None
        if os.fork() == 0:
            channel.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _accompanied(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _accompanied(request: dict[str, Any], source: int, out: int, err: int, report: int) -> dict[str, Any]:
    """Fork once more and tell how that ends; returns in the last fork alone, which is the command."""
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(report)
        _settle(request, source, out, err)
        return request
    for descriptor in (source, out, err):
        os.close(descriptor)
    os.write(report, f"{child}\n".encode())
    _, status, usage = os.wait4(child, 0)
    ended = {
        "code": os.waitstatus_to_exitcode(status),
        "peak": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "seconds": time.monotonic() - begun,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
    }
    os.write(report, f"{json.dumps(ended)}\n".encode())
    os._exit(0)


def _settle(request: Mapping[str, Any], *descriptors: int) -> None:
    """Everything that a process of its own has of its own."""
    os.setsid()
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    # What the server's streams know of its own files, as whether these can be sought, may not hold here.
    sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding=sys.stderr.encoding, errors="backslashreplace", closefd=False)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    if request["file_limit"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_limit"], request["file_limit"]))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["krill", *request["arguments"]]


def load_rooms(modules: Iterable[str]) -> None:
    """What commands import, and the config's checks, which are made when they are first used."""
    # Read as NumPy and Arrow are loaded, and not later: else each starts a thread.
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
    for module in modules:
        importlib.import_module(module)
    from krill.config import KrillConfig

    KrillConfig()
    threads = list(Path("/proc/self/task").glob("*"))  # none where there is no such folder
    assert len(threads) <= 1, "a fork would lose a thread"


def become(request: Mapping[str, Any]) -> None:
    """What a fork is for: the script, or the command."""
    if request["script"] is not None:
        exec(compile(request["script"], "<script>", "exec"), {"__name__": "__main__"})
    else:
        from krill.cli import main

        main()


if __name__ == "__main__":
    load_rooms([*LOADED, *LOADED_WITH_JAX] if sys.argv[2:] == ["jax"] else LOADED)
    gc.freeze()  # else a fork's first collection writes to, and so copies, all that it shares with the server
    requested = serve(socket.socket(fileno=int(sys.argv[1])))
    if requested is not None:
        become(requested)
