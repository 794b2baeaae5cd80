"""A run keeps a few examples for each reason for a drop, the same however it is done."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import krill
from chat_jobs import write_tokenizer
from krill.dataset import validate
from krill.errors import InputError
from krill.pipeline.examples import MOST_EXAMPLES, MOST_REASONS, TEXT_BYTES, ExampleSet, examples_of
from oracles.examples import reference_examples
from properties import tried

WORDS = ["krill", "whale", "ocean", "ice", "plankton", "ship", "net", "light", "depth", "current", "salt"]
_DROPPED = st.lists(
    st.tuples(
        st.sampled_from(["short", "long", "step:mine"]),
        st.integers(0, 2**64 - 1),
        st.sampled_from(["", "a", "é" * 1023 + "aé", "🐳" * 600, "\x00<script>"]).map(str.encode),
    ),
    max_size=120,
    unique_by=lambda one: one[1],
)


def batch_of(dropped: list[tuple[str, int, bytes]]) -> pa.RecordBatch:
    reasons, positions, texts = zip(*dropped, strict=True)
    columns = {
        "text": pa.array([text.decode() for text in texts], pa.large_string()),
        "position": pa.array(positions, pa.uint64()),
        "reason": pa.array(reasons, pa.large_string()),
    }
    return pa.RecordBatch.from_pydict(columns)


@tried(60)
@given(_DROPPED, st.integers(1, 40), st.randoms(use_true_random=False))
def test_examples_are_the_references_in_any_order_and_any_parts(
    dropped: list[tuple[str, int, bytes]], size: int, shuffled: random.Random
) -> None:
    expected = reference_examples(dropped)
    shuffled.shuffle(dropped)
    parts = [dropped[first : first + size] for first in range(0, len(dropped), size)]
    known, gathered = ExampleSet(), ExampleSet()
    for part in parts:
        found = examples_of([batch_of(part)], known)
        known.add_all(found)
        gathered.add_all(json.loads(json.dumps(found)))
    assert gathered.to_json() == expected


@pytest.mark.parametrize("backwards", [False, True])
def test_of_very_many_reasons_the_first_by_name_have_examples(backwards: bool) -> None:
    dropped = [(f"reason {number:04}", number, b"text") for number in range(3 * MOST_REASONS)]
    gathered = ExampleSet()
    for one in reversed(dropped) if backwards else dropped:
        gathered.add_all(examples_of([batch_of([one])]))
    assert gathered.to_json() == reference_examples(dropped[:MOST_REASONS])


def article(seed: int, changed: int = 0) -> str:
    words = random.Random(seed).choices(WORDS, k=100)
    for place in random.Random(seed + 1000).sample(range(100), changed):
        words[place] = f"word{place}"
    return " ".join(words)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Articles, copies of earlier ones, near copies, texts that are too short, and rows without a text."""
    texts: list[str | None] = []
    for number in range(300):
        match number % 6:
            case 0 | 1:
                texts.append(article(number))
            case 2:
                texts.append(article(number - 2))
            case 3:
                texts.append(article(number - 3, changed=2))
            case 4:
                texts.append(f"short {number}")
            case 5:
                texts.append(None)
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def run(folder: Path, source: Path, name: str = "out", *, threads: int = 1, **given: Any) -> dict[str, Any]:
    settings = {"prepared_path": str(folder / name), "sequence_len": 64, "min_length": 0, **given}
    config = {
        "datasets": [{"path": str(source)}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {"unit_bytes": "64KB", "max_document_bytes": "8KB", **settings},
    }
    return dict(krill.preprocess(config, memory="400MB", threads=threads).manifest.to_json())


def lines(folder: Path, name: str = "out") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name / "examples.jsonl").read_bytes().splitlines()]


def document_at(source: Path, line: dict[str, Any]) -> Any:
    with source.open("rb") as file:
        file.seek(line["position"])
        return json.loads(file.readline())["text"]


@pytest.mark.parametrize("dedup", ["exact", "minhash", {"method": "bloom", "expected_documents": 1000}])
def test_duplicates_stand_beside_what_is_kept(tmp_path: Path, source: Path, dedup: Any) -> None:
    manifest = run(tmp_path, source, dedup=dedup)
    written_lines = lines(tmp_path)
    found = [line for line in written_lines if "cluster" not in line]
    assert Counter(line["reason"] for line in found) == dict.fromkeys(
        ["not_text", "too_short", "duplicate"], MOST_EXAMPLES
    )
    order = [(line["stage"], line["reason"]) for line in found]
    assert order == sorted(order)
    kept_positions = set()
    for line in found:
        assert line["text"] == (document_at(source, line) or "")
        assert line["bytes"] == len(line["text"].encode())
        assert (line["source"], line["file"]) == (str(source), str(source))
        if line["reason"] == "duplicate":
            twin = line["kept"]
            kept_positions.add(twin["position"])
            assert twin["position"] < line["position"]
            assert twin["text"] == document_at(source, twin)
            same = sum(a == b for a, b in zip(twin["text"].split(), line["text"].split(), strict=True))
            assert same >= (95 if dedup == "minhash" else 100)
    assert len(kept_positions) > MOST_EXAMPLES // 2
    written = manifest["examples"]
    assert written["rows"] == len(written_lines)
    assert written["bytes"] == (tmp_path / "out/examples.jsonl").stat().st_size
    if dedup == "minhash":
        assert manifest["duplicates"]["sizes"] == [0, 0, 50]  # clusters of three
        assert "shown" not in manifest["duplicates"]


