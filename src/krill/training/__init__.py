"""Training inside the budget: the step and every technique that keeps it small; evaluation and generation.

In: a `Transformer` or its shape, batches of `input_ids`, `labels`, `segment_ids` and `position_ids` from
`krill.loading`, and a share of the budget. Out: a compiled step that takes a `TrainState` to the next one
with its loss, and its `StepPlan`. Held in memory: the state (4 bytes a weight, and 8 for the
optimizer or 2 with `adamw8bit`), the gradients, and one microbatch's activations; logits only by the chunk.

Everything here is JAX, from the extra `train`; `krill.model.require_train_extra` says so where it is missing.
"""
