"""Features one at a time, in the plainest way: what `features.py` and `assembly.py` are held to.

Comes in: a paragraph, a question, a tokenizer of Hugging Face's library and a layout. Goes out: dictionaries
of lists. Held in memory: the features of one question.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from krill.qa.layout import FeatureLayout

Feature = dict[str, Any]


def reference_features(
    library: Any,
    layout: FeatureLayout,
    context: str,
    question: str,
    answer: tuple[int, int] | None,
    *,
    max_seq_length: int,
    doc_stride: int,
    max_n_segs: int | None = None,
) -> list[Feature]:
    """The features of one question; `answer` is its begin and end in the context. Text must be in NFC."""
    assert unicodedata.is_normalized("NFC", context)
    encoding = library.encode(context, add_special_tokens=False)
    question_ids = library.encode(question.lstrip(), add_special_tokens=False).ids
    room = max_seq_length - layout.fixed - len(question_ids)
    windows = reference_windows(len(encoding.ids), room, doc_stride)[:max_n_segs]
    return [
        _feature(
            layout, encoding.ids[begin:end], encoding.offsets[begin:end], question_ids, answer, max_seq_length
        )
        for begin, end in windows
    ]


def reference_windows(tokens: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Begin and end of each window; none if the stride leaves no way to go on."""
    if tokens <= room:
        return [(0, tokens)]
    if room <= stride or room <= 0:
        return []
    windows = []
    begin = 0
    while True:
        end = min(begin + room, tokens)
        windows.append((begin, end))
        if end == tokens:
            return windows
        begin += room - stride


def _feature(
    layout: FeatureLayout,
    ids: list[int],
    offsets: list[tuple[int, int]],
    question: list[int],
    answer: tuple[int, int] | None,
    width: int,
) -> Feature:
    tokens: list[tuple[int, int, tuple[int, int]]] = []
    context_at = cls_at = None
    for number, piece in enumerate(layout.pieces):
        if layout.cls is not None and layout.cls[0] == number:
            cls_at = len(tokens) + layout.cls[1]
        if piece.kind == "context":
            context_at = len(tokens)
            tokens += [(token, piece.type_id, span) for token, span in zip(ids, offsets, strict=True)]
        else:
            own = question if piece.kind == "question" else piece.ids
            tokens += [(token, piece.type_id, (0, 0)) for token in own]
    padding = [(layout.pad_id, layout.pad_type, (0, 0))] * (width - len(tokens))
    shift = len(padding) if layout.pad_left else 0
    mask = [1] * len(tokens)
    tokens, mask = (
        (padding + tokens, [0] * len(padding) + mask)
        if layout.pad_left
        else (tokens + padding, mask + [0] * len(padding))
    )
    cls_index = 0 if cls_at is None else cls_at + shift
    assert context_at is not None
    span = None if answer is None else reference_span(offsets, answer)
    return {
        "input_ids": [token for token, _, _ in tokens],
        "attention_mask": mask,
        "token_type_ids": [type_id for _, type_id, _ in tokens],
        "offset_mapping": [list(offset) for _, _, offset in tokens],
        "start_positions": cls_index if span is None else context_at + shift + span[0],
        "end_positions": cls_index if span is None else context_at + shift + span[1],
        "cls_index": cls_index,
    }


def reference_span(offsets: list[tuple[int, int]], answer: tuple[int, int]) -> tuple[int, int] | None:
    """First and last token of an answer in a window, or None if it does not lie in it."""
    begin, end = answer
    if not offsets or offsets[0][0] > begin or offsets[-1][1] < end:
        return None
    first = max(number for number, span in enumerate(offsets) if span[0] <= begin)
    last = min(number for number, span in enumerate(offsets) if span[1] >= end)
    if first > last:  # one character that takes several tokens
        while first > 0 and offsets[first - 1] == offsets[first]:
            first -= 1
        while last + 1 < len(offsets) and offsets[last + 1] == offsets[last]:
            last += 1
    return first, last
