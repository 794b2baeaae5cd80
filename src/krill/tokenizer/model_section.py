"""The model of a `tokenizer.json`, built natively of the arrays that its reader gives.

In: the `model` section without its vocabulary and merges, and their arrays. Out: a `ModelSpec`, which builds
the native model. Held in memory: the arrays (less than the file).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from krill import _native

# What the native tables can number: native/bpe/merge_table.hpp.
MAX_IDS: Final = 2**20
MAX_MERGES: Final = 2**20
_AFFIXES: Final = ("continuing_subword_prefix", "end_of_word_suffix")
MODELS: Final = ("BPE", "Unigram", "WordPiece", "WordLevel")
# Those that a model has to have, in the order in which the library looks for a model that they may be of.
_FIELDS: Final[Mapping[str, set[str]]] = {
    "BPE": {"vocab", "merges"},
    "WordPiece": {"vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"},
    "WordLevel": {"vocab", "unk_token"},
}


class NotSupported(Exception):
    """Why the native core can't run a tokenizer; the reason fits behind "because"."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The tokens of a model, by id, and what it does with words."""

    kind: str
    section: Mapping[str, Any]
    byte_level: bool
    """Whether its tokens are bytes, since the pre-tokenizer turns every byte into a letter."""
    tokens: NDArray[np.uint8]
    """What each id decodes to, one after the other."""
    offsets: NDArray[np.int64]
    flags: NDArray[np.uint8]
    scores: NDArray[np.float64]
    """Of a Unigram's pieces."""
    merges: NDArray[np.uint32]
    """Left, right and new id of each."""
    unknown: int | None
    """The id of the unknown token; -1 if the section names one that the vocabulary lacks."""
    reads_spaces_as_marks: bool = False
    """Whether words come with spaces in the place of U+2581."""

    def build(self) -> _native.Model:
        """The native model; `ValueError` if it makes no sense."""
        return _BUILDERS[self.kind](self)

    def lacks_bytes(self) -> bool:
        """Whether some byte is no token of a byte-level vocabulary."""
        starts = self.offsets[:-1]
        single = (self.offsets[1:] - starts == 1) & (self.flags & 2 != 0)
        return len(set(self.tokens[starts[single]].tolist())) < 256


def model_kind(model: Mapping[str, Any]) -> str:
    """The type of a model, which older files only say by its fields, as the library reads them."""
    if "type" in model:
        return type_of(model)
    if isinstance(model.get("vocab"), list):
        return "Unigram"
    return next((kind for kind, fields in _FIELDS.items() if model.keys() >= fields), "BPE")


def needs_letters(model: Any) -> bool:
    """Whether it sees more in the letters that stand for bytes than the bytes: marks of words that are other
    characters, or names of bytes for what is unknown."""
    if not isinstance(model, dict):
        return False
    affixes = (model.get(affix) for affix in _AFFIXES)
    written = "".join(affix for affix in affixes if isinstance(affix, str))
    names_bytes = model_kind(model) == "Unigram" and bool(model.get("byte_fallback"))
    return names_bytes or not all("!" <= character <= "~" for character in written)


def check_model(model: Any) -> str:
    """The kind of a model that can be run natively, of a section with or without its tokens."""
    if not isinstance(model, dict):
        raise NotSupported("it has no model")
    kind = model_kind(model)
    if kind not in MODELS:
        raise NotSupported(f"its model is {kind}")
    if not isinstance(model.get("vocab"), list if kind == "Unigram" else dict):
        raise NotSupported("its model has no vocabulary")
    if kind == "BPE" and not isinstance(model.get("merges"), list):
        raise NotSupported("its model has no merges")
    if missing := _FIELDS.get(kind, set()) - model.keys():
        raise NotSupported(f"its model lacks `{min(missing)}`")
    if model.get("dropout"):
        raise NotSupported("its model drops merges at random")
    if kind == "BPE" and model.get("byte_fallback") and any(model.get(affix) for affix in _AFFIXES):
        raise NotSupported("its model falls back to bytes and marks the parts of words")
    return kind


def unknown_id(kind: str, section: Mapping[str, Any], find: Callable[[str], int | None]) -> int | None:
    """The unknown token's id, as the library finds it."""
    if kind == "Unigram":
        unknown = section.get("unk_id")
        if unknown is not None and (type(unknown) is not int or unknown < 0):
            raise NotSupported(f"its unk_id is `{unknown}`")
        return unknown
    token = section.get("unk_token")
    if token is None and kind == "BPE":
        return None
    if not isinstance(token, str):
        raise NotSupported(f"its unk_token is `{token}`")
    found = find(token)
    return -1 if found is None else found


def type_of(section: Any) -> str:
    """The `type` of a section of the file."""
    kind = section.get("type") if isinstance(section, dict) else None
    return kind if isinstance(kind, str) else "nothing"


def _bpe(spec: ModelSpec) -> _native.Model:
    from krill import _native

    section = spec.section
    affixes = {
        name: (section.get(key) or "").encode() or None
        for name, key in (("prefix", "continuing_subword_prefix"), ("suffix", "end_of_word_suffix"))
    }
    return _native.BpeModel(
        spec.tokens,
        spec.offsets,
        spec.flags,
        spec.merges,
        byte_level=spec.byte_level,
        byte_fallback=bool(section.get("byte_fallback")),
        unk=spec.unknown,
        fuse_unk=bool(section.get("fuse_unk")),
        ignore_merges=bool(section.get("ignore_merges")),
        reads_spaces_as_marks=spec.reads_spaces_as_marks,
        **affixes,
    )


def _unigram(spec: ModelSpec) -> _native.Model:
    from krill import _native

    fallback = bool(spec.section.get("byte_fallback"))
    pieces = len(spec.scores)  # added tokens have the ids behind them
    if spec.unknown is not None and spec.unknown >= pieces:
        raise ValueError(f"its unk_id is {spec.unknown}, and its vocabulary has {pieces:,} pieces")
    offsets, flags = spec.offsets[: pieces + 1], spec.flags[:pieces]
    arrays = (spec.tokens[: offsets[-1]], offsets, flags, spec.scores)
    return _native.Unigram(*arrays, spec.unknown, fallback, spec.byte_level)


def _word_piece(spec: ModelSpec) -> _native.Model:
    from krill import _native

    prefix = spec.section["continuing_subword_prefix"]
    most = spec.section["max_input_chars_per_word"]
    if not isinstance(prefix, str) or type(most) is not int or not 0 <= most < 2**64:
        raise ValueError("its WordPiece model has a prefix or a limit of characters of the wrong kind")
    arrays = (spec.tokens, spec.offsets, spec.flags)
    return _native.WordPiece(*arrays, _known(spec.unknown), prefix.encode(), most, spec.byte_level)


def _word_level(spec: ModelSpec) -> _native.Model:
    from krill import _native

    return _native.WordLevel(spec.tokens, spec.offsets, spec.flags, _known(spec.unknown))


def _known(unknown: int | None) -> int | None:
    return None if unknown == -1 else unknown


_BUILDERS: Final[Mapping[str, Callable[[ModelSpec], _native.Model]]] = {
    "BPE": _bpe,
    "Unigram": _unigram,
    "WordPiece": _word_piece,
    "WordLevel": _word_level,
}
