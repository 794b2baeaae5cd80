"""The config: one file, one schema, for every command.

In: a YAML file, a mapping or keyword arguments, then the environment (`KRILL_A__B=value`), then
`a.b=value` overrides, each winning over the one before it. Out: a frozen `KrillConfig` whose every value
has been checked, or one `ConfigError` that names each key at fault, where it was written and what to
write instead. Held in memory: the config itself, a few kilobytes.

The modules, in the order that a value goes through them: `yaml_file` reads, `merger` puts the file, the
environment and overrides together (with `aliases` for the seeds' flat keys and `keys` for names that do not
exist), `schema`, `dataset`, `preprocess`, `filters`, `engine`, `train` and `fields` check, `chat` what
conversations need, `messages` describes faults, `identity` compares runs, `reference` writes docs/config.md.
Nothing here imports more than pydantic and PyYAML.
"""

from krill.config.dataset import DatasetConfig
from krill.config.identity import canonical_yaml, differing_keys, identity_dict, to_dict
from krill.config.preprocess import DedupConfig, PreprocessConfig, SplitConfig
from krill.config.schema import KrillConfig, TokenizerConfig, load_config
from krill.config.train import TrainConfig

__all__ = [
    "DatasetConfig",
    "DedupConfig",
    "KrillConfig",
    "PreprocessConfig",
    "SplitConfig",
    "TokenizerConfig",
    "TrainConfig",
    "canonical_yaml",
    "differing_keys",
    "identity_dict",
    "load_config",
    "to_dict",
]
