"""fastText in plain Python: which rows a text has, and what the labels score."""

from __future__ import annotations

import math
import re

import numpy as np

from fasttext_files import ModelFile


def _hash(text: bytes) -> int:
    value = 2166136261
    for byte in text:
        signed = byte - 256 if byte > 127 else byte
        value = ((value ^ (signed % 2**32)) * 16777619) % 2**32
    return value


def _signed(value: int) -> int:
    return value - 2**32 if value >= 2**31 else value


def reference_rows(file: ModelFile, text: str, newline: str = " ") -> list[int]:
    """The rows of the matrix that a text has, in order."""
    rows: list[int] = []
    hashes: list[int] = []
    known = {word: number for number, word in enumerate((*file.words, *file.labels))}
    longest = 0 if file.version == 11 else file.maxn

    def use_bucket(bucket: int) -> None:
        if file.pruned is None:
            rows.append(len(file.words) + bucket)
        elif bucket in file.pruned:
            rows.append(len(file.words) + file.pruned[bucket])

    def use_characters(word: str) -> None:
        marked = f"<{word}>"
        for begin in range(len(marked)):
            for size in range(1, min(longest, len(marked) - begin) + 1):
                is_mark = size == 1 and begin in (0, len(marked) - 1)
                if size >= file.minn and not is_mark:
                    use_bucket(_hash(marked[begin : begin + size].encode()) % file.bucket)

    for word in (*filter(None, re.split("[ \n\r\t\v\f\0]", text.replace("\n", newline))), "</s>"):
        number = known.get(word)
        if word.startswith("__label__") if number is None else number >= len(file.words):
            continue
        if number is not None:
            rows.append(number)
        if word != "</s>":
            use_characters(word)
        hashes.append(_signed(_hash(word.encode())))
        if word == "</s>":
            break
    for begin in range(len(hashes)):
        value = hashes[begin] % 2**64
        for number in hashes[begin + 1 : begin + file.word_ngrams]:
            value = (value * 116049371 + number) % 2**64
            use_bucket(value % file.bucket)
    return rows


def reference_scores(file: ModelFile, text: str, newline: str = " ") -> list[float]:
    """The score of each label, as exact as 64 bits make it."""
    rows = reference_rows(file, text, newline)
    if not rows:
        return [0.0] * len(file.labels)
    hidden = file.input[rows].astype(np.float64).mean(axis=0)
    products = file.output.astype(np.float64) @ hidden
    if file.loss == "softmax":
        powers = np.exp(products - products.max())
        return [float(share) + 1e-5 for share in powers / powers.sum()]
    if file.loss == "hs":
        return _hierarchical(file, products)
    # A table of 512 steps from -8 to 8.
    shares = [_tabled(product) for product in products]
    return [share + 1e-5 for share in shares]


def _tabled(product: float) -> float:
    if abs(product) > 8:
        return float(product > 0)
    return 1 / (1 + math.exp(8 - math.floor((product + 8) * 32) / 32))


def _hierarchical(file: ModelFile, products: np.ndarray) -> list[float]:
    """Along Huffman's tree, which joins the two rarest again and again; of equal ones, the newer is taken."""
    count = len(file.labels)
    counts = {number: 50.0 - len(file.words) - number for number in range(count)}
    waiting = list(range(count - 1, -1, -1))
    made: list[int] = []
    children: dict[int, tuple[int, int]] = {}
    for node in range(count, 2 * count - 1):
        pair = []
        for _ in range(2):
            leaf_first = waiting and (not made or counts[waiting[0]] < counts[made[0]])
            pair.append(waiting.pop(0) if leaf_first else made.pop(0))
        children[node] = (pair[0], pair[1])
        counts[node] = counts[pair[0]] + counts[pair[1]]
        made.append(node)
    logs = {2 * count - 2: 0.0}
    for node in range(2 * count - 2, count - 1, -1):
        share = 1 / (1 + math.exp(-products[node - count]))
        left, right = children[node]
        logs[left] = logs[node] + math.log(1 - share + 1e-5)
        logs[right] = logs[node] + math.log(share + 1e-5)
    return [math.exp(logs[label]) if logs[label] >= math.log(1e-5) else 0.0 for label in range(count)]
