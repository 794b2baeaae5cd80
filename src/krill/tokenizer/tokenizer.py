"""`krill.tokenizer.load`: any tokenizer, for text, lists of texts and Arrow columns.

In: a `tokenizer.json` or its folder. Out: ids as Hugging Face's `encode(text, add_special_tokens=True)` gives
them, special tokens in the text and those of the post-processor included, EOS not added. Held in memory: the
tokenizer, a cache of words within the budget, and the ids that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from krill.budget import Need, make_plan, resolve_limit, resolve_threads
from krill.budget.process import metered_process
from krill.config.messages import shown
from krill.errors import InputError
from krill.faults import system_errors
from krill.notebook import facts_html, tokens_html
from krill.threads import ordered_map
from krill.tokenizer.encoder import FileEncoder
from krill.tokenizer.open import file_needs, open_file
from krill.tokenizer.sample_texts import SAMPLE_TEXTS
from krill.tokenizer.tokenizer_file import tokenizer_file

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

Piece = TypeVar("Piece", bound=tuple[Any, ...])
# Text goes to a thread in pieces of about this many bytes.
PIECE_BYTES: Final = 1_000_000
# Of a list of strings, whose ids are the result itself, up to this many characters.
MOST_CHARACTERS: Final = 8_000_000
# Of `SAMPLE_TEXTS`, in a notebook.
_SHOWN_TEXTS: Final = ("English", "Russian", "Japanese", "Python")


@system_errors()
def load(path: str | Path, memory: str | int = "auto", threads: int | str = "auto") -> Tokenizer:
    """The tokenizer at `path`, on `threads` threads; `memory` is how much the process may grow by it.

    The result of encoding itself is not counted. Neither memory nor threads change it.
    """
    file = tokenizer_file(path)
    count = max(1, resolve_threads(threads))
    plan = make_plan(
        resolve_limit(memory), 0, file_needs(file, max_document_bytes=PIECE_BYTES, threads=count)
    )
    return Tokenizer(open_file(file, plan, count), count)


@contextmanager
def open_within(path: str | Path, memory: str | int, threads: int, *, held: int = 0) -> Iterator[Tokenizer]:
    """The same for a command, whose budget is the whole process while the body runs: what a text becomes
    in a tokenizer is known only then, so that a guard ends the process where it is too much. `held` is
    what the caller will hold of texts and ids."""
    file = tokenizer_file(path)
    with metered_process(memory, threads) as meter:
        needs = file_needs(file, max_document_bytes=PIECE_BYTES, threads=threads)
        plan = meter.plan([*needs, *([Need("texts and ids", held)] if held else [])])
        yield Tokenizer(open_file(file, plan, threads), threads)


class Tokenizer:
    """A loaded tokenizer; threads may share it."""

    def __init__(self, encoder: FileEncoder, threads: int) -> None:
        self.encoder = encoder
        self._threads = threads
        self.vocab_size = encoder.vocab_size
        self.eos_token = encoder.eos_token
        self.eos_id = encoder.eos_id

    def __repr__(self) -> str:
        how = "native" if self.native else f"by Hugging Face, because {self.why}"
        return f"Tokenizer({self.encoder.name!r}, {self.vocab_size:,} tokens, {how})"

    def _repr_html_(self) -> str:
        """For notebooks: what it is, and how it cuts a few texts."""
        facts = facts_html(repr(self), [("end of text", self.eos_token), ("its id", self.eos_id)])
        shown = (SAMPLE_TEXTS[what] for what in _SHOWN_TEXTS)
        return facts + "".join(tokens_html(self.pieces(text)) for text in shown)

    @property
    def native(self) -> bool:
        """Whether the native core encodes; if not, `why` says why the library does."""
        return self.encoder.why is None

    @property
    def why(self) -> str | None:
        """What the native core can't do of this tokenizer; None if it can."""
        return self.encoder.why

    def encode(self, text: str) -> NDArray[np.uint32]:
        """The ids of one text."""
        if not isinstance(text, str):
            raise _not_text(text, "encode() takes one text, not", "encode_batch() takes a list of texts")
        ids, _ = self._checked_texts((text,), 0, 1)
        return ids

    def encode_batch(self, texts: Iterable[str]) -> list[NDArray[np.uint32]]:
        """The ids of each text, on all threads."""
        if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
            raise _not_text(texts, "encode_batch() takes a list of texts, not", "encode() takes one text")
        texts = tuple(texts)
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise _not_text(text, f"text {place:,} of the list is", "take it out, or make it a str")
        encoded: list[NDArray[np.uint32]] = []
        pieces = _row_ranges(texts, self._threads)

        def encode_piece(piece: tuple[int, int, int]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
            return self._checked_texts(texts, piece[0], piece[1])

        for ids, lengths in self._on_threads(encode_piece, pieces, MOST_CHARACTERS):
            end = 0
            for length in lengths.tolist():
                encoded.append(ids[end : end + length])
                end += length
        return encoded

    def _checked_texts(
        self, texts: tuple[str, ...], begin: int, end: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        try:
            return self.encoder.encode_texts(texts, begin, end)
        except UnicodeEncodeError:
            for place, text in enumerate(texts):
                _checked(text, place)
            raise

    def encode_arrow(self, texts: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Offsets (one more than rows) and the ids of all rows; no Python object is made for a row.

        The ids have the smallest unsigned type that holds the vocabulary, or 32 bits if not native.
        """
        import numpy as np

        # One thread takes chunks as they are: then nothing is to be put together.
        pieces = list(_pieces(texts, PIECE_BYTES if self._threads > 1 else None))
        rows = sum(len(text) for text, _ in pieces)
        offsets = np.zeros(rows + 1, np.int64)
        row = 0
        runs: list[NDArray[Any]] = []

        def encode_piece(piece: tuple[pa.Array, int]) -> tuple[NDArray[Any], NDArray[np.uint32]]:
            return self.encoder.encode(piece[0], eos=False)

        for ids, lengths in self._on_threads(encode_piece, pieces, PIECE_BYTES):
            offsets[row + 1 : row + 1 + len(lengths)] = lengths
            row += len(lengths)
            runs.append(ids)
        np.cumsum(offsets, out=offsets)
        return offsets, _joined(runs)

    def _on_threads(
        self,
        work: Callable[[Piece], tuple[NDArray[Any], NDArray[np.uint32]]],
        pieces: Sequence[Piece],
        size: int,
    ) -> Iterable[tuple[NDArray[Any], NDArray[np.uint32]]]:
        """What `work` makes of each piece, whose last item is its size, mostly no more than `size`."""
        if self._threads == 1 or len(pieces) <= 1:
            return map(work, pieces)
        return ordered_map(
            work,
            pieces,
            threads=self._threads,
            bytes_in_flight=2 * size * self._threads,
            size=lambda piece: piece[-1],
        )

    def encode_offsets(self, text: str) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """The ids of one text and where each stands in it: begin and end in characters, shape (n, 2)."""
        import numpy as np

        if not isinstance(text, str):
            raise _not_text(text, "encode_offsets() takes one text, not", "call it for each of several")
        _checked(text, 0)
        ids, offsets = self.encoder.encode_offsets(text)
        return ids.astype(np.uint32, copy=False), offsets

    def pieces(self, text: str) -> list[tuple[int, str]]:
        """The ids of one text, each with the characters that it ends; a token that ends none, being a part of
        a character, shows its id as `⟨7⟩`."""
        ids, offsets = self.encode_offsets(text)
        found, end = [], 0
        for number, (begin, stop) in zip(ids.tolist(), offsets.tolist(), strict=True):
            found.append((number, text[max(begin, end) : stop] if stop > end else f"\u27e8{number}\u27e9"))
            end = max(end, stop)
        return found

    def decode(self, ids: Iterable[int] | NDArray[Any], skip_special_tokens: bool = False) -> str:
        """The text of some ids, of any iterable; bytes that are no text show as U+FFFD."""
        numbers = _numbers(ids)
        wrong = numbers[(numbers < 0) | (numbers >= self.vocab_size)]
        if len(wrong):
            raise InputError(
                f"the id `{wrong[0]}` is not in the vocabulary, which has {self.vocab_size:,} ids",
                hint="decode with the tokenizer that made the ids",
            )
        return self.encoder.decode(numbers, skip_special_tokens=skip_special_tokens)

    def statistics(self) -> dict[str, float]:
        """Words, hits and misses of the cache, bytes and seconds of misses; empty if not native."""
        return self.encoder.statistics()


def _not_text(value: object, where: str, remedy: str) -> InputError:
    """For what is given instead of a text."""
    kind = "None" if value is None else f"`{type(value).__name__}`"
    if isinstance(value, bytes | bytearray):
        remedy = 'decode it first: value.decode("utf-8")'
    return InputError(f"{where} {kind}", hint=remedy)


def _numbers(ids: Iterable[int] | NDArray[Any]) -> NDArray[Any]:
    """Ids as an array of whole numbers."""
    import numpy as np

    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InputError(
            f"decode() takes ids, not {'None' if ids is None else f'`{type(ids).__name__}`'}",
            hint="give a list, an array or an iterator of whole numbers",
        )
    try:
        numbers = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids)).reshape(-1)
    except ValueError:
        raise InputError(
            "decode() takes the ids of one text, not lists of different lengths",
            hint="call it for each of them",
        ) from None
    if len(numbers) == 0:
        return np.empty(0, np.int64)
    if numbers.dtype.kind not in "iu":
        wrong = next((one for one in numbers.tolist() if type(one) is not int), numbers.tolist()[0])
        raise InputError(
            f"the id `{shown(wrong)}` is not a whole number that an id can be",
            hint="give the ids of one text, as whole numbers",
        )
    return numbers


def _checked(text: str, place: int) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"text {place:,} has a lone surrogate at character {error.start:,}, which is no Unicode text",
            hint="make it with text.encode('utf-8', 'replace').decode()",
        ) from None


def _row_ranges(texts: tuple[str, ...], threads: int) -> list[tuple[int, int, int]]:
    """Begin, end and characters of parts of a list: large ones, for huge pages, but several for a thread."""
    lengths = list(map(len, texts))
    most = min(MOST_CHARACTERS, max(PIECE_BYTES, sum(lengths) // (4 * threads)))
    ranges, begin, size = [], 0, 0
    for row, length in enumerate(lengths):
        if size and size + length > most:
            ranges.append((begin, row, size))
            begin, size = row, 0
        size += length
    return [*ranges, (begin, len(texts), size)] if texts else []


def _pieces(texts: pa.Array | pa.ChunkedArray, most: int | None) -> Iterator[tuple[pa.Array, int]]:
    """Slices of a column and their bytes, up to `most` but at least one row; without it, whole chunks."""
    import pyarrow as pa

    from krill.corpus.buffers import text_buffers

    for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
        text = _large(chunk)
        offsets, _ = text_buffers(text)
        start = 0
        while start < len(text):
            end = len(text)
            if most is not None:
                end = max(start + 1, int(offsets.searchsorted(offsets[start] + most, side="right")) - 1)
            yield text.slice(start, end - start), int(offsets[end] - offsets[start])
            start = end


def _large(chunk: pa.Array) -> pa.Array:
    """A chunk as `large_string`, which has no nulls."""
    import numpy as np
    import pyarrow as pa

    from krill.corpus.buffers import text_column

    if chunk.null_count:
        raise InputError("the column has rows without text", hint='leave them out, or fill them with ""')
    if chunk.type == pa.large_string():
        return chunk
    if chunk.type != pa.string():
        raise InputError(f"the column holds `{chunk.type}`, not text", hint="give a column of strings")
    _, offsets, data = chunk.buffers()
    if len(chunk) == 0:
        return text_column(np.zeros(1, np.int64), np.empty(0, np.uint8))
    narrow = np.frombuffer(offsets, np.int32, len(chunk) + 1, chunk.offset * 4)
    return text_column(narrow.astype(np.int64), np.frombuffer(data or b"", np.uint8))


def _joined(runs: list[NDArray[Any]]) -> NDArray[Any]:
    """All runs in one array; each is let go as soon as it is copied."""
    import numpy as np

    if len(runs) == 1:
        return runs[0]
    ids = np.empty(sum(map(len, runs)), runs[0].dtype if runs else np.uint16)
    end = len(ids)
    while runs:
        run = runs.pop()
        ids[end - len(run) : end] = run
        end -= len(run)
    return ids
