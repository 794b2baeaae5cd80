"""A tokenizer in the native core: the ids of Hugging Face's library, many times faster.

In: columns of text. Out: ids and lengths, in the smallest unsigned type that holds the vocabulary. Held in
memory: the vocabulary's tables, a cache of words of the given size, and while a long word without a break is
merged, thirteen times its bytes, once for all threads.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.errors import InputError
from krill.tokenizer.encoder import describe_file, gave_up
from krill.tokenizer.tokenizer_json import AddedToken, NativeSpec
from krill.tokenizer.vocabulary import to_bytes

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from krill import _native

# A word of 4 MB: 53.6 MB above the base while it was merged, 5 of them its ids.
MERGED_PER_BYTE: Final = 13
# A document in which spaces are replaced by a mark of three bytes, in two buffers.
NORMALISED_PER_BYTE: Final = 3
# Of each thread. On 100 MB of Markdown and sources, no text of it twice, 4, 16 and 64 MB found so much of the
# words: with 32,000 tokens 98.3, 98.6 and 98.7 %, with Qwen 2.5's 97.8, 98.3 and 98.4 %, with Gemma 2's 96.9,
# 97.5 and 97.6 %; 128 MB found 0.1 % more of the words than 16, or 0.2 % with Gemma 2's.
LEAST_CACHE: Final = 512_000
USEFUL_CACHE: Final = 16_000_000


class NativeEncoder:
    """Encodes on up to `threads` threads at once; the cache is shared out among them."""

    def __init__(self, file: Path, fingerprint: str, spec: NativeSpec, cache: int, threads: int) -> None:
        try:
            self._native = _native_encoder(spec, cache // threads, threads)
        except ValueError as error:
            raise InputError(f"the tokenizer `{file}`: {error}", hint="mend the file") from None
        self._file = file
        self._fingerprint = fingerprint
        self._patterns = spec.patterns
        self._joins_bytes = spec.joins_bytes
        self._decoder = spec.decoder
        self._library: Any = None
        self.name = str(file)
        self.why: str | None = None
        self.vocab_size = spec.vocab_size
        self.eos_token = spec.eos_token
        self.eos_id = spec.eos_id

    def encode(self, text: pa.Array, *, eos: bool = True) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        from krill.corpus.buffers import text_buffers

        last = -1 if self.eos_id is None or not eos else self.eos_id
        try:
            return self._native.encode(*text_buffers(text), last)
        except RuntimeError:
            for row in range(len(text)):  # which of them was it
                try:
                    self._native.encode(*text_buffers(text.slice(row, 1)), last)
                except RuntimeError as error:
                    raise gave_up("the tokenizer", self._patterns, str(error), row) from None
            raise

    def encode_texts(
        self, texts: tuple[str, ...], begin: int, end: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        try:
            return self._native.encode_strings(texts, begin, end)
        except (RuntimeError, ValueError):  # as a column: that says which of them it was
            from krill.corpus.buffers import text_column_of

            self.encode(text_column_of(texts[begin:end]), eos=False)
            raise

    def encode_offsets(self, text: str) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        try:
            return self._native.encode_offsets(text.encode())
        except RuntimeError as error:
            raise gave_up("the tokenizer", self._patterns, str(error), 0) from None

    def encode_spans(
        self,
        offsets: NDArray[np.int64],
        data: bytes,
        spans: NDArray[np.int64],
        guards: NDArray[np.int64],
        token_levels: NDArray[np.uint8],
    ) -> tuple[NDArray[Any], NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint8]]:
        """As `_native.Encoder.encode_spans`; `DocumentError` names the row."""
        try:
            return self._native.encode_spans(offsets, data, spans, guards, token_levels)
        except RuntimeError:
            nothing = spans[:, :0], guards[:, :0]
            for row in range(len(offsets) - 1):  # which of them was it
                try:
                    self._native.encode_spans(offsets[row : row + 2], data, *nothing, token_levels)
                except RuntimeError as error:
                    raise gave_up("the tokenizer", self._patterns, str(error), row) from None
            raise

    def decode(self, ids: NDArray[Any], *, skip_special_tokens: bool = False) -> str:
        numbers = ids.astype("uint32")
        if self._joins_bytes:
            text = self._native.decode(numbers, skip_special_tokens)
        elif self._decoder is not None:
            text = self._native.decode_with(numbers, skip_special_tokens, self._decoder)
        else:
            return str(self._open_library().decode(ids.tolist(), skip_special_tokens=skip_special_tokens))
        return text.decode("utf-8", "replace")

    def release(self) -> None:
        self._native.release()

    def statistics(self) -> dict[str, float]:
        """How the cache did so far, and how fast words were merged that were not in it."""
        found = self._native.statistics()
        misses, miss_bytes = found["misses"], found["miss_bytes"]
        seconds = found["timed_nanoseconds"] / 1e9 * miss_bytes / max(1, found["timed_bytes"])
        return {
            "words": found["words"],
            "bytes": found["bytes"],
            "hits": found["words"] - misses,
            "misses": misses,
            "hit_rate": round(1 - misses / max(1, found["words"]), 6),
            "miss_bytes": miss_bytes,
            "miss_seconds": round(seconds, 6),
        }

    def describe(self) -> dict[str, Any]:
        return {**describe_file(self, self._fingerprint), "encoder": "native"}

    def _open_library(self) -> Any:
        """The library's tokenizer, for a decoder of letters that stand for bytes but does not join them."""
        if self._library is None:
            from krill.tokenizer.huggingface import open_library

            self._library = open_library(self._file)
        return self._library


