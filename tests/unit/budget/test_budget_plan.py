from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.budget import RESERVE, Kind, Need, make_plan, resolve_limit
from krill.errors import BudgetError, ConfigError

MB = 10**6


def test_a_share_is_the_minimum_and_what_is_left_over():
    plan = make_plan(200 * MB, 80 * MB, [Need("a", 10 * MB, useful=50 * MB), Need("b", 20 * MB)])
    assert plan.share("a") == 50 * MB
    assert plan.share("b") == 20 * MB
    assert plan.predicted_peak == 150 * MB


def test_parts_of_different_stages_each_have_the_spare_bytes():
    needs = [
        Need("scan", 10 * MB, useful=100 * MB, during="scan"),
        Need("encode", 10 * MB, useful=100 * MB, during="encode"),
    ]
    plan = make_plan(150 * MB, 80 * MB, needs, reserve=RESERVE)
    assert plan.share("scan") == plan.share("encode") == 70 * MB - RESERVE
    assert plan.worst_peak == 150 * MB - RESERVE


def test_the_prediction_is_what_this_input_will_touch_not_what_is_allowed():
    plan = make_plan(500 * MB, 80 * MB, [Need("table", 10 * MB, useful=300 * MB, expected=20 * MB)])
    assert plan.share("table") == 300 * MB
    assert plan.predicted_peak == 100 * MB


@pytest.mark.parametrize(("limit", "parts"), [(100, 1), (130, 2), (500, 3)])
def test_what_is_expected_may_depend_on_the_share(limit: int, parts: int) -> None:
    """Such as of files being written at once: of a small share, one is."""
    small = Need("files", 20 * MB, useful=60 * MB, expected=lambda share: share // (20 * MB) * 5 * MB)
    plan = make_plan(limit * MB, 80 * MB, [small])
    assert plan.predicted_peak == (80 + 5 * parts) * MB
    assert plan.expecting([replace(small, expected=lambda share: share // 2)]).predicted_peak == (
        80 * MB + plan.share("files") // 2
    )


def test_a_share_is_no_larger_than_is_useful_for_this_input_once_that_is_known() -> None:
    blocks = Need("blocks", 10 * MB, useful=90 * MB, expected=5 * MB)
    plan = make_plan(500 * MB, 80 * MB, [blocks, Need("table", 10 * MB, useful=50 * MB)])
    known = plan.expecting([replace(blocks, useful=30 * MB)])
    assert (known.share("blocks"), known.share("table")) == (30 * MB, 50 * MB)
    assert known.expecting([blocks]).share("blocks") == 30 * MB
    assert plan.expecting([replace(blocks, useful=0)]).share("blocks") == 90 * MB
    assert plan.expecting([replace(blocks, useful=MB)]).share("blocks") == 10 * MB


def test_too_small_a_budget_is_refused_with_needed_given_and_remedy():
    needs = [
        Need("blocks", 30 * MB, remedy="set unit_bytes lower"),
        Need("tokenizer", 20 * MB, Kind.WATCHED),
    ]
    with pytest.raises(BudgetError) as caught:
        make_plan(100 * MB, 80 * MB, needs, reserve=RESERVE)
    assert caught.value.exit_code == 4
    assert "needs 134 MB, given 100 MB" in caught.value.message
    assert caught.value.hint == "--memory 140MB would do; or set unit_bytes lower"
    assert make_plan(134 * MB, 80 * MB, needs, reserve=RESERVE).worst_peak == 130 * MB


@given(
    limit=st.integers(1, 1000),
    base=st.integers(0, 300),
    needs=st.lists(
        st.tuples(st.integers(0, 200), st.integers(0, 900), st.sampled_from(["always", "scan", "encode"])),
        max_size=6,
    ),
)
def test_a_plan_never_promises_more_than_the_limit(limit, base, needs):
    made = [
        Need(str(number), minimum, useful=useful, during=during)
        for number, (minimum, useful, during) in enumerate(needs)
    ]
    try:
        plan = make_plan(RESERVE + limit, base, made, reserve=RESERVE)
    except BudgetError:
        return
    assert plan.predicted_peak <= plan.worst_peak <= limit
    assert all(plan.share(need.name) >= need.minimum for need in made)


def test_auto_is_half_of_what_the_process_may_use(monkeypatch):
    monkeypatch.setattr("krill.budget.plan.available_bytes", lambda: 8 * 10**9)
    assert resolve_limit("auto") == resolve_limit(" AUTO ") == 4 * 10**9


def test_a_budget_of_nothing_and_a_budget_of_nonsense_are_errors():
    with pytest.raises(BudgetError):
        resolve_limit("0MB")
    with pytest.raises(ConfigError):
        resolve_limit("much")


def test_the_plan_goes_into_the_manifest():
    block = make_plan(200 * MB, 80 * MB, [Need("a", 10 * MB, Kind.WATCHED, during="scan")]).to_json()
    assert block == {
        "limit": 200 * MB,
        "base": 80 * MB,
        "predicted_peak": 90 * MB,
        "least": 90 * MB,
        "shares": [{"name": "a", "bytes": 10 * MB, "expected": 10 * MB, "kind": "watched", "during": "scan"}],
    }
