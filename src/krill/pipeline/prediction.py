"""What a run will take, from a sample of its input: documents, tokens, disk, output, time.

In: the config, the corpus and a `Sample`. Out: a `Prediction`, which `krill estimate` prints and a run keeps
beside what it measures. Held in memory: a few numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from krill.config import KrillConfig
from krill.corpus import Corpus
from krill.pipeline.dedup_needs import compared, dedup_disk
from krill.pipeline.needs import InputSizes, scans, sizes_of, spills_text
from krill.pipeline.sampling import Sample

# Bytes per second and thread, measured on the machine in docs/benchmarks.md: packing reads and writes token
# runs; resolving exact duplicates takes 16 bytes a document, MinHash eight for each band.
_PACK_RATE = 800e6
_RESOLVE_RATE = 60e6
_START_SECONDS = 0.8


@dataclass(frozen=True, slots=True)
class Prediction:
    """About what a run reads, keeps, writes, and how long its stages take."""

    sizes: InputSizes
    documents: int
    tokens: int
    spill_bytes: int
    output_bytes: int
    stages: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """All stages, and the start of the program."""
        return _START_SECONDS + sum(self.stages.values())

    def to_json(self) -> dict[str, Any]:
        """For `--json` and the manifest."""
        return {
            "text_bytes": self.sizes.text_bytes,
            "documents": self.documents,
            "tokens": self.tokens,
            "spill_bytes": self.spill_bytes,
            "output_bytes": self.output_bytes,
            "seconds": round(self.seconds, 1),
            "stages": {name: round(seconds, 2) for name, seconds in self.stages.items()},
        }


def predict(
    config: KrillConfig,
    corpus: Corpus,
    sample: Sample,
    threads: int,
    token_width: int,
    workers: int = 1,
) -> Prediction:
    """Scale what was seen to the whole of the input; each of the workers has so many threads."""
    settings = config.preprocess
    sizes = sample.sizes(sizes_of(corpus))
    text = sizes.text_bytes
    documents = int(text * sample.per_byte("documents"))
    tokens = int(text * sample.per_byte("tokens"))
    compressed = int(text * sample.per_byte("spilled_bytes"))
    token_bytes = tokens * token_width
    deduplicating = settings.dedup.method != "none"
    spilling = scans(config, corpus) and spills_text(config, corpus)
    kept_text = int(text * sample.per_byte("text_bytes"))
    pieces = documents if settings.dedup.level == "document" else compared(settings.dedup, kept_text)
    noted = dedup_disk(settings.dedup, pieces, kept_text)
    spill = noted + (compressed if spilling else 0) + token_bytes
    if settings.shuffle:
        spill += token_bytes
    output = token_bytes + (compressed if settings.output != "tokens" else 0)
    if settings.rejected:
        dropped = 1 - sample.documents / sample.records if sample.records else 0.0
        spill += int(dropped * compressed)
        output += int(dropped * compressed)

    def seconds(*names: str) -> float:
        return sum(text * sample.per_byte(f"{name}_seconds") for name in names) / (threads * workers)

    stages = {}
    again = () if spilling else ("scan",)
    if scans(config, corpus):
        stages["scan"] = seconds("scan", "minhash", *(("spill",) if spilling else ()))
    if deduplicating:
        shared = settings.dedup.method != "bloom" and settings.dedup.verify is None
        stages["resolve"] = noted / _RESOLVE_RATE / (workers if shared else 1)
    if settings.output != "tokens":
        stages["text"] = seconds("spill", *again)
    if settings.output != "text":
        stages["encode"] = seconds("encode", *again)
        stages["pack"] = token_bytes / _PACK_RATE / (threads * workers)
    return Prediction(sizes, documents, tokens, spill, output, stages)
