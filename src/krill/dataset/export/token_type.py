"""The type of tokens in a file: chosen by the vocabulary, and never one that folds an id into another.

Comes in: tokens as the dataset stores them. Goes out: the same numbers in the type of the file. Held in
memory: a batch of tokens, twice where the types differ.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from krill.dataset.export.options import ExportOptions
from krill.dataset.layout import smallest_dtype
from krill.errors import ConfigError, InputError

# Megatron-LM itself gives vocabularies below this size 16 bits, and others 32.
_SMALL_VOCABULARY: Final = 65_500


def token_dtype(options: ExportOptions, vocab_size: int) -> str:
    """The type as asked for, or the one that the format's own tools would choose."""
    if options.dtype == "auto":
        if options.to == "megatron":
            return "uint16" if vocab_size < _SMALL_VOCABULARY else "int32"
        return "uint16" if vocab_size <= 2**16 else smallest_dtype(vocab_size)
    if vocab_size - 1 > np.iinfo(options.dtype).max:
        raise ConfigError(
            f"--dtype is `{options.dtype}`, which can't hold the vocabulary of {vocab_size:,} tokens",
            hint="leave it out: the type is then chosen by the vocabulary",
        )
    return options.dtype


def as_type(tokens: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Tokens in the type of a file."""
    if len(tokens) and not np.can_cast(tokens.dtype, dtype):
        limits = np.iinfo(dtype)
        for token in (tokens.min(), tokens.max()):
            if not limits.min <= token <= limits.max:
                raise InputError(
                    f"a token of the dataset is `{token}`, which is not in its vocabulary",
                    hint="`krill validate` names the file; copy it again, or write it with --overwrite",
                )
    return np.ascontiguousarray(tokens, dtype)
