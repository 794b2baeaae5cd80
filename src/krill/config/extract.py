"""The keys of how the text of web pages is found."""

from __future__ import annotations

from typing import Annotated, Literal

from krill.config.fields import Names, Section, Size, key


class ExtractConfig(Section):
    """From a page to its text. The names are those of Resiliparse."""

    method: Literal["resiliparse"] = key("resiliparse", "What finds the text: `resiliparse` (extra `web`).")
    main_content: bool = key(True, "Leave out menus, headers, footers, advertisements and the like.")
    preserve_formatting: bool = key(True, "Keep paragraphs and lists apart; `false` makes a page one line.")
    list_bullets: bool = key(True, "Put bullets and numbers before the items of lists.")
    alt_texts: bool = key(False, "Take the descriptions of images.")
    links: bool = key(False, "Write the addresses of links behind them.")
    form_fields: bool = key(False, "Take what stands in the fields of forms.")
    noscript: bool = key(False, "Take what is shown where scripts are off.")
    comments: bool = key(False, "Take comments of readers.")
    post_meta: bool = key(True, "Take dates, authors and the like of articles.")
    hidden_elements: bool = key(False, "Take elements whose classes say that they are not shown.")
    skip_elements: Names = key((), "CSS selectors of elements to leave out, such as `aside`.")
    max_page_bytes: Annotated[int, Size(below=2**31)] = key(
        10_000_000, "Larger pages are dropped, and never held in memory."
    )
    oversize_page: Literal["drop", "strip"] = key(
        "drop",
        "A page with so many elements, or so deeply nested, that a parser would take long or much memory: "
        "`drop` leaves it out, `strip` takes what stands between its tags. Both are counted.",
    )
