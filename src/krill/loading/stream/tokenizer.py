"""Whatever tokenizer is given, as a file that Krill opens or as an encoder that it has.

In: a path, a `tokenizers.Tokenizer`, a fast tokenizer of transformers, or one of Krill's. Out: the path of a
`tokenizer.json`, which the native encoder runs wherever it gives the same ids and Hugging Face's library does
otherwise, or an `Encoder` as it is. Held in memory: the tokenizer as JSON while it is written down.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from krill.errors import ConfigError, InputError
from krill.storage.atomic import encode_json
from krill.tokenizer import Encoder
from krill.tokenizer.open import tokenizer_file

_HINT = (
    "give a tokenizer.json or its folder, a tokenizers.Tokenizer, a fast tokenizer of transformers, or what"
    " krill.tokenizer.load returns"
)


@contextmanager
def as_file_or_encoder(tokenizer: Any) -> Iterator[Path | Encoder]:
    """A tokenizer that is an object of another library is written to a file for as long as this is open."""
    if isinstance(tokenizer, str | Path):
        yield _existing(tokenizer)
        return
    from krill.tokenizer import MemoryEfficientBPE
    from krill.tokenizer.tokenizer import Tokenizer

    if isinstance(tokenizer, Tokenizer):
        yield tokenizer.encoder
    elif all(hasattr(tokenizer, name) for name in ("encode", "eos_id", "vocab_size", "describe")):
        yield tokenizer
    else:
        with TemporaryDirectory(prefix="krill-tokenizer-") as folder:
            file = Path(folder) / "tokenizer.json"
            if isinstance(tokenizer, MemoryEfficientBPE):
                tokenizer.save(file)
            else:
                file.write_text(_as_json(tokenizer), encoding="utf-8")
                declared = {"eos_token": getattr(tokenizer, "eos_token", None)}
                (file.parent / "tokenizer_config.json").write_bytes(encode_json(declared))
            yield file


def _existing(path: str | Path) -> Path:
    try:
        return tokenizer_file(path)
    except InputError:
        raise InputError(f"no tokenizer at `{path}`", hint=_HINT) from None


def _as_json(tokenizer: Any) -> str:
    """What `tokenizers` would save. transformers' fast tokenizers have one of its tokenizers inside."""
    library = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(library, "to_str"):
        raise ConfigError(f"`tokenizer` is a `{type(tokenizer).__name__}`", hint=_HINT)
    try:
        return str(library.to_str())
    except Exception as error:  # the library raises plain Exception for parts that are written in Python
        raise ConfigError(
            f"the tokenizer can't be saved, so it can't be run here: {error}",
            hint="leave out its parts that are written in Python",
        ) from None
