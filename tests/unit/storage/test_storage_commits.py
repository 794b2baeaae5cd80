import pytest

from krill.errors import StorageError
from krill.storage import CommitLog


def test_a_unit_is_done_when_its_record_is_there(tmp_path):
    log = CommitLog(tmp_path / "scan")
    files = log.begin(7, "hashes", "spill")
    assert files.write("hashes", b"abc") == 0
    assert files.write("hashes", b"de") == 3
    files.write("spill", b"")
    assert not log.path(7, "hashes").exists()
    assert 7 not in log
    assert files.commit({"documents": 5}) == 5
    assert log.path(7, "hashes").read_bytes() == b"abcde"
    assert log.record(7) == {"documents": 5}


def test_another_process_sees_what_was_committed_in_input_order(tmp_path):
    log = CommitLog(tmp_path)
    for unit in (2**63, 5, 1 << 40):
        log.commit(unit, {"unit": unit})
    again = CommitLog(tmp_path)
    assert len(again) == 3
    assert list(again) == [(unit, {"unit": unit}) for unit in (5, 1 << 40, 2**63)]


def test_an_aborted_unit_leaves_nothing(tmp_path):
    log = CommitLog(tmp_path)
    files = log.begin(1, "tokens")
    files.write("tokens", b"x" * 100_000)
    files.abort()
    assert list(tmp_path.iterdir()) == []
    assert len(CommitLog(tmp_path)) == 0


def test_a_damaged_record_is_an_error_that_names_it(tmp_path):
    log = CommitLog(tmp_path)
    log.commit(3, {})
    (tmp_path / f"{3:020d}.json").write_bytes(b"{")
    with pytest.raises(StorageError, match=f"{3:020d}.json"):
        CommitLog(tmp_path).record(3)
