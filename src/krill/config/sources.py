"""Settings from outside the file: environment variables and `a.b=value` overrides.

Both name a key and carry its value as text. `KRILL_PREPROCESS__SEQUENCE_LEN=512` and `--set
preprocess.sequence_len=512` say the same; entries of a list are named by their index, as
`datasets.0.path`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from krill.config.draft import VARIABLE_PREFIX, Draft, Layer, Origin
from krill.config.keys import resolve
from krill.config.messages import dotted, shown
from krill.config.yaml_file import parse_value
from krill.errors import ConfigError

OTHER_VARIABLES = frozenset({"KRILL_NO_PROGRESS"})
"""Variables of Krill's that are not keys of the config."""


def add_environment(draft: Draft, environ: Mapping[str, str]) -> None:
    """Every `KRILL_A__B=value`; the order of the environment does not matter."""
    for name in sorted(environ):
        if name.startswith(VARIABLE_PREFIX) and name not in OTHER_VARIABLES:
            key = name.removeprefix(VARIABLE_PREFIX).lower()
            _add_text(
                draft,
                key.split("__"),
                environ[name],
                Origin(Layer.ENVIRONMENT, dotted((name,)), "the environment"),
            )


def add_overrides(draft: Draft, overrides: Iterable[str]) -> None:
    """Every `a.b=value`, a later one winning over an earlier one."""
    for override in overrides:
        key, equals, text = override.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError(
                f"override `{shown(override)}` is not of the form `key=value`",
                hint="for example --set preprocess.sequence_len=1024",
            )
        _add_text(draft, key.split("."), text, Origin(Layer.OVERRIDE, dotted((key,)), "--set"))


def add_arguments(draft: Draft, arguments: Mapping[str, object]) -> None:
    """Keyword arguments of a Python call; None means not given."""
    for name, value in arguments.items():
        if value is not None:
            path, level, known = resolve([name], draft.level)
            origin = Origin(Layer.ARGUMENT, name, "the arguments")
            if known:
                draft.add(path, value, level, origin)
            else:
                draft.add_unknown(path, origin)


def _add_text(draft: Draft, steps: list[str], text: str, origin: Origin) -> None:
    path, level, known = resolve(steps, draft.level)
    if known:
        draft.add(path, parse_value(text), level, origin)
    else:
        draft.add_unknown(path, origin)
