"""Evaluation: the loss of every token as the whole logits give it, over exactly the bytes of these tokens."""

from __future__ import annotations

import math
from pathlib import Path

import jax
import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import krill
from krill.budget import resident_bytes
from krill.cli.commands import app
from krill.errors import BudgetError, InputError
from krill.model.sizing import ModelShape
from krill.model.transformer import Transformer
from krill.training.data import with_segments
from krill.training.evaluate import run_evaluate
from krill.training.evaluation_data import cut_rows
from krill.training.saved_model import save_model
from krill.training.scoring import LossSums, make_evaluator
from properties import tried
from tiny_models import tiny_model

pytestmark = pytest.mark.jax

SHAPE = ModelShape(vocab_size=257, width=16, layers=1, heads=2, kv_heads=1, hidden=24)
CONTEXT = 16
EOS = 256
# Short, empty and long documents, and characters of several bytes.
DOCUMENTS = ["Größe und Maß", "", "x", "a longer text that does not fit into one row of sixteen", "漢字 ends"]


@pytest.fixture(scope="module")
def model() -> Transformer:
    return tiny_model(SHAPE, 1)


@pytest.fixture(scope="module")
def saved(model: Transformer, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    save_model(folder, model, context=CONTEXT, tokenizer="bytes")
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.jsonl"
    path.write_bytes(b"".join(orjson.dumps({"text": document}) + b"\n" for document in DOCUMENTS))
    return path


@jax.jit
def whole_logits(model: Transformer, batch: dict[str, jax.Array]) -> jax.Array:
    return model.logits(batch["input_ids"], batch["segment_ids"], batch["position_ids"])


def reference_sums(model: Transformer, batch: dict[str, np.ndarray]) -> tuple[float, int]:
    """From all logits at once, in 64 bits."""
    logits = np.asarray(whole_logits(model, batch), np.float64)
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(
        logits, np.maximum(batch["labels"], 0)[..., None], -1
    ).squeeze(-1)
    counted = batch["labels"] >= 0
    return float(losses[counted].sum()), int(counted.sum())


def scored_batches(rows: int) -> list[dict[str, np.ndarray]]:
    """The documents as they are scored: one stream, cut into rows."""
    ids = [[*document.encode(), EOS] for document in DOCUMENTS if document]
    stream = np.concatenate([np.asarray(some, np.int32) for some in ids])
    return [with_segments(batch, EOS) for batch in cut_rows([stream], rows, CONTEXT)]


def test_sums_are_those_of_the_whole_logits_whatever_the_chunk(model):
    (batch,) = scored_batches(128)
    expected, tokens = reference_sums(model, batch)
    evaluator = make_evaluator(SHAPE, rows=128, length=CONTEXT, loss_chunk=50)
    nats, counted = evaluator(model, batch)
    assert counted == tokens
    assert nats == pytest.approx(expected, rel=1e-5)
    # 2,048 tokens have 2.1 MB of logits; a chunk of 50 has 51 kB.
    assert evaluator.held_bytes < 1_500_000
    sums = LossSums()
    for _ in range(2):
        sums.add(*evaluator(model, batch))
    found = sums.evaluation(text_bytes=tokens)
    assert (found.tokens, found.bytes) == (2 * tokens, tokens)
    assert found.loss == pytest.approx(expected / tokens, rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(found.loss))
    assert found.bits_per_byte == pytest.approx(found.loss / math.log(2) * 2)


def test_text_is_scored_whole_and_its_bytes_are_exact(model, saved, text):
    report = run_evaluate(saved, text)
    found = report.evaluation
    (batch,) = scored_batches(128)
    expected, tokens = reference_sums(model, batch)
    kept = [document.encode() for document in DOCUMENTS if document]
    # Every token but the first of a document: so many bytes, and the token that ends it, which has none.
    assert found.bytes == sum(len(document) - 1 for document in kept)
    assert found.tokens == tokens == sum(map(len, kept))
    assert found.loss == pytest.approx(expected / tokens, rel=1e-5)
    assert found.bits_per_byte == pytest.approx(expected / math.log(2) / found.bytes, rel=1e-5)
    assert report.exact
    told = report.to_json()
    assert (told["loss"], told["bytes"], told["split"]) == (found.loss, found.bytes, "train")
    assert "evaluation" not in told


def test_a_prepared_dataset_is_scored_by_its_validation_split_and_checked(model, saved, text, tmp_path):
    config = {
        "datasets": [{"path": str(text)}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {
            "prepared_path": str(tmp_path / "prepared"),
            "sequence_len": CONTEXT,
            "min_length": 1,
            "min_chars": 1,
            "split": {"validation": 0.5},
        },
    }
    krill.preprocess(config, memory="300MB")
    parts = [run_evaluate(saved, tmp_path / "prepared", split=split) for split in (None, "train")]
    assert [part.split for part in parts] == ["validation", "train"]
    with krill.load(tmp_path / "prepared", split="validation") as dataset:
        rows = [dataset[row] for row in range(len(dataset))]
    assert parts[0].evaluation.tokens == sum(len(row["input_ids"]) - len(row["seq_lengths"]) for row in rows)
    assert parts[0].evaluation.bits_per_byte > 1

    small = ModelShape(vocab_size=100, width=16, layers=1, heads=2, kv_heads=1, hidden=24)
    save_model(tmp_path / "small", tiny_model(small, 1), context=CONTEXT, tokenizer=None)
    with pytest.raises(InputError, match=r"vocabulary of 100 tokens, the dataset `.*` one of 257"):
        run_evaluate(tmp_path / "small", tmp_path / "prepared")
    save_model(tmp_path / "short", model, context=CONTEXT // 2, tokenizer="bytes")
    with pytest.raises(InputError, match=r"rows of `.*` have 16 tokens, the model was trained on 8"):
        run_evaluate(tmp_path / "short", tmp_path / "prepared")
    other = (saved / "tokenizer.json").read_bytes().replace(b"<|endoftext|>", b"<|end|>")
    (tmp_path / "short" / "tokenizer.json").write_bytes(other)
    with pytest.raises(InputError, match="made by another tokenizer than the model's, of as many tokens"):
        run_evaluate(tmp_path / "short", tmp_path / "prepared")


def test_a_budget_that_is_too_small_is_refused_with_what_would_do(saved, text):
    with pytest.raises(BudgetError, match=r"needs .* in the stage") as refused:
        # Growth above what this process holds: its earlier tests may have held more than the plan needs.
        run_evaluate(saved, text, memory="50MB", floor=resident_bytes())
    assert "would do" in refused.value.hint


def test_text_in_which_nothing_can_be_predicted_is_refused():
    with pytest.raises(InputError, match="there is no token to predict"):
        LossSums().evaluation(None)


def test_a_hopeless_model_has_a_perplexity_beyond_numbers():
    assert LossSums(nats=1e6, tokens=10).evaluation(None).perplexity == math.inf


@tried(60)
@given(lengths=st.lists(st.integers(0, 30), max_size=6), rows=st.integers(1, 4), length=st.integers(1, 9))
def test_every_token_but_the_first_is_a_label_once_however_runs_are_cut(lengths, rows, length):
    stream = np.arange(1, sum(lengths) + 1, dtype=np.int32)
    runs = np.split(stream, np.cumsum(lengths)[:-1]) if lengths else []
    batches = list(cut_rows(runs, rows, length))
    assert all(column.shape == (rows, length) for batch in batches for column in batch.values())
    labels = [int(label) for batch in batches for label in batch["labels"].reshape(-1) if label >= 0]
    assert labels == stream[1:].tolist()
    for batch in batches:
        counted = batch["labels"] >= 0
        assert (batch["labels"][counted] == batch["input_ids"][counted] + 1).all()


def test_the_command_shows_the_figures(saved, text, capsys):
    found = run_evaluate(saved, text).evaluation
    words = ["evaluate", str(saved), str(text), "--quiet"]
    app([*words, "--json"], exit_on_error=False, print_error=False)
    told = orjson.loads(capsys.readouterr().out)
    assert (told["bits_per_byte"], told["perplexity"]) == (found.bits_per_byte, found.perplexity)
    app(words[:3], exit_on_error=False, print_error=False)
    out = capsys.readouterr().out
    assert f"bits per byte  {found.bits_per_byte:.4f}\n" in out
    assert f"scored         {found.tokens:,} tokens, {found.bytes:,} bytes of text\n" in out
    assert "promise kept" in out
