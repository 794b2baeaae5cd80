"""What a config says is read: its datasets, and what `dedup.against` compares them with.

In: a config. Out: a corpus, or a BudgetError before a model or a document is read, if the budget is too small
for any input. Held in memory: the list of files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from krill.budget import Meter, Need
from krill.config import DatasetConfig, KrillConfig
from krill.config.dataset import CHAT
from krill.corpus import Corpus, DatasetSource, open_corpus
from krill.corpus.formats import Format
from krill.corpus.json_rows import ROW
from krill.errors import BudgetError, KrillError
from krill.pipeline.needs import InputSizes, sizes_of, suspect_of
from krill.pipeline.seen_before import against_sources

# What rows of conversations are made up of, by their form.
_CHAT_COLUMNS: Final = (
    *("messages", "conversations", "conversation", "prompt", "completion", "system", "instruction", "input"),
    *("output", "text", "tools", "chat_template_kwargs"),
)


def chat_columns(dataset: DatasetConfig) -> tuple[str, ...]:
    """The columns that a conversation may be in."""
    given = () if dataset.field_messages is None else (dataset.field_messages,)
    return tuple(dict.fromkeys((*given, *_CHAT_COLUMNS)))


def open_input(config: KrillConfig) -> Corpus:
    return _open(
        config,
        [
            DatasetSource(
                path=dataset.path,
                split=dataset.split,
                text_column=ROW if dataset.type == CHAT else dataset.text_column,
                separator=dataset.separator,
                columns=dataset.columns,
                row_columns=chat_columns(dataset) if dataset.type == CHAT else (),
                format=None if dataset.format is None else Format(dataset.format),
                paths_file=dataset.paths_file,
                max_page_bytes=dataset.extract.max_page_bytes,
            )
            for dataset in config.datasets
        ],
        pages=True,
    )


def open_against(config: KrillConfig) -> Corpus | None:
    """The corpora of `dedup.against`, if there are any."""
    sources = against_sources(config)
    return _open(config, sources) if sources else None


def _open(config: KrillConfig, sources: Sequence[DatasetSource], *, pages: bool = False) -> Corpus:
    settings = config.preprocess
    return open_corpus(
        sources,
        unit_bytes=settings.unit_bytes,
        max_document_bytes=settings.max_document_bytes,
        drop_oversize=settings.oversize == "drop",
        skip_malformed=settings.on_error == "skip",
        default_separator=(config.tokenizer.special_tokens or [""])[0],
        batch_rows=settings.batch_rows,
        exclude=[Path(settings.prepared_path)],
        verify=config.verify,
        pages=pages,
    )


def refuse_early(
    config: KrillConfig, meter: Meter, needs: Callable[[InputSizes | None], Sequence[Need]]
) -> None:
    """Plan without the input; if that is refused, list the files, and refuse with what they need as well.

    From here on the budget is guarded: the list of the files alone may be too large for it.
    """
    meter.suspect = suspect_of(config)
    try:
        meter.plan(needs(None))
    except BudgetError as refusal:
        least = (refusal.hint or "").replace("would do", "is the least for any input", 1)
        meter.guard(BudgetError(refusal.message, hint=least))
        try:
            sizes = sizes_of(open_input(config))
        except KrillError:
            raise refusal from None
        meter.plan(needs(sizes))
        raise


def writes_parquet(config: KrillConfig) -> bool:
    """Whether a run loads what writes Parquet, which counts from its beginning."""
    return config.preprocess.output != "tokens" or config.preprocess.rejected
