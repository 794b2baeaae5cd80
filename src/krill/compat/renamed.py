"""Names that packages had in earlier versions, by package, each with the name that it has now.

Reached through `lazy_names` of these packages: code that was written for them goes on working.
"""

from typing import Final

RENAMED: Final = {
    "krill.corpus": {"Part": "FileRange"},
    "krill.dedup": {
        "Generation": "IndexGeneration",
        "Resolution": "MinhashResult",
        "Shuffle": "ShufflePlan",
        "keep_pieces": "keep_lines",
        "near_least_share": "minhash_min_share",
        "near_memory_share": "minhash_memory_share",
        "near_spill_bytes": "minhash_spill_bytes",
        "near_useful_share": "minhash_useful_share",
        "piece_hashes": "line_hashes",
        "resolve_bloom": "dedup_bloom",
        "resolve_exact": "dedup_exact",
        "resolve_minhash": "dedup_minhash",
    },
    "krill.pack": {"TokenRuns": "TokenFiles", "Windows": "PackingWindows"},
    "krill.text": {"Clean": "CleanText"},
}
