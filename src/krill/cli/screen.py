"""What commands print: errors, notices, JSON, rows of facts. Each verb's own rows are in its file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from krill.budget.size import format_size
from krill.cli.formats import Row
from krill.cli.options import OutputOptions
from krill.cli.streams import TrustedWriter, standard_output
from krill.errors import escape, escape_json, readable

_LABEL_WIDTH = 14


class Screen(Console):
    """A console that shows control characters instead of obeying them, and whose reader may leave."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        stream = TrustedWriter(sys.stderr if stderr else sys.stdout)
        super().__init__(file=cast(IO[str], stream), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """All that is printed comes through here, before Rich adds its colours."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else escape(text), style, control)

    def render_str(self, text: str, **options: Any) -> Text:
        """Escaped first: Rich would leave some control characters out, and a name would be another."""
        return super().render_str(escape(text), **options)

    def on_broken_pipe(self) -> None:
        """Rich would end the process here, as if it had failed; called where the error was caught."""
        raise


def print_error(message: str, hint: str | None) -> None:
    _labelled("error: ", "bold red", message)
    if hint:
        _labelled("hint: ", "bold cyan", hint)


def print_notices(notices: Iterable[str]) -> None:
    for notice in notices:
        _labelled("notice: ", "bold yellow", notice)


def print_json(value: Mapping[str, Any]) -> None:
    import orjson

    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    # As bytes: JSON is UTF-8, whatever the terminal's encoding.
    standard_output().write_bytes(escape_json(text).encode())


def print_result(
    facts: Mapping[str, Any],
    display: OutputOptions,
    rows: Callable[[], Iterable[Row]],
    *,
    made: str = "",
    then: str | None = None,
) -> None:
    """The end of a command: as JSON, as rows for people, or nothing with --quiet.

    `made` says what a finished output has in common with the one that was asked for, `then` what to do next:
    after it comes the report of a run, which is what has both.
    """
    finished = facts.get("status") == "finished"
    if not finished:
        warn_over_budget(facts["budget"])
    if display.json:
        print_json(facts)
    elif not display.quiet:
        console = console_of()
        console.print()
        if finished:
            console.print(f"nothing to do: {facts['output']} is finished, made {made}\n")
        print_rows(rows())
        steps = [] if then is None else [then]
        if made and facts["output"] is not None:
            steps.append(f"krill report {shlex.quote(facts['output'])}")
        if steps:
            console.print("\nnext: " + "\n      ".join(steps))


def warn_over_budget(budget: Mapping[str, Any]) -> None:
    """Say that the promise was not kept, even when everything else is quiet."""
    if budget["measured_peak"] > budget["limit"]:
        peak, limit = format_size(budget["measured_peak"]), format_size(budget["limit"])
        print_notices(
            [f"the run held {peak}, over its budget of {limit}; its output is whole, its plan was wrong"]
        )


def console_of(*, stderr: bool = False) -> Console:
    """A console for plain lines: brackets and colons have no meaning in them."""
    return Screen(stderr=stderr, highlight=False, soft_wrap=True, markup=False, emoji=False)


def _labelled(label: str, style: str, message: str) -> None:
    console_of(stderr=True).print(Text(label, style) + plain(message))


def print_rows(rows: Iterable[Row]) -> None:
    console = console_of()
    for label, fact in rows:
        console.print(
            Text.assemble(plain(f"{readable(label):{_LABEL_WIDTH}} ", "bold"), plain(readable(fact)))
        )


def plain(text: str, style: str = "") -> Text:
    """Text with control characters escaped, as by `Screen.render_str`."""
    return Text(escape(text), style)
