"""docs/config.md, written from the models: `python docs/config_page.py > docs/config.md`.

In: the fields' descriptions and defaults, and the table of the seeds' keys. Out: one Markdown page, the
same for the same schema; a test holds the page in docs/ to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from krill.config.aliases import DATATROVE_KEYS, FLAT_KEYS, Appended, Inert, Moved, Rule, Switched
from krill.config.extract import ExtractConfig
from krill.config.fields import Size, size_text
from krill.config.filters import FILTERS, PRESETS
from krill.config.keys import level_of
from krill.config.merger import variable_name
from krill.config.messages import dotted, shown
from krill.config.preprocess import DedupConfig, PreprocessConfig, SplitConfig
from krill.config.schema import DatasetConfig, KrillConfig, TokenizerConfig
from krill.config.train import TrainConfig

_OPENING = f"""# The config

<!-- Written by `python docs/config_page.py`; its source is src/krill/config/schema.py. -->

One YAML file serves every command. Every key has a default except the `path` of a dataset; preprocessing also
needs a tokenizer unless it writes only text.

```yaml
memory: 512MB
datasets:
  - path: data/*.jsonl
tokenizer:
  builtin: bytes
preprocess:
  prepared_path: artifacts/dataset
  sequence_len: 1024
```

- **Sizes** are a number and a unit: `MB` is 10^6 bytes, `MiB` is 2^20; a plain number is bytes.
- **Paths** stay as typed: a relative one is relative to the working directory, not to the config. A leading
  `~` is the home folder.
- **Overrides**, each winning over the one before: the file, environment variables
  (`{variable_name(("preprocess", "sequence_len"))}=512`, `{variable_name(("datasets", 0, "path"))}=a.jsonl`),
  `--set preprocess.sequence_len=512` (also `--set datasets.0.path=a.jsonl`), and options such as `--memory`.
  Values are read as in YAML.
- **Mistakes** are errors: an unknown key is refused with the nearest known name, also in the environment,
  where every variable that begins with `KRILL_` is taken as a key.
"""

_SECTIONS: tuple[tuple[str, str, type[BaseModel]], ...] = (
    ("Top level", "", KrillConfig),
    ("`datasets`", "A list; each entry has these keys.", DatasetConfig),
    ("`datasets[].extract`", "How the text of web pages is found; see [web](web.md).", ExtractConfig),
    ("`tokenizer`", "A place here, a name on the hub, or both; or `builtin`.", TokenizerConfig),
    ("`preprocess`", "", PreprocessConfig),
    ("`preprocess.dedup`", "Or only the method: `dedup: minhash`.", DedupConfig),
    ("`preprocess.split`", "", SplitConfig),
    ("`train`", "Read by training alone, so that one file serves all commands.", TrainConfig),
)

_FILTERS = """## `preprocess.filters`

A list, applied in order. An entry is a filter's name, or its name and thresholds, as in
`- gopher_quality: {min_doc_words: 20}`; a preset, which stands for several; or `module:function`, a step of
your own. What each does is in [filters](filters.md).
"""

_ALIASES = """## Other names

Configs of the older, flat form load unchanged. Where a key and its other name are both given, they must
agree.
"""

_DATATROVE = """### The `datatrove` block

With `enabled: true` its steps are done by Krill itself; with `enabled: false` the block is ignored. These
are the keys of its `pipeline_config` and of the entries of `quality_filters`.
"""


def render() -> str:
    parts = [_OPENING]
    for title, opening, model in _SECTIONS:
        parts.append(f"## {title}\n")
        if opening:
            parts.append(f"{opening}\n")
        parts.append(_table(("key", "default", "meaning"), _field_rows(model)))
    parts.append(_FILTERS)
    for preset, filters in PRESETS.items():
        parts.append(f"`{preset}` stands for {_preset(filters)}.\n")
    for model in FILTERS:
        parts.append(f"### `{model.model_fields['name'].default}`\n")
        parts.append(f"{(model.__doc__ or '').strip()}\n")
        parts.append(_table(("key", "default", "meaning"), _field_rows(model)))
    parts += [_ALIASES, _table(("key", "means"), _rule_rows(FLAT_KEYS))]
    parts += [_DATATROVE, _table(("key", "means"), _rule_rows(DATATROVE_KEYS))]
    return "\n".join(parts)


def _field_rows(model: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    sections = level_of(model).keys
    for name, field in model.model_fields.items():
        if name == "name":  # what an entry of a list is, not a setting
            continue
        default = "see below" if sections[name] is not None else _default(field)
        yield f"`{name}`", default, field.description or ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, int) and any(isinstance(note, Size) for note in field.metadata):
        return f"`{size_text(value)}`"
    return f"`{shown(value)}`"


def _preset(filters: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(
        f"`{shown({entry['name']: {key: value for key, value in entry.items() if key != 'name'}})}`"
        if len(entry) > 1
        else f"`{entry['name']}`"
        for entry in filters
    )


def _rule_rows(rules: Mapping[str, Rule]) -> Iterator[tuple[str, ...]]:
    for name, rule in rules.items():
        yield f"`{name}`", _meaning(rule)


def _meaning(rule: Rule) -> str:
    if isinstance(rule, Moved):
        return f"`{dotted(rule.target)}`" + (f" ({rule.note})" if rule.note else "")
    if isinstance(rule, Appended):
        return f"one more of `{dotted(rule.target)}`: `{rule.name}` with this `{rule.option}`"
    if isinstance(rule, Switched):
        return f"where it is true, `{dotted(rule.target)}` is `{rule.value}`"
    if isinstance(rule, Inert):
        return f"nothing: {rule.why}"
    return f"refused: {rule.why}; {rule.hint}"


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = (
        " | ".join(cell.replace("|", r"\|") for cell in row) for row in (head, ("---",) * len(head), *rows)
    )
    return "".join(f"| {line} |\n" for line in lines)


if __name__ == "__main__":
    print(render(), end="")
