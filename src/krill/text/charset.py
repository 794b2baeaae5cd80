"""Charset: the bytes of a page as text, in the charset that its server, the page itself or its bytes say.

In: a page as it was sent. Out: a string; what can't be decoded in it is U+FFFD. Held in memory: the string.

A byte order mark decides; else the charsets that the server and the page name are tried in this order, and
the first is taken in which at most one in a thousand characters can't be decoded. If there is none, what
the bytes look like is taken. Names mean what browsers take them for: `latin-1` is windows-1252.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from krill.errors import MissingExtra

# Browsers look for a name in the first kilobyte of a page; what comes before it may be longer.
_HEAD_BYTES: Final = 4096
_DETECTED_BYTES: Final = 1 << 17
_FAULTS: Final = 1000
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decode_page(body: bytes, stated: str, *, html: bool) -> tuple[str, bool]:
    """The text of `body`, and whether that is its UTF-8; `stated` is the charset that its server names."""
    for mark, charset in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(charset, "replace"), False
    last = "utf-8"
    for charset in _charsets(body, stated, html=html):
        try:
            return body.decode(charset), charset == "utf-8"
        except LookupError:
            continue
        except UnicodeError:
            last = charset
        text = body.decode(charset, "replace")
        if text.count("\ufffd") * _FAULTS <= len(text):
            return text, False
    return body.decode(last, "replace"), False


def _charsets(body: bytes, stated: str, *, html: bool) -> Iterator[str]:
    """Names that Python knows, if they are known at all."""
    if not stated and not html and body.isascii():
        yield "utf-8"
        return
    detect_encoding, map_encoding_to_html5 = _resiliparse()
    for name in (stated, stated.replace("-", "").replace("_", "")):
        # No others: Python has codecs that are no charsets, and some that take the square of a page's length.
        if name and (charset := map_encoding_to_html5(name, False)) is not None:
            yield charset
            break
    if html:
        yield from _named(detect_encoding(body[:_HEAD_BYTES], from_html_meta=True) if _names(body) else None)
    yield "utf-8"
    yield from _named(detect_encoding(body[:_DETECTED_BYTES]))


def _names(body: bytes) -> bool:
    return b"charset" in body[:_HEAD_BYTES].lower()


def _named(charset: str | None) -> Iterator[str]:
    if charset is not None:
        yield charset


@cache
def _resiliparse() -> tuple[Callable[..., str | None], Callable[..., str | None]]:
    try:
        from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5
    except ImportError:
        raise MissingExtra("reading web pages", "web") from None
    return detect_encoding, map_encoding_to_html5
