"""Text continued token by token, with the keys and values of what came before.

In: a model and the ids of a prompt. Out: for each step a token in every sample, with its probability and the
model's entropy. Held in memory: the weights, and a cache of 2 x layers x samples x positions x kv width
floats, whose positions are a power of two and at most the model's context.

A token is drawn from what the model expects, or the likeliest is taken: temperature comes first, then the k
likeliest, then the fewest that have the probability p together, as in `transformers`. The model sees no more
positions than it was trained on. When they are full, the older half is dropped and
the newer half is read again as if the text began there: text goes on as long as is asked for. Everything is
compiled once for a size of prompt and cache, both rounded up, so prompts of similar length share programs.
"""

from __future__ import annotations

import functools
import math
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
from krill.training.compiler import low_memory_compiler
from krill.training.step import memory_of, shape_of

_LEAST_BUCKET = 16
_EXCLUDED = -jnp.inf


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen. A temperature of 0 takes the likeliest; `top_k` and `top_p` cut rare ones."""

    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ConfigError(
                f"a temperature of `{self.temperature}` can't be used",
                hint="give 0 for the likeliest token each time, or a number up to about 2",
            )
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"`top_k` is `{self.top_k}`", hint="give how many of the likeliest tokens stay")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"`top_p` is `{self.top_p}`", hint="give a share above 0 and up to 1")


class SampledTokens(NamedTuple):
    """One step: a token for each sample; `probability` and `entropy` (in bits) are the model's own.

    Arrays of JAX inside a program, of NumPy outside.
    """

    tokens: Any
    probability: Any
    entropy: Any


@dataclass(frozen=True, slots=True)
class DecodingSizes:
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

    sizes: DecodingSizes
    read: jax.stages.Compiled
    more: jax.stages.Compiled
    held_bytes: int


def find_sizes(*, prompt: int, max_tokens: int, samples: int, context: int) -> DecodingSizes:
    """For a prompt of `prompt` tokens and `max_tokens` new ones, in a model with this context."""
    if max_tokens < 1 or samples < 1:
        raise ConfigError(
            f"`{samples}` samples of `{max_tokens}` tokens can't be made", hint="give at least 1 of each"
        )
    total = prompt + max_tokens
    positions = min(_bucket(total), context)
    slides = total > positions
    longest = min(prompt, positions - 1)
    return DecodingSizes(
        samples, min(_bucket(max(longest, positions // 2 if slides else 1)), positions), positions
    )


@functools.lru_cache(maxsize=8)
def compile_programs(shape: ModelShape, sizes: DecodingSizes, sampling: Sampling) -> Programs:
    """Both programs, compiled; the same sizes again cost nothing."""

    def read(
        model: Transformer, ids: jax.Array, length: jax.Array, keys: jax.Array, step: jax.Array
    ) -> tuple[SampledTokens, Cache]:
        logits, cache = prefill(model, empty_cache(shape, sizes.samples, sizes.positions), ids, length)
        return draw(logits, keys, step, sampling), cache

    def more(
        model: Transformer, cache: Cache, tokens: jax.Array, keys: jax.Array, step: jax.Array
    ) -> tuple[SampledTokens, Cache]:
        logits, cache = decode_step(model, cache, tokens)
        return draw(logits, keys, step, sampling), cache

    model = jax.eval_shape(lambda: init_transformer(shape, 0))
    cache = jax.eval_shape(lambda: empty_cache(shape, sizes.samples, sizes.positions))
    keys = jax.eval_shape(lambda: row_keys(0, sizes.samples))
    number = shape_of(())
    prompt, tokens = shape_of((sizes.samples, sizes.read)), shape_of((sizes.samples,))
    reading = low_memory_compiler().compile(jax.jit(read).lower(model, prompt, number, keys, number))
    adding = low_memory_compiler().compile(
        jax.jit(more, donate_argnums=1).lower(model, cache, tokens, keys, number)
    )
    _native.trim(code=True)  # what compiling took
    return Programs(sizes, reading, adding, max(memory_of(reading), memory_of(adding)))


def generate_tokens(
    model: Transformer,
    programs: Programs,
    prompt: Sequence[int] | NDArray[Any],
    *,
    seed: int,
    max_tokens: int,
) -> Iterator[SampledTokens]:
    """`max_tokens` steps; a caller may stop iterating earlier. The same seed gives the same tokens."""
    sizes = programs.sizes
    if len(prompt) == 0:
        raise InputError(
            "the prompt has no token: a model continues text, it can't begin one", hint="give a prompt"
        )
    keys = low_memory_compiler().compile(jax.jit(functools.partial(row_keys, seed, sizes.samples)).lower())()
    # Of each sample, what the model may have to read again.
    newest = np.tile(np.asarray(prompt, np.int32)[-(sizes.positions - 1) :], (sizes.samples, 1))
    cache: Cache | None = None
    for step in range(max_tokens):
        number = np.int32(step)
        if cache is None:
            length = newest.shape[1]
            ids = np.pad(newest, ((0, 0), (0, sizes.read - length)))
            drawn, cache = programs.read(model, ids, np.int32(length), keys, number)
        else:
            drawn, cache = programs.more(model, cache, drawn.tokens, keys, number)
        chosen: SampledTokens = jax.device_get(drawn)
        yield chosen
        newest = np.concatenate((newest, chosen.tokens[:, None]), axis=1)
        if newest.shape[1] > sizes.positions:
            newest, cache = newest[:, -sizes.kept :], None


def _bucket(tokens: int) -> int:
    return max(_LEAST_BUCKET, 1 << (tokens - 1).bit_length())


def row_keys(seed: int, rows: int) -> jax.Array:
    """A key for each row; those of the first rows are the same however many there are."""
    return jax.vmap(lambda row: jax.random.fold_in(jax.random.key(seed), row))(jnp.arange(rows))


def draw(logits: jax.Array, keys: jax.Array, step: jax.Array, sampling: Sampling) -> SampledTokens:
    """Choose the token of number `step` in each row."""
    expected = jax.nn.log_softmax(logits, axis=-1)
    if sampling.temperature == 0:
        tokens = jnp.argmax(logits, axis=-1)
    else:
        left = restrict(logits / sampling.temperature, sampling.top_k, sampling.top_p)

        def noise(key: jax.Array) -> jax.Array:
            return jax.random.gumbel(jax.random.fold_in(key, step), logits.shape[-1:])

        tokens = jnp.argmax(left + jax.vmap(noise)(keys), axis=-1)
    chosen = jnp.take_along_axis(expected, tokens[:, None], axis=-1)[:, 0]
    # A logit of minus infinity has no share in the sum, and must not make it one that is no number.
    shares = jnp.where(expected > _EXCLUDED, jnp.exp(expected) * expected, 0.0)
    return SampledTokens(tokens.astype(jnp.int32), jnp.exp(chosen), -shares.sum(axis=-1) / math.log(2))


def restrict(logits: jax.Array, top_k: int | None, top_p: float | None) -> jax.Array:
    """Minus infinity for all but the `top_k` likeliest, then for all beyond the share `top_p`; ties stay."""
    if top_k is not None and top_k < logits.shape[-1]:
        least = jax.lax.top_k(logits, top_k)[0][:, -1:]
        logits = jnp.where(logits < least, _EXCLUDED, logits)
    if top_p is not None and top_p < 1:
        shares = jax.nn.softmax(logits, axis=-1)
        ordered = jnp.sort(shares, axis=-1, descending=True)
        # A token stays if those before it don't reach the share yet: so the first one always does.
        before = jnp.cumsum(ordered, axis=-1) - ordered
        count = (before < top_p).sum(axis=-1, keepdims=True)
        least = jnp.take_along_axis(ordered, jnp.maximum(count, 1) - 1, axis=-1)
        logits = jnp.where(shares < least, _EXCLUDED, logits)
    return logits
