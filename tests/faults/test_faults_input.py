"""Bad input, what is read: each is a clear error with its exit code, no traceback, nothing
half-written, an earlier finished output untouched; or it is mended, and counted."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import string
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

import krill
from jobs import Job, check_error, check_refused, document, json_lines
from krill.errors import InputError, StorageError
from real_text import real_texts

pytest_plugins = ["job_fixtures"]

TEXTS = [document(number) for number in range(20)]


def kept(job: Job) -> dict:
    """Run the job; what it says about its documents."""
    job.set(output="text")
    outcome = job.preprocess("--json")
    assert outcome.code == 0, outcome.err
    return outcome.result["documents"]


# What is not there.


def test_a_missing_file_is_named(rerun):
    rerun.read_from("absent.jsonl")
    check_refused(rerun, 3, "no such file: `absent.jsonl`", hint="give a file, folder, glob, URL")


def test_a_glob_that_matches_nothing_is_named(rerun):
    rerun.read_from("data/*.jsonl")
    check_refused(rerun, 3, "no file matches `data/*.jsonl`", hint="`ls data/*.jsonl` should list the files")


def test_a_folder_without_readable_files_is_named(rerun):
    (rerun.folder / "data").mkdir()
    rerun.write("data/notes.py", b"print()")
    rerun.read_from("data")
    check_refused(rerun, 3, "nothing to read in the folder `data`", ".jsonl", hint="`data/**/*.py`")


@pytest.mark.parametrize("name", ["input.jsonl", "input.txt", "input.jsonl.gz", "input.csv"])
def test_an_empty_file_is_named(rerun, name):
    rerun.write(name, b"")
    rerun.read_from(name)
    check_refused(rerun, 3, f"`{name}` is empty", hint="there is nothing in it to read")


def test_a_file_of_blank_lines_has_no_documents(rerun):
    rerun.write("input.jsonl", b"\n\n \n")
    check_refused(rerun, 3, "0 documents read; none dropped", hint="add input")


def test_an_empty_file_among_others_is_no_fault(job):
    job.write("a.jsonl", b"")
    job.write("b.jsonl", json_lines(TEXTS))
    job.read_from("*.jsonl")
    assert kept(job) == {"read": 20, "kept": 20, "dropped": {}, "notes": {}}


def test_too_little_text_says_what_was_dropped(rerun):
    rerun.write("input.jsonl", json_lines(["short", "also short", "short", document(1)]))
    rerun.set(sequence_len=4096)
    check_refused(
        rerun,
        3,
        "tokens are left, fewer than one row of 4,096",
        "4 documents read; 3 fewer than min_chars characters",
        hint="lower min_chars, min_length or sequence_len",
    )


def test_a_pipe_is_refused_and_not_waited_for(rerun):
    os.mkfifo(rerun.folder / "pipe.jsonl")
    rerun.read_from("pipe.jsonl")
    check_refused(rerun, 3, "`pipe.jsonl` is not a regular file", hint="into a file", timeout=30)


def test_a_name_that_is_not_utf8_is_told(rerun):
    rerun.write(os.fsdecode(b"caf\xe9.jsonl"), json_lines(TEXTS))
    rerun.read_from("*.jsonl")
    check_refused(rerun, 3, "the name of the file `caf\\xe9.jsonl` is not UTF-8", hint="rename the file")


# Columns.


def test_a_missing_column_is_named_with_those_that_are_there(rerun):
    rerun.write("input.jsonl", b'{"id": 1, "content": "some text"}\n')
    check_refused(
        rerun, 3, "no column `text` in `input.jsonl`; there are: `id`, `content`", hint="set `text_column:`"
    )


def test_a_missing_column_of_parquet_is_named_with_those_that_are_there(rerun):
    pq.write_table(pa.table({"id": [1], "content": ["some text"]}), rerun.folder / "input.parquet")
    rerun.read_from("input.parquet")
    check_refused(
        rerun, 3, "no column `text` in `input.parquet`; there are: `id`, `content`", hint="set `text_column:`"
    )


def test_a_missing_column_of_csv_is_named_with_those_that_are_there(rerun):
    rerun.write("input.csv", b"id,content\n1,some text\n")
    rerun.read_from("input.csv")
    check_refused(
        rerun, 3, "no column `text` in `input.csv`; there are: `id`, `content`", hint="set `text_column:`"
    )


def test_a_column_of_numbers_is_refused(rerun):
    rerun.write("input.jsonl", json_lines([1, 2, 3]))
    check_refused(
        rerun, 3, "column `text` of `input.jsonl` holds `int`, not strings", hint="set `text_column:`"
    )


def test_a_parquet_column_of_numbers_is_refused(rerun):
    pq.write_table(pa.table({"text": [1, 2, 3]}), rerun.folder / "input.parquet")
    rerun.read_from("input.parquet")
    check_refused(
        rerun, 3, "column `text` of `input.parquet` holds `int64`, not strings", hint="set `text_column:`"
    )


def test_single_records_without_text_are_counted(job):
    job.write("input.jsonl", json_lines([*TEXTS, None, 7, ["a list"]]) + b'{"id": 1}\n')
    assert kept(job) == {"read": 24, "kept": 20, "dropped": {"not_text": 4}, "notes": {}}


# Text that is not quite text.


def test_invalid_utf8_is_removed_and_counted(job):
    job.write("input.jsonl", json_lines(TEXTS).replace(b"document 3.", b"doc\xff\xc3ument 3."))
    assert kept(job) == {"read": 20, "kept": 20, "dropped": {}, "notes": {"invalid_utf8": 1}}
    assert job.texts() == [text.strip() for text in TEXTS]


def test_invalid_utf8_in_plain_text_is_removed_and_counted(job):
    job.write("input.txt", b"<|endoftext|>".join([document(1).encode() + b"\xe2\x82", document(2).encode()]))
    job.read_from("input.txt")
    assert kept(job) == {"read": 2, "kept": 2, "dropped": {}, "notes": {"invalid_utf8": 1}}
    assert job.texts() == [document(1).strip(), document(2).strip()]


def test_escaped_nul_bytes_stay_in_the_text(job):
    text = "before\0after " * 20
    job.write("input.jsonl", json_lines([*TEXTS, text]))
    assert kept(job) == {"read": 21, "kept": 21, "dropped": {}, "notes": {}}
    assert job.texts()[-1] == text.strip()


def test_nul_bytes_stay_in_plain_text(job):
    text = "before\0after " * 20
    job.write("input.txt", text.encode())
    job.read_from("input.txt")
    assert kept(job) == {"read": 1, "kept": 1, "dropped": {}, "notes": {}}
    assert job.texts() == [text.strip()]


def test_a_raw_nul_byte_in_a_json_string_is_malformed(rerun):
    rerun.write("input.jsonl", json_lines(TEXTS).replace(b"document 4.", b"document\0 4.", 1))
    check_refused(rerun, 3, "`input.jsonl` line 5: ", hint="`on_error: skip`")


def test_lone_surrogates_are_removed_and_counted(job):
    lone = json.dumps({"text": "\ud800" + document(50) + "\udc00"})
    paired = json.dumps({"text": document(51) + "\U0001f990"})
    assert "\\ud800" in lone and "\\ud83e\\udd90" in paired
    job.write("input.jsonl", json_lines(TEXTS) + f"{lone}\n{paired}\n".encode())
    assert kept(job) == {"read": 22, "kept": 22, "dropped": {}, "notes": {"surrogates_removed": 1}}
    assert job.texts()[-2:] == [document(50).strip(), document(51) + "\U0001f990"]


# Damage.

MANY = json_lines(document(number) for number in range(3000))


@pytest.mark.parametrize(
    ("ending", "compress"),
    [("gz", gzip.compress), ("zst", zstandard.compress), ("bz2", bz2.compress), ("xz", lzma.compress)],
)
def test_a_truncated_compressed_file_is_named(rerun, ending, compress):
    whole = compress(MANY)
    rerun.write(f"input.jsonl.{ending}", whole[: len(whole) * 2 // 3])
    rerun.read_from(f"input.jsonl.{ending}")
    check_refused(
        rerun, 3, f"can't read `input.jsonl.{ending}` after", hint="damaged or incomplete: get it again"
    )


def test_a_file_that_is_not_what_its_name_says_is_named(rerun):
    rerun.write("input.jsonl.gz", MANY)
    rerun.read_from("input.jsonl.gz")
    check_refused(rerun, 3, "can't read `input.jsonl.gz`", hint="damaged or incomplete: get it again")


def test_a_truncated_parquet_file_is_named(rerun):
    buffer = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS}), buffer)
    whole = buffer.getvalue()
    rerun.write("input.parquet", whole[: len(whole) * 2 // 3])
    rerun.read_from("input.parquet")
    check_refused(rerun, 3, "can't read `input.parquet`", hint="damaged or incomplete: get it again")


def test_a_parquet_file_with_damage_inside_is_named(rerun):
    buffer = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS}), buffer, compression="zstd")
    whole = bytearray(buffer.getvalue())
    whole[100:400] = bytes(300)
    rerun.write("input.parquet", bytes(whole))
    rerun.read_from("input.parquet")
    check_refused(rerun, 3, "can't read `input.parquet`", hint="damaged or incomplete: get it again")


# Malformed records.

BROKEN = json_lines(TEXTS[:7]) + b'{"text": "no end\n' + json_lines(TEXTS[7:])


def test_a_malformed_line_is_named(rerun):
    rerun.write("input.jsonl", BROKEN)
    check_refused(rerun, 3, "`input.jsonl` line 8: ", hint="set `on_error: skip` to leave such records out")


def test_a_malformed_line_of_a_compressed_file_is_named(rerun):
    rerun.write("input.jsonl.gz", gzip.compress(BROKEN))
    rerun.read_from("input.jsonl.gz")
    check_refused(
        rerun, 3, "`input.jsonl.gz` line 8: ", hint="set `on_error: skip` to leave such records out"
    )


def test_malformed_lines_are_skipped_and_counted_on_request(job):
    job.write("input.jsonl", BROKEN + b"not JSON at all\n[1, 2]\n")
    job.set(on_error="skip")
    assert kept(job) == {"read": 23, "kept": 20, "dropped": {"malformed": 3}, "notes": {}}
    assert job.texts() == [text.strip() for text in TEXTS]


def test_a_malformed_line_can_be_skipped_after_all(job):
    job.write("input.jsonl", json_lines(map(document, range(1200))) + b"oops\n")
    job.set(unit_bytes="100KB", max_document_bytes="10KB")
    failed = job.preprocess()
    check_error(failed, 3, "`input.jsonl` line 1201: ", hint="set `on_error: skip`")
    assert job.work.is_dir()  # most units are done, and stay
    job.set(on_error="skip")
    outcome = job.preprocess()
    assert outcome.code == 0, outcome.err
    assert "continuing an earlier run" in outcome.out
    assert job.manifest()["documents"]["dropped"] == {"malformed": 1}
    assert not job.work.exists()


# Input that changes.


class Meanwhile:
    """Watches a run, and does something when a stage ends."""

    def __init__(self, stage: str, act) -> None:
        self.stage, self.act = stage, act

    def begin(self, stage, total) -> None: ...
    def advance(self, done) -> None: ...
    def note(self, line) -> None: ...

    def end(self, stage) -> None:
        if stage == self.stage:
            self.act()


def other_word(content: bytes) -> bytes:
    return content.replace(b"document 777.", b"documemt 777.")


def longer_lines(content: bytes) -> bytes:
    """As many bytes, in blocks that are cut elsewhere."""
    return json_lines(["x" * 9000] * (len(content) // 9100)).ljust(len(content), b"\n")


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (other_word, "gave other documents than before"),
        (longer_lines, "gave other documents than before"),
        (half, "became shorter than"),
    ],
)
def test_input_that_changes_between_two_stages_is_named(job, change, fact):
    content = json_lines(document(number) for number in range(1200))
    path = job.write("input.jsonl", content)
    job.read_from(str(path))
    job.set(unit_bytes="100KB", max_document_bytes="10KB", prepared_path=str(job.output))
    watch = Meanwhile("scan", lambda: path.write_bytes(change(content)))
    with pytest.raises(InputError, match=str(path)) as refused:
        krill.preprocess(job.config, memory="500MB", progress=watch)
    assert fact in refused.value.message
    assert not job.output.exists()


@pytest.mark.parametrize(
    ("name", "stage", "artifact"),
    [
        ("input.jsonl", "resolve", "*.keep"),
        ("input.jsonl", "encode", "*.tokens"),
        ("input.jsonl", "encode", "*.lengths"),
        ("input.jsonl.gz", "scan", "*.spill"),
        ("input.jsonl", "scan", "*.hashes"),
    ],
)
def test_a_file_of_an_earlier_stage_that_is_gone_is_named(job, name, stage, artifact):
    content = json_lines(map(document, range(1200)))
    path = job.write(name, gzip.compress(content) if name.endswith("gz") else content)
    job.read_from(str(path))
    job.set(unit_bytes="100KB", max_document_bytes="10KB", prepared_path=str(job.output))

    def tamper() -> None:
        files = list(job.work.rglob(artifact))
        assert files
        files[0].unlink()

    with pytest.raises(StorageError) as refused:
        krill.preprocess(job.config, memory="500MB", progress=Meanwhile(stage, tamper))
    assert "can't be read" in refused.value.message
    assert "--overwrite" in refused.value.hint


# One line that no budget holds.

LINE_BYTES = 200_000_000
BUDGET_BYTES = 256_000_000  # of which the program itself takes up to 115 MB
PARAGRAPH = "\n\n".join(text for text, _ in zip(real_texts(), range(150), strict=False))


def write_long_line(job: Job) -> hashlib.blake2b:
    """Three records, the second one of 200 MB; returns the hash of its text without whitespace."""
    digest = hashlib.blake2b()
    escaped = json.dumps(PARAGRAPH)[1:-1].encode()
    plain = without_space(PARAGRAPH)
    with (job.folder / "input.jsonl").open("wb") as file:
        file.write(json_lines([document(1)]) + b'{"text": "')
        written = number = 0
        while written < LINE_BYTES:
            written += file.write(b"%d. %s\\n\\n" % (number, escaped))
            digest.update(b"%d.%s" % (number, plain))
            number += 1
        file.write(b'"}\n' + json_lines([document(2)]))
    return digest


def without_space(text: str) -> bytes:
    return text.encode().translate(None, string.whitespace.encode())


def test_a_line_of_200_mb_is_split_within_the_budget(job):
    expected = write_long_line(job)
    job.set(output="text")
    outcome = job.preprocess("--json", "--memory", BUDGET_BYTES)
    assert outcome.code == 0, outcome.err
    assert outcome.peak <= BUDGET_BYTES
    pieces = outcome.result["text"]["rows"] - 2
    assert pieces > 40  # decoded, the line is a little shorter
    assert outcome.result["documents"] == {
        "read": pieces + 2,
        "kept": pieces + 2,
        "dropped": {},
        "notes": {"oversize_split": 1},
    }
    texts = job.iter_texts()
    assert next(texts) == document(1).strip()
    found = hashlib.blake2b()
    for text in islice(texts, pieces):
        assert len(text.encode()) <= 4_000_000
        found.update(without_space(text))
    assert found.hexdigest() == expected.hexdigest()
    assert list(texts) == [document(2).strip()]


def test_a_line_of_200_mb_is_dropped_within_the_budget(job):
    write_long_line(job)
    job.set(oversize="drop")
    outcome = job.preprocess("--json", "--memory", BUDGET_BYTES)
    assert outcome.code == 0, outcome.err
    assert outcome.peak <= BUDGET_BYTES
    assert outcome.result["documents"] == {"read": 3, "kept": 2, "dropped": {"oversize": 1}, "notes": {}}
    assert job.encoded() == [document(1).strip()]  # the other one's end is in the last short row
