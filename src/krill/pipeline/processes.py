"""Worker processes for the steps that only Python can do.

In: the steps of a run, and how many processes the plan has room for. Out: the steps; those that render
conversations, and those that extract pages by a library which holds Python's lock, with their processes. Held
in memory: nothing yet, for processes are started when they are first needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from krill.budget import Meter
from krill.config import KrillConfig
from krill.pipeline.chat_input import render_in_processes
from krill.pipeline.needs import process_bytes
from krill.text import Step
from krill.text.extract import ExtractPages
from krill.text.extractors import WORK, work_settings
from krill.threads.processes import WorkerProcesses


def in_processes(steps: Sequence[Step], processes: int, config: KrillConfig, meter: Meter) -> list[Step]:
    """The steps with so many processes; with 0, as they are."""
    if not processes:
        return list(steps)
    if config.is_chat:
        from krill.pipeline.chat_step import RenderChat

        return [
            render_in_processes(step, processes, config, meter) if isinstance(step, RenderChat) else step
            for step in steps
        ]

    def moved(step: Step) -> Step:
        if not isinstance(step, ExtractPages):
            return step
        settings = work_settings([(source.config, source.titles) for source in step.settings])
        return replace(
            step, processes=WorkerProcesses(WORK, settings, processes, process_bytes(config), meter)
        )

    return [moved(step) for step in steps]
