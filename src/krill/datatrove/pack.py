"""`PackDataset`: the tokens of all tasks as one dataset, the last step of a pipeline.

In: a folder of `.ds` files that `Tokenize` or datatrove's `DocumentTokenizer` wrote. Out: the folder that
`krill.load` and `datasets.load_from_disk` open, whole or not at all: the same rows, in the same order,
however many tasks made the tokens of the same documents in the same order of files. Held in memory: one
record batch of rows, and for `bfd` a window of documents' lengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from datatrove.data import DocumentsPipeline
from datatrove.io import DataFolderLike, get_datafolder
from datatrove.pipeline.base import PipelineStep
from numpy.typing import NDArray

import krill
from krill.budget import Meter, Need, make_plan, resident_bytes, resolve_limit
from krill.config import load_config
from krill.dataset import DatasetPart, Layout, Manifest, RowBatch, ShardInfo, ShardWriter, write_dataset_parts
from krill.dataset.dataset_files import output_kind
from krill.dataset.shard import token_shard_name
from krill.datatrove.ds_files import DsFiles
from krill.errors import ConfigError, InputError
from krill.pack import FittedRows, Fitting, PackedRows, PackingWindows, TokenFiles, WrappedRows, fitting_of
from krill.pipeline.stages.pack import row_ranges
from krill.pipeline.stages.windows import PackedSource, pack_cost
from krill.storage.folder_storage import FolderStorage
from krill.storage.run import FINISHED, PUBLISHED, Run, identity_of
from krill.tokenizer import open_encoder

_COMMAND: Final = "pack"
# The keys of `preprocess:` that shape the rows.
_SHAPING: Final = ("sequence_len", "packing", "pack_window", "shard_size")


class PackDataset(PipelineStep):
    """Runs as one task, after `Tokenize`. `tokenizer` is the one that made the tokens. With `verify`, files
    of `krill export --to datatrove` are held against their checksums first; others have none."""

    type = "krill"
    name = "pack"

    def __init__(
        self,
        input_folder: DataFolderLike,
        output_folder: str | Path,
        tokenizer: str | Path,
        sequence_len: int = 2048,
        packing: Literal["wrapped", "bfd", "none"] = "wrapped",
        pack_window: int = 10_000,
        shard_size: int | str = "200MB",
        memory: int | str = "256MB",
        overwrite: bool = False,
        verify: bool = True,
    ) -> None:
        super().__init__()
        self.input_folder = get_datafolder(input_folder)
        self.output_folder = str(output_folder)
        self.memory = memory
        self.overwrite = overwrite
        self.verify = verify
        shaping = dict(zip(_SHAPING, (sequence_len, packing, pack_window, shard_size), strict=True))
        settings = {"prepared_path": self.output_folder, **shaping}
        self.config = load_config({"tokenizer": {"path": str(tokenizer)}, "preprocess": settings})
        if not self.input_folder.is_local():
            raise ConfigError(
                f"`PackDataset` reads `.ds` files of this machine, not `{self.input_folder.path}`",
                hint="mount or copy the folder",
            )

    def run(self, data: DocumentsPipeline = None, rank: int = 0, world_size: int = 1) -> None:
        """Write the dataset; says and does nothing where it is finished already."""
        if world_size != 1:
            raise ConfigError(
                f"`PackDataset` is one task, not {world_size}", hint="give the executor tasks=1"
            )
        files = DsFiles.find(Path(self.input_folder.path))
        tokenizer = open_encoder(self.config.tokenizer).describe()
        described = self._describe(files, tokenizer)
        storage = FolderStorage(Path(self.output_folder), setting="output_folder", kind=output_kind(_COMMAND))
        with self.track_time(), Run(storage) as run:
            if run.begin(described, overwrite=self.overwrite) in (FINISHED, PUBLISHED):
                return
            with Meter(resolve_limit(self.memory), resident_bytes()) as meter:
                plan = make_plan(meter.limit, 0, self._needs(files.dtype))
                with meter.stage("pack") as stage:
                    if self.verify:
                        files.check()
                    tokens = files.token_files(run.stages)
                    rows = self._rows(tokens, files.dtype)
                    part = self._write(rows, files.dtype, run.dataset, int(tokenizer["vocab_size"]))
                facts = _facts(tokens, part, stage)
                facts |= {"budget": meter.report(plan), "seconds": stage["seconds"]}
            manifest = Manifest(**described, **facts, dataset=part, tokenizer=tokenizer)
            manifest.save(run.dataset)
            run.publish()
        self.stat_update("rows", value=part.rows, unit="dataset")
        self.stat_update("tokens", value=part.tokens, unit="dataset")

    def _describe(self, files: DsFiles, tokenizer: Mapping[str, Any]) -> dict[str, Any]:
        shaping = {name: getattr(self.config.preprocess, name) for name in _SHAPING}
        run: dict[str, Any] = {
            "krill": krill.__version__,
            "command": _COMMAND,
            "config": {"preprocess": shaping},
            "inputs": list(files.inputs),
        }
        return {**run, "identity": identity_of([run, tokenizer["fingerprint"]])}

    def _layout(self, dtype: str) -> Layout:
        settings = self.config.preprocess
        return Layout(settings.sequence_len, dtype, fixed=settings.packing == "wrapped")

    def _fitting(self) -> Fitting:
        settings = self.config.preprocess
        return fitting_of(settings.packing, settings.sequence_len, settings.pack_window)

    def _needs(self, dtype: str) -> list[Need]:
        layout = self._layout(dtype)
        settings = self.config.preprocess
        window = 0 if settings.packing == "wrapped" else self._fitting().held_bytes
        return [Need("rows being packed", pack_cost(layout.row_bytes * layout.rows_per_batch) + window)]

    def _rows(self, tokens: TokenFiles, dtype: str) -> PackedRows:
        settings = self.config.preprocess
        if settings.packing == "wrapped":
            return WrappedRows(tokens, dtype, settings.sequence_len)
        windows = PackingWindows(tokens, self._fitting())
        counts = [windows.rows(number) for number in range(windows.count)]
        return FittedRows(windows, dtype, np.array(counts, np.int64))

    def _write(self, rows: PackedRows, dtype: str, folder: Path, vocab_size: int) -> DatasetPart:
        """The shards, and the files that make them one dataset; a token that the tokenizer doesn't have is
        damage, or another tokenizer's."""
        if rows.rows == 0:
            raise InputError(
                f"`{self.input_folder.path}` has too few tokens for a row of "
                f"{self.config.preprocess.sequence_len:,}",
                hint="give a shorter sequence_len",
            )
        layout = self._layout(dtype)
        shards: list[ShardInfo] = []
        for shard in row_ranges([PackedSource(None, rows)], layout, self.config.preprocess.shard_size):
            with ShardWriter(folder / token_shard_name(shard.number), layout) as writer:
                for batch in rows.read(shard.first, shard.rows, layout.rows_per_batch):
                    self._check_tokens(batch[0], vocab_size)
                    writer.write(RowBatch(*batch))
                shards.append(writer.close())
        part = DatasetPart(layout, tuple(shards))
        write_dataset_parts(folder, [part])
        return part

    def _check_tokens(self, ids: NDArray[Any], vocab_size: int) -> None:
        if len(ids) and int(ids.max()) >= vocab_size:
            raise InputError(
                f"the `.ds` files in `{self.input_folder.path}` have the token {int(ids.max())}, and the"
                f" vocabulary of `{self.config.tokenizer.path}` has {vocab_size:,}",
                hint="give the tokenizer that made them, or copy or write them again",
            )


def _facts(tokens: TokenFiles, part: DatasetPart, stage: Mapping[str, Any]) -> dict[str, Any]:
    documents = int(tokens.documents.sum())
    written = sum(shard.bytes for shard in part.shards)
    return {
        "stages": [{**stage, "bytes": written, "documents": documents, "tokens": tokens.total}],
        "documents": {"read": documents, "kept": documents, "dropped": {}, "notes": {}},
        "tokens": {"kept": part.tokens, "dropped_short": 0, "dropped_tail": tokens.total - part.tokens},
    }
