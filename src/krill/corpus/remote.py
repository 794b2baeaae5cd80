"""Remote files: what a server says of them, and their bytes, also where it fails for a moment.

In: URLs that fsspec reads. Out: what is known of a file, and its bytes in order or from any offset. What may
pass (a busy server, a lost connection, silence) is tried again, a few times and with a line in the log; what
won't is an `InputError` with what happened and the remedy. While a server takes long, a line in the logger
`krill` says so every ten seconds. Held in memory: what fsspec holds of a file, and a name for each thread
that waits.

Not obstore, though it is lighter: 100 MB from a local HTTP server, with imports, took 18 MB of memory at 450
MB/s, and fsspec 70 MB at 240 MB/s. It reads object stores and HTTP, but none of fsspec's other addresses
(`hf://`, `ftp://`, ...), so fsspec would stay beside it. What is written here neither of them has: retries
that continue at the byte reached, also from servers without range requests, a check that the file is still
the same version, and errors with their remedy.
"""

from __future__ import annotations

import io
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from krill.corpus.remote_errors import fault_of, shown_url
from krill.errors import InputError, KrillError

ATTEMPTS: Final = 5
"""How often a thing is tried before it is given up."""

FIRST_WAIT = 1.0
"""Seconds before the second attempt; each wait is twice the one before it."""

SILENCE_SECONDS = 60.0
"""After so long without a byte a connection counts as lost."""

REPORT_SECONDS: Final = 10.0

_logger: Final = logging.getLogger("krill")

# Of answers: OK, the same through a proxy, and a range.
_WITH_CONTENT: Final = (200, 203, 206)

# Of a line: an address may be thousands of characters long, and is repeated.
_LONGEST: Final = 600

# What file systems say of a file's version, by their various names, the surest first.
_VERSION_TAGS: Final = (
    "ETag",
    "etag",
    "md5",
    "md5Hash",
    "sha",
    "LastModified",
    "last_modified",
    "Last-Modified",
)

Result = TypeVar("Result")


def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the URL's name in it."""
    import fsspec

    options: dict[str, Any] = {}
    if _is_web(url):
        import aiohttp

        # Its own limit is five minutes for a whole file, however fast it comes.
        limit = aiohttp.ClientTimeout(total=None, sock_connect=SILENCE_SECONDS, sock_read=SILENCE_SECONDS)
        options = {"client_kwargs": {"timeout": limit}}
    found: tuple[Any, str] = fsspec.core.url_to_fs(url, **options)
    return found


def with_retries(url: str, call: Callable[[], Result]) -> Result:
    """The result of a call to a server, which is tried again where that may help."""
    attempts = _Attempts(url)
    while True:
        try:
            with waiting(url):
                return call()
        except (ImportError, KrillError):
            raise
        except Exception as error:  # a file system may raise anything
            attempts.failed(error)


def version_of(info: Mapping[str, Any]) -> str:
    """What identifies this version of a file; empty if its server gives nothing."""
    return next((str(info[name]) for name in _VERSION_TAGS if info.get(name)), "")


def changed(url: str) -> InputError:
    return InputError(
        f"`{shown_url(url)}` has changed while it was read",
        hint="wait until it stays as it is, then run the same command again with --overwrite",
    )


