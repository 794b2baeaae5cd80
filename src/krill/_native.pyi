"""Krill's native core: the loops that touch every byte. All of it works without the GIL."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_Bytes = Buffer | NDArray[np.uint8]

# ---- readers: native/bindings/bind_readers.cpp ----

# Columns end to end: offsets, data, null mask, and where the data of each column begins.
_Columns = tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]]
_Batch = tuple[
    NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint64], _Columns, dict[str, int]
]

def csv_rows(data: _Bytes, delimiter: int, final: bool) -> tuple[NDArray[np.int64], int]:
    """Where rows begin in bytes that begin with one, and where the last whole row ends; empty rows are none.

    Unless the bytes are the file's `final` ones, a row has to be seen to end.
    """

def csv_fields(
    data: _Bytes, starts: NDArray[np.int64], delimiter: int, columns: int, wanted: list[int]
) -> tuple[_Columns, NDArray[np.int64], int]:
    """The wanted columns of rows that should have so many columns; the places of rows that haven't, which are
    left out; and how many columns the first of those has."""

class Separator:
    """What stands between documents of plain text; it may overlap itself."""

    def __init__(self, bytes: bytes) -> None: ...
    @property
    def overlaps_itself(self) -> bool: ...
    def next_certain(self, data: _Bytes, begin: int) -> int:
        """The end of the first one from `begin` on that no earlier one overlaps, -1 = none: in one pass,
        however the separator and the bytes repeat themselves."""

class MalformedRecord(ValueError):
    """A record that can't be read: args are its first byte's offset, the fault's offset, and the reason."""

    args: tuple[int, int, str]

class JsonReader:
    """Push parser of JSON Lines, or of one top-level array of objects (`array`).

    A document above `max_document_bytes` is split at its last paragraph, line or character break, or dropped
    (`drop_oversize`). Carried columns of a split document are null on all its pieces but the last. A carried
    value above `max_document_bytes` makes the record malformed. With `skip_malformed`, faulty lines are left
    out and counted, except for pieces that were emitted before the fault; faults of an array always raise.
    """

    def __init__(
        self,
        text_key: bytes,
        carry: list[bytes],
        max_document_bytes: int,
        drop_oversize: bool,
        skip_malformed: bool,
        array: bool,
    ) -> None: ...
    def feed(self, data: _Bytes, offset: int) -> None:
        """The next bytes of the decoded file; `offset` is where they stand and continues the last feed."""

    def finish(self) -> None:
        """End of input: the last line may lack its newline, a record that is cut off is malformed."""

    def add_file(self, data: _Bytes, base: int, start: int) -> bool:
        """Another file, or the bytes of it from `start` on; rows are gathered on, and their starts raised by
        `base`. True if it has records but no text, or begins with a mark of UTF-16 or UTF-32."""

    def read_files(
        self,
        paths: list[bytes],
        bases: NDArray[np.uint64],
        starts: NDArray[np.uint64],
        ends: NDArray[np.uint64],
    ) -> list[int]:
        """`add_file` of a range of each of these local files; the places of those for which it is true."""

    def read_range(self, path: bytes, start: int, end: int) -> None:
        """Feed the bytes [start, end) of a local file, and finish."""

    def read_clean(
        self, path: bytes, start: int, end: int, strip: bool, min_chars: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64], dict[str, int]]:
        """`read_range`, `take`, `clean` and `hash_documents` in one: offsets, data, starts, hashes, counts.

        Carried columns are left out, and the counts are those of both.
        """

    def take(self) -> _Batch:
        """Rows so far: text offsets, data and null mask (1 = null), starts, carried columns, counts.

        The open record stays inside, but for the pieces already split off it. A start is the offset of the
        record's `{`, or for later pieces of where their first character is written.
        """

    @property
    def pending_bytes(self) -> int:
        """Bytes of texts and carried values gathered so far, the open ones included."""

    @property
    def complete(self) -> bool:
        """Between records: at the beginning of a line, or outside the array's elements."""

