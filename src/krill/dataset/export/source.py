"""The output of `krill preprocess` that an export reads.

In: a folder. Out: its parts by split, how documents continue over their rows, its documents, its tokenizer,
and a hash of its content. Held in memory: the manifest, and one batch or row group while reading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from krill import _native
from krill.dataset.export.documents import Joining
from krill.dataset.export.options import ExportOptions, What
from krill.dataset.manifest import DatasetPart, Manifest
from krill.dataset.reader import Dataset, part_of
from krill.dataset.rows import RowBatch
from krill.dataset.shard_file import ShardFile
from krill.dataset.text_shard import TextShardReader
from krill.errors import InputError, KrillError
from krill.threads.progress import Progress

if TYPE_CHECKING:
    from krill.config import TokenizerConfig
    from krill.tokenizer import Encoder

# Documents of about this many bytes become lines at once: as Python strings they may take four times that.
_BYTES_AT_ONCE = 1_000_000
_WITHOUT_LABELS = ("megatron", "bin", "datatrove", "litdata-tokens")
_TOKENIZER_HINT = "say with --tokenizer where its tokenizer.json is, or write ids: leave out --text"


@dataclass(frozen=True, slots=True)
class ExportSource:
    folder: Path
    manifest: Manifest
    verify: bool = True
    """Whether what is read is held against the checksums of the manifest, while it is read."""

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = True, limit: int | None = None) -> ExportSource:
        folder = Path(path)
        manifest = Manifest.load(folder, limit=limit)
        if manifest.dataset is None and manifest.text is None:
            raise InputError(
                f"`{folder}` was made by `krill {manifest.command}` and holds neither tokens nor documents",
                hint="give the folder that `krill preprocess` wrote",
            )
        return cls(folder, manifest, verify)

    def what(self, options: ExportOptions) -> What:
        """What will be exported: as asked, or tokens where there are some."""
        if options.what == "text" and self.manifest.text is None:
            raise InputError(
                f"`{self.folder}` holds token rows but no documents",
                hint="prepare it with `output: both`, or decode them: --to jsonl --text",
            )
        if options.to in _WITHOUT_LABELS and self.manifest.dataset and self.manifest.dataset.layout.labels:
            raise InputError(
                f"`{self.folder}` says which tokens are learned, and {options.to} has no place for that",
                hint="say --to parquet, mds, litdata or jsonl, or train on the folder as it is",
            )
        wants_tokens = options.what == "tokens" or options.to != "jsonl" or options.text
        if self.manifest.dataset is None and (wants_tokens or options.lines == "rows"):
            raise InputError(
                f"`{self.folder}` holds documents but no token rows",
                hint="prepare it with `output: both`, or write its documents: --to jsonl --what text",
            )
        return options.what or ("tokens" if self.manifest.dataset is not None else "text")

    def parts(self, split: str) -> dict[str, DatasetPart]:
        """The token rows by the name of their split; what was not split is all `train`."""
        if split == "all":
            return {part.split or "train": part for part in self.manifest.parts}
        hint = "leave out --split, or set `preprocess.split.validation` and prepare it again"
        return {split: part_of(self.folder, self.manifest, split, hint=hint)}

    @property
    def vocab_size(self) -> int:
        assert self.manifest.tokenizer is not None, "a manifest with token rows has a tokenizer"
        return int(self.manifest.tokenizer["vocab_size"])

    def token(self, name: str) -> int | None:
        """`eos_id` or `bos_id`, where the tokenizer has it."""
        value = (self.manifest.tokenizer or {}).get(name)
        return value if isinstance(value, int) else None

    @property
    def max_document_bytes(self) -> int:
        return int(self._setting("max_document_bytes", 4_000_000))

    def joining(self, part: DatasetPart) -> Joining:
        """When a document continues in the next row of a part."""
        packing = self._setting("packing", "wrapped" if part.layout.fixed else "bfd")
        # A conversation never continues in another row.
        in_order = packing in ("wrapped", "none") and not self._setting("shuffle", False)
        in_order = in_order and not part.layout.labels
        first_rows = tuple(source.first for source in part.sources) or (0,)
        return Joining(part.layout.sequence_len, self.token("eos_id") if in_order else None, first_rows)

    def rows(self, split: str, progress: Progress) -> Iterator[RowBatch]:
        with Dataset(self.folder, split=split, cache_bytes=0) as dataset:  # each row is read once
            for batch in dataset.verified_batches() if self.verify else dataset.batches():
                yield batch
                progress.advance(batch.tokens.nbytes + batch.seq_lengths.nbytes + batch.seq_offsets.nbytes)

    def documents(self, progress: Progress) -> Iterator[pa.RecordBatch]:
        """All kept documents with their columns, in order."""
        assert self.manifest.text is not None
        for shard in self.manifest.text.shards:
            with TextShardReader(ShardFile(self.folder, shard), verify=self.verify) as opened:
                groups = len(opened.group_rows)
                for group in range(groups):
                    yield from _slices(opened.read(group))
                    _native.trim()  # else each row group leaves some of its pages behind
                    progress.advance(shard.bytes // groups)
                opened.finish()

    def fingerprint(self) -> dict[str, Any]:
        """The source's run, and a hash of its files and of what joins documents."""
        content: list[Any] = [self.manifest.tokenizer]
        for part in self.manifest.parts:
            content += [part.split, asdict(self.joining(part)), *(shard.sha256 for shard in part.shards)]
        if self.manifest.text is not None:
            content += [shard.sha256 for shard in self.manifest.text.shards]
        return {
            "path": str(self.folder),
            "command": self.manifest.command,
            "identity": self.manifest.identity,
            "content": hashlib.sha256(orjson.dumps(content)).hexdigest(),
        }

    def tokenizer_config(self, moved_to: Path | None) -> TokenizerConfig:
        """The tokenizer that the run was configured with, or the path where it is now."""
        from krill.config import load_config
        from krill.tokenizer.tokenizer_file import tokenizer_file

        fact = f"`{self.folder}` does not say what its tokenizer is"
        try:
            here = {"tokenizer": {"path": str(moved_to)}}
            settings = here if moved_to is not None else self.manifest.extra["settings"]
            config = load_config(dict(settings), environ={}).tokenizer
            if config.path is not None:
                fact = f"there is no tokenizer at `{config.path}`"
                tokenizer_file(config.path)
        except (KrillError, KeyError, TypeError, ValueError):
            raise InputError(fact, hint=_TOKENIZER_HINT) from None
        return config

    def open_tokenizer(self, config: TokenizerConfig, threads: int) -> Encoder:
        """The very tokenizer that made the tokens: another one would give another text."""
        from krill.tokenizer import open_encoder

        encoder = open_encoder(config, threads=threads)
        expected = (self.manifest.tokenizer or {}).get("fingerprint")
        if encoder.describe()["fingerprint"] != expected:
            raise InputError(
                f"the tokenizer `{encoder.name}` is not the one that made the tokens of `{self.folder}`",
                hint=_TOKENIZER_HINT,
            )
        return encoder

    def _setting(self, name: str, default: Any) -> Any:
        """A key of `preprocess:` that shaped the output."""
        settings = self.manifest.config.get("preprocess")
        return settings.get(name, default) if isinstance(settings, dict) else default


def _slices(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """A row group in batches of about `_BYTES_AT_ONCE`."""
    at_once = max(1, table.num_rows * _BYTES_AT_ONCE // max(1, table.nbytes))
    yield from table.to_batches(max_chunksize=at_once)
