"""What the corpus tests share: files in every format, and reading a corpus to the end."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from krill.corpus import Corpus, DatasetSource, Documents, UnitEnd, concat, open_corpus

SEPARATOR = "<|end|>"

LIMITS: dict[str, Any] = {
    "unit_bytes": 32_000_000,
    "max_document_bytes": 4_000_000,
    "drop_oversize": False,
    "skip_malformed": False,
    "default_separator": SEPARATOR,
    "batch_rows": None,
}


def corpus_of(*sources: DatasetSource | Path | str, **limits: Any) -> Corpus:
    """A corpus with the usual limits, except those given."""
    wanted = [each if isinstance(each, DatasetSource) else DatasetSource(str(each)) for each in sources]
    return open_corpus(wanted, **{**LIMITS, **limits})


def batches(corpus: Corpus, committed: Callable[[int], UnitEnd | None] = lambda _: None) -> list[Documents]:
    """All blocks, parsed, in order."""
    return [block.documents() for _, blocks in corpus.walk(committed) for block in blocks]


def column(documents: Iterable[Documents], name: str) -> list[Any]:
    """A column over several batches; text that is not UTF-8 as it would be after cleaning."""
    values: list[Any] = []
    for each in documents:
        array = each.batch.column(name)
        if pa.types.is_large_string(array.type):
            raw = array.cast(pa.large_binary()).to_pylist()
            values += [None if value is None else value.decode("utf-8", "ignore") for value in raw]
        else:
            values += array.to_pylist()
    return values


def texts(*sources: DatasetSource | Path | str, **limits: Any) -> list[str | None]:
    """The documents of a corpus."""
    return column(batches(corpus_of(*sources, **limits)), "text")


def counts(documents: Iterable[Documents]) -> dict[str, int]:
    """What was counted, over several batches."""
    total: Counter[str] = Counter()
    for each in documents:
        total.update(each.counts)
    return dict(total)


def json_lines(documents: Sequence[str | None]) -> bytes:
    lines = (json.dumps({"id": i, "text": text}, ensure_ascii=False) for i, text in enumerate(documents))
    return "".join(line + "\n" for line in lines).encode()


def json_array(documents: Sequence[str]) -> bytes:
    return json.dumps([{"id": i, "text": text} for i, text in enumerate(documents)], indent=1).encode()


def plain_text(documents: Sequence[str]) -> bytes:
    return SEPARATOR.join(documents).encode()


def delimited(documents: Sequence[str], delimiter: str = ",") -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["id", "text"])
    writer.writerows(enumerate(documents))
    return out.getvalue().encode()


def table(documents: Sequence[str | None]) -> pa.Table:
    return pa.table({"id": pa.array(range(len(documents))), "text": pa.array(documents, pa.string())})


def write_parquet(path: Path, documents: Sequence[str | None], rows: int = 7) -> None:
    pq.write_table(table(documents), path, row_group_size=rows)


def write_arrow(
    path: Path, rows: pa.Table, *, stream: bool, batch: int = 7, compression: str | None = None
) -> None:
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), rows.schema, options=options) as writer:
        for each in rows.to_batches(max_chunksize=batch):
            writer.write_batch(each)


def _arrow(**options: Any) -> Callable[[Path, Sequence[str]], None]:
    return lambda path, documents: write_arrow(path, table(documents), **options)


def _bytes(encode: Callable[[Sequence[str]], bytes]) -> Callable[[Path, Sequence[str]], None]:
    return lambda path, documents: _write(path, encode(documents))


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(compress(data, path.suffix))


def compress(data: bytes, suffix: str) -> bytes:
    """As the suffix says; two members, which each of these formats may have."""
    encode: Callable[[bytes], bytes] | None = {
        ".gz": gzip.compress,
        ".bz2": bz2.compress,
        ".xz": lzma.compress,
        ".zst": lambda part: pa.compress(part, "zstd", asbytes=True),
    }.get(suffix)
    half = len(data) // 2
    return data if encode is None else encode(data[:half]) + encode(data[half:])


_BYTE_FORMATS = {"jsonl": json_lines, "json": json_array, "txt": plain_text, "csv": delimited}

FORMATS: dict[str, Callable[[Path, Sequence[str]], None]] = {
    **{
        name + suffix: _bytes(encode)
        for name, encode in _BYTE_FORMATS.items()
        for suffix in ("", ".gz", ".zst", ".bz2", ".xz")
    },
    "ndjson": _bytes(json_lines),
    "tsv": _bytes(lambda documents: delimited(documents, "\t")),
    "parquet": write_parquet,
    "arrow": _arrow(stream=True),
    "ipc": _arrow(stream=False),
    "feather": _arrow(stream=False, compression="lz4"),
    "zstd.arrow": _arrow(stream=True, compression="zstd"),
}
"""How to write documents, by the end of the file's name."""

ROW_FORMATS = ("csv", "tsv", "parquet", "arrow", "ipc", "feather")


def write(folder: Path, ending: str, documents: Sequence[str]) -> Path:
    """The documents in a format."""
    path = folder / f"data.{ending}"
    FORMATS[ending](path, documents)
    return path


def joined(documents: Iterable[Documents]) -> Documents:
    return concat(list(documents))


def walk_units(
    corpus: Corpus, committed: dict[int, UnitEnd]
) -> list[tuple[int, list[Any], dict[str, int], UnitEnd]]:
    """Each unit walked: position, rows, counts, end as a commit log gives it back."""
    walked = []
    for unit, blocks in corpus.walk(committed.get):
        taken = [(block, block.documents()) for block in blocks]
        rows = [row for _, documents in taken for row in documents.batch.to_pylist()]
        end = UnitEnd.from_json(UnitEnd.after(taken[-1][0]).to_json())
        walked.append((unit.position, rows, counts(found for _, found in taken), end))
    return walked
