"""How many examples a property is tried on.

A test names as many as `make test` has time for, the same in each run. `KRILL_EXAMPLES=20` (`make soak`)
tries twenty times as many, and others each time.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

TIMES = int(os.environ.get("KRILL_EXAMPLES", "1"))


def tried(count: int, **options: Any) -> settings:
    """`@tried(50)`: a property that is tried on fifty examples."""
    return settings(max_examples=count * TIMES, **options)


def load_profile() -> None:
    """The machines are shared and noisy, so no deadlines; and a change is judged by its own tests, not by new
    luck, which belongs into `make fuzz` and `make soak`."""
    settings.register_profile("krill", max_examples=100 * TIMES, deadline=None, derandomize=TIMES == 1)
    settings.load_profile("krill")
