"""A run: one command's work on one output, from its first look at the output to the published result.

In: what shapes the output, as a dict, and the storage that the output is in. Out: whether the command starts,
continues an unfinished run, has nothing to do, or is refused; at the end the published output. Held in
memory: what the run is, and the manifest of a finished output.

Every command that writes has one: preprocess, tokenizer train, export, qa prepare, train, qa train and
datatrove's `PackDataset` differ in what they do between `begin` and `publish`. There are three storages:
`folder_storage.py` (a folder that is renamed into place), `object_storage.py`, and `training/folder.py` (a
folder that is used while it grows).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Literal, Protocol, Self, TypeVar

import orjson

from krill.budget import Meter
from krill.errors import ConfigError, StorageError
from krill.notebook import facts_html
from krill.storage.atomic import in_one_line, listed, write_json
from krill.storage.commits import RunPaths
from krill.storage.outputs import MANIFEST
from krill.storage.summary_rows import summary_rows
from krill.threads.progress import Progress, Silent

State = Literal["start", "continue", "finished", "published"]
START: Final = "start"
CONTINUE: Final = "continue"
FINISHED: Final = "finished"
PUBLISHED: Final = "published"
DONE: Final = "done"
PUT_INTO_PLACE: Final = "an earlier run had done everything but put its output into place: it is there now"
CONTINUING: Final = "continuing an earlier run of this command"

RUN: Final = "run.json"
TIMELINE: Final = "timeline.json"
LAYOUT: Final = 3
"""Of the files that an unfinished run keeps, as `run.json` states it; Krill 0.1 stated none."""

# What differs between two runs beside their configs and lists of input files, in words.
_CONTENTS: Final = {
    "steps": "the code of a step of your own",
    "tokenizer": "the tokenizer's content",
    "rows": "the dataset's rows",
    "base_model": "the weights of the base model",
    "features": "the features",
    "input": "the input",
}

ManifestT = TypeVar("ManifestT")


class RunStorage(Protocol):
    """Where a run keeps its files. `command` writes outputs of this kind; `setting` is where the user named
    the output, for messages."""

    command: str
    setting: str

    @property
    def output(self) -> Path | str: ...

    @property
    def paths(self) -> RunPaths:
        """Where its files are; of a run that was begun."""

    @property
    def address(self) -> str:
        """Where a worker finds the run."""

    def open(self) -> None:
        """Take the lock, if there is one, and tidy up after a run that was killed while it published."""

    def close(self, *, failing: bool) -> None:
        """Keep what a later command can continue, and nothing else; `failing` if an error is on its way."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Held by one of several processes of a run while it decides what to do."""

    def finished(self) -> dict[str, Any] | None:
        """The manifest of the output that is there, or None; refuses an output that is not Krill's."""

    def begun(self) -> dict[str, Any] | None:
        """What an unfinished run here was, or None."""

    def committed(self, begun: Mapping[str, Any]) -> bool:
        """Whether an unfinished run has work that can be continued."""

    def prepare(self, run: Mapping[str, Any], finished: Mapping[str, Any] | None) -> None:
        """Make room for a run and record what it is. `finished` is the output that it replaces, which must
        hold nothing but what Krill wrote."""

    def resume(
        self, begun: Mapping[str, Any], run: Mapping[str, Any], finished: Mapping[str, Any] | None
    ) -> State:
        """Continue the run; "published" if nothing was left to do but that, which is done then."""

    def tidy(self) -> None:
        """The output is finished: remove what a run left that was killed after that."""

    def note(self, name: str, value: Any) -> None: ...

    def noted(self, name: str) -> dict[str, Any] | None:
        """What was noted, by this process or an earlier one; None if it is not there."""

    def publish(self, *, threads: int) -> None: ...

    def discard(self, *, threads: int) -> None: ...


