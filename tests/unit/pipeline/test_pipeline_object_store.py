"""A run in an object store gives the bytes of a local one, also when workers share nothing but the store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pytest

import krill
from chat_jobs import conversations, write_tokenizer
from in_process_engine import InProcessRunner, Task, opening
from krill.budget import resident_bytes
from krill.chat.template import BUILT_IN
from krill.engines import LocalEngine, Resources, WorkerSpec, worker
from krill.errors import ConfigError, InputError, StorageError
from krill.pipeline.job import run_preprocess
from krill.pipeline.summary import Summary
from krill.tokenizer import open_encoder as open_in_earnest
from peers import peer

peer("ray")  # the engine in name, which a driver loads

OUTPUT = "memory://bucket/out/set"
WORK = "/bucket/out/.set.krill"
engine_name = "local"


class Strangers(InProcessRunner):
    """Workers of this process, a new one for each task: none finds on its disk what another has made."""

    workers = 3

    def __init__(self) -> None:
        super().__init__()
        self.stop_after: int | None = None

    def run(
        self, spec: WorkerSpec, tasks: Iterable[Task], resources: Resources
    ) -> Iterator[Mapping[str, Any]]:
        for done in super().run(spec, tasks, resources):
            worker.release()
            if self.stop_after is not None and len(self.tasks) >= self.stop_after:
                raise KeyboardInterrupt
            yield done

    def stages(self) -> list[str]:
        return [task.stage for task in self.tasks]


@pytest.fixture
def store() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Strangers]:
    engine = Strangers()
    monkeypatch.setattr("krill.pipeline.job.open_engine", opening(engine))
    monkeypatch.setitem(globals(), "engine_name", "ray")  # in name only
    monkeypatch.setattr("krill.dataset.layout.BATCH_BYTES", 2048)
    yield engine
    worker.release()


@pytest.fixture
def datasets(tmp_path: Path) -> list[dict[str, Any]]:
    """Documents some of which are copies, or nearly."""
    sources = []
    for part in range(2):
        path = tmp_path / f"part-{part}.jsonl"
        texts = (f"{_words(n // 3)}\nline {n % 5}\n" + " end" * (n % 11 == 5) for n in range(part, 300, 2))
        path.write_text("".join(json.dumps({"text": text, "id": text[:9]}) + "\n" for text in texts))
        sources.append({"path": str(path)})
    return sources


def _words(number: int) -> str:
    return " ".join(f"{(number * 31 + at * at) % 9973:x}" for at in range(60 + number % 50))


def prepare(place: Path | str, datasets: list[dict[str, Any]], **more: Any) -> Summary:
    overwrite = more.pop("overwrite", False)
    return krill.preprocess(config_of(place, datasets, **more), overwrite=overwrite)


def config_of(place: Path | str, datasets: list[dict[str, Any]], **settings: Any) -> dict[str, Any]:
    return {
        "memory": "1500MB",  # tasks run in this process, which holds whatever other tests have loaded
        "threads": 2,
        "engine": engine_name,
        "datasets": datasets,
        "tokenizer": settings.pop("tokenizer", {"builtin": "bytes"}),
        "spill_dir": settings.pop("spill_dir", None),
        "preprocess": {
            "prepared_path": str(place),
            "sequence_len": 64,
            "min_length": 0,
            "min_chars": 0,
            "unit_bytes": "64KB",
            "max_document_bytes": "8KB",
            "shard_size": "64KB",
            **settings,
        },
    }


def contents(files: dict[str, bytes]) -> dict[str, str]:
    """Every file but the run's own account of itself."""
    return {
        name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != "krill-run.json"
    }


def in_folder(folder: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def in_store(store: Any) -> dict[str, bytes]:
    return {name.removeprefix("/bucket/out/set/"): store.cat(name) for name in store.find("/bucket/out/set")}


def alone(tmp_path: Path, datasets: list[dict[str, Any]], monkeypatch: Any, **settings: Any) -> Summary:
    """The same in one process and one folder."""
    monkeypatch.setattr("krill.pipeline.job.open_engine", lambda *given: LocalEngine())
    return prepare(tmp_path / "alone", datasets, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"dedup": "exact"},
        {"dedup": "minhash", "packing": "bfd", "shuffle": True, "split": {"validation": 0.2}},
        {"dedup": {"method": "minhash", "clusters": True}, "output": "both", "rejected": True},
        {"dedup": {"method": "exact", "level": "line"}, "rejected": True, "min_chars": 200},
        {"dedup": "none", "output": "text"},
    ],
    ids=["exact", "minhash", "clusters", "lines", "text"],
)
def test_workers_that_share_only_the_store_give_the_same_bytes(
    tmp_path: Path,
    store: Any,
    strangers: Strangers,
    datasets: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
) -> None:
    shared = prepare(OUTPUT, datasets, **settings)
    local = alone(tmp_path, datasets, monkeypatch, **settings)
    assert shared.output == OUTPUT
    assert contents(in_store(store)) == contents(in_folder(tmp_path / "alone"))
    assert (shared.manifest.documents, shared.manifest.tokens) == (
        local.manifest.documents,
        local.manifest.tokens,
    )
    assert len(strangers.tasks) > 1
    assert all(spec.anywhere and spec.address == OUTPUT for spec in strangers.specs)
    assert store.find("/bucket") == store.find("/bucket/out/set")
    assert store.cat(f"{OUTPUT}/krill-run.json")


