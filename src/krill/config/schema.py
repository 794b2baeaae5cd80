"""The models: every key of the config, its type, its default and what it does.

A description is the help of the command line and the text of docs/config.md, so it says the effect and
the unit. The models are frozen: a config that has been checked stays as it was checked. `load_config` makes
one of whatever a caller has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from krill.budget.machine import MOST_THREADS
from krill.config.chat import add_chat_defaults, check_chat
from krill.config.dataset import CHAT, DatasetConfig
from krill.config.engine import EngineConfig
from krill.config.fields import Count, CountOrNone, Names, PathText, Section, Size, Text, Whole, key
from krill.config.keys import level_of
from krill.config.merger import ConfigMerger, Layer
from krill.config.messages import Path as KeyPath
from krill.config.messages import SectionFault, as_config_error, one_of, shown
from krill.config.preprocess import PreprocessConfig
from krill.config.train import TrainConfig
from krill.config.yaml_file import read_yaml
from krill.errors import ConfigError

# What the hub takes for a name; anything else can only be a path.
_HUB_ID: Final = re.compile(r"(?!\.)[\w.-]+(?:/(?!\.)[\w.-]+)?", re.ASCII)


class TokenizerConfig(Section):
    """Which tokenizer turns text into tokens, and how one is trained."""

    path: PathText | None = key(
        None,
        "Folder with a `tokenizer.json`, or that file itself; `krill train-tokenizer` and `krill run` train "
        "one there.",
    )
    hub_id: PathText | None = key(
        None,
        "The tokenizer's name on the Hugging Face hub: read from there if `path` is `null`, and where `krill "
        "train-tokenizer --push` uploads it. A folder or file of this name here comes first.",
    )
    builtin: Literal["bytes"] | None = key(
        None,
        "`bytes` for the built-in byte tokenizer (256 bytes and one end-of-document token), instead of "
        "`path`.",
    )
    vocab_size: Annotated[int, Whole(1, 2**31 - 1)] = key(
        32000, "Tokens in a vocabulary that is trained, special tokens included."
    )
    pattern: Text = key(
        "gpt2",
        "How text is cut into words before merging: `gpt2`, `cl100k`, `o200k`, `llama3`, `qwen2` or a "
        "regular expression.",
    )
    special_tokens: Names = key(
        ("<|endoftext|>",),
        "Tokens that are never split, in the order of their ids. The first one also separates documents in "
        "plain text.",
    )
    min_frequency: Count = key(0, "Occurrences that a pair needs to be merged in training.")
    max_token_length: CountOrNone = key(
        None, "Bytes that a trained token stays below; `null` for no such limit."
    )
    initial_alphabet: Text = key(
        "bytes",
        "Single bytes in a trained vocabulary: `bytes` for all 256, so that any text can be encoded, `seen` "
        "for those that occur, or a text whose bytes are kept besides those that occur.",
    )
    limit_alphabet: CountOrNone = key(
        None, "Single bytes that a trained vocabulary keeps at most, the most frequent; `null` for all."
    )
    tie_break: Literal["huggingface", "greatest"] = key(
        "huggingface",
        "Which of equally frequent pairs is merged first: `huggingface` the one with the smallest ids, "
        "`greatest` the one whose bytes compare greatest.",
    )
    boundaries: Literal["documents", "lines"] = key(
        "documents",
        "Where text is cut before words are counted: `documents` as Hugging Face's `train_from_iterator`, "
        "`lines` as its `train(files)`.",
    )

    @model_validator(mode="after")
    def _only_one_source(self) -> Self:
        given = [name for name in ("path", "hub_id") if getattr(self, name) is not None]
        if self.builtin is not None and given:
            raise SectionFault(
                f"`builtin` is `{self.builtin}`, and that needs no {one_of(given, 'or')}: drop one of them"
            )
        return self

    @property
    def local_path(self) -> str | None:
        """Where the tokenizer is, or is trained, on this machine; None if it is only on the hub."""
        if self.path is not None or self.hub_id is None:
            return self.path
        return self.hub_id if not _HUB_ID.fullmatch(self.hub_id) or Path(self.hub_id).exists() else None

    @property
    def is_given(self) -> bool:
        """Whether the config says which tokenizer to use."""
        return not (self.path is None and self.hub_id is None and self.builtin is None)


@dataclass(frozen=True, slots=True)
class DatatroveBlock:
    """An older config's `datatrove:` block; without one, or where it is not enabled, nothing."""

    enabled: bool = False
    pipeline_config: Mapping[str, Any] = field(default_factory=dict)


