"""The manifest, `krill-run.json`: what a run did, and where everything is.

In: the run's facts, or a file that anybody may have written. Out: the file, written atomically, or a checked
`Manifest`: types, counts, offsets and names are verified before anything uses them, so that no manifest can
make a reader leave the folder or read past a file. Held in memory: the manifest, about 60 bytes for each
mebibyte of tokens it describes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from krill.budget import format_size, resident_bytes
from krill.dataset.fields import DAMAGED, Fields
from krill.dataset.layout import Layout
from krill.dataset.shard import ShardInfo, is_plain_name
from krill.errors import BudgetError, InputError
from krill.storage.atomic import in_one_line, write_json
from krill.storage.input_file import MOST_MANIFEST, json_bytes, read_input

MANIFEST_NAME = "krill-run.json"
FORMAT = 1


@dataclass(frozen=True)
class SourceRows:
    """The rows of one weighted source: `dataset` is its index under `datasets:`."""

    dataset: int
    weight: float
    first: int
    rows: int
    tokens: int

    @classmethod
    def from_fields(cls, fields: Fields) -> SourceRows:
        weight = fields.number("weight")
        counts = (fields.count(name) for name in ("first", "rows", "tokens"))
        return cls(fields.count("dataset"), weight, *counts)


@dataclass(frozen=True)
class DatasetPart:
    """The packed rows of a run, or of one split of it, which then has a folder of its name."""

    layout: Layout
    shards: tuple[ShardInfo, ...]
    split: str | None = None
    sources: tuple[SourceRows, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def tokens(self) -> int:
        if self.layout.fixed:
            return self.rows * self.layout.sequence_len
        return sum(shard.tokens or 0 for shard in self.shards)

    def folder(self, root: Path) -> Path:
        """Where the shards are in an output folder."""
        return root if self.split is None else root / self.split

    def paths(self, root: Path) -> list[str]:
        folder = self.folder(root)
        return [f"{folder}{os.sep}{shard.file}" for shard in self.shards]

    def to_json(self) -> dict[str, Any]:
        totals: dict[str, Any] = {"rows": self.rows, "tokens": self.tokens}
        if self.split is not None:
            totals["split"] = self.split
        if self.sources:
            totals["sources"] = [asdict(source) for source in self.sources]
        totals["shards"] = [shard.to_json() for shard in self.shards]
        return self.layout.to_json() | totals | dict(self.extra)

    @classmethod
    def from_fields(cls, fields: Fields) -> DatasetPart:
        layout = Layout.from_fields(fields)
        entries = fields.inners("shards")
        shards = tuple(ShardInfo.from_fields(entry) for entry in entries)
        for entry, shard in zip(entries, shards, strict=True):
            _check_shard(entry, shard, layout)
        if not shards:
            fields.refuse("shards", "is empty")
        split = fields.text("split") if fields.has("split") else None
        if split is not None and not is_plain_name(split):
            fields.refuse("split", f"must be a folder's name, not `{split[:80]}`")
        rows, tokens = fields.count("rows"), fields.count("tokens")
        given = fields.inners("sources") if fields.has("sources") else []
        part = cls(layout, shards, split, tuple(map(SourceRows.from_fields, given)), fields.rest())
        _check_total(fields, "rows", rows, part.rows)
        _check_total(fields, "tokens", tokens, part.tokens)
        _check_sources(fields, part)
        return part


def _check_shard(entry: Fields, shard: ShardInfo, layout: Layout) -> None:
    if len(shard.batches) != layout.batches_in(shard.rows):
        entry.refuse("batches", f"has {len(shard.batches)} offsets for {shard.rows} rows")
    tokens = shard.tokens
    if layout.fixed:
        tokens = shard.rows * layout.sequence_len
    elif tokens is None:
        entry.refuse("tokens", "is missing")
    elif not shard.rows <= tokens <= shard.rows * layout.sequence_len:
        entry.refuse("tokens", f"is {tokens}, which is not possible for {shard.rows} rows")
    if tokens * layout.dtype.itemsize > shard.bytes:
        entry.refuse("rows", f"is {shard.rows}, more than {shard.bytes} bytes can hold")


def _check_sources(fields: Fields, part: DatasetPart) -> None:
    """They follow each other and cover all rows."""
    if not part.sources:
        return
    row = 0
    for index, source in enumerate(part.sources):
        if source.first != row:
            fields.refuse(
                f"sources[{index}].first", f"is {source.first}, not {row}, where the row before ends"
            )
        row += source.rows
    _check_total(fields, "sources", row, part.rows)


@dataclass(frozen=True)
class TextPart:
    """The kept documents of a run."""

    shards: tuple[ShardInfo, ...]
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "shards": [shard.to_json() for shard in self.shards]} | dict(self.extra)

    @classmethod
    def from_fields(cls, fields: Fields) -> TextPart:
        shards = tuple(ShardInfo.from_fields(entry) for entry in fields.inners("shards"))
        rows = fields.count("rows")
        part = cls(shards, fields.rest())
        _check_total(fields, "rows", rows, part.rows)
        return part


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything in `krill-run.json`; `docs/dataset-format.md` says what each field means."""

    krill: str
    command: str
    identity: str
    config: Mapping[str, Any]
    inputs: Sequence[Mapping[str, Any]]
    budget: Mapping[str, Any]
    seconds: float
    stages: Sequence[Mapping[str, Any]]
    documents: Mapping[str, Any]
    tokens: Mapping[str, Any]
    dataset: DatasetPart | None = None
    validation: DatasetPart | None = None
    text: TextPart | None = None
    rejected: TextPart | None = None
    tokenizer: Mapping[str, Any] | None = None
    format: int = FORMAT
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    @property
    def parts(self) -> tuple[DatasetPart, ...]:
        """The token rows: none, all in one part, or one part for each split."""
        return tuple(part for part in (self.dataset, self.validation) if part is not None)

    @classmethod
    def load(cls, folder: str | Path, *, limit: int | None = None) -> Manifest:
        """Read and check the manifest of `folder`; the shards themselves are not opened.

        A BudgetError if the process would hold more than `limit` by it: a manifest lists every record batch.
        """
        folder = Path(folder)
        path = folder / MANIFEST_NAME
        manifest = cls.from_fields(Fields(_read_json(folder, path, limit), source=str(path)))
        _check_files(folder, manifest)
        return manifest

    def save(self, folder: str | Path) -> None:
        """Write the manifest; the last file of a run, since its presence says that the run is finished."""
        content = self.to_json()
        for part in (content["dataset"], content.get("validation"), content["text"], content.get("rejected")):
            if part is not None:
                # One shard a line: indented like the rest, every batch offset would take a line of its own.
                part["shards"] = [in_one_line(shard) for shard in part["shards"]]
        for name in ("timeline", "distributions"):
            if name in content:
                content[name] = in_one_line(content[name])
        write_json(Path(folder) / MANIFEST_NAME, content)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "krill": self.krill,
            "command": self.command,
            "identity": self.identity,
            "config": dict(self.config),
            "inputs": self.inputs,
            "budget": dict(self.budget),
            "seconds": self.seconds,
            "stages": list(self.stages),
            "documents": dict(self.documents),
            "tokens": dict(self.tokens),
            "dataset": self.dataset.to_json() if self.dataset else None,
            **({"validation": self.validation.to_json()} if self.validation else {}),
            "text": self.text.to_json() if self.text else None,
            **({"rejected": self.rejected.to_json()} if self.rejected else {}),
            "tokenizer": dict(self.tokenizer) if self.tokenizer is not None else None,
        } | dict(self.extra)

    @classmethod
    def from_fields(cls, fields: Fields) -> Manifest:
        _check_kind(fields)
        _check_format(fields)
        _check_figures(fields)
        dataset = None if fields.is_null("dataset") else DatasetPart.from_fields(fields.inner("dataset"))
        validation = _validation_part(fields) if fields.has("validation") else None
        text = None if fields.is_null("text") else TextPart.from_fields(fields.inner("text"))
        rejected = TextPart.from_fields(fields.inner("rejected")) if fields.has("rejected") else None
        tokenizer = None if fields.is_null("tokenizer") else fields.mapping("tokenizer")
        if dataset is not None:
            fields.inner("tokenizer").count("vocab_size", least=1)
        return cls(
            krill=fields.text("krill"),
            command=fields.text("command"),
            identity=fields.text("identity"),
            config=fields.mapping("config"),
            inputs=fields.mappings("inputs"),
            budget=fields.mapping("budget"),
            seconds=fields.number("seconds"),
            stages=fields.mappings("stages"),
            documents=fields.tally("documents"),
            tokens=fields.tally("tokens"),
            dataset=dataset,
            validation=validation,
            text=text,
            rejected=rejected,
            tokenizer=tokenizer,
            extra=fields.rest(),
        )


