"""A saved tokenizer to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from krill.errors import InputError
from krill.storage.hub import push_files
from krill.tokenizer.files import CONFIG_FILE, RANK_FILE, TOKENIZER_FILE

# What the run noted about the machine and its paths stays at home.
UPLOADED: Final = (TOKENIZER_FILE, "vocab.json", "merges.txt", CONFIG_FILE, RANK_FILE)


def push_tokenizer(folder: Path, repo_id: str, *, private: bool = False, endpoint: str | None = None) -> str:
    """Uploads the tokenizer in `folder`; returns the repository's address."""
    if not (folder / TOKENIZER_FILE).is_file():
        raise InputError(
            f"no tokenizer at `{folder}`", hint="train one there first: krill tokenizer train --output ..."
        )
    return push_files(
        folder,
        UPLOADED,
        repo_id,
        message="Tokenizer trained with Krill",
        private=private,
        endpoint=endpoint,
    )
