"""URL filter: documents whose URL is listed are dropped; what needs the URL alone is decided here.

In: documents with a column of URLs, or (`judge`) such a column before there are documents. Out: those whose
URL is on no list. Held in memory: eight and a half bytes for each entry of a list, as sorted 64-bit hashes
(`url_bytes`, known from one pass over the files before they are loaded). The reference is
`tests/oracles/url.py`; datatrove's `URLFilter` decides the same: `tests/parity/test_parity_url.py`.

Counted: a document is dropped for the first of `REASONS` that holds. The names are datatrove's after `url_`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill import _native
from krill.config import filters
from krill.config.messages import listed
from krill.config.web_filters import URL_LISTS, EntryList, Url
from krill.corpus.arrays import null_flags
from krill.corpus.buffers import text_buffers, text_column
from krill.corpus.documents import Documents
from krill.errors import ConfigError, InputError, MissingExtra, shown
from krill.storage.input_file import open_regular, read_input
from krill.text.blocklist import BlockListFilter, blocklist_bytes, searching_bytes
from krill.text.step import drop

REASONS: Final[Mapping[str, str]] = {
    "url_domain": "URL: its registered domain is listed",
    "url_subdomain": "URL: its host is listed among the domains",
    "url_host": "URL: its host, or one above it, is listed",
    "url_url": "URL: it is listed itself",
    "url_hard_blacklisted": "URL: a banned word",
    "url_soft_blacklisted": "URL: several soft words",
    "url_blacklisted_subword": "URL: a banned part of a word",
    "url_pattern": "URL: a pattern was found",
    "url_missing": "URL: there is none",
}
_PATTERN: Final = 1 + tuple(REASONS).index("url_pattern")
_MISSING: Final = 1 + tuple(REASONS).index("url_missing")

SUFFIX_BYTES: Final = 6_000_000
"""The rules of the public suffix list, and what reading them takes: 4.2 MB were measured."""
MOST_SUFFIXES: Final = 1_000_000
"""Bytes of a list of suffixes; that of publicsuffix.org has a third of it."""
# Of a list while it is read, for each of its bytes, and for each rule, of which some are held in two ways.
_SUFFIX_TEXT: Final = 6
_SUFFIX_RULE: Final = 200
LONGEST_RULE: Final = 253  # characters of a name in the DNS
_MOST_WIDE: Final = 3  # labels of a rule that may be written in two ways each
READING_BYTES: Final = 2_000_000
"""What reading a list takes, however long it is."""
ENTRY_BYTES: Final = 8.5
SUBWORD_BYTES: Final = 12
READ_BYTES: Final = 1 << 18
LONGEST_ENTRY: Final = 1_000_000
_HASHED: Final = URL_LISTS[:-1]  # subwords are searched for, all others compared
_RULES_END: Final = "// ===BEGIN PRIVATE DOMAINS==="
_SUFFIXES: Final = "filters: url: suffixes names a file in the form of publicsuffix.org"
_FIX: Final = "a list of the filter `url` is a text file with one entry a line"


@dataclass(frozen=True, slots=True)
class UrlFilter:
    """Drops documents whose URL a list of `section` names. Reads the lists when it is made."""

    section: Url
    native: _native.UrlFilter = field(init=False, repr=False, compare=False)
    patterns: BlockListFilter | None = field(init=False, repr=False)
    _digest: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        native, digest = _load(self.section)
        patterns = _pattern_section(self.section)
        object.__setattr__(self, "native", native)
        object.__setattr__(self, "patterns", None if patterns is None else BlockListFilter(patterns))
        object.__setattr__(self, "_digest", digest)

    @property
    def reasons(self) -> Sequence[str]:
        return tuple(REASONS)

    def apply(self, documents: Documents) -> Documents:
        return drop(documents, self.judge(self._urls(documents.batch)), self.reasons)

    def judge(self, urls: pa.Array) -> NDArray[np.uint8]:
        """For each URL 0, or k if it is dropped for the k-th of `REASONS`."""
        urls = _as_large_string(urls)
        offsets, data = text_buffers(urls)
        codes = self.native.judge(offsets, data)
        if self.patterns is not None:
            codes[(codes == 0) & (self.patterns.found_in(urls) != 0)] = _PATTERN
        missing = np.diff(offsets) == 0
        nulls = null_flags(urls)
        if nulls is not None:
            missing |= nulls != 0
        codes[missing] = 0 if self.section.keep_missing else _MISSING
        return codes

    def fingerprint(self) -> str:
        """Changes when a list or the public suffixes do."""
        return self._digest if self.patterns is None else f"{self._digest} {self.patterns.fingerprint()}"

    def _urls(self, batch: pa.RecordBatch) -> pa.Array:
        name = self.section.column
        if name not in batch.schema.names:
            others = listed([other for other in batch.schema.names if other not in ("text", "position")])
            raise ConfigError(
                f"the filter `url` needs the column `{name}`, and documents come with {others or 'none'}",
                hint=f"carry it along (datasets: columns: [{name}]), or name another (filters: url: column)",
            )
        return batch.column(name)


def url_bytes(section: Url) -> int:
    """What the lists of a section take, known before they are loaded."""
    sizes = {name: list_size(getattr(section, name)) for name in URL_LISTS}
    hashed = sum(sizes[name].entries for name in _HASHED)
    subwords = sizes["banned_subwords"]
    held = int(ENTRY_BYTES * hashed) + subwords.nbytes + SUBWORD_BYTES * subwords.entries
    patterns = _pattern_section(section)
    return (
        READING_BYTES
        + held
        + (_suffix_bytes(section.suffixes) if section.domains else 0)
        + (0 if patterns is None else blocklist_bytes(patterns))
    )


def url_searching_bytes(section: Url, max_document_bytes: int) -> int:
    """What a thread takes besides while it judges a batch of URLs."""
    patterns = _pattern_section(section)
    return 0 if patterns is None else searching_bytes(patterns, max_document_bytes)


def _pattern_section(section: Url) -> filters.BlockList | None:
    if not section.patterns and section.patterns_file is None:
        return None
    return filters.BlockList(
        patterns=section.patterns, file=section.patterns_file, ignore_case=section.ignore_case
    )


def _load(section: Url) -> tuple[_native.UrlFilter, str]:
    sizes = {name: list_size(getattr(section, name)) for name in URL_LISTS}
    subwords = sizes["banned_subwords"]
    domains, hosts, urls, words, soft = (sizes[name].entries for name in _HASHED)
    native = _native.UrlFilter(
        (domains, hosts, urls, words, soft),
        (subwords.entries, subwords.nbytes),
        section.soft_word_threshold,
        section.ignore_case,
    )
    digest = blake2b(digest_size=16)
    for number, name in enumerate(URL_LISTS):
        try:
            for block in entry_blocks(getattr(section, name)):
                if name in _HASHED:
                    native.add_lines(number, block)
                else:
                    native.add_subwords(block)
                    digest.update(block)
        except ValueError as fault:  # the file has grown meanwhile
            raise InputError(f"the list `{getattr(section, name)}`: {fault}", hint="start again") from None
    if section.domains:
        for rule in suffix_rules(section.suffixes):
            digest.update(f"{rule}\n".encode())
            native.add_suffix(rule)
    native.finish()
    digest.update(repr(native.fingerprints()).encode())
    if native.size == 0 and _pattern_section(section) is None:
        raise ConfigError("the lists of the filter `url` have no entry", hint=_FIX)
    _native.trim()  # what reading took
    return native, digest.hexdigest()


@dataclass(frozen=True, slots=True)
class ListSize:
    entries: int
    nbytes: int


def list_size(source: EntryList) -> ListSize:
    """Entries, at most, and bytes of a list, from a pass over its file; remembered until the file changes."""
    state = None
    if isinstance(source, str) and Path(source).is_file():
        found = Path(source).stat()
        state = (found.st_size, found.st_mtime_ns)
    return _list_size(source, state)


@lru_cache(maxsize=32)
def _list_size(source: EntryList, state: object) -> ListSize:
    entries = nbytes = 0
    for block in entry_blocks(source):
        entries += block.count(b"\n")
        nbytes += len(block)
    return ListSize(entries, nbytes)


def entry_blocks(source: EntryList) -> Iterator[bytes]:
    """A list in pieces of whole lines."""
    if not isinstance(source, str):
        yield "".join(f"{entry}\n" for entry in source).encode("utf-8", "surrogatepass")
        return
    rest = b""
    try:
        with open_regular(source) as file:
            while block := file.read(READ_BYTES):
                lines, found, rest = (rest + block).rpartition(b"\n")
                yield _text(source, lines + found)
                if len(rest) > LONGEST_ENTRY:
                    raise InputError(
                        f"an entry of the list `{source}` has more than {LONGEST_ENTRY:,} bytes", hint=_FIX
                    )
    except OSError as fault:
        raise InputError(f"the list `{source}` can't be read: {fault.strerror}", hint=_FIX) from fault
    if rest:
        yield _text(source, rest + b"\n")


def _text(source: str, lines: bytes) -> bytes:
    if not lines.isascii():
        try:
            lines.decode()
        except UnicodeDecodeError:
            raise InputError(f"the list `{source}` is not UTF-8", hint=_FIX) from None
    return lines


def suffix_rules(path: str | None) -> Iterator[str]:
    """The rules of a public suffix list, without the private ones, in Unicode and as they are in the DNS."""
    file = _installed_suffixes() if path is None else Path(path)
    try:
        text = read_input(file, MOST_SUFFIXES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        said = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8"
        raise InputError(f"the public suffix list `{file}` can't be read: {said}", hint=_SUFFIXES) from fault
    found = False
    for line in text.partition(_RULES_END)[0].splitlines():
        rule = line.split(maxsplit=1)[0] if line.split() else ""
        if rule and not rule.startswith("//"):
            found = True
            labels = rule.lower().split(".")
            if len(rule) > LONGEST_RULE or sum(not label.isascii() for label in labels) > _MOST_WIDE:
                raise InputError(
                    f"the public suffix list `{file}` has a rule that is not a name: `{shown(rule)}`",
                    hint=_SUFFIXES,
                )
            yield from map(".".join, product(*map(_spellings, labels)))
    if not found:
        raise InputError(f"the public suffix list `{file}` has no rule", hint=_SUFFIXES)


def _suffix_bytes(path: str | None) -> int:
    """What the rules take, from a pass over their file."""
    rules = sum(1 for _ in suffix_rules(path))
    file = _installed_suffixes() if path is None else Path(path)
    return max(SUFFIX_BYTES, READING_BYTES + _SUFFIX_TEXT * file.stat().st_size + _SUFFIX_RULE * rules)


def _spellings(label: str) -> tuple[str, ...]:
    if label.isascii():
        return (label,)
    return label, "xn--" + label.encode("punycode").decode()


def _installed_suffixes() -> Path:
    package = find_spec("tldextract")  # its code is not run
    if package is None or not package.submodule_search_locations:
        raise MissingExtra("a list of `domains` without `suffixes`", "web")
    return Path(package.submodule_search_locations[0], ".tld_set_snapshot")


def _as_large_string(urls: pa.Array) -> pa.Array:
    kind = urls.type
    if pa.types.is_large_string(kind) and urls.offset == 0:
        return urls
    if pa.types.is_string(kind) and urls.offset == 0:
        # Arrow's own cast would load its compute functions, 9 MB.
        valid, offsets, data = urls.buffers()
        starts = np.frombuffer(offsets, np.int32, len(urls) + 1) if len(urls) else np.zeros(1, np.int32)
        bytes_ = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        return text_column(starts.astype(np.int64), bytes_, valid)
    try:
        return urls.cast(pa.large_string())
    except pa.ArrowException as fault:
        raise ConfigError(
            f"the column of URLs is of the type `{kind}`",
            hint="filters: url: column names a column of strings",
        ) from fault
