"""The section `pre_tokenizer` of tokenizer.json as a native pre-tokenizer.

In: the section, as JSON gives it. Out: a `PreTokenizer` that cuts exactly as `tokenizers` does, and whether
its words are byte-level; or a `ValueError` that says what is wrong or not supported. Held in memory: the
tables of its steps, 20 to 80 KB for most, which `PreTokenizer.held_bytes` counts.

`ByteLevel` writes bytes as letters. That is done to the vocabulary once instead of to all text, and words are
byte-level; steps behind it take bytes for the letters that they stand for. Those that can't, as they rewrite
the letters or need a backtracking matcher, get the letters themselves, and so does the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from krill import _native
from krill.tokenizer.section_fields import (
    DEEPEST,
    Section,
    SectionReader,
    kind_of,
    step_of_pattern,
    unicode_text,
)

Step = _native.PreTokenizerStep

_BEHAVIORS: Final = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
_SCHEMES: Final = ("first", "never", "always")
_PATTERN_OF: Final = "the pattern of pre-tokenizer `{}`"


@dataclass(frozen=True, slots=True)
class PreTokenizerParts:
    """`native` is None if the text is one word as it is."""

    native: _native.PreTokenizer | None
    byte_level: bool


def build_pre_tokenizer(section: object, *, spells_bytes: bool = False) -> PreTokenizerParts:
    """What a `pre_tokenizer` section stands for; None stands for none. With `spells_bytes` words are never
    byte-level: the model gets the letters."""
    steps: list[Step] = []
    byte_level = False
    for step in flat_pre_tokenizers(section):
        made = _BUILDERS[step["type"]](step)
        if byte_level and step["type"] != "ByteLevel":
            over_letters = [over for each in made if (over := each.over_letters())]
            if len(over_letters) == len(made):
                steps += over_letters
                continue
        if byte_level:
            steps.append(Step.letters())
        byte_level = step["type"] == "ByteLevel"
        steps += made
    if byte_level and spells_bytes:
        steps.append(Step.letters())
        byte_level = False
    return PreTokenizerParts(_native.PreTokenizer(steps) if steps else None, byte_level)


def flat_pre_tokenizers(section: object) -> Iterator[Section]:
    """The steps of a section, without the sequences around them; None has none."""
    if section is not None:
        yield from _flat(section, 0)


def unmarked_metaspace(step: Section, mark: str) -> _native.PreTokenizer | None:
    """What `Metaspace` with this mark does besides writing marks, for words that are whole texts; None for
    other steps."""
    if step["type"] != "Metaspace" or step["replacement"] != mark or step.get("split") is not False:
        return None
    return _native.PreTokenizer([Step.rewrite("", mark, step.get("prepend_scheme", "always"), takes_spaces=True)])


def _flat(section: object, depth: int) -> Iterator[Section]:
    if not isinstance(section, Mapping):
        raise ValueError(f"a pre-tokenizer must be an object, not {kind_of(section)}")
    kind = section.get("type")
    if kind == "Sequence":
        if depth == DEEPEST:
            raise ValueError("pre-tokenizers are nested too deeply")
        for step in _READER.field(section, "pretokenizers", list):
            yield from _flat(step, depth + 1)
    elif not isinstance(kind, str):
        raise ValueError("a pre-tokenizer has no `type`")
    elif kind in _BUILDERS:
        yield section
    else:
        raise ValueError(f"unknown pre-tokenizer `{kind}`")


def _byte_level(section: Section) -> list[Step]:
    prefix = [Step.rewrite("", " ", "always")] if _READER.field(section, "add_prefix_space", bool) else []
    _READER.field(section, "trim_offsets", bool)
    cuts = _READER.field(section, "use_regex", bool, default=True)
    return prefix + ([Step.words("gpt2")] if cuts else [])


def _split(section: Section) -> list[Step]:
    behavior = _choice(section, "behavior", _BEHAVIORS)
    invert = _READER.field(section, "invert", bool)
    step = step_of_pattern(
        _READER.field(section, "pattern", dict),
        "pre-tokenizer `Split`",
        text=_PATTERN_OF.format("Split"),
        of_string=lambda string: Step.split_string(string, behavior, invert),
        of_regex=lambda regex: Step.split(regex, behavior, invert),
    )
    return [step]


def _metaspace(section: Section) -> list[Step]:
    replacement = _character(section, "replacement")
    scheme = _choice(section, "prepend_scheme", _SCHEMES, default="always")
    adds = section.get("add_prefix_space")
    if adds is False and scheme != "never":
        raise ValueError(
            "`add_prefix_space` of pre-tokenizer `Metaspace` does not match its `prepend_scheme`"
        )
    rewrite = (
        [] if replacement == " " and scheme == "never" else [Step.rewrite(replacement, replacement, scheme)]
    )
    splits = section.get("split")
    if splits is not None and not isinstance(splits, bool):
        raise ValueError(
            f"`split` of pre-tokenizer `Metaspace` must be a boolean or null, not {kind_of(splits)}"
        )
    return rewrite + ([] if splits is False else [Step.split_string(replacement, "MergedWithNext", False)])


def _fixed_length(section: Section) -> list[Step]:
    length = section.get("length", 5)
    if not isinstance(length, int) or isinstance(length, bool) or not 0 < length < 2**63:
        raise ValueError("`length` of pre-tokenizer `FixedLength` must be a whole number of at least 1")
    return [Step.fixed_length(length)]


def _choice(section: Section, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
    value = section.get(name, default)
    if value not in choices:
        listed = ", ".join(f"`{choice}`" for choice in choices)
        raise ValueError(f"`{name}` of pre-tokenizer `{section['type']}` must be one of {listed}")
    return str(value)


def _character(section: Section, name: str) -> str:
    value = _READER.field(section, name, str)
    if len(value) != 1:
        raise ValueError(f"`{name}` of pre-tokenizer `{section['type']}` must be one character")
    return unicode_text(value, _PATTERN_OF.format(section["type"]))


_BUILDERS: Final[dict[str, Callable[[Section], list[Step]]]] = {
    "ByteLevel": _byte_level,
    "Split": _split,
    "Metaspace": _metaspace,
    "FixedLength": _fixed_length,
    "Digits": lambda section: [Step.digits(_READER.field(section, "individual_digits", bool))],
    "Punctuation": lambda section: [Step.punctuation(_choice(section, "behavior", _BEHAVIORS, "Isolated"))],
    "Whitespace": lambda _: [Step.whitespace()],
    "WhitespaceSplit": lambda _: [Step.whitespace_split()],
    "BertPreTokenizer": lambda _: [Step.bert()],
    "CharDelimiterSplit": lambda section: [
        Step.split_string(_character(section, "delimiter"), "Removed", False)
    ],
    "UnicodeScripts": lambda _: [Step.scripts()],
}

_READER: Final[SectionReader] = SectionReader("pre-tokenizer", _BUILDERS)
