"""Sections that every kind of run has: memory against the budget, where the seconds went, the config.

In: a run. Out: sections of a page. Held in memory: their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import orjson

from krill.budget import format_size
from krill.budget.plan import memory_flag
from krill.report.charts import Axis, ReferenceLine, Span, line_chart
from krill.report.figures import Figures
from krill.report.parts import (
    Cell,
    Facts,
    Line,
    Note,
    PageSection,
    Part,
    Table,
    Value,
    bar,
    count,
    duration,
    number_text,
    percent,
    rate,
    seconds,
    share,
    size,
)
from krill.report.runs import ReportedRun

SECONDS: Final = Axis("seconds since the start", "seconds")
BYTES: Final = Axis("memory", "bytes")
_MOST_ROWS: Final = 500
_LONGEST_VALUE: Final = 300
_RATES: Final = 50
_ALWAYS: Final = "always"


def status_notes(run: ReportedRun) -> list[Part]:
    """What is out of the ordinary: unfinished, another version, figures that are missing or wrong."""
    from krill import __version__

    notes: list[Part] = []
    if run.state == "unfinished":
        done = ", ".join(f"{name} {units:,}" for name, units in run.units.items())
        so_far = f" Tasks committed so far: {done}." if done else ""
        notes.append(
            Note(
                f"This run is not finished: it was stopped, or it is at work.{so_far} The same command"
                " continues it; figures that come at the end are missing below.",
                warns=True,
            )
        )
    if run.replaced:
        notes.append(Note("A run that will replace this output has begun, and is not finished.", warns=True))
    version = run.figures.text("krill", wanted=False)
    if version not in (None, __version__):
        notes.append(Note(f"Made by Krill {version}; this report was made by {__version__}."))
    return notes


def fault_notes(run: ReportedRun) -> list[Part]:
    """Figures that the sections wanted and did not find: known once they are made."""
    if run.state == "unfinished":
        return []
    facts = "; ".join(run.figures.notes)
    return [Note(f"The run's files are not as they should be: {facts}.", warns=True)] if facts else []


def run_facts(run: ReportedRun) -> list[tuple[str, str]]:
    """What the heading of every run says."""
    facts = [("command", f"krill {run.command}"), ("output", run.path), ("state", run.state)]
    taken = run.figures.number("seconds", wanted=False)
    if taken is not None:
        facts.append(("time", duration(taken)))
    budget = run.figures.inner("budget", wanted=False)
    peak, limit = (budget.count(name, wanted=False) for name in ("measured_peak", "limit"))
    if peak is not None and limit:
        facts.append(("memory", f"{format_size(peak)} of {format_size(limit)} ({percent(peak / limit)})"))
    return facts


def overview_section(run: ReportedRun, facts: Iterable[tuple[str, str]]) -> PageSection:
    """What a page begins with; `facts` follow those of every run."""
    section = PageSection("overview", "Overview", status_notes(run))
    section.parts += [Facts([*run_facts(run), *facts]), *budget_notes(run)]
    return section


def named_figures(run: ReportedRun, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Those of the run's figures that are there, in words."""
    for name in names:
        value = run.figures.number(name, wanted=False)
        if value is not None:
            yield name.replace("_", " "), number_text(value)


def resource_sections(run: ReportedRun) -> list[PageSection]:
    """What a page ends with: memory, time, and the config."""
    return [memory_section(run), time_section(run), config_section(run)]


def memory_section(run: ReportedRun) -> PageSection:
    """Memory over time against the budget, the plan's shares, the prediction and the peak."""
    budget = run.figures.inner("budget", wanted=run.state == "finished")
    section = PageSection("memory", "Memory")
    limit, peak = budget.count("limit", wanted=False), budget.count("measured_peak", wanted=False)
    predicted = budget.count("predicted_peak", wanted=False)
    figures = {"budget": limit, "predicted peak": predicted, "measured peak": peak}
    figures["all processes (PSS)"] = budget.count("tree_pss", wanted=False)
    facts = [(name, format_size(value)) for name, value in figures.items() if value is not None]
    threads = budget.count("threads", wanted=False)
    facts += [] if threads is None else [("threads", f"{threads:,}")]
    section.parts += [Facts(facts)] if facts else []
    section.parts += budget_notes(run)
    section.parts.append(_memory_chart(run, limit, predicted))
    section.parts += _stage_peaks(run)
    section.parts += _shares(budget)
    return section


