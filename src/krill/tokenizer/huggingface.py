"""Any `tokenizer.json`, through Hugging Face `tokenizers`.

What it costs: while a document is encoded as one string, the library holds some 75 bytes for each of its
bytes, 70 for each token, and 100 to 300 for each word that the text is cut into (`EncodingCost`; tokenizers
0.23, documents of 1 MB). So documents pass a gate that lets only as much through at once as the share of the
plan allows, and one that would take more than all of it is refused by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from krill.budget import format_size, memory_flag
from krill.errors import InputError
from krill.threads import Gate
from krill.tokenizer.encoder import (
    DocumentError,
    DocumentTooLarge,
    describe_file,
    gave_up,
    outside_vocabulary,
    regexes_of,
)
from krill.tokenizer.outline import Outline, outline_of
from krill.tokenizer.tokenizer_file import HINT, file_fingerprint, find_eos, read_tokenizer_file

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

# Documents go to the library in groups of this many bytes: larger groups are no faster and hold more.
GROUP_BYTES: Final = 64 * 1024
# A single document of this size leaves so much freed memory behind that it is given back at once.
LARGE_GROUP: Final = 512 * 1024

# Held for each byte of a document, a token for each included; and for each word that it is cut into, by the
# kind of model. Measured MB for 1 MB: of `1!1!` 315 by BPE, 440 by WordPiece; of `a a a` 258 by Unigram; of
# English 100 to 173; of Chinese 65 to 135; by Llama 2, which cuts nothing, 56 to 141 of whatever text.
_PER_BYTE: Final = 145
_PER_WORD: Final = {"BPE": 175, "Unigram": 230}
_PER_OTHER_WORD: Final = 300
# English has about so many words for each byte.
_WORDS_PER_BYTE: Final = 0.2
# What is missing of a share is asked for so many times over: others of the same stage take their part of it.
_RIVALS: Final = 3

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class EncodingCost:
    """What the library holds while it encodes."""

    per_byte: int
    per_word: int

    @classmethod
    def of(cls, outline: Outline) -> EncodingCost:
        """For the tokenizer of an outline."""
        return cls(_PER_BYTE, _PER_WORD.get(outline.family, _PER_OTHER_WORD) if outline.cuts else 0)

    def of_text(self, nbytes: int, words: int) -> int:
        """For so many bytes, cut into so many words."""
        return nbytes * self.per_byte + words * self.per_word

    def typical(self, nbytes: int) -> int:
        """For ordinary text."""
        return self.of_text(nbytes, int(nbytes * _WORDS_PER_BYTE))

    def most(self, nbytes: int) -> int:
        """For text in which every byte is a word."""
        return self.of_text(nbytes, nbytes)


class HuggingFaceEncoder:
    """Encodes with the library itself; the ids are its own. `why` says why the native encoder doesn't."""

    def __init__(self, file: Path, share: int, why: str = "", limit: int = 0) -> None:
        outline = outline_of(file)
        self._tokenizer = open_library(file)
        self._calls = LibraryCalls(outline)
        self._gate = Gate(share)
        self._share, self._limit = share, limit
        self._cost = EncodingCost.of(outline)
        self._fingerprint = file_fingerprint(file)
        self.why: str | None = why
        self.name = str(file)
        special = {
            token.content for token in self._tokenizer.get_added_tokens_decoder().values() if token.special
        }
        self.eos_token, self.eos_id = find_eos(file, self._tokenizer.token_to_id, special)
        highest = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
        self.vocab_size = max(self._tokenizer.get_vocab_size(with_added_tokens=True), highest + 1)

    def encode(self, text: pa.Array, *, eos: bool = True) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """Group by group, so that what the library holds stays within the share."""
        import numpy as np

        from krill import _native

        last = [] if self.eos_id is None or not eos else [self.eos_id]
        runs: list[NDArray[np.uint32]] = []
        lengths = np.empty(len(text), np.uint32)
        for start, group, nbytes, words in _groups(text):
            found: list[NDArray[np.uint32]] = []
            with self._gate.hold(self._held(start, group, nbytes, words)):
                encodings = self._encoded(start, group)
                while encodings:
                    ids = np.array(encodings.pop().ids + last, np.uint32)
                    lengths[start + len(encodings)] = len(ids)
                    found.append(ids)
                runs.extend(reversed(found))
                if nbytes > LARGE_GROUP:
                    _native.trim()  # else the next through the gate adds its own to what was freed here
        ids = np.concatenate(runs) if runs else np.empty(0, np.uint32)
        self._check_ids(ids)
        return ids, lengths

    def _check_ids(self, ids: NDArray[np.uint32]) -> None:
        """A post-processor may put any number around a text."""
        if len(ids) and ids.max() >= self.vocab_size:
            raise outside_vocabulary(self.name, int(ids.max()), self.vocab_size)

    def encode_texts(
        self, texts: tuple[str, ...], begin: int, end: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        from krill.corpus.buffers import text_column_of

        return self.encode(text_column_of(texts[begin:end]), eos=False)

    def encode_offsets(self, text: str) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        import numpy as np

        with self._gate.hold(self._cost.typical(len(text))):
            encoding = self._calls.run(lambda: self._tokenizer.encode(text), 0)
            ids = np.array(encoding.ids, np.uint32)
            self._check_ids(ids)
            return ids, np.array(encoding.offsets, np.uint32).reshape(-1, 2)

    def _encoded(self, start: int, group: list[str]) -> list[Any]:
        encode = partial(self._tokenizer.encode_batch_fast, add_special_tokens=True)
        try:
            return list(self._calls.run(partial(encode, group), start))
        except DocumentError:
            for place, one in enumerate(group):  # which of them was it
                self._calls.run(partial(encode, [one]), start + place)
            raise

    def _held(self, row: int, group: list[str], nbytes: int, words: int) -> int:
        """What the library will hold of a group; DocumentTooLarge if that is more than there is."""
        if nbytes > GROUP_BYTES and self._tokenizer.normalizer is not None:
            # A normalizer may make many characters of one; half as many again are in the measured figures.
            nbytes = max(nbytes, sum(map(self._normalized_bytes, group)) // 2)
        held = self._cost.of_text(nbytes, words)
        if 0 < self._share < held and self._limit and len(group) == 1:
            needed = self._limit + _RIVALS * (held - self._share)
            raise DocumentTooLarge(
                f"its {nbytes:,} bytes in {words:,} words take up to {format_size(held)} to encode by Hugging"
                f" Face's library, and {format_size(self._share)} are left for it",
                hint=f"{memory_flag(needed)} would do; or set preprocess.max_document_bytes lower",
                row=row,
            )
        return held

    def _normalized_bytes(self, text: str) -> int:
        normalize = self._tokenizer.normalizer.normalize_str
        pieces = (text[at : at + GROUP_BYTES] for at in range(0, len(text), GROUP_BYTES))
        return sum(len(self._calls.run(partial(normalize, piece), 0).encode()) for piece in pieces)

    def decode(self, ids: NDArray[Any], *, skip_special_tokens: bool = False) -> str:
        decode = partial(self._tokenizer.decode, ids.tolist(), skip_special_tokens=skip_special_tokens)
        return str(self._calls.run(decode, 0))

    def statistics(self) -> dict[str, float]:
        return {}

    def release(self) -> None:
        """The library's cache is a part of its tokenizer."""

    def describe(self) -> dict[str, Any]:
        return {**describe_file(self, self._fingerprint), "encoder": "huggingface", "why": self.why}


class LibraryCalls:
    """Calls of the library; an error names the pattern that it may be about."""

    def __init__(self, outline: Outline) -> None:
        self._patterns = regexes_of((outline.sections or {}).get("pre_tokenizer"))

    def run(self, call: Callable[[], _Result], row: int) -> _Result:
        """The result, or a DocumentError for the row: a text that a pattern can't be matched in is input."""
        try:
            return call()
        except BaseException as error:
            # A panic of the library is no Exception; the system's own must pass.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            if isinstance(error, MemoryError):
                raise
            said = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            raise gave_up("the tokenizers library", self._patterns, said, row) from None


def open_library(file: Path, content: bytes | None = None) -> Any:
    """The library's tokenizer of a file, without truncation and padding."""
    # Our own threads call it; its pool would be a second one that `--threads` doesn't reach.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str((content or read_tokenizer_file(file)).decode("utf-8"))
    except BaseException as error:  # the library raises plain Exception, or panics
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if isinstance(error, InputError | MemoryError):
            raise
        raise InputError(
            f"`{file}` is not a tokenizer that the tokenizers library reads: {error}", hint=HINT
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _groups(text: pa.Array) -> Iterator[tuple[int, list[str], int, int]]:
    """Consecutive documents up to `GROUP_BYTES`: first index, texts, bytes, words at most."""
    from krill import _native
    from krill.corpus.buffers import text_buffers

    offsets, data = text_buffers(text)
    start = 0
    while start < len(text):
        # As many documents as end within the group, and at least one.
        end = max(start + 1, int(offsets.searchsorted(offsets[start] + GROUP_BYTES, side="right")) - 1)
        end = min(end, len(text))
        words = int(_native.cut_counts(offsets[start : end + 1], data).sum())
        yield start, text.slice(start, end - start).to_pylist(), int(offsets[end] - offsets[start]), words
        start = end
