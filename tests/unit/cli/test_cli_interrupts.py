"""When an interrupt ends a command, and when it waits. Each verb here is one that the test adds."""

from __future__ import annotations

import sys

import pytest

from measured import Outcome, run_measured

# Whoever runs the tests in the background ignores Ctrl-C, and so would what they start.
BEGIN = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from krill.cli.commands import app
@app.command
"""
END = """
import sys
from krill.cli import main
sys.argv = ["krill", "verb"]
main()
"""


@pytest.fixture
def run(tmp_path):
    """`krill verb`, as a process of its own that defines the verb in these lines."""

    def start(verb: str) -> Outcome:
        program = f"{BEGIN}{verb}\n{END}"
        return run_measured([sys.executable, "-c", program], cwd=tmp_path, timeout=60)

    return start


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_import_is_ended_first(run, tmp_path, name):
    # As in some libraries' own code, an exception raised here would be printed and lost, or worse.
    (tmp_path / "library.py").write_text(f"""
import signal
class Part:
    def __del__(self):
        signal.raise_signal(signal.{name})
Part()
print("loaded")
""")
    outcome = run("def verb():\n    import library\n    time.sleep(40)")
    assert (outcome.code, outcome.out) == (130, "loaded\n"), outcome.err
    assert outcome.err.splitlines() == [
        "error: interrupted: what was done is kept",
        "hint: run the same command to continue",
    ]


def test_a_closed_terminal_is_an_interrupt_and_nothing_under_nohup(run):
    verb = "def verb():\n    signal.raise_signal(signal.SIGHUP)\n    print('went on')"
    assert run(verb).code == 130
    ignored = run(f"{verb}\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)")
    assert (ignored.code, ignored.out) == (0, "went on\n"), ignored.err


def test_an_interrupt_that_a_library_took_for_an_error_is_one(run):
    outcome = run("""def verb():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise ValueError("can't be built")""")
    assert outcome.code == 130
    assert outcome.err.startswith("error: interrupted: ")


def test_an_interrupt_that_a_callback_drops_comes_again(run):
    outcome = run("""def verb():
    class Part:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)
    Part()
    time.sleep(40)""")
    assert outcome.code == 130
    assert outcome.err.startswith("error: interrupted: "), outcome.err


def test_cleaning_up_is_interrupted_no_more(run):
    outcome = run("""def verb():
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        for _ in range(10):
            time.sleep(0.03)
            signal.raise_signal(signal.SIGINT)
        print("cleaned")""")
    assert (outcome.code, outcome.out) == (130, "cleaned\n"), outcome.err


def test_what_went_wrong_is_told_to_its_end(run):
    outcome = run("""def verb():
    import krill.cli.screen as screen
    tell = screen.print_error
    def interrupted(*words):
        signal.raise_signal(signal.SIGTERM)
        tell(*words)
    screen.print_error = interrupted
    from krill.errors import InputError
    raise InputError("this is the fact", hint="and this the remedy")""")
    assert (outcome.code, outcome.err) == (3, "error: this is the fact\nhint: and this the remedy\n")


def test_the_end_of_a_command_keeps_its_code(run):
    outcome = run("""def verb():
    import atexit
    atexit.register(signal.raise_signal, signal.SIGTERM)""")
    assert (outcome.code, outcome.err) == (0, "")
