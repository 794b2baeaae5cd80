"""The persistent index: generations that are whole or absent, whatever happens to who writes them."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import preloaded
from krill.dedup import DedupIndex, MinHash, hash_kind, minhash_kind
from krill.errors import ConfigError, StorageError

KIND = hash_kind("document")


def unit(
    folder: Path, rows: np.ndarray, keep: list[bool], name: str = "unit"
) -> tuple[list[Path], list[Path]]:
    """A unit's numbers and its keep bits, as a run leaves them."""
    files = folder / f"{name}.numbers", folder / f"{name}.keep"
    rows.astype(np.uint64).tofile(files[0])
    np.packbits(np.array(keep, bool), bitorder="little").tofile(files[1])
    return [files[0]], [files[1]]


def some_rows(count: int, width: int = 2) -> np.ndarray:
    return np.arange(count * width, dtype=np.uint64).reshape(count, width)


def content(index: DedupIndex, kind: str = KIND, identity: str = "nobody") -> dict[str, list[list[int]]]:
    width = 2 if kind.startswith("hashes") else 14
    return {
        generation.name: np.fromfile(generation.path, np.uint64).reshape(-1, width).tolist()
        for generation in index.pin(kind, identity)
    }


def test_a_generation_holds_what_was_kept_and_others_see_it(tmp_path: Path) -> None:
    index = DedupIndex(tmp_path / "index")
    assert index.pin(KIND, "one") == []
    rows, keep = some_rows(20), [number % 3 == 0 for number in range(20)]
    index.prepare(KIND, "one", *unit(tmp_path, rows, keep)).commit()
    assert content(index) == {"one.generation": rows[keep].tolist()}
    assert index.pin(KIND, "other")[0].records == 7


def test_a_run_is_not_held_against_itself(tmp_path: Path) -> None:
    index = DedupIndex(tmp_path / "index")
    files = unit(tmp_path, some_rows(3), [True] * 3)
    for identity in ("b", "a", "c"):
        index.prepare(KIND, identity, *files).commit()
    assert [generation.name for generation in index.pin(KIND, "b")] == ["a.generation", "c.generation"]


def test_units_longer_than_a_block_are_cut_where_their_bits_are(tmp_path: Path) -> None:
    keep = [bool(value) for value in np.random.default_rng(0).integers(0, 2, 40_001)]
    rows = some_rows(40_001, 14)
    index = DedupIndex(tmp_path / "index")
    kind = minhash_kind(MinHash())
    index.prepare(kind, "one", *unit(tmp_path, rows, keep)).commit()
    assert content(index, kind)["one.generation"] == rows[keep].tolist()


def test_what_is_pending_does_not_count_until_it_is_committed(tmp_path: Path) -> None:
    index = DedupIndex(tmp_path / "index")
    pending = index.prepare(KIND, "one", *unit(tmp_path, some_rows(2), [True, True]))
    assert content(index) == {}
    pending.commit()
    assert content(index) == {"one.generation": some_rows(2).tolist()}


def test_what_a_finished_run_had_prepared_is_adopted(tmp_path: Path) -> None:
    index = DedupIndex(tmp_path / "index")
    assert not index.adopt("one")
    index.prepare(KIND, "one", *unit(tmp_path, some_rows(2), [True, False]))
    assert index.adopt("one")
    assert not index.adopt("one")
    assert content(index) == {"one.generation": [[0, 1]]}


def test_the_same_run_published_again_replaces_its_generation(tmp_path: Path) -> None:
    index = DedupIndex(tmp_path / "index")
    index.prepare(KIND, "one", *unit(tmp_path, some_rows(2), [True, True])).commit()
    index.prepare(KIND, "one", *unit(tmp_path, some_rows(4), [True, True, True, False])).commit()
    assert content(index) == {"one.generation": some_rows(3).tolist()}


def test_pinned_generations_are_found_again_and_missing_ones_named(tmp_path: Path) -> None:
    index = DedupIndex(tmp_path / "index")
    index.prepare(KIND, "one", *unit(tmp_path, some_rows(2), [True, True])).commit()
    names = [generation.name for generation in index.pin(KIND, "x")]
    index.prepare(KIND, "two", *unit(tmp_path, some_rows(2), [True, True])).commit()
    assert index.pinned(names) == index.pin(KIND, "two")
    (tmp_path / "index" / "one.generation").unlink()
    with pytest.raises(StorageError, match=r"one\.generation`, which this run was begun with, is gone"):
        index.pinned(names)
    with pytest.raises(StorageError, match="is gone"):
        index.pinned(["../escape.generation"])


def test_another_kind_is_refused_with_both_names(tmp_path: Path) -> None:
    index = DedupIndex(tmp_path / "index")
    files = unit(tmp_path, some_rows(1), [True])
    index.prepare(KIND, "one", *files).commit()
    other = minhash_kind(MinHash(9, 13, 5))
    for call in (lambda: index.pin(other, "x"), lambda: index.prepare(other, "x", *files)):
        with pytest.raises(
            ConfigError, match=r"hashes-document-v1`, and this config makes `minhash-ngram5-bands9-"
        ):
            call()


def test_an_index_that_a_dead_run_left_empty_is_of_no_kind(tmp_path: Path) -> None:
    index = DedupIndex(tmp_path)
    (tmp_path / "krill-index.json").write_text(json.dumps({"version": 1, "kind": hash_kind("line")}))
    assert index.pin(KIND, "x") == []
    index.prepare(KIND, "one", [], []).commit()
    assert [generation.records for generation in index.pin(KIND, "x")] == [0]


