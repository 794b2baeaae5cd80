"""Conversations prepared by Krill beside TRL's own preparation, one core each: speed, and that they agree.

Both read the same lines and give ids and what is learned of them. TRL prepares what `SFTTrainer` does
(`assistant_only_loss`), in one process: with a template that has markers, and for the template without them
with the training template that it puts in its place. Krill's seconds are those of the whole command, starting
included, TRL's of its preparation alone; CPU seconds say more where others compute on the machine.
`python benchmarks/chat.py`, with BENCH_CHATS conversations (20,000).
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from pathlib import Path

import yaml

from measured import Outcome, run_measured
from results import PEAK, SECONDS, Column, again, figures

CHATS = int(os.environ.get("BENCH_CHATS", "20000"))
TURNS = 10
_TRL = """
import os, sys, time
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch
torch.set_num_threads(1)
from pathlib import Path
from datasets import load_dataset
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer

rows = load_dataset("json", data_files="chats.jsonl", split="train", cache_dir="cache")
tokenizer = AutoTokenizer.from_pretrained("model")
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8,
    num_hidden_layers=1, num_attention_heads=1))
config = SFTConfig(output_dir="trl", assistant_only_loss=True, max_length=None, report_to=[], use_cpu=True,
    bf16=False)
begun, begun_cpu = time.monotonic(), time.process_time()
made = SFTTrainer(model=model, args=config, train_dataset=rows, processing_class=tokenizer).train_dataset
seconds, cpu = time.monotonic() - begun, time.process_time() - begun_cpu
learned = sum(label != -100 for labels in made["labels"] for label in labels)
print(seconds, cpu, sum(map(len, made["input_ids"])), learned)
"""


def write_chats(path: Path) -> None:
    """Conversations of ten turns of words that a tokenizer has met."""
    chance = random.Random(0)
    words = ["".join(chance.choices("aeioubdfgklmnprst", k=chance.randint(2, 8))) for _ in range(3000)]
    with path.open("w", encoding="utf-8") as file:
        for _ in range(CHATS):
            roles = ("user", "assistant") * TURNS
            messages = [
                {"role": role, "content": " ".join(chance.choices(words, k=chance.randint(5, 40)))}
                for role in roles
            ]
            file.write(json.dumps({"messages": messages}) + "\n")


def krill_run(folder: Path, output: str) -> Outcome:
    config = {
        "datasets": [{"path": "chats.jsonl", "type": "chat_template"}],
        "tokenizer": {"path": "model"},
        "preprocess": {"prepared_path": output, "sequence_len": 8192, "packing": "none", "dedup": "none"},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    krill = Path(sys.executable).with_name("krill")
    command = [krill, "preprocess", "config.yaml", "--threads", "1", "--memory", "300MB", "--json", "--quiet"]
    done = run_measured(command, cwd=folder)
    assert done.code == 0, done.err
    return done


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from chat_models import TRL_TEMPLATES, make_model

    templates = {path.stem: path.read_text() for path in TRL_TEMPLATES}
    print(f"{CHATS:,} conversations of {TURNS} turns\n")
    results = again("chat", "trl", columns=_COLUMNS, keys=("template", "program"))
    for name in ("qwen2_5_training", "qwen2_5"):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            make_model(folder / "model", templates[name])
            write_chats(folder / "chats.jsonl")
            ours = krill_run(folder, "out")
            (folder / "peer.py").write_text(_TRL)
            peer = run_measured([Path(sys.executable), "peer.py"], cwd=folder, timeout=3600)
            assert peer.code == 0, peer.err[-2000:]
            *times, tokens, learned = peer.out.split()[-4:]
            seconds, cpu = map(float, times)
            found = ours.result["tokens"]
            assert found["kept"] == int(tokens), "both prepare the same tokens"
            krill = {"cpu": ours.cpu_seconds, "tokens": found["kept"], "learned": found["trained"]}
            results.add(template=name, program="Krill", **krill, **figures(ours))
            trl = {"seconds": seconds, "cpu": cpu, "peak": peer.peak / 1e6, "tokens": int(tokens)}
            beside = {"learned": int(learned), "times": cpu / ours.cpu_seconds}
            results.add(template=name, program="TRL", **trl, **beside)
    results.save()


_COLUMNS = (
    Column("template", "template"),
    Column("program", "program"),
    SECONDS,
    Column("cpu", "CPU seconds", ",.1f"),
    PEAK,
    Column("tokens", "tokens", ","),
    Column("learned", "learned", ","),
    Column("times", "CPU time / Krill's", ",.1f", "x"),
)


if __name__ == "__main__":
    main()
