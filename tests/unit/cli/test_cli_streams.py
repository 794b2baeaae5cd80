"""What is printed: escaped whatever it is, and outliving whoever reads it."""

from __future__ import annotations

import errno
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.cli import generate, screen
from krill.cli.streams import TerminalStream
from krill.errors import escape, escape_json

OBEYED = {
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
} - {"\n", "\t"}


class Terminal(io.StringIO):
    """A stream that says it is one, or not."""

    encoding = "utf-8"

    def __init__(self, *, shows: bool) -> None:
        super().__init__(newline="")
        self._shows = shows

    def isatty(self) -> bool:
        return self._shows


class Failing(io.StringIO):
    encoding = "utf-8"

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def write(self, text: str) -> int:
        raise self._error


@pytest.fixture
def printed(monkeypatch) -> Callable[..., Terminal]:
    """Standard output and error as commands have them, and what they are given."""

    def guard(*, shows: bool) -> Terminal:
        terminal = Terminal(shows=shows)
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, TerminalStream(terminal, stops=True))
        return terminal

    return guard


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left_and_nothing_else_changes(text: str) -> None:
    shown = escape(text)
    assert OBEYED.isdisjoint(shown.replace("\r\n", "\n"))
    shown.encode()  # no lone surrogate
    if OBEYED.isdisjoint(text):
        assert shown == text
    assert escape(shown) == shown


def test_an_escape_is_seen_as_python_writes_it() -> None:
    assert escape("a\x1b[31m\x9b\u202e\x7f\r\x00") == r"a\x1b[31m\x9b\u202e\x7f\r\x00"
    assert escape("one\ntwo\tthree\r\n") == "one\ntwo\tthree\r\n"


@given(st.text())
def test_escaped_json_is_the_same_value(text: str) -> None:
    encoded = escape_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(encoded) == {"text": text}
    assert OBEYED.isdisjoint(encoded)


def test_rich_shows_what_it_is_given_and_obeys_none_of_it(printed) -> None:
    terminal = printed(shows=False)
    evil = "\x1b]0;title\x07[red]x[/red]\x9b31m:smile:\r\u202e"
    screen.console_of().print(evil)
    screen.print_rows([(evil, evil)])
    screen.print_error(evil, evil)
    screen.print_notices([evil])
    shown = r"\x1b]0;title\x07[red]x[/red]\x9b31m:smile:\r\u202e"
    assert terminal.getvalue() == (
        f"{shown}\n{shown} {shown}\nerror: {shown}\nhint: {shown}\nnotice: {shown}\n"
    )


def test_on_a_terminal_only_our_own_colours_are_obeyed(printed, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = printed(shows=True)
    screen.print_error("a\x1b[5mb", None)
    assert terminal.getvalue() == "\x1b[1;31merror: a\\x1b[5mb\x1b[0m\n"


def test_only_the_labels_of_a_summary_are_bold(printed, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = printed(shows=True)
    screen.print_rows([("memory", "1 MB")])
    assert terminal.getvalue() == f"\x1b[1m{'memory':14} \x1b[0m1 MB\n"


def test_generated_text_is_data_in_a_pipe_and_shown_on_a_terminal(printed) -> None:
    token: Any = type("Token", (), {"shown": "line\n\x1b[31m"})
    for shows, expected in ((False, "line\n\x1b[31m"), (True, "line\n\\x1b[31m")):
        terminal = printed(shows=shows)
        generate._show_text(token)
        assert terminal.getvalue() == expected


def test_what_libraries_and_warnings_print_is_escaped_too(printed) -> None:
    terminal = printed(shows=True)
    print("warning: \x1b[2J")
    assert terminal.getvalue() == "warning: \\x1b[2J\n"


def test_a_full_device_is_remembered_and_a_reader_that_left_is_raised() -> None:
    full = TerminalStream(Failing(OSError(errno.ENOSPC, "No space left on device")), stops=True)
    assert full.write("text") == 4
    full.write("more")
    full.flush()
    assert full.lost is not None
    assert full.lost.errno == errno.ENOSPC
    with pytest.raises(BrokenPipeError):
        TerminalStream(Failing(BrokenPipeError()), stops=True).write("text")
    errors = TerminalStream(Failing(BrokenPipeError()), stops=False)
    assert errors.write("text") == 4
