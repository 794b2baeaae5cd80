"""How a tokenizer lays out a question and a context: where texts, special tokens and padding stand.

Comes in: a tokenizer of Hugging Face's library, and what is declared beside it. Goes out: a `Layout`. Held in
memory: a few numbers.

Nothing is known beforehand of BERT, RoBERTa or XLNet: the tokenizer is asked to join two short texts, and
what it puts around them is the layout. A tokenizer that pads on the left has its context first, as in Hugging
Face's scripts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from krill.dataset.fields import Fields
from krill.errors import ConfigError, InputError

Kind = Literal["fixed", "question", "context"]
_MOST_ID: Final = 2**31 - 1
# What the tokenizer is asked with: the first that it has tokens for.
_PROBES: Final = ("a", "the", "0", "1", "word", ".")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one kind and one token type; `ids` are those of a fixed one."""

    kind: Kind
    type_id: int
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Declared:
    """What a tokenizer says of itself besides its vocabulary; None = nothing."""

    pad_left: bool | None = None
    pad_id: int | None = None
    pad_type: int | None = None
    cls_id: int | None = None
    bos_id: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """The pieces of a feature in their order, and its padding.

    `cls` is the piece of the classification token and its place in it; None if the tokenizer has none, and
    then place 0 of the feature stands for "no answer", as in Hugging Face's scripts.
    """

    pieces: tuple[Piece, ...]
    pad_left: bool
    pad_id: int
    pad_type: int
    cls: tuple[int, int] | None

    @property
    def fixed(self) -> int:
        """Tokens that stand in every feature."""
        return sum(len(piece.ids) for piece in self.pieces)

    @property
    def context(self) -> int:
        """Which piece is the context."""
        return next(number for number, piece in enumerate(self.pieces) if piece.kind == "context")

    def to_json(self) -> dict[str, Any]:
        """For the key of a cache and its manifest."""
        return {
            "pieces": [[piece.kind, piece.type_id, list(piece.ids)] for piece in self.pieces],
            "pad_left": self.pad_left,
            "pad_id": self.pad_id,
            "pad_type": self.pad_type,
            "cls": None if self.cls is None else list(self.cls),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Layout:
        return cls.from_fields(Fields(value, source="layout"))

    @classmethod
    def from_fields(cls, fields: Fields) -> Layout:
        """From a manifest, checked."""
        pieces = tuple(_piece(fields, number) for number in range(len(fields.values("pieces"))))
        kinds = [piece.kind for piece in pieces if piece.kind != "fixed"]
        if sorted(kinds) != ["context", "question"]:
            fields.refuse("pieces", "has not one question and one context")
        place = None if fields.is_null("cls") else fields.counts("cls")
        if place is not None and (
            len(place) != 2 or place[0] >= len(pieces) or place[1] >= len(pieces[place[0]].ids)
        ):
            fields.refuse("cls", "is no place in a piece")
        return cls(
            pieces,
            fields.flag("pad_left"),
            fields.count("pad_id", most=_MOST_ID),
            fields.count("pad_type", most=_MOST_ID),
            None if place is None else (place[0], place[1]),
        )


def _piece(fields: Fields, number: int) -> Piece:
    where = f"pieces[{number}]"
    value = fields.values("pieces")[number]
    if not isinstance(value, list) or len(value) != 3 or value[0] not in get_args(Kind):
        fields.refuse(where, "is no piece of a feature")
    kind, type_id, ids = value
    numbers = [type_id, *ids] if isinstance(ids, list) else [None]
    if any(type(each) is not int or not 0 <= each <= _MOST_ID for each in numbers):
        fields.refuse(where, "has an id that is none")
    if ids and kind != "fixed":
        fields.refuse(where, "has ids, and is not fixed")
    return Piece(kind, type_id, tuple(ids))


def find_layout(
    tokenizer: Any, declared: Declared, reads: Sequence[int] = (), writes: Sequence[int] = ()
) -> Layout:
    """Ask the tokenizer; `reads` and `writes` are the memory tokens before questions and after contexts."""
    probed = _probe(tokenizer)
    pad_left = declared.pad_left
    if pad_left is None:
        # Undeclared: a classification token after both texts stays in its place only if padding is left.
        texts = [number for number, piece in enumerate(probed) if piece.kind != "fixed"]
        pad_left = any(declared.cls_id in piece.ids for piece in probed[texts[-1] + 1 :])
    order: tuple[Kind, Kind] = ("context", "question") if pad_left else ("question", "context")
    names = iter(order)
    pieces: list[Piece] = []
    for piece in probed:
        kind: Kind = piece.kind if piece.kind == "fixed" else next(names)
        if kind == "question" and reads:
            pieces.append(Piece("fixed", piece.type_id, tuple(reads)))
        pieces.append(Piece(kind, piece.type_id, piece.ids))
        if kind == "context" and writes:
            pieces.append(Piece("fixed", piece.type_id, tuple(writes)))
    return Layout(
        tuple(pieces),
        pad_left,
        _declared_number("pad id", declared.pad_id),
        _declared_number("pad type id", declared.pad_type),
        _find_cls(pieces, declared),
    )


def _declared_number(name: str, value: object) -> int:
    """What a file of the tokenizer's says, or 0; features hold it in 32 bits."""
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= _MOST_ID:
        raise InputError(
            f"the tokenizer's {name} is `{str(value)[:80]}`",
            hint=f"mend its files: features hold whole numbers from 0 to {_MOST_ID}",
        )
    return value


def _probe(tokenizer: Any) -> list[Piece]:
    """The pieces around two texts, the texts themselves as "context" for now."""
    for text in _PROBES:
        joined = tokenizer.encode(text, text)
        if {0, 1} <= set(joined.sequence_ids):
            break
    else:
        raise ConfigError(
            "the tokenizer has no tokens for plain letters and digits",
            hint="give a tokenizer that was trained on text",
        )
    pieces: list[Piece] = []
    last: int | None = None
    for token, type_id, text_number in zip(joined.ids, joined.type_ids, joined.sequence_ids, strict=True):
        _declared_number("token id in a pair of texts", token)
        _declared_number("type id in a pair of texts", type_id)
        if text_number is None:
            same = pieces and last is None and pieces[-1].type_id == type_id
            ids = (*pieces.pop().ids, token) if same else (token,)
            pieces.append(Piece("fixed", type_id, ids))
        elif text_number != last:
            pieces.append(Piece("context", type_id))
        last = text_number
    if sum(piece.kind != "fixed" for piece in pieces) != 2:
        raise ConfigError(
            "the tokenizer cuts a text in two when it joins it to another",
            hint="give a tokenizer whose post-processor has a template for pairs",
        )
    return pieces


def _find_cls(pieces: Sequence[Piece], declared: Declared) -> tuple[int, int] | None:
    for wanted in (declared.cls_id, declared.bos_id):
        for number, piece in enumerate(pieces):
            if wanted is not None and wanted in piece.ids:
                return number, piece.ids.index(wanted)
    return None
