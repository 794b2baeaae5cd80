"""A device that is full, read-only or limited refuses a checkpoint: training goes on with the one before."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.jax

# Saves step 1. Then, for each thing that is done to the device, tries to save the next step and restores.
SCRIPT = """
import contextlib, json, resource, subprocess, sys
from pathlib import Path
import jax, jax.numpy as jnp
from krill.model.sizing import ModelShape
from krill.model.transformer import Transformer
from krill.training.checkpoints import CheckpointStore
from krill.training.step import TrainState

folder, faults = Path(sys.argv[1]), sys.argv[2].split(",")
shape = ModelShape(vocab_size=8, width=8, layers=1, heads=2, kv_heads=2, hidden=8)

def state(step, numbers=250_000):
    weights = Transformer(jnp.full(numbers, step, jnp.float32), jnp.zeros(3), jnp.zeros(3), shape)
    return TrainState(weights, (jnp.zeros(3),), jnp.ones(()), jnp.asarray(step, jnp.int32))

@contextlib.contextmanager
def limited(fault):
    if fault == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", folder.parent], check=True)
        yield 250_000
        subprocess.run(["mount", "-o", "remount,rw", folder.parent], check=True)
    elif fault == "file-size":
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        yield 250_000
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    else:
        yield 250_000 if fault == "none" else 2_500_000

notes = []
store = CheckpointStore(folder, keep=1, note=notes.append)
assert store.save(1, state(1), {"at": 1})
for step, fault in enumerate(faults, 2):
    with limited(fault) as numbers:
        saved = store.save(step, state(step, numbers), {"at": step})
    found = store.restore(jax.eval_shape(lambda: state(0)))
    print(json.dumps({
        "fault": fault, "saved": saved, "notes": notes, "steps": store.steps(), "at": found.extra["at"],
        "whole": bool((found.state.model.embedding == found.step).all()),
        "hidden": [path.name for path in folder.iterdir() if path.name.startswith(".")],
    }))
    notes.clear()
"""
REASONS = {
    "full": "no space left on the device; training goes on (free some space",
    "read-only": "the file system is read-only; training goes on (choose a folder that can be written",
    "file-size": "file size limit exceeded; training goes on (raise the limit",
}


def can_mount() -> bool:
    """Whether this user may have a mount namespace of their own."""
    unshare = shutil.which("unshare")
    probe = [unshare, "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return unshare is not None and subprocess.run(probe, capture_output=True, check=False).returncode == 0


def check(command: list[str], folder: str, faults: list[str]) -> None:
    """Run the script; every fault is noted once, leaves the first checkpoint alone, and prints no trace."""
    done = subprocess.run(
        [*command, sys.executable, "-c", SCRIPT, folder, ",".join(faults)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [outcome.pop("fault") for outcome in outcomes] == faults
    for step, (fault, outcome) in enumerate(zip(faults, outcomes, strict=True), 2):
        notes = outcome.pop("notes")
        at = step if fault == "none" else 1
        assert outcome == {"saved": fault == "none", "steps": [at], "at": at, "whole": True, "hidden": []}
        if fault == "none":
            assert notes == []
        else:
            assert [REASONS[fault] in note for note in notes] == [True]
            assert notes[0].startswith(f"no checkpoint at step {step}: cannot write `")


@pytest.mark.skipif(not can_mount(), reason="no mount namespaces for this user")
def test_a_device_that_refuses_leaves_the_checkpoint_before_and_takes_the_next_one():
    mounted = ["unshare", "-rm", "sh", "-ec", 'mount -t tmpfs -o size=6m none /mnt; exec "$@"', "sh"]
    check(mounted, "/mnt/checkpoints", ["full", "read-only", "file-size", "none"])


@pytest.mark.skipif(can_mount(), reason="tested with the others")
def test_a_limit_on_the_size_of_files_leaves_the_checkpoint_before(tmp_path):
    check([], str(tmp_path / "checkpoints"), ["file-size", "none"])
