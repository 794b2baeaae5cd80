"""The learning rate over a run."""

from __future__ import annotations

import pytest

from krill.errors import ConfigError
from krill.training.optimizers import cosine, wsd

pytestmark = pytest.mark.jax


def test_cosine_rises_to_its_peak_and_falls_to_a_tenth():
    rate = cosine(2e-3, 100, warmup=9)
    values = [float(rate(step)) for step in (0, 4, 9, 50, 54, 100, 500)]
    assert values[0] == pytest.approx(2e-4)
    assert values[1] == pytest.approx(1e-3)
    assert values[2] == pytest.approx(2e-3)
    assert values[3] > values[4] > values[5]
    assert values[5] == pytest.approx(2e-4)
    assert values[6] == pytest.approx(2e-4)
    middle = 9 + (100 - 9) / 2
    assert float(rate(middle)) == pytest.approx(1.1e-3, rel=1e-5)


def test_wsd_stays_at_its_peak_until_the_last_fall():
    rate = wsd(1.0, 100, warmup=4, decay=20)
    assert [float(rate(step)) for step in (0, 4, 50, 80)] == pytest.approx([0.2, 1.0, 1.0, 1.0])
    assert [float(rate(step)) for step in (85, 90, 100, 120)] == pytest.approx([0.75, 0.5, 0.0, 0.0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: cosine(1.0, 10, warmup=10), "a warm-up of `10` steps doesn't fit into a run of `10`"),
        (lambda: wsd(1.0, 10, warmup=4, decay=7), "a fall of `7` steps after `4` of warm-up"),
    ],
)
def test_phases_longer_than_the_run_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()
