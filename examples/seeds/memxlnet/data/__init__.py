"""`krill.qa` where older scripts look for it."""

from krill.qa import (
    ChunkedCacheManager,
    LazySquadLikeQADataset,
    StreamingSquadProcessor,
    configure_memory_tokens,
    create_dataloader,
    create_dataset_from_cache,
    create_evaluation_dataloader,
    load_dataset_from_hub,
    process_and_cache_dataset,
    upload_processed_dataset_to_hub,
)

__all__ = [
    "ChunkedCacheManager",
    "LazySquadLikeQADataset",
    "StreamingSquadProcessor",
    "configure_memory_tokens",
    "create_dataloader",
    "create_dataset_from_cache",
    "create_evaluation_dataloader",
    "load_dataset_from_hub",
    "process_and_cache_dataset",
    "upload_processed_dataset_to_hub",
]
