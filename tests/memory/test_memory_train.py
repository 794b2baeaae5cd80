"""A training process never holds more than its plan said before the first step, nor much less."""

from __future__ import annotations

import pytest

from train_memory import Setting, run_setting

MB = 10**6
COMPILING = Setting(300_000, 256, 64, 8, 400, steps=2)
WHOLE_STEP = Setting(1_400_000, 10_000, 128, 32, 1000, steps=2)
CUT_STEP = Setting(1_400_000, 10_000, 128, 16, 450, optimizer="adamw8bit", precision="bf16", steps=2)


@pytest.mark.usefixtures("jax_as_installed")
@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(COMPILING, id="compiling is the fullest moment", marks=pytest.mark.soak),
        pytest.param(WHOLE_STEP, id="the step is, all at once", marks=pytest.mark.soak),
        pytest.param(CUT_STEP, id="the step is, cut to the budget"),
    ],
)
def test_the_peak_is_what_the_plan_said_and_inside_the_budget(setting):
    plan, peak = run_setting(setting)
    assert 0.7 * plan["predicted"] <= peak <= plan["predicted"] <= setting.budget * MB
    assert (plan["microbatch"] < setting.rows) == (setting.budget == 450)
    assert plan["lean"] == (setting.budget < 1000)
