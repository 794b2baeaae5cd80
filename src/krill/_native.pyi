"""Krill's native core: the loops that touch every byte. All of it works without the GIL."""

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_Int16s: TypeAlias = NDArray[np.int16]
_Int32s: TypeAlias = NDArray[np.int32]
_Int64s: TypeAlias = NDArray[np.int64]
_UInt8s: TypeAlias = NDArray[np.uint8]
_UInt16s: TypeAlias = NDArray[np.uint16]
_UInt32s: TypeAlias = NDArray[np.uint32]
_UInt64s: TypeAlias = NDArray[np.uint64]
_Float32s: TypeAlias = NDArray[np.float32]
_Float64s: TypeAlias = NDArray[np.float64]
_Bytes: TypeAlias = Buffer | _UInt8s
_Texts: TypeAlias = tuple[_Int64s, _UInt8s]  # offsets, one more than texts, and bytes

# ---- readers: native/bindings/bind_readers.cpp, bind_csv.cpp ----

# Columns end to end: offsets, data, null mask, and where the data of each column begins.
_Columns: TypeAlias = tuple[_Int64s, _UInt8s, _UInt8s, _Int64s]
_Batch: TypeAlias = tuple[_Int64s, _UInt8s, _UInt8s, _UInt64s, _Columns, dict[str, int]]

def csv_rows(data: _Bytes, delimiter: int, final: bool) -> tuple[_Int64s, int]:
    """Where rows begin in bytes that start with a row, and where the last whole row ends; empty rows are
    ignored.

    Unless the bytes are the file's `final` ones, a row counts only when its end was seen.
    """

def csv_fields(
    data: _Bytes, starts: _Int64s, delimiter: int, columns: int, wanted: list[int]
) -> tuple[_Columns, _Int64s, int]:
    """The wanted columns of rows that should have `columns` columns; the indices of rows that have another
    number, which are left out; and how many the first of those has."""

class Separator:
    """The separator of documents in plain text; it may overlap itself."""

    def __init__(self, bytes: bytes) -> None: ...
    @property
    def overlaps_itself(self) -> bool: ...
    def next_certain(self, data: _Bytes, begin: int) -> int:
        """The end of the first occurrence from `begin` on that no earlier one overlaps, or -1; one pass."""

class MalformedRecord(ValueError):
    """A record that can't be read: args are the record's offset, the fault's offset, and the reason."""

    args: tuple[int, int, str]

class _Reader:
    """What both readers have: they are fed the bytes of a file in order, and give rows."""

    def feed(self, data: _Bytes, offset: int) -> None:
        """Parse the next bytes of the decoded file; `offset` is their position, after the last feed's."""

    def finish(self) -> None:
        """End the file. JSON: the last line may lack its newline, an incomplete record is malformed."""

    def add_file(self, data: _Bytes, base: int, start: int) -> bool:
        """Parse another file, or its bytes from `start` on; rows are appended, and `base` is added to their
        starts. True if it has records but no text, or begins with a byte order mark of UTF-16 or UTF-32."""

    def read_files(self, paths: list[bytes], bases: _UInt64s, starts: _UInt64s, ends: _UInt64s) -> list[int]:
        """`add_file` for a range of each of these local files; the indices of those where it is true."""

    def read_range(self, path: bytes, start: int, end: int) -> None:
        """Feed the bytes [start, end) of a local file, and finish."""

    def read_clean(
        self, path: bytes, start: int, end: int, strip: bool, min_chars: int
    ) -> tuple[
        _Int64s, _UInt8s, _UInt64s, _UInt64s, dict[str, int], tuple[_Int64s, _UInt8s, _UInt64s, _UInt8s]
    ]:
        """`read_range`, `take`, `clean` and `hash_documents` in one: offsets, data, starts, hashes, counts;
        then what cleaning dropped, as it came: offsets, data, starts, null mask.

        Carried columns are left out, and the counts are those of both.
        """

    def take(self) -> _Batch:
        """The rows so far: text offsets, data and null mask (1 = null), starts, carried columns, counts.

        The open record or document stays inside, except for pieces already split off. A start is the offset
        of the document, in JSON of the record's `{`; of later pieces, the offset of their first character.
        """

    @property
    def pending_bytes(self) -> int:
        """Bytes of texts and carried values so far, the open ones included."""

    @property
    def complete(self) -> bool:
        """Whether no record or document is open, and no separator is half read."""

class JsonReader(_Reader):
    """Push parser of JSON Lines, or of one top-level array of objects (`array`).

    A document above `max_document_bytes` is split at its last paragraph, line or character break, or dropped
    (`drop_oversize`). Carried columns of a split document are null on all its pieces but the last. A carried
    value above `max_document_bytes` makes the record malformed. With `skip_malformed`, faulty lines are left
    out and counted, except for pieces that were emitted before the fault; faults of an array always raise.
    With `whole`, a document is the record itself, verbatim.
    """

    def __init__(
        self,
        text_key: bytes,
        carry: list[bytes],
        max_document_bytes: int,
        drop_oversize: bool,
        skip_malformed: bool,
        array: bool,
        whole: bool = False,
    ) -> None: ...

class TextReader(_Reader):
    """Push parser of plain text: documents are separated by `separator`; b"" makes the whole file one. No row
    is null and there are no carried columns."""

    def __init__(self, separator: bytes, max_document_bytes: int, drop_oversize: bool) -> None: ...

# ---- clean: native/bindings/bind_clean.cpp ----

