"""`krill train` on conversations: from the weights of a model that was trained before, over what is
learned."""

from __future__ import annotations

import json
from datetime import date

import numpy as np
import pytest

from chat_jobs import conversations, conversations_of, expected_row, make_chat, rows_of
from jobs import Job, check_error

pytest_plugins = ["job_fixtures"]


@pytest.fixture
def chat(job: Job) -> Job:
    make_chat(job, conversations(40), sequence_len=128)
    job.config["memory"] = "2GB"
    job.config["train"] = {
        "output_dir": "base",
        "width": 32,
        "layers": 1,
        "heads": 2,
        "batch_size": 4,
        "max_steps": 2,
        "log_every": 1,
    }
    assert job.preprocess("--quiet").code == 0
    job.save()
    assert job.run("train", "config.yaml", "--quiet").code == 0
    return job


def weights(job: Job, folder: str) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return load_file(job.folder / folder / "model.safetensors")


def test_training_goes_on_from_the_weights_of_a_base_model(chat: Job) -> None:
    train = {"batch_size": 4, "max_steps": 1, "warmup_steps": 0, "base_model": "base", "output_dir": "tuned"}
    chat.config["train"] = {**train, "learning_rate": 1e-12, "weight_decay": 0}
    chat.save()
    assert chat.run("train", "config.yaml", "--quiet").code == 0
    before, after = weights(chat, "base"), weights(chat, "tuned")
    assert before.keys() == after.keys()
    for name, values in before.items():
        np.testing.assert_allclose(after[name], values, atol=1e-7)
    again = chat.run("train", "config.yaml")
    assert "nothing to do" in again.out
    assert 'next: krill generate tuned --chat --chat-template chatml --prompt "Hello"\n' in again.out
    # Other weights of the same name are another training.
    file = chat.folder / "base" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    check_error(chat.run("train", "config.yaml"), 2, "the weights of the base model", hint="--overwrite")


def test_the_loss_is_over_learned_tokens_alone(chat: Job) -> None:
    import torch
    from transformers import LlamaForCausalLM

    found = conversations_of(chat.output)
    model = LlamaForCausalLM.from_pretrained(chat.folder / "base").eval()
    total = count = 0.0
    with torch.no_grad():
        for ids, labels in found:
            targets = torch.tensor([labels])
            learned = int((targets[:, 1:] != -100).sum())
            total += model(torch.tensor([ids]), labels=targets).loss.item() * learned
            count += learned
    rows = len(rows_of(chat.output))
    train = {"batch_size": rows, "max_steps": 1, "log_every": 1, "base_model": "base", "output_dir": "tuned"}
    chat.config["train"] = train
    chat.save()
    assert chat.run("train", "config.yaml", "--quiet").code == 0
    [line] = (chat.folder / "tuned" / "metrics.jsonl").read_text().splitlines()[:1]
    assert json.loads(line)["loss"] == pytest.approx(total / count, rel=1e-4)


def test_a_base_model_that_does_not_fit_is_refused(chat: Job) -> None:
    chat.config["train"] = {"base_model": "base", "output_dir": "tuned", "preset": "tiny"}
    chat.save()
    check_error(chat.run("train", "config.yaml"), 2, "`base_model` is `base`", "`preset`", hint="")
    chat.config["train"] = {"base_model": "nowhere", "output_dir": "tuned", "batch_size": 4}
    chat.save()
    outcome = chat.run("train", "config.yaml")
    check_error(outcome, 3, "`nowhere/model.safetensors` of `train.base_model`", hint="a finished model")


def test_a_model_is_talked_to_turn_by_turn_in_its_template(chat: Job) -> None:
    options = ("--chat", "--max-tokens", "4", "--temperature", "0", "--json")
    header = len("assistant\n") + 1
    first = "hello <|im_end|>"  # which stays text
    asked, _ = expected_row(chat.folder / "model", [{"role": "user", "content": first.replace("|", "x")}])
    outcome = chat.run("generate", "config.yaml", *options, "--prompt", first)
    assert outcome.code == 0, outcome.err
    assert outcome.result["prompt_tokens"] == len(asked) + header
    told = chat.run("generate", "config.yaml", *options, given="hello\n\nand krill?\n")
    assert told.code == 0, told.err
    alone = chat.run("generate", "config.yaml", *options, "--prompt", "hello")
    [answer] = alone.result["samples"]
    so_far = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": answer["text"]},
        {"role": "user", "content": "and krill?"},
    ]
    ids, _ = expected_row(chat.folder / "model", so_far)
    assert told.result["prompt_tokens"] == len(ids) + header
    check_error(chat.run("generate", "base", "--chat"), 2, "chat template", hint="chatml")


def test_a_chat_has_the_variables_and_the_date_of_the_config(chat: Job) -> None:
    turn = "{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}"
    asked = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    template = "{{ strftime_now('%Y-%B') ~ mood }}{% for m in messages %}" + turn + "{% endfor %}" + asked
    (chat.folder / "dated.jinja").write_text(template)
    options = ("--chat", "--max-tokens", "1", "--json", "--prompt", "hello")
    prompt = len("user\nhello\nassistant\n") + 3  # control tokens
    dated = {"chat_template": "dated.jinja", "chat_template_date": "2025-09-30"}
    chat.config.update(dated, chat_template_kwargs={"mood": "cheerful"})
    chat.save()
    outcome = chat.run("generate", "config.yaml", *options)
    assert outcome.code == 0, outcome.err
    assert outcome.result["prompt_tokens"] == len("2025-Septembercheerful") + prompt
    outcome = chat.run("generate", "base", *options, "--chat-template", "dated.jinja")
    assert outcome.code == 0, outcome.err
    assert outcome.result["prompt_tokens"] == len(f"{date.today():%Y-%B}") + prompt
