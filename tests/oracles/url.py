"""The URL filter in plain Python: lists are sets, and tldextract finds the registered domain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

_NOT_WORD = re.compile(r"[^a-zA-Z0-9]+")


@cache
def _extractor() -> Any:
    from tldextract import TLDExtract

    return TLDExtract(cache_dir=None, suffix_list_urls=())  # the list that comes with it, no network


def _entries(lines: Iterable[str]) -> set[str]:
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def _words(lines: Iterable[str]) -> set[str]:
    return {_NOT_WORD.sub("", line).lower() for line in _entries(lines)} - {""}


def _host(url: str) -> str:
    from tldextract.remote import lenient_netloc

    host: str = lenient_netloc(url)
    return re.sub("[\u3002\uff0e\uff61]", ".", host)


def reference_url_reason(url: str, lists: Mapping[str, Iterable[str]], threshold: int = 2) -> str | None:
    """Why a URL is dropped, or None; `lists` has lines by the key in the config."""
    get = {name: list(lists.get(name, ())) for name in ("domains", "hosts", "urls")}
    if not url:
        return "url_missing"
    found = _extractor()(url)
    if found.top_domain_under_public_suffix in _entries(get["domains"]):
        return "url_domain"
    if found.fqdn in _entries(get["domains"]):
        return "url_subdomain"
    labels = _host(url).split(".")
    if any(".".join(labels[at:]) in _entries(get["hosts"]) for at in range(len(labels))):
        return "url_host"
    if url in _entries(get["urls"]):
        return "url_url"
    words = set(_NOT_WORD.split(url))
    if words & _words(lists.get("banned_words", ())):
        return "url_hard_blacklisted"
    if len(words & _words(lists.get("soft_words", ()))) >= threshold:
        return "url_soft_blacklisted"
    if any(part in _NOT_WORD.sub("", url).lower() for part in _words(lists.get("banned_subwords", ()))):
        return "url_blacklisted_subword"
    return None