def clean(
    offsets: _Int64s, data: _Bytes, null_mask: _UInt8s | None, strip: bool, min_chars: int
) -> tuple[_Int64s, _UInt8s, _Int64s, _UInt32s, dict[str, int]]:
    """Documents without bytes that are not UTF-8, stripped if asked, those below `min_chars` dropped.

    Returns offsets, data, the input row of each kept document, its code points, and the counts `not_text`
    (null, dropped), `too_short` (dropped) and `invalid_utf8` (repaired).
    """

def pick_texts(offsets: _Int64s, data: _Bytes, keep: _UInt8s) -> _Texts:
    """Offsets and data of the documents whose `keep` is not 0."""

# ---- Columns: native/bindings/bind_columns.cpp ----

def row_bytes(schema: object, batch: object) -> tuple[_Int64s, list[int]]:
    """The bytes of each row of a batch, strings and plain numbers only; and the indices of all other columns.

    The arguments are the capsules of `RecordBatch.__arrow_c_array__`; the batch must have been validated.
    """

# ---- Parquet: native/bindings/bind_parquet.cpp ----

def parquet_footer(
    data: _Bytes,
) -> tuple[list[bytes], _Int64s, _Int64s, _Int64s, _Int64s, _Int64s, _Int64s, _Int64s]:
    """The checked content of a footer; ValueError where it contradicts itself.

    Returns the table's column of each leaf, the rows of each row group; then for each row group and leaf, in
    that order: physical type, values, bytes uncompressed and compressed, offsets of the first data page and
    of the dictionary page (0: none).
    """

def parquet_page_header(data: _Bytes) -> tuple[int, int, int, int, int] | None:
    """The page header at the front: the page's kind, its bytes stored and decoded, its values, and the size
    of the header; None if the bytes end inside it, ValueError if it is invalid."""

def damaged_parquet_pages(file: int, starts: _Int64s, ends: _Int64s, values: _Int64s) -> _Int64s:
    """For each column in [start, end) of an open file, the offset of its first page that is invalid or
    reaches beyond the end, or -1; pages are checked until they have the column's values."""

# ---- dedup: native/bindings/bind_dedup.cpp ----

class TableFull(MemoryError):
    """A `HashSet` holds `max_keys` keys and was given another."""

class HashSet:
    """A set of 128-bit hashes in `capacity_bytes` bytes, never more."""

    def __init__(self, capacity_bytes: int) -> None: ...
    def insert(self, hashes: _UInt64s) -> _UInt8s:
        """1 for each hash seen for the first time, else 0. On `TableFull`, earlier keys stay."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def max_keys(self) -> int: ...

def hash_documents(offsets: _Int64s, data: _Bytes, seed: int = 0) -> _UInt64s:
    """MurmurHash3 x64 128 of each document's bytes, shape (n, 2), as `mmh3.hash64` gives it unsigned."""

def partition_hashes(hashes: _UInt64s, shift: int, width: int) -> tuple[_UInt64s, _Int64s]:
    """Hashes sorted stably by `width` of their bits; and how many each partition has."""

def join_flags(hashes: _UInt64s, shift: int, width: int, flags: _UInt8s) -> _UInt8s:
    """Flags in the order of `partition_hashes`, put back into the order of `hashes`."""

class BloomFilter:
    """A Bloom filter over 128-bit hashes: `blocks` of 512 bits; each hash sets up to `bits` in one."""

    def __init__(self, blocks: int, bits: int) -> None: ...
    def insert(self, hashes: _UInt64s) -> _UInt8s:
        """1 for each hash that was certainly not seen before, else 0."""

    @property
    def nbytes(self) -> int: ...

def piece_hashes(offsets: _Int64s, data: _Bytes, level: str) -> tuple[_UInt64s, _UInt32s]:
    """The hash of each line or paragraph that is not only whitespace, shape (n, 2), without the whitespace at
    its ends; and how many each document has."""

def keep_pieces(offsets: _Int64s, data: _Bytes, level: str, flags: _UInt8s) -> _Texts:
    """The documents without the pieces whose flag is 0, as offsets and bytes."""

# ---- minhash: native/bindings/bind_minhash.cpp ----

def minhash_bands(offsets: _Int64s, data: _Bytes, bands: int, rows: int, ngram: int) -> _UInt64s:
    """For each document `bands` numbers; near-duplicates agree in some of them."""

def shingle_sets(offsets: _Int64s, data: _Bytes, ngram: int) -> tuple[_UInt64s, _Int64s]:
    """The distinct shingles of each document in rising order, and where each document's begin."""

def folded_text(offsets: _Int64s, data: _Bytes) -> _Texts:
    """The words that shingles are made of, joined by spaces, as offsets and bytes."""

def jaccard(index: int, data: int, pairs: _UInt64s) -> _Float64s:
    """The Jaccard similarity of the sets of each pair of documents, read from two open files: `index` has for
    each document where its set begins in `data` and how many numbers it has."""

class MinTable:
    """The least number seen with each key, in `capacity_bytes` bytes, never more."""

    def __init__(self, capacity_bytes: int) -> None: ...
    def fold(self, records: _UInt64s) -> _UInt64s:
        """Records are (number, key); returns the least number of each record's key so far. On `TableFull`,
        earlier records stay."""

    def __len__(self) -> int: ...
    @property
    def max_keys(self) -> int: ...

