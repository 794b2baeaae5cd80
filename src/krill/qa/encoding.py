"""A tokenizer as question answering uses it: texts to ids and spans, without special tokens, and its layout.

In: a tokenizer of `transformers` or `tokenizers`, or a path; then lists of texts. Out: the ids of
all texts one after the other, and of contexts where each token stands, in characters. Held in memory: the
tokenizer, a cache of words if the native core encodes, and otherwise one group of texts in the library.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from krill import _native
from krill.budget import Kind, Need
from krill.config.messages import shown
from krill.corpus.buffers import offsets_of, text_column_of
from krill.errors import ConfigError, InputError
from krill.qa.layout import Declared, FeatureLayout, find_layout, memory_token_ids
from krill.qa.tables import EncodedSpans, Lists
from krill.storage.input_file import read_json
from krill.tokenizer.encoder import DocumentError
from krill.tokenizer.huggingface import GROUP_BYTES, LibraryCalls, open_library
from krill.tokenizer.model_section import ModelSpec
from krill.tokenizer.native import LEAST_CACHE, NativeEncoder
from krill.tokenizer.outline import Outline, outline_of, outline_of_content
from krill.tokenizer.tokenizer_file import declared_tokens, tokenizer_file
from krill.tokenizer.tokenizer_json import NotNative, read_spec, why_not_native

_NAMELESS: Final = Path("tokenizer.json")
_SPACE_MARK: Final = "\u2581"
_MOST_MARKS: Final = 33


@dataclass(frozen=True, slots=True)
class QaTokenizer:
    """What features are made with; `fingerprint` is of all that shapes ids and layout, and `content` is
    the tokenizer as JSON, from which others make the same."""

    encoder: _NativeTexts | _LibraryTexts
    layout: FeatureLayout
    fingerprint: str
    native: bool
    content: bytes = field(repr=False)
    space_ids: tuple[int, ...] = ()
    """Tokens of nothing but the mark of a space; see `tables.inexact_spans`."""


def open_tokenizer(tokenizer: Any, threads: int = 1) -> QaTokenizer:
    """A fast tokenizer of `transformers`, one of `tokenizers`, or the path of a file or folder, for up to
    `threads` threads at once."""
    library, declared = _library_of(tokenizer)
    content = library.to_str().encode()
    layout = find_layout(library, declared, *memory_token_ids(library))
    made = tokenizer_from(content, layout, threads, library)
    del library
    _native.trim()  # what reading took
    return made


def opening_needs(tokenizer: Any) -> list[Need]:
    """What opening a tokenizer takes, by its outline."""
    import tokenizers  # noqa: F401  its own pages are to be there when the plan takes stock

    outline = _outline_of(tokenizer)
    library, parsed = outline.library(), outline.native()
    native = why_not_native(outline) is None
    # It is written out once, for those who are to make the same, and parsed for what it does to words.
    always = library.always + outline.size + (parsed.always if native else 0)
    reading = max(library.reading, library.always + 2 * outline.size + parsed.reading)
    return [
        Need("tokenizer", always, Kind.WATCHED),
        Need("reading the tokenizer", max(0, reading - always), Kind.WATCHED, during="start"),
    ]


def looks_native(tokenizer: Any) -> bool:
    return why_not_native(_outline_of(tokenizer)) is None


def _outline_of(tokenizer: Any) -> Outline:
    if isinstance(tokenizer, str | Path):
        return outline_of(_file_of(tokenizer))
    return outline_of_content(_backend_of(tokenizer).to_str().encode())


def fingerprint_of(content: bytes, layout: FeatureLayout) -> str:
    return hashlib.sha256(content + orjson.dumps(layout.to_json())).hexdigest()


def tokenizer_from(
    content: bytes, layout: FeatureLayout, threads: int = 1, library: Any = None
) -> QaTokenizer:
    """The tokenizer of `QaTokenizer.content` and its layout; `library` is the same, if it is open."""
    shaping = fingerprint_of(content, layout)
    spec = read_spec(_NAMELESS, content)
    if isinstance(spec, NotNative):
        library = library or open_library(_NAMELESS, content)
        calls = LibraryCalls(outline_of_content(content))
        texts = _LibraryTexts(library, calls)
        return QaTokenizer(texts, layout, shaping, False, content, _space_ids(library))
    bare = replace(spec, post=replace(spec.post, prefix=(), suffix=()))
    encoder = NativeEncoder(_NAMELESS, shaping, bare, LEAST_CACHE * threads, threads)
    return QaTokenizer(_NativeTexts(encoder), layout, shaping, True, content, _space_tokens(spec.model))


def _space_tokens(model: ModelSpec) -> tuple[int, ...]:
    """The same as `_space_ids`, of a native model; in byte-level tokens no letter is such a mark."""
    if model.byte_level:
        return ()
    mark = _SPACE_MARK.encode()
    begins, ends = model.offsets[:-1], model.offsets[1:]
    lengths = ends - begins
    likely = np.flatnonzero((lengths > 0) & (lengths % len(mark) == 0) & (lengths < len(mark) * _MOST_MARKS))
    likely = likely[(model.tokens[begins[likely]] == mark[0]) & (model.tokens[ends[likely] - 1] == mark[-1])]
    texts = {int(token): bytes(model.tokens[begins[token] : ends[token]]) for token in likely}
    found = [token for token, text in texts.items() if text == mark * (len(text) // len(mark))]
    return tuple(sorted(found, key=lambda token: len(texts[token])))


def _space_ids(library: Any) -> tuple[int, ...]:
    """Ids of SentencePiece's mark of a space, repeated any number of times."""
    ids = (library.token_to_id(_SPACE_MARK * length) for length in range(1, _MOST_MARKS))
    return tuple(number for number in ids if number is not None)


