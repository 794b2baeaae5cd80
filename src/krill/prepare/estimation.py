"""`krill estimate`: the plan, the disk and the rough time of a run, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from krill.budget import Meter, Plan, make_plan, resident_bytes, resolve_limit, resolve_threads
from krill.budget.process import bounded_process
from krill.config import KrillConfig, load_config
from krill.prepare.disk import decoded_bytes, estimate_disk
from krill.prepare.job import open_input
from krill.prepare.needs import preprocess_needs
from krill.tokenizer.open import fallback_notice

# Bytes per second and thread, packing included: the stages of 500 MB of JSON lines on one thread of the
# machine in docs/benchmarks.md; for a native tokenizer of 32,000 tokens 240 MB, for Hugging Face half of what
# two threads did on 100 MB.
_SCAN_RATE = 430e6
_TEXT_RATE = 160e6
_BYTE_RATE = 97e6
_NATIVE_RATE = 68e6
_HUGGING_FACE_RATE = 1.3e6


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would take."""

    plan: Plan
    threads: int
    files: int
    input_bytes: int
    text_bytes: int
    spill_bytes: int
    output_bytes: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "budget": self.plan.to_json(),
            "threads": self.threads,
            "files": self.files,
            "input_bytes": self.input_bytes,
            "text_bytes": self.text_bytes,
            "spill_bytes": self.spill_bytes,
            "output_bytes": self.output_bytes,
            "seconds": round(self.seconds, 1),
        }


def estimate(config: Any, *, memory: str | int | None = None, threads: int | str | None = None) -> Estimate:
    """What `krill.preprocess` with this config would take."""
    return run_estimate(load_config(config, memory=memory, threads=threads), floor=resident_bytes())


def run_estimate(config: KrillConfig, *, floor: int = 0) -> Estimate:
    """The same for the command line, where the budget is the whole process."""
    config.require_for_preprocess()
    limit = resolve_limit(config.memory)
    threads = resolve_threads(config.threads)
    with bounded_process(threads, parquet=config.preprocess.output != "tokens"):
        return _estimate(config, limit, threads, floor)


def _estimate(config: KrillConfig, limit: int, threads: int, floor: int) -> Estimate:
    corpus = open_input(config)
    text = decoded_bytes(corpus)
    plan = make_plan(
        limit, Meter(limit, floor).used, preprocess_needs(config, threads, text, corpus.held_bytes)
    )
    spill, output = estimate_disk(config, corpus)
    return Estimate(
        plan,
        threads,
        len(corpus.files),
        corpus.input_bytes,
        text,
        spill,
        output,
        1 + text * _seconds_per_byte(config) / threads,
    )


def _seconds_per_byte(config: KrillConfig) -> float:
    settings = config.preprocess
    seconds = 0.0
    if settings.dedup != "none":
        seconds += 1 / _SCAN_RATE
    if settings.output != "tokens":
        seconds += 1 / _TEXT_RATE
    if settings.output != "text":
        seconds += 1 / _encoding_rate(config)
    return seconds


def _encoding_rate(config: KrillConfig) -> float:
    if config.tokenizer.builtin:
        return _BYTE_RATE
    return _NATIVE_RATE if fallback_notice(config.tokenizer) is None else _HUGGING_FACE_RATE