class Components:
    """Connected components of a graph over `documents` documents, each named by its smallest."""

    def __init__(self, documents: int) -> None: ...
    def mark(self, edges: _UInt64s) -> None:
        """Mark documents that have an edge; must see all edges before the first `join`."""

    @property
    def members(self) -> int:
        """Documents with an edge."""

    def join(self, edges: _UInt64s) -> None: ...
    def count(self, prior: int) -> tuple[int, int]:
        """The number of clusters with a document that is not kept, and the documents of the largest;
        documents below `prior` are not counted."""

    def labels(self, first: int, count: int) -> tuple[_UInt64s, _UInt32s]:
        """The smallest document of the component, and how many it has, for `count` documents from `first`."""

# ---- tokens: native/bindings/bind_tokens.cpp ----

def encode_bytes(offsets: _Int64s, data: _Bytes, eos: int) -> tuple[_UInt16s, _UInt32s]:
    """Each byte is its own id, and `eos` ends each document. Returns all ids and each document's length."""

_Id = TypeVar("_Id", np.uint8, np.uint16, np.uint32, np.uint64)

def select_documents(ids: NDArray[_Id], lengths: _UInt32s, keep: _UInt8s) -> tuple[NDArray[_Id], _UInt32s]:
    """The ids and lengths of the documents whose `keep` is not 0."""

def prepend_token(ids: NDArray[_Id], lengths: _UInt32s, first: int) -> tuple[NDArray[_Id], _UInt32s]:
    """The ids and lengths of the documents, each with the id `first` in front."""

# ---- pack: native/bindings/bind_pack.cpp ----

class UnreadableFile(OSError):
    """A file of a `PieceReader` can't be read: args are its number and the reason."""

    args: tuple[int, str]

class PackedWindow:
    """A window of documents as rows of at most `width` tokens; with `best_fit`, several documents to a row.

    Keeps the lengths, which must not be changed, and with `best_fit` up to 8 bytes more for each document;
    while it is made, 16, and 4 for each token of a row.
    """

    def __init__(self, lengths: _UInt32s, width: int, best_fit: bool) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    def pieces(self, first: int, count: int) -> tuple[_Int64s, _Int32s, _Int32s]:
        """Of rows `first` to `first + count`: where each piece begins among the window's tokens, its length,
        and where rows begin among the pieces. IndexError beyond the last row."""

class PieceReader:
    """Reads pieces of many files with at most 16 of them open. One thread at a time."""

    def __init__(self, paths: list[bytes]) -> None: ...
    def read(self, files: _UInt32s, offsets: _Int64s, sizes: _Int64s, out: _UInt8s) -> None:
        """Fill `out` with `sizes[i]` bytes at `offsets[i]` of file `files[i]`, for each `i` in turn."""

# ---- regexes of tokenizers: native/bindings/bind_regex.cpp ----

class Regex:
    """A regex of a tokenizer.json; a `ValueError` says why a pattern is refused or not supported."""

    def __init__(self, pattern: str) -> None: ...
    def split(self, data: _Bytes, capacity: int = 4096) -> _UInt32s:
        """Where each match ends and, with the highest bit set, each stretch between matches."""

    def find(self, data: _Bytes, from_: int = 0) -> tuple[int, int] | None:
        """Where the first match from a place on begins and ends."""

    @property
    def is_dfa(self) -> bool: ...
    @property
    def matches_empty(self) -> bool: ...
    @property
    def held_bytes(self) -> int: ...

# ---- pre-tokenizers: native/bindings/bind_pretokenizer.cpp ----

class PreTokenizerStep:
    """One that cuts, or one that rewrites; a `ValueError` says what is wrong with its arguments."""

    @staticmethod
    def split(regex: str, behavior: str, invert: bool) -> PreTokenizerStep: ...
    @staticmethod
    def split_string(string: str, behavior: str, invert: bool) -> PreTokenizerStep: ...
    @staticmethod
    def words(pattern: str) -> PreTokenizerStep:
        """The words of a named pattern."""

    @staticmethod
    def digits(individual: bool) -> PreTokenizerStep: ...
    @staticmethod
    def punctuation(behavior: str) -> PreTokenizerStep: ...
    @staticmethod
    def whitespace() -> PreTokenizerStep: ...
    @staticmethod
    def whitespace_split() -> PreTokenizerStep: ...
    @staticmethod
    def bert() -> PreTokenizerStep: ...
    @staticmethod
    def scripts() -> PreTokenizerStep: ...
    @staticmethod
    def fixed_length(length: int) -> PreTokenizerStep: ...
    @staticmethod
    def rewrite(
        replacement: str, prefix: str, where: str, takes_spaces: bool = False
    ) -> PreTokenizerStep:
        """Replaces spaces in each piece, then puts a prefix in front `always`, `first` or `never`, unless it is
        there; with `takes_spaces` a space is as good."""

    @staticmethod
    def letters() -> PreTokenizerStep:
        """Writes each byte as the letter that stands for it."""

    def over_letters(self) -> PreTokenizerStep | None:
        """The same for bytes that stand for letters; None where only the letters themselves can be cut."""

class PreTokenizer:
    """All steps of a pre-tokenizer, one after the other."""

    def __init__(self, steps: list[PreTokenizerStep]) -> None: ...
    def cut(
        self, text: _Bytes, is_start: bool = True, capacity: int = 4096
    ) -> tuple[bytes, _UInt32s, _UInt32s]:
        """The text as its words have it; where they end, with the highest bit set if they are left out; and
        for each byte where the characters that it stands for begin and end in the text given."""

    @property
    def held_bytes(self) -> int: ...

