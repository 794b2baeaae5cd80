"""TRL trains on Krill's folder as it is, and on the same losses as on what it prepares itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

import krill
from chat_jobs import conversations, json_rows
from chat_models import TRL_TEMPLATES, library_tokenizer, make_model

STEPS = 20
CHATS = conversations(STEPS + 10, seed=3)
TEMPLATE = next(path for path in TRL_TEMPLATES if path.stem == "qwen2_5_training").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chat")
    make_model(folder / "model", TEMPLATE)
    (folder / "chats.jsonl").write_bytes(json_rows(CHATS))
    for packing in ("none", "bfd"):
        krill.preprocess(
            {
                "datasets": [{"path": str(folder / "chats.jsonl"), "type": "chat_template"}],
                "tokenizer": {"path": str(folder / "model")},
                "preprocess": {
                    "prepared_path": str(folder / packing),
                    "sequence_len": 4096,
                    "packing": packing,
                    "dedup": "none",
                },
            },
            memory="500MB",
        )
    return folder


def new_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=4096,
    )
    return LlamaForCausalLM(config)


def trainer(folder: Path, rows: Any, **options: Any) -> SFTTrainer:
    config = SFTConfig(
        output_dir=str(folder / "trained"),
        max_steps=STEPS,
        per_device_train_batch_size=1,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        max_length=None,
        seed=1,
        **options,
    )
    tokenizer: PreTrainedTokenizerFast = library_tokenizer(TEMPLATE)
    return SFTTrainer(model=new_model(), args=config, train_dataset=rows, processing_class=tokenizer)


def on_our_rows(folder: Path, packing: str) -> SFTTrainer:
    rows = datasets.load_from_disk(str(folder / packing))
    return trainer(
        folder, rows, padding_free=True, packing=False, dataset_kwargs={"skip_prepare_dataset": True}
    )


def losses(made: SFTTrainer) -> list[float]:
    made.train()
    return [line["loss"] for line in made.state.log_history if "loss" in line]


def summed_loss(made: SFTTrainer) -> tuple[float, int]:
    """Over all batches as TRL makes them, and how many tokens are learned."""
    model, total, tokens = new_model().eval(), 0.0, 0
    with torch.no_grad():
        for batch in made.get_train_dataloader():
            labels = batch.pop("labels")
            inputs = {name: batch[name] for name in ("input_ids", "position_ids")}
            # With a cache, transformers attends across the conversations of a row.
            logits = model(**inputs, use_cache=False).logits
            targets = labels[:, 1:].reshape(-1)
            total += torch.nn.functional.cross_entropy(
                logits[:, :-1].reshape(len(targets), -1), targets, ignore_index=-100, reduction="sum"
            ).item()
            tokens += int((targets != -100).sum())
    return total, tokens


def test_trl_has_the_same_losses_on_our_rows_as_on_its_own(folder: Path) -> None:
    chats = datasets.Dataset.from_list([{"messages": chat} for chat in CHATS])
    own = losses(trainer(folder, chats, assistant_only_loss=True, padding_free=True))
    ours = losses(on_our_rows(folder, "none"))
    assert len(own) == STEPS
    assert ours == pytest.approx(own, abs=1e-4)
    assert own[0] - own[-1] > 0.05  # it learned something


def test_packed_rows_have_the_same_summed_loss(folder: Path) -> None:
    alone, tokens = summed_loss(on_our_rows(folder, "none"))
    packed, packed_tokens = summed_loss(on_our_rows(folder, "bfd"))
    assert len(datasets.load_from_disk(str(folder / "bfd"))) < len(CHATS) / 3
    assert packed_tokens == tokens > 1000
    assert packed == pytest.approx(alone, rel=1e-5)
