"""`krill qa evaluate` from end to end: the plan, the reader, the features, the figures.

In: a reader's folder and a cache of features. Out: a `ReaderReport`, and if asked for a file of all
predictions. Held in memory: what the plan says: the program with JAX, the weights and one segment of some
documents, the units of the cache that are mapped, and three numbers for each document.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from krill.budget import Meter, Need, Plan, resident_bytes
from krill.errors import ConfigError, Interrupted, StorageError
from krill.storage.atomic import atomic_writer, refuse_special
from krill.storage.input_file import read_json
from krill.threads.progress import Progress, Silent
from krill.training.xla import RUNNING, inference_process, measured_budget, plan_inference

if TYPE_CHECKING:
    from krill.qa.dataset import QaDataset
    from krill.qa.predictions import Prediction
    from krill.training.qa.saved import SavedReader
    from krill.training.qa.scoring import OnPrediction

# A larger file is not looked into, and stays.
_MOST_PREDICTIONS: Final = 64_000_000
# What the cache may have mapped: it is read in order.
_MAPPED_BYTES: Final = 32_000_000
# The scores that are kept of a document, as Python holds them.
_DOCUMENT_BYTES: Final = 400


@dataclass(frozen=True, slots=True)
class ReaderReport:
    """The figures and what they are of; `scores` has the keys of SQuAD 2.0's official script."""

    model: str
    step: int | None
    features: str
    documents: int
    segments: int
    loss: float
    scores: dict[str, float]
    predictions: str | None
    seconds: float
    budget: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        figures = asdict(self)
        return {**figures.pop("scores"), **figures}


def evaluate_reader(
    model: str | Path,
    features: str | Path,
    *,
    predictions: str | Path | None = None,
    checkpoint: str | int | None = None,
    n_best: int = 20,
    max_answer_length: int = 30,
    memory: str | int = "auto",
    threads: int | str = "auto",
    verify: bool = True,
    progress: Progress | None = None,
    floor: int | None = None,
) -> ReaderReport:
    """Score a reader on a cache of features; `predictions` is a JSON file to write, the answer of each id.

    `memory` is how much this process may grow above `floor`, by default what it holds now; a command gives 0.
    With `verify`, features are verified against their checksums when they are first read.
    """
    for name, number in (("n_best", n_best), ("max_answer_length", max_answer_length)):
        if number < 1:
            raise ConfigError(f"`{name}` is `{number}`", hint="give a number from 1 on")
    if predictions is not None:
        _check_replaceable(Path(predictions))
    started, held = time.monotonic(), resident_bytes() if floor is None else floor
    with inference_process("evaluating a reader", memory, threads, held) as meter:
        # Not at the top: they import JAX, whose threads are to be bounded before.
        from krill.qa.dataset import QaDataset
        from krill.training.qa.features import check_fits
        from krill.training.qa.saved import open_reader

        saved = open_reader(model, checkpoint=checkpoint)
        dataset = QaDataset(features, memory=_MAPPED_BYTES, verify=verify)
        check_fits(dataset.stored, saved.design, saved.fingerprint, f"the model `{saved.folder}`")
        answers = {"n_best": n_best, "max_answer_length": max_answer_length}
        found, plan = _score(saved, dataset, answers, predictions, meter, progress or Silent())
    return ReaderReport(
        model=str(saved.folder),
        step=saved.step,
        features=str(features),
        documents=found.pop("documents"),
        segments=found.pop("segments"),
        loss=found.pop("loss"),
        scores=found,
        predictions=None if predictions is None else str(predictions),
        seconds=round(time.monotonic() - started, 3),
        budget=measured_budget(plan, meter),
    )


def _score(
    saved: SavedReader,
    dataset: QaDataset,
    answers: Mapping[str, Any],
    predictions: str | Path | None,
    meter: Meter,
    progress: Progress,
) -> tuple[dict[str, Any], Plan]:
    from krill.training.qa.scoring import SegmentReader, score

    kept = _MAPPED_BYTES + _DOCUMENT_BYTES * dataset.documents
    design, width = saved.design, dataset.stored.width
    reading = [Need("features", kept, during=RUNNING)]
    segments, plan = plan_inference(
        meter, design.encoder, reading, lambda: SegmentReader(design, length=width)
    )
    progress.begin("answer", dataset.documents)
    try:
        with _prediction_file(predictions) as on_prediction:
            found = score(
                segments,
                saved.reader,
                dataset,
                on_prediction=on_prediction,
                advance=progress.advance,
                **answers,
            )
    except KeyboardInterrupt:
        raise Interrupted("interrupted: there are no results") from None
    progress.end("answer")
    return found, plan


def _check_replaceable(path: Path) -> None:
    """A file of earlier predictions may be replaced, and nothing else, before any work is done."""
    refuse_special(path)
    if not os.path.lexists(path):
        return
    try:
        found = read_json(path, _MOST_PREDICTIONS)
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise StorageError(
            f"`{path}` holds something else than predictions: nothing was written",
            hint="choose another name for the predictions",
        )


@contextmanager
def _prediction_file(path: str | Path | None) -> Iterator[OnPrediction | None]:
    """Where predictions go: one JSON object of texts by id, as SQuAD's official script takes it."""
    if path is None:
        yield None
        return
    with atomic_writer(Path(path)) as file:
        before = b"{"

        def on_prediction(name: str, found: Prediction) -> None:
            nonlocal before
            file.write(before + b"\n" + orjson.dumps(name) + b": " + orjson.dumps(found.text))
            before = b","

        yield on_prediction
        file.write(b"{}\n" if before == b"{" else b"\n}\n")
