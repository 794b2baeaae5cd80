"""The page of `krill preprocess`, for documents and conversations, and of `krill export`.

In: a run. Out: its sections: where documents went and why, their lengths, duplicates, rows. Held in memory:
what the page shows, and while rows are shown, the tokenizer.
"""

from __future__ import annotations

from typing import Final

from krill.errors import BudgetError, InputError, KrillError
from krill.report.common import (
    budget_notes,
    config_section,
    length_table,
    memory_section,
    run_facts,
    status_notes,
    time_section,
)
from krill.report.examples import duplicate_parts, example_parts, read_examples
from krill.report.figures import Figures
from krill.report.parts import (
    Cell,
    Facts,
    HeadedText,
    Note,
    PageSection,
    Part,
    Piece,
    Table,
    Texts,
    Value,
    bar,
    count,
    number,
    percent,
    share,
    size,
)
from krill.report.runs import ReportedRun

_SHOWN_ROWS: Final = 3
_SHOWN_CHARACTERS: Final = 4000
_MOST_SOURCES: Final = 200
# Histograms that a run keeps: their name, and what they show.
_LENGTHS: Final = (
    ("document_bytes", "Kept documents by bytes", "bytes"),
    ("document_tokens", "Kept documents by tokens", "tokens"),
    ("row_documents", "Rows by the documents in them", "documents"),
    ("row_document_tokens", "Documents in rows by tokens", "tokens"),
)
_NO_SAMPLES: Final = "Texts are left out of this report."


