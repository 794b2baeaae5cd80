"""The models: every key of the config, its type, its default and what it does.

A description is the help of the command line and the text of docs/config.md, so it says the effect and
the unit. Values that belong to later versions are refused by `Known`, which names what this version
takes. The models are frozen: a config that has been checked stays as it was checked.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from krill.config.draft import Draft, Layer
from krill.config.fields import (
    KB,
    GiB,
    Known,
    PathText,
    Positive,
    Size,
    Text,
    Whole,
    distinct,
    written_size,
)
from krill.config.keys import level_of
from krill.config.messages import SectionFault, as_config_error, one_of, shown
from krill.errors import ConfigError

_WIDEST_ROW = 2**31 - 1  # Arrow's fixed-size lists count their items in 32 bits
_MOST_THREADS = 1024


class Section(BaseModel):
    """A part of the config: frozen, without keys that are not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class DatasetConfig(Section):
    """One source of documents."""

    path: PathText = Field(
        description="File, glob, folder or URL to read; what is not found locally is taken as a Hugging "
        "Face hub id."
    )
    split: Text = Field(
        default="train",
        description="Split to read, or a slice of it such as `train[:10%]` or `train[1000:2000]` "
        "(documents).",
    )
    text_column: Text = Field(
        default="text", description="Column or JSON key that holds the document's text."
    )
    separator: str | None = Field(
        default=None,
        description="Plain text only: a file is split into documents at this text. `null` means the first "
        "of `tokenizer.special_tokens`; an empty text makes each file one document.",
    )
    columns: Annotated[tuple[Text, ...], AfterValidator(distinct)] = Field(
        default=(), description="Other columns to carry along into the text output."
    )
    weight: Annotated[float | None, Known(None)] = Field(
        default=None,
        description="Share of this source in a mixture. This version knows only `null`: sources follow each "
        "other.",
    )
    max_tokens: Annotated[int | None, Known(None)] = Field(
        default=None,
        description="Tokens to take from this source at most. This version knows only `null`: all of them.",
    )

    @model_validator(mode="after")
    def _columns_do_not_clash(self) -> Self:
        taken = [name for name in self.columns if name in {self.text_column, "text", "position"}]
        if taken:
            raise SectionFault(
                f"`columns` must not name {one_of(taken)}: the text is there anyway, "
                "and Krill has its own columns `text` and `position`"
            )
        return self


class TokenizerConfig(Section):
    """Which tokenizer turns text into tokens, and how one is trained."""

    path: PathText | None = Field(
        default=None,
        description="Folder with a `tokenizer.json`, or that file itself; `krill train-tokenizer` and "
        "`krill run` train one there.",
    )
    hub_id: Text | None = Field(
        default=None, description="Tokenizer on the Hugging Face hub, instead of `path`."
    )
    builtin: Literal["bytes"] | None = Field(
        default=None,
        description="`bytes` for the built-in byte tokenizer (256 bytes and one end-of-document token), "
        "instead of `path`.",
    )
    vocab_size: Annotated[int, Whole(1, 2**31 - 1)] = Field(
        default=32000, description="Tokens in a vocabulary that is trained, special tokens included."
    )
    pattern: Text = Field(
        default="gpt2",
        description="How text is cut into words before merging: `gpt2`, `cl100k`, `o200k`, `llama3`, "
        "`qwen2` or a regular expression.",
    )
    special_tokens: Annotated[tuple[Text, ...], AfterValidator(distinct)] = Field(
        default=("<|endoftext|>",),
        description="Tokens that are never split, in the order of their ids. The first one also separates "
        "documents in plain text.",
    )
    min_frequency: Annotated[int, Whole(0)] = Field(
        default=0, description="Occurrences that a pair needs to be merged in training."
    )
    max_token_length: Annotated[int | None, Whole(1, words=(None,))] = Field(
        default=None,
        description="Bytes that a trained token stays below; `null` for no such limit.",
    )
    initial_alphabet: Text = Field(
        default="bytes",
        description="Single bytes in a trained vocabulary: `bytes` for all 256, so that any text can be "
        "encoded, `seen` for those that occur, or a text whose bytes are kept besides those that occur.",
    )
    limit_alphabet: Annotated[int | None, Whole(1, words=(None,))] = Field(
        default=None,
        description="Single bytes that a trained vocabulary keeps at most, the most frequent; `null` for "
        "all.",
    )
    tie_break: Literal["huggingface", "greatest"] = Field(
        default="huggingface",
        description="Which of equally frequent pairs is merged first: `huggingface` the one with the "
        "smallest ids, `greatest` the one whose bytes compare greatest.",
    )
    boundaries: Literal["documents", "lines"] = Field(
        default="documents",
        description="Where text is cut before words are counted: `documents` as Hugging Face's "
        "`train_from_iterator`, `lines` as its `train(files)`.",
    )

    @model_validator(mode="after")
    def _only_one_source(self) -> Self:
        given = [name for name in ("path", "hub_id", "builtin") if getattr(self, name) is not None]
        if len(given) > 1:
            raise SectionFault(
                f"only one of `path`, `hub_id` and `builtin` can be given, not {one_of(given, 'and')}"
            )
        return self

    @property
    def is_given(self) -> bool:
        """Whether the config says which tokenizer to use."""
        return not (self.path is None and self.hub_id is None and self.builtin is None)


