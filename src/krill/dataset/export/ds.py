"""datatrove's format: `NAME.ds` with the tokens, `NAME.ds.index` with where documents end,
`NAME.ds.metadata`.

Comes in: tokens and where documents end. Goes out: the three files as datatrove's `DocumentTokenizer`
writes them: tokens as little-endian `uint16`, or `uint32` where the vocabulary needs it; for each document
the number of tokens up to its end, `uint64`; and three lines for people. Held in memory: a batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from krill.dataset.export.documents import EndedTokens
from krill.dataset.export.sink import ExportedFile
from krill.dataset.export.token_type import as_type
from krill.dataset.shard import HashingFile

TOKENS_SUFFIX: Final = ".ds"
INDEX_SUFFIX: Final = ".index"
METADATA_SUFFIX: Final = ".metadata"
END_DTYPE: Final = "<u8"

_THOUSANDS: Final = ("", "k", "M", "G", "T", "P", "E")


class DsSink:
    """The files of one split; `tokenizer` is what the metadata call it."""

    def __init__(self, folder: Path, name: str, dtype: str, tokenizer: str) -> None:
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._tokenizer = tokenizer
        self._metadata_path = folder / f"{name}{TOKENS_SUFFIX}{METADATA_SUFFIX}"
        self._documents = 0
        self._tokens = 0
        self._ended = 0
        self._file = HashingFile(folder / f"{name}{TOKENS_SUFFIX}")
        try:
            self._index = HashingFile(folder / f"{name}{TOKENS_SUFFIX}{INDEX_SUFFIX}")
        except BaseException:
            self._file.abort()
            raise

    def prepare(self, item: EndedTokens) -> EndedTokens:
        """Tokens of the file's type."""
        return EndedTokens(as_type(item.tokens, self._dtype), item.ends)

    def write(self, prepared: EndedTokens) -> None:
        self._file.write(prepared.tokens)
        self._add_ends(prepared.ends + self._tokens)
        self._tokens += len(prepared.tokens)

    def commit(self) -> list[ExportedFile]:
        """Packing may have cut the last document: it ends where the tokens end."""
        if self._ended < self._tokens:
            self._add_ends(np.array([self._tokens], np.int64))
        metadata = HashingFile(self._metadata_path)
        try:
            metadata.write(metadata_of(self._tokenizer, self._tokens, self._dtype.itemsize).encode())
        except BaseException:
            metadata.abort()
            raise
        counts = {"documents": self._documents, "tokens": self._tokens}
        files = [ExportedFile.of(self._file, counts)]
        return [*files, ExportedFile.of(self._index, {}), ExportedFile.of(metadata, {})]

    def abort(self) -> None:
        self._file.abort()
        self._index.abort()

    def _add_ends(self, ends: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        if len(ends):
            self._index.write(ends.astype(END_DTYPE).data)
            self._documents += len(ends)
            self._ended = int(ends[-1])


def metadata_of(tokenizer: str, tokens: int, token_bytes: int) -> str:
    """The lines of a `.metadata` file: tokenizer and bytes of a token, how many tokens, and for people."""
    return f"{tokenizer}|{token_bytes}\n{tokens}\n{told_tokens(tokens)}"


def told_tokens(tokens: int) -> str:
    """A number of tokens to three digits, with a prefix for thousands: `1.23 MT`."""
    digits = len(str(tokens)) - 1
    power = min(digits // 3, len(_THOUSANDS) - 1)
    decimals = max(0, 2 - (digits - 3 * power))
    return f"{tokens / 1000**power:.{decimals}f} {_THOUSANDS[power]}T"
