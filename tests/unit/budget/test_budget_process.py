import pyarrow as pa

from krill.budget.process import metered_process


def test_a_caller_gets_arrows_settings_back():
    before = pa.default_memory_pool().backend_name, pa.cpu_count(), pa.io_thread_count()
    with metered_process("1GB", 3) as meter:
        assert (pa.default_memory_pool().backend_name, pa.cpu_count(), pa.io_thread_count()) == (
            "system",
            3,
            1,
        )
        assert (meter.limit, meter.threads) == (10**9, 3)
    assert (pa.default_memory_pool().backend_name, pa.cpu_count(), pa.io_thread_count()) == before
