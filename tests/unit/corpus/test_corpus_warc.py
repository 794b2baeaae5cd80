"""WARC and WET: pages with their columns, and what is damaged, too large or no page named and counted."""

from __future__ import annotations

import gzip
import random
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import brotli
import pytest
from corpus_reading import batches, column, corpus_of, counts, walk_units

from krill.corpus import DatasetSource
from krill.corpus.pages import DAMAGED, PAGE_REASONS
from krill.errors import InputError
from web_crawl import (
    Answer,
    compressed,
    crawl,
    page_of,
    response_record,
    simple_answers,
    warc_info,
    warc_record,
)

COUNTED = set(PAGE_REASONS) | {"records"}


def read(path: Path, **limits: Any) -> tuple[list[str | None], dict[str, int]]:
    """The URLs of the pages that come out, and what was counted."""
    found = batches(corpus_of(path, **{"pages": True, "skip_malformed": True, **limits}))
    counted = counts(found)
    assert set(counted) <= COUNTED
    urls = column(found, "url")
    assert counted.get("records", 0) == len(urls) + sum(n for name, n in counted.items() if name != "records")
    return urls, {name: count for name, count in counted.items() if name != "records"}


def numbers(urls: list[str | None]) -> list[int]:
    return [int((url or "").rpartition("/")[2]) for url in urls]


def write_crawl(folder: Path, records: list[bytes], ending: str = ".gz") -> Path:
    path = folder / f"crawl.warc{ending}"
    path.write_bytes(compressed(records, ending))
    return path


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_pages_come_with_what_their_records_say(tmp_path: Path, ending: str) -> None:
    answers = simple_answers(20)
    path = tmp_path / f"crawl.warc{ending}"
    path.write_bytes(crawl(answers, ending))
    names = ("url", "date", "id", "content_type", "title")
    found = batches(corpus_of(DatasetSource(str(path), columns=names), pages=True))
    assert column(found, "text") == [answer.body.decode() for answer in answers]
    assert column(found, "url") == [answer.url for answer in answers]
    assert column(found, "date")[7] == "2026-01-01T00:00:07Z"
    assert column(found, "id")[7] == "urn:uuid:00000000-0000-0000-0000-000000000007"
    assert set(column(found, "content_type")) == {"text/html"}
    assert set(column(found, "title")) == {""}  # known once the page is parsed
    assert column(found, "charset")[0] == "utf-8"
    plain = crawl(answers, "")
    positions = column(found, "position")
    assert [plain[at : at + 8] for at in positions] == [b"WARC/1.0"] * len(answers)


def test_text_of_a_wet_file_is_its_documents(tmp_path: Path) -> None:
    records = [
        warc_record(
            "conversion", f"Text of {n}, déjà vu.\n".encode(), url=f"http://a/{n}", content_type="text/plain"
        )
        for n in range(3)
    ]
    path = tmp_path / "CC-MAIN.warc.wet.gz"
    path.write_bytes(compressed([warc_info(), *records], ".gz"))
    found = batches(corpus_of(path, pages=True))
    assert column(found, "text") == [f"Text of {n}, déjà vu.\n" for n in range(3)]
    assert column(found, "content_type") == ["text/plain"] * 3


def answer(**changes: Any) -> Answer:
    return Answer(**{"url": "https://example.org/0", "body": page_of("<p>text</p>").encode(), **changes})


HTML = page_of("<p>some text</p>").encode()
CHUNKS = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (HTML[:10], HTML[10:])) + b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("changes", "body"),
    [
        ({"body": gzip.compress(HTML), "headers": {"Content-Encoding": "gzip"}}, HTML),
        ({"body": zlib.compress(HTML), "headers": {"Content-Encoding": "deflate"}}, HTML),
        ({"body": zlib.compress(HTML)[2:-4], "headers": {"Content-Encoding": "deflate"}}, HTML),
        ({"body": brotli.compress(HTML), "headers": {"Content-Encoding": "br"}}, HTML),
        ({"body": HTML, "headers": {"Content-Encoding": "gzip"}}, HTML),
        ({"body": CHUNKS, "headers": {"Transfer-Encoding": "chunked"}}, HTML),
        ({"body": HTML, "headers": {"Transfer-Encoding": "chunked"}}, HTML),
        ({"body": HTML, "content_type": "Application/XHTML+xml"}, HTML),
        ({"body": b"just text", "content_type": "text/plain"}, b"just text"),
        ({"body": HTML, "content_type": ""}, HTML),
        ({"body": HTML, "status": "203 Non-Authoritative Information"}, HTML),
    ],
)
def test_bodies_are_unfolded_as_their_headers_say(tmp_path: Path, changes: Any, body: bytes) -> None:
    path = write_crawl(tmp_path, [response_record(answer(**changes))])
    found = batches(corpus_of(path, pages=True))
    assert column(found, "text") == [body.decode()]