class TextReader:
    """Push parser of plain text: documents stand between separators; b"" makes the whole file one."""

    def __init__(self, separator: bytes, max_document_bytes: int, drop_oversize: bool) -> None: ...
    def feed(self, data: _Bytes, offset: int) -> None:
        """The next bytes of the decoded file; `offset` is where they stand and continues the last feed."""

    def finish(self) -> None:
        """End of input: the open document ends."""

    def add_file(self, data: _Bytes, base: int, start: int) -> bool:
        """Another file, or the bytes of it from `start` on; rows are gathered on, and their starts raised by
        `base`. True if it has records but no text, or begins with a mark of UTF-16 or UTF-32."""

    def read_files(
        self,
        paths: list[bytes],
        bases: NDArray[np.uint64],
        starts: NDArray[np.uint64],
        ends: NDArray[np.uint64],
    ) -> list[int]:
        """`add_file` of a range of each of these local files; the places of those for which it is true."""

    def read_range(self, path: bytes, start: int, end: int) -> None:
        """Feed the bytes [start, end) of a local file, and finish."""

    def read_clean(
        self, path: bytes, start: int, end: int, strip: bool, min_chars: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64], dict[str, int]]:
        """As `JsonReader.read_clean`."""

    def take(self) -> _Batch:
        """As `JsonReader.take`, without null rows and carried columns; the open document stays inside."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of texts gathered so far, the open one included."""

    @property
    def complete(self) -> bool:
        """No document is open, and no separator is half read."""

# ---- clean: native/bindings/bind_clean.cpp ----

def clean(
    offsets: NDArray[np.int64],
    data: _Bytes,
    null_mask: NDArray[np.uint8] | None,
    strip: bool,
    min_chars: int,
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint32], dict[str, int]]:
    """Documents without bytes that are not UTF-8, stripped if asked, those below `min_chars` dropped.

    Returns offsets, data, the input row of each kept document, its code points, and the counts `not_text`
    (null, dropped), `too_short` (dropped) and `invalid_utf8` (repaired).
    """

