"""What goes wrong with a remote file, as a message: the fact, the remedy, and whether another attempt may
help.

In: whatever fsspec and the libraries below it raise. Out: a `Fault`. Nothing is held.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

LONGEST_WAIT: Final = 60.0

_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_PASSING_ERRNO: Final = frozenset(
    {
        errno.EBUSY,
        errno.EIO,
        errno.ETIMEDOUT,
        errno.ECONNRESET,
        errno.ECONNREFUSED,
        errno.ECONNABORTED,
        errno.EPIPE,
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.EAGAIN,
    }
)
# Of libraries that need not be installed, by name.
_LOST: Final = frozenset(
    {
        "ClientPayloadError",
        "ClientConnectionError",
        "ClientConnectorError",
        "ClientOSError",
        "ServerDisconnectedError",
        "ClientConnectionResetError",
        "EndpointConnectionError",
        "ConnectionClosedError",
        "IncompleteReadError",
        "ResponseStreamingError",
        "HTTPClientError",
        "FSTimeoutError",
    }
)
_NO_CREDENTIALS: Final = frozenset({"NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError"})
_PASSWORD: Final = re.compile(r"^([a-z0-9+.-]+://)[^/?#]*@", re.IGNORECASE)
_SECRET: Final = re.compile(
    r"([?&][^=&]*(?:sig|token|secret|passw|credential|auth|key)[^=&]*=)[^&]*", re.IGNORECASE
)

_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_AGAIN: Final = "run the same command again later: what was committed is kept"


@dataclass(frozen=True, slots=True)
class Fault:
    """What happened, what to do, and whether it may pass by itself, after how many seconds if it says so."""

    fact: str
    hint: str
    transient: bool = False
    wait: float | None = None
    changed: bool = False
    """Whether the file is another one than it was."""


def shown_url(url: str) -> str:
    """A URL without the password in it, and without what signs it."""
    return _SECRET.sub(r"\1...", _PASSWORD.sub(r"\1", url))


def fault_of(error: BaseException, url: str, at: int | None = None) -> Fault:
    """What an error says of a file, of which `at` bytes had come."""
    shown = f"`{shown_url(url)}`"
    where = f" after {at:,} bytes" if at else ""
    for cause in _causes(error):
        fault = _of_answer(cause, shown, where) or _of_connection(cause, shown, where)
        if fault is not None:
            return fault
    if isinstance(error, FileNotFoundError):
        return Fault(f"no such file: {shown}", "check the address")
    if "range requests" in str(error) or "block_size=0" in str(error):
        return Fault(
            f"can't read {shown}: its server doesn't answer range requests",
            "Parquet, Arrow and zip are read from any place: download the file and give its path",
        )
    return Fault(f"can't read {shown}{where}: {_first_line(error)}", "check the address and the connection")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from, the first cause first: fsspec calls everything a missing file."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__
    return reversed(chain)


def _of_answer(error: BaseException, shown: str, where: str) -> Fault | None:
    name = type(error).__name__
    if name == "TooManyRedirects":
        return Fault(f"{shown} redirects for ever", "open it in a browser and give the address where it ends")
    if name in _NO_CREDENTIALS:
        return Fault(
            f"can't read {shown}: no credentials were found",
            "set those of the store, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    if isinstance(error, PermissionError):
        return Fault(
            f"can't read {shown}: {_first_line(error)}", "check the credentials, and that they may read there"
        )
    status = getattr(error, "status", None)
    if not isinstance(status, int) or not hasattr(error, "request_info"):
        return None
    if type(error.__context__).__module__ == "aiohttp.http_exceptions":
        return Fault(
            f"what {shown} answers is not HTTP: {_first_line(error.__context__)}",
            "its server, or a proxy before it, is faulty: get the file in another way and give its path",
        )
    return _of_status(status, error, shown, where)


def _of_status(status: int, error: Any, shown: str, where: str) -> Fault:
    phrase = _PHRASES.get(status) or error.message or ""
    said = f"{status} {phrase}".strip()
    answer = f"{shown} answers `{said}`{where}"
    if status in _BUSY:
        return Fault(
            answer, f"its server fails or is busy: {_AGAIN}", transient=True, wait=_asked_wait(error)
        )
    if status in (401, 403, 407):
        return Fault(answer, "give an address that may be read without a password, or one that is signed")
    if status in (404, 410):
        return Fault(f"no such file: {shown}: the server answers `{said}`", "check the address")
    if status in (412, 416):  # what comes only if the file is the same, or longer than what has come
        return Fault(answer, "", changed=True)
    return Fault(answer, "check the address")


def _of_connection(error: BaseException, shown: str, where: str) -> Fault | None:
    check = f"check the address and the connection, then {_AGAIN}"
    if isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN:
        return Fault(f"the host in {shown} does not exist", "check the address")
    # It has the host's error inside, which comes first.
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return Fault(f"nothing more came from {shown}{where}", check, transient=True)
    lost = any(kind.__name__ in _LOST for kind in type(error).__mro__)
    lost = lost or isinstance(error, ConnectionError | EOFError | socket.gaierror)
    lost = lost or (isinstance(error, OSError) and error.errno in _PASSING_ERRNO)
    if not lost:
        return None
    inner = error.__cause__ or error
    return Fault(f"the connection to {shown} was lost{where}: {_first_line(inner)}", check, transient=True)


def _asked_wait(error: Any) -> float | None:
    """What a busy server asks for in `Retry-After`, within reason."""
    asked = (error.headers or {}).get("Retry-After", "")
    return min(float(asked), LONGEST_WAIT) if asked.isdecimal() else None


def _first_line(error: BaseException | None) -> str:
    said = getattr(error, "message", None) or str(error)
    lines = [line.strip() for line in str(said).splitlines() if line.strip()]
    return lines[0].rstrip(".:") if lines else type(error).__name__
