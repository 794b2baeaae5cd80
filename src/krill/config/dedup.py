"""How duplicates are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from krill.config.fields import Fraction, PathText, Whole
from krill.config.messages import SectionFault
from krill.config.section import Section

_MOST_PERMUTATIONS = 4096
_DATABASES: Final = {"database": "sqlite", "sqlite": "sqlite", "duckdb": "duckdb"}


class DedupConfig(Section):
    """Which documents are dropped as copies of earlier ones, across all datasets; the first one is kept."""

    shorthand: ClassVar[str | None] = "method"

    method: Literal["none", "exact", "bloom", "minhash"] = Field(
        default="exact",
        description="`exact` finds equal cleaned texts; `bloom` the same in a table of fixed size, and takes "
        "a few others for copies; `minhash` finds near-duplicates; `none` keeps all. `database`, `sqlite` "
        "and `duckdb` are `exact` with such an `index`.",
    )
    level: Literal["document", "paragraph", "line"] = Field(
        default="document",
        description="What is compared. `paragraph` and `line` (`exact` and `bloom` only) remove those that "
        "stood anywhere before, and then documents shorter than `min_chars`.",
    )
    false_positive_rate: Annotated[float, Fraction(above=0, below=1)] = Field(
        default=0.001, description="`bloom`: share of documents that may be dropped by mistake."
    )
    expected_documents: Annotated[int | None, Whole(1, words=(None,))] = Field(
        default=None,
        description="`bloom`: documents (or lines, or paragraphs) that the table is made for, and beyond "
        "which the rate no longer holds. Required there.",
    )
    ngram: Annotated[int, Whole(1, 100)] = Field(
        default=5, description="`minhash`: words in a row that are compared as one."
    )
    bands: Annotated[int | None, Whole(1, _MOST_PERMUTATIONS, words=(None,))] = Field(
        default=None,
        description="`minhash`: documents that agree in one of so many bands are near-duplicates; 14 unless "
        "a `threshold` is stated.",
    )
    rows: Annotated[int | None, Whole(1, _MOST_PERMUTATIONS, words=(None,))] = Field(
        default=None, description="`minhash`: hashes in a band; 8 unless a `threshold` is stated."
    )
    threshold: Annotated[float | None, Fraction(above=0, words=(None,))] = Field(
        default=None,
        description="`minhash`: share of n-grams in common from which on documents are near-duplicates; "
        "chooses `bands` and `rows`. 14 bands of 8 have theirs at 0.72.",
    )
    verify: Annotated[float | None, Fraction(above=0, words=(None,))] = Field(
        default=None,
        description="`minhash`: share of n-grams that two documents must truly have in common, counted after "
        "the bands have found them; `null` trusts the bands.",
    )
    clusters: bool = Field(
        default=False,
        description="`minhash`: keep the columns `cluster` (position of the cluster's first document) and "
        "`cluster_size` in the text output.",
    )
    implementation: Literal["krill", "datatrove"] = Field(
        default="krill",
        description="`minhash`: whose code finds near-duplicates. `datatrove` runs its own stages (extra "
        "`datatrove`): far slower, one task, and its memory grows with the number of duplicates.",
    )
    index: Literal["files", "sqlite", "duckdb"] = Field(
        default="files",
        description="How `dedup_cache_dir` keeps what runs kept: `files` of numbers, or a database to open "
        "and query, `sqlite` or `duckdb` (extra `duckdb`). Never changes what is dropped.",
    )
    against: tuple[PathText, ...] = Field(
        default=(),
        description="Files, folders or outputs of earlier runs whose documents count as seen before, and "
        "which are not written.",
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