BOMB = gzip.compress(b"<p>" * 5_000_000)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": "404 Not Found"}, "http_status"),
        ({"status": "500 Internal Server Error"}, "http_status"),
        ({"status": "301 Moved Permanently", "headers": {"Location": "/0"}}, "http_status"),
        ({"content_type": "image/png"}, "content_type"),
        ({"content_type": "application/pdf"}, "content_type"),
        ({"body": b"%PDF-1.7 and so on"}, "mislabelled"),
        ({"body": b"\x00\x01\x02binary"}, "mislabelled"),
        ({"body": b"garbage", "headers": {"Content-Encoding": "br"}}, "page_encoding"),
        ({"body": b"\x1f\x8bgarbage", "headers": {"Content-Encoding": "gzip"}}, "page_encoding"),
        ({"headers": {"Content-Encoding": "zstd"}}, "page_encoding"),
        ({"body": BOMB, "headers": {"Content-Encoding": "gzip"}}, "page_too_large"),
        (
            {"body": brotli.compress(b"a" * 11_000_000), "headers": {"Content-Encoding": "br"}},
            "page_too_large",
        ),
        ({"body": b"a" * 10_000_001}, "page_too_large"),
        ({"body": b"a" * 12_000_000}, "page_too_large"),
    ],
)
def test_what_is_no_page_is_counted_by_its_reason_and_the_next_page_is_read(
    tmp_path: Path, changes: Any, reason: str
) -> None:
    path = write_crawl(tmp_path, [response_record(answer(**changes)), response_record(simple_answers(2)[1])])
    urls, counted = read(path, skip_malformed=False)
    assert numbers(urls) == [1]
    assert counted == {reason: 1}


def test_requests_and_metadata_are_no_documents(tmp_path: Path) -> None:
    others = [
        warc_record(kind, b"some fields", url="http://a/9") for kind in ("request", "metadata", "revisit")
    ]
    urls, counted = read(write_crawl(tmp_path, [*others, response_record(simple_answers(1)[0])]))
    assert numbers(urls) == [0]
    assert counted == {}


def records_of(count: int) -> list[bytes]:
    return [response_record(answer, number) for number, answer in enumerate(simple_answers(count))]


def cut_last(data: bytes) -> bytes:
    return data[:-200]


def flip_in_third_member(data: bytes) -> bytes:
    """Bits inside of the third member are changed."""
    starts = [at for at in range(len(data)) if data.startswith(b"\x1f\x8b\x08\x00", at)]
    middle = (starts[2] + starts[3]) // 2
    return data[:middle] + bytes(byte ^ 0xA5 for byte in data[middle : middle + 20]) + data[middle + 20 :]


def spoil_checksum_of_third(data: bytes) -> bytes:
    starts = [at for at in range(len(data)) if data.startswith(b"\x1f\x8b\x08\x00", at)]
    at = starts[3] - 8
    return data[:at] + b"\0\0\0\0" + data[at + 4 :]


def garbage_between(data: bytes) -> bytes:
    starts = [at for at in range(len(data)) if data.startswith(b"\x1f\x8b\x08\x00", at)]
    return data[: starts[2]] + b"some other bytes" * 1000 + data[starts[2] :]


