"""Quality filters: what each is called, and its thresholds.

In: entries of `preprocess.filters` as people write them: a name, a name with thresholds, a preset, or
`module:function`. Out: one frozen section per filter, presets unfolded. Names and defaults of the
thresholds are those of datatrove, whose decisions the filters equal; so are the values that turn a rule off:
0 or null for Gopher's, -1 for C4's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from krill.config.fields import Count, Fraction, PathText, Positive, Section, Text, Whole, distinct, key
from krill.config.keys import nearest
from krill.config.messages import listed, shown
from krill.config.web_filters import ControlChars as ControlChars
from krill.config.web_filters import FastText as FastText
from krill.config.web_filters import Ftfy as Ftfy
from krill.config.web_filters import Lines as Lines
from krill.config.web_filters import Url as Url

STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")

Ratio = Annotated[float, Fraction()]
RatioOrOff = Annotated[float | None, Fraction(words=(None,))]
NumberOrOff = Annotated[float | None, Positive(or_zero=True, words=(None,))]
CountOrOff = Annotated[int | None, Whole(0, words=(None,))]
C4Count = Annotated[int, Whole(-1)]
NGrams = tuple[tuple[Annotated[int, Whole(1, 100)], Ratio], ...]


class JudgedSection(Section):
    """A filter that datatrove has as well."""

    implementation: Literal["krill", "datatrove"] = key(
        "krill",
        "Who judges: `krill`, or `datatrove` for its own filter with spaCy's words, many times slower.",
    )


class GopherQuality(JudgedSection):
    """Documents that don't read like prose. A threshold of 0 or `null` turns its rule off."""

    name: Literal["gopher_quality"] = "gopher_quality"
    min_doc_words: CountOrOff = key(50, "Words that are not mere symbols, at least.")
    max_doc_words: CountOrOff = key(100_000, "The same, at most.")
    min_avg_word_length: NumberOrOff = key(3.0, "Mean characters of a word, at least.")
    max_avg_word_length: NumberOrOff = key(10.0, "The same, at most.")
    max_symbol_word_ratio: NumberOrOff = key(0.1, "`#` for each word, and ellipses for each word, at most.")
    max_bullet_lines_ratio: RatioOrOff = key(0.9, "Share of lines that begin with a bullet, at most.")
    max_ellipsis_lines_ratio: RatioOrOff = key(0.3, "Share of lines that end with an ellipsis, at most.")
    max_non_alpha_words_ratio: RatioOrOff = key(
        0.8, "Share of words with a letter, at least (datatrove's name of it)."
    )
    min_stop_words: CountOrOff = key(2, "Different words of `stop_words` in the document, at least.")
    stop_words: Annotated[tuple[Text, ...], AfterValidator(distinct)] = key(
        STOP_WORDS, "What counts as a stop word."
    )


class GopherRepetition(JudgedSection):
    """Documents that repeat themselves. A threshold of 0 or `null` (or an empty list) turns its
    rule off."""

    name: Literal["gopher_repetition"] = "gopher_repetition"
    dup_line_frac: RatioOrOff = key(0.3, "Share of lines that stood before, at most.")
    dup_para_frac: RatioOrOff = key(0.3, "Share of paragraphs that stood before, at most.")
    dup_line_char_frac: RatioOrOff = key(0.2, "Characters in repeated lines, at most.")
    dup_para_char_frac: RatioOrOff = key(0.2, "Characters in repeated paragraphs, at most.")
    top_n_grams: NGrams = key(
        ((2, 0.2), (3, 0.18), (4, 0.16)),
        "For each n, the share of characters in the most frequent n words in a row, at most.",
    )
    dup_n_grams: NGrams = key(
        ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10)),
        "For each n, the share of characters in n words in a row that stood before, at most.",
    )


class C4(JudgedSection):
    """Lines that are no sentences are removed, then documents with too few sentences are dropped. A threshold
    of -1 turns its rule off."""

    name: Literal["c4"] = "c4"
    split_paragraph: bool = key(True, "Judge lines; `false` judges sentences instead.")
    remove_citations: bool = key(True, "Take out `[1]`, `[edit]` and the like.")
    filter_no_terminal_punct: bool = key(
        True, "Remove lines that do not end with `.`, `?`, `!`, `\"` or `'`."
    )
    min_num_sentences: C4Count = key(5, "Sentences that are left, at least.")
    min_words_per_line: C4Count = key(3, "Lines of fewer words are removed.")
    max_word_length: C4Count = key(1000, "Lines with a longer word are removed.")
    filter_lorem_ipsum: bool = key(True, "Drop documents with `lorem ipsum`.")
    filter_javascript: bool = key(True, "Remove lines with `javascript`.")
    filter_curly_bracket: bool = key(True, "Drop documents with `{`.")
    filter_policy: bool = key(True, "Remove lines about cookies and terms of use.")


class FineWeb(JudgedSection):
    """Documents that look like lists, menus and boilerplate."""

    name: Literal["fineweb"] = "fineweb"
    line_punct_thr: Ratio = key(0.12, "Share of lines that end with punctuation, at least.")
    line_punct_exclude_zero: bool = key(False, "Keep documents in which no line ends with punctuation.")
    stop_chars: tuple[Text, ...] | None = key(
        None,
        "What counts as such punctuation; `null` is full stops, question and exclamation marks of every "
        "script.",
    )
    short_line_thr: Ratio = key(0.67, "Share of short lines, at most.")
    short_line_length: Count = key(30, "Characters of a short line, at most.")
    char_duplicates_ratio: Ratio = key(0.01, "Characters in repeated lines, at most.")
    new_line_ratio: Annotated[float, Positive(or_zero=True)] = key(0.3, "Newlines for each word, at most.")