class SplitConfig(Section):
    """Parts of the dataset that are kept apart."""

    validation: Annotated[float, Known(0)] = Field(
        default=0.0,
        description="Share of documents for a validation split. This version knows only `0`: no such split.",
    )


class PreprocessConfig(Section):
    """From documents to packed rows of tokens."""

    prepared_path: PathText = Field(
        default="artifacts/dataset", description="Folder for the dataset; `datasets.load_from_disk` opens it."
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
    min_chars: Annotated[int, Whole(0)] = Field(
        default=100, description="Documents with fewer characters after cleaning are dropped."
    )
    strip: bool = Field(default=True, description="Remove whitespace from both ends of each document.")
    filters: Annotated[tuple[Any, ...], Known([])] = Field(
        default=(), description="Quality filters, applied in order. This version knows only `[]`: none."
    )
    dedup: Annotated[Literal["none", "exact"], Known("none", "exact")] = Field(
        default="exact",
        description="`exact` keeps the first of documents whose cleaned texts are equal, across all "
        "datasets; `none` keeps all.",
    )
    dedup_cache_dir: Annotated[str | None, Known(None)] = Field(
        default=None,
        description="Index of what earlier runs kept. This version knows only `null`: each run stands alone.",
    )
    packing: Annotated[Literal["wrapped"], Known("wrapped")] = Field(
        default="wrapped",
        description="`wrapped` joins all documents and cuts rows of `sequence_len`; a last short row is "
        "dropped and counted.",
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
    split: SplitConfig = Field(default=SplitConfig(), description="Parts of the dataset that are kept apart.")

    @model_validator(mode="after")
    def _document_fits_unit(self) -> Self:
        if self.max_document_bytes > self.unit_bytes:
            raise SectionFault(
                f"`max_document_bytes` is `{written_size(self.max_document_bytes)}` "
                f"but `unit_bytes` only `{written_size(self.unit_bytes)}`: a document must fit into a unit"
            )
        return self


class TrainConfig(Section):
    """Training, so that one file serves all commands; preprocessing ignores it."""

    output_dir: PathText = Field(
        default="artifacts/model", description="Folder for checkpoints and the trained model."
    )
    hub_model_id: Text | None = Field(
        default=None,
        description="Name of the model on the Hugging Face hub; nothing is uploaded unless asked for.",
    )
    target_params: Annotated[int, Whole(1)] = Field(
        default=1_000_000, description="Parameters of the model; width, depth and heads follow from it."
    )
    batch_size: Annotated[int, Whole(1)] = Field(default=32, description="Rows in one batch.")
    gradient_accumulation_steps: Annotated[int, Whole(1)] = Field(
        default=1, description="Batches added up for one step of the optimizer."
    )
    learning_rate: Annotated[float, Positive()] = Field(default=0.0005, description="Peak learning rate.")
    epochs: Annotated[int, Whole(1)] = Field(default=1, description="Times that the dataset is read.")
    max_steps: Annotated[int | None, Whole(1, words=(None,))] = Field(
        default=None, description="Stop after so many steps of the optimizer; `null` for no such limit."
    )
    max_tokens: Annotated[int | None, Whole(1, words=(None,))] = Field(
        default=None, description="Stop after so many tokens; `null` for no such limit."
    )
    mixed_precision: Literal[False, "bf16", "fp16"] = Field(
        default=False,
        description="`bf16` or `fp16` for activations and gradients; `false` computes in 32 bits.",
    )
    optimizer: Literal["adamw", "adamw8bit"] = Field(
        default="adamw", description="`adamw`, or `adamw8bit` whose state takes a quarter of the memory."
    )
    save_every: Annotated[int, Whole(1)] = Field(default=1000, description="Steps between checkpoints.")
    log_every: Annotated[int, Whole(1)] = Field(default=10, description="Steps between lines of progress.")
    resume: Literal["auto", True, False] = Field(
        default="auto",
        description="`auto` continues from the last checkpoint if there is one, `true` demands one, `false` "
        "starts anew.",
    )


class KrillConfig(Section):
    """Everything a run needs to know, checked. Takes the seeds' flat keys as well as the nested ones."""

    memory: Annotated[int | Literal["auto"], Size(words=("auto",))] = Field(
        default="auto",
        description="The budget: bytes of resident memory that a command may use at its peak, such as "
        "`512MB`. `auto` is half of what the process may have. Never changes the output.",
    )
    threads: Annotated[int | Literal["auto"], Whole(1, _MOST_THREADS, words=("auto",))] = Field(
        default="auto",
        description="Threads that work in parallel; `auto` is one per usable core. Never changes the output.",
    )
    seed: Annotated[int, Whole(0)] = Field(
        default=42, description="Seed of everything that is drawn at random."
    )
    spill_dir: PathText | None = Field(
        default=None,
        description="Folder for temporary files, removed after the run; `null` puts them beside the output.",
    )
    disk: Annotated[int | None, Size(words=(None,))] = Field(
        default=None, description="Bytes that temporary files may take on disk; `null` for no limit."
    )
    datasets: tuple[DatasetConfig, ...] = Field(
        default=(), description="Sources of documents, read in this order."
    )
    tokenizer: TokenizerConfig = Field(
        default=TokenizerConfig(), description="Which tokenizer turns text into tokens."
    )
    preprocess: PreprocessConfig = Field(
        default=PreprocessConfig(), description="From documents to packed rows of tokens."
    )
    train: TrainConfig = Field(default=TrainConfig(), description="Training; preprocessing ignores it.")
    engine: Annotated[str, Known("local")] = Field(
        default="local",
        description="Where units of work run. This version knows only `local`: threads of this process.",
    )

    _notices: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _from_any_spelling(
        cls, given: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        """Put flat keys in their places and tell faults as `ConfigError`; `load_config` brings its draft."""
        if isinstance(given, cls):
            return handler(given)
        draft = info.context
        if not isinstance(draft, Draft):
            draft = new_draft()
            draft.add_tree(given, Layer.FILE, lambda _: "the config")
        try:
            config = handler(draft.finish())
        except ValidationError as error:
            raise as_config_error(error, draft.place_of) from None
        config._notices = tuple(draft.notices)
        return config

    @property
    def notices(self) -> list[str]:
        """What the user should know about keys that were accepted but change nothing."""
        return list(self._notices)

    def require_for_preprocess(self) -> None:
        """Raise `ConfigError` if a key is missing that preprocessing can't do without."""
        if not self.datasets:
            raise ConfigError(
                "`datasets` is missing from the config, so there is nothing to read",
                hint="add, for example,\ndatasets:\n  - path: data/*.jsonl",
            )
        output = self.preprocess.output
        if output != "text" and not self.tokenizer.is_given:
            raise ConfigError(
                f"`tokenizer` is missing from the config, and `preprocess.output` is `{shown(output)}`",
                hint="set `tokenizer.path` to a folder with a tokenizer.json (`krill train-tokenizer CONFIG` "
                "trains one there), `tokenizer.hub_id` to one on the hub, or `tokenizer.builtin` to `bytes`; "
                "`preprocess.output: text` needs none",
            )


def new_draft() -> Draft:
    """An empty draft of a `KrillConfig`."""
    return Draft(level_of(KrillConfig))
