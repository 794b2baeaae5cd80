"""The keys of how the text of web pages is found."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import model_validator

from krill.config.fields import Names, Section, Size, key
from krill.config.messages import SectionFault, one_of


class ExtractConfig(Section):
    """From a page to its text. Options are called as in the library whose they are."""

    method: Literal["resiliparse", "trafilatura"] = key(
        "resiliparse",
        "What finds the text: `resiliparse` (extra `web`), or `trafilatura` (extra `web-trafilatura`), which "
        "takes some thirty times as long.",
    )
    main_content: bool = key(
        True, "Resiliparse: leave out menus, headers, footers, advertisements and the like."
    )
    preserve_formatting: bool = key(
        True, "Resiliparse: keep paragraphs and lists apart; `false` makes a page one line."
    )
    list_bullets: bool = key(True, "Resiliparse: put bullets and numbers before the items of lists.")
    alt_texts: bool = key(False, "Resiliparse: take the descriptions of images.")
    links: bool = key(False, "Resiliparse: write the addresses of links behind them.")
    form_fields: bool = key(False, "Resiliparse: take what stands in the fields of forms.")
    noscript: bool = key(False, "Resiliparse: take what is shown where scripts are off.")
    comments: bool = key(False, "Resiliparse: take comments of readers.")
    post_meta: bool = key(True, "Resiliparse: take dates, authors and the like of articles.")
    hidden_elements: bool = key(
        False, "Resiliparse: take elements whose classes say that they are not shown."
    )
    skip_elements: Names = key((), "Resiliparse: CSS selectors of elements to leave out, such as `aside`.")
    fast: bool = key(
        False, "Trafilatura: no second opinion of other algorithms (`no_fallback` before version 2)."
    )
    favor_precision: bool = key(False, "Trafilatura: rather less text than any that is not the page's own.")
    favor_recall: bool = key(False, "Trafilatura: rather more text.")
    include_comments: bool = key(True, "Trafilatura: take comments of readers.")
    include_tables: bool = key(True, "Trafilatura: take what stands in tables.")
    include_formatting: bool = key(False, "Trafilatura: keep headings, emphasis and the like as Markdown.")
    include_links: bool = key(False, "Trafilatura: write the addresses of links behind them.")
    include_images: bool = key(False, "Trafilatura: write the addresses and descriptions of images.")
    prune_xpath: Names = key((), "Trafilatura: XPaths of elements to leave out, such as `//aside`.")
    max_page_bytes: Annotated[int, Size(below=2**31)] = key(
        10_000_000, "Larger pages are dropped, and never held in memory."
    )
    oversize_page: Literal["drop", "strip"] = key(
        "drop",
        "A page with so many elements, or so deeply nested, that a parser would take long or much memory: "
        "`drop` leaves it out, `strip` takes what stands between its tags. Both are counted.",
    )

    @property
    def holds_lock(self) -> bool:
        """Whether the library is Python, so that one thread of a process at a time can use it."""
        return self.method == "trafilatura"

    def options(self) -> dict[str, Any]:
        """Those of the library that `method` names."""
        return self.model_dump(include=set(OPTIONS[self.method]))

    @model_validator(mode="after")
    def _options_are_of_the_method(self) -> Self:
        for method, names in OPTIONS.items():
            defaults = {name: ExtractConfig.model_fields[name].default for name in names}
            given = [name for name in names if getattr(self, name) != defaults[name]]
            if method != self.method and given:
                raise SectionFault(
                    f"`extract.method` is `{self.method}`, and {one_of(given)} is an option of `{method}`: "
                    f"leave it out, or set `method: {method}`"
                )
        return self


OPTIONS: Final = {
    "resiliparse": (
        "main_content",
        "preserve_formatting",
        "list_bullets",
        "alt_texts",
        "links",
        "form_fields",
        "noscript",
        "comments",
        "post_meta",
        "hidden_elements",
        "skip_elements",
    ),
    "trafilatura": (
        "fast",
        "favor_precision",
        "favor_recall",
        "include_comments",
        "include_tables",
        "include_formatting",
        "include_links",
        "include_images",
        "prune_xpath",
    ),
}
"""The options of each library."""
