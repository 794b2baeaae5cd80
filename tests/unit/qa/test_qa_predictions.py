"""The best spans over all segments, as they come, are those of all scores at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from krill.errors import ConfigError
from krill.qa import AnswerCollector, QaDataset, Shape, create_dataloader, prepare
from questions import question, story, tokenizer_of, write_squad


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> QaDataset:
    folder = tmp_path_factory.mktemp("predictions")
    asked = [question("a", "which?", ("word7", 35)), question("b", "which one?")]
    source = write_squad(folder / "dev.json", (story(70), asked), (story(9, 100), [question("c", "what?")]))
    made = prepare(source, tokenizer_of("wordpiece"), output=folder / "out", shape=Shape(48, 12))
    return QaDataset(made.folder)


def all_at_once(
    features: list[dict[str, Any]], scores: list[Any], n_best: int, longest: int, threshold: float
) -> dict[str, Any]:
    """What Hugging Face's scripts do for one question that they have all features of."""
    null, found = float("inf"), []
    for feature, (starts, ends) in zip(features, scores, strict=True):
        null = min(null, starts[feature["cls_index"]] + ends[feature["cls_index"]])
        for first in np.argsort(starts)[-1 : -n_best - 1 : -1].tolist():
            for last in np.argsort(ends)[-1 : -n_best - 1 : -1].tolist():
                offsets = feature["offset_mapping"]
                if offsets[first][1] == 0 or offsets[last][1] == 0:
                    continue
                if last < first or last - first + 1 > longest:
                    continue
                text = feature["context"][offsets[first][0] : offsets[last][1]]
                found.append((starts[first] + ends[last], text))
    found = sorted(found, key=lambda one: -one[0])[:n_best]
    score, best = found[0]
    return {"text": "" if null - score > threshold else best, "best": best, "spans": found, "null": null}


@pytest.mark.parametrize("seed", range(6))
def test_streamed_predictions_are_those_of_all_scores_at_once(dataset, seed) -> None:
    chance = np.random.default_rng(seed)
    scores = [chance.normal(size=(2, 48)) for _ in range(len(dataset))]
    collector = AnswerCollector(n_best=5, max_answer_length=7, null_score_threshold=-3.0)
    for number in chance.permutation(len(dataset)).tolist():
        collector.add(dataset[number], *scores[number])
    found = dict(collector.predictions())
    assert set(found) == {"a", "b", "c"}
    for document in range(dataset.documents):
        example_id = dataset.document_id(document)
        numbers = dataset.get_document_segments(example_id)
        own = [scores[number] for number in numbers]
        expected = all_at_once([dataset[number] for number in numbers], own, 5, 7, -3.0)
        prediction = found[example_id]
        assert (prediction.text, prediction.best_text) == (expected["text"], expected["best"])
        spans = [one for one in prediction.n_best if one["text"]]
        assert [(one["score"], one["text"]) for one in spans] == [
            (pytest.approx(score), text) for score, text in expected["spans"]
        ]
        assert prediction.score_difference == pytest.approx(expected["null"] - expected["spans"][0][0])
        assert sum(one["probability"] for one in prediction.n_best) == pytest.approx(1)


def test_a_perfect_reader_is_scored_perfect_through_batches_over_time(dataset) -> None:
    collector = AnswerCollector()
    for steps in create_dataloader(dataset, batch_size=3, framework="numpy"):
        for batch in steps:
            starts, ends = (np.zeros((3, 48)) for _ in range(2))
            rows = np.arange(3)
            starts[rows, batch["start_positions"]] = ends[rows, batch["end_positions"]] = 9
            collector.add_batch(batch, starts, ends)
    found = {number: prediction.text for number, prediction in collector.predictions()}
    assert found == {"a": "word7", "b": "", "c": ""}
    assert len(collector) == 3


def test_without_a_span_in_the_context_nothing_is_predicted(dataset) -> None:
    collector = AnswerCollector(n_best=1, no_answer=False)
    starts = np.zeros(48)
    starts[dataset[0]["cls_index"]] = 5
    collector.add(dataset[0], starts, starts)
    ((_, prediction),) = collector.predictions()
    assert (prediction.text, prediction.n_best) == ("", [])


@pytest.mark.parametrize("name", ["n_best", "max_answer_length"])
def test_a_collector_that_could_keep_nothing_is_refused(name) -> None:
    with pytest.raises(ConfigError, match=f"`{name}` is `0`"):
        AnswerCollector(**{name: 0})
