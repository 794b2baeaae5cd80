"""Scores of predicted answers, as SQuAD 2.0's official script defines them.

In: for each question the predicted text, all valid answers, and perhaps the probability that there is
none. Out: exact match and F1 in percent, over all questions and over those with and without an answer,
and the threshold on that probability that would have scored best. Held in memory: three numbers for each
question.

An answer is compared without case, punctuation, articles and superfluous space. A question without an answer
is right if nothing is predicted, and then both scores are 1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_ARTICLES: Final = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """The text without case, punctuation, articles and superfluous space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, predicted: str) -> float:
    return float(normalized(answer) == normalized(predicted))


def f1(answer: str, predicted: str) -> float:
    """The harmonic mean of how many words of each are in the other."""
    wanted, given = normalized(answer).split(), normalized(predicted).split()
    if not wanted or not given:
        return float(wanted == given)
    common = sum((Counter(wanted) & Counter(given)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(given), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


@dataclass(frozen=True, slots=True)
class _Score:
    exact: float
    f1: float
    has_answer: bool
    no_answer_probability: float
    predicted: bool
    """Whether anything was predicted."""


@dataclass(slots=True)
class SquadScores:
    """Adds up question by question; `result` may be called at any time."""

    threshold: float = 1.0
    """Above this probability of no answer, nothing counts as predicted."""

    _scores: list[_Score] = field(default_factory=list)

    def add(self, predicted: str, answers: Sequence[str], no_answer_probability: float = 0.0) -> None:
        """A question with its valid answers; none, if it has no answer."""
        # An answer of nothing but articles and punctuation can't be met, so the official script skips it.
        valid = [answer for answer in answers if normalized(answer)] or [""]
        self._scores.append(
            _Score(
                max(exact_match(answer, predicted) for answer in valid),
                max(f1(answer, predicted) for answer in valid),
                bool(answers),
                no_answer_probability,
                bool(predicted),
            )
        )

    def result(self, *, best_threshold: bool = False) -> dict[str, float]:
        """The official script's keys; with `best_threshold` also those of its search for one."""
        found = _averages("", self._scores, self.threshold)
        for name, has_answer in (("HasAns_", True), ("NoAns_", False)):
            some = [score for score in self._scores if score.has_answer == has_answer]
            if some:
                found |= _averages(name, some, self.threshold)
        if best_threshold:
            for name in ("exact", "f1"):
                best, at = self._best(name)
                found |= {f"best_{name}": best, f"best_{name}_thresh": at}
        return found

    def _best(self, name: str) -> tuple[float, float]:
        """The best average over all thresholds, and the lowest threshold that reaches it."""
        without = sum(not score.has_answer for score in self._scores)
        running, best, threshold = float(without), float(without), 0.0
        # As probabilities rise, one question after the other is taken to have an answer.
        for score in sorted(self._scores, key=lambda score: score.no_answer_probability):
            if score.has_answer:
                running += getattr(score, name)
            elif score.predicted:
                running -= 1
            if running > best:
                best, threshold = running, score.no_answer_probability
        return 100.0 * best / max(1, len(self._scores)), threshold


def squad_metrics(
    predictions: Mapping[str, str],
    references: Iterable[tuple[str, Sequence[str]]],
    no_answer_probabilities: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """Scores of `predictions` by question id; `references` are ids with all valid answers.

    A question without a prediction is left out, as in the official script.
    """
    scores = SquadScores(threshold)
    for number, answers in references:
        if number in predictions:
            probability = (no_answer_probabilities or {}).get(number, 0.0)
            scores.add(predictions[number], answers, probability)
    return scores.result(best_threshold=no_answer_probabilities is not None)


def _averages(name: str, scores: Sequence[_Score], threshold: float) -> dict[str, float]:
    exact = total_f1 = 0.0
    for score in scores:
        if score.no_answer_probability > threshold:
            exact += not score.has_answer
            total_f1 += not score.has_answer
        else:
            exact += score.exact
            total_f1 += score.f1
    count = max(1, len(scores))
    return {
        f"{name}exact": 100.0 * exact / count,
        f"{name}f1": 100.0 * total_f1 / count,
        f"{name}total": len(scores),
    }