def test_one_process_writes_into_a_store_too(
    tmp_path: Path, store: Any, datasets: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(OUTPUT, datasets)
    alone(tmp_path, datasets, monkeypatch)
    assert contents(in_store(store)) == contents(in_folder(tmp_path / "alone"))
    again = prepare(OUTPUT, datasets)
    assert again.status == "finished"
    assert again.manifest.tokens == prepare(tmp_path / "alone", datasets).manifest.tokens


def test_what_is_compared_with_is_found_by_all_workers(
    tmp_path: Path,
    store: Any,
    strangers: Strangers,
    datasets: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dedup = {"method": "exact", "against": [datasets[1]["path"]]}
    shared = prepare(OUTPUT, datasets[:1], dedup=dedup)
    local = alone(tmp_path, datasets[:1], monkeypatch, dedup=dedup)
    assert shared.manifest.documents == local.manifest.documents
    assert contents(in_store(store)) == contents(in_folder(tmp_path / "alone"))


def test_workers_take_the_tokenizer_from_the_store(
    tmp_path: Path, store: Any, strangers: Strangers, datasets: list[dict[str, Any]], monkeypatch: Any
) -> None:
    folder = tmp_path / "tokenizer"
    krill.tokenizer.train([datasets[0]["path"]], vocab_size=300, memory="200MB", output=folder)
    opened: list[Path] = []

    def open_encoder(config: Any, plan: Any, threads: int) -> Any:
        opened.append(Path(config.path))
        return open_in_earnest(config, plan, threads)

    monkeypatch.setattr("krill.pipeline.worker.open_encoder", open_encoder)
    prepare(OUTPUT, datasets, tokenizer={"path": str(folder)})
    assert opened and not any(path.is_relative_to(folder) for path in opened)
    alone(tmp_path, datasets, monkeypatch, tokenizer={"path": str(folder)})
    assert contents(in_store(store)) == contents(in_folder(tmp_path / "alone"))


@pytest.mark.parametrize("stop_after", [1, 6])
def test_a_killed_run_goes_on_with_what_is_in_the_store(
    tmp_path: Path,
    store: Any,
    strangers: Strangers,
    datasets: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    stop_after: int,
) -> None:
    strangers.stop_after = stop_after
    with pytest.raises(KeyboardInterrupt):
        prepare(OUTPUT, datasets)
    assert f"{WORK}/run.json" in store.find(WORK)
    first = [(task.name, task.stage) for task in strangers.tasks]
    strangers.stop_after, strangers.tasks = None, []
    summary = prepare(OUTPUT, datasets)
    assert summary.manifest.extra["continued"]
    assert not set(first) & {(task.name, task.stage) for task in strangers.tasks}
    alone(tmp_path, datasets, monkeypatch)
    assert contents(in_store(store)) == contents(in_folder(tmp_path / "alone"))


def test_shares_without_a_scheduler_meet_in_the_store(
    tmp_path: Path, store: Any, datasets: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from krill.config import load_config
    from krill.engines.rank import Rank
    from krill.threads.progress import Silent

    config = load_config(config_of(OUTPUT, datasets))
    # What other tests have loaded into this process is not the run's.
    run = partial(run_preprocess, config, overwrite=False, progress=Silent(), floor=resident_bytes())

    def share(number: int) -> None:
        run(rank=Rank(number, 2), patience=0)

    for _ in range(20):  # each gets as far as it can without the other
        ended = 0
        for number in (1, 2):
            try:
                share(number)
                ended += 1
            except StorageError as error:
                assert "waits for" in error.message
        if ended == 2:
            break
    assert not [name for name in store.find("/bucket/out/set") if name.endswith("krill-run.json")]
    summary = run()
    assert summary is not None and summary.manifest.extra["continued"]
    alone(tmp_path, datasets, monkeypatch)
    assert contents(in_store(store)) == contents(in_folder(tmp_path / "alone"))


def test_another_config_is_refused_until_it_may_overwrite(
    tmp_path: Path, store: Any, datasets: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(OUTPUT, datasets)
    with pytest.raises(ConfigError, match="sequence_len"):
        prepare(OUTPUT, datasets, sequence_len=32)
    store.pipe("/bucket/out/set/data-99999.arrow", b"of the old one")
    prepare(OUTPUT, datasets, sequence_len=32, overwrite=True)
    alone(tmp_path, datasets, monkeypatch, sequence_len=32)
    assert contents(in_store(store)) == contents(in_folder(tmp_path / "alone"))


def test_what_somebody_else_keeps_there_is_not_touched(store: Any, datasets: list[dict[str, Any]]) -> None:
    store.pipe("/bucket/out/set/letters.txt", b"dear")
    with pytest.raises(StorageError, match="is not a Krill output"):
        prepare(OUTPUT, datasets)
    assert in_store(store) == {"letters.txt": b"dear"}
    assert not store.find(WORK)


def test_a_run_that_keeps_nothing_leaves_nothing(store: Any, datasets: list[dict[str, Any]]) -> None:
    with pytest.raises(InputError, match="0 tokens are left"):
        prepare(OUTPUT, datasets, min_chars=10**6)
    assert store.find("/bucket") == []


def test_a_run_does_not_read_its_own_output(store: Any, datasets: list[dict[str, Any]]) -> None:
    for number, dataset in enumerate(datasets):
        store.pipe(f"/bucket/part-{number}.jsonl", Path(dataset["path"]).read_bytes())
    everything = [{"path": "memory://bucket/"}]
    first = prepare(OUTPUT, everything, output="text")
    assert [entry["path"] for entry in first.manifest.inputs] == [
        "memory:///bucket/part-0.jsonl",
        "memory:///bucket/part-1.jsonl",
    ]
    assert prepare(OUTPUT, everything, output="text").status == "finished"


def test_scratch_is_where_it_is_wanted_and_gone_afterwards(
    tmp_path: Path, store: Any, strangers: Strangers, datasets: list[dict[str, Any]]
) -> None:
    (tmp_path / "scratch").mkdir()
    abandoned = tmp_path / "scratch" / "krill-scratch-of-a-killed-process"
    abandoned.mkdir()
    (abandoned / "lock").touch()
    prepare(OUTPUT, datasets, spill_dir=str(tmp_path / "scratch"))
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"prepared_path": "memory://bucket"}, "a whole bucket"),
        ({"dedup_cache_dir": "seen"}, "`preprocess.dedup_cache_dir` is a folder"),
        ({"prepared_path": "nosuch://bucket/set"}, "no protocol `nosuch`"),
    ],
)
def test_what_can_not_be_in_a_store_is_refused(
    store: Any, datasets: list[dict[str, Any]], settings: dict[str, Any], fact: str
) -> None:
    with pytest.raises(ConfigError, match=fact):
        prepare(OUTPUT, datasets, **settings)
    assert store.find("/") == []


