"""What commands print: errors, notices, JSON, rows of facts. Each verb's own rows are in its file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from krill.budget.size import format_size
from krill.cli.options import OutputOptions
from krill.cli.streams import TrustedWriter, escape, escape_json, standard_output
from krill.errors import readable

_LABEL_WIDTH = 14

Row = tuple[str, str]


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


def print_result(facts: Mapping[str, Any], display: OutputOptions, print_lines: Callable[[], None]) -> None:
    """The end of a command: as JSON, by `print_lines` for people, or nothing with --quiet."""
    if facts.get("status") != "finished":
        warn_over_budget(facts["budget"])
    if display.json:
        print_json(facts)
    elif not display.quiet:
        print_lines()


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


def print_summary(rows: Iterable[Row], *, finished: str | None = None, then: str | None = None) -> None:
    """Facts about a run at its end; `finished` says why there was nothing to do, `then` what to do next."""
    console = console_of()
    console.print()
    if finished is not None:
        console.print(f"nothing to do: {finished}\n")
    print_rows(console, rows)
    if then is not None:
        console.print(f"\nnext: {then}")


def print_rows(console: Console, rows: Iterable[Row]) -> None:
    for label, fact in rows:
        console.print(plain(f"{readable(label):{_LABEL_WIDTH}} ", "bold") + plain(readable(fact)))


def plain(text: str, style: str = "") -> Text:
    """Text with control characters escaped, as by `Screen.render_str`."""
    return Text(escape(text), style)


def format_count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def format_memory(budget: Mapping[str, Any]) -> str:
    kept = "promise kept" if budget["measured_peak"] <= budget["limit"] else "OVER THE BUDGET"
    sizes = [format_size(budget[name]) for name in ("measured_peak", "predicted_peak", "limit")]
    return "{} peak measured, {} predicted, {} given: ".format(*sizes) + kept


def format_duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def format_rate(size: int, seconds: float) -> str:
    """A rate to follow a duration; empty where no time was measured."""
    return f", {format_size(int(size / seconds))}/s" if seconds else ""