@pytest.mark.parametrize(
    ("damage", "kept", "counted"),
    [
        (cut_last, [0, 1, 2, 3, 4], {"warc_cut": 1}),
        (flip_in_third_member, [0, 1, 3, 4, 5], {"warc_corrupt": 1}),
        (spoil_checksum_of_third, [0, 1, 3, 4, 5], {"warc_corrupt": 1}),
        (garbage_between, [0, 1, 2, 3, 4, 5], {"warc_corrupt": 1}),
        (lambda data: data + bytes(5000), [0, 1, 2, 3, 4, 5], {}),
    ],
)
def test_reading_goes_on_at_the_next_gzip_member(
    tmp_path: Path, damage: Callable[[bytes], bytes], kept: list[int], counted: dict[str, int]
) -> None:
    path = write_crawl(tmp_path, records_of(6))
    path.write_bytes(damage(path.read_bytes()))
    urls, found = read(path)
    assert (numbers(urls), found) == (kept, counted)
    if counted:
        with pytest.raises(InputError, match=r"crawl\.warc\.gz`, the record at byte [\d,]+ of") as caught:
            read(path, skip_malformed=False)
        assert "on_error: skip" in (caught.value.hint or "")


def test_members_may_end_wherever_a_read_does(tmp_path: Path) -> None:
    """Each is longer by a byte than the one before, so that ends, magic numbers and heads lie on all sides
    of the borders of what is read and decoded at once."""
    noise = random.Random(0).randbytes(9_000)
    answers = [
        Answer(f"http://a/{number}", b"<p>" + noise.replace(b"\0", b"x")[: 7_750 + number])
        for number in range(200)
    ]
    members = [gzip.compress(response_record(answer, number), 0) for number, answer in enumerate(answers)]
    assert min(map(len, members)) < 8_192 < max(map(len, members))
    path = tmp_path / "crawl.warc.gz"
    path.write_bytes(b"".join(members))
    assert read(path) == ([answer.url for answer in answers], {})


@pytest.mark.parametrize("size", [100_000, 1_500_000, 3_000_000])
@pytest.mark.parametrize("place", [0.01, 0.5, 0.99])
def test_what_follows_a_long_member_that_is_damaged_is_read(tmp_path: Path, size: int, place: float) -> None:
    answers = simple_answers(4)
    noise = random.Random(size).randbytes(size).replace(b"\0", b"x")
    answers[1] = Answer(answers[1].url, b"<p>" + noise)
    members = [gzip.compress(response_record(answer, number)) for number, answer in enumerate(answers)]
    at = int(place * len(members[1]))
    members[1] = members[1][:at] + b"\xff" * 30 + members[1][at + 30 :]
    path = tmp_path / "crawl.warc.gz"
    path.write_bytes(b"".join(members) + bytes(150_000) + members[0])
    urls, counted = read(path)
    assert (numbers(urls), counted) == ([0, 2, 3, 0], {"warc_corrupt": 1})


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("fields", "reason", "lost"),
    [
        ({"Content_Length": "10"}, "warc_length", 1),
        ({"Content_Length": "4000"}, "warc_length", 1),
        ({"Content_Length": "-3"}, "warc_header", 1),
        ({"Content_Length": "9" * 30}, "warc_header", 1),
        ({"Content_Length": None}, "warc_header", 1),
        ({"WARC_Type": None}, "warc_header", 1),
        ({"X_Long": "a" * 70_000}, "warc_header", 1),
    ],
)
def test_a_record_whose_header_lies_is_left_out_alone(
    tmp_path: Path, ending: str, fields: Any, reason: str, lost: int
) -> None:
    records = records_of(5)
    records[2] = response_record(simple_answers(5)[2], 2, **fields)
    urls, counted = read(write_crawl(tmp_path, records, ending))
    assert numbers(urls) == [0, 1, 3, 4]
    assert counted == {reason: lost}


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_length_far_beyond_the_file_counts_as_cut(tmp_path: Path, ending: str) -> None:
    records = records_of(3)
    records[2] = response_record(simple_answers(3)[2], 2, Content_Length="900000000000")
    urls, counted = read(write_crawl(tmp_path, records, ending))
    assert numbers(urls) == [0, 1]
    assert counted == {"warc_cut": 1}


