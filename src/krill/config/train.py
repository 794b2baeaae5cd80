"""The keys of training."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

from krill.config.fields import CountOrNone, Fraction, PathText, Positive, Section, Text, Whole, distinct, key
from krill.config.messages import SectionFault, one_of

_FromOne = Annotated[int, Whole(1)]
_SIZES = ("width", "layers", "heads", "kv_heads")


class TrainConfig(Section):
    """A model trained on prepared rows, or on text as it is read."""

    output_dir: PathText = key("artifacts/model", "Folder for checkpoints and the trained model.")
    hub_model_id: Text | None = key(
        None, "Name of the model on the Hugging Face hub; nothing is uploaded unless asked for."
    )
    base_model: PathText | None = key(
        None,
        "Folder of a model that Krill has trained, or of a plain Llama model: training begins with its "
        "weights, and its sizes are the model's. `null` begins with new ones.",
    )
    target_params: _FromOne = key(
        1_000_000, "Parameters of the model; width, depth and heads follow from it."
    )
    preset: Literal["tiny", "mini", "small", "base", "large", "xl"] | None = key(
        None,
        "A model of a usual shape instead of `target_params`: `tiny`, `mini`, `small`, `base`, `large` or "
        "`xl`.",
    )
    width: CountOrNone = key(None, "Numbers in a hidden state; `null` finds it for `target_params`.")
    layers: CountOrNone = key(None, "Layers; `null` finds them for `target_params`.")
    heads: CountOrNone = key(None, "Attention heads in a layer; `null` finds them for `target_params`.")
    kv_heads: CountOrNone = key(
        None, "Heads of keys and values, which the others share; `null` for one each."
    )
    streaming: bool = key(
        False,
        "Read the text of `datasets` and tokenise it on the fly, as it is: no filters, no deduplication. "
        "`false` trains on the rows of `preprocess.prepared_path`.",
    )
    seq_len: CountOrNone = key(
        None,
        "Tokens in a row. `null` is what the prepared rows have, or where text is streamed "
        "`preprocess.sequence_len`.",
    )
    stride: CountOrNone = key(
        None,
        "Streaming: tokens from where a row begins to where the next one does; `null` for rows that don't "
        "overlap.",
    )
    shuffle_buffer_size: Annotated[int, Whole(0)] = key(
        10_000,
        "Streaming: rows that are shuffled together; 0 or 1 keeps the order of the text. Prepared rows are "
        "shuffled as a whole.",
    )
    batch_size: _FromOne = key(32, "Rows in a batch; a step of the optimizer takes one or more batches.")
    gradient_accumulation_steps: _FromOne = key(
        1,
        "Batches added up for one step of the optimizer. If it is given, exactly `batch_size` rows are "
        "computed at once; if not, the plan may cut a batch into pieces to fit the budget.",
    )
    learning_rate: Annotated[float, Positive()] = key(0.0005, "Peak learning rate.")
    schedule: Literal["cosine", "wsd"] = key(
        "cosine",
        "Learning rate after the warm-up: `cosine` falls to a tenth over the whole run, `wsd` stays level "
        "and falls to 0 at the end.",
    )
    warmup_steps: Annotated[int | None, Whole(0, words=(None,))] = key(
        None, "Steps in which the rate rises; `null` is a twentieth of the run."
    )
    decay_steps: CountOrNone = key(
        None, "`wsd`: steps in which the rate falls; `null` is a fifth of the run."
    )
    weight_decay: Annotated[float, Fraction()] = key(
        0.1, "Decay of matrices, times the learning rate at each step."
    )
    clip: Annotated[float | None, Positive(words=(None,))] = key(
        1.0, "Norm that gradients are scaled down to; `null` leaves them as they are."
    )
    epochs: _FromOne = key(1, "Times that the dataset is read, where neither of the next two is given.")
    max_steps: CountOrNone = key(
        None,
        "Steps of the optimizer, for which the dataset is read as often as it takes; `null` goes by "
        "`epochs`.",
    )
    max_tokens: CountOrNone = key(
        None, "The same in tokens, in whole steps; with `max_steps` too, what is reached first."
    )
    mixed_precision: Literal[False, "bf16", "fp16"] = key(
        False,
        "`bf16` or `fp16` for activations and gradients; `false` computes in 32 bits. On a CPU only `fp16` "
        "saves memory.",
    )
    optimizer: Literal["adamw", "adamw8bit"] = key(
        "adamw", "`adamw`, or `adamw8bit` whose state takes 2.1 bytes a weight in the place of 8."
    )
    parallel: Literal["none", "data", "fsdp"] = key(
        "none",
        "Several devices: `data` gives each its rows of a batch, `fsdp` also its part of the weights. `none` "
        "uses one.",
    )
    save_every: _FromOne = key(1000, "Steps between checkpoints.")
    keep_checkpoints: _FromOne = key(2, "Checkpoints that are kept: so many of the newest, and the best.")
    log_every: _FromOne = key(10, "Steps between lines of progress.")
    evaluate_every: CountOrNone = key(
        None,
        "Steps between evaluations on the validation split, if the dataset has one; `null` evaluates with "
        "every checkpoint. At the end it is always done.",
    )
    evaluate_rows: CountOrNone = key(
        256, "Rows of the validation split that are evaluated, chosen at random once; `null` for all."
    )
    loggers: Annotated[tuple[Literal["tensorboard", "wandb"], ...], AfterValidator(distinct)] = key(
        (), "Where figures go besides `metrics.jsonl`: `tensorboard`, `wandb`, if installed."
    )
    resume: Literal["auto", True, False] = key(
        "auto",
        "`auto` continues from the last checkpoint if there is one, `true` demands one, `false` starts anew.",
    )

    @property
    def step_rows(self) -> int:
        return self.batch_size * self.gradient_accumulation_steps

    @property
    def fixed_microbatch(self) -> int | None:
        """Rows that must be computed at once, where the config says how a step is cut."""
        return self.batch_size if "gradient_accumulation_steps" in self.model_fields_set else None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        given = [name for name in _SIZES if getattr(self, name) is not None]
        if self.preset is not None and given:
            raise SectionFault(
                f"`preset` is `{self.preset}`, which has its own {one_of(given, 'and')}: drop one of them"
            )
        sizes = [*given, *([] if self.preset is None else ["preset"])]
        if self.base_model is not None and sizes:
            raise SectionFault(
                f"`base_model` is `{self.base_model}`, which has its own {one_of(sizes, 'and')}: drop one"
            )
        if self.stride is not None and not self.streaming:
            raise SectionFault(
                "`stride` is set, and prepared rows don't overlap: drop it, or set `streaming`"
            )
        if self.decay_steps is not None and self.schedule != "wsd":
            raise SectionFault(f"`decay_steps` is set, and `schedule` is `{self.schedule}`: set it to `wsd`")
        return self
