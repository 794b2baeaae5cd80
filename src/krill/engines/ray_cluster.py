"""Ray itself: the import, the way into a cluster, and a cluster of this machine's own."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from krill.errors import ConfigError, MissingExtra

_PROBE_SECONDS = 5.0
# Results are a few hundred bytes and go through no object store; this is about the least that Ray takes.
_OBJECT_STORE_BYTES = 80 * 2**20


def import_ray(retries: int) -> Any:
    """Ray, which warns and reports by default: a user of Krill asked for neither.

    What is set here counts when Ray is imported for the first time in a process.
    """
    # A node that died is known to be dead only a little later: until then Ray may send work there again.
    os.environ.setdefault("RAY_task_retry_delay_ms", "1000")
    # A worker that Ray ended for its memory: by default its task is run again without end.
    os.environ.setdefault("RAY_task_oom_retries", str(retries))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Whatever a node prints of workers that died: the task is run again, or it is named in the end.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "(?s).*")
    try:
        import ray
    except ImportError:
        raise MissingExtra("the engine `ray`", "ray") from None
    logging.getLogger("ray").setLevel(logging.CRITICAL)  # importing it sets another level
    return ray


def connect(ray: Any, address: str) -> None:
    """Enter the cluster at `address`, as a driver on one of its machines."""
    if "://" in address:
        raise ConfigError(
            f"`engine.address` is `{address}`, and the driver has to be in the cluster, not outside",
            hint="run the command on a machine of the cluster, with the address `auto`",
        )
    named = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    if named != "auto":
        _probe(named)
    with _no_cluster(f"at `{address}`"):
        ray.init(address=address, **_quiet())


def start_here(ray: Any, workers: int) -> None:
    """Start a cluster of one node for so many workers; it ends with this process."""
    with _no_cluster("on this machine"):
        ray.init(
            address="local",
            num_cpus=workers,
            object_store_memory=_OBJECT_STORE_BYTES,
            include_dashboard=False,
            **_quiet(),
        )


def _quiet() -> dict[str, Any]:
    return {"log_to_driver": False, "configure_logging": False}


def _probe(address: str) -> None:
    """Ray itself tries for two minutes to reach what isn't there."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_SECONDS).close()
    except ValueError:
        raise _unusable(f"at `{address}`", "that is no address such as `head:6379`") from None
    except OSError as error:
        raise _unusable(f"at `{address}`", f"nothing answers ({error.strerror or error})") from None


@contextmanager
def _no_cluster(place: str) -> Iterator[None]:
    """Ray's ways to say no, as one; and what it does to SIGTERM undone, so that a run ends as ever."""
    in_main = threading.current_thread() is threading.main_thread()
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except (ConnectionError, ValueError, RuntimeError, TimeoutError, OSError) as error:
        lines = str(error).strip().splitlines()
        raise _unusable(place, lines[0] if lines else type(error).__name__) from None
    finally:
        if in_main and on_sigterm is not None:
            signal.signal(signal.SIGTERM, on_sigterm)


def _unusable(place: str, fact: str) -> ConfigError:
    return ConfigError(
        f"no Ray cluster can be used {place}: {fact}",
        hint="start one with `ray start --head`, name its address in `engine.address`, or leave the address"
        " out to use the cores of this machine",
    )
