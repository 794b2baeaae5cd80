"""The token runs of many units, read as one stream from any place.

A run is two raw little-endian files: ids in the dataset's token type, and the documents' lengths as uint32,
none of them zero.
Held in memory: 24 bytes for each unit, and what is being read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krill.storage.commits import damaged, reading_artifact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Lengths are read this many documents at a time.
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class TokenRuns:
    """The runs of all units in order: `path(unit, name)` finds the files `tokens` and `lengths`."""

    path: Callable[[int, str], Path]
    units: NDArray[np.uint64]
    tokens: NDArray[np.int64]
    documents: NDArray[np.int64]

    @property
    def total(self) -> int:
        """Tokens in all runs."""
        return int(self.tokens.sum())

    def file(self, run: int, name: str) -> Path:
        """A file of the run with this index."""
        return self.path(int(self.units[run]), name)

    def read_lengths(self, run: int, first: int, lengths: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Fill `lengths` with those of a run's documents from `first` on."""
        _fill(self.file(run, "lengths"), first, lengths)
        return lengths

    def tokens_before(self, run: int, document: int) -> int:
        """Tokens of a run's documents before this one."""
        import numpy as np

        lengths = np.empty(min(_CHUNK, document), np.uint32)
        tokens = 0
        for first in range(0, document, _CHUNK):
            chunk = self.read_lengths(run, first, lengths[: document - first])
            tokens += int(chunk.sum(dtype=np.int64))
        return tokens


class TokenStream:
    """Reads forward from token `start`; each `read` returns ids and where documents end among them."""

    def __init__(self, runs: TokenRuns, dtype: str, start: int = 0) -> None:
        import numpy as np

        self._runs = runs
        self._dtype = np.dtype(dtype)
        self._firsts = np.concatenate(([0], np.cumsum(runs.tokens)))
        self._at = start
        first_run = self._run_at(start) if start < runs.total else len(runs.units)
        self._ends = _DocumentEnds(runs, first_run, int(self._firsts[first_run]))
        self._ends.skip(start)

    def read(self, count: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The next `count` ids, and the offsets in (0, count] at which documents end."""
        import numpy as np

        ids = np.empty(count, self._dtype)
        filled = 0
        while filled < count:
            run = self._run_at(self._at + filled)
            inside = self._at + filled - int(self._firsts[run])
            take = min(count - filled, int(self._runs.tokens[run]) - inside)
            _fill(self._runs.file(run, "tokens"), inside, ids[filled : filled + take])
            filled += take
        ends = self._ends.until(self._at + count) - self._at
        self._at += count
        return ids, ends

    def _run_at(self, token: int) -> int:
        return int(self._firsts.searchsorted(token, side="right")) - 1


class _DocumentEnds:
    """Ends of documents in the whole stream, ascending, a chunk of lengths at a time."""

    def __init__(self, runs: TokenRuns, first_run: int, first_token: int) -> None:
        import numpy as np

        self._runs = runs
        self._run = first_run
        self._document = 0
        self._last_end = first_token
        self._ends: NDArray[np.int64] = np.empty(0, np.int64)

    def skip(self, token: int) -> None:
        """Forget the documents that end at or before `token`."""
        self.until(token)

    def until(self, token: int) -> NDArray[np.int64]:
        """The ends up to and including `token`, taken out."""
        import numpy as np

        taken = []
        while len(self._ends) or (self._last_end < token and self._load()):
            cut = int(self._ends.searchsorted(token, side="right"))
            taken.append(self._ends[:cut])
            self._ends = self._ends[cut:]
            if len(self._ends):
                break
        return np.concatenate(taken) if taken else np.empty(0, np.int64)

    def _load(self) -> bool:
        """The next chunk of lengths; False at the end of the stream."""
        import numpy as np

        while self._run < len(self._runs.units) and self._document == int(self._runs.documents[self._run]):
            self._run += 1
            self._document = 0
        if self._run == len(self._runs.units):
            return False
        count = min(_CHUNK, int(self._runs.documents[self._run]) - self._document)
        lengths = self._runs.read_lengths(self._run, self._document, np.empty(count, np.uint32))
        self._document += count
        self._ends = self._last_end + np.cumsum(lengths, dtype=np.int64)
        self._last_end = int(self._ends[-1])
        return True


def _fill(path: Path, first: int, values: NDArray[Any]) -> None:
    """Read an array out of a raw file, from its value number `first` on."""
    with reading_artifact(path), path.open("rb", buffering=0) as file:
        file.seek(first * values.itemsize)
        if file.readinto(values.data.cast("B")) != values.nbytes:
            raise damaged(path, "is shorter than its record says")
