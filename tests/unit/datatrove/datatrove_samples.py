"""What the tests of the datatrove room share: documents, and what a step makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from datatrove.data import Document

from real_text import real_texts


def some_documents(count: int, step: int = 1) -> list[Document]:
    """Real documents, numbered."""
    texts = islice(real_texts(), 0, count * step, step)
    return [Document(text=text, id=str(number)) for number, text in enumerate(texts)]


def documents_of(texts: Iterable[str]) -> list[Document]:
    return [Document(text=text, id=str(number)) for number, text in enumerate(texts)]


def totals(step: Any) -> dict[str, int]:
    """What a step has counted, as datatrove's summary tells it."""
    return {name: stat.total for name, stat in step.stats.stats.items()}


class Collected:
    """A writer of datatrove's, as far as a filter uses it."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str | None, int]] = []
        self.closed = False

    def __enter__(self) -> Collected:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def write(self, document: Document, rank: int) -> None:
        self.written.append((document.id, document.metadata.get("filter_reason"), rank))
