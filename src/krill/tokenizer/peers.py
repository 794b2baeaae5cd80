"""Other people's trainers and encoders, each behind one small function: `python peers.py NAME ...` runs one.

In: a plain text file, a number of threads, and a vocabulary size or a tokenizer. Out: a JSON report with the
seconds that it took, its peak (VmHWM, read by the process itself in the end), and the tokens that a trainer
made; of an encoder the hash of each document's ids, in a file. Held in memory: what the peer holds, and a
batch of the text that is encoded; this file imports nothing but the standard library and the peer, so that a
process which runs it is charged with nothing of Krill's, and any interpreter can.

Trainers are asked for the same: byte-level BPE with GPT-2's pattern and the same special tokens, as far as
they can. Most count line by line, and so does our side of the comparison. Encoders read special tokens in the
text as such, and add none: not all of them can.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class EncodeJob:
    """A tokenizer to load; memory is stated to Krill alone, and what is opened is closed with `opened`."""

    tokenizer: str
    threads: int
    memory: str = "auto"
    opened: ExitStack = field(default_factory=ExitStack)


# The ids of each text of a list; they are looked at after the clock was read.
Encode = Callable[[list[str]], Iterable[Sequence[int]]]


def krill_encoder(job: EncodeJob) -> Encode:
    """Ours, in a process like theirs; what a template adds to each text is cut off again."""
    from krill.tokenizer.tokenizer import open_within

    # Strings, their UTF-8 in Arrow, ids.
    held = 16 * BATCH * job.threads
    tokenizer = job.opened.enter_context(open_within(job.tokenizer, job.memory, job.threads, held=held))
    empty, letter = (tokenizer.encode(text).tolist() for text in ("", "a"))
    before = next((at for at, id in enumerate(empty) if id != letter[at]), len(empty))
    after = len(empty) - before

    def encode(texts: list[str]) -> Iterable[Sequence[int]]:
        encoded = tokenizer.encode_batch(texts)
        return (ids[before : len(ids) - after].tolist() for ids in encoded)

    return encode


def tokenizers_encoder(job: EncodeJob) -> Encode:
    """Hugging Face."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(job.tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda texts: _ids(tokenizer.encode_batch_fast(texts, add_special_tokens=False))


def tiktoken_encoder(job: EncodeJob) -> Encode:
    """Byte-level BPE whose ids are the order of its merges, as it knows no other."""
    import tiktoken

    spec = json.loads(Path(job.tokenizer).read_bytes())
    added = {token["content"]: token["id"] for token in spec["added_tokens"]}
    encoding = tiktoken.Encoding(
        "compared", pat_str=_pattern(spec), mergeable_ranks=_ranks(spec["model"], added), special_tokens=added
    )
    return lambda texts: encoding.encode_batch(texts, num_threads=job.threads, allowed_special="all")


