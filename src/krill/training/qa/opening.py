"""What a training of a reader reads, opened and checked: the features, the tokenizer, the evaluation.

In: a `TrainRequest`. Out: an `Opened`, or the reason why its parts don't belong together. Held in memory: the
units of the caches that are mapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from krill.model.recurrent import ReaderShape
from krill.qa.dataset import QaDataset
from krill.training.qa.data import ReaderData
from krill.training.qa.features import (
    ReaderTokenizer,
    check_fits,
    describe_features,
    design_for,
    look_at_tokenizer,
)
from krill.training.qa.settings import ReaderSettings

if TYPE_CHECKING:
    from krill.training.qa.job import TrainRequest

# What an evaluation's cache may have mapped: it is read in order.
EVALUATION_BYTES: Final = 32_000_000


@dataclass(frozen=True, slots=True)
class Opened:
    """Everything that a training is made of, before JAX computes anything."""

    settings: ReaderSettings
    tokenizer: ReaderTokenizer
    data: ReaderData
    design: ReaderShape
    evaluation: QaDataset | None

    @property
    def identity(self) -> Mapping[str, Any]:
        """What decides the batches, fit for JSON."""
        return describe_features(self.data.stored)


def open_request(request: TrainRequest) -> Opened:
    """Open and check what `request` names."""
    data = ReaderData(request.features, request.settings, verify=request.verify)
    tokenizer = look_at_tokenizer(request.tokenizer)
    design = design_for(data.stored, tokenizer, request.settings)
    evaluation = None
    if request.evaluation is not None:
        evaluation = QaDataset(request.evaluation, memory=EVALUATION_BYTES, verify=request.verify)
        check_fits(evaluation.stored, design, tokenizer.fingerprint, "the model")
    return Opened(request.settings, tokenizer, data, design, evaluation)
