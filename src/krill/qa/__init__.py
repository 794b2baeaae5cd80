"""Question answering on long documents: features, their cache, batches over time, metrics.

In: questions with contexts and answers (SQuAD's JSON, JSON lines, Hugging Face datasets) and a fast
tokenizer. Out: a cache of features on disk, any feature or document of it by number, batches in which a
document's segments follow each other, and scores of predictions. Held in memory: one unit of paragraphs
while features are made, a few mapped units while they are read.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_names

if TYPE_CHECKING:
    from krill.compat.qa import LazySquadLikeQADataset as LazySquadLikeQADataset
    from krill.compat.qa import create_dataloader as create_dataloader
    from krill.compat.qa import create_dataset_from_cache as create_dataset_from_cache
    from krill.compat.qa import create_evaluation_dataloader as create_evaluation_dataloader
    from krill.compat.qa import load_dataset_from_hub as load_dataset_from_hub
    from krill.compat.qa import process_and_cache_dataset as process_and_cache_dataset
    from krill.compat.qa import upload_processed_dataset_to_hub as upload_processed_dataset_to_hub
    from krill.compat.qa_chunks import ChunkedCacheManager as ChunkedCacheManager
    from krill.compat.qa_chunks import StreamingSquadProcessor as StreamingSquadProcessor
    from krill.qa.batches import QaLoader as QaLoader
    from krill.qa.cache import Prepared as Prepared
    from krill.qa.cache import prepare as prepare
    from krill.qa.dataset import QaDataset as QaDataset
    from krill.qa.features import Shape as Shape
    from krill.qa.layout import configure_memory_tokens as configure_memory_tokens
    from krill.qa.metrics import SquadScores as SquadScores
    from krill.qa.metrics import squad_metrics as squad_metrics
    from krill.qa.predictions import AnswerCollector as AnswerCollector
    from krill.qa.predictions import Prediction as Prediction
    from krill.qa.tables import InexactSpan as InexactSpan

__getattr__, __all__ = lazy_names(
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
