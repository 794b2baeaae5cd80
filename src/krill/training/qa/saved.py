"""A reader on disk: `config.json`, `model.safetensors`, and the tokenizer's files; and opened again.

In: a `Reader`, or the folder of one. Out: the other. Held in memory: while writing one tensor beside the
model; while reading the model and one of its stacks. The encoder's weights have Llama's names; beside them
are the first memory, the gate, the heads, and token types where the tokenizer makes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from krill.errors import ConfigError, InputError, KrillError
from krill.model.llama import from_llama, llama_config, llama_tensors, shape_from_llama
from krill.model.recurrent import MemoryTokens, Reader, ReaderShape, init_reader
from krill.storage.atomic import make_folder
from krill.storage.input_file import read_json
from krill.training.checkpoint_files import named_arrays
from krill.training.safetensors_file import Array, TensorFile
from krill.training.saved_model import (
    CONFIG,
    WEIGHTS,
    find_checkpoint,
    model_folder,
    restore_weights,
    save_tokenizer,
    write_model,
)

ARCHITECTURE: Final = "KrillReader"
_HINT: Final = "give what `krill qa train --output-dir` named"
_ENCODER: Final = "encoder."
_TOKENIZER_KEY: Final = "krill_tokenizer"


def save_reader(folder: Path, reader: Reader, *, tokenizer: Path, fingerprint: str) -> None:
    """Write the model; `fingerprint` is of the tokenizer and the layout that its features were made with."""
    make_folder(folder)
    save_tokenizer(folder, tokenizer)
    write_model(folder, reader_config(reader.design, fingerprint), lambda: _tensors(reader))


def reader_config(design: ReaderShape, fingerprint: str) -> dict[str, Any]:
    encoder = llama_config(design.encoder, context=design.length)
    memory = design.memory
    own = {
        "architectures": [ARCHITECTURE],
        "model_type": "krill_reader",
        "memory_read_ids": list(memory.reads),
        "memory_write_ids": list(memory.writes),
        "memory_around": memory.around,
        "type_vocab_size": design.token_types,
        _TOKENIZER_KEY: fingerprint,
    }
    return {**encoder, **own}


def design_from(config: Mapping[str, Any]) -> ReaderShape:
    """The shape that `reader_config` described."""
    memory = MemoryTokens(
        tuple(map(int, config["memory_read_ids"])),
        tuple(map(int, config["memory_write_ids"])),
        bool(config["memory_around"]),
    )
    encoder = shape_from_llama({**config, "model_type": "llama"})
    return ReaderShape(
        encoder, int(config["max_position_embeddings"]), memory, int(config["type_vocab_size"])
    )


@dataclass(frozen=True)
class SavedReader:
    """Where a reader is and what it is like; its weights are read when asked for.

    `step` is None for the exported model.
    """

    folder: Path
    design: ReaderShape
    fingerprint: str
    step: int | None

    @cached_property
    def reader(self) -> Reader:
        if self.step is None:
            return _read_exported(self.folder, self.design)
        return restore_weights(self.folder, self.step, lambda: init_reader(self.design, 0))


def open_reader(path: str | Path, *, checkpoint: str | int | None = None) -> SavedReader:
    """The reader in a folder: the exported one, or a `checkpoint`: `latest`, `best`, or a step's number."""
    folder = model_folder(path, _HINT, exported=checkpoint is None)
    if checkpoint is not None:
        header = find_checkpoint(folder, checkpoint, key="reader", what=" of a reader")
        config = header.extra["reader"]
        return SavedReader(folder, design_from(config), str(config[_TOKENIZER_KEY]), header.step)
    try:
        config = read_json(folder / CONFIG)
        if config.get("architectures") != [ARCHITECTURE]:
            raise InputError(
                f"`{folder}` has a model that does not answer questions: `{config.get('architectures')}`",
                hint=_HINT,
            )
        return SavedReader(folder, design_from(config), str(config[_TOKENIZER_KEY]), None)
    except ConfigError as error:
        raise InputError(
            f"`{folder / CONFIG}` does not describe a reader: {error.message}",
            hint="restore it, or train again",
        ) from None
    except KrillError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        fault = f"it has no `{error.args[0]}`" if isinstance(error, KeyError) else str(error)
        raise InputError(
            f"`{folder / CONFIG}` is not what was written: {fault}", hint="restore it, or train again"
        ) from None


def _tensors(reader: Reader) -> Iterator[tuple[str, Array]]:
    yield from llama_tensors(reader.encoder)
    for name, array in _own_arrays(reader).items():
        yield name, np.asarray(array)


def _own_arrays(reader: Reader) -> dict[str, Any]:
    """All but the encoder's, by their path: `memory.gate`, `heads`."""
    return {name: leaf for name, leaf in named_arrays(reader).items() if not name.startswith(_ENCODER)}


def _read_exported(folder: Path, design: ReaderShape) -> Reader:
    like = jax.eval_shape(lambda: init_reader(design, 0))
    with TensorFile(folder / WEIGHTS) as tensors:
        encoder = from_llama(tensors, llama_config(design.encoder, context=design.length))
        found = {f"{_ENCODER}{name}": leaf for name, leaf in named_arrays(encoder).items()}
        for name, wanted in _own_arrays(like).items():
            if name not in tensors or tensors[name].shape != wanted.shape:
                raise InputError(
                    f"`{folder / WEIGHTS}` has no `{name}` of the shape `{wanted.shape}`",
                    hint="give the weights that belong to its config.json",
                )
            found[name] = jnp.asarray(tensors[name], jnp.float32)
    leaves = [found[name] for name in named_arrays(like)]
    reader: Reader = jax.tree.unflatten(jax.tree.structure(like), leaves)
    return reader
