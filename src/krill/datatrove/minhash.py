"""`MinhashSignatures`: datatrove's first stage of MinHash, by Krill's native core.

In: `Document`s. Out: none; files of signatures in `output_folder` that datatrove's next stages read, byte
for byte those that `MinhashDedupSignature` writes for the same words (`MinhashDedupBuckets`,
`MinhashDedupCluster` and `MinhashDedupFilter` follow with the same config). Words are those of spaCy's
English tokenizer in all but rare cases, so files of both kinds may stand together.

Held in memory: a batch of documents and its signatures; at the end the signatures of one bucket, 68 bytes a
document with the default config, and twice as much while they are sorted. Before that they wait in unnamed
files, in the folder for temporary files. The table by which documents are simplified is 20,000 short strings
while it is made.
"""

from __future__ import annotations

import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from typing import IO, Any, Final

import numpy as np
from datatrove.data import Document, DocumentsPipeline
from datatrove.io import DataFolderLike
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature
from datatrove.utils.hashing import HashConfig
from datatrove.utils.text import NUMBERS_PATTERN, PUNCTUATION_TRANS, TextNormConfig
from datatrove.utils.typeshelper import StatHints
from numpy.typing import NDArray

from krill import _native
from krill.budget import parse_size
from krill.corpus.buffers import offsets_of, text_buffers
from krill.datatrove.batches import BATCH_BYTES, as_valid_batch, in_batches
from krill.errors import ConfigError, StorageError

_CHECKED_BYTES: Final = 1 << 20

SEPARATORS: Final = frozenset(".,\u060c\u066b\u2396\u2397\u2398")
"""What may stand once between the digits of one number."""

CAPITAL_SIGMA: Final = "\N{GREEK CAPITAL LETTER SIGMA}"

# The native signer's numbers of what becomes of a character.
TEXT: Final = 0
SPACE: Final = 1
DIGIT: Final = 2
SEPARATOR: Final = 3

# Planes without letters, digits, marks or punctuation are passed by, but for two ranges of such.
_RANGES: Final = ((0, 0xD800), (0xE000, 0x20000), (0x2F800, 0x2FA80), (0xE0000, 0xE0200))
_PAGE: Final = 128


class MinhashSignatures(MinhashDedupSignature):
    """In the place of `MinhashDedupSignature`; give all stages the same `config`. With `skip_existing_sigs` a
    task whose files are there and whole computes none, and only sorts them again."""

    type = "krill"
    name = "MinHash stage 1"

    def __init__(
        self,
        output_folder: DataFolderLike,
        config: MinhashConfig | None = None,
        skip_existing_sigs: bool = False,
        batch_bytes: int | str = BATCH_BYTES,
    ) -> None:
        super().__init__(output_folder, config, skip_existing_sigs=skip_existing_sigs)
        self.batch_bytes = parse_size(batch_bytes, name="batch_bytes")
        _check(self.config)

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> None:
        config = self.config
        record = np.dtype([("hashes", "<u8", config.hashes_per_bucket), ("document", "<u4")])
        paths = [f"bucket_{bucket:03d}/{rank:05d}.minhash.sig" for bucket in range(config.num_buckets)]
        if self.check_can_skip_sig_writing(rank)[0]:
            for path in paths:
                with self.output_folder.open(path, mode="rb") as there:
                    written = there.read()
                self._write_sorted(written, record, path)
            return
        # The permutations are drawn by datatrove itself.
        factors, addends = (np.ascontiguousarray(numbers.reshape(-1)) for numbers in self.parameters)
        signer = _native.DatatroveSigner(*simplification(), factors, addends, config.n_grams)
        with ExitStack() as opened:
            waiting = [opened.enter_context(tempfile.TemporaryFile()) for _ in range(config.num_buckets)]
            first = 0
            for batch in in_batches(data, self.batch_bytes):
                with self.track_time("batch"):
                    self._append(signer, batch, first, record, waiting)
                first += len(batch)
                self.stat_update(StatHints.total, value=len(batch), unit="batch")
            for file, path in zip(waiting, paths, strict=True):
                file.seek(0)
                self._write_sorted(file.read(), record, path)

    def _append(
        self,
        signer: _native.DatatroveSigner,
        documents: list[Document],
        first: int,
        record: np.dtype[Any],
        waiting: Sequence[IO[bytes]],
    ) -> None:
        """The signatures of a batch, whose first document has the number `first`, to each bucket's file."""
        small = [Document(lowered(document.text), document.id) for document in documents]
        numbers, has_shingle = signer.sign(*text_buffers(as_valid_batch(small).column("text")))
        kept = np.flatnonzero(has_shingle)
        hashes = numbers[kept].reshape(len(kept), self.config.num_buckets, self.config.hashes_per_bucket)
        records = np.empty(len(kept), record)
        records["document"] = first + kept
        for bucket, file in enumerate(waiting):
            records["hashes"] = hashes[:, bucket]
            file.write(records.data.cast("B"))

    def _write_sorted(self, data: bytes, record: np.dtype[Any], path: str) -> None:
        records: NDArray[Any] = np.frombuffer(data, record)
        keys = [
            records["document"],
            *(records["hashes"][:, at] for at in reversed(range(record["hashes"].shape[0]))),
        ]
        ordered = records[np.lexsort(keys)].tobytes()
        with self.output_folder.open(path, mode="wb") as out:
            out.write(ordered)
        # As datatrove does: the next stage would notice damage late or not at all.
        at = 0
        with self.output_folder.open(path, mode="rb") as there:
            while piece := there.read(_CHECKED_BYTES):
                if piece != ordered[at : at + len(piece)]:
                    break
                at += len(piece)
        if at != len(ordered):
            raise StorageError(
                f"the signatures in `{path}` are not those that were written",
                hint="look after the disk or the store, and run the task again",
            )


