"""Hostile inputs: what a case is, how it is run, and what has to hold after every one of them.

A case is a name, a function that writes its files into a folder of its own, and the words that a user types
there. `assault` runs the real command and checks what no input may change: it ends by itself and in time,
with one of the codes that a user's input can cause, within the budget, with a hint and no traceback, prints
nothing that a terminal obeys, leaves a whole output or none, and every byte that was there before.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import zlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from test_faults_terminal import OBEYED

import preloaded
from measured import Outcome

MEMORY = 256_000_000
SECONDS = 60
# Other work may take most of a machine, so what counts is the processor's time; a wait has this limit.
WAITED = 400
# What a person can still read, and find the error in.
MOST_PRINTED = 20_000
FAULTS = frozenset({2, 3, 4, 5})
OUTPUT = "out"
# What these print on standard output is data, as long as the input makes it.
PRINTS_DATA = {("tokenizer", "encode"), ("tokenizer", "decode")}
WHOLE_OR_ABSENT = {("tokenizer", "train"), ("tokenizer", "encode"), ("qa", "prepare")}
# One of so many is tried by `make test`: about sixty.
SHARE = 32

Make = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """`codes` are those that may end it; `kept`, if given, are all documents of the text output, and `holds`
    those that stand in it in this order, perhaps among others, if there is an output."""

    name: str
    make: Make
    arguments: Sequence[str]
    codes: frozenset[int] = FAULTS | {0}
    kept: Sequence[str] | None = None
    holds: Sequence[str] = ()
    memory: int = MEMORY
    seconds: float = SECONDS
    during: Callable[[Path], object] | None = None
    # Whose bytes the case itself changes while the command runs.
    changed: frozenset[str] = frozenset()
    fresh: bool = False
    # Variables of its environment besides those of the tests.
    environ: Mapping[str, str] | None = None
    left: str | None = field(default=None)  # what still fails, and why

    @property
    def usual(self) -> bool:
        """Whether `make test` tries it, always the same ones."""
        return zlib.crc32(self.name.encode()) % SHARE == 0


def codes(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def settings(path: str | list[dict[str, Any]] = "input.jsonl", **preprocess: Any) -> dict[str, Any]:
    """A config that keeps every document as it is, as text and as tokens."""
    datasets = [{"path": path}] if isinstance(path, str) else path
    kept = {"min_length": 0, "min_chars": 0, "strip": False, "dedup": "none", "output": "both"}
    return {
        "datasets": datasets,
        "tokenizer": {"builtin": "bytes"},
        "preprocess": {"prepared_path": OUTPUT, "sequence_len": 8, **kept, **preprocess},
    }


def save(folder: Path, config: object) -> None:
    (folder / "config.yaml").write_text(json.dumps(config))


def words(verb: str, *more: str, memory: str = "256MB") -> list[str]:
    return [verb, *more, "--memory", memory, *([] if verb == "inspect" else ["--threads", "2"])]


def preprocess(
    name: str,
    file: str | None,
    content: bytes | Callable[[Path], object] | None,
    *numbers: int,
    dataset: dict[str, Any] | None = None,
    kept: Sequence[str] | None = None,
    memory: str = "256MB",
    path: str | None = None,
    config: dict[str, Any] | None = None,
    more: Sequence[str] = (),
    **rest: Any,
) -> Case:
    """`krill preprocess` of one file: its bytes, or what writes it. Other keywords are the case's."""
    from krill.budget import parse_size

    def make(folder: Path) -> None:
        if callable(content):
            content(folder / file if file is not None else folder)
        elif file is not None and content is not None:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
        source = {"path": path if path is not None else file, **(dataset or {})}
        save(folder, settings([source], **(config or {})))

    allowed = frozenset(numbers) or FAULTS | {0}
    return Case(
        name,
        make,
        words("preprocess", "config.yaml", *more, memory=memory),
        allowed,
        kept,
        memory=max(parse_size(memory), 120_000_000),
        **rest,
    )


def assault(case: Case, folder: Path, run: Callable[..., Outcome] | None = None) -> Outcome:
    """Run `case` in `folder`, and check what has to hold."""
    case.make(folder)
    (folder / "NOTES.md").write_text("not Krill's\n")
    (folder / "beside").mkdir(exist_ok=True)
    (folder / "beside" / "precious.txt").write_bytes(bytes(range(256)))
    before = _files(folder)
    outcome = _run(case, folder, run)
    _check_end(case, outcome)
    _check_files(case, before, _files(folder))
    _check_output(case, folder, outcome, before)
    return outcome


