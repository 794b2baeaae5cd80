"""The names of `krill.flow.atomic`, which all rooms that write share, for those that look for them here."""

from krill.flow.atomic import (
    AtomicFile,
    atomic_writer,
    fsync_dir,
    storage_errors,
    sweep_temporaries,
    write_bytes,
    write_json,
)

__all__ = [
    "AtomicFile",
    "atomic_writer",
    "fsync_dir",
    "storage_errors",
    "sweep_temporaries",
    "write_bytes",
    "write_json",
]
