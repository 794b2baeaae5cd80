"""The keys of preprocessing."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from krill.config.dedup import DedupConfig
from krill.config.fields import KB, Fraction, GiB, PathText, Size, Whole, written_size
from krill.config.filters import Filters
from krill.config.messages import SectionFault
from krill.config.section import Section

_WIDEST_ROW = 2**31 - 1  # Arrow's fixed-size lists count their items in 32 bits


class SplitConfig(Section):
    """Parts of the dataset that are kept apart."""

    validation: Annotated[float, Fraction(below=1)] = Field(
        default=0.0,
        description="Share of documents for a validation split, chosen by a hash of their text, so that a "
        "document stays where it is when the corpus grows.",
    )


class PreprocessConfig(Section):
    """From documents to packed rows of tokens."""

    prepared_path: PathText = Field(
        default="artifacts/dataset",
        description="Folder for the dataset; `datasets.load_from_disk` opens it. Or the URL of a folder in "
        "an object store, such as `s3://bucket/dataset`.",
    )
    output: Literal["tokens", "text", "both"] = Field(
        default="tokens",
        description="`tokens` writes packed rows, `text` the kept documents as Parquet with their columns, "
        "`both` writes both.",
    )
    sequence_len: Annotated[int, Whole(1, _WIDEST_ROW)] = Field(default=2048, description="Tokens in a row.")
    min_length: Annotated[int, Whole(0)] = Field(
        default=150, description="Documents with fewer tokens are dropped; the end-of-document token counts."
    )
    max_length: Annotated[int | None, Whole(1, words=(None,))] = Field(
        default=None, description="Documents with more tokens are dropped; `null` for no such limit."
    )
    min_chars: Annotated[int, Whole(0)] = Field(
        default=100, description="Documents with fewer characters after cleaning are dropped."
    )
    max_chars: Annotated[int | None, Whole(1, words=(None,))] = Field(
        default=None, description="Documents with more characters are dropped; `null` for no such limit."
    )
    min_words: Annotated[int, Whole(0)] = Field(
        default=0, description="Documents with fewer words are dropped."
    )
    max_words: Annotated[int | None, Whole(1, words=(None,))] = Field(
        default=None, description="Documents with more words are dropped; `null` for no such limit."
    )
    strip: bool = Field(default=True, description="Remove whitespace from both ends of each document.")
    filters: Filters = Field(
        default=(),
        description="Quality filters, applied in order: names, `{name: {threshold: value}}`, the presets "
        "`web-en` and `web-any`, or `module:function`. See [filters](filters.md).",
    )
    statistics: bool = Field(
        default=False, description="Keep what the filters measured as columns of the text output."
    )
    rejected: bool = Field(
        default=False,
        description="Also write the documents that were dropped, with the reason, as `rejected-*.parquet`.",
    )
    dedup: DedupConfig = Field(
        default_factory=DedupConfig,
        description="Which documents are dropped as copies of earlier ones: `none`, `exact`, `bloom`, "
        "`minhash`, `database`, or a section.",
    )
    dedup_cache_dir: PathText | None = Field(
        default=None,
        description="Folder of a persistent index: what earlier finished runs with another config kept is "
        "dropped, and what this run keeps is added when it is finished. `dedup.index` is its form.",
    )
    packing: Literal["wrapped", "bfd", "none"] = Field(
        default="wrapped",
        description="`wrapped` joins all documents and cuts rows of `sequence_len`; a last short row is "
        "dropped and counted. `bfd` fits whole documents into rows, best fit decreasing. `none` gives each "
        "document a row. The last two cut only documents longer than a row, and drop nothing.",
    )
    pack_window: Annotated[int, Whole(1, 10**7)] = Field(
        default=10_000, description="`bfd`: documents that are fitted together."
    )
    bos: bool = Field(
        default=False, description="Put the tokenizer's beginning-of-text token before each document."
    )
    shuffle: bool = Field(
        default=False, description="Write the rows in an order drawn from `seed`, not in that of the input."
    )
    token_dtype: Literal["auto", "uint16", "uint32", "int32"] = Field(
        default="auto",
        description="Type of a token on disk: `uint16`, `uint32`, `int32`, or `auto` for the smallest "
        "unsigned type that holds the vocabulary.",
    )
    shard_size: Annotated[int, Size()] = Field(
        default=200_000_000, description="Bytes of one file of the dataset, about."
    )
    unit_bytes: Annotated[int, Size(at_least=64 * KB)] = Field(
        default=32_000_000,
        description="Bytes of decoded input in one unit of work, the step in which a run commits and "
        "resumes. A smaller unit needs less memory.",
    )
    max_document_bytes: Annotated[int, Size(below=2 * GiB)] = Field(
        default=4_000_000,
        description="Bytes of the largest document that is kept whole, at most `unit_bytes`; see `oversize`.",
    )
    oversize: Literal["split", "drop"] = Field(
        default="split",
        description="A document above `max_document_bytes`: `split` cuts it at a paragraph, line or "
        "character, `drop` leaves it out. Both are counted.",
    )
    on_error: Literal["fail", "skip"] = Field(
        default="fail",
        description="A malformed record: `fail` stops and names file and line, `skip` counts it and goes on.",
    )
    batch_rows: Annotated[int | None, Whole(1, words=(None,))] = Field(
        default=None,
        description="Upper bound on rows per batch, which is bounded in bytes anyway (`null`). Never "
        "changes the output.",
    )
    split: SplitConfig = Field(
        default_factory=SplitConfig, description="Parts of the dataset that are kept apart."
    )

    @model_validator(mode="after")
    def _index_has_a_use(self) -> Self:
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
        return self

    @model_validator(mode="after")
    def _document_fits_unit(self) -> Self:
        if self.max_document_bytes > self.unit_bytes:
            raise SectionFault(
                f"`max_document_bytes` is `{written_size(self.max_document_bytes)}` "
                f"but `unit_bytes` only `{written_size(self.unit_bytes)}`: a document must fit into a unit"
            )
        return self
