"""Text to shuffled batches on the fly: `StreamingDataLoader` beside the usual loop, on one core.

The text is grown real text as JSON lines; sequences of 128 tokens, batches of 32, a shuffle buffer of 10,000
sequences. The loop is what people write: read a record, `tokenizer.encode(text).ids`, extend a list, cut
sequences off it, draw from a shuffle buffer, stack a batch. It reads with `json`, or with a streamed
`datasets` (`--reader datasets`), and sees only the first `--hf-mb` of the text. MB/s is over the iteration
alone; the peak is VmHWM of the whole process. Each has a process of its own and one core (`taskset`).

    python benchmarks/streaming.py --tokenizer tokenizer.json
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from encode import trained
from measured import run_measured
from real_text import grow_jsonl, text_corpus
from results import Results, again

SEQ_LEN, BATCH, BUFFER = 128, 32, 10_000


def main() -> None:
    """The table; or, in a process that this one has started, one loop."""
    options = parsed()
    if options.once:
        print(json.dumps(once(options)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        corpus = folder / f"stream-{options.mb}.jsonl"
        if not corpus.exists():
            grow_jsonl(corpus, options.mb * 10**6)
        tokenizer = options.tokenizer or trained(text_corpus(folder, options.mb), folder / "tokenizer-32000")
        results = again("streaming", "tokenizers")
        ours = report(results, "krill", options.mb, corpus, tokenizer, options)
        theirs = report(results, options.reader, options.hf_mb, corpus, tokenizer, options)
        results.save()
        print(f"\nkrill is {ours / theirs:.1f} times as fast", flush=True)


def report(
    results: Results,
    name: str,
    megabytes: int,
    corpus: Path,
    tokenizer: Path,
    options: argparse.Namespace,
) -> float:
    """A row of the table; returns bytes a second."""
    arguments = ["--once", name, "--mb", str(megabytes), "--corpus", corpus, "--tokenizer", tokenizer]
    one_core = ["/usr/bin/env", "taskset", "-c", "0"] if shutil.which("taskset") else []
    command = [*one_core, sys.executable, __file__, *arguments, "--memory", options.memory]
    outcome = run_measured(command, env={"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"})
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out.splitlines()[-1])
    rate = found["bytes"] / found["seconds"]
    results.add(
        program="Krill" if name == "krill" else "Hugging Face",
        rate=rate / 1e6,
        peak=outcome.peak / 1e6,
        reader=name,
        megabytes=found["bytes"] / 1e6,
        tokens_per_second=found["tokens"] / found["seconds"],
    )
    return float(rate)


def once(options: argparse.Namespace) -> dict[str, float]:
    """One loop over its part of the text."""
    run = ours if options.once == "krill" else theirs
    batches, size, seconds = run(options)
    return {"tokens": batches * BATCH * SEQ_LEN, "bytes": size, "seconds": seconds}


def ours(options: argparse.Namespace) -> tuple[int, int, float]:
    """Batches, bytes, seconds."""
    from krill.loading.stream.loader import StreamingDataLoader

    loader = StreamingDataLoader(
        options.corpus, options.tokenizer, SEQ_LEN, BATCH, shuffle_buffer_size=BUFFER, memory=options.memory
    )
    begun = time.monotonic()
    batches = sum(1 for _ in loader)
    return batches, options.corpus.stat().st_size, time.monotonic() - begun


def theirs(options: argparse.Namespace) -> tuple[int, int, float]:
    """The same with `tokenizers`."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    eos = tokenizer.token_to_id("<|endoftext|>")
    texts = with_json(options) if options.once == "json" else with_datasets(options)
    size = 0
    begun = time.monotonic()

    def tokens() -> Iterator[list[int]]:
        nonlocal size
        for text, nbytes in texts:
            size += nbytes
            yield [*tokenizer.encode(text).ids, eos]

    batches = sum(1 for _ in stacked(shuffled(sequences(tokens()))))
    return batches, size, time.monotonic() - begun


def with_json(options: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Texts, and the bytes that they took in the file."""
    size = 0
    with options.corpus.open("rb") as lines:
        for line in lines:
            yield json.loads(line)["text"], len(line)
            size += len(line)
            if size >= options.mb * 10**6:
                return


def with_datasets(options: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """The same records, streamed by `datasets`; bytes are those that the line would have."""
    from datasets import load_dataset

    rows = load_dataset("json", data_files=str(options.corpus), split="train", streaming=True)

    def texts() -> Iterator[tuple[str, int]]:
        size = 0
        for row in rows:
            nbytes = len(json.dumps({"text": row["text"]}, ensure_ascii=False).encode()) + 1
            yield row["text"], nbytes
            size += nbytes
            if size >= options.mb * 10**6:
                return

    return texts()


def sequences(documents: Iterator[list[int]]) -> Iterator[list[int]]:
    """Cut off the front of a list; what is left is moved once a document, not once a sequence."""
    left: list[int] = []
    for document in documents:
        left.extend(document)
        start = 0
        while start + SEQ_LEN + 1 <= len(left):
            yield left[start : start + SEQ_LEN + 1]
            start += SEQ_LEN
        del left[:start]


def shuffled(stream: Iterator[list[int]]) -> Iterator[list[int]]:
    """Each sequence takes the place of a random one in the buffer."""
    draw = random.Random(42)
    buffer: list[list[int]] = []
    for sequence in stream:
        if len(buffer) < BUFFER:
            buffer.append(sequence)
        else:
            place = draw.randrange(BUFFER)
            yield buffer[place]
            buffer[place] = sequence
    draw.shuffle(buffer)
    yield from buffer


def stacked(stream: Iterator[list[int]]) -> Iterator[dict[str, Any]]:
    """Batches of arrays."""
    import numpy as np

    rows: list[list[int]] = []
    for sequence in stream:
        rows.append(sequence)
        if len(rows) == BATCH:
            batch = np.array(rows, np.int32)
            yield {"input_ids": batch[:, :-1], "labels": batch[:, 1:]}
            rows = []


def parsed() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=int, default=100, help="text, in MB")
    parser.add_argument("--hf-mb", type=int, default=10, help="text for the other loop")
    parser.add_argument("--reader", choices=("json", "datasets"), default="json", help="how that one reads")
    parser.add_argument(
        "--tokenizer", type=Path, help="a tokenizer.json; else one of 32,000 tokens is trained"
    )
    parser.add_argument("--folder", type=Path, help="keep text and tokenizer here")
    parser.add_argument("--memory", default="256MB", help="Krill's budget")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