def _run(case: Case, folder: Path, run: Callable[..., Outcome] | None) -> Outcome:
    meddler = None
    if case.during is not None:
        meddler = threading.Thread(target=case.during, args=(folder,), daemon=True)
        meddler.start()
    outcome = (run or _warm)(*case.arguments, cwd=folder, timeout=WAITED, env=case.environ)
    if meddler is not None:
        meddler.join(10)
    return outcome


def _warm(*arguments: str, **options: Any) -> Outcome:
    return preloaded.run(arguments, **options)


def _check_end(case: Case, outcome: Outcome) -> None:
    printed = outcome.out + outcome.err
    figures = f"peak {outcome.peak / 1e6:.1f} MB, {outcome.cpu_seconds:.1f} s"
    said = f"exit {outcome.code}, {figures}\n{printed[-3000:]}"
    assert "Traceback" not in printed, said
    assert outcome.code < 128, f"ended by a signal: {said}"
    assert outcome.code in case.codes, said
    assert outcome.cpu_seconds <= case.seconds, f"too slow: {said}"
    assert outcome.peak <= case.memory, f"over the budget: {said}"
    read = outcome.err if tuple(case.arguments[:2]) in PRINTS_DATA else printed
    assert len(read) <= MOST_PRINTED, f"{len(read):,} characters were printed: {said[:1000]}"
    assert OBEYED.isdisjoint(printed), (
        f"a terminal would obey {sorted(OBEYED & set(printed))!r}: {said[:300]!r}"
    )
    if outcome.code:
        assert outcome.err.lstrip().startswith("error: ") or "\nerror: " in outcome.err, said
        # A message of the config's checks is the remedy itself: "must not be empty".
        assert outcome.code == 2 or "\nhint: " in outcome.err, said


def _check_files(case: Case, before: dict[str, object], after: dict[str, object]) -> None:
    lost = [
        name for name, content in before.items() if name not in case.changed and after.get(name) != content
    ]
    assert not lost, f"files that were there have changed or gone: {lost}"


def _check_output(case: Case, folder: Path, outcome: Outcome, before: Container[str]) -> None:
    """An output is whole or absent."""
    output = folder / OUTPUT
    if tuple(case.arguments[:2]) in WHOLE_OR_ABSENT and outcome.code:
        assert OUTPUT in before or not os.path.lexists(output), "an output in spite of the fault"
    if case.arguments[0] not in ("preprocess", "run"):
        return
    if outcome.code:
        assert f"{OUTPUT}/krill-run.json" in before or not (output / "krill-run.json").exists()
        assert case.kept is None, f"refused, but {len(case.kept)} documents were to be kept\n{outcome.err}"
        return
    manifest = output / "krill-run.json"
    if not manifest.exists():  # the case has an output of another name
        return
    checked = preloaded.run(["validate", OUTPUT, "--quiet"], cwd=folder, timeout=60)
    assert checked.code == 0, checked.err
    if case.kept is not None or case.holds:
        shards = json.loads(manifest.read_bytes())["text"]["shards"]
        texts = [
            text for shard in shards for text in pq.read_table(output / shard["file"])["text"].to_pylist()
        ]
        assert case.kept is None or texts == list(case.kept)
        wanted = set(case.holds)
        assert [text for text in texts if text in wanted] == list(case.holds)


def _files(folder: Path) -> dict[str, object]:
    """What every regular file of the folder holds; of a huge one its size and time. No link is followed."""
    found: dict[str, object] = {}
    for place, folders, names in os.walk(folder):
        for name in [*names, *folders]:
            path = Path(place) / name
            found[str(path.relative_to(folder))] = _content(path)
    return found


def _content(path: Path) -> object:
    status = path.lstat()
    if path.is_symlink():
        return str(path.readlink())
    if not path.is_file():
        return "a folder" if path.is_dir() else "special"
    if status.st_size > 300_000_000 or not os.access(path, os.R_OK):
        return status.st_size, status.st_mtime_ns
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unique(cases: Iterable[Case]) -> list[Case]:
    """The same, whose names differ."""
    found = list(cases)
    names = [case.name for case in found]
    assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]
    return found
