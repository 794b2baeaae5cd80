import io
import re
import subprocess
import sys

import numpy as np
import pytest

from krill.budget import MemoryMonitor, Meter, available_bytes, available_threads, peak_bytes, resident_bytes
from krill.errors import BudgetError

MB = 10**6


def touched(size):
    return np.ones(size, np.uint8)


def test_the_peak_is_what_time_v_reports():
    # Forked once more: a child's ru_maxrss begins with what its parent held, which here may be a lot.
    code = """
import os
if os.fork():
    os.wait()
    os._exit(0)
import numpy, resource
from krill.budget import peak_bytes
block = numpy.ones(200_000_000, numpy.uint8)
del block
print(peak_bytes(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
    peak, kernel = map(int, subprocess.check_output([sys.executable, "-c", code]).split())
    assert peak >= 200 * MB
    assert abs(peak - kernel) <= 2 * MB


def test_a_stage_is_charged_with_what_was_held_in_it():
    with Meter(10**12) as meter:
        with meter.stage("small"):
            touched(1 * MB)
        with meter.stage("large"):
            block = touched(300 * MB)
            meter._sample()
        del block
    assert meter.stages["large"] - meter.stages["small"] >= 250 * MB
    assert meter.peak >= meter.stages["large"]
    assert meter.tree_pss is None or meter.tree_pss > 250 * MB


def test_in_the_api_only_growth_counts():
    ballast = touched(200 * MB)
    with Meter(10**12, floor=resident_bytes()) as meter, meter.stage("work"):
        block = touched(100 * MB)
        meter._sample()
    assert 90 * MB <= meter.peak <= 150 * MB
    assert meter.tree_pss is None
    assert len(ballast) + len(block) == 300 * MB


def test_over_the_limit_the_run_stops_and_says_that_work_is_kept():
    meter = Meter(1 * MB)
    assert meter.under_pressure()
    with pytest.raises(BudgetError) as caught:
        meter.relieve()
    assert "1.00 MB given" in caught.value.message
    assert "run the same command with a larger --memory" in (caught.value.hint or "")


def test_far_below_the_limit_there_is_no_pressure():
    meter = Meter(10**12)
    assert not meter.under_pressure()
    meter.relieve()


def test_the_machine_tells_what_there_is():
    assert 10 * MB < available_bytes() < 10**15
    assert 1 <= available_threads() <= 4096
    assert resident_bytes() <= peak_bytes() + 5 * MB


def test_the_monitor_prints_the_lines_of_the_seed():
    stream = io.StringIO()
    monitor = MemoryMonitor(stream)
    monitor.start_monitoring()
    monitor.report_current("before loading datasets")
    block = touched(50 * MB)
    assert monitor.update_peak() >= 50
    del block
    monitor.report_final()
    number = r"\d+\.\d MB"
    assert re.fullmatch(
        rf"Memory monitoring started\. Initial: {number}\n"
        rf"Memory before loading datasets: {number} \(peak: {number}\)\n"
        rf"Memory Summary:\n   - Start: {number}\n   - Peak: {number}\n   - Final: {number}\n"
        rf"   - Peak increase: {number}\n",
        stream.getvalue(),
    )
    assert monitor.peak_memory - monitor.start_memory >= 45
