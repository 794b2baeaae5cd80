"""Conversations: rows as JSON become rendered text, with the places in it that are learned.

In: documents whose text is a row as JSON. Out: the text that the chat template makes of each, and two columns
of places as JSON: `trained_spans`, what is learned, and `control_spans`, control tokens that stay text. Held
in memory: the Python objects of one row, what Jinja holds while it renders it, and the rendered texts of a
block.

Rendering is Python's, one row at a time, or one in each of several worker processes: the plan counts it as
watched. A row that can't be used is dropped for a reason that `krill.chat` names, or with `on_error: fail`
stops the run where it is the row's own fault.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from krill.chat import REASONS, ChatDrop, ChatFormat, ChatRenderer, RenderedChat
from krill.chat.blocks import Outcome, decode_answer, encode_request, render_row
from krill.corpus.arrays import as_arrow, pick_rows
from krill.corpus.buffers import offsets_of, text_buffers, text_column
from krill.corpus.documents import Documents, file_and_offset
from krill.corpus.formats import CorpusFile, Format
from krill.corpus.streams import line_number
from krill.errors import BudgetError, InputError
from krill.text.step import CONTROL_SPANS, TRAINED_SPANS, rejected_rows, with_statistics
from krill.threads.processes import WorkerProcesses

# Reasons that are no fault of the row: it is counted, whatever `on_error` says.
_NO_FAULT: Final = frozenset(
    {"untrained", "turn_not_placed", "too_many_turns", "template_too_long", "control_in_content"}
)
# What one template refuses or leaves out another may write.
_OF_TEMPLATE: Final = frozenset({"template_error", "message_not_rendered"})
LEFT_OUT: Final = "turns_left_out"
"""Counts turns of conversations that were kept without learning these."""
_BY_ROWS: Final = (Format.PARQUET, Format.ARROW, Format.HUB)


@dataclass(frozen=True, slots=True)
class RenderChat:
    """Renders the rows of each source in its own format."""

    renderer: ChatRenderer = field(repr=False)
    formats: Sequence[ChatFormat]
    files: Sequence[CorpusFile] = field(repr=False)
    skip: bool
    """Whether rows at fault are counted and left out."""
    processes: WorkerProcesses | None = field(default=None, repr=False)
    """What renders, where it is not this process."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def reasons(self) -> Sequence[str]:
        return tuple(REASONS)

    def apply(self, documents: Documents) -> Documents:
        batch = documents.batch
        made: list[RenderedChat] = []
        numbers = np.zeros(batch.num_rows, np.int64)
        codes = np.zeros(batch.num_rows, np.uint8)
        reasons: dict[str, int] = {}
        left_out = 0
        for row, found in enumerate(self._rendered(batch)):
            if isinstance(found, ChatDrop):
                if not self.skip and found.reason not in _NO_FAULT:
                    raise self._fault(batch, row, found)
                codes[row] = reasons.setdefault(found.reason, len(reasons) + 1)
            else:
                numbers[row] = len(found)
                made += found
                left_out += sum(chat.left_out for chat in found)
        counts = Counter(documents.counts)
        if left_out:
            counts[LEFT_OUT] += left_out
        names = list(reasons)
        counts.update(names[code - 1] for code in codes[codes != 0].tolist())
        rejected = documents.rejected
        if rejected is not None and names:
            rejected = (*rejected, rejected_rows(batch, codes, names))
        return _with_rendered(Documents(batch, dict(counts), rejected), numbers, made)

    def fingerprint(self) -> str:
        """What shapes the text besides the config: the template itself, and the tokens that it writes."""
        return self.renderer.fingerprint

    def release(self) -> None:
        """End the worker processes, until they are needed again."""
        if self.processes is not None:
            self.processes.release()

    def _rendered(self, batch: pa.RecordBatch) -> Iterator[Outcome]:
        if batch.num_rows == 0:
            return
        # Units, and so blocks, never run through two sources.
        ordinal, _ = file_and_offset(batch.column("position")[0].as_py())
        number = self.files[ordinal].dataset
        offsets, data = text_buffers(batch.column("text"))
        whole = memoryview(data.data)
        rows = [whole[start:end] for start, end in pairwise(offsets.tolist())]
        if self.processes is not None:
            yield from decode_answer(self._answer(encode_request(number, rows)))
            return
        for row in rows:
            with self._lock:  # one thread at a time renders: Python's own lock allows no more
                found = render_row(self.renderer, row, self.formats[number])
            yield found

    def _answer(self, request: bytes) -> bytes:
        assert self.processes is not None
        try:
            return self.processes.answer(request)
        except BudgetError as error:
            hint = f"{error.hint}; {self.renderer.origin} may pile up texts while it renders"
            raise BudgetError(error.message, hint=hint) from None

    def _fault(self, batch: pa.RecordBatch, row: int, found: ChatDrop) -> InputError:
        ordinal, offset = file_and_offset(batch.column("position")[row].as_py())
        file = self.files[ordinal]
        by_rows = file.format in _BY_ROWS
        place = f"row {offset:,}" if by_rows else f"line {line_number(file, offset):,}"
        template = ", take a template that knows it" if found.reason in _OF_TEMPLATE else ""
        return InputError(
            f"`{file.path}` {place}: {found}",
            hint=f"mend the row{template}, or set `preprocess.on_error: skip` to leave such rows out and"
            " count them",
        )


def _with_rendered(documents: Documents, numbers: NDArray[np.int64], made: list[RenderedChat]) -> Documents:
    """The rows with what was made of each, which may be several texts, or none."""
    batch = documents.batch
    others = batch.remove_column(batch.schema.get_field_index("text"))
    if (numbers > 1).any():
        others = others.take(as_arrow(np.repeat(np.arange(len(numbers)), numbers)))
    elif len(made) < len(numbers):
        others = pick_rows(others, numbers == 1)
    text = _texts([chat.text for chat in made])
    rendered = others.add_column(0, pa.field("text", pa.large_string()), text)
    spans = [
        (TRAINED_SPANS, _texts([orjson.dumps(chat.trained) for chat in made])),
        (CONTROL_SPANS, _texts([orjson.dumps(chat.content) for chat in made])),
    ]
    return with_statistics(Documents(rendered, documents.counts, documents.rejected), spans)


def _texts(encoded: list[bytes]) -> pa.Array:
    return text_column(
        offsets_of([len(text) for text in encoded]), np.frombuffer(b"".join(encoded), np.uint8)
    )
