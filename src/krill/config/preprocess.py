"""The keys of preprocessing, with its sections `dedup` and `split`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from krill.config.fields import Count, CountOrNone, Fraction, PathText, Section, Size, Whole, key, size_text
from krill.config.filters import Filters
from krill.config.messages import SectionFault

_WIDEST_ROW = 2**31 - 1  # Arrow's fixed-size lists count their items in 32 bits
_MOST_PERMUTATIONS = 4096
_DATABASES: Final = {"database": "sqlite", "sqlite": "sqlite", "duckdb": "duckdb"}


class DedupConfig(Section):
    """Which documents are dropped as copies of earlier ones, across all datasets; the first one is kept."""

    shorthand: ClassVar[str | None] = "method"

    method: Literal["none", "exact", "bloom", "minhash"] = key(
        "exact",
        "`exact` finds equal cleaned texts; `bloom` the same in a table of fixed size, and takes a few "
        "others for copies; `minhash` finds near-duplicates; `none` keeps all. `database`, `sqlite` and "
        "`duckdb` are `exact` with such an `index`.",
    )
    level: Literal["document", "paragraph", "line"] = key(
        "document",
        "What is compared. `paragraph` and `line` (`exact` and `bloom` only) remove those that stood "
        "anywhere before, and then documents shorter than `min_chars`.",
    )
    false_positive_rate: Annotated[float, Fraction(above=0, below=1)] = key(
        0.001, "`bloom`: share of documents that may be dropped by mistake."
    )
    expected_documents: CountOrNone = key(
        None,
        "`bloom`: documents (or lines, or paragraphs) that the table is made for, and beyond which the rate "
        "no longer holds. Required there.",
    )
    ngram: Annotated[int, Whole(1, 100)] = key(5, "`minhash`: words in a row that are compared as one.")
    bands: Annotated[int | None, Whole(1, _MOST_PERMUTATIONS, words=(None,))] = key(
        None,
        "`minhash`: documents that agree in one of so many bands are near-duplicates; 14 unless a "
        "`threshold` is stated.",
    )
    rows: Annotated[int | None, Whole(1, _MOST_PERMUTATIONS, words=(None,))] = key(
        None, "`minhash`: hashes in a band; 8 unless a `threshold` is stated."
    )
    threshold: Annotated[float | None, Fraction(above=0, words=(None,))] = key(
        None,
        "`minhash`: share of n-grams in common from which on documents are near-duplicates; chooses `bands` "
        "and `rows`. 14 bands of 8 have theirs at 0.72.",
    )
    verify: Annotated[float | None, Fraction(above=0, words=(None,))] = key(
        None,
        "`minhash`: share of n-grams that two documents must truly have in common, counted after the bands "
        "have found them; `null` trusts the bands.",
    )
    clusters: bool = key(
        False,
        "`minhash`: keep the columns `cluster` (position of the cluster's first document) and `cluster_size` "
        "in the text output.",
    )
    implementation: Literal["krill", "datatrove"] = key(
        "krill",
        "`minhash`: whose code finds near-duplicates. `datatrove` runs its own stages (extra `datatrove`): "
        "far slower, one task, and its memory grows with the number of duplicates.",
    )
    index: Literal["files", "sqlite", "duckdb"] = key(
        "files",
        "How `dedup_cache_dir` keeps what runs kept: `files` of numbers, or a database to open and query, "
        "`sqlite` or `duckdb` (extra `duckdb`). Never changes what is dropped.",
    )
    against: tuple[PathText, ...] = key(
        (),
        "Files, folders or outputs of earlier runs whose documents count as seen before, and which are not "
        "written.",
    )

    @model_validator(mode="before")
    @classmethod
    def _database_means_its_index(cls, given: Any) -> Any:
        """`dedup: database` says how copies are remembered; how they are found is `exact`."""
        method = given.get("method") if isinstance(given, Mapping) else None
        if not isinstance(method, str) or method not in _DATABASES:
            return given
        index = _DATABASES[method]
        if given.get("index", index) != index:
            raise SectionFault(f"`method: {method}` is an index in `{index}`: drop `index: {given['index']}`")
        return {**given, "method": "exact", "index": index}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.method == "bloom" and self.expected_documents is None:
            raise SectionFault("`method: bloom` needs `expected_documents`: the table is made for so many")
        if self.threshold is not None and (self.bands is not None or self.rows is not None):
            raise SectionFault("`threshold` chooses `bands` and `rows`: state it or them")
        if self.method == "minhash" and self.level != "document":
            raise SectionFault(f"`method: minhash` compares documents, not `level: {self.level}`")
        if self.implementation == "datatrove":
            if self.method != "minhash":
                raise SectionFault("`implementation: datatrove` is for `method: minhash`")
            if self.verify is not None or self.clusters or self.against:
                raise SectionFault(
                    "`implementation: datatrove` has no `verify`, `clusters` or `against`: leave them out"
                )
        bands, rows = self.bands or 14, self.rows or 8
        if bands * rows > _MOST_PERMUTATIONS:
            raise SectionFault(f"`bands` x `rows` is {bands * rows:,}: at most {_MOST_PERMUTATIONS:,}")
        return self


class SplitConfig(Section):
    """Parts of the dataset that are kept apart."""

    validation: Annotated[float, Fraction(below=1)] = key(
        0.0,
        "Share of documents for a validation split, chosen by a hash of their text, so that a document stays "
        "where it is when the corpus grows.",
    )


class PreprocessConfig(Section):
    """From documents to packed rows of tokens."""

    prepared_path: PathText = key(
        "artifacts/dataset",
        "Folder for the dataset; `datasets.load_from_disk` opens it. Or the URL of a folder in an object "
        "store, such as `s3://bucket/dataset`.",
    )
    output: Literal["tokens", "text", "both"] = key(
        "tokens",
        "`tokens` writes packed rows, `text` the kept documents as Parquet with their columns, `both` writes "
        "both.",
    )
    sequence_len: Annotated[int, Whole(1, _WIDEST_ROW)] = key(2048, "Tokens in a row.")
    min_length: Count = key(150, "Documents with fewer tokens are dropped; the end-of-document token counts.")
    max_length: CountOrNone = key(None, "Documents with more tokens are dropped; `null` for no such limit.")
    min_chars: Count = key(100, "Documents with fewer characters after cleaning are dropped.")
    max_chars: CountOrNone = key(
        None, "Documents with more characters are dropped; `null` for no such limit."
    )
    min_words: Count = key(0, "Documents with fewer words are dropped.")
    max_words: CountOrNone = key(None, "Documents with more words are dropped; `null` for no such limit.")
    strip: bool = key(True, "Remove whitespace from both ends of each document.")
    filters: Filters = key(
        (),
        "Quality filters, applied in order: names, `{name: {threshold: value}}`, the presets `web-en` and "
        "`web-any`, or `module:function`. See [filters](filters.md).",
    )
    statistics: bool = key(False, "Keep what the filters measured as columns of the text output.")
    rejected: bool = key(
        False, "Also write the documents that were dropped, with the reason, as `rejected-*.parquet`."
    )
    samples: bool = key(
        True,
        "Keep up to 20 examples for each reason for a drop, 2 kB of text each, as `examples.jsonl`; `false` "
        "leaves their text out of the run, for sharing.",
    )
    dedup: DedupConfig = Field(
        default_factory=DedupConfig,
        description="Which documents are dropped as copies of earlier ones: `none`, `exact`, `bloom`, "
        "`minhash`, `database`, or a section.",
    )
    dedup_cache_dir: PathText | None = key(
        None,
        "Folder of a persistent index: what earlier finished runs with another config kept is dropped, and "
        "what this run keeps is added when it is finished. `dedup.index` is its form.",
    )
    packing: Literal["wrapped", "bfd", "none"] = key(
        "wrapped",
        "`wrapped` joins all documents and cuts rows of `sequence_len`; a last short row is dropped and "
        "counted. `bfd` fits whole documents into rows, best fit decreasing. `none` gives each document a "
        "row. The last two cut only documents longer than a row, and drop nothing.",
    )
    overflow: Literal["drop", "truncate", "turn"] = key(
        "drop",
        "A conversation longer than a row: `drop` leaves it out, `truncate` cuts it at the row's end, `turn` "
        "after the last learned turn that ends in the row. All are counted.",
    )
    rewritten_turns: Literal["error", "last", "unroll"] = key(
        "error",
        "Where the template renders a turn otherwise once others follow: `error` stops, `last` learns the "
        "last turn alone, `unroll` makes a conversation of each turn and those before it.",
    )
    special_in_content: Literal["text", "drop", "allow"] = key(
        "text",
        "Control tokens that stand in a conversation's content: `text` encodes them as ordinary text, `drop` "
        "leaves out the conversation, `allow` lets them be control tokens.",
    )
    max_untrained: Annotated[float, Fraction()] = key(
        0.2, "Share of conversations in which nothing is learned from which on a run is refused."
    )
    pack_window: Annotated[int, Whole(1, 10**7)] = key(10_000, "`bfd`: documents that are fitted together.")
    bos: bool = key(False, "Put the tokenizer's beginning-of-text token before each document.")
    shuffle: bool = key(False, "Write the rows in an order drawn from `seed`, not in that of the input.")
    token_dtype: Literal["auto", "uint16", "uint32", "int32"] = key(
        "auto",
        "Type of a token on disk: `uint16`, `uint32`, `int32`, or `auto` for the smallest unsigned type that "
        "holds the vocabulary.",
    )
    shard_size: Annotated[int, Size()] = key(200_000_000, "Bytes of one file of the dataset, about.")
    unit_bytes: Annotated[int, Size(at_least=64_000)] = key(
        32_000_000,
        "Bytes of decoded input in one unit of work, the step in which a run commits and resumes. A smaller "
        "unit needs less memory.",
    )
    max_document_bytes: Annotated[int, Size(below=2**31)] = key(
        4_000_000, "Bytes of the largest document that is kept whole, at most `unit_bytes`; see `oversize`."
    )
    oversize: Literal["split", "drop"] = key(
        "split",
        "A document above `max_document_bytes`: `split` cuts it at a paragraph, line or character, `drop` "
        "leaves it out. Both are counted.",
    )
    on_error: Literal["fail", "skip"] = key(
        "fail", "A malformed record: `fail` stops and names file and line, `skip` counts it and goes on."
    )
    batch_rows: CountOrNone = key(
        None,
        "Upper bound on rows per batch, which is bounded in bytes anyway (`null`). Never changes the output.",
    )
    split: SplitConfig = Field(
        default_factory=SplitConfig, description="Parts of the dataset that are kept apart."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.dedup_cache_dir is not None and self.dedup.implementation == "datatrove":
            raise SectionFault(
                "`dedup_cache_dir` is set, and `dedup.implementation: datatrove` keeps no index: drop one"
            )
        if self.dedup_cache_dir is None and self.dedup.index != "files":
            raise SectionFault(
                f"`dedup.index` is `{self.dedup.index}`, and there is no folder for it: set `dedup_cache_dir`"
            )
        if self.dedup_cache_dir is not None and self.dedup.method == "none":
            raise SectionFault("`dedup_cache_dir` is set, and `dedup: none` finds no duplicates: drop one")
        if self.max_document_bytes > self.unit_bytes:
            raise SectionFault(
                f"`max_document_bytes` is `{size_text(self.max_document_bytes)}` "
                f"but `unit_bytes` only `{size_text(self.unit_bytes)}`: a document must fit into a unit"
            )
        return self
