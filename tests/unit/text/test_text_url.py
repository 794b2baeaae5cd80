"""Documents are dropped by their URL: what lists mean, where they come from, what is refused."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import krill
from krill import _native
from krill.config import load_config
from krill.config.filters import Url
from krill.corpus.buffers import text_buffers, text_column_of
from krill.corpus.documents import Documents
from krill.errors import ConfigError, InputError
from krill.text.url_filter import REASONS, UrlFilter, list_size, url_bytes
from oracles.url import reference_url_reason
from properties import tried


def documents_of(urls: list[str | None], kind: pa.DataType | None = None) -> Documents:
    columns = [
        pa.array([f"text {number}" for number in range(len(urls))], pa.large_string()),
        pa.array(range(len(urls)), pa.uint64()),
        pa.array(urls, kind or pa.large_string()),
    ]
    return Documents(pa.RecordBatch.from_arrays(columns, ["text", "position", "url"]), {"too_short": 3})


def reasons(section: Url, urls: list[Any]) -> list[str | None]:
    names = (None, *REASONS)
    return [names[code] for code in UrlFilter(section).judge(pa.array(urls, pa.large_string()))]


def test_listed_documents_are_dropped_and_counted_beside_earlier_reasons() -> None:
    step = UrlFilter(Url(domains=("blocked.com",), banned_words=("casino",)))
    urls = ["https://a.blocked.com/x", "https://fine.org/", "https://fine.org/casino/x", None, ""]
    result = step.apply(documents_of(urls))
    assert result.batch["text"].to_pylist() == ["text 1"]
    assert result.counts == {
        "too_short": 3,
        "url_domain": 1,
        "url_hard_blacklisted": 1,
        "url_missing": 2,
    }


def test_hosts_are_listed_with_all_hosts_below_them_and_need_no_suffixes() -> None:
    section = Url(hosts=("bad.example.com", "10.0.0.1", "[::1]"))
    urls = [
        "http://bad.example.com/",
        "http://user:pw@deep.bad.example.com:80?x",
        "http://example.com/bad.example.com",
        "http://notbad.example.com/",
        "http://10.0.0.1/",
        "http://[::1]:8000/",
        "http://" + "a." * 400 + "bad.example.com/",
    ]
    host = "url_host"
    assert reasons(section, urls) == [host, host, None, None, host, host, host]


def test_a_public_suffix_decides_what_is_a_domain(tmp_path: Path) -> None:
    lists = ("shop.co.uk", "co.uk", "www.ck", "some.thing.ck", "xn--55qw42g.cn", "firma.公司.cn")
    urls = [
        "https://www.shop.co.uk/",
        "https://other.co.uk/",
        "https://a.www.ck/",
        "https://x.some.thing.ck/",
        "https://www.firma.公司.cn/",
        "https://www.shop.co.uk./",
        "https://www.shop。co．uk/",
    ]
    expected = ["url_domain", None, "url_domain", "url_domain", "url_domain", "url_domain", "url_domain"]
    assert reasons(Url(domains=lists), urls) == expected
    suffixes = tmp_path / "suffixes.dat"
    suffixes.write_text("// rules\nuk\n\nck   // comment\n// ===BEGIN PRIVATE DOMAINS===\nco.uk\n")
    section = Url(domains=lists, suffixes=str(suffixes))
    assert reasons(section, urls[:2]) == ["url_domain", "url_domain"]


def test_words_keep_their_case_unless_it_is_ignored() -> None:
    section = Url(banned_words=("Bad",), soft_words=("one", "two"), hosts=("listed.org",))
    ignoring = section.model_copy(update={"ignore_case": True})
    urls = ["http://x.org/BAD", "http://x.org/One-TWO", "http://LISTED.org/", "http://x.org/one-one"]
    assert reasons(section, urls) == [None] * 4
    assert reasons(ignoring, urls) == ["url_hard_blacklisted", "url_soft_blacklisted", "url_host", None]


def test_patterns_are_searched_for_in_the_url_alone(tmp_path: Path) -> None:
    file = tmp_path / "patterns.txt"
    file.write_text(r"/tag/\d+$" + "\n")
    section = Url(patterns=(r"[?&]replytocom=",), patterns_file=str(file))
    urls = ["http://x.org/?a=1&replytocom=3", "http://x.org/tag/12", "http://x.org/tag/12/a"]
    assert reasons(section, urls) == ["url_pattern", "url_pattern", None]


def test_documents_without_a_url_may_be_kept() -> None:
    step = UrlFilter(Url(hosts=("x.org",), keep_missing=True))
    result = step.apply(documents_of([None, "", "http://x.org"]))
    assert result.batch["url"].to_pylist() == [None, ""]
    assert result.counts == {"too_short": 3, "url_host": 1}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_any_column_of_strings_will_do_sliced_or_not(kind: pa.DataType) -> None:
    urls: list[str | None] = ["http://x.org/", None, "http://y.org/", "http://a.x.org/"]
    step = UrlFilter(Url(hosts=("x.org",)))
    result = step.apply(documents_of(urls, kind))
    assert result.batch["url"].to_pylist() == ["http://y.org/"]
    column = documents_of(urls, kind).batch.column("url").slice(2)
    assert step.judge(column).tolist() == [0, 1 + list(REASONS).index("url_host")]


def test_a_file_may_have_comments_any_line_ends_and_millions_of_lines(tmp_path: Path) -> None:
    file = tmp_path / "domains.txt"
    names = [f"site{number}.com" for number in range(50_000)]
    file.write_bytes(b"# comment\r\n\n  \n" + "\r\n".join(names).encode())
    section = Url(domains=str(file))
    assert list_size(str(file)).entries == 50_003
    assert reasons(section, ["http://www.site49999.com/", "http://site50000.com/"]) == ["url_domain", None]
    assert url_bytes(section) - url_bytes(Url(domains=("a.com",))) == int(8.5 * 50_003) - 8


@pytest.mark.parametrize(("names", "times"), [(1, 1), (1, 5_000), (129, 1), (130, 300), (100_000, 3)])
def test_each_entry_is_found_and_counts_once_however_often_and_in_whatever_order_it_comes(
    names: int, times: int
) -> None:
    listed = [f"site{number}.com" for number in range(names)]
    entries = listed * times
    random.Random(names).shuffle(entries)
    native = _native.UrlFilter((0, len(entries), 0, 0, 0), (0, 0), 1, False)
    native.add_lines(1, "\n".join(entries).encode())
    native.finish()
    again = _native.UrlFilter((0, names, 0, 0, 0), (0, 0), 1, False)
    again.add_lines(1, "\n".join(listed).encode())
    again.finish()
    assert native.size == names
    assert native.fingerprints() == again.fingerprints()
    urls = [f"http://{name}/" for name in (*listed, *(f"other{number}.com" for number in range(names)))]
    codes = native.judge(*text_buffers(text_column_of(urls)))
    assert (codes[:names] == 1 + list(REASONS).index("url_host")).all() and not codes[names:].any()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "can't be read: No such file"),
        (os.mkfifo, "can't be read: it is not a regular file"),
        (b"fine.org\n\xff\xfe\n", "is not UTF-8"),
        (b"x" * 2_000_000, "has more than 1,000,000 bytes"),
    ],
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, content: Any, said: str) -> None:
    file = tmp_path / "list.txt"
    if callable(content):
        content(file)
    elif content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=said):
        UrlFilter(Url(hosts=str(file)))


def test_lists_without_an_entry_and_sections_without_a_list_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(ConfigError, match="have no entry"):
        UrlFilter(Url(urls=str(tmp_path / "empty.txt")))
    with pytest.raises(ConfigError, match="must have a list, one of `domains`"):
        load_config({"preprocess": {"filters": [{"url": {"ignore_case": True}}]}})


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda file: file.write_text("// nothing\n"), "has no rule"),
        (lambda file: file.write_text(".".join("é" * 40)), "has a rule that is not a name"),
        (lambda file: file.write_text("a" * 300), "has a rule that is not a name"),
        (lambda file: file.symlink_to("/dev/zero"), "can't be read: it is not a regular file"),
        (os.mkfifo, "can't be read: it is not a regular file"),
        (lambda file: (file.touch(), os.truncate(file, 10**11)), "at most 1,000,000 are read"),
    ],
)
def test_a_suffix_list_that_is_none_is_refused(tmp_path: Path, write: Any, said: str) -> None:
    write(tmp_path / "suffixes.dat")
    section = Url(domains=("a.com",), suffixes=str(tmp_path / "suffixes.dat"))
    with pytest.raises(InputError, match=said):
        url_bytes(section)
    with pytest.raises(InputError, match=said):
        UrlFilter(section)


def test_a_long_list_of_suffixes_is_planned_with_what_it_takes(tmp_path: Path) -> None:
    file = tmp_path / "suffixes.dat"
    file.write_text("".join(f"{number}.com\n" for number in range(90_000)))
    script = (
        "import sys, pathlib\n"
        "from krill import _native\n"
        "from krill.config.filters import Url\n"
        "from krill.text.url_filter import UrlFilter, url_bytes\n"
        "section = Url(domains=('a.com',), suffixes=sys.argv[1])\n"
        "planned, held = url_bytes(section), _native.resident_bytes()\n"
        "pathlib.Path('/proc/self/clear_refs').write_text('5')\n"
        "kept = UrlFilter(section)\n"
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(planned, int(status.split('VmHWM:')[1].split()[0]) * 1024 - held)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, file], capture_output=True, text=True, check=True)
    planned, took = map(int, done.stdout.split())
    assert took <= planned


def test_a_column_that_is_not_there_is_named_with_the_remedy() -> None:
    step = UrlFilter(Url(hosts=("x.org",), column="link"))
    with pytest.raises(ConfigError, match="needs the column `link`") as caught:
        step.apply(documents_of(["http://x.org"]))
    assert "columns: [link]" in (caught.value.hint or "")


def test_its_fingerprint_changes_with_a_list_and_with_the_list_it_is_in(tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    file.write_text("x.org\n")
    first = UrlFilter(Url(hosts=str(file))).fingerprint()
    assert UrlFilter(Url(hosts=str(file))).fingerprint() == first
    assert UrlFilter(Url(urls=str(file))).fingerprint() != first
    file.write_text("y.org\n")
    assert UrlFilter(Url(hosts=str(file))).fingerprint() != first


def test_datatroves_names_of_lists_are_known() -> None:
    options = {"extra_domains": ["a.com"], "extra_urls": ["http://b"], "soft_banned_words": ["c", "d"]}
    (section,) = load_config({"preprocess": {"filters": [{"url": options}]}}).preprocess.filters
    assert section == Url(domains=("a.com",), urls=("http://b",), soft_words=("c", "d"))


def test_a_run_carries_the_column_and_tells_why_documents_were_dropped(tmp_path: Path) -> None:
    rows = [
        {"text": f"A page about krill, number {number}.", "url": f"https://{host}/{number}"}
        for number, host in enumerate(["a.org", "www.bad.com", "b.org", "bad.com"])
    ]
    source = tmp_path / "pages.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "domains.txt").write_text("bad.com\n")
    config: dict[str, Any] = {
        "datasets": [{"path": str(source), "columns": ["url"]}],
        "preprocess": {
            "prepared_path": str(tmp_path / "out"),
            "output": "text",
            "min_chars": 0,
            "rejected": True,
            "filters": [{"url": {"domains": str(tmp_path / "domains.txt")}}],
        },
    }
    summary = krill.preprocess(config, memory="400MB")
    assert summary.manifest.documents["dropped"] == {"url_domain": 2}
    table = parquet.read_table(tmp_path / "out" / "text-00000.parquet")
    assert table["url"].to_pylist() == ["https://a.org/0", "https://b.org/2"]
    config["datasets"][0]["columns"] = []
    with pytest.raises(ConfigError, match="needs the column `url`, and documents come with none"):
        krill.preprocess(config, memory="400MB", overwrite=True)


NAMES = (
    "com",
    "co.uk",
    "x.com",
    "y.co.uk",
    "a.x.com",
    "ck",
    "www.ck",
    "b.c.ck",
    "公司.cn",
    "Éa.公司.cn",
    "ASS.com",
)
HOSTS = st.lists(st.sampled_from(["a", "B", "x", "www", "", "公司", "xn--55qx5d", "É", *NAMES]), max_size=4)
PARTS = st.sampled_from(
    [
        "/",
        "//",
        ":",
        "?",
        "#",
        "@",
        "[",
        "]",
        ".",
        "。",
        " ",
        "ass",
        "Ass",
        "one",
        "two",
        "-",
        "_",
        "cl",
        "http",
    ]
)
URLS = st.builds(
    lambda scheme, host, rest: scheme + host + "".join(rest),
    st.sampled_from(["http://", "", "//", "x:y//", "ftp+a://", "é://"]),
    HOSTS.map(".".join),
    st.lists(PARTS, max_size=6),
)


@tried(60)
@given(st.lists(URLS, min_size=1, max_size=8), st.integers(1, 3), st.data())
def test_the_step_decides_as_the_reference(urls: list[str], threshold: int, data: st.DataObject) -> None:
    lists = {
        "domains": data.draw(st.lists(st.sampled_from(NAMES), max_size=4)),
        "hosts": data.draw(st.lists(st.sampled_from(NAMES), max_size=2)),
        "urls": data.draw(st.lists(st.sampled_from(urls), max_size=1)),
        "banned_words": data.draw(st.lists(st.sampled_from(["a-s-s", "www", "# x"]), max_size=1)),
        "soft_words": data.draw(st.lists(st.sampled_from(["one", "two", "x", "com", "cl"]), max_size=3)),
        "banned_subwords": data.draw(st.lists(st.sampled_from(["scl", "wwwx", "-"]), max_size=2)),
        "patterns": ["never found in any of these"],
    }
    kept = {name: [entry for entry in entries if entry] for name, entries in lists.items()}
    section = Url(soft_word_threshold=threshold, **{name: tuple(entries) for name, entries in kept.items()})
    assert reasons(section, urls) == [reference_url_reason(url, lists, threshold) for url in urls]