def test_records_may_reach_over_members_as_other_tools_cut_them(tmp_path: Path) -> None:
    plain = b"".join(records_of(8))
    path = tmp_path / "blocks.warc.gz"
    path.write_bytes(b"".join(gzip.compress(plain[at : at + 777]) for at in range(0, len(plain), 777)))
    assert read(path) == ([answer.url for answer in simple_answers(8)], {})
    path.write_bytes(gzip.compress(plain))
    assert read(path) == ([answer.url for answer in simple_answers(8)], {})


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_a_walk_over_a_damaged_crawl_resumes_after_any_unit(tmp_path: Path, ending: str) -> None:
    records = records_of(40)
    records[9] = response_record(simple_answers(10)[9], 9, Content_Length="77")
    records[20] = response_record(answer(status="404 Not Found"), 20)
    packed = [compressed([record], ending) for record in records]
    if ending == ".gz":
        packed[13] = packed[13][:100] + b"?" * 30 + packed[13][130:]
        packed[25] = b"no gzip at all"
    path = tmp_path / f"crawl.warc{ending}"
    path.write_bytes(b"".join(packed))
    limits: dict[str, Any] = {"unit_bytes": 10_000, "skip_malformed": True, "pages": True}
    whole = walk_units(corpus_of(path, **limits), {})
    assert len(whole) >= 4
    assert len([row for _, rows, _, _ in whole for row in rows]) == (36 if ending == ".gz" else 38)
    for done in range(1, len(whole) + 1):
        committed = {position: end for position, _, _, end in whole[:done]}
        assert walk_units(corpus_of(path, **limits), committed) == whole[done:]


@pytest.mark.parametrize("split", ["train[:3]", "train[4:9]", "train[-2:]", "train[:50%]"])
def test_slices_count_pages(tmp_path: Path, split: str) -> None:
    path = write_crawl(tmp_path, [warc_info(), *records_of(10)])
    found = batches(corpus_of(DatasetSource(str(path), split=split), pages=True))
    wanted = {"train[:3]": range(3), "train[4:9]": range(4, 9), "train[-2:]": range(8, 10)}
    assert numbers(column(found, "url")) == list(wanted.get(split, range(5)))


def test_html_files_are_pages_and_their_paths_are_their_addresses(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.html").write_text(page_of(f"<p>{number}</p>"))
    (tmp_path / "5.htm.gz").write_bytes(gzip.compress(page_of("<p>5</p>").encode()))
    (tmp_path / "6.html").write_bytes(b"%PDF-1.4")
    (tmp_path / "7.html").write_bytes(b"a" * 2000)
    found = batches(
        corpus_of(DatasetSource(str(tmp_path), columns=("url",), max_page_bytes=1000), pages=True)
    )
    assert column(found, "url") == [f"{tmp_path}/{n}.html" for n in range(5)] + [f"{tmp_path}/5.htm.gz"]
    assert counts(found) == {"records": 8, "mislabelled": 1, "page_too_large": 1}


def test_a_format_can_be_stated_and_a_crawl_is_never_read_as_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "CC-MAIN-00001.gz"
    path.write_bytes(compressed(records_of(3), ".gz"))
    with pytest.raises(InputError, match="holds WARC records, not text"):
        batches(corpus_of(path))
    from krill.corpus.formats import Format

    found = batches(corpus_of(DatasetSource(str(path), format=Format.WARC), pages=True))
    assert numbers(column(found, "url")) == [0, 1, 2]


def test_pages_are_refused_where_nobody_extracts_their_text(tmp_path: Path) -> None:
    path = write_crawl(tmp_path, records_of(1))
    with pytest.raises(InputError, match="holds web pages, whose text only `krill preprocess` extracts"):
        corpus_of(path)


def test_columns_that_pages_do_not_have_are_refused(tmp_path: Path) -> None:
    path = write_crawl(tmp_path, records_of(1))
    with pytest.raises(InputError, match=r"no column `language` in .*there are: `url`, `date`"):
        corpus_of(DatasetSource(str(path), columns=("language",)), pages=True)
    corpus = corpus_of(DatasetSource(str(path), columns=("*",)), pages=True)
    assert corpus.files[0].source.columns == ("url", "date", "id", "content_type", "title")


def test_every_reason_of_damage_is_described() -> None:
    assert set(PAGE_REASONS) >= DAMAGED


def http_record(content: bytes, url: str = "https://example.org/0") -> bytes:
    return warc_record("response", content, url=url, content_type="application/http; msgtype=response")


TYPED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n<p>without headers", "<p>without headers"),
        (b"HTTP/1.0 200\n\n<p>bare newlines", "<p>bare newlines"),
        (b"HTTP/2 200\r\n\r\n<p>another version", "<p>another version"),
        (TYPED + b"Content-Length: 3\r\n\r\n<p>a length that lies", "<p>a length that lies"),
        (TYPED + b"Content-Type: image/png\r\n\r\n<p>the first counts", "<p>the first counts"),
        (TYPED + b": x\r\n\x00\xff\r\n\r\n<p>odd fields", "<p>odd fields"),
        (TYPED + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"<p>cut short")[:-8], "<p>cut short"),
        (TYPED + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n<p>beyond", "<p>beyond"),
        (TYPED + b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\n<p>\r\n3\r\nend\r\n", "<p>end"),
        (TYPED + b"Transfer-Encoding: chunked\r\n\r\n-3\r\n<p>none", "-3\r\n<p>none"),
    ],
    ids=["1.0", "newlines", "2", "length", "twice", "odd", "cut", "beyond", "extension", "negative"],
)
def test_an_answer_is_taken_as_servers_and_crawlers_write_them(
    tmp_path: Path, content: bytes, body: str
) -> None:
    found = batches(corpus_of(write_crawl(tmp_path, [http_record(content)]), pages=True))
    assert column(found, "text") == [body]


