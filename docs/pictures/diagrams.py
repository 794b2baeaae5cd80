"""Diagrams of the documentation.

In: `run.json`, the facts of a real run, for the plan and the dataset's layout; nothing for the others. Out:
SVG. A test compares the files with what these functions draw.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from real_run import FACTS
from svg import LINE, arrow, box, frame, path, rectangle, svg, text


def shapes() -> str:
    """Stage, run and engine, and what passes between them."""
    stages = ["scan", "dedup", "encode", "pack", "shuffle"]
    parts = [
        frame(10, 10, 840, 290, "run", "Run: one command's work (storage/)"),
        text(430, 52, "identity, lock, start / continue / finished / refused, timing, manifest, publish"),
        frame(30, 70, 800, 130, "stage", "Pipeline: a list of stages, and a loop (pipeline/)"),
        *(box(50 + 156 * at, 104, 116, 32, "plain", name) for at, name in enumerate(stages)),
        *(arrow(166 + 156 * at, 120, 206 + 156 * at, 120) for at in range(4)),
        text(430, 162, "Stage: name, needs (bytes for the plan), tasks, missing, run, finish, describe"),
        text(430, 184, "what comes before a stage is given to its constructor"),
        frame(30, 212, 800, 76, "disk", "RunStorage"),
        box(150, 224, 210, 52, "plain", "a folder", "renamed into place"),
        box(374, 224, 210, 52, "plain", "an object store", "manifest last"),
        box(598, 224, 220, 52, "plain", "a growing folder", "used while it grows: trainings"),
        frame(10, 370, 840, 150, "engine", "Engine: starts workers, restarts lost ones (engines/)"),
        box(30, 404, 190, 52, "plain", "local", "threads of this process"),
        box(234, 404, 190, 52, "plain", "ray", "tasks of a Ray cluster"),
        box(438, 404, 190, 52, "plain", "datatrove", "ranks: local or Slurm"),
        box(642, 404, 190, 52, "plain", "--task I/N", "a rank started by hand"),
        text(430, 492, "all run the same worker on the same tasks"),
        box(320, 580, 220, 52, "disk", "commit log", "alone says what is done"),
        arrow(160, 300, 160, 368),
        text(170, 340, "a stage and its tasks", anchor="start"),
        arrow(430, 520, 430, 578),
        text(440, 554, "artifacts, then a record for each task", anchor="start"),
        path("M540,606 H875 V150 H832"),
        text(700, 598, "done? how much? (finish)"),
    ]
    return svg(900, 650, "The three shapes: stage, run and engine", parts)


WAY = [
    ("corpus/", "any source", "batches of documents,", "each with its position"),
    ("text/", "clean, filter, annotate", "fewer documents,", "each drop with a reason"),
    ("dedup/", "exact, Bloom, MinHash", "which documents", "survive"),
    ("tokenizer/", "encode", "ids, and the length", "of each document"),
    ("pack/", "wrapped, bfd, none", "rows of", "sequence_len"),
    ("dataset/", "shards, manifest", "a folder that load_from_disk", "opens"),
    ("loading/", "computed shuffle, resume", "batches of input_ids", "and labels"),
    ("training/", "step, loop, checkpoints", "a model", "(model/)"),
]
GROUND = ["errors", "budget/", "config/", "threads/", "storage/", "engines/"]


def way() -> str:
    """The packages that a document passes, in order, and what each hands on."""
    width, left, top, step = 190, 44, 58, 76
    parts = [
        frame(left - 24, 14, 720, 6 * step + 50, "stage", "pipeline/: stages of krill preprocess"),
        *(
            arrow(left + width / 2, top + step * at + 52, left + width / 2, top + step * (at + 1))
            for at in range(len(WAY) - 1)
        ),
    ]
    for at, (package, does, first, second) in enumerate(WAY):
        y = top + step * at + (40 if at > 5 else 0)
        parts.append(box(left, y, width, 52, "plain", package, does))
        parts.append(text(left + width + 18, y + 24, first + " " + second, anchor="start"))
    parts[1 + 5] = arrow(left + width / 2, top + step * 5 + 52, left + width / 2, top + step * 6 + 40)
    parts[1 + 6] = arrow(left + width / 2, top + step * 6 + 92, left + width / 2, top + step * 7 + 40)
    bottom = top + step * len(WAY) + 44
    parts.append(frame(20, bottom, 720, 62, "disk", "below all of them"))
    parts += [box(40 + 114 * at, bottom + 28, 106, 24, "plain", name) for at, name in enumerate(GROUND)]
    native = ("loops over every byte:", "C++, GIL released,", "called once per batch")
    parts.append(box(556, 58, 170, 128, "engine", "native/", *native))
    return svg(760, bottom + 76, "A document's way through the packages", parts)


STEPS = [
    ("scan", "read, clean, filter, hash", "too short, in another language,", "fails a filter"),
    ("resolve", "compare hashes", "duplicates and", "near-duplicates"),
    ("encode", "text to tokens", "fewer tokens than", "min_length"),
    ("pack", "tokens to rows", "the last short row", ""),
]


def pipeline() -> str:
    """The stages of `krill preprocess`, what each drops, and where work is kept between them."""
    left, width, step = 24, 250, 84
    parts = [
        box(left, 20, width, 44, "disk", "sources", "JSON lines, Parquet, text, URLs ..."),
        text(left + width + 44, 40, "dropped here, each with a reason", anchor="start", bold=True),
        text(left + width + 44, 40 + LINE, "that is named and counted", anchor="start", kind="soft"),
    ]
    y = 64.0
    for name, does, first, second in STEPS:
        parts += [
            arrow(left + width / 2, y, left + width / 2, y + 30),
            box(left, y + 30, width, step - 30, "stage", name, does),
            arrow(left + width, y + 57, left + width + 36, y + 57),
            text(left + width + 44, y + (53 if second else 62), first, anchor="start"),
            text(left + width + 44, y + 53 + LINE, second, anchor="start"),
        ]
        y += step
    parts += [
        arrow(left + width / 2, y, left + width / 2, y + 30),
        box(
            left,
            y + 30,
            width,
            62,
            "run",
            "dataset",
            "rows of sequence_len tokens,",
            "and krill-run.json, written last",
        ),
        frame(left + width + 44, y + 8, 290, 84, "disk", "commit log, on disk"),
        text(left + width + 56, y + 46, "every 32 MB of input, in each stage:", anchor="start"),
        text(left + width + 56, y + 46 + LINE, "a run that was killed goes on there", anchor="start"),
    ]
    title = "The stages of krill preprocess: scan, resolve, encode, pack, and what each drops"
    return svg(630, y + 112, title, parts, size=14)


def facts() -> dict[str, Any]:
    """What is known of the run that the pictures are of."""
    found: dict[str, Any] = json.loads(FACTS.read_text(encoding="utf-8"))
    return found


def megabytes(size: float) -> str:
    """As the command writes it: three digits."""
    return f"{size / 1e6:.3g} MB"


def plan() -> str:
    """How a budget is divided: what is always held, and on top of it the shares of each stage."""
    budget = facts()["budget"]
    shares, limit = budget["shares"], budget["limit"]
    always = sum(share["bytes"] for share in shares if share["during"] == "always")
    stages = sorted({share["during"]: None for share in shares}, key=_order)
    left, top = 20, 100.0
    scale = (_PLAN_WIDTH - 2 * left) / limit
    heading = f"A budget of {megabytes(limit)}, as a run has divided it"
    parts = [
        text(left, 32, heading, bold=True, anchor="start", size=16),
        text(left, 54, "One stage runs after the other, and may use what the program leaves", anchor="start"),
    ]
    y = top
    for stage in stages[1:]:
        own = [share for share in shares if share["during"] == stage]
        named = ", ".join(f"{share['name']} {megabytes(share['bytes'])}" for share in own)
        parts += [
            text(left, y + 12, stage, anchor="start", bold=True),
            *_bar(budget, always, own, scale, y + 20),
        ]
        parts.append(text(left, y + 56, named, anchor="start", kind="soft", size=12))
        y += 72
    parts += _plan_levels(budget, left, scale, top - 12, y + 8)
    y += 36
    for kind, words in (
        ("base", f"the program and its libraries: {megabytes(budget['base'])}"),
        ("always", f"held in all stages, such as the block being read: {megabytes(always)}"),
        ("ours", "what the stage may take at most, by part"),
    ):
        parts += [rectangle(left, y - 11, 14, 14, kind), text(left + 22, y, words, anchor="start")]
        y += LINE + 5
    return svg(_PLAN_WIDTH, y, heading, parts, size=14)


_PLAN_WIDTH = 600
_STAGES_IN_ORDER = ("always", "start", "scan", "resolve", "text", "encode", "pack", "shuffle", "examples")


def _order(stage: str) -> int:
    return _STAGES_IN_ORDER.index(stage)


def _bar(
    budget: dict[str, Any], always: int, own: Sequence[dict[str, Any]], scale: float, y: float
) -> list[str]:
    """A stage: the program, what is always held, and each of its shares."""
    pieces = [("base", budget["base"]), ("always", always)] + [("ours", share["bytes"]) for share in own]
    parts, x = [], 20.0
    for kind, size in pieces:
        # A gap between two shares shows where one ends.
        parts.append(rectangle(round(x, 1), y, round(max(1.0, scale * size - 1.5), 1), 20, kind))
        x += scale * size
    for level in ("limit", "predicted_peak", "measured_peak"):
        x = round(20 + scale * budget[level], 1)
        parts.append(path(f"M{x:g},{y - 5:g} V{y + 25:g}", kind="budget", head=False))
    return parts


def _plan_levels(budget: dict[str, Any], left: float, scale: float, top: float, bottom: float) -> list[str]:
    """What the lines across the bars are: the budget above, the prediction and the peak below."""
    peaks = sorted(
        (budget[key], name) for key, name in (("predicted_peak", "predicted"), ("measured_peak", "measured"))
    )
    levels = [
        (budget["limit"], "budget", "end", top),
        (*peaks[0], "end", bottom),
        (*peaks[1], "start", bottom),
    ]
    return [
        text(round(left + scale * size, 1), y, f"{name} {megabytes(size)}", anchor=anchor, kind="budget-text")
        for size, name, anchor, y in levels
    ]


_ROLES = {
    "data-00000.arrow": "rows of tokens, an Arrow stream",
    "dataset_info.json": "for Hugging Face datasets",
    "state.json": "for Hugging Face datasets",
    "examples.jsonl": "examples of what was dropped",
    "krill-run.json": "the manifest, written last",
}


def layout() -> str:
    """The folder of a dataset, its shard, a record batch, a row."""
    run = facts()
    parts = [
        text(20, 32, "A dataset on disk, from the folder to a row", bold=True, anchor="start", size=16),
        frame(20, 50, 560, 44 + 22 * len(run["files"]), "disk", "dataset/"),
    ]
    y = 94.0
    for name, size in run["files"].items():
        parts += [
            text(44, y, name, anchor="start"),
            text(286, y, file_size(size), anchor="end"),
            text(304, y, _ROLES[name], anchor="start", kind="soft"),
        ]
        y += 22
    shard, batch = run["shard"], run["rows_per_batch"]
    y += 18
    parts += [
        path(f"M60,{y - 12:g} V{y + 10:g}"),
        text(
            72,
            y + 4,
            f"{shard['file']}: {shard['rows']:,} rows in {shard['batches']:,} record batches of {batch:,}",
            anchor="start",
        ),
        *_cells(y + 18, ["batch 0", "batch 1", "batch 2", "...", f"batch {shard['batches'] - 1:,}"], "stage"),
        path(f"M60,{y + 60:g} V{y + 82:g}"),
        text(
            72,
            y + 76,
            f"a row: {run['sequence_len']:,} tokens ({run['token_dtype']}), never padded",
            anchor="start",
        ),
    ]
    y += 92
    parts += _row(run, y)
    y += 84
    parts += [
        text(
            20,
            y,
            "seq_lengths says where documents begin. The manifest has the place of every",
            anchor="start",
        ),
        text(20, y + LINE + 2, "batch: any row is one small read.", anchor="start"),
    ]
    return svg(
        600, y + 40, "A dataset on disk: files, record batches, rows, documents in a row", parts, size=14
    )


def _cells(y: float, names: Sequence[str], kind: str) -> list[str]:
    width = 560 / len(names)
    return [
        part
        for at, name in enumerate(names)
        for part in (
            rectangle(20 + width * at, y, width, 32, kind),
            text(20 + width * (at + 0.5), y + 21, name),
        )
    ]


def _row(run: dict[str, Any], y: float) -> list[str]:
    """A row of the run, its documents as wide as they are long."""
    parts, x = [], 20.0
    lengths = run["row"]["seq_lengths"]
    for at, length in enumerate(lengths):
        width = 560 * length / run["sequence_len"]
        parts.append(rectangle(round(x, 1), y, round(width, 1), 32, ("first", "second", "third")[at % 3]))
        if width > 40:
            parts.append(text(round(x + width / 2, 1), y + 21, f"{length:,}"))
        x += width
    parts.append(path(f"M20,{y:g} H580 V{y + 32:g} H20 Z", head=False))
    listed = ", ".join(f"{length:,}" for length in lengths)
    parts.append(text(20, y + 54, f"row {run['row']['number']:,}: seq_lengths = [{listed}]", anchor="start"))
    return parts


def file_size(size: int) -> str:
    """Three digits and a unit."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.3g} kB" if size < 999_500 else megabytes(size)


DIAGRAMS = {"shapes": shapes, "way": way, "pipeline": pipeline, "plan": plan, "layout": layout}
