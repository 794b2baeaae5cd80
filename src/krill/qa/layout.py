"""How a tokenizer lays out a question and a context: where texts, special tokens and padding stand.

In: a tokenizer of Hugging Face's library, and what is declared beside it. Out: a `FeatureLayout`.
Held in memory: a few numbers.

Nothing is known beforehand of BERT, RoBERTa or XLNet: the tokenizer is asked to join two short texts, and
what it puts around them is the layout. A tokenizer that pads on the left has its context first, as in Hugging
Face's scripts. Memory tokens, which a recurrent reader reads at the beginning of a segment and writes at its
end, are tokens by names of their own, so a tokenizer that was saved and loaded again still has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from krill.dataset.fields import Fields
from krill.errors import ConfigError, InputError

PieceKind = Literal["fixed", "question", "context"]
_MOST_ID: Final = 2**31 - 1
_READ: Final = "[MEM_READ_{}]"
_WRITE: Final = "[MEM_WRITE_{}]"
# What the tokenizer is asked with: the first that it has tokens for.
_PROBES: Final = ("a", "the", "0", "1", "word", ".")


@dataclass(frozen=True, slots=True)
class LayoutPiece:
    """Tokens of one kind and one token type; `ids` are those of a fixed one."""

    kind: PieceKind
    type_id: int
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Declared:
    """What a tokenizer's files declare besides its vocabulary; None = nothing."""

    pad_left: bool | None = None
    pad_id: int | None = None
    pad_type: int | None = None
    cls_id: int | None = None
    bos_id: int | None = None