def _check(config: MinhashConfig) -> None:
    """Refuse what the native core doesn't know."""
    unknown = None
    if config.hash_config != HashConfig(precision=64, hash_fc="xxhash"):
        unknown = f"`{config.hash_config}`"
    elif config.norm_config != TextNormConfig():
        unknown = f"`{config.norm_config}`"
    if unknown is not None:
        raise ConfigError(
            f"`MinhashSignatures` can't work with {unknown}",
            hint="leave it at its default, or use datatrove's MinhashDedupSignature",
        )


def lowered(text: str) -> str:
    """The text, with capital sigmas made small as only their neighbours tell."""
    return text.lower() if CAPITAL_SIGMA in text else text


@cache
def simplification() -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int64], bytes]:
    """How characters are simplified before signing, as the installed datatrove's own rules say:
    characters in rising order, what becomes of each, and replacements as offsets and UTF-8.

    `datatrove.utils.text.simplify_text` goes over a whole text again and again: lower case, numbers,
    punctuation, whitespace, diacritics. All of it but numbers and a capital sigma at a word's end is about
    one character at a time; the native signer does numbers, and `lowered` takes care of the sigma.
    """
    found = list(_changes())
    replacements = [replacement.encode() for _, _, replacement in found]
    offsets = offsets_of([len(replacement) for replacement in replacements])
    points = np.array([point for point, _, _ in found], np.uint32)
    changes = np.array([change for _, change, _ in found], np.uint8)
    return points, changes, offsets, b"".join(replacements)


def _changes() -> Iterator[tuple[int, int, str]]:
    for begin, end in _RANGES:
        for first in range(begin, end, _PAGE):
            page = "".join(map(chr, range(first, first + _PAGE)))
            # Asked of datatrove's own pattern, whose tables may be newer than Python's.
            digits = {match.group() for match in NUMBERS_PATTERN.finditer("x".join(page))}
            if digits or not _stays(page):
                yield from _page_changes(page, digits)


def _stays(page: str) -> bool:
    """Whether all of a page is letters that nothing becomes of: most pages are."""
    small = page.lower().translate(PUNCTUATION_TRANS)
    return page.isalnum() and page == small == unicodedata.normalize("NFD", page)


def _page_changes(page: str, digits: set[str]) -> Iterator[tuple[int, int, str]]:
    for character in page:
        small = character.lower().translate(PUNCTUATION_TRANS)
        if character in SEPARATORS:
            yield ord(character), SEPARATOR, small
        elif character in digits:
            yield ord(character), DIGIT, ""
        elif (simple := _without_marks(small)).isspace():
            yield ord(character), SPACE, ""
        elif simple != character:
            yield ord(character), TEXT, simple


def _without_marks(text: str) -> str:
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
