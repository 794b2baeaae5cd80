"""Features for question answering: Krill beside Hugging Face's question-answering scripts.

The questions are the shared SQuAD 2.0 file, windows of 384 tokens with 128 of overlap. Each side has a
process of its own on one core (`taskset`) and goes from the JSON file to all features as arrays: Hugging
Face as its scripts do, by `datasets.map` over batches of a thousand with a fast tokenizer; Krill by
`prepare`, which writes its cache, and then every feature read back from it, padded. Time is without
imports, and for Hugging Face without loading the tokenizer: seconds of the CPU, of the user and of the
system, and by the clock, which others on the machine move more. The peak is VmHWM of the whole process.
Both hash their features, and the hashes must be equal. Then the command's peak on the file once and a
hundred times over, and how long a random document of that takes.

    python benchmarks/qa.py [wordpiece unigram] --times 99
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import questions
from measured import Outcome, run_measured
from questions import KINDS, SQUAD, grown_squad
from results import Results, again

WIDTH, STRIDE = 384, 128
SHOWN = {"byte_bpe": "byte-level BPE", "wordpiece": "WordPiece", "unigram": "Unigram"}


def main() -> None:
    """The tables; or, in a process that this one has started, one side."""
    options = parsed()
    if options.once:
        print(json.dumps({"hf": hugging_face, "krill": krill}[options.once](options.kind, options.folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        results = again("qa", "tokenizers", "transformers")
        for kind in options.kinds:
            save_tokenizer(kind, folder)
            report(results, kind, folder, options.rounds)
        results.save()
        if options.times:
            report_growth(folder, options.kinds[0], options.times)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), help=f"tokenizers: {', '.join(KINDS)}")
    parser.add_argument("--times", type=int, default=99, help="how often the questions are repeated; 0: not")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many is shown")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def save_tokenizer(kind: str, folder: Path) -> None:
    """A tokenizer of 8,000 tokens, learnt from the contexts themselves and some Markdown."""
    questions.VOCABULARY = 8000
    questions.TEXTS = 400
    questions.tokenizer_of(kind).save_pretrained(folder / kind)


def report(results: Results, kind: str, folder: Path, rounds: int) -> None:
    """Two rows: both sides, in turn, so that a busy moment hits both."""
    found: dict[str, list[tuple[dict[str, Any], Outcome]]] = {"hf": [], "krill": []}
    for _ in range(rounds):
        for side, outcomes in found.items():
            command = [sys.executable, __file__, "--once", side, "--kind", kind, "--folder", folder]
            outcome = run_measured(["/usr/bin/taskset", "-c", "0", *command])
            if outcome.code:
                raise SystemExit(outcome.err)
            outcomes.append((outcome.result, outcome))
    sums = {json.dumps(result["sums"]) for outcomes in found.values() for result, _ in outcomes}
    if len(sums) != 1:
        raise SystemExit(f"the features differ: {sums}")
    least = {
        clock: {side: min(result[clock] for result, _ in outcomes) for side, outcomes in found.items()}
        for clock in ("cpu_seconds", "seconds")
    }
    count = found["hf"][0][0]["examples"]
    ratios = {clock: seconds["hf"] / seconds["krill"] for clock, seconds in least.items()}
    for side, program in (("krill", "Krill"), ("hf", "Hugging Face")):
        rate, peak = count / least["cpu_seconds"][side], max(outcome.peak for _, outcome in found[side])
        row = {"tokenizer": SHOWN[kind], "program": program, "rate": rate, "peak": peak / 1e6}
        if side == "hf":
            row |= {"faster": ratios["cpu_seconds"], "faster_by_the_clock": ratios["seconds"]}
        results.add(**row)


def hugging_face(kind: str, folder: Path) -> dict[str, Any]:
    """The way of Hugging Face's scripts."""
    import datasets
    from transformers import AutoTokenizer

    datasets.disable_progress_bars()
    tokenizer = loaded(AutoTokenizer, kind, folder)
    begun = Clocks()
    rows = [
        {
            "id": asked["id"],
            "question": asked["question"],
            "context": paragraph["context"],
            "answers": {
                "text": [answer["text"] for answer in asked["answers"]],
                "answer_start": [answer["answer_start"] for answer in asked["answers"]],
            },
        }
        for article in json.loads(SQUAD.read_text(encoding="utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    ]
    examples = datasets.Dataset.from_list(rows)
    features = examples.map(
        lambda some: prepare_batch(tokenizer, some),
        batched=True,
        remove_columns=examples.column_names,
        keep_in_memory=False,
        cache_file_name=str(folder / f"{kind}-{time.time_ns()}.arrow"),
    )
    sums = Sums()
    for batch in features.with_format("numpy").iter(batch_size=1000):
        sums.add(batch["input_ids"], batch["start_positions"], batch["end_positions"])
    return {**begun.passed(), "examples": len(rows), "sums": sums.result()}


def loaded(cls: Any, kind: str, folder: Path) -> Any:
    tokenizer = cls.from_pretrained(folder / kind)
    if kind == "unigram":
        tokenizer._pad_token_type_id = 3
    return tokenizer


def prepare_batch(tokenizer: Any, some: dict[str, list[Any]]) -> dict[str, Any]:
    """Windows and labels of a batch of examples."""
    right = tokenizer.padding_side == "right"
    asked = [text.lstrip() for text in some["question"]]
    made = tokenizer(
        asked if right else some["context"],
        some["context"] if right else asked,
        truncation="only_second" if right else "only_first",
        max_length=WIDTH,
        stride=STRIDE,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding="max_length",
    )
    of_context = 1 if right else 0
    starts, ends = [], []
    for feature, example in enumerate(made.pop("overflow_to_sample_mapping")):
        offsets, sequence = made["offset_mapping"][feature], made.sequence_ids(feature)
        answers = some["answers"][example]
        cls_index = made["input_ids"][feature].index(tokenizer.cls_token_id)
        start = end = cls_index
        if answers["answer_start"]:
            begin = answers["answer_start"][0]
            stop = begin + len(answers["text"][0])
            first = 0
            while sequence[first] != of_context:
                first += 1
            last = len(sequence) - 1
            while sequence[last] != of_context:
                last -= 1
            if offsets[first][0] <= begin and offsets[last][1] >= stop:
                while first < len(offsets) and offsets[first][0] <= begin:
                    first += 1
                while offsets[last][1] >= stop:
                    last -= 1
                start, end = first - 1, last + 1
        starts.append(start)
        ends.append(end)
    made.pop("offset_mapping")
    return {**made, "start_positions": starts, "end_positions": ends}


def krill(kind: str, folder: Path) -> dict[str, Any]:
    """Our way: a cache, and all of it read back."""
    import numpy as np

    from krill.qa import QaDataset, Shape, prepare

    output = folder / f"out-{kind}"
    prepare(SQUAD, folder / kind, output=folder / "warm", shape=Shape(64, 16), max_examples=1, overwrite=True)
    begun = Clocks()
    made = prepare(SQUAD, folder / kind, output=output, shape=Shape(WIDTH, STRIDE), overwrite=True)
    dataset = QaDataset(made.folder)
    sums = Sums()
    for first in range(0, len(dataset), 1000):
        rows = dataset.stored.rows(np.arange(first, min(first + 1000, len(dataset))), offsets=False)
        sums.add(rows.input_ids, rows.start_positions, rows.end_positions)
    return {**begun.passed(), "examples": int(made.manifest["examples"]), "sums": sums.result()}


class Clocks:
    """Of the whole process, since it was made."""

    def __init__(self) -> None:
        self._begun = time.perf_counter(), time.process_time()

    def passed(self) -> dict[str, float]:
        seconds, cpu_seconds = self._begun
        return {"seconds": time.perf_counter() - seconds, "cpu_seconds": time.process_time() - cpu_seconds}


class Sums:
    """A hash over all features."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._rows = 0

    def add(self, *columns: Any) -> None:
        import numpy as np

        self._rows += len(columns[0])
        for column in columns:
            self._hash.update(np.ascontiguousarray(column, np.int32))

    def result(self) -> list[Any]:
        return [self._rows, self._hash.hexdigest()]


def report_growth(folder: Path, kind: str, times: int) -> None:
    """The command's peak on the questions once and many times over, and a random document of the larger."""
    print(f"\n| questions | features | seconds | peak |\n{'| --- ' * 4}|")
    for repeated in (1, times):
        source = grown_squad(folder / f"{repeated}.json", repeated)
        command = ["-c", "from krill.cli.commands import qa; qa()", "prepare", source]
        options = ["--tokenizer", folder / kind, "--output", folder / f"grown-{repeated}"]
        limits = ["--memory", "300MB", "--threads", "1", "--json", "--quiet"]
        outcome = run_measured(["/usr/bin/taskset", "-c", "0", sys.executable, *command, *options, *limits])
        if outcome.code:
            raise SystemExit(outcome.err)
        cells = [f"{outcome.result['examples']:,}", f"{outcome.result['features']:,}"]
        print(f"| {' | '.join(cells)} | {outcome.seconds:.1f} | {outcome.peak / 1e6:,.0f} MB |", flush=True)
        source.unlink()
    from krill.qa import QaDataset

    dataset = QaDataset(folder / f"grown-{times}", memory="100MB")
    chance = random.Random(0)
    chosen = [chance.randrange(dataset.documents) for _ in range(2000)]
    taken = []
    for document in chosen:
        begun = time.perf_counter()
        dataset.document(document)
        taken.append(time.perf_counter() - begun)
    taken.sort()
    print(
        f"\na random document of {dataset.documents:,}: {1e6 * taken[len(taken) // 2]:.0f} µs in the median,"
        f" {1e6 * taken[int(len(taken) * 0.99)]:.0f} µs for 99 of 100"
    )


if __name__ == "__main__":
    main()
