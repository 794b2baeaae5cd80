"""Any `tokenizer.json`, through Hugging Face `tokenizers`.

What it costs: while a document of n bytes is encoded as one string, the library holds up to about 130 n bytes
(measured: 107 to 127 MB for each MB of one 4 MB document, 18 for each MB in short documents; tokenizers 0.23,
32,000-token byte-level BPE). So long documents pass a gate that lets only as many bytes through at once
as the share of the plan allows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.errors import InputError
from krill.flow import Gate

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

HELD_PER_BYTE: Final = 140
# A loaded tokenizer takes about 12 bytes for each byte of its file: 27.8 MB at its peak for 2.3 MB.
LOADED_PER_BYTE: Final = 13
# Documents go to the library in groups of this many bytes: larger groups are no faster and hold more.
GROUP_BYTES: Final = 64 * 1024
# A single document of this size leaves so much freed memory behind that it is given back at once.
LARGE_GROUP: Final = 512 * 1024
_DECLARATIONS: Final = ("tokenizer_config.json", "special_tokens_map.json")
_EOS_NAMES: Final = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>")


class HuggingFaceEncoder:
    """Encodes with the library itself; the ids are its own."""

    def __init__(self, file: Path, share: int) -> None:
        # Our own threads call it; its pool would be a second one that `--threads` doesn't reach.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        from tokenizers import Tokenizer

        content = read_tokenizer_file(file)
        try:
            self._tokenizer = Tokenizer.from_str(content.decode("utf-8"))
        except Exception as error:  # the library raises plain Exception
            raise InputError(
                f"`{file}` is not a tokenizer that the tokenizers library reads: {error}",
                hint="point `tokenizer.path` at a tokenizer.json, or a folder that holds one",
            ) from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._gate = Gate(share)
        self._fingerprint = fingerprint(file, content)
        self.name = str(file)
        self.vocab_size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self.eos_token = _eos_token(file, self._tokenizer)
        self.eos_id = None if self.eos_token is None else self._tokenizer.token_to_id(self.eos_token)
        highest = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
        self.vocab_size = max(self.vocab_size, highest + 1)

    def encode(self, text: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """Group by group, so that what the library holds stays within the share."""
        import numpy as np

        from krill import _native

        eos = [] if self.eos_id is None else [self.eos_id]
        runs: list[NDArray[np.uint32]] = []
        lengths = np.empty(len(text), np.uint32)
        for start, group, nbytes in _groups(text):
            found: list[NDArray[np.uint32]] = []
            with self._gate.hold(nbytes * HELD_PER_BYTE):
                encodings = self._tokenizer.encode_batch_fast(group, add_special_tokens=True)
                while encodings:
                    ids = np.array(encodings.pop().ids + eos, np.uint32)
                    lengths[start + len(encodings)] = len(ids)
                    found.append(ids)
                runs.extend(reversed(found))
                if nbytes > LARGE_GROUP:
                    _native.trim()  # else the next through the gate adds its own to what was freed here
        return (np.concatenate(runs) if runs else np.empty(0, np.uint32)), lengths

    def decode(self, ids: NDArray[Any]) -> str:
        """The library's own decoding, special tokens shown."""
        return str(self._tokenizer.decode(ids.tolist(), skip_special_tokens=False))

    def describe(self) -> dict[str, Any]:
        """File, size and content hash."""
        return {
            "name": self.name,
            "vocab_size": self.vocab_size,
            "eos_id": self.eos_id,
            "eos_token": self.eos_token,
            "fingerprint": self._fingerprint,
        }


def fingerprint(file: Path, content: bytes) -> str:
    """Of everything that shapes the ids: the tokenizer's content and the EOS that is declared beside it."""
    declared = [_declared_eos(file.parent / name) for name in _DECLARATIONS]
    return hashlib.sha256(content + repr(declared).encode()).hexdigest()


def read_tokenizer_file(file: Path) -> bytes:
    """The file's bytes, or an error that says what to do."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(
            f"can't read the tokenizer `{file}`: {error.strerror}",
            hint="point `tokenizer.path` at a tokenizer.json, or a folder that holds one",
        ) from None


def _groups(text: pa.Array) -> Iterator[tuple[int, list[str], int]]:
    """Consecutive documents up to `GROUP_BYTES`: first index, texts, bytes."""
    from krill.corpus.buffers import text_buffers

    offsets, _ = text_buffers(text)
    start = 0
    while start < len(text):
        # As many documents as end within the group, and at least one.
        end = max(start + 1, int(offsets.searchsorted(offsets[start] + GROUP_BYTES, side="right")) - 1)
        end = min(end, len(text))
        yield start, text.slice(start, end - start).to_pylist(), int(offsets[end] - offsets[start])
        start = end


def _eos_token(file: Path, tokenizer: Any) -> str | None:
    """The declared `eos_token`, else the first well-known name among the special tokens, else none."""
    for name in _DECLARATIONS:
        declared = _declared_eos(file.parent / name)
        if declared is not None and tokenizer.token_to_id(declared) is not None:
            return declared
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    return next((name for name in _EOS_NAMES if name in special), None)


def _declared_eos(file: Path) -> str | None:
    import orjson

    try:
        value = orjson.loads(file.read_bytes()).get("eos_token")
    except (OSError, ValueError, AttributeError):
        return None
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None