def _validation_part(fields: Fields) -> DatasetPart:
    part = DatasetPart.from_fields(fields.inner("validation"))
    if part.split is None or fields.is_null("dataset"):
        fields.refuse("validation", "has no split, or no training rows beside it")
    return part


def _check_total(fields: Fields, name: str, stated: int, counted: int) -> None:
    if stated != counted:
        fields.refuse(name, f"is {stated}, but the shards add up to {counted}")


def _check_kind(fields: Fields) -> None:
    """Other commands write a `krill-run.json` as well."""
    if fields.has("command") and not fields.has("dataset") and not fields.has("text"):
        raise InputError(
            f"`{fields.source}` was written by `krill {fields.text('command')}`: its folder is not a dataset",
            hint="name a folder that `krill preprocess` made",
        )


def _check_format(fields: Fields) -> None:
    version = fields.count("format")
    if version != FORMAT:
        raise InputError(
            f"`{fields.source}`: `format` is {version}, and this Krill reads format {FORMAT}",
            hint="pip install --upgrade krill-lm, or write the folder again with --overwrite",
        )


def _check_figures(fields: Fields) -> None:
    """The numbers that `krill inspect` shows are there, and are numbers."""
    for name in ("limit", "predicted_peak", "measured_peak"):
        fields.inner("budget").count(name)
    for stage in fields.inners("stages"):
        stage.text("name")
        stage.number("seconds")
        for name in ("bytes", "documents", "tokens", "peak"):
            stage.count(name)
    documents = fields.inner("documents")
    for name in ("read", "kept"):
        documents.count(name)
    for name in ("dropped", "notes"):
        documents.mapping(name)
    if fields.has("dataset") and not fields.is_null("dataset"):
        for name in ("kept", "dropped_short", "dropped_tail"):
            fields.inner("tokens").count(name)


