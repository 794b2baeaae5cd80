"""The former name of `krill.dataset`, for code that imports it."""

from krill.dataset import *  # noqa: F403
from krill.dataset import __all__ as __all__
