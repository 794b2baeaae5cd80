"""The worker's side of `qa prepare` on an engine: one unit, from its paragraphs to its tables.

In: a payload that names a file of paragraphs. Out: the unit's tables, and its record. Held in memory: what a
unit takes while it is made and, from one task to the next, the tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from krill import _native
from krill.budget.meter import peak_bytes
from krill.budget.process import metered_process
from krill.engines import Resources
from krill.qa.encoding import QaTokenizer, fingerprint_of, tokenizer_from
from krill.qa.examples import Paragraph, Question
from krill.qa.features import Shape
from krill.qa.layout import FeatureLayout
from krill.qa.units import UNITS, check_fits, make_record, making_need
from krill.storage.commits import damaged, reading_artifact

_kept: QaTokenizer | None = None


def run_task(payload: Mapping[str, Any], resources: Resources) -> dict[str, Any]:
    """What `engines` calls."""
    with metered_process(resources.memory, resources.threads, floor=resources.floor) as meter:
        _native.trim()  # what the task before has freed, so that the plan has it
        tokenizer = _tokenizer(payload)
        plan = meter.plan([making_need(tokenizer)])
        paragraphs = read_paragraphs(Path(payload["paragraphs"]))
        for paragraph in paragraphs:
            check_fits(paragraph, plan.share(UNITS), tokenizer)
        record = make_record(
            payload["number"],
            paragraphs,
            payload["counts"],
            tokenizer,
            Shape(**payload["shape"]),
            Path(payload["dataset"]),
        )
        return {"record": record, "peak": peak_bytes()}


def _tokenizer(payload: Mapping[str, Any]) -> QaTokenizer:
    """That of the run, opened once in each process."""
    global _kept
    if _kept is None or _kept.fingerprint != payload["fingerprint"]:
        path = Path(payload["tokenizer"])
        with reading_artifact(path):
            content = path.read_bytes()
        layout = FeatureLayout.from_json(payload["layout"])
        if fingerprint_of(content, layout) != payload["fingerprint"]:
            raise damaged(path, "is not as it was written")
        _kept = tokenizer_from(content, layout)
    return _kept


def paragraphs_json(paragraphs: list[Paragraph]) -> bytes:
    """Paragraphs as they are sent."""
    return orjson.dumps(
        [
            [
                paragraph.context,
                [[question.id, question.text, question.answers] for question in paragraph.questions],
            ]
            for paragraph in paragraphs
        ]
    )


def read_paragraphs(path: Path) -> list[Paragraph]:
    """Paragraphs that were sent."""
    with reading_artifact(path):
        content = path.read_bytes()
    try:
        return [
            Paragraph(
                context,
                [
                    Question(number, text, tuple((answer, start) for answer, start in answers))
                    for number, text, answers in questions
                ],
            )
            for context, questions in orjson.loads(content)
        ]
    except ValueError:
        raise damaged(path, "is not as it was written") from None
