"""How well the model does on rows that it is not trained on, at any time of the run.

In: the validation rows, once. Out: an evaluation of a model on them, in bits per byte too. Held in memory:
these rows; while evaluating, one batch's activations, `held_bytes` with the weights.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from krill.model.transformer import Transformer
from krill.training.data import Batch, TrainData
from krill.training.evaluate import evaluate_batches, make_evaluator
from krill.training.memory_plan import MemoryPlan
from krill.training.mesh import Placement
from krill.training.recipe import Recipe
from krill.training.token_bytes import TokenBytes


class Validation:
    """Compiled when it is made: before the state is there, when memory is free."""

    def __init__(
        self,
        batches: list[Batch],
        text: TokenBytes | None,
        recipe: Recipe,
        plan: MemoryPlan,
        placement: Placement | None,
    ) -> None:
        self._batches = batches
        self._bytes_per_token = None if text is None else _bytes_per_token(batches, text)
        self._evaluator = make_evaluator(
            recipe.shape,
            rows=plan.microbatch,
            length=plan.length,
            loss_chunk=plan.loss_chunk,
            precision=recipe.precision,
            placement=placement,
        )
        self.held_bytes = self._evaluator.held_bytes
        self.batch_bytes = sum(column.nbytes for batch in batches for column in batch.values())

    def __call__(self, model: Transformer) -> dict[str, Any]:
        """Loss, bits per byte, perplexity, and over how much."""
        return asdict(
            evaluate_batches(self._evaluator, model, self._batches, bytes_per_token=self._bytes_per_token)
        )


def open_validation(
    data: TrainData, most: int | None, recipe: Recipe, plan: MemoryPlan, placement: Placement | None
) -> Validation | None:
    """None where the data has no validation split."""
    batches = data.validation(plan.microbatch, most)
    return Validation(batches, data.vocabulary.bytes, recipe, plan, placement) if batches else None


def _bytes_per_token(batches: list[Batch], text: TokenBytes) -> float:
    """Of the tokens that are predicted in them, exactly, so that their bytes come out again."""
    tokens = sum(int((batch["labels"] >= 0).sum()) for batch in batches)
    return sum(text.of(batch["labels"]) for batch in batches) / max(1, tokens)
