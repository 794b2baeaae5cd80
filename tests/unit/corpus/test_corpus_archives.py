"""Archives of HTML: their pages, and what is damaged, hostile or no page named and counted."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard
from corpus_reading import batches, column, corpus_of, counts, walk_units
from hypothesis import given
from hypothesis import strategies as st

from krill.corpus import DatasetSource
from krill.corpus.formats import Format
from krill.errors import InputError
from properties import tried
from web_crawl import article, overlapping_zip, page_of, tarred, zipped

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
PAGES = {f"site/{number}.html": page_of(article(number)).encode() for number in range(12)}
ENDINGS = [".zip", *(f".tar{ending}" for ending in PACK)]


def archive(members: Mapping[str, bytes], ending: str) -> bytes:
    return zipped(members) if ending == ".zip" else PACK[ending.removeprefix(".tar")](tarred(members))


def read(path: Path, *, skip: bool = True, **source: Any) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Names, below the archive's, and texts; what was counted beside them."""
    given = DatasetSource(str(path), columns=("url",), **source)
    found = batches(corpus_of(given, pages=True, skip_malformed=skip))
    counted = counts(found)
    urls = [url.removeprefix(f"{path}/") for url in column(found, "url")]
    assert counted.pop("records", 0) == len(urls) + sum(counted.values())
    return list(zip(urls, column(found, "text"), strict=True)), counted


def written(folder: Path, content: bytes, ending: str = ".zip") -> Path:
    path = folder / f"pages{ending}"
    path.write_bytes(content)
    return path


def as_texts(members: Mapping[str, bytes]) -> list[tuple[str, str]]:
    return [(name, content.decode()) for name, content in members.items()]


@pytest.mark.parametrize("ending", ENDINGS)
def test_members_that_are_html_are_the_documents(tmp_path: Path, ending: str) -> None:
    others = {"site/style.css": b"p {}", "site/a.png": b"\x89PNG", "notes.txt": b"a text", "empty.css": b""}
    packed = {"site/packed.htm.gz": gzip.compress(PAGES["site/3.html"])}
    path = written(tmp_path, archive({**others, **PAGES, **packed}, ending), ending)
    wanted = [*as_texts(PAGES), ("site/packed.htm.gz", PAGES["site/3.html"].decode())]
    assert read(path, skip=False) == (wanted, {})


