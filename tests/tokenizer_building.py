"""A whole `tokenizer.json` of given sections, with a small vocabulary by the library's trainers.

In: a `Family` and texts. Out: the file, as JSON. Held in memory: the models trained so far.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tokenizer_sections import BY_BYTES, MARK, SPACES_ARE_MARKS, Section, byte_level, cutters, split

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


@dataclass(frozen=True)
class Family:
    """`model` is what is trained: `bytes`, `characters`, `unigram`, `pieces` or `words`."""

    model: str
    pre_tokenizer: Section | None = None
    normalizer: Section | None = None
    post_processor: Section | None = None
    decoder: Section | None = None
    special: tuple[str, ...] = ("<s>", "</s>", "<unk>", "<pad>")
    flags: Section = field(default_factory=dict)
    """Of the model, in place of what the trainer wrote; a value of `...` takes the field away. `with`,
    `without` are tokens, `merged` and `first` merges behind and before the others."""
    added: tuple[Section, ...] = ()
    """Tokens beside the special ones, and those of them that have other flags."""
    besides: Section = field(default_factory=dict)
    """Of the whole file: truncation, padding."""


def by_bytes(*cuts: Section, **options: Any) -> Family:
    """Byte-level BPE after some cuts, without GPT-2's."""
    return Family("bytes", cutters(*cuts, byte_level(cuts=False)), decoder=BY_BYTES, **options)


def token(content: str, *flags: str) -> Section:
    """An added token with these flags alone."""
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"content": content, **{name: name in flags for name in names}}


VOCABULARY = 1200


def build(family: Family, texts: Sequence[str]) -> Section:
    """The whole file, as JSON."""
    model = json.loads(_trained(_key(family), tuple(texts)))
    flags = dict(family.flags)
    _change_tokens(model, set(flags.pop("without", ())), flags.pop("with", ()))
    first, behind = flags.pop("first", []), flags.pop("merged", [])
    for left, right in [*first, *behind]:
        for part in (left, right, left + right):
            model["vocab"].setdefault(part, len(model["vocab"]))
    if first or behind:
        among = [pair for pair in model["merges"] if tuple(pair) not in first]
        model["merges"] = [*map(list, first), *among, *map(list, behind)]
    for name, value in flags.items():
        if value is ...:
            model.pop(name, None)
        else:
            model[name] = value
    written = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(family, _ids(model)),
        "normalizer": family.normalizer,
        "pre_tokenizer": family.pre_tokenizer,
        "post_processor": None,
        "decoder": family.decoder,
        "model": model,
        **family.besides,
    }
    ids = {each["content"]: each["id"] for each in written["added_tokens"]}
    written["post_processor"] = _with_ids(family.post_processor, ids)
    return written


def _key(family: Family) -> str:
    """What the vocabulary depends on."""
    parts = [family.model, family.normalizer, family.pre_tokenizer, list(family.special)]
    return json.dumps(parts)


@cache
def _trained(key: str, texts: tuple[str, ...]) -> str:
    """The section of a model."""
    kind, normalizer, pre_tokenizer, special = json.loads(key)
    sections = {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "added_tokens": []}
    if kind == "characters":
        # As SentencePiece learns: words with their mark, and some merges beyond them.
        sections["pre_tokenizer"] = split(rf"\n+|[^\n{MARK} ]*[{MARK} ]?[^\n{MARK} ]+|[{MARK} ]+")
        sections["normalizer"] = SPACES_ARE_MARKS
    base = {"version": "1.0", **sections, "post_processor": None, "decoder": None}
    empty, trainer = _trainer(kind, special)
    tokenizer = Tokenizer.from_str(
        json.dumps({**base, "model": json.loads(Tokenizer(empty).to_str())["model"]})
    )
    tokenizer.train_from_iterator(texts, trainer)
    return json.dumps(json.loads(tokenizer.to_str())["model"])


def _trainer(kind: str, special: list[str]) -> tuple[Any, Any]:
    options = {"vocab_size": VOCABULARY, "special_tokens": special, "show_progress": False}
    match kind:
        case "bytes":
            alphabet = pre_tokenizers.ByteLevel.alphabet()
            return models.BPE(), trainers.BpeTrainer(initial_alphabet=alphabet, **options)
        case "characters":
            most = {"limit_alphabet": 400, "vocab_size": VOCABULARY + 256}
            options["special_tokens"] = special + BYTES
            return models.BPE(), trainers.BpeTrainer(**{**options, **most})
        case "pieces of words":
            return models.BPE(), trainers.BpeTrainer(end_of_word_suffix="</w>", limit_alphabet=300, **options)
        case "continued words":
            trainer = trainers.BpeTrainer(continuing_subword_prefix="##", limit_alphabet=300, **options)
            return models.BPE(), trainer
        case "unigram":
            unknown = special[min(2, len(special) - 1)]
            return models.Unigram(), trainers.UnigramTrainer(unk_token=unknown, **options)
        case "pieces":
            return models.WordPiece(), trainers.WordPieceTrainer(limit_alphabet=300, **options)
    return models.WordLevel(), trainers.WordLevelTrainer(**options)


def _ids(model: Section) -> dict[str, int]:
    if isinstance(model["vocab"], dict):
        return dict(model["vocab"])
    return {piece: number for number, (piece, _) in enumerate(model["vocab"])}


def _change_tokens(model: Section, without: set[str], others: Sequence[str]) -> None:
    if isinstance(model["vocab"], list):
        model["vocab"] += [[piece, 0.0] for piece in others]
    else:
        kept = [token for token in model["vocab"] if token not in without]
        model["vocab"] = {token: number for number, token in enumerate(kept)}


def _added(family: Family, ids: dict[str, int]) -> list[Section]:
    wanted = {content: token(content, "special") for content in family.special}
    wanted |= {each["content"]: each for each in family.added}
    used = dict(ids)
    for content in wanted:
        used.setdefault(content, len(used))
    found = [{"id": used[content], **each} for content, each in wanted.items()]
    return sorted(found, key=lambda each: each["id"])


def _with_ids(section: Section | None, ids: dict[str, int]) -> Section | None:
    """A post-processor with the ids of its tokens."""
    if section is None:
        return None
    if section["type"] == "Sequence":
        return {**section, "processors": [_with_ids(each, ids) for each in section["processors"]]}
    if section["type"] in ("RobertaProcessing", "BertProcessing"):
        return {**section, **{name: [section[name][0], ids[section[name][0]]] for name in ("sep", "cls")}}
    if section["type"] != "TemplateProcessing":
        return section
    text = {"Sequence": {"id": "A", "type_id": 0}}
    names = section["single"].split()
    single = [text if name == "$A" else {"SpecialToken": {"id": name, "type_id": 0}} for name in names]
    named = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in names if name != "$A"}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": named}
