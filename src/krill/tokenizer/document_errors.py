"""What a tokenizer can't do with one document, and which document that is.

In: an encoder's error, which knows the row of a batch. Out: the same with the file and the place in it, from
whoever has read the batch. Nothing is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from krill.corpus.documents import file_and_offset
from krill.corpus.formats import Format
from krill.errors import BudgetError, InputError, KrillError

if TYPE_CHECKING:
    from krill.corpus.formats import CorpusFile

_BY_ROWS: Final = (Format.PARQUET, Format.ARROW, Format.HUB)


class _OfDocument(KrillError):
    """An error that knows of which row of a batch it is."""

    def __init__(self, message: str, *, hint: str, row: int) -> None:
        super().__init__(message, hint=hint)
        self.row = row

    def at(self, place: str) -> Self:
        """The same with the place of its document before it."""
        return type(self)(f"{place}: {self.message}", hint=self.hint or "", row=self.row)


class DocumentError(_OfDocument, InputError):
    """A document that the tokenizer can't encode."""


class DocumentTooLarge(_OfDocument, BudgetError):
    """A document that takes more memory to encode than there is."""


def outside_vocabulary(tokenizer: str, number: int, vocab_size: int) -> InputError:
    """Of an id that a post-processor adds: what holds the vocabulary would hold another number instead."""
    return InputError(
        f"the tokenizer `{tokenizer}` gives the id `{number}`, and its vocabulary has {vocab_size:,} ids",
        hint="mend the ids in its post_processor, or add the token to its vocabulary",
    )


@contextmanager
def naming_document(
    files: Sequence[CorpusFile], positions: Any, file: CorpusFile | None = None
) -> Iterator[None]:
    """Errors of an encoder in the body say where the document stands that they are about; `positions` are
    those of its batch, of which all rows may be of one `file`."""
    try:
        yield
    except (DocumentError, DocumentTooLarge) as error:
        position = positions[error.row]
        ordinal, offset = file_and_offset(int(position.as_py() if hasattr(position, "as_py") else position))
        raise error.at(_place(file or files[ordinal], offset)) from None


def _place(file: CorpusFile, offset: int) -> str:
    unit = f"row {offset:,}" if file.format in _BY_ROWS else f"byte {offset:,}"
    return f"`{file.path}`, the document at {unit}"