# ---- scanner: native/bindings/bind_scanner.cpp ----

def scan_words(data: _Bytes, pattern: str, plainly: bool = False) -> _UInt32s:
    """Where each word (pretoken) of one text ends. Patterns: gpt2, cl100k, o200k, llama3, qwen2, and regexes
    that `scanner_regex` knows. `plainly`: without instructions that not every machine has."""

def scanner_regex(regex: str) -> str | None:
    """The one regex for all that cut text into the same words, if these are words of the scanner."""

def last_cut(data: _Bytes) -> int:
    """The last position where the text may be cut without changing a word of any pattern, or 0."""

def first_cut(data: _Bytes, from_: int) -> int:
    """The first such position at `from_` or later, or the size of the data."""

def find_tokens(data: _Bytes, tokens: list[bytes]) -> tuple[_UInt64s, _UInt64s, _UInt32s]:
    """Occurrences of tokens, leftmost and longest: starts, ends, and the index of each token."""

# ---- encoder: native/bindings/bind_encoder.cpp ----

class Encoder:
    """A tokenizer, from up to `workers` threads at once.

    The texts of all ids are those of a BPE model, else `tokens`; `flags` of each id: 1 in use, 2 part of a
    word, 4 special. An added token is its text, its id, and whether it is single_word, lstrip, rstrip,
    normalized. An id that is `decoded` becomes the text there in place of its own, and may be special then.
    Without a `pre_tokenizer` each section is a word. `unmarked` are the steps to the same words with spaces in
    the place of U+2581, for a model that reads them so; offsets are found without. `cache_bytes` is the size of
    each worker's cache of words.
    """

    def __init__(
        self,
        model: Model,
        tokens: _Bytes,
        offsets: _Int64s,
        flags: _UInt8s,
        *,
        byte_level: bool,
        normalizer: Normalizer | None,
        added: list[tuple[bytes, int, bool, bool, bool, bool]],
        decoded: list[tuple[int, bytes, bool]],
        pre_tokenizer: PreTokenizer | None,
        unmarked: tuple[Normalizer | None, PreTokenizer | None] | None = None,
        prefix: list[int],
        suffix: list[int],
        trims_offsets: bool,
        keeps_first_space: bool,
        cache_bytes: int,
        workers: int,
    ) -> None: ...
    def encode(self, offsets: _Int64s, data: _Bytes, eos: int) -> tuple[_UInt16s | _UInt32s, _UInt32s]:
        """All ids and each document's length: prefix, tokens, suffix, and `eos` unless it is negative."""

    def encode_strings(self, texts: tuple[str, ...], begin: int, end: int) -> tuple[_UInt32s, _UInt32s]:
        """The same for strings [begin, end), without `eos`; `ValueError` if one has a lone surrogate."""

    def encode_spans(
        self, offsets: _Int64s, data: _Bytes, spans: _Int64s, guards: _Int64s, token_levels: _UInt8s
    ) -> tuple[_UInt16s | _UInt32s, _UInt32s, _UInt8s, _UInt8s]:
        """All ids without prefix and suffix, each document's length, 1 for each id that shares a byte with a
        span but is not its document's first, and 1 for each document of whose guarded text the model made a
        token that is not looked for there. `spans` has rows of begins and ends in `data`, in order; `guards`
        a third of levels: an added token whose level is that or more is not found there."""

    def encode_offsets(self, data: _Bytes) -> tuple[_UInt16s | _UInt32s, _UInt32s]:
        """The ids of one text, and begin and end of each in characters, shape (n, 2)."""

    def decode(self, ids: _UInt32s, skip_special: bool) -> bytes:
        """The bytes of some ids; `IndexError` if one is not in the vocabulary."""

    def decode_with(self, ids: _UInt32s, skip_special: bool, decoder: Decoder) -> bytes:
        """The same, as a decoder puts the tokens together."""

    def statistics(self) -> dict[str, int]:
        """Of all calls that have ended: words, bytes, misses, miss_bytes, timed_bytes, timed_nanoseconds."""

    def release(self) -> None:
        """Give the caches of words back, until the next call."""

    def __len__(self) -> int: ...

# ---- one model: native/bindings/bind_bpe_model.cpp ----

class BpeModel(Model):
    """Byte-pair encoding of single words, byte-level or over characters.

    `unk` is the unknown token's id, -1 if there is one that the vocabulary lacks. Invalid arguments raise
    `ValueError`; a word that needs a missing unknown token raises `RuntimeError`.
    """

    def __init__(
        self,
        tokens: _Bytes,
        offsets: _Int64s,
        flags: _UInt8s,
        merges: _UInt32s,
        *,
        byte_level: bool,
        byte_fallback: bool = False,
        unk: int | None = None,
        fuse_unk: bool = False,
        prefix: bytes | None = None,
        suffix: bytes | None = None,
        ignore_merges: bool = False,
        reads_spaces_as_marks: bool = False,
    ) -> None: ...
    def encode_word(self, word: _Bytes) -> tuple[_UInt32s, _UInt32s]:
        """The ids of a word, and how many of its bytes each covers."""

    def encode_texts(
        self, offsets: _Int64s, data: _Bytes, cache_bytes: int
    ) -> tuple[_UInt32s, _UInt32s, dict[str, int]]:
        """Texts that are a word each: all ids, how many of each text, and the cache's statistics."""

    def encode_ranges(self, text: _Bytes) -> tuple[_UInt32s, _UInt32s]:
        """A text that is one word: ids, and begin and end of each in bytes, one after the other."""

    def cut_pieces(self, word: _Bytes) -> list[int]:
        """Where a word may be cut without changing its ids; none if it has to stay whole."""

    def counts_letters(self) -> bool:
        """Whether lengths count the letters that represent bytes, in UTF-8, as bytes may be left out."""

    def held_bytes(self) -> int: ...

