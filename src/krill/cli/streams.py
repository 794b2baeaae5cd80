"""Standard input, output and error: closed, full, or shown by a terminal that obeys what it is sent.

In: what commands print. Out: the same, with every character escaped that a terminal would obey instead of
showing it: `\\x1b`, `\\u202e`. Held in memory: nothing of size.

Everything that is printed goes through here, also what libraries and warnings print, so no command can
forget to escape what came from a document, a name or a config. Rich, whose own colours are such characters,
escapes what it is given (`screen.Screen`) and then writes by `TerminalStream.trusted`.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

from krill.errors import escape


class TerminalStream(io.TextIOBase):
    """A standard stream that escapes what it is given, and survives when its reader leaves.

    What can't be written, as on a full device, is dropped: a run does not stop because its messages are lost.
    `lost` is then the error, and the exit code shows it in the end. A closed standard output raises
    BrokenPipeError, as in other programs; a closed standard error is ignored.
    """

    def __init__(self, stream: TextIO, *, stops: bool) -> None:
        self.lost: OSError | None = None
        self._stops = stops
        self._stream = stream  # the last one: `flush` asks for it

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a property in the base, too
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.trusted(escape(text))
        return len(text)

    def write_data(self, text: str) -> None:
        """Data for programs: as it is, unless a terminal shows it."""
        self.trusted(escape(text) if self.isatty() else text)

    def trusted(self, text: str) -> None:
        """Text whose control characters are ours."""
        self._attempt(self._stream.write, text)

    def write_bytes(self, data: bytes) -> None:
        """Bytes, whatever the encoding of the stream."""
        self.flush()
        self._attempt(getattr(self._stream, "buffer", self._stream).write, data)

    def flush(self) -> None:
        # Called for whatever is collected, also where an interrupt came before there was a stream.
        if "_stream" in vars(self):
            self._attempt(self._stream.flush)

    def _attempt(self, operation: Any, *arguments: Any) -> None:
        if self.lost is not None:
            return
        try:
            operation(*arguments)
        except BrokenPipeError as error:
            if self._stops:
                raise
            self.lost = error
        except OSError as error:
            self.lost = error


class TrustedWriter:
    """The file that Rich writes to: what it adds to escaped text is obeyed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.write = stream.trusted if isinstance(stream, TerminalStream) else stream.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def open_closed_streams() -> None:
    """Standard streams that were closed (`>&-`) lead nowhere.

    Else the next file that is opened, such as a shard, gets the number of a standard stream, and whatever
    prints there writes into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number: this one


def standard_output() -> TerminalStream:
    """Standard output for more than lines of text; outside of a command, a wrapper of what there is."""
    return sys.stdout if isinstance(sys.stdout, TerminalStream) else TerminalStream(sys.stdout, stops=True)


def guard_streams() -> None:
    """From now on everything that is printed is escaped."""
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  never closed
    sys.stdout = _guarded(sys.stdout, 1, stops=True)
    sys.stderr = _guarded(sys.stderr, 2, stops=False)


def _guarded(stream: TextIO | None, number: int, *, stops: bool) -> TerminalStream:
    opened = stream or open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  never closed
    if isinstance(opened, io.TextIOWrapper):
        opened.reconfigure(errors="backslashreplace")  # a narrow encoding must not end a run
    return TerminalStream(opened, stops=stops)
