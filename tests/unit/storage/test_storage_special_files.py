"""Files of the system are told from files: nothing is written where a device, a pipe or a socket is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from krill.errors import StorageError
from krill.storage.atomic import refuse_special, write_bytes


# `refuse_special` looks and touches nothing, so that real devices may be named here, and only here.
@pytest.mark.parametrize("path", ["/dev/null", "/dev/stdout", "/dev/made-up", "/proc/self/made-up"])
def test_a_file_of_the_system_is_refused(path):
    with pytest.raises(StorageError, match="a device, a pipe or another file of the system"):
        refuse_special(Path(path))


def test_shared_memory_and_ordinary_files_are_taken(tmp_path):
    refuse_special(Path("/dev/shm/made-up"))
    refuse_special(tmp_path / "new")
    write_bytes(tmp_path / "new", b"one")
    write_bytes(tmp_path / "new", b"two")
    assert (tmp_path / "new").read_bytes() == b"two"


def test_a_pipe_stays_one(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="pipe"):
        write_bytes(tmp_path / "pipe", b"x")
    assert (tmp_path / "pipe").is_fifo()
    assert list(tmp_path.iterdir()) == [tmp_path / "pipe"]
