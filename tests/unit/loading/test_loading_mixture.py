"""Mixtures: the stated shares in every stretch, computed, with a stated end."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loading_samples import SampleRows, write_rows

from krill.dataset import Layout, SourceRows
from krill.errors import ConfigError
from krill.loading import load, mix
from krill.loading.mixture import WHOLE, Mixed, Schedule, WeightedRows, row_shares
from krill.loading.order import InOrder, Shuffled
from oracles.loading import reference_schedule

RULES = ["stop", "repeat", "drop"]


def parts_of(
    rows: list[int], weights: list[float], width: int = 10, window: int | None = None
) -> list[WeightedRows]:
    firsts = np.cumsum([0, *rows])
    return [
        WeightedRows(
            int(first), count, count * width, weight, Shuffled(count, 3, window) if window else InOrder(count)
        )
        for first, count, weight in zip(firsts, rows, weights, strict=False)
    ]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_the_schedule_is_the_reference_s(weights):
    shares = row_shares(parts_of([5] * len(weights), [float(weight) for weight in weights]))
    assert sum(shares) == WHOLE
    schedule = Schedule(shares)
    expected = reference_schedule(shares, WHOLE, 200)
    assert schedule.sources(0, 200).tolist() == expected
    assert schedule.sources(77, 130).tolist() == expected[77:130]
    for samples in (0, 1, 50, 199):
        counted = Counter(expected[:samples])
        assert schedule.counts(samples) == [counted[source] for source in range(len(shares))]


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(0, 10**6))
def test_every_stretch_has_the_stated_shares_give_or_take_a_row_for_each_source(weights, start):
    schedule = Schedule(row_shares(parts_of([5] * len(weights), [float(weight) for weight in weights])))
    found = Counter(schedule.sources(start, start + 100).tolist())
    for source, weight in enumerate(weights):
        assert abs(found[source] - 100 * weight / sum(weights)) <= len(weights)


def test_weights_are_shares_of_tokens_not_of_rows():
    """Rows of the second source have a third of the tokens: it gives three times the rows for its weight."""
    parts = [WeightedRows(0, 100, 3000, 1.0, InOrder(100)), WeightedRows(100, 100, 1000, 1.0, InOrder(100))]
    assert row_shares(parts) == (WHOLE // 4, 3 * WHOLE // 4)


def test_stop_ends_before_a_source_would_repeat():
    order = Mixed(parts_of([10, 100], [1.0, 1.0]), "stop")
    rows = order.rows((0,), 0, order.samples).tolist()
    assert len(rows) == len(set(rows)) == order.samples
    assert 19 <= order.samples <= 21
    assert sum(row < 10 for row in rows) == 10


def test_repeat_goes_on_until_every_source_was_read_and_shuffles_each_pass_anew():
    order = Mixed(parts_of([10, 100], [1.0, 1.0], window=50), "repeat")
    rows = order.rows((0, 0), 0, order.samples).tolist()
    assert 199 <= order.samples <= 201
    assert {row for row in rows if row >= 10} == set(range(10, 110))
    small = [row for row in rows if row < 10]
    passes = [small[at : at + 10] for at in range(0, 90, 10)]
    assert all(sorted(one) == list(range(10)) for one in passes)
    assert all(before != after for before, after in pairwise(passes))


def test_drop_reads_every_row_once_and_keeps_the_proportions_of_the_rest():
    order = Mixed(parts_of([10, 40, 90], [1.0, 1.0, 2.0], window=50), "drop")
    rows = order.rows((0, 0), 0, order.samples).tolist()
    assert sorted(rows) == list(range(140))
    sources = np.searchsorted([10, 50], rows, side="right")
    assert Counter(sources[:40].tolist()) == {0: 10, 1: 10, 2: 20}
    assert abs(Counter(sources[40:100].tolist())[1] - 20) <= 2


@pytest.mark.parametrize("rule", RULES)
@given(st.data())
def test_any_stretch_is_the_same_as_in_the_whole(rule, data):
    sizes = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=4))
    weights = [float(data.draw(st.integers(1, 5))) for _ in sizes]
    order = Mixed(parts_of(sizes, weights, window=4), rule)
    whole = order.rows((1, 2), 0, order.samples).tolist()
    start = data.draw(st.integers(0, order.samples))
    stop = data.draw(st.integers(start, order.samples))
    assert order.rows((1, 2), start, stop).tolist() == whole[start:stop]
    assert all(0 <= row < sum(sizes) for row in whole)


def test_sources_without_rows_are_left_out():
    order = Mixed(parts_of([0, 8], [5.0, 1.0]), "drop")
    assert sorted(order.rows((0,), 0, 8).tolist()) == list(range(8))


def test_another_rule_is_refused():
    with pytest.raises(ConfigError, match="`on_exhausted` is `wrap`"):
        Mixed(parts_of([1], [1.0]), "wrap")


def test_a_dataset_of_weighted_sources_is_mixed_by_its_weights(tmp_path):
    rows = SampleRows(Layout(6, "uint16", 4), 60)
    sources = (SourceRows(0, 3.0, 0, 40, 240), SourceRows(1, 1.0, 40, 20, 120))
    dataset = load(write_rows(tmp_path, rows, 20, sources))
    loader = dataset.loader(batch_size=8)
    numbers = {tuple(rows.tokens(row)): row for row in range(60)}
    batches = [[numbers[tuple(row)] for row in batch["input_ids"].tolist()] for batch in loader]
    assert [sum(row < 40 for row in batch) for batch in batches] == [6] * 6
    assert loader.state_dict()["mixture"] == {
        "shares": [3 * WHOLE // 4, WHOLE // 4],
        "on_exhausted": "stop",
    }


@pytest.mark.parametrize("rule", RULES)
def test_mixed_datasets_resume_exactly_at_every_step(tmp_path, rule):
    first = load(write_rows(tmp_path / "a", SampleRows(Layout(6, "uint16", 4), 11, seed=1), 5))
    second = load(write_rows(tmp_path / "b", SampleRows(Layout(8, "uint32", 4, fixed=False), 30, seed=2), 20))
    both = mix([first, second], [1, 2])
    assert len(both) == 41
    assert both[5]["input_ids"].tolist() == first[5]["input_ids"].tolist()
    assert both[12]["input_ids"].tolist() == second[1]["input_ids"].tolist()

    def loader(**options):
        return both.loader(shuffle=True, seed=4, on_exhausted=rule, **options)

    saved = loader(batch_size=4)
    states, batches = [saved.state_dict()], []
    for batch in saved:
        assert batch["input_ids"].shape == (4, 8)
        batches.append(batch["input_ids"].tolist())
        states.append(saved.state_dict())
    for step, state in enumerate(states):
        parts = [loader(batch_size=2, rank=rank, world=2) for rank in range(2)]
        for part in parts:
            part.load_state_dict(state)
        found = [
            [row for half in halves for row in half["input_ids"].tolist()]
            for halves in zip(*parts, strict=True)
        ]
        assert found == batches[step:]


def test_a_mixture_s_state_is_refused_by_another_mixture(tmp_path):
    first = load(write_rows(tmp_path / "a", SampleRows(Layout(6, "uint16", 4), 20, seed=1), 5))
    second = load(write_rows(tmp_path / "b", SampleRows(Layout(6, "uint16", 4), 20, seed=2), 5))
    state = mix([first, second], [1, 2]).loader(batch_size=2).state_dict()
    with pytest.raises(ConfigError, match="`mixture` is"):
        mix([first, second], [1, 3]).loader(batch_size=2).load_state_dict(state)


@pytest.mark.parametrize("weights", [[1], [0, 0], [1, -1], [1, float("nan")]])
def test_weights_that_make_no_sense_are_refused(tmp_path, weights):
    dataset = load(write_rows(tmp_path, SampleRows(Layout(6, "uint16", 4), 4), 4))
    with pytest.raises(ConfigError, match="weights"):
        mix([dataset, dataset], weights)