class RemoteFile(io.RawIOBase):
    """The bytes of a remote file. With `in_order` the server need not support ranges, and it can't seek."""

    def __init__(self, url: str, *, in_order: bool, size: int = 0, version: str = "") -> None:
        self._url = url
        self._in_order = in_order and _is_web(url)
        self._size = size
        self._version = version
        self._at = 0
        self._encoded = False
        self._attempts = _Attempts(url)
        self._source: Any = with_retries(url, lambda: self._open(0))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return not self._in_order

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        if self._in_order:
            raise io.UnsupportedOperation("seek")
        if self._source is None:
            self._source = with_retries(self._url, lambda: self._open(self._at))
        self._at = int(self._source.seek(offset, whence))
        return self._at

    def read(self, size: int = -1) -> bytes:
        while True:
            try:
                with waiting(self._url):
                    if self._source is None:
                        self._source = self._open(self._at)
                    data = bytes(self._source.read(size))
                if not data and size != 0:
                    self._check_end()
            except KrillError:
                raise
            except Exception as error:
                self._drop()
                self._attempts.failed(error, self._at)
                continue
            self._at += len(data)
            if data:
                self._attempts.restart()
            return data

    def close(self) -> None:
        self._drop()
        super().close()

    def _drop(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            with suppress(Exception):  # it may be what has failed
                source.close()

    def _check_end(self) -> None:
        """Raises if the server has sent less than it announced."""
        if self._in_order and self._size and not self._encoded and self._at < self._size:
            raise EOFError(f"the connection ended after {self._at:,} of {self._size:,} bytes")

    def _open(self, at: int) -> Any:
        filesystem, name = file_system(self._url)
        if not self._in_order:
            return self._open_ranges(filesystem, name, at)
        headers = {"Accept-Encoding": "identity"}
        if at:
            headers["Range"] = f"bytes={at}-"
        # With some size it doesn't ask for it; nothing else is made of it.
        source = filesystem.open(name, "rb", block_size=0, size=1, headers=headers)
        _check_answer(source.r)
        headers_given = source.r.headers
        self._encoded = headers_given.get("Content-Encoding", "identity") not in ("", "identity")
        self._check_version("" if self._encoded else version_of(headers_given))
        given = headers_given.get("Content-Range", "").startswith(f"bytes {at}-")
        if at and not (source.r.status == 206 and given):
            _skip(source, at)
        return source

    def _open_ranges(self, filesystem: Any, name: str, at: int) -> Any:
        options: dict[str, Any] = {}
        if _is_web(self._url) and self._version.startswith('"'):
            # Servers that support it answer 412 once the file has changed.
            options = {"headers": {"If-Match": self._version}}
        source = filesystem.open(name, "rb", **options)
        details = vars(source).get("_details") or vars(source).get("details") or {}
        self._check_version(version_of(details))
        if self._size and getattr(source, "size", None) not in (None, self._size):
            raise changed(self._url)
        source.seek(at)
        return source

    def _check_version(self, version: str) -> None:
        before, now = (text.removeprefix("W/") for text in (self._version, version))
        self._version = self._version or version
        if before and now and before != now:
            raise changed(self._url)


class _Attempts:
    """How often something was tried; without success it waits, or gives up."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.restart()

    def restart(self) -> None:
        """Bytes have come: what fails next is counted from one again."""
        self._count = 0
        self._begun = time.monotonic()

    def failed(self, error: Exception, at: int | None = None) -> None:
        """Wait for the next attempt, or raise if there is none."""
        self._count += 1
        fault = fault_of(error, self._url, at)
        if fault.changed:
            raise changed(self._url) from error
        if not fault.transient or self._count >= ATTEMPTS:
            seconds = time.monotonic() - self._begun
            tried = f", {self._count} times in {seconds:.0f} s" if self._count > 1 else ""
            raise InputError(f"{fault.fact}{tried}", hint=fault.hint) from error
        pause = fault.wait or FIRST_WAIT * 2 ** (self._count - 1)
        report(f"{fault.fact}; trying again in {pause:.0f} s (attempt {self._count + 1} of {ATTEMPTS})")
        wait(pause, self._url)


def _is_web(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def _check_answer(response: Any) -> None:
    """Raises where the body is not the file's bytes, though the answer is no failure: `302` without a place
    to go on, `304`, `204`. Read as they are, they would be an empty file."""
    if response.status in _WITH_CONTENT:
        return
    import aiohttp

    raise aiohttp.ClientResponseError(
        response.request_info, response.history, status=response.status, headers=response.headers
    )


def _skip(source: Any, count: int) -> None:
    """Skip what was read before: the server gives the file from its beginning only."""
    while count:
        passed = len(source.read(min(count, 1 << 20)))
        if not passed:
            raise EOFError("the connection ended")
        count -= passed


def report(line: str) -> None:
    """One line about something that is not an error yet; of a long one, its beginning and its end."""
    if len(line) > _LONGEST:
        line = f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
    _logger.warning("%s", line)


def wait(seconds: float, url: str) -> None:
    """Sleep, and report that `url` is waited for if it takes long."""
    end = time.monotonic() + seconds
    with waiting(url):
        while (left := end - time.monotonic()) > 0:
            time.sleep(left)


@contextmanager
def waiting(url: str) -> Iterator[None]:
    """Reports that a server is waited for, if it takes long."""
    thread = threading.get_ident()
    _watch.begin(thread, url)
    try:
        yield
    finally:
        _watch.end(thread)


class _Watch:
    """One thread for all that wait, begun with the first of them; it ends when none does for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[int, tuple[float, str]] = {}
        self._process = 0
        """The process in which the thread runs: a fork has none."""

    def begin(self, thread: int, url: str) -> None:
        self._since[thread] = time.monotonic(), url
        if self._process != os.getpid():
            with self._lock:
                if self._process != os.getpid():
                    self._process = os.getpid()
                    threading.Thread(target=self._run, name="krill-waiting", daemon=True).start()

    def end(self, thread: int) -> None:
        self._since.pop(thread, None)

    def _run(self) -> None:
        reported: dict[int, float] = {}
        idle = 0.0
        while True:
            time.sleep(1)
            now = time.monotonic()
            held = dict(self._since)
            for thread, (since, url) in held.items():
                if now - max(since, reported.get(thread, 0.0)) >= REPORT_SECONDS - 1:
                    reported[thread] = now
                    report(f"waiting for `{shown_url(url)}` for {now - since:.0f} s")
            idle = 0.0 if held else idle + 1
            with self._lock:
                if idle > REPORT_SECONDS and not self._since:
                    self._process = 0
                    return


_watch: Final = _Watch()
