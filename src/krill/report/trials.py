"""The page of `krill tokenizer compare`: trainers or encoders beside each other, what was measured as bars.

In: a comparison. Out: a page. Held in memory: its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from krill.budget import format_size
from krill.report.page import ReportPage, View
from krill.report.parts import (
    Cell,
    Facts,
    Note,
    PageSection,
    Part,
    Table,
    Value,
    bar,
    count,
    seconds,
    size,
)
from krill.tokenizer.compare import Comparison, ProgramTrial, Trial, vocabulary_beside
from krill.tokenizer.compare_encode import EncodeComparison, EncodeTrial

_NOTE = "Each had a process of its own, one after the other. Peaks are what a process held at its highest."


def trials_page(comparison: Comparison | EncodeComparison) -> ReportPage:
    trains = isinstance(comparison, Comparison)
    what = "Training" if trains else "Encoding"
    done = [trial for trial in comparison.trials if trial.fault is None]
    rates = [comparison.bytes / trial.seconds for trial in done if trial.seconds]
    facts = [
        ("text", str(comparison.file)),
        ("bytes", format_size(comparison.bytes)),
        ("threads", f"{comparison.threads:,}"),
    ]
    if isinstance(comparison, Comparison):
        facts.append(("vocabulary", f"{comparison.vocab_size:,} tokens"))
    else:
        facts += [("tokenizer", str(comparison.tokenizer)), ("documents", f"{comparison.documents:,}")]
    section = PageSection("compare", what, [Facts(facts), *_ratios(comparison, done)])
    section.parts.append(_speed(comparison, done, max(rates, default=0.0)))
    section.parts.append(_peaks(done))
    section.parts.append(_same(comparison, done))
    section.parts.append(Note(_NOTE))
    section.parts += _faults(comparison.trials)
    title = f"{what} with Krill and with its peers"
    return ReportPage(title, str(comparison.file), [View("compare", what, [section], named=False)])


def _ratios(comparison: Comparison | EncodeComparison, done: Sequence[ProgramTrial]) -> list[Part]:
    """How Krill stands beside the fastest of the others, in a sentence."""
    ours, *others = done
    if not others or not ours.seconds:
        return [Note("No peer could be run: there is nothing to compare with.")]
    best = min(others, key=lambda trial: trial.seconds)
    rate = comparison.bytes / ours.seconds / 1e6
    times = f"{best.seconds / ours.seconds:.2f} times the speed"
    held = f"{ours.peak / best.peak:.2f} times the memory" if best.peak else "an unknown share of the memory"
    return [Note(f"Krill: {rate:,.1f} MB/s, {times} and {held} of {best.name}, the fastest of the others.")]


def _speed(comparison: Comparison | EncodeComparison, done: Sequence[ProgramTrial], most: float) -> Table:
    rows: list[list[Value]] = []
    for trial in done:
        rate = comparison.bytes / trial.seconds if trial.seconds else 0.0
        load = [seconds(trial.load)] if isinstance(trial, EncodeTrial) else []
        times = trial.seconds / done[0].seconds if done[0].seconds else 0.0
        shown = Cell(f"{rate / 1e6:,.1f}", rate)
        took = [seconds(trial.seconds), Cell(f"{times:.2f}", times)]
        rows.append([_name(trial), shown, bar(rate, most), *took, *load])
    load_column = () if isinstance(comparison, Comparison) else ("loading",)
    columns = ("which", "MB/s", "MB/s, as a bar", "time", "times Krill's time", *load_column)
    return Table("Speed", columns, rows)


def _peaks(done: Sequence[ProgramTrial]) -> Table:
    most = max((trial.peak for trial in done), default=0)
    rows = [(_name(trial), size(trial.peak), bar(trial.peak, most)) for trial in done]
    return Table("Peak memory", ("which", "peak", "as a bar"), rows)


def _same(comparison: Comparison | EncodeComparison, done: Sequence[ProgramTrial]) -> Table:
    """What of the result is the same."""
    if isinstance(comparison, Comparison):
        vocabularies = [
            (_name(trial), vocabulary_beside(comparison.ours, trial))
            for trial in done
            if isinstance(trial, Trial)
        ]
        return Table("Vocabularies", ("which", "beside Krill's"), vocabularies)
    rows = [
        (_name(trial), count(trial.tokens), count(trial.differing))
        for trial in done
        if isinstance(trial, EncodeTrial)
    ]
    return Table("Ids", ("which", "tokens", "documents that differ from Krill's"), rows)


def _faults(trials: Sequence[ProgramTrial]) -> list[Part]:
    rows = [(trial.name, trial.fault, trial.remedy or "-") for trial in trials if trial.fault is not None]
    return [Table("Not run", ("which", "why", "remedy"), rows)] if rows else []


def _name(trial: ProgramTrial) -> str:
    return f"{trial.name} {trial.version}"
