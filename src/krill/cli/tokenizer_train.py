"""`krill tokenizer train`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from krill.cli.options import EngineOptions, OutputOptions, VerifyOptions
from krill.cli.tokenizer_options import Many, TokenizerBudget
from krill.errors import ConfigError

if TYPE_CHECKING:
    from krill.tokenizer.options import TrainOptions


@Parameter(name="*")
@dataclass(frozen=True)
class TrainingOptions:
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
    tiktoken: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    preset: Literal["chat"] | None = None,
    push: str | None = None,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    options: TrainingOptions = TrainingOptions(),
    budget: TokenizerBudget = TokenizerBudget(),  # noqa: B008
    engine: EngineOptions = EngineOptions(),  # noqa: B008
    believed: VerifyOptions = VerifyOptions(),  # noqa: B008
    shown: OutputOptions = OutputOptions(),  # noqa: B008
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
    overwrite
        Start anew, and replace the finished output in the end; refused while it holds files that Krill did
        not write.
    """
    from krill.cli.chosen_engine import chosen_engine
    from krill.cli.tokenizer_training import train_and_tell
    from krill.corpus import DatasetSource

    prefix = _prefix_path(output_prefix)
    train_and_tell(
        [DatasetSource(path, text_column=text_column) for path in input],
        _train_options(options, preset, default_tie_break="huggingface" if prefix is None else "greatest"),
        shown,
        output=_folder(output, prefix),
        memory=budget.memory,
        threads="auto" if budget.threads == "auto" else budget.thread_count,
        engine=chosen_engine(engine),
        overwrite=overwrite,
        verify=believed.verify,
        tiktoken=tiktoken,
        chat=preset == "chat",
        prefix=prefix,
        setting="--output" if output is not None else "--output-prefix",
        push=push,
    )


def _train_options(
    given: TrainingOptions, preset: str | None, default_tie_break: Literal["huggingface", "greatest"]
) -> TrainOptions:
    from krill.tokenizer.options import TrainOptions
    from krill.tokenizer.presets import with_preset

    settings = {
        **asdict(given),
        "tie_break": given.tie_break or default_tie_break,
        "special_tokens": (
            given.special_tokens if preset is None else with_preset(preset, given.special_tokens)
        ),
    }
    return TrainOptions(**settings)


def _prefix_path(prefix: str | None) -> Path | None:
    """A bare name stands in the folder `trainings`, as `MemoryEfficientBPE` saves it."""
    if prefix is None:
        return None
    path = Path(prefix)
    if not path.name:
        raise ConfigError(f"--output-prefix is `{prefix}`: no file can be named after it", hint="give a name")
    return Path("trainings") / path if path.parent == Path() else path


def _folder(output: Path | None, prefix: Path | None) -> Path:
    folder = output or prefix
    if folder is None:
        raise ConfigError(
            "the tokenizer has no place to go",
            hint="add --output artifacts/tokenizer, or --output-prefix NAME for trainings/NAME",
        )
    return folder
