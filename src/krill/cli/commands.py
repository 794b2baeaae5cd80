"""The command line as Cyclopts parses it: which command is which function, and errors of what was typed.

A verb's module is imported when the verb is called, or its help is shown.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from krill import __version__
from krill.cli.options import check_number
from krill.cli.overview import COMMANDS, INTRODUCTION, QA, TOKENIZER
from krill.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

app = App(
    name="krill",
    help=INTRODUCTION,
    version=__version__,
    version_flags=["--version", "-V"],
    help_format="markdown",
    result_action="return_value",
    # The last of repeated flags counts, as a script that adds its own to a user's expects.
    default_parameter=Parameter(validator=check_number, allow_repeating=True),
    suppress_keyboard_interrupt=False,  # `krill.cli.app` says what is kept and how to go on
)
tokenizer = App(name="tokenizer", help=COMMANDS[TOKENIZER].summary)
qa = App(name="qa", help=COMMANDS[QA].summary)
for verb in ("train", "encode", "decode", "compare"):
    tokenizer.command(f"krill.cli.tokenizer_{verb}:{verb}")
for verb in ("prepare", "train", "evaluate"):
    qa.command(f"krill.cli.qa_{verb}:{verb}")
for name, command in COMMANDS.items():
    if command.function is not None:
        app.command(f"krill.cli.{command.function}", name=[name, *command.other_names])
app.command(tokenizer)
app.command(qa)


class _HelpConsole:
    """The console of `--help`, loaded when it is needed: Rich takes a moment, and most commands have none."""

    def __getattr__(self, name: str) -> Any:
        from krill.cli.screen import Screen

        return getattr(Screen(), name)


def call() -> None:
    """Run what was typed."""
    for group in (tokenizer, qa):
        if sys.argv[1:2] == list(group.name):
            group.resolved_commands()  # else its page would not say what they do
    try:
        app(
            console=cast("Console", _HelpConsole()),
            exit_on_error=False,
            print_error=False,
            help_on_error=False,
        )
    except CycloptsError as error:
        raise _usage_error(error) from None


def _usage_error(error: CycloptsError) -> ConfigError:
    """A command line that can't be parsed: the fact, and where to look."""
    if isinstance(error, UnusedCliTokensError):
        fact = f"the command takes no more arguments: `{' '.join(error.unused_tokens or [])}`"
    else:
        fact = str(error).strip().rstrip(".").replace('"', "`") or "the command can't be understood"
        fact = fact[0].lower() + fact[1:]
    verb = " ".join(error.command_chain or [])
    command, what = (f"krill {verb} --help", "options") if verb else ("krill --help", "commands")
    return ConfigError(fact, hint=f"`{command}` lists the {what}")