class Run:
    """A context manager that holds the storage's lock."""

    def __init__(self, storage: RunStorage, progress: Progress | None = None) -> None:
        self.storage = storage
        self.description: Mapping[str, Any] = {}
        self.continued = False
        self._ended = False
        self._progress = progress or Silent()

    def __enter__(self) -> Self:
        self.storage.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.storage.close(failing=kind is not None)

    @property
    def output(self) -> Path | str:
        """A folder, or the URL of one in an object store."""
        return self.storage.output

    @property
    def paths(self) -> RunPaths:
        return self.storage.paths

    @property
    def stages(self) -> Path:
        return self.storage.paths.stages

    @property
    def dataset(self) -> Path:
        return self.storage.paths.dataset

    def begin(self, description: Mapping[str, Any], *, overwrite: bool, anew: bool = False) -> State:
        """Decide what this command does: "finished" (nothing), "continue" an unfinished run, or "start";
        "published" if all that was left to do was to publish a finished dataset, which is done then.

        A finished output or an unfinished run that was made differently is refused unless `overwrite`, which
        always starts anew; `anew` does the same with an unfinished run alone. A run that was started to
        replace a finished output is continued without either.
        """
        self.description = description
        with self.storage.exclusive():
            state = self._begin(description, overwrite=overwrite, anew=anew)
        self.continued = state == CONTINUE
        if state == PUBLISHED:
            self._progress.note(PUT_INTO_PLACE)
        elif self.continued:
            self._progress.note(CONTINUING)
        return state

    def _begin(self, description: Mapping[str, Any], *, overwrite: bool, anew: bool) -> State:
        storage = self.storage
        begun, finished = storage.begun(), storage.finished()
        if finished is not None and finished.get("command") != storage.command:
            raise StorageError(
                f"`{storage.output}` holds what `krill {finished.get('command')}` made: nothing in it was"
                " touched",
                hint=f"choose another `{storage.setting}`",
            )
        overwrite = overwrite or (anew and finished is None)
        state = START if overwrite else self._decide(begun, finished, description)
        run = {**description, "layout": LAYOUT, "overwrite": overwrite}
        if state == CONTINUE:
            assert begun is not None
            return storage.resume(begun, run, finished)
        if state == START:
            storage.prepare(run, finished)
        else:
            storage.tidy()
        return state

    def _decide(
        self,
        begun: Mapping[str, Any] | None,
        finished: Mapping[str, Any] | None,
        now: Mapping[str, Any],
    ) -> State:
        output = self.storage.output
        if begun is not None and begun.get("layout") != LAYOUT:
            if self.storage.committed(begun):
                raise self._other_layout(begun)
            begun = None
        if begun is not None:
            if begun.get("identity") == now["identity"]:
                if finished is None or begun.get("overwrite"):
                    return CONTINUE
            elif self.storage.committed(begun):
                raise self._made_differently(begun, now, f"an unfinished run for `{output}`")
        if finished is None:
            return START
        if finished.get("identity") != now["identity"]:
            raise self._made_differently(finished, now, f"the output `{output}`")
        return FINISHED

    def _other_layout(self, begun: Mapping[str, Any]) -> ConfigError:
        layout = begun["layout"] if isinstance(begun.get("layout"), int) else 1
        return ConfigError(
            f"an unfinished run for `{self.output}` was begun by Krill {begun.get('krill')}: its files"
            f" have the layout `{layout}`, and this version continues only those of layout `{LAYOUT}`",
            hint="finish it with the version that began it, or start anew with --overwrite",
        )

    def _made_differently(self, before: Mapping[str, Any], now: Mapping[str, Any], what: str) -> ConfigError:
        return ConfigError(
            f"{what} was made differently: {'; '.join(differences(before, now)) or 'its identity'}",
            hint=f"use another `{self.storage.setting}`, undo the change, or start anew with --overwrite",
        )

    def note(self, name: str, value: Any) -> None:
        """Leave something for the workers, beside what the run is."""
        self.storage.note(name, value)

    def watch(self, meter: Meter) -> None:
        """Keep what the meter sees with the run, as long as that is unfinished; one that continues goes on
        from there."""
        earlier = self.storage.noted(TIMELINE) if self.continued else None
        meter.timeline.keep_by(self._keep, earlier)

    def _keep(self, timeline: Mapping[str, Any]) -> None:
        if not self._ended:
            self.storage.note(TIMELINE, timeline)

    def publish(self, manifest: Mapping[str, Any] | None = None, *, threads: int = 1) -> None:
        """Let everybody see the output, whose manifest is written last: here, or before by the caller."""
        if manifest is not None:
            timeline = {name: in_one_line(manifest[name]) for name in ("timeline",) if name in manifest}
            write_json(self.dataset / MANIFEST, {**manifest, **timeline})
        self._ended = True
        self.storage.publish(threads=threads)

    def discard(self, *, threads: int = 1) -> None:
        """Leave no trace of an unfinished run."""
        self._ended = True
        self.storage.discard(threads=threads)


