"""Verification: candidates that the bands have found are compared by what they truly have in common.

In: groups of documents that agree in a band, and a way to read their texts again. Out: edges between
documents whose sets of shingles overlap by at least the threshold (Jaccard: shingles of both over shingles of
either). Held in memory: a byte for each document of a range of units, one slice of text with its shingles,
and a block of pairs; the sets themselves are on disk, and two are compared through two small buffers.

Which pairs: in each group, every document with the smallest. Those that fail don't give up: they form a group
of their own, in which every document is compared with the smallest of them, and so on, `ROUNDS` times at
most. So a smallest document that agreed by accident doesn't part the others. All of it is determined by the
bands alone.

Only documents in groups are read again. Documents that count as seen before have no text here: an agreement
with one is trusted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.corpus.arrays import pick
from krill.corpus.buffers import text_buffers
from krill.dedup.shuffle import cut_groups
from krill.dedup.spill import RecordFile
from krill.dedup.streams import BandRecords, HashStream
from krill.dedup.tables import TableLayout, visit_groups
from krill.storage.atomic import storage_errors
from krill.threads import ordered_map

ROUNDS = 8
# A document's shingles take at most four times its text (one letter and a space are one shingle of 8 bytes),
# and its picked copy once.
SHINGLE_BYTES_PER_TEXT_BYTE = 5
INDEX_BYTES = 16
# A candidate while pairs are compared: its row, the pairs, their order, and the shares.
CANDIDATE_BYTES = 160
MOST_CANDIDATES = 65_536


@dataclass(frozen=True, slots=True)
class Verify:
    """How candidates are verified: `read_unit(k)` gives the text columns of the k-th unit, in order."""

    threshold: float
    read_unit: Callable[[int], Iterator[pa.Array]]
    ngram: int = 5


def verify_share(max_document_bytes: int) -> int:
    """What verification holds of the longest document, beside the least share of everything else."""
    return SHINGLE_BYTES_PER_TEXT_BYTE * max_document_bytes


def verify_spill_bytes(documents: int, text_bytes: int) -> int:
    """Disk that verification takes if every document is read again, which is far more than it will be: a word
    of text, seven or eight bytes with its space, is one number."""
    return INDEX_BYTES * documents + text_bytes * 5 // 4


def verified_edges(
    stream: BandRecords, verify: Verify, edges: RecordFile, layout: TableLayout, folder: Path
) -> None:
    """Add to `edges` the candidate pairs whose overlap reaches the threshold."""
    with ExitStack() as files:
        sets: _Sets | None = None
        waiting: HashStream = stream
        for turn in range(ROUNDS):
            candidates = files.enter_context(RecordFile(folder, columns=3))
            _find_candidates(waiting, layout, folder, candidates, ascending=turn == 0)
            if sets is None:
                sets = files.enter_context(_Sets(stream, verify, layout.share, folder))
                sets.read(candidates)
            failed = files.enter_context(RecordFile(folder))
            _compare(candidates, sets, verify.threshold, edges, failed, layout)
            candidates.close()
            if not failed.count:
                return
            waiting = failed


def _find_candidates(
    stream: HashStream, layout: TableLayout, folder: Path, candidates: RecordFile, *, ascending: bool
) -> None:
    """Rows (document, band, smallest of the group) for every document that is not its group's smallest."""

    def visit(records: NDArray[np.uint64], least: NDArray[np.uint64]) -> None:
        others = np.flatnonzero(records[:, 0] != least)
        if len(others):
            candidates.append(np.column_stack((records[others], least[others])))

    visit_groups(stream, layout, folder, visit, ascending=ascending)


