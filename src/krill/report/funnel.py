"""The funnel: from documents read to documents kept and to rows, with every reason and its examples.

In: a run and the examples that it kept. Out: parts of a page. Held in memory: their rows.

Reasons stand in the manifest's order, which is that in which a document meets them: what is left after each
can be read from top to bottom.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from krill.report.common import cut
from krill.report.examples import example_parts
from krill.report.figures import Figures
from krill.report.parts import (
    Cell,
    Note,
    PageSection,
    Part,
    Table,
    Value,
    bar,
    count,
    percent,
    share,
)
from krill.report.runs import ReportedRun

NO_SAMPLES: Final = "Texts are left out of this report."
_EXAMPLES: Final = "Examples of the documents that were dropped, up to 20 for each reason, chosen by their hash:"
_NAMED_REASONS: Final = 3
# Sources whose reasons stand side by side; of more, the table of sources says the most frequent one.
_MOST_COLUMNS: Final = 8
# What becomes of tokens, in the order in which it does.
_TOKENS: Final = {
    "dropped_short": "tokens in documents that are too short",
    "dropped_long": "tokens in documents that are too long",
    "dropped_tail": "tokens in the last row, which was not full",
    "kept": "tokens in rows",
    "trained": "tokens that are learned",
}


def described(reason: str) -> str:
    """A reason in words."""
    from krill.pipeline.summary import describe_reason

    return describe_reason(reason).replace("`", "")


def rule_of(reason: str, config: Figures) -> str:
    """The key of the config that decides, with its value, such as `min_chars: 100`; empty where no one key
    does, or where the run does not say it."""
    from krill.pipeline.summary import deciding_key

    preprocess, key = config.inner("preprocess", wanted=False), deciding_key(reason)
    if key is None:
        return ""
    section, _, name = key.rpartition(".")
    if not section:
        found = [preprocess.values.get(name)]
    elif section in preprocess.values:
        found = [preprocess.inner(section, wanted=False).values.get(name)]
    else:
        filters = preprocess.inners("filters", wanted=False)
        found = [one.values.get(name) for one in filters if one.values.get("name") == section]
    # A filter that stands there twice with other values does not say which of them it was.
    if len(found) != 1 or found[0] is None:
        return ""
    return f"{key}: {cut(orjson.dumps(_of_length(found[0], reason)).decode())}"


def _of_length(value: Any, reason: str) -> Any:
    """Of thresholds for words in a row, `[[2, 0.2], [3, 0.18]]`, those of the reason's number of words."""
    number = re.search(r"_(\d+)_", reason)
    if number is None or not isinstance(value, list):
        return value
    pairs = [pair for pair in value if isinstance(pair, list) and pair[:1] == [int(number[1])]]
    return pairs[0] if pairs else value


def why_notes(run: ReportedRun, read: int | None, kept: int | None) -> list[Part]:
    """Why documents are gone, in a sentence."""
    documents = run.figures.inner("documents", wanted=False)
    dropped = _dropped(documents)
    if not read or kept is None:
        return []
    if kept + sum(dropped.values()) != read:
        fact = f"`documents`: {read:,} read are not {kept:,} kept and {sum(dropped.values()):,} dropped"
        documents.note(fact)
    if not dropped:
        return [Note("No document was dropped.")]
    first = sorted(dropped.items(), key=lambda item: -item[1])[:_NAMED_REASONS]
    rules = [f", `{rule}`" if (rule := rule_of(name, run.config)) else "" for name, _ in first]
    named = "; ".join(
        f"{described(name)} ({percent(n / read)}{rule})"
        for (name, n), rule in zip(first, rules, strict=True)
    )
    others = sum(dropped.values()) - sum(n for _, n in first)
    more = len(dropped) - len(first)
    rest = f"; {more} other reason{'s' if more > 1 else ''} ({percent(others / read)})" if more else ""
    return [Note(f"{percent(1 - kept / read)} of the documents were dropped: {named}{rest}.")]


