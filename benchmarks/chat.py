"""Conversations to ids and what is learned: Krill beside TRL's SFTTrainer.

The conversations are made of the shared Markdown sample, cut into turns of 20 to 80 words. Each side has a
process of its own on one core (`taskset`) and goes from the JSON lines to ids and masks: TRL as its trainer
prepares a dataset with `assistant_only_loss`, Krill by rendering and encoding each row, without packing and
writing. Templates are those that ship with trl: with markers both take the same; without, TRL takes its
training template in place of the stock one, as it does by itself, and Krill the stock one. Seconds are CPU
time without imports and opening. With markers, ids and masks of the first 200 conversations must be equal.

    python benchmarks/chat.py --count 4000 --turns 10
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measured import Outcome, run_measured
from real_text import SAMPLE

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

TEMPLATES = ("qwen2_5_training", "llama3_training", "qwen2_5", "llama3", "gemma3")
COMPARED = 200
HEAD = "| template | TRL | peak | Krill | peak | times |\n" + "| --- " * 6 + "|"


def main() -> None:
    """The table; or, in a process that this one has started, one side."""
    options = parsed()
    if options.once:
        sides = {"trl": trl_side, "krill": krill_side}
        print(json.dumps(sides[options.once](options.template, options.folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_rows(folder / "rows.jsonl", options.count, options.turns)
        write_tokenizer(folder / "tokenizer.json")
        print(HEAD, flush=True)
        for template in options.templates:
            report(template, folder, options.rounds)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=4000, help="conversations")
    parser.add_argument("--turns", type=int, default=10, help="messages in each")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many is shown")
    parser.add_argument("--templates", nargs="+", default=TEMPLATES)
    parser.add_argument("--once", help=argparse.SUPPRESS)
    parser.add_argument("--template", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def sample_words() -> list[str]:
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as file:
        return [word for line in file for word in json.loads(line)["text"].split()]


def write_rows(path: Path, count: int, turns: int) -> None:
    words, rng = sample_words(), random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(count):
            messages = []
            for turn in range(turns):
                begin, size = rng.randrange(len(words) - 80), rng.randint(20, 80)
                content = " ".join(words[begin : begin + size])
                messages.append({"role": "assistant" if turn % 2 else "user", "content": content})
            file.write(json.dumps({"messages": messages}) + "\n")


def write_tokenizer(path: Path) -> None:
    """Byte-level, 16,000 tokens, with a token for each control string of trl's templates."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    from chat_models import tokenizer_json

    bare = Tokenizer.from_str(tokenizer_json())
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = bare.pre_tokenizer, bare.decoder
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=16000, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([" ".join(sample_words()[:500_000])], trainer)
    for token in bare.get_added_tokens_decoder().values():
        (made.add_special_tokens if token.special else made.add_tokens)([token])
    path.write_text(made.to_str(), encoding="utf-8")


def report(template: str, folder: Path, rounds: int) -> None:
    """A row: both sides, in turn, so that a busy moment hits both."""
    found: dict[str, list[tuple[dict[str, Any], Outcome]]] = {"trl": [], "krill": []}
    for _ in range(rounds):
        for side, outcomes in found.items():
            command = [sys.executable, __file__, "--once", side, "--template", template, "--folder", folder]
            outcome = run_measured(["/usr/bin/taskset", "-c", "0", *command])
            if outcome.code:
                raise SystemExit(outcome.err)
            outcomes.append((outcome.result, outcome))
    # A training template may write other text than the stock one, and marks the newline behind a stop token.
    if template.endswith("_training"):
        sums = {result["sum"] for outcomes in found.values() for result, _ in outcomes}
        if len(sums) != 1:
            raise SystemExit(f"ids or masks differ: {sums}")
    each = {side: min(result["seconds"] for result, _ in outcomes) for side, outcomes in found.items()}
    peaks = {side: max(outcome.peak for _, outcome in outcomes) for side, outcomes in found.items()}
    cells = [template]
    for side in found:
        cells += [f"{1 / each[side]:,.0f} conversations/s", f"{peaks[side] / 1e6:,.0f} MB"]
    print(f"| {' | '.join(cells)} | {each['trl'] / each['krill']:.1f} |", flush=True)


def digest(ids: list[list[int]], masks: list[list[int]]) -> str:
    """Of the first conversations; the first token of each is never learned."""
    rows = [[own, [0, *mask[1:]]] for own, mask in zip(ids[:COMPARED], masks[:COMPARED], strict=True)]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def template_source(name: str) -> str:
    from chat_models import TRL_TEMPLATES

    return next(path.read_text() for path in TRL_TEMPLATES if path.stem == name)


def krill_side(template: str, folder: Path) -> dict[str, Any]:
    """Rendered row by row, encoded five hundred at a time."""
    import orjson

    from chat_models import DATE, make_model
    from krill.chat import ChatFormat, ChatOptions, ChatRenderer, encode_chat
    from krill.tokenizer.native import NativeEncoder
    from krill.tokenizer.open import open_file

    content = (folder / "tokenizer.json").read_text()
    model = make_model(folder / template, template_source(template), content)
    renderer = ChatRenderer.open(model, ChatOptions(date=DATE))
    encoder = open_file(model / "tokenizer.json", None, 1)
    assert isinstance(encoder, NativeEncoder)
    ids: list[list[int]] = []
    masks: list[list[int]] = []
    begun, count = time.process_time(), 0
    with (folder / "rows.jsonl").open("rb") as file:
        while lines := file.readlines(2_000_000):
            chats = []
            for line in lines:
                rendered = renderer.render(orjson.loads(line), ChatFormat())
                assert isinstance(rendered, list), rendered
                chats += rendered
            encoded = encode_chat(encoder, chats, renderer.control)
            at = 0
            for length in encoded.lengths[: max(0, COMPARED - count)].tolist():
                ids.append(encoded.ids[at : at + length].tolist())
                masks.append(encoded.trained[at : at + length].tolist())
                at += length
            count += len(chats)
    return {"seconds": (time.process_time() - begun) / count, "sum": digest(ids, masks)}


def trl_side(template: str, folder: Path) -> dict[str, Any]:
    """What the trainer does with a dataset before the first step, less what it does with a single row."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import datasets
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    from chat_models import EOS, library_tokenizer

    torch.set_num_threads(1)
    datasets.disable_progress_bars()
    source = template_source(f"{template.removesuffix('_training')}_training")
    tokenizer = library_tokenizer(source, (folder / "tokenizer.json").read_text())
    tokenizer.pad_token = EOS
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), num_key_value_heads=1, **shape))
    rows = datasets.load_dataset(
        "json", data_files=str(folder / "rows.jsonl"), split="train", cache_dir=tempfile.mkdtemp(dir=folder)
    )
    seconds = []
    for some in (rows.select(range(1)), rows):
        options = SFTConfig(
            output_dir=str(folder / "out"),
            assistant_only_loss=True,
            max_length=None,
            report_to=[],
            use_cpu=True,
            bf16=False,
        )
        begun = time.process_time()
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            trainer = SFTTrainer(model, args=options, train_dataset=some, processing_class=tokenizer)
        seconds.append(time.process_time() - begun)
    prepared = trainer.train_dataset[:COMPARED]
    masks = [[int(label != -100) for label in labels] for labels in prepared["labels"]]
    each = (seconds[1] - seconds[0]) / (len(rows) - 1)
    return {"seconds": each, "sum": digest(prepared["input_ids"], masks)}


if __name__ == "__main__":
    main()
