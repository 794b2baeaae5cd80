"""Hundreds of hostile inputs for every verb.

`make test` tries the same sixty or so each time, `make soak` and `make fuzz` all of them.
"""

from __future__ import annotations

import pytest
from hostile import Case, assault, unique
from hostile_cases import CASES, LONG_CASES


def parameter(case: Case, *, long: bool):
    marks = [pytest.mark.soak] if long or not case.usual else []
    if case.left is not None:
        marks.append(pytest.mark.xfail(strict=True, reason=case.left))
    return pytest.param(case, id=case.name, marks=marks)


USUAL = [parameter(case, long=False) for case in unique(CASES)]
LONG = [parameter(case, long=True) for case in unique(LONG_CASES)]


@pytest.mark.parametrize("case", USUAL + LONG)
def test_a_hostile_input_is_prepared_or_refused_and_nothing_else_happens(case, tmp_path, fresh_krill):
    assault(case, tmp_path, fresh_krill if case.fresh else None)
