"""Extractors: from a page in HTML to its text and its title, by one of several libraries.

In: a page as a string. Out: its text, and what stands in its `<title>`. Held in memory: the library, and what
it holds of the page at hand.

Resiliparse lets go of Python's lock and works in threads. Trafilatura is Python, some thirty times slower,
and works in processes of its own, where there are any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from krill.errors import ConfigError, InputError, KrillError, MissingExtra
from krill.faults import first_line
from krill.text.page_limits import RESILIPARSE, TRAFILATURA, TRAFILATURA_FAST, PageLimits

if TYPE_CHECKING:
    from krill.config.extract import ExtractConfig

WORK: Final = "krill.text.extractors:open_work"
"""The work of a process that extracts pages."""

_EXTRAS: Final = {"resiliparse": "web", "trafilatura": "web-trafilatura"}
_WHAT_SHAPES: Final = {"resiliparse": ("resiliparse",), "trafilatura": ("trafilatura", "justext", "lxml")}
# The caches of Trafilatura and of what it uses keep texts of elements, thousands of them.
_CACHED_CHARACTERS: Final = 2_000_000


class Extractor(Protocol):
    """From a page in HTML to its text and its title; several threads call that of Resiliparse at once."""

    def __call__(self, page: str, /) -> tuple[str, str]: ...


def extractor_of(config: ExtractConfig, *, titles: bool) -> Extractor:
    """The library that the config names, with its options; they are tried, or checked."""
    made = _trafilatura if config.method == "trafilatura" else _resiliparse
    return _named_faults(made(config.options(), titles=titles))


def limits_of(config: ExtractConfig) -> PageLimits:
    if config.method == "resiliparse":
        return RESILIPARSE
    return TRAFILATURA_FAST if config.fast else TRAFILATURA


def versions_of(methods: set[str]) -> str:
    """What shapes texts besides the options."""
    names = [name for method in sorted(methods) for name in _WHAT_SHAPES[method]]
    return ", ".join(f"{name} {version(name)}" for name in names)


def _resiliparse(options: dict[str, Any], *, titles: bool) -> Extractor:
    """Every option is given, as its defaults differ from what it documents."""
    try:
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.html import HTMLTree
    except ImportError:
        raise _missing("resiliparse") from None
    parse: Callable[[str], Any] = HTMLTree.parse
    options["skip_elements"] = list(options["skip_elements"]) or None

    def extract(page: str) -> tuple[str, str]:
        if not titles:
            return extract_plain_text(page, **options), ""
        tree = parse(page)
        return extract_plain_text(tree, **options), tree.title or ""

    try:
        extract("<p>A page.</p>")
    except Exception as error:  # its own kind of error, for a selector
        raise ConfigError(
            f"`extract.skip_elements` can't be used: {first_line(error)}",
            hint="write selectors of CSS, such as `aside` or `div.menu`",
        ) from error
    return extract


def _trafilatura(options: dict[str, Any], *, titles: bool) -> Extractor:
    """Loaded with the first page: where processes extract, this one never holds it."""
    if find_spec("trafilatura") is None or find_spec("lxml_html_clean") is None:
        raise _missing("trafilatura")
    _check_paths(options["prune_xpath"])
    extract: Extractor | None = None

    def loaded(page: str) -> tuple[str, str]:
        nonlocal extract
        extract = extract or _load_trafilatura(options, titles=titles)
        return extract(page)

    return loaded


def _load_trafilatura(options: dict[str, Any], *, titles: bool) -> Extractor:
    import trafilatura
    from trafilatura.meta import reset_caches
    from trafilatura.utils import load_html

    options["prune_xpath"] = list(options["prune_xpath"]) or None
    if int(trafilatura.__version__.split(".")[0]) < 2:
        options["no_fallback"] = options.pop("fast")
    # It warns of each page without a text: that is counted.
    logging.getLogger("trafilatura").addHandler(logging.NullHandler())
    cached = 0

    def extract(page: str) -> tuple[str, str]:
        nonlocal cached
        cached += len(page)
        if cached > _CACHED_CHARACTERS:
            reset_caches()
            cached = len(page)
        title = ""
        if titles:
            tree = load_html(page)
            title = "" if tree is None else " ".join((tree.findtext(".//title") or "").split())
        return trafilatura.extract(page, **options) or "", title

    return extract


def _check_paths(paths: Sequence[str]) -> None:
    from lxml import etree

    for path in paths:
        try:
            etree.XPath(path)
        except etree.XPathError as error:
            raise ConfigError(
                f"`extract.prune_xpath` can't be used: `{path}`: {first_line(error)}",
                hint="write XPaths, such as `//aside` or `//div[@class='menu']`",
            ) from error


def _missing(method: str) -> MissingExtra:
    return MissingExtra("reading web pages", _EXTRAS[method])


def _named_faults(extract: Extractor) -> Extractor:
    """What a library raises of a page is about that page."""

    def extracted(page: str) -> tuple[str, str]:
        try:
            return extract(page)
        except (MemoryError, KeyboardInterrupt, KrillError):
            raise
        except Exception as error:
            raise InputError(
                f"a page of {len(page):,} characters can't be parsed: {first_line(error)}",
                hint="report it, and leave the page out by `skip_urls:`",
            ) from error

    return extracted


def work_settings(sources: Sequence[tuple[ExtractConfig, bool]]) -> bytes:
    """What `open_work` is called with: the options of each source whose pages processes extract, and whether
    with titles."""
    given = [[config.options(), titles] if config.holds_lock else None for config, titles in sources]
    return orjson.dumps(given)


def open_work(settings: bytes) -> Callable[[bytes], bytes]:
    """What answers requests for pages."""
    extract = [
        None if source is None else _named_faults(_trafilatura(source[0], titles=source[1]))
        for source in orjson.loads(settings)
    ]

    def answer(request: bytes) -> bytes:
        extract_page = extract[int.from_bytes(request[:_NUMBER], "little")]
        assert extract_page is not None
        text, title = (found.encode("utf-8", "replace") for found in extract_page(request[_NUMBER:].decode()))
        return len(title).to_bytes(_NUMBER, "little") + title + text

    return answer


def encode_request(source: int, page: bytes) -> bytes:
    """A page in UTF-8, of the source of this number."""
    return source.to_bytes(_NUMBER, "little") + page


def decode_answer(answer: bytes) -> tuple[bytes, bytes]:
    """Text and title, in UTF-8."""
    text_begin = _NUMBER + int.from_bytes(answer[:_NUMBER], "little")
    return answer[text_begin:], answer[_NUMBER:text_begin]


_NUMBER: Final = 4
