"""Counting: every source to one inventory of words and how often each occurs.

In: a corpus. Out: a file of words with their counts, in no particular order, and their totals. Held in
memory: the blocks in flight, and the native counter within its cap; what goes over it is spilled in sorted
segments and merged at the end, so the counts are exact whatever the cap.

Words are counted in any order, so threads take any block. Now and then, when no thread is at work, all that
was counted is spilled and the units that it stands for are recorded: a killed run goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from krill.corpus import Corpus, UnitEnd
from krill.corpus.documents import position_of
from krill.corpus.formats import CorpusFile, Format
from krill.errors import StorageError
from krill.storage.atomic import storage_errors, write_bytes
from krill.storage.input_file import MOST_MANIFEST, read_json
from krill.threads import Throttle, ordered_map
from krill.threads.progress import Progress
from krill.tokenizer.block_counter import BlockCounter, boundaries_of, cuts_of, damaged_spill
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.pieces import BytesPiece, DocumentsPiece, Piece, streamed_pieces, text_pieces
from krill.tokenizer.plain_text import Cuts, bounds

BLOCK_BYTES: Final = 1 << 20
UNIT_BYTES: Final = 32 * 10**6
CHECKPOINT_SECONDS: Final = 20.0
STATE: Final = "counted.json"
SPILL: Final = "spilled"
INVENTORY: Final = "inventory"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The words of a corpus, in a file, and their totals."""

    path: Path
    words: int
    """Different ones."""
    occurrences: int
    word_bytes: int
    """Of the different ones."""
    byte_counts: tuple[int, ...]
    """How often each byte occurs in the corpus."""
    spilled_bytes: int

    def to_json(self) -> dict[str, Any]:
        return {
            "words": self.words,
            "occurrences": self.occurrences,
            "word_bytes": self.word_bytes,
            "byte_counts": list(self.byte_counts),
            "spilled_bytes": self.spilled_bytes,
        }


@dataclass(frozen=True, slots=True)
class Counting:
    """How one corpus is counted."""

    corpus: Corpus
    options: TrainOptions
    folder: Path
    cap_bytes: int
    in_flight: int
    threads: int
    longest_piece: int
    progress: Progress
    throttle: Throttle | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    unit_bytes: int = UNIT_BYTES
    block_bytes: int = BLOCK_BYTES

    def boundaries(self) -> tuple[bytes, ...]:
        """What is cut out of the text."""
        return boundaries_of(self.options, self.corpus.files)


def count(counting: Counting) -> Inventory:
    """Count everything that an earlier run of the same has not counted yet."""
    with storage_errors(counting.folder):
        counting.folder.mkdir(parents=True, exist_ok=True)
    finished = finished_inventory(counting.folder, counting.progress)
    if finished is not None:
        return finished
    work = _Work(
        counting,
        _load_state(counting.folder) or {"units": {}, "segments": [], "spill_size": 0, "bytes": 0},
    )
    counting.progress.advance(work.bytes)
    work.run()
    return work.finish()


def finished_inventory(folder: Path, progress: Progress) -> Inventory | None:
    """The inventory of an earlier run that had counted everything, whole; None if there is none."""
    state = _load_state(folder)
    if state is None or "inventory" not in state:
        return None
    path = folder / INVENTORY
    if not path.is_file() or path.stat().st_size != state["size"]:
        raise _damaged(path)
    progress.advance(state["bytes"])
    found = state["inventory"]
    return Inventory(path, **{**found, "byte_counts": tuple(found["byte_counts"])})


def save_finished(folder: Path, inventory: Inventory, counted_bytes: int) -> None:
    """Everything is counted: the inventory takes the place of whatever was kept before."""
    with storage_errors(inventory.path):
        size = inventory.path.stat().st_size
    _save_state(folder, {"inventory": inventory.to_json(), "size": size, "bytes": counted_bytes})
    with storage_errors(inventory.path):
        (folder / SPILL).unlink(missing_ok=True)


def forget(folder: Path) -> None:
    """Make nothing of what was counted: a later run is not to go on with it."""
    with storage_errors(folder):
        (folder / STATE).unlink(missing_ok=True)


