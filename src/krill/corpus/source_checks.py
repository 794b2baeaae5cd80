"""What a source says of itself in the config, checked before its files are looked for.

Held in memory: nothing.
"""

from __future__ import annotations

from typing import Final

from krill.corpus.all_columns import ALL
from krill.corpus.formats import DatasetSource
from krill.corpus.readers import Limits
from krill.errors import ConfigError

# Cutting text takes time by the length of what it is cut at, and no text is cut at a page.
_LONGEST_SEPARATOR: Final = 1000


def check_source(source: DatasetSource, limits: Limits) -> None:
    """Refuse what can't be read so, whatever the files hold."""
    _check_columns(source)
    _check_separator(source, limits)


def _check_columns(source: DatasetSource) -> None:
    if "*" in source.columns and source.columns != ALL:
        raise ConfigError(f'`columns` of `{source.path}` names "*", which is all of them, and others besides')
    for name in source.columns:
        if name == source.text_column:
            raise ConfigError(f"the column `{name}` of `{source.path}` is its text: it is carried anyway")
        if name in ("text", "position"):
            raise ConfigError(
                f"the column `{name}` of `{source.path}` can't be carried: the name is Krill's own"
            )
    if len(set(source.columns)) < len(source.columns):
        raise ConfigError(f"a column of `{source.path}` is named twice in `columns:`")


def _check_separator(source: DatasetSource, limits: Limits) -> None:
    """Of plain text; where the source has none, it is the first special token."""
    separator = limits.default_separator if source.separator is None else source.separator
    size = len(separator.encode("utf-8", "surrogatepass"))
    if size > _LONGEST_SEPARATOR:
        key = "tokenizer.special_tokens" if source.separator is None else "separator"
        raise ConfigError(
            f"the separator of `{source.path}` (`{key}`) has {size:,} bytes: at most {_LONGEST_SEPARATOR:,}",
            hint="set `separator:` to a shorter text, or to an empty one if each file is one document",
        )
