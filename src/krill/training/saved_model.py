"""A model on disk: written as `transformers` reads it, and opened again, or opened from a checkpoint.

In: a `Transformer` and the tokenizer's files. Out: `config.json`, `model.safetensors`, `tokenizer.json` and
`tokenizer_config.json`, each whole or absent; and from such a folder, or from the checkpoints in it, the
model, its context and its tokenizer. Held in memory: while writing one tensor beside the model; while reading
the model and one of its stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import jax
import orjson

from krill.budget import Plan
from krill.errors import ConfigError, InputError
from krill.model.llama import from_llama, llama_config, llama_tensors, shape_from_llama
from krill.model.sizing import ModelShape
from krill.model.transformer import Transformer, init_transformer
from krill.storage.atomic import make_folder, write_bytes, write_json
from krill.storage.hub import push_files
from krill.storage.input_file import read_input, read_json
from krill.tokenizer.open import open_file
from krill.tokenizer.tokenizer_file import CHAT_TEMPLATE, DECLARATIONS, tokenizer_file
from krill.training.checkpoint_files import Header
from krill.training.checkpoints import CheckpointStore
from krill.training.folder import CHECKPOINTS
from krill.training.safetensors_file import Array, TensorFile, write_tensors
from krill.training.vocabulary import byte_tokenizer_json

if TYPE_CHECKING:
    from krill.tokenizer.tokenizer import Tokenizer

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
TOKENIZER: Final = "tokenizer.json"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"
# Where a training leaves a tokenizer that it trained itself.
_OWN_TOKENIZER: Final = Path("tokenizer") / TOKENIZER
_HINT: Final = "give what `train.output_dir` named"

# A tokenizer file, or the built-in one that has no file.
TokenizerSource = Path | Literal["bytes"]
Model = TypeVar("Model")


def save_model(folder: Path, model: Transformer, *, context: int, tokenizer: TokenizerSource | None) -> None:
    """Write the model for `transformers`; `context` is the longest row that it was trained on."""
    make_folder(folder)
    if tokenizer is not None:
        save_tokenizer(folder, tokenizer)
    eos = None if tokenizer is None else open_file(folder / TOKENIZER, None, 1).eos_id
    config = llama_config(model.shape, context=context, eos_token=eos)
    write_model(folder, config, lambda: llama_tensors(model))


def write_model(
    folder: Path, config: Mapping[str, Any], tensors: Callable[[], Iterable[tuple[str, Array]]]
) -> None:
    # Walked twice, a tensor at a time: the header comes first, and collecting them would be a second model.
    shapes = {name: array.shape for name, array in tensors()}
    write_tensors(folder / WEIGHTS, shapes, tensors())
    write_json(folder / CONFIG, config)


def push_model(folder: Path, repo_id: str, *, private: bool = False, endpoint: str | None = None) -> str:
    """Uploads the finished model in `folder` to the hub, without checkpoints; returns the address."""
    if not (folder / WEIGHTS).is_file():
        raise InputError(f"no finished model at `{folder}`", hint="train it to its end first: krill train")
    names = (CONFIG, WEIGHTS, TOKENIZER, *DECLARATIONS)
    message = "Model trained with Krill"
    return push_files(folder, names, repo_id, message=message, private=private, endpoint=endpoint)


def save_tokenizer(folder: Path, tokenizer: TokenizerSource) -> None:
    """The tokenizer's files beside the model; those that declare its special tokens too, if it has them."""
    if tokenizer == "bytes":
        contents = byte_tokenizer_json()
    else:
        file = tokenizer_file(tokenizer)
        names = (*DECLARATIONS, CHAT_TEMPLATE)
        beside = [file.with_name(name) for name in names if file.with_name(name).is_file()]
        contents = {TOKENIZER: read_input(file)} | {path.name: read_input(path) for path in beside}
        if TOKENIZER_CONFIG not in contents:
            # Without it transformers would take the file for one of the Llama family and change it.
            eos = open_file(file, None, 1).eos_token
            config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": eos}
            contents[TOKENIZER_CONFIG] = orjson.dumps(config)
    for name, content in contents.items():
        write_bytes(folder / name, content)


@dataclass(frozen=True)
class SavedModel:
    """Where a model is and what it is like; its weights and its tokenizer are read when asked for.

    `step` is None for the exported model.
    """

    folder: Path
    shape: ModelShape
    context: int
    step: int | None
    tokenizer_file: Path | None

    @cached_property
    def model(self) -> Transformer:
        if self.step is None:
            with TensorFile(self.folder / WEIGHTS) as tensors:
                return from_llama(tensors, _read_config(self.folder / CONFIG))
        model: Transformer = restore_weights(self.folder, self.step, lambda: init_transformer(self.shape, 0))
        return model

    def open_tokenizer(self, plan: Plan | None) -> Tokenizer:
        """The model's tokenizer within its share of a plan; refused if it is another's."""
        from krill.tokenizer.tokenizer import Tokenizer

        tokenizer = Tokenizer(open_file(self.require_tokenizer(), plan, 1), 1)
        check_vocabulary(self.shape.vocab_size, tokenizer.vocab_size, f"the tokenizer of `{self.folder}`")
        return tokenizer

    def require_tokenizer(self) -> Path:
        """Its file, or the reason why there is none."""
        if self.tokenizer_file is None:
            raise InputError(
                f"there is no `{TOKENIZER}` beside the model in `{self.folder}`",
                hint="copy the tokenizer that its training data was made with there",
            )
        return self.tokenizer_file


