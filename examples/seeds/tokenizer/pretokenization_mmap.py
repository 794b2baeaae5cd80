"""`pretokenize_mmap` where older scripts look for it. It reads in fixed buffers; nothing is mapped."""

from __future__ import annotations

from collections.abc import Sequence

from krill.tokenizer import word_counts

DEFAULT_SPLIT_TOKEN = "<|endoftext|>"


def pretokenize_mmap(
    file_path: str,
    special_tokens: Sequence[str] = (),
    num_processes: int | str = "auto",
    split_token: str = DEFAULT_SPLIT_TOKEN,
    memory: str | int = "auto",
) -> dict[tuple[bytes, ...], int]:
    """How often each word of a file occurs, as a tuple of its bytes; `num_processes` are threads, `memory` is
    a budget for counting. Special tokens are borders between words."""
    borders = tuple(dict.fromkeys([split_token, *special_tokens]))
    counts = word_counts(file_path, special_tokens=borders, memory=memory, threads=num_processes)
    return {tuple(bytes([byte]) for byte in word): count for word, count in counts.items()}