# ---- memory: native/bindings/bind_memory.cpp ----

def configure_malloc(mapped_from: int = 4194304) -> None:
    """Make glibc give freed memory back: one arena, low mmap and trim thresholds. Elsewhere, nothing."""

def trim(code: bool = False) -> None:
    """Give free pages of the heap back to the system now (on glibc), and `code` of libraries (on Linux),
    which is mapped from their files again when it is used."""

def resident_bytes() -> int:
    """The resident memory of this process, or -1 where there is no /proc."""

class MemoryGuard:
    """A thread that ends this process with `exit_code` when it has `ends_at` bytes resident, after writing
    `message` to standard error."""

    def __init__(self, ends_at: int, message: str, exit_code: int) -> None: ...
    def start(self) -> bool:
        """False where the system refuses a thread or has no /proc."""

    def stop(self) -> None: ...

def note_collection(phase: str, info: object) -> None:
    """For `gc.callbacks`: the garbage collector starts ("start") or is done ("stop") in this thread."""

def collection_runs_here() -> bool:
    """Whether the garbage collector is running in this thread."""

# ---- training tokenizers: native/bindings/bind_counter.cpp, bind_merges.cpp ----

class DamagedFile(ValueError): ...

class WordCounter:
    """Counts words exactly in `cap_bytes`; beyond that, sorted segments are spilled to a file."""

    def __init__(
        self,
        pattern: str,
        boundaries: list[bytes],
        lines: bool,
        cap_bytes: int,
        threads: int,
        spill_path: str,
        segments: _UInt64s,
        spill_size: int,
    ) -> None: ...
    def add(self, offsets: _Int64s, data: _Bytes) -> None:
        """Count the words of each document; from any thread."""

    def add_words(self, ends: _UInt64s, data: _Bytes) -> None:
        """Count words that were cut already; from any thread."""

    def checkpoint(self) -> _UInt64s:
        """Spill everything; returns the segments (shard, begin, end). Only while no thread adds."""

    def write_counts(self, path: str) -> tuple[int, int, int, _UInt64s]:
        """Write all words and their counts; returns distinct words, occurrences, bytes of the distinct words,
        and how often each byte occurs."""

    @property
    def held_bytes(self) -> int: ...
    @property
    def spilled_bytes(self) -> int: ...

class MergeTrainer:
    """Learns merges from an inventory in `cap_bytes`."""

    def __init__(
        self,
        inventory: str,
        byte_ids: _Int32s,
        tokens: list[bytes | None],
        vocab_size: int,
        min_frequency: int,
        max_token_length: int,
        greatest: bool,
        cap_bytes: int,
        scratch_path: str,
    ) -> None: ...
    def run(self, most: int, seconds: float) -> int: ...
    def merges(self) -> _UInt32s: ...
    def tokens(self) -> list[bytes]: ...
    def statistics(self) -> dict[str, Any]: ...

# ---- language: native/bindings/bind_language.cpp ----

def language_text(data: _Bytes) -> bytes:
    """One text as the language model sees it: lower case if all letters are capitals, in normal form C."""

class LanguageModel:
    """Detects the language of a text: an automaton finds features, and each has a weight for each language.

    A state's row is a default row with some entries of its own. Dense features have a weight (in multiples of
    `step`) for each language; sparse features come after them, as pairs of language and weight. `same_as` is
    the first language of the same name."""

    def __init__(
        self,
        defaults: _UInt32s,
        default_of: _UInt8s,
        row_starts: _UInt32s,
        bytes: _UInt8s,
        targets: _UInt32s,
        row_of: _UInt32s,
        feature_of: _UInt32s,
        dense: _Int16s,
        pair_starts: _UInt32s,
        pair_languages: _UInt8s,
        pair_steps: _Int16s,
        prior: _Float32s,
        background: _Float32s,
        step: float,
        same_as: _UInt8s,
    ) -> None: ...
    def classify(self, offsets: _Int64s, data: _Bytes) -> tuple[_UInt8s, _Float32s]:
        """The index of each document's language, and its probability."""

    @property
    def nbytes(self) -> int: ...

# ---- quality: native/bindings/bind_quality.cpp ----

class Quality:
    """Quality filters in a row; immutable but for what it counts, for any number of threads.

    `sections` are names of filters (those of `krill.config.filters`, and `lengths`) with all thresholds.
    """

    def __init__(self, sections: list[tuple[str, dict[str, Any]]]) -> None: ...
    @property
    def reasons(self) -> list[str]:
        """Reasons for dropping a document; code `k` means `reasons[k - 1]`."""

    @property
    def statistics(self) -> list[tuple[str, bool]]:
        """The names of the measurements, and whether each is a count rather than a ratio."""

    def scratch_bytes(self, max_document_bytes: int, threads: int) -> int:
        """The most memory that all threads together need besides texts and results."""

    def expected_bytes(self, document_bytes: int) -> int:
        """What a document of that size is likely to need of it."""

    def judge(
        self, offsets: _Int64s, data: _Bytes, statistics: bool
    ) -> tuple[_UInt8s, list[_Float64s], _Texts | None]:
        """A code for each document (0 = kept), the measurements of kept documents, and the texts if any
        changed."""

    def take_line_counts(self) -> dict[str, int]:
        """Counts of the lines that C4 kept and dropped since the last call, by datatrove's names."""

