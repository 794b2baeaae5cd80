"""Encode with the tokenizers of many model families: Krill beside those of its peers that load them.

In: folders or files of tokenizers (`tokenizer.json`, or `.json.xz`), and documents as JSON lines. A list of
strings goes in, cold, in a process of its own for each encoder; MB/s is over the encoding alone. All are
asked for the same special tokens. The first row is a tokenizer of 32,000 tokens with GPT-2's pattern, trained
on the documents: every family's speed is also stated as a share of it.

    python benchmarks/encode_families.py TOKENIZER... --documents docs.jsonl --mb 100 --threads 1 2
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from measured import run_measured

MB = 10**6
# The library takes minutes for what others do in seconds.
LIBRARY_MB = 10


def krill_encoder(file: str, threads: int) -> Callable[[Sequence[str]], int]:
    import krill.tokenizer

    tokenizer = krill.tokenizer.load(file, memory="4GB", threads=threads)
    assert tokenizer.native, tokenizer.why

    def count(texts: Sequence[str]) -> int:
        return sum(map(len, tokenizer.encode_batch(texts)))

    return count


def fastokens_encoder(file: str, threads: int) -> Callable[[Sequence[str]], int]:
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    import fastokens

    tokenizer = fastokens.Tokenizer.from_file(file)
    return lambda texts: sum(len(ids) for ids in tokenizer.encode_batch(list(texts)))


def gigatoken_encoder(file: str, threads: int) -> Callable[[Sequence[str]], int]:
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    import awkward
    import gigatoken

    tokenizer = gigatoken.Tokenizer(file)

    def count(texts: Sequence[str]) -> int:
        encoded = tokenizer.encode_batch(list(texts), parallel=threads > 1)
        return int(awkward.sum(awkward.num(encoded)))

    return count


def library_encoder(file: str, threads: int) -> Callable[[Sequence[str]], int]:
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(file)
    tokenizer.no_truncation()
    return lambda texts: sum(len(encoding.ids) for encoding in tokenizer.encode_batch_fast(list(texts)))


ENCODERS: dict[str, Callable[[str, int], Callable[[Sequence[str]], int]]] = {
    "krill": krill_encoder,
    "fastokens": fastokens_encoder,
    "gigatoken": gigatoken_encoder,
    "tokenizers": library_encoder,
}


def encode_once(options: argparse.Namespace) -> dict[str, Any]:
    """Load, then encode all documents once."""
    texts = [json.loads(line) for line in Path(options.documents).read_text().splitlines()]
    begun = time.monotonic()
    count = ENCODERS[options.once](options.tokenizers[0], options.threads[0])
    loaded = time.monotonic()
    tokens = count(texts)
    seconds = time.monotonic() - loaded
    size = sum(len(text.encode()) for text in texts)
    return {"load": loaded - begun, "mb_per_second": size / seconds / MB, "tokens": tokens}


def measure(name: str, file: Path, documents: Path, threads: int, python: str) -> dict[str, Any] | str:
    """One encoder in its process; why it can't, in a line."""
    command = [python, __file__, str(file), "--once", name, "--documents", documents]
    outcome = run_measured([*command, "--threads", str(threads)])
    if outcome.code:
        return (outcome.err.strip().splitlines() or [f"exit code {outcome.code}"])[-1][:60]
    return {**json.loads(outcome.out.splitlines()[-1]), "peak": outcome.peak}


def write_documents(source: Path, path: Path, size: int) -> Path:
    """Texts as JSON strings, one a line, repeated up to the size; later rounds differ from the first."""
    with gzip.open(source, "rt") if source.suffix == ".gz" else source.open() as lines:
        texts = [json.loads(line)["text"] for line in lines]
    written = round_ = 0
    with path.open("w") as file:
        while written < size:
            for text in texts:
                file.write(json.dumps(f"{text} {round_}" if round_ else text) + "\n")
                written += len(text.encode())
                if written >= size:
                    break
            round_ += 1
    return path


def unpacked(given: Path, folder: Path) -> Path:
    """A tokenizer.json of its own name, unpacked if need be."""
    if given.is_dir():
        return given / "tokenizer.json"
    if given.suffix != ".xz":
        return given
    path = folder / given.name.removesuffix(".tokenizer.json.xz") / "tokenizer.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lzma.decompress(given.read_bytes()))
    return path


def trained(documents: Path, folder: Path) -> Path:
    """GPT-2's pattern, 32,000 tokens."""
    text = folder / "documents.jsonl"
    text.write_text("".join(f'{{"text": {line}}}\n' for line in documents.read_text().splitlines()))
    command = [Path(sys.executable).with_name("krill"), "tokenizer", "train", "--input", text]
    done = run_measured([*command, "--vocab-size", "32000", "--output", folder / "gpt2-like", "--quiet"])
    assert done.code == 0, done.err
    return folder / "gpt2-like" / "tokenizer.json"


def main() -> None:
    """The table; or, in a process that this one has started, one encoder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tokenizers", nargs="+")
    parser.add_argument("--documents", required=True, type=Path)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS), choices=list(ENCODERS))
    parser.add_argument("--peers-python", default=sys.executable, help="an interpreter that has the peers")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(encode_once(options)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        documents = write_documents(options.documents, folder / "documents", options.mb * MB)
        few = write_documents(options.documents, folder / "few", min(LIBRARY_MB, options.mb) * MB)
        files = [trained(few, folder), *(unpacked(Path(given), folder) for given in options.tokenizers)]
        print(
            "| tokenizer | threads | encoder | load s | MB/s | of gpt2-like | peak MB |\n"
            + "| --- " * 7
            + "|"
        )
        for threads in options.threads:
            base = 0.0
            for file in files:
                for encoder in options.encoders:
                    texts = few if encoder == "tokenizers" else documents
                    python = sys.executable if encoder == "krill" else options.peers_python
                    found = measure(encoder, file, texts, threads, python)
                    if isinstance(found, str):
                        print(f"| {file.parent.name} | {threads} | {encoder} | | {found} | | |", flush=True)
                        continue
                    rate = found["mb_per_second"]
                    base = rate if encoder == "krill" and base == 0 else base
                    share = f"{rate / base:.2f}" if encoder == "krill" else ""
                    figures = f"{found['load']:.2f} | {rate:.1f} | {share} | {found['peak'] / MB:.0f}"
                    print(f"| {file.parent.name} | {threads} | {encoder} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
