"""From scores of tokens to answers: the best spans of each question over all its segments, as they come.

In: for each feature the scores of its tokens to be the first and the last of the answer. Out: for
each question the best texts with their scores, and how likely it has no answer. Held in memory: the best few
spans of each question, never the scores of all features.

As Hugging Face's scripts have it: of each feature the `n_best` highest firsts and lasts are joined where they
lie in the context, in order and not too far apart; a question's score of having no answer is the least that
one of its features gives to its classification token.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from krill.errors import ConfigError

Scores = npt.NDArray[np.floating[Any]]


Span = tuple[float, int, int]
"""A predicted answer: its score, and its begin and end in the context, in characters."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is predicted for a question; `text` is empty for no answer."""

    text: str
    best_text: str
    """The best span, whatever the score of no answer."""

    score_difference: float
    """The score of no answer less that of the best span."""

    no_answer_probability: float
    n_best: list[dict[str, Any]]


@dataclass(slots=True)
class _Question:
    context: str
    spans: list[tuple[float, int, int, int]] = field(default_factory=list)
    null_score: float = float("inf")
    seen: int = 0


class AnswerCollector:
    """Takes features in any order, several of them at once or one by one."""

    def __init__(
        self,
        *,
        n_best: int = 20,
        max_answer_length: int = 30,
        no_answer: bool = True,
        null_score_threshold: float = 0.0,
    ) -> None:
        for name, number in (("n_best", n_best), ("max_answer_length", max_answer_length)):
            if number < 1:
                raise ConfigError(f"`{name}` is `{number}`", hint="give a number from 1 on")
        self._n_best = n_best
        self._max_length = max_answer_length
        self._no_answer = no_answer
        self._threshold = null_score_threshold
        self._questions: dict[str, _Question] = {}

    def add(self, feature: Mapping[str, Any], start_scores: Scores, end_scores: Scores) -> None:
        """One feature (`dataset[i]`, or a row of a batch) and the scores of its tokens."""
        question = self._questions.setdefault(feature["example_id"], _Question(feature["context"]))
        cls = int(feature["cls_index"])
        question.null_score = min(question.null_score, float(start_scores[cls] + end_scores[cls]))
        spans = best_spans(
            np.asarray(start_scores),
            np.asarray(end_scores),
            np.asarray(feature["offset_mapping"]),
            self._n_best,
            self._max_length,
        )
        for score, begin, end in spans:
            # Among equals the one that came first wins: the second entry breaks the tie.
            entry = (score, -question.seen, begin, end)
            question.seen += 1
            if len(question.spans) < self._n_best:
                heapq.heappush(question.spans, entry)
            else:
                heapq.heappushpop(question.spans, entry)

    def add_batch(self, batch: Mapping[str, Any], start_scores: Scores, end_scores: Scores) -> None:
        """A batch of a loader; rows of documents that have ended are skipped."""
        mask, cls = np.asarray(batch["document_mask"]), np.asarray(batch["cls_index"])
        for row in np.flatnonzero(mask).tolist():
            feature = {
                "example_id": batch["example_ids"][row],
                "context": batch["context"][row],
                "cls_index": cls[row],
                "offset_mapping": batch["offset_mapping"][row],
            }
            self.add(feature, np.asarray(start_scores[row]), np.asarray(end_scores[row]))

    def __len__(self) -> int:
        return len(self._questions)

    def predictions(self) -> Iterator[tuple[str, Prediction]]:
        """Predictions by question id, in the order in which questions came."""
        for number, question in self._questions.items():
            yield number, self._predicted(question)

    def _predicted(self, question: _Question) -> Prediction:
        best_first = sorted(question.spans, reverse=True)
        texts = [(question.context[begin:end], score) for score, _, begin, end in best_first]
        best_text, best_score = texts[0] if texts else ("", 0.0)
        null = question.null_score
        difference = null - best_score
        listed = sorted([*texts, ("", null)], key=lambda one: -one[1]) if self._no_answer else texts
        probabilities = _softmax([score for _, score in listed])
        return Prediction(
            "" if self._no_answer and (not texts or difference > self._threshold) else best_text,
            best_text,
            difference,
            _sigmoid(difference) if self._no_answer else 0.0,
            [
                {"text": text, "score": score, "probability": probability}
                for (text, score), probability in zip(listed, probabilities, strict=True)
            ],
        )


def best_spans(
    start_scores: Scores, end_scores: Scores, offsets: npt.NDArray[Any], n_best: int, max_length: int
) -> list[Span]:
    firsts, lasts = (np.argsort(scores)[-1 : -n_best - 1 : -1] for scores in (start_scores, end_scores))
    # Only tokens of the context have a place in it.
    inside = offsets[:, 1] > offsets[:, 0]
    first, last = np.meshgrid(firsts[inside[firsts]], lasts[inside[lasts]], indexing="ij")
    fits = (last >= first) & (last - first < max_length)
    first, last = first[fits], last[fits]
    scores = start_scores[first] + end_scores[last]
    return [
        (float(score), int(begin), int(end))
        for score, begin, end in zip(scores, offsets[first, 0], offsets[last, 1], strict=True)
    ]


def _softmax(scores: list[float]) -> list[float]:
    if not scores:
        return []
    powers = np.exp(np.array(scores) - max(scores))
    return [float(power) for power in powers / powers.sum()]


def _sigmoid(value: float) -> float:
    return float(1.0 / (1.0 + np.exp(-np.clip(value, -500.0, 500.0))))
