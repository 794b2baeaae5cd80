"""Tasks on one of datatrove's executors: processes of this machine, a Ray cluster, or Slurm.

In: tasks. Out: their results. Workers are the ranks of a datatrove pipeline of one step; they take orders
from a board, a folder in the run's work folder, so that driver and workers share nothing but storage. What
dies is replaced by a new crew, and its task is posted again. Held in memory: the tasks that are posted, three
for each worker, never what they make.

Orders and answers are JSON. datatrove itself sends its executors to the workers as pickles, see
`datatrove_pipeline.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from krill.config.engine import EngineConfig
from krill.engines.contract import Done, Resources, Task
from krill.engines.datatrove_board import Board, pause_after
from krill.engines.datatrove_crew import Crew, CrewPlan, log_end, rank_of
from krill.engines.datatrove_pulse import Life, Listener, Pulse
from krill.engines.datatrove_sites import Site, open_site
from krill.engines.entries import TaskFault, packed, unpacked
from krill.engines.retries import Attempts
from krill.errors import ConfigError, KrillError, MissingExtra
from krill.threads.uninterrupted import uninterrupted

# Tasks that wait beside each one that runs, so that no worker waits for the driver.
_WAITING = 2
# How long the driver waits at most before it looks for answers again.
_LONGEST_PAUSE = 0.5
# How often the driver looks after its workers.
_ROUND_SECONDS = 1.0
# Slurm's own limit for the elements of a job array is 1,001 unless the site has set another.
_CREW_SIZE = 1000


class DatatroveEngine:
    """Runs tasks on the executor that the config names; workers stay from one `run` to the next."""

    def __init__(self, config: EngineConfig) -> None:
        if find_spec("datatrove") is None:
            raise MissingExtra("the engine `datatrove`", "datatrove")
        self._config = config
        self._asked = None if config.workers == "auto" else config.workers
        self._site = open_site(config)
        self._workers = self._site.room(Resources(memory=1, threads=1), self._asked)
        self._workshop: Workshop | None = None

    @property
    def workers(self) -> int:
        """As many as were asked for, else those that the site has room for."""
        return self._workers

    def run(self, entry: str, tasks: Iterable[Task], resources: Resources) -> Iterator[Done]:
        """See `TaskRunner`."""
        source = iter(tasks)
        first = next(source, None)
        if first is None:
            return
        workshop = self._workshop_for(_folder_for(first), resources)
        shift = Shift(entry, workshop, self._config.retries)
        try:
            shift.post(first)
            while shift.fill(source, self._workers):
                yield from shift.round()
        except BaseException:
            # Also when the caller wants no more: what runs is of no use then. The logs stay for a while.
            self._workshop = None
            workshop.close()
            raise

    def ready(self, entry: str, task: Task, resources: Resources) -> None:
        """Workers start with the first task, and stay."""

    def close(self) -> None:
        """End the workers, and leave the site."""
        if self._workshop is not None:
            self._workshop.close()
            self._workshop.board.remove()
            self._workshop = None
        self._site.close()

    def _workshop_for(self, folder: Path, resources: Resources) -> Workshop:
        """That of the run before, if it will do."""
        known = self._workshop
        if known is not None and (known.folder, known.resources) == (folder, resources):
            return known
        if known is not None:
            known.close()
            known.board.remove()
            self._workshop = None
        self._workers = self._site.room(resources, self._asked)
        self._workshop = Workshop(folder, resources, self._config.executor, self._site)
        return self._workshop


def _folder_for(task: Task) -> Path:
    """Where the boards of a task's run hang."""
    work = str(task.payload["work"])
    if "://" in work:
        raise ConfigError(
            f"the engine `datatrove` needs a folder that all workers see, and the run is in `{work}`",
            hint="put the output into such a folder, or use the engine `ray`",
        )
    return Path(work) / "engine"


class Workshop:
    """A board, and the workers that take from it."""

    def __init__(self, folder: Path, resources: Resources, executor: str, site: Site) -> None:
        self.folder = folder
        self.resources = resources
        self.board = Board.hang(folder)
        self.crews = Crews(site, self.board, executor, resources)
        self.numbers = count()
        self._pulse = Pulse(self.board.driver)
        self._pulse.__enter__()

    def close(self) -> None:
        """Let the workers know that it is over, and end those that do not see it."""
        with uninterrupted():
            self._pulse.__exit__()
            self.crews.end()


