"""Resume: a walk that is stopped after any unit goes on with the same units, documents and counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_reading import FORMATS, compress, corpus_of, delimited, walk_units, write

DOCUMENTS = [f"{i} " * (i * 7 % 60 + 1) for i in range(120)]


@pytest.mark.parametrize("ending", FORMATS)
def test_a_walk_resumed_after_any_unit_goes_on_the_same(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Arrays are taken in steps of a chunk: small ones, so that there are several units.
    for module in ("byte_files", "streams"):
        monkeypatch.setattr(f"krill.corpus.{module}.CHUNK_BYTES", 700)
    path = write(tmp_path, ending, DOCUMENTS)
    whole = walk_units(corpus_of(path, unit_bytes=2500), {})
    assert [row["text"] for _, rows, _, _ in whole for row in rows] == DOCUMENTS
    assert len(whole) >= 3
    for done in range(1, len(whole) + 1):
        committed = {position: end for position, _, _, end in whole[:done]}
        assert walk_units(corpus_of(path, unit_bytes=2500), committed) == whole[done:]


def test_units_committed_out_of_order_are_passed_by(tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl.gz", DOCUMENTS)
    whole = walk_units(corpus_of(path, unit_bytes=2500), {})
    committed = {position: end for position, _, _, end in whole[1::2]}
    assert walk_units(corpus_of(path, unit_bytes=2500), committed) == whole[::2]


def test_units_run_through_several_sequential_files(tmp_path: Path) -> None:
    for i, ending in enumerate(("jsonl.gz", "csv", "jsonl.xz", "json")):
        write(tmp_path, ending, DOCUMENTS[i::4]).rename(tmp_path / f"{i}.{ending}")
    (tmp_path / "4.jsonl.gz").write_bytes(compress(b"", ".gz"))
    whole = walk_units(corpus_of(tmp_path, unit_bytes=5000), {})
    assert len(whole) == 4
    assert len([row for _, rows, _, _ in whole for row in rows]) == len(DOCUMENTS)
    for done in range(1, len(whole) + 1):
        committed = {position: end for position, _, _, end in whole[:done]}
        assert walk_units(corpus_of(tmp_path, unit_bytes=5000), committed) == whole[done:]


def test_a_giant_record_is_in_one_unit(tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl.gz", ["a", "0123456789" * 300_000, "b", "c"])
    limits = {"unit_bytes": 80_000, "max_document_bytes": 50_000}
    whole = walk_units(corpus_of(path, **limits), {})
    for done in range(1, len(whole)):
        committed = {position: end for position, _, _, end in whole[:done]}
        assert walk_units(corpus_of(path, **limits), committed) == whole[done:]
    assert sum("0123456789" in row["text"] for row in whole[0][1] + whole[1][1]) >= 60


def test_malformed_rows_are_counted_once_however_the_walk_is_resumed(tmp_path: Path) -> None:
    lines = delimited(DOCUMENTS).splitlines(keepends=True)
    for at in (1, 30, 31, 90, len(lines) + 4):
        lines.insert(at, b"malformed\n")
    (tmp_path / "a.csv").write_bytes(b"".join(lines))
    limits = {"unit_bytes": 2500, "skip_malformed": True}
    whole = walk_units(corpus_of(tmp_path / "a.csv", **limits), {})
    assert sum(counted.get("malformed", 0) for _, _, counted, _ in whole) == 5
    for done in range(1, len(whole) + 1):
        committed = {position: end for position, _, _, end in whole[:done]}
        assert walk_units(corpus_of(tmp_path / "a.csv", **limits), committed) == whole[done:]


def test_blocks_that_are_left_unused_do_not_shift_the_next_unit(tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl.gz", DOCUMENTS)
    whole = [unit for unit, blocks in corpus_of(path, unit_bytes=2500).walk(lambda _: None) if list(blocks)]
    assert [unit for unit, _ in corpus_of(path, unit_bytes=2500).walk(lambda _: None)] == whole


def test_the_same_file_in_any_compression_has_the_same_blocks(tmp_path: Path) -> None:
    walks = []
    for ending in ("jsonl.gz", "jsonl.zst", "jsonl.bz2", "jsonl.xz"):
        corpus = corpus_of(write(tmp_path, ending, DOCUMENTS), unit_bytes=2500)
        blocks = [block for _, blocks in corpus.walk(lambda _: None) for block in blocks]
        walks.append([(block.start, block.end, block.last, block.nbytes) for block in blocks])
    assert walks[0] == walks[1] == walks[2] == walks[3]
