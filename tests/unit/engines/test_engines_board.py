"""Each order on a board goes to one worker, and a death is seen."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from krill.engines import datatrove_pulse
from krill.engines.datatrove_board import Board
from krill.engines.datatrove_pulse import Life, Listener, Pulse
from krill.storage.atomic import write_json


def test_workers_that_reach_at_once_get_different_orders(tmp_path) -> None:
    board = Board.hang(tmp_path)
    for number in range(60):
        board.post(number, b"order %d" % number)
    taken: list[tuple[str, int, bytes]] = []

    def work(worker: str) -> None:
        while (found := board.take(worker)) is not None:
            taken.append((worker, *found))

    threads = [threading.Thread(target=work, args=[f"0000-{rank:05d}-aa"]) for rank in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((number, order) for _, number, order in taken) == [(n, b"order %d" % n) for n in range(60)]
    assert sorted(board.taken()) == sorted((number, worker) for worker, number, _ in taken)


def test_an_answer_takes_the_place_of_the_order_and_is_given_once(tmp_path) -> None:
    board = Board.hang(tmp_path)
    board.post(7, b"{}")
    assert board.take("0000-00000-aa") == (7, b"{}")
    board.answer("0000-00000-aa", 7, b"done")
    assert board.taken() == []
    assert list(board.answers()) == [(7, b"done")]
    assert list(board.answers()) == []


def test_a_new_board_clears_what_an_earlier_one_left(tmp_path) -> None:
    old = Board.hang(tmp_path)
    old.post(0, b"{}")
    new = Board.hang(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [new.folder.name]
    assert old.take("0000-00000-aa") is None


def test_a_pulse_lives_with_its_body(tmp_path) -> None:
    listener = Listener(tmp_path / "worker")
    assert listener.life() is Life.ABSENT
    with Pulse(tmp_path / "worker"):
        assert listener.life() is Life.ALIVE
    assert listener.life() is Life.ABSENT


def test_the_death_of_a_process_on_this_machine_is_seen_at_once(tmp_path) -> None:
    code = f"""
import os
from pathlib import Path
from krill.engines.datatrove_pulse import Pulse
with Pulse(Path({str(tmp_path / "worker")!r})):
    print("ready", flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        listener = Listener(tmp_path / "worker")
        assert listener.life() is Life.ALIVE
        process.kill()
    assert (tmp_path / "worker").exists()
    assert listener.life() is Life.DEAD


def test_a_process_elsewhere_is_dead_when_its_file_stands_still(tmp_path, monkeypatch) -> None:
    path: Path = tmp_path / "worker"
    write_json(path, {"place": "another machine", "process": 1})
    now = 1000.0
    monkeypatch.setattr(datatrove_pulse.time, "monotonic", lambda: now)
    listener = Listener(path)
    assert listener.life() is Life.ALIVE
    now += datatrove_pulse.SILENT_SECONDS - 1
    assert listener.life() is Life.ALIVE
    os.utime(path, (1, 1))  # its clock may say anything
    assert listener.life() is Life.ALIVE
    now += datatrove_pulse.SILENT_SECONDS - 1
    assert listener.life() is Life.ALIVE
    now += 2
    assert listener.life() is Life.DEAD
