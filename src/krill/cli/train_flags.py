"""The flags of `krill train`, and the key of the config that each one sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from cyclopts import Parameter

from krill.errors import ConfigError

_Flag = Parameter(negative="", show_default=False)

# What a run without a config does unless a flag says otherwise.
FLAG_RUN: Final[dict[str, Any]] = {
    "tokenizer": {"vocab_size": 10_000},
    # Streaming holds the longest document several times.
    "preprocess": {"max_document_bytes": 1_000_000},
    "train": {
        "streaming": True,
        "seq_len": 128,
        "epochs": 3,
        "output_dir": "output_optimized",
    },
}
# Flags that are keys of `train:` by the same name.
_TRAIN_KEYS: Final = (
    "target_params",
    "width",
    "layers",
    "heads",
    "seq_len",
    "stride",
    "epochs",
    "batch_size",
    "learning_rate",
    "gradient_accumulation_steps",
    "shuffle_buffer_size",
    "output_dir",
    "log_every",
    "save_every",
)


@Parameter(name="*")
@dataclass(frozen=True)
class TrainFlags:
    """What is trained, on what; each flag is a key of the config."""

    dataset_id: str | None = None
    """What to read: a file, glob, folder, URL or a dataset of the Hugging Face hub. Required without a
    config."""

    dataset_config: str | None = None
    """The configuration of a dataset of the hub."""

    text_column: str | None = None
    """The column or JSON key that holds the text. Default: text."""

    split: str | None = None
    """The split to read. Default: train."""

    max_examples: int | None = None
    """Read no more documents than this."""

    tokenizer: str | None = None
    """A tokenizer.json or its folder. Without it, one is trained in the output folder."""

    vocab_size: int | None = None
    """Tokens of a tokenizer that is trained. Default: 10000."""

    target_params: int | None = None
    """Parameters of the model; width, depth and heads follow. Default: 1000000."""

    width: int | None = None
    """Numbers in a hidden state. With --layers, both decide the size instead of --target-params."""

    layers: int | None = None
    """Layers."""

    heads: int | None = None
    """Attention heads in a layer."""

    seq_len: int | None = None
    """Tokens in a row. Default: 128."""

    stride: int | None = None
    """Tokens from where a row begins to where the next one does. Default: rows that don't overlap."""

    epochs: int | None = None
    """Times that the text is read. Default: 3."""

    batch_size: int | None = None
    """Rows in a batch. Default: 32."""

    learning_rate: float | None = None
    """Peak learning rate. Default: 0.0005."""

    gradient_accumulation_steps: int | None = None
    """Batches added up for one step of the optimizer. Default: one, cut into pieces if the budget needs
    it."""

    streaming: Annotated[bool | None, Parameter(name="--use-streaming", negative="--no-streaming")] = None
    """Tokenise text while training on it, or prepare a dataset first. Default: --use-streaming."""

    use_mixed_precision: Annotated[bool, _Flag] = False
    """Compute activations and gradients in bfloat16."""

    use_8bit_optimizer: Annotated[bool, _Flag] = False
    """Keep the optimizer's state in 8 bits: a quarter of the memory."""

    shuffle_buffer_size: int | None = None
    """Streaming: rows that are shuffled together. Default: 10000."""

    output_dir: str | None = None
    """The folder for the model. Default: output_optimized."""

    log_every: int | None = None
    """Steps between lines of progress. Default: 10."""

    save_every: int | None = None
    """Steps between checkpoints. Default: 1000."""

    seed: int | None = None
    """Seed of everything that is drawn at random. Default: 42."""

    def keys(self) -> dict[str, Any]:
        """The keys that were given, as a nested config."""
        train = {name: getattr(self, name) for name in _TRAIN_KEYS}
        train |= {
            "streaming": self.streaming,
            "mixed_precision": "bf16" if self.use_mixed_precision else None,
            "optimizer": "adamw8bit" if self.use_8bit_optimizer else None,
        }
        keys: dict[str, Any] = {
            "seed": self.seed,
            "datasets": self._datasets(),
            "tokenizer": _given({"path": self.tokenizer, "vocab_size": self.vocab_size}),
            "train": _given(train),
        }
        return _given(keys)

    def _datasets(self) -> list[dict[str, Any]] | None:
        if self.dataset_id is None:
            stray = ("dataset_config", "text_column", "split", "max_examples")
            if given := [name for name in stray if getattr(self, name) is not None]:
                raise ConfigError(
                    f"--{given[0].replace('_', '-')} is of no use without --dataset-id",
                    hint="add --dataset-id, or write the key under `datasets:` in the config",
                )
            return None
        path = self.dataset_id if self.dataset_config is None else f"{self.dataset_id}:{self.dataset_config}"
        split = self.split or "train"
        if self.max_examples is not None:
            if "[" in split:
                raise ConfigError(
                    f"--split is `{split}`, a part already, and --max-examples is given too",
                    hint="say it with one of them",
                )
            split = f"{split}[:{self.max_examples}]"
        return [{"path": path, "split": split, "text_column": self.text_column or "text"}]


def _given(keys: dict[str, Any]) -> dict[str, Any]:
    """Without what was not given."""
    return {name: value for name, value in keys.items() if value is not None and value != {}}
