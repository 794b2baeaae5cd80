"""Many small files are one block and a few numbers each, and are read as if each were read alone."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from corpus_reading import batches, column, corpus_of, json_lines

from krill.corpus import DatasetSource, concat
from krill.corpus.blocks import FilesBlock
from krill.corpus.file_table import FileTable
from krill.corpus.formats import CorpusFile, Format
from krill.errors import InputError


def _write(folder: Path, contents: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


def test_small_files_give_the_documents_positions_and_counts_of_each_alone(tmp_path: Path) -> None:
    contents = {
        "a.jsonl": json_lines(["one", "two"]),
        "b.jsonl": b"\xef\xbb\xbf" + json_lines(["with a mark"]),
        "c.jsonl": b"",
        "d.jsonl": b'\n{"text": null, "id": 1}\n{"text": "three", "id": [1, 2]}',
        "e.txt": b"plain<|end|>text",
        "f.txt": b"\xef\xbb\xbfmore",
        "g.jsonl": json_lines(["x" * 300_000]),
        "h.jsonl": json_lines(["last"]),
    }
    corpus = corpus_of(_write(tmp_path, contents))
    (unit,) = corpus.units()
    (block,) = corpus.blocks(unit)
    together = block.documents()
    single = concat(
        [piece.documents() for part in unit.parts for piece in corpus.blocks(replace(unit, parts=(part,)))]
    )
    assert together.batch.equals(single.batch)
    assert dict(together.counts) == dict(single.counts)
    assert together.counts["not_text"] == 1
    assert (block.file, block.end, block.last) == (7, len(contents["h.jsonl"]), True)


def test_neighbours_of_one_format_are_held_as_numbers(tmp_path: Path) -> None:
    corpus = corpus_of(_write(tmp_path, {f"{number:04}.txt": b"a few words" for number in range(1000)}))
    (unit,) = corpus.units()
    (block,) = corpus.blocks(unit)
    assert isinstance(block, FilesBlock)
    assert block.nbytes == 2 * block.size + 24 * 1000
    assert column([block.documents()], "text") == ["a few words"] * 1000


def test_small_compressed_files_and_arrays_are_joined_too(tmp_path: Path) -> None:
    expected = [f"text {number}" for number in range(200)]
    packed = {f"{number:03}.txt.gz": gzip.compress(text.encode()) for number, text in enumerate(expected)}
    arrays = {
        f"{number:03}.json": json.dumps([{"text": text}]).encode() for number, text in enumerate(expected)
    }
    for name, contents in (("packed", packed), ("arrays", arrays)):
        read = batches(corpus_of(_write(tmp_path / name, contents)))
        assert column(read, "text") == expected
        assert [position >> 40 for position in column(read, "position")] == list(range(200))
        assert len(read) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "cut', "`{path}` line 1: the record is cut off"),
        (b'{"other": "x"}\n', "no column `text` in `{path}`; there are: `other`"),
        (b'{"text": 5}\n', "column `text` of `{path}` holds `int`, not strings"),
        (b"\xff\xfe{\0}\0", "`{path}` is encoded in UTF-16, not UTF-8"),
    ],
)
def test_the_file_at_fault_is_named_and_the_first_one_first(
    tmp_path: Path, content: bytes, message: str
) -> None:
    contents = {f"{number:03}.jsonl": json_lines(["good"]) for number in range(300)}
    contents["280.jsonl"] = content
    contents["290.jsonl"] = b"nonsense"
    corpus = corpus_of(_write(tmp_path, contents))
    with pytest.raises(InputError) as error:
        batches(corpus)
    assert error.value.args[0] == message.format(path=tmp_path / "280.jsonl")


def test_a_small_file_that_vanishes_or_shrinks_is_named(tmp_path: Path) -> None:
    folder = _write(tmp_path, {f"{number:03}.txt": b"some text" for number in range(20)})
    corpus = corpus_of(folder)
    (folder / "007.txt").write_bytes(b"some")
    with pytest.raises(InputError, match=r"007\.txt.*became shorter"):
        batches(corpus)
    (folder / "003.txt").unlink()
    with pytest.raises(InputError, match=r"no such file: .*003\.txt"):
        batches(corpus)


def test_the_table_gives_back_the_files_it_was_given() -> None:
    source, other = DatasetSource("a"), DatasetSource("b", columns=("id",))
    files = [
        CorpusFile(0, "~/a/é.txt", "/home/me/a/é.txt", Format.TEXT, None, 5, source, 0),
        CorpusFile(1, "b.jsonl", "b.jsonl", Format.JSON_LINES, None, 2**40, other, 1, start=7, stop=99),
        CorpusFile(2, "x", "y", Format.TEXT, None, 0, source, 0, remote=True, stop=0, version='"é"'),
        CorpusFile(3, "z", "z", Format.TEXT, None, 0, source, 0, remote=True),
    ]
    table = FileTable(files)
    assert list(table) == files
    assert table[-2] == files[2]
    assert table[:2] == files[:2]
    assert table.input_bytes == 2**40 + 5
    with pytest.raises(IndexError):
        table[4]


def test_a_file_takes_less_than_a_hundred_bytes() -> None:
    source = DatasetSource("corpus")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    table = FileTable(
        CorpusFile(
            at, f"corpus/folder/{at:08}.txt", f"corpus/folder/{at:08}.txt", Format.TEXT, None, 9, source, 0
        )
        for at in range(10_000)
    )
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(table) == 10_000
    assert held / 10_000 < 100
