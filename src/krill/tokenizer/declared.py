"""A tokenizer's file and those beside it: its content, what it is by content, which token ends a text.

In: a `tokenizer.json`, and the files beside it that declare special tokens. Out: bytes, a fingerprint, EOS.
Held in memory: what is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from krill.errors import InputError
from krill.storage.input_file import open_regular, read_input, read_json

# Gemma 3, one of the largest, has 33 MB.
MOST_TOKENIZER: Final = 500_000_000
HINT: Final = "point `tokenizer.path` at a tokenizer.json, or a folder that holds one"
DECLARATIONS: Final = ("tokenizer_config.json", "special_tokens_map.json")
_EOS_NAMES: Final = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>")


def read_tokenizer_file(file: Path) -> bytes:
    """The file's bytes, or an error that says what to do."""
    try:
        return read_input(file, MOST_TOKENIZER)
    except OSError as error:
        raise InputError(f"can't read the tokenizer `{file}`: {error.strerror}", hint=HINT) from None


def file_fingerprint(file: Path) -> str:
    """Of everything that shapes the ids: the tokenizer's content, and EOS and BOS as declared beside it."""
    declared = [token for key in ("eos_token", "bos_token") for token in declared_tokens(file.parent, key)]
    try:
        with open_regular(file) as stream:
            digest = hashlib.file_digest(stream, "sha256")
    except OSError as error:
        raise InputError(f"can't read the tokenizer `{file}`: {error.strerror}", hint=HINT) from None
    digest.update(repr(declared).encode())
    return digest.hexdigest()


def find_eos(
    file: Path, token_to_id: Callable[[str], int | None], special: Collection[str]
) -> tuple[str | None, int | None]:
    """The declared `eos_token`, else the first well-known name among the special tokens, else none."""
    for declared in declared_tokens(file.parent, "eos_token"):
        if declared is not None and token_to_id(declared) is not None:
            return declared, token_to_id(declared)
    token = next((name for name in _EOS_NAMES if name in special), None)
    return token, None if token is None else token_to_id(token)


def declared_tokens(folder: Path, key: str) -> list[str | None]:
    """What the files beside a tokenizer declare as its `eos_token` or `bos_token`."""
    return [_declared(folder / name, key) for name in DECLARATIONS]


def _declared(file: Path, key: str) -> str | None:
    try:
        declared = read_json(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        # Without it, another token would end documents, or none.
        fault = error.strerror if isinstance(error, OSError) else f"not JSON ({error})"
        raise InputError(
            f"can't read `{file}`, which declares a tokenizer's special tokens: {fault}",
            hint="restore the file, or take it away",
        ) from None
    value = declared.get(key) if isinstance(declared, dict) else None
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None