def _native_encoder(spec: NativeSpec, cache_bytes: int, workers: int) -> _native.Encoder:
    """`cache_bytes` are each worker's; `ValueError` if the parts don't fit together."""
    from krill import _native

    model = spec.model
    built = model.build()
    unmarked = spec.unmarked if built.reads_spaces_as_marks else None
    return _native.Encoder(
        built,
        model.tokens,
        model.offsets,
        model.flags,
        byte_level=model.byte_level,
        normalizer=spec.normalizer,
        added=[_added(token, spec.normalizer) for token in spec.added],
        decoded=_decoded(spec),
        pre_tokenizer=spec.pre_tokenizer,
        unmarked=unmarked and (unmarked.normalizer, unmarked.pre_tokenizer),
        prefix=list(spec.post.prefix),
        suffix=list(spec.post.suffix),
        trims_offsets=spec.post.trims_offsets,
        keeps_first_space=spec.post.keeps_first_space,
        cache_bytes=cache_bytes,
        workers=workers,
    )


def _decoded(spec: NativeSpec) -> list[tuple[int, bytes, bool]]:
    """Added tokens that the library decodes to what they are in normalised text. It leaves out special ones
    by their text, so those that look otherwise then are not left out."""
    if spec.normalizer is None:
        return []
    special = {token.content for token in spec.added if token.special}
    texts = [
        (token, spec.normalizer.apply(token.content.encode()).decode())
        for token in spec.added
        if token.normalized
    ]
    return [
        (token.id, (to_bytes(text) if spec.joins_bytes else None) or text.encode(), text in special)
        for token, text in texts
        if text != token.content
    ]


def _added(
    token: AddedToken, normalizer: _native.Normalizer | None
) -> tuple[bytes, int, bool, bool, bool, bool]:
    """An added token as the native core looks for it: in normalised text, its own text is normalised."""
    content = token.content.encode()
    if token.normalized and normalizer is not None:
        content = normalizer.apply(content)
        if not content:
            # The library finds it at every byte, and panics within a character.
            raise ValueError(f"its normalizer leaves nothing of the added token `{token.content}`")
    return content, token.id, token.single_word, token.lstrip, token.rstrip, token.normalized