class _NativeTexts:
    """Texts to the ids of their tokens; with spans, also where each token stands."""

    def __init__(self, encoder: NativeEncoder) -> None:
        self._encoder = encoder

    def encode(self, texts: Sequence[str]) -> Lists:
        try:
            ids, lengths = self._encoder.encode(text_column_of(texts), eos=False)
        except DocumentError as error:
            raise error.at(f"the text that begins `{shown(texts[error.row])}`") from None
        return Lists(ids.astype(np.uint32, copy=False), offsets_of(lengths))

    def encode_spans(self, texts: Sequence[str]) -> EncodedSpans:
        found = [self._encoded(text) for text in texts]
        ids = _joined([ids for ids, _ in found], np.empty(0, np.uint32))
        spans = _joined([spans for _, spans in found], np.empty((0, 2), np.int32))
        starts = offsets_of([len(ids) for ids, _ in found])
        return EncodedSpans(ids.astype(np.uint32, copy=False), starts, spans.view(np.int32))

    def _encoded(self, text: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint32]]:
        try:
            return self._encoder.encode_offsets(text)
        except DocumentError as error:
            raise error.at(f"the text that begins `{shown(text)}`") from None


class _LibraryTexts:
    """The same with the library, for the few tokenizers that only it can run."""

    def __init__(self, library: Any, calls: LibraryCalls) -> None:
        self._batch: Callable[..., list[Any]] = library.encode_batch
        self._calls = calls

    def encode(self, texts: Sequence[str]) -> Lists:
        return self.encode_spans(texts)

    def encode_spans(self, texts: Sequence[str]) -> EncodedSpans:
        ids: list[int] = []
        spans: list[npt.NDArray[np.int32]] = []
        lengths: list[int] = []
        # The library holds many times what it encodes.
        for group in _groups(texts, GROUP_BYTES):
            tuples: list[tuple[int, int]] = []
            for encoding in self._encoded(group):
                ids += encoding.ids
                tuples += encoding.offsets
                lengths.append(len(encoding))
            spans.append(np.array(tuples, np.int32).reshape(-1, 2))
        joined = _joined(spans, np.empty((0, 2), np.int32))
        return EncodedSpans(np.array(ids, np.uint32), offsets_of(lengths), joined)

    def _encoded(self, group: Sequence[str]) -> list[Any]:
        try:
            return self._calls.run(lambda: self._batch(group, add_special_tokens=False), 0)
        except DocumentError as error:
            for text in group:  # which of them was it
                try:
                    self._calls.run(lambda text=text: self._batch([text], add_special_tokens=False), 0)  # type: ignore[misc]
                except DocumentError as own:
                    raise own.at(f"the text that begins `{shown(text)}`") from None
            raise error


