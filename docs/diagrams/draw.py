"""The diagrams of docs/architecture.md and CONTRIBUTING.md: `python docs/diagrams/draw.py` writes them anew.

In: nothing. Out: `shapes.svg` and `way.svg` beside this file, plain SVG without scripts, fonts or links, so
that a page loads nothing from elsewhere. A test compares them with what this file draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

LINE = 17
COLOURS = {
    "run": ("#e8f0fe", "#3367d6"),
    "stage": ("#e6f4ea", "#188038"),
    "engine": ("#fef7e0", "#b06000"),
    "disk": ("#f1f3f4", "#5f6368"),
    "plain": ("#ffffff", "#5f6368"),
}


def text(x: float, y: float, content: str, *, bold: bool = False, anchor: str = "middle") -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight}>{escape(content)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, title: str, *lines: str) -> str:
    """A box with a title and lines below it, all centred."""
    fill, edge = COLOURS[kind]
    middle = x + width / 2
    first = y + (height - LINE * (len(lines) + 1)) / 2 + 13
    return "\n".join(
        [
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}"'
            f' stroke="{edge}"/>',
            text(middle, first, title, bold=True),
            *(text(middle, first + LINE * (at + 1), line) for at, line in enumerate(lines)),
        ]
    )


def frame(x: float, y: float, width: float, height: float, kind: str, title: str) -> str:
    """A box around others, with its title in the corner."""
    fill, edge = COLOURS[kind]
    return "\n".join(
        [
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}"'
            f' stroke="{edge}"/>',
            text(x + 12, y + 20, title, bold=True, anchor="start"),
        ]
    )


def arrow(x: float, y: float, to_x: float, to_y: float, label: str = "", dy: float = -6) -> str:
    line = (
        f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" stroke="#202124" marker-end="url(#head)"/>'
    )
    return line + ("\n" + text((x + to_x) / 2, (y + to_y) / 2 + dy, label) if label else "")


def svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"'
        ' orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#202124"/></marker>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
            f' height="{height}" font-family="sans-serif" font-size="13" fill="#202124" role="img">',
            f"<title>{escape(title)}</title>",
            f"<defs>{head}</defs>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


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
        '<path d="M540,606 H875 V150 H832" fill="none" stroke="#202124" marker-end="url(#head)"/>',
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
    parts.append(
        box(
            556,
            58,
            170,
            128,
            "engine",
            "native/",
            "loops over every byte:",
            "C++, GIL released,",
            "called once per batch",
        )
    )
    return svg(760, bottom + 76, "A document's way through the packages", parts)


def main() -> None:
    folder = Path(__file__).parent
    (folder / "shapes.svg").write_text(shapes(), encoding="utf-8")
    (folder / "way.svg").write_text(way(), encoding="utf-8")


if __name__ == "__main__":
    main()
