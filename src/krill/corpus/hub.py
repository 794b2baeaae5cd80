"""Datasets of the Hugging Face hub, by id: streamed, never downloaded as a whole.

`org/name`, or `org/name:config` for one of several configurations. Needs the extra `hub`. Held in memory:
what `datasets` reads ahead, and a batch of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from krill.corpus.blocks import SequentialFile, SizedBlock
from krill.corpus.discovery import hub_name
from krill.corpus.formats import CorpusFile
from krill.corpus.readers import Limits
from krill.corpus.rows import row_blocks, wanted_columns
from krill.corpus.splits import parse_split
from krill.errors import InputError, MissingExtra
from krill.faults import first_line

_BATCH_ROWS = 256


class HubDataset(SequentialFile):
    def __init__(self, file: CorpusFile, limits: Limits) -> None:
        super().__init__(file, limits)
        self._dataset = _open(file)

    def _blocks(self, start: int) -> Iterator[SizedBlock]:
        """Blocks from row `start` on; `datasets` skips what precedes, by whole shards where it can."""
        yield from row_blocks(self._file, self._limits, self._batches(start), start, to_end=True)

    def rows(self) -> int:
        """How many there are, as the hub says; reading them all to find out could take days."""
        splits = self._dataset.info.splits or {}
        name = parse_split(self._file.source.split).name
        if name not in splits or not splits[name].num_examples:
            raise InputError(
                f"the hub doesn't say how many rows `{self._file.path}` has, which"
                f" `{self._file.source.split}` depends on",
                hint="use a slice by row numbers from the beginning, such as `train[:10000]`",
            )
        return int(splits[name].num_examples)

    def columns(self) -> list[str]:
        names = self._dataset.column_names
        return list(next(iter(self._dataset), {})) if names is None else list(names)

    def _batches(self, start: int) -> Iterator[pa.RecordBatch]:
        dataset = self._dataset.skip(start) if start else self._dataset
        if self._file.stop is not None:
            dataset = dataset.take(self._file.stop - start)
        columns: list[str] | None = None
        rows = min(_BATCH_ROWS, self._limits.batch_rows or _BATCH_ROWS)
        try:
            for table in dataset.with_format("arrow").iter(batch_size=rows):
                if columns is None:
                    columns = wanted_columns(self._file, table.schema)
                yield from table.select(columns).combine_chunks().to_batches()
        except InputError:
            raise
        except Exception as error:  # whatever the network, the hub or a file there can raise
            raise InputError(
                f"can't read `{self._file.path}` from the hub: {first_line(error)}",
                hint="check the id and the connection, then run the same command again",
            ) from error


def revision(file: CorpusFile) -> str | None:
    """The commit of the dataset's repository, if the hub can be asked."""
    try:
        import huggingface_hub

        return str(huggingface_hub.HfApi().dataset_info(hub_name(file.location)[0]).sha)
    except Exception:  # offline, private, or not installed: then it is unknown
        return None


def _open(file: CorpusFile) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtra(f"reading `{file.path}` from the hub", "hub") from error
    name, config = hub_name(file.location)
    split = parse_split(file.source.split).name
    try:
        return datasets.load_dataset(name, config, split=split, streaming=True)
    except Exception as error:  # whatever the network, the hub or the dataset's description can raise
        raise InputError(
            f"no such file: `{file.path}`; and it can't be read from the hub: {first_line(error)}",
            hint="check the path; for a dataset with several configurations write `org/name:config`",
        ) from error
