"""One checkpoint on disk: arrays as orbax writes them, everything else with their checksums in a JSON file.

In: a tree of arrays and plain JSON. Out: a folder, synced; and from such a folder its header, a check
of every byte, and the arrays, bit-identical. Held in memory: while
writing nothing, arrays go to the disk from where they are (compressing would hold a second copy, and float
weights hardly shrink); while reading, an array twice.

A folder holds `arrays/` (zarr, one folder an array) and `checkpoint.json`, written last: without it there is
no checkpoint. Nothing is pickled.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax

from krill.errors import ConfigError, InputError, StorageError
from krill.model.sizing import ModelShape
from krill.storage.atomic import fsync_dir, storage_errors, write_bytes
from krill.storage.input_file import MOST_SETTINGS, read_input
from krill.storage.outputs import file_sha256

HEADER = "checkpoint.json"
ARRAYS = "arrays"
_FORMAT = 1
# Suffix of the names of 8-bit tensors.
_CODES = ".codes"


class DamagedCheckpoint(Exception):
    """What is on disk is not what was written; the message says which file."""


@dataclass(frozen=True, slots=True)
class Header:
    """Everything of a checkpoint but its arrays.

    `arrays` is each one's type and size; `files` each file's length and SHA-256.
    """

    step: int
    metric: float | None
    shape: ModelShape
    extra: dict[str, Any]
    arrays: dict[str, list[Any]]
    files: dict[str, list[Any]]


def named_arrays(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by their path, `model.layers.query`: their names on disk."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def write_checkpoint(
    folder: Path,
    arrays: Mapping[str, jax.Array],
    shape: ModelShape,
    extra: Mapping[str, Any],
    *,
    step: int,
    metric: float | None,
) -> None:
    """Fill the empty `folder`; raises `StorageError` where it can't be written."""
    _reserve(folder, [leaf.nbytes for leaf in arrays.values()])
    _save_arrays(folder / ARRAYS, arrays)
    header = Header(step, metric, shape, dict(extra), _described(arrays), _synced_files(folder))
    body = {"format": _FORMAT, **asdict(header)}
    write_bytes(folder / HEADER, json.dumps({**body, "sha256": _digest(body)}).encode())


