"""What the main job makes: the same bytes whatever the budget, the threads or the batches; text that is input
again; sources in order; and no Python per document on the way."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import krill as package
from conftest import dataset_bytes, grow_jsonl
from jobs import Job, document, json_lines

pytest_plugins = ["job_fixtures"]

SMALL_UNITS = {
    "unit_bytes": "400KB",
    "max_document_bytes": "150KB",
    "shard_size": "800KB",
    "sequence_len": 512,
}
# The first and the last differ in both, so that whatever depends on either shows.
CORNERS = (("256MB", "1"), ("1GB", "2"))
OTHERS = (("256MB", "2"), ("1GB", "1"))


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> Path:
    """The same 2.5 MB as JSON lines, compressed, and as Parquet in row groups of uneven size."""
    folder = tmp_path_factory.mktemp("corpora")
    lines = grow_jsonl(folder / "corpus.jsonl", 2_500_000).read_bytes()
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(lines, 1))
    rows = [json.loads(line) for line in lines.splitlines()]
    pq.write_table(pa.Table.from_pylist(rows), folder / "corpus.parquet", row_group_size=150)
    return folder


def outputs(job: Job, *variants: tuple[str, ...]) -> list[dict[str, bytes]]:
    """The bytes that the same job makes with each of some arguments."""
    made = []
    for arguments in variants:
        outcome = job.preprocess("--overwrite", *arguments)
        assert outcome.code == 0, outcome.err
        made.append(dataset_bytes(job.output))
    return made


# Nothing but config shapes the output.


@pytest.mark.parametrize(
    "resources", [CORNERS, pytest.param(CORNERS + OTHERS, marks=pytest.mark.soak)], ids=["corners", "all"]
)
@pytest.mark.parametrize(
    ("name", "output"), [("corpus.jsonl", "tokens"), ("corpus.jsonl.gz", "both"), ("corpus.parquet", "both")]
)
def test_the_output_is_the_same_for_any_budget_and_threads(job, corpora, name, output, resources):
    job.read_from(str(corpora / name))
    job.set(**SMALL_UNITS, output=output)
    first, *others = outputs(
        job, *(("--memory", memory, "--threads", threads) for memory, threads in resources)
    )
    assert len(first) > 4
    assert all(other == first for other in others)


def test_the_same_documents_give_the_same_rows_from_any_format(job, corpora):
    """Also without deduplication, where nothing is scanned first, and at another size of units."""
    job.set(**SMALL_UNITS, dedup="none")
    smaller = ("--set", "preprocess.unit_bytes=200KB")
    job.read_from(str(corpora / "corpus.jsonl"))
    first, *others = outputs(job, (), smaller)
    for name in ("corpus.jsonl.gz", "corpus.parquet"):
        job.read_from(str(corpora / name))
        others += outputs(job, smaller)
    assert len(first) > 4
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.parquet"])
def test_the_output_does_not_depend_on_the_seeds_chunk_size(job, corpora, name):
    job.read_from(str(corpora / name))
    job.set(**SMALL_UNITS, output="both")
    first, second = outputs(
        job, ("--set", "preprocess_chunk_size=37"), ("--set", "preprocess_chunk_size=10000")
    )
    assert first == second
    assert job.preprocess("--set", "preprocess_chunk_size=500").out.count("nothing to do") == 1


# Outputs.


def test_text_is_the_kept_documents_with_their_columns(job):
    texts = [document(1), "  " + document(2) + "\n", "short", document(1), document(3)]
    job.write("input.jsonl", json_lines(texts))
    job.read_from({"path": "input.jsonl", "columns": ["id"]})
    job.set(output="text")
    del job.config["tokenizer"]
    assert job.preprocess().code == 0
    table = pq.read_table(job.output / "text-00000.parquet")
    assert table.schema.names == ["text", "id"]
    assert table["text"].to_pylist() == [document(number).strip() for number in (1, 2, 3)]
    assert [int(number) for number in table["id"].to_pylist()] == [0, 1, 4]
    assert job.manifest()["documents"]["dropped"] == {"too_short": 1, "duplicate": 1}
    assert job.manifest()["dataset"] is None


def test_columns_of_parquet_are_carried_in_their_types(job):
    rows = {"text": [document(1), document(2)], "score": [0.5, 1.5], "tags": [["a"], []]}
    pq.write_table(pa.table(rows), job.folder / "input.parquet")
    job.read_from({"path": "input.parquet", "columns": ["score", "tags"]})
    job.set(output="text")
    assert job.preprocess().code == 0
    table = pq.read_table(job.output / "text-00000.parquet")
    assert table.to_pydict() == {**rows, "text": [text.strip() for text in rows["text"]]}


def test_both_is_the_text_and_the_tokens_of_the_same_documents(job):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    job.set(output="both")
    assert job.preprocess().code == 0
    texts = [document(number).strip() for number in range(20)]
    assert job.texts() == texts
    encoded = job.encoded()
    assert len(encoded) >= 19 and encoded == texts[: len(encoded)]
    assert job.run("validate", "out").code == 0


def test_a_text_output_is_input_again(job, corpora):
    job.read_from(str(corpora / "corpus.jsonl"))
    job.set(**SMALL_UNITS, output="text", prepared_path="text")
    assert job.preprocess().code == 0
    job.read_from("text")
    job.set(output="tokens", prepared_path="again")
    assert job.preprocess().code == 0
    job.read_from(str(corpora / "corpus.jsonl"))
    job.set(prepared_path="direct")
    assert job.preprocess().code == 0
    assert dataset_bytes(job.folder / "again") == dataset_bytes(job.folder / "direct")


def test_sources_follow_each_other_and_the_first_of_equal_documents_wins(job):
    job.write("b.jsonl", json_lines([document(1), document(2)]))
    job.write("a.txt", "<|endoftext|>".join([document(3), document(2), document(4)]).encode())
    rows = {"content": [document(4), document(5), document(1)]}
    pq.write_table(pa.table(rows), job.folder / "c.parquet")
    job.read_from("b.jsonl", "a.txt", {"path": "c.parquet", "text_column": "content"}, "b.jsonl")
    job.set(output="text")
    outcome = job.preprocess("--json")
    assert outcome.code == 0, outcome.err
    assert job.texts() == [document(number).strip() for number in (1, 2, 3, 4, 5)]
    assert outcome.result["documents"]["dropped"] == {"duplicate": 5}


def test_the_seeds_flat_config_works_as_it_was_written(job):
    job.write("input.jsonl", json_lines(map(document, range(20))))
    job.config = {
        "sequence_len": 64,
        "dataset_prepared_path": "out",
        "dataset_prepared_min_length": 10,
        "preprocess_memory_efficient": True,
        "preprocess_chunk_size": 5,
        "preprocess_save_shard_size": "1MB",
        "datasets": [{"path": "input.jsonl", "split": "train", "text_column": "text"}],
        "tokenizer": {"builtin": "bytes"},
    }
    outcome = job.preprocess()
    assert outcome.code == 0, outcome.err
    assert "notice: `preprocess_memory_efficient` changes nothing" in outcome.err
    assert job.encoded() == [document(number).strip() for number in range(20)][: len(job.encoded())]


# No Python per document.


HOME = str(Path(package.__file__).parent)


class Lines:
    """Counts the lines of Krill's Python that run; how threads wait, and the meter, depend on time alone."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Lines:
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def _trace(self, frame, event: str, argument) -> Callable | None:
        if not frame.f_code.co_filename.startswith(HOME) or threading.current_thread().name == "krill-meter":
            return None
        if event == "line":
            self.count += 1
        return self._trace


