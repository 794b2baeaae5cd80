"""Readers of long documents, trained and scored: the recurrent model of `krill.model.recurrent` on features.

In: a cache of features that `krill qa prepare` made, the tokenizer that made it, and a budget. Out: a folder
with the model, its metrics and its checkpoints; or the scores of a model and its predictions. Held in memory:
the weights and the optimizer, one segment's activations of some documents, and the columns of two batches.

The loop, the checkpoints and the folder are those of `krill.training`. Everything but the settings is JAX,
from the extra `train`.
"""

from typing import TYPE_CHECKING

from krill.lazy import lazy_names

if TYPE_CHECKING:
    from krill.training.job import ReaderSummary as ReaderSummary
    from krill.training.job import train_reader as train_reader
    from krill.training.qa.evaluate import ReaderReport as ReaderReport
    from krill.training.qa.evaluate import evaluate_reader as evaluate_reader
    from krill.training.qa.settings import ReaderSettings as ReaderSettings

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "krill.training.job": ("ReaderSummary", "train_reader"),
        "krill.training.qa.evaluate": ("ReaderReport", "evaluate_reader"),
        "krill.training.qa.settings": ("ReaderSettings",),
    },
)