def budget_notes(run: ReportedRun) -> list[Part]:
    """Whether the budget was kept, and which one would have done."""
    budget = run.figures.inner("budget", wanted=False)
    limit, peak = budget.count("limit", wanted=False), budget.count("measured_peak", wanted=False)
    least = budget.count("least", wanted=False)
    if not limit or peak is None:
        return []
    if peak > limit:
        fact = f"The run held {format_size(peak)}, over its budget of {format_size(limit)}"
        return [Note(f"{fact}; its output is whole, its plan was wrong.", warns=True)]
    held = f"The run held at most {format_size(peak)}, {percent(peak / limit)} of its budget."
    if not least:
        return [Note(f"{held} `krill estimate CONFIG` says the smallest budget that is enough.")]
    return [Note(f"{held} With the same number of threads, `{memory_flag(least)}` would have been enough.")]


def _memory_chart(run: ReportedRun, limit: int | None, predicted: int | None) -> Part:
    samples = list(timeline_samples(run.timeline))
    if not samples:
        return Note(f"There is no chart of memory over time: {_why_missing(run)}.")
    levels = [] if limit is None else [ReferenceLine(f"budget {format_size(limit)}", limit)]
    levels += [] if predicted is None else [ReferenceLine(f"predicted {format_size(predicted)}", predicted)]
    lines = [Line("memory held", [(at, held) for at, held, _ in samples])]
    planned = _planned(run, [at for at, *_ in samples])
    lines += [planned] if any(value is not None for _, value in planned.points) else []
    return line_chart("Memory over time", lines, SECONDS, BYTES, levels=levels, spans=_spans(run.timeline))


def _why_missing(run: ReportedRun) -> str:
    if run.state == "unfinished":
        return "the run had not kept any of it yet, which it does every ten seconds"
    return "it was made by a version that did not keep this"


def _planned(run: ReportedRun, places: Sequence[float]) -> Line:
    """What the plan allowed to be held at these moments: the shares of the stage that was at work then."""
    budget = run.figures.inner("budget", wanted=False)
    base = budget.count("base", wanted=False) or 0
    given: dict[str, int] = {}
    for entry in budget.inners("shares", wanted=False)[:_MOST_ROWS]:
        during = entry.text("during", wanted=False) or _ALWAYS
        given[during] = given.get(during, 0) + (entry.count("bytes", wanted=False) or 0)
    stages = _all_spans(run.timeline) if given else []

    def allowed(at: float) -> float | None:
        name = next((stage.name for stage in stages if stage.begun <= at <= stage.ended), None)
        return None if name is None else float(base + given.get(_ALWAYS, 0) + given.get(name, 0))

    return Line("allowed by the plan's shares", [(at, allowed(at)) for at in places], 3)


def timeline_samples(timeline: Figures) -> Iterator[tuple[float, float | None, float]]:
    """Seconds, bytes held (None where the run was not at work) and bytes done."""
    for sample in timeline.list("samples", wanted=False):
        if not isinstance(sample, list) or len(sample) != 3:
            continue
        checked = Figures(dict(zip(("at", "held", "done"), sample, strict=True)))
        at, held, done = (checked.number(name) for name in ("at", "held", "done"))
        if at is not None and at >= 0 and done is not None:
            yield at, held, done


def _spans(timeline: Figures) -> list[Span]:
    """What is long enough to be named on the axis: stages, and what came before them."""
    found = _all_spans(timeline)
    if found and found[0].begun > 0:
        found.insert(0, Span("start", 0.0, found[0].begun))
    whole = max((span.ended for span in found), default=0.0)
    return [span for span in found if span.ended - span.begun >= whole / 12]


def _all_spans(timeline: Figures) -> list[Span]:
    found = []
    for stage in timeline.inners("stages", wanted=False):
        name, begun, ended = stage.text("name"), stage.number("begun"), stage.number("ended", wanted=False)
        if name is not None and begun is not None and ended is not None and ended > begun:
            found.append(Span(name, begun, ended))
    return found


def _stage_peaks(run: ReportedRun) -> list[Part]:
    stages = run.figures.inners("stages", wanted=False)
    peaks = [(stage.text("name") or "?", stage.count("peak", wanted=False)) for stage in stages]
    most = max((peak or 0 for _, peak in peaks), default=0)
    rows = [(name, size(peak), bar(peak, most)) for name, peak in peaks if peak is not None]
    return [Table("Peak by stage", ("stage", "peak", "share of the highest"), rows)] if rows else []


