"""A command as it looks on a terminal: run under a pseudo-terminal, drawn by Rich as SVG.

In: a command. Out: what it left on the screen, with progress bars in their final state. Held in memory: all
that it wrote.
"""

from __future__ import annotations

import os
import pty
import struct
from collections.abc import Sequence
from fcntl import ioctl
from io import StringIO
from itertools import groupby
from pathlib import Path
from subprocess import Popen
from termios import TIOCSWINSZ

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COLUMNS, LINES = 96, 60
# Rich's own form, without the fonts that it would fetch.
_FORM = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>krill preprocess on a terminal: progress of each stage, then the summary</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
 font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour)
    return red, green, blue


_THEME = TerminalTheme(
    _rgb("161b22"),
    _rgb("e6edf3"),
    [
        _rgb(colour)
        for colour in ["484f58", "ff7b72", "3fb950", "d29922", "58a6ff", "bc8cff", "39c5cf", "b1bac4"]
    ],
    [
        _rgb(colour)
        for colour in ["6e7681", "ffa198", "56d364", "e3b341", "79c0ff", "d2a8ff", "56d4dd", "ffffff"]
    ],
)


def run(command: Sequence[str], folder: Path) -> str:
    """What the command writes to a terminal; an error if it fails."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    process = Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    written = bytearray()
    while True:
        try:
            some = os.read(ours, 1 << 16)
        except OSError:  # Linux says so when the last writer has closed
            break
        if not some:
            break
        written += some
    os.close(ours)
    if process.wait():
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{written.decode()}")
    return written.decode()


def draw(prompt: str, written: str) -> str:
    """The screen at the end, below the line that was typed."""
    screen = pyte.Screen(COLUMNS, LINES)
    pyte.Stream(screen).feed(f"$ {prompt}\r\n{written}")
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    lines = [_line(screen.buffer[number]) for number in range(LINES)]
    while not lines[-1].plain.strip():
        lines.pop()
    for line in lines:
        console.print(line, no_wrap=True, crop=True)
    drawn = console.export_svg(title="", theme=_THEME, code_format=_FORM, unique_id="krill")
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def _line(characters: dict[int, pyte.screens.Char]) -> Text:
    line = Text()
    whole = [characters[column] for column in range(COLUMNS)]
    for (colour, bold), run_of in groupby(whole, key=lambda character: (character.fg, character.bold)):
        line.append("".join(character.data for character in run_of), Style(color=_colour(colour), bold=bold))
    line.rstrip()
    return line


def _colour(name: str) -> str | None:
    """A colour as Rich calls it: six digits are one that pyte knows by no name."""
    if name == "default":
        return None
    if len(name) == 6 and set(name) <= set("0123456789abcdef"):
        return f"#{name}"
    return name.replace("brown", "yellow").replace("bright", "bright_")
