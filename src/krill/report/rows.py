"""Rows of a dataset as text, of conversations with what is learned marked.

In: a run. Out: a section of a page. Held in memory: a few rows, and their tokenizer while they are decoded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from krill.budget import format_size
from krill.dataset.inspection import SampleChats, SampleRow, TokenFacts
from krill.dataset.manifest import DatasetPart, Manifest
from krill.dataset.shard_file import END_OF_STREAM
from krill.errors import BudgetError, InputError, KrillError
from krill.report.common import length_table
from krill.report.parts import Facts, HeadedText, MarkedText, Note, PageSection, Texts, percent
from krill.report.runs import ReportedRun, StoredFiles
from krill.storage.atomic import write_bytes, write_json
from krill.storage.input_file import MOST_MANIFEST
from krill.storage.outputs import MANIFEST

_SHOWN_ROWS: Final = 3
_SHOWN_CHARACTERS: Final = 4000
# Of a shard in an object store; a record batch has about a megabyte.
_MOST_FETCHED: Final = 16_000_000


def rows_section(run: ReportedRun, memory: str | int, samples: bool) -> PageSection:
    section = PageSection("rows", "Rows")
    tokens = run.figures.inner("tokens", wanted=False)
    trained, kept = (tokens.count(name, wanted=False) for name in ("trained", "kept"))
    if trained is not None and kept:
        fact = f"{trained:,} of {kept:,} ({percent(trained / kept)})"
        section.parts.append(Facts([("tokens that are learned", fact)]))
    if not run.figures.inner("dataset", wanted=False):
        return section
    from krill.pipeline.output_checks import inspect_output

    try:
        with _folder_of(run) as folder:
            found = inspect_output(folder, samples=_SHOWN_ROWS if samples else 0, seed=0, memory=memory)
    except BudgetError:
        section.parts.append(Note("The budget is too small to read rows: a larger --memory shows some."))
        return section
    except KrillError as error:
        section.parts.append(Note(f"The rows cannot be read: {error.message}.", warns=True))
        return section
    if found.dataset is not None:
        _add_rows(section, run, found.dataset, trained is not None)
    return section


@contextmanager
def _folder_of(run: ReportedRun) -> Iterator[Path]:
    """The run's folder; of one in an object store, a temporary one with its first rows."""
    if not isinstance(run.files, StoredFiles):
        yield run.folder or Path(run.path)
        return
    with tempfile.TemporaryDirectory(prefix="krill-report-") as place:
        folder = Path(place)
        write_bytes(folder / MANIFEST, run.files.read(MANIFEST, MOST_MANIFEST) or b"")
        manifest = Manifest.load(folder)
        part = manifest.dataset
        if part is not None and part.shards:
            first = _fetch_first(part, run.files, folder)
            less = replace(manifest, dataset=first, validation=None, text=None, rejected=None)
            write_json(folder / MANIFEST, less.to_json())
        yield folder


def _fetch_first(part: DatasetPart, files: StoredFiles, folder: Path) -> DatasetPart:
    """The first record batch of the first shard, as a shard of its own."""
    shard = part.shards[0]
    end = shard.batches[1] if len(shard.batches) > 1 else shard.bytes - len(END_OF_STREAM)
    if end > _MOST_FETCHED:
        shown, most = format_size(end), format_size(_MOST_FETCHED)
        raise InputError(
            f"its first record batch has {shown}, and at most {most} are fetched",
            hint="copy the output into a folder, and make a report of that",
        )
    path = Path(part.paths(folder)[0])
    path.parent.mkdir(exist_ok=True)
    write_bytes(path, files.read_part(path.relative_to(folder).as_posix(), end) + END_OF_STREAM)
    rows = min(shard.rows, part.layout.rows_per_batch)
    tokens = None if shard.tokens is None else min(shard.tokens, rows * part.layout.sequence_len)
    size = end + len(END_OF_STREAM)
    beginning = replace(shard, rows=rows, bytes=size, batches=shard.batches[:1], tokens=tokens)
    return replace(part, shards=(beginning,), sources=())


def _add_rows(section: PageSection, run: ReportedRun, part: TokenFacts, learned: bool) -> None:
    if not run.figures.inner("distributions", wanted=False):
        buckets = [(bucket.low, bucket.high, bucket.count) for bucket in part.piece_lengths]
        of = f"{part.sampled_rows:,} of {part.rows:,} rows"
        section.parts.append(length_table(f"Documents in rows by tokens ({of})", buckets, "tokens"))
    texts = [HeadedText(_heading(row, learned), pieces) for row in part.samples if (pieces := _pieces(row))]
    if texts:
        marked = "; what is learned is marked" if learned else ""
        of = " from the beginning" if run.folder is None else ""
        section.parts.append(Texts(f"Rows{of} as text{marked}", texts, shown=True))


def _heading(row: SampleRow, chat: bool) -> str:
    documents = len(row.seq_lengths)
    what, plural = "conversation" if chat else "document", "" if documents == 1 else "s"
    return f"row {row.row:,}: {len(row.input_ids):,} tokens, {documents:,} {what}{plural}"


def _pieces(row: SampleRow) -> list[MarkedText]:
    """The text of a row, to a length that a page has room for; empty where no tokenizer could be opened."""
    if isinstance(row, SampleChats) and row.pieces is not None:
        return _cut([MarkedText(text, "learned" if on else "") for text, on in row.pieces])
    return [] if row.text is None else _cut([MarkedText(row.text)])


def _cut(pieces: list[MarkedText]) -> list[MarkedText]:
    left, found = _SHOWN_CHARACTERS, []
    for piece in pieces:
        found.append(MarkedText(piece.text[:left], piece.mark))
        left -= len(piece.text)
        if left <= 0:
            return [*found, MarkedText("...")]
    return found
