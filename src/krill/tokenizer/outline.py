"""What a `tokenizer.json` holds, from one pass over its bytes, and what that takes in memory.

In: the file. Out: an `Outline`: its sections but for the tokens, and how many of those there are; from it
what the native encoder or Hugging Face's library will hold, before either reads the file. Held in memory: one
read of the file, and the sections (`MOST_BYTES` at most).

The figures are measured (tokenizers 0.23): Qwen 2.5, Gemma 2, Llama 2, Unigram of 30,000 to 200,000 pieces of
3 to 40 letters, WordPiece of 30,000 to 215,000, BPE of 100,000 tokens of three letters, and 50,000 to 200,000
added tokens of 6 to 32 characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from krill.errors import InputError
from krill.storage.input_file import open_regular
from krill.tokenizer.model_section import model_kind
from krill.tokenizer.tokenizer_file import HINT

READ_BYTES: Final = 1 << 20
MOST_BYTES: Final = 16_000_000
# Letters that the keys of an added token have.
_ADDED_KEYS: Final = 49
# Characters that a token shares with others in a tree of all of them: there are few short beginnings.
_SHARED: Final = 4
_SHARED_PIECE: Final = 2.5


class SectionSize(NamedTuple):
    """The values of a section, its bytes, its strings and their bytes."""

    values: int = 0
    bytes: int = 0
    strings: int = 0
    string_bytes: int = 0


class LoadingCost(NamedTuple):
    """Bytes that stay as long as the tokenizer, and the most while it is read."""

    always: int
    reading: int


@dataclass(frozen=True, slots=True)
class Outline:
    """A tokenizer file without its tokens; `sections` is None if even that is too much, or no JSON."""

    size: int
    sections: Mapping[str, Any] | None
    vocabulary: SectionSize
    merges: SectionSize
    added: SectionSize

    @property
    def family(self) -> str:
        """The kind of model, as the file calls it."""
        model = (self.sections or {}).get("model")
        return model_kind(model) if isinstance(model, dict) else "BPE"

    @property
    def cuts(self) -> bool:
        """Whether text is cut into words before the model sees it."""
        return self.sections is None or self.sections.get("pre_tokenizer") is not None

    @property
    def rewrites(self) -> bool:
        """Whether text is normalised, or a pre-tokenizer changes it."""
        if self.sections is None or self.sections.get("normalizer") is not None:
            return True
        steps = _steps(self.sections.get("pre_tokenizer"))
        return any(_changes_text(step, is_last=step is steps[-1]) for step in steps)

    def native(self) -> LoadingCost:
        """By the native encoder: the tokens as they are read, then its tables."""
        words, merges, added = self.vocabulary.values, self.merges.values, self.added.values
        always = 60 * added + 20 * self._added_characters()
        reading = 980 * added + 65 * self._added_characters()
        if self.family == "BPE":
            always += 300_000 + 50 * words + 50 * merges
            reading += 4_000_000 + 30 * words + 95 * merges
        else:
            always += 3_000_000 + 30 * words + int(8.8 * self._nodes())
            reading += 5_000_000 + 45 * words + int(18.5 * self._nodes())
        return LoadingCost(always, max(reading, always))

    def library(self) -> LoadingCost:
        """By Hugging Face's library: its model, and what it parses it from."""
        words, merges, added = self.vocabulary.values, self.merges.values, self.added.values
        always = 2_000_000 + 200 * added + 14 * self._added_characters()
        peak = 2 * self.size + 2_000_000 + 400 * added + 70 * self._added_characters()
        # Its tokens are asked for once, to know the highest id.
        listed = 235 * (words + added)
        if self.family == "Unigram":
            # A tree of bytes, with a table in each node that has children.
            always += 325 * self._nodes() + 300 * words
        elif self.family == "BPE":
            always += 215 * words + 75 * merges
            # Written as pairs, merges take more while they are read.
            peak += 340 * words + (450 if self.merges.strings > merges else 260) * merges
        else:
            always += 260 * words
            peak += 270 * words
        return LoadingCost(always, max(peak, always + listed))

    def _nodes(self) -> int:
        """Of a tree of all tokens."""
        words = self.vocabulary.values
        return max(words // 2, int(self.vocabulary.string_bytes - _SHARED_PIECE * words))

    def _added_characters(self) -> int:
        """That a search for all added tokens at once has to tell apart."""
        return max(0, self.added.string_bytes - (_ADDED_KEYS + _SHARED) * self.added.values)


def _steps(section: Any) -> list[Any]:
    """Of a pre-tokenizer, however they are nested."""
    found, left = [], [section]
    while left:
        step = left.pop()
        inner = step.get("pretokenizers") if isinstance(step, dict) else None
        if isinstance(inner, list):
            left += reversed(inner)
        elif step is not None:
            found.append(step)
    return found


def _changes_text(step: Any, *, is_last: bool) -> bool:
    """Metaspace writes its mark; ByteLevel letters for bytes, unless only the model sees them."""
    if not isinstance(step, dict):
        return True
    kind = step.get("type")
    return (
        kind == "Metaspace" or step.get("add_prefix_space") is True or (kind == "ByteLevel" and not is_last)
    )


def outline_of(file: Path) -> Outline:
    """The outline of a file, remembered until the file changes."""
    try:
        state = file.stat()
        return _outline(file, (state.st_size, state.st_mtime_ns))
    except OSError as error:
        raise InputError(f"can't read the tokenizer `{file}`: {error.strerror}", hint=HINT) from None


def outline_of_content(content: bytes) -> Outline:
    """The same of a tokenizer that is in memory already."""
    from krill import _native

    walked = _native.JsonOutline(MOST_BYTES)
    walked.feed(content)
    return _made_of(walked, len(content))


@lru_cache(maxsize=4)
def _outline(file: Path, state: tuple[int, int]) -> Outline:
    from krill import _native

    walked = _native.JsonOutline(MOST_BYTES)
    with open_regular(file) as stream:
        while block := stream.read(READ_BYTES):
            walked.feed(block)
    return _made_of(walked, state[0])


def _made_of(walked: Any, size: int) -> Outline:
    import orjson

    parts = {name: SectionSize(*counts) for name, counts in walked.parts().items()}
    sections = None
    text = walked.text()
    if text is not None:
        try:
            sections = orjson.loads(text)
        except ValueError:
            sections = None
    if not isinstance(sections, dict):
        # Taken for a file of nothing but the shortest tokens.
        many = SectionSize(size // 8, size, size // 8, size)
        return Outline(size, None, many, many, SectionSize())
    return Outline(size, sections, parts["vocabulary"], parts["merges"], parts["added_tokens"])
