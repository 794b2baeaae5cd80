"""`make pictures`: every picture of the documentation, and the tables of what was measured.

    python docs/pictures/draw.py                # all, with a run of a minute and Chromium
    python docs/pictures/draw.py drawn          # what needs neither: diagrams, charts, tables

In: the repository. Out: `docs/pictures/`, the charts in `docs/measured/`, tables in README.md and `docs/`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))

import charts  # noqa: E402
import diagrams  # noqa: E402
import real_run  # noqa: E402
import screenshots  # noqa: E402
import tables  # noqa: E402
import terminal  # noqa: E402


def taken() -> None:
    """Pictures of a real run: its terminal and its report."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        printed = real_run.make(folder)
        drawn = terminal.draw("krill preprocess config.yaml", printed)
        (HERE / "terminal.svg").write_text(drawn, encoding="utf-8")
        views = [
            screenshots.View("documents", "Repaired", HERE / "report.webp"),
            screenshots.View("memory", "The plan", HERE / "report-memory.webp"),
        ]
        screenshots.take(folder / "report.html", views)


def drawn() -> None:
    """What is drawn from what was kept."""
    for name, draw in diagrams.DIAGRAMS.items():
        (HERE / f"{name}.svg").write_text(draw(), encoding="utf-8")
    charts.main()
    for page in tables.PAGES:
        page.write_text(tables.filled(page.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> None:
    """All, or only what is drawn."""
    if sys.argv[1:] not in ([], ["drawn"]):
        sys.exit("usage: python docs/pictures/draw.py [drawn]")
    if not sys.argv[1:]:
        taken()
    drawn()


if __name__ == "__main__":
    main()