def word_spans(data: _Bytes) -> _UInt32s:
    """The words of a UTF-8 text: begin and size in bytes of each in turn."""

def sentence_spans(data: _Bytes) -> _UInt32s:
    """The sentences of a UTF-8 text, which cover it: begin and size in bytes of each in turn."""

# ---- loading: native/bindings/bind_loading.cpp ----

class BadRow(ValueError):
    """A row that contradicts itself: args are its index in the batch and the reason."""

    args: tuple[int, str]

def shuffled_rows(rows: int, block_rows: int, window: int, key: _UInt64s, start: int, stop: int) -> _Int64s:
    """The rows at positions `start` to `stop` of a shuffled order: blocks permuted, then rows in windows."""

class BlockPool:
    """Reuses the memory of freed batches; keeps at most `most_free` unused bytes."""

    def __init__(self, most_free: int) -> None: ...

class ShardRows:
    """Rows of shards by number. Any thread may read.

    `row_starts` has one number more than shards; `more` columns follow the two that all have, labels first;
    `batch_offsets` are those of all shards, one after another.
    """

    def __init__(
        self,
        paths: list[bytes],
        sizes: _Int64s,
        row_starts: _Int64s,
        batch_offsets: _Int64s,
        rows_per_batch: int,
        width: int,
        itemsize: int,
        fixed: bool,
        more: int,
        cache_bytes: int,
        mapped: bool,
        pool: BlockPool,
    ) -> None: ...
    def gather(
        self, rows: _Int64s, with_tokens: bool = True
    ) -> tuple[_UInt8s, _Int32s, _Int64s, _Int32s, _Int32s]:
        """Rows in the order asked for: the bytes of their tokens, their labels if shards have them, where
        each begins (in tokens), the lengths of their documents, where each row's begin. Without `with_tokens`
        only the lengths are read, and there are no tokens. `UnreadableFile` names a shard by its number."""

    @property
    def cached_bytes(self) -> int:
        """The current size of the cache of record batch headers."""

def make_columns(
    pool: BlockPool,
    tokens: NDArray[Any],
    labels_given: _Int32s,
    offsets: _Int64s,
    seq_lengths: _Int32s,
    seq_offsets: _Int32s,
    width: int,
    pad: int,
    wide: bool,
    labels: int,
    segments: bool,
    positions: bool,
    mask: bool,
) -> list[NDArray[Any]]:
    """Columns of `width` numbers a row: ids, then those asked for, in the order of the arguments. All are
    int64 if `wide`, else int32. `labels`: 0 none, 1 shifted (int32), 2 unshifted (int64); they are those
    given, one a token, or if there are none the tokens themselves."""

# ---- question answering: native/bindings/bind_qa.cpp ----

class FeatureLayout:
    """The pieces of a feature in their order. `kinds`: 0 fixed, 1 the question, 2 the context's window;
    `fixed` says how many of `ids` each has. `cls_piece` has the classification token at `cls_place`; -1 means
    that none has."""

    def __init__(
        self,
        kinds: _Int32s,
        types: _Int32s,
        fixed: _Int32s,
        ids: _Int32s,
        pad_left: bool,
        cls_piece: int,
        cls_place: int,
    ) -> None: ...

class FeatureTables:
    """A unit's columns, kept while this lives: five for each feature, what each example and context has."""

    def __init__(
        self,
        example: _Int32s,
        begin: _Int32s,
        length: _Int32s,
        first: _Int32s,
        last: _Int32s,
        paragraph: _Int32s,
        question_starts: _Int64s,
        question_ids: _UInt32s,
        context_starts: _Int64s,
        context_ids: _UInt32s,
        context_spans: _Int32s,
    ) -> None: ...

def fill_feature_rows(
    layout: FeatureLayout,
    tables: FeatureTables,
    wanted: _Int64s,
    places: _Int64s,
    input_ids: _Int32s,
    attention_mask: _Int32s,
    token_types: _Int32s,
    starts: _Int32s,
    ends: _Int32s,
    cls_index: _Int32s,
    offsets: _Int32s | None,
) -> int:
    """Write features into the rows at `places`, which must be padding. Returns how many were written before
    one that the tables don't have, or that contradicts them or is wider than a row."""

class MappedFile:
    """A memory-mapped file; OSError if it can't be mapped. No descriptor stays open."""

    def __init__(self, path: bytes) -> None: ...
    def content(self) -> _UInt8s:
        """The whole file, read-only; keeps it mapped."""

    def drop_pages(self) -> None:
        """Release the resident pages; they are read again when needed."""

# ---- datatrove: native/bindings/bind_datatrove.cpp ----

class DatatroveSigner:
    """Signatures of documents as datatrove's MinHash has them. `points` are characters that don't stay as
    they are, `changes` what becomes of each (0 its replacement, 1 a space, 2 a digit, 3 a separator in a
    number); `factors` and `addends` are the permutations."""

    def __init__(
        self,
        points: _UInt32s,
        changes: _UInt8s,
        offsets: _Int64s,
        replacements: _Bytes,
        factors: _UInt64s,
        addends: _UInt64s,
        ngram: int,
    ) -> None: ...
    def sign(self, offsets: _Int64s, data: _Bytes) -> tuple[_UInt64s, _UInt8s]:
        """The least number of each permutation, shape (documents, permutations), and 0 for each document of
        fewer words than a shingle, which has none."""

    def words(self, offsets: _Int64s, data: _Bytes) -> _Texts:
        """The words that shingles are made of, joined by spaces, as offsets and bytes."""

