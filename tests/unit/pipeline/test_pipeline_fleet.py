"""Work that is cut into tasks gives the same bytes as work that is not, whatever is asked for."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import krill
from in_process_engine import InProcessRunner, Task, opening
from krill.corpus import fingerprint
from krill.engines import LocalEngine, Resources, WorkerSpec, worker
from krill.errors import ConfigError, InputError
from krill.pipeline.stages.base import bundle_sizes
from krill.pipeline.summary import Summary
from peers import peer

peer("ray")  # the engine in name, which a driver loads


class Recorded(InProcessRunner):
    """The engine of this process, as if it had several workers; remembers what it was given."""

    workers = 3

    def __init__(self) -> None:
        super().__init__()
        self.fail_after: int | None = None

    def run(
        self, spec: WorkerSpec, tasks: Iterable[Task], resources: Resources
    ) -> Iterator[Mapping[str, Any]]:
        for done in super().run(spec, tasks, resources):
            if self.fail_after is not None and len(self.tasks) >= self.fail_after:
                raise KeyboardInterrupt
            yield done


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    recorded = Recorded()
    monkeypatch.setattr("krill.pipeline.job.open_engine", opening(recorded))
    monkeypatch.setattr("krill.dataset.layout.BATCH_BYTES", 2048)
    yield recorded
    worker.release()


@cache
def text_of(number: int) -> str:
    """Documents some of which are copies, or nearly."""
    number -= number % 7 == 3
    words = " ".join(_word(number * 31 + at * at) for at in range(40 + number % 50))
    return f"{words}\nline {number % 5}\n" + (" end" if number % 11 == 5 else "")


def _word(number: int) -> str:
    return "".join(chr(ord("a") + number // 26**place % 26) for place in range(4))


def write_input(folder: Path, *, compressed: bool = False) -> list[dict[str, Any]]:
    lines = [json.dumps({"text": text_of(number), "id": number}).encode() + b"\n" for number in range(600)]
    sources = []
    for part in range(3):
        path = folder / f"part-{part}.jsonl"
        content = b"".join(lines[part::3])
        if compressed:
            path = path.with_name(path.name + ".gz")
            content = gzip.compress(content)
        path.write_bytes(content)
        sources.append({"path": str(path)})
    return sources


def prepare(folder: Path, name: str, datasets: list[dict[str, Any]], **settings: Any) -> Summary:
    config = {
        "memory": "400MB",
        "threads": 2,
        "engine": settings.pop("engine", "ray"),  # in name: the tests say who does the work
        "datasets": datasets,
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {
            "prepared_path": str(folder / name),
            "sequence_len": 64,
            "min_length": 0,
            "min_chars": 0,
            "unit_bytes": "64KB",
            "max_document_bytes": "8KB",
            "shard_size": "64KB",
            **settings,
        },
    }
    return krill.preprocess(config)


def contents(folder: Path) -> dict[str, str]:
    """Every file but the run's own account of itself."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "krill-run.json"
    }


