"""Programs compile in a third of the time without LLVM's passes; what they compute and hold is alike."""

from __future__ import annotations

import os

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
