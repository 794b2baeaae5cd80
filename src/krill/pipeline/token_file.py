"""Documents in, one flat file of tokens out, and back: `krill tokenizer` encode and decode on files.

In: any source that the corpus reads. Out: the ids of all documents one after the other, each document ended
by EOS where the tokenizer has one, as little-endian `uint16` (or `uint32`, where the vocabulary needs it); a
`.npy` file has NumPy's header before them. The ids are those of preprocessing without its dropping: only
bytes that are not UTF-8 are removed. Held in memory: the tokenizer and the blocks in flight; while decoding,
a megabyte of ids and its text.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from krill.budget import Meter, Need, Plan
from krill.budget.process import metered_process
from krill.config import KrillConfig
from krill.corpus import Block, Corpus
from krill.corpus.buffers import text_buffers
from krill.corpus.formats import Format
from krill.dataset import smallest_dtype
from krill.errors import BudgetError, InputError, StorageError
from krill.pipeline.input import open_input
from krill.pipeline.needs import InputSizes, Sizing, reading_needs, sizes_of
from krill.pipeline.stages.encode import ENCODING, Encode, encode_cost
from krill.storage.atomic import AtomicFile, refuse_special, storage_errors, undo_on_error
from krill.storage.input_file import open_regular
from krill.text import CleanText
from krill.threads import ordered_map
from krill.threads.progress import Progress
from krill.tokenizer import Encoder
from krill.tokenizer.encoder import naming_document
from krill.tokenizer.open import fallback_notice, open_file
from krill.tokenizer.tokenizer_file import tokenizer_file, tokenizer_files

# Room for the length of any array; a multiple of 64, as the format wants.
NPY_HEADER_BYTES: Final = 128
IDS_AT_ONCE: Final = 2**18
# Tokens that one character can be spread over, at most.
_CHARACTER_TOKENS: Final = 4
# No document of these is longer than its file.
_AS_WRITTEN: Final = (Format.TEXT, Format.JSON_LINES)


@dataclass(frozen=True, slots=True)
class EncodeSummary:
    """What encoding made."""

    output: Path | None
    token_dtype: str
    documents: int
    input_bytes: int
    tokens: int
    seconds: float
    notes: Mapping[str, int]
    budget: Mapping[str, Any]
    words: Mapping[str, Any] | None
    """What the native encoder says of its cache; None where Hugging Face encoded."""

    def to_json(self) -> dict[str, Any]:
        return {
            "command": "tokenizer encode",
            "output": None if self.output is None else str(self.output),
            "output_bytes": 0 if self.output is None else self.output.stat().st_size,
            "token_dtype": self.token_dtype,
            "documents": self.documents,
            "input_bytes": self.input_bytes,
            "tokens": self.tokens,
            "bytes_per_token": round(self.input_bytes / max(1, self.tokens), 4),
            "seconds": round(self.seconds, 3),
            "notes": dict(self.notes),
            "budget": dict(self.budget),
            "words": None if self.words is None else dict(self.words),
        }


def encode_files(
    config: KrillConfig, output: Path | None, *, overwrite: bool, progress: Progress
) -> EncodeSummary:
    """Encode the config's datasets with its tokenizer into a file; with none, a printed line a document."""
    if output is not None:
        _check_output(output, overwrite=overwrite)
    with metered_process(config.memory, config.threads) as meter:
        threads = meter.threads
        with suppress(BudgetError):  # what fits any input is guarded from here on; this one may be small
            meter.plan(_needs(config, threads))
        corpus = open_input(config)
        if output is not None:
            read = (file.location for file in corpus.files)
            _refuse_inputs(output, [*tokenizer_files(config.tokenizer), *read])
        plan = meter.plan(_needs(_as_long_as(corpus, config), threads, sizes_of(corpus)))
        notice = fallback_notice(config.tokenizer)
        if notice is not None:
            progress.note(notice)
        encoder = open_file(tokenizer_file(config.tokenizer.path or ""), plan, threads)
        dtype = smallest_dtype(encoder.vocab_size)
        progress.begin("encode", None if corpus.sequential else corpus.input_bytes)
        with _sink(output, dtype, encoder, replace=overwrite) as sink, meter.stage("encode"):
            counts = _encode(corpus, encoder, sink, plan, threads, meter, progress)
        progress.end("encode")
    return EncodeSummary(
        output,
        dtype,
        counts["documents"],
        counts["bytes"],
        counts["tokens"],
        meter.seconds,
        {name: counts[name] for name in ("not_text", "invalid_utf8", "oversize_split") if counts[name]},
        meter.report(plan),
        encoder.statistics() or None,
    )


