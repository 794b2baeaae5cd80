"""All targets, by name."""

from __future__ import annotations

from chat_targets import CHAT_TARGETS
from corpus_targets import CORPUS_TARGETS
from dataset_targets import DATASET_TARGETS
from fuzzing import Target
from model_targets import MODEL_TARGETS
from qa_targets import QA_TARGETS
from web_targets import WEB_TARGETS

TARGETS: dict[str, Target] = {
    target.name: target
    for target in [
        *CHAT_TARGETS,
        *CORPUS_TARGETS,
        *DATASET_TARGETS,
        *MODEL_TARGETS,
        *QA_TARGETS,
        *WEB_TARGETS,
    ]
}
