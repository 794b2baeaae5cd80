"""The board: orders that hang in a folder, and the answers that workers hang beside them.

    driver.json            the driver's sign of life; workers leave when it is gone
    orders/NUMBER          waits for a worker
    taken/NUMBER@WORKER    a worker has it: taking is a rename, which one of them wins
    answers/NUMBER         what came of it
    workers/WORKER         a worker's sign of life, there before it takes anything
    crews/CREW/            what datatrove writes: its executor, its scripts, its logs

In: orders as bytes. Out: answers as bytes. Both are JSON (`entries.py`), each file is whole or absent, and a
number is given to one attempt only. Held in memory: the names in one of the folders.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from krill.storage.atomic import storage_errors, write_bytes

_FOLDERS = ("orders", "taken", "answers", "workers", "crews")
# Workers reach for different ones of the first orders: of a thousand that want the very first, one gets it.
_REACH = 16
_SHORTEST_PAUSE = 0.01


class Board:
    """One folder, seen by the driver and by all workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.driver = folder / "driver.json"

    @classmethod
    def hang(cls, parent: Path) -> Self:
        """A new board in `parent`; what earlier ones have left there goes."""
        board = cls(parent / os.urandom(4).hex())
        if parent.exists():
            for leftover in parent.iterdir():
                shutil.rmtree(leftover, ignore_errors=True)
        with storage_errors(board.folder):
            for folder in _FOLDERS:
                (board.folder / folder).mkdir(parents=True)
        return board

    def worker(self, worker: str) -> Path:
        """A worker's sign of life."""
        return self.folder / "workers" / worker

    def workers(self) -> list[str]:
        """Those that have given a sign of life, and have not left."""
        return _names(self.folder / "workers")

    def crew(self, crew: str) -> Path:
        """What datatrove writes for one crew of workers."""
        return self.folder / "crews" / crew

    def post(self, number: int, order: bytes) -> None:
        """Hang an order."""
        write_bytes(self.folder / "orders" / f"{number:09d}", order)

    def take(self, worker: str) -> tuple[int, bytes] | None:
        """An order that nobody else has; None if there is none now."""
        names = _names(self.folder / "orders")[:_REACH]
        first = zlib.crc32(worker.encode()) % len(names) if names else 0
        for name in names[first:] + names[:first]:
            taken = self.folder / "taken" / f"{name}@{worker}"
            try:
                (self.folder / "orders" / name).rename(taken)
            except FileNotFoundError:
                # A network file system may do it, lose the answer, and find nothing on its second try.
                if not taken.exists():
                    continue
            return int(name), taken.read_bytes()
        return None

    def answer(self, worker: str, number: int, answer: bytes) -> None:
        """Hang the answer to an order that `worker` took."""
        write_bytes(self.folder / "answers" / f"{number:09d}", answer)
        self.drop(number, worker)

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """The answers that hang there; each is taken off."""
        for name in _names(self.folder / "answers"):
            path = self.folder / "answers" / name
            answer = path.read_bytes()
            path.unlink()
            yield int(name), answer

    def taken(self) -> list[tuple[int, str]]:
        """The orders that workers have: number and worker."""
        parts = (name.partition("@") for name in _names(self.folder / "taken"))
        return [(int(number), worker) for number, _, worker in parts]

    def drop(self, number: int, worker: str) -> None:
        """Take off an order that `worker` had."""
        (self.folder / "taken" / f"{number:09d}@{worker}").unlink(missing_ok=True)

    def remove(self) -> None:
        """Take the board down."""
        shutil.rmtree(self.folder, ignore_errors=True)


def pause_after(idle: float, longest: float) -> float:
    """How long to wait before looking again, when nothing was found for `idle` seconds.

    Whoever has waited for long can wait a little longer; storage that thousands look into has a rest.
    """
    return min(longest, max(_SHORTEST_PAUSE, idle / 8))


def _names(folder: Path) -> list[str]:
    """What hangs in a folder, without files in the making; nothing if the board was taken down."""
    try:
        with os.scandir(folder) as found:
            return sorted(entry.name for entry in found if not entry.name.startswith("."))
    except FileNotFoundError:
        return []
