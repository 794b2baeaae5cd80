"""Tiny readers: the task of `recall_task.py` in features of a few tokens, for a few thousand weights."""

from __future__ import annotations

from pathlib import Path

from krill.qa import Shape, prepare
from recall_task import AROUND, write_questions, write_tokenizer

LENGTH = 28
MEMORY_TOKENS = 2
TINY_READER = {"hidden": 16, "layers": 1, "heads": 1, "batch_size": 4, "learning_rate": 0.01}


def write_recall(folder: Path, name: str, documents: int, *, segments: tuple[int, int], seed: int) -> Path:
    """Features of questions over so many segments, and `tokenizer.json` beside them, both in `folder`."""
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.exists():
        write_tokenizer(tokenizer, memory_tokens=MEMORY_TOKENS)
    words = LENGTH - AROUND - 2 * MEMORY_TOKENS
    questions = write_questions(
        folder / f"{name}.jsonl", documents, segments=segments, words=words, seed=seed
    )
    prepare(questions, tokenizer, output=folder / name, shape=Shape(LENGTH, 0), memory="256MB", threads=1)
    return folder / name
