"""Encode text with a trained tokenizer: Krill beside gigatoken and Hugging Face.

The text is that of `train_tokenizer.py`; the tokenizer of 32,000 tokens is trained on it first, or given with
`--tokenizer`. Each encoder has a process of its own and takes the text in pieces of 8 MB that end with a
document; ids are dropped, as gigatoken has no place to write them. MB/s is over the encoding alone, reading
pieces from the page cache included; the peak is VmHWM of the whole process. One thread means one core
(`taskset`). Hugging Face encodes only the first `--hf-mb` of the text. The last row for each number of
threads is the command, from text file to file of tokens: time from start to end of the process.

    python benchmarks/encode.py --mb 480 --peers-python PATH
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from measured import Outcome, run_measured
from real_text import text_corpus
from results import Results, Row, again

PIECE = 8 * 10**6
SEPARATOR = b"<|endoftext|>"
NAMES = {"krill": "Krill", "gigatoken": "gigatoken"}


def main() -> None:
    """The table; or, in a process that this one has started, one encoder."""
    options = parsed()
    if options.once:
        print(json.dumps(once(options)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        corpus = text_corpus(folder, options.mb)
        tokenizer = options.tokenizer or trained(corpus, folder / f"tokenizer-{options.mb}")
        results = again("encode", "tokenizers")
        for threads in options.threads:
            for name in ("krill", "gigatoken", "huggingface"):
                megabytes = options.hf_mb if name == "huggingface" else options.mb
                python = sys.executable if name == "krill" else options.peers_python or sys.executable
                report_encoder(results, name, threads, python, corpus, tokenizer, megabytes, options.memory)
            report_command(
                results, threads, corpus, tokenizer, options.memory, Path(temporary) / "tokens.bin"
            )
        results.save()


def trained(corpus: Path, folder: Path) -> Path:
    """A tokenizer of 32,000 tokens, trained on the corpus if it was not before."""
    arguments = [
        "tokenizer",
        "train",
        "--input",
        corpus,
        "--vocab-size",
        "32000",
        "--output",
        folder,
        "--quiet",
    ]
    done = run_measured([krill_command(), *arguments])
    assert done.code == 0, done.err
    return folder / "tokenizer.json"


def report_encoder(
    results: Results,
    name: str,
    threads: int,
    python: str,
    corpus: Path,
    tokenizer: Path,
    megabytes: int,
    memory: str,
) -> None:
    """One row: an encoder in its process."""
    arguments = ["--once", name, "--mb", str(megabytes), "--tokenizer", tokenizer, "--corpus", corpus]
    arguments += ["--threads", str(threads), "--memory", memory]
    outcome = on_cores(threads, [python, __file__, *arguments])
    if outcome.code:
        reason = outcome.err.strip().splitlines()[-1] if outcome.err.strip() else f"exit code {outcome.code}"
        print(f"{name}, threads {threads}: {reason}", flush=True)
        return
    found = json.loads(outcome.out.splitlines()[-1])
    shown = NAMES.get(name, f"Hugging Face, {megabytes} MB")
    results.add(
        encoder=shown, threads=threads, **row(found["bytes"], found["seconds"], outcome.peak, found["tokens"])
    )


def report_command(
    results: Results, threads: int, corpus: Path, tokenizer: Path, memory: str, output: Path
) -> None:
    """One row: text file to file of tokens, as a user runs it."""
    arguments = [
        "tokenizer",
        "encode",
        "--tokenizer",
        tokenizer,
        "--input",
        corpus,
        "--output",
        output,
        "--json",
    ]
    arguments += ["--quiet", "--overwrite", "--threads", str(threads), "--memory", memory]
    outcome = on_cores(threads, [krill_command(), *arguments])
    assert outcome.code == 0, outcome.err
    tokens, size = outcome.result["tokens"], corpus.stat().st_size
    name = "`krill tokenizer encode`"
    results.add(encoder=name, threads=threads, **row(size, outcome.seconds, outcome.peak, tokens))


def row(size: int, seconds: float, peak: int, tokens: int) -> Row:
    """Figures of one encoder."""
    return {"megabytes": size / 1e6, "rate": size / seconds / 1e6, "peak": peak / 1e6, "tokens": tokens}


def on_cores(threads: int, command: list[str | Path]) -> Outcome:
    """Run with no more cores than threads, whatever pools the libraries start."""
    held = ["/usr/bin/env", "taskset", "-c", f"0-{threads - 1}"] if shutil.which("taskset") else []
    return run_measured([*held, *command], env={"RAYON_NUM_THREADS": str(threads)})


def krill_command() -> Path:
    """The command that belongs to this interpreter."""
    return Path(sys.executable).with_name("krill")


def once(options: argparse.Namespace) -> dict[str, float]:
    """Encode with one encoder; its tokens, and the seconds that they took."""
    count = ENCODERS[options.once](options)
    for _ in pieces(options.corpus, options.mb * 10**6):  # into the page cache
        pass
    tokens = size = 0
    begun = time.monotonic()
    for piece in pieces(options.corpus, options.mb * 10**6):
        tokens += count(piece)
        size += len(piece)
    return {"tokens": tokens, "bytes": size, "seconds": time.monotonic() - begun}


def pieces(corpus: Path, limit: int) -> Iterator[bytes]:
    """The first `limit` bytes or a little less, in pieces that end with a document."""
    left = b""
    with corpus.open("rb") as file:
        while limit > 0 and (block := file.read(min(PIECE, limit))):
            limit -= len(block)
            whole = left + block
            end = whole.rfind(SEPARATOR) + len(SEPARATOR)
            left = whole[end:]
            yield whole[:end]


def krill_encoder(options: argparse.Namespace) -> Callable[[bytes], int]:
    """Documents are cut by the native reader, as in preprocessing."""
    from krill import _native
    from krill.corpus.buffers import text_column
    from krill.tokenizer import load

    tokenizer = load(options.tokenizer, memory=options.memory, threads=options.threads[0])
    reader = _native.TextReader(SEPARATOR, 4_000_000, False)
    place = 0

    def count(piece: bytes) -> int:
        nonlocal place
        reader.feed(piece, place)
        place += len(piece)
        offsets, data, *_ = reader.take()
        return len(tokenizer.encode_arrow(text_column(offsets, data))[1])

    return count


def gigatoken_encoder(options: argparse.Namespace) -> Callable[[bytes], int]:
    """Its fastest way for text in memory: it cuts documents itself."""
    import awkward
    import gigatoken

    tokenizer = gigatoken.Tokenizer(str(options.tokenizer))
    parallel = options.threads[0] > 1

    def count(piece: bytes) -> int:
        source = gigatoken.BytesSource(piece, separator=SEPARATOR)
        return int(awkward.sum(awkward.num(tokenizer.encode_batch(source, parallel=parallel))))

    return count


def huggingface_encoder(options: argparse.Namespace) -> Callable[[bytes], int]:
    """Batches of documents without offsets."""
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if options.threads[0] > 1 else "false"
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(options.tokenizer))

    def count(piece: bytes) -> int:
        texts = piece.decode("utf-8", "replace").split(SEPARATOR.decode())
        batches = (texts[start : start + 256] for start in range(0, len(texts), 256))
        return sum(len(encoding) for batch in batches for encoding in tokenizer.encode_batch_fast(batch))

    return count


ENCODERS = {"krill": krill_encoder, "gigatoken": gigatoken_encoder, "huggingface": huggingface_encoder}


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mb", type=int, default=int(os.environ.get("BENCH_MB", "480")))
    parser.add_argument("--hf-mb", type=int, default=10, help="how much of it Hugging Face encodes")
    parser.add_argument("--memory", default="256MB", help="budget of ours")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json")
    parser.add_argument("--peers-python", default=os.environ.get("PEERS_PYTHON"))
    parser.add_argument("--folder", type=Path, help="where corpus and tokenizer are kept")
    parser.add_argument("--once", choices=list(ENCODERS), help=argparse.SUPPRESS)
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
