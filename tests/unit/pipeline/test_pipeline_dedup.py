"""Deduplication as a run does it: every method, against other documents, and with what earlier runs kept."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import krill
from krill.dataset.duplicates import find_clusters
from krill.errors import BudgetError, ConfigError, InputError, StorageError

WORDS = ["krill", "whale", "ocean", "ice", "plankton", "ship", "net", "light", "depth", "current", "salt"]


def article(seed: int, changed: int = 0) -> str:
    """A hundred words; `changed` of them differ from those of the article with this seed."""
    words = random.Random(seed).choices(WORDS, k=100)
    for place in random.Random(seed + 1000).sample(range(100), changed):
        words[place] = f"word{place}"
    return " ".join(words)


def write(path: Path, texts: Iterable[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def run(folder: Path, source: Path, name: str = "out", **preprocess: Any) -> dict[str, Any]:
    settings = {"output": "text", "prepared_path": str(folder / name), **preprocess}
    summary = krill.preprocess({"datasets": [{"path": str(source)}], "preprocess": settings}, memory="400MB")
    return summary.to_json()


def kept(folder: Path, name: str = "out") -> list[str]:
    return pq.read_table(sorted((folder / name).glob("text-*.parquet")))["text"].to_pylist()


def test_near_duplicates_are_dropped_and_their_clusters_told(tmp_path: Path) -> None:
    texts = [article(1), article(2), article(1, changed=2), article(3), article(2, changed=1), article(1)]
    source = write(tmp_path / "in.jsonl", texts)
    dedup = {"method": "minhash", "clusters": True}
    found = run(tmp_path, source, dedup=dedup, rejected=True)
    assert kept(tmp_path) == [texts[0], texts[1], texts[3]]
    assert found["documents"]["dropped"] == {"duplicate": 3}
    assert found["duplicates"] == {"duplicates": 3, "clusters": 2, "largest": 3, "sizes": [0, 0, 2]}
    table = pq.read_table(tmp_path / "out" / "text-00000.parquet")
    assert table["cluster"].to_pylist() == [0, 1, 3]
    assert table["cluster_size"].to_pylist() == [3, 2, 1]
    rejected = pq.read_table(tmp_path / "out" / "rejected-00000.parquet")
    assert rejected["text"].to_pylist() == [texts[2], texts[4], texts[5]]
    assert rejected["cluster"].to_pylist() == [0, 1, 0]
    assert rejected["reason"].to_pylist() == ["duplicate"] * 3
    clusters = find_clusters(tmp_path / "out", 5)
    begun = [[text[:500] for text in (str(one.kept), *one.dropped)] for one in clusters]
    assert begun == [[texts[number][:500] for number in numbers] for numbers in ((0, 2, 5), (1, 4))]
    assert len(find_clusters(tmp_path / "out", 1)) == 1


def test_an_output_that_kept_no_clusters_says_how_to_get_them(tmp_path: Path) -> None:
    run(tmp_path, write(tmp_path / "in.jsonl", [article(1), article(2)]), dedup="minhash")
    with pytest.raises(InputError, match="does not say which documents") as caught:
        find_clusters(tmp_path / "out", 5)
    assert "clusters: true" in str(caught.value.hint)


def test_verification_keeps_what_shares_too_little(tmp_path: Path) -> None:
    texts = [article(1), article(1, changed=6), article(1, changed=1)]
    source = write(tmp_path / "in.jsonl", texts)
    loose = {"method": "minhash", "bands": 50, "rows": 2}
    assert run(tmp_path, source, "loose", dedup=loose)["documents"]["kept"] == 1
    run(tmp_path, source, "strict", dedup={**loose, "verify": 0.9})
    assert kept(tmp_path, "strict") == texts[:2]


def test_a_bloom_filter_keeps_the_first_and_its_cost_is_planned(tmp_path: Path) -> None:
    texts = [article(seed % 30) for seed in range(60)]
    source = write(tmp_path / "in.jsonl", texts)
    dedup = {"method": "bloom", "expected_documents": 1000, "false_positive_rate": 1e-6}
    run(tmp_path, source, dedup=dedup)
    assert kept(tmp_path) == texts[:30]
    with pytest.raises(BudgetError, match="dedup table"):
        run(tmp_path, source, "huge", dedup={**dedup, "expected_documents": 10**9})


@pytest.mark.parametrize("method", ["exact", "minhash", "bloom"])
def test_what_stands_in_another_corpus_is_dropped(method: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [article(1), article(2), article(3)])
    held_out = write(tmp_path / "held-out.jsonl", [article(9), "too short", article(2)])
    dedup = {"method": method, "against": [str(held_out)], "expected_documents": 100}
    found = run(tmp_path, source, dedup=dedup)
    assert kept(tmp_path) == [article(1), article(3)]
    assert found["documents"] == {"read": 3, "kept": 2, "dropped": {"duplicate": 1}, "notes": {}}
    write(held_out, [article(1)])
    with pytest.raises(ConfigError, match=r"held-out\.jsonl"):
        run(tmp_path, source, dedup=dedup)


def test_an_output_of_an_earlier_run_can_be_what_is_compared_with(tmp_path: Path) -> None:
    run(tmp_path, write(tmp_path / "first.jsonl", [article(1), article(2)]), "first")
    second = write(tmp_path / "second.jsonl", [article(2), article(3)])
    run(tmp_path, second, "second", dedup={"method": "exact", "against": [str(tmp_path / "first")]})
    assert kept(tmp_path, "second") == [article(3)]


@pytest.mark.parametrize(
    ("level", "left"),
    [
        ("line", "second line of the first\nthird line here\n"),
        ("paragraph", "a heading\nsecond line of the first\n\nthird line here"),
    ],
)
def test_lines_and_paragraphs_that_stood_before_are_removed(level: str, left: str, tmp_path: Path) -> None:
    first = "a heading\nfirst line of all\n\nthe same ending"
    second = "a heading\nsecond line of the first\n\nthird line here\n\nthe same ending"
    third = "a heading\nfirst line of all"
    source = write(tmp_path / "in.jsonl", [first, second, third])
    found = run(tmp_path, source, dedup={"method": "exact", "level": level}, min_chars=5, rejected=True)
    assert kept(tmp_path)[0] == first
    assert kept(tmp_path)[1].split() == left.split()
    assert len(kept(tmp_path)) == 2
    assert found["documents"]["dropped"] == {"too_short": 1}
    assert found["documents"]["notes"]["pieces_removed"] >= 2
    rejected = pq.read_table(tmp_path / "out" / "rejected-00000.parquet")
    assert rejected["reason"].to_pylist() == ["too_short"]


# COMPAT: preprocess_dedup_cache_dir.


@pytest.mark.parametrize("method", ["exact", "minhash"])
def test_another_config_drops_what_earlier_ones_kept(method: str, tmp_path: Path) -> None:
    cache = {"dedup_cache_dir": str(tmp_path / "cache"), "dedup": method}
    first = write(tmp_path / "first.jsonl", [article(1), article(2)])
    second = write(tmp_path / "second.jsonl", [article(2), article(3)])
    run(tmp_path, first, "first", **cache)
    run(tmp_path, second, "second", **cache)
    assert kept(tmp_path, "first") == [article(1), article(2)]
    assert kept(tmp_path, "second") == [article(3)]
    third = write(tmp_path / "third.jsonl", [article(1), article(3), article(4)])
    run(tmp_path, third, "third", **cache)
    assert kept(tmp_path, "third") == [article(4)]


def test_the_same_config_gives_its_output_again(tmp_path: Path) -> None:
    cache = {"dedup_cache_dir": str(tmp_path / "cache")}
    source = write(tmp_path / "in.jsonl", [article(1), article(2), article(1)])
    run(tmp_path, source, "once", **cache)
    run(tmp_path, source, "again", **cache)
    assert kept(tmp_path, "once") == kept(tmp_path, "again") == [article(1), article(2)]


def test_an_index_of_another_kind_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [article(1), article(2)])
    cache = str(tmp_path / "cache")
    run(tmp_path, source, "first", dedup_cache_dir=cache)
    with pytest.raises(ConfigError, match="holds an index of the kind"):
        run(tmp_path, source, "second", dedup_cache_dir=cache, dedup="minhash")


def test_a_folder_of_markers_of_the_original_is_refused_by_name(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [article(1), article(2)])
    cache = tmp_path / "cache"
    (cache / "01").mkdir(parents=True)
    (cache / "01" / "0123456789abcdef0123456789abcdef").touch()
    with pytest.raises(StorageError, match=r"MD5 marker files \(such as `0123456789abcdef"):
        run(tmp_path, source, dedup_cache_dir=str(cache))


def test_a_run_that_fails_leaves_no_trace_in_the_index(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    broken = write(tmp_path / "broken.jsonl", [article(1)])
    broken.write_text(broken.read_text() + "{not json\n" * 3, encoding="utf-8")
    with pytest.raises(InputError):
        run(tmp_path, broken, "broken", dedup_cache_dir=cache)
    run(tmp_path, write(tmp_path / "in.jsonl", [article(1)]), dedup_cache_dir=cache)
    assert kept(tmp_path) == [article(1)]
