"""The page of a run of another kind: question answering, and what this version does not know.

In: a run. Out: its sections: all its counts, memory, time, config. Held in memory: their rows.
"""

from __future__ import annotations

from krill.report.common import overview_section, resource_sections
from krill.report.parts import PageSection, Table, bar, count
from krill.report.runs import ReportedRun

_KNOWN = ("format", "seconds")


def other_sections(run: ReportedRun) -> list[PageSection]:
    figures = [
        (name.replace("_", " "), f"{value:,.6g}")
        for name, value in run.figures.values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and name not in _KNOWN
    ]
    overview = overview_section(run, figures)
    for name in ("counts", "figures", "scores"):
        counts = list(run.figures.inner(name, wanted=False).counts())
        most = max((value for _, value in counts), default=0)
        if counts:
            rows = [(label.replace("_", " "), count(value), bar(value, most)) for label, value in counts]
            overview.parts.append(Table(name.capitalize(), ("what", "how many", "as a bar"), rows))
    sections = [overview, *resource_sections(run)]
    return [section for section in sections if section.parts]