def xxh64_documents(offsets: _Int64s, data: _Bytes) -> _UInt64s:
    """The XXH64 of each document, with the seed 0."""

# ---- sets of characters, and lines: native/bindings/bind_clean.cpp ----

def has_points(offsets: _Int64s, data: _Bytes, set: _Bytes) -> _UInt8s:
    """For each document, whether it has a character of the set, which is a bit for each code point."""

def remove_points(offsets: _Int64s, data: _Bytes, set: _Bytes) -> tuple[_Int64s, _UInt8s, _UInt32s]:
    """The documents without the characters of a set, and how many each had."""

class LineList:
    """Lines, with a line end between them."""

    def __init__(self, joined: _Bytes) -> None: ...
    def remove_from(
        self, offsets: _Int64s, data: _Bytes, needed: _Bytes | None
    ) -> tuple[_Int64s, _UInt8s, _UInt32s]:
        """The documents without lines that are listed or have no character of the set `needed`, and how many
        lines each had of these. Whitespace around a line doesn't count, and blank lines stay."""

# ---- lists of URLs: native/bindings/bind_url.cpp ----

class UrlFilter:
    """Lists of domains, hosts, URLs, words and soft words, with room for so many `entries` of each, and
    `subwords`, their number and bytes."""

    def __init__(
        self,
        entries: tuple[int, int, int, int, int],
        subwords: tuple[int, int],
        soft_word_threshold: int,
        ignore_case: bool,
    ) -> None: ...
    def add_lines(self, list: int, lines: _Bytes) -> None:
        """Entries of a list, by its number, one a line."""

    def add_subwords(self, lines: _Bytes) -> None: ...
    def add_suffix(self, rule: str) -> None:
        """A rule of a public suffix list, in lower case."""

    def finish(self) -> None:
        """Call after the last entry was added, before the first URL is judged."""

    @property
    def size(self) -> int: ...
    def fingerprints(self) -> list[int]:
        """A hash of the entries of each list but subwords."""

    def judge(self, offsets: _Int64s, data: _Bytes) -> _UInt8s:
        """For each URL 0, or the number of the reason why it is listed: domain, subdomain, host, URL, word,
        soft words, subword."""

# ---- fastText models: native/bindings/bind_fasttext.cpp ----

class FastTextModel:
    def __init__(self, descriptor: int, size: int) -> None:
        """Reads a model from an open file of that many bytes; `ValueError` says what is wrong with it."""

    @property
    def labels(self) -> list[bytes]: ...
    @property
    def fingerprint(self) -> int: ...
    def score(
        self, offsets: _Int64s, data: _Bytes, wanted: _Int32s, join_lines: bool
    ) -> tuple[_Float32s, _Int32s, _Float32s]:
        """The scores of the labels `wanted`, document after document; then of each document the likeliest
        label, -1 for none, and its score. With `join_lines` line ends are left out, else they separate
        words."""

# ---- patterns and outlines: native/bindings/bind_literals.cpp ----

class LiteralSet:
    """Literal patterns, with room for `patterns` of `bytes` bytes in total; `ignore_case` is for ASCII
    ones."""

    def __init__(self, patterns: int, bytes: int, ignore_case: bool) -> None: ...
    def add(self, joined: _Bytes) -> None:
        """Patterns with a zero byte between them."""

    def finish(self) -> None:
        """Call after the last pattern was added, before the first search."""

    def search(self, offsets: _Int64s, data: _Bytes) -> _UInt8s:
        """For each document, whether it contains one of the patterns."""

class JsonOutline:
    """A tokenizer.json without its tokens, made from its bytes in order."""

    def __init__(self, most_bytes: int) -> None: ...
    def feed(self, data: _Bytes) -> None: ...
    def parts(self) -> dict[str, tuple[int, int, int, int]]:
        """Values, bytes, strings and bytes of strings of `vocabulary`, `merges` and `added_tokens`."""

    def text(self) -> bytes | None:
        """The outline; None if it has more than `most_bytes`."""

def cut_counts(offsets: _Int64s, data: _Bytes) -> _UInt64s:
    """The most words that common pre-tokenizers cut each document into."""

# ---- models of tokenizers: native/bindings/bind_models.cpp ----

class Model:
    """Turns words into tokens. Threads may share one."""

    def encode_words(self, offsets: _Int64s, data: _Bytes) -> tuple[_UInt32s, _UInt32s, _UInt32s]:
        """The ids of words one after the other, how many bytes of its word each id covers (0: the same as the
        id before), and how many ids each word has."""

    def largest_id(self) -> int: ...
    @property
    def reads_spaces_as_marks(self) -> bool:
        """Whether words may have spaces in the place of U+2581."""

class Unigram(Model):
    """The pieces with the largest sum of scores."""

    def __init__(
        self,
        tokens: _Bytes,
        offsets: _Int64s,
        flags: _UInt8s,
        scores: _Float64s,
        unknown: int | None,
        byte_fallback: bool,
        bytes_are_characters: bool,
    ) -> None: ...