def _groups(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Consecutive texts of about `size` characters together."""
    start = held = 0
    for number, text in enumerate(texts):
        if held and held + len(text) > size:
            yield texts[start:number]
            start, held = number, 0
        held += len(text)
    if start < len(texts):
        yield texts[start:]


def _joined(arrays: Sequence[npt.NDArray[Any]], empty: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate(arrays) if arrays else empty


def _library_of(tokenizer: Any) -> tuple[Any, Declared]:
    """A private copy of the library's tokenizer, and what is declared about it."""
    if isinstance(tokenizer, str | Path):
        file = _file_of(tokenizer)
        library = open_library(file)
        return library, _declared_by_files(file, library)
    backend = _backend_of(tokenizer)
    library = open_library(_NAMELESS, backend.to_str().encode())
    if backend is tokenizer:
        return library, _declared_by_library(backend.padding or {}, library)
    pad = tokenizer.pad_token_id
    return library, Declared(
        tokenizer.padding_side == "left",
        tokenizer.eos_token_id if pad is None else pad,
        tokenizer.pad_token_type_id,
        tokenizer.cls_token_id,
        tokenizer.bos_token_id,
    )


def _backend_of(tokenizer: Any) -> Any:
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "encode_batch_fast"):
        raise ConfigError(
            f"`{type(tokenizer).__name__}` is not a fast tokenizer, which offsets need",
            hint="give one of `transformers` with a fast backend, one of `tokenizers`, or a path",
        )
    return backend


def _file_of(path: str | Path) -> Path:
    try:
        return tokenizer_file(path)
    except InputError as error:
        # What else it says is about the config of a preprocessing.
        raise InputError(
            error.message,
            hint="give a tokenizer.json or its folder; one of the hub comes with `hf download NAME --include"
            " 'tokenizer*' --local-dir FOLDER`",
        ) from None


def _declared_by_library(padding: Mapping[str, Any], library: Any) -> Declared:
    """What a `tokenizer.json` declares: its padding, and tokens by their usual names."""
    named = {
        key: next((number for name in names if (number := library.token_to_id(name)) is not None), None)
        for key, names in _USUAL.items()
    }
    return Declared(
        str(padding["direction"]).lower() == "left" if "direction" in padding else None,
        padding.get("pad_id", named["pad_token"]),
        padding.get("pad_type_id"),
        named["cls_token"],
        named["bos_token"],
    )


_USUAL: Final = {
    "pad_token": ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>", "</s>"),
    "cls_token": ("[CLS]", "<cls>"),
    "bos_token": ("<s>", "<bos>", "<|begin_of_text|>"),
}


def _declared_by_files(file: Path, library: Any) -> Declared:
    """The same, overridden by `tokenizer_config.json` and its like."""
    try:
        padding = (outline_of(file).sections or {}).get("padding")
        known = _declared_by_library(padding if isinstance(padding, dict) else {}, library)
        path = file.parent / "tokenizer_config.json"
        config = read_json(path) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise _unreadable_beside(file, str(error)) from None
    if not isinstance(config, dict):
        raise _unreadable_beside(file, "`tokenizer_config.json` is not a JSON object")
    ids = {key: _first_id(library, declared_tokens(file.parent, key)) for key in _USUAL}
    side = config.get("padding_side")
    return Declared(
        known.pad_left if side is None else side == "left",
        known.pad_id if ids["pad_token"] is None else ids["pad_token"],
        config.get("pad_token_type_id", known.pad_type),
        known.cls_id if ids["cls_token"] is None else ids["cls_token"],
        known.bos_id if ids["bos_token"] is None else ids["bos_token"],
    )


def _unreadable_beside(file: Path, fault: str) -> InputError:
    return InputError(
        f"what is beside the tokenizer `{file}` can't be read: {fault}",
        hint="restore `tokenizer_config.json`, or take it away",
    )


def _first_id(library: Any, tokens: Sequence[str | None]) -> int | None:
    return next((library.token_to_id(token) for token in tokens if token is not None), None)
