"""Damaged Arrow and Parquet input: an error that names the file, and not a byte of anything else."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import check_error, check_refused, document, json_lines

pytest_plugins = ["job_fixtures"]

TEXTS = [f"document number {number:04d} " * 40 for number in range(200)]
DAMAGED = "the file is damaged or incomplete"
SECRET = b"what nobody should see in a dataset " * 20


def write_arrow(path, column, extra=None):
    """A file of one column `text`, and perhaps another one after it; its bytes."""
    columns = {"text": column} | ({} if extra is None else {"extra": extra})
    table = pa.table(columns)
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    return bytearray(path.read_bytes())


def view_of(content, number):
    """Where the view of a text lies: length, first four bytes, the buffer's number, the place in it."""
    wanted = struct.pack("<i", len(TEXTS[number])) + TEXTS[number][:4].encode()
    at = content.find(wanted)
    for _ in range(number):
        at = content.find(wanted, at + 1)
    return at


@pytest.mark.parametrize(("place", "value"), [(12, 0x7FFFFFF0), (12, -16), (8, 1000), (8, -1), (0, 1 << 30)])
def test_a_view_that_points_outside_is_an_error(rerun, place, value):
    content = write_arrow(rerun.folder / "input.arrow", pa.array(TEXTS, pa.string_view()))
    at = view_of(content, 50) + place
    content[at : at + 4] = struct.pack("<i", value)
    rerun.write("input.arrow", bytes(content))
    rerun.read_from("input.arrow")
    check_refused(rerun, 3, "can't read `input.arrow`", hint=DAMAGED)


def test_a_view_that_points_into_another_column_leaks_nothing(rerun):
    """The bytes are there, in the file and in memory; but they are not of this column."""
    extra = pa.array([SECRET.decode()] * 200)
    content = write_arrow(rerun.folder / "input.arrow", pa.array(TEXTS, pa.string_view()), extra)
    at = view_of(content, 50)
    buffer, offset = struct.unpack_from("<ii", content, at + 8)
    own = content.find(TEXTS[50].encode()) - offset  # where the view's buffer begins
    struct.pack_into("<i", content, at + 12, content.find(SECRET) - own)
    rerun.write("input.arrow", bytes(content))
    rerun.read_from("input.arrow")
    check_refused(rerun, 3, "can't read `input.arrow`", f"of buffer {buffer}", hint=DAMAGED)


@pytest.mark.parametrize("index", [0x7FFFFFF0, 200, -1, -1_000_000])
def test_an_index_outside_of_its_dictionary_is_an_error(rerun, index):
    content = write_arrow(rerun.folder / "input.arrow", pa.array(TEXTS).dictionary_encode())
    at = bytes(content).find(struct.pack("<4i", 50, 51, 52, 53))
    content[at : at + 4] = struct.pack("<i", index)
    rerun.write("input.arrow", bytes(content))
    rerun.read_from("input.arrow")
    check_refused(rerun, 3, "can't read `input.arrow`", f"out of bounds: {index}", hint=DAMAGED)


@pytest.mark.parametrize("value", [0x7FFFFFF0, -5])
def test_damaged_offsets_of_a_dictionarys_strings_are_an_error(rerun, value):
    content = write_arrow(rerun.folder / "input.arrow", pa.array(TEXTS).dictionary_encode())
    length = len(TEXTS[0])
    at = bytes(content).find(struct.pack("<3i", length, 2 * length, 3 * length))
    content[at : at + 4] = struct.pack("<i", value)
    rerun.write("input.arrow", bytes(content))
    rerun.read_from("input.arrow")
    check_refused(rerun, 3, "can't read `input.arrow`", "Offset invariant failure", hint=DAMAGED)


def test_a_batch_that_is_mapped_is_checked_slice_by_slice(rerun):
    """One that is larger than a block: 3 MB."""
    texts = [text * 20 for text in TEXTS]
    table = pa.table({"text": texts})
    with pa.ipc.new_file(rerun.folder / "input.arrow", table.schema) as writer:
        writer.write_table(table)
    content = bytearray((rerun.folder / "input.arrow").read_bytes())
    length = len(texts[0])
    at = bytes(content).find(struct.pack("<3i", 100 * length, 101 * length, 102 * length))
    content[at : at + 4] = struct.pack("<i", 0x7FFFFFF0)
    rerun.write("input.arrow", bytes(content))
    rerun.read_from("input.arrow")
    check_refused(rerun, 3, "can't read `input.arrow`", "Offset invariant failure", hint=DAMAGED)


def test_a_message_of_negative_length_does_not_keep_the_reader_forever(rerun):
    content = write_arrow(rerun.folder / "input.arrow", pa.array(TEXTS))
    body = len(pa.record_batch({"text": TEXTS}).serialize())
    at = next(
        place
        for place in range(0, len(content) - 8, 8)
        if 100_000 < struct.unpack_from("<q", content, place)[0] < body
    )
    struct.pack_into("<q", content, at, -struct.unpack_from("<q", content, at)[0])
    rerun.write("input.arrow", bytes(content))
    rerun.read_from("input.arrow")
    check_refused(rerun, 3, "`input.arrow`", hint="get it again", timeout=60)


