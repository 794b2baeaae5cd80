"""A worker of the cluster in `ray_cluster.py`, as Ray starts it: a fork of a process that has loaded Krill.

To import Krill and what Ray imports takes more than a second of a core, and the tests start workers by the
dozen to kill them. So this, which stands where Ray has its own `default_worker.py`, asks the cluster's server
to become that; Ray knows the fork by its process id from the moment that it registers. As long as it lives,
this waits, and a file named `RAYLET-WORKER` tells the tests whose it is.

As of any warm process, how it starts and what it holds then is not as it is for users: while there is a file
`fresh-*` in the cluster's folder, this becomes a worker by itself.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

FOLDER = "TESTS_RAY_CLUSTER"
"""The variable that tells the cluster's folder."""


def main() -> None:
    folder = Path(os.environ[FOLDER])
    program = str(Path(find_spec("ray").origin).parent / "_private" / "workers" / "default_worker.py")
    if any(folder.glob("fresh-*")):
        os.execv(sys.executable, [sys.executable, program, *sys.argv[1:]])
    request = {
        "arguments": sys.argv[1:],
        "cwd": str(Path.cwd()),
        "env": dict(os.environ),
        "file_limit": None,
        "script": f"import runpy; runpy.run_path({program!r}, run_name='__main__')",
    }
    ours, theirs = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.connect(str(folder / "server"))
        socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2, theirs])
    os.close(theirs)
    with os.fdopen(ours) as report:
        sign = folder / "workers" / f"{os.environ['RAY_RAYLET_PID']}-{int(report.readline())}"
        sign.touch()
        report.readline()
    sign.unlink()


if __name__ == "__main__":
    main()