def _languages(codes: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if codes is None:
        return None
    if not codes:
        raise ValueError("must name at least one language, or be `null` for all")
    return distinct(codes)


class Language(Section):
    """Documents in other languages."""

    name: Literal["language"] = "language"
    allow: Annotated[tuple[Text, ...] | None, AfterValidator(_languages)] = key(
        ("en",), "Languages to keep, as the model names them (ISO 639-1 codes); `null` for all."
    )
    min_score: Ratio = key(0.65, "How sure the model must be: its score is above this.")
    label_only: bool = key(False, "Measure the language and drop nothing.")
    model: PathText | None = key(
        None,
        "File of a fastText model whose labels are languages, such as `lid.176.bin`; `null` for the model "
        "that comes with Krill.",
    )


class BlockList(Section):
    """Documents in which a pattern is found."""

    name: Literal["blocklist"] = "blocklist"
    patterns: tuple[Text, ...] = key(
        (), "Regular expressions (RE2's syntax) that drop a document where they match."
    )
    file: PathText | None = key(None, "More of them, one a line.")
    ignore_case: bool = key(True, "Whether `A` matches `a`.")


class RepeatedLines(Section):
    """Lines that stood before in the same document are removed."""

    name: Literal["repeated_lines"] = "repeated_lines"
    min_chars: Count = key(1, "Shorter lines stay.")


class RepeatedParagraphs(Section):
    """Paragraphs that stood before in the same document are removed."""

    name: Literal["repeated_paragraphs"] = "repeated_paragraphs"
    min_chars: Count = key(1, "Shorter paragraphs stay.")


class UserStep(Section):
    """A function of your own: an Arrow batch in, an Arrow batch or a mask of the rows to keep out."""

    name: Literal["step"] = "step"
    function: Text = Field(description="`module:function`, found on Python's path or in the working folder.")


Filter = (
    GopherQuality
    | GopherRepetition
    | C4
    | FineWeb
    | Language
    | BlockList
    | Url
    | FastText
    | Ftfy
    | ControlChars
    | Lines
    | RepeatedLines
    | RepeatedParagraphs
    | UserStep
)
FILTERS: tuple[type[Section], ...] = Filter.__args__

PRESETS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "web-en": (
        {"name": "language", "allow": ["en"]},
        {"name": "gopher_repetition"},
        {"name": "gopher_quality"},
        {"name": "c4", "filter_no_terminal_punct": False},
        {"name": "fineweb"},
    ),
    # What holds for any language that separates words: no English stop words, no English phrases.
    "web-any": (
        {"name": "gopher_repetition"},
        {"name": "gopher_quality", "min_stop_words": 0},
        {"name": "fineweb"},
    ),
}
"""Entries that stand for several filters: FineWeb's own order, with and without what is English."""

# What datatrove calls them; everywhere else its names are Krill's.
_OTHER_KEYS: Mapping[str, Mapping[str, str]] = {
    "language": {"languages": "allow", "language_threshold": "min_score"},
    "url": {"extra_domains": "domains", "extra_urls": "urls", "soft_banned_words": "soft_words"},
}

_NAMES = tuple(str(model.model_fields["name"].default) for model in FILTERS)


def unfold(entries: Any) -> Any:
    """Every spelling of the list as a list of sections with a `name`."""
    if isinstance(entries, str | Mapping):
        entries = [entries]
    if not isinstance(entries, Sequence):
        return entries  # pydantic says what is wrong
    return [section for entry in entries for section in _sections(entry)]


def _sections(entry: Any) -> Iterator[Any]:
    if isinstance(entry, Section):
        yield entry
    elif isinstance(entry, str):
        yield from _named(entry)
    elif isinstance(entry, Mapping) and "name" in entry:
        _check_name(entry["name"])
        yield _renamed(entry["name"], entry)
    elif isinstance(entry, Mapping) and len(entry) == 1:
        ((name, options),) = entry.items()
        _check_name(name)
        if not isinstance(options, Mapping | None):
            raise ValueError(f"`{name}` takes a section of keys, not `{shown(options)}`")
        yield {"name": name, **_renamed(name, options or {})}
    else:
        raise ValueError(f"an entry is a filter's name or `name: {{its thresholds}}`, not `{shown(entry)}`")


def _renamed(name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    keys = _OTHER_KEYS.get(name)
    if keys is None:
        return options
    renamed = {keys.get(key, key): value for key, value in options.items()}
    if name == "language" and isinstance(renamed.get("allow"), str):
        renamed["allow"] = [renamed["allow"]]
    return renamed


def _named(name: str) -> Iterator[Mapping[str, Any]]:
    if name in PRESETS:
        yield from PRESETS[name]
    elif ":" in name:
        yield {"name": "step", "function": name}
    else:
        _check_name(name)
        yield {"name": name}


def _check_name(name: Any) -> None:
    if name not in _NAMES:
        known = (*_NAMES, *PRESETS)
        near = nearest(str(name), known)
        meant = f"; did you mean `{near}`?" if near else ""
        raise ValueError(
            f"there is no filter `{shown(name)}`{meant} Known are {listed(known)} and `module:function`"
        )


Filters = Annotated[tuple[Annotated[Filter, Field(discriminator="name")], ...], BeforeValidator(unfold)]
"""The list of filters, in any spelling."""
