"""What a config says is read: its datasets, and what `dedup.against` compares them with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from krill.config import KrillConfig
from krill.corpus import Corpus, DatasetSource, open_corpus
from krill.pipeline.seen_before import against_sources


def open_input(config: KrillConfig) -> Corpus:
    """The corpus of this config."""
    return _open(
        config,
        [
            DatasetSource(
                path=dataset.path,
                split=dataset.split,
                text_column=dataset.text_column,
                separator=dataset.separator,
                columns=dataset.columns,
            )
            for dataset in config.datasets
        ],
    )


def open_against(config: KrillConfig) -> Corpus | None:
    """The corpora of `dedup.against`, if there are any."""
    sources = against_sources(config)
    return _open(config, sources) if sources else None


def _open(config: KrillConfig, sources: Sequence[DatasetSource]) -> Corpus:
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
    )
