"""The worker's side of a training on an engine: one task, within what a worker has.

In: a payload. Out: a file that appears when it is whole, and a few numbers about it. Held in memory: as when
everything is counted in one process, the blocks in flight and the counter within its cap; where counts are
gathered, the counter's buffers.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from krill import _native
from krill.budget import Meter
from krill.budget.meter import peak_bytes
from krill.budget.process import metered_process
from krill.corpus import CorpusFile
from krill.corpus.fingerprint import fingerprint
from krill.engines import Resources
from krill.errors import InputError
from krill.storage import CommitLog
from krill.storage.atomic import storage_errors
from krill.threads import ordered_map
from krill.tokenizer.block_counter import BlockCounter, cuts_of, damaged_spill
from krill.tokenizer.count import BLOCK_BYTES
from krill.tokenizer.counted_words import COUNTED, Gathered, appearing, append_index, scratch_beside
from krill.tokenizer.needs import TEXT, WORDS, counting_needs, gathering_needs
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.reading import corpus_of
from krill.tokenizer.stretches import Portion, portion_pieces


def run_task(payload: Mapping[str, Any], resources: Resources) -> dict[str, Any]:
    """What `engines` calls."""
    work = {"count": _count, "gather": _gather}[payload["kind"]]
    with metered_process(resources.memory, resources.threads, floor=resources.floor) as meter:
        _native.trim()  # what the task before has freed, so that the plan has it
        return {**work(payload, resources, meter), "peak": peak_bytes()}


def _count(payload: Mapping[str, Any], resources: Resources, meter: Meter) -> dict[str, Any]:
    """Count the words of a portion of the input."""
    options = TrainOptions(
        **{**payload["options"], "special_tokens": tuple(payload["options"]["special_tokens"])}
    )
    portion = Portion.from_json(payload["portion"])
    _check_same(portion.files, payload["fingerprints"])
    corpus = corpus_of(portion.files, options, verify=payload["verify"])
    plan = meter.plan(counting_needs(corpus, resources.threads))
    in_flight = plan.share(TEXT)
    boundaries = tuple(token.encode() for token in payload["boundaries"])
    cuts = cuts_of(options, boundaries, in_flight // (resources.threads + 1))
    output = Path(payload["output"])
    with appearing(output) as made:
        counter = BlockCounter(
            options, boundaries, cap_bytes=plan.share(WORDS), threads=resources.threads, spill=made
        )
        with storage_errors(output):
            sizes = ordered_map(
                counter.add,
                portion_pieces(portion, corpus, cuts, BLOCK_BYTES),
                threads=resources.threads,
                bytes_in_flight=in_flight,
                size=lambda piece: piece.held,
                throttle=meter,
            )
            counted = sum(sizes)
            segments = counter.words.checkpoint()
        size = append_index(made, segments, counter.words.spilled_bytes)
    return {"bytes": counted, "size": size}


def _gather(payload: Mapping[str, Any], resources: Resources, meter: Meter) -> dict[str, Any]:
    """Merge what all counting tasks have found of some shards: these words are in no other part."""
    plan = meter.plan(gathering_needs())
    output, counts = Path(payload["output"]), CommitLog(Path(payload["counts"]))
    with scratch_beside(output) as spill, appearing(output) as made:
        gathered = Gathered(spill, range(*payload["shards"]))
        try:
            for number in range(payload["tasks"]):
                gathered.add(counts.path(number, COUNTED))
        finally:
            gathered.close()
        with storage_errors(output), damaged_spill(output.parent):
            counter = _native.WordCounter(
                "", [], False, plan.share(WORDS), 1, str(spill), gathered.segments, gathered.size
            )
            words, occurrences, word_bytes, byte_counts = counter.write_counts(str(made))
    return {
        "words": words,
        "occurrences": occurrences,
        "word_bytes": word_bytes,
        "byte_counts": byte_counts.tolist(),
    }


def _check_same(files: Sequence[CorpusFile], expected: Sequence[str]) -> None:
    """Words of two versions of a file must not end in one vocabulary."""
    for file, known in zip(files, expected, strict=True):
        if fingerprint(file)["fingerprint"] != known:
            raise InputError(
                f"`{file.path}` is not the same on `{platform.node()}` as where the run was started",
                hint="let all machines see one folder, and don't change the input while it is read",
            )
