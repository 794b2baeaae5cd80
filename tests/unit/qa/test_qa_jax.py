"""Batches over time as JAX's arrays."""

from __future__ import annotations

import numpy as np
import pytest

from krill.qa import QaDataset, Shape, create_dataloader, prepare
from questions import story_file, tokenizer_of

pytestmark = pytest.mark.jax


def test_jax_gets_its_own_arrays_with_the_same_numbers(tmp_path) -> None:
    jax = pytest.importorskip("jax")
    source = story_file(tmp_path / "train.json", contexts=3)
    made = prepare(source, tokenizer_of("wordpiece"), output=tmp_path / "out", shape=Shape(48, 12))
    dataset = QaDataset(made.folder)
    ours = create_dataloader(dataset, batch_size=4, framework="jax")
    plain = create_dataloader(dataset, batch_size=4, framework="numpy")
    for steps, expected in zip(ours, plain, strict=True):
        assert len(steps) == len(expected)
        for batch, wanted in zip(steps, expected, strict=True):
            assert isinstance(batch["input_ids"], jax.Array)
            assert batch["input_ids"].dtype == np.int32
            assert batch["document_mask"].dtype == bool
            for name in ("input_ids", "attention_mask", "token_type_ids", "start_positions", "document_mask"):
                assert np.array_equal(batch[name], wanted[name])
