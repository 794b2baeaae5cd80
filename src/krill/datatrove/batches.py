"""datatrove's documents in batches as Krill's steps take them.

In: `Document`s one after the other. Out: lists of them, bounded in bytes, and their texts as an Arrow
column. Held in memory: one list, and its texts once more as UTF-8.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from datatrove.data import Document

from krill.corpus.arrays import as_arrow
from krill.errors import InputError
from krill.text.clean import valid_text

BATCH_BYTES: Final = 4_000_000
"""Of texts, as Python holds them: some thousand documents, so that what a batch costs is lost in them."""


def in_batches(documents: Iterable[Document] | None, most_bytes: int) -> Iterator[list[Document]]:
    """The documents in lists of at least one, that end with the document which reaches `most_bytes`.

    A first step of a pipeline is given None. Whether there are some can't be asked of every iterable, such
    as an array.
    """
    gathered: list[Document] = []
    size = 0
    for document in () if documents is None else documents:
        gathered.append(document)
        size += sys.getsizeof(document.text)
        if size >= most_bytes:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered


def as_batch(documents: Sequence[Document]) -> pa.RecordBatch:
    """`text` and `position`, which is a document's place in the list. A lone surrogate, which UTF-8 can't
    hold, stands in the text as bytes that are not UTF-8, for cleaning to remove."""
    positions = as_arrow(np.arange(len(documents), dtype=np.uint64))
    return pa.RecordBatch.from_arrays([_texts(documents), positions], ["text", "position"])


def as_valid_batch(documents: Sequence[Document]) -> pa.RecordBatch:
    """The same, without what is not UTF-8."""
    return valid_text(as_batch(documents))


def metadata_column(documents: Sequence[Document], name: str) -> pa.Array:
    """What documents have under a key of their metadata; null where that is no text."""
    values = (document.metadata.get(name) for document in documents)
    texts = [value if isinstance(value, str) else None for value in values]
    encoded = [None if text is None else text.encode("utf-8", "ignore") for text in texts]
    return pa.array(encoded, pa.large_binary()).view(pa.large_string())


def _texts(documents: Sequence[Document]) -> pa.Array:
    texts = [document.text for document in documents]
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        encoded = [None if text is None else text.encode("utf-8", "surrogatepass") for text in texts]
        return pa.array(encoded, pa.large_binary()).view(pa.large_string())
    except pa.ArrowException:
        wrong = next(document for document in documents if not isinstance(document.text, str | None))
        raise InputError(
            f"the text of document `{wrong.id}` is of the type `{type(wrong.text).__name__}`",
            hint="check the reader's text_key",
        ) from None
