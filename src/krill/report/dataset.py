"""The page of `krill preprocess`, for documents and conversations.

In: a run. Out: its sections: where documents went and why, their lengths, duplicates, rows. Held in memory:
what the page shows, and while rows are shown, the tokenizer.
"""

from __future__ import annotations

from typing import Final

from krill.report.common import budget_notes, length_table, resource_sections, run_facts, status_notes
from krill.report.examples import duplicate_parts, read_examples
from krill.report.figures import Figures
from krill.report.funnel import NO_SAMPLES, described, documents_section, steps_tables, why_notes
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
    number,
    percent,
    share,
    size,
)
from krill.report.rows import rows_section
from krill.report.runs import ReportedRun

_MOST_SOURCES: Final = 200
# Histograms that a run keeps: their name, and what they show.
_LENGTHS: Final = (
    ("document_bytes", "Kept documents by bytes", "bytes"),
    ("document_tokens", "Kept documents by tokens", "tokens"),
    ("row_documents", "Rows by the documents in them", "documents"),
    ("row_document_tokens", "Documents in rows by tokens", "tokens"),
)


def dataset_sections(run: ReportedRun, memory: str | int, samples: bool, room: int) -> list[PageSection]:
    """`room` is how many bytes of the page its examples may take."""
    found = read_examples(run) if samples else []
    sections = [
        _overview(run),
        documents_section(run, found, samples, 3 * room // 4),
        _sources(run),
        _lengths(run),
        _duplicates(run, found or [], samples, room // 4),
        rows_section(run, memory, samples),
        *resource_sections(run),
    ]
    return [section for section in sections if section.parts]


def _overview(run: ReportedRun) -> PageSection:
    section = PageSection("overview", "Overview", status_notes(run))
    documents = run.figures.inner("documents", wanted=run.state == "finished")
    facts = run_facts(run)
    read, kept = (documents.count(name, wanted=False) for name in ("read", "kept"))
    if read is not None and kept is not None:
        facts.append(("documents", f"{kept:,} of {read:,} kept ({percent(kept / read if read else 0)})"))
    tokens = run.figures.inner("tokens", wanted=False).count("kept", wanted=False)
    facts += [] if not tokens else [("tokens", f"{tokens:,}")]
    for name in ("dataset", "validation"):
        part = run.figures.inner(name, wanted=False)
        rows, length = part.count("rows", wanted=False), part.count("sequence_len", wanted=False)
        if rows is not None and length is not None:
            label = "rows" if name == "dataset" else "rows for validation"
            facts.append((label, f"{rows:,} of {length:,} tokens"))
    section.parts.append(Facts(facts))
    section.parts += why_notes(run, read, kept)
    section.parts += budget_notes(run)
    section.parts += steps_tables(run)
    return section


def _sources(run: ReportedRun) -> PageSection:
    """What each source and each language gave."""
    section = PageSection("sources", "Sources and languages")
    found = run.figures.inner("distributions", wanted=False)
    section.parts += _source_table(found.inners("sources", wanted=False))
    section.parts += _language_tables(found)
    for part in ("dataset", "validation"):
        weighted = run.figures.inner(part, wanted=False).inners("sources", wanted=False)
        rows = [
            (
                str(s.count("dataset")),
                number(s.number("weight")),
                count(s.count("rows")),
                count(s.count("tokens")),
            )
            for s in weighted
        ]
        columns = ("dataset", "weight", "rows", "tokens")
        section.parts += [Table(f"Rows of weighted sources ({part})", columns, rows)] if rows else []
    return section


def _source_table(sources: list[Figures]) -> list[Part]:
    rows: list[list[Value]] = []
    most = max((source.count("tokens", wanted=False) or 0 for source in sources), default=0)
    for source in sources[:_MOST_SOURCES]:
        read, kept = source.count("read"), source.count("kept")
        size_of, tokens = source.count("bytes"), source.count("tokens", wanted=False)
        dropped = dict(source.inner("dropped", wanted=False).counts())
        why = described(max(dropped, key=dropped.__getitem__)) if dropped else "-"
        shares: list[Value] = [
            count(read),
            count(kept),
            share(kept or 0, read or 0),
            why,
            size(size_of),
            count(tokens),
        ]
        rows.append([source.text("source") or "?", *shares, bar(tokens, most), _density(size_of, tokens)])
    columns = (
        "source",
        "read",
        "kept",
        "share kept",
        "dropped most often",
        "bytes",
        "tokens",
        "as a bar",
        "bytes a token",
    )
    return [Table("By source", columns, rows)] if rows else []


def _language_tables(found: Figures) -> list[Part]:
    """What was kept in each language, where that was measured, and what the filter of languages dropped."""
    languages = found.inner("languages", wanted=False)
    rows: list[list[Value]] = []
    inners = {name: languages.inner(name) for name in languages.values}
    documents = {name: inner.count("documents", wanted=False) or 0 for name, inner in inners.items()}
    most = max(documents.values(), default=0)
    for name in sorted(inners, key=lambda name: -documents[name]):
        text, tokens = (inners[name].count(what, wanted=False) for what in ("bytes", "tokens"))
        shown = bar(documents[name], most)
        rows.append([name, count(documents[name]), shown, size(text), count(tokens), _density(text, tokens)])
    columns = ("language", "documents", "as a bar", "bytes", "tokens", "bytes a token")
    parts: list[Part] = []
    parts += [Table("Kept documents by language", columns, rows[:_MOST_SOURCES])] if rows else []
    dropped = dict(found.inner("dropped_languages", wanted=False).counts())
    if dropped:
        most = max(dropped.values())
        lost = [(name, count(n), bar(n, most)) for name, n in dropped.items()]
        caption = "Dropped by the filter of languages, by language"
        unsure = "In a language that is allowed, those are dropped whose score does not reach `min_score`."
        head = ("language", "documents", "as a bar")
        parts.append(Table(caption, head, lost[:_MOST_SOURCES], note=unsure))
    return parts


def _density(size_of: int | None, tokens: int | None) -> Cell:
    return Cell(f"{size_of / tokens:.2f}", size_of / tokens) if size_of and tokens else Cell("-")


def _lengths(run: ReportedRun) -> PageSection:
    """How long documents are, and what they are in rows."""
    section = PageSection("lengths", "Lengths")
    found = run.figures.inner("distributions", wanted=False)
    for name, caption, what in _LENGTHS:
        buckets = histogram(found, name)
        section.parts += [length_table(caption, buckets, what)] if buckets else []
    return section


def histogram(figures: Figures, name: str) -> list[tuple[int, int, int]]:
    """Least, most and how many, from a list whose entry k counts what has k binary digits."""
    counts = figures.list(name, wanted=False)[:64]
    if not all(type(n) is int and n >= 0 for n in counts):
        figures.note(f"`{name}` is not a list of counts")
        return []
    places = [place for place, n in enumerate(counts) if n]
    spread = range(places[0], places[-1] + 1) if places else range(0)
    return [(2 ** (k - 1) if k else 0, 2**k - 1, counts[k]) for k in spread]


def _duplicates(run: ReportedRun, examples: list[Figures], samples: bool, room: int) -> PageSection:
    section = PageSection("duplicates", "Duplicates")
    found = run.figures.inner("duplicates", wanted=False)
    numbers = [(name, found.count(name, wanted=False)) for name in ("duplicates", "clusters", "largest")]
    facts = [(name.replace("largest", "largest cluster"), f"{n:,}") for name, n in numbers if n is not None]
    if not facts:
        return section
    dedup = run.config.inner("preprocess", wanted=False).inner("dedup", wanted=False)
    method = dedup.text("method", wanted=False)
    section.parts.append(Facts(facts if method is None else [("method", method), *facts]))
    if not found.count("duplicates", wanted=False):
        section.parts.append(Note("No document was found to be a copy of another."))
    sizes = histogram(found, "sizes")
    section.parts += [length_table("Clusters by their documents", sizes, "documents")] if sizes else []
    pairs = list(duplicate_parts(examples, room))
    if pairs:
        known = any(each.count("cluster", wanted=False) for each in examples)
        largest = "The largest clusters come first. " if known else ""
        section.parts.append(
            Note(
                f"{largest}What only the kept document has is underlined; what only a dropped one has is in"
                " bold; of equal texts one is shown."
            )
        )
        section.parts += pairs
    elif not samples:
        section.parts.append(Note(NO_SAMPLES))
    return section