def read_header(folder: Path) -> Header:
    """What `write_checkpoint` stored beside the arrays; `DamagedCheckpoint` where that is not whole."""
    try:
        body = json.loads(read_input(folder / HEADER, MOST_SETTINGS))
        stored = body.pop("sha256")
        if stored != _digest(body) or body.pop("format") != _FORMAT:
            raise DamagedCheckpoint(f"`{HEADER}` was changed after it was written")
        header = Header(**{**body, "shape": ModelShape(**body["shape"])})
        _check_types(header)
        return header
    except OSError as error:
        raise DamagedCheckpoint(f"`{HEADER}` can't be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ConfigError) as error:
        raise DamagedCheckpoint(f"`{HEADER}` is not what was written") from error


def _check_types(header: Header) -> None:
    """TypeError or ValueError for what `write_checkpoint` never writes, even with a right checksum."""
    numbers = isinstance(header.metric, int | float | None) and isinstance(header.step, int)
    mappings = (header.extra, header.arrays, header.files)
    if not numbers or not all(isinstance(each, dict) for each in mappings):
        raise TypeError("a field of another type")
    for name, (size, digest) in header.files.items():
        if not isinstance(size, int) or not isinstance(digest, str):
            raise TypeError("a file without its size and checksum")
        if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
            raise ValueError("a file outside of the checkpoint")
    for kind, shape in header.arrays.values():
        if not isinstance(kind, str) or not isinstance(shape, list):
            raise TypeError("an array without its type and size")


def verify(folder: Path, header: Header) -> None:
    """Read every file; `DamagedCheckpoint` names the first that has changed."""
    for name, (size, digest) in header.files.items():
        path = folder / name
        try:
            if path.stat().st_size != size:
                raise DamagedCheckpoint(f"`{name}` has {path.stat().st_size:,} bytes instead of {size:,}")
            if file_sha256(path) != digest:
                raise DamagedCheckpoint(f"`{name}` has changed bytes")
        except OSError as error:
            raise DamagedCheckpoint(f"`{name}` can't be read: {error.strerror or error}") from error


def read_arrays(folder: Path, header: Header, like: Mapping[str, Any]) -> dict[str, jax.Array]:
    """The arrays that `like` (shapes, or arrays with a sharding) names, placed as it says; verify first."""
    import orbax.checkpoint as ocp

    _require_same(folder, header.arrays, like)
    with _quiet_logs():
        here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        shapes = {
            name: jax.ShapeDtypeStruct(
                leaf.shape, leaf.dtype, sharding=getattr(leaf, "sharding", None) or here
            )  # type: ignore[no-untyped-call]
            for name, leaf in like.items()
        }
        wanted = {
            name: ocp.ArrayRestoreArgs(sharding=leaf.sharding, global_shape=leaf.shape, dtype=leaf.dtype)
            for name, leaf in shapes.items()
        }
        largest = max(leaf.size * leaf.dtype.itemsize for leaf in shapes.values())
        with ocp.Checkpointer(_handler(in_flight=largest + 1)) as reader:
            found: dict[str, jax.Array] = reader.restore(
                folder.absolute() / ARRAYS,
                args=ocp.args.PyTreeRestore(shapes, restore_args=wanted, partial_restore=True),
            )
    return found


def _save_arrays(folder: Path, arrays: Mapping[str, jax.Array]) -> None:
    import orbax.checkpoint as ocp

    with _quiet_logs(), _refusals(folder), ocp.Checkpointer(_handler()) as writer:
        writer.save(folder.absolute(), args=ocp.args.PyTreeSave(dict(arrays)))


def _handler(in_flight: int | None = None) -> Any:
    import orbax.checkpoint as ocp

    # A file for each array instead of OCDBT, which collects everything in memory first.
    plain = ocp.BasePyTreeCheckpointHandler(
        use_ocdbt=False, use_zarr3=True, use_compression=False, restore_concurrent_bytes=in_flight
    )
    return ocp.PyTreeCheckpointHandler(
        use_ocdbt=False, use_zarr3=True, use_compression=False, handler_impl=plain
    )


@contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    """A failed write: tensorstore raises an OSError, or a ValueError that has its code in the message."""
    try:
        with storage_errors(folder):
            yield
    except ValueError as error:
        if "os_error_code" not in str(error):
            raise
        raise StorageError(f"cannot write `{folder}`: {error}", hint="check the device") from error


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Orbax logs what it does, and every failure with its stack; failures are noted once, by the store."""
    loggers = [logging.getLogger(name) for name in ("absl", "asyncio")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _reserve(folder: Path, sizes: Iterable[int]) -> None:
    """Raises where the disk has no room for files of these sizes, before orbax's threads fail on it."""
    allocate: Callable[[int, int, int], None] | None = getattr(os, "posix_fallocate", None)
    if allocate is None:  # macOS
        return
    reserved: list[Path] = []
    try:
        for number, size in enumerate(sizes):
            reserved.append(folder / f"reserved-{number}")
            with storage_errors(folder), open(reserved[-1], "xb") as file:
                try:
                    allocate(file.fileno(), 0, max(size, 1))
                except OSError as error:
                    if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # the file system can't
                        raise
    finally:
        for path in reserved:
            path.unlink(missing_ok=True)


def _described(arrays: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: [str(leaf.dtype), list(leaf.shape)] for name, leaf in arrays.items()}


def _require_same(folder: Path, stored: Mapping[str, list[Any]], like: Mapping[str, Any]) -> None:
    for name, (dtype, shape) in _described(like).items():
        if stored.get(name) != [dtype, shape]:
            whole = name.removesuffix(_CODES)
            if whole != name and whole in stored:
                raise InputError(
                    f"the checkpoint `{folder}` has `{whole}` in 32 bits: it is of a version of Krill whose"
                    " optimizer `adamw8bit` left embeddings so",
                    hint="finish it with that version, or begin anew with --overwrite or in another folder",
                )
            there = "is not there" if name not in stored else "is {} of {}".format(*stored[name])
            raise InputError(
                f"the checkpoint `{folder}` is of another model or optimizer: `{name}` {there},"
                f" {dtype} of {shape} was expected",
                hint="resume with the settings that it was written with, or train in another folder",
            )


def _synced_files(folder: Path) -> dict[str, list[Any]]:
    """Every file below `folder`, synced, with its length and digest."""
    files: dict[str, list[Any]] = {}
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(place, name)
            with storage_errors(path), open(path, "rb") as file:
                os.fsync(file.fileno())
            files[path.relative_to(folder).as_posix()] = [path.stat().st_size, file_sha256(path)]
        fsync_dir(place)
    return files


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body).encode()).hexdigest()
