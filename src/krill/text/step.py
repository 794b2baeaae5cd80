"""What every step on text looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from krill.corpus.documents import Documents


class Step(Protocol):
    """One transformation of a batch of documents.

    A step holds its settings and nothing that changes, so that any thread may apply it to any batch in any
    order. Each row that it drops is counted in the result's `counts` under the reason's name, beside what
    was counted before.
    """

    def apply(self, documents: Documents) -> Documents:
        """The batch after this step."""
        ...