class KrillConfig(Section):
    """Everything a run needs to know, checked. Takes the seeds' flat keys as well as the nested ones."""

    memory: Annotated[int | Literal["auto"], Size(words=("auto",))] = key(
        "auto",
        "The budget: bytes of resident memory that a command may use at its peak, such as `512MB`. `auto` is "
        "half of what the process may have. Never changes the output.",
    )
    threads: Annotated[int | Literal["auto"], Whole(1, MOST_THREADS, words=("auto",))] = key(
        "auto", "Threads that work in parallel; `auto` is one per usable core. Never changes the output."
    )
    seed: Count = key(42, "Seed of everything that is drawn at random.")
    spill_dir: PathText | None = key(
        None,
        "Folder for temporary files, removed after the run; `null` puts them beside the output. With an "
        "output in an object store it is each machine's own, and `null` is the system's.",
    )
    disk: Annotated[int | None, Size(words=(None,))] = key(
        None, "Bytes that temporary files may take on disk; `null` for no limit."
    )
    verify: bool = key(
        True,
        "Hold what Krill wrote, such as a prepared dataset that is trained on or a text output that is read "
        "again, against the checksums in its manifest, once for each file. Never changes the output.",
    )
    datasets: tuple[DatasetConfig, ...] = key((), "Sources of documents, read in this order.")
    tokenizer: TokenizerConfig = Field(
        default_factory=TokenizerConfig, description="Which tokenizer turns text into tokens."
    )
    preprocess: PreprocessConfig = Field(
        default_factory=PreprocessConfig, description="From documents to packed rows of tokens."
    )
    chat_template: PathText = key(
        "tokenizer_default",
        "How conversations become text: `tokenizer_default` for the tokenizer's own template, the name of a "
        "built-in one such as `chatml`, or the path of a `.jinja` file.",
    )
    chat_template_kwargs: dict[Text, Any] = key(
        {}, "Variables for the template, such as `{enable_thinking: false}`."
    )
    chat_template_date: Text | None = key(
        None, "The day that templates take for today, such as `2025-01-31`; `null` if none asks for it."
    )
    train: TrainConfig = Field(
        default_factory=TrainConfig, description="A model trained on the rows, or on the text."
    )
    engine: EngineConfig = Field(
        default_factory=EngineConfig, description="Where units of work run. Never changes the output."
    )

    _notices: tuple[str, ...] = PrivateAttr(())
    _datatrove: DatatroveBlock = PrivateAttr(DatatroveBlock())

    @model_validator(mode="wrap")
    @classmethod
    def _from_any_spelling(
        cls, given: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        """Put flat keys in their places and raise faults as `ConfigError`; `load_config` gives its merger."""
        if isinstance(given, cls):
            return handler(given)
        merger = info.context
        if not isinstance(merger, ConfigMerger):
            merger = _new_merger()
            merger.add_tree(given, Layer.FILE, lambda _: "the config")
        try:
            tree = merger.finish()
            add_chat_defaults(tree, merger.place_of)
            config = handler(tree)
        except ValidationError as error:
            raise as_config_error(error, merger.place_of) from None
        check_chat(config, merger.place_of)
        config._notices = tuple(merger.notices)
        config._datatrove = DatatroveBlock(**merger.datatrove)
        return config

    @property
    def is_chat(self) -> bool:
        """Whether conversations are prepared."""
        return any(dataset.type == CHAT for dataset in self.datasets)

    @property
    def has_slow_pages(self) -> bool:
        """Whether pages, if there are any, may be extracted by a library that worker processes speed up."""
        return any(dataset.extract.holds_lock for dataset in self.datasets)

    @property
    def trains(self) -> bool:
        """Whether more is said of training than where a model would go."""
        return bool(self.train.model_fields_set - {"output_dir", "hub_model_id"})

    @property
    def datatrove(self) -> DatatroveBlock:
        """The `datatrove:` block as it was written, for older code that asks whether it is enabled. What it
        says has been put into the sections above."""
        return self._datatrove

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


def load_config(
    source: str | os.PathLike[str] | Mapping[str, Any] | KrillConfig,
    *,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    **direct: Any,
) -> KrillConfig:
    """Load a YAML file or a mapping, then apply the environment, `a.b=value` overrides and keyword arguments.

    Each layer wins over the one before it. `environ` is the process's own unless given. A `KrillConfig`
    has been through its environment already, so for it only a given `environ` counts. Keyword arguments
    are top-level keys such as `memory="512MB"`; None means not given. Relative paths stay as typed: they
    are relative to the working directory, not to the file. Notices for the user are in the result's
    `notices`.
    """
    merger = _new_merger()
    if isinstance(source, KrillConfig):
        merger.notices.extend(source.notices)
        merger.datatrove = asdict(source.datatrove)
        environ = {} if environ is None else environ
    if isinstance(source, Mapping | KrillConfig):
        merger.add_tree(source, Layer.FILE, lambda _: "the config")
    else:
        _add_file(merger, Path(source))
    merger.add_environment(os.environ if environ is None else environ)
    merger.add_overrides(overrides)
    merger.add_arguments(direct)
    return KrillConfig.model_validate({}, context=merger)


def _add_file(merger: ConfigMerger, path: Path) -> None:
    tree, lines = read_yaml(path)
    if not isinstance(tree, dict):
        raise ConfigError(
            f"{path} holds a {type(tree).__name__}, not a config",
            hint="write `key: value` lines, such as `memory: 1GB`",
        )

    def where(key: KeyPath) -> str:
        return f"{path}:{lines[key]}" if key in lines else str(path)

    merger.add_tree(tree, Layer.FILE, where)


def _new_merger() -> ConfigMerger:
    return ConfigMerger(level_of(KrillConfig))
