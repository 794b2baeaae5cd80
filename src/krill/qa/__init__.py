"""Question answering on long documents: features, their cache, batches over time, metrics.

In: questions with contexts and answers (SQuAD's JSON, JSON lines, Hugging Face datasets) and a fast
tokenizer. Out: a cache of features on disk, any feature or document of it by number, batches in which a
document's segments follow each other, and scores of predictions. Held in memory: one unit of paragraphs
while features are made, a few mapped units while they are read.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_names

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

__getattr__ = lazy_names(
    __name__,
    {
        "krill.compat.qa": (
            "LazySquadLikeQADataset",
            "create_dataloader",
            "create_dataset_from_cache",
            "create_evaluation_dataloader",
            "load_dataset_from_hub",
            "process_and_cache_dataset",
            "upload_processed_dataset_to_hub",
        ),
        "krill.compat.qa_chunks": ("ChunkedCacheManager", "StreamingSquadProcessor"),
        "krill.qa.batches": ("QaLoader",),
        "krill.qa.cache": ("Prepared", "prepare"),
        "krill.qa.dataset": ("QaDataset",),
        "krill.qa.features": ("Shape",),
        "krill.qa.layout": ("configure_memory_tokens",),
        "krill.qa.metrics": ("SquadScores", "squad_metrics"),
        "krill.qa.predictions": ("AnswerCollector", "Prediction"),
        "krill.qa.tables": ("InexactSpan",),
    },
)