def pick_texts(
    offsets: NDArray[np.int64], data: _Bytes, keep: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Offsets and data of those documents whose `keep` is not 0."""

# ---- Columns: native/bindings/bind_columns.cpp ----

def row_bytes(schema: object, batch: object) -> tuple[NDArray[np.int64], list[int]]:
    """What the rows of a batch weigh, strings and plain numbers; and the places of all other columns.

    The arguments are what `RecordBatch.__arrow_c_array__` gives; the batch must have been validated.
    """

# ---- Parquet: native/bindings/bind_parquet.cpp ----

def parquet_footer(
    data: _Bytes,
) -> tuple[
    list[bytes],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
]:
    """What a footer says, checked; ValueError where it contradicts itself.

    Returns the table's column of each leaf, the rows of each row group; then for each row group and leaf, in
    that order: physical type, values, bytes uncompressed and compressed, offsets of the first data page and
    of the dictionary page (0: none).
    """

def parquet_page_header(data: _Bytes) -> tuple[int, int, int, int, int] | None:
    """The header that the bytes begin with: the page's kind, its bytes stored and decoded, its values, and
    the header's own bytes; None if they end before it does, ValueError if they are none."""

def damaged_parquet_pages(
    file: int, starts: NDArray[np.int64], ends: NDArray[np.int64], values: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each column in [start, end) of an open file, where the first page stands that is none or reaches
    beyond, -1 if none does; pages are looked at until they have the column's values."""

# ---- dedup: native/bindings/bind_dedup.cpp ----

class TableFull(MemoryError):
    """A `HashSet` holds `max_keys` keys and was given another."""

class HashSet:
    """A set of 128-bit hashes in `capacity_bytes` bytes, never more."""

    def __init__(self, capacity_bytes: int) -> None: ...
    def insert(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """1 for each hash seen for the first time, else 0. On `TableFull`, earlier keys stay."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def max_keys(self) -> int: ...

def hash_documents(offsets: NDArray[np.int64], data: _Bytes, seed: int = 0) -> NDArray[np.uint64]:
    """MurmurHash3 x64 128 of each document's bytes, shape (n, 2), as `mmh3.hash64` gives it unsigned."""

def partition_hashes(
    hashes: NDArray[np.uint64], shift: int, width: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hashes ordered by `width` of their bits, otherwise as they came; and how many each partition has."""

def join_flags(
    hashes: NDArray[np.uint64], shift: int, width: int, flags: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Flags that stand in the order of `partition_hashes`, put into the order of `hashes`."""

class BloomFilter:
    """A Bloom filter over 128-bit hashes: `blocks` of 512 bits; each hash sets up to `bits` in one."""

    def __init__(self, blocks: int, bits: int) -> None: ...
    def insert(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """1 for each hash that was certainly not seen before, else 0."""

    @property
    def nbytes(self) -> int: ...

def piece_hashes(
    offsets: NDArray[np.int64], data: _Bytes, level: str
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """The hash of each line or paragraph that is not only whitespace, shape (n, 2), without the whitespace at
    its ends; and how many each document has."""

def keep_pieces(
    offsets: NDArray[np.int64], data: _Bytes, level: str, flags: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The documents without the pieces whose flag is 0, as offsets and bytes."""

# ---- minhash: native/bindings/bind_minhash.cpp ----

def minhash_bands(
    offsets: NDArray[np.int64], data: _Bytes, bands: int, rows: int, ngram: int
) -> NDArray[np.uint64]:
    """For each document `bands` numbers; near-duplicates agree in some of them."""

def shingle_sets(
    offsets: NDArray[np.int64], data: _Bytes, ngram: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The distinct shingles of each document in rising order, and where each document's begin."""

def folded_text(offsets: NDArray[np.int64], data: _Bytes) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The words that shingles are made of, a space between them, as offsets and bytes."""

def jaccard(index: int, data: int, pairs: NDArray[np.uint64]) -> NDArray[np.float64]:
    """What the sets of each pair of documents have in common, 0..1, read from two open files: `index` has for
    each document where its set begins in `data` and how many numbers it has."""

class MinTable:
    """From keys to the least number seen with each, in `capacity_bytes` bytes, never more."""

    def __init__(self, capacity_bytes: int) -> None: ...
    def fold(self, records: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Records are (number, key); returns the least number of each record's key so far. On `TableFull`,
        what came before stays."""

    def __len__(self) -> int: ...
    @property
    def max_keys(self) -> int: ...

class Components:
    """Connected components of a graph over `documents` documents, each named by its smallest."""

    def __init__(self, documents: int) -> None: ...
    def mark(self, edges: NDArray[np.uint64]) -> None:
        """Note who has an edge; all edges come here before the first is joined."""

    @property
    def members(self) -> int:
        """Documents with an edge."""

    def join(self, edges: NDArray[np.uint64]) -> None: ...
    def count(self, prior: int) -> tuple[int, int]:
        """Clusters with a document that is not kept, and how many documents the largest has; those below
        `prior` are not counted."""

    def labels(self, first: int, count: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """The smallest document of the component, and how many it has, for `count` documents from `first`."""

# ---- tokens: native/bindings/bind_tokens.cpp ----

def encode_bytes(
    offsets: NDArray[np.int64], data: _Bytes, eos: int
) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
    """Each byte is its id, and `eos` ends each document. Returns all ids and each document's length."""

_Id = TypeVar("_Id", np.uint8, np.uint16, np.uint32, np.uint64)

def select_runs(
    ids: NDArray[_Id], lengths: NDArray[np.uint32], keep: NDArray[np.uint8]
) -> tuple[NDArray[_Id], NDArray[np.uint32]]:
    """The ids and lengths of those documents whose `keep` is not 0."""

def begin_runs(
    ids: NDArray[_Id], lengths: NDArray[np.uint32], first: int
) -> tuple[NDArray[_Id], NDArray[np.uint32]]:
    """The ids and lengths of the documents with the id `first` before each."""

# ---- pack: native/bindings/bind_pack.cpp ----

class UnreadableFile(OSError):
    """A file of a `PieceReader` can't be read: args are its number and the reason."""

    args: tuple[int, str]

class PackedWindow:
    """A window of documents as rows of at most `width` tokens; with `best_fit`, several documents to a row.

    Keeps the lengths, which must not be changed, and with `best_fit` up to 8 bytes more for each document;
    while it is made, 16, and 4 for each token of a row.
    """

    def __init__(self, lengths: NDArray[np.uint32], width: int, best_fit: bool) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    def pieces(
        self, first: int, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Of rows `first` to `first + count`: where each piece begins among the window's tokens, its length,
        and where rows begin among the pieces. IndexError beyond the last row."""

class PieceReader:
    """Reads pieces of many files with at most 16 of them open. One thread at a time."""

    def __init__(self, paths: list[bytes]) -> None: ...
    def read(
        self,
        files: NDArray[np.uint32],
        offsets: NDArray[np.int64],
        sizes: NDArray[np.int64],
        out: NDArray[np.uint8],
    ) -> None:
        """Fill `out` with `sizes[i]` bytes at `offsets[i]` of file `files[i]`, for each `i` in turn."""

# ---- scanner: native/bindings/bind_scanner.cpp ----

def scan_words(data: _Bytes, pattern: str) -> NDArray[np.uint32]:
    """Where each word (pretoken) of one text ends. Patterns: gpt2, cl100k, o200k, llama3, qwen2."""

def last_cut(data: _Bytes) -> int:
    """The last place where the text may be cut in two without changing a word of any pattern, or 0."""

def first_cut(data: _Bytes, from_: int) -> int:
    """The first such place at `from_` or later, or the size of the data."""

def find_tokens(
    data: _Bytes, tokens: list[bytes]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint32]]:
    """Occurrences of tokens, leftmost and longest: their starts, their ends, and which token each one is."""

# ---- encoder: native/bindings/bind_encoder.cpp ----

class BpeEncoder:
    """Byte-level BPE over a checked vocabulary, from up to `workers` threads at once.

    `flags` of each id: 1 in use, 2 part of a word, 4 special. `merges` holds left, right and new id by rank.
    An added token is its text, its id, and whether it is single_word, lstrip, rstrip, normalized.
    `cache_bytes` is what each worker's cache of words takes.
    """

    def __init__(
        self,
        tokens: _Bytes,
        offsets: NDArray[np.int64],
        flags: NDArray[np.uint8],
        merges: NDArray[np.uint32],
        added: list[tuple[bytes, int, bool, bool, bool, bool]],
        pattern: str,
        ignore_merges: bool,
        prefix: list[int],
        suffix: list[int],
        trims_offsets: bool,
        keeps_first_space: bool,
        cache_bytes: int,
        workers: int,
    ) -> None: ...
    def encode(
        self, offsets: NDArray[np.int64], data: _Bytes, eos: int
    ) -> tuple[NDArray[np.uint16] | NDArray[np.uint32], NDArray[np.uint32]]:
        """All ids and each document's length: prefix, tokens, suffix, and `eos` unless it is negative."""

    def encode_offsets(
        self, data: _Bytes
    ) -> tuple[NDArray[np.uint16] | NDArray[np.uint32], NDArray[np.uint32]]:
        """The ids of one text, and begin and end of each in characters, shape (n, 2)."""

    def decode(self, ids: NDArray[np.uint32], skip_special: bool) -> bytes:
        """The bytes of some ids; `IndexError` if one is not in the vocabulary."""

    def statistics(self) -> dict[str, int]:
        """Of all calls that have ended: words, bytes, misses, miss_bytes, timed_bytes, timed_nanoseconds."""

    def __len__(self) -> int: ...

# ---- memory: native/bindings/bind_memory.cpp ----

def configure_malloc(mapped_from: int = 4194304) -> None:
    """Make glibc give freed memory back: one arena, low mmap and trim thresholds. Elsewhere, nothing."""

def trim(code: bool = False) -> None:
    """Give free pages of the heap back to the system now (on glibc), and `code` of libraries (on Linux),
    which is mapped from their files again when it is used."""

def resident_bytes() -> int:
    """What this process holds in memory, or -1 where there is no /proc."""

class MemoryGuard:
    """A thread that ends this process with `exit_code` when it holds `ends_at` bytes, after writing `message`
    to standard error."""

    def __init__(self, ends_at: int, message: str, exit_code: int) -> None: ...
    def start(self) -> bool:
        """False where the system refuses a thread or has no /proc."""

    def stop(self) -> None: ...

def note_collection(phase: str, info: object) -> None:
    """For `gc.callbacks`: the garbage collector has come up in this thread ("start") or is done ("stop")."""

def collection_runs_here() -> bool:
    """Whether this is called by the garbage collector, in the midst of other code of this thread."""

# ---- training tokenizers

class DamagedFile(ValueError): ...

class WordCounter:
    """Counts words exactly in `cap_bytes`; what goes over it is spilled in sorted segments."""

    def __init__(
        self,
        pattern: str,
        boundaries: list[bytes],
        lines: bool,
        cap_bytes: int,
        threads: int,
        spill_path: str,
        segments: NDArray[np.uint64],
        spill_size: int,
    ) -> None: ...
    def add(self, offsets: NDArray[np.int64], data: _Bytes) -> None:
        """The words of each document; from any thread."""

    def add_words(self, ends: NDArray[np.uint64], data: _Bytes) -> None:
        """Words that somebody else has cut; from any thread."""

    def checkpoint(self) -> NDArray[np.uint64]:
        """Spill everything; the segments (shard, begin, end) that hold it. Only while no thread adds."""

    def write_inventory(self, path: str) -> tuple[int, int, int, NDArray[np.uint64]]:
        """All words and their counts: different words, all, bytes of the different ones, counts of bytes."""

    @property
    def held_bytes(self) -> int: ...
    @property
    def spilled_bytes(self) -> int: ...

class MergeTrainer:
    """Learns merges from an inventory in `cap_bytes`."""

    def __init__(
        self,
        inventory: str,
        byte_ids: NDArray[np.int32],
        tokens: list[bytes | None],
        vocab_size: int,
        min_frequency: int,
        max_token_length: int,
        greatest: bool,
        cap_bytes: int,
        scratch_path: str,
    ) -> None: ...
    def run(self, most: int, seconds: float) -> int: ...
    def merges(self) -> NDArray[np.uint32]: ...
    def tokens(self) -> list[bytes]: ...
    def statistics(self) -> dict[str, Any]: ...

# ---- language: native/bindings/bind_language.cpp ----

def language_text(data: _Bytes) -> bytes:
    """One text as the language model sees it: small letters if all are capitals, in normal form C."""

class LanguageModel:
    """Which language a text is in: an automaton that finds features, and what each says for each language.

    A state's row is a default row but for its own entries. Features are dense, with a step for each language,
    or come after these, with pairs of language and step. `same_as` names the first language with its name.
    """

    def __init__(
        self,
        defaults: NDArray[np.uint32],
        default_of: NDArray[np.uint8],
        row_starts: NDArray[np.uint32],
        bytes: NDArray[np.uint8],
        targets: NDArray[np.uint32],
        row_of: NDArray[np.uint32],
        feature_of: NDArray[np.uint32],
        dense: NDArray[np.int16],
        pair_starts: NDArray[np.uint32],
        pair_languages: NDArray[np.uint8],
        pair_steps: NDArray[np.int16],
        prior: NDArray[np.float32],
        background: NDArray[np.float32],
        step: float,
        same_as: NDArray[np.uint8],
    ) -> None: ...
    def classify(
        self, offsets: NDArray[np.int64], data: _Bytes
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """The number of each document's language and its probability."""

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
        """Why documents are dropped; a code of `k` means the reason before place `k`."""

    @property
    def statistics(self) -> list[tuple[str, bool]]:
        """What is measured, and whether it is a number of things rather than a share."""

    def scratch_bytes(self, max_document_bytes: int, threads: int) -> int:
        """What all threads together hold while they judge, at most, besides texts and results."""

    def judge(
        self, offsets: NDArray[np.int64], data: _Bytes, statistics: bool
    ) -> tuple[
        NDArray[np.uint8], list[NDArray[np.float64]], tuple[NDArray[np.int64], NDArray[np.uint8]] | None
    ]:
        """A code for each document (0 = kept), what was measured of those kept, and texts if any changed."""

    def take_line_counts(self) -> dict[str, int]:
        """What became of the lines that C4 judged since the last call, by datatrove's names."""

def word_spans(data: _Bytes) -> NDArray[np.uint32]:
    """The words of a UTF-8 text: begin and size in bytes of one after the other."""

def sentence_spans(data: _Bytes) -> NDArray[np.uint32]:
    """The sentences of a UTF-8 text, which are all of it: begin and size in bytes of one after the other."""

# ---- loading: native/bindings/bind_loading.cpp ----

class BadRow(ValueError):
    """A row that contradicts itself: args are its place in the batch and the reason."""

    args: tuple[int, str]

def shuffled_rows(
    rows: int, block_rows: int, window: int, key: NDArray[np.uint64], start: int, stop: int
) -> NDArray[np.int64]:
    """The rows at places `start` to `stop` of a shuffled order: blocks permuted, then rows inside windows."""

class BlockPool:
    """Memory of batches that ended, for the next ones; at most `most_free` bytes of it."""

    def __init__(self, most_free: int) -> None: ...

class ShardRows:
    """Rows of shards by number. Any thread may read.

    `row_starts` has one number more than shards; `batch_offsets` are those of all shards, one after another.
    """

    def __init__(
        self,
        paths: list[bytes],
        sizes: NDArray[np.int64],
        row_starts: NDArray[np.int64],
        batch_offsets: NDArray[np.int64],
        rows_per_batch: int,
        width: int,
        itemsize: int,
        fixed: bool,
        cache_bytes: int,
        mapped: bool,
        pool: BlockPool,
    ) -> None: ...
    def gather(
        self, rows: NDArray[np.int64], with_tokens: bool = True
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Rows in the order asked for: the bytes of their tokens, where each begins (in tokens), the lengths
        of their documents, where each row's begin. Without `with_tokens` only the lengths are read, and there
        are no tokens. `UnreadableFile` names a shard by its number."""

    @property
    def cached_bytes(self) -> int:
        """What is remembered of record batches now."""

def make_columns(
    pool: BlockPool,
    tokens: NDArray[Any],
    offsets: NDArray[np.int64],
    seq_lengths: NDArray[np.int32],
    seq_offsets: NDArray[np.int32],
    width: int,
    pad: int,
    wide: bool,
    labels: int,
    segments: bool,
    positions: bool,
    mask: bool,
) -> list[NDArray[Any]]:
    """Columns of `width` numbers a row: ids, then those asked for, in the order of the arguments. All are
    int64 if `wide`, else int32. `labels`: 0 none, 1 shifted (int32), 2 unshifted (int64)."""

# ---- question answering: native/bindings/bind_qa.cpp ----

class FeatureLayout:
    """The pieces of a feature in their order. `kinds`: 0 fixed, 1 the question, 2 the context's window;
    `fixed` says how many of `ids` each has. `cls_piece` has the classification token at `cls_place`; -1 means
    that none has."""

    def __init__(
        self,
        kinds: NDArray[np.int32],
        types: NDArray[np.int32],
        fixed: NDArray[np.int32],
        ids: NDArray[np.int32],
        pad_left: bool,
        cls_piece: int,
        cls_place: int,
    ) -> None: ...

class FeatureTables:
    """A unit's columns, kept while this lives: five for each feature, what each example and context has."""

    def __init__(
        self,
        example: NDArray[np.int32],
        begin: NDArray[np.int32],
        length: NDArray[np.int32],
        first: NDArray[np.int32],
        last: NDArray[np.int32],
        paragraph: NDArray[np.int32],
        question_starts: NDArray[np.int64],
        question_ids: NDArray[np.uint32],
        context_starts: NDArray[np.int64],
        context_ids: NDArray[np.uint32],
        context_spans: NDArray[np.int32],
    ) -> None: ...

def fill_feature_rows(
    layout: FeatureLayout,
    tables: FeatureTables,
    wanted: NDArray[np.int64],
    places: NDArray[np.int64],
    input_ids: NDArray[np.int32],
    attention_mask: NDArray[np.int32],
    token_types: NDArray[np.int32],
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
    cls_index: NDArray[np.int32],
    offsets: NDArray[np.int32] | None,
) -> int:
    """Write features into the rows at `places`, which must be padding. Returns how many were written before
    one that the tables don't have, or that contradicts them or is wider than a row."""

class MappedFile:
    """A file read through memory; OSError if it can't be. No descriptor stays open."""

    def __init__(self, path: bytes) -> None: ...
    def content(self) -> NDArray[np.uint8]:
        """All of it, read-only; keeps the file mapped."""

    def drop_pages(self) -> None:
        """Let go of what was touched; touched again, it comes back."""

# ---- datatrove: native/bindings/bind_datatrove.cpp ----

class DatatroveSigner:
    """Signatures of documents as datatrove's MinHash has them. `points` are characters that don't stay as
    they are, `changes` what becomes of each (0 its replacement, 1 a space, 2 a digit, 3 a separator in a
    number); `factors` and `addends` are the permutations."""

    def __init__(
        self,
        points: NDArray[np.uint32],
        changes: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        replacements: _Bytes,
        factors: NDArray[np.uint64],
        addends: NDArray[np.uint64],
        ngram: int,
    ) -> None: ...
    def sign(self, offsets: NDArray[np.int64], data: _Bytes) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        """The least number of each permutation, shape (documents, permutations), and 0 for each document of
        fewer words than a shingle, which has none."""

    def words(self, offsets: NDArray[np.int64], data: _Bytes) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """The words that shingles are made of, a space between them, as offsets and bytes."""

def xxh64_documents(offsets: NDArray[np.int64], data: _Bytes) -> NDArray[np.uint64]:
    """The XXH64 of each document, with the seed 0."""

# ---- patterns and outlines: native/bindings/bind_literals.cpp ----

class LiteralSet:
    """Literal patterns, with room for so many of so many bytes together; `ignore_case` is for ASCII ones."""

    def __init__(self, patterns: int, bytes: int, ignore_case: bool) -> None: ...
    def add(self, joined: _Bytes) -> None:
        """Patterns with a zero byte between them."""

    def finish(self) -> None:
        """After the last one is added, before the first search."""

    def search(self, offsets: NDArray[np.int64], data: _Bytes) -> NDArray[np.uint8]:
        """For each document whether one of the patterns is in it."""

class JsonOutline:
    """A tokenizer.json without its tokens, from its bytes in order."""

    def __init__(self, most_bytes: int) -> None: ...
    def feed(self, data: _Bytes) -> None: ...
    def parts(self) -> dict[str, tuple[int, int, int, int]]:
        """Values, bytes, strings and bytes of strings of `vocabulary`, `merges` and `added_tokens`."""

    def text(self) -> bytes | None:
        """The outline; None if it has more than `most_bytes`."""

def cut_counts(offsets: NDArray[np.int64], data: _Bytes) -> NDArray[np.uint64]:
    """Into how many words the usual pre-tokenizers cut each document, at most."""
