"""Memory tokens: what a recurrent reader reads at the beginning of a segment and writes at its end.

Comes in: a tokenizer. Goes out: their ids. The tokens carry their own names, so a tokenizer that was saved
and loaded again still has them, and features made with it have them in place.
"""

from __future__ import annotations

from typing import Any

from krill.errors import ConfigError

READ = "[MEM_READ_{}]"
WRITE = "[MEM_WRITE_{}]"


def configure_memory_tokens(tokenizer: Any, memory_num_tokens: int = 16) -> dict[str, list[int]]:
    """Add memory tokens to a tokenizer of `transformers` or `tokenizers`; returns their ids.

    In every feature the reads then stand before the question and the writes after the context.
    """
    if memory_num_tokens < 0:
        raise ConfigError(f"`memory_num_tokens` is `{memory_num_tokens}`", hint="give a number from 0 on")
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "token_to_id"):
        raise ConfigError(
            f"`{type(tokenizer).__name__}` is no tokenizer that tokens can be added to",
            hint="give one of `transformers` with a fast backend, or `tokenizers.Tokenizer.from_file(path)`",
        )
    names = [name.format(number) for name in (READ, WRITE) for number in range(memory_num_tokens)]
    if hasattr(tokenizer, "backend_tokenizer"):
        tokenizer.add_tokens(names, special_tokens=True)
    else:
        tokenizer.add_special_tokens(names)
    reads, writes = memory_token_ids(backend)
    return {"mem_read_ids": reads[:memory_num_tokens], "mem_write_ids": writes[:memory_num_tokens]}


def memory_token_ids(library: Any) -> tuple[list[int], list[int]]:
    """The ids of the memory tokens that a tokenizer of the library has: reads, writes."""
    return _numbered(library, READ), _numbered(library, WRITE)


def _numbered(library: Any, name: str) -> list[int]:
    ids: list[int] = []
    while (found := library.token_to_id(name.format(len(ids)))) is not None:
        ids.append(found)
    return ids
