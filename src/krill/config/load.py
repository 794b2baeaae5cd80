"""`load_config`: from whatever a caller has to one checked `KrillConfig`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Any

from krill.config.merger import ConfigMerger, Layer
from krill.config.messages import Path
from krill.config.schema import KrillConfig, new_merger
from krill.config.yaml_file import read_yaml
from krill.errors import ConfigError

ConfigSource = str | os.PathLike[str] | Mapping[str, Any] | KrillConfig


def load_config(
    source: ConfigSource,
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
    merger = new_merger()
    if isinstance(source, KrillConfig):
        merger.notices.extend(source.notices)
        merger.datatrove = asdict(source.datatrove)
        environ = {} if environ is None else environ
    _add_source(merger, source)
    merger.add_environment(os.environ if environ is None else environ)
    merger.add_overrides(overrides)
    merger.add_arguments(direct)
    return KrillConfig.model_validate({}, context=merger)


def _add_source(
    merger: ConfigMerger, source: str | os.PathLike[str] | Mapping[str, Any] | KrillConfig
) -> None:
    if isinstance(source, Mapping | KrillConfig):
        merger.add_tree(source, Layer.FILE, lambda _: "the config")
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

    merger.add_tree(tree, Layer.FILE, where)