def test_workers_need_neither_the_file_of_a_chat_template_nor_the_tokenizers_folder(
    tmp_path: Path, store: Any, strangers: Strangers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be on other machines: what the template says goes with the run."""
    rows = [{"messages": chat} for chat in conversations(600)]
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    template = tmp_path / "own.jinja"
    template.write_text(BUILT_IN["chatml"].replace("'\\n'", "' '"))
    model = write_tokenizer(tmp_path / "model")
    chats = [{"path": str(tmp_path / "chats.jsonl"), "type": "chat_template"}]
    settings = {"tokenizer": {"path": str(model)}, "sequence_len": 256, "strip": False, "packing": "bfd"}

    def config_with(place: Path | str) -> dict[str, Any]:
        return config_of(place, chats, **dict(settings)) | {"chat_template": str(template)}

    begun = strangers.run

    def run(*given: Any) -> Iterator[Mapping[str, Any]]:
        template.rename(tmp_path / "away.jinja")
        model.rename(tmp_path / "away")
        yield from begun(*given)
        (tmp_path / "away").rename(model)
        (tmp_path / "away.jinja").rename(template)

    monkeypatch.setattr(strangers, "run", run)
    krill.preprocess(config_with(OUTPUT))
    assert len(strangers.tasks) > 2
    monkeypatch.setattr("krill.pipeline.job.open_engine", lambda *given: LocalEngine())
    krill.preprocess(config_with(tmp_path / "alone"))
    assert contents(in_store(store)) == contents(in_folder(tmp_path / "alone"))
