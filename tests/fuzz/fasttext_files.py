"""fastText models as files, written number by number: small ones with any settings, quantised or not."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

MAGIC, VERSION = 793712314, 12
SUPERVISED = 3
LOSSES = {"hs": 1, "ns": 2, "softmax": 3, "ova": 4}


@dataclass
class ModelFile:
    """What stands in a file; weights are random, the same for the same seed."""

    words: Sequence[str] = ("</s>", "krill", "whale", "größe")
    labels: Sequence[str] = ("__label__hq", "__label__lq", "__label__é")
    dim: int = 6
    word_ngrams: int = 1
    loss: str = "softmax"
    bucket: int = 0
    minn: int = 0
    maxn: int = 0
    version: int = VERSION
    model: int = SUPERVISED
    pruned: dict[int, int] | None = None
    quantised: bool = False
    norms: bool = False
    seed: int = 1
    input: NDArray[np.float32] = field(init=False)
    output: NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        chance = np.random.default_rng(self.seed)
        buckets = self.bucket if self.pruned is None else len(self.pruned)
        self.input = chance.normal(size=(len(self.words) + buckets, self.dim)).astype(np.float32)
        self.output = chance.normal(size=(len(self.labels), self.dim)).astype(np.float32)

    def header(self) -> bytes:
        settings = (self.dim, 5, 1, 1, 5, self.word_ngrams, LOSSES[self.loss], self.model, self.bucket)
        return struct.pack("<2i12id", MAGIC, self.version, *settings, self.minn, self.maxn, 100, 1e-4)

    def dictionary(self) -> bytes:
        pruned = -1 if self.pruned is None else len(self.pruned)
        sizes = (len(self.words) + len(self.labels), len(self.words), len(self.labels), 100, pruned)
        entries = [(word, 0) for word in self.words] + [(label, 1) for label in self.labels]
        written = b"".join(
            word.encode() + b"\0" + struct.pack("<qb", 50 - number, kind)
            for number, (word, kind) in enumerate(entries)
        )
        pairs = b"".join(struct.pack("<2i", *pair) for pair in (self.pruned or {}).items())
        return struct.pack("<3i2q", *sizes) + written + pairs

    def matrix(self, weights: NDArray[np.float32]) -> bytes:
        return struct.pack("<2q", *weights.shape) + weights.astype("<f4").tobytes()

    def quantised_matrix(self) -> bytes:
        """Codes of parts of two numbers: row r has the r-th number of each part. `input` becomes what they
        stand for."""
        rows, dim = self.input.shape
        parts, last = -(-dim // 2), 2 - dim % 2
        centroids = np.zeros((dim * 256,), np.float32)
        codes = np.zeros((rows, parts), np.uint8)
        for row in range(rows):
            for part in range(parts):
                width = last if part == parts - 1 else 2
                at = part * 512 + row * width
                centroids[at : at + width] = self.input[row, 2 * part : 2 * part + width]
                codes[row, part] = row
        written = struct.pack("<?2qi", self.norms, rows, dim, codes.size) + codes.tobytes()
        written += struct.pack("<4i", dim, parts, 2, last) + centroids.tobytes()
        if self.norms:
            norms = np.linspace(0.5, 2, 256).astype(np.float32)
            written += bytes(range(rows)) + struct.pack("<4i", 1, 1, 1, 1) + norms.tobytes()
            self.input = self.input * norms[:rows, None]
        return written

    def bytes(self) -> bytes:
        weights = self.quantised_matrix() if self.quantised else self.matrix(self.input)
        flags = (b"\1" if self.quantised else b"\0", b"\0")
        return self.header() + self.dictionary() + flags[0] + weights + flags[1] + self.matrix(self.output)
