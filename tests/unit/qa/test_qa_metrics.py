"""Scores are those of SQuAD 2.0's official definition, written out here in its plainest form."""

from __future__ import annotations

import collections
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.qa import SquadScores, squad_metrics
from krill.qa.metrics import exact_match, f1, normalized
from properties import tried


def official_words(text: str) -> list[str]:
    kept = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def official_f1(gold: str, predicted: str) -> float:
    gold_words, words = official_words(gold), official_words(predicted)
    same = sum((collections.Counter(gold_words) & collections.Counter(words)).values())
    if len(gold_words) == 0 or len(words) == 0:
        return int(gold_words == words)
    if same == 0:
        return 0
    precision, recall = 1.0 * same / len(words), 1.0 * same / len(gold_words)
    return (2 * precision * recall) / (precision + recall)


def official(questions: list[tuple[str, list[str], float]], threshold: float) -> dict[str, float]:
    """Questions are a prediction, the valid answers, and the probability of no answer."""
    exact, f1_scores = {}, {}
    for number, (predicted, answers, _) in enumerate(questions):
        golds = [answer for answer in answers if official_words(answer)] or [""]
        exact[number] = max(int(official_words(gold) == official_words(predicted)) for gold in golds)
        f1_scores[number] = max(official_f1(gold, predicted) for gold in golds)
    found = {}
    groups = {
        "": range(len(questions)),
        "HasAns_": [number for number, one in enumerate(questions) if one[1]],
        "NoAns_": [number for number, one in enumerate(questions) if not one[1]],
    }
    for name, numbers in groups.items():
        if numbers:
            for kind, scores in (("exact", exact), ("f1", f1_scores)):
                counted = [
                    float(not questions[number][1]) if questions[number][2] > threshold else scores[number]
                    for number in numbers
                ]
                found[f"{name}{kind}"] = 100.0 * sum(counted) / len(counted)
            found[f"{name}total"] = len(numbers)
    for kind, scores in (("exact", exact), ("f1", f1_scores)):
        current = best = sum(not answers for _, answers, _ in questions)
        at = 0.0
        for number in sorted(range(len(questions)), key=lambda number: questions[number][2]):
            predicted, answers, probability = questions[number]
            current += scores[number] if answers else -1 if predicted else 0
            if current > best:
                best, at = current, probability
        found[f"best_{kind}"], found[f"best_{kind}_thresh"] = 100.0 * best / len(questions), at
    return found


texts = st.lists(
    st.sampled_from(["the", "a", "krill", "Krill!", "eats", "-", "An", "é", "sea", ""]), max_size=4
).map(" ".join)
asked = st.tuples(texts, st.lists(texts, max_size=3), st.floats(0, 1))


@tried(200)
@given(st.lists(asked, min_size=1, max_size=8), st.floats(0, 1))
def test_all_scores_are_the_official_ones(questions, threshold) -> None:
    predictions = {str(number): one[0] for number, one in enumerate(questions)}
    references = [(str(number), one[1]) for number, one in enumerate(questions)]
    probabilities = {str(number): one[2] for number, one in enumerate(questions)}
    found = squad_metrics(predictions, references, probabilities, threshold)
    assert found == pytest.approx(official(questions, threshold))


def test_a_few_scores_by_hand() -> None:
    assert normalized(" The  Krill, a swarm! ") == "krill swarm"
    assert exact_match("the krill", "Krill.") == 1
    assert f1("krill eats", "the krill sleeps") == 0.5
    assert f1("", "") == f1("the", "") == 1
    assert f1("krill", "") == 0
    scores = SquadScores()
    scores.add("Krill", ["the krill", "whales"])
    scores.add("", [])
    scores.add("something", [])
    assert scores.result() == {
        "exact": pytest.approx(200 / 3),
        "f1": pytest.approx(200 / 3),
        "total": 3,
        "HasAns_exact": 100.0,
        "HasAns_f1": 100.0,
        "HasAns_total": 1,
        "NoAns_exact": 50.0,
        "NoAns_f1": 50.0,
        "NoAns_total": 2,
    }


def test_questions_without_a_prediction_are_left_out_as_in_the_official_script() -> None:
    found = squad_metrics({"1": "krill"}, [("1", ["krill"]), ("2", ["whale"])])
    assert (found["exact"], found["total"]) == (100.0, 1)
