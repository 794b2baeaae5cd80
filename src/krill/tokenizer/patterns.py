r"""Where text is cut into words before BPE: named patterns, and any regex of the `tokenizers` library.

In: a name or a regex. Out: the `pre_tokenizer` section of a tokenizer.json, or the name that such a section
stands for. Named patterns, and regexes that differ from them in few things, are cut by the native scanner
(`native/text/scanner.hpp`), all others by the native regex engine (`native/regex/`). Held in memory: nothing.

A pattern means what the library's engine makes of it. That engine reads `\p{N}{1,3}+` in cl100k as a repeated
group, so its numbers have any length; tiktoken's engine takes at most three digits. Public tokenizer.json
files for cl100k spell it `\p{N}{1,3}`, and that is the pattern called llama3 here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from krill import _native
from krill.errors import ConfigError

_CONTRACTIONS: Final = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_NOT_LOWER: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_NOT_UPPER: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SPACES: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"

PATTERNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?{_NOT_LOWER}*{_NOT_UPPER}+{_CONTRACTIONS}?"
        rf"|[^\r\n\p{{L}}\p{{N}}]?{_NOT_LOWER}+{_NOT_UPPER}*{_CONTRACTIONS}?"
        rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}",
        "llama3": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
        "qwen2": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",
    }
)


def pre_tokenizer(pattern: str) -> dict[str, Any]:
    """The `pre_tokenizer` section of a tokenizer.json for a named pattern or a regex."""
    if pattern == "gpt2":
        return _byte_level(use_regex=True)
    split = {
        "type": "Split",
        "pattern": {"Regex": PATTERNS.get(pattern, pattern)},
        "behavior": "Isolated",
        "invert": False,
    }
    return {"type": "Sequence", "pretokenizers": [split, _byte_level(use_regex=False)]}


def recognise(pre_tokenizer: Mapping[str, Any] | None) -> str | None:
    """The named pattern by which a `pre_tokenizer` section cuts bytes, if it does nothing else."""
    if not isinstance(pre_tokenizer, Mapping):
        return None
    if pre_tokenizer.get("type") != "Sequence":
        return "gpt2" if _is_byte_level(pre_tokenizer, use_regex=True) else None
    steps = pre_tokenizer.get("pretokenizers")
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        return None
    if len(steps) == 1:
        return recognise(steps[0])
    if len(steps) != 2 or not _is_byte_level(steps[1], use_regex=False):
        return None
    regex = _split_regex(steps[0])
    known = None if regex is None else _native.scanner_regex(regex)
    if known is None:
        return None
    return next((name for name in PATTERNS if _native.scanner_regex(PATTERNS[name]) == known), None)


def check_pattern(pattern: str) -> None:
    """Refuse what is neither a name nor a regex that the library takes."""
    if pattern in PATTERNS:
        return
    names = ", ".join(f"`{name}`" for name in PATTERNS)
    if re.fullmatch(r"[\w.-]*", pattern):
        raise ConfigError(f"no pattern is named `{pattern}`", hint=f"give one of {names}, or a regex")
    from tokenizers import Regex

    try:
        Regex(pattern)
    except Exception as error:  # the library raises plain Exception
        raise ConfigError(
            f"the pattern `{pattern}` is not a regex that the tokenizers library takes: {error}",
            hint=f"mend it, or give one of {names}",
        ) from None


def _byte_level(*, use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _is_byte_level(step: Mapping[str, Any], *, use_regex: bool) -> bool:
    """Whether a step maps bytes and adds nothing; files older than `use_regex` mean true."""
    return (
        step.get("type") == "ByteLevel"
        and step.get("add_prefix_space") is False
        and step.get("use_regex", True) is use_regex
    )


def _split_regex(step: Mapping[str, Any]) -> str | None:
    """The regex whose matches become words: isolated, or all that is not removed."""
    if step.get("type") != "Split" or not isinstance(step.get("pattern"), Mapping):
        return None
    behavior = step.get("behavior")
    if behavior != "Isolated" and not (behavior == "Removed" and step.get("invert") is True):
        return None
    regex = step["pattern"].get("Regex")
    return regex if isinstance(regex, str) else None
