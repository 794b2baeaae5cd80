"""The command line: one file per verb, no logic.

In: what the user types. Out: a call into the rooms above, its result on screen or as JSON, and an exit code:
1 internal, 2 usage or config, 3 input, 4 budget, 5 storage or lock, 130 interrupt. Held in memory: nothing
of size; a verb imports its room when it is called, so that `krill --help` is instant.
"""

from krill.cli.app import main

__all__ = ["main"]
