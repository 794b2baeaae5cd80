"""Labels mean what a real model takes them for: packed rows have the loss of their documents one by one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "loading"))

from loading_samples import VOCAB_SIZE, SampleRows, write_rows

from krill.dataset import Layout
from krill.loading import load
from peers import peer

torch = peer("torch")
transformers = peer("transformers")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        attn_implementation="eager",
    )
    return transformers.AutoModelForCausalLM.from_config(config).double().eval()


@pytest.fixture(scope="module")
def rows() -> SampleRows:
    """Rows that are not full, some with documents of a single token, from which nothing is predicted."""
    return SampleRows(Layout(24, "uint16", 4, fixed=False), 8, seed=3)


@pytest.fixture(scope="module")
def dataset(rows, tmp_path_factory):
    return load(write_rows(tmp_path_factory.mktemp("labels"), rows, 8))


@pytest.fixture(scope="module")
def loss_one_by_one(model, rows) -> float:
    total, predicted = 0.0, 0
    for document in (document for row in rows.documents for document in row):
        if len(document) > 1:
            ids = torch.tensor([document])
            with torch.no_grad():
                total += float(model(input_ids=ids, labels=ids).loss) * (len(document) - 1)
            predicted += len(document) - 1
    return total / predicted


def forward(model, batch, **more):
    """With attention inside each document only."""
    segments = torch.from_numpy(batch["segment_ids"])
    together = (segments[:, :, None] == segments[:, None, :]).tril()
    mask = torch.zeros(together.shape, dtype=torch.float64)
    mask = mask.masked_fill(~together, torch.finfo(torch.float64).min)[:, None]
    ids, positions = (torch.from_numpy(batch[name]) for name in ("input_ids", "position_ids"))
    return model(input_ids=ids, position_ids=positions, attention_mask=mask, **more)


def test_a_hugging_face_model_finds_the_loss_of_the_documents_one_by_one(model, dataset, loss_one_by_one):
    loader = dataset.loader(batch_size=8, labels="hf", ids_dtype="int64", segment_ids=True, position_ids=True)
    batch = loader.batch(0)
    with torch.no_grad():
        found = forward(model, batch, labels=torch.from_numpy(batch["labels"])).loss
    # The model itself counts its loss in 32 bits.
    assert float(found) == pytest.approx(loss_one_by_one, rel=1e-6)


def test_shifted_labels_give_the_same_loss_without_shifting(model, dataset, loss_one_by_one):
    loader = dataset.loader(batch_size=8, ids_dtype="int64", segment_ids=True, position_ids=True)
    batch = loader.batch(0)
    assert batch["labels"].dtype == np.int32
    with torch.no_grad():
        logits = forward(model, batch).logits
    labels = torch.from_numpy(batch["labels"]).long()
    found = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    # The model itself counts its loss in 32 bits.
    assert float(found) == pytest.approx(loss_one_by_one, rel=1e-6)