def test_another_version_is_refused(tmp_path: Path) -> None:
    index = DedupIndex(tmp_path)
    (tmp_path / "krill-index.json").write_text(json.dumps({"version": 2, "kind": KIND}))
    with pytest.raises(StorageError, match=r"has version `2`, this Krill reads version `1`") as caught:
        index.pin(KIND, "x")
    assert "dedup_cache_dir" in str(caught.value.hint)


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]"])
def test_a_damaged_description_is_refused(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "krill-index.json").write_bytes(damage)
    with pytest.raises(StorageError, match=r"can't be read|has version `None`"):
        DedupIndex(tmp_path).pin(KIND, "x")


@pytest.mark.parametrize("suffix", ["", ".txt"])
def test_the_original_tools_cache_is_refused_by_name_and_left_alone(tmp_path: Path, suffix: str) -> None:
    marker = tmp_path / ("d41d8cd98f00b204e9800998ecf8427e" + suffix)
    marker.touch()
    index = DedupIndex(tmp_path)
    with pytest.raises(StorageError, match=r"MD5 marker files \(such as `d41d8cd98f00"):
        index.pin(KIND, "x")
    with pytest.raises(StorageError, match="nothing in it was touched"):
        index.prepare(KIND, "x", [], [])
    assert list(tmp_path.iterdir()) == [marker]


def test_a_folder_of_other_things_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(StorageError, match=r"holds `holiday\.jpg` and is not an index"):
        DedupIndex(tmp_path).prepare(KIND, "x", [], [])
    with pytest.raises(StorageError, match="is not a folder"):
        DedupIndex(tmp_path / "holiday.jpg").pin(KIND, "x")


def test_bits_that_do_not_fit_the_unit_are_refused(tmp_path: Path) -> None:
    files, keep = unit(tmp_path, some_rows(9), [True] * 9)
    keep[0].write_bytes(b"\xff")
    with pytest.raises(StorageError, match=r"unit\.keep`, kept by an earlier stage, has `1` bytes for `9`"):
        DedupIndex(tmp_path / "index").prepare(KIND, "one", files, keep)
    assert DedupIndex(tmp_path / "index").pin(KIND, "x") == []


def test_a_cut_generation_is_refused(tmp_path: Path) -> None:
    index = DedupIndex(tmp_path / "index")
    index.prepare(KIND, "one", *unit(tmp_path, some_rows(2), [True, True])).commit()
    (tmp_path / "index" / "one.generation").write_bytes(bytes(17))
    with pytest.raises(StorageError, match=r"one\.generation`.* has `17` bytes, not a multiple of 16"):
        index.pin(KIND, "x")


@pytest.mark.parametrize("identity", ["", "a/b", "..", "x" * 200])
def test_an_identity_is_a_plain_name(tmp_path: Path, identity: str) -> None:
    with pytest.raises(ValueError, match="not an identity"):
        DedupIndex(tmp_path / "index").prepare(KIND, identity, [], [])


WRITER = """
import sys
from pathlib import Path
from krill.dedup import DedupIndex, hash_kind
folder, files, keep, identity = sys.argv[1:]
index = DedupIndex(folder)
print("begun", flush=True)
for turn in range(1000):
    pending = index.prepare(hash_kind("document"), identity, [Path(files)] * 8, [Path(keep)] * 8)
    print("prepared", flush=True)
    pending.commit()
    print("committed", flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_nothing_or_a_whole_generation(tmp_path: Path) -> None:
    rows = some_rows(30_000)
    files, keep = unit(tmp_path, rows, [True] * len(rows))
    draw = random.Random(3)
    states = set()
    for turn in range(6):
        folder = tmp_path / f"index{turn}"
        ours, theirs = os.pipe()
        writer = preloaded.launch([folder, files[0], keep[0], "one"], out=theirs, err=theirs, script=WRITER)
        os.close(theirs)
        with os.fdopen(ours) as printed:
            assert printed.readline() == "begun\n"
            if turn % 2:
                printed.readline()
            time.sleep(draw.uniform(0, 0.02))
            writer.kill()
            assert writer.wait() == -signal.SIGKILL
        index = DedupIndex(folder)
        seen = index.pin(KIND, "other")
        states.add(len(seen))
        adopted = index.adopt("one")
        for generation in index.pin(KIND, "other"):
            assert generation.records == 8 * len(rows)
        index.prepare(KIND, "two", files, keep).commit()
        # The next publisher has cleaned up: nothing half-written is left.
        expected = {".lock", "krill-index.json", "two.generation"}
        assert {entry.name for entry in folder.iterdir()} - {"one.generation"} == expected
        assert adopted or len(seen) == len(index.pin(KIND, "two"))
    assert 0 in states


def test_two_writers_at_once_both_publish(tmp_path: Path) -> None:
    rows = some_rows(2000)
    files, keep = unit(tmp_path, rows, [True] * len(rows))
    script = WRITER.replace("range(1000)", "range(15)")
    writers = [
        preloaded.launch([tmp_path / "index", files[0], keep[0], name], out=1, err=2, script=script)
        for name in ("one", "two")
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    found = DedupIndex(tmp_path / "index").pin(KIND, "x")
    assert [(generation.name, generation.records) for generation in found] == [
        ("one.generation", 16_000),
        ("two.generation", 16_000),
    ]
