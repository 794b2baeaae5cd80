"""Corpora of any size, grown from real text. Tests use them as well.

`grow_jsonl` repeats documents with a changed ending: for jobs that look at documents.

`grow_text` is for tokenizers, whose work and memory follow the number of unique words, so that repetition
alone would flatter them. It writes rounds. Each round has all of the sample (Markdown in ten-odd languages)
and a stretch, a third as long, of the Python sources and text files of the standard library and of the
installed packages, which goes on from round to round and begins anew when all were used. What comes for the
first time comes as it is. Whatever comes for the n-th time again has 20 % divided by the square root of n of
its words of five letters and more replaced: the front half of the word is joined to the back half of another
word of the same script, whose rank is drawn evenly over its logarithm. So some new words are frequent, most
are rare, and ever more appear, ever more slowly, as in real text (Heaps' law). Draws are seeded with n and
the document's number: the same installation gives the same bytes. Each document ends with a line
`<|endoftext|>`.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import re
import sysconfig
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, count
from pathlib import Path
from pydoc_data.topics import topics

SHARED_DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SAMPLE = SHARED_DATA / "docs_sample.jsonl.gz"
DOCUMENT_END = "\n<|endoftext|>\n"

_REPLACED = 0.20
_PAGE = 4000
_LONGEST_SOURCE = 10**6
_SOURCES = frozenset({".md", ".py", ".pyi", ".rst", ".txt"})
_WORD = re.compile(r"[^\W\d_]{5,}")


def real_texts() -> Iterator[str]:
    """Markdown in ten-odd languages, or what Python brings along where the sample is absent."""
    if SAMPLE.exists():
        with gzip.open(SAMPLE, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)["text"]
    else:
        yield from _python_texts()


def _python_texts() -> Iterator[str]:
    """Python's manual and the sources of its library in no order, in pieces as long as web pages are."""
    library, packages = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    manual: list[Path | str] = sorted(topics.values())
    sources = [path for path in _files(library, besides=packages) if path.suffix == ".py"]
    texts = manual + sources
    random.Random(0).shuffle(texts)
    for text in texts:
        if isinstance(text, Path):
            text = text.read_text(encoding="utf-8", errors="replace")
        piece = ""
        for paragraph in text.split("\n\n"):
            if len(piece) > _PAGE:
                yield piece
                piece = ""
            piece += paragraph[:_PAGE] + "\n\n"  # what is longer is a table
        yield piece


def installed_texts() -> Iterator[str]:
    """Sources and text files of the standard library, then of the installed packages, by path."""
    library, packages = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    for path in chain(_files(library, besides=packages), _files(packages)):
        if path.suffix in _SOURCES and path.is_file() and 0 < path.stat().st_size <= _LONGEST_SOURCE:
            yield path.read_text(encoding="utf-8", errors="replace")


def _files(folder: Path, besides: Path | None = None) -> Iterator[Path]:
    """The files below a folder by path, folder after folder: what nobody asks for is not looked at."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_dir():
            yield path
        elif path != besides:
            yield from _files(path)


def grow_jsonl(path: Path, size: int) -> Path:
    """A JSON-lines file of at least `size` bytes: real documents, each round made different from the last."""
    lines: list[bytes] = []  # without their ends, as all rounds have them
    written = 0
    with path.open("wb") as file:
        for round_number in count():
            # Of the sample no more is read than the first round writes.
            for number, line in enumerate(lines if round_number else _lines_without_ends()):
                if not round_number:
                    lines.append(line)
                # One document in ten repeats exactly, so that there are duplicates to find.
                mark = b"" if number % 10 == 0 else b" (%d)" % round_number
                written += file.write(b'%s%s"}\n' % (line, mark))
                if written >= size:
                    return path
    raise AssertionError("unreachable")


def _lines_without_ends() -> Iterator[bytes]:
    """Real texts as JSON lines that end before the quote of the text."""
    for number, text in enumerate(real_texts()):
        yield json.dumps({"id": number, "text": text}, ensure_ascii=number % 2 == 0)[:-2].encode()


def grow_text(path: Path, size: int) -> Path:
    """A plain text file of `size` bytes or a document more, as the module says."""
    written = 0
    with path.open("wb") as file:
        for text in _grown():
            written += file.write((text + DOCUMENT_END).encode())
            if written >= size:
                return path
    raise AssertionError("unreachable")


def text_corpus(folder: Path, megabytes: int) -> Path:
    """The file of `grow_text` in `folder`, grown if it is not there yet."""
    file = folder / f"corpus-{megabytes}.txt"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        grow_text(file.with_suffix(".part"), megabytes * 10**6).rename(file)
    return file


def _grown() -> Iterator[str]:
    """Documents without end. Where their words are is found out when the first one is changed."""
    texts: list[str] = []

    @cache
    def sample() -> list[_Document]:
        return [_Document.of(text) for text in texts]

    @cache
    def words() -> Words:
        return _words_by_script(sample())

    sources = _endless_sources(words)
    for time in count():
        if time == 0:
            for text in real_texts():
                texts.append(text)
                yield text
        else:
            for number, document in enumerate(sample()):
                yield document.changed(time, number, words())
        left = sum(map(len, texts)) // 3
        while left > 0:
            text = next(sources)
            left -= len(text)
            yield text


def _endless_sources(words: Callable[[], Words]) -> Iterator[str]:
    """Installed texts, as they are at first, changed from the second time on."""
    for time in count():
        for number, text in enumerate(installed_texts()):
            yield text if time == 0 else _Document.of(text).changed(time, number, words())


@dataclass(frozen=True, slots=True)
class _Document:
    text: str
    words: list[tuple[int, int]]
    """Where the words of five letters and more are."""

    @classmethod
    def of(cls, text: str) -> _Document:
        return cls(text, [match.span() for match in _WORD.finditer(text)])

    def changed(self, time: int, number: int, words: Words) -> str:
        """The text for the `time`-th time again, with some words replaced."""
        draw = random.Random(f"{time} {number}")
        pieces: list[str] = []
        kept = 0
        share = _REPLACED / math.sqrt(time)
        at = _gap(draw, share)
        while at < len(self.words):
            start, end = self.words[at]
            middle = start + (end - start) // 2
            # A script that the sample doesn't have lends its own word.
            others = words.get(_script(self.text[start])) or [self.text[start:end]]
            # The rank is drawn evenly over its logarithm.
            other = others[int(len(others) ** draw.random()) - 1]
            pieces += (self.text[kept:middle], other[len(other) // 2 :])
            kept = end
            at += _gap(draw, share)
        return "".join(pieces) + self.text[kept:]


Words = dict[str, list[str]]
"""The sample's words of five letters and more by script, the most frequent first."""


def _words_by_script(documents: Iterable[_Document]) -> Words:
    counts: Counter[str] = Counter()
    for document in documents:
        counts.update(document.text[start:end] for start, end in document.words)
    words: defaultdict[str, list[str]] = defaultdict(list)
    for word, _ in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])):
        words[_script(word[0])].append(word)
    return words


def _gap(draw: random.Random, share: float) -> int:
    """How many words on the next one is replaced, so that `share` of them are."""
    return 1 + int(draw.expovariate(-math.log1p(-share)))


@cache
def _script(letter: str) -> str:
    return unicodedata.name(letter, "OTHER").split()[0]
