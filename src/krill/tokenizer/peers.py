"""Other people's trainers, each behind one small function: `python peers.py NAME ...` trains with one.

In: a plain text file, a vocabulary size, a number of threads. Out: a JSON report with the seconds since the
process was started, its peak (VmHWM, read by the process itself when training ended), and the tokens that it
made. Held in memory: what the peer holds; this file imports nothing but the standard library and the peer, so
that a process which runs it is charged with nothing of Krill's, and any interpreter can.

All are asked for the same: byte-level BPE with GPT-2's pattern and the same special tokens, as far as they
can. Most count line by line, and so does our side of the comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@dataclass(frozen=True)
class PeerJob:
    """One training."""

    file: str
    vocab_size: int
    threads: int
    special_tokens: list[str]


# What lists the tokens that a training made, in their order, after the clock and the meter were read; None
# where they are of another kind and can't be compared.
Tokens = Callable[[], "list[bytes] | None"]


def train_tokenizers(job: PeerJob) -> Tokens:
    """Hugging Face: reads files line by line."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=job.vocab_size,
        special_tokens=job.special_tokens,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([job.file], trainer)
    return lambda: [_unmapped(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def train_gigabpe(job: PeerJob) -> Tokens:
    """Hugging Face's result by lines; its alphabet is the bytes that occur."""
    import gigabpe

    _, merges = gigabpe.train_bpe(
        [job.file],
        job.vocab_size,
        special_tokens=job.special_tokens,
        pretokenizer="bytelevel",
        threads=job.threads,
    )
    return lambda: [_unmapped(pair) for pair in merges]


def train_gigatoken(job: PeerJob) -> Tokens:
    """Hugging Face's tie-break; the file is one document, cut at the special tokens."""
    import gigatoken

    _, merges = gigatoken.train_bpe(job.file, job.vocab_size, job.special_tokens)
    return lambda: [left + right for left, right in merges]


def train_rustbpe(job: PeerJob) -> Tokens:
    """Line by line; no special tokens, and a tie-break of its own."""
    import rustbpe

    tokenizer = rustbpe.Tokenizer()
    lines = _lines(job.file)
    tokenizer.train_from_iterator(lines, job.vocab_size - len(job.special_tokens), pattern=GPT2_PATTERN)
    return lambda: [bytes(token) for token, _ in tokenizer.get_mergeable_ranks()[256:]]


def train_sentencepiece(job: PeerJob) -> Tokens:
    """BPE over characters with bytes to fall back on: another kind of vocabulary."""
    import sentencepiece

    with tempfile.TemporaryDirectory() as folder:
        sentencepiece.SentencePieceTrainer.train(
            input=job.file,
            model_prefix=str(Path(folder) / "model"),
            model_type="bpe",
            vocab_size=job.vocab_size,
            byte_fallback=True,
            num_threads=job.threads,
            user_defined_symbols=job.special_tokens,
            max_sentence_length=2**30,
            minloglevel=2,
        )
    return lambda: None


PEERS: dict[str, Callable[[PeerJob], Tokens]] = {
    "tokenizers": train_tokenizers,
    "gigabpe": train_gigabpe,
    "gigatoken": train_gigatoken,
    "rustbpe": train_rustbpe,
    "sentencepiece": train_sentencepiece,
}
"""By the name that `pip install` and `import` know them by."""


def main() -> None:
    """Train once and write the report; a peer that is not installed is no fault, it is reported."""
    options = _parser().parse_args()
    # Read by rayon, the thread pool of the peers written in Rust, when it is first used.
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    job = PeerJob(options.input, options.vocab_size, options.threads, options.special_token)
    try:
        tokens = PEERS[options.peer](job)
    except ModuleNotFoundError as error:
        if error.name != options.peer:
            raise
        report: dict[str, object] = {"missing": options.peer}
    else:
        report = {
            "seconds": time.monotonic() - options.begun,
            "peak": _peak(),
            "version": _version(options.peer),
        }
        made = tokens()
        report["tokens"] = None if made is None else [token.hex() for token in made]
    Path(options.report).write_text(json.dumps(report))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=list(PEERS))
    parser.add_argument("--input", required=True)
    parser.add_argument("--vocab-size", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--special-token", action="append", default=[])
    # CLOCK_MONOTONIC is one clock for all processes, so that start-up and imports are part of the time.
    parser.add_argument("--begun", type=float, required=True, help="time.monotonic() of who starts this")
    parser.add_argument("--report", required=True, help="file for the result: a peer may print what it likes")
    return parser


def _lines(file: str) -> Iterator[str]:
    with open(file, encoding="utf-8", errors="replace", newline="\n") as lines:
        yield from lines


def _unmapped(pair: tuple[str, str]) -> bytes:
    """The bytes of a merged pair that is written in GPT-2's printable alphabet."""
    return bytes(_BYTE_OF[character] for part in pair for character in part)


def _byte_of() -> dict[str, int]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + place): byte for place, byte in enumerate(others)
    }


_BYTE_OF = _byte_of()


def _peak() -> int:
    """VmHWM; where there is no /proc, `ru_maxrss`."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


if __name__ == "__main__":
    main()
