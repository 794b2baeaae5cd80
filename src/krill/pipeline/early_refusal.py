"""A budget that is too small for any input is refused before a model or a document is read.

In: what a command needs, as a function of what is known of the input. Out: nothing, or a BudgetError whose
figures hold for this input: what it says would do has to do. Held in memory: the list of files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from krill.budget import Meter, Need
from krill.config import KrillConfig
from krill.errors import BudgetError, KrillError
from krill.pipeline.input import open_input
from krill.pipeline.needs import InputSizes, sizes_of


def refuse_early(
    config: KrillConfig, meter: Meter, needs: Callable[[InputSizes | None], Sequence[Need]]
) -> None:
    """Plan without the input; if that is refused, look at the files, and refuse with what they need as well.

    From here on the budget is guarded: the list of the files alone may be too large for it.
    """
    try:
        meter.plan(needs(None))
    except BudgetError as refusal:
        least = (refusal.hint or "").replace("would do", "is the least for any input", 1)
        meter.guard(BudgetError(refusal.message, hint=least))
        try:
            sizes = sizes_of(open_input(config))
        except KrillError:
            raise refusal from None
        meter.plan(needs(sizes))
        raise


def writes_parquet(config: KrillConfig) -> bool:
    """Whether a run loads what writes Parquet, which counts from its beginning."""
    return config.preprocess.output != "tokens" or config.preprocess.rejected
