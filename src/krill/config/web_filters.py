"""Filters for pages of the web: what each is called, and its keys.

In: sections of `preprocess.filters`. Out: frozen sections. Names and defaults are datatrove's where it has
the same filter.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import model_validator

from krill.config.fields import PathText, Section, Text, Whole, key
from krill.config.messages import SectionFault, listed

EntryList = PathText | tuple[Text, ...]
"""A file with one entry a line, or the entries."""

URL_LISTS: Final = ("domains", "hosts", "urls", "banned_words", "soft_words", "banned_subwords")


class Url(Section):
    """Documents whose URL is listed. A list is a file with one entry a line, or the entries themselves."""

    name: Literal["url"] = "url"
    column: Text = key(
        "url", "Column with the URL of each document, which the source carries along (`columns`)."
    )
    domains: EntryList = key(
        (), "Registered domains, with all hosts below them, and single hosts without those below them."
    )
    hosts: EntryList = key((), "Hosts, each with all hosts below it.")
    urls: EntryList = key((), "Whole URLs.")
    banned_words: EntryList = key((), "Words, of which one is enough.")
    soft_words: EntryList = key((), "Words, of which `soft_word_threshold` different ones are needed.")
    soft_word_threshold: Annotated[int, Whole(1)] = key(2, "How many `soft_words` drop a document.")
    banned_subwords: EntryList = key(
        (), "What must not be found anywhere in the URL's letters and digits, joined and in lower case."
    )
    patterns: tuple[Text, ...] = key(
        (), "Regular expressions (RE2's syntax) that drop a document where they match in the URL."
    )
    patterns_file: PathText | None = key(None, "More of them, one a line.")
    ignore_case: bool = key(False, "Compare hosts, words and patterns whatever their case.")
    suffixes: PathText | None = key(
        None,
        "Public suffix list, which says how much of a host is its registered domain; `null` for that of the "
        "installed tldextract (extra `web`).",
    )
    keep_missing: bool = key(False, "Keep documents without a URL.")

    @model_validator(mode="after")
    def _lists_something(self) -> Self:
        names = (*URL_LISTS, "patterns", "patterns_file")
        if not any(getattr(self, name) for name in names):
            raise SectionFault(f"must have a list, one of {listed(names)}")
        return self
