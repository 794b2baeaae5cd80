"""Tables of the documentation that show what was measured.

In: `docs/measured/*.json`. Out: pages in which the table below `<!-- measured: NAME -->` is that of NAME.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from results import Results, Row, measured

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", ROOT / "docs" / "benchmarks.md"]
_TABLE = re.compile(r"^(?P<mark><!-- measured: (?P<name>[\w-]+) -->)\n+(?:\|.*\n)*\n*", re.MULTILINE)


def filled(page: str) -> str:
    """A page with its tables as they are now."""

    def table(found: re.Match[str]) -> str:
        name = found["name"]
        made = TABLES[name]() if name in TABLES else measured(name).table()
        return f"{found['mark']}\n\n{made}\n"

    return _TABLE.sub(table, page)


_STANDARD = "datasets + transformers + TRL"
_QA, _TEXT = {"tokenizer": "WordPiece"}, {"text": "480 MB", "threads": 1}
# The job, the benchmark, what both rows have in common, the key that differs, the peer.
_JOBS = [
    ("clean, exact dedup, tokenise, pack 108 MB", "preprocess", {}, "program", _STANDARD),
    ("near-duplicates by MinHash, tokenise 108 MB", "preprocess", {}, "program", "datatrove"),
    ("the first job on a million short documents", "seed_scale", {"documents": 10**6}, "program", _STANDARD),
    ("read, clean, exact dedup, write 500 MB of text", "clean_text", {}, "program", "Hugging Face datasets"),
    ("features for question answering, WordPiece", "qa", _QA, "program", "Hugging Face"),
    ("train a tokenizer of 32,000 tokens on 480 MB", "train_tokenizer", _TEXT, "trainer", "gigabpe"),
    ("encode 480 MB with it", "encode", {"threads": 1}, "encoder", "gigatoken"),
    ("train a model of 1.4 million parameters", "train", {}, "program", "PyTorch compiled"),
]


def ratios() -> str:
    """What a reader wants to know first: how much more others take, for each job."""
    lines = ["| job | beside Krill | time | peak memory |", "| --- | --- | --- | --- |"]
    for job, name, where, key, peer in _JOBS:
        found = measured(name)
        theirs = next(row for row in found.rows if {**where, key: peer}.items() <= row.items())
        same = {**where, **({"job": theirs["job"]} if "job" in theirs else {}), key: "Krill"}
        # Of several budgets, the smallest, which comes last.
        ours = [row for row in found.rows if same.items() <= row.items()][-1]
        time = theirs.get("times") or theirs.get("faster") or _slower(ours, theirs)
        memory = theirs.get("times_peak") or theirs["peak"] / ours["peak"]
        lines.append(f"| {job} | {peer} | {_ratio(time)} | {_ratio(memory)} |")
    return "\n".join(lines) + "\n"


def _slower(ours: Row, theirs: Row) -> float:
    if "seconds" in ours:
        return float(theirs["seconds"] / ours["seconds"])
    return float(ours["rate"] / theirs["rate"])


def _ratio(value: float) -> str:
    """Two digits, and whole numbers above ten."""
    return f"{value:.0f}x" if value >= 10 else f"{value:.2g}x" if value < 1 else f"{value:.1f}x"


def pivoted(name: str, across: str, threads: int) -> str:
    """Rates by tokenizer, a column for each encoder."""
    found = measured(name)
    rows = [row for row in found.rows if row["threads"] == threads]
    encoders = list(dict.fromkeys(row[across] for row in rows))
    lines = [f"| tokenizer | {' | '.join(encoders)} |", "| --- " * (len(encoders) + 1) + "|"]
    for tokenizer in dict.fromkeys(row["tokenizer"] for row in rows):
        by = {row[across]: f"{row['rate']:,.0f}" for row in rows if row["tokenizer"] == tokenizer}
        lines.append(f"| {tokenizer} | {' | '.join(by.get(encoder, '-') for encoder in encoders)} |")
    return "\n".join(lines) + "\n"


def held() -> str:
    """What encoders of families hold when they are loaded, and Krill's cache."""
    found = measured("encode_families")
    columns = [column for column in found.columns if column.key not in ("threads", "rate")]
    rows = [row for row in found.rows if row["threads"] == 1]
    return Results(found.name, columns, found.command, rows=rows).table()


TABLES: dict[str, Callable[[], str]] = {
    "ratios": ratios,
    "encode_families-1": partial(pivoted, "encode_families", "encoder", 1),
    "encode_families-2": partial(pivoted, "encode_families", "encoder", 2),
    "encode_families-held": held,
}
