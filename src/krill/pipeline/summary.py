"""What a run says of itself at its end: the same facts on screen, as JSON, and in `krill-run.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from krill.corpus.pages import PAGE_REASONS
from krill.dataset import Manifest
from krill.storage.run import RunSummary
from krill.text.build import KEYS, REASONS
from krill.text.language import DROPPED_IN

# Counts that are reasons why a document was dropped, in the order in which a document meets them; what the
# steps name stands between.
_BEFORE_STEPS = {
    "malformed": "malformed records",
    **PAGE_REASONS,
    "oversize": "longer than max_document_bytes",
    "not_text": "no text (missing or not a string)",
    "too_short": "fewer than min_chars characters",
}
_AFTER_STEPS = {
    "duplicate": "duplicates",
    "too_few_tokens": "fewer than min_length tokens",
    "too_many_tokens": "more than max_length tokens",
    "over_max_tokens": "beyond max_tokens of their source",
    "longer_than_row": "longer than sequence_len tokens",
    "untrained": "nothing to learn",
}
REASONS_BY_STAGES = {**_BEFORE_STEPS, **_AFTER_STEPS}
_KEYS_OF_STAGES = {
    "oversize": "max_document_bytes",
    "too_short": "min_chars",
    "duplicate": "dedup.method",
    "too_few_tokens": "min_length",
    "too_many_tokens": "max_length",
    "longer_than_row": "sequence_len",
}
# Counts of documents that were mended or cut, and kept.
NOTES = {
    "oversize_split": "documents split at max_document_bytes",
    "page_stripped": "pages with too many elements, stripped of their tags",
    "invalid_utf8": "documents with invalid UTF-8 removed",
    "surrogates_removed": "documents with lone surrogates removed",
    "text_repaired": "documents mended by ftfy",
    "control_chars_removed": "documents with control characters removed",
    "lines_removed": "documents with lines removed",
    "pieces_removed": "lines or paragraphs that stood before removed",
    "cut_into_rows": "documents longer than a row, cut into several",
    "cut_to_row": "conversations longer than a row, cut to fit",
    "turns_left_out": "turns not learned, which the template writes otherwise than a model is asked for them",
    "control_as_text": "conversations with control tokens of their own, encoded as text",
}
# Counts of what a reader saw, which say nothing about what became of a document.
_SEEN = ("records", "key_seen")


def describe_reason(name: str) -> str:
    from krill.chat.options import REASONS as CHAT_REASONS

    if name.startswith("step:"):
        return f"dropped by your step {name.removeprefix('step:')}"
    return {**CHAT_REASONS, **REASONS, **REASONS_BY_STAGES}.get(name, name)


def deciding_key(reason: str) -> str | None:
    """The key below `preprocess` whose value decides that documents are dropped for this reason; `FILTER.KEY`
    is one of a filter's."""
    return {**KEYS, **_KEYS_OF_STAGES}.get(reason)


Summary = RunSummary[Manifest]


def summarize_dataset(status: str, output: Path | str, manifest: Manifest) -> Summary:
    """The facts are the manifest without its long lists."""
    facts = manifest.to_json()
    for part in ("dataset", "validation", "text", "rejected"):
        if facts.get(part):
            facts[part] = {**facts[part], "shards": len(facts[part]["shards"])}
    for files in ("inputs", "against"):
        facts[files] = len(facts.get(files, ()))
    return RunSummary(status, output, manifest, facts)


def document_counts(counts: Mapping[str, int], kept: int, steps: Sequence[str] = ()) -> dict[str, Any]:
    """Documents read, kept, dropped by reason, and mended; reasons stand in the order in which a document
    meets them, `steps` are those that its steps name."""
    known = (*_AFTER_STEPS, *NOTES, *_SEEN)
    before = [name for name in _BEFORE_STEPS if name not in steps]
    met = [name for name in (*steps, *counts) if name not in known and not name.startswith(DROPPED_IN)]
    order = dict.fromkeys((*before, *met, *_AFTER_STEPS))
    dropped = {name: counts[name] for name in order if counts.get(name)}
    notes = {name: counts[name] for name in NOTES if counts.get(name)}
    return {"read": kept + sum(dropped.values()), "kept": kept, "dropped": dropped, "notes": notes}


def dropped_languages(counts: Mapping[str, int]) -> dict[str, int]:
    """In which languages the documents were that the filter of languages dropped, most frequent first."""
    found = {name: number for name, number in counts.items() if name.startswith(DROPPED_IN)}
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return {name.removeprefix(DROPPED_IN): number for name, number in ordered}


def describe_counts(documents: Mapping[str, Any]) -> str:
    """Why documents were dropped, and how many were mended, in one line."""
    why = [f"{count:,} {describe_reason(name)}" for name, count in documents["dropped"].items()]
    why += [f"{count:,} {NOTES.get(name, name)}" for name, count in documents["notes"].items()]
    return ", ".join(why)
