"""What libraries raise while a file is read is told with its name and kept for a report; a bug is a bug."""

from __future__ import annotations

import errno
import json
import os
import struct
import textwrap
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import krill as package
from jobs import check_error, document, json_lines
from krill import faults
from krill.errors import BudgetError, InputError, StorageError
from krill.faults import keep_report, reading, refused_by_system, system_errors

pytest_plugins = ["job_fixtures"]


@pytest.fixture(autouse=True)
def reports(tmp_path_factory, monkeypatch) -> Path:
    """Where reports go: a cache folder of the test's own."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "krill" / "reports"


class PanicException(BaseException):
    """As PyO3 names the fault of a library in Rust; it is no `Exception`."""


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowInvalid("bad"),
        pa.ArrowKeyError("bad"),
        pa.ArrowIndexError("bad"),
        pa.ArrowNotImplementedError("bad"),
        OSError(errno.EIO, "bad"),
        EOFError("bad"),
        zlib.error("bad"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_damaged_file_is_told_and_needs_no_report(error, reports):
    told = r"can't read `a\.bin` after 1,000 bytes: .*bad"
    with pytest.raises(InputError, match=told) as raised, reading("a.bin", at=1000):
        raise error
    assert raised.value.hint is not None
    assert "damaged or incomplete" in raised.value.hint
    assert not reports.exists()


def unicode_error() -> None:
    b"\xff".decode()


def json_error() -> None:
    json.loads("{")


def struct_error() -> None:
    struct.unpack("<q", b"short")


def panic() -> None:
    raise PanicException("called `Option::unwrap()` on a `None` value")


def library_key_error() -> None:
    textwrap.fill("text", width=0)  # raises ValueError, in the library's own frame


@pytest.mark.parametrize("work", [unicode_error, json_error, struct_error, panic, library_key_error])
def test_a_parsers_error_names_the_file_and_keeps_its_traceback(work, reports):
    with pytest.raises(InputError, match="can't read `some/file`: ") as raised, reading("some/file"):
        work()
    (report,) = reports.iterdir()
    assert f"`{report}`" in str(raised.value.hint)
    assert f"in {work.__name__}" in report.read_text()
    assert report.stat().st_mode & 0o077 == 0


def test_a_mistake_of_ours_stays_one_and_says_what_was_read(monkeypatch, reports):
    monkeypatch.setattr(faults, "_OURS", str(Path(__file__).parent) + os.sep)  # this file is ours, then
    for mistake in (AttributeError("x"), KeyError("x"), TypeError("x"), AssertionError("x"), IndexError("x")):
        with pytest.raises(type(mistake)) as raised, reading("a.jsonl"):
            raise mistake
        assert raised.value.__notes__ == ["while reading `a.jsonl`"]
    assert not reports.exists()


def test_interrupts_and_our_own_errors_pass(reports):
    for error in (KeyboardInterrupt(), InputError("no"), BudgetError("no")):
        with pytest.raises(type(error)), reading("a.jsonl"):
            raise error
    assert not reports.exists()


def test_reports_are_bounded_in_number_and_size(reports):
    for number in range(faults.MOST_REPORTS + 5):
        assert keep_report(ValueError("x" * 10**6 + str(number))) is not None
    kept = list(reports.iterdir())
    assert len(kept) == faults.MOST_REPORTS
    assert max(path.stat().st_size for path in kept) <= faults.MOST_REPORT_CHARS


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (MemoryError(), BudgetError, "the system refused memory"),
        (pa.ArrowMemoryError("malloc"), BudgetError, "the system refused memory"),
        (RuntimeError("can't start new thread"), BudgetError, "the system refused to start a thread"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), BudgetError, "the system refused memory"),
        (BlockingIOError(errno.EAGAIN, "fork"), BudgetError, "the system refused memory"),
        (OSError(errno.EMFILE, "files", "x"), BudgetError, "the system refused to open one more file"),
        (ImportError("lib.so: failed to map segment"), BudgetError, "that Krill's libraries take"),
        (
            OSError(errno.ENOSPC, "No space left", "out/x"),
            StorageError,
            "cannot write `out/x`: no space",
        ),
        (OSError(errno.ENAMETOOLONG, "Name too long", "xx"), InputError, "can't use `xx`: name too long"),
        (OSError(errno.ELOOP, "Loop", b"l\xff"), InputError, "can't use `l"),
    ],
)
def test_what_the_system_refuses_is_an_error_of_krills(error, kind, message):
    with pytest.raises(kind) as raised, system_errors():
        raise error
    assert message in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), RuntimeError("x"), OSError("no name")])
def test_the_rest_is_a_bug(error):
    assert refused_by_system(error) is None


# Through the readers, as a user meets it.


def test_a_fault_in_a_worker_thread_names_its_file(job):
    """Each block is parsed by some thread; its file is known there."""
    good = json_lines(map(document, range(30)))
    job.write("good.jsonl", good)
    job.write("bad.csv", b"t\xe9xt,text\nx,y\n")
    job.read_from("good.jsonl", "bad.csv")
    check_error(job.preprocess(), 3, "names of the columns of `bad.csv` are not UTF-8", hint="iconv")


def test_an_unexpected_error_of_a_reader_is_told_in_python(job, monkeypatch, reports):
    """A library that raises what nobody foresaw, here in the midst of Arrow's reader of Parquet."""
    table = pa.table({"text": [document(at) for at in range(30)]})
    pq.write_table(table, job.folder / "input.parquet")

    def fail(*_: object, **__: object) -> None:
        textwrap.fill("text", width=0)

    job.read_from("input.parquet")
    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", fail)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", fail)
    monkeypatch.chdir(job.folder)
    with pytest.raises(InputError, match=r"can't read `input\.parquet`: invalid width") as raised:
        package.preprocess(job.config)
    assert "please report this as a bug, with `" in str(raised.value.hint)
    assert len(list(reports.iterdir())) == 1
