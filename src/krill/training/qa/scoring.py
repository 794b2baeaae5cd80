"""Documents read from their first segment to their last, answers collected, scored against the right ones.

In: a reader and a cache of features. Out: EM, F1 and the rest of SQuAD 2.0's figures, the mean loss of a
segment, and every prediction as it is made. Held in memory: the weights, one segment of some documents, their
best spans, and of documents that are done three numbers each.

A batch of documents goes through one compiled program, segment after segment, however many there are: the
memory between segments is all that is kept of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from krill import _native
from krill.model.recurrent import (
    SEGMENT_COLUMNS,
    TOKEN_COLUMNS,
    Reader,
    ReaderShape,
    init_reader,
    read_segment,
    segment_losses,
)
from krill.qa.batches import BatchShape, QaLoader
from krill.qa.dataset import QaDataset
from krill.qa.metrics import SquadScores
from krill.qa.predictions import AnswerCollector, Prediction
from krill.training.compiler import low_memory_compiler
from krill.training.qa.step import batch_shapes
from krill.training.step import memory_of

# Tokens of a batch's segment: enough that products run at full speed, few beside the weights.
BATCH_TOKENS: Final = 2048
MOST_DOCUMENTS: Final = 64

OnPrediction = Callable[[str, Prediction], None]


class SegmentReader:
    """One segment of `documents` documents at a time; compiled when it is made, not when it is called."""

    def __init__(self, design: ReaderShape, *, length: int | None = None) -> None:
        """Rows have `length` tokens, by default as many as the reader was trained on."""
        self.documents = max(1, min(MOST_DOCUMENTS, BATCH_TOKENS // design.row_length))
        model = jax.eval_shape(lambda: init_reader(design, 0))
        memory = jax.eval_shape(lambda: init_reader(design, 0).begin(self.documents))
        segment = batch_shapes((self.documents,), length or design.length)
        compiled = low_memory_compiler().compile(
            jax.jit(_read, donate_argnums=1).lower(model, memory, segment)
        )
        _native.trim(code=True)  # what compiling took
        self._compiled = compiled
        self.held_bytes = memory_of(compiled)

    def read(
        self, reader: Reader, steps: list[dict[str, Any]]
    ) -> Iterator[tuple[dict[str, Any], np.ndarray[Any, Any], float]]:
        """For each time step of a batch: itself, the scores (2, documents, tokens), the summed loss."""
        memory = jnp.array(reader.begin(self.documents))  # of its own: the program takes it over
        for step in steps:
            rows = len(step["document_mask"])
            columns = {name: self._filled(step[name]) for name in (*TOKEN_COLUMNS, *SEGMENT_COLUMNS)}
            memory, scores, loss = self._compiled(reader, memory, columns)
            yield step, np.asarray(scores)[:, :rows], float(loss)

    def _filled(self, column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Padded with rows of ended documents to the program's batch size."""
        missing = self.documents - len(column)
        return np.pad(column, [(0, missing)] + [(0, 0)] * (column.ndim - 1)) if missing else column


def _read(
    reader: Reader, memory: jax.Array, segment: Mapping[str, jax.Array]
) -> tuple[jax.Array, jax.Array, jax.Array]:
    scores, after = read_segment(reader, memory, segment)
    return after, scores, segment_losses(scores, segment).sum()


def score(
    segments: SegmentReader,
    reader: Reader,
    dataset: QaDataset,
    *,
    n_best: int = 20,
    max_answer_length: int = 30,
    on_prediction: OnPrediction | None = None,
    advance: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """The figures over all documents of `dataset`.

    `n_best` and `max_answer_length` are as in Hugging Face's scripts. `on_prediction` gets every prediction
    in order; `advance` the number of finished documents.
    """
    shape = BatchShape(segments.documents, framework="numpy")
    # The best span and the probability of none: at one half they decide as the collector does.
    squad, nats, read, documents = SquadScores(threshold=0.5), 0.0, 0, 0
    for steps in QaLoader(dataset, shape):
        collector = AnswerCollector(n_best=n_best, max_answer_length=max_answer_length)
        for step, scores, loss in segments.read(reader, steps):
            collector.add_batch(step, *scores)
            nats += loss
            read += int(step["document_mask"].sum())
        for number, (name, found) in enumerate(collector.predictions(), documents):
            squad.add(found.best_text, dataset.answers(number)["text"], found.no_answer_probability)
            if on_prediction is not None:
                on_prediction(name, found)
        documents += len(collector)
        if advance is not None:
            advance(len(collector))
    return {
        "loss": nats / max(1, read),
        "documents": documents,
        "segments": read,
        **squad.result(best_threshold=True),
    }
