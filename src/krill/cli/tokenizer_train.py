"""`krill tokenizer train`, by flags, and `krill train-tokenizer`, by a config."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from krill.budget import format_size, resolve_threads
from krill.cli.formats import Row, format_count, format_duration, format_memory, format_rate
from krill.cli.options import (
    ConfigOptions,
    EngineOptions,
    Many,
    OutputOptions,
    Overwrite,
    Switch,
    TokenizerBudget,
    VerifyOptions,
)
from krill.errors import ConfigError

if TYPE_CHECKING:
    from krill.config import KrillConfig, TokenizerConfig
    from krill.corpus import DatasetSource
    from krill.tokenizer.options import TrainOptions

# Where a tokenizer goes that the config only has a name on the hub for.
_DEFAULT_FOLDER = "artifacts/tokenizer"
_TOKEN_CHARS = 24
_LONGEST_SHOWN = 4


@Parameter(name="*")
@dataclass(frozen=True)
class VocabularyFlags:
    """What shapes the vocabulary."""

    vocab_size: int = 32000
    """Tokens in the vocabulary, special tokens included."""

    special_tokens: Annotated[
        tuple[str, ...], Parameter(consume_multiple=True, negative="--no-special-tokens")
    ] = ("<|endoftext|>",)
    """Tokens that are never split, in the order of their ids."""

    pattern: str = "gpt2"
    """How text is cut into words: gpt2, cl100k, o200k, llama3, qwen2, or a regular expression."""

    tie_break: Literal["huggingface", "greatest"] | None = None
    """Which of equally frequent pairs is merged first: huggingface the one with the smallest ids (the
    default), greatest the one whose bytes compare greatest (the default with --output-prefix)."""

    boundaries: Literal["documents", "lines"] = "documents"
    """Where text is cut before words are counted."""

    min_frequency: int = 0
    """Occurrences that a pair needs to be merged."""

    max_token_length: int | None = None
    """Bytes that a token stays below."""

    initial_alphabet: str = "bytes"
    """Single bytes in the vocabulary: bytes for all 256, seen for those that occur, or a text whose bytes are
    kept besides those that occur."""

    limit_alphabet: int | None = None
    """Single bytes that are kept at most, the most frequent."""


def train(
    *,
    input: Annotated[tuple[str, ...], Many],
    output: Path | None = None,
    output_prefix: str | None = None,
    text_column: str = "text",
    tiktoken: Switch = False,
    preset: Literal["chat"] | None = None,
    push: str | None = None,
    overwrite: Overwrite = False,
    vocabulary: VocabularyFlags = VocabularyFlags(),
    budget: TokenizerBudget = TokenizerBudget(),  # noqa: B008
    engine: EngineOptions = EngineOptions(),  # noqa: B008
    verify: VerifyOptions = VerifyOptions(),  # noqa: B008
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Text in, byte-level BPE tokenizer out: the same at any budget, with any threads, on any engine.

    The output folder opens with Hugging Face tokenizers and transformers. The same command on a killed run
    continues it; on a finished one it says so and does nothing.

    Parameters
    ----------
    input
        Files, globs or folders: plain text, JSON lines, CSV, Parquet, Arrow, compressed or not.
    output
        The folder for the tokenizer.
    output_prefix
        Writes trainings/X_vocabulary.json and trainings/X_merges.txt, and the tokenizer into trainings/X
        unless --output names another folder.
    text_column
        The column or JSON key that holds the text.
    tiktoken
        Write a .tiktoken file of ranks too.
    preset
        With chat, special tokens for turns and tools are added before your own, and a chat template.
    push
        Upload the tokenizer to this repository of the Hugging Face hub.
    """
    from krill.corpus import DatasetSource
    from krill.tokenizer.options import TrainOptions
    from krill.tokenizer.presets import with_preset

    prefix = _prefix_path(output_prefix)
    folder = output or prefix
    if folder is None:
        raise ConfigError(
            "the tokenizer has no place to go",
            hint="add --output artifacts/tokenizer, or --output-prefix NAME for trainings/NAME",
        )
    memory, threads = budget.resolve()
    settings = asdict(vocabulary)
    settings["tie_break"] = vocabulary.tie_break or ("huggingface" if prefix is None else "greatest")
    if preset is not None:
        settings["special_tokens"] = with_preset(preset, vocabulary.special_tokens)
    run_and_print(
        [DatasetSource(path, text_column=text_column) for path in input],
        TrainOptions(**settings),
        display,
        output=folder,
        memory=memory,
        threads=threads if threads == "auto" else resolve_threads(threads),
        engine=engine.resolve(),
        overwrite=overwrite,
        verify=verify.enabled,
        tiktoken=tiktoken,
        chat=preset == "chat",
        prefix=prefix,
        setting="--output" if output is not None else "--output-prefix",
        push=push,
    )


def train_tokenizer(
    config: str,
    /,
    *,
    overwrite: Overwrite = False,
    push: Switch = False,
    options: ConfigOptions = ConfigOptions(),  # noqa: B008  a frozen value, never changed
    verify: VerifyOptions = VerifyOptions(),  # noqa: B008
    display: OutputOptions = OutputOptions(),  # noqa: B008
) -> None:
    """Train the tokenizer of a config on its datasets, into `tokenizer.path`.

    The same command on a killed run continues it; on a finished one it says so and does nothing.

    Parameters
    ----------
    config
        The config file (YAML).
    push
        Upload the tokenizer to the Hugging Face hub, as `tokenizer.hub_id`.
    """
    from krill.cli.screen import print_notices

    loaded = options.load(config, verify=verify.override)
    folder = output_folder(loaded)
    hub_id = _hub_name(loaded.tokenizer) if push else None
    if not display.quiet:
        print_notices(loaded.notices)
    from krill.corpus import DatasetSource
    from krill.tokenizer.options import TrainOptions

    # The options of training are keys of `tokenizer:` by the same names.
    settings = {name: getattr(loaded.tokenizer, name) for name in VocabularyFlags.__dataclass_fields__}
    run_and_print(
        [
            DatasetSource(dataset.path, dataset.split, dataset.text_column, dataset.separator)
            for dataset in loaded.datasets
        ],
        TrainOptions(**settings),
        display,
        output=folder,
        memory=loaded.memory,
        threads=loaded.threads,
        engine=loaded.engine,
        overwrite=overwrite,
        verify=loaded.verify,
        push=hub_id,
    )


