"""The `model` section of a BPE tokenizer as the native and as the library's model, for comparing them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tokenizers import models

from krill import _native
from krill.tokenizer.vocabulary import to_bytes


def native_model(
    section: dict[str, Any], *, byte_level: bool, reads_spaces_as_marks: bool = False
) -> _native.BpeModel:
    """The native model of a section in which merges are pairs or lines."""
    vocab: dict[str, int] = section["vocab"]
    size = 1 + max(vocab.values(), default=-1)
    pieces, flags = [b""] * size, bytearray(size)
    for token, number in vocab.items():
        word = to_bytes(token) if byte_level else token.encode()
        pieces[number] = token.encode() if word is None else word
        flags[number] = 3 if word else 1
    offsets = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])]).astype(np.int64)
    prefix, suffix = (section.get(name) or "" for name in ("continuing_subword_prefix", "end_of_word_suffix"))
    unk = section.get("unk_token")
    return _native.BpeModel(
        b"".join(pieces),
        offsets,
        np.frombuffer(bytes(flags), np.uint8),
        merge_ids(section, len(prefix)),
        byte_level=byte_level,
        byte_fallback=bool(section.get("byte_fallback")),
        unk=None if unk is None else vocab.get(unk, -1),
        fuse_unk=bool(section.get("fuse_unk")),
        prefix=prefix.encode(),
        suffix=suffix.encode(),
        ignore_merges=bool(section.get("ignore_merges")),
        reads_spaces_as_marks=reads_spaces_as_marks,
    )


def merge_ids(section: dict[str, Any], prefix_length: int = 0) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Left, right and new id of each merge."""
    vocab = section["vocab"]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in section["merges"]]
    ids = [number for a, b in pairs for number in (vocab[a], vocab[b], vocab[a + b[prefix_length:]])]
    return np.array(ids, np.uint32)


def library_model(section: dict[str, Any]) -> models.BPE:
    """The library's model of the same section, whose merges are pairs."""
    others = {key: value for key, value in section.items() if key not in ("type", "vocab", "merges")}
    options = {key: value for key, value in others.items() if value is not None}
    return models.BPE(section["vocab"], [tuple(pair) for pair in section["merges"]], **options)


def text_column(texts: list[bytes]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], bytes]:
    """Offsets and bytes of some texts."""
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return np.concatenate([np.zeros(1, np.int64), ends]), b"".join(texts)