def _check_output(output: Path, *, overwrite: bool) -> None:
    """Refuse what can't become the output, before anything else is looked at."""
    refuse_special(output)
    if output.is_dir():
        raise StorageError(f"`{output}` is a folder", hint="choose a name for the file in it")
    if os.path.lexists(output) and not overwrite:
        raise StorageError(f"`{output}` exists", hint="choose another name, or say --overwrite")


def _refuse_inputs(output: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse to replace one of the files that are read, under whatever name they are."""
    if not os.path.lexists(output):
        return
    replaced = output.lstat()
    for path in inputs:
        with suppress(OSError, ValueError):  # a URL, or a file that is gone
            if os.path.samestat(os.stat(path), replaced):  # noqa: PTH116  for each of many files
                raise StorageError(
                    f"`{output}` is one of the files that are read: nothing was written",
                    hint="choose another name for --output",
                )


def _as_long_as(corpus: Corpus, config: KrillConfig) -> KrillConfig:
    """The config with documents no longer than the longest file, where that is known from its size."""
    if any(file.remote or file.compression or file.format not in _AS_WRITTEN for file in corpus.files):
        return config
    longest = max((file.bytes for file in corpus.files), default=1)
    most = min(config.preprocess.max_document_bytes, max(1, longest))
    preprocess = config.preprocess.model_copy(update={"max_document_bytes": most})
    return config.model_copy(update={"preprocess": preprocess})


def _needs(config: KrillConfig, threads: int, sizes: InputSizes | None = None) -> list[Need]:
    """What preprocessing needs while it encodes; what helps is an option of the command here."""
    sizing = Sizing(config, threads, sizes, made=sizes is not None)
    return [
        replace(need, remedy=need.remedy.replace("preprocess.max_document_bytes", "--max-document-bytes"))
        for need in (*reading_needs(sizing), *Encode.needs(sizing))
        if need.during in ("always", "start", "encode")
    ]


def _encode(
    corpus: Corpus,
    encoder: Encoder,
    sink: _TokenFile | _Lines,
    plan: Plan,
    threads: int,
    meter: Meter,
    progress: Progress,
) -> Counter[str]:
    """All documents into the file, in order; returns what was counted."""
    step = CleanText(strip=False, min_chars=0)

    def work(block: Block) -> tuple[NDArray[Any], NDArray[np.uint32], Mapping[str, int], int]:
        read = block.size
        documents = step.apply(block.documents())
        text = documents.batch.column("text")
        with naming_document(corpus.files, documents.batch.column("position")):
            ids, lengths = encoder.encode(text)
        offsets, _ = text_buffers(text)
        found = {"documents": len(lengths), "tokens": len(ids), "bytes": int(offsets[-1] - offsets[0])}
        return sink.prepared(ids), lengths, {**documents.counts, **found}, read

    blocks = (block for _, unit in corpus.walk(lambda position: None) for block in unit)
    counts: Counter[str] = Counter()
    for ids, lengths, found, read in ordered_map(
        work,
        blocks,
        threads=threads,
        bytes_in_flight=plan.share(ENCODING),
        size=lambda block: encode_cost(block.nbytes),
        throttle=meter,
    ):
        sink.add(ids, lengths)
        counts.update(found)
        progress.advance(read)
    return counts


class _TokenFile(AtomicFile):
    """A file of ids in the making; a `.npy` file begins with a header, which is known only in the end."""

    def __init__(self, path: Path, dtype: str, *, replace: bool) -> None:
        super().__init__(path, replace=replace)
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._tokens = 0
        self._has_header = path.suffix == ".npy"
        if self._has_header:
            self.write(bytes(NPY_HEADER_BYTES))

    def prepared(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Ids as they will be written; the work of whichever thread encoded them."""
        return np.ascontiguousarray(ids.astype(self._dtype, copy=False))

    def add(self, ids: NDArray[Any], lengths: NDArray[np.uint32]) -> None:
        self.write(ids)
        self._tokens += len(ids)

    def commit(self) -> None:
        if self._has_header:
            with storage_errors(self.path):
                self._file.seek(0)
                self._file.write(npy_header(self._dtype, self._tokens))
        super().commit()


class _Lines:
    """Ids for people: a line for each document, without the EOS that a line's end stands for."""

    def __init__(self, eos: int) -> None:
        self._eos = eos

    def prepared(self, ids: NDArray[Any]) -> NDArray[Any]:
        return ids

    def add(self, ids: NDArray[Any], lengths: NDArray[np.uint32]) -> None:
        start = 0
        for length in lengths.tolist():
            print(*ids[start : start + length - self._eos].tolist())
            start += length


@contextmanager
def _sink(path: Path | None, dtype: str, encoder: Encoder, *, replace: bool) -> Iterator[_TokenFile | _Lines]:
    """Where ids go; a file appears under its name when the body ends, and not at all if it raises."""
    if path is None:
        yield _Lines(0 if encoder.eos_id is None else 1)
        return
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    file = _TokenFile(path, dtype, replace=replace)
    with undo_on_error(file.abort):
        yield file
    file.commit()


def npy_header(dtype: np.dtype[Any], length: int) -> bytes:
    """The header of a one-dimensional `.npy` file, version 1.0, always of the same length."""
    fields = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({length},), }}"
    prefix = b"\x93NUMPY\x01\x00" + (NPY_HEADER_BYTES - 10).to_bytes(2, "little")
    return prefix + fields.ljust(NPY_HEADER_BYTES - len(prefix) - 1).encode("ascii") + b"\n"


