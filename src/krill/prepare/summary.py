"""What a run says of itself at its end: the same facts on screen, as JSON, and in `krill-run.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from krill.shards import Manifest

# Counts that are reasons why a document was dropped, in the order in which a document meets them.
REASONS = {
    "malformed": "malformed records",
    "oversize": "longer than max_document_bytes",
    "not_text": "no text (missing or not a string)",
    "too_short": "fewer than min_chars characters",
    "duplicate": "duplicates",
    "too_few_tokens": "fewer than min_length tokens",
}
# Counts of documents that were mended or cut, and kept.
NOTES = {
    "oversize_split": "documents split at max_document_bytes",
    "invalid_utf8": "documents with invalid UTF-8 removed",
    "surrogates_removed": "documents with lone surrogates removed",
}


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a run; `status` is "done", or "finished" if an earlier run had done everything."""

    output: Path
    status: str
    manifest: Manifest

    def to_json(self) -> dict[str, Any]:
        """For `--json`: the manifest without its long lists."""
        manifest = self.manifest.to_json()
        for part in ("dataset", "text"):
            if manifest.get(part):
                manifest[part] = {**manifest[part], "shards": len(manifest[part]["shards"])}
        manifest["inputs"] = len(manifest["inputs"])
        return {"output": str(self.output), "status": self.status, **manifest}


def document_counts(counts: Mapping[str, int], kept: int) -> dict[str, Any]:
    """Documents read, kept, dropped by reason, and mended."""
    dropped = {name: counts[name] for name in REASONS if counts.get(name)}
    notes = {name: counts[name] for name in NOTES if counts.get(name)}
    return {"read": kept + sum(dropped.values()), "kept": kept, "dropped": dropped, "notes": notes}
