"""Any `tokenizer.json`, through Hugging Face `tokenizers`.

What it costs: while a document of n bytes is encoded as one string, the library holds up to about 130 n bytes
(measured: 107 to 127 MB for each MB of one 4 MB document, 18 for each MB in short documents; tokenizers 0.23,
32,000-token byte-level BPE). So long documents pass a gate that lets only as many bytes through at once
as the share of the plan allows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.errors import InputError
from krill.flow import Gate
from krill.tokenizer.tokenizer_json import HINT, find_eos, fingerprint, read_tokenizer_file

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


class HuggingFaceEncoder:
    """Encodes with the library itself; the ids are its own. `why` says why the native encoder doesn't."""

    def __init__(self, file: Path, share: int, why: str = "") -> None:
        content = read_tokenizer_file(file)
        self._tokenizer = open_library(file, content)
        self._gate = Gate(share)
        self._fingerprint = fingerprint(file, content)
        self.why = why
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
        for start, group, nbytes in _groups(text):
            found: list[NDArray[np.uint32]] = []
            with self._gate.hold(nbytes * HELD_PER_BYTE):
                encodings = self._tokenizer.encode_batch_fast(group, add_special_tokens=True)
                while encodings:
                    ids = np.array(encodings.pop().ids + last, np.uint32)
                    lengths[start + len(encodings)] = len(ids)
                    found.append(ids)
                runs.extend(reversed(found))
                if nbytes > LARGE_GROUP:
                    _native.trim()  # else the next through the gate adds its own to what was freed here
        return (np.concatenate(runs) if runs else np.empty(0, np.uint32)), lengths

    def encode_offsets(self, text: str) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """The ids of one text and where each stands, in characters."""
        import numpy as np

        with self._gate.hold(len(text) * HELD_PER_BYTE):
            encoding = self._tokenizer.encode(text)
            return np.array(encoding.ids, np.uint32), np.array(encoding.offsets, np.uint32).reshape(-1, 2)

    def decode(self, ids: NDArray[Any], *, skip_special_tokens: bool = False) -> str:
        """The library's own decoding, special tokens shown."""
        return str(self._tokenizer.decode(ids.tolist(), skip_special_tokens=skip_special_tokens))

    def statistics(self) -> dict[str, float]:
        """Nothing: the library doesn't say."""
        return {}

    def describe(self) -> dict[str, Any]:
        """File, size and content hash."""
        return {
            "name": self.name,
            "vocab_size": self.vocab_size,
            "eos_id": self.eos_id,
            "eos_token": self.eos_token,
            "fingerprint": self._fingerprint,
            "encoder": "huggingface",
            "why": self.why,
        }


def open_library(file: Path, content: bytes | None = None) -> Any:
    """The library's tokenizer of a file, without truncation and padding."""
    # Our own threads call it; its pool would be a second one that `--threads` doesn't reach.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str((content or read_tokenizer_file(file)).decode("utf-8"))
    except Exception as error:  # the library raises plain Exception
        raise InputError(
            f"`{file}` is not a tokenizer that the tokenizers library reads: {error}", hint=HINT
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


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
