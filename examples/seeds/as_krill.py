"""A script of an older name, run as a command of Krill: the same flags, and the script's own defaults."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from krill.cli import main


def run(*verb: str, defaults: Mapping[str, str]) -> None:
    """`krill VERB` with what was typed, and with the defaults of flags that were not."""
    typed = sys.argv[1:]
    given = {word.split("=")[0] for word in typed}
    missing = [word for flag, value in defaults.items() if flag not in given for word in (flag, value)]
    sys.argv[1:] = [*verb, *typed, *missing]
    main()
