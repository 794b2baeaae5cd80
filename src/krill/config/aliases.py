"""The seeds' own keys, and what each becomes.

Configs written for the tool that the seeds describe use flat keys (`sequence_len`,
`dataset_prepared_path`) and a `datatrove:` block. They load unchanged: a table says for every such key
which canonical key it moves to, that it changes nothing, or why this version can't honour it. COMPAT's
preprocessing table is the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from krill.config.keys import Level
from krill.config.messages import Path


@dataclass(frozen=True, slots=True)
class Moved:
    """Another name of a canonical key."""

    target: Path
    note: str = ""


@dataclass(frozen=True, slots=True)
class Inert:
    """Accepted, and changes nothing; `why` says the reason."""

    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Known, but refused unless it is null or false."""

    why: str
    hint: str


@dataclass(frozen=True, slots=True)
class Appended:
    """One more entry of a list of filters: `name` with the value, or the values, as its `option`."""

    target: Path
    name: str
    option: str

    def entry(self, value: Any) -> dict[str, Any]:
        return {"name": self.name, self.option: [value] if isinstance(value, str) else value}


@dataclass(frozen=True, slots=True)
class Switched:
    """Where it is true, another key gets this value."""

    target: Path
    value: str


Rule = Moved | Inert | Refused | Appended | Switched

_BATCH_ROWS = Moved(("preprocess", "batch_rows"), "an upper bound only; never changes the output")
_SAME_EVERYWHERE: Mapping[str, Rule] = {
    "max_length": Moved(("preprocess", "max_chars"), "characters"),
    "minhash_threshold": Moved(("preprocess", "dedup", "threshold"), "for `minhash`"),
    "collect_stats": Inert("statistics are always collected"),
    "cleanup_temp": Inert("temporary files are always removed"),
    "num_workers": Moved(("threads",)),
}

FLAT_KEYS: Mapping[str, Rule] = {
    "sequence_len": Moved(("preprocess", "sequence_len")),
    "hub_tokenizer_id": Moved(("tokenizer", "hub_id")),
    "vocab_size": Moved(("tokenizer", "vocab_size")),
    "dataset_prepared_path": Moved(("preprocess", "prepared_path")),
    "dataset_prepared_min_length": Moved(("preprocess", "min_length")),
    "hub_model_id": Moved(("train", "hub_model_id")),
    "output_dir": Moved(("train", "output_dir")),
    "preprocess_memory_efficient": Inert("there is one mode, and it is bounded by `memory`"),
    "preprocess_chunk_size": _BATCH_ROWS,
    "streaming_chunk_size": _BATCH_ROWS,
    "preprocess_save_shard_size": Moved(("preprocess", "shard_size")),
    "preprocess_dedup_cache_dir": Moved(("preprocess", "dedup_cache_dir")),
    "sample_packing": Switched(("preprocess", "packing"), "bfd"),
    "excess_length_strategy": Moved(("preprocess", "overflow")),
    "val_set_size": Moved(("preprocess", "split", "validation"), "a share, not a count"),
    "dataset_processes": Moved(("threads",)),
    "dataset_num_proc": Moved(("threads",)),
    "min_length": Refused(
        "it may mean tokens or characters",
        "write `preprocess.min_length` for tokens, or `preprocess.min_chars` for characters",
    ),
    **_SAME_EVERYWHERE,
}
"""Keys of the top level."""

DATATROVE_KEYS: Mapping[str, Rule] = {
    "deduplication": Moved(("preprocess", "dedup", "method")),
    "min_length": Moved(("preprocess", "min_chars"), "characters"),
    "language_filter": Appended(("preprocess", "filters"), "language", "allow"),
    "distributed": Switched(("engine", "name"), "datatrove"),
    **_SAME_EVERYWHERE,
}
"""Keys inside the `datatrove:` block, wherever in it they stand."""

DATATROVE_LEVEL = Level(
    {
        "enabled": None,
        "pipeline_config": Level(
            {
                "deduplication": None,
                "quality_filters": Level(
                    {"min_length": None, "max_length": None, "language_filter": None}, listed=True
                ),
                "distributed": None,
                **dict.fromkeys(_SAME_EVERYWHERE),
            }
        ),
    }
)

MOVED_FROM_TOP: Mapping[str, Path] = {
    name: rule.target for name, rule in FLAT_KEYS.items() if isinstance(rule, Moved)
}
