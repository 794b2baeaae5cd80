"""`StreamingSquadProcessor` where older scripts look for it."""

from krill.qa import StreamingSquadProcessor

__all__ = ["StreamingSquadProcessor"]
