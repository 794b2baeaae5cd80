"""`krill estimate`: the plan, the disk and the rough time of a run, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from krill.budget import Need, Plan, resident_bytes
from krill.budget.process import metered_process
from krill.config import KrillConfig, load_config
from krill.faults import system_errors
from krill.pipeline.block_encoder import check_tokens
from krill.pipeline.chat_input import chat_steps
from krill.pipeline.dedup_needs import load_databases
from krill.pipeline.input import open_input, refuse_early, writes_parquet
from krill.pipeline.needs import InputSizes, plan_run, sizes_of
from krill.pipeline.pipeline import predict, preprocess_needs
from krill.pipeline.prediction import RunPrediction
from krill.text.build import steps_of
from krill.tokenizer import open_encoder


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would take."""

    plan: Plan
    threads: int
    files: int
    input_bytes: int
    predicted: RunPrediction
    vocab_size: int | None
    """Of the tokenizer; None where only text is written."""
    workers: int = 1

    def to_json(self) -> dict[str, Any]:
        return {
            "budget": self.plan.to_json(),
            "threads": self.threads,
            "workers": self.workers,
            "files": self.files,
            "input_bytes": self.input_bytes,
            **self.predicted.to_json(),
        }


@system_errors()
def estimate(config: Any, *, memory: str | int | None = None, threads: int | str | None = None) -> Estimate:
    """What `krill.preprocess` with this config would take."""
    return run_estimate(load_config(config, memory=memory, threads=threads), floor=resident_bytes())


def run_estimate(config: KrillConfig, *, floor: int = 0, workers: int = 1) -> Estimate:
    """The same for the command line, where the budget is the whole process, and for so many workers of an
    engine, each with this budget and these threads."""
    config.require_for_preprocess()
    load_databases(config)
    parquet = writes_parquet(config)  # the run itself begins with the same code in memory
    with metered_process(config.memory, config.threads, floor=floor, parquet=parquet) as meter:
        threads = meter.threads
        refuse_early(config, meter, lambda sizes: preprocess_needs(config, threads, sizes, made=False))
        steps = steps_of(config.preprocess)
        # What is only sampled need not be read to its end.
        corpus = open_input(config.model_copy(update={"verify": False}))
        steps = chat_steps(config, corpus.files, steps)

        def needs(sizes: InputSizes, processes: int) -> list[Need]:
            return preprocess_needs(config, threads, sizes, processes=processes)

        plan, processes = plan_run(meter, config, threads, sizes_of(corpus), needs)
        encoder = None
        if config.preprocess.output != "text":
            encoder = open_encoder(config.tokenizer, plan, threads)
            check_tokens(config, encoder)
        predicted = predict(config, corpus, steps, encoder, threads, workers, processes)
        plan = plan.expecting(needs(predicted.sizes, processes))
    vocab_size = None if encoder is None else encoder.vocab_size
    return Estimate(plan, threads, len(corpus.files), corpus.input_bytes, predicted, vocab_size, workers)
