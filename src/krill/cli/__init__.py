"""The command line: one file per verb, no logic.

In: what the user types. Out: a call into the rooms above, its result on screen or as JSON, and an exit code:
1 internal, 2 usage or config, 3 input, 4 budget, 5 storage or lock, 130 interrupt. Held in memory: nothing
of size; a verb imports its room when it is called, so that `krill --help` is instant.
"""

__all__ = ["main"]

INTERRUPT = 130


def main() -> None:
    """Load the verbs, run one, and exit with its code."""
    try:
        from krill.cli import app
    except KeyboardInterrupt:  # loading takes a moment, and Ctrl-C in it is no fault to be traced
        raise SystemExit(INTERRUPT) from None
    app.main()
