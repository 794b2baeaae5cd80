"""Conversations prepared by Krill beside TRL's own preparation, one core each: speed, and that they agree.

Both read the same lines and give ids and what is learned of them. TRL prepares what `SFTTrainer` does
(`assistant_only_loss`), in one process: with a template that has markers, and for the template without them
with the training template that it puts in its place. Krill's seconds are those of the whole command, starting
included, TRL's of its preparation alone; CPU seconds say more where others compute on the machine.

Then Krill alone, on BENCH_MB megabytes of conversations (100): its peak under `--memory 300MB`.
`python benchmarks/chat.py`, with BENCH_CHATS conversations (20,000); of the two parts, `speed` or `peak` is
one: `BENCH_MB=1000 python benchmarks/chat.py peak`.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from itertools import count
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chat_models import TRL_TEMPLATES, make_model
from measured import Outcome, run_measured
from results import PEAK, SECONDS, Column, Results, again, figures

CHATS = int(os.environ.get("BENCH_CHATS", "20000"))
SIZE = int(os.environ.get("BENCH_MB", "100")) * 10**6
MEMORY = 300
PARTS = ("speed", "peak")
TEMPLATES = ("qwen2_5_training", "qwen2_5")
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


def write_chats(path: Path, *, most: int | None = None, size: int | None = None) -> None:
    """Conversations of ten turns of words that a tokenizer has met, so many, or of so many bytes."""
    chance = random.Random(0)
    words = ["".join(chance.choices("aeioubdfgklmnprst", k=chance.randint(2, 8))) for _ in range(3000)]
    with path.open("w", encoding="utf-8") as file:
        written = 0
        for number in count():
            if number == most or (size is not None and written >= size):
                break
            roles = ("user", "assistant") * TURNS
            messages = [
                {"role": role, "content": " ".join(chance.choices(words, k=chance.randint(5, 40)))}
                for role in roles
            ]
            written += file.write(json.dumps({"messages": messages}) + "\n")


def krill_run(folder: Path, output: str) -> Outcome:
    config = {
        "datasets": [{"path": "chats.jsonl", "type": "chat_template"}],
        "tokenizer": {"path": "model"},
        "preprocess": {"prepared_path": output, "sequence_len": 8192, "packing": "none", "dedup": "none"},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    krill = Path(sys.executable).with_name("krill")
    command = [
        krill,
        "preprocess",
        "config.yaml",
        "--threads",
        "1",
        "--memory",
        f"{MEMORY}MB",
        "--json",
        "--quiet",
    ]
    done = run_measured(command, cwd=folder)
    assert done.code == 0, done.err
    return done


def measure_speed(results: Results, name: str, template: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_model(folder / "model", template)
        write_chats(folder / "chats.jsonl", most=CHATS)
        read = (folder / "chats.jsonl").stat().st_size / 1e6
        ours = krill_run(folder, "out")
        (folder / "peer.py").write_text(_TRL)
        peer = run_measured([Path(sys.executable), "peer.py"], cwd=folder, timeout=3600)
        assert peer.code == 0, peer.err[-2000:]
        *times, tokens, learned = peer.out.split()[-4:]
        seconds, cpu = map(float, times)
        assert ours.result["tokens"]["kept"] == int(tokens), "both prepare the same tokens"
        add_krill(results, name, read, ours)
        trl = {"seconds": seconds, "cpu": cpu, "peak": peer.peak / 1e6, "tokens": int(tokens)}
        beside = {"learned": int(learned), "times": cpu / ours.cpu_seconds}
        results.add(template=name, read=read, program="TRL", **trl, **beside)


def measure_peak(results: Results, name: str, template: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_model(folder / "model", template)
        write_chats(folder / "chats.jsonl", size=SIZE)
        ours = krill_run(folder, "out")
        add_krill(results, name, SIZE / 1e6, ours)
        assert ours.peak <= MEMORY * 1e6, "the run stays under --memory"


def add_krill(results: Results, name: str, read: float, ours: Outcome) -> None:
    found = ours.result["tokens"]
    krill = {"cpu": ours.cpu_seconds, "tokens": found["kept"], "learned": found["trained"]}
    results.add(template=name, read=read, program="Krill", **krill, **figures(ours))


def main() -> None:
    parts = sys.argv[1:] or PARTS
    if not set(parts) <= set(PARTS):
        sys.exit(f"the parts are {' and '.join(PARTS)}")
    templates = {path.stem: path.read_text() for path in TRL_TEMPLATES}
    results = again("chat", "trl", columns=_COLUMNS, keys=("template", "read", "program"))
    if "speed" in parts:
        print(f"{CHATS:,} conversations of {TURNS} turns\n")
        for name in TEMPLATES:
            measure_speed(results, name, templates[name])
    if "peak" in parts:
        for name in TEMPLATES:
            measure_peak(results, name, templates[name])
    results.save()


_COLUMNS = (
    Column("template", "template"),
    Column("read", "conversations", ",.0f", " MB"),
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
