"""Spaces that become U+2581 on their way to a model that can read them as that.

In: the sections `normalizer` and `pre_tokenizer` of tokenizer.json. Out: the same steps without the one that
writes the marks, or None if there is no such step or something after it would see the spaces. Nothing is
held.

Every space of a text becomes three bytes, and the whole text is copied for it. A model that takes a space for
U+2581 (`BpeModel`) gives the same ids without; only offsets need the text as the library has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from krill.tokenizer.model_section import model_kind
from krill.tokenizer.normalizer_section import build_normalizer, flat_normalizers
from krill.tokenizer.pretokenizer_section import build_pre_tokenizer, flat_pre_tokenizers, unmarked_metaspace

if TYPE_CHECKING:
    from krill import _native

MARK = "\u2581"
_AFFIXES = ("continuing_subword_prefix", "end_of_word_suffix")


@dataclass(frozen=True, slots=True)
class Unmarked:
    """The steps that leave spaces as they are."""

    normalizer: _native.Normalizer | None
    pre_tokenizer: _native.PreTokenizer | None


def pre_tokenizer_left(normalizer: object, pre_tokenizer: object) -> object:
    """The section `pre_tokenizer` without the steps that look for a space where none is left (Gemma's)."""
    if not _ends_in_marks(normalizer):
        return pre_tokenizer
    left = [step for step in flat_pre_tokenizers(pre_tokenizer) if not _splits_at_spaces(step)]
    return {"type": "Sequence", "pretokenizers": left}


def unmarked_steps(parsed: Mapping[str, Any]) -> Unmarked | None:
    """The steps of a tokenizer, of which both sections were found right."""
    if not _may_read_spaces(parsed.get("model")):
        return None
    normalizer = parsed.get("normalizer")
    words = list(flat_pre_tokenizers(pre_tokenizer_left(normalizer, parsed.get("pre_tokenizer"))))
    if _ends_in_marks(normalizer):
        steps = flat_normalizers(normalizer)[:-1]
        before = {"type": "Sequence", "normalizers": steps} if steps else None
        return None if words else Unmarked(build_normalizer(before), None)
    if len(words) == 1 and (prefix := unmarked_metaspace(words[0], MARK)) is not None:
        return Unmarked(build_normalizer(normalizer), prefix)
    return None


def _may_read_spaces(model: Any) -> bool:
    return (
        isinstance(model, dict)
        and model_kind(model) == "BPE"
        and not model.get("ignore_merges")
        and not any(model.get(affix) for affix in _AFFIXES)
    )


def _ends_in_marks(normalizer: object) -> bool:
    match flat_normalizers(normalizer)[-1:]:
        case [{"type": "Replace", "pattern": {"String": " "}, "content": content}]:
            return bool(content == MARK)
    return False


def _splits_at_spaces(step: Mapping[str, Any]) -> bool:
    match step:
        case {"type": "Split", "pattern": {"String": str(string)}, "invert": False}:
            return " " in string
    return False
