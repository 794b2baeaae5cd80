"""Writing where there is no room or no right to write."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from krill.errors import StorageError
from krill.storage.atomic import atomic_writer, storage_errors, sweep_temporaries, write_json

# A limit on the size of a file stands in for a full disk: the write fails half-way with an OSError, and it
# needs neither a mount nor root. Run in a child, since the limit can't be lifted again.
LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np, pyarrow as pa
from krill.errors import StorageError
from krill.dataset import Layout, RowBatch, ShardWriter, TextShardWriter

path = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

def rows(writer):
    ids, lengths = np.zeros(64_000, dtype=np.uint16), np.full(1000, 64, dtype=np.int32)
    writer.write(RowBatch(ids, np.arange(1001) * 64, lengths, np.arange(1001, dtype=np.int32)))

def documents(writer):
    texts = pa.array([np.random.default_rng(0).bytes(100_000).hex()] * 100, pa.large_string())
    writer.write(pa.RecordBatch.from_arrays([texts], names=["text"]))

schema = pa.schema([("text", pa.large_string())])
make, fill = {
    "rows": (lambda: ShardWriter(path, Layout(64, "uint16", 100)), rows),
    "documents": (lambda: TextShardWriter(path, schema), documents),
}[sys.argv[2]]
try:
    with make() as writer:
        fill(writer)
        writer.close()
except StorageError as error:
    print(error.exit_code, error)
"""


@pytest.mark.parametrize("kind", ["rows", "documents"])
def test_a_full_disk_is_a_storage_error_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    (tmp_path / "shard").write_text("an earlier output")
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), str(tmp_path / "shard"), kind],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == (
        f"5 cannot write `{tmp_path}/shard`: file size limit exceeded\n"
        "hint: raise the limit (`ulimit -f`), or lower `shard_size`\n"
    )
    assert result.stderr == ""
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"shard": "an earlier output"}


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "no space left on the device"),
        (errno.EDQUOT, "disk quota exceeded"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EACCES, "permission denied"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_each_reason_has_its_words_and_a_remedy(number: int, message: str) -> None:
    with pytest.raises(StorageError) as caught, storage_errors("some/file"):
        raise OSError(number, os.strerror(number))
    assert caught.value.message == f"cannot write `some/file`: {message}"
    assert caught.value.hint


def test_an_error_of_the_body_passes_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_writer(tmp_path / "file") as file:
        file.write(b"half")
        raise FileNotFoundError("an input, not the output")
    assert list(tmp_path.iterdir()) == []


def test_a_failing_sync_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="no space left"):
        write_json(tmp_path / "file", {"a": 1})
    assert list(tmp_path.iterdir()) == []


def test_json_is_written_in_the_given_order(tmp_path: Path) -> None:
    write_json(tmp_path / "file", {"b": 1, "a": [2]})
    assert (tmp_path / "file").read_text() == '{\n  "b": 1,\n  "a": [\n    2\n  ]\n}\n'


def test_files_get_the_usual_permissions(tmp_path: Path) -> None:
    write_json(tmp_path / "ours", 1)
    (tmp_path / "usual").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_what_a_killed_run_left_is_swept(tmp_path: Path) -> None:
    killed = "import os, sys\nfrom krill.storage.atomic import AtomicFile\n"
    killed += "AtomicFile(sys.argv[1]).write(b'half')\nos._exit(9)"
    subprocess.run([sys.executable, "-c", killed, str(tmp_path / "file")], check=False)
    (tmp_path / "kept").touch()
    assert len(list(tmp_path.iterdir())) == 2
    assert sweep_temporaries(tmp_path) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


# What a child process does, to see what it imports.
WITHOUT_PANDAS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from dataset_samples import Layout, Rows, write_dataset
from krill.dataset import Dataset, inspect, validate

folder = Path(sys.argv[2])
write_dataset(folder, Rows(Layout(8, "uint16", 4), 21), 10)
Dataset(folder)[3:7], validate(folder), inspect(folder)
print(sorted({"pandas", "pyarrow.parquet", "pyarrow.compute"} & set(sys.modules)))
"""


def test_rows_need_neither_pandas_nor_parquet(tmp_path: Path) -> None:
    """They take 45 and 9 MB, which a small budget would miss."""
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_PANDAS, str(Path(__file__).parent), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "[]\n"