@pytest.mark.parametrize("dedup", ["exact", "minhash", {"method": "bloom", "expected_documents": 1000}])
def test_the_largest_clusters_are_shown_with_their_first_documents(tmp_path: Path, dedup: Any) -> None:
    """Of seven clusters with two to eight documents among others, in any order."""
    chance = random.Random(3)
    words = ["".join(letters) for letters in product("abcdefghijkl", repeat=3)]
    rows = [[f"single {number}", *chance.choices(words, k=60)] for number in range(200)]
    for size in range(2, 9):
        same = chance.choices(words, k=200)
        rows += [[f"cluster {size}", *same] for _ in range(size)]
    chance.shuffle(rows)
    source = tmp_path / "clusters.jsonl"
    source.write_text("".join(json.dumps({"text": " ".join(row)}) + "\n" for row in rows))
    contents = []
    for name, more in {"one": {}, "two": {"threads": 2}}.items():
        run(tmp_path, source, name, dedup=dedup, **more)
        contents.append((tmp_path / name / "examples.jsonl").read_bytes())
        found = [line for line in lines(tmp_path, name) if "cluster" in line]
        assert [line["cluster"] for line in found] == [8] * 3 + [7] * 3 + [6] * 3 + [5] * 3 + [4] * 3
        for size in range(4, 9):
            own = [line for line in found if line["cluster"] == size]
            same = [" ".join(row) for row in rows if row[0] == f"cluster {size}"]
            assert len(same) == size
            first = [text.encode()[:TEXT_BYTES].decode() for text in same[:4]]
            assert [own[0]["kept"]["text"], *(line["text"] for line in own)] == first
            places = [own[0]["kept"]["position"], *(line["position"] for line in own)]
            assert places == sorted(places)
    assert contents[0] == contents[1]


@pytest.mark.parametrize("output", ["tokens", "text", "both"])
def test_the_same_bytes_with_any_threads_and_with_what_was_rejected(
    tmp_path: Path, source: Path, output: str
) -> None:
    for name, more in {
        "one": {},
        "two": {"threads": 2},
        "rejected": {"rejected": True},
    }.items():
        run(tmp_path, source, name, output=output, **more)
    contents = {(tmp_path / name / "examples.jsonl").read_bytes() for name in ("one", "two", "rejected")}
    assert len(contents) == 1


@pytest.mark.parametrize("output", ["tokens", "text", "both"])
def test_what_is_read_once_and_not_scanned_has_examples_too(
    tmp_path: Path, source: Path, output: str
) -> None:
    run(tmp_path, source, dedup="none", output=output)
    run(tmp_path, source, "scanned", dedup="none", output=output, rejected=True)
    here = [{**line, "stage": ""} for line in lines(tmp_path)]
    assert here == [{**line, "stage": ""} for line in lines(tmp_path, "scanned")]
    assert Counter(line["reason"] for line in here) == {"not_text": 20, "too_short": 20}


@pytest.mark.parametrize("scanned", [False, True])
def test_documents_dropped_for_their_tokens_are_read_again(
    tmp_path: Path, source: Path, scanned: bool
) -> None:
    given = {"dedup": "none", "min_chars": 0, "min_length": 12, "max_length": 590, "rejected": scanned}
    manifest = run(tmp_path, source, **given)
    found = [line for line in lines(tmp_path) if line["reason"].endswith("_tokens")]
    assert {line["stage"] for line in found} == {"encode"}
    assert Counter(line["reason"] for line in found) == {
        reason: min(MOST_EXAMPLES, manifest["documents"]["dropped"][reason])
        for reason in ("too_few_tokens", "too_many_tokens")
    }
    for line in found:
        assert line["text"] == document_at(source, line)
        assert (len(line["text"]) + 1 < 12) == (line["reason"] == "too_few_tokens")
        assert (len(line["text"]) + 1 > 590) == (line["reason"] == "too_many_tokens")


def test_a_document_seen_before_has_no_twin(tmp_path: Path, source: Path) -> None:
    against = tmp_path / "against.jsonl"
    against.write_text("".join(json.dumps({"text": article(number)}) + "\n" for number in range(0, 300, 6)))
    run(tmp_path, source, dedup={"method": "exact", "against": [str(against)]})
    found = [line for line in lines(tmp_path) if line["reason"] == "duplicate"]
    assert len(found) == MOST_EXAMPLES
    assert not any("kept" in line for line in found)


