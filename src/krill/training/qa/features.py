"""What a reader is trained or scored on, opened and checked: features, their tokenizer, the evaluation.

In: a cache and its tokenizer; or a saved reader and a cache. Out: an `OpenedFeatures` with the shape of the
reader that reads them, or the reason why its parts don't belong together. Held in memory: the tokenizer for a
moment, and the units of the caches that are mapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from krill.errors import ConfigError, InputError
from krill.model.recurrent import MemoryTokens, ReaderShape
from krill.qa.dataset import QaDataset
from krill.qa.encoding import open_tokenizer
from krill.qa.layout import FeatureLayout, memory_token_ids
from krill.qa.stored import StoredFeatures
from krill.tokenizer.huggingface import open_library
from krill.tokenizer.tokenizer_file import tokenizer_file
from krill.training.qa.data import ReaderData
from krill.training.qa.settings import DEFAULT_SLOTS, ReaderSettings

# What an evaluation's cache may have mapped: it is read in order.
EVALUATION_BYTES: Final = 32_000_000


@dataclass(frozen=True, slots=True)
class ReaderTokenizer:
    """What a reader needs to know of the tokenizer of its features."""

    file: Path
    fingerprint: str
    vocab_size: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]


def inspect_tokenizer(path: str | Path) -> ReaderTokenizer:
    file = tokenizer_file(path)
    library = open_library(file)
    reads, writes = memory_token_ids(library)
    size = int(library.get_vocab_size(with_added_tokens=True))
    return ReaderTokenizer(file, open_tokenizer(file).fingerprint, size, tuple(reads), tuple(writes))


def design_for(stored: StoredFeatures, tokenizer: ReaderTokenizer, settings: ReaderSettings) -> ReaderShape:
    """The reader of some features; refused if another tokenizer made them."""
    remedy = "give the tokenizer.json that `krill qa prepare` was given, or prepare the features again"
    check_tokenizer(stored, tokenizer.fingerprint, f"the tokenizer `{tokenizer.file}`", remedy)
    memory = _memory_tokens(tokenizer, settings.memory_tokens)
    own_ids = 2 * memory.slots if memory.around else 0
    return ReaderShape(
        settings.encoder(tokenizer.vocab_size + own_ids), stored.width, memory, _token_types(stored.layout)
    )


def check_tokenizer(stored: StoredFeatures, fingerprint: str, what: str, remedy: str) -> None:
    """Refuse features that were made by another tokenizer: their ids would mean other words."""
    if stored.manifest["tokenizer"]["fingerprint"] != fingerprint:
        raise InputError(
            f"the features `{stored.folder}` were made by another tokenizer than {what}", hint=remedy
        )


def check_fits(stored: StoredFeatures, design: ReaderShape, fingerprint: str, model: str) -> None:
    """Refuse features that a trained reader can't read."""
    remedy = "prepare them with the tokenizer.json beside the model"
    check_tokenizer(stored, fingerprint, f"that of {model}", remedy)
    if stored.width > design.length:
        raise InputError(
            f"the features `{stored.folder}` have {stored.width:,} tokens, {model} was trained on"
            f" {design.length:,}",
            hint=f"prepare them with --max-seq-length {design.length}",
        )


def _memory_tokens(tokenizer: ReaderTokenizer, wanted: int | None) -> MemoryTokens:
    own = len(tokenizer.reads)
    if wanted == 0:
        return MemoryTokens()
    if own == 0:
        return MemoryTokens.behind(tokenizer.vocab_size, DEFAULT_SLOTS if wanted is None else wanted)
    if wanted is not None and wanted != own:
        raise ConfigError(
            f"`memory_tokens` is `{wanted}`, and the features have {own} memory tokens to read",
            hint=f"leave it out, give {own}, or 0 for a reader without memory",
        )
    return MemoryTokens(tokenizer.reads, tokenizer.writes)


def _token_types(layout: FeatureLayout) -> int:
    return max(layout.pad_type, *(piece.type_id for piece in layout.pieces)) + 1


@dataclass(frozen=True, slots=True)
class OpenedFeatures:
    """All input of a training, before JAX computes anything."""

    settings: ReaderSettings
    tokenizer: ReaderTokenizer
    data: ReaderData
    design: ReaderShape
    evaluation: QaDataset | None

    @property
    def identity(self) -> Mapping[str, Any]:
        """What decides the batches, as JSON."""
        manifest = self.data.stored.manifest
        return {"features": manifest["identity"], "tokenizer": manifest["tokenizer"]["fingerprint"]}


def open_features(
    folder: str | Path,
    tokenizer: str | Path,
    evaluation: str | Path | None,
    settings: ReaderSettings,
    *,
    verify: bool,
) -> OpenedFeatures:
    data = ReaderData(Path(folder), settings, verify=verify)
    found = inspect_tokenizer(tokenizer)
    design = design_for(data.stored, found, settings)
    dataset = None
    if evaluation is not None:
        dataset = QaDataset(Path(evaluation), memory=EVALUATION_BYTES, verify=verify)
        check_fits(dataset.stored, design, found.fingerprint, "the model")
    return OpenedFeatures(settings, found, data, design, dataset)