@pytest.mark.parametrize(
    "content",
    [b"<p>no head at all", b"", b"HTTP/1.1 20 OK\r\n\r\n<p>a", b"HTTP/1.1 OK\r\n\r\n<p>a"],
)
def test_an_answer_without_a_status_is_counted_as_none(tmp_path: Path, content: bytes) -> None:
    urls, counted = read(
        write_crawl(tmp_path, [http_record(content), records_of(2)[1]]), skip_malformed=False
    )
    assert (numbers(urls), counted) == ([1], {"http_status": 1})


@pytest.mark.parametrize("status", [100, 204, 206, 304, 307, 400, 403, 404, 410, 429, 500, 502, 503])
def test_only_answers_of_2xx_are_pages(tmp_path: Path, status: int) -> None:
    content = b"HTTP/1.1 %d What\r\nContent-Type: text/html\r\n\r\n<p>a page" % status
    urls, counted = read(write_crawl(tmp_path, [http_record(content)]))
    assert (len(urls), counted) == ((1, {}) if status // 100 == 2 else (0, {"http_status": 1}))


@pytest.mark.parametrize("url", ["", "no url", "http://[::1", "urn:x", "https://a/\u0661?#%zz", "a" * 900])
def test_a_page_is_kept_whatever_its_address_is(tmp_path: Path, url: str) -> None:
    path = write_crawl(tmp_path, [http_record(TYPED + b"\r\n<p>a page", url)])
    found = batches(corpus_of(DatasetSource(str(path), columns=("url",)), pages=True))
    assert (column(found, "url"), column(found, "text")) == ([url], ["<p>a page"])


def test_of_fields_of_one_name_the_first_counts_and_names_have_no_case(tmp_path: Path) -> None:
    record = records_of(1)[0]
    twice = record.replace(b"Content-Length", b"content-LENGTH", 1)
    twice = twice.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\nWARC-Type: request\r\n\r\n", 1)
    assert read(write_crawl(tmp_path, [twice, records_of(2)[1]])) == (
        [answer.url for answer in simple_answers(2)],
        {},
    )


def test_a_resource_is_a_page_itself_and_another_kind_of_it_is_counted(tmp_path: Path) -> None:
    page = warc_record("resource", b"<p>a page", url="http://a/1", content_type="text/html")
    other = warc_record("resource", b"GIF89a", url="http://a/2", content_type="image/gif")
    assert read(write_crawl(tmp_path, [page, other])) == (["http://a/1"], {"content_type": 1})


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    "hostile",
    [
        b"WARC/1.0\r\n" * 50_000,
        b"WARC/1.0\r\na: b\r\n" * 40_000,
        warc_record("response", b"", content_type="application/http", Content_Length="900000") * 6000
        + bytes(1_000_000)
        + b"\r\n",
    ],
    ids=["versions", "fields", "lengths"],
)
def test_what_looks_like_many_records_is_read_once(tmp_path: Path, ending: str, hostile: bytes) -> None:
    """Each would be looked at up to the longest header, or the length that it states: for minutes."""
    path = write_crawl(tmp_path, [records_of(1)[0], hostile, records_of(2)[1]], ending)
    begun = time.process_time()
    urls, counted = read(path)
    assert time.process_time() - begun < 10
    assert numbers(urls) == [0, 1]
    assert sum(counted.values()) >= 6000