def lines_run(folder: Path, documents: int, ending: str, output: str) -> int:
    """Lines of Python that one block of 600 kB takes, in so many documents."""
    folder.mkdir()
    texts = [f"{number} ".ljust(600_000 // documents, "x") for number in range(documents)]
    path = folder / f"input.{ending}"
    match ending:
        case "parquet":
            pq.write_table(pa.table({"text": texts}), path)
        case "jsonl.gz":
            path.write_bytes(gzip.compress(json_lines(texts)))
        case "jsonl":
            path.write_bytes(json_lines(texts))
        case "txt":
            path.write_text("<|endoftext|>".join(texts))
    config = {
        "datasets": [{"path": str(path)}],
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {
            "prepared_path": str(folder / "out"),
            "output": output,
            "min_chars": 0,
            "min_length": 0,
            "sequence_len": 1024,
        },
    }
    with Lines() as lines:
        summary = package.preprocess(config, memory="500MB", threads=2)
    assert summary.manifest.documents["kept"] == documents
    return lines.count


@pytest.mark.parametrize(
    ("ending", "output"), [("jsonl", "tokens"), ("jsonl.gz", "both"), ("parquet", "text"), ("txt", "tokens")]
)
def test_no_python_runs_per_document(tmp_path, ending, output):
    lines_run(tmp_path / "warm", 10, ending, output)  # imports and caches
    few = lines_run(tmp_path / "few", 200, ending, output)
    many = lines_run(tmp_path / "many", 2000, ending, output)
    # Threads wait now and then, which takes some lines; a single line per document would be 1,800 more.
    assert many - few < 300
    assert few > 2000  # it does count