def run_and_print(
    sources: Sequence[DatasetSource],
    options: TrainOptions,
    display: OutputOptions,
    *,
    output: Path,
    memory: str | int,
    prefix: Path | None = None,
    push: str | None = None,
    **more: Any,
) -> None:
    """Train into the folder `output` and print the result; with a `prefix`, write the two files beside it,
    too. `more` goes to `run_training` as it is."""
    from krill.cli.progress import watch
    from krill.cli.screen import print_result
    from krill.tokenizer.training import run_training

    with watch(display, memory) as progress:
        summary = run_training(sources, options, memory=memory, output=output, progress=progress, **more)
    facts = summary.to_json()
    files: list[Path] = []
    if prefix is not None:
        from krill.compat.bpe import save_prefixed
        from krill.tokenizer.files import load_trained

        files = save_prefixed(load_trained(output / "tokenizer.json"), prefix.name, prefix.parent)
    if push is not None:
        from krill.tokenizer.files import push_tokenizer

        facts["pushed"] = push_tokenizer(output, push)
    facts["files"] = [str(file) for file in files]
    print_result(
        facts,
        display,
        lambda: training_rows(facts),
        made="by the same options and input",
        then=f'krill tokenizer encode --tokenizer {shlex.quote(str(output))} "some text"',
    )


def training_rows(facts: Mapping[str, Any]) -> list[Row]:
    """The end of a training; `facts` as its summary's `to_json` has them, `files` were written besides."""
    seconds, size = facts["seconds"], facts["input_bytes"]
    compression = "not measured"
    if facts["bytes_per_token"] is not None:
        compression = f"{facts['bytes_per_token']:.2f} bytes per token on a sample"
    speed = f"{format_duration(seconds)}{format_rate(size, seconds)} over {format_size(size)}"
    return [
        ("vocabulary", f"{facts['vocab_size']:,} tokens, {format_count(facts['merges'], 'merge')}"),
        ("  longest", ", ".join(map(_visible, facts["longest_tokens"][:_LONGEST_SHOWN]))),
        ("words", f"{facts['unique_words']:,} unique of {facts['words']:,}"),
        ("compression", compression),
        ("time", speed),
        *((f"  {stage['name']}", format_duration(stage["seconds"])) for stage in facts["stages"]),
        ("memory", format_memory(facts["budget"])),
        ("output", str(facts["output"])),
        *(("", file) for file in facts.get("files", ())),
    ]


def _visible(token: str) -> str:
    """A token on one line, shortened, with its length if it is long."""
    text = token if token.isprintable() else token.encode("unicode_escape").decode()
    if len(text) <= _TOKEN_CHARS:
        return f"`{text}`"
    return f"`{text[:_TOKEN_CHARS]}`... ({len(token)} characters)"


def _prefix_path(prefix: str | None) -> Path | None:
    """A bare name stands in the folder `trainings`, as `MemoryEfficientBPE` saves it."""
    if prefix is None:
        return None
    path = Path(prefix)
    if not path.name:
        raise ConfigError(f"--output-prefix is `{prefix}`: no file can be named after it", hint="give a name")
    return Path("trainings") / path if path.parent == Path() else path


def output_folder(config: KrillConfig) -> Path:
    """Where the config's tokenizer goes; raises if there is nothing to train, or nothing to train it on."""
    settings = config.tokenizer
    if settings.builtin is not None:
        raise ConfigError(
            f"`tokenizer.builtin` is `{settings.builtin}`: it needs no training",
            hint="set `tokenizer.path` to a folder instead, and a tokenizer is trained into it",
        )
    if not config.datasets:
        raise ConfigError(
            "`datasets` is missing from the config, so there is nothing to train on",
            hint="add, for example,\ndatasets:\n  - path: data/*.jsonl",
        )
    if settings.path is None and settings.hub_id is None:
        raise ConfigError(
            "`tokenizer.path` is missing from the config, so the tokenizer has no place to go",
            hint=f"add, for example,\ntokenizer:\n  path: {_DEFAULT_FOLDER}",
        )
    path = Path(settings.local_path or _DEFAULT_FOLDER)
    if path.suffix == ".json" and path.name != "tokenizer.json":
        key = "path" if settings.path is not None else "hub_id"
        raise ConfigError(
            f"`tokenizer.{key}` is `{path}`, and a tokenizer is trained into a folder",
            hint=f"set `tokenizer.{key}` to `{path.parent}`",
        )
    return path.parent if path.name == "tokenizer.json" else path


def _hub_name(settings: TokenizerConfig) -> str:
    if settings.hub_id is not None and settings.local_path != settings.hub_id:
        return settings.hub_id
    missing = "has none" if settings.hub_id is None else f"has the folder `{settings.hub_id}` in its place"
    raise ConfigError(
        f"--push needs a name on the hub, and the config {missing}",
        hint="set `tokenizer.hub_id` to one, such as `org/name`; `tokenizer.path` is the folder here",
    )
