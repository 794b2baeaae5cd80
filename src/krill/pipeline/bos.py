"""The token that begins a document, where the config asks for one.

In: an encoder. Out: the id to put before each document, or nothing if the tokenizer does so itself. Held in
memory: nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.errors import ConfigError
from krill.tokenizer import Encoder
from krill.tokenizer.declared import declared_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Looked for, in this order, where no file beside the tokenizer declares a `bos_token`.
_NAMES: Final = ("<|begin_of_text|>", "<|startoftext|>", "<s>", "<bos>", "<|bos|>")


def missing_bos(encoder: Encoder) -> int | None:
    """The id of the tokenizer's BOS; None if its own post-processing puts it before every text."""
    bos = _bos_id(encoder)
    first = _ids(encoder, "a")
    return None if len(first) and int(first[0]) == bos else bos


def _bos_id(encoder: Encoder) -> int:
    declared = declared_tokens(Path(encoder.name).parent, "bos_token")
    for name in [*filter(None, declared), *_NAMES]:
        found = _single_id(encoder, name)
        if found is not None:
            return found
    raise ConfigError(
        f"`preprocess.bos` is set, and the tokenizer `{encoder.name}` has no beginning-of-text token",
        hint="set `preprocess.bos: false`, or declare a `bos_token` in `tokenizer_config.json` beside it",
    )


def _single_id(encoder: Encoder, token: str) -> int | None:
    """The id that a text which is this token has more than an empty one; None if it has several."""
    ids, others = _ids(encoder, token).tolist(), _ids(encoder, "").tolist()
    if len(ids) != len(others) + 1:
        return None
    return next((a for a, b in zip(ids, others, strict=False) if a != b), int(ids[-1]))


def _ids(encoder: Encoder, text: str) -> NDArray[Any]:
    import pyarrow as pa

    return encoder.encode(pa.array([text], pa.large_string()))[0]