@dataclass(frozen=True, slots=True)
class FeatureLayout:
    """The pieces of a feature in their order, and its padding.

    `cls` is the piece of the classification token and its place in it; None if the tokenizer has none, and
    then place 0 of the feature stands for "no answer", as in Hugging Face's scripts.
    """

    pieces: tuple[LayoutPiece, ...]
    pad_left: bool
    pad_id: int
    pad_type: int
    cls: tuple[int, int] | None

    @property
    def fixed(self) -> int:
        return sum(len(piece.ids) for piece in self.pieces)

    @property
    def context(self) -> int:
        return next(number for number, piece in enumerate(self.pieces) if piece.kind == "context")

    def to_json(self) -> dict[str, Any]:
        return {
            "pieces": [[piece.kind, piece.type_id, list(piece.ids)] for piece in self.pieces],
            "pad_left": self.pad_left,
            "pad_id": self.pad_id,
            "pad_type": self.pad_type,
            "cls": None if self.cls is None else list(self.cls),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FeatureLayout:
        return cls.from_fields(Fields(value, source="layout"))

    @classmethod
    def from_fields(cls, fields: Fields) -> FeatureLayout:
        pieces = tuple(_piece(fields, number) for number in range(len(fields.values("pieces"))))
        kinds = [piece.kind for piece in pieces if piece.kind != "fixed"]
        if sorted(kinds) != ["context", "question"]:
            fields.refuse("pieces", "must have one question and one context")
        place = None if fields.is_null("cls") else fields.counts("cls")
        if place is not None and (
            len(place) != 2 or place[0] >= len(pieces) or place[1] >= len(pieces[place[0]].ids)
        ):
            fields.refuse("cls", "is not a place in a piece")
        return cls(
            pieces,
            fields.flag("pad_left"),
            fields.count("pad_id", most=_MOST_ID),
            fields.count("pad_type", most=_MOST_ID),
            None if place is None else (place[0], place[1]),
        )


def _piece(fields: Fields, number: int) -> LayoutPiece:
    where = f"pieces[{number}]"
    value = fields.values("pieces")[number]
    if not isinstance(value, list) or len(value) != 3 or value[0] not in get_args(PieceKind):
        fields.refuse(where, "is not a piece of a feature")
    kind, type_id, ids = value
    numbers = [type_id, *ids] if isinstance(ids, list) else [None]
    if any(type(each) is not int or not 0 <= each <= _MOST_ID for each in numbers):
        fields.refuse(where, "has an invalid id")
    if ids and kind != "fixed":
        fields.refuse(where, "has ids, and is not fixed")
    return LayoutPiece(kind, type_id, tuple(ids))


def find_layout(
    tokenizer: Any, declared: Declared, reads: Sequence[int] = (), writes: Sequence[int] = ()
) -> FeatureLayout:
    """Probe the tokenizer; `reads` and `writes` are the memory tokens before questions and after contexts."""
    probed = _probe(tokenizer)
    pad_left = declared.pad_left
    if pad_left is None:
        # Undeclared: a classification token after both texts stays in its place only if padding is left.
        texts = [number for number, piece in enumerate(probed) if piece.kind != "fixed"]
        pad_left = any(declared.cls_id in piece.ids for piece in probed[texts[-1] + 1 :])
    order: tuple[PieceKind, PieceKind] = ("context", "question") if pad_left else ("question", "context")
    names = iter(order)
    pieces: list[LayoutPiece] = []
    for piece in probed:
        kind: PieceKind = piece.kind if piece.kind == "fixed" else next(names)
        if kind == "question" and reads:
            pieces.append(LayoutPiece("fixed", piece.type_id, tuple(reads)))
        pieces.append(LayoutPiece(kind, piece.type_id, piece.ids))
        if kind == "context" and writes:
            pieces.append(LayoutPiece("fixed", piece.type_id, tuple(writes)))
    return FeatureLayout(
        tuple(pieces),
        pad_left,
        _declared_number("pad id", declared.pad_id),
        _declared_number("pad type id", declared.pad_type),
        _find_cls(pieces, declared),
    )


def _declared_number(name: str, value: object) -> int:
    """A declared number, or 0 for none; features hold it in 32 bits."""
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= _MOST_ID:
        raise InputError(
            f"the tokenizer's {name} is `{str(value)[:80]}`",
            hint=f"fix its files: features hold whole numbers from 0 to {_MOST_ID}",
        )
    return value


def _probe(tokenizer: Any) -> list[LayoutPiece]:
    """The pieces around two texts; both texts are "context" for now."""
    for text in _PROBES:
        joined = tokenizer.encode(text, text)
        if {0, 1} <= set(joined.sequence_ids):
            break
    else:
        raise ConfigError(
            "the tokenizer has no tokens for plain letters and digits",
            hint="give a tokenizer that was trained on text",
        )
    pieces: list[LayoutPiece] = []
    last: int | None = None
    for token, type_id, text_number in zip(joined.ids, joined.type_ids, joined.sequence_ids, strict=True):
        _declared_number("token id in a pair of texts", token)
        _declared_number("type id in a pair of texts", type_id)
        if text_number is None:
            same = pieces and last is None and pieces[-1].type_id == type_id
            ids = (*pieces.pop().ids, token) if same else (token,)
            pieces.append(LayoutPiece("fixed", type_id, ids))
        elif text_number != last:
            pieces.append(LayoutPiece("context", type_id))
        last = text_number
    if sum(piece.kind != "fixed" for piece in pieces) != 2:
        raise ConfigError(
            "the tokenizer cuts a text in two when it joins it to another",
            hint="give a tokenizer whose post-processor has a template for pairs",
        )
    return pieces


def _find_cls(pieces: Sequence[LayoutPiece], declared: Declared) -> tuple[int, int] | None:
    for wanted in (declared.cls_id, declared.bos_id):
        for number, piece in enumerate(pieces):
            if wanted is not None and wanted in piece.ids:
                return number, piece.ids.index(wanted)
    return None


def configure_memory_tokens(tokenizer: Any, memory_num_tokens: int = 16) -> dict[str, list[int]]:
    """Add memory tokens to a tokenizer of `transformers` or `tokenizers`; returns their ids.

    In every feature the reads then stand before the question and the writes after the context.
    """
    if memory_num_tokens < 0:
        raise ConfigError(f"`memory_num_tokens` is `{memory_num_tokens}`", hint="give a number from 0 on")
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "token_to_id"):
        raise ConfigError(
            f"`{type(tokenizer).__name__}` is not a tokenizer that tokens can be added to",
            hint="give one of `transformers` with a fast backend, or `tokenizers.Tokenizer.from_file(path)`",
        )
    names = [name.format(number) for name in (_READ, _WRITE) for number in range(memory_num_tokens)]
    if hasattr(tokenizer, "backend_tokenizer"):
        tokenizer.add_tokens(names, special_tokens=True)
    else:
        tokenizer.add_special_tokens(names)
    reads, writes = memory_token_ids(backend)
    return {"mem_read_ids": reads[:memory_num_tokens], "mem_write_ids": writes[:memory_num_tokens]}


def memory_token_ids(library: Any) -> tuple[list[int], list[int]]:
    """The ids of the memory tokens that a tokenizer of the library has: reads, writes."""
    return _numbered(library, _READ), _numbered(library, _WRITE)


def _numbered(library: Any, name: str) -> list[int]:
    ids: list[int] = []
    while (found := library.token_to_id(name.format(len(ids)))) is not None:
        ids.append(found)
    return ids
