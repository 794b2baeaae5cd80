"""Jobs of conversations: a tokenizer without merges, whose tokens are known by hand, and what rows must
be."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jobs import Job

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
IGNORED = -100
_WORDS = ("krill", "swims", "größer", "你好", "🦐", "in", "the", "cold", "sea")

Message = dict[str, Any]


def write_tokenizer(folder: Path) -> Path:
    """A folder with a byte-level tokenizer that merges nothing: a token is a byte, or a control token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: at for at, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in CONTROL])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    return folder


def conversation(chance: random.Random, turns: int) -> list[Message]:
    """So many turns of a user and an assistant."""

    def text() -> str:
        return " ".join(chance.choices(_WORDS, k=chance.randint(1, 9)))

    roles = ("user", "assistant") * turns
    return [{"role": role, "content": text()} for role in roles]


def conversations(count: int, seed: int = 0) -> list[list[Message]]:
    chance = random.Random(seed)
    return [conversation(chance, chance.choice((1, 1, 2, 4))) for _ in range(count)]


def json_rows(chats: Iterable[Sequence[Message]]) -> bytes:
    """A row of each, one a line."""
    rows = ({"id": at, "messages": list(chat)} for at, chat in enumerate(chats))
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def expected_row(folder: Path, chat: Sequence[Message]) -> tuple[list[int], list[int]]:
    """The ids and labels of a conversation in ChatML, written out: turns of the assistant are learned, with
    their end and without their beginning. As nothing is merged, its pieces may be encoded one by one."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids: list[int] = []
    labels: list[int] = []
    for message in chat:
        learned = message["role"] == "assistant"
        for text, counts in (
            (f"<|im_start|>{message['role']}\n", False),
            (f"{message['content']}<|im_end|>", learned),
            ("\n", False),
        ):
            found = tokenizer.encode(text, add_special_tokens=False).ids
            ids += found
            labels += found if counts else [IGNORED] * len(found)
    return ids, labels


def make_chat(job: Job, chats: Sequence[Sequence[Message]] = (), **preprocess: Any) -> Job:
    """A job that prepares conversations in ChatML."""
    write_tokenizer(job.folder / "model")
    if chats:
        job.write("input.jsonl", json_rows(chats))
    job.config["datasets"] = [{"path": "input.jsonl", "type": "chat_template"}]
    job.config["tokenizer"] = {"path": "model"}
    job.config["chat_template"] = "chatml"
    job.set(**{"sequence_len": 256, **preprocess})
    return job


def rows_of(folder: Path) -> list[dict[str, list[int]]]:
    """All rows, as Hugging Face reads them."""
    import datasets

    return list(datasets.load_from_disk(str(folder)))


def conversations_of(folder: Path) -> list[tuple[list[int], list[int]]]:
    """The ids and labels of each conversation in the rows."""
    found = []
    for row in rows_of(folder):
        at = 0
        for length in row["seq_lengths"]:
            own = slice(at, at + length)
            found.append((row["input_ids"][own], row["labels"][own]))
            at += length
    return found
