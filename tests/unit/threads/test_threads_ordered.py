import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.threads import Gate, ordered_map
from properties import tried


def run(work, items, threads=4, bytes_in_flight=10**9, size=lambda _: 1, throttle=None):
    return ordered_map(
        work, items, threads=threads, bytes_in_flight=bytes_in_flight, size=size, throttle=throttle
    )


@tried(30)
@given(st.lists(st.integers(0, 3)), st.integers(1, 6), st.integers(1, 8))
def test_results_come_in_input_order(delays, threads, bytes_in_flight):
    def work(item):
        number, delay = item
        time.sleep(delay / 5000)
        return number

    results = list(run(work, enumerate(delays), threads, bytes_in_flight))
    assert results == list(range(len(delays)))


@tried(30)
@given(st.lists(st.integers(1, 50), min_size=1), st.integers(1, 100))
def test_no_more_bytes_are_in_flight_than_allowed_unless_one_item_is_larger(sizes, limit):
    held = 0
    worst = 0

    def items():
        nonlocal held, worst
        for size in sizes:
            # Asked for while others are held: the one being made counts once it is taken.
            yield size
            held += size
            worst = max(worst, held)

    for size in run(lambda item: item, items(), threads=3, bytes_in_flight=limit, size=lambda item: item):
        held -= size
    # `items` learns that an item was taken when the next is asked for, so one more may be counted.
    assert worst <= max(limit, max(sizes)) + max(sizes)


def test_an_error_surfaces_at_its_place_and_later_work_is_dropped():
    started = []

    def work(item):
        started.append(item)
        if item == 3:
            raise ValueError("three")
        return item

    seen = []
    with pytest.raises(ValueError, match="three"):
        for result in run(work, range(1000), threads=2):
            seen.append(result)
    assert seen == [0, 1, 2]
    assert max(started) < 10


def test_an_error_of_the_source_reaches_the_caller():
    def items():
        yield 1
        raise RuntimeError("source")

    with pytest.raises(RuntimeError, match="source"):
        list(run(lambda item: item, items()))


def test_closing_early_leaves_no_thread_behind():
    before = threading.active_count()
    results = run(lambda item: item, range(10**9), threads=4)
    assert next(results) == 0
    results.close()
    assert threading.active_count() == before


def test_work_that_takes_long_can_see_that_it_is_abandoned():
    abandoned = threading.Event()

    def work(item):
        if item:
            assert abandoned.wait(10)
        return item

    results = ordered_map(
        work, range(3), threads=2, bytes_in_flight=10, size=lambda _: 1, abandoned=abandoned
    )
    assert next(results) == 0
    assert not abandoned.is_set()
    results.close()
    assert abandoned.is_set()


def test_work_that_ends_well_is_not_abandoned():
    abandoned = threading.Event()
    results = ordered_map(str, range(3), threads=2, bytes_in_flight=10, size=lambda _: 1, abandoned=abandoned)
    assert list(results) == ["0", "1", "2"]
    assert not abandoned.is_set()


def test_all_threads_work_at_once():
    barrier = threading.Barrier(3, timeout=10)
    assert list(run(lambda _: barrier.wait() >= 0, range(6), threads=3)) == [True] * 6


class Pressure:
    def __init__(self):
        self.relieved = 0

    def under_pressure(self):
        return True

    def relieve(self):
        self.relieved += 1


def test_under_pressure_one_item_at_a_time_is_in_flight():
    running = 0
    most = 0
    lock = threading.Lock()

    def work(item):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.001)
        with lock:
            running -= 1
        return item

    pressure = Pressure()
    assert list(run(work, range(20), threads=4, throttle=pressure)) == list(range(20))
    assert most == 1
    assert pressure.relieved == 20


def test_a_gate_lets_through_what_fits_and_the_largest_alone():
    gate = Gate(100)
    held = 0
    worst = 0
    lock = threading.Lock()

    def work(weight):
        nonlocal held, worst
        with gate.hold(weight):
            with lock:
                held += min(weight, 100)
                worst = max(worst, held)
            time.sleep(0.001)
            with lock:
                held -= min(weight, 100)

    list(run(work, [40, 70, 500, 30, 30, 30, 100, 1] * 5, threads=6))
    assert 70 < worst <= 100


_DROPPED_IN_A_CYCLE = """
import gc, threading
from krill.threads import ordered_map

gc.disable()
results = ordered_map(lambda item: item, range(100), threads=2, bytes_in_flight=4, size=lambda _: 1)
next(results)
cycle = [results]
cycle.append(cycle)
del results, cycle
# Held while a thread starts or ends; the collector may come then as at any time.
with threading._active_limbo_lock:
    gc.collect()
print("collected")
"""


def test_a_map_that_the_garbage_collector_finds_is_not_waited_for():
    command = [sys.executable, "-c", _DROPPED_IN_A_CYCLE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "collected\n", done.stderr
