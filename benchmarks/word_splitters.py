"""How often datatrove's quality filters decide otherwise with its own word splitter than with Krill's.

datatrove splits English with spaCy's blank tokenizer. Here its own filters judge each document twice, with
spaCy's words and sentences and with Krill's, so that nothing but the splitter differs. Kinds of text:
Markdown in ten-odd languages (the shared sample), Python sources, and prose: the docstrings of each module
of the standard library. Prints one row for each kind and filter: documents, how many are kept by one and
dropped by the other, and how many are dropped for another reason.

    python benchmarks/word_splitters.py --documents 1000
"""

from __future__ import annotations

import argparse
import ast
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)
from datatrove.utils.word_tokenizers import WordTokenizer, load_word_tokenizer

from krill.text.words import split_sentences, split_words
from real_text import real_texts

FILTERS: dict[str, Callable[..., Any]] = {
    "gopher_quality": GopherQualityFilter,
    "gopher_repetition": GopherRepetitionFilter,
    "c4": C4QualityFilter,
    "fineweb": FineWebQualityFilter,
}
HEAD = "| text | filter | documents | kept by one only | another reason |\n" + "| --- " * 5 + "|"
SHORTEST = 200  # characters of a document


class KrillWords(WordTokenizer):
    """Krill's splitter as datatrove takes one: pass an instance as `language`."""

    def word_tokenize(self, text: str) -> list[str]:
        return split_words(text)

    def sent_tokenize(self, text: str) -> list[str]:
        return [sentence.strip() for sentence in split_sentences(text)]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        end = 0
        for sentence in split_sentences(text):
            spans.append((end, end + len(sentence)))
            end += len(sentence)
        return spans


def sources() -> Iterator[str]:
    """Modules of the standard library."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py")):
        if "site-packages" not in path.parts:
            yield path.read_text(encoding="utf-8", errors="replace")


def prose() -> Iterator[str]:
    """Their docstrings, those of one module together."""
    for source in sources():
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue
        owners = (ast.Module, ast.ClassDef, ast.FunctionDef)
        found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, owners)]
        yield "\n\n".join(text for text in found if text)


KINDS: dict[str, Callable[[], Iterator[str]]] = {
    "Markdown": real_texts,
    "Python sources": sources,
    "docstrings": prose,
}


def verdict(peer: Any, text: str) -> str:
    """The reason why a filter drops a text, "kept" if it does not."""
    result = peer.filter(Document(text=text, id=""))
    return "kept" if result is True else str(result[1])


def compare(texts: Iterator[str]) -> tuple[int, dict[str, Counter[str]]]:
    """Documents, and for each filter how often verdicts differ."""
    ours = KrillWords()
    pairs = {name: (peer(), peer(language=ours)) for name, peer in FILTERS.items()}
    found: dict[str, Counter[str]] = {name: Counter() for name in FILTERS}
    number = 0
    for text in texts:
        number += 1
        for name, (spacy, krill) in pairs.items():
            theirs, own = verdict(spacy, text), verdict(krill, text)
            if theirs != own:
                found[name]["kept" if "kept" in (theirs, own) else "reason"] += 1
    return number, found


def words_that_differ(texts: Iterator[str]) -> tuple[int, int]:
    """spaCy's words, and how many of them Krill does not cut out at the same places."""
    spacy = load_word_tokenizer("en")
    total = differ = 0
    for text in texts:
        theirs, ours = _places(spacy.word_tokenize(text)), _places(split_words(text))
        total += len(theirs)
        differ += len(theirs - ours)
    return total, differ


def _places(words: list[str]) -> set[tuple[int, int]]:
    places = set()
    end = 0
    for word in words:
        places.add((end, end + len(word)))
        end += len(word)
    return places


def main() -> None:
    """The table, and below it the words."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=1000, help="of each kind, at most")
    limit = parser.parse_args().documents
    chosen = {
        kind: list(islice((text for text in texts() if len(text) >= SHORTEST), limit))
        for kind, texts in KINDS.items()
    }
    print(HEAD, flush=True)
    for kind, texts in chosen.items():
        number, found = compare(iter(texts))
        for name, counts in found.items():
            print(f"| {kind} | `{name}` | {number} | {counts['kept']} | {counts['reason']} |", flush=True)
    for kind, texts in chosen.items():
        total, differ = words_that_differ(iter(texts))
        print(f"{kind}: {differ} of {total} words differ", flush=True)


if __name__ == "__main__":
    main()
