"""Looking into an output with the tokenizer that made it."""

from __future__ import annotations

from pathlib import Path

from krill.config import load_config
from krill.errors import KrillError
from krill.shards import Inspection, Manifest, inspect
from krill.shards.inspect import Decode
from krill.tokenizer import open_encoder


def look_into(folder: Path, *, samples: int, seed: int) -> Inspection:
    """Facts and samples of an output; rows are shown as text if their tokenizer can still be opened."""
    return inspect(folder, samples, seed, _decoder(folder))


def _decoder(folder: Path) -> Decode | None:
    manifest = Manifest.load(folder)
    if manifest.dataset is None:
        return None
    try:
        settings = load_config(dict(manifest.extra["settings"]), environ={})
        encoder = open_encoder(settings.tokenizer)
    except (KrillError, KeyError):
        return None  # moved or gone since: ids are shown instead
    described = manifest.tokenizer or {}
    return encoder.decode if encoder.describe()["fingerprint"] == described.get("fingerprint") else None