def check_vocabulary(model: int, other: int, what: str) -> None:
    """Refuse ids that the model has not learned, or text that would not be its own."""
    if model != other:
        raise InputError(
            f"the model has a vocabulary of {model:,} tokens, {what} one of {other:,}",
            hint="use the tokenizer, and data made with the tokenizer, that the model was trained with",
        )


def open_model(path: str | Path, *, checkpoint: str | int | None = None) -> SavedModel:
    """The model in a folder: the exported one, or a `checkpoint`: `latest`, `best`, or a step's number."""
    folder = model_folder(path, _HINT, exported=checkpoint is None)
    candidates = (folder / TOKENIZER, folder / _OWN_TOKENIZER)
    tokenizer = next((file for file in candidates if file.is_file()), None)
    if checkpoint is not None:
        return _open_checkpoint(folder, checkpoint, tokenizer)
    config = _read_config(folder / CONFIG)
    context = config.get("max_position_embeddings")
    if not isinstance(context, int) or context < 2:
        raise InputError(
            f"`max_position_embeddings` in `{folder / CONFIG}` is `{context}`",
            hint="give the model's own config.json",
        )
    _check_plain(config, folder / CONFIG)
    try:
        shape = shape_from_llama(config)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"`{folder / CONFIG}` has a size that is not a number", hint="restore the model's config.json"
        ) from error
    except ConfigError as error:
        raise InputError(
            f"`{folder / CONFIG}` does not describe a model: {error.message}",
            hint="restore the model's config.json",
        ) from None
    return SavedModel(folder, shape, context, None, tokenizer)


def _check_plain(config: Mapping[str, Any], path: Path) -> None:
    """Refuse what would compute something else than our model does with the same weights."""
    rotary = config.get("rope_parameters") or {}
    for name, value, plain in (
        ("attention_bias", config.get("attention_bias") or False, False),
        ("mlp_bias", config.get("mlp_bias") or False, False),
        ("hidden_act", config.get("hidden_act", "silu"), "silu"),
        ("rope_scaling", config.get("rope_scaling"), None),
        ("rope_type", rotary.get("rope_type", "default") if isinstance(rotary, dict) else rotary, "default"),
    ):
        if value != plain:
            raise InputError(
                f"`{path}` has {name} `{value}`, and only `{plain}` is supported",
                hint="give a plain Llama model with tied embeddings",
            )


def _open_checkpoint(folder: Path, which: str | int, tokenizer: Path | None) -> SavedModel:
    header = find_checkpoint(folder, which)
    plan = header.extra.get("plan")
    context = plan.get("length") if isinstance(plan, dict) else None
    if not isinstance(context, int) or context < 2:
        raise InputError(
            f"the checkpoint `{which}` in `{folder}` does not say how long its rows were",
            hint="give another checkpoint, or leave --checkpoint out for the exported model",
        )
    return SavedModel(folder, header.shape, context, header.step, tokenizer)


def model_folder(path: str | Path, hint: str, *, exported: bool) -> Path:
    """The folder; refused if no model is exported there, and of an unfinished training with what to do."""
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"there is no model folder at `{path}`", hint=hint)
    if not exported or ((folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()):
        return folder
    unfinished = any((folder / CHECKPOINTS).glob("[0-9]*"))
    raise InputError(
        f"`{folder}` has no `{CONFIG}` with a `{WEIGHTS}`"
        + (": its training is not finished" if unfinished else ""),
        hint="give --checkpoint latest" if unfinished else hint,
    )


def find_checkpoint(folder: Path, which: str | int, *, key: str | None = None, what: str = "") -> Header:
    """The checkpoint that `which` names; refused if it is not there, or has not stored `key`."""
    store = CheckpointStore(folder / CHECKPOINTS, keep=1, note=lambda _: None)
    if which in ("latest", "best"):
        step = store.latest() if which == "latest" else store.best()
    elif str(which).isdecimal():
        step = int(which)
    else:
        raise ConfigError(
            f"there is no checkpoint `{which}`", hint="give latest, best, or the number of a step"
        )
    header = None if step is None else store.header(step)
    if header is None or (key is not None and key not in header.extra):
        steps = store.steps()
        raise InputError(
            f"there is no intact checkpoint `{which}`{what} in `{folder}`",
            hint=f"give one of {', '.join(['latest', *map(str, steps)])}"
            if steps
            else "leave --checkpoint out for the exported model",
        )
    return header


def restore_weights(folder: Path, step: int, init: Callable[[], Model]) -> Model:
    """The weights of a checkpoint; `init` makes a model of the same shape."""
    notes: list[str] = []
    store = CheckpointStore(folder / CHECKPOINTS, keep=1, note=notes.append)
    restored: Model | None = store.restore_model(jax.eval_shape(init), step)
    if restored is None:
        steps = ", ".join(["latest", *map(str, store.steps())])
        raise InputError("; ".join(notes), hint=f"give another --checkpoint of {steps}, or leave it out")
    return restored


def _read_config(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path)
    except OSError as error:
        raise InputError(f"can't read `{path}`: {error.strerror}", hint="give a model's folder") from error
    except ValueError as error:
        raise InputError(f"`{path}` is not JSON: {error}", hint="restore the model's config.json") from None
    if not isinstance(found, dict):
        raise InputError(f"`{path}` is not a JSON object", hint="restore the model's config.json")
    return found