@dataclass(frozen=True, slots=True)
class RunSummary(Generic[ManifestT]):
    """The end of a run; `status` is "done", or "finished" if an earlier run had done everything."""

    status: str
    output: Path | str | None
    """A folder, the URL of one in an object store, or None if nothing was to be kept."""
    manifest: ManifestT
    facts: Mapping[str, Any]
    """What is worth saying of it: the manifest without its long lists."""

    def to_json(self) -> dict[str, Any]:
        output = None if self.output is None else str(self.output)
        facts = {name: fact for name, fact in self.facts.items() if name != "timeline"}
        return {"status": self.status, "output": output, **facts}

    def _repr_html_(self) -> str:
        """The same for notebooks, in short."""
        command = self.facts.get("command", "run")
        return facts_html(f"krill {command}: {self.status}", summary_rows(self.output, self.facts))


def summarize(
    status: str, output: Path | str | None, manifest: Mapping[str, Any]
) -> RunSummary[Mapping[str, Any]]:
    """The facts are the manifest without what only a later run needs."""
    later = ("config", "settings", "inputs")
    facts = {name: value for name, value in manifest.items() if name not in later}
    return RunSummary(status, output, manifest, facts)


def identity_of(shaping: Any) -> str:
    return hashlib.sha256(orjson.dumps(shaping, listed, orjson.OPT_SORT_KEYS)).hexdigest()


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What makes a run another one than the one that was begun or finished before, each in a few words."""
    from krill.config.identity import differing_keys

    found = differing_keys(before.get("config", {}), now["config"])
    contents: list[tuple[str, Any, Any]] = []
    for name in ("inputs", "against"):
        old, new = before.get(name, []), now.get(name, [])
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            contents += [(part, old.get(part), new.get(part)) for part in {**old, **new}]
        else:
            found += [f"input `{path}`" for path in changed_inputs(old, new)]
    for name in (name for name in ("steps", "tokenizer") if name in now):
        # The manifest of a dataset has its tokenizer's fingerprint beside a description.
        contents.append((name, before.get(f"{name}_fingerprint", before.get(name)), now[name]))
    found += [_CONTENTS.get(name, name) for name, old, new in contents if (old or None) != (new or None)]
    if before.get("krill") != now["krill"]:
        found.append(f"Krill's version, {before.get('krill')} then and {now['krill']} now")
    return found


def changed_inputs(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[str]:
    """The files that came, went, moved in the order, or have other content; none if the input is the same."""
    names = []
    for old, new in zip(before, now, strict=False):
        if old != new:
            names += [old["path"]] if old["path"] == new["path"] else [old["path"], new["path"]]
    longer = before if len(before) > len(now) else now
    names += [entry["path"] for entry in longer[min(len(before), len(now)) :]]
    return list(dict.fromkeys(names))