def _pattern(spec: dict[str, Any]) -> str:
    """The one pattern of a byte-level tokenizer; ends the process with a line where it is none."""
    steps = spec["pre_tokenizer"] or {"type": None}
    match steps.get("pretokenizers", [steps]):
        case _ if spec["model"]["type"] != "BPE" or spec["normalizer"] is not None:
            pass
        case [{"type": "ByteLevel", "add_prefix_space": False, **rest}] if rest.get("use_regex", True):
            return GPT2_PATTERN
        case [
            {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": str(pattern)}},
            {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
        ]:
            return pattern
    sys.exit("takes byte-level BPE with one pattern and no normalizer, and nothing else")


def _ranks(model: dict[str, Any], added: dict[str, int]) -> dict[bytes, int]:
    vocabulary: dict[str, int] = model["vocab"]
    pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
    made = [vocabulary["".join(pair)] for pair in pairs]
    if made != sorted(made):
        sys.exit("takes a vocabulary whose ids are in the order of its merges, and no other")
    return {_unmapped((token, "")): id for token, id in vocabulary.items() if token not in added}


def gigatoken_encoder(job: EncodeJob) -> Encode:
    """BPE; ids are an Awkward Array."""
    import gigatoken  # isort: skip  the peer first: without it this is missing too
    import awkward  # which gigatoken would import while it encodes

    tokenizer = gigatoken.Tokenizer(job.tokenizer)

    def documents(encoded: Any) -> Iterator[Sequence[int]]:
        end = 0
        flat = awkward.to_numpy(awkward.flatten(encoded))
        for length in awkward.num(encoded).tolist():
            begin, end = end, end + length
            yield flat[begin:end].tolist()

    return lambda texts: documents(tokenizer.encode_batch(texts, parallel=job.threads > 1))


def fastokens_encoder(job: EncodeJob) -> Encode:
    import fastokens

    tokenizer = fastokens.Tokenizer.from_file(job.tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda texts: _ids(tokenizer.encode_batch(texts, add_special_tokens=False))


def tokie_encoder(job: EncodeJob) -> Encode:
    """All models of Hugging Face."""
    import tokie

    tokenizer = tokie.Tokenizer.from_json(job.tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda texts: _ids(tokenizer.encode_batch(texts, add_special_tokens=False))


def _ids(encodings: Iterable[Any]) -> Iterator[Sequence[int]]:
    return (encoding.ids for encoding in encodings)


ENCODERS: dict[str, Callable[[EncodeJob], Encode]] = {
    "krill": krill_encoder,
    "tokenizers": tokenizers_encoder,
    "tiktoken": tiktoken_encoder,
    "gigatoken": gigatoken_encoder,
    "fastokens": fastokens_encoder,
    "tokie": tokie_encoder,
}
"""By the same names; ours first."""

BATCH = 1_000_000
"""Characters for each thread that an encoder is given at once."""
DIGEST = 8
"""Bytes of a document's hash."""


def main() -> None:
    """Run one and write the report; a peer that is not installed is no fault, it is reported."""
    options = _parser().parse_args()
    # Read by rayon, the thread pool of the peers written in Rust, when it is first used.
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if options.threads > 1 else "false"
    try:
        report = _train(options) if options.encode is None else _encode(options)
    except ModuleNotFoundError as error:
        if error.name != options.peer:
            raise
        report = {"missing": options.peer}
    except Exception as error:
        if not hasattr(error, "exit_code"):
            raise
        print(f"error: {error}", file=sys.stderr)  # one of Krill's own
        sys.exit(error.exit_code)
    Path(options.report).write_text(json.dumps(report))


def _train(options: argparse.Namespace) -> dict[str, object]:
    job = PeerJob(options.input, options.vocab_size, options.threads, options.special_token)
    tokens = PEERS[options.peer](job)
    seconds, peak = time.monotonic() - options.begun, _peak()
    made = tokens()
    return {
        "seconds": seconds,
        "peak": peak,
        "version": _version(options.peer),
        "tokens": None if made is None else [token.hex() for token in made],
    }


def _encode(options: argparse.Namespace) -> dict[str, object]:
    seconds, tokens = 0.0, 0
    with ExitStack() as opened, open(options.hashes, "wb") as hashes:
        begun = time.monotonic()
        job = EncodeJob(options.encode, options.threads, options.memory, opened)
        encode = ENCODERS[options.peer](job)
        load = time.monotonic() - begun
        for texts in _batches(options.input, BATCH * options.threads):
            begun = time.monotonic()
            encoded = encode(texts)
            seconds += time.monotonic() - begun
            for ids in encoded:
                tokens += len(ids)
                hashes.write(blake2b(array("I", ids).tobytes(), digest_size=DIGEST).digest())
        peak = _peak()
    package = "krill-lm" if options.peer == "krill" else options.peer
    version = _version(package)
    return {"load": load, "seconds": seconds, "tokens": tokens, "peak": peak, "version": version}


def _batches(file: str, size: int) -> Iterator[list[str]]:
    """Documents of about 4,000 characters that end where a line does, unless it is as long."""
    with open(file, encoding="utf-8", errors="replace", newline="\n") as text:
        batch: list[str] = []
        held = 0
        while piece := text.read(4000) + text.readline(4000):
            batch.append(piece)
            held += len(piece)
            if held >= size:
                yield batch
                batch, held = [], 0
        if batch:
            yield batch


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=list(PEERS | ENCODERS))
    parser.add_argument("--input", required=True)
    parser.add_argument("--vocab-size", type=int)
    parser.add_argument("--encode", help="a tokenizer.json: encode with it instead of training")
    parser.add_argument("--memory", default="auto")
    parser.add_argument("--hashes", help="file for the hash of each document's ids")
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