def test_a_footer_of_parquet_that_contradicts_itself_is_an_error(rerun):
    """Arrow's own accessor ends the process on it."""
    pq.write_table(pa.table({"text": [None, *TEXTS]}), rerun.folder / "input.parquet", compression="none")
    content = bytearray((rerun.folder / "input.parquet").read_bytes())
    content[content.index(b"\x25\x02\x18\x04text") + 1] = 0
    rerun.write("input.parquet", bytes(content))
    rerun.read_from("input.parquet")
    check_refused(rerun, 3, "can't read `input.parquet`", "histogram", hint=DAMAGED)


def test_a_carried_column_that_is_not_utf8_loses_those_bytes(job):
    """As the text does; else the output would not be valid, and an export would fail."""
    binary = pa.array([b"caf\xe9 %d" % number for number in range(20)])
    notes = pa.Array.from_buffers(pa.string(), 20, binary.buffers())
    texts = [document(number) for number in range(20)]
    pq.write_table(pa.table({"text": texts, "note": notes}), job.folder / "input.parquet")
    job.read_from("input.parquet")
    job.config["datasets"][0]["columns"] = ["note"]
    job.set(output="text")
    assert job.preprocess().code == 0
    (shard,) = job.output.glob("text-*.parquet")
    assert pq.read_table(shard)["note"].to_pylist() == [f"caf {number}" for number in range(20)]
    assert job.run("validate", str(job.output)).code == 0


@pytest.mark.parametrize("arguments", [[], ["--duplicates"]])
def test_inspecting_damaged_documents_is_an_error(job, arguments):
    job.write("input.jsonl", json_lines(document(number % 15) for number in range(30)))
    job.set(output="text", rejected=True, dedup={"method": "minhash", "clusters": True})
    assert job.preprocess().code == 0
    for shard in job.output.glob("*.parquet"):
        content = bytearray(shard.read_bytes())
        content[len(content) // 3 : len(content) // 3 + 40] = bytes(40)
        shard.write_bytes(bytes(content))
    outcome = job.run("inspect", str(job.output), *arguments)
    check_error(outcome, 3, ".parquet` cannot be decoded", hint="the file was changed after it was written")


def test_a_page_of_parquet_that_claims_gigabytes_is_an_error_before_room_is_made(rerun, fresh_krill):
    """Arrow would make room for all of it: 2 GB here, where the budget is 256 MB."""
    path = rerun.folder / "input.parquet"
    pq.write_table(pa.table({"text": TEXTS}), path, compression="none", use_dictionary=False)
    content = path.read_bytes()
    header = b"\x15\x00\x15"  # a data page, and then its two sizes as variable numbers
    assert content[4:7] == header
    sizes = (
        next(at for at in range(7, 20) if content[at] < 0x80) + 2
    )  # behind the first, and the second's type
    after = next(at for at in range(sizes, 30) if content[at] < 0x80) + 1
    rerun.write("input.parquet", content[:sizes] + b"\xfe\xff\xff\xff\x0f" + content[after:])
    rerun.read_from("input.parquet")
    rerun.save()
    outcome = fresh_krill("preprocess", "config.yaml", "--overwrite", cwd=rerun.folder)
    check_error(outcome, 3, "can't read `input.parquet`", "the page at byte 4 is damaged", hint=DAMAGED)
    assert outcome.peak < 256_000_000


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_compressed_buffer_that_claims_the_impossible_is_damaged_and_not_a_matter_of_memory(rerun, codec):
    table = pa.table({"text": TEXTS})
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_file(rerun.folder / "input.arrow", table.schema, options=options) as writer:
        writer.write_table(table)
    content = bytearray((rerun.folder / "input.arrow").read_bytes())
    size = struct.pack("<q", sum(map(len, TEXTS)))  # stands before the text that takes so much
    at = next(at for at in range(0, len(content), 8) if content[at : at + 8] == size)
    struct.pack_into("<q", content, at, 1 << 40)
    rerun.write("input.arrow", bytes(content))
    rerun.read_from("input.arrow")
    check_refused(
        rerun, 3, "`input.arrow` is not a whole Arrow IPC file", "can't decode to", hint="get it again"
    )


def test_text_that_compresses_as_far_as_anything_does_is_read(job):
    """Zeros, as Zstandard has them: 30,000 to 1."""
    table = pa.table({"text": [document(1), document(2)], "zeros": [b"\0" * 30_000_000] * 2})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(job.folder / "input.arrow", table.schema, options=options) as writer:
        writer.write_table(table)
    assert (job.folder / "input.arrow").stat().st_size < 10_000
    job.read_from("input.arrow")
    job.set(output="text")
    job.config["memory"] = "1GB"
    assert job.preprocess().code == 0
    assert job.texts() == [document(1).strip(), document(2).strip()]
