"""What benchmarks measured: printed as a table while they run, kept as JSON, drawn as SVG.

In: rows of figures. Out: `docs/measured/NAME.json` and NAME.svg, from which the documentation has its tables
and charts (`make pictures`). Rows that a benchmark did not measure this time stay as they were, with their
own date. Set BENCH_RESULTS to another folder for a trial that is not to be kept.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).resolve().parent.parent / "docs" / "measured"
Row = dict[str, Any]
"""Figures by the keys of columns, and `date`, when they were measured; text where there is no figure."""


@dataclass(frozen=True)
class Column:
    """A column: the key of its figures, its heading, and how a figure is written."""

    key: str
    title: str
    form: str = ""
    unit: str = ""

    def cell(self, row: Row) -> str:
        """What stands in a row of the table."""
        value = row.get(self.key)
        if value is None:
            return ""
        return value if isinstance(value, str) else f"{value:{self.form}}{self.unit}"


SECONDS = Column("seconds", "seconds", ",.1f")
RATE = Column("rate", "MB/s", ",.1f")
PEAK = Column("peak", "peak", ",.0f", " MB")
TIMES = Column("times", "time / Krill's", ",.1f", "x")
TIMES_PEAK = Column("times_peak", "peak / Krill's", ",.1f", "x")


@dataclass
class Results:
    """The figures of one benchmark; `add` prints each row as it is measured, `save` keeps all."""

    name: str
    columns: Sequence[Column]
    command: str
    versions: dict[str, str] = field(default_factory=dict)
    machine: str = ""
    rows: list[Row] = field(default_factory=list)
    keys: tuple[str, ...] = ()
    """The columns that say which row it is: a row with the same replaces the one that was kept."""

    def add(self, **figures: Any) -> None:
        """A row, printed; before the first one the head of the table."""
        if not self.rows:
            print(_head(self.columns), flush=True)
        row = {key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()}
        self.rows.append({**row, "date": datetime.now(UTC).date().isoformat()})
        print(_line(column.cell(row) for column in self.columns), flush=True)

    def save(self) -> None:
        """Write the figures and draw them."""
        from charts import CHARTS, draw

        folder = Path(os.environ.get("BENCH_RESULTS", MEASURED))
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.name}.json"
        kept = load(file) if file.exists() else self
        merged = Results(
            self.name,
            self.columns,
            self.command,
            {**kept.versions, **self.versions},
            machine_in_words(),
            [*_merged(kept.rows, self.rows, self.keys)],
            self.keys,
        )
        file.write_text(merged.to_json(), encoding="utf-8")
        if self.name in CHARTS:
            file.with_suffix(".svg").write_text(draw(merged), encoding="utf-8")
        print(f"\n{file.name} in {folder.name}/ has these figures", flush=True)

    def to_json(self) -> str:
        """JSON with a line for each column and row, for diffs that can be read."""
        head = {
            key: getattr(self, key)
            for key in ("name", "command", "machine", "versions")
            if getattr(self, key)
        }
        columns = [{key: value for key, value in vars(column).items() if value} for column in self.columns]
        lists = {"keys": list(self.keys), "columns": columns, "rows": self.rows}
        parts = [f' "{key}": {json.dumps(value, ensure_ascii=False)}' for key, value in head.items()]
        for key, values in lists.items():
            lines = ",\n".join(f"  {json.dumps(value, ensure_ascii=False)}" for value in values)
            parts.append(f' "{key}": [\n{lines}\n ]' if values else f' "{key}": []')
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def table(self) -> str:
        """The rows as Markdown; what the first column has in common with the row before is left out."""
        lines, before = [_head(self.columns)], ""
        for row in self.rows:
            first, *others = (column.cell(row) for column in self.columns)
            lines.append(_line(["" if first == before else first, *others]))
            before = first
        return "\n".join(lines) + "\n"


def load(file: Path) -> Results:
    """What was kept."""
    kept = json.loads(file.read_text(encoding="utf-8"))
    columns = [Column(**column) for column in kept.pop("columns")]
    return Results(columns=columns, **{**kept, "keys": tuple(kept["keys"])})


def measured(name: str) -> Results:
    """What the documentation shows of a benchmark."""
    return load(MEASURED / f"{name}.json")


def versions_of(*packages: str) -> dict[str, str]:
    """The installed versions of peers."""
    return {package: version(package) for package in packages}


def machine_in_words() -> str:
    """Cores that this process may use, memory, Python: enough to compare by, nothing that names a machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores, {platform.machine()}, {memory / 1e9:.0f} GB, Python {platform.python_version()}"


def _merged(kept: Sequence[Row], new: Sequence[Row], keys: Sequence[str]) -> Iterable[Row]:
    def which(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(key) for key in keys)

    measured_now = {which(row): row for row in new}
    for row in kept:
        yield measured_now.pop(which(row), row)
    yield from measured_now.values()


def _head(columns: Sequence[Column]) -> str:
    return _line(column.title for column in columns) + "\n" + _line("---" for _ in columns)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
