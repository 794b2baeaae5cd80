"""What a config says of conversations, as the settings of `krill.chat` and the steps of the pipeline.

In: the config and the files of its corpus. Out: the steps, the first of which render conversations; for other
configs, the steps as they were. Held in memory: the compiled template.

What it needs, Jinja and `krill.chat`, is imported for conversations alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from krill.budget import Meter
from krill.config import DatasetConfig, KrillConfig
from krill.corpus.formats import CorpusFile
from krill.pipeline.chat_tokens import Renders
from krill.pipeline.needs import process_bytes
from krill.text import CleanText, Step
from krill.text.clean import LongEnough
from krill.tokenizer.tokenizer_file import config_file

if TYPE_CHECKING:
    from krill.chat import ChatFormat, RendererSettings
    from krill.pipeline.chat_step import RenderChat


def chat_steps(
    config: KrillConfig,
    files: Sequence[CorpusFile],
    steps: Sequence[Step],
    settings_of_run: RendererSettings | None = None,
) -> list[Step]:
    """The steps of a config with those that make text of conversations first, if it has any; what the others
    see is the rendered text. The template is read from its file, unless the run that another process began
    says what it is."""
    if not config.is_chat:
        return list(steps)
    from krill.chat import ChatRenderer
    from krill.pipeline.chat_step import RenderChat

    settings = config.preprocess
    formats = [chat_format(dataset) for dataset in config.datasets]
    renderer = ChatRenderer.of(settings_of_run or read_chat_settings(config))
    render = RenderChat(renderer, formats, files, settings.on_error == "skip")
    still = [LongEnough(settings.min_chars)] if settings.min_chars > 0 else []
    return [CleanText(strip=False, min_chars=0), render, *still, *steps[1:]]


def render_in_processes(step: RenderChat, processes: int, config: KrillConfig, meter: Meter) -> RenderChat:
    """The step with so many processes that render conversations."""
    from krill.chat.blocks import WORK, work_settings
    from krill.threads.processes import WorkerProcesses

    settings = work_settings(step.renderer.settings, step.formats)
    return replace(step, processes=WorkerProcesses(WORK, settings, processes, process_bytes(config), meter))


def read_chat_settings(config: KrillConfig) -> RendererSettings:
    """The template of a config, and what of its tokenizer renderings depend on."""
    from krill.chat import ChatOptions
    from krill.chat.template import read_settings

    settings = config.preprocess
    options = ChatOptions(
        chat_template=config.chat_template,
        chat_template_kwargs=config.chat_template_kwargs,
        date=config.chat_template_date,
        rewritten_turns=settings.rewritten_turns,
        special_in_content=settings.special_in_content,
        max_rendered_bytes=settings.max_document_bytes,
    )
    return read_settings(config_file(config.tokenizer), options)


def chat_format(dataset: DatasetConfig) -> ChatFormat:
    """Its settings have the names of the config's keys."""
    from krill.chat import ChatFormat

    return ChatFormat(**{field.name: getattr(dataset, field.name) for field in fields(ChatFormat)})


def chat_warnings(steps: Sequence[Step]) -> list[str]:
    """What the template and the tokenizer make one wonder about."""
    return [warning for step in steps if isinstance(step, Renders) for warning in step.renderer.warnings]
