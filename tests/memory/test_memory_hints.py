"""The least budget that a refusal names does: for every kind of input, the hint is taken at its word."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
import zstandard

from chat_jobs import write_tokenizer

MB = 10**6
WORDS = b"a few words that fill a line of text, and some more\n" * 20
ALL: dict[str, Any] = {"columns": "*"}
TEXT: dict[str, Any] = {"output": "text"}


def _one_line(path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(60):
            file.write(b"abcdefghij" * 100_000)


def _tiny_files(path: Path) -> None:
    path.mkdir()
    for number in range(12_000):
        (path / f"{number:05}.txt").write_bytes(b"tiny document number %d " % number * 12)


def _wide_json(path: Path, rows: int = 40, keys: int = 3000) -> None:
    with path.open("w") as file:
        for row in range(rows):
            record = {f"key_{row % 7}_{key}": "v" * 10 for key in range(keys)}
            file.write(json.dumps(record | {"text": f"lorem ipsum {row} " * 50}) + "\n")


def _wide_csv(path: Path) -> None:
    with path.open("w") as file:
        file.write(",".join(f"c{column}" for column in range(50_000)) + ",text\n")
        for row in range(20):
            file.write("v," * 50_000 + f"some text of row {row} " * 50 + "\n")


def _quoted_csv(path: Path) -> None:
    with path.open("w") as file:
        file.write("id,text\n")
        for row in range(4):
            file.write(f'{row},"' + f'ab""c, d{row}\n' * 700_000 + '"\n')


def _documents(count: int, size: int) -> list[str]:
    return [f"{number:016x} " * (size // 17) for number in range(count)]


def _huge_page(path: Path) -> None:
    rows = pa.table({"text": _documents(2000, 25_000)})
    pages = {"data_page_size": 2**30, "write_batch_size": 10**6}
    pq.write_table(rows, path, compression="none", use_dictionary=False, **pages)


def _huge_dictionary(path: Path) -> None:
    texts = _documents(100, 200_000)
    rows = pa.table({"text": [texts[row % 100] for row in range(500)]})
    pq.write_table(rows, path, dictionary_pagesize_limit=2**30, compression="zstd")


def _nested_value(path: Path) -> None:
    nested = pa.array([{"l": ["z" * 1000] * 40_000} if row == 5 else {"l": []} for row in range(100)])
    pq.write_table(pa.table({"text": _documents(100, 2000), "nest": nested}), path)


def _one_batch(path: Path) -> None:
    table = pa.table({"text": pa.array(_documents(20_000, 3000))}).combine_chunks()
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)


def _dictionary_arrow(path: Path) -> None:
    texts = pa.array(_documents(10_000, 3000))
    table = pa.table({"text": _documents(10_000, 300), "source": texts.dictionary_encode()})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)


def _packed(compress: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(compress(WORDS * 40_000)) and None


def _long_zstd(data: bytes) -> bytes:
    settings = zstandard.ZstdCompressionParameters(window_log=25, enable_ldm=True)
    writer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    return writer.compress(data) + writer.flush()


def _xz(data: bytes) -> bytes:
    return lzma.compress(data, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 25}])


def _bomb_in_json(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"text": "abc ' + b"word " * 400 + b'", "x":')
        for _ in range(60):
            file.write(b"1" * 1_000_000)
        file.write(b"}\n")
        file.write(b'{"text": "' + b" x" * 20_000_000 + b'"}\n')


KINDS: dict[str, tuple[str, Callable[[Path], None], dict[str, Any], dict[str, Any]]] = {
    "one line": ("line.txt", _one_line, {}, {}),
    "tiny files": ("tiny", _tiny_files, {}, {}),
    "wide json": ("keys.jsonl", _wide_json, ALL, TEXT),
    "wide csv": ("columns.csv", _wide_csv, {}, {}),
    "quoted csv": ("quoted.csv", _quoted_csv, {}, {}),
    "parquet page": ("page.parquet", _huge_page, {}, {}),
    "parquet dictionary": ("dictionary.parquet", _huge_dictionary, {}, {}),
    "parquet nested": ("nested.parquet", _nested_value, ALL, TEXT),
    "arrow batch": ("batch.arrow", _one_batch, {}, {}),
    "arrow dictionary": ("dictionary.arrow", _dictionary_arrow, ALL, TEXT),
    "zstd window": ("long.txt.zst", _packed(_long_zstd), {}, {}),
    "xz dictionary": ("large.txt.xz", _packed(_xz), {}, {}),
    "bz2": ("packed.txt.bz2", _packed(bz2.compress), {}, {}),
    "gzip bomb": ("bomb.jsonl.gz", _bomb_in_json, {}, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_refusal_says_would_do_does(fresh_krill, tmp_path: Path, kind: str) -> None:
    name, write, source, settings = KINDS[kind]
    write(tmp_path / name)
    config = {
        "datasets": [{"path": name, **source}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {"prepared_path": "out", "sequence_len": 1024, **settings},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    command = ["preprocess", "config.yaml", "--threads", "2", "--quiet"]
    refused = fresh_krill(*command, "--memory", "60MB", cwd=tmp_path)
    assert refused.code == 4, refused.err
    found = re.search(r"--memory (\d+)MB would do", refused.err)
    assert found is not None, refused.err
    held = fresh_krill(*command, "--memory", f"{found[1]}MB", cwd=tmp_path)
    assert held.code == 0, held.err
    assert held.peak <= int(found[1]) * MB


@pytest.mark.parametrize("threads", ["1", "2"])
def test_what_a_refusal_says_would_do_does_for_conversations(
    fresh_krill, tmp_path: Path, threads: str
) -> None:
    """Also with two threads, of which one at a time renders where no processes fit that would."""
    write_tokenizer(tmp_path / "model")
    lines = "".join(
        json.dumps(
            {
                "messages": [
                    {"role": "user", "content": WORDS.decode()},
                    {"role": "assistant", "content": text},
                ]
            }
        )
        + "\n"
        for text in _documents(150, 60_000)
    )
    (tmp_path / "chats.jsonl").write_text(lines)
    config = {
        "datasets": [{"path": "chats.jsonl", "type": "chat_template"}],
        "tokenizer": {"path": "model"},
        "chat_template": "chatml",
        "preprocess": {"prepared_path": "out", "sequence_len": 100_000},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    command = ["preprocess", "config.yaml", "--threads", threads, "--json"]
    refused = fresh_krill(*command, "--memory", "60MB", cwd=tmp_path)
    assert refused.code == 4, refused.err
    found = re.search(r"--memory (\d+)MB would do", refused.err)
    assert found is not None, refused.err
    held = fresh_krill(*command, "--memory", f"{found[1]}MB", cwd=tmp_path)
    assert held.code == 0, held.err
    assert held.peak <= int(found[1]) * MB
    assert held.result["documents"]["kept"] == 150
    assert "processes_peak" not in held.result["budget"]


def test_parquet_of_very_many_encoded_columns_is_refused_before_it_is_read(
    fresh_krill, tmp_path: Path
) -> None:
    """Arrow has a table for the dictionary of each, which their sizes in the file don't tell."""
    columns = {f"c{column}": [f"v{column}-{row}" for row in range(1000)] for column in range(2000)}
    pq.write_table(pa.table({"text": _documents(1000, 500), **columns}), tmp_path / "wide.parquet")
    config = {
        "datasets": [{"path": "wide.parquet", **ALL}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {"prepared_path": "out", **TEXT},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    refused = fresh_krill("preprocess", "config.yaml", "--threads", "2", "--memory", "256MB", cwd=tmp_path)
    assert refused.code == 4
    assert "the plan needs" in refused.err, refused.err
    assert int(re.search(r"--memory (\d+)MB would do", refused.err)[1]) > 394  # what was measured


def _questions(context: str, answers: int) -> str:
    answer = {"text": ["fox"] * answers, "answer_start": [16] * answers}
    return json.dumps({"id": "q", "question": "which animal?", "context": context, "answers": answer}) + "\n"


SENTENCE = "the quick brown fox jumps over a lazy dog. "
RECORDS = {"a long context": (SENTENCE * 70_000, 1), "many answers": (SENTENCE, 300_000)}


@pytest.mark.parametrize("kind", RECORDS)
def test_what_a_refusal_says_would_do_does_for_questions(fresh_krill, tmp_path: Path, kind: str) -> None:
    """At once, and not with a second refusal: also where most of the file can't be the ids of questions."""
    write_tokenizer(tmp_path / "model")
    (tmp_path / "questions.jsonl").write_text(_questions(*RECORDS[kind]))
    command = [
        "qa",
        "prepare",
        "questions.jsonl",
        "--tokenizer",
        "model",
        "--output",
        "out",
        "--threads",
        "1",
    ]
    refused = fresh_krill(*command, "--memory", "130MB", cwd=tmp_path)
    assert refused.code == 4, refused.err
    found = re.search(r"--memory (\d+)MB would do", refused.err)
    assert found is not None, refused.err
    held = fresh_krill(*command, "--memory", f"{found[1]}MB", "--threads", "1", cwd=tmp_path)
    assert held.code == 0, held.err
    assert 0.4 * int(found[1]) * MB <= held.peak <= int(found[1]) * MB