def read_ids(path: Path, vocab_size: int) -> Iterator[NDArray[Any]]:
    """The ids of a file that `encode_files` wrote, or of any `.npy` of whole numbers, a piece at a time."""
    try:
        with open_regular(path) as file:
            dtype = _npy_dtype(path, file) if path.suffix == ".npy" else _flat_dtype(path, vocab_size)
            while len(ids := np.fromfile(file, dtype, IDS_AT_ONCE)):
                yield ids
    except OSError as error:
        raise InputError(f"can't read `{path}`: {error.strerror}", hint="check the path") from None


def _flat_dtype(path: Path, vocab_size: int) -> np.dtype[Any]:
    dtype = np.dtype(smallest_dtype(vocab_size)).newbyteorder("<")
    size = path.stat().st_size
    if size % dtype.itemsize:
        raise InputError(
            f"`{path}` has {size:,} bytes, which is no whole number of {dtype.name} tokens",
            hint="decode with the tokenizer that encoded it, or name a .npy file",
        )
    return dtype


def _npy_dtype(path: Path, file: Any) -> np.dtype[Any]:
    """The type in a `.npy` header, with the file left at its first id; nothing but numbers is read."""
    try:
        version = np.lib.format.read_magic(file)
        read_header = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read_header(file)
    except ValueError as error:
        raise InputError(f"`{path}` is not a .npy file: {error}", hint="check the path") from None
    if len(shape) != 1 or dtype.kind not in "iu":
        raise InputError(
            f"`{path}` holds {dtype} of the shape {shape}, not a row of ids", hint="name a file of token ids"
        )
    return np.dtype(dtype)


def decoded(
    pieces: Iterable[NDArray[Any]], decode: Callable[[NDArray[Any]], str], eos_id: int | None
) -> Iterator[str]:
    """The text of ids that come in pieces, cut where no character is cut."""
    left: NDArray[Any] = np.empty(0, np.uint32)
    for piece in pieces:
        ids = np.concatenate((left, piece)) if len(left) else piece
        cut = _cut(ids, decode, eos_id)
        yield decode(ids[:cut])
        left = ids[cut:]
    if len(left):
        yield decode(left)


def _cut(ids: NDArray[Any], decode: Callable[[NDArray[Any]], str], eos_id: int | None) -> int:
    """After the last EOS, else after the last token that ends a character."""
    if eos_id is not None:
        ends = (ids == eos_id).nonzero()[0]
        if len(ends):
            return int(ends[-1]) + 1
    for back in range(_CHARACTER_TOKENS):
        end = len(ids) - back
        if not decode(ids[max(0, end - 2 * _CHARACTER_TOKENS) : end]).endswith("�"):
            return end
    return len(ids)