def steps_tables(run: ReportedRun) -> list[Part]:
    """The funnel in few lines, with the reasons of one filter together, and on to tokens and rows."""
    documents = run.figures.inner("documents", wanted=False)
    groups: dict[str, int] = {}
    for reason, number in _dropped(documents).items():
        filter_name = described(reason).partition(": ")[0]
        groups[filter_name] = groups.get(filter_name, 0) + number
    parts = _funnel("Where documents went, step by step", documents, groups)
    tokens = run.figures.inner("tokens", wanted=False)
    found = [(text, count(tokens.count(name, wanted=False))) for name, text in _TOKENS.items()]
    for name, text in (("dataset", "rows"), ("validation", "rows for validation")):
        found.append((text, count(run.figures.inner(name, wanted=False).count("rows", wanted=False))))
    rows = [(text, cell) for text, cell in found if cell.value]
    return [*parts, *([Table("From documents to rows", ("what", "how many"), rows)] if rows else [])]


def documents_section(
    run: ReportedRun, examples: list[Figures] | None, samples: bool, room: int
) -> PageSection:
    from krill.pipeline.summary import NOTES

    section = PageSection("documents", "Documents")
    documents = run.figures.inner("documents", wanted=False)
    dropped = _dropped(documents)
    named = {described(reason): number for reason, number in dropped.items()}
    rules = {described(reason): rule_of(reason, run.config) for reason in dropped}
    section.parts += _funnel("From documents read to documents kept", documents, named, rules)
    section.parts += _by_source(run, dropped)
    noted = dict(documents.inner("notes", wanted=False).counts())
    if noted:
        rows_of_notes = [(NOTES.get(name, name), count(n)) for name, n in noted.items()]
        section.parts.append(Table("Repaired or cut, and kept", ("what", "how many"), rows_of_notes))
    if not samples:
        section.parts += [Note(NO_SAMPLES)] if dropped else []
    elif examples is None:
        section.parts += [Note("This run kept no examples of dropped documents.")] if dropped else []
    else:
        shown = list(example_parts(examples, dropped, described, room))
        section.parts += [Note(_EXAMPLES), *shown] if shown else []
    return section


def _dropped(documents: Figures) -> dict[str, int]:
    return dict(documents.inner("dropped", wanted=False).counts())


def _funnel(
    caption: str,
    documents: Figures,
    dropped: Mapping[str, int],
    rules: Mapping[str, str] | None = None,
) -> list[Part]:
    """What was read, what each of these took of it, and what is left; `rules` say what decided."""
    read, kept = documents.count("read", wanted=False), documents.count("kept", wanted=False)
    if read is None or kept is None:
        return []
    left = read
    rows: list[list[Value]] = [["read", count(read), Cell(""), Cell("100.0%", 1.0), bar(read, read)]]
    for name, lost in dropped.items():
        left = max(0, left - lost)
        rows.append([name, count(-lost), share(lost, read), share(left, read), bar(left, read)])
    rows.append(["kept", count(kept), share(kept, read), share(kept, read), bar(kept, read)])
    columns = ["step", "documents", "share of those read", "left after it", "left, as a bar"]
    if rules and any(rules.values()):
        columns.append("key that decides")
        rows = [[*row, rules.get(str(row[0]), "")] for row in rows]
    return [Table(caption, columns, rows)]


def _by_source(run: ReportedRun, dropped: Mapping[str, int]) -> list[Part]:
    """What each reason took of each source, where these are few."""
    sources = run.figures.inner("distributions", wanted=False).inners("sources", wanted=False)
    if not dropped or not 1 < len(sources) <= _MOST_COLUMNS:
        return []
    read = [source.count("read", wanted=False) or 0 for source in sources]
    counts = [_dropped(source) for source in sources]
    rows: list[list[Value]] = []
    for reason in dropped:
        lost = [own.get(reason, 0) for own in counts]
        cells = [share(n, whole) if n else Cell("-", 0.0) for n, whole in zip(lost, read, strict=True)]
        rows.append([described(reason), *cells])
    kept = [source.count("kept", wanted=False) or 0 for source in sources]
    rows.append(["kept", *(share(n, whole) for n, whole in zip(kept, read, strict=True))])
    names = [source.text("source", wanted=False) or "?" for source in sources]
    return [Table("Share of each source that was dropped, by reason", ("reason", *names), rows)]
