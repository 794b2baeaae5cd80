"""What a config says of web pages, as the steps of the pipeline.

In: the config and the files of its corpus. Out: the steps, of which the first need nothing but addresses,
and the next extracts the text of pages; for other input, the steps as they were. Held in memory: the steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from krill.config import DatasetConfig, KrillConfig
from krill.corpus import Corpus
from krill.corpus.pages import PAGE_COLUMNS
from krill.corpus.readers import Limits
from krill.text import Step
from krill.text.extract import ExtractPages, PageSettings
from krill.text.extractors import extractor_of
from krill.text.url_filter import UrlFilter


def web_steps(config: KrillConfig, corpus: Corpus, steps: Sequence[Step]) -> list[Step]:
    """The steps of a config with the extraction of pages before them, if there are any; before that, what an
    address decides."""
    if not corpus.largest_page:
        return list(steps)
    preprocess = config.preprocess
    limits = Limits(preprocess.unit_bytes, preprocess.max_document_bytes, preprocess.oversize == "drop")
    extract = ExtractPages([page_settings(dataset) for dataset in config.datasets], corpus.files, limits)
    by_address = [
        step for step in steps if isinstance(step, UrlFilter) and step.section.column in PAGE_COLUMNS
    ]
    return [*by_address, extract, *(step for step in steps if step not in by_address)]


def page_settings(dataset: DatasetConfig) -> PageSettings:
    titles = "title" in dataset.columns or "*" in dataset.columns
    return PageSettings(
        dataset.extract,
        extractor_of(dataset.extract, titles=titles),
        frozenset(dataset.skip_urls),
        titles,
    )