def test_names_of_archives_may_be_short_or_stated(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(archive(PAGES, ".tar.gz"))
    assert read(tmp_path / "a.tgz")[0] == as_texts(PAGES)
    (tmp_path / "b").write_bytes(archive(PAGES, ".zip"))
    assert read(tmp_path / "b", format=Format.ZIP)[0] == as_texts(PAGES)
    assert read(tmp_path / "a.tgz", format=Format.HTML)[0] == as_texts(PAGES)
    (tmp_path / "c.zip.gz").write_bytes(b"")
    with pytest.raises(InputError, match="is compressed as a whole"):
        read(tmp_path / "c.zip.gz")


def test_a_folder_is_read_with_its_archives_unless_it_has_other_data(tmp_path: Path) -> None:
    (tmp_path / "one.zip").write_bytes(zipped({"1.html": b"<p>one"}))
    (tmp_path / "two.html").write_bytes(b"<p>two")
    assert read(tmp_path)[0] == [("one.zip/1.html", "<p>one"), ("two.html", "<p>two")]
    (tmp_path / "rows.jsonl").write_bytes(b'{"text": "rows", "url": "u"}\n')
    (tmp_path / "two.html").unlink()
    assert column(batches(corpus_of(tmp_path, pages=True)), "text") == ["rows"]


LONG = "deep/" * 60 + "page.html"


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_names_of_tar_are_as_long_as_writers_make_them(tmp_path: Path, format: int) -> None:
    names = (
        [LONG[:200] + "a.html", "häuser/ä.html"] if format == tarfile.USTAR_FORMAT else [LONG, "日本/ä.html"]
    )
    members = dict.fromkeys([*names, "last.html"], b"<p>text")
    assert read(written(tmp_path, tarred(members, format), ".tar"))[0] == as_texts(members)


def test_names_of_zip_in_an_old_charset_and_beyond_4_gigabytes(tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        with archive.open("large.html", "w", force_zip64=True) as member:
            member.write(b"<p>one")
        archive.writestr("zoe.html", b"<p>two")
    content = made.getvalue().replace(b"zoe.html", b"zo\x82.html")
    assert read(written(tmp_path, b"MZ a program" * 99 + content))[0] == [
        ("large.html", "<p>one"),
        ("zoé.html", "<p>two"),
    ]


def test_links_and_folders_are_no_documents(tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        link = zipfile.ZipInfo("link.html")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.mkdir("folder.html")
    assert read(written(tmp_path, made.getvalue()), skip=False) == ([], {})
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
            member = tarfile.TarInfo("a.html")
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    assert read(written(tmp_path, made.getvalue(), ".tar"), skip=False) == ([], {})


NAMES = ["../up.html", "/etc/a.html", "a/../../b.html", "C:\\a.html", "..\\a.html", "\\a.html"]


@pytest.mark.parametrize("ending", [".zip", ".tar"])
def test_names_that_lead_out_are_counted(tmp_path: Path, ending: str) -> None:
    members = dict.fromkeys(NAMES, b"<p>out") | {"in..side/.a.html": b"<p>in"}
    path = written(tmp_path, archive(members, ending), ending)
    assert read(path, skip=False) == ([("in..side/.a.html", "<p>in")], {"archive_name": len(NAMES)})


@pytest.mark.parametrize("ending", [".zip", ".tar"])
def test_archives_in_archives_are_counted(tmp_path: Path, ending: str) -> None:
    inner = {
        "a.zip": zipped(PAGES),
        "b.tar.gz": b"",
        "c.tgz": b"",
        "d.7z": b"",
        "e.warc.gz": b"",
        "f.rar": b"",
    }
    path = written(tmp_path, archive({**inner, "g.html": b"<p>out"}, ending), ending)
    assert read(path, skip=False) == ([("g.html", "<p>out")], {"archive_nested": 6})


@pytest.mark.parametrize("ending", [".zip", ".tar"])
def test_members_of_one_name_are_documents_each(tmp_path: Path, ending: str) -> None:
    contents = [b"<p>first", b"<p>second"]
    if ending == ".zip":
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
            for content in contents:
                archive.writestr("a.html", content)
        data = made.getvalue()
    else:  # as `cat` joins archives
        data = b"".join(tarred({"a.html": content}) for content in contents)
    found, _ = read(written(tmp_path, data, ending))
    assert found == [("a.html", "<p>first"), ("a.html", "<p>second")]


@pytest.mark.parametrize("ending", ENDINGS)
def test_pages_that_are_too_large_or_none_are_counted(tmp_path: Path, ending: str) -> None:
    members = {
        "large.html": bytes(3_000_000),
        "bomb.html.gz": gzip.compress(bytes(30_000_000)),
        "paper.html": b"%PDF-1.7",
        "odd.html.xz": b"",
        "good.html": b"<p>good",
    }
    path = written(tmp_path, archive(members, ending), ending)
    assert read(path, skip=False, max_page_bytes=1_000_000) == (
        [("good.html", "<p>good")],
        {"page_too_large": 2, "mislabelled": 1, "page_encoding": 1},
    )


def entry_at(data: bytes, name: bytes) -> int:
    """Where the entry of a member begins in the directory."""
    return data.rindex(b"PK\1\2", 0, data.rindex(name))


def patched(data: bytes, at: int, number: int, form: str = "<I") -> bytes:
    return data[:at] + struct.pack(form, number) + data[at + struct.calcsize(form) :]


def local_at(data: bytes, name: bytes) -> int:
    return data.rindex(b"PK\3\4", 0, data.index(name))


ZIP = zipped({"a.html": b"<p>first " * 50, "b.html": b"<p>second " * 50, "c.html": b"<p>third " * 50})
B = entry_at(ZIP, b"b.html")
BODY = local_at(ZIP, b"b.html") + 36
DAMAGE: dict[str, tuple[bytes, str, str]] = {
    "encrypted": (patched(ZIP, B + 8, 1, "<H"), "archive_encrypted", ""),
    "another method": (patched(ZIP, B + 10, 12, "<H"), "page_encoding", ""),
    "states to be larger": (patched(ZIP, B + 24, 99_000_000), "page_too_large", ""),
    "is longer than it states": (patched(ZIP, B + 24, 100), "archive_corrupt", "does not hold the 100 bytes"),
    "is shorter": (patched(ZIP, B + 24, 1_000), "archive_corrupt", "does not hold the 1,000 bytes"),
    "another checksum": (patched(ZIP, B + 16, 1), "archive_corrupt", "its checksum is another"),
    "stored bytes that lie": (patched(ZIP, B + 20, 10), "archive_corrupt", "does not hold"),
    "is elsewhere": (patched(ZIP, B + 42, 3), "archive_corrupt", "is not where the directory says"),
    "is far away": (patched(ZIP, B + 42, 2**31), "archive_corrupt", "is not where the directory says"),
    "damaged content": (patched(ZIP, BODY, 0xFFFFFFFF), "archive_corrupt", "`b.html` is damaged"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_member_that_lies_is_left_out_alone(tmp_path: Path, damage: str) -> None:
    data, reason, fact = DAMAGE[damage]
    path = written(tmp_path, data)
    found, counted = read(path)
    assert ([name for name, _ in found], counted) == (["a.html", "c.html"], {reason: 1})
    if fact:
        with pytest.raises(InputError, match=fact) as caught:
            read(path, skip=False)
        assert "on_error: skip" in (caught.value.hint or "")
    else:
        assert read(path, skip=False) == (found, counted)


WHOLE: dict[str, tuple[bytes, str]] = {
    "cut": (ZIP[:-30], "it is no zip archive, or its end is missing"),
    "no archive": (b"some text", "it is no zip archive"),
    "nothing": (b"", "is empty"),
    "members upon each other": (overlapping_zip(1000), "its members lie upon each other"),
    "fewer members than stated": (
        patched(ZIP, len(ZIP) - 12, 7, "<H"),
        "lists 3 members, and states another",
    ),
    "a directory beyond the file": (patched(ZIP, len(ZIP) - 10, 2**30), "directory of 1,073,741,824 bytes"),
    "a damaged directory": (patched(ZIP, B, 0), "its directory is damaged at byte"),
    "several files": (patched(ZIP, len(ZIP) - 18, 1, "<H"), "a part of an archive in several files"),
}


@pytest.mark.parametrize("damage", WHOLE)
def test_an_archive_without_a_directory_that_holds_is_left_out(tmp_path: Path, damage: str) -> None:
    data, fact = WHOLE[damage]
    with pytest.raises(InputError, match=fact):
        read(written(tmp_path, data), skip=False)
    if data:
        assert read(written(tmp_path, data)) == ([], {"archive_corrupt": 1})


def header(name: str, size: int, kind: bytes = b"0", **fields: bytes) -> bytes:
    """One of tar, with any size."""
    numbers = b"0000644\0" + b"0000000\0" * 2 + b"%011o\0" % size + b"00000000000\0"
    block = name.encode().ljust(100, b"\0") + numbers + b" " * 8 + kind
    block = block.ljust(257, b"\0") + b"ustar\0" + b"00"
    block = block.ljust(512, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def member(name: str, content: bytes, kind: bytes = b"0") -> bytes:
    return header(name, len(content), kind) + content + bytes(-len(content) % 512)


FIRST, THIRD = member("a.html", b"<p>first"), member("c.html", b"<p>third" * 200)
ONE = {"archive_corrupt": 1}
TARS: dict[str, tuple[bytes, list[str], dict[str, int], str]] = {
    "a damaged header": (b"?" * 512 + member("b.html", b"<p>"), ["b.html", "c.html"], ONE, "no header"),
    "garbage between": (b"?" * 5000 + bytes(120), ["c.html"], ONE, "no header"),
    "a size beyond the file": (
        header("b.html", 1 << 32),
        [],
        ONE,
        "ends inside of the member `b.html`",
    ),
    "a name of a gigabyte": (header("x", 1 << 30, b"L"), [], ONE, "extended header of 1,073,741,824"),
    "a damaged extension": (member("x", b"99 path=b\n", b"x"), ["c.html"], ONE, "header is damaged"),
    "a sparse member": (member("b.html", b"<p>", b"S"), ["c.html"], {"page_encoding": 1}, ""),
    "the end in the midst": (bytes(1024), ["c.html"], {}, ""),
}


@pytest.mark.parametrize("damage", TARS)
def test_what_is_wrong_in_a_tar_is_counted_and_reading_goes_on(tmp_path: Path, damage: str) -> None:
    between, names, wanted, fact = TARS[damage]
    path = written(tmp_path, FIRST + between + THIRD + bytes(1024), ".tar")
    found, counted = read(path)
    assert [name for name, _ in found] == ["a.html", *names]
    assert counted == wanted
    if fact:
        with pytest.raises(InputError, match=fact):
            read(path, skip=False)


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tar.zst"])
def test_a_tar_that_is_cut_is_an_error_or_counted(tmp_path: Path, ending: str) -> None:
    data = archive(PAGES, ending)
    path = written(tmp_path, data[: len(data) // 2 + 100], ending)
    found, counted = read(path)
    assert found == as_texts(PAGES)[: len(found)]
    assert 0 < len(found) < len(PAGES) or ending == ".tar.zst"
    assert counted == {"archive_corrupt": 1}
    with pytest.raises(InputError, match="the file ends inside of"):
        read(path, skip=False)


def test_what_stands_behind_the_end_of_a_tar_is_left(tmp_path: Path) -> None:
    path = written(tmp_path, FIRST + bytes(1024) + b"other bytes " * 100, ".tar")
    assert read(path, skip=False) == ([("a.html", "<p>first")], {})


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_walk_over_an_archive_resumes_after_any_unit(tmp_path: Path, ending: str) -> None:
    members = {
        **PAGES,
        "../a.html": b"",
        **{f"{number}/x.html": content for number, content in enumerate(PAGES.values())},
        "paper.html": b"%PDF-1.7",
        "last/" * 40 + "page.html": b"<p>last",
    }
    path = written(tmp_path, archive(members, ending), ending)
    limits: dict[str, Any] = {"unit_bytes": 8_000, "skip_malformed": True, "pages": True}
    whole = walk_units(corpus_of(path, **limits), {})
    assert len(whole) >= 4
    assert [row["text"] for _, rows, _, _ in whole for row in rows] == [
        content.decode() for content in [*PAGES.values(), *PAGES.values(), b"<p>last"]
    ]
    for done in range(1, len(whole) + 1):
        committed = {position: end for position, _, _, end in whole[:done]}
        assert walk_units(corpus_of(path, **limits), committed) == whole[done:]


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
@pytest.mark.parametrize(("split", "wanted"), [("train[:3]", range(3)), ("train[-2:]", range(10, 12))])
def test_slices_count_pages(tmp_path: Path, ending: str, split: str, wanted: range) -> None:
    path = written(tmp_path, archive({"a.css": b"", **PAGES}, ending), ending)
    found = column(batches(corpus_of(DatasetSource(str(path), split=split), pages=True)), "text")
    assert found == [text for _, text in as_texts(PAGES)[wanted.start : wanted.stop]]


def members_by_libraries(data: bytes, ending: str) -> list[tuple[str, bytes]]:
    """The slow reference."""
    if ending == ".zip":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [(info.filename, archive.read(info)) for info in archive.infolist()]
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = [(info.name, tar.extractfile(info)) for info in tar if info.isreg()]
        return [(name, file.read()) for name, file in files if file is not None]


parts = st.text(st.characters(exclude_characters="/\\\0:", exclude_categories=["Cs", "Cc"]), min_size=1)
names = st.lists(parts.filter(lambda part: part.strip(".") != ""), min_size=1, max_size=4).map("/".join)


@tried(30)
@given(
    st.dictionaries(names, st.binary(max_size=700).map(lambda content: b"<p>" + content.hex().encode())),
    st.sampled_from([".zip", ".tar", ".tar.gz"]),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
)
def test_members_are_those_that_the_libraries_see(
    tmp_path_factory: Any, members: Mapping[str, bytes], ending: str, format: int, method: int
) -> None:
    pages = {f"{name}.html": content for name, content in members.items()}
    data = zipped(pages, method) if ending == ".zip" else PACK[ending[4:]](tarred(pages, format))
    path = written(tmp_path_factory.mktemp("archive"), data, ending)
    if not members and ending == ".zip":
        return
    expected = [
        (name.removeprefix("./"), content.decode()) for name, content in members_by_libraries(data, ending)
    ]
    assert read(path, skip=False)[0] == expected


def test_a_hundred_thousand_members_are_read_in_order(tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for number in range(100_000):
            archive.writestr(zipfile.ZipInfo(f"{number}.css"), b"")
        archive.writestr("last.html", b"<p>last")
    assert read(written(tmp_path, made.getvalue()), skip=False) == ([("last.html", "<p>last")], {})


def test_the_unfolded_bytes_of_a_bomb_are_never_held(tmp_path: Path) -> None:
    """A gigabyte in a megabyte: in a member of zip, and in front of one of tar."""
    deflated = zlib.compressobj(9, zlib.DEFLATED, -15)
    stored = b"".join(deflated.compress(bytes(1 << 20)) for _ in range(300)) + deflated.flush()
    data = zipped({"a.html": b"<p>a" * 500})
    lying = data[: local_at(data, b"a.html") + 36] + stored
    entry = data[data.index(b"PK\1\2") : data.index(b"PK\5\6")]
    entry = patched(patched(entry, 20, len(stored)), 24, 9_000_000)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(entry), len(lying), 0)
    assert read(written(tmp_path, lying + entry + end)) == ([], {"archive_corrupt": 1})