def _read_json(folder: Path, path: Path, limit: int | None) -> Any:
    try:
        if limit is not None:
            _check_room(path, 2 * path.stat().st_size, limit)
        content = read_input(path, MOST_MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"`{folder}` {_what_it_is(folder)}", hint=_HINT) from None
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror}", hint=_HINT) from error
    if limit is not None:
        _check_room(path, _HELD_OF_JSON * json_bytes(content) - len(content), limit)
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise InputError(f"`{path}` is not valid JSON: {error}", hint=DAMAGED) from None


# Of the numbers of record batches there is a second copy while they are checked.
_HELD_OF_JSON = 2


def _check_room(path: Path, needed: int, limit: int) -> None:
    held = resident_bytes()
    if held + needed > limit:
        raise BudgetError(
            f"the budget is too small: `{path}` takes {format_size(needed)} to read beside"
            f" {format_size(held)} in use, given {format_size(limit)}",
            hint=f"--memory {-(-(held + needed) * 11 // 10 // 10**6)}MB would do",
        )


_HINT = f"give the folder that `krill preprocess` wrote; it holds `{MANIFEST_NAME}` once the run is finished"


def _what_it_is(folder: Path) -> str:
    if not folder.exists():
        return "does not exist"
    if not folder.is_dir():
        return "is a file, not a dataset folder"
    if (folder / "state.json").exists():
        return (
            f"holds a Hugging Face dataset that is not a finished Krill output: it has no `{MANIFEST_NAME}`"
        )
    return f"is not a finished Krill output: it has no `{MANIFEST_NAME}`"


def _check_files(folder: Path, manifest: Manifest) -> None:
    """Names are unique, and none is a link to something outside the folder."""
    fields = Fields({}, source=str(folder / MANIFEST_NAME))
    root = folder.resolve()
    seen: set[tuple[str | None, str]] = set()
    for name in ("dataset", "validation", "text", "rejected"):
        part: DatasetPart | TextPart | None = getattr(manifest, name)
        if part is None:
            continue
        split = part.split if isinstance(part, DatasetPart) else None
        inside = root if split is None else root / split
        leaves = inside.resolve() != inside  # the folder of a split may be a link itself
        links = _links_in(inside)
        for index, shard in enumerate(part.shards):
            where = f"{name}.shards[{index}].file"
            if (split, shard.file) in seen:
                fields.refuse(where, f"names `{shard.file}` a second time")
            if leaves or (shard.file in links and (inside / shard.file).resolve().parent != inside):
                fields.refuse(where, f"is a link that leaves the folder: `{shard.file}`")
            seen.add((split, shard.file))


def _links_in(folder: Path) -> set[str]:
    """Names of links, from one scan of the folder instead of a stat of each file."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_symlink()}
    except OSError:
        return set()
