"""Filters for pages of the web: what each is called, and its keys.

In: sections of `preprocess.filters`. Out: frozen sections. Names and defaults are datatrove's where it has
the same filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from krill.config.fields import Fraction, Names, PathText, Section, Text, Whole, key
from krill.config.messages import SectionFault, listed

EntryList = PathText | tuple[Text, ...]
"""A file with one entry a line, or the entries."""

LABEL_PREFIX: Final = "__label__"
URL_LISTS: Final = ("domains", "hosts", "urls", "banned_words", "soft_words", "banned_subwords")


class Url(Section):
    """Documents whose URL is listed. A list is a file with one entry a line, or the entries themselves."""

    name: Literal["url"] = "url"
    column: Text = key(
        "url", "Column with the URL of each document, which the source carries along (`columns`)."
    )
    domains: EntryList = key(
        (), "Registered domains, with all hosts below them, and single hosts without those below them."
    )
    hosts: EntryList = key((), "Hosts, each with all hosts below it.")
    urls: EntryList = key((), "Whole URLs.")
    banned_words: EntryList = key((), "Words, of which one is enough.")
    soft_words: EntryList = key((), "Words, of which `soft_word_threshold` different ones are needed.")
    soft_word_threshold: Annotated[int, Whole(1)] = key(2, "How many `soft_words` drop a document.")
    banned_subwords: EntryList = key(
        (), "What must not be found anywhere in the URL's letters and digits, joined and in lower case."
    )
    patterns: tuple[Text, ...] = key(
        (), "Regular expressions (RE2's syntax) that drop a document where they match in the URL."
    )
    patterns_file: PathText | None = key(None, "More of them, one a line.")
    ignore_case: bool = key(False, "Compare hosts, words and patterns whatever their case.")
    suffixes: PathText | None = key(
        None,
        "Public suffix list, which says how much of a host is its registered domain; `null` for that of the "
        "installed tldextract (extra `web`).",
    )
    keep_missing: bool = key(False, "Keep documents without a URL.")

    @model_validator(mode="after")
    def _lists_something(self) -> Self:
        names = (*URL_LISTS, "patterns", "patterns_file")
        if not any(getattr(self, name) for name in names):
            raise SectionFault(f"must have a list, one of {listed(names)}")
        return self


def _without_prefix(labels: Any) -> Any:
    """Labels as people write them; in a model they begin with `__label__`."""
    if isinstance(labels, Mapping):
        return {_label(label): threshold for label, threshold in labels.items()}
    return [_label(label) for label in labels] if isinstance(labels, list | tuple) else labels


def _label(label: Any) -> Any:
    return label.removeprefix(LABEL_PREFIX) if isinstance(label, str) else label


Thresholds = Annotated[dict[Text, Annotated[float, Fraction()]], BeforeValidator(_without_prefix)]


class FastText(Section):
    """Documents that a fastText model takes for something else."""

    name: Literal["fasttext"] = "fasttext"
    model: PathText = Field(description="File of a supervised fastText model, `.bin` or `.ftz`.")
    keep: Thresholds = key(
        {}, "Labels and their least scores: a document that reaches none of them is dropped."
    )
    remove: Thresholds = key(
        {}, "Labels and scores: a document that reaches one of them is dropped. Not together with `keep`."
    )
    scores: Annotated[Names, BeforeValidator(_without_prefix)] = key(
        (), "More labels whose scores become columns (`preprocess.statistics`)."
    )
    newline: Literal[" ", ""] = key(
        " ", "What a line end is to the model: a space, or nothing as in datatrove, which joins words."
    )

    @model_validator(mode="after")
    def _has_labels(self) -> Self:
        if self.keep and self.remove:
            raise SectionFault("takes `keep` or `remove`, not both; list it twice for both")
        if not self.keep and not self.remove and not self.scores:
            raise SectionFault("must name labels under `keep`, `remove` or `scores`")
        return self


class Ftfy(Section):
    """Text that was decoded wrongly is mended by the library ftfy (extra `web`). Names and defaults are those
    of datatrove's `FTFYFormatter`, which mends and doesn't normalise."""

    name: Literal["ftfy"] = "ftfy"
    unescape_html: Literal["auto", True, False] = key(
        "auto", "`&amp;` and the like become characters; `auto`: up to the first line with a `<`."
    )
    remove_terminal_escapes: bool = key(True, "Remove what colours text in a terminal.")
    fix_encoding: bool = key(True, "Mend mojibake: text that was decoded in another encoding than its own.")
    restore_byte_a0: bool = key(True, "Mojibake: a space may have been a non-breaking one.")
    replace_lossy_sequences: bool = key(True, "Mojibake: what was lost in part becomes `\ufffd`.")
    decode_inconsistent_utf8: bool = key(True, "Mojibake: also where the rest of a line is sound.")
    fix_c1_controls: bool = key(True, "C1 control characters are those of Windows-1252.")
    fix_latin_ligatures: bool = key(False, "Ligatures become letters.")
    fix_character_width: bool = key(False, "Fullwidth and halfwidth characters become ordinary ones.")
    uncurl_quotes: bool = key(False, "Curly quotes become straight.")
    fix_line_breaks: bool = key(False, "Line ends of all kinds become `\\n`.")
    fix_surrogates: bool = key(True, "Surrogates become the characters they stand for.")
    remove_control_chars: bool = key(True, "Remove control characters, as the filter `control_chars` does.")
    normalization: Literal["NFC", "NFD", "NFKC", "NFKD"] | None = key(None, "Unicode's normal form.")
    max_decode_length: Annotated[int, Whole(1)] = key(1_000_000, "Characters of a line looked at as one.")


class ControlChars(Section):
    """Control characters that show nothing are removed; tabs and line ends stay."""

    name: Literal["control_chars"] = "control_chars"


class Lines(Section):
    """Lines are removed from documents, whatever the whitespace around them; blank ones stay."""

    name: Literal["lines"] = "lines"
    symbol_only: bool = key(True, "Remove lines without a letter or a digit of any script.")
    remove: EntryList = key((), "Remove these lines: a file, or the lines themselves.")

    @model_validator(mode="after")
    def _removes_something(self) -> Self:
        if not self.symbol_only and not self.remove:
            raise SectionFault("must have lines to `remove`, or `symbol_only: true`")
        return self