def _compare(
    candidates: RecordFile,
    sets: _Sets,
    threshold: float,
    edges: RecordFile,
    failed: RecordFile,
    layout: TableLayout,
) -> None:
    """Sort candidates into edges that hold and records (document, band) that wait for the next round."""
    block_records = max(1, min(layout.share // (layout.threads + 2) // CANDIDATE_BYTES, MOST_CANDIDATES))

    def work(block: NDArray[np.uint64]) -> None:
        holds = sets.shares(block[:, 0], block[:, 2]) >= threshold
        edges.append(block[holds][:, ::2])
        failed.append(block[~holds][:, :2])

    blocks = (block.copy() for block in candidates.blocks(block_records))
    for _ in ordered_map(
        work, blocks, threads=layout.threads, bytes_in_flight=layout.threads, size=lambda _: 1
    ):
        pass


class _Sets(ExitStack):
    """The sets of shingles of all candidates, on disk: an index with 16 bytes for each document, and
    numbers."""

    def __init__(self, stream: BandRecords, verify: Verify, share: int, folder: Path) -> None:
        super().__init__()
        self._stream = stream
        self._verify = verify
        self._share = share
        self._index = self.enter_context(RecordFile(folder))
        self._data = self.enter_context(RecordFile(folder, columns=1))
        with storage_errors(folder):
            os.ftruncate(self._index.descriptor, INDEX_BYTES * sum(stream.counts))

    def read(self, candidates: RecordFile) -> None:
        """Read the texts of all candidates, unit by unit; units without any are not read."""
        first = 0
        # Units in groups whose documents' flags take a quarter of the share.
        for units in cut_groups(self._stream.counts, self._share // 4):
            counts = self._stream.counts[units.start : units.stop]
            wanted = self._wanted(candidates, first, sum(counts))
            for unit, count in zip(units, counts, strict=True):
                flags, wanted = wanted[:count], wanted[count:]
                if flags.any():
                    self._read_unit(unit, first, flags)
                first += count

    def shares(self, documents: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.float64]:
        """The overlap of each document with another, 0..1; 1 with those that were seen before."""
        prior = np.uint64(self._stream.prior)
        shares = np.ones(len(documents))
        own = np.flatnonzero(others >= prior)
        # A pair agrees in several bands, and the smallest of a group is in many pairs: each once, in order.
        order = own[np.lexsort((documents[own], others[own]))]
        pairs = np.column_stack((others[order], documents[order])) - prior
        new = np.ones(len(pairs), bool)
        new[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
        found = _native.jaccard(self._index.descriptor, self._data.descriptor, pairs[new])
        shares[order] = found[np.cumsum(new) - 1]
        return shares

    def _wanted(self, candidates: RecordFile, first: int, count: int) -> NDArray[np.bool_]:
        """Which of `count` documents from `first` on are in a group."""
        wanted = np.zeros(count, bool)
        block_records = max(1, min(self._share // 4 // CANDIDATE_BYTES, MOST_CANDIDATES))
        for block in candidates.blocks(block_records):
            for column in (0, 2):
                # Unsigned numbers below the first wrap around to large ones.
                places = block[:, column] - np.uint64(self._stream.prior + first)
                wanted[places[places < count]] = True
        return wanted

    def _read_unit(self, unit: int, first: int, wanted: NDArray[np.bool_]) -> None:
        at = 0
        for text in self._verify.read_unit(unit):
            for begin, end in _slices(text, self._share // 4 // SHINGLE_BYTES_PER_TEXT_BYTE):
                flags = wanted[at + begin : at + end]
                if flags.any():
                    self._write(text.slice(begin, end - begin), first + at + begin, flags)
            at += len(text)
        if at != len(wanted):
            raise ValueError(f"unit {unit} gave {at} documents, not {len(wanted)}")

    def _write(self, text: pa.Array, first: int, flags: NDArray[np.bool_]) -> None:
        shingles, offsets = _native.shingle_sets(*text_buffers(pick(text, flags)), self._verify.ngram)
        start = self._data.append(shingles.reshape(-1, 1))
        entries = np.zeros((len(flags), 2), np.uint64)
        entries[flags, 0] = offsets[:-1] + start
        entries[flags, 1] = np.diff(offsets)
        self._index.write_at(first, entries)


def _slices(text: pa.Array, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Rows in slices of at most so many bytes, one row at least."""
    offsets, _ = text_buffers(text)
    begin = 0
    while begin < len(text):
        end = int(np.searchsorted(offsets, offsets[begin] + most_bytes, side="right")) - 1
        end = min(max(end, begin + 1), len(text))
        yield begin, end
        begin = end
