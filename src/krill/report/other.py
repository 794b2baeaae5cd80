"""The page of a run of another kind: question answering, and what this version does not know.

In: a run. Out: its sections: all its counts, memory, time, config. Held in memory: their rows.
"""

from __future__ import annotations

from krill.report.common import (
    budget_notes,
    config_section,
    memory_section,
    run_facts,
    status_notes,
    time_section,
)
from krill.report.parts import Facts, PageSection, Table, bar, count
from krill.report.runs import ReportedRun

_KNOWN = ("format", "seconds")


def other_sections(run: ReportedRun) -> list[PageSection]:
    overview = PageSection("overview", "Overview", status_notes(run))
    figures = [
        (name.replace("_", " "), f"{value:,.6g}")
        for name, value in run.figures.values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and name not in _KNOWN
    ]
    overview.parts += [Facts(run_facts(run) + figures), *budget_notes(run)]
    for name in ("counts", "figures", "scores"):
        counts = list(run.figures.inner(name, wanted=False).counts())
        most = max((value for _, value in counts), default=0)
        if counts:
            rows = [(label.replace("_", " "), count(value), bar(value, most)) for label, value in counts]
            overview.parts.append(Table(name.capitalize(), ("what", "how many", "as a bar"), rows))
    sections = [overview, memory_section(run), time_section(run), config_section(run)]
    return [section for section in sections if section.parts]