def test_long_texts_are_cut_at_a_character(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({"text": "é" * 3000}) + "\n" + json.dumps({"text": "kept " * 50}) + "\n")
    run(tmp_path, source, max_chars=1000)
    (line,) = lines(tmp_path)
    assert (line["text"], line["bytes"]) == ("é" * (TEXT_BYTES // 2), 6000)


def test_without_samples_no_text_is_kept_and_the_run_is_the_same(tmp_path: Path, source: Path) -> None:
    with_samples = run(tmp_path, source)
    without = run(tmp_path, source, "without", samples=False)
    assert not (tmp_path / "without/examples.jsonl").exists()
    assert "examples" not in without
    assert without["identity"] == with_samples["identity"]
    assert without["distributions"] == with_samples["distributions"]
    shards = [[shard["sha256"] for shard in each["dataset"]["shards"]] for each in (with_samples, without)]
    assert shards[0] == shards[1]


def test_a_changed_file_of_examples_is_found(tmp_path: Path, source: Path) -> None:
    run(tmp_path, source)
    validate(tmp_path / "out")
    file = tmp_path / "out/examples.jsonl"
    file.write_bytes(file.read_bytes().replace(b"short", b"SHORT", 1))
    with pytest.raises(InputError, match=r"examples\.jsonl` has the checksum"):
        validate(tmp_path / "out")


def histogram(values: list[int]) -> list[int]:
    found = Counter(value.bit_length() for value in values)
    return [found[digits] for digits in range(max(found) + 1)]


@pytest.mark.parametrize("packing", ["wrapped", "bfd"])
def test_distributions_are_those_of_what_was_written(tmp_path: Path, source: Path, packing: str) -> None:
    manifest = run(tmp_path, source, output="both", packing=packing)
    found = manifest["distributions"]
    texts = pq.read_table(sorted((tmp_path / "out").glob("text-*.parquet")))["text"].to_pylist()
    sizes = [len(text.encode()) for text in texts]
    assert found["document_bytes"] == histogram(sizes)
    assert found["document_tokens"] == histogram([size + 1 for size in sizes])
    rows = krill.load(tmp_path / "out", memory="400MB")
    pieces = [np.asarray(rows[at]["seq_lengths"]).tolist() for at in range(len(rows))]
    assert found["row_documents"] == histogram([len(row) for row in pieces])
    assert found["row_document_tokens"] == histogram([length for row in pieces for length in row])
    (of_source,) = found["sources"]
    assert of_source == {
        "source": str(source),
        **manifest["documents"],
        "bytes": sum(sizes),
        "tokens": sum(sizes) + len(sizes),
    }


def test_languages_are_counted_where_a_filter_has_measured_them(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    texts = ["The whales eat krill in the cold ocean, and the krill eat plankton." * 3] * 3
    texts += ["Die Wale fressen Krill im kalten Ozean, und der Krill frisst Plankton." * 3] * 2
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    filters = [{"language": {"label_only": True}}]
    for name, more in {"text": {"output": "text"}, "tokens": {}}.items():
        manifest = run(tmp_path, source, name, filters=filters, statistics=True, dedup="none", **more)
        tokens = name == "tokens"
        assert manifest["distributions"]["languages"] == {
            language: {
                "documents": len(own),
                "bytes": sum(map(len, own)),
                **({"tokens": sum(map(len, own)) + len(own)} if tokens else {}),
            }
            for language, own in (("de", texts[3:]), ("en", texts[:3]))
        }
        assert "dropped_languages" not in manifest["distributions"]
    manifest = run(tmp_path, source, "english", filters=[{"language": {"allow": ["en"]}}], dedup="none")
    assert manifest["distributions"]["dropped_languages"] == {"de": 2}
    assert manifest["documents"]["dropped"] == {"language": 2}


@pytest.mark.parametrize("dedup", ["none", "exact"])
def test_conversations_have_examples_of_the_rows_as_they_came(tmp_path: Path, dedup: str) -> None:
    chats: list[Any] = [[{"role": "user", "content": f"question {n}"}] for n in range(3)]
    good = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "an answer"}]
    rows = [{"messages": chat} for chat in [[], *chats, *([good] * 40), "no list"]]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {
        "datasets": [{"path": str(source), "type": "chat_template"}],
        "tokenizer": {"path": str(write_tokenizer(tmp_path / "tokenizer"))},
        "chat_template": "chatml",
        "preprocess": {
            "prepared_path": str(tmp_path / "out"),
            "sequence_len": 64,
            "min_length": 0,
            "min_chars": 0,
            "dedup": dedup,
            "on_error": "skip",
            "max_untrained": 0.9,
        },
    }
    manifest = krill.preprocess(config, memory="400MB").manifest
    found = [line for line in lines(tmp_path) if "cluster" not in line]
    dropped = manifest.documents["dropped"]
    assert Counter(line["reason"] for line in found) == {name: min(20, n) for name, n in dropped.items()}
    (empty,) = [line for line in found if line["reason"] == "empty_conversation"]
    assert json.loads(empty["text"]) == {"messages": []}
    assert {line["reason"] for line in found} >= {"empty_conversation", "untrained"}
