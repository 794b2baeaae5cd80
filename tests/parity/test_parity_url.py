"""The URL filter decides as datatrove's, for the same reason: on its own tests' cases, and on URLs made of
whatever its rules look at. Its own lists are left out: they are not Krill's to pass on."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from krill.config.filters import Url
from krill.text.url_filter import REASONS, UrlFilter
from peers import peer

datatrove_filters = peer("datatrove.pipeline.filters")
datatrove_data = peer("datatrove.data")
tldextract = peer("tldextract")


def of_datatrove(**options: Any) -> Any:
    made = datatrove_filters.URLFilter(use_integrated_lists=False, **options)
    # Offline: the list that comes with the library, which is Krill's too.
    made.tldextractor = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())
    return made


def verdicts(made: Any, urls: list[str]) -> list[str | None]:
    found = []
    for url in urls:
        verdict = made.filter(datatrove_data.Document(text="", id="", metadata={"url": url}))
        found.append(None if verdict is True else verdict[1])
    return found


def ours(section: Url, urls: list[str]) -> list[str | None]:
    names = (None, *(reason.removeprefix("url_") for reason in REASONS))
    return [names[code] for code in UrlFilter(section).judge(pa.array(urls, pa.large_string()))]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_cases_of_its_own_tests() -> None:
    domains = ("blocked.com", "danger.org", "badsubdomain.nice.com")
    cases = {
        "https://blocked.com/some-sub-url?with=stuff": "domain",
        "https://hey.danger.org/some-sub-url?with=stuff": "domain",
        "http://hey.danger.org/some-sub-url?with=stuff": "domain",
        "http://www.danger.org/some-sub-url?with=stuff": "domain",
        "https://nice.com/some-sub-url?with=stuff": None,
        "https://badsubdomain.nice.com/some-sub-url?with=stuff": "subdomain",
        "https://sdsd.badsubdomain.nice.com/some-sub-url?with=stuff": None,
        "https://blocke.dcom/some-sub-url?with=stuff": None,
    }
    assert ours(Url(domains=domains), list(cases)) == list(cases.values())
    assert verdicts(of_datatrove(extra_domains=domains), list(cases)) == list(cases.values())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_thousands_of_urls_with_every_kind_of_list() -> None:
    chance = random.Random(24)
    suffixes = [
        "com",
        "org",
        "co.uk",
        "ck",
        "www.ck",
        "kobe.jp",
        "city.kobe.jp",
        "公司.cn",
        "xn--55qx5d.cn",
        "zz",
        "",
    ]
    names = [
        f"{word}{sign}{number}" for word in ("site", "Bad", "é") for sign in ("-", "") for number in range(8)
    ]
    words = ["ass", "Casino", "poker", "news", "blog", "x" * 30, "42", "größe"]

    def domain() -> str:
        return f"{chance.choice(names)}.{chance.choice(suffixes)}"

    def url() -> str:
        host = ".".join([*chance.choices(["www", "a", "", "B"], k=chance.randint(0, 2)), domain()])
        user = chance.choice(["", "", "user@", "u:p@"])
        port = chance.choice(["", "", ":8080", ".", " "])
        path = "".join(
            chance.choice("/-_.?&=#%+ ") + chance.choice(words) for _ in range(chance.randint(0, 4))
        )
        return chance.choice(["http://", "https://", "//", "", "ftp:/"]) + user + host + port + path

    urls = [url() for _ in range(6000)] + [
        "http://127.0.0.1/ass",
        "http://[::1]/",
        "localhost",
        "/a/b",
        "?",
        ".",
    ]
    lists: dict[str, tuple[str, ...]] = {
        "extra_domains": (*(domain() for _ in range(60)), "a." + domain(), "# comment", "  co.uk  "),
        "extra_urls": tuple(chance.sample(urls, 40)),
        "banned_words": ("cas-ino", "Poker!", "#news"),
        "soft_banned_words": ("ass", "blog", "42", "site"),
        "banned_subwords": ("news4", "assblog", "größe"),
    }
    section = Url(
        domains=lists["extra_domains"],
        urls=tuple(url for url in lists["extra_urls"] if url),
        banned_words=lists["banned_words"],
        soft_words=lists["soft_banned_words"],
        banned_subwords=lists["banned_subwords"],
    )
    expected = verdicts(of_datatrove(**lists), urls)
    assert ours(section, urls) == expected
    assert {"domain", "subdomain", "url", "hard_blacklisted", "soft_blacklisted", "blacklisted_subword"} <= {
        *expected
    }


def test_as_a_step_of_datatrove_it_takes_the_url_of_the_metadata() -> None:
    from krill.datatrove import Filters

    step = Filters({"url": {"extra_domains": ["blocked.com"], "banned_words": ["casino"]}})
    urls = ["http://www.blocked.com/", "http://fine.org/", "http://fine.org/casino", None]
    documents = [
        datatrove_data.Document(text="some text", id=str(number), metadata={"url": url, "other": 1})
        for number, url in enumerate(urls)
    ]
    assert step.filter_batch(documents) == [
        (False, "domain"),
        True,
        (False, "hard_blacklisted"),
        (False, "missing"),
    ]
    assert [document.metadata for document in documents] == [{"url": url, "other": 1} for url in urls]
