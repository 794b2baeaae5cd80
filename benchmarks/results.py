"""What benchmarks measured: printed as a table while they run, kept as JSON, drawn as SVG.

In: rows of figures. Out: `docs/measured/NAME.json` and NAME.svg, from which the documentation has its tables
and charts (`make pictures`). Rows that a benchmark did not measure this time stay as they were, with their
own date. Set BENCH_RESULTS to another folder for a trial that is not to be kept.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from measured import Outcome

MEASURED = Path(__file__).resolve().parent.parent / "docs" / "measured"
Row = dict[str, Any]
"""Figures by the keys of columns and of what no table shows, and `date`; text where there is no figure."""


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
        shown = {column.key for column in self.columns}
        more = ", ".join(f"{key} {value}" for key, value in row.items() if key not in shown)
        print(f"{_line(column.cell(row) for column in self.columns)} {more}".rstrip(), flush=True)

    def save(self) -> None:
        """Write the figures and draw them."""
        from charts import CHARTS, draw

        folder = Path(os.environ.get("BENCH_RESULTS", MEASURED))
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.name}.json"
        self.machine = machine_in_words()
        whole = replace(self, rows=self._beside(load(file)) if file.exists() else self.rows)
        file.write_text(whole.to_json(), encoding="utf-8")
        if self.name in CHARTS and any(map(CHARTS[self.name].among, whole.rows)):
            file.with_suffix(".svg").write_text(draw(whole), encoding="utf-8")
        print(f"\n{file.name} in {folder.name}/ has these figures", flush=True)

    def _beside(self, kept: Results) -> list[Row]:
        """These rows in place of those that were measured again; the others with what was true of them."""

        def which(row: Row) -> tuple[Any, ...]:
            return tuple(row.get(key) for key in self.keys)

        facts = {key: getattr(kept, key) for key in ("command", "machine", "versions")}
        before = {key: fact for key, fact in facts.items() if fact != getattr(self, key)}
        again = {which(row): row for row in self.rows}
        stay = [again.pop(which(row), {**before, **row}) for row in kept.rows]
        return [*stay, *again.values()]

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


def again(
    name: str, *packages: str, columns: Sequence[Column] = (), keys: Sequence[str] = (), **versions: str
) -> Results:
    """Columns without rows, to be measured beside these installed packages.

    They are those of the file that was kept; `columns` and `keys` are for a benchmark of which none is.
    """
    file = MEASURED / f"{name}.json"
    if file.exists():
        kept = load(file)
        columns, keys = kept.columns, kept.keys
    installed = {package: version(package) for package in packages}
    return Results(name, columns, command_line(), {**installed, **versions}, keys=tuple(keys))


def figures(outcome: Outcome, *, beside: Outcome | None = None) -> Row:
    """Seconds and peak of a command; `beside` another one, also how many times that one's they are."""
    row: Row = {"seconds": outcome.seconds, "peak": outcome.peak / 1e6}
    if beside not in (None, outcome):
        row |= {"times": outcome.seconds / beside.seconds, "times_peak": outcome.peak / beside.peak}
    return row


def command_line() -> str:
    """What was typed, without the places of this machine."""
    words = ["PATH" if "/" in word else word for word in sys.argv[1:]]
    script, size = f"benchmarks/{Path(sys.argv[0]).name}", os.environ.get("BENCH_MB")
    return " ".join([*([f"BENCH_MB={size}"] if size else []), "python", script, *words])


def machine_in_words() -> str:
    """Cores that this process may use, memory, Python: enough to compare by, nothing that names a machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores, {platform.machine()}, {memory / 1e9:.0f} GB, Python {platform.python_version()}"


def _head(columns: Sequence[Column]) -> str:
    return _line(column.title for column in columns) + "\n" + _line("---" for _ in columns)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
