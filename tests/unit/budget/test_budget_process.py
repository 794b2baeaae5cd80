import pyarrow as pa

from krill.budget.process import bounded_process


def test_a_caller_gets_arrows_settings_back():
    before = pa.default_memory_pool().backend_name, pa.cpu_count(), pa.io_thread_count()
    with bounded_process(3, parquet=False):
        assert (pa.default_memory_pool().backend_name, pa.cpu_count(), pa.io_thread_count()) == (
            "system",
            3,
            1,
        )
    assert (pa.default_memory_pool().backend_name, pa.cpu_count(), pa.io_thread_count()) == before