class Crews:
    """The workers of one run: who lives, who was lost and why."""

    def __init__(self, site: Site, board: Board, executor: str, resources: Resources) -> None:
        self._site = site
        self._board = board
        self._executor = executor
        self._resources = resources
        self._crews: dict[str, Crew] = {}
        self._ranks: set[tuple[str, int]] = set()
        self._listeners: dict[str, Listener] = {}

    def __len__(self) -> int:
        """How many work, or will."""
        return len(self._ranks)

    def start(self, workers: int) -> None:
        """So many more."""
        while workers > 0:
            size = min(workers, _CREW_SIZE)
            name = f"{len(self._crews):04d}"
            self._crews[name] = self._site.start(
                CrewPlan(
                    board=str(self._board.folder),
                    crew=name,
                    executor=self._executor,
                    workers=size,
                    memory=self._resources.memory,
                    threads=self._resources.threads,
                )
            )
            self._ranks.update((name, rank) for rank in range(size))
            workers -= size

    def lives(self, worker: str) -> bool:
        """Whether a worker that took an order can still answer."""
        listener = self._listeners.setdefault(worker, Listener(self._board.worker(worker)))
        return listener.life() is Life.ALIVE

    def lost(self) -> dict[tuple[str, int], str]:
        """The ranks that have ended since this was asked last, each with the reason."""
        lives = {worker: self.lives(worker) for worker in self._board.workers()}
        self._listeners = {worker: self._listeners[worker] for worker in lives}
        alive = {rank_of(worker) for worker, lives_on in lives.items() if lives_on}
        dead = {rank_of(worker) for worker, lives_on in lives.items() if not lives_on} - alive
        reasons = {}
        for name, rank in sorted(self._ranks):
            crew = self._crews[name]
            reason = crew.over(rank)
            if reason is None and (name, rank) in dead:
                reason = "it died, or is out of reach"
                crew.give_up(rank)
            if reason is not None:
                reasons[name, rank] = self._told(crew, rank, reason)
        self._ranks -= reasons.keys()
        return reasons

    def end(self) -> None:
        """End all of them."""
        for crew in self._crews.values():
            crew.end()
        self._crews.clear()
        self._ranks.clear()

    def _told(self, crew: Crew, rank: int, reason: str) -> str:
        log = crew.log(rank)
        return f"its worker is lost: {reason}; `{log}` ends with: {log_end(log)}"


class Shift:
    """One call of `run`: posts tasks, collects answers, sees to it that there are workers."""

    def __init__(self, entry: str, workshop: Workshop, retries: int) -> None:
        self._entry = entry
        self._resources = workshop.resources
        self._board = workshop.board
        self._crews = workshop.crews
        self._numbers = workshop.numbers
        self._attempts = Attempts(retries)
        self._retries = retries
        self._posted: dict[int, Task] = {}
        self._last_answer = time.monotonic()
        self._next_look = time.monotonic() + _ROUND_SECONDS
        # Rounds in which workers were lost while none had a task, since the last answer.
        self._barren_rounds = 0

    def post(self, task: Task) -> None:
        """Hang a task where workers take it."""
        number = next(self._numbers)
        self._board.post(number, packed(self._entry, task, self._resources))
        self._posted[number] = task

    def fill(self, source: Iterator[Task], workers: int) -> bool:
        """Post tasks and start workers as far as they are needed; False when nothing is left to do."""
        while len(self._posted) < workers * (1 + _WAITING):
            task = next(source, None)
            if task is None:
                break
            self.post(task)
        self._crews.start(min(workers, len(self._posted)) - len(self._crews))
        return bool(self._posted)

    def round(self) -> Iterator[Done]:
        """The answers that are there; a pause if there are none."""
        if time.monotonic() >= self._next_look:
            lost, taken = self._crews.lost(), self._board.taken()
            # After that, so that the last answer of a worker that died is not missed.
            yield from self._collect()
            self._post_again(taken, lost)
            self._next_look = time.monotonic() + _ROUND_SECONDS
            return
        before = len(self._posted)
        yield from self._collect()
        now = time.monotonic()
        if len(self._posted) < before:
            self._last_answer = now
        else:
            time.sleep(pause_after(now - self._last_answer, _LONGEST_PAUSE))

    def _collect(self) -> Iterator[Done]:
        for number, answer in self._board.answers():
            task = self._posted.pop(number, None)
            if task is None:
                continue  # of a worker that was given up, and whose task another has
            try:
                result = unpacked(answer)
            except TaskFault as error:
                self._attempts.failed(task, str(error).strip())
                self.post(task)
            else:
                self._barren_rounds = 0
                self._attempts.succeeded(task)
                yield Done(task, result)

    def _post_again(self, taken: list[tuple[int, str]], lost: Mapping[tuple[str, int], str]) -> None:
        """Post what lost workers had; where none has anything and they are lost again and again, stop."""
        for number, worker in taken:
            if self._crews.lives(worker):
                continue
            self._board.drop(number, worker)
            task = self._posted.pop(number, None)
            if task is not None:
                self._attempts.failed(task, lost.get(rank_of(worker), "its worker is lost"))
                self.post(task)
        if lost and not taken:
            self._barren_rounds += 1
            if self._barren_rounds > self._retries:
                raise KrillError(
                    f"workers end before they do anything; of the last one: {next(iter(lost.values()))}",
                    hint="mend the cause and run the same command again: what was done is kept",
                )