def both(
    folder: Path,
    engine: Recorded,
    monkeypatch: pytest.MonkeyPatch,
    datasets: list[dict[str, Any]],
    **settings: Any,
) -> tuple[Summary, Summary]:
    """The same job in tasks, and without any."""
    shared = prepare(folder, "shared", datasets, **settings)
    monkeypatch.setattr("krill.pipeline.job.open_engine", lambda *given: LocalEngine())
    return shared, prepare(folder, "alone", datasets, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"dedup": "exact"},
        {"dedup": "none", "packing": "bfd", "pack_window": 50},
        {"dedup": "minhash", "packing": "bfd", "shuffle": True},
        {"dedup": {"method": "minhash", "clusters": True}, "output": "both", "rejected": True},
        {"dedup": {"method": "minhash", "verify": 0.6}},
        {"dedup": {"method": "bloom", "expected_documents": 1000}},
        {"dedup": {"method": "exact", "level": "line"}, "rejected": True, "min_chars": 200},
        {"dedup": "none", "output": "text"},
        {"split": {"validation": 0.2}, "filters": ["gopher_repetition"], "rejected": True, "output": "both"},
    ],
    ids=["exact", "none", "minhash", "clusters", "verify", "bloom", "lines", "text", "split"],
)
def test_tasks_give_the_same_bytes(
    tmp_path: Path, engine: Recorded, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    shared, alone = both(tmp_path, engine, monkeypatch, write_input(tmp_path), **settings)
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
    assert len(engine.tasks) > 5
    ours, theirs = shared.manifest, alone.manifest
    assert (ours.documents, ours.tokens) == (theirs.documents, theirs.tokens)
    assert ours.extra["duplicates"] == theirs.extra["duplicates"]
    assert ours.extra["engine"]["tasks"] == len(engine.tasks)


def test_compressed_files_are_read_by_several_workers(
    tmp_path: Path, engine: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    both(tmp_path, engine, monkeypatch, write_input(tmp_path, compressed=True))
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
    scans = [task for task in engine.tasks if task.stage == "scan"]
    assert len(scans) == 3


def test_a_source_with_a_ration_is_read_in_order(
    tmp_path: Path, engine: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = write_input(tmp_path)
    datasets[1]["max_tokens"] = 20_000
    shared, _ = both(tmp_path, engine, monkeypatch, datasets, dedup="none")
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
    assert shared.manifest.documents["dropped"]["over_max_tokens"] > 0


def test_weighted_sources_are_packed_apart(
    tmp_path: Path, engine: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = [{**source, "weight": 1 + at} for at, source in enumerate(write_input(tmp_path))]
    shared, _ = both(tmp_path, engine, monkeypatch, datasets, packing="bfd")
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
    assert shared.manifest.dataset is not None
    assert len(shared.manifest.dataset.sources) == 3


@pytest.mark.parametrize("dedup", ["exact", "minhash"])
def test_a_killed_driver_goes_on_with_what_was_committed(
    tmp_path: Path, engine: Recorded, monkeypatch: pytest.MonkeyPatch, dedup: str
) -> None:
    datasets = write_input(tmp_path)
    names: list[str] = []
    for fail_after in (2, 3, 2, 4, 3):
        engine.tasks, engine.fail_after = [], fail_after
        with pytest.raises(KeyboardInterrupt):
            prepare(tmp_path, "shared", datasets, dedup=dedup)
        names += [task.name for task in engine.tasks]
    engine.tasks, engine.fail_after = [], None
    both(tmp_path, engine, monkeypatch, datasets, dedup=dedup)
    names += [task.name for task in engine.tasks]
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
    assert len(names) == len(set(names)), "nothing was done twice"


def test_what_is_seen_before_counts(
    tmp_path: Path, engine: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = write_input(tmp_path)
    against = [datasets.pop()["path"]]
    for dedup in ("exact", "minhash"):
        settings = {"dedup": {"method": dedup, "against": against}}
        shared = prepare(tmp_path, f"shared-{dedup}", datasets, **settings)
        with monkeypatch.context() as patch:
            patch.setattr("krill.pipeline.job.open_engine", lambda *given: LocalEngine())
            prepare(tmp_path, f"alone-{dedup}", datasets, **settings)
        assert contents(tmp_path / f"shared-{dedup}") == contents(tmp_path / f"alone-{dedup}")
        assert shared.manifest.documents["dropped"]["duplicate"] > 0


def test_a_worker_that_sees_another_input_says_so(
    tmp_path: Path, engine: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = write_input(tmp_path)
    real = fingerprint.fingerprint
    monkeypatch.setattr(fingerprint, "fingerprint", lambda file: {**real(file), "fingerprint": "another"})
    with pytest.raises(InputError, match=r"sees another `.*part-0\.jsonl` than the run was begun with"):
        prepare(tmp_path, "shared", datasets)


def test_a_worker_with_another_version_refuses(
    tmp_path: Path, engine: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = worker.encode_request

    def older(*given: Any, **what: Any) -> bytes:
        return sent(*given, **what).replace(krill.__version__.encode(), b"0.0.1", 1)

    monkeypatch.setattr("in_process_engine.encode_request", older)
    with pytest.raises(ConfigError, match=r"has Krill .*, the run was started with 0\.0\.1"):
        prepare(tmp_path, "shared", write_input(tmp_path))


def test_own_functions_are_not_sent(tmp_path: Path) -> None:
    config = {
        "datasets": write_input(tmp_path),
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {"prepared_path": str(tmp_path / "out")},
        "engine": "ray",
    }
    with pytest.raises(ConfigError, match="can't be sent to the workers of the engine `ray`"):
        krill.preprocess(config, steps=[lambda texts: texts])


@pytest.mark.parametrize(("units", "workers"), [(1, 1), (3, 8), (62, 2), (1000, 2), (1000, 300)])
def test_tasks_get_smaller_until_all_units_are_given_out(units: int, workers: int) -> None:
    sizes = []
    for size in bundle_sizes(units, workers):
        sizes.append(size)
        if sum(sizes) >= units:
            break
    assert sum(sizes) == units
    assert sizes == sorted(sizes, reverse=True)
    assert 1 == sizes[-1] <= sizes[0] <= 8
    # So that nobody waits for longer than one unit takes.
    assert sizes[-min(units, workers) :] == [1] * min(units, workers)


def test_a_task_that_is_no_unit_is_sent_alone(tmp_path: Path, engine: Recorded) -> None:
    prepare(tmp_path, "shared", write_input(tmp_path))
    packed = [task.tasks for task in engine.tasks if task.stage == "pack"]
    assert len(packed) > 1
    assert {len(tasks) for tasks in packed} == {1}


def test_a_task_is_named_with_its_range(tmp_path: Path, engine: Recorded) -> None:
    """Where it ends is known for files that can be read from any place, and else while units are read."""
    prepare(tmp_path, "plain", write_input(tmp_path))
    prepare(tmp_path, "packed", write_input(tmp_path, compressed=True))
    names = [re.sub(r"/\S+/", "", task.name) for task in engine.tasks]
    plain = [name for name in names if re.fullmatch(r"scan, part-\d\.jsonl from [\d,]+ to [\d,]+.*", name)]
    assert len(plain) > 1
    assert any(
        re.fullmatch(r"scan, part-\d\.jsonl\.gz from 0 to the end of part-\d\.jsonl\.gz", name)
        for name in names
    )
    assert any(re.fullmatch(r"encode, part-\d\.jsonl\S* from [\d,]+, one unit", name) for name in names)
