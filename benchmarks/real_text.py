"""Corpora of any size, grown from real text. Tests use them as well."""

from __future__ import annotations

import gzip
import json
import sysconfig
from collections.abc import Iterator
from itertools import count
from pathlib import Path

SHARED_DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SAMPLE = SHARED_DATA / "docs_sample.jsonl.gz"


def real_texts() -> Iterator[str]:
    """Markdown in ten-odd languages, or the standard library's own sources where the sample is absent."""
    if SAMPLE.exists():
        with gzip.open(SAMPLE, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)["text"]
    else:
        for source in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
            yield source.read_text(encoding="utf-8", errors="replace")


def grow_jsonl(path: Path, size: int) -> Path:
    """A JSON-lines file of at least `size` bytes: real documents, each round made different from the last."""
    texts = list(real_texts())
    written = 0
    with path.open("wb") as file:
        for round_number in count():
            for number, text in enumerate(texts):
                # One document in ten repeats exactly, so that there are duplicates to find.
                mark = "" if number % 10 == 0 else f" ({round_number})"
                line = json.dumps({"id": number, "text": text + mark}, ensure_ascii=number % 2 == 0)
                written += file.write(line.encode() + b"\n")
                if written >= size:
                    return path
    raise AssertionError("unreachable")
