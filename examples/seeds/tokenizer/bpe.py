"""`BPE` where older scripts look for it. There is one trainer, and it is bounded."""

from krill.compat.bpe import BPE

__all__ = ["BPE"]
