"""Text continued token by token, with the keys and values of what came before.

In: a model and the ids of a prompt. Out: for each step a token in every sample, with its probability and the
model's entropy. Held in memory: the weights, and a cache of 2 x layers x samples x positions x kv width
floats, whose positions are a power of two and at most the model's context.

The model sees no more positions than it was trained on. When they are full, the older half is forgotten and
the newer half is read again as if the text began there: text goes on as long as is asked for. Everything is
compiled once for a size of prompt and cache, both rounded up, so prompts of similar length share programs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from krill import _native
from krill.errors import ConfigError, InputError
from krill.model.cache import Cache, decode_step, empty_cache, prefill
from krill.model.sizing import ModelShape
from krill.model.transformer import Transformer, init_transformer
from krill.training.compiler import lean
from krill.training.sampling import Drawn, Sampling, draw, row_keys
from krill.training.step import memory_of

_LEAST_BUCKET = 16


class Chosen(NamedTuple):
    """One step: a token for each sample, its probability, and the entropy before it in bits."""

    tokens: NDArray[np.int32]
    probability: NDArray[np.float32]
    entropy: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What programs are compiled for: samples, the longest text read at once, positions in the cache."""

    samples: int
    read: int
    positions: int

    @property
    def kept(self) -> int:
        """Of the newest tokens, how many stay when the positions are full."""
        return max(1, self.positions // 2)


@dataclass(frozen=True, slots=True)
class Programs:
    """Reading a text, and one token more; `held_bytes` is the most that either holds, weights included."""

    sizes: Sizes
    read: jax.stages.Compiled
    more: jax.stages.Compiled
    held_bytes: int


def find_sizes(*, prompt: int, max_tokens: int, samples: int, context: int) -> Sizes:
    """The sizes for a prompt of so many tokens and so many to follow, in a model of this context."""
    if max_tokens < 1 or samples < 1:
        raise ConfigError(
            f"`{samples}` samples of `{max_tokens}` tokens can't be made", hint="give at least 1 of each"
        )
    total = prompt + max_tokens
    positions = min(_bucket(total), context)
    slides = total > positions
    longest = min(prompt, positions - 1)
    return Sizes(samples, min(_bucket(max(longest, positions // 2 if slides else 1)), positions), positions)


@functools.lru_cache(maxsize=8)
def compile_programs(shape: ModelShape, sizes: Sizes, sampling: Sampling) -> Programs:
    """Both programs, compiled; the same sizes again cost nothing."""

    def read(
        model: Transformer, ids: jax.Array, length: jax.Array, keys: jax.Array, step: jax.Array
    ) -> tuple[Drawn, Cache]:
        logits, cache = prefill(model, empty_cache(shape, sizes.samples, sizes.positions), ids, length)
        return draw(logits, keys, step, sampling), cache

    def more(
        model: Transformer, cache: Cache, tokens: jax.Array, keys: jax.Array, step: jax.Array
    ) -> tuple[Drawn, Cache]:
        logits, cache = decode_step(model, cache, tokens)
        return draw(logits, keys, step, sampling), cache

    model = jax.eval_shape(lambda: init_transformer(shape, 0))
    cache = jax.eval_shape(lambda: empty_cache(shape, sizes.samples, sizes.positions))
    keys = jax.eval_shape(lambda: row_keys(0, sizes.samples))
    number = _shape(())
    prompt, tokens = _shape((sizes.samples, sizes.read)), _shape((sizes.samples,))
    reading = lean().compile(jax.jit(read).lower(model, prompt, number, keys, number))
    adding = lean().compile(jax.jit(more, donate_argnums=1).lower(model, cache, tokens, keys, number))
    _native.trim(code=True)  # what compiling took
    return Programs(sizes, reading, adding, max(memory_of(reading), memory_of(adding)))


def generate_tokens(
    model: Transformer,
    programs: Programs,
    prompt: Sequence[int] | NDArray[Any],
    *,
    seed: int,
    max_tokens: int,
) -> Iterator[Chosen]:
    """`max_tokens` steps; whoever has seen enough stops iterating. The same seed gives the same tokens."""
    sizes = programs.sizes
    if len(prompt) == 0:
        raise InputError(
            "the prompt has no token: a model continues text, it can't begin one", hint="give a prompt"
        )
    keys = lean().compile(jax.jit(functools.partial(row_keys, seed, sizes.samples)).lower())()
    # Of each sample, what the model may have to read again.
    newest = np.tile(np.asarray(prompt, np.int32)[-(sizes.positions - 1) :], (sizes.samples, 1))
    cache: Cache | None = None
    for step in range(max_tokens):
        number = np.int32(step)
        if cache is None:
            ids, length = _padded(newest, sizes.read), np.int32(newest.shape[1])
            drawn, cache = programs.read(model, ids, length, keys, number)
        else:
            drawn, cache = programs.more(model, cache, drawn.tokens, keys, number)
        chosen = Chosen(*jax.device_get(drawn))
        yield chosen
        newest = np.concatenate((newest, chosen.tokens[:, None]), axis=1)
        if newest.shape[1] > sizes.positions:
            newest, cache = newest[:, -sizes.kept :], None


def _padded(ids: NDArray[np.int32], width: int) -> NDArray[np.int32]:
    return np.pad(ids, ((0, 0), (0, width - ids.shape[1])))


def _bucket(tokens: int) -> int:
    return max(_LEAST_BUCKET, 1 << (tokens - 1).bit_length())


def _shape(size: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(size, jnp.int32)  # type: ignore[no-untyped-call]
