"""What a config says of conversations, as the settings of `krill.chat` and the steps of the pipeline.

In: the config and the files of its corpus. Out: the steps, the first of which render conversations; for other
configs, the steps as they were. Held in memory: the compiled template.

What it needs, Jinja and `krill.chat`, is imported for conversations alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from krill.config import DatasetConfig, KrillConfig
from krill.corpus.formats import CorpusFile
from krill.pipeline.chat_tokens import Renders
from krill.text import CleanText, Step
from krill.text.clean import LongEnough
from krill.tokenizer.tokenizer_file import config_file

if TYPE_CHECKING:
    from krill.chat import ChatFormat, ChatRenderer


def chat_steps(config: KrillConfig, files: Sequence[CorpusFile], steps: Sequence[Step]) -> list[Step]:
    """The steps of a config with those that make text of conversations first, if it has any; what the others
    see is the rendered text."""
    if not config.is_chat:
        return list(steps)
    from krill.pipeline.chat_step import RenderChat

    settings = config.preprocess
    formats = [chat_format(dataset) for dataset in config.datasets]
    render = RenderChat(open_renderer(config), formats, files, settings.on_error == "skip")
    still = [LongEnough(settings.min_chars)] if settings.min_chars > 0 else []
    return [CleanText(strip=False, min_chars=0), render, *still, *steps[1:]]


def open_renderer(config: KrillConfig) -> ChatRenderer:
    """The template of a config, checked against its tokenizer."""
    from krill.chat import ChatOptions, ChatRenderer

    settings = config.preprocess
    options = ChatOptions(
        chat_template=config.chat_template,
        chat_template_kwargs=config.chat_template_kwargs,
        date=config.chat_template_date,
        rewritten_turns=settings.rewritten_turns,
        special_in_content=settings.special_in_content,
        max_rendered_bytes=settings.max_document_bytes,
    )
    return ChatRenderer.open(config_file(config.tokenizer), options)


def chat_format(dataset: DatasetConfig) -> ChatFormat:
    """Its settings have the names of the config's keys."""
    from krill.chat import ChatFormat

    return ChatFormat(**{field.name: getattr(dataset, field.name) for field in fields(ChatFormat)})


def chat_warnings(steps: Sequence[Step]) -> list[str]:
    """What the template and the tokenizer make one wonder about."""
    return [warning for step in steps if isinstance(step, Renders) for warning in step.renderer.warnings]
