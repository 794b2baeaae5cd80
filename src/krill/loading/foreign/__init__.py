"""Datasets of other tools, and remote ones.

In: a Hugging Face `save_to_disk` folder, Parquet files, datatrove's `.ds` files, or a URL of these or of a
Krill dataset. Out: a `RowSource`. Held in memory: an index of where rows are, and a few decoded rows; on
disk, a cache of a stated size.
"""