def dataset_sections(run: ReportedRun, memory: str | int, samples: bool, room: int) -> list[PageSection]:
    """`room` is how many bytes of the page its examples may take."""
    found = read_examples(run) if samples else []
    sections = [
        _overview(run),
        _documents(run, found, samples, 3 * room // 4),
        _sources(run),
        _lengths(run),
        _duplicates(run, found or [], samples, room // 4),
        _rows(run, memory, samples),
        memory_section(run),
        time_section(run),
        config_section(run),
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
    section.parts += _why(documents, read, kept)
    section.parts += budget_notes(run)
    return section


def _why(documents: Figures, read: int | None, kept: int | None) -> list[Part]:
    """Why documents are gone, in a sentence."""
    from krill.pipeline.summary import describe_reason

    dropped = dict(documents.inner("dropped", wanted=False).counts())
    if not read or kept is None:
        return []
    if kept + sum(dropped.values()) != read:
        fact = f"`documents`: {read:,} read are not {kept:,} kept and {sum(dropped.values()):,} dropped"
        documents.note(fact)
    if not dropped:
        return [Note("No document was dropped.")]
    first = sorted(dropped.items(), key=lambda item: -item[1])[:3]
    named = "; ".join(f"{describe_reason(name)} ({percent(n / read)})" for name, n in first)
    rest = "" if len(dropped) <= 3 else f"; {len(dropped) - 3} other reasons"
    return [Note(f"{percent(1 - kept / read)} of the documents were dropped: {named}{rest}.")]


def _documents(run: ReportedRun, examples: list[Figures] | None, samples: bool, room: int) -> PageSection:
    from krill.pipeline.summary import NOTES, describe_reason

    section = PageSection("documents", "Documents")
    documents = run.figures.inner("documents", wanted=False)
    read, kept = documents.count("read", wanted=False), documents.count("kept", wanted=False)
    dropped = dict(documents.inner("dropped", wanted=False).counts())
    if read is not None and kept is not None:
        left, rows = read, [("read", count(read), Cell(""), Cell("100.0%", 1.0), bar(read, read))]
        for name, lost in dropped.items():
            left = max(0, left - lost)
            rows.append(
                (describe_reason(name), count(-lost), share(lost, read), share(left, read), bar(left, read))
            )
        rows.append(("kept", count(kept), share(kept, read), share(kept, read), bar(kept, read)))
        columns = ("step", "documents", "share of those read", "left after it", "left, as a bar")
        section.parts.append(Table("From documents read to documents kept", columns, rows))
    noted = dict(documents.inner("notes", wanted=False).counts())
    if noted:
        rows_of_notes = [(NOTES.get(name, name), count(n)) for name, n in noted.items()]
        section.parts.append(Table("Repaired or cut, and kept", ("what", "documents"), rows_of_notes))
    if not samples:
        section.parts += [Note(_NO_SAMPLES)] if dropped else []
    elif examples is None:
        section.parts += [Note("This run kept no examples of dropped documents.")] if dropped else []
    else:
        section.parts += example_parts(examples, describe_reason, room)
    return section


def _sources(run: ReportedRun) -> PageSection:
    """What each source and each language gave."""
    section = PageSection("sources", "Sources and languages")
    found = run.figures.inner("distributions", wanted=False)
    section.parts += _source_table(found.inners("sources", wanted=False))
    section.parts += _language_table(found.inner("languages", wanted=False))
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
    from krill.pipeline.summary import describe_reason

    rows: list[list[Value]] = []
    most = max((source.count("tokens", wanted=False) or 0 for source in sources), default=0)
    for source in sources[:_MOST_SOURCES]:
        read, kept = source.count("read"), source.count("kept")
        size_of, tokens = source.count("bytes"), source.count("tokens", wanted=False)
        dropped = dict(source.inner("dropped", wanted=False).counts())
        why = describe_reason(max(dropped, key=dropped.__getitem__)) if dropped else "-"
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


def _language_table(languages: Figures) -> list[Part]:
    rows: list[list[Value]] = []
    inners = {name: languages.inner(name) for name in languages.values}
    documents = {name: found.count("documents", wanted=False) or 0 for name, found in inners.items()}
    most = max(documents.values(), default=0)
    for name in sorted(inners, key=lambda name: -documents[name]):
        text, tokens = (inners[name].count(what, wanted=False) for what in ("bytes", "tokens"))
        shown = bar(documents[name], most)
        rows.append([name, count(documents[name]), shown, size(text), count(tokens), _density(text, tokens)])
    columns = ("language", "documents", "as a bar", "bytes", "tokens", "bytes a token")
    return [Table("Kept documents by language", columns, rows[:_MOST_SOURCES])] if rows else []


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
    section.parts.append(Facts(facts))
    sizes = histogram(found, "sizes")
    section.parts += [length_table("Clusters by their documents", sizes, "documents")] if sizes else []
    pairs = list(duplicate_parts(examples, room))
    if pairs:
        section.parts.append(
            Note("What only the kept document has is underlined; what only the dropped one has is in bold.")
        )
        section.parts += pairs
    elif not samples:
        section.parts.append(Note(_NO_SAMPLES))
    return section


def _rows(run: ReportedRun, memory: str | int, samples: bool) -> PageSection:
    """Lengths of documents in rows, and a few rows as text, of conversations with what is learned marked."""
    section = PageSection("rows", "Rows")
    trained, tokens = (
        run.figures.inner("tokens", wanted=False).count(name, wanted=False) for name in ("trained", "kept")
    )
    if trained is not None and tokens:
        section.parts.append(
            Facts([("tokens that are learned", f"{trained:,} of {tokens:,} ({percent(trained / tokens)})")])
        )
    if not run.figures.inner("dataset", wanted=False):
        return section
    if run.folder is None:
        section.parts.append(Note("The rows are in an object store, and are not read for a report."))
        return section
    from krill.dataset.inspection import SampleChats
    from krill.pipeline.output_checks import inspect_output

    try:
        found = inspect_output(run.folder, samples=_SHOWN_ROWS if samples else 0, seed=0, memory=memory)
    except BudgetError:
        section.parts.append(Note("The budget is too small to read rows: a larger --memory shows some."))
        return section
    except (InputError, KrillError) as error:
        section.parts.append(Note(f"The rows cannot be read: {error.message}.", warns=True))
        return section
    part = found.dataset
    if part is None:
        return section
    if not run.figures.inner("distributions", wanted=False):
        buckets = [(bucket.low, bucket.high, bucket.count) for bucket in part.piece_lengths]
        of = f"{part.sampled_rows:,} of {part.rows:,} rows"
        section.parts.append(length_table(f"Documents in rows by tokens ({of})", buckets, "tokens"))
    texts = []
    for row in part.samples:
        heading = f"row {row.row:,}: {len(row.input_ids):,} tokens, {len(row.seq_lengths):,} documents"
        if isinstance(row, SampleChats) and row.pieces is not None:
            texts.append(
                HeadedText(heading, _cut([Piece(text, "learned" if on else "") for text, on in row.pieces]))
            )
        elif row.text is not None:
            texts.append(HeadedText(heading, _cut([Piece(row.text)])))
    if texts:
        marked = " What is learned is marked." if trained is not None else ""
        section.parts.append(Texts(f"Rows as text.{marked}", texts, shown=trained is not None))
    return section


def _cut(pieces: list[Piece]) -> list[Piece]:
    left, found = _SHOWN_CHARACTERS, []
    for piece in pieces:
        found.append(Piece(piece.text[:left], piece.mark))
        left -= len(piece.text)
        if left <= 0:
            return [*found, Piece("...")]
    return found
