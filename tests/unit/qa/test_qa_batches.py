"""Batches over time: rows stay with their documents, ended ones are padding, and the order is the seed's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from krill.errors import ConfigError
from krill.qa import QaDataset, Shape, create_dataloader, prepare
from krill.qa.batches import choose_begins
from questions import story_file, tokenizer_of


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> QaDataset:
    folder = tmp_path_factory.mktemp("batches")
    source = story_file(folder / "train.json", contexts=7)
    made = prepare(source, tokenizer_of("unigram", 2), output=folder / "out", shape=Shape(48, 12))
    return QaDataset(made.folder)


def loader_of(dataset: QaDataset, **options: Any) -> Any:
    return create_dataloader(dataset, **{"batch_size": 4, "framework": "numpy", **options})


def test_each_row_is_one_document_at_every_step_and_padding_after_its_end(dataset) -> None:
    seen = []
    for steps in loader_of(dataset, batch_size=5):
        ids = steps[0]["example_ids"]
        counts = [len(dataset.get_document_segments(example_id)) for example_id in ids]
        assert len(steps) == max(counts)
        for step, batch in enumerate(steps):
            assert batch["example_ids"] == ids
            assert batch["document_mask"].dtype == bool
            assert batch["document_mask"].tolist() == [step < count for count in counts]
            for row, example_id in enumerate(ids):
                if not batch["document_mask"][row]:
                    assert (batch["attention_mask"][row] == 0).all()
                    assert (batch["input_ids"][row] == dataset.stored.layout.pad_id).all()
                    assert not batch["has_answer"][row]
                    continue
                feature = dataset[dataset.get_document_segments(example_id)[step]]
                for name in ("input_ids", "attention_mask", "token_type_ids", "offset_mapping"):
                    assert (batch[name][row] == feature[name]).all(), name
                for name in ("start_positions", "end_positions", "cls_index", "question", "segment_index"):
                    assert batch[name][row] == feature[name], name
        seen += ids
    assert seen == dataset.get_all_documents()


def order_of(loader: Any) -> list[str]:
    return [example_id for steps in loader for example_id in steps[0]["example_ids"]]


def test_the_order_follows_from_seed_and_epoch_and_not_from_workers(dataset) -> None:
    loader = loader_of(dataset, shuffle=True, epoch_seed=3)
    first, second = order_of(loader), order_of(loader)
    assert sorted(first) == sorted(second) == sorted(dataset.get_all_documents())
    assert first != second
    again = loader_of(dataset, shuffle=True, epoch_seed=3, num_workers=2)
    assert [order_of(again), order_of(again)] == [first, second]
    again.set_epoch(1)
    assert order_of(again) == second
    assert order_of(loader_of(dataset, shuffle=True, epoch_seed=4)) != first


def test_plain_batches_have_all_features(dataset) -> None:
    loader = loader_of(dataset, use_time_step_major=False, batch_size=10)
    batches = list(loader)
    assert len(batches) == len(loader) == -(-len(dataset) // 10)
    assert np.concatenate([batch["input_ids"] for batch in batches]).tolist() == [
        feature["input_ids"].tolist() for feature in dataset
    ]
    assert all(batch["document_mask"].all() for batch in batches)


@pytest.mark.parametrize("strategy", ["answer_centered", "random_continuous", "first_n"])
def test_chosen_segments_follow_each_other_and_are_as_many_as_asked(dataset, strategy) -> None:
    loader = loader_of(dataset, max_segments=2, segment_selection_strategy=strategy)
    beginnings = set()
    for steps in loader:
        assert len(steps) <= 2
        for row, example_id in enumerate(steps[0]["example_ids"]):
            total = len(dataset.get_document_segments(example_id))
            taken = [batch["segment_index"][row] for batch in steps if batch["document_mask"][row]]
            assert taken == list(range(taken[0], taken[0] + min(2, total)))
            beginnings.add(taken[0])
            answered = [feature["has_answer"] for feature in dataset.document(dataset.find(example_id))]
            if strategy == "answer_centered" and any(answered):
                assert any(answered[segment] for segment in taken)
            if strategy == "first_n" or (not any(answered) and strategy == "answer_centered"):
                assert taken[0] == 0
    assert (len(beginnings) > 1) == (strategy != "first_n")


def test_what_is_drawn_depends_on_the_document_and_not_on_its_neighbours() -> None:
    counts = np.full(50, 9)
    options: dict[str, Any] = {"answered": lambda place: [], "key": (5, 1)}
    alone = [
        choose_begins("random_continuous", counts[:1], 2, documents=np.array([number]), **options)[0]
        for number in range(50)
    ]
    together = choose_begins("random_continuous", counts, 2, documents=np.arange(50), **options)
    assert together.tolist() == alone
    assert set(together.tolist()) == set(range(8))


def test_torch_gets_tensors_that_its_losses_take(dataset) -> None:
    torch = pytest.importorskip("torch")
    steps = next(iter(create_dataloader(dataset, batch_size=3)))
    batch = steps[0]
    assert batch["input_ids"].shape == (3, 48)
    assert batch["start_positions"].dtype == torch.int64
    assert batch["document_mask"].dtype == torch.bool
    scores = torch.zeros(3, 48)
    assert torch.nn.functional.cross_entropy(scores, batch["start_positions"]).item() > 0


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"max_segments": 0},
        {"num_workers": -1},
        {"segment_selection_strategy": "best"},
        {"framework": "tensorflow"},
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(dataset, options) -> None:
    name, value = next(iter(options.items()))
    with pytest.raises(ConfigError) as refused:
        loader_of(dataset, **options)
    assert f"`{name}` is `{value}`" in refused.value.message
