"""A Slurm of one node, for a test: Debian's `slurm-wlm` with `munge` where they are, else a stand-in.

Both answer to the same commands. The daemons run as root in the foreground, each a child of the test, with
their state in a folder of the test's, without cgroups; they end with it. The stand-in runs jobs as processes
of this machine (`slurm_stand_in.py`).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PARTITION = "work"
CORES = 4
DAEMONS = ("munged", "slurmctld", "slurmd")

_CONF = """
ClusterName=krill
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,defer=0
ReturnToService=2
KillWait=2
MinJobAge=60
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=16000 State=UNKNOWN
PartitionName={partition} Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def real_slurm_is_here() -> bool:
    """Whether the daemons are installed and may be started."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return os.geteuid() == 0 and all(shutil.which(name, path=path) for name in (*DAEMONS, "sbatch"))


@contextmanager
def real_slurm(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands reach a cluster that lives as long as the body."""
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(mode=0o700, parents=True)
    (folder / "munge").chmod(0o711)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    configuration = folder / "slurm.conf"
    configuration.write_text(
        _CONF.format(
            host=socket.gethostname().partition(".")[0],
            folder=folder,
            controller_port=_free_port(),
            node_port=_free_port(),
            cores=CORES,
            partition=PARTITION,
        )
    )
    environment = {"SLURM_CONF": str(configuration), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    munge = ["munged", "--foreground", "--force", f"--key-file={key}"]
    munge += [f"--{part}-file={folder}/munge/{part}" for part in ("pid", "log", "seed")]
    commands = [[*munge, f"--socket={folder}/munge/socket"], ["slurmctld", "-D", "-c"], ["slurmd", "-D"]]
    with ExitStack() as stack:
        for command in commands:
            stack.enter_context(_running(command, folder, environment))
        _wait_until_idle(folder, environment)
        yield environment


@contextmanager
def stand_in(folder: Path) -> Iterator[dict[str, str]]:
    """The same with the stand-in's commands; whatever its jobs have left running ends with the body."""
    commands = folder / "bin"
    commands.mkdir(parents=True)
    script = Path(__file__).with_name("slurm_stand_in.py")
    for name in ("sinfo", "sbatch", "squeue", "scancel"):
        (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {script} {name} "$@"\n')
        (commands / name).chmod(0o755)
    environment = {"STAND_IN_JOBS": str(folder / "jobs"), "PATH": f"{commands}:{os.environ['PATH']}"}
    try:
        yield environment
    finally:
        subprocess.run([commands / "scancel", "--all"], env={**os.environ, **environment}, check=True)


@contextmanager
def _running(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    with (folder / f"{command[0]}.out").open("wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_idle(folder: Path, environment: dict[str, str]) -> None:
    state = ""
    for _ in range(150):
        asked = subprocess.run(
            ["sinfo", "--noheader", "--format=%T"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        state = asked.stdout.strip() or asked.stderr.strip()
        if state == "idle":
            return
        time.sleep(0.2)
    logs = "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.log")))
    raise AssertionError(f"the cluster does not start: {state}\n{logs}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
