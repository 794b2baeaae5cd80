"""`load_config`: from whatever a caller has to one checked `KrillConfig`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Any

from krill.config.draft import Draft, Layer
from krill.config.messages import Path
from krill.config.schema import KrillConfig, new_draft
from krill.config.sources import add_arguments, add_environment, add_overrides
from krill.config.yaml_file import read_yaml
from krill.errors import ConfigError


def load_config(
    source: str | os.PathLike[str] | Mapping[str, Any] | KrillConfig,
    *,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    **direct: Any,
) -> KrillConfig:
    """Load a YAML file or a mapping, then apply the environment, `a.b=value` overrides and keyword arguments.

    Each layer wins over the one before it. `environ` is the process's own unless given. A `KrillConfig`
    has been through its environment already, so for it only a given `environ` counts. Keyword arguments
    are top-level keys such as `memory="512MB"`; None means not given. Relative paths stay as typed: they
    are relative to the working directory, not to the file. Notices for the user are in the result's
    `notices`.
    """
    draft = new_draft()
    if isinstance(source, KrillConfig):
        draft.notices.extend(source.notices)
        draft.datatrove = asdict(source.datatrove)
        environ = {} if environ is None else environ
    _add_source(draft, source)
    add_environment(draft, os.environ if environ is None else environ)
    add_overrides(draft, overrides)
    add_arguments(draft, direct)
    return KrillConfig.model_validate({}, context=draft)


def _add_source(draft: Draft, source: str | os.PathLike[str] | Mapping[str, Any] | KrillConfig) -> None:
    if isinstance(source, Mapping | KrillConfig):
        draft.add_tree(source, Layer.FILE, lambda _: "the config")
        return
    path = FilePath(source)
    tree, lines = read_yaml(path)
    if not isinstance(tree, dict):
        raise ConfigError(
            f"{path} holds a {type(tree).__name__}, not a config",
            hint="write `key: value` lines, such as `memory: 1GB`",
        )

    def where(key: Path) -> str:
        return f"{path}:{lines[key]}" if key in lines else str(path)

    draft.add_tree(tree, Layer.FILE, where)
