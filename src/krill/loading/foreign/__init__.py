"""Datasets that Krill did not write, and data that is elsewhere.

Comes in: a Hugging Face `save_to_disk` folder, Parquet files, datatrove's `.ds` files, or a URL of these or
of a Krill dataset. Goes out: a `RowSource`. Held in memory: an index of where rows are, and a few decoded
rows; on disk, a cache of a stated size.
"""
