import os
import signal
import threading

import pytest

from krill.threads.uninterrupted import uninterrupted


@pytest.fixture(autouse=True)
def interruptible():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_for_the_end_of_the_body():
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("body")
    assert done == ["body"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_body_is_not_lost_behind_the_interrupt():
    with pytest.raises(KeyboardInterrupt) as caught, uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
        raise ValueError("body")
    assert isinstance(caught.value.__context__, ValueError)


def test_a_signal_that_is_ignored_stays_so():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_in_other_threads_the_body_just_runs():
    done = []

    def work():
        with uninterrupted():
            done.append("body")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == ["body"]
