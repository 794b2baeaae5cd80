"""Errors of the system and of libraries, as errors of Krill.

In: what Python, Arrow or another library raised. Out: an `InputError` that names the file, where a file was
being read; a `BudgetError`, where the system refused memory, threads or open files; a `StorageError`, where
it refused to write. What is left is a bug. Held in memory: nothing.

Whether an unexpected error is the file's fault or ours is decided by where it arises: inside of `reading`,
what a library raises is about the file. It is told in a line, and its traceback is kept for a report.
"""

from __future__ import annotations

import errno
import lzma
import os
import struct
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from krill.errors import BudgetError, InputError, KrillError, StorageError

MOST_REPORTS: Final = 20
MOST_REPORT_CHARS: Final = 100_000

# What decoders and the system say of a file that is damaged or can't be read: known, and no report needed.
_PLAIN: Final = (OSError, EOFError, lzma.LZMAError, zlib.error)
# What parsers raise. From our own code it may as well be a mistake in it; while a file is read, it is more
# likely what the file holds.
_OF_VALUES: Final = (ValueError, OverflowError, struct.error, RecursionError)
_OURS: Final = str(Path(__file__).parent) + os.sep

_NO_MEMORY: Final = (errno.ENOMEM, errno.EAGAIN)
_NO_FILES: Final = (errno.EMFILE, errno.ENFILE)
_NO_WRITING: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_NO_LOADING: Final = ("failed to map segment", "cannot allocate memory", "cannot create shared object")
_NO_THREADS: Final = ("can't start new thread", "resource temporarily unavailable")


@contextmanager
def reading(path: str | os.PathLike[str], *, at: int | None = None) -> Iterator[None]:
    """The body reads `path` and does nothing else; `at` is how far it has got.

    An error of a library becomes an `InputError` that names the file. An error of our own code stays what it
    is, and says in a note which file was being read.
    """
    try:
        yield
    except KrillError:
        raise
    except BaseException as error:
        known = refused_resources(error) or _unreadable(error, os.fspath(path), at)
        if known is not None:
            raise known from error
        if isinstance(error, Exception) and not getattr(error, "__notes__", None):
            error.add_note(f"while reading `{os.fspath(path)}`")
        raise


@contextmanager
def system_errors() -> Iterator[None]:
    """What the system refuses becomes an error of Krill; also a decorator. For whole jobs."""
    try:
        yield
    except KrillError:
        raise
    except Exception as error:
        known = refused_by_system(error)
        if known is None:
            raise
        raise known from error


def refused_by_system(error: BaseException) -> KrillError | None:
    """An error that nobody on the way had a better word for, if it is the system's; None for a bug."""
    if isinstance(error, KrillError):
        return error
    if (refused := refused_resources(error)) is not None:
        return refused
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):
        return InputError(f"{error}"[0].lower() + f"{error}"[1:], hint="remove one of the links")
    if not isinstance(error, OSError) or error.filename is None:
        return None
    name, fact = _name_of(error.filename), (error.strerror or str(error)).lower()
    if error.errno in _NO_WRITING:
        return StorageError(f"cannot write `{name}`: {fact}", hint="choose a folder on another device")
    return InputError(f"can't use `{name}`: {fact}", hint="check the path and its permissions")


def refused_resources(error: BaseException) -> BudgetError | None:
    """Memory, threads or open files that the system did not give."""
    said = str(error).lower()
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, RuntimeError) and any(words in said for words in _NO_THREADS):
        return BudgetError(
            "the system refused to start a thread",
            hint="raise the limits of this shell (`ulimit -v unlimited`, `ulimit -u`), or lower --threads",
        )
    if isinstance(error, ImportError) and any(words in said for words in _NO_LOADING):
        return BudgetError(
            "the system refused the memory that Krill's libraries take",
            hint="raise the limit of this shell: ulimit -v unlimited",
        )
    if isinstance(error, MemoryError) or number in _NO_MEMORY:
        return BudgetError(
            "the system refused memory",
            hint="give a smaller --memory or fewer --threads, or raise the limit of this shell (`ulimit -v`)",
        )
    if number in _NO_FILES:
        return BudgetError(
            "the system refused to open one more file", hint="raise the limit of this shell: ulimit -n 1024"
        )
    return None


def first_line(error: BaseException) -> str:
    """An error's message without the context that libraries add to it."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()


def keep_report(error: BaseException) -> Path | None:
    """Write the traceback where it does no harm; None if that is not possible.

    Into the user's cache folder, or else the system's for temporary files; the oldest are removed.
    """
    text = "".join(traceback.format_exception(error))[-MOST_REPORT_CHARS:]
    for folder in _report_folders():
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.lstat().st_uid != os.getuid():  # in the folder for temporary files, anybody's
                continue
            descriptor, name = tempfile.mkstemp(".txt", time.strftime("error-%Y%m%d-%H%M%S-"), folder)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            for old in sorted(folder.glob("error-*.txt"))[:-MOST_REPORTS]:
                old.unlink(missing_ok=True)
            return Path(name)
    return None


def _report_folders() -> Iterator[Path]:
    given = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # a user without a home
        yield (Path(given) if given else Path.home() / ".cache") / "krill" / "reports"
    with suppress(OSError):
        yield Path(tempfile.gettempdir()) / f"krill-reports-{os.getuid()}"


def _unreadable(error: BaseException, path: str, at: int | None) -> InputError | None:
    """None for what is not about the file: an interrupt, or a mistake in our code."""
    where = "" if at is None else f" after {at:,} bytes"
    fact = f"can't read `{path}`{where}: {first_line(error)}"
    if isinstance(error, _PLAIN) or _is_arrows(error):
        return InputError(
            fact, hint="the file is damaged or incomplete: get it again, or take it out of `datasets:`"
        )
    if not (_is_panic(error) or isinstance(error, Exception)):
        return None
    if not (_is_panic(error) or isinstance(error, _OF_VALUES) or _raised_by_library(error)):
        return None
    report = keep_report(error)
    hint = "the file is damaged, or not what its name says; if it is neither, please report this as a bug"
    return InputError(fact, hint=hint if report is None else f"{hint}, with `{report}`")


def _is_arrows(error: BaseException) -> bool:
    """By name: nothing is loaded to find out, and no error is Arrow's where Arrow is not loaded."""
    return any(kind.__name__ == "ArrowException" for kind in type(error).__mro__)


def _is_panic(error: BaseException) -> bool:
    """A fault inside of a library that is written in Rust; not an `Exception`, as Python counts them."""
    return type(error).__name__ == "PanicException"


def _raised_by_library(error: BaseException) -> bool:
    trace = traceback.extract_tb(error.__traceback__, limit=-1)
    return bool(trace) and not trace[0].filename.startswith(_OURS)


def _name_of(filename: object) -> str:
    return os.fsdecode(filename) if isinstance(filename, str | bytes) else str(filename)
