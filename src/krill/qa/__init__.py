"""Question answering on long documents: features, their cache, batches over time, metrics.

In: questions with contexts and answers (SQuAD's JSON, JSON lines, Hugging Face datasets) and a fast
tokenizer. Out: a cache of features on disk, any feature or document of it by number, batches in which a
document's segments follow each other, and scores of predictions. Held in memory: one unit of paragraphs
while features are made, a few mapped units while they are read.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_attributes

if TYPE_CHECKING:
    from krill.compat.qa import (
        LazySquadLikeQADataset,
        create_dataloader,
        create_dataset_from_cache,
        create_evaluation_dataloader,
        load_dataset_from_hub,
        process_and_cache_dataset,
        upload_processed_dataset_to_hub,
    )
    from krill.compat.qa_chunks import ChunkedCacheManager, StreamingSquadProcessor
    from krill.qa.batches import QaLoader
    from krill.qa.cache import Prepared, prepare
    from krill.qa.dataset import QaDataset
    from krill.qa.features import Shape
    from krill.qa.layout import configure_memory_tokens
    from krill.qa.metrics import SquadScores, squad_metrics
    from krill.qa.predictions import AnswerCollector, Prediction
    from krill.qa.tables import InexactSpan

__all__ = [
    "AnswerCollector",
    "ChunkedCacheManager",
    "InexactSpan",
    "LazySquadLikeQADataset",
    "Prediction",
    "Prepared",
    "QaDataset",
    "QaLoader",
    "Shape",
    "SquadScores",
    "StreamingSquadProcessor",
    "configure_memory_tokens",
    "create_dataloader",
    "create_dataset_from_cache",
    "create_evaluation_dataloader",
    "load_dataset_from_hub",
    "prepare",
    "process_and_cache_dataset",
    "squad_metrics",
    "upload_processed_dataset_to_hub",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "AnswerCollector": "krill.qa.predictions",
        "ChunkedCacheManager": "krill.compat.qa_chunks",
        "InexactSpan": "krill.qa.tables",
        "LazySquadLikeQADataset": "krill.compat.qa",
        "Prediction": "krill.qa.predictions",
        "Prepared": "krill.qa.cache",
        "QaDataset": "krill.qa.dataset",
        "QaLoader": "krill.qa.batches",
        "Shape": "krill.qa.features",
        "SquadScores": "krill.qa.metrics",
        "StreamingSquadProcessor": "krill.compat.qa_chunks",
        "configure_memory_tokens": "krill.qa.layout",
        "create_dataloader": "krill.compat.qa",
        "create_dataset_from_cache": "krill.compat.qa",
        "create_evaluation_dataloader": "krill.compat.qa",
        "load_dataset_from_hub": "krill.compat.qa",
        "prepare": "krill.qa.cache",
        "process_and_cache_dataset": "krill.compat.qa",
        "squad_metrics": "krill.qa.metrics",
        "upload_processed_dataset_to_hub": "krill.compat.qa",
    },
)
