"""`MemoryEfficientBPE` where older scripts look for it. It reads in fixed buffers; nothing is mapped."""

from krill.compat.bpe import MemoryEfficientBPE

__all__ = ["MemoryEfficientBPE"]
