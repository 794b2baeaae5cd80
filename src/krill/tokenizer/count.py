"""Counting: every source to one file of words and how often each occurs.

In: a corpus. Out: a file of words with their counts, in no particular order, and their totals. Held in
memory: the blocks in flight, and the native counter within its cap; what exceeds it is spilled in sorted
segments and merged at the end, so the counts are exact whatever the cap.

Words are counted in any order, so threads take any block. Every `checkpoint_seconds`, while no thread is at
work, all counts are spilled and the units that they stand for are recorded: a killed run goes on from there.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import orjson

from krill.budget import resident_bytes
from krill.budget.process import metered_process
from krill.corpus import Corpus, CorpusFile, DatasetSource, UnitEnd, open_corpus
from krill.corpus.documents import position_of
from krill.corpus.formats import Format
from krill.corpus.opening import Openers
from krill.corpus.readers import Limits
from krill.errors import StorageError
from krill.storage.atomic import make_folder, storage_errors, write_bytes
from krill.storage.input_file import MOST_MANIFEST, read_json
from krill.threads import Throttle, ordered_map
from krill.threads.progress import Progress, Silent
from krill.tokenizer.needs import MAX_DOCUMENT_BYTES, TEXT, WORDS, counting_needs
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.text_blocks import (
    InputBlock,
    SplitPoints,
    bounds,
    document_block,
    file_blocks,
    stream_blocks,
)
from krill.tokenizer.word_counter import BlockCounter, boundary_tokens, damaged_spill, split_points

BLOCK_BYTES: Final = 1 << 20
UNIT_BYTES: Final = 32 * 10**6
CHECKPOINT_SECONDS: Final = 20.0
STATE: Final = "counted.json"
SPILL: Final = "spilled"
WORD_COUNTS: Final = "word-counts"


def open_sources(
    sources: Sequence[DatasetSource], options: TrainOptions, output: Path | None, *, verify: bool = True
) -> Corpus:
    """All files of the sources, but for those that the training itself has written; nothing is cleaned."""
    return open_corpus(sources, **_limits(options), exclude=[] if output is None else [output], verify=verify)


def corpus_of(files: Sequence[CorpusFile], options: TrainOptions, *, verify: bool = True) -> Corpus:
    """The same for some of the files, numbered as they stand here, where another process has found them."""
    limits = Limits(**_limits(options))
    return Corpus(files, limits, Openers(limits, verify=verify))


def _limits(options: TrainOptions) -> dict[str, Any]:
    return {
        "unit_bytes": UNIT_BYTES,
        "max_document_bytes": MAX_DOCUMENT_BYTES,
        "default_separator": (options.special_tokens or ("",))[0],
    }


@dataclass(frozen=True, slots=True)
class WordCounts:
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


@dataclass(slots=True)
class CountJob:
    """One corpus to count, and within what."""

    corpus: Corpus
    options: TrainOptions
    folder: Path
    cap_bytes: int
    in_flight: int
    threads: int
    progress: Progress
    throttle: Throttle | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    unit_bytes: int = UNIT_BYTES
    block_bytes: int = BLOCK_BYTES

    @property
    def longest_text(self) -> int:
        """Bytes without a split point: each thread may have such a block, and one more is read."""
        return self.in_flight // (self.threads + 1)


def count(job: CountJob) -> WordCounts:
    """Count everything that an interrupted run of the same job has not counted yet."""
    make_folder(job.folder)
    finished = finished_counts(job.folder, job.progress)
    if finished is not None:
        return finished
    state = _load_state(job.folder) or {"units": {}, "segments": [], "spill_size": 0, "bytes": 0}
    counting = _Counting(job, state)
    job.progress.advance(counting.bytes)
    counting.run()
    return counting.finish()


def finished_counts(folder: Path, progress: Progress) -> WordCounts | None:
    """The counts of an earlier run that had counted everything; None if there are none."""
    state = _load_state(folder)
    if state is None or "word_counts" not in state:
        return None
    path = folder / WORD_COUNTS
    if not path.is_file() or path.stat().st_size != state["size"]:
        raise _damaged(path)
    progress.advance(state["bytes"])
    found = state["word_counts"]
    return WordCounts(path, **{**found, "byte_counts": tuple(found["byte_counts"])})


def save_finished(folder: Path, counts: WordCounts, counted_bytes: int) -> None:
    """Record that everything is counted: the file of counts replaces whatever was kept before."""
    with storage_errors(counts.path):
        size = counts.path.stat().st_size
    totals = {name: value for name, value in asdict(counts).items() if name != "path"}
    state = {"word_counts": totals, "size": size, "bytes": counted_bytes}
    write_bytes(folder / STATE, orjson.dumps(state))
    with storage_errors(counts.path):
        (folder / SPILL).unlink(missing_ok=True)


def forget(folder: Path) -> None:
    """Make a later run count anew."""
    with storage_errors(folder):
        (folder / STATE).unlink(missing_ok=True)


class _Counting:
    """The counter, and which units it has counted."""

    def __init__(self, job: CountJob, state: dict[str, Any]) -> None:
        self.job = job
        self.units: dict[str, Any] = state["units"]
        self.bytes: int = state["bytes"]
        self._last = time.monotonic()
        self._boundaries = boundary_tokens(job.options, job.corpus.files)
        self._counter = BlockCounter(
            job.options,
            self._boundaries,
            cap_bytes=job.cap_bytes,
            threads=job.threads,
            spill=job.folder / SPILL,
            segments=np.array(state["segments"], np.uint64).reshape(-1, 3),
            spill_size=state["spill_size"],
        )

    def run(self) -> None:
        """Count all units; between two checkpoints threads take any of their blocks."""
        units = self._units()
        exhausted = False
        while not exhausted:
            batch = _UnitsUntil(units, self._checkpoint_due)
            with storage_errors(self.job.folder / SPILL):
                for size in ordered_map(
                    self._counter.add,
                    batch,
                    threads=self.job.threads,
                    bytes_in_flight=self.job.in_flight,
                    size=lambda block: block.held,
                    throttle=self.job.throttle,
                ):
                    self.bytes += size
                    self.job.progress.advance(size)
            exhausted = batch.exhausted
            self.units.update({unit.name: unit.end for unit in batch.finished})
            if not exhausted:
                self._checkpoint()

    def finish(self) -> WordCounts:
        """Merge what was counted into one file, which replaces everything spilled."""
        path = self.job.folder / WORD_COUNTS
        with storage_errors(path), damaged_spill(self.job.folder):
            spilled = self._counter.words.spilled_bytes
            words, occurrences, word_bytes, byte_counts = self._counter.words.write_counts(str(path))
        counts = WordCounts(path, words, occurrences, word_bytes, tuple(byte_counts.tolist()), spilled)
        del self._counter
        save_finished(self.job.folder, counts, self.bytes)
        return counts

    def _checkpoint_due(self) -> bool:
        return time.monotonic() - self._last >= self.job.checkpoint_seconds

    def _checkpoint(self) -> None:
        with storage_errors(self.job.folder / SPILL):
            segments = self._counter.words.checkpoint()
        state = {
            "units": self.units,
            "segments": segments.tolist(),
            "spill_size": self._counter.words.spilled_bytes,
            "bytes": self.bytes,
        }
        write_bytes(self.job.folder / STATE, orjson.dumps(state))
        self._last = time.monotonic()

    def _units(self) -> Iterator[_Unit]:
        """All that are not counted yet."""
        points = split_points(self.job.options, self._boundaries, self.job.longest_text)
        for file in self.job.corpus.files:
            if file.format is Format.TEXT:
                yield from (self._streamed_text if file.sequential else self._local_text)(file, points)
        documents = self.job.corpus.only(lambda file: file.format is not Format.TEXT)

        def committed(position: int) -> UnitEnd | None:
            end = self.units.get(f"documents {position}")
            return None if end is None else UnitEnd.from_json(end)

        for unit, blocks in documents.walk(committed):
            yield _Unit(f"documents {unit.position}", map(document_block, blocks))

    def _local_text(self, file: CorpusFile, points: SplitPoints) -> Iterator[_Unit]:
        first, last = bounds(file)
        for start in range(first, last, self.job.unit_bytes):
            name = f"text {position_of(file.ordinal, start)}"
            if name not in self.units:
                end = min(last, start + self.job.unit_bytes)
                yield _Unit(name, file_blocks(file, start, end, points, self.job.block_bytes))

    def _streamed_text(self, file: CorpusFile, points: SplitPoints) -> Iterator[_Unit]:
        start = file.start
        while (done := self.units.get(f"stream {position_of(file.ordinal, start)}")) is not None:
            start = done["end"]
        blocks = stream_blocks(file, points, self.job.block_bytes, start)
        while (first := next(blocks, None)) is not None:
            name = f"stream {position_of(file.ordinal, first.unit_end['end'] - first.size)}"
            yield _Unit(name, _until_full(first, blocks, self.job.unit_bytes))


@dataclass(slots=True)
class _Unit:
    """A part of the input that is recorded as a whole, and its blocks."""

    name: str
    blocks: Iterator[InputBlock]
    end: dict[str, Any] = field(default_factory=dict)


class _UnitsUntil:
    """The blocks of the next units, until a checkpoint is due."""

    def __init__(self, units: Iterator[_Unit], due: Callable[[], bool]) -> None:
        self._units = units
        self._due = due
        self.finished: list[_Unit] = []
        self.exhausted = False

    def __iter__(self) -> Iterator[InputBlock]:
        for unit in self._units:
            for block in unit.blocks:
                unit.end = block.unit_end
                yield block
            self.finished.append(unit)
            if self._due():
                return
        self.exhausted = True


def _until_full(first: InputBlock, rest: Iterator[InputBlock], unit_bytes: int) -> Iterator[InputBlock]:
    """A unit of streamed text: the first block and those that follow, up to the size of a unit."""
    yield first
    size = first.size
    while size < unit_bytes and (block := next(rest, None)) is not None:
        yield block
        size += block.size


# Keys of the state: while counting goes on, and when it is finished.
_STATES: Final = ({"units", "segments", "spill_size", "bytes"}, {"word_counts", "size", "bytes"})


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


def word_counts(
    inputs: str | Path | Sequence[str | Path],
    *,
    pattern: str = "gpt2",
    special_tokens: Sequence[str] = ("<|endoftext|>",),
    memory: str | int = "auto",
    threads: int | str = "auto",
) -> dict[bytes, int]:
    """The words that `pattern` splits the text into, and how often each occurs; special tokens are borders.

    Counting stays within `memory`; the dictionary is the caller's, some 150 bytes for each different word.
    """
    options = TrainOptions(pattern=pattern, special_tokens=tuple(special_tokens))
    many = [inputs] if isinstance(inputs, str | Path) else inputs
    with (
        metered_process(memory, threads, floor=resident_bytes()) as meter,
        tempfile.TemporaryDirectory(prefix="krill-") as folder,
    ):
        corpus = open_sources([DatasetSource(str(path)) for path in many], options, None)
        plan = meter.plan(counting_needs(corpus, meter.threads))
        shares = plan.share(WORDS), plan.share(TEXT)
        job = CountJob(corpus, options, Path(folder), *shares, meter.threads, Silent(), meter)
        with count(job).path.open("rb") as file:
            return dict(_records(file))


def _records(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """A record is a count, a length, the bytes."""
    while (occurrences := _number(file)) is not None:
        size = _number(file)
        assert size is not None
        yield file.read(size), occurrences


def _number(file: BinaryIO) -> int | None:
    """A number in groups of seven bits, the lowest first; None at the end of the file."""
    value = shift = 0
    while byte := file.read(1):
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
        shift += 7
    return None
