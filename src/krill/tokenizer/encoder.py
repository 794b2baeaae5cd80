"""The interface of every tokenizer, and errors about one document.

In: columns of text. Out: ids, or an error that knows the row of a batch; the reader of the batch adds to it
the file and the position in it. Nothing is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from krill.corpus.documents import file_and_offset
from krill.corpus.formats import Format
from krill.errors import BudgetError, InputError, KrillError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from krill.corpus.formats import CorpusFile

_BY_ROWS: Final = (Format.PARQUET, Format.ARROW, Format.HUB)


class Encoder(Protocol):
    """Encodes batches of documents, on any number of threads at once.

    Ids equal Hugging Face's `encode(text, add_special_tokens=True)` without truncation or padding, followed
    by EOS where the tokenizer has one.
    """

    name: str
    vocab_size: int
    eos_id: int | None

    def encode(self, text: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """All ids of a `large_string` column one after the other, and how many each document has."""
        ...

    def decode(self, ids: NDArray[Any]) -> str:
        """The text of some ids, special tokens included."""
        ...

    def describe(self) -> dict[str, Any]:
        """What `krill-run.json` says of this tokenizer; `fingerprint` is of its content."""
        ...

    def release(self) -> None:
        """Give back what encoding left in memory to go on faster: a cache of words."""
        ...


class FileEncoder(Encoder, Protocol):
    """An encoder of a `tokenizer.json`, native or by Hugging Face's library."""

    eos_token: str | None
    why: str | None
    """Why the native core doesn't encode; None if it does."""

    def encode(self, text: pa.Array, *, eos: bool = True) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """As `Encoder.encode`, on request without EOS."""
        ...

    def encode_texts(
        self, texts: tuple[str, ...], begin: int, end: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """The same for texts [begin, end), without EOS; `UnicodeEncodeError` for a lone surrogate."""
        ...

    def encode_offsets(self, text: str) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """The ids of one text and where each stands, in characters."""
        ...

    def decode(self, ids: NDArray[Any], *, skip_special_tokens: bool = False) -> str:
        """The text of some ids; a character that is cut in two shows as U+FFFD."""
        ...

    def statistics(self) -> dict[str, float]:
        """How the cache of words did so far; empty where there is none."""
        ...


def describe_file(encoder: FileEncoder, fingerprint: str) -> dict[str, Any]:
    """What encoders of a file have in common in `Encoder.describe`."""
    return {
        "name": encoder.name,
        "vocab_size": encoder.vocab_size,
        "eos_id": encoder.eos_id,
        "eos_token": encoder.eos_token,
        "fingerprint": fingerprint,
    }


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


def gave_up(who: str, patterns: Sequence[str], said: str, row: int) -> DocumentError:
    """For a document that `who` can't encode, perhaps because of one of the tokenizer's patterns."""
    about = f" (its pattern is `{patterns[0]}`)" if patterns else ""
    return DocumentError(
        f"{who} gave up on it{about}: {said}",
        hint="take the document out, or mend the pattern in the tokenizer's pre_tokenizer: one that can match"
        " the same text in many ways takes too long",
        row=row,
    )


def regexes_of(section: Any) -> list[str]:
    """The patterns that text is split by, in whatever the section nests."""
    if isinstance(section, dict):
        pattern = section.get("pattern")
        own = (
            [pattern["Regex"]] if isinstance(pattern, dict) and isinstance(pattern.get("Regex"), str) else []
        )
        return own + regexes_of(section.get("pretokenizers"))
    return [found for step in section for found in regexes_of(step)] if isinstance(section, list) else []


def outside_vocabulary(tokenizer: str, number: int, vocab_size: int) -> InputError:
    """For an id that a post-processor adds: in the vocabulary's type it would become another number."""
    return InputError(
        f"the tokenizer `{tokenizer}` gives the id `{number}`, and its vocabulary has {vocab_size:,} ids",
        hint="mend the ids in its post_processor, or add the token to its vocabulary",
    )


@contextmanager
def naming_document(
    files: Sequence[CorpusFile], positions: Any, file: CorpusFile | None = None
) -> Iterator[None]:
    """Adds to an encoder's error in the body where the document stands; `positions` are those of its batch,
    of which all rows may be of one `file`."""
    try:
        yield
    except (DocumentError, DocumentTooLarge) as error:
        position = positions[error.row]
        ordinal, offset = file_and_offset(int(position.as_py() if hasattr(position, "as_py") else position))
        of = file or files[ordinal]
        unit = "row" if of.format in _BY_ROWS else "byte"
        raise error.at(f"`{of.path}`, the document at {unit} {offset:,}") from None