def _shares(budget: Figures) -> list[Part]:
    """Who was given how much of the budget."""
    shares = budget.inners("shares", wanted=False)[:_MOST_ROWS]
    if not shares:
        return []
    base = budget.count("base", wanted=False) or 0
    rows: list[tuple[str, str, str, int, int | None]] = [("the program itself", _ALWAYS, "", base, base)]
    for entry in shares:
        name, given = entry.text("name") or "?", entry.count("bytes") or 0
        during, kind = entry.text("during", wanted=False) or _ALWAYS, entry.text("kind", wanted=False) or ""
        rows.append((name, during, kind, given, entry.count("expected", wanted=False)))
    most = max(expected or 0 for *_, expected in rows)
    return [
        Table(
            "The plan: what each part may hold",
            ("part", "during", "kind", "given", "expected", "expected, as a bar"),
            [
                (name, during, kind, size(given), size(e), bar(e, most))
                for name, during, kind, given, e in rows
            ],
            note="A part that is `capped` cannot go beyond what it was given; one that is `watched` is"
            " code of others. Parts of different stages are not held at once.",
        )
    ]


def time_section(run: ReportedRun) -> PageSection:
    """Where the seconds went, and the throughput over time."""
    section = PageSection("time", "Time")
    stages = run.figures.inners("stages", wanted=False)
    spent = [stage.number("seconds", wanted=False) or 0.0 for stage in stages]
    total = max(run.figures.number("seconds", wanted=False) or 0.0, sum(spent))
    predicted = run.figures.inner("predicted", wanted=False).inner("stages", wanted=False)
    rows: list[list[Value]] = []
    for stage, taken in zip(stages, spent, strict=True):
        name, done = stage.text("name") or "?", stage.count("bytes", wanted=False)
        speed = rate(done / taken if done and taken else None)
        # A stage that has nothing to do with documents, or with tokens, says zero.
        counts = [count(stage.count(what, wanted=False) or None) for what in ("documents", "tokens")]
        expected = seconds(predicted.number(name, wanted=False))
        rows.append([name, seconds(taken), bar(taken, total), size(done), speed, *counts, expected])
    if rows:
        rest = max(0.0, total - sum(spent))
        nothing = [Cell("-")] * 5
        rows.append(["outside of stages", seconds(rest), bar(rest, total), *nothing])
        columns = ("stage", "seconds", "share of all", "bytes", "rate", "documents", "tokens", "predicted")
        section.parts.append(Table("Where the seconds went", columns, rows))
    chart = _throughput(run)
    section.parts += [chart] if chart is not None else [
        Note(f"There is no throughput over time: {_why_missing(run)}.")
    ]
    return section


def _throughput(run: ReportedRun) -> Part | None:
    """Bytes a second, between samples that are far enough apart."""
    samples = list(timeline_samples(run.timeline))
    if len(samples) < 2 or samples[-1][2] <= 0:
        return None
    width = (samples[-1][0] - samples[0][0]) / _RATES
    points: list[tuple[float, float | None]] = []
    before_at, _, before = samples[0]
    for at, held, done in samples[1:]:
        if held is None:
            points.append((at, None))
            before_at, before = at, done
        elif at - before_at >= width and at > before_at:
            points.append((at, max(0.0, done - before) / (at - before_at)))
            before_at, before = at, done
    axis = Axis("bytes a second", "rate")
    return line_chart(
        "Bytes a second over time",
        [Line("bytes a second", points, 2)],
        SECONDS,
        axis,
        spans=_spans(run.timeline),
    )


def config_section(run: ReportedRun) -> PageSection:
    section = PageSection("config", "Config")
    rows = [(key, cut(value)) for key, value in flat(run.config.values)]
    if rows:
        section.parts.append(Table("What shaped the output", ("key", "value"), rows[:_MOST_ROWS]))
    files = run.figures.values.get("inputs")
    entries = run.figures.inners("inputs", wanted=False) if isinstance(files, list) else []
    if entries:
        found = [(e.text("path", wanted=False) or "?", size(e.count("bytes", wanted=False))) for e in entries]
        left = f"{len(found) - _MOST_ROWS:,} more are left out." if len(found) > _MOST_ROWS else ""
        section.parts.append(Table("Input files", ("file", "bytes"), found[:_MOST_ROWS], note=left))
    identity = run.figures.text("identity", wanted=False)
    if identity is not None:
        section.parts.append(Facts([("identity", identity)]))
    return section


def flat(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Keys with dots and places, such as `preprocess.filters[0].name`, and their values as JSON."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from flat(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        for place, inner in enumerate(value):
            yield from flat(inner, f"{key}[{place}]")
    elif key:
        yield key, orjson.dumps(value, default=str).decode()


def cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def length_table(caption: str, buckets: list[tuple[int, int, int]], what: str) -> Table:
    """A histogram: how many are between two lengths, both included."""
    most = max((found for *_, found in buckets), default=0)
    total = sum(found for *_, found in buckets)
    rows = [
        (
            Cell(f"{low:,}" if low == high else f"{low:,} to {high:,}", low),
            count(n),
            share(n, total),
            bar(n, most),
        )
        for low, high, n in buckets
    ]
    return Table(caption, (what, "how many", "share", "as a bar"), rows)