class _Work:
    """The counter, and which units it has seen."""

    def __init__(self, counting: Counting, state: dict[str, Any]) -> None:
        self.counting = counting
        self.units: dict[str, Any] = state["units"]
        self.bytes: int = state["bytes"]
        self._last = time.monotonic()
        self._counter = BlockCounter(
            counting.options,
            counting.boundaries(),
            cap_bytes=counting.cap_bytes,
            threads=counting.threads,
            spill=counting.folder / SPILL,
            segments=np.array(state["segments"], np.uint64).reshape(-1, 3),
            spill_size=state["spill_size"],
        )

    def run(self) -> None:
        """Count span after span; between two of them no thread is at work."""
        units = self._units()
        exhausted = False
        while not exhausted:
            span = _Span(units, self._due)
            with storage_errors(self.counting.folder / SPILL):
                results = ordered_map(
                    self._counter.add,
                    span,
                    threads=self.counting.threads,
                    bytes_in_flight=self.counting.in_flight,
                    size=lambda block: block.held,
                    throttle=self.counting.throttle,
                )
                for size in results:
                    self.bytes += size
                    self.counting.progress.advance(size)
            exhausted = span.exhausted
            self.units.update(span.ended())
            if not exhausted:
                self._checkpoint()

    def finish(self) -> Inventory:
        """Merge what was counted into the inventory, which takes the place of everything spilled."""
        path = self.counting.folder / INVENTORY
        with storage_errors(path), damaged_spill(self.counting.folder):
            spilled = self._counter.words.spilled_bytes
            words, occurrences, word_bytes, byte_counts = self._counter.words.write_counts(str(path))
        inventory = Inventory(path, words, occurrences, word_bytes, tuple(byte_counts.tolist()), spilled)
        del self._counter
        save_finished(self.counting.folder, inventory, self.bytes)
        return inventory

    def _due(self) -> bool:
        return time.monotonic() - self._last >= self.counting.checkpoint_seconds

    def _checkpoint(self) -> None:
        with storage_errors(self.counting.folder / SPILL):
            segments = self._counter.words.checkpoint()
        _save_state(
            self.counting.folder,
            {
                "units": self.units,
                "segments": segments.tolist(),
                "spill_size": self._counter.words.spilled_bytes,
                "bytes": self.bytes,
            },
        )
        self._last = time.monotonic()

    # ---- the units: their names, their blocks, and what to remember of them

    def _units(self) -> Iterator[_Unit]:
        """All that are not counted yet."""
        text = [file for file in self.counting.corpus.files if file.format is Format.TEXT]
        cuts = cuts_of(self.counting.options, self.counting.boundaries(), self.counting.longest_piece)
        for file in text:
            yield from self._streamed_text(file, cuts) if file.sequential else self._local_text(file, cuts)
        yield from self._documents()

    def _local_text(self, file: CorpusFile, cuts: Cuts) -> Iterator[_Unit]:
        first, last = bounds(file)
        for start in range(first, last, self.counting.unit_bytes):
            name = f"text {position_of(file.ordinal, start)}"
            if name in self.units:
                continue
            end = min(last, start + self.counting.unit_bytes)
            yield _Unit(name, text_pieces(file, start, end, cuts, self.counting.block_bytes))

    def _streamed_text(self, file: CorpusFile, cuts: Cuts) -> Iterator[_Unit]:
        start = file.start
        while (done := self.units.get(f"stream {position_of(file.ordinal, start)}")) is not None:
            start = done["end"]
        pieces = streamed_pieces(file, cuts, self.counting.block_bytes, start)
        while (first := next(pieces, None)) is not None:
            name = f"stream {position_of(file.ordinal, first.end - first.size)}"
            yield _Unit(name, _until_full(first, pieces, self.counting.unit_bytes))

    def _documents(self) -> Iterator[_Unit]:
        corpus = self.counting.corpus.only(lambda file: file.format is not Format.TEXT)

        def committed(position: int) -> UnitEnd | None:
            end = self.units.get(f"documents {position}")
            return None if end is None else UnitEnd.from_json(end)

        for unit, blocks in corpus.walk(committed):
            yield _Unit(f"documents {unit.position}", (DocumentsPiece(block) for block in blocks))


@dataclass(slots=True)
class _Unit:
    """A piece of the input that is recorded as a whole, and its blocks."""

    name: str
    blocks: Iterator[Piece]
    end: dict[str, Any] = field(default_factory=dict)


class _Span:
    """The blocks of as many units as are counted between two checkpoints."""

    def __init__(self, units: Iterator[_Unit], due: Callable[[], bool]) -> None:
        self._units = units
        self._due = due
        self._ended: list[_Unit] = []
        self.exhausted = False

    def __iter__(self) -> Iterator[Piece]:
        for unit in self._units:
            for block in unit.blocks:
                unit.end = block.unit_end()
                yield block
            self._ended.append(unit)
            if self._due():
                return
        self.exhausted = True

    def ended(self) -> dict[str, Any]:
        """What to remember of the units that are done."""
        return {unit.name: unit.end for unit in self._ended}


def _until_full(first: BytesPiece, rest: Iterator[BytesPiece], unit_bytes: int) -> Iterator[BytesPiece]:
    """A unit of streamed text: the first piece and those that follow, up to the size of a unit."""
    yield first
    size = first.size
    while size < unit_bytes and (piece := next(rest, None)) is not None:
        yield piece
        size += piece.size


# What the state holds: while counting goes on, and when it is finished.
_STATES: Final = ({"units", "segments", "spill_size", "bytes"}, {"inventory", "size", "bytes"})


def _load_state(folder: Path) -> dict[str, Any] | None:
    path = folder / STATE
    try:
        state = read_json(path, MOST_MANIFEST)
    except OSError:
        return None
    except ValueError:
        state = None
    if not isinstance(state, dict) or state.keys() not in _STATES:
        raise _damaged(path)
    return state


def _damaged(path: Path) -> StorageError:
    return StorageError(f"`{path}` is damaged", hint="start anew with --overwrite")


def _save_state(folder: Path, state: dict[str, Any]) -> None:
    write_bytes(folder / STATE, orjson.dumps(state))
