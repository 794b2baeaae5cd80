"""Floats as one byte each, with one scale for every block of them: 256, or a row of an embedding.

In: blocks (N, W) of float32 and random bits. Out: codes (N, W) uint8 and scales (N,) float32, and back.
Held in memory: what goes in and out.

A code is a small float of its own: the value's share of its block's largest, moved up by the least exponent
so that the numbers near zero are evenly spaced instead of lost, and then simply the top bits of that
float32. So both ways are a few integer operations on its bits, no table and no search. The bits that are cut
off decide by noise whether the code is rounded up: on average a value is kept exactly, and a running mean
that moves by less than a code's distance still moves (always rounding to the nearest would pin it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

BLOCK = 256


class Coded(NamedTuple):
    """One byte a value and one scale a block; the last block may be filled up with zeros."""

    codes: jax.Array
    scales: jax.Array


@dataclass(frozen=True, slots=True)
class Code:
    """How the bits are spent; what is left of 8 is the sign, if there is one."""

    exponent_bits: int
    mantissa_bits: int

    @property
    def shift(self) -> int:
        """Bits of a float32 that are cut off."""
        return 23 - self.mantissa_bits

    @property
    def largest(self) -> int:
        """The code of a block's largest value."""
        return int(2 ** (self.exponent_bits + self.mantissa_bits)) - 1

    @property
    def lift(self) -> float:
        """What is added to a share: the least exponent, where codes begin."""
        return float(2.0 ** -(2**self.exponent_bits))

    @property
    def stretch(self) -> float:
        """What a share of 1 is multiplied by, so that with the lift it has exactly the largest code."""
        return 1 - 2.0 ** -(self.mantissa_bits + 1) - self.lift

    @property
    def base(self) -> np.uint32:
        """The bits of the lift: code 0."""
        return np.float32(self.lift).view(np.uint32)


# The running mean has a sign; the deviation, which is divided by, has finer steps instead.
MEAN = Code(exponent_bits=3, mantissa_bits=4)
DEVIATION = Code(exponent_bits=3, mantissa_bits=5)
_SIGN = np.uint8(128)


def _own(largest: jax.Array) -> jax.Array:
    return largest


def encode_mean(values: jax.Array, noise: jax.Array, whole: Callable[[jax.Array], jax.Array] = _own) -> Coded:
    """Values of either sign; `noise` is 32 random bits for each. `whole` gives the largest value of each
    block from that of the part of it which is here."""
    scales = whole(jnp.abs(values).max(axis=-1))
    codes = _magnitude(jnp.abs(values), scales, noise, MEAN)
    return Coded(codes | jnp.where(values < 0, _SIGN, np.uint8(0)), scales)


def decode_mean(coded: Coded) -> jax.Array:
    """The values of `encode_mean`, on average."""
    size = _value(coded.codes & np.uint8(MEAN.largest), coded.scales, MEAN)
    return jnp.where(coded.codes >= _SIGN, -size, size)


def encode_deviation(
    values: jax.Array, noise: jax.Array, whole: Callable[[jax.Array], jax.Array] = _own
) -> Coded:
    """Values of at least 0. What is not 0 never becomes 0: an update is divided by it."""
    scales = whole(values.max(axis=-1))
    codes = _magnitude(values, scales, noise, DEVIATION)
    return Coded(jnp.maximum(codes, (values > 0).astype(jnp.uint8)), scales)


def decode_deviation(coded: Coded) -> jax.Array:
    """The values of `encode_deviation`, on average."""
    return _value(coded.codes, coded.scales, DEVIATION)


def _magnitude(sizes: jax.Array, scales: jax.Array, noise: jax.Array, code: Code) -> jax.Array:
    share = sizes * (1 / jnp.where(scales > 0, scales, 1.0))[:, None]
    bits = jax.lax.bitcast_convert_type(share * code.stretch + code.lift, jnp.uint32)
    cut_off = noise & np.uint32(2**code.shift - 1)
    codes = (bits - code.base + cut_off) >> code.shift
    return jnp.minimum(codes, code.largest).astype(jnp.uint8)


def _value(codes: jax.Array, scales: jax.Array, code: Code) -> jax.Array:
    bits = (codes.astype(jnp.uint32) << code.shift) + code.base
    share = jax.lax.bitcast_convert_type(bits, jnp.float32) - code.lift
    return share * (scales / code.stretch)[:, None]


def random_bits(
    blocks: jax.Array, step: jax.Array, tensor: int, columns: jax.Array | None = None, width: int = BLOCK
) -> jax.Array:
    """32 bits for each value of the blocks with these numbers: a hash of where it is and of the step.

    The same for the same step wherever the work is done and in however many pieces. `columns` are those of
    a block's `width` values that are here, by default all.
    """
    columns = jnp.arange(width) if columns is None else columns
    at = blocks.astype(jnp.uint32)[:, None] * np.uint32(width) + columns.astype(jnp.uint32)
    salt = step.astype(jnp.uint32) * np.uint32(0x85EBCA6B) + np.uint32(tensor * 0x9E3779B1 % 2**32)
    bits = at * np.uint32(0x9E3779B1) ^ salt
    # A full mix of 32 bits: two rounds of shift and multiply.
    bits = (bits ^ (bits >> 16)) * np.uint32(0x7FEB352D)
    bits = (bits ^ (bits >> 15)) * np.uint32(0x846CA68B)
    return bits ^ (bits >> 16)