class WordPiece(Model):
    """The longest piece first, then the longest of those that begin with `continuation`."""

    def __init__(
        self,
        tokens: _Bytes,
        offsets: _Int64s,
        flags: _UInt8s,
        unknown: int | None,
        continuation: _Bytes,
        most_characters: int,
        bytes_are_characters: bool,
    ) -> None: ...

class WordLevel(Model):
    """Whole words."""

    def __init__(self, tokens: _Bytes, offsets: _Int64s, flags: _UInt8s, unknown: int | None) -> None: ...

# ---- tokenizer.json: native/bindings/bind_tokenizer_file.cpp ----

class TokenizerFile:
    """A tokenizer.json, read in blocks. What is wrong with it is a ValueError."""

    def __init__(self, most_sections: int) -> None: ...
    def feed(self, data: _Bytes) -> None: ...
    def finish(self) -> None: ...
    def sections(self) -> bytes:
        """The JSON with the vocabulary, the merges and the added tokens empty; it may be invalid."""

    def is_scored(self) -> bool:
        """Whether the vocabulary is a list of pieces and scores."""

    def arrays(self, byte_level: bool) -> tuple[_UInt8s, _Int64s, _UInt8s, _Float64s, _UInt32s]:
        """Tokens, offsets and flags by id, scores, and the left, right and new id of each merge; once."""

    def entries(self) -> int:
        """How many tokens the vocabulary has."""

    def added(self) -> list[tuple[str, int, bool, bool, bool, bool, bool]]:
        """Content, id, single_word, lstrip, rstrip, normalized, special of each added token."""

    def clash(self) -> str | None:
        """An added token that gets the id of another token, quoted."""

    def find(self, text: _Bytes) -> int | None:
        """The id of a text, as an added token or in the vocabulary."""

# ---- normalizers: native/bindings/bind_normalize.cpp ----

class Normalizer:
    """A normalizer of tokenizer.json, exactly as `tokenizers` has it; made by one of the static methods."""

    def apply(self, text: _Bytes) -> bytes: ...
    def apply_tracked(self, text: _Bytes) -> tuple[bytes, _UInt32s]:
        """The text, and for each of its bytes where what it stands for begins and ends in the original."""

    def leaves(self, text: _Bytes) -> bool:
        """Whether the text is certain to stay as it is."""

    @staticmethod
    def form(compose: bool, compatible: bool) -> Normalizer:
        """NFC, NFD, NFKC or NFKD."""

    @staticmethod
    def lowercase() -> Normalizer: ...
    @staticmethod
    def strip(left: bool, right: bool) -> Normalizer: ...
    @staticmethod
    def strip_accents() -> Normalizer: ...
    @staticmethod
    def nmt() -> Normalizer: ...
    @staticmethod
    def byte_level() -> Normalizer: ...
    @staticmethod
    def bert(
        clean_text: bool, handle_chinese_chars: bool, strip_accents: bool | None, lowercase: bool
    ) -> Normalizer: ...
    @staticmethod
    def prepend(prefix: _Bytes) -> Normalizer: ...
    @staticmethod
    def replace(pattern: _Bytes, content: _Bytes) -> Normalizer:
        """Every occurrence of a string becomes another."""

    @staticmethod
    def replace_regex(pattern: _Bytes, content: _Bytes) -> Normalizer:
        """Every match of a regular expression becomes a string; `ValueError` if it is refused."""

    @staticmethod
    def precompiled(charsmap: _Bytes) -> Normalizer:
        """SentencePiece's charsmap; `ValueError` if it is cut short or points outside of itself."""

    @staticmethod
    def sequence(steps: list[Normalizer]) -> Normalizer: ...

# ---- decoders: native/bindings/bind_decoders.cpp ----

class DecoderStep:
    """A decoder of tokenizer.json, tokens to tokens; made by one of the static methods."""

    @staticmethod
    def byte_level() -> DecoderStep: ...
    @staticmethod
    def byte_fallback() -> DecoderStep: ...
    @staticmethod
    def fuse() -> DecoderStep: ...
    @staticmethod
    def replace(pattern: str, content: str) -> DecoderStep: ...
    @staticmethod
    def replace_regex(pattern: str, content: str) -> DecoderStep: ...
    @staticmethod
    def strip(content: str, start: int, stop: int) -> DecoderStep: ...
    @staticmethod
    def metaspace(replacement: str, drops_first: bool) -> DecoderStep: ...
    @staticmethod
    def word_piece(prefix: str, cleanup: bool) -> DecoderStep: ...
    @staticmethod
    def bpe(suffix: str) -> DecoderStep: ...
    @staticmethod
    def ctc(pad_token: str, word_delimiter_token: str, cleanup: bool) -> DecoderStep: ...

class Decoder:
    """Steps that make a text of tokens; without an argument, tokens are joined with spaces."""

    def __init__(self, steps: list[DecoderStep] = ...) -> None: ...
    def decode(self, tokens: list[str]) -> str: ...

def measure_page(
    page: _Bytes, max_tags: int, max_depth: int, max_work: int, empty_raw: bool = False
) -> tuple[int, int, int, int, int]:
    """Elements of a page in HTML, the most that are open at once, how much a parser has to look at for them,
    their attributes, and the bytes of these; ends with the first tag that is beyond a limit. `empty_raw`: a
    raw element whose tag ends with a slash is empty, as libxml2 reads it."""

def page_text(page: _Bytes) -> bytes:
    """A page without its tags, scripts and styles; entities stay as they are."""
